//! Pages of jobs.
//!
//! Rows come by (live or finished, instant, number, queue), but lie by queue, and finished ones by
//! outcome as well. A page merges as many streams as there are queues and outcomes asked for; each
//! reads ahead a little. Jobs of one key are found through their names instead, which lie together,
//! and running ones through their leases, which are in memory.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;
use hence_core::change::{FinishedPlace, Place};
use hence_core::id::{Key, QueueName, ShardId};
use hence_core::job::{JobState, Outcome};
use hence_core::time::Timestamp;
use hence_store::{Cursor, Filter, ListRequest, LiveJob, Page, StoreError, StoredJob};

use crate::engine::Engine;
use crate::keys::{self, KeyBuffer};
use crate::kv::{Direction, Read, Span};
use crate::read::{decode_finished, decode_live, each_with_prefix, live_at, scan};
use crate::values::{self, Spot};

/// Rows that one of many streams reads ahead.
const AHEAD_MIN: usize = 8;
/// Rows that a stream reads at once at most.
const AHEAD_MAX: usize = 256;
/// Jobs looked at for one page, a tenth of a second's work or so: when next to none of millions
/// fit, the page ends here, short, and the next one goes on.
const LOOKS_MAX: usize = 100_000;

impl Engine {
    pub(crate) fn list(&self, shard: ShardId, request: &ListRequest) -> Result<Page, StoreError> {
        self.list_within(shard, request, LOOKS_MAX)
    }

    /// A page for which at most so many jobs are looked at.
    pub(crate) fn list_within(
        &self,
        shard: ShardId,
        request: &ListRequest,
        looks_max: usize,
    ) -> Result<Page, StoreError> {
        let (queues, ended, swept_until) = {
            let state = self.shard(shard)?;
            let queues: Vec<QueueName> = match &request.filter.queue {
                Some(queue) => vec![queue.clone()],
                None => state.queues.keys().cloned().collect(),
            };
            (queues, state.ended.count(), state.swept_until)
        };
        let listing = Listing { engine: self, shard, request, ended, swept_until, looks_max };
        match &request.filter.key {
            Some(key) => listing.by_key(&queues, key),
            None if wants_running_only(&request.filter) => listing.by_lease(),
            None => listing.by_time(&queues),
        }
    }
}

struct Listing<'a> {
    engine: &'a Engine,
    shard: ShardId,
    request: &'a ListRequest,
    /// Leases that had ended when it began.
    ended: u64,
    swept_until: Timestamp,
    looks_max: usize,
}

/// What was found for a page so far.
#[derive(Default)]
struct Rows {
    /// Those that fit; one more than asked for says that there is a next page.
    fitting: Vec<(Cursor, StoredJob)>,
    looks: usize,
    /// Where it looked last.
    last: Option<Cursor>,
}

/// One sorted stretch of keys: the jobs of a queue, or its finished ones of an outcome.
struct Stream {
    queue: QueueName,
    prefix: Vec<u8>,
    finished: bool,
    next: Bound<Vec<u8>>,
    end: Vec<u8>,
    ahead: VecDeque<(Place, Bytes)>,
    exhausted: bool,
}

