//! What the engine answers without changing anything.
//!
//! A job is read from the store and its lease from memory. Both change in one moment with a
//! commit, and both are read as of one moment, so that nobody sees half of a commit.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bytes::Bytes;
use hence_core::change::Place;
use hence_core::id::{JobName, JobNumber, QueueName, ShardId};
use hence_core::job::{AttemptRecord, Lease};
use hence_core::schedule::{OccurrenceRecord, ScheduleState};
use hence_core::time::Timestamp;
use hence_store::{
    FinishedJob, LedgerOrder, LedgerRequest, LiveJob, Recovered, StoreError, StoredJob, codec,
};

use crate::engine::Engine;
use crate::error::failed;
use crate::keys::{self, KeyBuffer};
use crate::kv::{Direction, Read, Span};
use crate::shard::Shard;
use crate::values::{self, Spot};

/// Jobs read as of one moment. More would be overtaken by a commit more often, read once more, and
/// hold that commit up meanwhile: these take a tenth of a millisecond.
const AT_ONCE_MAX: usize = 128;

impl Engine {
    pub(crate) fn due(
        &self,
        shard: ShardId,
        queue: &QueueName,
        after: Place,
        limit: usize,
    ) -> Result<Vec<LiveJob>, StoreError> {
        let mut found = Vec::new();
        let mut after = after;
        while found.len() < limit {
            let wanted = (limit - found.len()).min(AT_ONCE_MAX);
            let rows = self.due_chunk(shard, queue, after, wanted)?;
            found.extend(rows.jobs);
            let Some(last) = rows.last else { break };
            after = last;
        }
        found.truncate(limit);
        Ok(found)
    }

    pub(crate) fn recover(&self, shard: ShardId) -> Result<Recovered, StoreError> {
        let mut recovered = {
            let state = self.shard(shard)?;
            Recovered {
                next_number: state.next_number,
                counts: state
                    .counts
                    .iter()
                    .map(|(queue, counts)| (queue.clone(), *counts))
                    .collect(),
                ..Recovered::default()
            }
        };
        each_with_prefix(&self.kv, &keys::prefix(keys::SETTINGS, shard), |key, value| {
            recovered.queues.push((queue_in(key)?, codec::decode_queue(&value)?));
            Ok(())
        })?;
        recovered.schedules = self.schedules(shard)?;
        recovered.active = self.active(shard)?;
        Ok(recovered)
    }

    /// Schedules and how far they have come: two records each, in the same order.
    fn schedules(&self, shard: ShardId) -> Result<Vec<ScheduleState>, StoreError> {
        let mut progress = Vec::new();
        let prefix = keys::prefix(keys::SCHEDULE_PROGRESS, shard);
        each_with_prefix(&self.kv, &prefix, |key, value| {
            progress.push((key[keys::HEAD..].to_vec(), codec::decode_schedule_progress(&value)?));
            Ok(())
        })?;
        let mut progress = progress.into_iter();
        let mut states = Vec::new();
        each_with_prefix(&self.kv, &keys::prefix(keys::SCHEDULE, shard), |key, value| {
            let schedule = Arc::new(codec::decode_schedule(&copy(&value))?);
            match progress.next() {
                Some((id, progress)) if id == key[keys::HEAD..] => {
                    states.push(ScheduleState { schedule, progress });
                    Ok(())
                }
                _ => Err(values::malformed("schedule without its progress")),
            }
        })?;
        Ok(states)
    }

    pub(crate) fn get(
        &self,
        shard: ShardId,
        names: &[JobName],
        now: Timestamp,
    ) -> Result<Vec<Option<StoredJob>>, StoreError> {
        let mut found = Vec::with_capacity(names.len());
        for names in names.chunks(AT_ONCE_MAX) {
            found.extend(self.get_some(shard, names, now)?);
        }
        Ok(found)
    }

