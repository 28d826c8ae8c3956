//! A request that is repeated makes one job: by an idempotency key, and by what the job contains.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::core::effect::Submitted;
use hence::new_job::Idempotency;
use hence::store::MemoryStore;
use hence::{Hence, NewId, NewJob};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hence = Hence::builder(Arc::new(MemoryStore::new(1))).start().await?;
    let client = hence.client();

    // The answer to the first request was lost; the client repeats it with the same key.
    let order = |fingerprint| NewJob {
        idempotency: Some(Idempotency { key: "order-4711".to_owned(), fingerprint }),
        ..NewJob::worker().payload("ship it")
    };
    let first = client.add(order(1)).await?;
    let second = client.add(order(1)).await?;
    println!("{} was {:?}, then {:?}", first.view.job.name, first.how, second.how);
    let misuse = client.add(order(2)).await;
    if let Err(error) = &misuse {
        println!("the same key for something else: {error}");
    }

    // Two producers find the same thing to do.
    let thumbnail = || NewJob { id: NewId::ContentHash, ..NewJob::worker().payload("cat.jpg") };
    let one = client.add(thumbnail()).await?;
    let other = client.add(thumbnail()).await?;
    println!("{} was {:?}, then {:?}", one.view.job.name, one.how, other.how);

    hence.shutdown(Duration::from_secs(1)).await;
    let kept = second.how == Submitted::Kept && other.how == Submitted::Kept;
    if kept && misuse.is_err() { Ok(()) } else { Err("a job was made twice".into()) }
}
