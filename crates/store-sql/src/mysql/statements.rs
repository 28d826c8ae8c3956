//! The statements that write a draft, in the order in which they must be run.

use hence_core::id::JobNumber;
use hence_core::job::{Job, Outcome};
use hence_core::time::Timestamp;

use super::commit_row::{fronts_json, leases_json, pairs_json};
use super::letters;
use super::shared::{ShardRow, Tables};
use super::text::{Packets, Text};
use crate::draft::{Attempts, Draft, Forgotten, LeaseRow};
use crate::front::Fronts;
use crate::names::name_hash;
use crate::rows::{AttemptRow, FinishedRow, JobRow, Stamp, number_column, shown, target_text};
use crate::slots::{ELSEWHERE, Layout};

/// The columns of a live job, in the order of [`job`], after its slot.
pub(super) const JOB_COLUMNS: &str = "shard, queue, job_key, id, name_hash, number, due_at, stamp, \
    holds_key, attempts, submitted_at, schedule, target, content_type, payload, body";

const HISTORY_COLUMNS: &str = "slot, shard, queue, job_key, id, name_hash, number, outcome, \
    finished_at, keep_until, due_at, stamp, attempts, submitted_at, schedule, target, \
    content_type, reason, payload, body, last_nth, last_number, \
    last_end, last_holder, last_started_at, last_ended_at, last_attempt";

const ATTEMPT_COLUMNS: &str =
    "shard, number, stamp, nth, attempt, ended, holder, started_at, ended_at, body";

/// The values of a row of commits.
pub(super) struct CommitValues<'a> {
    pub(super) era: i64,
    pub(super) shard: u16,
    pub(super) stamp: Stamp,
    pub(super) next_number: JobNumber,
    pub(super) swept_until: Timestamp,
    pub(super) counts: Vec<(&'a str, &'a [u8])>,
    pub(super) advanced: Vec<(&'a str, &'a [u8])>,
    pub(super) leases: &'a [LeaseRow],
    pub(super) fronts: &'a Fronts,
}

/// Adds what writes this draft to a shard that is locked, whose fronts are those after it.
pub(super) fn add(packets: &mut Packets, tables: &Tables, draft: &Draft, held: &ShardRow) {
    let writing = Writing { tables, draft, held };
    writing.forget(packets);
    writing.leave(packets);
    writing.jobs(packets);
    writing.finished(packets);
    writing.attempts(packets);
    writing.schedules(packets);
    writing.ledgers(packets);
    writing.queues(packets);
    letters::take(packets, tables, draft);
    let row = CommitValues {
        era: held.layout.era,
        shard: draft.shard.0,
        stamp: draft.stamp,
        next_number: draft.next_number,
        swept_until: held.swept_until,
        counts: draft.counts.iter().map(|(name, it)| (name.as_str(), it.as_slice())).collect(),
        advanced: draft.advanced.iter().map(|(id, it)| (id.as_str(), it.as_slice())).collect(),
        leases: &draft.leases,
        fronts: &held.fronts,
    };
    packets.add(&commit(tables, row));
}

/// Adds the row of a commit.
pub(super) fn commit(tables: &Tables, row: CommitValues<'_>) -> Text {
    let head = "INSERT INTO @commits (era, shard, stamp, next_number, swept_until, counts, \
                advanced, leases, fronts) VALUES (";
    let mut sql = tables.text(head);
    sql.number(row.era).raw(", ").number(i64::from(row.shard)).raw(", ").number(row.stamp.0);
    sql.raw(", ").number(number_column(row.next_number)).raw(", ").time(row.swept_until);
    let lists = [pairs_json(row.counts), pairs_json(row.advanced), leases_json(row.leases)];
    for json in lists.into_iter().chain([fronts_json(row.fronts)]) {
        sql.raw(", ").or_null(json.as_deref(), Text::text);
    }
    sql.raw(")");
    sql
}

struct Writing<'a> {
    tables: &'a Tables,
    draft: &'a Draft,
    held: &'a ShardRow,
}

