//! What only the engine itself can show: limits that are reached with a few jobs, and what is left
//! of a sweep after the process.

use std::path::Path;
use std::sync::Arc;

use hence_core::change::{Change, LeaseGrant, Place};
use hence_core::id::{
    Epoch, JobId, JobName, JobNumber, QueueName, ScheduleId, ShardId, Token, WorkerName,
};
use hence_core::job::{
    AttemptEnd, AttemptRecord, Finish, Job, JobSpec, JobState, Outcome, Progress, Target,
};
use hence_core::queue::Counts;
use hence_core::time::Timestamp;
use hence_store::{Filter, ListRequest, ShardBatch, StoredJob};

use crate::engine::Engine;
use crate::keys;
use crate::kv::fake_disk::FakeDisk;
use crate::kv::{Background, Options};
use crate::read::each_with_prefix;

const SHARD: ShardId = ShardId(0);

/// An engine and whoever owns its shard.
struct Owned {
    engine: Engine,
    epoch: Epoch,
    sequence: u64,
}

impl Owned {
    fn open(disk: &FakeDisk) -> Self {
        let options = Options {
            segment_bytes: 64 * 1024,
            memtable_bytes: 64 * 1024,
            background: Background::Inline,
            ..Options::new(*b"0123456789abcdef")
        };
        let disk = Arc::new(disk.clone());
        let (engine, _) = Engine::open(Path::new("/data"), 1, options, disk).expect("opens");
        let epoch = engine.acquire(SHARD, "node".to_owned()).expect("acquired");
        Owned { engine, epoch, sequence: 0 }
    }

    fn commit(&mut self, changes: Vec<Change>) {
        self.commit_counted(changes, Vec::new());
    }

    fn commit_counted(&mut self, changes: Vec<Change>, counts: Vec<(QueueName, Counts)>) {
        self.sequence += 1;
        let batch = ShardBatch {
            shard: SHARD,
            epoch: self.epoch,
            sequence: self.sequence,
            changes: Arc::new(changes),
            counts,
            next_number: JobNumber(1_000),
        };
        self.engine.commit(vec![batch]).expect("committed");
    }

    /// The numbers of all jobs in this state, as they are at an instant.
    fn listed(&self, state: JobState, now: Timestamp) -> Vec<u64> {
        let filter = Filter { states: vec![state], ..Filter::default() };
        let request = ListRequest { filter, after: None, limit: 100, now };
        let page = self.engine.list(SHARD, &request).expect("listed");
        page.jobs.iter().map(number_of).collect()
    }

    fn is_found(&self, number: u64, now: Timestamp) -> bool {
        let found = self.engine.get(SHARD, &[job(number).name.clone()], now).expect("got");
        found[0].is_some()
    }

    fn attempts(&self, number: u64) -> usize {
        let name = &job(number).name;
        self.engine.attempts(SHARD, name, JobNumber(number)).expect("attempts").len()
    }

    /// How many dead jobs went.
    fn sweep(&self, now: Timestamp) -> u64 {
        let swept = self.engine.sweep(SHARD, now, 100).expect("swept");
        swept.iter().map(|(_, dead)| dead).sum()
    }

    /// Dead jobs, as a new owner would count on.
    fn dead(&self) -> u64 {
        let recovered = self.engine.recover(SHARD).expect("recovered");
        recovered.counts.iter().map(|(_, counts)| counts.dead).sum()
    }

    /// Entries of jobs, names and attempts on the disk, once everything is merged.
    fn entries(&self) -> usize {
        self.engine.kv.compact().expect("merged");
        let mut entries = 0;
        for kind in [keys::FINISHED, keys::NAME, keys::KEPT_ATTEMPT, keys::DEAD] {
            let prefix = keys::prefix(kind, SHARD);
            let counted = each_with_prefix(&self.engine.kv, &prefix, |_, _| {
                entries += 1;
                Ok(())
            });
            counted.expect("read");
        }
        entries
    }

