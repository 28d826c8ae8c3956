//! Who owns a shard, and for how long at least.

use hence_core::id::{Epoch, ShardId};
use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, StoreError};
use mysql_async::Row;

use super::session::column;
use super::shared::Shared;
use super::text::Text;
use crate::limits::EPOCH_MAX;
use crate::rows::shown;

/// What the store's clock showed when the statement began: whoever waited for a lock sees too
/// early a time, which keeps a shard a little longer and never shorter.
const NOW: &str = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)";

/// How often a question is asked.
const TRIES_MAX: usize = 4;

/// Takes a shard over. A commit that is under way ends first; the next one of the former owner is
/// refused.
pub(super) async fn acquire(
    shared: &Shared,
    shard: ShardId,
    node: &str,
) -> Result<Epoch, StoreError> {
    const WHAT: &str = "acquire a shard";
    let number = i64::from(shard.0);
    let mut sql = Text::new("BEGIN; ");
    sql.raw(&shared.tables.named("UPDATE @shards SET epoch = epoch + 1, owner = "));
    sql.text(&shown(node)).raw(", acquired_at = NOW(3), kept_until = 0 WHERE shard = ");
    sql.number(number).raw(" AND kept_until <= ").raw(NOW);
    let answer = "; SELECT ROW_COUNT(), epoch, owner FROM @shards WHERE shard = ";
    sql.raw(&shared.tables.named(answer)).number(number).raw("; COMMIT");
    let mut rows = ask(shared, WHAT, &sql).await?.into_iter().flatten();
    let refused = |kind, message| StoreError::new(kind, message);
    let missing = || refused(ErrorKind::Unsupported, format!("there is no {shard:?}"));
    let mut row = rows.next().ok_or_else(missing)?;
    if column::<i64>(WHAT, &mut row, 0)? == 0 {
        let owner: Option<String> = column(WHAT, &mut row, 2)?;
        let owner = owner.unwrap_or_default();
        return Err(refused(ErrorKind::Locked, format!("{WHAT}: {owner} keeps {shard:?}")));
    }
    let epoch: i64 = column(WHAT, &mut row, 1)?;
    let epoch = u32::try_from(epoch).ok().filter(|epoch| *epoch <= EPOCH_MAX);
    let spent = || {
        let message = format!("{shard:?} has had all its {EPOCH_MAX} owners");
        refused(ErrorKind::Unsupported, message)
    };
    let epoch = epoch.map(Epoch).ok_or_else(spent)?;
    shared.note_owned(shard, epoch);
    Ok(epoch)
}

/// Keeps a shard for a while, and says what time it is.
pub(super) async fn renew(
    shared: &Shared,
    shard: ShardId,
    epoch: Epoch,
    tenure: Millis,
) -> Result<Timestamp, StoreError> {
    const WHAT: &str = "renew a tenure";
    let tenure = i64::try_from(tenure.get()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    let mut sql = Text::new("SET @now = ");
    sql.raw(NOW);
    sql.raw(&shared.tables.named("; UPDATE @shards SET kept_until = "));
    sql.raw("@now + ").number(tenure).raw(" WHERE shard = ").number(i64::from(shard.0));
    sql.raw(" AND epoch = ").number(i64::from(epoch.0)).raw(" AND owner IS NOT NULL; ");
    let held = shared.tables.named("SELECT COUNT(*) FROM @shards WHERE shard = ");
    sql.raw("SELECT @now, (").raw(&held).number(i64::from(shard.0));
    sql.raw(" AND epoch = ").number(i64::from(epoch.0)).raw(" AND owner IS NOT NULL)");
    let mut rows = ask(shared, WHAT, &sql).await?.into_iter().flatten();
    let mut row = rows.next().ok_or_else(|| super::error::unreadable(WHAT))?;
    if column::<i64>(WHAT, &mut row, 1)? == 0 {
        let message = format!("{WHAT}: {shard:?} is not held under {epoch:?} any more");
        return Err(StoreError::new(ErrorKind::Fenced, message));
    }
    Ok(Timestamp::from_millis(column(WHAT, &mut row, 0)?))
}

/// Gives a shard up, if it is still held.
pub(super) async fn release(
    shared: &Shared,
    shard: ShardId,
    epoch: Epoch,
) -> Result<(), StoreError> {
    let head = "UPDATE @shards SET owner = NULL, kept_until = 0 WHERE shard = ";
    let mut sql = shared.tables.text(head);
    sql.number(i64::from(shard.0)).raw(" AND epoch = ").number(i64::from(epoch.0));
    ask(shared, "release a shard", &sql).await.map(drop)
}

/// Asks, and again when the server takes it back: in a cluster, commits on another node get in the
/// way.
async fn ask(shared: &Shared, what: &'static str, sql: &Text) -> Result<Vec<Vec<Row>>, StoreError> {
    let mut tries = 1;
    loop {
        let mut reader = shared.pool.get().await?;
        match reader.ask(what, sql).await {
            // The transaction ends with its connection, which is not given back.
            Err(error) if error.kind() == ErrorKind::Unavailable && tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
            Ok(answer) => {
                reader.give_back();
                return Ok(answer);
            }
        }
    }
}
