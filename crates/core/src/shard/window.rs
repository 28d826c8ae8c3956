//! The window: which part of a queue is in memory. A queue keeps its earliest jobs, up to a number
//! and a size; `through` is the last place up to which it has them all. Later ones are only in
//! the store and are read back, in bulk and in order, when the memory runs low.
//!
//! That is so for each kind of its jobs ([`Kind`]), and each may keep a part of the window. If it
//! were not, jobs that nobody takes would fill it, and those of other kinds that are due after them
//! would never be read.
//!
//! A request about a job that is not in memory waits until the store has said what it has under
//! that name (`Find`). Two things can cross on the way: a change of the same name, and a page
//! that was read before a change. Both are noticed and the answer is asked for again, or patched.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::Place;
use crate::effect::Effect;
use crate::id::{JobName, JobNumber, QueueName, ScheduleId};
use crate::input::{Found, Request, Ticket};
use crate::job::{Finish, IdOrigin, Job, Progress};
use crate::time::Timestamp;

use super::Shard;
use super::index::{Alarm, Lacks, Lane, Queue, Seat};
use super::sorted::Sorted;
use super::stretch::{KINDS, Kind, Stretch};

/// A page on its way from the store.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// The kinds whose memory it continues. Jobs of others that are in it are passed over.
    joins: [bool; KINDS],
    /// Far jobs that changed since the page was asked for: as they are now, or gone.
    changed: BTreeMap<JobNumber, Option<(Arc<Job>, Progress)>>,
    /// The memory of such a kind shrank meanwhile: the page no longer joins it.
    void: bool,
}

/// A name being looked for, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct Find {
    waiting: Vec<(Ticket, Request)>,
    /// The schedule whose backfill wants to know whether the name is taken.
    backfill: Option<ScheduleId>,
    /// The name changed since it was asked for: ask again.
    disturbed: bool,
}

/// What a request is about.
pub(super) enum Subject {
    /// A job in memory.
    Here(JobNumber),
    /// A live job beyond the window.
    Far(Arc<Job>, Progress),
    /// A finished job that is still kept.
    Finished(Arc<Job>, Progress, Box<Finish>),
    /// Nothing.
    Absent,
}

/// Pages are at most this large: a page is taken in in one go, about a third of a millisecond, and
/// everybody waits meanwhile.
const LOAD_MAX: usize = 1_000;

/// The least a queue may keep in memory, however many queues there are.
const SHARE_JOBS_MIN: usize = 1_000;

/// The same for payload bytes.
const SHARE_BYTES_MIN: usize = 1024 * 1024;

/// What each kind may keep of its queue's window, however many jobs of other kinds are due before
/// its own: an eighth. The kinds together have five eighths of the window in this way, and whoever
/// is due first has the others.
const KIND_SHARE: usize = 8;

/// Jobs behind keys are kept up to so many windows: enough to look past a blocked key, bounded
/// all the same.
const LINED_UP_WINDOWS_MAX: usize = 4;

impl Shard {
    /// Answers a request about a job as soon as it is known what there is under its name.
    pub(super) fn with_subject(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        name: &JobName,
        request: Request,
    ) {
        if let Some(find) = self.finds.get_mut(name) {
            find.waiting.push((ticket, request));
            return;
        }
        if let Some(number) = self.named(name) {
            let subject = Subject::Here(number);
            return self.decide(now, ticket, request, subject);
        }
        if matches!(&request, Request::Submit(asked) if asked.id_origin == IdOrigin::Drawn) {
            return self.decide(now, ticket, request, Subject::Absent);
        }
        let find = Find { waiting: alloc::vec![(ticket, request)], ..Find::default() };
        self.finds.insert(name.clone(), find);
        self.effects.push_back(Effect::Find(name.clone()));
    }

    /// Asks the store about a name for the backfill of a schedule.
    pub(super) fn look_for(&mut self, name: &JobName, schedule: &ScheduleId) {
        if !self.finds.contains_key(name) {
            self.effects.push_back(Effect::Find(name.clone()));
        }
        self.finds.entry(name.clone()).or_default().backfill = Some(schedule.clone());
    }

