//! What the shard keeps in memory, and the small moves on it. No decisions here.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use hashbrown::HashMap;

use crate::change::Place;
use crate::id::{JobName, JobNumber, Key, QueueName};
use crate::job::{Job, JobState, Lease, Progress, Target};
use crate::queue::{Counts, QueueSettings};
use crate::time::{Millis, Timestamp};

use super::Shard;
use super::packed::Packed;
use super::sorted::Sorted;
use super::stretch::{KINDS, Kind, Stretch};
use super::window::Loading;

/// A job due sooner is not packed while it waits: it would be unpacked at once, and to pack and
/// unpack it takes about as long as to decide on it.
pub(super) const PACK_AHEAD: Millis = Millis::from_secs(10);

pub(super) type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

pub(super) fn new_map<K, V>(seed: u64) -> Map<K, V> {
    HashMap::with_hasher(foldhash::fast::FixedState::with_seed(seed))
}

/// A job in memory. There may be very many: 64 bytes, and a piece of memory for what was asked.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: JobNumber,
    pub(super) held: Held,
    pub(super) progress: Progress,
    pub(super) lease: Option<Box<Lease>>,
    pub(super) queue: u32,
    pub(super) state: JobState,
    pub(super) seat: Seat,
    pub(super) lane: Lane,
    pub(super) lacks: Lacks,
}

const _: () = assert!(size_of::<Entry>() == 64, "a job in memory has not grown");

/// What was asked for.
#[derive(Debug)]
pub(super) enum Held {
    /// At hand: it is due, running, or will be soon.
    Whole(Arc<Job>),
    /// Out of the way: it waits.
    Packed(Packed),
}

/// In which of its queue's lists a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seat {
    /// Waits for its due time.
    Waiting,
    /// Waits for its due time and holds its key: never leaves the memory.
    Holding,
    /// Due, and nothing but a worker or a limit is missing.
    Ready,
    /// Due, behind an earlier job of its key.
    BehindKey,
    /// Due, and its handler is not registered.
    Parked,
    /// Handed out.
    Running,
}

/// How a job leaves: decides which limit counts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Lane {
    /// A worker pulls it.
    Pull,
    /// This node sends it.
    Push,
    /// A handler in this process runs it.
    Handler,
}

pub(super) const LANES: usize = 3;

/// What a job would need here to be run by a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lacks {
    /// Its handler is registered, or it is not for one.
    Nothing,
    /// Its handler is not registered.
    Handler,
    /// The same, and that was said.
    HandlerAsSaid,
}

impl Lane {
    pub(super) fn of(target: &Target) -> Lane {
        match target {
            Target::Worker => Lane::Pull,
            Target::Http(_) => Lane::Push,
            Target::Handler(_) => Lane::Handler,
        }
    }
}

/// One queue's jobs in memory.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: QueueName,
    pub(super) settings: QueueSettings,
    pub(super) counts: Counts,
    /// By kind.
    pub(super) stretches: [Stretch; KINDS],
    pub(super) holding: Sorted<Place>,
    pub(super) behind: Sorted<Place>,
    pub(super) running: u32,
    pub(super) loading: Option<Loading>,
    pub(super) due_alarm: Option<Timestamp>,
    pub(super) load_alarm: Option<Timestamp>,
    pub(super) rate_alarm: Option<Timestamp>,
    pub(super) unpark_alarm: Option<Timestamp>,
}

/// The jobs of one (queue, key) that are due.
#[derive(Debug, Default)]
pub(super) struct KeyState {
    /// The one whose turn it is: ready, parked, running, or waiting for its retry.
    pub(super) holder: Option<JobNumber>,
    pub(super) behind: BTreeSet<Place>,
}

/// Why the shard wants to be called at an instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Alarm {
    Due(usize),
    Load(usize),
    Lease(JobNumber),
    Expiry(JobNumber),
    Rate(usize),
    Unpark(usize),
}

impl Entry {
    /// What was asked for, of a job that does not just wait.
    pub(super) fn job(&self) -> &Arc<Job> {
        match &self.held {
            Held::Whole(job) => job,
            Held::Packed(_) => unreachable!("only a job that waits is packed"),
        }
    }

    pub(super) fn at(&self) -> usize {
        self.queue as usize
    }

    pub(super) fn place(&self) -> Place {
        Place { due_at: self.progress.due_at, number: self.number }
    }

