//! The verbs: schedule, look, change, take back, pull, finish. The same as over HTTP.
//!
//! A client is cheap to clone and may be used from any task. Every answer that says something was
//! done says so after it is durable.

mod pull;

use std::sync::Arc;
use std::time::Duration;

use hence_core::effect::{Answer, Submitted};
use hence_core::id::{JobName, QueueName, ScheduleId, ShardId};
use hence_core::input::{Edit, Request};
use hence_core::job::{AttemptRecord, JobSpec, JobView};
use hence_core::limits;
use hence_core::queue::{QueueSettings, QueueView};
use hence_core::schedule::{
    OccurrenceRecord, Schedule, ScheduleCheck, ScheduleDraft, ScheduleState,
};
use hence_core::time::{Millis, Timestamp};
use hence_core::waiting::WaitingFor;
use hence_core::when::Forecast;
use hence_store::{Capabilities, Cursor, Filter, LedgerRequest, ListRequest, Pressure, Store};
use tokio::runtime::Handle;

use crate::chance::Chance;
use crate::clock::Clock;
use crate::error::Error;
use crate::mailbox::Mailbox;
use crate::new_job::NewJob;
use crate::watch::Watchers;

pub use self::pull::{Exchange, LeaseRequest};

/// The library runs one shard; see `docs/decisions/0003-one-shard-on-one-machine.md`.
pub(crate) const SHARD: ShardId = ShardId(0);

/// The way to ask Hence for something.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) mailbox: Mailbox,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) chance: Chance,
    /// Whose threads read from a store that answers on the thread that asks; none: the caller's.
    pub(crate) aside: Option<Handle>,
}

/// A job that was scheduled, or stood already.
#[derive(Clone, Debug)]
pub struct Added {
    /// The job as it is now.
    pub view: JobView,
    /// What became of the submission.
    pub how: Submitted,
}

/// A page of jobs.
#[derive(Clone, Debug)]
pub struct JobPage {
    /// The jobs, in order.
    pub jobs: Vec<JobView>,
    /// Where the next page begins, when there may be one.
    pub next: Option<Cursor>,
}

/// What to do with every job that matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkAction {
    /// Take it back.
    Cancel,
    /// Make it due at once.
    RunNow,
    /// Bring it back from the dead.
    Replay,
    /// Forget it, finished as it is.
    Forget,
}

/// What came of a bulk action.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BulkReport {
    /// Jobs that matched.
    pub matched: u64,
    /// Jobs it was done to.
    pub done: u64,
    /// Jobs that were in no state for it, or not any more.
    pub refused: u64,
}

impl Client {
    pub(crate) fn new(inner: Inner) -> Self {
        Client { inner: Arc::new(inner) }
    }

