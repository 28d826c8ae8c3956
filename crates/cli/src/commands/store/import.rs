//! Lines of an export, put into a store. Jobs get numbers of that store, in the order of the lines,
//! which is the order in which they are due: first come, first served stays as it was.

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;
use std::sync::Arc;

use hence_core::id::{
    Epoch, JobName, JobNumber, QueueName, ScheduleId, ShardId, Token, WorkerName, shard_of,
};
use hence_core::job::{AttemptRecord, Outcome, Progress};
use hence_core::queue::Counts;
use hence_core::time::Timestamp;
use hence_store::{Change, LeaseGrant, Place, Recovered, ShardBatch, Store};

use super::job_record::{LeaseRecord, ReadJob};
use super::record::{
    FORMAT, LedgerRecord, Problem, QueueRecord, Record, ScheduleRecord, Tally, words,
};
use super::store_failure;
use crate::failure::Failure;

/// Changes in one commit: one sync for many jobs, and a bound on memory.
const BATCH: usize = 1_000;

/// Whether a store that holds something already may be added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Into {
    Empty,
    /// What exists under a name stays; the line of the same name is left out. The totals of a
    /// queue come along only if nothing was ever counted in it.
    Existing,
}

/// What came of an import.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Imported {
    pub(super) added: Tally,
    /// Lines left out because their name exists.
    pub(super) kept: u64,
}

/// Reads all lines and puts them into the store. Checked line by line; what was put before a bad
/// line stays, and the import can be repeated with `--merge`.
pub(super) async fn import(
    store: &dyn Store,
    into: Into,
    now: Timestamp,
    lines: &mut dyn BufRead,
    progress: &dyn Fn(u64),
) -> Result<Imported, Failure> {
    let mut importer = Importer::open(store, into, now).await?;
    let (mut seen, mut ended) = (Tally::default(), false);
    for (index, line) in lines.lines().enumerate() {
        let number = index + 1;
        let line =
            line.map_err(|error| Failure::io(format_args!("reading line {number}"), &error))?;
        progress(line.len() as u64 + 1);
        let bad = |problem: Problem| {
            Failure::refused(format!("line {number} cannot be imported: {problem}"))
        };
        let record: Record = serde_json::from_str(&line).map_err(|error| bad(error.to_string()))?;
        if (number == 1) != matches!(record, Record::Header(_)) {
            return Err(bad(
                "the first line, and only that, must be the header of an export".to_owned()
            ));
        }
        ended = matches!(record, Record::End(_));
        importer.take(record, &mut seen).await?.map_err(bad)?;
    }
    importer.close().await?;
    if !ended {
        return Err(Failure::refused("the export is cut short: its last line is missing")
            .fix("what was there is imported; export again and repeat with --merge"));
    }
    Ok(importer.imported)
}

struct Importer<'a> {
    store: &'a dyn Store,
    into: Into,
    now: Timestamp,
    shards: Vec<ShardImport>,
    queues: HashSet<QueueName>,
    schedules: HashSet<ScheduleId>,
    /// Those that came with this import: their ledgers come too.
    new_schedules: HashSet<ScheduleId>,
    imported: Imported,
}

/// What is being put into one shard.
struct ShardImport {
    id: ShardId,
    epoch: Epoch,
    sequence: u64,
    tokens: u64,
    next_number: JobNumber,
    counts: BTreeMap<QueueName, Counts>,
    changes: Vec<Change>,
}

impl<'a> Importer<'a> {
    async fn open(store: &'a dyn Store, into: Into, now: Timestamp) -> Result<Self, Failure> {
        let mut importer = Importer {
            store,
            into,
            now,
            shards: Vec::new(),
            queues: HashSet::new(),
            schedules: HashSet::new(),
            new_schedules: HashSet::new(),
            imported: Imported::default(),
        };
        for id in (0..store.capabilities().shards).map(ShardId) {
            let epoch = store
                .acquire(id, "import".to_owned())
                .await
                .map_err(|error| store_failure(&error, None))?;
            let recovered = store.recover(id).await.map_err(|error| store_failure(&error, None))?;
            if into == Into::Empty && !is_empty(&recovered) {
                return Err(Failure::refused("the store is not empty")
                    .fix("import into a new directory, or add to this one with --merge"));
            }
            importer.queues.extend(recovered.queues.iter().map(|(name, _)| name.clone()));
            importer
                .schedules
                .extend(recovered.schedules.iter().map(|state| state.schedule.id.clone()));
            importer.shards.push(ShardImport {
                id,
                epoch,
                sequence: 0,
                tokens: 0,
                next_number: recovered.next_number,
                counts: recovered.counts.into_iter().collect(),
                changes: Vec::new(),
            });
        }
        Ok(importer)
    }