impl Listing<'_> {
    /// Merges the streams until the page is full.
    fn by_time(&self, queues: &[QueueName]) -> Result<Page, StoreError> {
        let mut rows = Rows::default();
        for finished in [false, true] {
            let mut streams = self.streams(queues, finished);
            let ahead = (2 * self.request.limit).div_ceil(streams.len().max(1));
            let ahead = ahead.clamp(AHEAD_MIN, AHEAD_MAX);
            while !self.is_full(&rows) {
                let Some(best) = self.best(&mut streams, ahead)? else { break };
                let stream = &mut streams[best];
                let Some((place, value)) = stream.ahead.pop_front() else { break };
                let cursor = stream.cursor(place);
                let job = self.row(finished, &stream.queue, place, &value)?;
                self.look(cursor, job, &mut rows);
            }
        }
        Ok(self.page(rows))
    }

    /// Follows every name of the key, and keeps the first rows after the cursor.
    fn by_key(&self, queues: &[QueueName], key: &Key) -> Result<Page, StoreError> {
        let mut spots: Vec<(Cursor, Option<Outcome>)> = Vec::new();
        for queue in queues {
            let mut prefix = keys::text_prefix(keys::NAME, self.shard, queue.as_str());
            prefix.extend_from_slice(key.as_str().as_bytes());
            prefix.push(0);
            each_with_prefix(&self.engine.kv, &prefix, |_, value| {
                let (finished, at, number, outcome) = match Spot::decode(&value)? {
                    Spot::Live(place) => (false, place.due_at, place.number, None),
                    Spot::Finished { place, .. } => {
                        (true, place.at, place.number, Some(place.outcome))
                    }
                };
                spots.push((Cursor { finished, at, number, queue: queue.clone() }, outcome));
                Ok(())
            })?;
        }
        self.by_spots(spots)
    }

    /// Follows every lease.
    fn by_lease(&self) -> Result<Page, StoreError> {
        let spots = {
            let state = self.engine.shard(self.shard)?;
            let spots = state.leases.iter().map(|(&number, held)| {
                let (at, queue) = (held.due_at, held.queue.clone());
                (Cursor { finished: false, at, number, queue }, None)
            });
            spots.collect()
        };
        self.by_spots(spots)
    }

    /// Looks at these, in order, from where the page before ended.
    fn by_spots(&self, mut spots: Vec<(Cursor, Option<Outcome>)>) -> Result<Page, StoreError> {
        if let Some(after) = &self.request.after {
            spots.retain(|(cursor, _)| cursor > after);
        }
        spots.sort_by(|left, right| left.0.cmp(&right.0));
        let mut rows = Rows::default();
        let mut buffer = KeyBuffer::default();
        for (cursor, outcome) in spots {
            if self.is_full(&rows) {
                break;
            }
            let job = self.at(&cursor, outcome, &mut buffer)?;
            self.look(cursor, job, &mut rows);
        }
        Ok(self.page(rows))
    }

    /// The job a cursor stands for, if it is still there.
    fn at(
        &self,
        cursor: &Cursor,
        outcome: Option<Outcome>,
        buffer: &mut KeyBuffer,
    ) -> Result<Option<StoredJob>, StoreError> {
        let place = Place { due_at: cursor.at, number: cursor.number };
        let key = match outcome {
            None => buffer.live(self.shard, &cursor.queue, place),
            Some(outcome) => {
                let place = FinishedPlace { outcome, at: cursor.at, number: cursor.number };
                buffer.finished(self.shard, &cursor.queue, place)
            }
        };
        let value = self.engine.kv.get(key).map_err(crate::error::failed("read a job"))?;
        match value {
            Some(value) => self.row(cursor.finished, &cursor.queue, place, &value),
            None => Ok(None),
        }
    }

    fn streams(&self, queues: &[QueueName], finished: bool) -> Vec<Stream> {
        let filter = &self.request.filter;
        let mut streams = Vec::new();
        for queue in queues {
            if finished {
                for outcome in Outcome::ALL {
                    if filter.states.contains(&outcome.state()) {
                        streams.extend(self.stream(queue, Some(outcome)));
                    }
                }
            } else if wants_live(filter) {
                streams.extend(self.stream(queue, None));
            }
        }
        streams
    }

    /// The stretch of a queue that can hold rows of this page; `None` if there is none.
    fn stream(&self, queue: &QueueName, outcome: Option<Outcome>) -> Option<Stream> {
        let kind = if outcome.is_some() { keys::FINISHED } else { keys::LIVE };
        let mut prefix = keys::text_prefix(kind, self.shard, queue.as_str());
        prefix.extend(outcome.map(keys::outcome_byte));
        let at = |instant: Timestamp| [&prefix[..], &keys::instant_bytes(instant)].concat();
        let filter = &self.request.filter;
        let mut next = Bound::Included(filter.from.map_or_else(|| prefix.clone(), at));
        let end = filter.until.map_or_else(|| keys::after_prefix(&prefix), at);
        if let Some(after) = &self.request.after {
            if after.finished && outcome.is_none() {
                return None;
            }
            if after.finished == outcome.is_some() {
                let mut key = at(after.at);
                key.extend_from_slice(&after.number.0.to_be_bytes());
                // Equal in instant and number, the queue decides.
                let resumed =
                    if *queue > after.queue { Bound::Included(key) } else { Bound::Excluded(key) };
                next = later(next, resumed);
            }
        }
        let (queue, finished) = (queue.clone(), outcome.is_some());
        let ahead = VecDeque::new();
        Some(Stream { queue, prefix, finished, next, end, ahead, exhausted: false })
    }

    /// The stream with the first row.
    fn best(&self, streams: &mut [Stream], ahead: usize) -> Result<Option<usize>, StoreError> {
        let mut best: Option<(usize, Place)> = None;
        for index in 0..streams.len() {
            if streams[index].ahead.is_empty() && !streams[index].exhausted {
                self.refill(&mut streams[index], ahead)?;
            }
            let Some((place, _)) = streams[index].ahead.front() else { continue };
            let better = best.is_none_or(|(other, least)| {
                (*place, &streams[index].queue) < (least, &streams[other].queue)
            });
            if better {
                best = Some((index, *place));
            }
        }
        Ok(best.map(|(index, _)| index))
    }

    fn refill(&self, stream: &mut Stream, ahead: usize) -> Result<(), StoreError> {
        let from = stream.next.as_ref().map(Vec::as_slice);
        let span = Span { from, to: Bound::Excluded(&stream.end) };
        let mut last = None;
        let rows = &mut stream.ahead;
        scan(&self.engine.kv, span, Direction::Forward, |key, value| {
            let place = keys::place_in(key).ok_or_else(|| values::malformed("job"))?;
            rows.push_back((place, value));
            last = Some(key.to_vec());
            let full = rows.len() == ahead;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        stream.exhausted = stream.ahead.len() < ahead;
        if let Some(last) = last {
            debug_assert!(last.starts_with(&stream.prefix));
            stream.next = Bound::Excluded(last);
        }
        Ok(())
    }

    fn row(
        &self,
        finished: bool,
        queue: &QueueName,
        place: Place,
        value: &Bytes,
    ) -> Result<Option<StoredJob>, StoreError> {
        if finished {
            let swept = values::kept_until(value).is_some_and(|until| until <= self.swept_until);
            let done = (!swept).then(|| decode_finished(value)).transpose()?;
            return Ok(done.map(StoredJob::Finished));
        }
        let live = self.live_row(queue, place, decode_live(value)?)?;
        Ok(live.map(StoredJob::Live))
    }

    /// A live job with its lease. If one ended since the listing began, the job may have changed
    /// after it was read: it is read again, as it is now.
    fn live_row(
        &self,
        queue: &QueueName,
        place: Place,
        live: LiveJob,
    ) -> Result<Option<LiveJob>, StoreError> {
        let (lease, ended) = {
            let state = self.engine.shard(self.shard)?;
            let lease = state.leases.get(&place.number).map(|held| held.lease.clone());
            (lease, state.ended.may_contain(place.number, self.ended))
        };
        if lease.is_some() || !ended {
            return Ok(Some(LiveJob { lease, ..live }));
        }
        live_at(&self.engine.kv, self.shard, queue, place, &mut KeyBuffer::default())
    }

    fn fits(&self, cursor: &Cursor, job: &StoredJob) -> bool {
        let Filter { queue, key, states, schedule, from, until } = &self.request.filter;
        let now = self.request.now;
        let (state, of) = match job {
            StoredJob::Live(live) => (live.state(now), &live.job),
            StoredJob::Finished(done) if !done.finish.is_kept(now) => return false,
            StoredJob::Finished(done) => (done.finish.outcome.state(), &done.job),
        };
        let made_by = of.occurrence.as_ref().map(|occurrence| &occurrence.schedule);
        let state_fits =
            if states.is_empty() { !state.is_final() } else { states.contains(&state) };
        state_fits
            && queue.as_ref().is_none_or(|queue| of.name.queue == *queue)
            && key.as_ref().is_none_or(|key| of.name.key.as_ref() == Some(key))
            && schedule.as_ref().is_none_or(|schedule| made_by == Some(schedule))
            && from.is_none_or(|from| cursor.at >= from)
            && until.is_none_or(|until| cursor.at < until)
    }

    /// Takes in what there is at a cursor, if it fits.
    fn look(&self, cursor: Cursor, job: Option<StoredJob>, rows: &mut Rows) {
        rows.looks += 1;
        rows.last = Some(cursor.clone());
        rows.fitting.extend(job.filter(|job| self.fits(&cursor, job)).map(|job| (cursor, job)));
    }

    fn is_full(&self, rows: &Rows) -> bool {
        rows.fitting.len() > self.request.limit || rows.looks >= self.looks_max
    }

    fn page(&self, rows: Rows) -> Page {
        let Rows { mut fitting, looks, last } = rows;
        let next = if fitting.len() > self.request.limit {
            fitting.truncate(self.request.limit);
            fitting.last().map(|(cursor, _)| cursor.clone())
        } else {
            last.filter(|_| looks >= self.looks_max)
        };
        Page { jobs: fitting.into_iter().map(|(_, job)| job).collect(), next }
    }
}

impl Stream {
    fn cursor(&self, place: Place) -> Cursor {
        let Place { due_at: at, number } = place;
        Cursor { finished: self.finished, at, number, queue: self.queue.clone() }
    }
}

fn wants_live(filter: &Filter) -> bool {
    filter.states.is_empty() || filter.states.iter().any(|state| !state.is_final())
}

fn wants_running_only(filter: &Filter) -> bool {
    !filter.states.is_empty() && filter.states.iter().all(|state| *state == JobState::Running)
}

/// The bound that leaves out more.
fn later(left: Bound<Vec<u8>>, right: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    let key = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) => (key.clone(), false),
        Bound::Excluded(key) => (key.clone(), true),
        Bound::Unbounded => (Vec::new(), false),
    };
    if key(&left) > key(&right) { left } else { right }
}
