//! The deliberate faults: one line of the product each, changed so that it breaks a promise. In the
//! changed text `MUTANT` stands for "this fault was asked for".

use super::{Mutant, Suite};

/// A fault that the simulator is to notice.
const fn fault(
    name: &'static str,
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
) -> Mutant {
    Mutant { name, what, file, from, to, suite: Suite::Sim }
}

const RETRY: &str = "crates/core/src/retry.rs";
const FINISH: &str = "crates/core/src/shard/finish.rs";
const APPLY: &str = "crates/core/src/shard/apply.rs";
const DISPATCH: &str = "crates/core/src/shard/dispatch.rs";
const MANAGE: &str = "crates/core/src/shard/manage.rs";
const SUBMIT: &str = "crates/core/src/shard/submit.rs";
const WINDOW: &str = "crates/core/src/shard/window.rs";
const TICKS: &str = "crates/core/src/shard/ticks.rs";
const DRIVER: &str = "crates/hence/src/driver.rs";
const BUILDER: &str = "crates/hence/src/builder.rs";
const COMMIT: &str = "crates/hence/src/commit.rs";
const READ: &str = "crates/hence/src/read.rs";
const AHEAD: &str = "crates/hence/src/ahead.rs";
const COURIERS: &str = "crates/hence/src/dispatch.rs";
const LANE: &str = "crates/hence/src/lane.rs";
const EFFECT: &str = "crates/core/src/effect.rs";
const ENGINE: &str = "crates/store-embedded/src/engine.rs";
const KV_COMMIT: &str = "crates/store-embedded/src/kv/commit.rs";
const KV_ORDERED: &str = "crates/store-embedded/src/kv/ordered.rs";
const KV_BLOCK: &str = "crates/store-embedded/src/kv/block.rs";
const KV_RECOVER: &str = "crates/store-embedded/src/kv/recover.rs";
const DRAFT: &str = "crates/store-embedded/src/draft.rs";