    /// The numbers on each page, of five rows for which ten jobs are looked at.
    fn pages(&self, filter: &Filter) -> Vec<Vec<u64>> {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let filter = filter.clone();
            let request = ListRequest { filter, after: after.clone(), limit: 5, now: at(0) };
            let page = self.engine.list_within(SHARD, &request, 10).expect("listed");
            pages.push(page.jobs.iter().map(number_of).collect());
            assert!(page.next.is_none() || page.next > after, "a page goes nowhere");
            after = page.next;
            if after.is_none() {
                return pages;
            }
        }
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_789_000_000_000 + millis)
}

fn queue() -> QueueName {
    QueueName::new("mail").expect("a good name")
}

fn number_of(stored: &StoredJob) -> u64 {
    stored.job().number.0
}

fn job(number: u64) -> Arc<Job> {
    let id = JobId::new(&format!("job-{number}")).expect("a good id");
    let name = JobName { queue: queue(), key: None, id };
    let spec = JobSpec::new(Target::Worker);
    Arc::new(spec.job(JobNumber(number), name, at(0), at(number as i64)))
}

fn put(number: u64) -> Change {
    let job = job(number);
    let progress = Progress::fresh(job.scheduled_for);
    Change::JobPut { job, progress, replaces: None, revives: None }
}

fn leased(number: u64) -> Change {
    let place = Place { due_at: at(number as i64), number: JobNumber(number) };
    let lease = LeaseGrant { queue: queue(), place, attempt: 1, until: at(9_000) };
    Change::LeasesGranted {
        first_token: Token { shard: SHARD, epoch: Epoch(1), counter: number },
        holder: WorkerName::new("worker").expect("a good name"),
        at: at(50),
        leases: vec![lease],
    }
}

fn attempt(number: u64) -> AttemptRecord {
    AttemptRecord {
        attempt: 1,
        token: Token { shard: SHARD, epoch: Epoch(1), counter: number },
        holder: WorkerName::new("worker").expect("a good name"),
        started_at: at(10),
        ended_at: at(20),
        end: AttemptEnd::Failed,
        reason: None,
    }
}

/// Tried once in vain, and due at once again.
fn retried(number: u64) -> Change {
    let (job, from) = (job(number), at(number as i64));
    let progress = Progress { due_at: from, attempts: 1, crashes: 0, holds_key: false };
    Change::JobMoved { job, from, progress, ended: Some(Box::new(attempt(number))) }
}

/// Ends at 50, to be kept until 200.
fn finished(number: u64, outcome: Outcome) -> Change {
    let keep_until = at(200);
    let finish = Finish { outcome, at: at(50), reason: None, result: None, keep_until };
    Change::JobFinished {
        job: job(number),
        progress: Progress::fresh(at(number as i64)),
        finish: Box::new(finish),
        ended: Some(Box::new(attempt(number))),
        keep_payload: true,
    }
}

#[test]
fn what_ends_after_a_clock_ran_ahead_and_was_set_right_is_kept_for_its_time() {
    for (outcome, dead) in [(Outcome::Succeeded, 0), (Outcome::Dead, 1)] {
        let disk = FakeDisk::new();
        let mut owned = Owned::open(&disk);
        owned.commit(vec![put(1)]);
        owned.sweep(at(7_200_000));
        owned.commit(vec![retried(1)]);
        owned.commit(vec![finished(1, outcome)]);
        for when in ["at once", "merged", "opened again"] {
            match when {
                "merged" => owned.engine.kv.compact().expect("merged"),
                "opened again" => {
                    drop(owned);
                    owned = Owned::open(&disk);
                }
                _ => {}
            }
            let what = format!("{outcome:?}, {when}");
            assert!(owned.is_found(1, at(199)) && !owned.is_found(1, at(200)), "{what}");
            assert_eq!(owned.listed(outcome.state(), at(199)), [1], "{what}");
            assert_eq!(owned.listed(outcome.state(), at(200)), [0_u64; 0], "{what}");
            assert_eq!(owned.attempts(1), 2, "{what}");
            assert_eq!(owned.sweep(at(199)), 0, "{what}: not yet");
        }
        assert_eq!(owned.sweep(at(200)), dead, "{outcome:?}");
        assert_eq!(owned.sweep(at(7_400_000)), 0, "{outcome:?}: once");
        assert_eq!(owned.entries(), 0, "{outcome:?}: nothing is left for ever");
    }
}