    /// Its key and its id.
    pub(super) fn name(&self) -> (Option<&str>, &str) {
        match &self.held {
            Held::Whole(job) => parts(&job.name),
            Held::Packed(packed) => packed.name(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        let (key, _) = self.name();
        Kind::new(key.is_some(), self.lane, self.lacks)
    }

    pub(super) fn payload_bytes(&self) -> usize {
        match &self.held {
            Held::Whole(job) => job.payload.bytes.len(),
            Held::Packed(packed) => packed.payload_bytes(),
        }
    }

    /// When its alarm rings that it is too late to start: only a job that is due has one.
    pub(super) fn expiry_alarm(&self) -> Option<(Timestamp, Alarm)> {
        match &self.held {
            Held::Whole(job) => job.expires_at.map(|at| (at, Alarm::Expiry(self.number))),
            Held::Packed(_) => None,
        }
    }

    /// Whether it counts against the window. Those behind a key do not: if they did, one blocked
    /// key could fill the window and keep the rest of its queue out. Those that hold a key after
    /// a try do not either: they cannot be let go.
    pub(super) fn is_counted(&self) -> bool {
        matches!(self.seat, Seat::Waiting | Seat::Ready | Seat::Parked) && !self.progress.holds_key
    }
}

/// The parts of a name that tell jobs of a queue apart.
pub(super) fn parts(name: &JobName) -> (Option<&str>, &str) {
    (name.key.as_ref().map(Key::as_str), name.id.as_str())
}

impl Queue {
    pub(super) fn new(name: QueueName) -> Self {
        Queue {
            name,
            settings: QueueSettings::default(),
            counts: Counts::default(),
            stretches: Default::default(),
            holding: Sorted::default(),
            behind: Sorted::default(),
            running: 0,
            loading: None,
            due_alarm: None,
            load_alarm: None,
            rate_alarm: None,
            unpark_alarm: None,
        }
    }

    /// Whether there is nothing to know about it: no settings, and never a job.
    pub(super) fn is_blank(&self) -> bool {
        self.settings == QueueSettings::default() && self.counts == Counts::default()
    }

    /// Its jobs of this kind.
    pub(super) fn stretch(&self, kind: Kind) -> &Stretch {
        &self.stretches[kind as usize]
    }

    pub(super) fn stretch_mut(&mut self, kind: Kind) -> &mut Stretch {
        &mut self.stretches[kind as usize]
    }

    /// Jobs that count against the window.
    pub(super) fn in_memory(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.in_memory).sum()
    }

    /// Their payload bytes.
    pub(super) fn bytes(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.bytes).sum()
    }

    /// The list for a job's seat, for the seats that are lists of the queue.
    fn list(&mut self, entry: &Entry) -> Option<&mut Sorted<Place>> {
        match entry.seat {
            Seat::Waiting => Some(&mut self.stretch_mut(entry.kind()).waiting),
            Seat::Holding => Some(&mut self.holding),
            Seat::Ready => Some(&mut self.stretch_mut(entry.kind()).ready[entry.lane as usize]),
            Seat::BehindKey => Some(&mut self.behind),
            Seat::Parked => Some(&mut self.stretch_mut(entry.kind()).parked),
            Seat::Running => None,
        }
    }

    /// The first of those that wait for their due time.
    pub(super) fn next_due(&self) -> Option<Place> {
        let waiting = self.stretches.iter().map(|stretch| &stretch.waiting);
        waiting.chain([&self.holding]).filter_map(Sorted::first).min().copied()
    }

    /// The first of those that are ready to leave in this way.
    pub(super) fn next_ready(&self, lane: Lane) -> Option<Place> {
        let lists =
            Kind::in_lane(lane).iter().map(|kind| &self.stretch(*kind).ready[lane as usize]);
        lists.filter_map(Sorted::first).min().copied()
    }

    /// Those whose handlers are not registered: without keys, and with.
    pub(super) fn parked(&self) -> [&Sorted<Place>; 2] {
        [Kind::Unregistered, Kind::Keyed].map(|kind| &self.stretch(kind).parked)
    }
}

impl Shard {
    /// The queue of this name; a new one when there is none.
    pub(super) fn queue_at(&mut self, name: &QueueName) -> usize {
        if let Some(at) = self.queue_ids.get(name) {
            return *at;
        }
        let queue = Queue::new(name.clone());
        let at = self.spare_queues.pop().unwrap_or(self.queues.len());
        match self.queues.get_mut(at) {
            Some(spare) => *spare = queue,
            None => self.queues.push(queue),
        }
        self.queue_ids.insert(name.clone(), at);
        at
    }

