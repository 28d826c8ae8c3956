//! Where the waiting jobs of a queue begin.
//!
//! Rows of jobs that are over stay until their slot is dropped, and whoever asks for the first jobs
//! of a queue walks over all of them. So each commit says from which due time on there is anything
//! to find: its *fronts*. They follow from what was written and read anyway. A batch that adds a
//! job before a front moves it back to that job. It is moved ahead by whoever has read a queue from
//! its beginning and has seen every change since, which is what the owner of a shard does: it knows
//! the waiting jobs up to a place, hence the first of them.
//!
//! A front is never too late. That it may be too early costs a walk, nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hence_core::change::Place;
use hence_core::id::QueueName;
use hence_core::time::Timestamp;

use crate::draft::Draft;
use crate::limits::{FRONT_CHANGES_MAX, FRONT_PLACES_MAX, FRONTS_MAX};
use crate::rows::Stamp;

/// No job of a queue waits before this due time. A queue that is not here can begin anywhere.
pub(crate) type Fronts = BTreeMap<QueueName, Timestamp>;

/// What is known of the waiting jobs of a shard.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// The commit up to which this is true; none while nothing is known.
    last: Option<Stamp>,
    queues: HashMap<QueueName, Known>,
    /// Looks under way, and what was committed since the oldest of them began.
    looks: usize,
    since: Vec<Committed>,
    since_moves: usize,
    /// There were too many of those: the looks under way are in vain.
    missed: bool,
}

/// The waiting jobs of a queue up to a place, without a gap.
#[derive(Debug)]
struct Known {
    through: Place,
    waiting: BTreeSet<Place>,
}

/// What a commit did to places, and which commit was before it.
#[derive(Debug)]
struct Committed {
    before: Stamp,
    stamp: Stamp,
    moves: Moves,
}

/// What becomes of places, in order: the last word about one counts.
#[derive(Clone, Debug)]
pub(crate) struct Moves(Vec<(QueueName, Place, Now)>);

/// Whether a job waits at a place from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Now {
    Waits,
    Not,
}

/// What a look at a queue found.
pub(crate) struct Page<'a> {
    pub(crate) queue: &'a QueueName,
    /// Where it began.
    pub(crate) after: Place,
    /// The waiting jobs that were found, in order.
    pub(crate) places: Vec<Place>,
    /// Whether there may be more.
    pub(crate) more: bool,
}

impl Default for Known {
    fn default() -> Self {
        Known { through: Place::FIRST, waiting: BTreeSet::new() }
    }
}

impl Tracker {
    /// The fronts after a commit, from those of the commit before it.
    pub(crate) fn after(&self, fronts: &Fronts, before: Stamp, moves: &Moves) -> Fronts {
        let mut fronts = fronts.clone();
        for (queue, place, now) in &moves.0 {
            if let (Some(front), Now::Waits) = (fronts.get_mut(queue), now) {
                *front = (*front).min(place.due_at);
            }
        }
        if self.last == Some(before) {
            let touched: BTreeSet<&QueueName> = moves.0.iter().map(|(queue, ..)| queue).collect();
            for queue in touched {
                if let Some(known) = self.queues.get(queue) {
                    let front = known.front_after(queue, moves);
                    if front == Timestamp::MIN {
                        continue;
                    }
                    let old = fronts.entry(queue.clone()).or_insert(front);
                    *old = front.max(*old);
                }
            }
        }
        while fronts.len() > FRONTS_MAX {
            // The one that spares the shortest walk.
            let first = fronts.iter().min_by_key(|(_, front)| **front);
            let Some(queue) = first.map(|(queue, _)| queue.clone()) else { break };
            fronts.remove(&queue);
        }
        fronts
    }

    /// This was committed, right after the commit `before`.
    pub(crate) fn committed(&mut self, before: Stamp, stamp: Stamp, moves: Moves) {
        match self.last {
            Some(last) if last == before => {
                for (queue, place, now) in &moves.0 {
                    if let Some(known) = self.queues.get_mut(queue) {
                        known.change(*place, *now);
                    }
                }
                self.last = Some(stamp);
                self.bound();
            }
            // Somebody else has written.
            Some(_) => self.forget(),
            None => {}
        }
        if self.looks == 0 {
            return;
        }
        self.since_moves += moves.0.len();
        self.since.push(Committed { before, stamp, moves });
        if self.since_moves > FRONT_CHANGES_MAX {
            self.since.clear();
            self.missed = true;
        }
    }

    /// This turned out to be committed already: its answer had got lost.
    pub(crate) fn was_committed(&mut self, stamp: Stamp, moves: Moves) {
        match self.last {
            Some(last) if last >= stamp => {}
            Some(last) if last.0 + 1 == stamp.0 => self.committed(last, stamp, moves),
            _ => {
                self.forget();
                self.missed = self.looks > 0;
            }
        }
    }

    /// A look begins. Each must end.
    pub(crate) fn begin(&mut self) {
        self.looks += 1;
    }

    /// A look ended without a page, or after it was taken.
    pub(crate) fn end(&mut self) {
        self.looks = self.looks.saturating_sub(1);
        if self.looks == 0 {
            self.since.clear();
            self.since_moves = 0;
            self.missed = false;
        }
    }

