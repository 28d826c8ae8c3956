//! Who owns a shard.

use hence_core::id::{Epoch, ShardId};
use hence_store::{ErrorKind, StoreError};

use super::session::column;
use super::shared::Shared;
use super::text::Text;
use crate::limits::EPOCH_MAX;
use crate::rows::shown;

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
    sql.text(&shown(node)).raw(", acquired_at = NOW(3) WHERE shard = ").number(number);
    sql.raw(&shared.tables.named("; SELECT epoch FROM @shards WHERE shard = ")).number(number);
    sql.raw("; COMMIT");
    let mut reader = shared.pool.get().await?;
    let mut rows = reader.session.ask(WHAT, &sql).await?.into_iter().flatten();
    shared.pool.give_back(reader);
    let unsupported = |message| StoreError::new(ErrorKind::Unsupported, message);
    let mut row = rows.next().ok_or_else(|| unsupported(format!("there is no {shard:?}")))?;
    let epoch: i64 = column(WHAT, &mut row, 0)?;
    let epoch = u32::try_from(epoch).ok().filter(|epoch| *epoch <= EPOCH_MAX);
    let spent = || unsupported(format!("{shard:?} has had all its {EPOCH_MAX} owners"));
    epoch.map(Epoch).ok_or_else(spent)
}

/// Gives a shard up, if it is still held.
pub(super) async fn release(
    shared: &Shared,
    shard: ShardId,
    epoch: Epoch,
) -> Result<(), StoreError> {
    let mut sql = shared.tables.text("UPDATE @shards SET owner = NULL WHERE shard = ");
    sql.number(i64::from(shard.0)).raw(" AND epoch = ").number(i64::from(epoch.0));
    let mut reader = shared.pool.get().await?;
    reader.session.run("release a shard", &sql).await?;
    shared.pool.give_back(reader);
    Ok(())
}
