//! MySQL and MariaDB.
//!
//! One connection commits, in order; a few read. Everything is sent as text, several statements at
//! once: the protocol waits for an answer to each packet, and a packet may hold many.
//!
//! Reading order: `write` and `statements` for commits, `snapshot`, `read` and `list` for
//! looking, `sweep`, `turn` and `folding` for what goes, `migrate` and `schema` for tables.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::change::Place;
use hence_core::id::{Epoch, JobName, JobNumber, LetterId, QueueName, ShardId};
use hence_core::job::AttemptRecord;
use hence_core::time::{Millis, Timestamp};
use hence_store::{
    Answer, Capabilities, ErrorKind, LedgerRequest, Letter, ListRequest, LiveJob, OccurrenceRecord,
    Page, Pressure, Recovered, ShardBatch, Store, StoreError, StoredJob, Tier,
};
use tokio::sync::mpsc;

use self::schema::Schema;
use self::session::{Cluster, Connector, Role, Session};
use self::shared::{Shared, Tables};
use self::url::MySqlUrl;
use self::write::Commit;
use crate::limits::COMMITS_WAITING_MAX;
use crate::migrate::{Applied, plan};
use crate::options::{Meta, Options, Run};
use crate::patience::Patience;
use crate::slots::{Layout, Slots};
use crate::threads::{Threads, hand_over};

mod commit_row;
mod error;
mod folding;
mod letters;
mod list;
mod migrate;
mod own;
mod read;
mod schema;
mod session;
mod shared;
mod snapshot;
mod statements;
mod sweep;
mod text;
mod tier;
mod turn;
mod url;
mod write;

/// The smallest `max_allowed_packet` that a store can be opened with: a job with the largest
/// payload and the largest result, every byte of them escaped, and the packet it comes on top of.
const PACKET_BYTES_MIN: i64 = 12 * 1024 * 1024;

/// A store in MySQL or MariaDB.
pub struct MySqlStore {
    shared: Arc<Shared>,
    commits: mpsc::Sender<Commit>,
    shards: u16,
    tier: Tier,
    notes: Vec<String>,
    seen: Arc<letters::Seen>,
    threads: Threads,
}

/// Ends a task with itself.
struct Ends(tokio::task::AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl std::fmt::Debug for MySqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let prefix = self.shared.tables.prefix();
        f.debug_struct("MySqlStore").field("prefix", &prefix).finish_non_exhaustive()
    }
}

/// Opens the store behind `mysql://user@host/database?prefix=hence_`, and makes it when it is not
/// there. Of several hosts, `host:3306,other:3306`, the first that can be used is.
pub fn open(url: &str, options: &Options) -> BoxFuture<'static, Result<MySqlStore, StoreError>> {
    let (url, options) = (MySqlUrl::parse(url), options.clone());
    async move {
        let url = url?;
        options.check()?;
        let patience = options.patience();
        let threads = Threads::start("hence-mysql", patience)?;
        let connector = Connector::new(&url, patience);
        let tables = Tables::new(url.prefix.clone());
        let preparing = prepare(connector.clone(), tables.clone(), options.clone());
        let Prepared { meta, tier, notes } = threads.run(preparing).await?;
        let slots = Slots { width: meta.width, era: meta.era, ..options.slots };
        let shared = Arc::new(Shared::new(connector, url.readers, tables, slots));
        let (commits, waiting) = mpsc::channel(COMMITS_WAITING_MAX);
        threads.spawn(write::writer(Arc::clone(&shared), waiting));
        Ok(MySqlStore {
            shared,
            commits,
            shards: meta.shards,
            tier,
            notes,
            seen: Arc::default(),
            threads,
        })
    }
    .boxed()
}

/// What is known when the tables are there.
struct Prepared {
    meta: Meta,
    tier: Tier,
    notes: Vec<String>,
}

async fn prepare(
    connector: Connector,
    tables: Tables,
    options: Options,
) -> Result<Prepared, StoreError> {
    let mut session = connector.connect(Role::Writer).await?;
    let answers = tier::ask(&mut session).await?;
    if answers.packet_bytes_max < PACKET_BYTES_MIN {
        let message = format!(
            "max_allowed_packet is {}: a large job does not fit; set it to 16M or more",
            answers.packet_bytes_max
        );
        return Err(StoreError::new(ErrorKind::Unsupported, message));
    }
    migrate::migrate(&mut session, &tables, None).await?;
    let layout = Layout::at(options.now, &options.slots);
    let meta =
        Schema { session: &mut session, tables: &tables }.meta(options.meta(), &layout).await?;
    let nodes = match session.cluster() {
        Cluster::None => Vec::new(),
        Cluster::Galera => tier::ask_each(&connector).await,
    };
    let (tier, notes) = tier::judge(&answers, &nodes);
    Ok(Prepared { meta, tier, notes })
}

/// Brings the tables to a version; the newest, without one. A dry run only gives the text.
pub fn migrate_to(
    url: &str,
    to: Option<u32>,
    run: Run,
) -> BoxFuture<'static, Result<String, StoreError>> {
    with_session(url, move |mut session, tables| async move {
        let steps = match run {
            Run::Dry => {
                let applied = migrate::applied(&mut session, &tables).await?;
                plan(&migrate::MIGRATIONS, &applied, to)?
            }
            Run::Really => migrate::migrate(&mut session, &tables, to).await?,
        };
        Ok(steps.iter().map(|step| step.text(|sql| tables.named(sql))).collect())
    })
}