    /// The time, as Hence sees it.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// What the store can do and how safe it is.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.store.capabilities()
    }

    /// Whether the store has room for new work.
    pub fn pressure(&self) -> Pressure {
        self.inner.store.pressure()
    }

    /// Schedules a job. When this returns `Ok`, the job is durable.
    ///
    /// ```
    /// # use hence::testing::{TestHence, in_memory};
    /// use hence::core::{effect::Submitted, time::Millis};
    /// use hence::NewJob;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hence = TestHence::start(in_memory()).await?;
    /// # let client = hence.client();
    /// let reminder = || NewJob::worker().queue("mail")?.id("reminder");
    /// let added = client.add(reminder()?.payload("pay").after(Millis::from_secs(60))).await?;
    /// assert_eq!(added.view.progress.due_at, client.now().plus(Millis::from_secs(60)));
    ///
    /// // The same name again: the old one never runs.
    /// let again = client.add(reminder()?.payload("pay now")).await?;
    /// assert_eq!(again.how, Submitted::Replaced);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add(&self, job: NewJob) -> Result<Added, Error> {
        let request = self.submission(job)?;
        added(self.inner.mailbox.ask(request).await?)
    }

    /// Schedules many jobs; each is answered for itself, in order.
    pub async fn add_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Added, Error>>, Error> {
        let mut answers: Vec<Option<Result<Added, Error>>> = Vec::with_capacity(jobs.len());
        let mut requests = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.submission(job) {
                Ok(request) => {
                    requests.push(request);
                    answers.push(None);
                }
                Err(error) => answers.push(Some(Err(error))),
            }
        }
        let mut replies = self.inner.mailbox.ask_many(requests).await?.into_iter();
        let filled = answers.into_iter().map(|answer| match answer {
            Some(refused) => refused,
            None => replies.next().unwrap_or(Err(Error::Stopped)).and_then(added),
        });
        Ok(filled.collect())
    }

    fn submission(&self, job: NewJob) -> Result<Request, Error> {
        let now = self.now();
        let submission = job.into_submission(now, |now| self.inner.chance.id(now))?;
        Ok(Request::Submit(Box::new(submission)))
    }

    /// Shows a job.
    pub async fn show(&self, name: JobName) -> Result<JobView, Error> {
        job(self.inner.mailbox.ask(Request::Show(name)).await?)
    }

    /// What a job waits for that is due; nothing when it is not, when it runs, or has ended.
    pub async fn waiting_for(&self, name: JobName) -> Result<Option<WaitingFor>, Error> {
        match self.inner.mailbox.ask(Request::Explain(name)).await? {
            Answer::WaitingFor(why) => Ok(why),
            other => unexpected(&other),
        }
    }

    /// Changes a job that is not running.
    pub async fn edit(&self, name: JobName, edit: Edit) -> Result<JobView, Error> {
        job(self.inner.mailbox.ask(Request::Edit { name, edit: Box::new(edit) }).await?)
    }

    /// Takes a job back. If it is running, its success will not be recorded.
    pub async fn cancel(&self, name: JobName) -> Result<JobView, Error> {
        job(self.inner.mailbox.ask(Request::Cancel(name)).await?)
    }

    /// Makes a waiting job due at once.
    pub async fn run_now(&self, name: JobName) -> Result<JobView, Error> {
        job(self.inner.mailbox.ask(Request::RunNow(name)).await?)
    }

    /// Gives a dead job all its attempts again, at once.
    pub async fn replay(&self, name: JobName) -> Result<JobView, Error> {
        job(self.inner.mailbox.ask(Request::Replay(name)).await?)
    }

    /// Forgets a finished job before its time.
    pub async fn forget(&self, name: JobName) -> Result<(), Error> {
        done(self.inner.mailbox.ask(Request::Forget(name)).await?)
    }

    /// A page of jobs. It may be short, or even empty, and still say where the next one begins: a
    /// store looks at so many jobs at once, and no further.
    pub async fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<JobPage, Error> {
        let now = self.now();
        let limit = limit.clamp(1, limits::PAGE_MAX);
        let request = ListRequest { filter, after, limit, now };
        let page = self.read(move |store| store.list(SHARD, request)).await?;
        let jobs = page.jobs.into_iter().map(|stored| stored.view(now)).collect();
        Ok(JobPage { jobs, next: page.next })
    }

    /// The attempts of a job that have ended, in order.
    pub async fn attempts(&self, name: JobName) -> Result<Vec<AttemptRecord>, Error> {
        let view = self.show(name).await?;
        let (name, number) = (view.job.name.clone(), view.job.number);
        self.read(move |store| store.attempts(SHARD, name, number)).await
    }

    /// Waits until a job has ended; none when it has not within this time.
    ///
    /// ```
    /// # use hence::testing::{TestHence, in_memory};
    /// use hence::NewJob;
    /// use hence::core::job::JobState;
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hence = TestHence::start(in_memory()).await?;
    /// # let client = hence.client();
    /// let added = client.add(NewJob::worker()).await?;
    /// let name = added.view.job.name.clone();
    /// assert!(client.wait(name.clone(), Duration::from_millis(1)).await?.is_none(), "not yet");
    /// client.cancel(name.clone()).await?;
    /// let ended = client.wait(name, Duration::from_secs(1)).await?.expect("it has");
    /// assert_eq!(ended.state, JobState::Cancelled);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self, name: JobName, timeout: Duration) -> Result<Option<JobView>, Error> {
        // Watch first, look second: an end between the two is seen by one of them.
        let ended = self.inner.watchers.watch(name.clone());
        let view = self.show(name.clone()).await?;
        if view.state.is_final() {
            return Ok(Some(view));
        }
        match tokio::time::timeout(timeout, ended).await {
            Ok(Some(view)) => Ok(Some(view)),
            Ok(None) => Err(Error::Stopped),
            Err(_) => Ok(None),
        }
    }

    /// Does something to every job that matches, page by page. What ends while it is under way is
    /// not meant.
    pub async fn bulk(&self, filter: Filter, action: BulkAction) -> Result<BulkReport, Error> {
        let mut report = BulkReport::default();
        let mut after = None;
        // Finished jobs come in the order of their ends, so what is done here makes more of them
        // behind the cursor: a job that is replayed and dies again would be replayed without end.
        let begun = self.now();
        loop {
            let mut page = self.list(filter.clone(), after, limits::PAGE_MAX).await?;
            page.jobs.retain(|view| view.finish.as_ref().is_none_or(|end| end.at <= begun));
            report.matched += page.jobs.len() as u64;
            let requests = page.jobs.iter().map(|view| bulk_request(action, view)).collect();
            for answer in self.inner.mailbox.ask_many(requests).await? {
                match answer {
                    Ok(_) => report.done += 1,
                    Err(Error::Rejected(_)) => report.refused += 1,
                    Err(error) => return Err(error),
                }
            }
            after = page.next.filter(|next| !next.finished || next.at <= begun);
            if after.is_none() {
                return Ok(report);
            }
        }
    }

    /// Puts a schedule, new or changed, whole: policies that are not given are the defaults again.
    /// Only a pause stays as it is, unless the schedule has one.
    pub async fn put_schedule(&self, new: Schedule) -> Result<ScheduleState, Error> {
        self.put(new, false).await
    }

    /// The same, and it ticks from now on, also if it was paused.
    pub async fn put_schedule_awake(&self, new: Schedule) -> Result<ScheduleState, Error> {
        self.put(new, true).await
    }

    async fn put(&self, new: Schedule, wake: bool) -> Result<ScheduleState, Error> {
        let request = Request::PutSchedule { schedule: Box::new(new), wake };
        schedule(self.inner.mailbox.ask(request).await?)
    }

    /// Removes a schedule and its ledger; jobs it made stay.
    pub async fn remove_schedule(&self, id: ScheduleId) -> Result<(), Error> {
        done(self.inner.mailbox.ask(Request::RemoveSchedule(id)).await?)
    }

    /// Reads a schedule from words and puts it, new or changed: [`Schedule::cron`],
    /// [`Schedule::every`], [`Schedule::when`].
    pub async fn schedule_jobs(
        &self,
        id: ScheduleId,
        draft: ScheduleDraft,
        template: JobSpec,
    ) -> Result<ScheduleState, Error> {
        self.put_schedule(draft.build(id, template, self.now())?).await
    }

    /// Stops a schedule's ticking; the note says why, and may be empty.
    pub async fn pause_schedule(&self, id: ScheduleId, note: &str) -> Result<ScheduleState, Error> {
        let note = Arc::from(note);
        schedule(self.inner.mailbox.ask(Request::PauseSchedule { id, note }).await?)
    }

    /// Lets a schedule tick again. Ticks of the pause are accounted for as skipped.
    pub async fn resume_schedule(&self, id: ScheduleId) -> Result<ScheduleState, Error> {
        schedule(self.inner.mailbox.ask(Request::ResumeSchedule(id)).await?)
    }

    /// Makes jobs of ticks from one instant up to and with another that made none, at least `pace`
    /// apart. Comes back at once; the schedule shows how far it has come.
    pub async fn backfill(
        &self,
        id: ScheduleId,
        from: Timestamp,
        until: Timestamp,
        pace: Millis,
    ) -> Result<ScheduleState, Error> {
        schedule(self.inner.mailbox.ask(Request::Backfill { id, from, until, pace }).await?)
    }

    /// Ends a backfill before it is through; the jobs that it made stay.
    pub async fn cancel_backfill(&self, id: ScheduleId) -> Result<ScheduleState, Error> {
        schedule(self.inner.mailbox.ask(Request::CancelBackfill(id)).await?)
    }

    /// How many schedules there are, and which fail the self-check, at most so many: those that
    /// have neither a next tick nor a reason, or are overdue.
    pub async fn check_schedules(&self, limit: usize) -> Result<ScheduleCheck, Error> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        match self.inner.mailbox.ask(Request::CheckSchedules { limit }).await? {
            Answer::ScheduleCheck(check) => Ok(*check),
            other => unexpected(&other),
        }
    }

    /// How many jobs of schedules fall due in each of the coming minutes: of one, or of all.
    pub async fn forecast(
        &self,
        only: Option<ScheduleId>,
        minutes: u32,
    ) -> Result<Forecast, Error> {
        let mut forecast = Forecast::new(self.now(), minutes);
        if let Some(id) = only {
            forecast.add(self.schedule(id).await?.coming());
            return Ok(forecast);
        }
        let mut after = None;
        loop {
            let page = self.schedules(after, limits::PAGE_MAX).await?;
            after = page.last().map(|state| state.schedule.id.clone());
            let whole = page.len() < limits::PAGE_MAX;
            // A day of a thousand schedules is much to count: not in everybody's way.
            let counted = tokio::task::spawn_blocking(move || {
                for state in &page {
                    forecast.add(state.coming());
                }
                forecast
            });
            forecast = counted.await.map_err(|_| Error::Stopped)?;
            if whole || forecast.cut {
                return Ok(forecast);
            }
        }
    }

    /// Makes a job of the schedule now, outside its rhythm.
    pub async fn trigger_schedule(&self, id: ScheduleId) -> Result<JobView, Error> {
        job(self.inner.mailbox.ask(Request::TriggerSchedule(id)).await?)
    }

    /// Shows a schedule.
    pub async fn schedule(&self, id: ScheduleId) -> Result<ScheduleState, Error> {
        schedule(self.inner.mailbox.ask(Request::ShowSchedule(id)).await?)
    }

    /// Shows schedules in order of id, at most so many after this one.
    pub async fn schedules(
        &self,
        after: Option<ScheduleId>,
        limit: usize,
    ) -> Result<Vec<ScheduleState>, Error> {
        let limit = limit.clamp(1, limits::PAGE_MAX);
        match self.inner.mailbox.ask(Request::ListSchedules { after, limit }).await? {
            Answer::Schedules(schedules) => Ok(schedules),
            other => unexpected(&other),
        }
    }

    /// A page of a schedule's ledger: what became of its ticks.
    pub async fn occurrences(
        &self,
        request: LedgerRequest,
    ) -> Result<Vec<OccurrenceRecord>, Error> {
        let limit = request.limit.clamp(1, limits::PAGE_MAX);
        let request = LedgerRequest { limit, ..request };
        self.read(move |store| store.occurrences(SHARD, request)).await
    }

    /// Reads from the store. One that works on the thread that asks is asked on a thread that may
    /// wait: a few long lists would otherwise hold up every task there is, timeouts too.
    async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Store) -> hence_store::Answer<'_, T> + Send + 'static,
    ) -> Result<T, Error> {
        let Some(runtime) = &self.inner.aside else { return Ok(ask(&*self.inner.store).await?) };
        let (store, inside) = (Arc::clone(&self.inner.store), runtime.clone());
        let read = runtime.spawn_blocking(move || inside.block_on(ask(&*store)));
        Ok(read.await.map_err(|_| Error::Stopped)??)
    }

    /// Changes a queue's settings, whole.
    pub async fn put_queue(
        &self,
        name: QueueName,
        settings: QueueSettings,
    ) -> Result<QueueView, Error> {
        queue(self.inner.mailbox.ask(Request::PutQueue { name, settings }).await?)
    }

    /// Forgets a queue that holds no job, neither live nor dead: its settings and its counts.
    /// Finished jobs of it stay for their time, and the next job makes it anew.
    pub async fn remove_queue(&self, name: QueueName) -> Result<(), Error> {
        done(self.inner.mailbox.ask(Request::RemoveQueue(name)).await?)
    }

    /// Shows a queue.
    pub async fn queue(&self, name: QueueName) -> Result<QueueView, Error> {
        queue(self.inner.mailbox.ask(Request::ShowQueue(name)).await?)
    }

    /// Shows all queues, in order of name.
    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        match self.inner.mailbox.ask(Request::ListQueues).await? {
            Answer::Queues(queues) => Ok(queues),
            other => unexpected(&other),
        }
    }
}

