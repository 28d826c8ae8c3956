//! The server: bind, accept, answer, and go away in order.

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hence::clock::Stopwatch;
use hence::{Client, Hence};
use hence_fail::{Point, reach};
use hence_store::{Store, StoreError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::connection::Connections;
use crate::drain::{DrainSwitch, drain};
use crate::guard::Guard;
use crate::http::app::{App, AppState, Bounds};
use crate::http::entrance::Entrance;
use crate::http::waiting::{self, Waiting};
use crate::http::{letters, openapi};
use crate::limits;
use crate::metrics::Metrics;

/// How long to hold back after the system refused a connection: it is out of something, and trying
/// at once would only burn a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is kept of the grace for requests that are under way when the deliveries' time is over: the
/// answer to an ack needs a sync and a way back, no more.
const LAST_ANSWERS_MAX: Duration = Duration::from_millis(500);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It would be reachable from elsewhere, by anybody.
    #[error(
        "refusing to listen on {listen}, which is reachable from other machines, without a token: \
         set one with --token-file FILE (or HENCE_TOKEN), or listen on 127.0.0.1"
    )]
    Exposed {
        /// Where it was to listen.
        listen: SocketAddr,
    },
    /// The address cannot be had.
    #[error("cannot listen on {listen}: {error}")]
    Bind {
        /// Where it was to listen.
        listen: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// The library did not start.
    #[error(transparent)]
    Start(#[from] hence::Error),
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    local: SocketAddr,
    hence: Hence,
    app: App,
    switch: DrainSwitch,
    places: Arc<Semaphore>,
    connections_max: usize,
    grace: Duration,
    write_stall_max: Duration,
}

/// Refuses a server that anybody elsewhere could use. To be asked before anything is touched;
/// [`Server::start`] asks again.
pub fn must_be_guarded(config: &Config) -> Result<(), ServeError> {
    let listen = config.listen;
    if !listen.ip().is_loopback() && config.token.is_none() {
        return Err(ServeError::Exposed { listen });
    }
    Ok(())
}

impl Server {
    /// Binds, waits for the store if another server works on it, recovers what it holds, and is
    /// ready to run. Meanwhile every request is told so. `on_fatal` is for a store that failed for
    /// good: it ends the process, as nothing can be acknowledged any more.
    pub async fn start(
        config: &Config,
        store: Arc<dyn Store>,
        on_fatal: impl Fn(&StoreError) + Send + Sync + 'static,
    ) -> Result<Self, ServeError> {
        must_be_guarded(config)?;
        let listen = config.listen;
        let bind_error = |error| ServeError::Bind { listen, error };
        let listener = TcpListener::bind(listen).await.map_err(bind_error)?;
        let local = listener.local_addr().map_err(bind_error)?;
        let metrics = Arc::new(Metrics::default());
        let zone = config.zone.clone();
        let guard = || Guard::new(config.token.as_ref().map(crate::config::Secret::expose));
        let starting = Hence::builder(store)
            .letters(move |letter| letters::read(letter, &zone))
            .node(&config.node)
            .config(config.library())
            .observer(metrics.clone())
            .on_fatal(on_fatal)
            .start();
        let places = Arc::new(Semaphore::new(config.max_connections));
        let waiting = Arc::new(Waiting { guard: guard(), metrics: metrics.clone() });
        let hence = answer_while(starting, &listener, &places, waiting).await?;
        let (switch, drain) = drain();
        let bounds = Bounds {
            body_bytes_max: config.max_body_bytes,
            request_timeout: config.request_timeout,
        };
        let app = Arc::new(AppState {
            started_at: hence.client().now(),
            client: hence.client(),
            metrics,
            guard: guard(),
            drain,
            bounds,
            zone: config.zone.clone(),
            openapi: openapi::text().into(),
            queue_edits: tokio::sync::Mutex::new(()),
        });
        let (connections_max, grace) = (config.max_connections, config.shutdown_grace);
        Ok(Server {
            listener,
            local,
            hence,
            app,
            switch,
            places,
            connections_max,
            grace,
            write_stall_max: limits::WRITE_STALL_MAX,
        })
    }

    /// Drops a client that takes nothing of its answer for this long, instead of
    /// [`limits::WRITE_STALL_MAX`].
    #[must_use]
    pub fn write_stall_max(mut self, span: Duration) -> Self {
        self.write_stall_max = span;
        self
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// How long it took to read back what the store holds.
    pub fn recovery_time(&self) -> Duration {
        self.hence.recovery_time()
    }

    /// The library under it.
    pub fn client(&self) -> Client {
        self.hence.client()
    }

    /// Serves until `stop` is done. Then nothing new is begun and long polls end, but whoever holds
    /// a job can still say what became of it, until the last delivery of ours has ended. Then it
    /// takes no connection, finishes requests, and shuts the library down; all within the grace,
    /// counted once.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let places = self.places;
        let (farewell, over) = drain();
        let connections =
            Connections::new(Entrance::new(self.app.clone()), over, self.write_stall_max);
        accept_until(stop, &self.listener, &connections, &places).await;
        let watch = Stopwatch::start();
        tracing::info!("shutting down");
        // The library first: whoever hears the switch finds it drained.
        let drained = self.hence.drain();
        self.switch.begin();
        let drained = tokio::time::timeout(for_deliveries(self.grace), drained);
        // Those that are not done in time are given back by the shutdown.
        drop(accept_until(drained, &self.listener, &connections, &places).await);
        drop(self.listener);
        reach(Point::ServeDrain);
        farewell.begin();
        let left = || self.grace.saturating_sub(watch.elapsed());
        let all = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        if tokio::time::timeout(left(), places.acquire_many(all)).await.is_err() {
            tracing::warn!("some connections did not end in time and are cut");
        }
        self.hence.shutdown(left()).await;
        tracing::info!("shut down");
    }
}

/// How much of the grace deliveries may use.
fn for_deliveries(grace: Duration) -> Duration {
    grace.saturating_sub(LAST_ANSWERS_MAX.min(grace / 10))
}

/// Tells whoever asks that the library starts, until it has.
async fn answer_while(
    starting: impl Future<Output = Result<Hence, hence::Error>>,
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    waiting: Arc<Waiting>,
) -> Result<Hence, hence::Error> {
    let (switch, drain) = drain();
    let entrance = Entrance::only(waiting::router(waiting));
    let connections = Connections::new(entrance, drain, limits::WRITE_STALL_MAX);
    let started = accept_until(starting, listener, &connections, places).await;
    // Connections that are kept are made anew, and then get real answers.
    switch.begin();
    started
}

/// Serves whoever connects until `end` is done.
async fn accept_until<T>(
    end: impl Future<Output = T>,
    listener: &TcpListener,
    connections: &Connections,
    places: &Arc<Semaphore>,
) -> T {
    tokio::pin!(end);
    loop {
        let accepted = tokio::select! {
            biased;
            ended = &mut end => return ended,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => admit(connections, places, stream, peer),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                // The timer is the point: the pause is cut short by the end.
                let pause = tokio::time::timeout(ACCEPT_PAUSE, pending::<()>());
                tokio::select! {
                    ended = &mut end => return ended,
                    _ = pause => {}
                }
            }
        }
    }
}

fn admit(connections: &Connections, places: &Arc<Semaphore>, stream: TcpStream, peer: SocketAddr) {
    match places.clone().try_acquire_owned() {
        Ok(place) => {
            let serving = connections.serve(stream, peer);
            tokio::spawn(async move {
                serving.await;
                drop(place);
            });
        }
        Err(_) => crate::connection::turn_away(stream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answers_have_a_part_of_the_grace() {
        for (grace_ms, expected_ms) in [(0, 0), (1_000, 900), (10_000, 9_500), (60_000, 59_500)] {
            let left = for_deliveries(Duration::from_millis(grace_ms));
            assert_eq!(left, Duration::from_millis(expected_ms), "{grace_ms}");
        }
    }
}
