//! Stopping: what is under way may finish; what takes too long is given back and runs next time.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::core::effect::Delivery;
use hence::core::job::JobState;
use hence::store::{MemoryStore, Store};
use hence::{Hence, NewJob};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Starts a life. In the first one a job called `endless` never ends.
async fn start(
    store: Arc<dyn Store>,
    begun: UnboundedSender<String>,
) -> Result<Hence, Box<dyn std::error::Error>> {
    let work = move |text: String, delivery: Delivery| {
        let begun = begun.clone();
        async move {
            println!("begun: {text}, attempt {}, {}", delivery.lease.attempt, delivery.lease.token);
            begun.send(text.clone())?;
            if text == "endless" && delivery.lease.token.epoch.0 == 1 {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    };
    Ok(Hence::builder(store).handler("work", work)?.start().await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(1));
    let (begun, mut begins) = unbounded_channel();
    let hence = start(Arc::clone(&store), begun.clone()).await?;
    let mut names = Vec::new();
    for text in ["quick", "endless"] {
        let job = NewJob::handler("work")?.json(&text)?;
        names.push(hence.client().add(job).await?.view.job.name.clone());
        begins.recv().await;
    }
    println!("stopping, with 300 ms of grace");
    hence.shutdown(Duration::from_millis(300)).await;

    println!("starting again on the same store");
    let hence = start(store, begun).await?;
    let mut done = 0;
    for name in names {
        let ended = hence.client().wait(name, Duration::from_secs(2)).await?;
        let ended = ended.ok_or("it takes too long")?;
        println!("{} {}", ended.job.name, ended.state.as_str());
        done += u32::from(ended.state == JobState::Succeeded);
    }
    hence.shutdown(Duration::from_secs(1)).await;
    if done == 2 { Ok(()) } else { Err("something was lost".into()) }
}
