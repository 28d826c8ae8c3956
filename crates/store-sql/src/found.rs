//! What was found, in the form that was asked for: pages, jobs by name, jobs that run.

use std::collections::HashMap;

use hence_core::change::Place;
use hence_core::id::{JobName, JobNumber};
use hence_core::job::JobState;
use hence_core::time::Timestamp;
use hence_store::{Cursor, Filter, FinishedJob, ListRequest, LiveJob, Page, StoredJob};

use crate::rows::Stamp;

/// A live row.
pub(crate) struct Found {
    pub(crate) slot: i64,
    pub(crate) stamp: Stamp,
    pub(crate) live: LiveJob,
}

impl Found {
    pub(crate) fn place(&self) -> Place {
        place(&self.live)
    }
}

/// Where a live job stands.
pub(crate) fn place(live: &LiveJob) -> Place {
    Place { due_at: live.progress.due_at, number: live.job.number }
}

/// Whether live jobs can be on the page: they come before all finished ones.
pub(crate) fn wants_live(request: &ListRequest) -> bool {
    let states = &request.filter.states;
    let some = states.is_empty() || states.iter().any(|state| !state.is_final());
    some && request.after.as_ref().is_none_or(|after| !after.finished)
}

/// Running ones are few, and it is known where they stand.
pub(crate) fn only_running(filter: &Filter) -> bool {
    let mut live = filter.states.iter().filter(|state| !state.is_final()).peekable();
    live.peek().is_some() && live.all(|state| *state == JobState::Running)
}

/// The outcomes that finished jobs on the page may have.
pub(crate) fn outcomes(filter: &Filter) -> Vec<&'static str> {
    filter.states.iter().filter(|state| state.is_final()).map(|state| state.as_str()).collect()
}

/// A page that is being filled. It takes one job more than fits, which tells whether there is a
/// next page.
pub(crate) struct Filling<'a> {
    request: &'a ListRequest,
    rows: Vec<(Cursor, StoredJob)>,
}

impl<'a> Filling<'a> {
    pub(crate) fn new(request: &'a ListRequest) -> Self {
        Filling { request, rows: Vec::new() }
    }

    /// How many more it takes.
    pub(crate) fn missing(&self) -> usize {
        self.request.limit.saturating_add(1).saturating_sub(self.rows.len())
    }

    /// Takes the next live jobs whose state is asked for.
    pub(crate) fn add_live(&mut self, found: impl IntoIterator<Item = LiveJob>) {
        let ListRequest { filter: Filter { states, .. }, now, .. } = self.request;
        let fits = |live: &LiveJob| states.is_empty() || states.contains(&live.state(*now));
        let found = found.into_iter().filter(fits);
        self.rows.extend(found.map(|live| (cursor_of(&live), StoredJob::Live(live))));
    }

    /// Takes the next finished job.
    pub(crate) fn add_finished(&mut self, done: FinishedJob) {
        let (at, number) = (done.finish.at, done.job.number);
        let cursor = Cursor { finished: true, at, number, queue: done.job.name.queue.clone() };
        self.rows.push((cursor, StoredJob::Finished(done)));
    }

    pub(crate) fn page(mut self) -> Page {
        let more = self.rows.len() > self.request.limit;
        self.rows.truncate(self.request.limit);
        let next = self.rows.last().filter(|_| more).map(|(cursor, _)| cursor.clone());
        Page { jobs: self.rows.into_iter().map(|(_, job)| job).collect(), next }
    }
}

/// Where a live job is in a list.
pub(crate) fn cursor_of(live: &LiveJob) -> Cursor {
    let Place { due_at, number } = place(live);
    Cursor { finished: false, at: due_at, number, queue: live.job.name.queue.clone() }
}

/// The jobs of these names: the live one, or else the one that finished last, while it is kept.
pub(crate) fn by_name(
    names: &[JobName],
    now: Timestamp,
    finished: Vec<(Stamp, FinishedJob)>,
    live: impl IntoIterator<Item = LiveJob>,
) -> Vec<Option<StoredJob>> {
    let mut last: HashMap<JobName, (Stamp, FinishedJob)> = HashMap::new();
    for (stamp, done) in finished {
        let name = &done.job.name;
        if last.get(name).is_none_or(|(other, _)| *other < stamp) {
            last.insert(name.clone(), (stamp, done));
        }
    }
    let kept = last.into_iter().filter(|(_, (_, done))| done.finish.is_kept(now));
    let mut found: HashMap<JobName, StoredJob> =
        kept.map(|(name, (_, done))| (name, StoredJob::Finished(done))).collect();
    for live in live {
        found.insert(live.job.name.clone(), StoredJob::Live(live));
    }
    names.iter().map(|name| found.get(name).cloned()).collect()
}