    /// The store said what it has under a name.
    pub(super) fn found(&mut self, now: Timestamp, name: &JobName, found: Option<Found>) {
        let here = self.named(name);
        let Some(find) = self.finds.get_mut(name) else { return };
        if find.disturbed && here.is_none() {
            find.disturbed = false;
            self.effects.push_back(Effect::Find(name.clone()));
            return;
        }
        let Some(find) = self.finds.remove(name) else { return };
        if let Some(schedule) = &find.backfill {
            self.looked_up(schedule, name, here.is_some() || found.is_some());
        }
        let mut waiting = find.waiting.into_iter();
        if let Some((ticket, request)) = waiting.next() {
            let subject = match (here, found) {
                (Some(number), _) => Subject::Here(number),
                (None, Some(Found::Live(job, progress))) => Subject::Far(job, progress),
                (None, Some(Found::Finished(job, progress, finish))) => {
                    Subject::Finished(job, progress, finish)
                }
                (None, None) => Subject::Absent,
            };
            // It was admitted when it came; the queue may have become full since.
            match self.admit(now, &request) {
                Ok(()) => self.decide(now, ticket, request, subject),
                Err(rejection) => self.reply(ticket, Err(rejection)),
            }
        }
        // What the first one did may have changed everything: the others start over.
        for (ticket, request) in waiting {
            self.request(now, ticket, request);
        }
    }

    pub(super) fn disturb_find(&mut self, name: &JobName) {
        if let Some(find) = self.finds.get_mut(name) {
            find.disturbed = true;
        }
        self.doubt_name(name);
    }

    /// A pending job that is not in memory: keeps it there if the window reaches so far.
    pub(super) fn admit_to_window(&mut self, at: usize, job: &Arc<Job>, progress: Progress) {
        let place = Place { due_at: progress.due_at, number: job.number };
        if progress.holds_key || place <= self.queues[at].stretch(self.kind_of(job)).through {
            self.enter_memory(at, job, progress);
            self.shrink_window(at);
        } else {
            self.note_far_put(at, job, progress);
        }
    }

    pub(super) fn note_far_put(&mut self, at: usize, job: &Arc<Job>, progress: Progress) {
        if let Some(loading) = &mut self.queues[at].loading {
            loading.changed.insert(job.number, Some((Arc::clone(job), progress)));
        }
    }

    pub(super) fn note_far_removed(&mut self, at: usize, number: JobNumber) {
        if let Some(loading) = &mut self.queues[at].loading {
            loading.changed.insert(number, None);
        }
    }

    /// Lets the last jobs of a queue go while it has more in memory than it may.
    pub(super) fn shrink_window(&mut self, at: usize) {
        let share = self.share();
        while share.is_exceeded(&self.queues[at]) {
            let lasts = Kind::ALL.into_iter().filter_map(|kind| self.last_to_go(at, kind, share));
            let Some((place, kind)) = lasts.max_by_key(|(place, _)| *place) else { return };
            self.evict(at, kind, place);
        }
    }

    /// The job of a kind that is let go first, if the kind has to let one go: always the very last
    /// one, since a key's jobs then leave from the back of their line. But not one that holds its
    /// key after a try, since the next of the key would take its turn.
    fn last_to_go(&self, at: usize, kind: Kind, share: Share) -> Option<(Place, Kind)> {
        let place = self.last_of(at, kind)?;
        let (queue, entry) = (&self.queues[at], &self.jobs[place.number]);
        let (jobs, bytes) = if entry.is_counted() { (1, entry.payload_bytes()) } else { (0, 0) };
        let must_go = share.is_full_without(queue, bytes)
            && share.of_a_kind().is_used_without(queue.stretch(kind), jobs, bytes);
        must_go.then_some((place, kind))
    }

    fn kind_of(&self, job: &Job) -> Kind {
        Kind::new(job.name.key.is_some(), Lane::of(&job.target), self.lacks(&job.target))
    }

    /// Other handlers are registered now: jobs that gained theirs, or lost it, change their kind.
    pub(super) fn sort_handled(&mut self) {
        let handled = self.jobs.iter().filter(|entry| entry.lane == Lane::Handler);
        let changed = handled.filter_map(|entry| {
            let lacks = self.lacks(&self.job_of(entry).target);
            let is_changed = (lacks == Lacks::Nothing) != (entry.lacks == Lacks::Nothing);
            is_changed.then_some((entry.number, lacks))
        });
        for (number, lacks) in changed.collect::<Vec<_>>() {
            self.set_lacks(number, lacks);
        }
        for at in 0..self.queues.len() {
            self.level_handled(at);
        }
    }

