//! A test of one's own schedule: the clock is moved by hand, and a day takes no time.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::{Arc, Mutex, PoisonError};

use hence::NewJob;
use hence::core::effect::Delivery;
use hence::core::retry::{Backoff, RetryPolicy};
use hence::core::time::Millis;
use hence::handler::Failure;
use hence::testing::{TEST_EPOCH, TestHence, in_memory};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reminders = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&reminders);
    // Reminds until the third letter is answered.
    let builder = in_memory().handler("remind", move |who: String, delivery: Delivery| {
        list.lock().unwrap_or_else(PoisonError::into_inner).push((who, delivery.due_at));
        let answered = delivery.lease.attempt == 3;
        async move { if answered { Ok(()) } else { Err(Failure::retry("no answer")) } }
    })?;
    let hence = TestHence::start(builder).await?;

    let day = Millis::from_secs(24 * 3600);
    let policy = RetryPolicy::new(Backoff::List(vec![day, day, day]));
    let job = NewJob::handler("remind")?.json(&"Ada")?.after(day).retry(policy);
    hence.client().add(job).await?;

    let mut seen = 0;
    for today in 1..=5 {
        hence.advance(day).await?;
        let reminders = reminders.lock().map_err(|_| "the handler panicked")?;
        for (who, due_at) in &reminders[seen..] {
            println!("day {today}: reminded {who}, {} after the start", due_at.since(TEST_EPOCH));
        }
        seen = reminders.len();
    }
    println!("five days took no time");
    if seen == 3 { Ok(()) } else { Err("three reminders were due".into()) }
}
