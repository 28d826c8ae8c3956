//! `hence store move`: everything from one store into another. The same, while a server works, is
//! `hence serve --move-to`.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use hence_core::id::ShardId;
use hence_core::time::Timestamp;
use hence_server::config::StoreChoice;
use hence_store::moving::{Begin, Moved, Moving};
use hence_store::{ErrorKind, Store, StoreError};
use serde_json::json;

use super::{open, store_failure};
use crate::clock;
use crate::failure::Failure;
use crate::output::Output;
use crate::words;

/// Tries while a store cannot be reached, a second apart.
const TRIES_MAX: usize = 30;

#[derive(Debug, Args)]
pub(crate) struct Move {
    /// The old store: a directory, or the address of a database
    #[arg(long, value_name = "STORE", value_parser = StoreChoice::parse_or_directory)]
    from: StoreChoice,
    /// The new store, which must be empty
    #[arg(long, value_name = "STORE", value_parser = StoreChoice::parse_or_directory)]
    to: StoreChoice,
    /// Go on with a move that broke off; what differs in the new store is removed
    #[arg(long)]
    resume: bool,
}

pub(super) async fn run(command: Move, output: &Output) -> Result<(), Failure> {
    let Move { from, to, resume } = command;
    if from == to {
        return Err(Failure::refused("both are the same store"));
    }
    let old = open::any_existing(&from, output).await?;
    let new = open::any(&to, output).await?;
    let begin = if resume { Begin::GoOn } else { Begin::Afresh };
    let total = pending(&*old).await.map_err(failure)?;
    let moving = Moving::new(Arc::clone(&old), new, begin).map_err(failure)?;
    let shards = old.capabilities().shards;
    let mut epochs = Vec::new();
    for shard in (0..shards).map(ShardId) {
        let epoch = moving.acquire(shard, "move".to_owned()).await.map_err(not_begun)?;
        epochs.push((shard, epoch));
    }
    let bar = output.progress(Some(total), "moving");
    let moved = all(&moving, |moved| bar.set_position(moved.jobs + moved.found)).await;
    bar.finish_and_clear();
    let moved = moved.map_err(|error| {
        failure(error).fix("the old store is as it was; repeat the command with --resume")
    })?;
    for (shard, epoch) in epochs {
        moving.release(shard, epoch).await.map_err(failure)?;
    }
    report(&moved, &from, &to, output)
}

/// Steps until all is moved.
async fn all(moving: &Moving, progress: impl Fn(&Moved)) -> Result<Moved, StoreError> {
    let mut tries = 0;
    loop {
        match moving.step(Timestamp::from_millis(clock::now_ms())).await {
            Ok(moved) if moved.done => return Ok(moved),
            Ok(moved) => {
                tries = 0;
                progress(&moved);
            }
            Err(error) if error.is_retryable() && tries < TRIES_MAX => {
                tries += 1;
                clock::sleep(Duration::from_secs(1)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Live and dead jobs; how many finished ones are kept besides is not counted anywhere.
async fn pending(store: &dyn Store) -> Result<u64, StoreError> {
    let mut total = 0;
    for shard in (0..store.capabilities().shards).map(ShardId) {
        let counts = store.recover(shard).await?.counts.into_iter().map(|(_, counts)| counts);
        total += counts.map(|it| it.pending + it.running + it.dead).sum::<u64>();
    }
    Ok(total)
}

fn report(
    moved: &Moved,
    from: &StoreChoice,
    to: &StoreChoice,
    output: &Output,
) -> Result<(), Failure> {
    let Moved { jobs, schedules, occurrences, found, removed, .. } = *moved;
    if output.is_json() {
        return output.json(&json!({
            "jobs": jobs + found, "schedules": schedules, "occurrences": occurrences,
            "copied_before": found, "removed": removed,
        }));
    }
    let jobs = words::count(jobs + found, "job");
    let schedules = words::count(schedules, "schedule");
    output.say(format_args!("moved {jobs} and {schedules} to {to}; each was compared"));
    output.say(format_args!(
        "{from} is as it was: start no server on it any more, or everything happens twice"
    ));
    Ok(())
}

/// Why a shard could not be had in both stores.
fn not_begun(error: StoreError) -> Failure {
    match error.kind() {
        // The new store holds something.
        ErrorKind::Unsupported => failure(error).fix(
            "name an empty store with --to; if a move into this one broke off, repeat it with \
             --resume",
        ),
        _ => failure(error)
            .fix("stop the server on it first; to go on with a move that broke off, use --resume"),
    }
}

fn failure(error: StoreError) -> Failure {
    match error.kind() {
        // These two stores do not go together, which is nobody's mistake but the command's.
        ErrorKind::Unsupported => Failure::refused(error.to_string()),
        _ => store_failure(&error, None),
    }
}
