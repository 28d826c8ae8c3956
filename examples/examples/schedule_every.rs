//! A schedule that makes a job every 200 ms, and the account of its ticks.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::Hence;
use hence::core::effect::Delivery;
use hence::core::id::{HandlerName, ScheduleId};
use hence::core::job::{JobSpec, Target};
use hence::core::schedule::Schedule;
use hence::store::{LedgerRequest, MemoryStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (ticked, mut ticks) = tokio::sync::mpsc::unbounded_channel();
    let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
        .handler("tick", move |(): (), delivery: Delivery| {
            let ticked = ticked.clone();
            async move { Ok(ticked.send(delivery.due_at)?) }
        })?
        .start()
        .await?;
    let client = hence.client();

    let id = ScheduleId::new("heartbeat")?;
    let template = JobSpec::new(Target::Handler(HandlerName::new("tick")?));
    client.schedule_jobs(id.clone(), Schedule::when("@every 200ms"), template).await?;
    let mut due = Vec::new();
    while due.len() < 5 {
        let tick = tokio::time::timeout(Duration::from_secs(2), ticks.recv()).await?;
        let tick = tick.ok_or("no more ticks")?;
        println!("tick of {tick}");
        due.push(tick);
    }
    for record in client.occurrences(LedgerRequest::newest(id.clone(), 10)).await? {
        println!("accounted for: {} {:?}", record.last, record.fate);
    }
    client.remove_schedule(id).await?;
    hence.shutdown(Duration::from_secs(1)).await;
    let apart = due.windows(2).all(|pair| pair[1].since(pair[0]).get() % 200 == 0);
    if apart { Ok(()) } else { Err("the ticks are not whole intervals apart".into()) }
}
