//! A schedule that makes a job every 200 ms, and the account of its ticks.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::Hence;
use hence::core::effect::Delivery;
use hence::core::id::{HandlerName, QueueName, ScheduleId};
use hence::core::job::{JobSpec, Target};
use hence::core::schedule::{Every, Schedule};
use hence::core::time::{Millis, Timestamp};
use hence::store::MemoryStore;

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

    let schedule = Schedule {
        id: ScheduleId::new("heartbeat")?,
        every: Every { start: client.now(), interval: Millis::new(200) },
        queue: QueueName::default_queue(),
        key: None,
        template: JobSpec::new(Target::Handler(HandlerName::new("tick")?)),
        paused: false,
    };
    let id = client.put_schedule(schedule).await?.schedule.id.clone();
    let mut due = Vec::new();
    while due.len() < 5 {
        let tick = tokio::time::timeout(Duration::from_secs(2), ticks.recv()).await?;
        let tick = tick.ok_or("no more ticks")?;
        println!("tick of {tick}");
        due.push(tick);
    }
    client.remove_schedule(id.clone()).await?;
    for occurrence in client.occurrences(id, Timestamp::MAX, 10).await? {
        println!("accounted for: {} {:?}", occurrence.at, occurrence.fate);
    }
    hence.shutdown(Duration::from_secs(1)).await;
    let apart = due.windows(2).all(|pair| pair[1].since(pair[0]).get() % 200 == 0);
    if apart { Ok(()) } else { Err("the ticks are not whole intervals apart".into()) }
}
