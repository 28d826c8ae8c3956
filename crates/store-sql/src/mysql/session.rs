//! One connection: how it is made, and how statements are sent over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hence_store::{ErrorKind, StoreError};
use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Error, Opts, OptsBuilder, Row};

use super::error::{failed, is_elsewhere, unreadable};
use super::text::Text;
use super::url::MySqlUrl;
use crate::limits::{
    CALL_SECS_MAX, IDLE_IN_TRANSACTION_SECS_MAX, LOCK_SECS_MAX, UNACKNOWLEDGED_SECS_MAX,
};
use crate::patience::Patience;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Sees what is committed at the moment of each statement, and locks single rows.
    Writer,
    /// Sees one state in all statements of a transaction.
    Reader,
}

/// How to connect. All connections of a store lead to one host at a time: in a cluster, those that
/// change the same row on two hosts would keep each other from it.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    hosts: Arc<[Opts]>,
    /// Which of the hosts.
    current: Arc<AtomicUsize>,
    pub(super) patience: Patience,
}

impl Connector {
    pub(super) fn new(url: &MySqlUrl, patience: Patience) -> Self {
        let idle = Duration::from_secs(UNACKNOWLEDGED_SECS_MAX);
        let opts = |host: &OptsBuilder| {
            let opts = host.clone().tcp_keepalive(Some(idle)).stmt_cache_size(0);
            opts.connect_attribute("program_name", "hence").into()
        };
        let hosts = url.hosts.iter().map(opts).collect();
        Connector { hosts, current: Arc::default(), patience }
    }

