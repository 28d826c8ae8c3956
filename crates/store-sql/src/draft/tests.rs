//! What a batch comes to, row by row.

use hence_core::id::Epoch;
use hence_core::job::{AttemptEnd, Outcome};
use hence_core::ledger::Fate;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn place(due: i64, number: u64) -> Place {
    Place { due_at: at(due), number: JobNumber(number) }
}

fn job(number: u64) -> Arc<Job> {
    let job = crate::rows::tests::job();
    Arc::new(Job { number: JobNumber(number), scheduled_for: at(0), ..job })
}

fn put(due: i64, number: u64, replaces: Option<Place>, revives: Option<FinishedPlace>) -> Change {
    Change::JobPut { job: job(number), progress: Progress::fresh(at(due)), replaces, revives }
}

fn moved(from: i64, to: i64, number: u64) -> Change {
    let ended = Some(Box::new(attempt(1)));
    Change::JobMoved { job: job(number), from: at(from), progress: Progress::fresh(at(to)), ended }
}

fn attempt(attempt: u32) -> AttemptRecord {
    AttemptRecord {
        attempt,
        token: token(1),
        holder: WorkerName::new("w").unwrap(),
        started_at: at(0),
        ended_at: at(1),
        end: AttemptEnd::Failed,
        reason: None,
    }
}

fn token(counter: u64) -> Token {
    Token { shard: ShardId(0), epoch: Epoch(1), counter }
}

fn granted(due: i64, number: u64, counter: u64) -> Change {
    let grant = LeaseGrant {
        queue: QueueName::default_queue(),
        place: place(due, number),
        attempt: 1,
        until: at(100),
    };
    let (first_token, holder) = (token(counter), WorkerName::new("w").unwrap());
    Change::LeasesGranted { first_token, holder, at: at(0), leases: vec![grant] }
}

fn extended(due: i64, number: u64, counter: u64, until: i64) -> Change {
    Change::LeaseExtended {
        queue: QueueName::default_queue(),
        place: place(due, number),
        token: token(counter),
        until: at(until),
    }
}

fn finished(due: i64, number: u64, keep_until: i64) -> Change {
    let finish = Finish {
        outcome: Outcome::Dead,
        at: at(50),
        reason: None,
        result: None,
        keep_until: at(keep_until),
    };
    Change::JobFinished {
        job: job(number),
        progress: Progress::fresh(at(due)),
        finish: Box::new(finish),
        ended: Some(Box::new(attempt(2))),
        keep_payload: false,
    }
}

fn dead(number: u64) -> FinishedPlace {
    FinishedPlace { outcome: Outcome::Dead, at: at(50), number: JobNumber(number) }
}

fn draft(changes: Vec<Change>) -> Draft {
    let batch = ShardBatch {
        shard: ShardId(0),
        epoch: Epoch(1),
        sequence: 1,
        changes: Arc::new(changes),
        counts: Vec::new(),
        next_number: JobNumber(9),
    };
    Draft::of(&batch).unwrap()
}

/// What a batch comes to for places: those left, those stood at, those leased.
type Places = (Vec<Place>, Vec<Place>, Vec<Place>);

fn places(changes: Vec<Change>) -> Places {
    let draft = draft(changes);
    (
        draft.left.iter().map(|left| left.place).collect(),
        draft.jobs.iter().map(JobRow::place).collect(),
        draft.leases.iter().map(|lease| lease.place).collect(),
    )
}

#[test]
fn places_are_left_and_taken_once() {
    let p = place;
    let rows: [(&str, Vec<Change>, Places); 12] = [
        ("put", vec![put(5, 1, None, None)], (vec![], vec![p(5, 1)], vec![])),
        (
            "put and finished",
            vec![put(5, 1, None, None), finished(5, 1, 99)],
            (vec![], vec![], vec![]),
        ),
        ("finished", vec![finished(5, 1, 99)], (vec![p(5, 1)], vec![], vec![])),
        ("moved", vec![moved(5, 7, 1)], (vec![p(5, 1)], vec![p(7, 1)], vec![])),
        ("moved to where it is", vec![moved(5, 5, 1)], (vec![p(5, 1)], vec![p(5, 1)], vec![])),
        (
            "moved there and back",
            vec![moved(5, 7, 1), moved(7, 5, 1)],
            (vec![p(5, 1)], vec![p(5, 1)], vec![]),
        ),
        (
            "put, moved, finished",
            vec![put(5, 1, None, None), moved(5, 7, 1), finished(7, 1, 99)],
            (vec![], vec![], vec![]),
        ),
        ("granted", vec![granted(5, 1, 1)], (vec![], vec![], vec![p(5, 1)])),
        (
            "granted and moved",
            vec![granted(5, 1, 1), moved(5, 5, 1)],
            (vec![p(5, 1)], vec![p(5, 1)], vec![]),
        ),
        (
            "moved and granted",
            vec![moved(5, 5, 1), granted(5, 1, 1)],
            (vec![p(5, 1)], vec![p(5, 1)], vec![p(5, 1)]),
        ),
        ("replaced", vec![put(7, 2, Some(p(5, 1)), None)], (vec![p(5, 1)], vec![p(7, 2)], vec![])),
        (
            "put and replaced",
            vec![put(5, 1, None, None), put(7, 2, Some(p(5, 1)), None)],
            (vec![], vec![p(7, 2)], vec![]),
        ),
    ];
    for (what, changes, expected) in rows {
        assert_eq!(places(changes), expected, "{what}");
    }
}

