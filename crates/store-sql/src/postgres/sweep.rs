//! What goes when its time is up.
//!
//! Most finished jobs go with their slot. Dead ones are deleted one by one, because each must be
//! reported exactly once; so are those that were to be kept for very long.

use hence_core::id::{QueueName, ShardId};
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};
use tokio_postgres::Row;

use super::error::{Columns, failed};
use super::shared::Shared;
use super::turn;
use super::value::Value;

const SWEEP: &str = "WITH swept AS (
    DELETE FROM @history_0 WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM @history_0 WHERE shard = $1 AND keep_until <= $2
        ORDER BY keep_until LIMIT $3))
    RETURNING queue, outcome, number),
attempted AS (
    DELETE FROM @attempts a USING swept WHERE a.shard = $1 AND a.number = swept.number)
SELECT queue, count(*) FROM swept WHERE outcome = 'dead' GROUP BY queue ORDER BY queue";

pub(super) async fn sweep(
    shared: &Shared,
    shard: ShardId,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(QueueName, u64)>, StoreError> {
    let reader = shared.pool.get().await?;
    // What was swept before counts from here on, whatever the clock said then.
    shared.layout(&reader, shard).await?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values: [Value<'_>; 3] = [&i32::from(shard.0), &now.as_millis(), &limit];
    let rows = reader.query(&shared.sql(SWEEP), &values).await.map_err(failed("sweep"))?;
    shared.sweep_to(shard, now);
    let swept: Result<Vec<_>, _> = rows.iter().map(dead).collect();
    // What was swept is reported, whatever becomes of this and however long it takes: the next
    // sweep goes on with it.
    let within = shared.patience.call / 2;
    match tokio::time::timeout(within, turn::keep_up(shared, &reader, shard, now)).await {
        Ok(Ok(())) => reader.give_back(),
        Ok(Err(error)) => {
            tracing::warn!(%error, shard = shard.0, "the tables could not be kept up");
        }
        Err(_) => {
            tracing::warn!(shard = shard.0, ?within, "the tables are kept up in several sweeps");
        }
    }
    swept
}

fn dead(row: &Row) -> Result<(QueueName, u64), StoreError> {
    let read = || -> Columns<(&str, i64)> { Ok((row.try_get(0)?, row.try_get(1)?)) };
    let (queue, count) = read().map_err(failed("sweep"))?;
    let queue = QueueName::new(queue).map_err(|_| {
        let message = format!("read history, queue {queue:?}: a name that is not allowed");
        StoreError::new(ErrorKind::Corrupt, message)
    })?;
    Ok((queue, count as u64))
}
