//! The threads of an engine: the futures of a store are polled by whoever, and a connection needs a
//! runtime of its own.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_store::{ErrorKind, StoreError};
use tokio::runtime::Runtime;

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
