//! Everything a store holds, as lines.

use std::collections::BTreeMap;
use std::io::Write;

use hence_core::id::{QueueName, ScheduleId, ShardId};
use hence_core::job::JobState;
use hence_core::queue::{Counts, QueueSettings};
use hence_core::time::Timestamp;
use hence_store::{Filter, LedgerOrder, LedgerRequest, ListRequest, Recovered, Store};

use super::job_record::JobRecord;
use super::record::{FORMAT, Header, LedgerRecord, QueueRecord, Record, ScheduleRecord, Tally};
use super::store_failure;
use crate::failure::Failure;
use crate::output::write_failure;

/// Rows read at once: a page, not a store.
const PAGE: usize = 500;

/// Writes all lines, and calls `progress` after each page with the jobs so far.
pub(super) async fn export(
    store: &dyn Store,
    now: Timestamp,
    out: &mut dyn Write,
    progress: &dyn Fn(u64),
) -> Result<Tally, Failure> {
    let mut lines = Lines { out, tally: Tally::default() };
    lines.write(&Record::Header(Header {
        format: FORMAT,
        hence: env!("CARGO_PKG_VERSION").to_owned(),
        exported_at_ms: now.as_millis(),
    }))?;
    let shards = store.capabilities().shards;
    let mut recovered = Vec::new();
    for shard in (0..shards).map(ShardId) {
        recovered.push(store.recover(shard).await.map_err(|error| store_failure(&error, None))?);
    }
    lines.queues(&recovered)?;
    lines.schedules(&recovered)?;
    for (shard, recovered) in (0..shards).map(ShardId).zip(&recovered) {
        for state in &recovered.schedules {
            ledger(store, shard, &state.schedule.id, &mut lines).await?;
        }
    }
    for shard in (0..shards).map(ShardId) {
        jobs(store, shard, now, &mut lines, progress).await?;
    }
    let tally = lines.tally;
    lines.write(&Record::End(tally))?;
    lines.out.flush().map_err(|error| write_failure("writing the export", &error))?;
    Ok(tally)
}

struct Lines<'a> {
    out: &'a mut dyn Write,
    tally: Tally,
}

impl Lines<'_> {
    fn write(&mut self, record: &Record) -> Result<(), Failure> {
        let written = serde_json::to_writer(&mut self.out, record).map_err(std::io::Error::from);
        let written = written.and_then(|()| self.out.write_all(b"\n"));
        written.map_err(|error| write_failure("writing the export", &error))
    }

    /// A queue is one thing to an operator, whatever the number of shards that hold a part of it.
    fn queues(&mut self, recovered: &[Recovered]) -> Result<(), Failure> {
        let mut queues: BTreeMap<QueueName, (Option<QueueSettings>, Counts)> = BTreeMap::new();
        for shard in recovered {
            for (name, settings) in &shard.queues {
                queues.entry(name.clone()).or_default().0 = Some(settings.clone());
            }
            for (name, counts) in &shard.counts {
                add(&mut queues.entry(name.clone()).or_default().1, counts);
            }
        }
        for (name, (settings, counts)) in &queues {
            self.write(&Record::Queue(QueueRecord::new(name, settings.as_ref(), counts)))?;
            self.tally.queues += 1;
        }
        Ok(())
    }

    fn schedules(&mut self, recovered: &[Recovered]) -> Result<(), Failure> {
        for state in recovered.iter().flat_map(|shard| &shard.schedules) {
            self.write(&Record::Schedule(Box::new(ScheduleRecord::new(state))))?;
            self.tally.schedules += 1;
        }
        Ok(())
    }
}

/// What became of the ticks of a schedule, the oldest first.
async fn ledger(
    store: &dyn Store,
    shard: ShardId,
    schedule: &ScheduleId,
    lines: &mut Lines<'_>,
) -> Result<(), Failure> {
    let order = LedgerOrder::Oldest;
    let mut request = LedgerRequest { order, ..LedgerRequest::newest(schedule.clone(), PAGE) };
    loop {
        let page = store.occurrences(shard, request.clone()).await;
        let page = page.map_err(|error| store_failure(&error, None))?;
        for record in &page {
            lines.write(&Record::Occurrence(LedgerRecord::new(record)))?;
            lines.tally.occurrences += 1;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => request.after = Some(last.place()),
            _ => return Ok(()),
        }
    }
}

async fn jobs(
    store: &dyn Store,
    shard: ShardId,
    now: Timestamp,
    lines: &mut Lines<'_>,
    progress: &dyn Fn(u64),
) -> Result<(), Failure> {
    let filter = Filter { states: JobState::ALL.to_vec(), ..Filter::default() };
    let mut after = None;
    loop {
        let request = ListRequest { filter: filter.clone(), after, limit: PAGE, now };
        let page = store.list(shard, request).await.map_err(|error| store_failure(&error, None))?;
        for stored in &page.jobs {
            let job = stored.job();
            let attempts = store.attempts(shard, job.name.clone(), job.number).await;
            let attempts = attempts.map_err(|error| store_failure(&error, None))?;
            lines.write(&Record::Job(Box::new(JobRecord::new(stored, &attempts))))?;
            lines.tally.jobs += 1;
        }
        progress(lines.tally.jobs);
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

fn add(total: &mut Counts, counts: &Counts) {
    total.pending += counts.pending;
    total.running += counts.running;
    total.dead += counts.dead;
    total.submitted += counts.submitted;
    total.delivered += counts.delivered;
    total.succeeded += counts.succeeded;
    total.failed += counts.failed;
    total.died += counts.died;
    total.cancelled += counts.cancelled;
    total.expired += counts.expired;
    total.replaced += counts.replaced;
}
