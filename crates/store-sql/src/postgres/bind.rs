//! The rows of a draft as statements: one for each table that has rows, their columns as arrays.

use hence_core::change::Place;
use hence_core::id::ScheduleId;
use hence_core::job::{Job, Outcome};
use hence_core::time::Timestamp;
use hence_store::codec;
use tokio_postgres::types::ToSql;

use super::copy::{self, Copied};
use super::letters;
use super::value::{Bound, Element};
use crate::draft::{Attempts, Draft, LeaseRow, Left};
use crate::limits::{COPY_ROWS_MIN, STATEMENT_BYTES_MAX};
use crate::names::name_hash;
use crate::rows::{AttemptRow, FinishedRow, JobRow, number_column, shown, target_text};
use crate::slots::{ELSEWHERE, Layout};

/// A statement and its values. `@` in the text stands for the schema.
pub(super) struct Request<'a> {
    pub(super) sql: &'static str,
    pub(super) values: Vec<Bound<'a>>,
}

/// The first statement of every commit.
pub(super) const FENCE: &str = "SELECT @fence($1, $2, $3, $4, $5, $6)";

const FORGET: &str = "WITH dropped AS (
    DELETE FROM @history h USING unnest($3::bigint[], $4::bigint[], $5::text[], $6::boolean[])
        AS t(number, finished_at, outcome, stays)
    WHERE h.shard = $1 AND h.stamp < $2 AND h.number = t.number
        AND h.finished_at = t.finished_at AND h.outcome = t.outcome
    RETURNING h.*, t.stays)
INSERT INTO @attempts
    (shard, number, stamp, nth, attempt, ended, holder, started_at, ended_at, body)
SELECT shard, number, stamp, last_nth, last_number, last_end, last_holder, last_started_at,
    last_ended_at, last_attempt
FROM dropped WHERE stays AND last_attempt IS NOT NULL";

const DROP_ATTEMPTS: &str =
    "DELETE FROM @attempts WHERE shard = $1 AND stamp < $2 AND number = ANY($3::bigint[])";

const DELETE_JOBS: &str = "DELETE FROM @jobs_0 j
USING unnest($3::text[], $4::bigint[], $5::bigint[]) AS t(queue, due_at, number)
WHERE j.shard = $1 AND j.stamp < $2 AND j.queue = t.queue AND j.due_at = t.due_at
    AND j.number = t.number";

const INSERT_GONE: &str = "INSERT INTO @gone (slot, shard, due_at, number, stamp)
SELECT slot, $1, due_at, number, $2
FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) AS t(slot, due_at, number)";

const INSERT_JOBS: &str = "INSERT INTO @jobs
    (slot, shard, queue, key, id, name_hash, number, due_at, stamp, holds_key, attempts,
     submitted_at, schedule, target, content_type, payload, body)
SELECT slot, $1, queue, key, id, name_hash, number, due_at, $2, holds_key, attempts,
     submitted_at, schedule, target, content_type, payload, body
FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::boolean[], $11::int[], $12::bigint[], $13::text[], $14::text[],
    $15::text[], $16::bytea[], $17::bytea[])
AS t(slot, queue, key, id, name_hash, number, due_at, holds_key, attempts, submitted_at,
    schedule, target, content_type, payload, body)";

const INSERT_HISTORY: &str = "INSERT INTO @history
    (slot, shard, stamp, queue, key, id, name_hash, number, outcome, finished_at, keep_until,
     due_at, attempts, submitted_at, schedule, target, content_type, reason, payload, body,
     last_nth, last_number, last_end, last_holder, last_started_at, last_ended_at, last_attempt)
SELECT slot, $1, $2, queue, key, id, name_hash, number, outcome, finished_at, keep_until,
     due_at, attempts, submitted_at, schedule, target, content_type, reason, payload, body,
     last_nth, last_number, last_end, last_holder, last_started_at, last_ended_at, last_attempt
FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
    $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::int[], $14::bigint[],
    $15::text[], $16::text[], $17::text[], $18::text[], $19::bytea[], $20::bytea[], $21::int[],
    $22::int[], $23::text[], $24::text[], $25::bigint[], $26::bigint[], $27::bytea[])
AS t(slot, queue, key, id, name_hash, number, outcome, finished_at, keep_until, due_at, attempts,
    submitted_at, schedule, target, content_type, reason, payload, body, last_nth, last_number,
    last_end, last_holder, last_started_at, last_ended_at, last_attempt)";

