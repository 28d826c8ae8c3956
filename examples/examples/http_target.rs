//! A job that goes to a URL: the receiver is unwell at first, and gets the job again.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hence::core::job::JobState;
use hence::core::retry::{Backoff, RetryPolicy};
use hence::core::time::Millis;
use hence::store::MemoryStore;
use hence::{Hence, NewJob};
use hyper::body::Incoming;
use hyper::{Request, Response, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The receiver: takes a job at its second attempt.
async fn receive(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let (id, attempt) = (header("hence-job-id"), header("hence-attempt"));
    println!("{} {} {id:?}, attempt {attempt:?}", request.method(), request.uri());
    let status = if attempt == Some("1") { 503 } else { 200 };
    let mut response = Response::new("thank you".to_owned());
    *response.status_mut() = status.try_into().unwrap_or_default();
    Ok(response)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let connection = http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service_fn(receive)));
        }
    });

    let hence = Hence::builder(Arc::new(MemoryStore::new(1))).start().await?;
    let client = hence.client();
    let backoff = Backoff::Fixed(Millis::new(200));
    let retry = RetryPolicy::new(backoff);
    let job = NewJob::http(&url).json(&"renew the subscription")?.retry(retry).keep_result();
    let added = client.add(job).await?;
    let ended = client.wait(added.view.job.name.clone(), Duration::from_secs(2)).await?;
    hence.shutdown(Duration::from_secs(1)).await;
    let ended = ended.ok_or("it takes too long")?;
    let result = ended.finish.and_then(|finish| finish.result);
    println!("it {} with {:?}", ended.state.as_str(), result.map(|result| result.bytes));
    if ended.state == JobState::Succeeded { Ok(()) } else { Err("it failed".into()) }
}
