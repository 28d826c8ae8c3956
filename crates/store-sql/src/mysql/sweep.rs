//! What goes when its time is up.
//!
//! Most finished jobs go with their slot. Dead ones are deleted one by one, because each must be
//! reported exactly once; so are those that were to be kept for very long.

use std::collections::BTreeMap;

use hence_core::id::{QueueName, ShardId};
use hence_core::job::Outcome;
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};
use mysql_async::Row;

use super::session::{Cluster, Session, column};
use super::shared::{Lock, Shared};
use super::text::Text;
use super::turn;

const WHAT: &str = "sweep";

/// Sees the latest of everything, and locks single rows only.
pub(super) const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; ";

pub(super) async fn sweep(
    shared: &Shared,
    shard: ShardId,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<(QueueName, u64)>, StoreError> {
    let mut reader = shared.pool.get().await?;
    let dead = delete(shared, &mut reader, shard, now, limit).await?;
    // What was swept is reported, whatever becomes of this and however long it takes: the next
    // sweep goes on with it.
    let within = shared.connector.patience.call / 2;
    let keeping = turn::keep_up(shared, &mut reader, shard, now);
    match tokio::time::timeout(within, keeping).await {
        Ok(Ok(())) => reader.give_back(),
        Ok(Err(error)) => {
            tracing::warn!(%error, shard = shard.0, "the tables could not be kept up");
        }
        Err(_) => {
            tracing::warn!(shard = shard.0, ?within, "the tables are kept up in several sweeps");
        }
    }
    Ok(dead.into_iter().collect())
}

/// Deletes what is deleted one by one, and counts the dead.
async fn delete(
    shared: &Shared,
    session: &mut Session,
    shard: ShardId,
    now: Timestamp,
    limit: usize,
) -> Result<BTreeMap<QueueName, u64>, StoreError> {
    let mut sql = Text::new(BEGIN);
    // The lock of the shard, so that two sweeps do not report the same job.
    sql.append(&shared.share_sql());
    sql.append(&shared.shard_sql(shard, Lock::Exclusive)).raw("; ");
    sql.raw(&shared.tables.named("SELECT number, queue, outcome FROM @history WHERE slot = 0"));
    sql.raw(" AND shard = ").number(i64::from(shard.0)).raw(" AND keep_until <= ").time(now);
    sql.raw(" ORDER BY keep_until LIMIT ").number(i64::try_from(limit).unwrap_or(i64::MAX));
    let mut sets = session.ask(WHAT, &sql).await?.into_iter().skip(3);
    shared.shard_row(shard, &mut sets)?;
    let rows = sets.next().unwrap_or_default();
    let whole = rows.len() < limit;
    let mut dead = BTreeMap::new();
    let mut numbers = Vec::new();
    for mut row in rows {
        numbers.push(column::<i64>(WHAT, &mut row, 0)?);
        if column::<String>(WHAT, &mut row, 2)? == Outcome::Dead.as_str() {
            *dead.entry(queue(&mut row)?).or_default() += 1;
        }
    }
    let mut sql = Text::default();
    if !numbers.is_empty() {
        for (table, more) in [("history", " AND slot = 0"), ("attempts", "")] {
            sql.raw(&shared.tables.named(&format!("DELETE FROM @{table} WHERE shard = ")));
            sql.number(i64::from(shard.0)).raw(more).raw(" AND number IN (");
            sql.list(&numbers, |sql, number| {
                sql.number(*number);
            });
            sql.raw("); ");
        }
        if session.cluster() == Cluster::Galera {
            sql.append(&shared.mark_sql(shard)).raw("; ");
        }
    }
    session.run(WHAT, sql.raw("COMMIT")).await?;
    if whole {
        shared.sweep_to(shard, now);
    }
    Ok(dead)
}

fn queue(row: &mut Row) -> Result<QueueName, StoreError> {
    let name: String = column(WHAT, row, 1)?;
    QueueName::new(&name).map_err(|_| {
        let message = format!("read history, queue {name:?}: a name that is not allowed");
        StoreError::new(ErrorKind::Corrupt, message)
    })
}