fn bulk_request(action: BulkAction, view: &JobView) -> Request {
    let name = view.job.name.clone();
    match action {
        BulkAction::Cancel => Request::Cancel(name),
        BulkAction::RunNow => Request::RunNow(name),
        BulkAction::Replay => Request::Replay(name),
        BulkAction::Forget => Request::Forget(name),
    }
}

fn added(answer: Answer) -> Result<Added, Error> {
    match answer {
        Answer::Submitted { view, how } => Ok(Added { view, how }),
        other => unexpected(&other),
    }
}

fn job(answer: Answer) -> Result<JobView, Error> {
    match answer {
        Answer::Job(view) => Ok(view),
        other => unexpected(&other),
    }
}

fn done(answer: Answer) -> Result<(), Error> {
    match answer {
        Answer::Done => Ok(()),
        other => unexpected(&other),
    }
}

fn schedule(answer: Answer) -> Result<ScheduleState, Error> {
    match answer {
        Answer::Schedule(state) => Ok(*state),
        other => unexpected(&other),
    }
}

fn queue(answer: Answer) -> Result<QueueView, Error> {
    match answer {
        Answer::Queue(view) => Ok(*view),
        other => unexpected(&other),
    }
}

/// The core answers each request with its own kind of answer: anything else is our bug.
fn unexpected<T>(answer: &Answer) -> Result<T, Error> {
    unreachable!("the core gave an answer of another kind: {answer:?}")
}