/// Of these, the jobs that run or hold their key, each once, by number.
pub(crate) fn active(found: impl IntoIterator<Item = LiveJob>) -> Vec<LiveJob> {
    let active = found.into_iter().filter(|live| live.lease.is_some() || live.progress.holds_key);
    let active: HashMap<JobNumber, LiveJob> = active.map(|live| (live.job.number, live)).collect();
    let mut active: Vec<LiveJob> = active.into_values().collect();
    active.sort_by_key(|live| live.job.number);
    active
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hence_core::id::{Epoch, JobId, ShardId, Token, WorkerName};
    use hence_core::job::{Finish, Job, Lease, Outcome, Progress};

    use super::*;
    use crate::rows::tests::job;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn named(number: u64, id: &str) -> Arc<Job> {
        let name = JobName { id: JobId::new(id).unwrap(), ..job().name };
        Arc::new(Job { number: JobNumber(number), name, ..job() })
    }

    fn live(number: u64, due: i64) -> LiveJob {
        LiveJob { job: named(number, "a"), progress: Progress::fresh(at(due)), lease: None }
    }

    fn running(number: u64) -> LiveJob {
        let lease = Lease {
            token: Token { shard: ShardId(0), epoch: Epoch(1), counter: 1 },
            attempt: 1,
            holder: WorkerName::new("w").unwrap(),
            granted_at: at(0),
            until: at(100),
        };
        LiveJob { lease: Some(lease), ..live(number, 5) }
    }

    fn finished(id: &str, number: u64, keep_until: i64) -> FinishedJob {
        let progress = Progress::fresh(at(0));
        let finish = Finish {
            outcome: Outcome::Succeeded,
            at: at(1),
            keep_until: at(keep_until),
            result: None,
            reason: None,
        };
        FinishedJob { job: named(number, id), progress, finish }
    }

    fn request(states: &[JobState], limit: usize) -> ListRequest {
        let filter = Filter { states: states.to_vec(), ..Filter::default() };
        ListRequest { filter, after: None, limit, now: at(10) }
    }

    #[test]
    fn a_filter_says_where_to_look() {
        use JobState::{Dead, Ready, Running, Succeeded};
        let rows: [(&[JobState], bool, bool, &[&str]); 5] = [
            (&[], true, false, &[]),
            (&[Running], true, true, &[]),
            (&[Running, Dead], true, true, &["dead"]),
            (&[Running, Ready], true, false, &[]),
            (&[Succeeded, Dead], false, false, &["succeeded", "dead"]),
        ];
        for (states, some_live, running_alone, ends) in rows {
            let mut request = request(states, 1);
            assert_eq!(wants_live(&request), some_live, "{states:?}");
            assert_eq!(only_running(&request.filter), running_alone, "{states:?}");
            assert_eq!(outcomes(&request.filter), ends, "{states:?}");
            request.after = Some(Cursor { finished: true, ..cursor_of(&live(1, 1)) });
            assert!(!wants_live(&request), "{states:?}: all live ones were shown");
        }
    }

    #[test]
    fn a_page_takes_one_more_than_it_shows() {
        let request = request(&[JobState::Ready, JobState::Succeeded], 2);
        let rows = [
            ("too few", vec![live(1, 1)], None),
            ("as many as fit", vec![live(1, 1), live(2, 2)], None),
            ("one more", vec![live(1, 1), live(2, 2), live(3, 3)], Some(2)),
            ("another state", vec![live(1, 1), live(2, 2), live(3, 99), running(4)], None),
        ];
        for (what, jobs, next) in rows {
            let mut filling = Filling::new(&request);
            filling.add_live(jobs);
            let page = filling.page();
            assert_eq!(page.next.map(|cursor| cursor.number.0), next, "{what}");
            assert!(page.jobs.len() <= 2, "{what}");
        }
        let mut filling = Filling::new(&request);
        assert_eq!(filling.missing(), 3);
        filling.add_live([live(1, 1)]);
        filling.add_finished(finished("a", 2, 99));
        filling.add_finished(finished("a", 3, 99));
        assert_eq!(filling.missing(), 0);
        let next = filling.page().next.expect("a next page");
        assert!(next.finished && next.number == JobNumber(2), "{next:?}");
    }

    #[test]
    fn a_name_is_of_the_live_job_or_of_the_last_that_finished() {
        let names = ["a", "b", "c", "d"].map(|id| named(0, id).name.clone());
        let done = vec![
            (Stamp(1), finished("a", 1, 99)),
            (Stamp(3), finished("b", 3, 99)),
            (Stamp(2), finished("b", 2, 99)),
            (Stamp(4), finished("c", 4, 99)),
            (Stamp(5), finished("c", 5, 10)),
        ];
        let found = by_name(&names, at(10), done, [live(9, 1)]);
        let found: Vec<Option<(bool, u64)>> = found
            .into_iter()
            .map(|it| match it? {
                StoredJob::Live(live) => Some((true, live.job.number.0)),
                StoredJob::Finished(done) => Some((false, done.job.number.0)),
            })
            .collect();
        let expected = [Some((true, 9)), Some((false, 3)), None, None];
        assert_eq!(found, expected, "of c, the last is not kept any more, and the first is over");
    }

    #[test]
    fn active_jobs_run_or_hold_their_key() {
        let holding = |number| {
            let progress = Progress { holds_key: true, ..Progress::fresh(at(1)) };
            LiveJob { progress, ..live(number, 1) }
        };
        let found = [running(7), holding(3), live(5, 1), running(3)];
        let numbers: Vec<u64> = active(found).iter().map(|live| live.job.number.0).collect();
        assert_eq!(numbers, [3, 7], "each once, by number");
    }
}