    /// Makes a connection to the host in use, or to the next one that can be used.
    pub(super) async fn connect(&self, role: Role) -> Result<Session, StoreError> {
        let first = self.current.load(Ordering::Acquire);
        let mut tried = 0;
        loop {
            let host = (first + tried) % self.hosts.len();
            tried += 1;
            match self.connect_to(host, role).await {
                Ok(session) => {
                    self.current.store(host, Ordering::Release);
                    return Ok(session);
                }
                Err(error)
                    if error.kind() == ErrorKind::Unavailable && tried < self.hosts.len() =>
                {
                    tracing::warn!(%error, host = self.name(host), "trying the next host");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A connection to each host, or why there is none.
    pub(super) async fn connect_to_each(&self) -> Vec<(String, Result<Session, StoreError>)> {
        let mut sessions = Vec::new();
        for host in 0..self.hosts.len() {
            sessions.push((self.name(host), self.connect_to(host, Role::Reader).await));
        }
        sessions
    }

    async fn connect_to(&self, host: usize, role: Role) -> Result<Session, StoreError> {
        let within = self.patience.connect;
        let connecting = tokio::time::timeout(within, Conn::new(self.hosts[host].clone()));
        let conn = connecting.await.map_err(|_| {
            let message = format!("connect to MySQL: no answer within {within:?}");
            StoreError::new(ErrorKind::Unavailable, message)
        })?;
        let conn = conn.map_err(failed("connect to MySQL"))?;
        let mut session =
            Session { conn, host, connector: self.clone(), cluster: Cluster::None, broken: false };
        session.set_up(role).await?;
        Ok(session)
    }

    fn name(&self, host: usize) -> String {
        let opts = &self.hosts[host];
        format!("{}:{}", opts.ip_or_hostname(), opts.tcp_port())
    }
}

/// Bounds for everything that can be bounded in both, and in MariaDB the time of a statement and of
/// a transaction whose process stands still, since it may hold the lock of a shard.
fn settings(role: Role) -> String {
    let level = match role {
        Role::Writer => "READ COMMITTED",
        Role::Reader => "REPEATABLE READ",
    };
    let (call, wait, idle) = (CALL_SECS_MAX, LOCK_SECS_MAX, IDLE_IN_TRANSACTION_SECS_MAX);
    format!(
        "SET NAMES utf8mb4; SET SESSION TRANSACTION ISOLATION LEVEL {level}; \
         SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, \
         time_zone = '+00:00', innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}; \
         /*M! SET SESSION max_statement_time = {call}, idle_transaction_timeout = {idle} */"
    )
}

/// What the server is part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cluster {
    /// Nothing: a lock here is a lock.
    None,
    /// A Galera cluster: a lock is known to this node only. Of two transactions on two nodes that
    /// *write* the same row, one is taken back; of what they only read or lock, nobody hears.
    Galera,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    conn: Conn,
    host: usize,
    connector: Connector,
    cluster: Cluster,
    /// Something was under way when it was left: nobody knows what comes next.
    broken: bool,
}

impl Session {
    async fn set_up(&mut self, role: Role) -> Result<(), StoreError> {
        const WHAT: &str = "set a session up";
        let sql = "SHOW SESSION VARIABLES WHERE Variable_name = 'wsrep_on'; \
                   SHOW GLOBAL STATUS WHERE Variable_name = 'wsrep_ready'; ";
        let mut sql = Text::new(sql);
        let mut sets = self.ask(WHAT, sql.raw(&settings(role))).await?.into_iter();
        let mut on = || {
            let row = sets.next().unwrap_or_default().into_iter().next();
            let value: Option<String> = row.map(|mut row| column(WHAT, &mut row, 1)).transpose()?;
            Ok::<_, StoreError>(value.is_some_and(|value| value == "ON"))
        };
        let (cluster, ready) = (on()?, on()?);
        if !cluster {
            return Ok(());
        }
        if !ready {
            let message = format!("{WHAT}: the node is not ready, or not part of the majority");
            return Err(StoreError::new(ErrorKind::Unavailable, message));
        }
        self.cluster = Cluster::Galera;
        // What was committed on another node may not be here yet: the first look waits for it. Who
        // reads waits every time, who writes has written all that matters to it over this very
        // connection.
        let first = "SET SESSION wsrep_sync_wait = 1; SELECT 1";
        self.run(WHAT, &Text::new(first)).await?;
        match role {
            Role::Writer => self.run(WHAT, &Text::new("SET SESSION wsrep_sync_wait = 0")).await,
            Role::Reader => Ok(()),
        }
    }

    /// Whether another connection must be made: this one cannot be used, or leads to a host that
    /// the others have left.
    pub(super) fn is_over(&self) -> bool {
        self.broken || self.host != self.connector.current.load(Ordering::Acquire)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(super) fn cluster(&self) -> Cluster {
        self.cluster
    }

    /// Sends statements whose answers do not matter, beside that there are no errors.
    pub(super) async fn run(&mut self, what: &'static str, sql: &Text) -> Result<(), StoreError> {
        self.ask(what, sql).await.map(drop)
    }

    /// Sends statements, and gives the rows of each, in order.
    pub(super) async fn ask(
        &mut self,
        what: &'static str,
        sql: &Text,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        self.broken = true;
        let within = self.connector.patience.call;
        let asking = tokio::time::timeout(within, sets(&mut self.conn, sql));
        let answer = asking.await.map_err(|_| {
            let message = format!("{what}: no answer within {within:?}");
            StoreError::new(ErrorKind::Unavailable, message)
        })?;
        match &answer {
            Err(Error::Server(server)) if is_elsewhere(server.code) => self.leave(),
            // An error that the server gave is an answer; of what comes behind it nothing was run.
            Ok(_) | Err(Error::Server(_)) => self.broken = false,
            Err(_) => {}
        }
        answer.map_err(failed(what))
    }

    /// The next connections lead to the next host, unless they do already.
    fn leave(&self) {
        let next = (self.host + 1) % self.connector.hosts.len();
        let (from, to) = (Ordering::AcqRel, Ordering::Acquire);
        // Somebody else has left it before.
        let _ = self.connector.current.compare_exchange(self.host, next, from, to);
    }
}

async fn sets(conn: &mut Conn, sql: &Text) -> Result<Vec<Vec<Row>>, Error> {
    let mut result = conn.query_iter(sql.as_bytes()).await?;
    let mut sets = Vec::new();
    while !result.is_empty() {
        sets.push(result.collect::<Row>().await?);
    }
    // The error of a later statement waits here.
    result.drop_result().await?;
    Ok(sets)
}

/// A column of a row.
pub(super) fn column<T: FromValue>(
    what: &'static str,
    row: &mut Row,
    index: usize,
) -> Result<T, StoreError> {
    row.take_opt(index).and_then(Result::ok).ok_or_else(|| unreadable(what))
}
