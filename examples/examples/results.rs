//! A typed handler whose result is kept and fetched by whoever waits for it.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::time::Duration;

use hence::core::time::Millis;
use hence::handler::Failure;
use hence::store::MemoryStore;
use hence::{Hence, NewJob};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Division {
    dividend: i64,
    divisor: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hence = Hence::builder(Arc::new(MemoryStore::new(1)))
        .handler("divide", |task: Division, _| async move {
            let quotient = task.dividend.checked_div(task.divisor);
            quotient.ok_or_else(|| Failure::permanent("nothing can be divided by that"))
        })?
        .start()
        .await?;
    let client = hence.client();
    let mut answers = Vec::new();
    for divisor in [6, 0] {
        let task = Division { dividend: 252, divisor };
        let job = NewJob::handler("divide")?.json(&task)?.keep_result();
        let added = client.add(job.retention(Millis::from_secs(60))).await?;
        let ended = client.wait(added.view.job.name.clone(), Duration::from_secs(1)).await?;
        let finish = ended.and_then(|view| view.finish).ok_or("it takes too long")?;
        let result = finish.result.map(|result| result.bytes);
        let result = result.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        println!("252 / {divisor}: {} {result:?} {:?}", finish.outcome.as_str(), finish.reason);
        answers.push(result);
    }
    hence.shutdown(Duration::from_secs(1)).await;
    if answers == [Some("42".to_owned()), None] { Ok(()) } else { Err("wrong answers".into()) }
}
