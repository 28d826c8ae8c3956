//! A job is taken back; another is replaced by one of the same name. Neither old one ever runs.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::core::job::OnConflict;
use hence::core::time::Millis;
use hence::store::MemoryStore;
use hence::{Hence, NewJob};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
        .handler("say", move |text: String, _| {
            let said = said.clone();
            async move { Ok(said.send(text)?) }
        })?
        .start()
        .await?;
    let client = hence.client();
    let say = |id: &str, text: &str| -> Result<NewJob, hence::Error> {
        Ok(NewJob::handler("say")?.id(id)?.json(&text)?.after(Millis::new(300)))
    };

    let reminder = client.add(say("reminder", "pay your bill")?).await?;
    let cancelled = client.cancel(reminder.view.job.name.clone()).await?;
    println!("the reminder is {}", cancelled.state.as_str());

    client.add(say("newsletter", "first draft")?).await?;
    let again = client.add(say("newsletter", "final version")?).await?;
    println!("the newsletter was {:?}", again.how);
    let kept = say("newsletter", "a later idea")?.on_conflict(OnConflict::Keep);
    println!("the later idea: the standing one was {:?}", client.add(kept).await?.how);
    let refused = say("newsletter", "an intruder")?.on_conflict(OnConflict::Reject);
    if let Err(error) = client.add(refused).await {
        println!("the intruder: {error}");
    }

    client.wait(again.view.job.name.clone(), Duration::from_secs(2)).await?;
    hence.shutdown(Duration::from_secs(1)).await;
    let first = heard.recv().await;
    println!("heard: {first:?}");
    let only = heard.recv().await.is_none();
    if first.as_deref() == Some("final version") && only {
        Ok(())
    } else {
        Err("something else was heard".into())
    }
}
