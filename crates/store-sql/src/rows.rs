//! Rows and what they stand for. What people want to see in a row has a column of its own; the
//! rest of a job is one column of bytes, in the codec that all engines share. The payload is not
//! in it: it has a column too.
//!
//! Bytes of a row are not trusted: what cannot be read is [`ErrorKind::Corrupt`], and the error
//! names the table and the row.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use hence_core::change::Place;
use hence_core::id::{Epoch, JobNumber, ShardId};
use hence_core::job::{Finish, Job, Payload, Progress, Target};
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, FinishedJob, LiveJob, ShardBatch, StoreError, codec};

use crate::limits::{EPOCH_MAX, SEQUENCE_BITS, SEQUENCE_MAX};

/// Epoch and sequence in one number: grows with every batch of a shard, over all its owners.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Stamp(pub(crate) i64);

impl Stamp {
    /// The stamp of a batch.
    pub(crate) fn of(batch: &ShardBatch) -> Result<Self, StoreError> {
        Stamp::new(batch.epoch, batch.sequence)
    }

    /// The stamp of an epoch, which is before all of its batches and after all of earlier ones.
    pub(crate) fn before(epoch: Epoch) -> Result<Self, StoreError> {
        Stamp::new(epoch, 0)
    }

    fn new(epoch: Epoch, sequence: u64) -> Result<Self, StoreError> {
        if epoch.0 > EPOCH_MAX || sequence > SEQUENCE_MAX {
            let message = format!(
                "{epoch:?}, batch {sequence}: at most {EPOCH_MAX} epochs of {SEQUENCE_MAX} batches \
                 fit into a stamp; move the jobs to a new store"
            );
            return Err(StoreError::new(ErrorKind::Unsupported, message));
        }
        Ok(Stamp(i64::from(epoch.0) << SEQUENCE_BITS | sequence as i64))
    }
}

/// A number as a signed column: the same bits, and the same order below 2^63, which no shard that
/// counts its jobs one by one can reach.
pub(crate) fn number_column(number: JobNumber) -> i64 {
    number.0 as i64
}

/// The number of a column.
pub(crate) fn number_of(column: i64) -> JobNumber {
    JobNumber(column as u64)
}

/// A live job as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct JobRow {
    pub(crate) job: Arc<Job>,
    pub(crate) progress: Progress,
}

impl JobRow {
    /// Where it stands.
    pub(crate) fn place(&self) -> Place {
        Place { due_at: self.progress.due_at, number: self.job.number }
    }

    /// The job less its payload, and its progress.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.encode_body(&mut body);
        body
    }

    /// Appends it.
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        codec::encode_live(&without_bytes(&self.job), &self.progress, out);
    }
}

/// A finished job as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FinishedRow {
    pub(crate) job: Arc<Job>,
    pub(crate) progress: Progress,
    pub(crate) finish: Finish,
    pub(crate) keep_payload: bool,
    /// The attempt that ended with it.
    pub(crate) last: Option<AttemptRow>,
}

impl FinishedRow {
    /// The payload, when it is kept.
    pub(crate) fn payload(&self) -> Option<&[u8]> {
        self.keep_payload.then(|| self.job.payload.bytes.as_ref())
    }

    /// The job less its payload, its progress and its end.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.encode_body(&mut body);
        body
    }

    /// Appends it.
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        let job = without_bytes(&self.job);
        codec::encode_finished(&job, &self.progress, &self.finish, self.keep_payload, out);
    }

    /// What it holds that can be large.
    pub(crate) fn bytes(&self) -> usize {
        let result = self.finish.result.as_ref().map_or(0, |result| result.bytes.len());
        self.job.payload.bytes.len() + result
    }
}

/// An ended attempt as it is written. Attempts of a job come in the order of (stamp, nth).
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AttemptRow {
    pub(crate) number: JobNumber,
    /// Counts the attempts of one batch.
    pub(crate) nth: i32,
    pub(crate) record: hence_core::job::AttemptRecord,
}