    /// Takes in what a look found at a moment.
    pub(crate) fn take(&mut self, moment: Stamp, page: Page<'_>) {
        let Some(reached) = self.reached(moment) else { return self.forget() };
        self.last = Some(reached);
        let known = self.queues.entry(page.queue.clone()).or_default();
        if page.after > known.through {
            return;
        }
        let end = page.places.last().filter(|_| page.more).copied().unwrap_or(Place::LAST);
        known.through = known.through.max(end);
        known.waiting.extend(page.places);
        for committed in self.since.iter().filter(|it| it.stamp > moment) {
            for (queue, place, now) in &committed.moves.0 {
                if queue == page.queue {
                    known.change(*place, *now);
                }
            }
        }
        self.bound();
    }

    /// The last commit, if all from this moment on were seen.
    fn reached(&self, moment: Stamp) -> Option<Stamp> {
        if self.missed {
            return None;
        }
        let mut at = moment;
        for committed in self.since.iter().filter(|it| it.stamp > moment) {
            if committed.before != at {
                return None;
            }
            at = committed.stamp;
        }
        self.last.is_none_or(|last| last == at).then_some(at)
    }

    fn forget(&mut self) {
        self.last = None;
        self.queues.clear();
    }

    /// Lets the last places of the longest queue go while there are too many.
    fn bound(&mut self) {
        let mut places: usize = self.queues.values().map(|known| known.waiting.len()).sum();
        while places > FRONT_PLACES_MAX {
            let longest = self.queues.values_mut().max_by_key(|known| known.waiting.len());
            let Some(known) = longest else { return };
            for _ in 0..known.waiting.len().div_ceil(2) {
                known.waiting.pop_last();
                places -= 1;
            }
            known.through = known.waiting.last().copied().unwrap_or(Place::FIRST);
        }
    }
}

impl Known {
    fn change(&mut self, place: Place, now: Now) {
        match now {
            Now::Waits if place <= self.through => {
                self.waiting.insert(place);
            }
            Now::Waits => {}
            Now::Not => {
                self.waiting.remove(&place);
            }
        }
    }

    /// The first due time at which a job waits, or could, after these changes.
    fn front_after(&self, queue: &QueueName, moves: &Moves) -> Timestamp {
        let mine = moves.0.iter().filter(|(it, ..)| it == queue);
        let fate: HashMap<Place, Now> = mine.map(|(_, place, now)| (*place, *now)).collect();
        let stays = |place: &&Place| fate.get(*place) != Some(&Now::Not);
        let there = self.waiting.iter().find(stays).copied();
        let come = fate.iter().filter(|(_, now)| **now == Now::Waits).map(|(place, _)| *place);
        there.into_iter().chain(come).min().unwrap_or(Place::LAST).min(self.through).due_at
    }
}

impl Moves {
    /// What a draft does to places.
    pub(crate) fn of(draft: &Draft) -> Self {
        let left = draft.left.iter().map(|left| (left.queue.clone(), left.place, Now::Not));
        let put = draft.jobs.iter().map(|row| {
            let place = Place { due_at: row.progress.due_at, number: row.job.number };
            (row.job.name.queue.clone(), place, Now::Waits)
        });
        let granted = draft.leases.iter().filter(|lease| lease.grant.is_some());
        let granted = granted.map(|lease| (lease.queue.clone(), lease.place, Now::Not));
        Moves(left.chain(put).chain(granted).collect())
    }
}

#[cfg(test)]
mod tests {
    use hence_core::id::JobNumber;
    use proptest::prelude::*;

    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    fn place(due: i64) -> Place {
        Place { due_at: Timestamp::from_millis(due), number: JobNumber(due.unsigned_abs()) }
    }

    fn moves(rows: &[(i64, Now)]) -> Moves {
        Moves(rows.iter().map(|(due, now)| (queue("q"), place(*due), *now)).collect())
    }

    /// What a look found: when, which places, and whether there may be more.
    type Found = (Stamp, Vec<Place>, bool);

    /// A store with one queue: its commits, what waits, and whoever looks on.
    #[derive(Default)]
    struct World {
        last: i64,
        waiting: BTreeSet<Place>,
        fronts: Fronts,
        tracker: Tracker,
    }

    impl World {
        fn commit(&mut self, rows: &[(i64, Now)]) {
            let (before, moves) = (Stamp(self.last), moves(rows));
            self.last += 1;
            self.fronts = self.tracker.after(&self.fronts, before, &moves);
            self.tracker.committed(before, Stamp(self.last), moves);
            self.apply(rows);
        }

        /// By another process, which knows nothing but the last commit.
        fn commit_elsewhere(&mut self, rows: &[(i64, Now)]) {
            let stranger = Tracker::default();
            self.fronts = stranger.after(&self.fronts, Stamp(self.last), &moves(rows));
            self.last += 1;
            self.apply(rows);
        }

