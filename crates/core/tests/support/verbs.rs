//! What scenarios say to the world, one short word each.

use hence_core::effect::{Answer, Delivery, Submitted};
use hence_core::error::Rejection;
use hence_core::id::{HandlerName, ScheduleId, Token, WorkerName};
use hence_core::input::{Edit, Input, Nack, Report, Request, Ticket};
use hence_core::job::{JobSpec, JobView, Target};
use hence_core::queue::{QueueSettings, QueueView};
use hence_core::schedule::{Schedule, ScheduleProgress, ScheduleState};
use hence_core::when::Plan;

use super::draft::{Draft, ms, name, payload, queue_name};
use super::{Reply, World, at};

impl World {
    /// Moves the clock and says so.
    pub(crate) fn at(&mut self, millis: i64) -> &mut World {
        self.now = at(millis);
        self.feed(Input::Tick);
        self
    }

    /// The answer to a request that must have been answered.
    pub(crate) fn reply(&mut self, ticket: Ticket) -> Reply {
        self.replies.remove(&ticket).expect("an answer")
    }

    pub(crate) fn call(&mut self, request: Request) -> Reply {
        let ticket = self.ask(request);
        self.reply(ticket)
    }

    pub(crate) fn submit(&mut self, draft: Draft) -> Result<Submitted, Rejection> {
        match self.call(Request::Submit(Box::new(draft.0)))? {
            Answer::Submitted { how, .. } => Ok(how),
            other => panic!("a submission was answered with {other:?}"),
        }
    }

    /// Submits what must be accepted.
    pub(crate) fn put(&mut self, draft: Draft) {
        self.submit(draft).expect("accepted");
    }

    pub(crate) fn show(&mut self, text: &str) -> Result<JobView, Rejection> {
        view(self.call(Request::Show(name(text))))
    }