/// The migrations that were run.
pub fn status(url: &str) -> BoxFuture<'static, Result<Vec<Applied>, StoreError>> {
    with_session(
        url,
        |mut session, tables| async move { migrate::applied(&mut session, &tables).await },
    )
}

fn with_session<T, F>(
    url: &str,
    work: impl FnOnce(Session, Tables) -> F + Send + 'static,
) -> BoxFuture<'static, Result<T, StoreError>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, StoreError>> + Send,
{
    let url = MySqlUrl::parse(url);
    async move {
        let url = url?;
        let threads = Threads::start("hence-mysql", Patience::default())?;
        let connector = Connector::new(&url, Patience::default());
        let working = async move {
            let session = connector.connect(Role::Writer).await?;
            work(session, Tables::new(url.prefix)).await
        };
        threads.run(working).await
    }
    .boxed()
}

impl MySqlStore {
    /// Brings the tables of a shard up to `now`, as a sweep does: late jobs are carried, slots
    /// open, commits are folded, and what is over is dropped.
    pub fn keep_up(&self, shard: ShardId, now: Timestamp) -> Answer<'_, ()> {
        self.call(move |shared| async move {
            let mut reader = shared.pool.get().await?;
            turn::keep_up(&shared, &mut reader, shard, now).await?;
            reader.give_back();
            Ok(())
        })
    }

    /// Calls, once.
    fn call<T, F>(&self, work: impl FnOnce(Arc<Shared>) -> F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.learning(self.threads.run(work(Arc::clone(&self.shared))))
    }

    /// Reads, and once more when that fails in a way that passes: the server may have closed an
    /// idle connection, or changed a table since the snapshot.
    fn read<T, F>(&self, work: impl Fn(Arc<Shared>) -> F + Send + 'static) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        self.learning(self.threads.run(async move {
            let answer = work(Arc::clone(&shared)).await;
            shared.pool.learn(&answer);
            match answer {
                Err(error) if error.kind() == ErrorKind::Unavailable => work(shared).await,
                answer => answer,
            }
        }))
    }

    /// The same answer, and the idle connections are closed if it says so.
    fn learning<T: Send + 'static>(&self, answer: Answer<'static, T>) -> Answer<'_, T> {
        let shared = Arc::clone(&self.shared);
        answer.inspect(move |answer| shared.pool.learn(answer)).boxed()
    }
}

impl Store for MySqlStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "mysql",
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
        self.read(move |shared| {
            let queue = queue.clone();
            async move { read::due(&shared, shard, &queue, after, limit).await }
        })
    }

    fn recover(&self, shard: ShardId) -> Answer<'_, Recovered> {
        self.read(move |shared| async move { read::recover(&shared, shard).await })
    }

    fn get(
        &self,
        shard: ShardId,
        names: Vec<JobName>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<StoredJob>>> {
        let names = Arc::new(names);
        self.read(move |shared| {
            let names = Arc::clone(&names);
            async move { read::get(&shared, shard, &names, now).await }
        })
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> Answer<'_, Page> {
        self.read(move |shared| {
            let request = request.clone();
            async move { list::list(&shared, shard, &request).await }
        })
    }

    fn attempts(
        &self,
        shard: ShardId,
        _name: JobName,
        number: JobNumber,
    ) -> Answer<'_, Vec<AttemptRecord>> {
        self.read(move |shared| async move { read::attempts(&shared, shard, number).await })
    }

    fn occurrences(
        &self,
        shard: ShardId,
        request: LedgerRequest,
    ) -> Answer<'_, Vec<OccurrenceRecord>> {
        self.read(move |shared| {
            let request = request.clone();
            async move { read::occurrences(&shared, shard, &request).await }
        })
    }

    fn sweep(
        &self,
        shard: ShardId,
        now: Timestamp,
        limit: usize,
    ) -> Answer<'_, Vec<(QueueName, u64)>> {
        self.call(|shared| async move { sweep::sweep(&shared, shard, now, limit).await })
    }

    fn acquire(&self, shard: ShardId, node: String) -> Answer<'_, Epoch> {
        self.call(|shared| async move { own::acquire(&shared, shard, &node).await })
    }

    fn release(&self, shard: ShardId, epoch: Epoch) -> Answer<'_, ()> {
        self.call(|shared| async move { own::release(&shared, shard, epoch).await })
    }

    fn renew(&self, shard: ShardId, epoch: Epoch, tenure: Millis) -> Answer<'_, Option<Timestamp>> {
        self.call(
            move |shared| async move { own::renew(&shared, shard, epoch, tenure).await.map(Some) },
        )
    }

    fn letters(&self, after: LetterId, limit: usize) -> Answer<'_, Vec<Letter>> {
        let seen = Arc::clone(&self.seen);
        self.read(move |shared| {
            let seen = Arc::clone(&seen);
            async move { letters::read(&shared, &seen, after, limit).await }
        })
    }

    fn await_letters(&self) -> Answer<'_, ()> {
        let waiting = letters::wait(Arc::clone(&self.shared), Arc::clone(&self.seen));
        let waiting = self.threads.spawn(waiting);
        // Whoever does not wait any more must not have somebody look for them for ever.
        let ends = Ends(waiting.abort_handle());
        async move {
            let _ends = ends;
            let closed = || StoreError::new(ErrorKind::Unavailable, "the store was closed");
            waiting.await.unwrap_or_else(|_| Err(closed()))
        }
        .boxed()
    }

    fn pressure(&self) -> Pressure {
        self.shared.pressure()
    }
}
