//! `hence serve --move-to`: to another store while work goes on.

use std::sync::Arc;
use std::time::Duration;

use hence_core::time::Timestamp;
use hence_server::Config;
use hence_server::config::StoreChoice;
use hence_store::Store;
use hence_store::moving::{Begin, Moved, Moving};

use super::serve::must_survive;
use super::store::{open_any, store_failure};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How often a move says how far it is, and how long it waits for a store that is away.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// The store that is both, until all is moved.
pub(super) async fn begin(
    config: &Config,
    from: Arc<dyn Store>,
    to: &StoreChoice,
    output: &Output,
) -> Result<Arc<Moving>, Failure> {
    if config.store == *to {
        return Err(Failure::new(Exit::Usage, "--move-to names the store that is used already"));
    }
    let new = open_any(to, output).await?;
    must_survive(to, &new.capabilities(), config.require_tier)?;
    let begin = if config.move_resume { Begin::GoOn } else { Begin::Afresh };
    let moving = Moving::new(from, new, begin).map_err(|error| store_failure(&error, None))?;
    Ok(Arc::new(moving))
}

/// Steps until all is moved; work goes on between any two.
pub(super) async fn keep_moving(moving: Arc<Moving>, to: String) {
    let mut said = clock::instant();
    tracing::info!(%to, "moving");
    loop {
        match moving.step(Timestamp::from_millis(clock::now_ms())).await {
            Ok(moved) if moved.done => {
                let Moved { jobs, found, schedules, .. } = moved;
                tracing::info!(
                    %to, jobs = jobs + found, schedules,
                    "moved: from the next start on, this is the store"
                );
                return;
            }
            Ok(moved) if clock::instant() - said > SAY_EVERY => {
                said = clock::instant();
                tracing::info!(%to, jobs = moved.jobs + moved.found, "moving");
            }
            Ok(_) => tokio::task::yield_now().await,
            Err(error) if error.is_retryable() => {
                tracing::warn!(%error, "the move waits; the old store goes on alone");
                clock::sleep(SAY_EVERY).await;
            }
            Err(error) => {
                tracing::error!(%error, "not moved: the old store goes on alone");
                return;
            }
        }
    }
}