    fn set_lacks(&mut self, number: JobNumber, lacks: Lacks) {
        let entry = &self.jobs[number];
        let seat = entry.seat;
        // One that runs is in no list, one with a key stays in its lists.
        let moves = seat != Seat::Running && entry.kind() != Kind::Keyed;
        if moves {
            self.rise(number);
        }
        if let Some(entry) = self.jobs.get_mut(number) {
            entry.lacks = lacks;
        }
        if moves {
            self.sit(number, seat);
        }
    }

    /// Two kinds that gave jobs to each other are complete as far as both of them were. What is
    /// behind that is let go: it would overtake what is in the store only.
    fn level_handled(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        if let Some(loading) = &mut queue.loading {
            // A page for one of them goes on where that one ended.
            let [one, other] = Kind::HANDLED.map(|kind| loading.joins[kind as usize]);
            loading.void |= one != other;
        }
        let [one, other] = Kind::HANDLED.map(|kind| queue.stretch(kind).through);
        let through = one.min(other);
        for kind in Kind::HANDLED {
            while let Some(place) = self.last_of(at, kind).filter(|place| *place > through) {
                self.evict(at, kind, place);
            }
            self.queues[at].stretch_mut(kind).through = through;
        }
        if through != Place::LAST {
            self.far.insert(at);
        }
    }

    /// The last job of a kind that may be let go at all.
    fn last_of(&self, at: usize, kind: Kind) -> Option<Place> {
        let queue = &self.queues[at];
        let stretch = queue.stretch(kind);
        let [pull, push, handler] = &stretch.ready;
        let behind = (kind == Kind::Keyed).then_some(&queue.behind);
        let lists = [&stretch.waiting, pull, push, handler, &stretch.parked];
        let may_go = |place: &&Place| !self.jobs[place.number].progress.holds_key;
        let last = |list: &Sorted<Place>| list.iter().rev().find(may_go).copied();
        lists.into_iter().chain(behind).filter_map(last).max()
    }

    /// What one queue may keep in memory: an equal share, and never so little that reading pages
    /// would be all there is to do.
    fn share(&self) -> Share {
        let (jobs, bytes) = (self.config.window_jobs, self.config.window_bytes);
        let queues = self.queue_ids.len().max(1);
        Share {
            jobs: (jobs / queues).max(jobs.min(SHARE_JOBS_MIN)),
            bytes: (bytes / queues).max(bytes.min(SHARE_BYTES_MIN)),
        }
    }

    fn evict(&mut self, at: usize, kind: Kind, place: Place) {
        let number = place.number;
        let queue = &mut self.queues[at];
        queue.stretch_mut(kind).through = place_before(place);
        self.far.insert(at);
        if let Some(loading) = &mut queue.loading {
            loading.void |= loading.joins[kind as usize];
            let entry = &self.jobs[number];
            self.note_far_put(at, &self.job_of(entry), entry.progress);
        }
        self.rise(number);
        self.release_key(number);
        if let Some(alarm) = self.jobs[number].expiry_alarm() {
            self.alarms.remove(&alarm);
        }
        self.jobs.remove(number);
    }

    /// Asks for the next page of every queue that runs low, and to be called when one will.
    pub(super) fn load_windows(&mut self, now: Timestamp) {
        let share = self.share();
        for at in &self.far {
            let queue = &mut self.queues[*at];
            if queue.loading.is_some() {
                continue;
            }
            let wants = share.wants(queue);
            let later = wants.into_iter().flatten().filter(|from| *from > now).min();
            if later != queue.load_alarm {
                let old = core::mem::replace(&mut queue.load_alarm, later);
                old.map(|instant| self.alarms.remove(&(instant, Alarm::Load(*at))));
                later.map(|instant| self.alarms.insert((instant, Alarm::Load(*at))));
            }
            let joins = wants.map(|wants| wants.is_some_and(|from| from <= now));
            let joining = queue.stretches.iter().zip(joins).filter(|(_, joins)| *joins);
            let Some(after) = joining.map(|(stretch, _)| stretch.through).min() else { continue };
            let limit = share.page(queue);
            queue.loading = Some(Loading { joins, ..Loading::default() });
            self.effects.push_back(Effect::Load { queue: queue.name.clone(), after, limit });
        }
    }

