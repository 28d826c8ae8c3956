//! Who owns a shard.

use hence_core::id::{Epoch, ShardId};
use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, StoreError};

use super::error::failed;
use super::shared::Shared;
use super::value::Value;
use crate::limits::EPOCH_MAX;
use crate::rows::shown;

/// A shard can be had when nobody owns it, or its owner was not heard of for too long.
const ACQUIRE: &str = "UPDATE @shards s SET epoch = epoch + 1, owner = $2, acquired_at = now()
WHERE shard = $1 AND (owner IS NULL OR NOT EXISTS (
    SELECT FROM @tenures t
    WHERE t.shard = s.shard AND t.epoch = s.epoch AND t.until > clock_timestamp()))
RETURNING epoch";

const OWNER: &str = "SELECT owner, (extract(epoch FROM t.until - clock_timestamp()) * 1000)::bigint
FROM @shards s LEFT JOIN @tenures t USING (shard) WHERE shard = $1";

const RENEW: &str = "WITH held AS (
    SELECT shard FROM @shards WHERE shard = $1 AND epoch = $2 AND owner IS NOT NULL)
INSERT INTO @tenures AS t (shard, epoch, until)
SELECT shard, $2, clock_timestamp() + $3 * interval '1 millisecond' FROM held
ON CONFLICT (shard) DO UPDATE SET epoch = excluded.epoch, until = excluded.until
RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Takes a shard over. A commit that is under way ends first; the next one of the former owner is
/// refused.
pub(super) async fn acquire(
    shared: &Shared,
    shard: ShardId,
    node: &str,
) -> Result<Epoch, StoreError> {
    let reader = shared.pool.get().await?;
    let number = i32::from(shard.0);
    let rows = reader.query(&shared.sql(ACQUIRE), &[&number, &shown(node)]).await;
    let rows = rows.map_err(failed("acquire a shard"))?;
    let Some(row) = rows.first() else {
        let owner = reader.query(&shared.sql(OWNER), &[&number]).await;
        let owner = owner.map_err(failed("acquire a shard"))?;
        reader.give_back();
        return Err(taken(shard, owner.first()));
    };
    let epoch: i64 = row.try_get(0).map_err(failed("acquire a shard"))?;
    reader.give_back();
    let epoch = u32::try_from(epoch).ok().filter(|epoch| *epoch <= EPOCH_MAX);
    let spent = || format!("{shard:?} has had all its {EPOCH_MAX} owners");
    let epoch = epoch.ok_or_else(|| StoreError::new(ErrorKind::Unsupported, spent()))?;
    shared.note_owned(shard, Epoch(epoch));
    Ok(Epoch(epoch))
}

fn taken(shard: ShardId, owner: Option<&tokio_postgres::Row>) -> StoreError {
    let Some(row) = owner else {
        return StoreError::new(ErrorKind::Unsupported, format!("there is no {shard:?}"));
    };
    let node: Option<String> = row.try_get(0).unwrap_or_default();
    let left: Option<i64> = row.try_get(1).unwrap_or_default();
    let (node, left) = (node.unwrap_or_default(), left.unwrap_or_default().max(0));
    let message = format!("{shard:?} belongs to node {node} for another {left} ms at least");
    StoreError::new(ErrorKind::Locked, message)
}

/// Keeps a shard; says what time it is here.
pub(super) async fn renew(
    shared: &Shared,
    shard: ShardId,
    epoch: Epoch,
    tenure: Millis,
) -> Result<Timestamp, StoreError> {
    let reader = shared.pool.get().await?;
    let values: [Value<'_>; 3] = [&i32::from(shard.0), &i64::from(epoch.0), &(tenure.get() as f64)];
    let rows = reader.query(&shared.sql(RENEW), &values).await.map_err(failed("keep a shard"))?;
    reader.give_back();
    let Some(row) = rows.first() else {
        let message = format!("{shard:?} is not owned under {epoch:?} any more");
        return Err(StoreError::new(ErrorKind::Fenced, message));
    };
    row.try_get(0).map(Timestamp::from_millis).map_err(failed("keep a shard"))
}

/// Gives a shard up, if it is still held.
pub(super) async fn release(
    shared: &Shared,
    shard: ShardId,
    epoch: Epoch,
) -> Result<(), StoreError> {
    let reader = shared.pool.get().await?;
    let sql = "UPDATE @shards SET owner = NULL WHERE shard = $1 AND epoch = $2";
    let values: [Value<'_>; 2] = [&i32::from(shard.0), &i64::from(epoch.0)];
    reader.query(&shared.sql(sql), &values).await.map_err(failed("release a shard"))?;
    reader.give_back();
    Ok(())
}
