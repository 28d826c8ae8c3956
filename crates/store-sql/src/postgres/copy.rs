//! Many rows at once, as `COPY` reads them. An `INSERT` from arrays costs the server half as much
//! again for each row; `COPY` costs a round trip more, so a few rows are not worth it.

use bytes::Bytes;
use hence_core::job::Job;

use super::bind::{history_slot, portions};
use crate::draft::{Draft, Left};
use crate::names::name_hash;
use crate::rows::{FinishedRow, JobRow, number_column, shown, target_text};
use crate::slots::{ELSEWHERE, Layout};

/// Rows of one table. `@` in the text stands for the schema.
pub(super) struct Copied {
    pub(super) sql: &'static str,
    pub(super) rows: Bytes,
}

const JOBS: &str =
    "COPY @jobs (slot, shard, stamp, queue, key, id, name_hash, number, submitted_at,
    schedule, target, content_type, due_at, holds_key, attempts, payload, body)
FROM STDIN (FORMAT binary)";
const JOB_COLUMNS: i16 = 17;

const GONE: &str = "COPY @gone (slot, shard, stamp, due_at, number) FROM STDIN (FORMAT binary)";
const GONE_COLUMNS: i16 = 5;

const HISTORY: &str = "COPY @history (slot, shard, stamp, queue, key, id, name_hash, number,
    submitted_at, schedule, target, content_type, outcome, finished_at, keep_until, due_at,
    attempts, reason, payload, body, last_nth, last_number, last_end, last_holder,
    last_started_at, last_ended_at, last_attempt)
FROM STDIN (FORMAT binary)";
const HISTORY_COLUMNS: i16 = 27;

/// Live jobs.
pub(super) fn jobs<'a>(
    draft: &'a Draft,
    layout: &'a Layout,
) -> impl Iterator<Item = Copied> + use<'a> {
    let bytes = |row: &JobRow| row.job.payload.bytes.len();
    portions(&draft.jobs, bytes).map(|portion| {
        let mut rows = Rows::new(draft);
        for row in portion {
            rows.begin(JOB_COLUMNS, layout.slot(row.progress.due_at));
            rows.origin(&row.job);
            rows.long(row.progress.due_at.as_millis());
            rows.field(|out| out.push(u8::from(row.progress.holds_key)));
            rows.int(row.progress.attempts as i32);
            rows.bytes(&row.job.payload.bytes);
            rows.field(|out| row.encode_body(out));
        }
        rows.copied(JOBS)
    })
}

/// Places that were left, but for those that are deleted.
pub(super) fn gone(draft: &Draft, layout: &Layout) -> Copied {
    let mut rows = Rows::new(draft);
    for Left { place, .. } in &draft.left {
        let slot = layout.slot(place.due_at);
        if slot != ELSEWHERE {
            rows.begin(GONE_COLUMNS, slot);
            rows.long(place.due_at.as_millis());
            rows.long(number_column(place.number));
        }
    }
    rows.copied(GONE)
}

/// Finished jobs.
pub(super) fn history<'a>(
    draft: &'a Draft,
    layout: &'a Layout,
) -> impl Iterator<Item = Copied> + use<'a> {
    portions(&draft.finished, FinishedRow::bytes).map(|portion| {
        let mut rows = Rows::new(draft);
        for row in portion {
            rows.begin(HISTORY_COLUMNS, history_slot(row, layout));
            rows.origin(&row.job);
            rows.text(row.finish.outcome.as_str());
            rows.long(row.finish.at.as_millis());
            rows.long(row.finish.keep_until.as_millis());
            rows.long(row.progress.due_at.as_millis());
            rows.int(row.progress.attempts as i32);
            rows.or_null(row.finish.reason.as_deref(), |rows, it| rows.text(&shown(it)));
            rows.or_null(row.payload(), Rows::bytes);
            rows.field(|out| row.encode_body(out));
            let last = row.last.as_ref();
            rows.or_null(last, |rows, it| rows.int(it.nth));
            rows.or_null(last, |rows, it| rows.int(it.record.attempt as i32));
            rows.or_null(last, |rows, it| rows.text(it.record.end.as_str()));
            rows.or_null(last, |rows, it| rows.text(it.record.holder.as_str()));
            rows.or_null(last, |rows, it| rows.long(it.record.started_at.as_millis()));
            rows.or_null(last, |rows, it| rows.long(it.record.ended_at.as_millis()));
            rows.or_null(last, |rows, it| rows.field(|out| it.encode_body(out)));
        }
        rows.copied(HISTORY)
    })
}

/// What every file of rows begins with: a signature, no flags, no further head.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Rows that are being written.
struct Rows {
    shard: i32,
    stamp: i64,
    out: Vec<u8>,
}

impl Rows {
    fn new(draft: &Draft) -> Self {
        let (shard, stamp) = (i32::from(draft.shard.0), draft.stamp.0);
        Rows { shard, stamp, out: HEAD.to_vec() }
    }

    /// A row of so many columns: slot, shard and stamp are the first.
    fn begin(&mut self, columns: i16, slot: i64) {
        self.out.extend(columns.to_be_bytes());
        self.long(slot);
        self.int(self.shard);
        self.long(self.stamp);
    }

    /// How a job is named, and where it came from.
    fn origin(&mut self, job: &Job) {
        self.text(job.name.queue.as_str());
        self.or_null(job.name.key.as_ref(), |rows, key| rows.text(key.as_str()));
        self.text(job.name.id.as_str());
        self.long(name_hash(&job.name));
        self.long(number_column(job.number));
        self.long(job.submitted_at.as_millis());
        self.or_null(job.occurrence.as_ref(), |rows, tick| rows.text(tick.schedule.as_str()));
        self.text(&target_text(&job.target));
        self.or_null(job.payload.content_type.as_deref(), |rows, it| rows.text(&shown(it)));
    }

    fn long(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    fn int(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.field(|out| out.extend_from_slice(bytes));
    }

    fn or_null<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => put(self, value),
            None => self.out.extend((-1_i32).to_be_bytes()),
        }
    }

    /// A column: its length, then its bytes.
    fn field(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let at = self.out.len();
        self.out.extend([0; 4]);
        put(&mut self.out);
        let length = i32::try_from(self.out.len() - at - 4).expect("a column is within limits");
        self.out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn copied(mut self, sql: &'static str) -> Copied {
        self.out.extend((-1_i16).to_be_bytes());
        Copied { sql, rows: self.out.into() }
    }
}
