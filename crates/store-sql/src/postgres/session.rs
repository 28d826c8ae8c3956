//! One connection: how it is made, the statements it has prepared, and how several are sent at
//! once.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt;
use futures::future::BoxFuture;
use hence_store::{ErrorKind, StoreError};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::bind::Manner;
use super::error::failed;
use super::servers::{Connected, Servers};
use super::tls::tls;
use super::value::Value;
use crate::limits::{
    CALL_SECS_MAX, CONNECT_SECS_MAX, IDLE_IN_TRANSACTION_SECS_MAX, LOCK_SECS_MAX,
    UNACKNOWLEDGED_SECS_MAX,
};
use crate::patience::Patience;
use crate::url::{Pooler, PostgresUrl};

/// A connection that its owner reads.
pub(super) type Listening = tokio_postgres::Connection<
    tokio_postgres::Socket,
    <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>>::Stream,
>;

/// How to connect.
#[derive(Clone)]
pub(super) struct Connector {
    servers: Arc<Servers>,
    tls: MakeRustlsConnect,
    pooler: Pooler,
}

impl Connector {
    pub(super) fn new(url: &PostgresUrl, patience: Patience) -> Result<Self, StoreError> {
        let mut configs = url.servers.clone();
        for config in &mut configs {
            config
                .connect_timeout(Duration::from_secs(CONNECT_SECS_MAX))
                .tcp_user_timeout(Duration::from_secs(UNACKNOWLEDGED_SECS_MAX))
                .keepalives(true)
                .keepalives_idle(Duration::from_secs(UNACKNOWLEDGED_SECS_MAX));
            if config.get_application_name().is_none() {
                config.application_name("hence");
            }
        }
        let servers = Arc::new(Servers::new(configs, patience));
        Ok(Connector { servers, tls: tls(url)?, pooler: url.pooler })
    }

    /// Whether a connection stays the same, so that it can listen.
    pub(super) fn can_listen(&self) -> bool {
        self.pooler == Pooler::None
    }

    /// How many rows are sent at once.
    pub(super) fn manner(&self) -> Manner {
        match self.pooler {
            Pooler::None => Manner::Copy,
            Pooler::Transaction => Manner::Arrays,
        }
    }

    /// Makes a connection that the caller has to read.
    pub(super) async fn connect_raw(&self) -> Result<Connected, StoreError> {
        self.servers.connect(&self.tls).await
    }

    /// Ends when this timeline is not the one that is written to any more.
    pub(super) async fn left(&self, timeline: u32) {
        self.servers.left(timeline).await;
    }

    /// Makes a connection. It is read by a task of its own, which ends with it.
    pub(super) async fn connect(&self) -> Result<Session, StoreError> {
        let session = self.connect_bare().await?;
        if self.pooler == Pooler::None {
            session.client.batch_execute(&settings()).await.map_err(failed("set a session up"))?;
        }
        Ok(session)
    }

    /// Refuses a pooler in transaction mode that nobody told of: settings and prepared statements
    /// of ours would be found by others, and nobody would be heard of. A mark that is set on one
    /// connection must be there, and must not be found on another. A busy pooler may hide.
    pub(super) async fn refuse_pooler(&self) -> Result<(), StoreError> {
        if self.pooler == Pooler::Transaction {
            return Ok(());
        }
        let (one, other) = (self.connect_bare().await?, self.connect_bare().await?);
        let look = "SELECT coalesce(current_setting('hence.mark', true), '')";
        let marked = one.first_text(MARK).await?;
        let (found, kept) = (other.first_text(look).await?, one.first_text(look).await?);
        if found != marked && kept == marked {
            return Ok(());
        }
        let message = "pooler: connections are shared by a pooler in transaction mode; say \
                       pooler=transaction in the address, or connect past it";
        Err(StoreError::new(ErrorKind::Unsupported, message))
    }

    async fn connect_bare(&self) -> Result<Session, StoreError> {
        let Connected { client, connection, timeline } = self.servers.connect(&self.tls).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        let servers = Arc::clone(&self.servers);
        let statements = Mutex::default();
        Ok(Session { client, pooler: self.pooler, servers, timeline, statements })
    }
}

