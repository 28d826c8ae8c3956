//! The window: which part of a queue is in memory. A queue keeps its earliest jobs, up to a number
//! and a size; `through` is the last place up to which it has them all. Later ones are only in
//! the store and are read back, in bulk and in order, when the memory runs low.
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

/// A page on its way from the store.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// Far jobs that changed since the page was asked for: as they are now, or gone.
    changed: BTreeMap<JobNumber, Option<(Arc<Job>, Progress)>>,
    /// The memory shrank meanwhile: the page no longer joins it.
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
        if progress.holds_key || place <= self.queues[at].through {
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
        while self.is_full(at) {
            let Some(place) = self.last_to_go(at) else { return };
            if !self.is_full_without(at, place.number) {
                return;
            }
            self.evict(at, place);
        }
    }

    /// Always the very last one: a key's jobs then leave from the back of their line. But not one
    /// that holds its key after a try, since the next of the key would take its turn.
    fn last_to_go(&self, at: usize) -> Option<Place> {
        let queue = &self.queues[at];
        let [pull, push, handler] = &queue.ready;
        let lists = [&queue.waiting, pull, push, handler, &queue.behind, &queue.parked];
        let may_go = |place: &&Place| !self.jobs[place.number].progress.holds_key;
        let lasts = lists.into_iter().filter_map(|list| list.iter().rev().find(may_go));
        lasts.max().copied()
    }

    fn is_full(&self, at: usize) -> bool {
        let queue = &self.queues[at];
        let (jobs_max, bytes_max) = self.allowance();
        queue.in_memory > jobs_max || queue.bytes > bytes_max
    }

    /// Whether the others alone fill the window. The one that makes it overflow by its size is
    /// kept: let go, it would be read again at once, the window being low without it.
    fn is_full_without(&self, at: usize, number: JobNumber) -> bool {
        let queue = &self.queues[at];
        let (jobs_max, bytes_max) = self.allowance();
        let entry = &self.jobs[number];
        let size = if entry.is_counted() { entry.payload_bytes() } else { 0 };
        queue.in_memory > jobs_max || queue.bytes - size >= bytes_max
    }

    /// What one queue may keep in memory: an equal share, and never so little that reading pages
    /// would be all there is to do.
    fn allowance(&self) -> (usize, usize) {
        let (jobs, bytes) = (self.config.window_jobs, self.config.window_bytes);
        let queues = self.queue_ids.len().max(1);
        let jobs_max = (jobs / queues).max(jobs.min(SHARE_JOBS_MIN));
        (jobs_max, (bytes / queues).max(bytes.min(SHARE_BYTES_MIN)))
    }

    fn evict(&mut self, at: usize, place: Place) {
        let number = place.number;
        let queue = &mut self.queues[at];
        queue.through = place_before(place);
        self.far.insert(at);
        if let Some(loading) = &mut queue.loading {
            loading.void = true;
        }
        self.rise(number);
        self.release_key(number);
        if let Some(alarm) = self.jobs[number].expiry_alarm() {
            self.alarms.remove(&alarm);
        }
        self.jobs.remove(number);
    }

    /// Asks for the next page of every queue that runs low.
    pub(super) fn load_windows(&mut self) {
        let (jobs_max, bytes_max) = self.allowance();
        for at in &self.far {
            let queue = &mut self.queues[*at];
            // However long the line behind a key, it is not read in beyond a few windows.
            let lined_up = queue.behind.len() > LINED_UP_WINDOWS_MAX * jobs_max;
            let low = queue.in_memory <= jobs_max / 2 && queue.bytes <= bytes_max / 2;
            if queue.loading.is_some() || !low || lined_up {
                continue;
            }
            queue.loading = Some(Loading::default());
            let limit = (jobs_max - queue.in_memory).clamp(1, LOAD_MAX);
            let (queue, after) = (queue.name.clone(), queue.through);
            self.effects.push_back(Effect::Load { queue, after, limit });
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
        let Some(loading) = self.queues[at].loading.take() else { return };
        if loading.void {
            return;
        }
        let last = jobs
            .last()
            .map(|(job, progress)| Place { due_at: progress.due_at, number: job.number });
        self.queues[at].through = match last {
            Some(place) if more => place,
            _ => Place::LAST,
        };
        let through = self.queues[at].through;
        if through == Place::LAST {
            self.far.remove(&at);
        }
        let fresh = jobs.into_iter().filter(|(job, _)| !loading.changed.contains_key(&job.number));
        let changed = loading.changed.values().flatten().cloned();
        let all: Vec<_> = fresh.chain(changed).collect();
        for (mut job, progress) in all {
            // Read from the store, each has a name of the queue to itself: one will do.
            if let Some(job) = Arc::get_mut(&mut job) {
                job.name.queue = self.queues[at].name.clone();
            }
            let place = Place { due_at: progress.due_at, number: job.number };
            if place <= through && !self.jobs.contains(job.number) {
                self.enter_memory(at, &job, progress);
            }
        }
        self.shrink_window(at);
    }
}

/// The place just before this one.
fn place_before(place: Place) -> Place {
    Place { due_at: place.due_at, number: JobNumber(place.number.0.saturating_sub(1)) }
}
