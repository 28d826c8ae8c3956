//! A worker that asks for jobs, waits when there are none, and says how each went.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::client::LeaseRequest;
use hence::core::id::{QueueName, WorkerName};
use hence::core::input::Nack;
use hence::core::time::Millis;
use hence::store::MemoryStore;
use hence::{Client, Error, Hence, NewJob};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hence = Hence::builder(Arc::new(MemoryStore::new(1))).start().await?;
    let client = hence.client();
    let worker = tokio::spawn(work(client.clone()));

    for text in ["one", "two", "broken"] {
        client.add(NewJob::worker().queue("mail")?.payload(text)).await?;
    }
    client.add(NewJob::worker().queue("urgent")?.payload("urgent").after(Millis::new(300))).await?;
    let done = worker.await??;
    hence.shutdown(Duration::from_secs(1)).await;
    if done == 3 { Ok(()) } else { Err(format!("{done} jobs were done, not 3").into()) }
}

/// Works until nothing has come for half a second. Says how many jobs were done.
async fn work(client: Client) -> Result<u32, Error> {
    let request = LeaseRequest {
        worker: WorkerName::new("worker-1")?,
        queues: vec![QueueName::new("urgent")?, QueueName::new("mail")?],
        max: 2,
        lease: Some(Millis::from_secs(30)),
        wait: Duration::from_millis(500),
    };
    let mut done = 0;
    loop {
        let leased = client.lease(request.clone()).await?;
        if leased.is_empty() {
            println!("nothing to do");
            return Ok(done);
        }
        for delivery in leased {
            let token = delivery.lease.token;
            let text = String::from_utf8_lossy(&delivery.job.payload.bytes);
            println!("{} {text:?}, token {token}", delivery.job.name.queue);
            if text == "broken" {
                client.nack(token, Nack::Dead, Some("cannot be delivered")).await?;
            } else {
                client.ack(token, None).await?;
                done += 1;
            }
        }
    }
}
