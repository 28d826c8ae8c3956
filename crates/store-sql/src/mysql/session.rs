//! One connection: how it is made, and how statements are sent over it.

use std::time::Duration;

use hence_store::{ErrorKind, StoreError};
use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Error, Opts, Row};

use super::error::{failed, unreadable};
use super::text::Text;
use super::url::MySqlUrl;
use crate::limits::{
    CALL_SECS_MAX, CONNECT_SECS_MAX, IDLE_IN_TRANSACTION_SECS_MAX, LOCK_SECS_MAX,
    UNACKNOWLEDGED_SECS_MAX,
};

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Sees what is committed at the moment of each statement, and locks single rows.
    Writer,
    /// Sees one state in all statements of a transaction.
    Reader,
}

/// How to connect.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    opts: Opts,
}

impl Connector {
    pub(super) fn new(url: &MySqlUrl) -> Self {
        let idle = Duration::from_secs(UNACKNOWLEDGED_SECS_MAX);
        let opts = url.opts.clone().tcp_keepalive(Some(idle)).stmt_cache_size(0);
        Connector { opts: opts.connect_attribute("program_name", "hence").into() }
    }

    /// Makes a connection.
    pub(super) async fn connect(&self, role: Role) -> Result<Session, StoreError> {
        let within = Duration::from_secs(CONNECT_SECS_MAX);
        let connecting = tokio::time::timeout(within, Conn::new(self.opts.clone()));
        let conn = connecting.await.map_err(|_| {
            let message = format!("connect to MySQL: no answer within {within:?}");
            StoreError::new(ErrorKind::Unavailable, message)
        })?;
        let conn = conn.map_err(failed("connect to MySQL"))?;
        let mut session = Session { conn, broken: false };
        session.run("set a session up", &Text::new(&settings(role))).await?;
        Ok(session)
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

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    conn: Conn,
    /// Something was under way when it was left: nobody knows what comes next.
    broken: bool,
}

impl Session {
    pub(super) fn is_broken(&self) -> bool {
        self.broken
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
        let within = Duration::from_secs(CALL_SECS_MAX);
        let asking = tokio::time::timeout(within, sets(&mut self.conn, sql));
        let answer = asking.await.map_err(|_| {
            let message = format!("{what}: no answer within {within:?}");
            StoreError::new(ErrorKind::Unavailable, message)
        })?;
        // An error that the server gave is an answer; of what comes behind it nothing was run.
        self.broken = !matches!(answer, Ok(_) | Err(Error::Server(_)));
        answer.map_err(failed(what))
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