/// Sets a mark that nobody else has.
const MARK: &str =
    "SELECT set_config('hence.mark', md5(random()::text || clock_timestamp()), false)";

/// Bounds for everything: a statement, the wait for a lock, and a transaction whose process stands
/// still, since it may hold the lock of a shard.
fn settings() -> String {
    let millis = |secs: u64| secs * 1_000;
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; \
         SET idle_in_transaction_session_timeout = {}; SET client_min_messages = warning",
        millis(CALL_SECS_MAX),
        millis(LOCK_SECS_MAX),
        millis(IDLE_IN_TRANSACTION_SECS_MAX),
    )
}

/// A connection and what it has prepared.
pub(super) struct Session {
    client: Client,
    pooler: Pooler,
    servers: Arc<Servers>,
    timeline: u32,
    statements: Mutex<HashMap<Box<str>, Statement>>,
}

/// A statement that is ready to be run.
pub(super) enum Prepared {
    /// The server knows it.
    There(Statement),
    /// The server is told it every time: behind a pooler, the next one may be another.
    Text(Box<str>),
}

impl Session {
    /// Whether it can be used: open, and to the server that is written to.
    pub(super) fn is_good(&self) -> bool {
        !self.client.is_closed() && self.servers.is_current(self.timeline)
    }

    /// Statements without parameters or answers, by the simple protocol.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await
    }

    /// Prepares a statement, once. Only for texts that are few: they are kept.
    pub(super) async fn prepare(&self, sql: &str) -> Result<Prepared, Error> {
        if self.pooler == Pooler::Transaction {
            return Ok(Prepared::Text(sql.into()));
        }
        let known = || self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = known().get(sql) {
            return Ok(Prepared::There(statement.clone()));
        }
        let statement = self.client.prepare(sql).await?;
        known().insert(sql.into(), statement.clone());
        Ok(Prepared::There(statement))
    }

    /// Asks with a text that is one of few.
    pub(super) async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        match self.prepare(sql).await? {
            Prepared::There(statement) => self.client.query(&statement, &plain(values)).await,
            Prepared::Text(sql) => self.query_once(&sql, values).await,
        }
    }

    /// Asks with a text that may never come again.
    pub(super) async fn query_once(
        &self,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.client.query_typed(sql, &typed(values)).await
    }

    /// The first column of the first row, by the simple protocol.
    async fn first_text(&self, sql: &str) -> Result<String, StoreError> {
        let answer = self.client.simple_query(sql).await.map_err(failed("look for a pooler"))?;
        let first = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(first.unwrap_or_default().to_owned())
    }

    /// Runs a `COPY`. After one that failed the connection is of no use any more: what it answers
    /// may belong to something else.
    pub(super) async fn copy(&self, statement: &Prepared, rows: Bytes) -> Result<(), Error> {
        let Prepared::There(statement) = statement else {
            unreachable!("rows are copied on connections that stay the same")
        };
        let mut sink = std::pin::pin!(self.client.copy_in(statement).await?);
        sink.send(rows).await?;
        sink.finish().await.map(drop)
    }

    /// Runs a prepared statement.
    pub(super) async fn execute(
        &self,
        statement: &Prepared,
        values: &[Value<'_>],
    ) -> Result<u64, Error> {
        match statement {
            Prepared::There(statement) => self.client.execute(statement, &plain(values)).await,
            Prepared::Text(sql) => self.client.execute_typed(sql, &typed(values)).await,
        }
    }
}

fn plain<'a>(values: &[Value<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| *value as &(dyn ToSql + Sync)).collect()
}

fn typed<'a>(values: &[Value<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    values.iter().map(|value| (*value as &(dyn ToSql + Sync), value.kind())).collect()
}

/// Runs all of them at once. Each sends when it is polled first, and that is in order: together
/// they take one round trip.
pub(super) async fn pipelined<T>(mut requests: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut answers: Vec<Option<T>> = requests.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut pending = false;
        for (request, answer) in requests.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match request.as_mut().poll(context) {
                    Poll::Ready(value) => *answer = Some(value),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    answers.into_iter().flatten().collect()
}
