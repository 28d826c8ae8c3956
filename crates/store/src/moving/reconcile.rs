//! What a move that broke off has left in the new store: what is still true is in step, the rest is
//! removed.

use std::sync::Arc;

use hence_core::change::FinishedPlace;
use hence_core::job::{Finish, Outcome};
use hence_core::time::Timestamp;

use super::copy::{attempts, everything, number};
use super::{Moved, Moving, ShardMove};
use crate::{Change, Cursor, StoreError, StoredJob};

impl Moving {
    /// Looks through a page of the new store. None: that was the last one.
    pub(super) async fn reconcile(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
        after: Option<Cursor>,
        now: Timestamp,
    ) -> Result<Option<Cursor>, StoreError> {
        if after.is_none() {
            self.remove_schedules(shard, moved).await?;
        }
        let page = self.to.list(shard.id, everything(after, now, self.page)).await?;
        let names = page.jobs.iter().map(|job| job.job().name.clone()).collect();
        let old = self.look_up(shard, names).await?;
        let mut changes = Vec::new();
        for job in &page.jobs {
            let same = old.get(&job.job().name) == Some(job)
                && attempts(&*self.from, shard.id, job).await?
                    == attempts(&*self.to, shard.id, job).await?;
            if same {
                moved.found += u64::from(shard.jobs.insert(number(job)));
            } else {
                changes.push(removal(job, now));
            }
        }
        moved.removed += changes.len() as u64;
        self.put(shard.batch(changes)).await?;
        Ok(page.next)
    }

    /// Schedules are copied again as a whole: they are few, and their ledgers go with them.
    async fn remove_schedules(
        &self,
        shard: &mut ShardMove,
        moved: &mut Moved,
    ) -> Result<(), StoreError> {
        let there = self.to.recover(shard.id).await?.schedules;
        moved.removed += there.len() as u64;
        let removals = there.into_iter().map(|state| state.schedule.id.clone());
        let removals = removals.map(|id| Change::ScheduleRemoved { id }).collect();
        self.put(shard.batch(removals)).await
    }
}

/// The fact after which nothing of the job is kept.
fn removal(stored: &StoredJob, now: Timestamp) -> Change {
    match stored {
        StoredJob::Live(live) => {
            let finish = Finish {
                outcome: Outcome::Cancelled,
                at: now,
                reason: None,
                result: None,
                keep_until: now,
            };
            Change::JobFinished {
                job: Arc::clone(&live.job),
                progress: live.progress,
                finish: Box::new(finish),
                ended: None,
                keep_payload: false,
            }
        }
        StoredJob::Finished(finished) => {
            let (outcome, at) = (finished.finish.outcome, finished.finish.at);
            let place = FinishedPlace { outcome, at, number: finished.job.number };
            Change::JobForgotten { job: Arc::clone(&finished.job), place }
        }
    }
}