    /// Takes one line. The outer error is the store's, the inner one is about the line.
    async fn take(
        &mut self,
        record: Record,
        seen: &mut Tally,
    ) -> Result<Result<(), Problem>, Failure> {
        let taken = match record {
            Record::Header(header) if header.format != FORMAT => {
                Err(format!("it is of format {}, this version reads {FORMAT}", header.format))
            }
            Record::Queue(queue) => {
                seen.queues += 1;
                self.queue(&queue)
            }
            Record::Schedule(schedule) => {
                seen.schedules += 1;
                self.schedule(*schedule)
            }
            Record::Occurrence(record) => {
                seen.occurrences += 1;
                self.occurrence(record)
            }
            Record::Job(job) => {
                seen.jobs += 1;
                match job.into_job() {
                    Ok(job) => self.job(job).await?,
                    Err(problem) => Err(problem),
                }
            }
            Record::End(tally) if tally != *seen => {
                Err("lines are missing before the last one".to_owned())
            }
            Record::Header(_) | Record::End(_) => Ok(()),
        };
        for shard in &mut self.shards {
            if shard.changes.len() >= BATCH {
                shard.commit(self.store).await?;
            }
        }
        Ok(taken)
    }

    fn queue(&mut self, record: &QueueRecord) -> Result<(), Problem> {
        let name = QueueName::new(&record.name).map_err(words)?;
        let mut counts = self.shards.iter().filter_map(|shard| shard.counts.get(&name));
        let existed = counts.clone().next().is_some();
        // What was counted stays, as everything does that exists: an import that is repeated must
        // not count its jobs again.
        let counted = counts.any(|counts| counts.submitted > 0);
        if let (false, Some(first)) = (counted, self.shards.first_mut()) {
            record.add_totals(first.counts.entry(name.clone()).or_default());
        }
        let Some(settings) = record.settings() else {
            // Nobody decided anything about it, but it is a queue to the export too.
            self.imported.kept += u64::from(existed);
            self.imported.added.queues += u64::from(!existed);
            return Ok(());
        };
        settings.check().map_err(words)?;
        if !self.queues.insert(name.clone()) {
            self.imported.kept += 1;
            return Ok(());
        }
        for shard in &mut self.shards {
            shard.counts.entry(name.clone()).or_default();
            shard.changes.push(Change::QueuePut { name: name.clone(), settings: settings.clone() });
        }
        self.imported.added.queues += 1;
        Ok(())
    }

    fn schedule(&mut self, record: ScheduleRecord) -> Result<(), Problem> {
        let state = record.into_state()?;
        let id = state.schedule.id.clone();
        if !self.schedules.insert(id.clone()) {
            self.imported.kept += 1;
            return Ok(());
        }
        let shard = shard_of(None, id.as_str(), self.shards.len() as u16);
        self.shards[usize::from(shard.0)].changes.push(Change::SchedulePut { state: state.into() });
        self.new_schedules.insert(id);
        self.imported.added.schedules += 1;
        Ok(())
    }

    fn occurrence(&mut self, record: LedgerRecord) -> Result<(), Problem> {
        let record = record.into_record()?;
        if !self.new_schedules.contains(&record.schedule) {
            self.imported.kept += 1;
            return Ok(());
        }
        let shard = shard_of(None, record.schedule.as_str(), self.shards.len() as u16);
        let shard = &mut self.shards[usize::from(shard.0)];
        // The jobs of the ledger are known by numbers that no other job may get.
        let number = record.fate.job().unwrap_or_default();
        shard.next_number = shard.next_number.max(JobNumber(number.0 + 1));
        shard.changes.push(Change::OccurrenceRecorded { record });
        self.imported.added.occurrences += 1;
        Ok(())
    }

