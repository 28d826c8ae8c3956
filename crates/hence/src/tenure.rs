//! Keeps the shard while this node lives, and waits for it while another one does.
//!
//! On a store that several nodes can open, an owner renews its tenure by the store's clock. Another
//! node that wants the shard stands by until that ends: as soon as the owner has given up, or has
//! not been heard of for [`TENURE`]. That nobody can write who lost its shard is not this file's
//! work: every commit is fenced.

use std::sync::Arc;
use std::time::Duration;

use hence_core::id::{Epoch, ShardId};
use hence_core::time::Millis;
use hence_store::{ErrorKind, Store, StoreError};

use crate::builder::OnFatal;
use crate::clock::rest;
use crate::commit::Over;
use crate::observe::{Event, Observers};

/// How long a node keeps its shard without being heard of: a few lost renewals, not an outage.
pub(crate) const TENURE: Millis = Millis::from_secs(3);

/// Between two renewals, and between two looks at a shard that another node has.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// Takes the shard, when it can be had. Whoever stands by already also waits for a store that is
/// away for a while: it may be what the owner waits for, too.
pub(crate) async fn acquire(
    store: &dyn Store,
    shard: ShardId,
    node: &str,
    observers: &Observers,
) -> Result<Epoch, StoreError> {
    let mut stands_by = false;
    loop {
        let error = match store.acquire(shard, node.to_owned()).await {
            Ok(epoch) => {
                if stands_by {
                    observers.see(Event::StandingBy(None));
                }
                return Ok(epoch);
            }
            Err(error) => error,
        };
        if error.kind() == ErrorKind::Locked && !stands_by {
            observers.see(Event::StandingBy(Some(&error)));
            stands_by = true;
        } else if stands_by && error.is_retryable() {
            tracing::warn!(%error, "cannot ask for the shard");
        } else if error.kind() != ErrorKind::Locked {
            return Err(error);
        }
        rest(RENEW_EVERY).await;
    }
}

/// Keeps it until it is over, or lost.
pub(crate) async fn keep(
    store: Arc<dyn Store>,
    shard: ShardId,
    epoch: Epoch,
    over: Over,
    on_fatal: OnFatal,
) {
    while !over.is_set() {
        match store.renew(shard, epoch, TENURE).await {
            Ok(None) => return,
            Ok(Some(_)) => {}
            Err(error) if error.is_retryable() => {
                tracing::warn!(%error, "cannot renew the tenure of this node");
            }
            Err(error) => {
                if over.set() {
                    on_fatal(&error);
                }
                return;
            }
        }
        rest(RENEW_EVERY).await;
    }
}
