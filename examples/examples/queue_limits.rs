//! A queue that starts at most five jobs a second, and one that is full.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::core::id::QueueName;
use hence::core::queue::{QueueSettings, Rate};
use hence::core::time::Millis;
use hence::store::MemoryStore;
use hence::{Hence, NewJob};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
        .handler("call", |(): (), _| async { Ok(()) })?
        .start()
        .await?;
    let client = hence.client();

    let polite = QueueName::new("polite")?;
    let rate = Some(Rate { count: 5, per: Millis::from_secs(1) });
    let settings = QueueSettings { rate, concurrency: Some(2), ..QueueSettings::default() };
    client.put_queue(polite.clone(), settings).await?;
    let jobs = vec![NewJob::handler("call")?.queue("polite")?; 8];
    let mut started = Vec::new();
    for added in client.add_many(jobs).await? {
        let name = added?.view.job.name.clone();
        client.wait(name.clone(), Duration::from_secs(2)).await?.ok_or("it takes too long")?;
        started.extend(client.attempts(name).await?.first().map(|attempt| attempt.started_at));
    }
    for at in &started {
        println!("started {} ms after the first", at.since(started[0]).get());
    }
    let took = started[7].since(started[0]);

    let settings = QueueSettings { pending_max: Some(1), ..QueueSettings::default() };
    client.put_queue(QueueName::new("small")?, settings).await?;
    let answers = client.add_many(vec![NewJob::worker().queue("small")?; 2]).await?;
    for answer in &answers {
        match answer {
            Ok(added) => println!("accepted {}", added.view.job.name),
            Err(error) => println!("refused: {error}"),
        }
    }
    hence.shutdown(Duration::from_secs(1)).await;
    let refused = answers.iter().filter(|answer| answer.is_err()).count();
    let slow_enough = took >= Millis::new(500);
    if slow_enough && refused == 1 { Ok(()) } else { Err("the limits did not hold".into()) }
}