#[test]
fn dead_jobs_that_were_swept_are_not_counted_after_a_crash() {
    let disk = FakeDisk::new();
    let mut owned = Owned::open(&disk);
    owned.commit((1..=3).map(put).collect());
    let counts = |dead| vec![(queue(), Counts { dead, pending: 7, ..Counts::default() })];
    owned.commit_counted((1..=2).map(|n| finished(n, Outcome::Dead)).collect(), counts(2));
    assert_eq!((owned.sweep(at(200)), owned.dead()), (2, 0));
    drop(owned);
    let mut owned = Owned::open(&disk);
    assert_eq!(owned.listed(JobState::Dead, at(100)), [0_u64; 0]);
    assert_eq!(owned.dead(), 0, "counted as they are listed");
    // Counts that the owner says are whole: nothing is taken from them again.
    owned.commit_counted(vec![finished(3, Outcome::Dead)], counts(1));
    drop(owned);
    let owned = Owned::open(&disk);
    assert_eq!(owned.listed(JobState::Dead, at(100)), [3]);
    let recovered = owned.engine.recover(SHARD).expect("recovered").counts;
    assert_eq!(recovered, counts(1), "and the others are as they were");
}

#[test]
fn a_sweep_by_a_clock_that_ran_ahead_makes_no_job_ready() {
    let mut owned = Owned::open(&FakeDisk::new());
    owned.commit(vec![put(1)]);
    owned.sweep(at(7_200_000));
    assert_eq!(owned.listed(JobState::Scheduled, at(0)), [1]);
    assert_eq!(owned.listed(JobState::Ready, at(0)), [0_u64; 0]);
}

#[test]
fn a_page_ends_when_it_has_looked_at_much_and_the_next_goes_on() {
    let mut owned = Owned::open(&FakeDisk::new());
    owned.commit((1..=35).map(put).collect());
    owned.commit([3, 4, 25, 35].map(leased).into());
    let ids = |schedule: &str| ScheduleId::new(schedule).expect("a good id");
    let states = |states: &[JobState]| Filter { states: states.to_vec(), ..Filter::default() };
    let rows: [(&str, Filter, &[&[u64]]); 3] = [
        // A state that nothing is in goes along, so that leases alone do not answer.
        ("few", states(&[JobState::Running, JobState::Ready]), &[&[3, 4], &[], &[25], &[35]]),
        ("none", Filter { schedule: Some(ids("s")), ..Filter::default() }, &[&[], &[], &[], &[]]),
        (
            "all",
            Filter::default(),
            &[
                &[1, 2, 3, 4, 5],
                &[6, 7, 8, 9, 10],
                &[11, 12, 13, 14, 15],
                &[16, 17, 18, 19, 20],
                &[21, 22, 23, 24, 25],
                &[26, 27, 28, 29, 30],
                &[31, 32, 33, 34, 35],
            ],
        ),
    ];
    for (what, filter, expected) in rows {
        assert_eq!(owned.pages(&filter), expected, "{what}");
    }
}

#[test]
fn running_jobs_are_found_without_looking_at_the_others() {
    let mut owned = Owned::open(&FakeDisk::new());
    owned.commit((1..=100).map(put).collect());
    owned.commit([99, 7, 50, 80, 81, 82].map(leased).into());
    let filter = Filter { states: vec![JobState::Running], ..Filter::default() };
    assert_eq!(owned.pages(&filter), [&[7, 50, 80, 81, 82][..], &[99]]);
    let filter = Filter { from: Some(at(80)), until: Some(at(82)), ..filter };
    assert_eq!(owned.pages(&filter), [[80, 81]]);
    let other = Some(QueueName::new("other").expect("a good name"));
    assert_eq!(owned.pages(&Filter { queue: other, ..filter }), [[0_u64; 0]]);
}
