//! A handler that fails twice before it succeeds, by the producer's retry policy.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::core::effect::Delivery;
use hence::core::retry::{Backoff, RetryPolicy};
use hence::core::time::Millis;
use hence::handler::Failure;
use hence::store::MemoryStore;
use hence::{Hence, NewJob};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
        .handler("moody", |(): (), delivery: Delivery| async move {
            println!("attempt {}", delivery.lease.attempt);
            match delivery.lease.attempt {
                1 => Err(Failure::retry("not in the mood")),
                2 => Err(Failure::retry_after("in half a second", Millis::new(500))),
                _ => Ok(()),
            }
        })?
        .start()
        .await?;
    let client = hence.client();

    let backoff = Backoff::Fixed(Millis::new(100));
    let policy = RetryPolicy { max_attempts: 5, ..RetryPolicy::new(backoff) };
    let added = client.add(NewJob::handler("moody")?.retry(policy)).await?;
    let name = added.view.job.name.clone();
    client.wait(name.clone(), Duration::from_secs(2)).await?.ok_or("it takes too long")?;
    let attempts = client.attempts(name).await?;
    for attempt in &attempts {
        let reason = attempt.reason.as_deref().unwrap_or("fine");
        println!("{} {} {}: {reason}", attempt.started_at, attempt.attempt, attempt.end.as_str());
    }
    hence.shutdown(Duration::from_secs(1)).await;
    if attempts.len() == 3 { Ok(()) } else { Err("it did not take three attempts".into()) }
}