const INSERT_ATTEMPTS: &str = "INSERT INTO @attempts
    (shard, stamp, number, nth, attempt, ended, holder, started_at, ended_at, body)
SELECT $1, $2, number, nth, attempt, ended, holder, started_at, ended_at, body
FROM unnest($3::bigint[], $4::int[], $5::int[], $6::text[], $7::text[], $8::bigint[],
    $9::bigint[], $10::bytea[])
AS t(number, nth, attempt, ended, holder, started_at, ended_at, body)";

const REMOVE_SCHEDULES: &str =
    "DELETE FROM @schedules WHERE shard = $1 AND stamp < $2 AND id = ANY($3::text[])";

const PUT_SCHEDULES: &str = "INSERT INTO @schedules (shard, stamp, id, body, progress)
SELECT $1, $2, id, body, progress
FROM unnest($3::text[], $4::bytea[], $5::bytea[]) AS t(id, body, progress)
ON CONFLICT (shard, id)
DO UPDATE SET stamp = excluded.stamp, body = excluded.body, progress = excluded.progress";

const FORGET_LEDGERS: &str = "DELETE FROM @occurrences o
USING unnest($2::text[], $3::bigint[]) AS t(schedule, before)
WHERE o.shard = $1 AND o.schedule = t.schedule AND (t.before IS NULL OR o.last < t.before)";

const RECORD_OCCURRENCES: &str = "INSERT INTO @occurrences
    (shard, schedule, last, number, first, fate, decided_at, body)
SELECT $1, schedule, last, number, first, fate, decided_at, body
FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[],
    $8::bytea[]) AS t(schedule, last, number, first, fate, decided_at, body)
ON CONFLICT (shard, schedule, last, number) DO UPDATE
SET first = excluded.first, fate = excluded.fate, decided_at = excluded.decided_at,
    body = excluded.body";

const PUT_QUEUES: &str = "INSERT INTO @queues (shard, name, body)
SELECT $1, name, body FROM unnest($2::text[], $3::bytea[]) AS t(name, body)
ON CONFLICT (shard, name) DO UPDATE SET body = excluded.body";

const INSERT_COMMIT: &str = "INSERT INTO @commits
    (era, shard, stamp, next_number, swept_until, count_queue, count_value, advanced_id,
     advanced_value, lease_queue, lease_due_at, lease_number, lease_token, lease_until,
     lease_attempt, lease_holder, lease_granted_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

/// Whether the batch may be written now.
pub(super) fn fence<'a>(draft: &Draft, layout: &Layout) -> Request<'a> {
    let values: Vec<Bound<'a>> = vec![
        Box::new(i32::from(draft.shard.0)),
        Box::new(i64::from(draft.epoch)),
        Box::new(draft.stamp.0),
        Box::new(layout.near_from.as_millis()),
        Box::new(layout.near_until.as_millis()),
        Box::new(layout.era),
    ];
    Request { sql: FENCE, values }
}

/// How rows are sent, of which there may be many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    /// In arrays, whatever their number: a pooler in between may not understand anything else.
    Arrays,
    /// By `COPY`, when they are many.
    Copy,
}

impl Manner {
    fn copies(self, rows: usize) -> bool {
        self == Manner::Copy && rows >= COPY_ROWS_MIN
    }
}

/// The rows that are copied. None of them takes the place of another, so they may come first.
pub(super) fn copies(draft: &Draft, layout: &Layout, manner: Manner) -> Vec<Copied> {
    let mut all = Vec::new();
    if manner.copies(draft.left.len()) {
        all.push(copy::gone(draft, layout));
    }
    if manner.copies(draft.jobs.len()) {
        all.extend(copy::jobs(draft, layout));
    }
    if manner.copies(draft.finished.len()) {
        all.extend(copy::history(draft, layout));
    }
    all
}

