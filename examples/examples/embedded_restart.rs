//! Jobs on disk: the first life schedules one and ends; the second, on the same directory, runs it.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::core::id::JobName;
use hence::core::job::JobState;
use hence::core::time::Millis;
use hence::store::Store;
use hence::{Hence, NewJob};
use hence_store_embedded::{EmbeddedStore, Settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;

    let store = EmbeddedStore::open(directory.path(), &Settings::default())?;
    let facts = store.capabilities();
    println!("a {} store: {}", facts.tier.as_str(), facts.notes.join("; "));
    let name = first_life(Arc::new(store)).await?;
    println!("{name} is on disk, and nobody runs");

    let store = EmbeddedStore::open(directory.path(), &Settings::default())?;
    let hence = Hence::builder(Arc::new(store))
        .handler("greet", |name: String, _| async move {
            println!("hello {name}, from the second life");
            Ok(())
        })?
        .start()
        .await?;
    let ended = hence.client().wait(name, Duration::from_secs(2)).await?;
    hence.shutdown(Duration::from_secs(1)).await;
    let state = ended.ok_or("it takes too long")?.state;
    println!("it {}", state.as_str());
    if state == JobState::Succeeded { Ok(()) } else { Err("it did not succeed".into()) }
}

/// Schedules a job and ends before it is due.
async fn first_life(store: Arc<dyn Store>) -> Result<JobName, Box<dyn std::error::Error>> {
    let hence = Hence::builder(store).start().await?;
    let job = NewJob::handler("greet")?.json(&"Ada")?.after(Millis::new(300));
    let name = hence.client().add(job).await?.view.job.name.clone();
    hence.shutdown(Duration::from_secs(1)).await;
    Ok(name)
}