    pub(crate) fn attempts(
        &self,
        shard: ShardId,
        name: &JobName,
        number: JobNumber,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let swept_until = self.shard(shard)?.swept_until;
        let read = |kv: &dyn Read| read_attempts(kv, shard, name, number, swept_until);
        self.at_once(shard, read, |found, _| found)
    }

    pub(crate) fn occurrences(
        &self,
        shard: ShardId,
        request: &LedgerRequest,
    ) -> Result<Vec<OccurrenceRecord>, StoreError> {
        drop(self.shard(shard)?);
        let (low, high) = request.bounds();
        let mut found = Vec::new();
        if low >= high {
            return Ok(found);
        }
        let key = |place| KeyBuffer::default().occurrence(shard, &request.schedule, place).to_vec();
        let (from, to) = (key(low), key(high));
        let direction = match request.order {
            LedgerOrder::Newest => Direction::Backward,
            LedgerOrder::Oldest => Direction::Forward,
        };
        scan(&self.kv, Span::between(&from, &to), direction, |_, value| {
            if found.len() == request.limit {
                return Ok(ControlFlow::Break(()));
            }
            found.push(codec::decode_occurrence(&value)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Reads, and then looks at the shard, as if both happened in one moment.
    ///
    /// First without holding anybody up: if no commit came in between, it was one moment. The
    /// second time the moment is pinned, which is quick, since what the first reading took from
    /// the disk is still in memory.
    fn at_once<T, U>(
        &self,
        shard: ShardId,
        read: impl Fn(&dyn Read) -> Result<T, StoreError>,
        look: impl FnOnce(T, &Shard) -> U,
    ) -> Result<U, StoreError> {
        let sequence = self.kv.last_sequence();
        let found = read(&self.kv)?;
        {
            let state = self.shard(shard)?;
            if self.kv.last_sequence() == sequence {
                return Ok(look(found, &state));
            }
        }
        let pinned = self.kv.pin();
        let found = read(&pinned)?;
        let state = self.shard(shard)?;
        Ok(look(found, &state))
    }

    fn due_chunk(
        &self,
        shard: ShardId,
        queue: &QueueName,
        after: Place,
        limit: usize,
    ) -> Result<DueRows, StoreError> {
        let (from, searching) = self.begin_due(shard, queue, after)?;
        let read = |kv: &dyn Read| read_due(kv, shard, queue, from, limit);
        let rows = self.at_once(shard, read, |rows, state| {
            let first = rows.first().map_or(Place::LAST, place_of);
            let last = rows.last().map(place_of).filter(|_| rows.len() == limit);
            let waits = |live: &LiveJob| !state.leases.contains_key(&live.job.number);
            (first, DueRows { jobs: rows.into_iter().filter(waits).collect(), last })
        });
        if searching && let Some(front) = self.shard_mut(shard)?.queues.get_mut(queue) {
            front.end(rows.as_ref().ok().map(|(first, _)| *first));
        }
        rows.map(|(_, rows)| rows)
    }

    /// Where to begin, and whether the front of the queue is looked for with this.
    fn begin_due(
        &self,
        shard: ShardId,
        queue: &QueueName,
        after: Place,
    ) -> Result<(Bound<Place>, bool), StoreError> {
        let mut state = self.shard_mut(shard)?;
        let Some(front) = state.queues.get_mut(queue) else {
            return Ok((Bound::Excluded(after), false));
        };
        // No job stands at the very first place, so to begin after it is to begin with the front.
        let searching = (after == Place::FIRST || after < front.place()) && front.begin();
        if after < front.place() {
            return Ok((Bound::Included(front.place()), searching));
        }
        Ok((Bound::Excluded(after), searching))
    }

    fn get_some(
        &self,
        shard: ShardId,
        names: &[JobName],
        now: Timestamp,
    ) -> Result<Vec<Option<StoredJob>>, StoreError> {
        let swept_until = self.shard(shard)?.swept_until;
        let read = |kv: &dyn Read| {
            let mut key = KeyBuffer::default();
            let found = names.iter().map(|name| find(kv, shard, name, now, swept_until, &mut key));
            found.collect::<Result<Vec<_>, StoreError>>()
        };
        self.at_once(shard, read, |mut found, state| {
            for job in found.iter_mut().flatten() {
                if let StoredJob::Live(live) = job {
                    let held = state.leases.get(&live.job.number);
                    live.lease = held.map(|held| held.lease.clone());
                }
            }
            found
        })
    }

    /// Running jobs, and waiting jobs that hold their key, by number.
    fn active(&self, shard: ShardId) -> Result<Vec<LiveJob>, StoreError> {
        // No commit may move a job between the look at its place and the look at the place.
        let _writer = self.writer();
        let mut places: Vec<(JobNumber, QueueName, Timestamp, Option<Lease>)> = {
            let state = self.shard(shard)?;
            let leases = state.leases.iter().map(|(number, held)| {
                (*number, held.queue.clone(), held.due_at, Some(held.lease.clone()))
            });
            let holders =
                state.holders.iter().filter(|(number, _)| !state.leases.contains_key(number));
            let holders = holders
                .map(|(number, holder)| (*number, holder.queue.clone(), holder.due_at, None));
            leases.chain(holders).collect()
        };
        places.sort_by_key(|(number, ..)| *number);
        let mut key = KeyBuffer::default();
        let mut active = Vec::with_capacity(places.len());
        for (number, queue, due_at, lease) in places {
            let place = Place { due_at, number };
            let live = live_at(&self.kv, shard, &queue, place, &mut key)?;
            let live = live.ok_or_else(|| values::malformed("job of a lease"))?;
            active.push(LiveJob { lease, ..live });
        }
        Ok(active)
    }
}

/// A job as found, before its lease is known.
fn find(
    kv: &dyn Read,
    shard: ShardId,
    name: &JobName,
    now: Timestamp,
    swept_until: Timestamp,
    key: &mut KeyBuffer,
) -> Result<Option<StoredJob>, StoreError> {
    let spot = kv.get(key.name(shard, name)).map_err(failed("look up a name"))?;
    let Some(spot) = spot else { return Ok(None) };
    match Spot::decode(&spot)? {
        Spot::Finished { lies_until, .. } if lies_until <= now.max(swept_until) => Ok(None),
        Spot::Finished { place, .. } => {
            let key = key.finished(shard, &name.queue, place);
            let value = kv.get(key).map_err(failed("read a finished job"))?;
            let done = value.map(|value| decode_finished(&value)).transpose()?;
            Ok(done.filter(|done| done.finish.is_kept(now)).map(StoredJob::Finished))
        }
        Spot::Live(place) => Ok(live_at(kv, shard, &name.queue, place, key)?.map(StoredJob::Live)),
    }
}

/// The attempts of a job: it is live and so are they, or both are finished.
fn read_attempts(
    kv: &dyn Read,
    shard: ShardId,
    name: &JobName,
    number: JobNumber,
    swept_until: Timestamp,
) -> Result<Vec<AttemptRecord>, StoreError> {
    let mut found = Vec::new();
    let prefix = keys::number_prefix(keys::LIVE_ATTEMPT, shard, number);
    each_with_prefix(kv, &prefix, |_, value| {
        found.push(codec::decode_attempt(&value)?);
        Ok(())
    })?;
    let prefix = keys::number_prefix(keys::KEPT_ATTEMPT, shard, number);
    each_with_prefix(kv, &prefix, |_, value| {
        if values::kept_until(&value).is_some_and(|until| until > swept_until) {
            found.push(codec::decode_attempt(&values::kept(&value)?)?);
        }
        Ok(())
    })?;
    let mut key = KeyBuffer::default();
    let spot = kv.get(key.name(shard, name)).map_err(failed("look up a name"))?;
    match spot.map(|spot| Spot::decode(&spot)).transpose()? {
        Some(Spot::Finished { place, lies_until })
            if place.number == number && lies_until > swept_until =>
        {
            let key = key.finished(shard, &name.queue, place);
            let value = kv.get(key).map_err(failed("read a finished job"))?;
            found.extend(value.map(|value| decode_last(&value)).transpose()?.flatten());
        }
        _ => {}
    }
    Ok(found)
}

/// Reads the live job at a place; `None` if it has gone from there.
pub(crate) fn live_at(
    kv: &dyn Read,
    shard: ShardId,
    queue: &QueueName,
    place: Place,
    key: &mut KeyBuffer,
) -> Result<Option<LiveJob>, StoreError> {
    let value = kv.get(key.live(shard, queue, place)).map_err(failed("read a job"))?;
    value.map(|value| decode_live(&value)).transpose()
}

fn read_due(
    kv: &dyn Read,
    shard: ShardId,
    queue: &QueueName,
    from: Bound<Place>,
    limit: usize,
) -> Result<Vec<LiveJob>, StoreError> {
    let start = from.map(|place| KeyBuffer::default().live(shard, queue, place).to_vec());
    let end = keys::after_prefix(&keys::text_prefix(keys::LIVE, shard, queue.as_str()));
    let from = start.as_ref().map(Vec::as_slice);
    let span = Span { from, to: Bound::Excluded(&end) };
    let mut rows = Vec::new();
    scan(kv, span, Direction::Forward, |_, value| {
        rows.push(decode_live(&value)?);
        let full = rows.len() == limit;
        Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(rows)
}

struct DueRows {
    jobs: Vec<LiveJob>,
    /// Where to go on, if there may be more.
    last: Option<Place>,
}

fn place_of(live: &LiveJob) -> Place {
    Place { due_at: live.progress.due_at, number: live.job.number }
}

/// Calls `visit` for everything under the prefix.
pub(crate) fn each_with_prefix(
    kv: &dyn Read,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], Bytes) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let end = keys::after_prefix(prefix);
    scan(kv, Span::between(prefix, &end), Direction::Forward, |key, value| {
        visit(key, value).map(ControlFlow::Continue)
    })
}

/// A scan whose visitor may fail.
pub(crate) fn scan(
    kv: &dyn Read,
    span: Span<'_>,
    direction: Direction,
    mut visit: impl FnMut(&[u8], Bytes) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut answer = Ok(());
    let scanned = kv.scan(span, direction, &mut |key, value| match visit(key, value) {
        Ok(flow) => flow,
        Err(error) => {
            answer = Err(error);
            ControlFlow::Break(())
        }
    });
    scanned.map_err(failed("read the store"))?;
    answer
}

pub(crate) fn decode_live(value: &Bytes) -> Result<LiveJob, StoreError> {
    let (job, progress) = codec::decode_live(&copy(value))?;
    Ok(LiveJob { job: Arc::new(job), progress, lease: None })
}

pub(crate) fn decode_finished(value: &Bytes) -> Result<FinishedJob, StoreError> {
    codec::split_finished(&copy(&values::kept(value)?)).map(|(job, _)| job)
}

/// The attempt within a finished job; none if it ended without one.
fn decode_last(value: &Bytes) -> Result<Option<AttemptRecord>, StoreError> {
    let (_, last) = codec::split_finished(&values::kept(value)?)?;
    (!last.is_empty()).then(|| codec::decode_attempt(&last)).transpose()
}

/// The name at the end of a key of counts, settings or queues.
pub(crate) fn queue_in(key: &[u8]) -> Result<QueueName, StoreError> {
    let text = key.get(keys::HEAD..).and_then(|text| std::str::from_utf8(text).ok());
    let name = text.and_then(|text| QueueName::new(text).ok());
    name.ok_or_else(|| values::malformed("queue"))
}

/// A payload is a slice of what it was read from. What is handed out may live for long, and must
/// not keep a whole block or log buffer alive for a few bytes of it.
fn copy(value: &Bytes) -> Bytes {
    Bytes::copy_from_slice(value)
}
