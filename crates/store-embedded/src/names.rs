//! Where names lead, while facts are being written.
//!
//! A name is overwritten without being read. Only one fact must know where a name leads: when a
//! finished job is forgotten, its name may belong to a newer job. A commit with such a fact
//! remembers the names it wrote itself; all others do not pay for it.

use std::collections::HashMap;

use hence_core::change::{Change, FinishedPlace};
use hence_core::id::{JobName, ShardId};
use hence_store::StoreError;

use crate::draft::Output;
use crate::error::failed;
use crate::kv::Read;
use crate::values::Spot;

#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Present once a fact in this commit may ask.
    written: Option<HashMap<JobName, Option<Spot>>>,
}

impl Names {
    /// These facts will come.
    pub(crate) fn expect(&mut self, changes: &[Change]) {
        let asks = |change: &Change| matches!(change, Change::JobForgotten { .. });
        if self.written.is_none() && changes.iter().any(asks) {
            self.written = Some(HashMap::new());
        }
    }

    /// The name leads there from now on.
    pub(crate) fn lead(
        &mut self,
        shard: ShardId,
        name: &JobName,
        spot: Spot,
        out: &mut Output<'_>,
    ) {
        out.batch.put_with(out.key.name(shard, name), |value| spot.encode(value));
        if let Some(written) = &mut self.written {
            written.insert(name.clone(), Some(spot));
        }
    }

    /// The name leads nowhere from now on.
    pub(crate) fn forget(&mut self, shard: ShardId, name: &JobName, out: &mut Output<'_>) {
        out.batch.delete(out.key.name(shard, name));
        if let Some(written) = &mut self.written {
            written.insert(name.clone(), None);
        }
    }

    /// The same, if it leads to this finished job.
    pub(crate) fn forget_if_at(
        &mut self,
        shard: ShardId,
        name: &JobName,
        place: FinishedPlace,
        out: &mut Output<'_>,
    ) -> Result<(), StoreError> {
        let written = self.written.as_ref().and_then(|written| written.get(name));
        let spot = match written {
            Some(spot) => *spot,
            None => stored(shard, name, out)?,
        };
        if matches!(spot, Some(Spot::Finished { place: at, .. }) if at == place) {
            self.forget(shard, name, out);
        }
        Ok(())
    }
}

fn stored(
    shard: ShardId,
    name: &JobName,
    out: &mut Output<'_>,
) -> Result<Option<Spot>, StoreError> {
    let found = out.kv.get(out.key.name(shard, name)).map_err(failed("look up a name"))?;
    found.map(|value| Spot::decode(&value)).transpose()
}
