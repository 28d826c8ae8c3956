//! Jobs of one key run one at a time, in order of due time; other keys are not held up.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hence::core::effect::Delivery;
use hence::core::time::Millis;
use hence::store::MemoryStore;
use hence::{Hence, NewJob};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&order);
    let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
        .handler("book", move |step: String, delivery: Delivery| {
            let list = Arc::clone(&list);
            async move {
                let key = delivery.job.name.key.as_ref().map_or("", |key| key.as_str()).to_owned();
                println!("{key}: {step}");
                list.lock().unwrap_or_else(PoisonError::into_inner).push((key, step));
                Ok(())
            }
        })?
        .start()
        .await?;
    let client = hence.client();

    // Submitted in the wrong order, due in the right one.
    let steps = [("ship", 300), ("order", 100), ("pay", 200)];
    let mut last = Vec::new();
    for customer in ["customer:1", "customer:2"] {
        for (step, delay) in steps {
            let job = NewJob::handler("book")?.key(customer)?.json(&step)?;
            let added = client.add(job.after(Millis::new(delay))).await?;
            last.push(added.view.job.name.clone());
        }
    }
    for name in last {
        client.wait(name, Duration::from_secs(2)).await?.ok_or("it takes too long")?;
    }
    hence.shutdown(Duration::from_secs(1)).await;
    let order = order.lock().map_err(|_| "a handler panicked")?;
    for customer in ["customer:1", "customer:2"] {
        let steps = order.iter().filter(|(key, _)| key == customer).map(|(_, step)| step.as_str());
        if !steps.eq(["order", "pay", "ship"]) {
            return Err("out of order".into());
        }
    }
    Ok(())
}