impl AttemptRow {
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.encode_body(&mut body);
        body
    }

    /// Appends it.
    pub(crate) fn encode_body(&self, out: &mut Vec<u8>) {
        codec::encode_attempt(&self.record, out);
    }
}

/// Where a job goes, for people: `worker`, `handler mail`, `POST https://…`.
pub(crate) fn target_text(target: &Target) -> Cow<'static, str> {
    match target {
        Target::Worker => "worker".into(),
        Target::Handler(name) => format!("handler {name}").into(),
        Target::Http(http) => format!("{} {}", http.method, http.url).into(),
    }
}

/// Text for people in a column of text, which cannot hold a zero. What the store gives back comes
/// from the bytes.
pub(crate) fn shown(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Where a row was read, for an error about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowName {
    pub(crate) table: &'static str,
    pub(crate) shard: ShardId,
    pub(crate) number: i64,
}

impl RowName {
    /// The error, with the row it is about. Anything but a version is damage.
    pub(crate) fn refuse(self, error: StoreError) -> StoreError {
        let kind = match error.kind() {
            ErrorKind::Version => ErrorKind::Version,
            _ => ErrorKind::Corrupt,
        };
        StoreError::caused_by(kind, self.to_string(), error)
    }

    /// Damage that the codec does not know of.
    pub(crate) fn corrupt(self, problem: &str) -> StoreError {
        StoreError::new(ErrorKind::Corrupt, format!("{self}: {problem}"))
    }
}

impl std::fmt::Display for RowName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RowName { table, shard, number } = self;
        write!(f, "read {table}, row (shard {}, number {number})", shard.0)
    }
}

/// The error, with the row it is about, when that goes by a name. Anything but a version is damage.
pub(crate) fn refuse_named(table: &str, row: &str, error: &StoreError) -> StoreError {
    let kind = match error.kind() {
        ErrorKind::Version => ErrorKind::Version,
        _ => ErrorKind::Corrupt,
    };
    StoreError::new(kind, format!("read {table}, row {row:?}: {error}"))
}

/// A name of a row that no queue or schedule can have.
pub(crate) fn bad_name(table: &str, row: &str) -> StoreError {
    let message = format!("read {table}, row {row:?}: a name that is not allowed");
    StoreError::new(ErrorKind::Corrupt, message)
}

/// Reads a live job; `number` and `due_at` are the row's own columns.
pub(crate) fn read_live(
    row: RowName,
    due_at: i64,
    body: &[u8],
    payload: &[u8],
) -> Result<LiveJob, StoreError> {
    let decoded = codec::decode_live(&Bytes::copy_from_slice(body));
    let (mut job, progress) = decoded.map_err(|error| row.refuse(error))?;
    if job.number != number_of(row.number) || progress.due_at != Timestamp::from_millis(due_at) {
        return Err(row.corrupt("its columns speak of another job than its body"));
    }
    job.payload.bytes = Bytes::copy_from_slice(payload);
    Ok(LiveJob { job: Arc::new(job), progress, lease: None })
}

/// Reads a finished job.
pub(crate) fn read_finished(
    row: RowName,
    body: &[u8],
    payload: Option<&[u8]>,
) -> Result<FinishedJob, StoreError> {
    let decoded = codec::decode_finished(&Bytes::copy_from_slice(body));
    let mut done = decoded.map_err(|error| row.refuse(error))?;
    if done.job.number != number_of(row.number) {
        return Err(row.corrupt("its columns speak of another job than its body"));
    }
    if let Some(payload) = payload {
        Arc::make_mut(&mut done.job).payload.bytes = Bytes::copy_from_slice(payload);
    }
    Ok(done)
}

fn without_bytes(job: &Job) -> Job {
    let content_type = job.payload.content_type.clone();
    Job { payload: Payload { bytes: Bytes::new(), content_type }, ..job.clone() }
}

