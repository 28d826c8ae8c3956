//! The end: everything is healed, everything acknowledged is given time to end, and the node is
//! asked what it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use hence::Client;
use hence_core::id::ScheduleId;
use hence_core::job::{JobState, JobView};
use hence_core::ledger::{Fate, OccurrenceRecord};
use hence_core::limits::PAGE_MAX;
use hence_core::queue::{QueueSettings, QueueView};
use hence_core::time::Timestamp;
use hence_store::{Filter, LedgerOrder, LedgerRequest};

use super::clock::sleep_ms;
use super::producer::QUEUES;
use super::{World, name_text, operator};
use crate::history::{
    Final, FinalAttempt, FinalJob, FinalQueue, FinalSchedule, Stamp, Tick, TickFate, What,
};

/// How long everything may take to come to its end: longer than the clock was set back, together.
const CONVERGE_MS_MAX: u64 = 6 * 3_600_000;

/// Between two looks.
const LOOK_EVERY_MS: u64 = 2_000;

/// Waits until nothing that is due is left, and writes down what there is.
pub(super) async fn run(world: &Arc<World>) -> Result<()> {
    for queue in QUEUES {
        let mut tries = 0;
        while !operator::put_queue(world, queue, QueueSettings::default()).await {
            tries += 1;
            if tries > 1_000 {
                bail!("the healed node does not answer");
            }
            sleep_ms(100).await;
        }
    }
    world.line.show();
    let begun = world.clock.true_ms();
    loop {
        sleep_ms(LOOK_EVERY_MS).await;
        let client = world.node.client().ok_or_else(|| anyhow!("the healed node is down"))?;
        let over_time = world.clock.true_ms() > begun + CONVERGE_MS_MAX;
        let at_rest = live_and_due(&client, world.clock.wall()).await? == 0;
        if !at_rest && !over_time {
            continue;
        }
        // Something may have happened between two of its pages; then it is taken again.
        match (dump(&client).await, dump(&client).await) {
            (Ok(first), Ok(second)) if first == second => {
                world.story.tell("fate", What::Final(first));
                return Ok(());
            }
            (Err(error), _) | (_, Err(error)) if over_time => return Err(error),
            _ => {}
        }
    }
}

async fn live_and_due(client: &Client, wall: i64) -> Result<usize> {
    let until = Some(Timestamp::from_millis(wall));
    let live = list(client, Filter { until, ..Filter::default() }).await?;
    Ok(live.len())
}

async fn list(client: &Client, filter: Filter) -> Result<Vec<JobView>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = client.list(filter.clone(), after, PAGE_MAX).await?;
        all.extend(page.jobs);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

async fn dump(client: &Client) -> Result<Final> {
    let states = JobState::ALL.to_vec();
    let mut views = list(client, Filter { states, ..Filter::default() }).await?;
    forget_the_gone(&mut views);
    let mut jobs = Vec::with_capacity(views.len());
    for view in views {
        jobs.push(final_job(client, &view).await?);
    }
    let queues = client.queues().await?.iter().map(final_queue).collect();
    let mut schedules = Vec::new();
    for state in client.schedules(None, 100).await? {
        let id = state.schedule.id.clone();
        let ticks = occurrences(client, &id).await?;
        let ticks = ticks.iter().map(|record| Tick {
            at: record.last.as_millis(),
            decided_at: record.decided_at.as_millis(),
            fate: match record.fate {
                Fate::Ran(number) | Fate::Late(number, _) | Fate::Backfilled(number) => {
                    TickFate::Ran(number.0)
                }
                Fate::Coalesced | Fate::Skipped(_) => TickFate::Coalesced(record.count),
                Fate::Triggered(number) => TickFate::Triggered(number.0),
            },
        });
        schedules.push(FinalSchedule { id: id.to_string(), occurrences: ticks.collect() });
    }
    Ok(Final { jobs, queues, schedules })
}

/// A finished job whose time was up, and whose name was given to another, shows again when the
/// clock is set back. What there is to ask about that name is about the other.
fn forget_the_gone(views: &mut Vec<JobView>) {
    let mut newest = BTreeMap::new();
    for view in &*views {
        let number = newest.entry(view.job.name.clone()).or_insert(view.job.number);
        *number = view.job.number.max(*number);
    }
    views.retain(|view| view.finish.is_none() || newest[&view.job.name] == view.job.number);
}

/// Every tick of a schedule, in order.
async fn occurrences(client: &Client, id: &ScheduleId) -> Result<Vec<OccurrenceRecord>> {
    let mut all: Vec<OccurrenceRecord> = Vec::new();
    loop {
        let page = client.occurrences(LedgerRequest {
            schedule: id.clone(),
            from: Timestamp::MIN,
            until: Timestamp::MAX,
            after: all.last().map(OccurrenceRecord::place),
            order: LedgerOrder::Oldest,
            limit: PAGE_MAX,
        });
        let page = page.await?;
        let more = page.len() == PAGE_MAX;
        all.extend(page);
        if !more {
            return Ok(all);
        }
    }
}

async fn final_job(client: &Client, view: &JobView) -> Result<FinalJob> {
    let job = &view.job;
    let attempts = client.attempts(job.name.clone()).await?;
    let attempts = attempts.iter().map(|ended| FinalAttempt {
        attempt: ended.attempt,
        token: Stamp(ended.token),
        started_at: ended.started_at.as_millis(),
        ended_at: ended.ended_at.as_millis(),
        end: ended.end.as_str().to_owned(),
    });
    let payload = String::from_utf8_lossy(&job.payload.bytes).into_owned();
    Ok(FinalJob {
        job: name_text(&job.name),
        number: job.number.0,
        queue: job.name.queue.to_string(),
        state: view.state.as_str().to_owned(),
        scheduled_for: job.scheduled_for.as_millis(),
        due_at: view.progress.due_at.as_millis(),
        payload: (!payload.is_empty()).then_some(payload),
        attempts: attempts.collect(),
    })
}

fn final_queue(view: &QueueView) -> FinalQueue {
    let counts = &view.counts;
    FinalQueue {
        queue: view.name.to_string(),
        pending: counts.pending,
        running: counts.running,
        dead: counts.dead,
        submitted: counts.submitted,
        delivered: counts.delivered,
        succeeded: counts.succeeded,
        died: counts.died,
        cancelled: counts.cancelled,
        expired: counts.expired,
        replaced: counts.replaced,
    }
}
