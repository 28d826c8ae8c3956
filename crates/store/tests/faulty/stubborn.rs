//! A caller that does not give up, as a store: every call is made again until it is answered with
//! something other than "unavailable", and a call that stays silent is dropped and made again.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use hence_core::id::{Epoch, JobName, JobNumber, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::schedule::OccurrenceRecord;
use hence_core::time::Timestamp;
use hence_store::{
    Answer, Capabilities, ErrorKind, Faulty, LedgerRequest, ListRequest, LiveJob, MemoryStore,
    Page, Place, Pressure, Recovered, ShardBatch, Store, StoredJob,
};

pub(crate) struct Stubborn(pub(crate) Arc<Faulty<MemoryStore>>);

/// Polls after which a call is taken for lost; more than any delay in these tests.
const PATIENCE_POLLS: u32 = 100;

impl Stubborn {
    fn until_answered<'a, T: Send + 'a>(
        &'a self,
        call: impl Fn(&'a Faulty<MemoryStore>) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        async move {
            loop {
                match patiently(call(&self.0)).await {
                    Some(Err(error)) if error.kind() == ErrorKind::Unavailable => {}
                    Some(answer) => return answer,
                    None => {}
                }
            }
        }
        .boxed()
    }
}

async fn patiently<T>(mut call: Answer<'_, T>) -> Option<Result<T, hence_store::StoreError>> {
    let mut polls = 0;
    poll_fn(move |context| match call.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if polls == PATIENCE_POLLS => Poll::Ready(None),
        Poll::Pending => {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

impl Store for Stubborn {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        self.until_answered(move |store| store.commit(batches.clone()))
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        self.until_answered(move |store| store.due(shard, queue.clone(), after, limit))
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.until_answered(move |store| store.recover(shard))
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        self.until_answered(move |store| store.get(shard, names.clone(), now))
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        self.until_answered(move |store| store.list(shard, request.clone()))
    }

    fn attempts(
        &self,
        shard: ShardId,
        name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.until_answered(move |store| store.attempts(shard, name.clone(), number))
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.until_answered(move |store| store.occurrences(shard, request.clone()))
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        self.until_answered(move |store| store.sweep(shard, now, limit))
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        self.until_answered(move |store| store.acquire(shard, node.clone()))
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        self.until_answered(move |store| store.release(shard, epoch))
    }

    fn pressure(&self) -> Pressure {
        self.0.pressure()
    }
}
