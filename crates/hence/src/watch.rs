//! Who waits for the end of which job.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hence_core::change::Change;
use hence_core::id::JobName;
use hence_core::job::JobView;
use tokio::sync::oneshot;

/// The watchers of all jobs.
#[derive(Default)]
pub(crate) struct Watchers {
    /// Looked at first: with nobody watching, an ended job costs one load.
    count: AtomicUsize,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    by_name: HashMap<JobName, Vec<oneshot::Sender<JobView>>>,
    /// Nothing will end any more that anybody could be told of.
    closed: bool,
}

/// Resolves when the job has ended and that is durable; with none when Hence stops first. Dropped,
/// it leaves nothing behind.
pub(crate) struct Watch {
    watchers: Arc<Watchers>,
    name: JobName,
    end: oneshot::Receiver<JobView>,
}

impl Watchers {
    /// Watches the job of this name.
    pub(crate) fn watch(self: &Arc<Self>, name: JobName) -> Watch {
        let (sender, end) = oneshot::channel();
        let mut watched = self.lock();
        if !watched.closed {
            watched.by_name.entry(name.clone()).or_default().push(sender);
        }
        self.recount(&watched);
        drop(watched);
        Watch { watchers: Arc::clone(self), name, end }
    }

    /// These facts are durable now.
    pub(crate) fn tell(&self, changes: &[Change]) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for change in changes {
            if let Change::JobFinished { job, progress, finish, .. } = change {
                let state = finish.outcome.state();
                let finish = Some(finish.clone());
                let (job, progress) = (Arc::clone(job), *progress);
                self.tell_one(&JobView { job, state, progress, lease: None, finish });
            }
        }
    }

    /// Hence has stopped: nobody needs to wait any longer.
    pub(crate) fn close(&self) {
        let mut watched = self.lock();
        watched.closed = true;
        watched.by_name.clear();
        self.recount(&watched);
    }

    fn tell_one(&self, view: &JobView) {
        let mut watched = self.lock();
        for watcher in watched.by_name.remove(&view.job.name).unwrap_or_default() {
            // Whoever stopped waiting does not want to know.
            let _ = watcher.send(view.clone());
        }
        self.recount(&watched);
    }

    fn leave(&self, name: &JobName) {
        let mut watched = self.lock();
        if let Some(watchers) = watched.by_name.get_mut(name) {
            watchers.retain(|watcher| !watcher.is_closed());
            if watchers.is_empty() {
                watched.by_name.remove(name);
            }
        }
        self.recount(&watched);
    }

    fn recount(&self, watched: &Watched) {
        self.count.store(watched.by_name.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Watch {
    type Output = Option<JobView>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<JobView>> {
        Pin::new(&mut self.end).poll(context).map(Result::ok)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end.close();
        self.watchers.leave(&self.name);
    }
}
