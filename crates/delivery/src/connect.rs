//! Opens connections: TCP by a [`Dial`] that can be swapped, TLS on top of it for `https`, and a
//! meter that bounds what one answer may cost.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Uri;
use http::uri::Scheme;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tower::Service;

use crate::limits;
use crate::lookup::Lookup;

/// Why a connection could not be opened.
pub type DialError = Box<dyn std::error::Error + Send + Sync>;

/// Opens the TCP connection to the host and port of a URI.
///
/// This is the one place where a name becomes an address, so whoever guards against receivers
/// inside one's own network does it here: look the name up, judge the addresses, connect to the
/// very address that was judged. TLS still verifies the name in the URI.
///
/// ```
/// use std::sync::Arc;
/// use futures::{FutureExt, future::BoxFuture};
/// use tokio::net::TcpStream;
/// use hence_delivery::connect::{Dial, DialError, SystemDial};
/// use hence_delivery::http::HttpSender;
///
/// /// Deliveries may go to one host only.
/// struct OneHost(SystemDial);
///
/// impl Dial for OneHost {
///     fn dial(&self, uri: http::Uri) -> BoxFuture<'static, Result<TcpStream, DialError>> {
///         if uri.host() != Some("hooks.example.com") {
///             return async { Err("this host is not allowed".into()) }.boxed();
///         }
///         self.0.dial(uri)
///     }
/// }
///
/// let sender = HttpSender::builder().dial(Arc::new(OneHost(SystemDial::new()))).build();
/// ```
pub trait Dial: Send + Sync + 'static {
    /// Connects; the caller bounds the time.
    fn dial(&self, uri: Uri) -> BoxFuture<'static, Result<TcpStream, DialError>>;
}

/// Dials by the system's resolver, any address, IPv6 and IPv4 side by side.
#[derive(Clone, Debug)]
pub struct SystemDial {
    connector: HttpConnector<Lookup>,
}

impl SystemDial {
    /// A dialler with our timeouts.
    pub fn new() -> Self {
        let mut connector = HttpConnector::new_with_resolver(Lookup::system());
        // TLS is put on top by us; the inner connector would refuse the scheme.
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(limits::CONNECT_TIME_MAX));
        SystemDial { connector }
    }
}

impl Default for SystemDial {
    fn default() -> Self {
        Self::new()
    }
}

impl Dial for SystemDial {
    fn dial(&self, uri: Uri) -> BoxFuture<'static, Result<TcpStream, DialError>> {
        let connecting = self.connector.clone().call(uri);
        async move { Ok(connecting.await?.into_inner()) }.boxed()
    }
}

