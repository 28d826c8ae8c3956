//! A schedule from words: what was understood, what becomes of ticks that an outage ate, how to
//! make up for them, and what is to come. The clock is moved by hand, so that days take no time.

#![expect(clippy::print_stdout, reason = "an example shows what happens")]

use hence::core::id::ScheduleId;
use hence::core::job::{JobSpec, Target};
use hence::core::schedule::{Misfire, Overlap, Schedule};
use hence::core::time::Millis;
use hence::store::LedgerRequest;
use hence::testing::{TestHence, in_memory};

const DAY: Millis = Millis::from_secs(24 * 3_600);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hence = TestHence::start(in_memory()).await?;
    let client = hence.client();

    let id = ScheduleId::new("report")?;
    let draft = Schedule::when("every day at 9am")
        .zone("Europe/Paris")
        .exclude("2026-12-25")
        .misfire(Misfire::Skip)
        .overlap(Overlap::QueueOne);
    let template = JobSpec::new(Target::Worker);
    let state = client.schedule_jobs(id.clone(), draft, template.clone()).await?;
    for (tick, _) in state.coming().take(3) {
        println!("will tick at {tick}");
    }

    let from = client.now();
    hence.jump(Millis::new(4 * DAY.get())).await?;
    for record in client.occurrences(LedgerRequest::newest(id.clone(), 10)).await? {
        let (count, fate) = (record.count, record.fate.as_str());
        println!("{count} from {} to {}: {fate}", record.first, record.last);
    }

    client.backfill(id.clone(), from, client.now(), Millis::ZERO).await?;
    hence.advance(Millis::from_secs(1)).await?;
    let filled = client.schedule(id.clone()).await?.progress.backfill.ok_or("no backfill")?;
    println!("made up for {} of {} ticks", filled.made, filled.ticks);

    let forecast = client.forecast(None, 24 * 60).await?;
    println!("the fullest minute of the coming day: {:?}", forecast.peak());

    let wrong = Schedule::when("evry day at 9am");
    let refused = client.schedule_jobs(id, wrong, template).await.err().ok_or("it was taken")?;
    println!("refused: {refused}");
    let right = filled.made == filled.ticks && filled.made >= 3 && forecast.total() == 1;
    if right { Ok(()) } else { Err("the ticks do not add up".into()) }
}