#[test]
fn a_lease_that_is_extended_at_once_is_one_row() {
    let lease = |changes| draft(changes).leases.pop().unwrap();
    let both = lease(vec![granted(5, 1, 1), extended(5, 1, 1, 200)]);
    assert_eq!((both.until, both.grant.is_some()), (at(200), true));
    let alone = lease(vec![extended(5, 1, 1, 150), extended(5, 1, 1, 200)]);
    assert_eq!((alone.until, alone.grant), (at(200), None));
    let other = lease(vec![granted(5, 1, 2), extended(5, 1, 1, 200)]);
    assert_eq!(other.until, at(100), "a lease that was lost is not extended");
}

#[test]
fn the_last_attempt_lies_with_the_finished_job() {
    let draft = draft(vec![put(5, 1, None, None), moved(5, 7, 1), finished(7, 1, 99)]);
    assert_eq!(draft.attempts.iter().map(|it| it.nth).collect::<Vec<_>>(), [1]);
    assert_eq!(draft.finished[0].last.as_ref().map(|it| it.nth), Some(2));
    assert_eq!(draft.attempts_dropped, []);
}

#[test]
fn nothing_is_kept_of_a_job_that_is_kept_for_no_time() {
    let draft = draft(vec![moved(5, 7, 1), finished(7, 1, 50)]);
    assert_eq!((draft.finished.len(), draft.attempts.len()), (0, 0));
    assert_eq!(draft.attempts_dropped, [JobNumber(1)]);
}

#[test]
fn a_finished_job_that_is_revived_takes_its_attempts_along() {
    let rows = [
        ("of before", vec![put(9, 1, None, Some(dead(1)))], 1, 0, 0),
        ("of before, anew", vec![put(9, 2, None, Some(dead(1)))], 1, 0, 1),
        ("of now", vec![finished(5, 1, 99), put(9, 1, None, Some(dead(1)))], 0, 1, 0),
        ("of now, anew", vec![finished(5, 1, 99), put(9, 2, None, Some(dead(1)))], 0, 0, 1),
    ];
    for (what, changes, forgotten, attempts, dropped) in rows {
        let draft = draft(changes);
        assert_eq!(draft.finished.len(), 0, "{what}");
        assert_eq!(draft.forgotten.len(), forgotten, "{what}");
        assert_eq!(draft.attempts.len(), attempts, "{what}");
        assert_eq!(draft.attempts_dropped.len(), dropped, "{what}");
    }
    let stays = draft(vec![put(9, 1, None, Some(dead(1)))]).forgotten[0].attempts;
    let goes = draft(vec![put(9, 2, None, Some(dead(1)))]).forgotten[0].attempts;
    assert_eq!((stays, goes), (Attempts::Stay, Attempts::Go));
}

#[test]
fn a_ledger_is_forgotten_as_far_as_any_fact_says() {
    let schedule = ScheduleId::new("s").unwrap();
    let forget =
        |before| Change::LedgerForgotten { schedule: schedule.clone(), before: at(before) };
    let record = |last| {
        let fate = Fate::Coalesced;
        let (schedule, last) = (schedule.clone(), at(last));
        let (first, decided_at) = (last, last);
        let record = OccurrenceRecord { schedule, first, last, count: 1, decided_at, fate };
        Change::OccurrenceRecorded { record }
    };
    let lasts = |draft: &Draft| -> Vec<i64> {
        draft.occurrences.iter().map(|it| it.last.as_millis()).collect()
    };
    let some = draft(vec![record(1), record(3), forget(3), record(2), forget(1)]);
    assert_eq!(lasts(&some), [2, 3], "and what was recorded after that is not");
    assert_eq!(some.ledgers_forgotten, [(schedule.clone(), Some(at(3)))]);
    let removed = Change::ScheduleRemoved { id: schedule.clone() };
    let all = draft(vec![record(9), removed, forget(1), record(8)]);
    assert_eq!(lasts(&all), [8]);
    assert_eq!(all.ledgers_forgotten, [(schedule.clone(), None)]);
    assert_eq!(all.schedules_removed, [schedule]);
}

#[test]
fn a_stamp_that_does_not_fit_is_refused() {
    let batch = ShardBatch {
        shard: ShardId(0),
        epoch: Epoch(u32::MAX),
        sequence: 1,
        changes: Arc::new(Vec::new()),
        counts: Vec::new(),
        next_number: JobNumber(1),
    };
    assert!(Draft::of(&batch).is_err());
}