impl Writing<'_> {
    fn shard(&self) -> i64 {
        i64::from(self.draft.shard.0)
    }

    /// Finished jobs that are kept no more. The last attempt of one that lives on joins the others,
    /// unless it was swept meanwhile.
    fn forget(&self, packets: &mut Packets) {
        let swept = self.held.swept_until.as_millis();
        for Forgotten { place, attempts } in &self.draft.forgotten {
            let (number, at) = (number_column(place.number), place.at.as_millis());
            let this = format!(
                "shard = {} AND number = {number} AND finished_at = {at} AND outcome = '{}'",
                self.shard(),
                place.outcome.as_str(),
            );
            if *attempts == Attempts::Stay {
                packets.add(&self.tables.text(&format!(
                    "DELETE FROM @attempts WHERE shard = {} AND number = {number} AND EXISTS \
                     (SELECT 1 FROM @history WHERE {this} AND keep_until <= {swept})",
                    self.shard(),
                )));
                packets.add(&self.tables.text(&format!(
                    "INSERT INTO @attempts ({ATTEMPT_COLUMNS}) SELECT shard, number, stamp, \
                     last_nth, last_number, last_end, last_holder, last_started_at, \
                     last_ended_at, last_attempt FROM @history \
                     WHERE {this} AND last_attempt IS NOT NULL AND keep_until > {swept}",
                )));
            }
            packets.add(&self.tables.text(&format!("DELETE FROM @history WHERE {this}")));
        }
        self.delete_numbers(packets, "@attempts", &self.draft.attempts_dropped);
    }

    fn delete_numbers(&self, packets: &mut Packets, table: &str, numbers: &[JobNumber]) {
        if numbers.is_empty() {
            return;
        }
        let mut sql = self.tables.text(&format!("DELETE FROM {table} WHERE shard = "));
        sql.number(self.shard()).raw(" AND number IN (").list(numbers, |sql, number| {
            sql.number(number_column(*number));
        });
        packets.add(sql.raw(")"));
    }

    /// Places that jobs have left.
    fn leave(&self, packets: &mut Packets) {
        let slot = |due_at: Timestamp| self.held.layout.slot(due_at);
        let elsewhere = self.draft.left.iter().filter(|it| slot(it.place.due_at) == ELSEWHERE);
        for left in elsewhere {
            // One by one: the planner of a list of places would give up on a long one.
            let mut sql = self.tables.text("DELETE FROM @jobs WHERE slot = 0 AND shard = ");
            sql.number(self.shard()).raw(" AND queue = ").bytes(left.queue.as_str().as_bytes());
            sql.raw(" AND due_at = ").time(left.place.due_at);
            packets.add(sql.raw(" AND number = ").number(number_column(left.place.number)));
        }
        let near = self.draft.left.iter().filter(|it| slot(it.place.due_at) != ELSEWHERE);
        let head =
            self.tables.named("INSERT INTO @gone (slot, shard, due_at, number, stamp) VALUES ");
        packets.insert(&head, near, "", |sql, left| {
            sql.number(slot(left.place.due_at)).raw(", ").number(self.shard()).raw(", ");
            sql.time(left.place.due_at).raw(", ").number(number_column(left.place.number));
            sql.raw(", ").number(self.draft.stamp.0);
        });
    }

    fn jobs(&self, packets: &mut Packets) {
        let head = format!("INSERT INTO @jobs (slot, {JOB_COLUMNS}) VALUES ");
        packets.insert(&self.tables.named(&head), &self.draft.jobs, "", |sql, row| {
            self.job(sql, row);
        });
    }

    fn job(&self, sql: &mut Text, row: &JobRow) {
        let JobRow { job, progress } = row;
        sql.number(self.held.layout.slot(progress.due_at)).raw(", ").number(self.shard());
        sql.raw(", ");
        name(sql, job);
        sql.raw(", ").time(progress.due_at).raw(", ").number(self.draft.stamp.0);
        sql.raw(if progress.holds_key { ", 1, " } else { ", 0, " });
        sql.number(i64::from(progress.attempts)).raw(", ");
        for_people(sql, job);
        sql.raw(", ").bytes(&job.payload.bytes).raw(", ").bytes(&row.body());
    }

    fn finished(&self, packets: &mut Packets) {
        let head = format!("INSERT INTO @history ({HISTORY_COLUMNS}) VALUES ");
        packets.insert(&self.tables.named(&head), &self.draft.finished, "", |sql, row| {
            self.done(sql, row);
        });
    }

    fn done(&self, sql: &mut Text, row: &FinishedRow) {
        let FinishedRow { job, progress, finish, last, .. } = row;
        sql.number(history_slot(&self.held.layout, row)).raw(", ").number(self.shard()).raw(", ");
        name(sql, job);
        sql.raw(", ").text(finish.outcome.as_str()).raw(", ").time(finish.at).raw(", ");
        sql.time(finish.keep_until).raw(", ").time(progress.due_at).raw(", ");
        sql.number(self.draft.stamp.0).raw(", ").number(i64::from(progress.attempts)).raw(", ");
        for_people(sql, job);
        let reason = finish.reason.as_deref().map(shown);
        sql.raw(", ").or_null(reason.as_deref(), Text::text);
        sql.raw(", ").or_null(row.payload(), Text::bytes).raw(", ").bytes(&row.body());
        sql.raw(", ");
        match last {
            Some(last) => attempt(sql, last),
            None => drop(sql.raw("NULL, NULL, NULL, NULL, NULL, NULL, NULL")),
        }
    }

    fn attempts(&self, packets: &mut Packets) {
        let head = format!("INSERT INTO @attempts ({ATTEMPT_COLUMNS}) VALUES ");
        packets.insert(&self.tables.named(&head), &self.draft.attempts, "", |sql, row| {
            sql.number(self.shard()).raw(", ").number(number_column(row.number)).raw(", ");
            sql.number(self.draft.stamp.0).raw(", ");
            attempt(sql, row);
        });
    }

    fn schedules(&self, packets: &mut Packets) {
        if !self.draft.schedules_removed.is_empty() {
            let mut sql = self.tables.text("DELETE FROM @schedules WHERE shard = ");
            sql.number(self.shard()).raw(" AND id IN (");
            sql.list(&self.draft.schedules_removed, |sql, id| {
                sql.bytes(id.as_str().as_bytes());
            });
            packets.add(sql.raw(")"));
        }
        let head = "REPLACE INTO @schedules (shard, id, stamp, body, progress) VALUES ";
        packets.insert(&self.tables.named(head), &self.draft.schedules_put, "", |sql, row| {
            sql.number(self.shard()).raw(", ").bytes(row.id.as_str().as_bytes()).raw(", ");
            sql.number(self.draft.stamp.0).raw(", ").bytes(&row.body).raw(", ");
            sql.bytes(&row.progress);
        });
    }

    fn ledgers(&self, packets: &mut Packets) {
        for (schedule, before) in &self.draft.ledgers_forgotten {
            let mut sql = self.tables.text("DELETE FROM @occurrences WHERE shard = ");
            sql.number(self.shard()).raw(" AND schedule = ").bytes(schedule.as_str().as_bytes());
            if let Some(before) = before {
                sql.raw(" AND last_at < ").time(*before);
            }
            packets.add(&sql);
        }
        let head = "REPLACE INTO @occurrences (shard, schedule, last_at, number, first_at, fate, \
                    decided_at, body) VALUES ";
        packets.insert(&self.tables.named(head), &self.draft.occurrences, "", |sql, record| {
            let place = record.place();
            sql.number(self.shard()).raw(", ").bytes(record.schedule.as_str().as_bytes());
            sql.raw(", ").time(place.last).raw(", ").number(number_column(place.number));
            sql.raw(", ").time(record.first).raw(", ").text(record.fate.as_str()).raw(", ");
            let mut body = Vec::new();
            hence_store::codec::encode_occurrence(record, &mut body);
            sql.time(record.decided_at).raw(", ").bytes(&body);
        });
    }

    fn queues(&self, packets: &mut Packets) {
        let head = "REPLACE INTO @queues (shard, name, body) VALUES ";
        packets.insert(&self.tables.named(head), &self.draft.queues, "", |sql, (name, it)| {
            let mut body = Vec::new();
            hence_store::codec::encode_queue(it, &mut body);
            sql.number(self.shard()).raw(", ").bytes(name.as_str().as_bytes()).raw(", ");
            sql.bytes(&body);
        });
    }
}

