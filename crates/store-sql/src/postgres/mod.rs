//! PostgreSQL.
//!
//! The engine has threads of its own: the futures of a store are polled by whoever, and a
//! connection must be read all the time. Two connections commit, in order; a few read.
//!
//! Reading order: `write`, `bind` and `copy` for commits, `snapshot`, `read` and `list` for
//! looking, `sweep`, `turn` and `folding` for what goes, `schema` for tables.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::change::Place;
use hence_core::id::{Epoch, JobName, JobNumber, LetterId, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::time::{Millis, Timestamp};
use hence_store::{
    Answer, Capabilities, LedgerRequest, Letter, ListRequest, LiveJob, OccurrenceRecord, Page,
    Pressure, Recovered, ShardBatch, Store, StoreError, StoredJob, Tier,
};
use tokio::sync::{mpsc, watch};

use self::schema::Schema;
use self::session::Connector;
use self::shared::Shared;
use self::write::Commit;
use crate::limits::COMMITS_WAITING_MAX;
use crate::migrate::{self, Applied};
use crate::options::Meta;
pub use crate::options::{Options, Run};
use crate::patience::Patience;
use crate::slots::{Layout, Slots};
use crate::threads::{Threads, hand_over};
use crate::url::PostgresUrl;

mod bind;
mod copy;
mod error;
mod folding;
mod letters;
mod list;
mod own;
mod read;
mod schema;
mod servers;
mod session;
mod shared;
mod snapshot;
mod sweep;
mod tier;
mod tls;
mod turn;
mod value;
mod write;

/// A store in PostgreSQL.
pub struct PostgresStore {
    shared: Arc<Shared>,
    commits: mpsc::Sender<Commit>,
    shards: u16,
    tier: Tier,
    notes: Vec<String>,
    /// Counts the times that there may be new letters.
    news: watch::Sender<u64>,
    threads: Threads,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let schema = self.shared.schema.as_str();
        f.debug_struct("PostgresStore").field("schema", &schema).finish_non_exhaustive()
    }
}

/// Opens the store behind `postgres://role@host/database?schema=hence`, and makes it when it is not
/// there.
pub fn open(url: &str, options: &Options) -> BoxFuture<'static, Result<PostgresStore, StoreError>> {
    let (url, options) = (PostgresUrl::parse(url), options.clone());
    async move {
        let url = url?;
        options.check()?;
        let patience = options.patience();
        let threads = Threads::start("hence-postgres", patience)?;
        let connector = Connector::new(&url, patience)?;
        let opening = prepare(connector.clone(), url.clone(), options.clone());
        let (meta, found) = threads.run(opening).await?;
        let slots = Slots { width: meta.width, era: meta.era, ..options.slots };
        let shared = Arc::new(Shared::new(connector, url.readers, url.schema, slots, patience));
        let (commits, waiting) = mpsc::channel(COMMITS_WAITING_MAX);
        threads.spawn(write::writer(Arc::clone(&shared), waiting));
        let news = watch::Sender::new(0);
        threads.spawn(letters::listen(Arc::clone(&shared), news.clone()));
        let tier::Questioned { tier, notes } = found;
        Ok(PostgresStore { shared, commits, shards: meta.shards, tier, notes, news, threads })
    }
    .boxed()
}

async fn prepare(
    connector: Connector,
    url: PostgresUrl,
    options: Options,
) -> Result<(Meta, tier::Questioned), StoreError> {
    connector.refuse_pooler().await?;
    let session = connector.connect().await?;
    let found = tier::question(&session).await?;
    let schema = Schema { session: &session, name: &url.schema };
    for step in schema.migrate(None).await? {
        tracing::info!(version = step.version, name = step.name, "ran a migration of PostgreSQL");
    }
    let layout = Layout::at(options.now, &options.slots);
    let meta = schema.meta(options.meta(), &layout).await?;
    Ok((meta, found))
}