/// Everything else that a batch writes, in order: what goes before what comes.
pub(super) fn rows<'a>(
    draft: &'a Draft,
    layout: &Layout,
    swept: Timestamp,
    manner: Manner,
) -> Vec<Request<'a>> {
    let mut requests = Vec::new();
    forgotten(draft, &mut requests);
    left(draft, layout, manner, &mut requests);
    if !manner.copies(draft.jobs.len()) {
        let bytes = |row: &JobRow| row.job.payload.bytes.len();
        requests.extend(portions(&draft.jobs, bytes).map(|rows| jobs(draft, rows, layout)));
    }
    if !manner.copies(draft.finished.len()) {
        let portions = portions(&draft.finished, FinishedRow::bytes);
        requests.extend(portions.map(|rows| history(draft, rows, layout)));
    }
    if !draft.attempts.is_empty() {
        requests.push(attempts(draft));
    }
    schedules(draft, &mut requests);
    if !draft.letters.is_empty() {
        requests.push(letters::take(draft));
    }
    requests.push(commit(&CommitValues {
        era: layout.era,
        shard: draft.shard.0,
        stamp: draft.stamp.0,
        next_number: number_column(draft.next_number),
        swept_until: swept,
        counts: draft.counts.iter().map(|(queue, it)| (queue.as_str(), it.as_slice())).collect(),
        advanced: draft.advanced.iter().map(|(id, it)| (id.as_str(), it.as_slice())).collect(),
        leases: draft.leases.iter().collect(),
    }));
    requests
}

/// The columns of one row of commits.
pub(super) struct CommitValues<'a> {
    pub(super) era: i64,
    pub(super) shard: u16,
    pub(super) stamp: i64,
    pub(super) next_number: i64,
    pub(super) swept_until: Timestamp,
    pub(super) counts: Vec<(&'a str, &'a [u8])>,
    pub(super) advanced: Vec<(&'a str, &'a [u8])>,
    pub(super) leases: Vec<&'a LeaseRow>,
}

/// The row of a commit, or of a fold.
pub(super) fn commit<'a>(row: &CommitValues<'a>) -> Request<'a> {
    let leases = &row.leases;
    let grant = |lease: &&'a LeaseRow| lease.grant.as_ref();
    let values: Vec<Bound<'a>> = vec![
        Box::new(row.era),
        Box::new(i32::from(row.shard)),
        Box::new(row.stamp),
        Box::new(row.next_number),
        Box::new(row.swept_until.as_millis()),
        some(&row.counts, |it| it.0),
        some(&row.counts, |it| it.1),
        some(&row.advanced, |it| it.0),
        some(&row.advanced, |it| it.1),
        some(leases, |it| it.queue.as_str()),
        some(leases, |it| it.place.due_at.as_millis()),
        some(leases, |it| number_column(it.place.number)),
        some(leases, |it| it.token.to_string()),
        some(leases, |it| it.until.as_millis()),
        some(leases, |it| grant(it).map(|grant| grant.attempt as i32)),
        some(leases, |it| grant(it).map(|grant| grant.holder.as_str())),
        some(leases, |it| grant(it).map(|grant| grant.granted_at.as_millis())),
    ];
    Request { sql: INSERT_COMMIT, values }
}

/// The rows in portions that fit into a statement; a row that does not is one of its own.
pub(super) fn portions<T>(rows: &[T], bytes: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut left = rows;
    std::iter::from_fn(move || {
        let mut sum = 0_usize;
        let fits = left.iter().take_while(|row| {
            sum = sum.saturating_add(bytes(row));
            sum <= STATEMENT_BYTES_MAX
        });
        let (portion, rest) = left.split_at(fits.count().max(1).min(left.len()));
        left = rest;
        (!portion.is_empty()).then_some(portion)
    })
}

fn forgotten<'a>(draft: &'a Draft, requests: &mut Vec<Request<'a>>) {
    if !draft.forgotten.is_empty() {
        let all = &draft.forgotten;
        let mut values = begun(draft);
        values.extend([
            column(all, |it| number_column(it.place.number)),
            column(all, |it| it.place.at.as_millis()),
            column(all, |it| it.place.outcome.as_str()),
            column(all, |it| it.attempts == Attempts::Stay),
        ]);
        requests.push(Request { sql: FORGET, values });
    }
    if !draft.attempts_dropped.is_empty() {
        let mut values = begun(draft);
        values.push(column(&draft.attempts_dropped, |it| number_column(*it)));
        requests.push(Request { sql: DROP_ATTEMPTS, values });
    }
}

