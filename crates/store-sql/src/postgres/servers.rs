//! Which server is written to, when an address names several.
//!
//! Of a primary and its standbys one takes writes; after a failover it is another one. So all of
//! them are asked whenever a connection is made. A primary that comes back after its standby was
//! promoted takes writes, too, and knows nothing of what was committed since: every promotion
//! begins a new timeline, and the latest one counts. What is earlier than this process has seen is
//! never used again.

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use hence_store::{ErrorKind, StoreError};
use tokio::sync::watch;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::failed;
use super::session::Listening;
use crate::patience::Patience;

/// The first eight digits are the timeline. A standby cannot say; it is not asked.
const TIMELINE: &str = "SELECT pg_walfile_name(pg_current_wal_lsn())";

/// All servers of an address.
pub(super) struct Servers {
    configs: Vec<Config>,
    patience: Patience,
    /// The latest that was seen.
    timeline: watch::Sender<u32>,
}

/// A connection that somebody has to read.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) connection: Listening,
    /// Of the server, where there are several; else 0.
    pub(super) timeline: u32,
}

impl Servers {
    pub(super) fn new(configs: Vec<Config>, patience: Patience) -> Self {
        Servers { configs, patience, timeline: watch::Sender::new(0) }
    }

    /// Connects to the one that is written to.
    pub(super) async fn connect(&self, tls: &MakeRustlsConnect) -> Result<Connected, StoreError> {
        let within = 2 * self.patience.connect;
        let connecting = async {
            match self.configs.as_slice() {
                [only] => {
                    let connected = only.connect(tls.clone()).await;
                    let (client, connection) =
                        connected.map_err(failed("connect to PostgreSQL"))?;
                    Ok(Connected { client, connection, timeline: 0 })
                }
                several => self.choose(several, tls).await,
            }
        };
        tokio::time::timeout(within, connecting).await.unwrap_or_else(|_| {
            let message = format!("connect to PostgreSQL: no answer within {within:?}");
            Err(StoreError::new(ErrorKind::Unavailable, message))
        })
    }

    /// Whether a connection leads to where is written now.
    pub(super) fn is_current(&self, timeline: u32) -> bool {
        timeline >= *self.timeline.borrow()
    }

    /// Ends when a connection leads elsewhere.
    pub(super) async fn left(&self, timeline: u32) {
        let mut latest = self.timeline.subscribe();
        // The sender lives as long as this.
        let _ = latest.wait_for(|latest| *latest > timeline).await;
    }

    async fn choose(
        &self,
        configs: &[Config],
        tls: &MakeRustlsConnect,
    ) -> Result<Connected, StoreError> {
        let asking = configs.iter().map(async |config| (config, ask(config, tls).await));
        let mut asking: FuturesUnordered<_> = asking.collect();
        let (mut best, mut refusals) = (None, Vec::new());
        loop {
            let next = asking.next();
            let answer = if best.is_none() {
                next.await
            } else {
                // The others must not keep it for long: a machine that is gone says nothing.
                tokio::time::timeout(self.patience.look_around, next).await.unwrap_or_default()
            };
            let Some((config, answer)) = answer else { break };
            match answer {
                Ok(found) => best = Some(later(best, (config, found))),
                Err(error) => refusals.push((config, error)),
            }
        }
        let Some((config, best)) = best else { return Err(nobody(&refusals)) };
        if !self.is_current(best.timeline) {
            return Err(left_behind(config));
        }
        self.timeline.send_if_modified(|latest| {
            let later = best.timeline > *latest;
            *latest = best.timeline.max(*latest);
            later
        });
        Ok(best)
    }
}

/// The one of two that is to be written to.
fn later<'a>(
    one: Option<(&'a Config, Connected)>,
    other: (&'a Config, Connected),
) -> (&'a Config, Connected) {
    let Some(one) = one else { return other };
    let (later, earlier) =
        if other.1.timeline > one.1.timeline { (other, one) } else { (one, other) };
    if earlier.1.timeline < later.1.timeline {
        let (used, left) = (name(later.0), name(earlier.0));
        tracing::warn!(
            used,
            left,
            "two servers take writes: the one that was left behind must be stopped"
        );
    }
    later
}

/// Connects to one of several, if it takes writes.
async fn ask(config: &Config, tls: &MakeRustlsConnect) -> Result<Connected, StoreError> {
    let connected = config.connect(tls.clone()).await;
    let (client, mut connection) = connected.map_err(failed("connect"))?;
    let asked = Box::pin(client.simple_query(TIMELINE));
    let answer = match select(asked, &mut connection).await {
        Either::Left((answer, _)) => answer,
        Either::Right((Ok(()), asked)) => asked.await,
        Either::Right((Err(error), _)) => Err(error),
    };
    let timeline = match answer {
        Ok(messages) => timeline(&messages),
        // A server that is not quite PostgreSQL may not know the function.
        Err(error) if error.as_db_error().is_some() => 0,
        Err(error) => return Err(failed("connect")(error)),
    };
    Ok(Connected { client, connection, timeline })
}

fn timeline(messages: &[SimpleQueryMessage]) -> u32 {
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let digits = row.and_then(|name| name.get(..8));
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or_default()
}

/// None of them can be used: each with its reason.
fn nobody(refusals: &[(&Config, StoreError)]) -> StoreError {
    let reasons: Vec<String> =
        refusals.iter().map(|(config, error)| format!("{}: {error}", name(config))).collect();
    let passing = refusals.iter().find(|(_, error)| error.is_retryable()).or(refusals.first());
    let kind = passing.map_or(ErrorKind::Unavailable, |(_, error)| error.kind());
    StoreError::new(kind, format!("no server takes writes: {}", reasons.join("; ")))
}

fn left_behind(config: &Config) -> StoreError {
    let message = format!(
        "{} takes writes but was left behind by a failover: stop it, or make it a standby",
        name(config)
    );
    StoreError::new(ErrorKind::Unavailable, message)
}

/// `host:port`, for people.
fn name(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    };
    format!("{host}:{}", config.get_ports().first().unwrap_or(&5432))
}
