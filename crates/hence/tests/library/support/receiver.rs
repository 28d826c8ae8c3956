//! A small HTTP server that writes down what it gets and answers from a list.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

/// An answer: a status, headers, a body.
pub(crate) type Answer = (u16, Vec<(&'static str, &'static str)>, &'static str);

/// The server, for as long as the runtime lives.
#[derive(Clone)]
pub(crate) struct Receiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

impl Receiver {
    /// Starts one that gives these answers in order, and 204 from then on.
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(Mutex::new(answers.into()));
        let receiver = Receiver { address, received: Arc::default(), answers };
        let server = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                let service = service_fn(move |request| server.clone().take(request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    async fn take(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
        let headers = head.headers.iter().map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        self.received.lock().unwrap().push(Received {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            headers: headers.collect(),
            body: String::from_utf8_lossy(&body).into_owned(),
        });
        let next = self.answers.lock().unwrap().pop_front();
        let (status, headers, body) = next.unwrap_or((204, Vec::new(), ""));
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        Ok(response.body(Full::from(body)).unwrap())
    }
}
