//! Who waits for the end of which job.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hence_core::change::Change;
use hence_core::id::JobName;
use hence_core::job::JobView;
use tokio::sync::oneshot;

/// The watchers of all jobs.
#[derive(Default)]
pub(crate) struct Watchers {
    /// Looked at first: with nobody watching, an ended job costs one load.
    count: AtomicUsize,
    by_name: Mutex<HashMap<JobName, Vec<oneshot::Sender<JobView>>>>,
}

impl Watchers {
    /// Resolves when the job has ended and that is durable; none when Hence stops first.
    pub(crate) fn watch(
        self: &Arc<Self>,
        name: JobName,
    ) -> impl Future<Output = Option<JobView>> + use<> {
        let (sender, receiver) = oneshot::channel();
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let watchers = by_name.entry(name).or_default();
        watchers.retain(|other| !other.is_closed());
        watchers.push(sender);
        self.count.store(by_name.len(), Ordering::Release);
        drop(by_name);
        async move { receiver.await.ok() }
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

    fn tell_one(&self, view: &JobView) {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        for watcher in by_name.remove(&view.job.name).unwrap_or_default() {
            // Whoever stopped waiting does not want to know.
            let _ = watcher.send(view.clone());
        }
        by_name.retain(|_, watchers| watchers.iter().any(|watcher| !watcher.is_closed()));
        self.count.store(by_name.len(), Ordering::Release);
    }
}