/// Places that were left: noted in their slot, or removed where rows are removed one by one.
fn left<'a>(draft: &'a Draft, layout: &Layout, manner: Manner, requests: &mut Vec<Request<'a>>) {
    let slot = |place: Place| layout.slot(place.due_at);
    let (elsewhere, near): (Vec<&'a Left>, Vec<&'a Left>) =
        draft.left.iter().partition(|left| slot(left.place) == ELSEWHERE);
    if !elsewhere.is_empty() {
        let mut values = begun(draft);
        values.extend([
            column(elsewhere.iter().copied(), |it| it.queue.as_str()),
            column(elsewhere.iter().copied(), |it| it.place.due_at.as_millis()),
            column(elsewhere.iter().copied(), |it| number_column(it.place.number)),
        ]);
        requests.push(Request { sql: DELETE_JOBS, values });
    }
    if !near.is_empty() && !manner.copies(draft.left.len()) {
        let mut values = begun(draft);
        values.extend([
            column(near.iter().copied(), |it| slot(it.place)),
            column(near.iter().copied(), |it| it.place.due_at.as_millis()),
            column(near.iter().copied(), |it| number_column(it.place.number)),
        ]);
        requests.push(Request { sql: INSERT_GONE, values });
    }
}

fn jobs<'a>(draft: &Draft, all: &'a [JobRow], layout: &Layout) -> Request<'a> {
    let mut values = begun(draft);
    values.push(column(all, |it| layout.slot(it.progress.due_at)));
    values.extend(names(all, |it| &it.job));
    values.extend([
        column(all, |it| it.progress.due_at.as_millis()),
        column(all, |it| it.progress.holds_key),
        column(all, |it| it.progress.attempts as i32),
    ]);
    values.extend(origins(all, |it| &it.job));
    values.extend([column(all, |it| it.job.payload.bytes.as_ref()), column(all, JobRow::body)]);
    Request { sql: INSERT_JOBS, values }
}

/// Where a finished job lies. Dead ones are counted when they go, so they go one by one.
pub(super) fn history_slot(row: &FinishedRow, layout: &Layout) -> i64 {
    match row.finish.outcome {
        Outcome::Dead => ELSEWHERE,
        Outcome::Succeeded | Outcome::Cancelled | Outcome::Expired => {
            layout.slot(row.finish.keep_until)
        }
    }
}

fn history<'a>(draft: &Draft, all: &'a [FinishedRow], layout: &Layout) -> Request<'a> {
    let last = |it: &'a FinishedRow| it.last.as_ref();
    let mut values = begun(draft);
    values.push(column(all, |it| history_slot(it, layout)));
    values.extend(names(all, |it| &it.job));
    values.extend([
        column(all, |it| it.finish.outcome.as_str()),
        column(all, |it| it.finish.at.as_millis()),
        column(all, |it| it.finish.keep_until.as_millis()),
        column(all, |it| it.progress.due_at.as_millis()),
        column(all, |it| it.progress.attempts as i32),
    ]);
    values.extend(origins(all, |it| &it.job));
    values.extend([
        column(all, |it| it.finish.reason.as_deref().map(shown)),
        column(all, FinishedRow::payload),
        column(all, FinishedRow::body),
        column(all, move |it| last(it).map(|last| last.nth)),
        column(all, move |it| last(it).map(|last| last.record.attempt as i32)),
        column(all, move |it| last(it).map(|last| last.record.end.as_str())),
        column(all, move |it| last(it).map(|last| last.record.holder.as_str())),
        column(all, move |it| last(it).map(|last| last.record.started_at.as_millis())),
        column(all, move |it| last(it).map(|last| last.record.ended_at.as_millis())),
        column(all, move |it| last(it).map(AttemptRow::body)),
    ]);
    Request { sql: INSERT_HISTORY, values }
}

fn attempts(draft: &Draft) -> Request<'_> {
    let all = &draft.attempts;
    let mut values = begun(draft);
    values.extend([
        column(all, |it| number_column(it.number)),
        column(all, |it| it.nth),
        column(all, |it| it.record.attempt as i32),
        column(all, |it| it.record.end.as_str()),
        column(all, |it| it.record.holder.as_str()),
        column(all, |it| it.record.started_at.as_millis()),
        column(all, |it| it.record.ended_at.as_millis()),
        column(all, AttemptRow::body),
    ]);
    Request { sql: INSERT_ATTEMPTS, values }
}

