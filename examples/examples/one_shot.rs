//! A job that runs once, half a second from now.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::core::job::JobState;
use hence::core::time::Millis;
use hence::store::MemoryStore;
use hence::{Hence, NewJob};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
        .handler("greet", |name: String, delivery| async move {
            println!("hello {name}, as was to be said at {}", delivery.due_at);
            Ok(())
        })?
        .start()
        .await?;
    let client = hence.client();

    let job = NewJob::handler("greet")?.json(&"Ada")?.after(Millis::new(500));
    let added = client.add(job).await?;
    println!("{} is scheduled for {}", added.view.job.name, added.view.progress.due_at);

    let ended = client.wait(added.view.job.name.clone(), Duration::from_secs(2)).await?;
    hence.shutdown(Duration::from_secs(1)).await;
    let state = ended.ok_or("it did not run in time")?.state;
    println!("it {}", state.as_str());
    if state == JobState::Succeeded { Ok(()) } else { Err("it did not succeed".into()) }
}