/// Brings the tables to a version; the newest, without one. A dry run only gives the text.
pub fn migrate_to(
    url: &str,
    to: Option<u32>,
    run: Run,
) -> BoxFuture<'static, Result<String, StoreError>> {
    with_schema(url, move |schema| {
        async move {
            let steps = match run {
                Run::Dry => migrate::plan(&schema::MIGRATIONS, &schema.applied().await?, to)?,
                Run::Really => schema.migrate(to).await?,
            };
            Ok(schema.text(&steps))
        }
        .boxed()
    })
}

/// The migrations that were run.
pub fn status(url: &str) -> BoxFuture<'static, Result<Vec<Applied>, StoreError>> {
    with_schema(url, |schema| async move { schema.applied().await }.boxed())
}

type Working<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

fn with_schema<T: Send + 'static>(
    url: &str,
    work: impl for<'a> FnOnce(&'a Schema<'a>) -> Working<'a, T> + Send + 'static,
) -> BoxFuture<'static, Result<T, StoreError>> {
    let url = PostgresUrl::parse(url);
    async move {
        let url = url?;
        let connector = Connector::new(&url, Patience::default())?;
        let threads = Threads::start("hence-postgres", Patience::default())?;
        let working = async move {
            connector.refuse_pooler().await?;
            let session = connector.connect().await?;
            let schema = Schema { session: &session, name: &url.schema };
            work(&schema).await
        };
        threads.run(working).await
    }
    .boxed()
}

impl PostgresStore {
    /// Brings the tables of a shard up to `now`, as a sweep does: late jobs are carried, slots
    /// open, commits are folded, and what is over is dropped.
    pub fn keep_up(&self, shard: ShardId, now: Timestamp) -> Answer<'_, ()> {
        self.read(|shared| async move {
            let reader = shared.pool.get().await?;
            turn::keep_up(&shared, &reader, shard, now).await?;
            reader.give_back();
            Ok(())
        })
    }

    fn read<T, F>(&self, work: impl FnOnce(Arc<Shared>) -> F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let answer = self.threads.run(work(Arc::clone(&self.shared)));
        let shared = Arc::clone(&self.shared);
        answer.inspect(move |answer| shared.pool.learn(answer)).boxed()
    }
}

impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "postgres",
            tier: self.tier,
            shared: true,
            persistent: true,
            inbox: true,
            shards: self.shards,
            notes: self.notes.clone(),
        }
    }

    fn commit(&self, batches: Vec<ShardBatch>) -> Answer<'_, ()> {
        hand_over(&self.commits, |answer| Commit { batches, answer })
    }

    fn due(
        &self,
        shard: ShardId,
        queue: QueueName,
        after: Place,
        limit: usize,
    ) -> Answer<'_, Vec<LiveJob>> {
        self.read(|shared| async move { read::due(&shared, shard, &queue, after, limit).await })
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.read(|shared| async move { read::recover(&shared, shard).await })
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        self.read(|shared| async move { read::get(&shared, shard, &names, now).await })
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        self.read(|shared| async move { list::list(&shared, shard, &request).await })
    }

    fn attempts(
        &self,
        shard: ShardId,
        _name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.read(|shared| async move { read::attempts(&shared, shard, number).await })
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.read(|shared| async move { read::occurrences(&shared, shard, &request).await })
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        self.read(|shared| async move { sweep::sweep(&shared, shard, now, limit).await })
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        self.read(|shared| async move { own::acquire(&shared, shard, &node).await })
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        self.read(|shared| async move { own::release(&shared, shard, epoch).await })
    }

    fn renew(&self, shard: ShardId, epoch: Epoch, tenure: Millis) -> Answer<'_, Option<Timestamp>> {
        self.read(|shared| async move { own::renew(&shared, shard, epoch, tenure).await.map(Some) })
    }

    fn letters(&self, after: LetterId, limit: usize) -> Answer<'_, Vec<Letter>> {
        self.read(|shared| async move { letters::read(&shared, after, limit).await })
    }

    fn await_letters(&self) -> Answer<'_, ()> {
        let mut news = self.news.subscribe();
        // It ends with the store, and whoever waits does too.
        async move {
            drop(news.changed().await);
            Ok(())
        }
        .boxed()
    }

    fn pressure(&self) -> Pressure {
        self.shared.pressure()
    }
}