/// What went wrong on our own side of a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("no connection within {} s", limits::CONNECT_TIME_MAX.as_secs())]
    TooSlow,
    #[error("no trusted root certificates: {0}")]
    Roots(#[source] io::Error),
    #[error("no usable tls: {0}")]
    Tls(#[source] rustls::Error),
    #[error("the answer took more than {} KiB", limits::WIRE_BYTES_MAX / 1024)]
    AnswerTooLong,
}

/// Makes connections for the client's pool.
#[derive(Clone)]
pub(crate) struct Connector {
    dialler: Dialler,
    /// Made at the first `https` delivery: reading the system's roots takes milliseconds and
    /// megabytes that a user of plain HTTP need not spend.
    tls: Arc<OnceCell<Protocols>>,
    /// How many connections are open, and how many may be for a new one to be kept.
    open: Arc<AtomicUsize>,
    kept_max: usize,
}

impl Connector {
    /// While `kept_max` connections are open, a further one is for one delivery only.
    pub(crate) fn new(dial: Arc<dyn Dial>, tls: Option<ClientConfig>, kept_max: usize) -> Self {
        let tls = Arc::new(OnceCell::new_with(tls.map(Protocols::new)));
        Connector { dialler: Dialler(dial), tls, open: Arc::default(), kept_max }
    }

    async fn connect(mut self, uri: Uri) -> Result<TokioIo<Metered>, DialError> {
        let place = Place::take(&self.open, self.kept_max);
        let stream = if uri.scheme() == Some(&Scheme::HTTPS) {
            let protocols = self.tls.get_or_try_init(load_tls).await?;
            let config = protocols.for_connection(place.is_kept);
            HttpsConnector::from((self.dialler, config)).call(uri).await?
        } else {
            MaybeHttpsStream::Http(self.dialler.call(uri).await?)
        };
        Ok(TokioIo::new(Metered::new(stream, place)))
    }
}

/// One of the open connections, until it is dropped.
struct Place {
    open: Arc<AtomicUsize>,
    /// Whether it may be used again.
    is_kept: bool,
}

impl Place {
    fn take(open: &Arc<AtomicUsize>, kept_max: usize) -> Self {
        let is_kept = open.fetch_add(1, Ordering::Relaxed) < kept_max;
        Place { open: Arc::clone(open), is_kept }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Metered>;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<Self::Response, DialError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.clone().connect(uri);
        async move {
            let connected = tokio::time::timeout(limits::CONNECT_TIME_MAX, connecting).await;
            connected.unwrap_or_else(|_| Err(ConnectError::TooSlow.into()))
        }
        .boxed()
    }
}

/// The provider is named, never installed: a library must not set a process-wide default.
async fn load_tls() -> Result<Protocols, DialError> {
    let load = || -> Result<ClientConfig, ConnectError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(ConnectError::Tls)?
            .with_native_roots()
            .map_err(ConnectError::Roots)?
            .with_no_client_auth();
        Ok(config)
    };
    // The roots are files.
    Ok(Protocols::new(tokio::task::spawn_blocking(load).await??))
}

/// What we speak over TLS.
struct Protocols {
    /// On a connection that is kept: HTTP/2 rather than HTTP/1.1.
    kept: Arc<ClientConfig>,
    /// On one that is not: an HTTP/2 connection would stay open with nothing to do.
    once: Arc<ClientConfig>,
}

impl Protocols {
    fn new(config: ClientConfig) -> Self {
        let offering = |names: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Protocols { kept: offering(&[b"h2", b"http/1.1"]), once: offering(&[b"http/1.1"]) }
    }

    fn for_connection(&self, is_kept: bool) -> Arc<ClientConfig> {
        Arc::clone(if is_kept { &self.kept } else { &self.once })
    }
}

/// A [`Dial`] in the shape that TLS is put on top of.
#[derive(Clone)]
struct Dialler(Arc<dyn Dial>);

impl Service<Uri> for Dialler {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<Self::Response, DialError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialling = self.0.dial(uri);
        async move { Ok(TokioIo::new(dialling.await?)) }.boxed()
    }
}

type Stream = TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>;

/// A connection that breaks when one HTTP/1 answer takes more than [`limits::WIRE_BYTES_MAX`].
///
/// The client bounds a head and we bound a body, but neither counts interim (1xx) answers, of
/// which a receiver may send any number. On HTTP/1 a write begins a request, so the count starts
/// again there. HTTP/2 streams share a connection and have windows and header limits of their own:
/// they are not counted.
pub(crate) struct Metered {
    stream: Stream,
    taken: usize,
    limit: usize,
    place: Place,
}

impl Metered {
    fn new(stream: MaybeHttpsStream<TokioIo<TcpStream>>, place: Place) -> Self {
        let many_streams = stream.connected().is_negotiated_h2();
        let limit = if many_streams { usize::MAX } else { limits::WIRE_BYTES_MAX };
        Metered { stream: TokioIo::new(stream), taken: 0, limit, place }
    }
}

impl Connection for Metered {
    /// Nothing more: the addresses, which it could tell as well, would be put into every answer.
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if !self.place.is_kept {
            connected.poison();
        }
        if self.stream.inner().connected().is_negotiated_h2() {
            return connected.negotiated_h2();
        }
        connected
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken > self.limit {
            return Poll::Ready(Err(io::Error::other(ConnectError::AnswerTooLong)));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.taken = self.taken.saturating_add(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.taken = 0;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.taken = 0;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
