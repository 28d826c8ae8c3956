//! Who owns a shard.

use hence_core::id::{Epoch, ShardId};
use hence_store::{ErrorKind, StoreError};

use super::error::failed;
use super::shared::Shared;
use crate::limits::EPOCH_MAX;
use crate::rows::shown;

/// Takes a shard over. A commit that is under way ends first; the next one of the former owner is
/// refused.
pub(super) async fn acquire(
    shared: &Shared,
    shard: ShardId,
    node: &str,
) -> Result<Epoch, StoreError> {
    let reader = shared.pool.get().await?;
    let sql = "UPDATE @shards SET epoch = epoch + 1, owner = $2, acquired_at = now() \
               WHERE shard = $1 RETURNING epoch";
    let rows = reader.query(&shared.sql(sql), &[&i32::from(shard.0), &shown(node)]).await;
    let rows = rows.map_err(failed("acquire a shard"))?;
    reader.give_back();
    let unsupported = |message| StoreError::new(ErrorKind::Unsupported, message);
    let row = rows.first().ok_or_else(|| unsupported(format!("there is no {shard:?}")))?;
    let epoch: i64 = row.try_get(0).map_err(failed("acquire a shard"))?;
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
    let reader = shared.pool.get().await?;
    let sql = "UPDATE @shards SET owner = NULL WHERE shard = $1 AND epoch = $2";
    let values: [super::session::Value<'_>; 2] = [&i32::from(shard.0), &i64::from(epoch.0)];
    reader.query(&shared.sql(sql), &values).await.map_err(failed("release a shard"))?;
    reader.give_back();
    Ok(())
}