    /// A queue that is as if nobody had ever spoken of it needs no place. One for which a page is
    /// on its way keeps it: the answer would be taken for another's.
    pub(super) fn give_up_blank(&mut self, at: usize) {
        let queue = &self.queues[at];
        if !queue.is_blank() || queue.loading.is_some() {
            return;
        }
        let due = queue.due_alarm.map(|instant| (instant, Alarm::Due(at)));
        let load = queue.load_alarm.map(|instant| (instant, Alarm::Load(at)));
        let unpark = queue.unpark_alarm.map(|instant| (instant, Alarm::Unpark(at)));
        for alarm in [due, load, unpark].into_iter().flatten() {
            self.alarms.remove(&alarm);
        }
        assert!(queue.in_memory() == 0 && queue.running == 0, "a blank queue holds no job");
        self.far.remove(&at);
        self.stirred.remove(&at);
        self.queue_ids.remove(&queue.name);
        self.spare_queues.push(at);
    }

    /// The job in memory that has this name.
    pub(super) fn named(&self, name: &JobName) -> Option<JobNumber> {
        let at = self.queue_ids.get(&name.queue)?;
        self.jobs.named(*at as u32, parts(name))
    }

    /// What was asked for of a job in memory, wherever it sits.
    pub(super) fn job_of(&self, entry: &Entry) -> Arc<Job> {
        match &entry.held {
            Held::Whole(job) => Arc::clone(job),
            Held::Packed(packed) => {
                Arc::new(packed.unpack(entry.number, &self.queues[entry.at()].name))
            }
        }
    }

    /// How a job that is to wait is held until then: packed if that is long, unless it holds its
    /// key.
    pub(super) fn hold(&self, job: &Arc<Job>, progress: Progress) -> Held {
        let packs = progress.due_at > self.packs_from && !progress.holds_key;
        let packed = if packs { Packed::new(job) } else { None };
        packed.map_or_else(|| Held::Whole(Arc::clone(job)), Held::Packed)
    }

    /// A job that is due is wanted whole.
    pub(super) fn unpack(&mut self, number: JobNumber) {
        let Some(entry) = self.jobs.get_mut(number) else { return };
        if let Held::Packed(packed) = &entry.held {
            let job = packed.unpack(number, &self.queues[entry.at()].name);
            entry.held = Held::Whole(Arc::new(job));
        }
    }

    /// The counts of a queue, to be changed: they will go with the next batch.
    pub(super) fn counts(&mut self, queue: usize) -> &mut Counts {
        self.touched.insert(queue);
        &mut self.queues[queue].counts
    }

    /// Puts a job that has no seat into one.
    pub(super) fn sit(&mut self, number: JobNumber, seat: Seat) {
        let Some(entry) = self.jobs.get_mut(number) else {
            unreachable!("only jobs in memory sit");
        };
        entry.seat = seat;
        let (place, at, lane) = (entry.place(), entry.at(), entry.lane);
        let queue = &mut self.queues[at];
        if entry.is_counted() {
            let stretch = queue.stretch_mut(entry.kind());
            stretch.in_memory += 1;
            stretch.bytes += entry.payload_bytes();
        }
        if let Some(list) = queue.list(entry) {
            let free = list.insert(place);
            assert!(free, "two jobs cannot have one place");
        }
        match seat {
            Seat::Waiting | Seat::Holding => self.set_due_alarm(at),
            Seat::Ready => {
                self.ready_jobs[lane as usize] += 1;
                if lane == Lane::Pull {
                    self.stirred.insert(at);
                }
            }
            Seat::BehindKey | Seat::Parked | Seat::Running => {}
        }
    }