fn schedules<'a>(draft: &'a Draft, requests: &mut Vec<Request<'a>>) {
    let shard = || -> Bound<'a> { Box::new(i32::from(draft.shard.0)) };
    if !draft.schedules_removed.is_empty() {
        let mut values = begun(draft);
        values.push(column(&draft.schedules_removed, ScheduleId::as_str));
        requests.push(Request { sql: REMOVE_SCHEDULES, values });
    }
    if !draft.schedules_put.is_empty() {
        let all = &draft.schedules_put;
        let mut values = begun(draft);
        values.extend([
            column(all, |it| it.id.as_str()),
            column(all, |it| it.body.as_slice()),
            column(all, |it| it.progress.as_slice()),
        ]);
        requests.push(Request { sql: PUT_SCHEDULES, values });
    }
    if !draft.ledgers_forgotten.is_empty() {
        let all = &draft.ledgers_forgotten;
        let schedules = column(all, |it| it.0.as_str());
        let before = column(all, |it| it.1.map(Timestamp::as_millis));
        requests.push(Request { sql: FORGET_LEDGERS, values: vec![shard(), schedules, before] });
    }
    if !draft.occurrences.is_empty() {
        let all = &draft.occurrences;
        let values = vec![
            shard(),
            column(all, |it| it.schedule.as_str()),
            column(all, |it| it.last.as_millis()),
            column(all, |it| number_column(it.place().number)),
            column(all, |it| it.first.as_millis()),
            column(all, |it| it.fate.as_str()),
            column(all, |it| it.decided_at.as_millis()),
            column(all, |it| encoded(|out| codec::encode_occurrence(it, out))),
        ];
        requests.push(Request { sql: RECORD_OCCURRENCES, values });
    }
    if !draft.queues.is_empty() {
        let all = &draft.queues;
        let names = column(all, |it| it.0.as_str());
        let bodies = column(all, |it| encoded(|out| codec::encode_queue(&it.1, out)));
        requests.push(Request { sql: PUT_QUEUES, values: vec![shard(), names, bodies] });
    }
}

/// Shard and stamp, the first two values of most statements.
fn begun<'a>(draft: &Draft) -> Vec<Bound<'a>> {
    vec![Box::new(i32::from(draft.shard.0)), Box::new(draft.stamp.0)]
}

/// Queue, key, id, their hash, and the number.
fn names<'a, T>(all: &'a [T], job: impl Fn(&'a T) -> &'a Job) -> [Bound<'a>; 5] {
    [
        column(all, |it| job(it).name.queue.as_str()),
        column(all, |it| job(it).name.key.as_ref().map(hence_core::id::Key::as_str)),
        column(all, |it| job(it).name.id.as_str()),
        column(all, |it| name_hash(&job(it).name)),
        column(all, |it| number_column(job(it).number)),
    ]
}

/// When it was submitted, by which schedule, for whom, and of what type.
fn origins<'a, T>(all: &'a [T], job: impl Fn(&'a T) -> &'a Job) -> [Bound<'a>; 4] {
    [
        column(all, |it| job(it).submitted_at.as_millis()),
        column(all, |it| job(it).occurrence.as_ref().map(|tick| tick.schedule.as_str())),
        column(all, |it| target_text(&job(it).target)),
        column(all, |it| job(it).payload.content_type.as_deref().map(shown)),
    ]
}

fn column<'a, T, V>(all: impl IntoIterator<Item = T>, value: impl Fn(T) -> V) -> Bound<'a>
where
    V: ToSql + Element + Sync + Send + 'a,
{
    Box::new(all.into_iter().map(value).collect::<Vec<V>>())
}

/// The same for a list that is nearly always empty: then there is no array at all.
fn some<'a, T, V>(all: &[T], value: impl Fn(&T) -> V) -> Bound<'a>
where
    V: ToSql + Element + Sync + Send + 'a,
{
    Box::new((!all.is_empty()).then(|| all.iter().map(value).collect::<Vec<V>>()))
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sent_in_portions() {
        let max = STATEMENT_BYTES_MAX;
        let rows: [(&[usize], &[usize]); 6] = [
            (&[], &[]),
            (&[1, 2, 3], &[3]),
            (&[max], &[1]),
            (&[max, 0, 1], &[2, 1]),
            (&[max + 1, 1], &[1, 1]),
            (&[max / 2, max / 2, max / 2], &[2, 1]),
        ];
        for (bytes, expected) in rows {
            let found: Vec<usize> = portions(bytes, |row| *row).map(<[usize]>::len).collect();
            assert_eq!(found, expected, "{bytes:?}");
        }
    }
}