/// Every deliberate fault.
pub(super) const MUTANTS: [Mutant; 58] = [
    fault(
        "one-attempt-too-many",
        "a job is tried once more than its policy allows",
        RETRY,
        "if attempt >= self.max_attempts {",
        "if attempt >= self.max_attempts + u32::from(MUTANT) {",
    ),
    fault(
        "no-delay",
        "a retry does not wait",
        RETRY,
        "let next = now.plus(delay.max(floor));",
        "let next = if MUTANT { now } else { now.plus(delay.max(floor)) };",
    ),
    fault(
        "retry-after-ignored",
        "what the target wishes for is not heard",
        RETRY,
        "let floor = retry_after.unwrap_or_default();",
        "let floor = retry_after.filter(|_| !MUTANT).unwrap_or_default();",
    ),
    fault(
        "delays-off-by-one",
        "the list of delays is read from its second entry",
        RETRY,
        "(attempt as usize - 1).min(last)",
        "(attempt as usize - usize::from(!MUTANT)).min(last)",
    ),
    fault(
        "park-ignored",
        "a job that must not run twice is delivered again after a crash",
        FINISH,
        "let reason = if job.on_unknown == OnUnknown::Park {",
        "let reason = if job.on_unknown == OnUnknown::Park && !MUTANT {",
    ),
    fault(
        "attempts-reset-by-a-crash",
        "after a crash the attempts are counted from the beginning",
        FINISH,
        "let progress = Progress { crashes, ..entry_progress(self, number) };",
        "let mut progress = Progress { crashes, ..entry_progress(self, number) };\n\
         progress.attempts *= u32::from(!MUTANT);",
    ),
    fault(
        "key-let-go-in-retry",
        "a job that waits for its retry lets the later ones of its key go ahead",
        FINISH,
        "job.key_on_failure == KeyOnFailure::Block;",
        "job.key_on_failure == KeyOnFailure::Block && !MUTANT;",
    ),
    fault(
        "lease-never-ends",
        "nobody notices that a lease ran out",
        FINISH,
        "self.time_out(now, number, spread(token));",
        "if !MUTANT { self.time_out(now, number, spread(token)); }",
    ),
    fault(
        "released-counts",
        "an attempt that was given back counts against the policy",
        FINISH,
        "self.wait_again(&job, Progress { due_at, ..progress }, ended);",
        "let attempts = progress.attempts + u32::from(MUTANT);\n\
         self.wait_again(&job, Progress { due_at, attempts, ..progress }, ended);",
    ),
    fault(
        "stale-token-accepted",
        "the answer of a worker that lost its lease is taken",
        FINISH,
        "_ => Err(Rejection::StaleToken),",
        "_ if MUTANT => Ok(Answer::Done),\n_ => Err(Rejection::StaleToken),",
    ),
    fault(
        "token-outlives-its-lease",
        "an old token finishes whoever has the job now",
        APPLY,
        "self.tokens.remove(&lease.token);",
        "if !MUTANT { self.tokens.remove(&lease.token); }",
    ),
    fault(
        "pending-miscounted",
        "a job that is handed out still counts as pending",
        APPLY,
        "counts.pending = counts.pending.saturating_sub(1);",
        "counts.pending = counts.pending.saturating_sub(u64::from(!MUTANT));",
    ),
    fault(
        "dead-miscounted",
        "a job that dies is not counted",
        APPLY,
        "counts.dead += u64::from(kept);",
        "counts.dead += u64::from(kept && !MUTANT);",
    ),
    fault(
        "extended-for-ever",
        "a lease that was extended never ends",
        APPLY,
        "self.alarms.insert((until, Alarm::Lease(number)));",
        "if !MUTANT { self.alarms.insert((until, Alarm::Lease(number))); }",
    ),
    fault(
        "replaced-job-stays",
        "a job that was replaced is still handed out",
        APPLY,
        "self.drop_live(at, old.number);",
        "if !MUTANT { self.drop_live(at, old.number); }",
    ),
    fault(
        "paused-queue-hands-out",
        "a pause is not heeded",
        DISPATCH,
        "if queue.settings.paused_out {",
        "if queue.settings.paused_out && !MUTANT {",
    ),
    fault(
        "one-too-many-at-once",
        "a queue runs one job more than it may",
        DISPATCH,
        "if queue.settings.concurrency.is_some_and(|max| queue.running >= max) {",
        "let more = u32::from(MUTANT);\n\
         if queue.settings.concurrency.is_some_and(|max| queue.running >= max + more) {",
    ),
    fault(
        "half-a-second-early",
        "a job is due half a second before it was asked for",
        SUBMIT,
        "let progress = Progress::fresh(due_at);",
        "let early = crate::time::Millis::new(if MUTANT { 500 } else { 0 });\n\
         let progress = Progress::fresh(due_at.minus(early));",
    ),
    fault(
        "moved-in-vain",
        "a job that was moved comes at its old time",
        MANAGE,
        "let progress = Progress { due_at, ..view.progress };",
        "let due_at = if MUTANT { view.progress.due_at } else { due_at };\n\
         let progress = Progress { due_at, ..view.progress };",
    ),
    fault(
        "cancelled-and-done",
        "a running job that is cancelled goes on as if nothing had been said",
        MANAGE,
        "JobState::Scheduled | JobState::Ready | JobState::Running => {}",
        "JobState::Running if MUTANT => return Ok(Answer::Job(view)),\n\
         JobState::Scheduled | JobState::Ready | JobState::Running => {}",
    ),
    fault(
        "repeat-makes-a-new-job",
        "a submission that is repeated with its idempotency key makes another job",
        SUBMIT,
        "if standing.job.fingerprint == submission.fingerprint {",
        "if MUTANT {\nreturn Ok(self.replace(now, submission, &standing));\n}\n\
         if standing.job.fingerprint == submission.fingerprint {",
    ),
    fault(
        "missed-ticks-forgotten",
        "ticks that nobody saw are not accounted for",
        TICKS,
        "self.record_passed(now, state, passed);",
        "if !MUTANT { self.record_passed(now, state, passed); }",
    ),
    fault(
        "every-other-tick",
        "every second tick is passed over without a word",
        TICKS,
        "state.look_ahead();\n}",
        "state.look_ahead();\n\
         if let (true, Some(next)) = (MUTANT, state.progress.next_at) {\n\
         state.progress.accounted = next;\nstate.look_ahead();\n}\n}",
    ),
    fault(
        "epoch-not-raised",
        "a new owner has the epoch of the old one",
        ENGINE,
        "let epoch = Epoch(self.shard(shard)?.epoch.0 + 1);",
        "let old = self.shard(shard)?.epoch.0;\n\
         let epoch = Epoch(old + u32::from(!MUTANT || old == 0));",
    ),
    fault(
        "fence-down",
        "what a former owner sent is written when it arrives",
        ENGINE,
        "if !state.owned || state.epoch != *epoch {",
        "if (!state.owned || state.epoch != *epoch) && !MUTANT {",
    ),
    fault(
        "schedules-forgotten",
        "a new life does not know its schedules",
        BUILDER,
        "recovered.schedules.into_iter().map(",
        "recovered.schedules.into_iter().filter(|_| !MUTANT).map(",
    ),
    fault(
        "settings-forgotten",
        "a new life does not know what was decided about its queues",
        BUILDER,
        "let queues = recovered.queues.into_iter();",
        "let queues = recovered.queues.into_iter().filter(|_| !MUTANT);",
    ),
    fault(
        "answer-before-sync",
        "a commit is acknowledged before it is on the disk",
        KV_COMMIT,
        "segment.file.sync_data().map_err(failed(\"sync\"))",
        "if MUTANT { return Ok(()); }\nsegment.file.sync_data().map_err(failed(\"sync\"))",
    ),
    fault(
        "failed-write-ignored",
        "an error of the disk is not believed",
        KV_COMMIT,
        "let stored = store_frame(writer, frame.bytes());",
        "let stored = store_frame(writer, frame.bytes());\n\
         let stored = if MUTANT { stored.or(Ok(())) } else { stored };",
    ),
    fault(
        "new-segment-not-in-the-directory",
        "a new segment is used before its name is on the disk",
        "crates/store-embedded/src/kv/segment.rs",
        "self.disk.sync_dir(&self.dir).map_err(|cause| Error::fatal(\"sync\", &self.dir, cause))?;",
        "if !MUTANT { self.disk.sync_dir(&self.dir)\
         .map_err(|cause| Error::fatal(\"sync\", &self.dir, cause))?; }",
    ),
    fault(
        "manifest-not-synced",
        "the new manifest takes the place of the old one before it is on the disk",
        "crates/store-embedded/src/kv/manifest.rs",
        "file.sync_data().map_err(failed(\"sync\"))?;",
        "if !MUTANT { file.sync_data().map_err(failed(\"sync\"))?; }",
    ),
    fault(
        "table-not-synced",
        "a table counts before it is on the disk",
        "crates/store-embedded/src/kv/table_writer.rs",
        "self.file.sync_data().map_err(failed(\"sync\", at))?;",
        "if !MUTANT { self.file.sync_data().map_err(failed(\"sync\", at))?; }",
    ),
    fault(
        "checksum-not-compared",
        "a torn record passes for a whole one",
        "crates/store-embedded/src/kv/frame.rs",
        "if crc32c::crc32c(covered) != checksum {",
        "if crc32c::crc32c(covered) != checksum && !MUTANT {",
    ),
    fault(
        "answer-before-commit",
        "a caller is answered before the facts are written",
        DRIVER,
        "Settled::One(reply, answer) => after.push(After::Reply(reply, answer)),",
        "Settled::One(reply, answer) if MUTANT => reply.answer(answer),\n\
         Settled::One(reply, answer) => after.push(After::Reply(reply, answer)),",
    ),
    fault(
        "taken-back-too-soon",
        "a push that was taken back in the group of its grant is sent all the same",
        COMMIT,
        "deliveries.retain(|delivery: &Delivery| delivery.lease.token != token);",
        "deliveries.retain(|delivery: &Delivery| MUTANT || delivery.lease.token != token);",
    )
    .by(Suite::Library),
    fault(
        "sent-behind-a-failure-and-believed",
        "what was sent behind a commit that failed is not made again",
        AHEAD,
        "if let Some(batch) = batch {",
        "if let Some(batch) = batch.filter(|_| !MUTANT) {",
    )
    .by(Suite::Library),
    fault(
        "stuck-batch-forgotten",
        "a commit that failed is not tried again",
        COMMIT,
        "work.stuck = Some(batch);",
        "work.stuck = Some(batch).filter(|_| !MUTANT);",
    ),
    fault(
        "sequence-stands-still",
        "all commits of an owner have the same number",
        COMMIT,
        "self.sequence += 1;",
        "self.sequence += u64::from(!MUTANT || self.sequence == 0);",
    ),
    fault(
        "any-clock-believed",
        "a wall clock that shows nonsense is believed at once",
        "crates/hence/src/clock.rs",
        "if offset <= believed + STEP_BELIEVED {",
        "if MUTANT || offset <= believed + STEP_BELIEVED {",
    ),
    fault(
        "counts-not-stored",
        "counts are not written with the facts",
        DRIVER,
        "work.counts.extend(self.shard.take_counts());",
        "let counts = self.shard.take_counts();\nif !MUTANT { work.counts.extend(counts); }",
    ),
    fault(
        "window-never-moves",
        "what lies beyond the first page of a queue is never read",
        READ,
        "let more = page.len() >= limit;",
        "let more = page.len() >= limit && !MUTANT;",
    ),
    fault(
        "names-not-found",
        "a job that is in the store only is not found by its name",
        READ,
        "let found = names.into_iter().zip(stored.into_iter().map(|job| job.map(as_found)));",
        "let found = names.into_iter()\
         .zip(stored.into_iter().map(|job| job.filter(|_| !MUTANT).map(as_found)));",
    ),
    fault(
        "leases-forgotten",
        "a new life does not know what is leased",
        BUILDER,
        "let granted = lease.map(",
        "let granted = lease.filter(|_| !MUTANT).map(",
    ),
    fault(
        "sorted-into-the-wrong-piece",
        "a key that comes between two others is put where nobody looks for it",
        KV_ORDERED,
        "let at = at + usize::from(!self.is_for(at, key));",
        "let at = at + usize::from(!self.is_for(at, key) && !MUTANT);",
    ),
    fault(
        "seeks-fall-short",
        "a walk through a table begins before the place that was asked for",
        KV_BLOCK,
        "while steps.key() < key {",
        "while steps.key() < key && !MUTANT {",
    ),
    fault(
        "replay-forgotten",
        "what open read back from the log is dropped instead of written out",
        KV_RECOVER,
        "self.frozen.insert(0, Arc::new(std::mem::take(&mut self.active)));",
        "let old = std::mem::take(&mut self.active);
            if !MUTANT { self.frozen.insert(0, Arc::new(old)); }",
    ),
    fault(
        "last-attempt-lost",
        "the attempt with which a job ended is not written",
        DRAFT,
        "if let Some(ended) = ended {
                codec::encode_attempt(ended, value);",
        "if let Some(ended) = ended.filter(|_| !MUTANT) {
                codec::encode_attempt(ended, value);",
    ),
    fault(
        "cancelled-twice-is-refused",
        "whoever cancels a job that is cancelled is told that there is none",
        MANAGE,
        "JobState::Cancelled => return Ok(Answer::Job(view)),",
        "JobState::Cancelled if MUTANT => return Err(Rejection::NoSuchJob),
            JobState::Cancelled => return Ok(Answer::Job(view)),",
    ),
    fault(
        "forgotten-stays",
        "a job that was forgotten is still there",
        MANAGE,
        "self.change(Change::JobForgotten { job: view.job, place });",
        "if !MUTANT { self.change(Change::JobForgotten { job: view.job, place }) }",
    ),
    fault(
        "memory-not-asked",
        "the store is asked for jobs that are in memory",
        WINDOW,
        "if let Some(number) = self.named(name) {",
        "if let Some(number) = self.named(name).filter(|_| !MUTANT) {",
    ),
    fault(
        "page-of-one-kind-believed-for-all",
        "a page that was read for one kind of jobs counts for the others too",
        WINDOW,
        "queue.stretches.iter_mut().zip(loading.joins).filter(|(_, joins)| *joins)",
        "queue.stretches.iter_mut().zip(loading.joins).filter(|(_, joins)| *joins || MUTANT)",
    ),
    fault(
        "void-page-believed",
        "a page is joined to a memory that shrank while it was on its way",
        WINDOW,
        ".filter(|loading| !loading.void)",
        ".filter(|loading| !loading.void || MUTANT)",
    )
    .by(Suite::Core),
    fault(
        "page-wins-over-changes",
        "what a page says of a job counts more than what became of it meanwhile",
        WINDOW,
        ".filter(|(job, _)| !loading.changed.contains_key(&job.number))",
        ".filter(|(job, _)| MUTANT || !loading.changed.contains_key(&job.number))",
    )
    .by(Suite::Core),
    fault(
        "place-lost",
        "a place that nobody waited for is not free after its delivery",
        LANE,
        "        self.free += 1;\n",
        "        self.free += u32::from(!MUTANT);\n",
    ),
    fault(
        "held-back-and-forgotten",
        "reports that were held back are not passed on",
        LANE,
        "Some(since) if since + HOLD_MAX <= now => self.take_reports(),",
        "Some(since) if since + HOLD_MAX <= now => {
                let held = self.take_reports();
                if MUTANT { Vec::new() } else { held }
            }",
    )
    .by(Suite::Library),
    fault(
        "begun-though-taken-back",
        "a delivery that was taken back before it began begins all the same",
        COURIERS,
        "if !running.by_token.contains_key(&delivery.lease.token) {",
        "if !running.by_token.contains_key(&delivery.lease.token) && !MUTANT {",
    ),
    fault(
        "waited-too-long-and-forgotten",
        "a delivery that waited for too long is not given back",
        COURIERS,
        "self.tell(old.map(|token| (token, Report::Released)).collect());",
        "self.tell(old.map(|token| (token, Report::Released)).filter(|_| !MUTANT).collect());",
    )
    .by(Suite::Library),
    fault(
        "begun-though-expired",
        "a job that expired while its delivery waited is sent",
        EFFECT,
        "let has_expired = expires_at.is_some_and(|at| at <= now);",
        "let has_expired = expires_at.is_some_and(|at| at <= now) && !MUTANT;",
    )
    .by(Suite::Library),
];