        fn apply(&mut self, rows: &[(i64, Now)]) {
            for (due, now) in rows {
                match now {
                    Now::Waits => self.waiting.insert(place(*due)),
                    Now::Not => self.waiting.remove(&place(*due)),
                };
            }
        }

        /// What a look would find now.
        fn page(&self, after: Place, limit: usize) -> Found {
            let rows = self.waiting.iter().filter(|it| **it > after).take(limit).copied();
            let rows: Vec<Place> = rows.collect();
            let more = rows.len() >= limit;
            (Stamp(self.last), rows, more)
        }

        fn take(&mut self, after: Place, (moment, places, more): Found) {
            let name = queue("q");
            self.tracker.take(moment, Page { queue: &name, after, places, more });
        }

        fn front(&self) -> Option<i64> {
            self.fronts.get(&queue("q")).map(|front| front.as_millis())
        }
    }

    #[test]
    fn who_has_read_a_queue_moves_its_front_ahead() {
        let mut world = World::default();
        world.commit(&[(10, Now::Waits), (20, Now::Waits), (30, Now::Waits)]);
        assert_eq!(world.front(), None, "nothing was read");
        world.tracker.begin();
        let page = world.page(Place::FIRST, 2);
        world.commit(&[(10, Now::Not)]);
        world.take(Place::FIRST, page);
        world.tracker.end();
        assert_eq!(world.front(), None, "the page came after that");
        world.commit(&[(5, Now::Waits), (5, Now::Not)]);
        assert_eq!(world.front(), Some(20));
        world.commit(&[(20, Now::Not)]);
        assert_eq!(world.front(), Some(20), "what is after it was not read");
        world.tracker.begin();
        let page = world.page(place(20), 2);
        world.take(place(20), page);
        world.tracker.end();
        world.commit(&[(50, Now::Waits), (30, Now::Not)]);
        assert_eq!(world.front(), Some(50));
        world.commit(&[(50, Now::Not)]);
        assert_eq!(world.front(), Some(Timestamp::MAX.as_millis()), "it is empty");
        world.commit_elsewhere(&[(40, Now::Waits)]);
        assert_eq!(world.front(), Some(40), "moved back by somebody who has read nothing");
        world.commit(&[(60, Now::Waits)]);
        assert_eq!(world.front(), Some(40), "somebody else has written");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut world = World::default();
        world.tracker.begin();
        let page = world.page(Place::FIRST, 1);
        world.take(Place::FIRST, page);
        world.tracker.end();
        let rows: Vec<_> = (1..=FRONT_PLACES_MAX as i64 + 1).map(|due| (due, Now::Waits)).collect();
        world.commit(&rows);
        let known = &world.tracker.queues[&queue("q")];
        assert!(known.waiting.len() <= FRONT_PLACES_MAX, "{}", known.waiting.len());
        assert_eq!(known.waiting.last(), Some(&known.through));
        world.commit(&[(1, Now::Not)]);
        assert_eq!(world.front(), Some(2));
        let (mut many, mut tracker) = (Fronts::default(), Tracker::default());
        for n in 0..=FRONTS_MAX {
            many.insert(queue(&format!("q{n}")), Timestamp::from_millis(n as i64));
        }
        let kept = tracker.after(&many, Stamp(0), &moves(&[]));
        assert!(kept.len() == FRONTS_MAX && !kept.contains_key(&queue("q0")), "{kept:?}");
        tracker.begin();
        let rows: Vec<_> = (0..=FRONT_CHANGES_MAX as i64).map(|due| (due, Now::Not)).collect();
        tracker.committed(Stamp(0), Stamp(1), moves(&rows));
        assert!(tracker.since.is_empty() && tracker.reached(Stamp(0)).is_none());
        tracker.end();
        assert_eq!(tracker.reached(Stamp(1)), Some(Stamp(1)));
    }

    proptest! {
        /// Whatever is written and read, by whom, and in which order it is heard of: no job waits
        /// before the front.
        #[test]
        fn no_job_waits_before_the_front(steps in prop::collection::vec(
            (0_u8..8, prop::collection::vec((0_i64..40, any::<bool>()), 1..4), 1_usize..6), 1..60,
        )) {
            let mut world = World::default();
            let mut looks: Vec<(Place, Found)> = Vec::new();
            for (what, rows, limit) in steps {
                let now = |waits: &bool| if *waits { Now::Waits } else { Now::Not };
                let moved: Vec<_> = rows.iter().map(|(due, waits)| (*due, now(waits))).collect();
                match what {
                    0 => world.commit_elsewhere(&moved),
                    1 | 2 => {
                        world.tracker.begin();
                        let after = if what == 1 { Place::FIRST } else { place(rows[0].0) };
                        looks.push((after, world.page(after, limit)));
                    }
                    3 if !looks.is_empty() => {
                        let (after, page) = looks.remove(limit % looks.len());
                        world.take(after, page);
                        world.tracker.end();
                    }
                    _ => world.commit(&moved),
                }
                let first = world.waiting.first().map(|place| place.due_at.as_millis());
                if let (Some(front), Some(first)) = (world.front(), first) {
                    prop_assert!(front <= first, "the front is {front}, a job waits at {first}");
                }
            }
        }
    }
}