/// Dead jobs are counted when they go, so they must go one by one.
fn history_slot(layout: &Layout, row: &FinishedRow) -> i64 {
    match row.finish.outcome {
        Outcome::Dead => ELSEWHERE,
        Outcome::Succeeded | Outcome::Cancelled | Outcome::Expired => {
            layout.slot(row.finish.keep_until)
        }
    }
}

/// From the place of an attempt in its batch to its bytes.
fn attempt(sql: &mut Text, row: &AttemptRow) {
    let record = &row.record;
    sql.number(i64::from(row.nth)).raw(", ").number(i64::from(record.attempt)).raw(", ");
    sql.text(record.end.as_str()).raw(", ").bytes(record.holder.as_str().as_bytes());
    sql.raw(", ").time(record.started_at).raw(", ").time(record.ended_at).raw(", ");
    sql.bytes(&row.body());
}

/// Queue, key, id, hash and number.
fn name(sql: &mut Text, job: &Job) {
    let key = job.name.key.as_ref().map(|key| key.as_str().as_bytes());
    sql.bytes(job.name.queue.as_str().as_bytes()).raw(", ").or_null(key, Text::bytes);
    sql.raw(", ").bytes(job.name.id.as_str().as_bytes()).raw(", ").number(name_hash(&job.name));
    sql.raw(", ").number(number_column(job.number));
}

/// When it came, who made it, where it goes and what it carries.
fn for_people(sql: &mut Text, job: &Job) {
    let schedule = job.occurrence.as_ref().map(|it| it.schedule.as_str().as_bytes());
    sql.time(job.submitted_at).raw(", ").or_null(schedule, Text::bytes).raw(", ");
    sql.text(&shown(&target_text(&job.target))).raw(", ");
    let content_type = job.payload.content_type.as_deref().map(shown);
    sql.or_null(content_type.as_deref(), Text::text);
}
