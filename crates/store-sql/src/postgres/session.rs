//! One connection: how it is made, the statements it has prepared, and how several are sent at
//! once.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::BoxFuture;
use hence_store::{ErrorKind, StoreError};
use rustls::ClientConfig;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::failed;
use crate::limits::{
    CALL_SECS_MAX, CONNECT_SECS_MAX, IDLE_IN_TRANSACTION_SECS_MAX, LOCK_SECS_MAX,
    UNACKNOWLEDGED_SECS_MAX,
};
use crate::url::{Pooler, PostgresUrl};

/// What may be bound.
pub(super) type Value<'a> = &'a (dyn ToSql + Sync);

/// A connection that its owner reads.
pub(super) type Listening = tokio_postgres::Connection<
    tokio_postgres::Socket,
    <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>>::Stream,
>;

/// How to connect.
#[derive(Clone)]
pub(super) struct Connector {
    config: tokio_postgres::Config,
    tls: MakeRustlsConnect,
    pooler: Pooler,
}

impl Connector {
    pub(super) fn new(url: &PostgresUrl) -> Result<Self, StoreError> {
        let mut config = url.config.clone();
        config
            .connect_timeout(Duration::from_secs(CONNECT_SECS_MAX))
            .tcp_user_timeout(Duration::from_secs(UNACKNOWLEDGED_SECS_MAX))
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(UNACKNOWLEDGED_SECS_MAX));
        if config.get_application_name().is_none() {
            config.application_name("hence");
        }
        Ok(Connector { config, tls: tls(url)?, pooler: url.pooler })
    }

    /// Whether a connection stays the same, so that it can listen.
    pub(super) fn can_listen(&self) -> bool {
        self.pooler == Pooler::None
    }

    /// Makes a connection that the caller has to read.
    pub(super) async fn connect_raw(&self) -> Result<(Client, Listening), StoreError> {
        let connected = self.config.connect(self.tls.clone()).await;
        connected.map_err(failed("connect to PostgreSQL"))
    }

    /// Makes a connection. It is read by a task of its own, which ends with it.
    pub(super) async fn connect(&self) -> Result<Session, StoreError> {
        let within = Duration::from_secs(2 * CONNECT_SECS_MAX);
        let connecting = tokio::time::timeout(within, self.config.connect(self.tls.clone()));
        let connected = connecting.await.map_err(|_| {
            let message = format!("connect to PostgreSQL: no answer within {within:?}");
            StoreError::new(ErrorKind::Unavailable, message)
        })?;
        let (client, connection) = connected.map_err(failed("connect to PostgreSQL"))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
        });
        let session = Session { client, statements: Mutex::default() };
        if self.pooler == Pooler::None {
            session.client.batch_execute(&settings()).await.map_err(failed("set a session up"))?;
        }
        Ok(session)
    }
}

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

fn tls(url: &PostgresUrl) -> Result<MakeRustlsConnect, StoreError> {
    let mut roots = rustls::RootCertStore::empty();
    let refused = |message: String| StoreError::new(ErrorKind::Unsupported, message);
    match &url.root_certificates {
        Some(path) => {
            use rustls::pki_types::CertificateDer;
            use rustls::pki_types::pem::PemObject;
            let shown = path.display();
            let bad =
                |error: &dyn std::fmt::Display| refused(format!("sslrootcert {shown}: {error}"));
            for found in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
                let found = found.map_err(|error| bad(&error))?;
                roots.add(found).map_err(|error| bad(&error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(format!("set TLS up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// A connection and what it has prepared.
pub(super) struct Session {
    client: Client,
    statements: Mutex<HashMap<Box<str>, Statement>>,
}

impl Session {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Statements without parameters or answers, by the simple protocol.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await
    }

    /// Prepares a statement, once. Only for texts that are few: they are kept.
    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, Error> {
        let known = || self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statement) = known().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        known().insert(sql.into(), statement.clone());
        Ok(statement)
    }

    /// Asks with a text that is one of few.
    pub(super) async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, values).await
    }

    /// Asks with a text that may never come again.
    pub(super) async fn query_once(
        &self,
        sql: &str,
        values: &[(Value<'_>, Type)],
    ) -> Result<Vec<Row>, Error> {
        self.client.query_typed(sql, values).await
    }

    /// Runs a prepared statement.
    pub(super) async fn execute(
        &self,
        statement: &Statement,
        values: &[Value<'_>],
    ) -> Result<u64, Error> {
        self.client.execute(statement, values).await
    }
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
