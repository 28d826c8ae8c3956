//! What others write: read and taken. Nobody can tell that there is something, so the table is
//! looked at: often while letters come, seldom while none do.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hence_core::id::LetterId;
use hence_core::time::Timestamp;
use hence_store::{Letter, StoreError};

use super::session::{Session, column};
use super::shared::{Shared, Tables};
use super::text::Packets;
use crate::draft::Draft;
use crate::limits::ACKNOWLEDGED_DAYS;

/// Between two looks: at first after a letter came, and at most.
const LOOK_AFTER_MIN: Duration = Duration::from_millis(20);
const LOOK_AFTER_MAX: Duration = Duration::from_millis(250);

const WHAT: &str = "read letters";

/// Letters looked at to tell whether there is a new one. More are worth a round anyway.
const LOOKED_AT_MAX: usize = 1_000;

/// Letters that were read. Numbers do not tell what is new: a transaction that wrote the smaller
/// one may be committed later.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<BTreeSet<LetterId>>);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<LetterId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one of these was never read. Forgets those that are gone.
    fn misses_one(&self, there: &BTreeSet<LetterId>) -> bool {
        let mut seen = self.lock();
        seen.retain(|id| there.contains(id));
        there.len() > LOOKED_AT_MAX || there.iter().any(|id| !seen.contains(id))
    }
}

/// The letters after this one.
pub(super) async fn read(
    shared: &Shared,
    seen: &Seen,
    after: LetterId,
    limit: usize,
) -> Result<Vec<Letter>, StoreError> {
    let head = "SELECT id, CAST(UNIX_TIMESTAMP(written_at) * 1000 AS SIGNED), body FROM @inbox";
    let mut sql = shared.tables.text(head);
    sql.raw(" WHERE id > ").number(i64::try_from(after.0).unwrap_or(i64::MAX));
    sql.raw(" ORDER BY id LIMIT ").number(i64::try_from(limit).unwrap_or(i64::MAX));
    let mut reader = shared.pool.get().await?;
    let rows = reader.ask(WHAT, &sql).await?.into_iter().flatten();
    reader.give_back();
    let mut letters = Vec::new();
    for mut row in rows {
        let id = LetterId(column(WHAT, &mut row, 0)?);
        let at = Timestamp::from_millis(column(WHAT, &mut row, 1)?);
        let body: Vec<u8> = column(WHAT, &mut row, 2)?;
        seen.lock().insert(id);
        letters.push(Letter { id, at, body: Bytes::from(body) });
    }
    Ok(letters)
}

/// Adds the statements that take what the draft takes.
pub(super) fn take(packets: &mut Packets, tables: &Tables, draft: &Draft) {
    if draft.letters.is_empty() {
        return;
    }
    for (id, refused) in &draft.letters {
        let Some(reason) = refused else { continue };
        let mut sql = tables.text("INSERT INTO @inbox_refused (id, written_at, reason, body)");
        sql.raw(" SELECT id, written_at, ").text(reason).raw(", body FROM ");
        sql.raw(&tables.named("@inbox WHERE id = ")).number(id.0 as i64);
        packets.add(&sql);
    }
    let mut sql = tables.text("DELETE FROM @inbox WHERE id IN (");
    sql.list(&draft.letters, |sql, (id, _)| {
        sql.number(id.0 as i64);
    });
    packets.add(sql.raw(")"));
}

/// Forgets acknowledgements that nobody can repeat any more.
pub(super) async fn forget(shared: &Shared, session: &mut Session) -> Result<(), StoreError> {
    let sql = format!(
        "DELETE FROM @acknowledged WHERE acknowledged_at < \
         TIMESTAMPADD(DAY, -{ACKNOWLEDGED_DAYS}, NOW(3))"
    );
    session.run("forget letters", &shared.tables.text(&sql)).await
}

/// Ends when there is a letter that was not read yet.
pub(super) async fn wait(shared: Arc<Shared>, seen: Arc<Seen>) -> Result<(), StoreError> {
    let mut pause = LOOK_AFTER_MIN;
    while !seen.misses_one(&there(&shared).await?) {
        // The timer is the point: there is nothing to wait for.
        let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
        pause = (2 * pause).min(LOOK_AFTER_MAX);
    }
    Ok(())
}

async fn there(shared: &Shared) -> Result<BTreeSet<LetterId>, StoreError> {
    let mut sql = shared.tables.text("SELECT id FROM @inbox ORDER BY id LIMIT ");
    sql.number(LOOKED_AT_MAX as i64 + 1);
    let mut reader = shared.pool.get().await?;
    let rows = reader.ask(WHAT, &sql).await?.into_iter().flatten();
    reader.give_back();
    rows.map(|mut row| Ok(LetterId(column(WHAT, &mut row, 0)?))).collect()
}