    /// A page arrived.
    pub(super) fn loaded(
        &mut self,
        queue: &QueueName,
        jobs: Vec<(Arc<Job>, Progress)>,
        more: bool,
    ) {
        let Some(at) = self.queue_ids.get(queue).copied() else { return };
        let queue = &mut self.queues[at];
        let Some(loading) = queue.loading.take().filter(|loading| !loading.void) else { return };
        let last = jobs
            .last()
            .map(|(job, progress)| Place { due_at: progress.due_at, number: job.number });
        let through = last.filter(|_| more).unwrap_or(Place::LAST);
        for (stretch, _) in
            queue.stretches.iter_mut().zip(loading.joins).filter(|(_, joins)| *joins)
        {
            stretch.through = stretch.through.max(through);
        }
        if queue.stretches.iter().all(|stretch| stretch.through == Place::LAST) {
            self.far.remove(&at);
        }
        let fresh = jobs.into_iter().filter(|(job, _)| !loading.changed.contains_key(&job.number));
        let changed = loading.changed.values().flatten().cloned();
        let all: Vec<_> = fresh.chain(changed).collect();
        for (mut job, progress) in all {
            let place = Place { due_at: progress.due_at, number: job.number };
            let reached = place <= self.queues[at].stretch(self.kind_of(&job)).through;
            if !reached || self.jobs.contains(job.number) {
                continue;
            }
            // Read from the store, each has a name of the queue to itself: one will do.
            if let Some(job) = Arc::get_mut(&mut job) {
                job.name.queue = self.queues[at].name.clone();
            }
            self.enter_memory(at, &job, progress);
        }
        self.shrink_window(at);
    }
}

/// So much may be kept in memory.
#[derive(Clone, Copy)]
struct Share {
    jobs: usize,
    bytes: usize,
}

impl Share {
    /// What each kind may keep of it, whatever the others do.
    fn of_a_kind(self) -> Share {
        let part = |whole: usize| (whole / KIND_SHARE).max(1);
        Share { jobs: part(self.jobs), bytes: part(self.bytes) }
    }

    fn is_exceeded(self, queue: &Queue) -> bool {
        queue.in_memory() > self.jobs || queue.bytes() > self.bytes
    }

    /// Whether the others alone fill the window. The one that makes it overflow by its size is
    /// kept: let go, it would be read again at once, the window being low without it.
    fn is_full_without(self, queue: &Queue, bytes: usize) -> bool {
        queue.in_memory() > self.jobs || queue.bytes() - bytes >= self.bytes
    }

    /// Whether the others of the kind alone use up what it may keep.
    fn is_used_without(self, stretch: &Stretch, jobs: usize, bytes: usize) -> bool {
        stretch.in_memory - jobs >= self.jobs || stretch.bytes - bytes >= self.bytes
    }

    fn is_low(self, jobs: usize, bytes: usize) -> bool {
        jobs <= self.jobs / 2 && bytes <= self.bytes / 2
    }

    /// From when on more jobs of each kind should be read: at once while the window is low. When it
    /// is not, a kind of which there is little in memory needs more when some may be due.
    fn wants(self, queue: &Queue) -> [Option<Timestamp>; KINDS] {
        let is_low = self.is_low(queue.in_memory(), queue.bytes());
        Kind::ALL.map(|kind| {
            let stretch = queue.stretch(kind);
            // However long the line behind a key, it is not read in beyond a few windows.
            let lined_up =
                kind == Kind::Keyed && queue.behind.len() > LINED_UP_WINDOWS_MAX * self.jobs;
            if stretch.through == Place::LAST || lined_up {
                return None;
            }
            if is_low {
                return Some(Timestamp::MIN);
            }
            let lacks = self.of_a_kind().is_low(stretch.in_memory, stretch.bytes);
            (lacks && !queue.settings.paused_out).then_some(stretch.through.due_at)
        })
    }

    /// How many jobs to read: what there is room for, or what a kind may keep in any case.
    fn page(self, queue: &Queue) -> usize {
        let room = self.jobs.saturating_sub(queue.in_memory());
        room.max(self.of_a_kind().jobs).min(LOAD_MAX)
    }
}

/// The place just before this one.
fn place_before(place: Place) -> Place {
    Place { due_at: place.due_at, number: JobNumber(place.number.0.saturating_sub(1)) }
}
