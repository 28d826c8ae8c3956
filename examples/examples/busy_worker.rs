//! A worker that says what is done as it asks for more: one question where `ack` and `lease` are
//! two.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::client::{Exchange, LeaseRequest};
use hence::core::id::{QueueName, WorkerName};
use hence::core::time::Millis;
use hence::store::MemoryStore;
use hence::{Client, Error, Hence, NewJob};

const JOBS: usize = 10;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hence = Hence::builder(Arc::new(MemoryStore::new(1))).start().await?;
    let client = hence.client();
    for number in 1..=JOBS {
        // Jobs of one key run one at a time: each is free when the one before it is done.
        let key = if number % 2 == 0 { "even" } else { "odd" };
        client.add(NewJob::worker().queue("mail")?.key(key)?.json(&number)?).await?;
    }
    let (done, questions) = work(client).await?;
    hence.shutdown(Duration::from_secs(1)).await;
    println!("{done} jobs with {questions} questions");
    if done == JOBS { Ok(()) } else { Err(format!("{done} jobs were done, not {JOBS}").into()) }
}

/// Works until there is nothing left. Says how many jobs were done, and how often it asked.
async fn work(client: Client) -> Result<(usize, usize), Error> {
    let request = LeaseRequest {
        worker: WorkerName::new("worker-1")?,
        queues: vec![QueueName::new("mail")?],
        max: 4,
        lease: Some(Millis::from_secs(30)),
        wait: Duration::ZERO,
    };
    let (mut finished, mut done, mut questions) = (Vec::new(), 0, 0);
    loop {
        let Exchange { acks, jobs } = client.ack_and_lease(finished, request.clone()).await?;
        questions += 1;
        // One that is refused came too late: the job belongs to somebody else by now.
        done += acks.iter().filter(|ack| ack.is_ok()).count();
        if jobs.is_empty() {
            return Ok((done, questions));
        }
        for delivery in &jobs {
            println!("job {}", String::from_utf8_lossy(&delivery.job.payload.bytes));
        }
        finished = jobs.iter().map(|delivery| (delivery.lease.token, None)).collect();
    }
}
