//! One connection: its limits and its end.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::stream::{FuturesUnordered, StreamExt};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::alarm::Alarm;
use crate::drain::Drain;
use crate::http::entrance::{Answering, Entrance};
use crate::http::front::Peer;
use crate::limits;
use crate::stall::Unstalled;

/// How connections are served.
pub(crate) struct Connections {
    builder: Builder<TokioExecutor>,
    entrance: Entrance,
    over: Drain,
    write_stall_max: Duration,
}

impl Connections {
    /// All through this entrance, until it is over. Whoever takes nothing of an answer for longer
    /// than `write_stall_max` is cut off.
    pub(crate) fn new(entrance: Entrance, over: Drain, write_stall_max: Duration) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .header_read_timeout(limits::HEAD_TIMEOUT)
            // Of headers hyper takes `limits::HEADERS_MAX` unless told otherwise. A number that it
            // is told, if only this one, makes it fill and copy two arrays for every request.
            .max_buf_size(limits::HEAD_BYTES_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits::HTTP2_STREAMS_MAX)
            .max_header_list_size(limits::HEAD_BYTES_MAX as u32)
            // A client that opens and resets streams as fast as it can is cut off.
            .max_pending_accept_reset_streams(Some(limits::HTTP2_RESETS_MAX))
            .max_local_error_reset_streams(Some(limits::HTTP2_RESETS_MAX))
            .keep_alive_interval(Some(limits::HEAD_TIMEOUT * 3))
            .keep_alive_timeout(limits::HEAD_TIMEOUT);
        Connections { builder, entrance, over, write_stall_max }
    }

    /// Serves a connection to its end.
    pub(crate) fn serve(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (mut builder, over) = (self.builder.clone(), self.over.clone());
        let alarm = Alarm::new(limits::HEAD_TIMEOUT);
        builder.http1().timer(alarm.clone());
        let write_stall_max = self.write_stall_max;
        let spoken = Arc::new(AtomicBool::new(false));
        let (entrance, heard) = (self.entrance.clone(), Arc::clone(&spoken));
        let service = Visitor { entrance, peer: Peer(peer), alarm, spoken };
        async move {
            // Answers are small: waiting for more to send with them only delays them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
            }
            let stream = TokioIo::new(Unstalled::new(stream, write_stall_max));
            let connection = builder.serve_connection(stream, service);
            tokio::pin!(connection);
            // In a set of one: it is polled when it is woken, not whenever the connection is.
            let mut cause = FuturesUnordered::from_iter([cause_to_end(&heard, &over)]);
            let ended = tokio::select! {
                biased;
                ended = connection.as_mut() => ended,
                Some(cause) = cause.next() => match cause {
                    Cause::Silence => return,
                    Cause::Farewell => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                },
            };
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "a connection broke");
            }
        }
    }
}

/// Why a connection ends though its peer has not ended it.
enum Cause {
    /// Nothing was asked on it.
    Silence,
    /// The server goes away.
    Farewell,
}

async fn cause_to_end(heard: &AtomicBool, over: &Drain) -> Cause {
    tokio::select! {
        () = silence(heard) => Cause::Silence,
        () = over.begun() => Cause::Farewell,
    }
}

/// Ends when nothing was asked within the time for a head. hyper's own timeout begins only when it
/// knows which version is spoken, which takes a byte or, if that could begin either, more.
async fn silence(heard: &AtomicBool) {
    let forever = std::future::pending::<()>();
    drop(tokio::time::timeout(limits::HEAD_TIMEOUT, forever).await);
    if heard.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// The entrance as hyper wants it.
#[derive(Clone)]
struct Visitor {
    entrance: Entrance,
    peer: Peer,
    alarm: Alarm,
    /// Whether anything was asked on this connection.
    spoken: Arc<AtomicBool>,
}

impl Service<http::Request<Incoming>> for Visitor {
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        self.spoken.store(true, Ordering::Relaxed);
        // Later versions answer each request in a task of its own.
        let alarm = (request.version() <= http::Version::HTTP_11).then(|| self.alarm.clone());
        self.entrance.call(request.map(Body::new), Some(self.peer), alarm)
    }
}

/// Answers a connection for which there is no place, without reading a byte of it.
pub(crate) fn turn_away(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
        content-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n\
        content-length: 158\r\n\r\n\
        {\"type\":\"/docs/errors#busy\",\"title\":\"too many connections\",\"status\":503,\
        \"detail\":\"the server has as many connections as it may\",\"fix\":\"try again in a \
            moment\"}";
    tokio::spawn(async move {
        // Whoever does not take it has gone, or never listened.
        let answered = tokio::time::timeout(limits::HEAD_TIMEOUT, async {
            stream.write_all(ANSWER).await?;
            stream.shutdown().await
        });
        drop(answered.await);
    });
}