    async fn job(&mut self, read: ReadJob) -> Result<Result<(), Problem>, Failure> {
        let shard = shard_for(&read.job.name, self.shards.len());
        if self.into == Into::Existing {
            let names = vec![read.job.name.clone()];
            let found = self.store.get(self.shards[shard].id, names, self.now).await;
            if found.map_err(|error| store_failure(&error, None))?.iter().any(Option::is_some) {
                self.imported.kept += 1;
                return Ok(Ok(()));
            }
        }
        let put = self.shards[shard].put(read);
        if put.is_ok() {
            self.imported.added.jobs += 1;
        }
        Ok(put)
    }

    async fn close(&mut self) -> Result<(), Failure> {
        for shard in &mut self.shards {
            shard.commit(self.store).await?;
            let released = self.store.release(shard.id, shard.epoch).await;
            released.map_err(|error| store_failure(&error, None))?;
        }
        Ok(())
    }
}

impl ShardImport {
    /// The facts that make the job what it was, in the order in which they happened.
    fn put(&mut self, read: ReadJob) -> Result<(), Problem> {
        let ReadJob { mut job, progress, lease, finish, mut attempts } = read;
        job.number = self.next_number;
        self.next_number = JobNumber(self.next_number.0 + 1);
        let job = Arc::new(job);
        let queue = job.name.queue.clone();
        self.changes.push(Change::JobPut {
            job: Arc::clone(&job),
            progress,
            replaces: None,
            revives: None,
        });
        let last = if finish.is_some() { attempts.pop() } else { None };
        for ended in attempts {
            let ended = Some(Box::new(ended));
            let job = Arc::clone(&job);
            self.changes.push(Change::JobMoved { job, from: progress.due_at, progress, ended });
        }
        let counts = self.counts.entry(queue.clone()).or_default();
        match (finish, lease) {
            (Some(finish), _) => {
                counts.dead += u64::from(finish.outcome == Outcome::Dead);
                self.changes.push(finished(job, progress, finish, last));
            }
            (None, Some(lease)) => {
                counts.running += 1;
                let place = Place { due_at: progress.due_at, number: job.number };
                self.grant(queue, place, &lease)?;
            }
            (None, None) => counts.pending += 1,
        }
        Ok(())
    }

    /// A job that was running when the export was made has an attempt whose end nobody saw. It
    /// stays that way, so that the next owner treats it as after a crash, and parks it where the
    /// producer asked for that.
    fn grant(
        &mut self,
        queue: QueueName,
        place: Place,
        lease: &LeaseRecord,
    ) -> Result<(), Problem> {
        self.tokens += 1;
        self.changes.push(Change::LeasesGranted {
            first_token: Token { shard: self.id, epoch: self.epoch, counter: self.tokens },
            holder: WorkerName::new(&lease.holder).map_err(words)?,
            at: Timestamp::from_millis(lease.granted_at_ms),
            leases: vec![LeaseGrant { queue, place, attempt: lease.attempt, until: lease.until() }],
        });
        Ok(())
    }

    async fn commit(&mut self, store: &dyn Store) -> Result<(), Failure> {
        self.sequence += 1;
        let batch = ShardBatch {
            shard: self.id,
            epoch: self.epoch,
            sequence: self.sequence,
            changes: Arc::new(std::mem::take(&mut self.changes)),
            counts: self.counts.iter().map(|(name, counts)| (name.clone(), *counts)).collect(),
            next_number: self.next_number,
        };
        store.commit(vec![batch]).await.map_err(|error| store_failure(&error, None))
    }
}

fn finished(
    job: Arc<hence_core::job::Job>,
    progress: Progress,
    finish: hence_core::job::Finish,
    ended: Option<AttemptRecord>,
) -> Change {
    let (finish, ended) = (Box::new(finish), ended.map(Box::new));
    Change::JobFinished { job, progress, finish, ended, keep_payload: true }
}

fn shard_for(name: &JobName, shards: usize) -> usize {
    let key = name.key.as_ref().map(hence_core::id::Key::as_str);
    usize::from(shard_of(key, name.id.as_str(), shards as u16).0)
}

fn is_empty(recovered: &Recovered) -> bool {
    recovered.counts.is_empty() && recovered.queues.is_empty() && recovered.schedules.is_empty()
}
