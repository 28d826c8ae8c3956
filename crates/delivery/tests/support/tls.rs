//! A well-behaved HTTPS server, HTTP/1.1 and HTTP/2, whose certificate no system trusts.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig, ServerConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const CERTIFICATE: &[u8] = include_bytes!("../data/localhost.cert.pem");
const PRIVATE_KEY: &[u8] = include_bytes!("../data/localhost.key.pem");

/// A client's configuration that trusts the server below, and nobody else.
pub(crate) fn trusting() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    client(roots)
}

/// A client's configuration that trusts nobody.
pub(crate) fn distrusting() -> ClientConfig {
    client(RootCertStore::empty())
}

fn client(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A server on a port of its own, for as long as the runtime lives.
pub(crate) struct TlsServer {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// How many requests for `/hang` it has not been relieved of.
    pub(crate) hanging: Arc<watch::Sender<usize>>,
    silence: Arc<watch::Sender<()>>,
}

impl TlsServer {
    /// Every connection that is open neither reads nor writes any more, as if its packets were
    /// lost. New ones are served.
    pub(crate) fn fall_silent(&self) {
        self.silence.send_replace(());
    }

    /// A URL on it, by a name that its certificate has.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://localhost:{}/{path}", self.address.port())
    }
}

/// Starts a server that speaks these protocols. It answers with the version of the request, in
/// a header, and `body`; to `/hang` it never answers.
pub(crate) async fn start(protocols: &[&str], body: Bytes) -> TlsServer {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(PRIVATE_KEY).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let config = Arc::new(config);
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hanging = Arc::new(watch::Sender::new(0));
    let silence = Arc::new(watch::Sender::new(()));
    let server = TlsServer { address, hanging: hanging.clone(), silence: silence.clone() };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let (plain, inner) = tokio::io::duplex(64 * 1024);
            tokio::spawn(pump_until(silence.subscribe(), stream, connection, inner));
            tokio::spawn(serve(plain, body.clone(), hanging.clone()));
        }
    });
    server
}

async fn serve(plain: DuplexStream, body: Bytes, hanging: Arc<watch::Sender<usize>>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (body, hanging) = (body.clone(), hanging.clone());
        async move {
            if request.uri().path() == "/hang" {
                let _held = Hanging::new(&hanging);
                return std::future::pending().await;
            }
            let version = format!("text/plain; version={:?}", request.version());
            Response::builder().header("content-type", version).body(Full::new(body))
        }
    });
    let server = auto::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(plain), service).await;
}

/// Counts itself for as long as it lives.
struct Hanging<'a>(&'a watch::Sender<usize>);

impl<'a> Hanging<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Hanging(count)
    }
}

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Carries bytes until silence falls; then the socket stays open, and nobody sees to it.
async fn pump_until(
    mut silence: watch::Receiver<()>,
    mut socket: TcpStream,
    tls: ServerConnection,
    pipe: DuplexStream,
) {
    tokio::select! {
        biased;
        _ = silence.changed() => std::future::pending().await,
        () = pump(&mut socket, tls, pipe) => {}
    }
}

/// Carries bytes between a socket and a pipe, encrypted on the socket's side.
async fn pump(socket: &mut TcpStream, mut tls: ServerConnection, mut pipe: DuplexStream) {
    let _: io::Result<()> = async {
        let (mut sealed, mut open) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
        loop {
            while tls.wants_write() {
                let mut out = Vec::new();
                tls.write_tls(&mut out)?;
                socket.write_all(&out).await?;
            }
            tokio::select! {
                count = socket.read(&mut sealed) => {
                    let mut rest = &sealed[..count?];
                    if rest.is_empty() {
                        return Ok(());
                    }
                    while !rest.is_empty() {
                        tls.read_tls(&mut rest)?;
                        tls.process_new_packets().map_err(io::Error::other)?;
                    }
                    while let Ok(count) = tls.reader().read(&mut open) {
                        if count == 0 {
                            return Ok(());
                        }
                        pipe.write_all(&open[..count]).await?;
                    }
                }
                count = pipe.read(&mut open) => match count? {
                    0 => return Ok(()),
                    count => tls.writer().write_all(&open[..count])?,
                },
            }
        }
    }
    .await;
}