#[cfg(test)]
pub(crate) mod tests {
    use hence_core::id::{JobId, JobName, QueueName};
    use hence_core::job::{JobSpec, Outcome};

    use proptest::prelude::*;

    use super::*;

    const ROW: RowName = RowName { table: "jobs", shard: ShardId(3), number: 7 };

    /// A job, for tests.
    pub(crate) fn job() -> Job {
        let id = JobId::new("a").unwrap();
        let name = JobName { queue: QueueName::default_queue(), key: None, id };
        let payload = Payload { bytes: Bytes::from_static(b"xyz"), content_type: None };
        let spec = JobSpec { payload, ..JobSpec::new(Target::Worker) };
        spec.job(JobNumber(7), name, Timestamp::from_millis(1), Timestamp::from_millis(5))
    }

    fn row() -> JobRow {
        let job = Arc::new(job());
        let progress = Progress::fresh(job.scheduled_for);
        JobRow { job, progress }
    }

    #[test]
    fn stamps_grow_with_epoch_and_sequence_and_stop_at_their_bounds() {
        let stamp = |epoch, sequence| Stamp::new(Epoch(epoch), sequence).map(|stamp| stamp.0);
        let rows = [(0, 1), (1, 0), (1, 1), (1, SEQUENCE_MAX), (2, 1), (EPOCH_MAX, SEQUENCE_MAX)];
        let stamps: Vec<i64> =
            rows.iter().map(|(epoch, sequence)| stamp(*epoch, *sequence).unwrap()).collect();
        assert!(stamps.is_sorted() && stamps[0] > 0, "{stamps:?}");
        assert_eq!(*stamps.last().unwrap(), i64::MAX);
        for (epoch, sequence) in [(EPOCH_MAX + 1, 1), (1, SEQUENCE_MAX + 1)] {
            assert_eq!(stamp(epoch, sequence).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }

    #[test]
    fn a_job_comes_back_and_its_payload_lies_beside_it() {
        let body = row().body();
        assert!(!body.windows(3).any(|bytes| bytes == b"xyz"), "the payload is there twice");
        let live = read_live(ROW, 5, &body, b"xyz").unwrap();
        assert_eq!((&*live.job, live.progress), (&job(), row().progress));
    }

    #[test]
    fn a_row_that_speaks_of_another_job_is_refused() {
        let body = row().body();
        for (row, due_at) in [(ROW, 6), (RowName { number: 8, ..ROW }, 5)] {
            let error = read_live(row, due_at, &body, b"").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            let name = format!("jobs, row (shard 3, number {})", row.number);
            assert!(error.to_string().contains(&name), "{error}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut body = row().body();
        body[0] = codec::VERSION + 1;
        let error = read_live(ROW, 5, &body, b"").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Version);
        assert!(error.to_string().contains("row (shard 3, number 7)"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_bring_a_reader_down(
            body in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0_usize..200,
            value in any::<u8>(),
        ) {
            let _ = read_live(ROW, 5, &body, b"");
            let _ = read_finished(ROW, &body, Some(b""));
            let finish = Finish {
                outcome: Outcome::Dead,
                at: Timestamp::from_millis(9),
                reason: None,
                result: None,
                keep_until: Timestamp::from_millis(99),
            };
            let JobRow { job, progress } = row();
            let done = FinishedRow { job, progress, finish, keep_payload: true, last: None };
            for mut good in [row().body(), done.body()] {
                let at = at % good.len();
                good[at] = value;
                for answer in [
                    read_live(ROW, 5, &good, b"").map(drop),
                    read_finished(ROW, &good, None).map(drop),
                    read_live(ROW, 5, &good[..at], b"").map(drop),
                ] {
                    let kind = answer.err().map(|error| error.kind());
                    let told = [None, Some(ErrorKind::Corrupt), Some(ErrorKind::Version)];
                    prop_assert!(told.contains(&kind), "{:?}", kind);
                }
            }
        }
    }
}