    /// Takes a job out of its seat. It must be given another one, or leave.
    pub(super) fn rise(&mut self, number: JobNumber) {
        let Some(entry) = self.jobs.get(number) else {
            unreachable!("only jobs in memory rise");
        };
        let (place, at) = (entry.place(), entry.at());
        let (seat, lane) = (entry.seat, entry.lane);
        let queue = &mut self.queues[at];
        if entry.is_counted() {
            let stretch = queue.stretch_mut(entry.kind());
            stretch.in_memory -= 1;
            stretch.bytes -= entry.payload_bytes();
        }
        if let Some(list) = queue.list(entry) {
            let there = list.remove(&place);
            assert!(there, "a job sits where it says it does");
        }
        match seat {
            Seat::Waiting | Seat::Holding => self.set_due_alarm(at),
            Seat::BehindKey => self.leave_line(number),
            Seat::Ready => self.ready_jobs[lane as usize] -= 1,
            Seat::Parked | Seat::Running => {}
        }
    }

    fn leave_line(&mut self, number: JobNumber) {
        let Some(entry) = self.jobs.get(number) else { return };
        let Some(key) = entry.job().name.key.clone() else { return };
        let (at, place) = (entry.at(), entry.place());
        if let Some(state) = self.keys.get_mut(&(at, key)) {
            state.behind.remove(&place);
        }
    }

    fn set_due_alarm(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        let next = queue.next_due().map(|place| place.due_at);
        if next == queue.due_alarm {
            return;
        }
        if let Some(old) = queue.due_alarm {
            self.alarms.remove(&(old, Alarm::Due(at)));
        }
        if let Some(new) = next {
            self.alarms.insert((new, Alarm::Due(at)));
        }
        queue.due_alarm = next;
    }

    /// A job that is due takes its turn in its key: it is ready, or behind an earlier one.
    pub(super) fn take_turn(&mut self, number: JobNumber) {
        let Some(entry) = self.jobs.get(number) else { return };
        let (at, place) = (entry.at(), entry.place());
        let Some(key) = entry.job().name.key.clone() else {
            return self.sit(number, Seat::Ready);
        };
        let state = self.keys.entry((at, key)).or_default();
        match state.holder {
            Some(holder) if holder == number => self.sit(number, Seat::Ready),
            None => {
                state.holder = Some(number);
                self.sit(number, Seat::Ready);
            }
            Some(holder) => {
                // One that has been tried and blocks its key is not overtaken, however late its
                // next try is due.
                let ahead = self.jobs.get(holder).is_some_and(|other| {
                    place < other.place()
                        && matches!(other.seat, Seat::Ready | Seat::Parked)
                        && !other.progress.holds_key
                });
                if ahead { self.overtake(number, holder) } else { self.fall_in(number) }
            }
        }
    }

    /// `number` came later but is due earlier than `holder`, which has not started.
    fn overtake(&mut self, number: JobNumber, holder: JobNumber) {
        self.rise(holder);
        self.fall_in(holder);
        let entry = &self.jobs[number];
        if let Some(key) = entry.job().name.key.clone() {
            self.keys.entry((entry.at(), key)).or_default().holder = Some(number);
        }
        self.sit(number, Seat::Ready);
    }

    fn fall_in(&mut self, number: JobNumber) {
        let entry = &self.jobs[number];
        if let Some(key) = entry.job().name.key.clone() {
            let place = entry.place();
            self.keys.entry((entry.at(), key)).or_default().behind.insert(place);
        }
        self.sit(number, Seat::BehindKey);
    }

    /// Makes a job the holder of its key, whatever was before: recovery, and leases.
    pub(super) fn hold_key(&mut self, number: JobNumber) {
        let entry = &self.jobs[number];
        let Some(key) = entry.job().name.key.clone() else { return };
        let state = self.keys.entry((entry.at(), key)).or_default();
        assert!(
            state.holder.is_none() || state.holder == Some(number),
            "a key is held by one job at a time"
        );
        state.holder = Some(number);
    }

    /// A job gives its key up, if it held it: the next in line is ready.
    pub(super) fn release_key(&mut self, number: JobNumber) {
        let Some(entry) = self.jobs.get(number) else { return };
        // One that waits and was never tried has not had its turn.
        let Held::Whole(job) = &entry.held else { return };
        let Some(key) = job.name.key.clone() else { return };
        let at = (entry.at(), key);
        let Some(state) = self.keys.get_mut(&at) else { return };
        if state.holder != Some(number) {
            return;
        }
        state.holder = None;
        let Some(Place { number: next, .. }) = state.behind.pop_first() else {
            self.keys.remove(&at);
            return;
        };
        state.holder = Some(next);
        assert!(self.jobs[next].seat == Seat::BehindKey, "who waits for a key sits behind it");
        self.rise(next);
        self.sit(next, Seat::Ready);
    }
}