    pub(crate) fn state(&mut self, text: &str) -> &'static str {
        match self.show(text) {
            Ok(view) => view.state.as_str(),
            Err(Rejection::NoSuchJob) => "absent",
            Err(other) => panic!("{other}"),
        }
    }

    pub(crate) fn cancel(&mut self, text: &str) -> Result<JobView, Rejection> {
        view(self.call(Request::Cancel(name(text))))
    }

    pub(crate) fn run_now(&mut self, text: &str) -> Result<JobView, Rejection> {
        view(self.call(Request::RunNow(name(text))))
    }

    pub(crate) fn replay(&mut self, text: &str) -> Result<JobView, Rejection> {
        view(self.call(Request::Replay(name(text))))
    }

    pub(crate) fn forget(&mut self, text: &str) -> Result<(), Rejection> {
        self.call(Request::Forget(name(text))).map(|_| ())
    }

    pub(crate) fn edit(&mut self, text: &str, edit: Edit) -> Result<JobView, Rejection> {
        view(self.call(Request::Edit { name: name(text), edit: Box::new(edit) }))
    }

    pub(crate) fn move_to(&mut self, text: &str, millis: i64) -> Result<JobView, Rejection> {
        self.edit(text, Edit { due_at: Some(at(millis)), ..Edit::default() })
    }

    /// A worker asks for jobs of these queues.
    pub(crate) fn lease(&mut self, queues: &[&str], max: u32, lease: Option<u64>) -> Vec<Delivery> {
        let request = Request::Lease {
            worker: WorkerName::new("worker").expect("a good name"),
            queues: queues.iter().map(|queue| queue_name(queue)).collect(),
            max,
            lease: lease.map(ms),
        };
        match self.call(request) {
            Ok(Answer::Leased(deliveries)) => deliveries,
            other => panic!("a lease was answered with {other:?}"),
        }
    }

    /// A worker takes all there is of the default queue, under leases of a second.
    pub(crate) fn take(&mut self) -> Vec<Delivery> {
        self.lease(&["default"], 100, Some(1_000))
    }

    /// The ids of what a worker takes.
    pub(crate) fn take_ids(&mut self) -> Vec<String> {
        ids(&self.take())
    }

    /// The one job there is to take.
    pub(crate) fn take_one(&mut self) -> Delivery {
        let mut taken = self.lease(&["default"], 1, Some(1_000));
        taken.pop().expect("a job to take")
    }

    pub(crate) fn ack(&mut self, token: Token) -> Result<(), Rejection> {
        self.call(Request::Ack { token, result: None }).map(|_| ())
    }

    pub(crate) fn nack(&mut self, token: Token, how: Nack) -> Result<(), Rejection> {
        self.call(Request::Nack { token, reason: None, how, random: 0 }).map(|_| ())
    }

    pub(crate) fn extend(&mut self, token: Token, lease: u64) -> Reply {
        self.call(Request::Extend { token, lease: ms(lease) })
    }

    /// What was delivered since the last time this was asked, by id.
    pub(crate) fn delivered(&mut self) -> Vec<String> {
        ids(&std::mem::take(&mut self.deliveries))
    }

    /// The one delivery since the last time.
    pub(crate) fn delivery(&mut self) -> Delivery {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        assert_eq!(deliveries.len(), 1, "{deliveries:?}");
        deliveries.remove(0)
    }

    pub(crate) fn report(&mut self, token: Token, report: Report) {
        self.feed(Input::Delivered { token, report, random: 0 });
    }

    pub(crate) fn succeed(&mut self, token: Token) {
        self.report(token, Report::Succeeded { result: None });
    }

    pub(crate) fn fail(&mut self, token: Token) {
        self.report(token, failed(None, false));
    }

    pub(crate) fn handlers(&mut self, names: &[&str]) {
        let names = names.iter().map(|name| HandlerName::new(name).expect("a good name")).collect();
        self.feed(Input::Handlers(names));
    }

    pub(crate) fn settings(&mut self, queue: &str, settings: QueueSettings) {
        let request = Request::PutQueue { name: queue_name(queue), settings };
        self.call(request).expect("accepted");
    }

    pub(crate) fn queue(&mut self, queue: &str) -> QueueView {
        match self.call(Request::ShowQueue(queue_name(queue))) {
            Ok(Answer::Queue(view)) => *view,
            other => panic!("a queue was shown as {other:?}"),
        }
    }

    pub(crate) fn put_schedule(&mut self, schedule: Schedule) -> ScheduleState {
        let schedule = Box::new(schedule);
        schedule_state(self.call(Request::PutSchedule { schedule, wake: false }))
    }

    pub(crate) fn pause(&mut self, id: &str) -> ScheduleState {
        let note = "enough".into();
        schedule_state(self.call(Request::PauseSchedule { id: schedule_id(id), note }))
    }

    pub(crate) fn resume(&mut self, id: &str) -> ScheduleState {
        schedule_state(self.call(Request::ResumeSchedule(schedule_id(id))))
    }

    /// How far a schedule has come.
    pub(crate) fn schedule(&mut self, id: &str) -> ScheduleProgress {
        schedule_state(self.call(Request::ShowSchedule(schedule_id(id)))).progress
    }

    /// Runs until nothing more happens by itself before `millis`, called at every deadline.
    pub(crate) fn run_to(&mut self, millis: i64) {
        while let Some(next) = self.shard.deadline().filter(|next| *next <= at(millis)) {
            self.now = next;
            self.feed(Input::Tick);
        }
        self.at(millis);
    }
}

pub(crate) fn ids(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| delivery.job.name.id.to_string()).collect()
}

pub(crate) fn view(reply: Reply) -> Result<JobView, Rejection> {
    match reply? {
        Answer::Job(view) => Ok(view),
        other => panic!("a job was shown as {other:?}"),
    }
}

fn schedule_state(reply: Reply) -> ScheduleState {
    match reply {
        Ok(Answer::Schedule(state)) => *state,
        other => panic!("a schedule was shown as {other:?}"),
    }
}

pub(crate) fn schedule_id(text: &str) -> ScheduleId {
    ScheduleId::new(text).expect("a good name")
}

/// A schedule of worker jobs in the default queue.
pub(crate) fn schedule(id: &str, start: i64, interval: u64) -> Schedule {
    let spec = JobSpec { payload: payload("tick"), ..JobSpec::new(Target::Worker) };
    Schedule::new(schedule_id(id), every(start, interval), spec)
}

/// An interval from a start.
pub(crate) fn every(start: i64, interval: u64) -> Plan {
    Plan::every(at(start), ms(interval))
}

pub(crate) fn failed(retry_after: Option<u64>, permanent: bool) -> Report {
    let retry_after = retry_after.map(ms);
    Report::Failed { reason: "no".into(), retry_after, permanent }
}
