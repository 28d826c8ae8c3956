//! The threads of an engine: the futures of a store are polled by whoever, and a connection needs a
//! runtime of its own.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_store::{ErrorKind, StoreError};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use crate::limits::COMMITS_WAITING_MAX;
use crate::patience::Patience;

/// Left to end by themselves, since whoever drops a store may not be allowed to wait.
pub(crate) struct Threads {
    runtime: Option<Runtime>,
    call: Duration,
}

impl Threads {
    pub(crate) fn start(name: &str, patience: Patience) -> Result<Self, StoreError> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name(name).enable_all().build();
        let failed = |error| StoreError::caused_by(ErrorKind::Unavailable, "start threads", error);
        Ok(Threads { runtime: Some(runtime.map_err(failed)?), call: patience.call })
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.as_ref().expect("threads run until they are dropped").spawn(work)
    }

    /// Runs the work to its end, or until a call has taken too long.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let within = self.call;
        let task = self.spawn(async move { tokio::time::timeout(within, work).await });
        let refused = move |why: String| StoreError::new(ErrorKind::Unavailable, why);
        async move {
            match task.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => {
                    Err(refused(format!("no answer from the database within {within:?}")))
                }
                Err(error) => Err(refused(format!("a task of the store ended: {error}"))),
            }
        }
        .boxed()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Hands a commit to the one that writes, and waits for its answer. It is sent at once and not when
/// it is polled: commits are made in the order of the calls.
pub(crate) fn hand_over<C>(
    writer: &mpsc::Sender<C>,
    commit: impl FnOnce(oneshot::Sender<Result<(), StoreError>>) -> C,
) -> BoxFuture<'static, Result<(), StoreError>> {
    let (answer, answered) = oneshot::channel();
    let refused = |why: &str| StoreError::new(ErrorKind::Unavailable, why);
    if writer.try_send(commit(answer)).is_err() {
        let why = format!("commit: {COMMITS_WAITING_MAX} others wait already");
        return std::future::ready(Err(refused(&why))).boxed();
    }
    async move { answered.await.unwrap_or_else(|_| Err(refused("commit: the store was closed"))) }
        .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_sent_at_once_and_refused_when_too_many_wait() {
        let (writer, mut commits) = mpsc::channel(2);
        let send = |number: u32| hand_over(&writer, move |answer| (number, answer));
        let (_one, two, three) = (send(1), send(2), send(3));
        let refused = three.now_or_never().expect("at once").expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert_eq!(commits.try_recv().expect("sent, though nobody polled").0, 1);
        drop(commits);
        let closed = two.now_or_never().expect("at once").expect_err("nobody answers");
        assert_eq!(closed.kind(), ErrorKind::Unavailable);
    }
}
