//! What others write: read, taken, and heard of.
//!
//! A connection of its own listens. Behind a pooler there is none that stays, so the table is
//! looked at now and then instead.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use hence_core::id::LetterId;
use hence_core::time::Timestamp;
use hence_store::{Letter, StoreError};
use tokio::sync::watch;
use tokio_postgres::AsyncMessage;

use super::bind::Request;
use super::error::failed;
use super::servers::Connected;
use super::session::Session;
use super::shared::Shared;
use super::value::Bound;
use crate::draft::Draft;
use crate::limits::ACKNOWLEDGED_DAYS;

/// How often the table is looked at when nobody can tell.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Before a lost connection is made again.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_secs(1);

const READ: &str = "SELECT id, (extract(epoch FROM written_at) * 1000)::bigint, body
FROM @inbox WHERE id > $1 ORDER BY id LIMIT $2";

const TAKE: &str = "WITH taken AS (
    DELETE FROM @inbox i USING unnest($1::bigint[], $2::text[]) AS t(id, reason)
    WHERE i.id = t.id RETURNING i.id, i.written_at, i.body, t.reason)
INSERT INTO @inbox_refused (id, written_at, reason, body)
SELECT id, written_at, reason, body FROM taken WHERE reason IS NOT NULL";

/// The letters after this one.
pub(super) async fn read(
    shared: &Shared,
    after: LetterId,
    limit: usize,
) -> Result<Vec<Letter>, StoreError> {
    let reader = shared.pool.get().await?;
    let (after, limit) = (after.0 as i64, limit as i64);
    let rows = reader.query(&shared.sql(READ), &[&after, &limit]).await;
    let rows = rows.map_err(failed("read letters"))?;
    let letter = |row: &tokio_postgres::Row| -> Result<Letter, tokio_postgres::Error> {
        let (id, at): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let body: String = row.try_get(2)?;
        let (id, at) = (LetterId(id as u64), Timestamp::from_millis(at));
        Ok(Letter { id, at, body: Bytes::from(body) })
    };
    let letters = rows.iter().map(letter).collect::<Result<_, _>>();
    reader.give_back();
    letters.map_err(failed("read letters"))
}

/// The statement that takes what the draft takes.
pub(super) fn take(draft: &Draft) -> Request<'_> {
    let ids: Vec<i64> = draft.letters.iter().map(|(id, _)| id.0 as i64).collect();
    let reasons: Vec<Option<&str>> =
        draft.letters.iter().map(|(_, refused)| refused.as_deref()).collect();
    Request { sql: TAKE, values: vec![Box::new(ids) as Bound<'_>, Box::new(reasons)] }
}

/// Forgets acknowledgements that nobody can repeat any more.
pub(super) async fn forget(shared: &Shared, session: &Session) -> Result<(), StoreError> {
    let sql = "DELETE FROM @acknowledged WHERE at < now() - $1 * interval '1 day'";
    let days = f64::from(ACKNOWLEDGED_DAYS);
    session.query(&shared.sql(sql), &[&days]).await.map_err(failed("forget letters"))?;
    Ok(())
}

/// Tells of new letters, until the threads of the store end.
pub(super) async fn listen(shared: Arc<Shared>, news: watch::Sender<u64>) {
    loop {
        if let Err(error) = hear(&shared, &news).await {
            tracing::debug!(%error, "cannot hear of letters; connecting again");
        }
        // Something may have been written meanwhile.
        news.send_modify(|heard| *heard += 1);
        let pause = if shared.connector.can_listen() { CONNECT_AGAIN_AFTER } else { LOOK_EVERY };
        // The timer is the point: there is nothing to wait for.
        let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
    }
}

/// Listens until the connection ends. Behind a pooler that is at once.
async fn hear(shared: &Shared, news: &watch::Sender<u64>) -> Result<(), StoreError> {
    if !shared.connector.can_listen() {
        return Ok(());
    }
    let connected = shared.connector.connect_raw().await?;
    let Connected { client, mut connection, timeline } = connected;
    let told = news.clone();
    let listening = tokio::spawn(async move {
        let listened = client.batch_execute("LISTEN hence_letters").await;
        // What was written before is told of now; the connection lives as long as the client.
        told.send_modify(|heard| *heard += 1);
        listened.map(|()| client)
    });
    let schema = shared.sql("@");
    let mut left = pin!(shared.connector.left(timeline));
    loop {
        let message = poll_fn(|context| connection.poll_message(context));
        let Either::Left((message, _)) = select(message, left.as_mut()).await else {
            listening.abort();
            return Ok(());
        };
        match message {
            Some(Ok(AsyncMessage::Notification(heard))) if heard.payload() == schema => {
                news.send_modify(|heard| *heard += 1);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(failed("listen for letters")(error)),
            None => {
                listening.abort();
                return Ok(());
            }
        }
    }
}
