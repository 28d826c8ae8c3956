//! What others write: read, taken, and heard of. Nobody tells of a new row here, so the table is
//! looked at now and then, while somebody waits for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hence_core::id::LetterId;
use hence_core::time::Timestamp;
use hence_store::{Letter, StoreError};
use mysql_async::Row;
use tokio::sync::watch;

use super::session::column;
use super::shared::{Shared, Tables};
use super::text::Packets;
use crate::draft::Draft;

const WHAT: &str = "read letters";

/// How often the table is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The letters after this one.
pub(super) async fn read(
    shared: &Shared,
    after: LetterId,
    limit: usize,
) -> Result<Vec<Letter>, StoreError> {
    let mut sql = shared.tables.text(
        "SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', written_at) DIV 1000, body \
         FROM @inbox WHERE id > ",
    );
    sql.number(i64::try_from(after.0).unwrap_or(i64::MAX)).raw(" ORDER BY id LIMIT ");
    sql.number(i64::try_from(limit).unwrap_or(i64::MAX));
    let mut reader = shared.pool.get().await?;
    let rows = reader.session.ask(WHAT, &sql).await?.into_iter().flatten();
    shared.pool.give_back(reader);
    let letter = |mut row: Row| {
        let (id, at): (i64, i64) = (column(WHAT, &mut row, 0)?, column(WHAT, &mut row, 1)?);
        let body: Vec<u8> = column(WHAT, &mut row, 2)?;
        let (id, at) = (LetterId(id as u64), Timestamp::from_millis(at));
        Ok(Letter { id, at, body: Bytes::from(body) })
    };
    rows.map(letter).collect()
}

/// Adds what takes the letters that the draft takes.
pub(super) fn take(packets: &mut Packets, tables: &Tables, draft: &Draft) {
    for (id, refused) in &draft.letters {
        if let Some(reason) = refused {
            let head = "INSERT INTO @inbox_refused (id, written_at, body, reason) \
                        SELECT id, written_at, body, ";
            let mut sql = tables.text(head);
            sql.text(reason).raw(&tables.named(" FROM @inbox WHERE id = "));
            packets.add(sql.number(id.0 as i64));
        }
    }
    if draft.letters.is_empty() {
        return;
    }
    let mut sql = tables.text("DELETE FROM @inbox WHERE id IN (");
    sql.list(&draft.letters, |sql, (id, _)| {
        sql.number(id.0 as i64);
    });
    packets.add(sql.raw(")"));
}

/// Tells of new letters, until the threads of the store end.
pub(super) async fn look(shared: Arc<Shared>, news: watch::Sender<u64>) {
    let mut seen = (0, 0);
    loop {
        // The timer is the point: there is nothing to wait for.
        let _ = tokio::time::timeout(LOOK_EVERY, std::future::pending::<()>()).await;
        if news.receiver_count() == 0 {
            continue;
        }
        match newest(&shared).await {
            Ok(found) if found == seen => {}
            Ok(found) => {
                seen = found;
                news.send_modify(|heard| *heard += 1);
            }
            Err(error) => tracing::debug!(%error, "cannot look for letters; trying again"),
        }
    }
}

/// How many letters there are, and the last: one that was written earlier and committed later
/// changes the number only.
async fn newest(shared: &Shared) -> Result<(i64, i64), StoreError> {
    let sql = shared.tables.text("SELECT COUNT(*), COALESCE(MAX(id), 0) FROM @inbox");
    let mut reader = shared.pool.get().await?;
    let mut rows = reader.session.ask(WHAT, &sql).await?.into_iter().flatten();
    shared.pool.give_back(reader);
    let mut row = rows.next().ok_or_else(|| super::error::unreadable(WHAT))?;
    Ok((column(WHAT, &mut row, 0)?, column(WHAT, &mut row, 1)?))
}
