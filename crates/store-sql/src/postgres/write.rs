//! Commits: one connection, one after the other, each in one round trip.
//!
//! All statements of a commit are sent at once. The first one for each shard is the fence; when it
//! refuses, everything behind it fails, and the transaction is rolled back whole.

use std::collections::VecDeque;

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::ShardId;
use hence_store::{ErrorKind, ShardBatch, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Error;

use super::bind::{self, Request};
use super::error::{self, failed};
use super::session::{Prepared, Session, pipelined};
use super::shared::Shared;
use super::value::Value;
use crate::draft::Draft;

/// A commit and whom to tell.
pub(super) struct Commit {
    pub(super) batches: Vec<ShardBatch>,
    pub(super) answer: oneshot::Sender<Result<(), StoreError>>,
}

/// Refusals that lead to another try: each batch may turn out to be known, each shard may have
/// moved its rows.
const TRIES_MAX: usize = 8;

/// Commits what comes, in order, until nobody can send any more.
pub(super) async fn writer(shared: std::sync::Arc<Shared>, mut commits: mpsc::Receiver<Commit>) {
    let mut session = None;
    while let Some(Commit { batches, answer }) = commits.recv().await {
        let within = shared.patience.call;
        let committing = commit(&shared, &mut session, &batches);
        let outcome = tokio::time::timeout(within, committing).await.unwrap_or_else(|_| {
            let message = format!("commit: no answer within {within:?}");
            Err(StoreError::new(ErrorKind::Unavailable, message))
        });
        if let Err(failure) = &outcome {
            // Something may still be under way on it: the next commit begins on a fresh one.
            if failure.is_retryable() {
                session = None;
            }
        }
        shared.note_room(&outcome);
        // Whoever asked may be gone; then nobody wants to know.
        let _ = answer.send(outcome);
    }
}

async fn commit(
    shared: &Shared,
    session: &mut Option<Session>,
    batches: &[ShardBatch],
) -> Result<(), StoreError> {
    let mut drafts = batches.iter().map(Draft::of).collect::<Result<VecDeque<_>, _>>()?;
    // Shards are locked in one order everywhere; the batches of one stay in theirs.
    drafts.make_contiguous().sort_by_key(|draft| draft.shard);
    for _ in 0..TRIES_MAX {
        if drafts.is_empty() {
            return Ok(());
        }
        let session = open(shared, session).await?;
        match attempt(shared, session, &drafts).await? {
            Outcome::Committed => {
                for draft in &drafts {
                    note(shared, draft);
                }
                return Ok(());
            }
            Outcome::Repeated(index) => {
                if let Some(draft) = drafts.remove(index) {
                    note(shared, &draft);
                }
            }
            Outcome::Moved(shard) => shared.forget_layout(shard),
        }
    }
    Err(StoreError::new(ErrorKind::Unavailable, "commit: its shards did not come to rest"))
}

/// What was committed is known, whoever asks next.
fn note(shared: &Shared, draft: &Draft) {
    shared.outstanding(draft.shard, |outstanding| outstanding.committed(draft));
}

async fn open<'a>(
    shared: &Shared,
    session: &'a mut Option<Session>,
) -> Result<&'a Session, StoreError> {
    let usable = session.take().filter(Session::is_good);
    let fresh = match usable {
        Some(usable) => usable,
        None => shared.connector.connect().await?,
    };
    Ok(session.insert(fresh))
}

enum Outcome {
    Committed,
    /// The batch at this position was applied before.
    Repeated(usize),
    /// The rows of this shard lie elsewhere than was thought.
    Moved(ShardId),
}

async fn attempt(
    shared: &Shared,
    session: &Session,
    drafts: &VecDeque<Draft>,
) -> Result<Outcome, StoreError> {
    let mut plan: Vec<(usize, Request<'_>)> = Vec::new();
    for (index, draft) in drafts.iter().enumerate() {
        let layout = shared.layout(session, draft.shard).await?;
        plan.push((index, bind::fence(draft, &layout)));
        let rows = bind::rows(draft, &layout, shared.swept_until(draft.shard));
        plan.extend(rows.into_iter().map(|request| (index, request)));
    }
    let mut statements = Vec::with_capacity(plan.len());
    for (_, request) in &plan {
        let sql = shared.sql(request.sql);
        statements.push(session.prepare(&sql).await.map_err(failed("prepare a commit"))?);
    }
    let mut requests = vec![session.run("BEGIN").boxed()];
    requests.extend(plan.iter().zip(&statements).map(|((_, it), sql)| send(session, sql, it)));
    requests.push(session.run("COMMIT").boxed());
    let answers = pipelined(requests).await;
    // The first refusal is the reason of all that follow it.
    let Some(position) = answers.iter().position(Result::is_err) else {
        return Ok(Outcome::Committed);
    };
    let refusal = answers.into_iter().nth(position).and_then(Result::err);
    let index = plan.get(position.saturating_sub(1)).map_or(0, |(index, _)| *index);
    refused(drafts, index, refusal)
}

fn send<'a>(
    session: &'a Session,
    statement: &'a Prepared,
    request: &'a Request<'_>,
) -> BoxFuture<'a, Result<(), Error>> {
    async move {
        let values: Vec<Value<'_>> = request.values.iter().map(|it| &**it as Value<'_>).collect();
        session.execute(statement, &values).await.map(drop)
    }
    .boxed()
}

fn refused(
    drafts: &VecDeque<Draft>,
    index: usize,
    refusal: Option<Error>,
) -> Result<Outcome, StoreError> {
    let Some(refusal) = refusal else { return Ok(Outcome::Committed) };
    let shard = drafts.get(index).map(|draft| draft.shard).unwrap_or_default();
    match error::code(&refusal) {
        Some(error::REPEATED) => Ok(Outcome::Repeated(index)),
        Some(error::MOVED) => Ok(Outcome::Moved(shard)),
        _ => Err(failed("commit")(refusal)),
    }
}
