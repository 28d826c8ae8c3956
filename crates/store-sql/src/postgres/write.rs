//! Commits: one after the other, in the order of the calls, each in one round trip.
//!
//! All statements of a commit are sent at once. The first one for each shard is the fence; when it
//! refuses, everything behind it fails, and the transaction is rolled back whole. Only rows that
//! are copied come before it: a server that waits for rows cannot be told to give up, and must not
//! hold the lock of a shard meanwhile.
//!
//! Such rows need not wait for the commit before theirs: they are copied over a connection of their
//! own. The fence is sent when the commit before has ended, however it did, and judges as if there
//! had never been two at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use hence_core::id::ShardId;
use hence_store::{ErrorKind, ShardBatch, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_postgres::Error;

use super::bind::{self, Request};
use super::copy::Copied;
use super::error::{self, failed};
use super::session::{Prepared, Session, pipelined};
use super::shared::Shared;
use super::value::Value;
use crate::draft::Draft;
use crate::limits::COMMITS_AHEAD_MAX;

/// A commit and whom to tell.
pub(super) struct Commit {
    pub(super) batches: Vec<ShardBatch>,
    pub(super) answer: oneshot::Sender<Result<(), StoreError>>,
}

/// Refusals that lead to another try: each batch may turn out to be known, each shard may have
/// moved its rows.
const TRIES_MAX: usize = 8;

/// Whatever the server's default is: a fence must see what was committed while rows were copied.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Commits what comes, in order, until nobody can send any more.
pub(super) async fn writer(shared: Arc<Shared>, mut commits: mpsc::Receiver<Commit>) {
    let (idle, room) = (Idle::default(), Arc::new(Semaphore::new(COMMITS_AHEAD_MAX)));
    let mut turn = Turn(None);
    while let Some(commit) = commits.recv().await {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let (ended, next) = oneshot::channel();
        let mine = std::mem::replace(&mut turn, Turn(Some(next)));
        let (shared, idle) = (Arc::clone(&shared), Arc::clone(&idle));
        tokio::spawn(async move {
            carry_out(&shared, &idle, mine, commit).await;
            // Both say so by going: the next in order may go ahead, and one more may begin.
            drop((ended, place));
        });
    }
}

/// Connections that commit and have nothing to do.
type Idle = Arc<Mutex<Vec<Session>>>;

/// Ends when the commit before has ended, which is when its half of this is dropped.
struct Turn(Option<oneshot::Receiver<()>>);

impl Turn {
    /// Whether somebody is ahead.
    fn is_to_come(&mut self) -> bool {
        let waits = |turn: &mut oneshot::Receiver<()>| {
            matches!(turn.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        };
        let to_come = self.0.as_mut().is_some_and(waits);
        if !to_come {
            self.0 = None;
        }
        to_come
    }

    async fn come(&mut self) {
        if let Some(turn) = &mut self.0 {
            // Nothing is ever sent: it ends.
            let _ = turn.await;
        }
        self.0 = None;
    }
}

async fn carry_out(shared: &Shared, idle: &Idle, mut turn: Turn, commit: Commit) {
    let mut session = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let within = shared.patience.call;
    let making = make(shared, &mut session, &mut turn, &commit.batches);
    let outcome = tokio::time::timeout(within, making).await.unwrap_or_else(|_| {
        let message = format!("commit: no answer within {within:?}");
        Err(StoreError::new(ErrorKind::Unavailable, message))
    });
    // Even one that failed early ends in its turn: whoever comes next counts on that.
    turn.come().await;
    let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
    match (&outcome, session) {
        (Ok(()), Some(session)) => idle.push(session),
        (Ok(()), None) => {}
        // Something may still be under way on it, and the others may hang as this one did: the
        // next commits begin on fresh ones.
        (Err(_), _) => idle.clear(),
    }
    drop(idle);
    shared.note_room(&outcome);
    // Whoever asked may be gone; then nobody wants to know.
    let _ = commit.answer.send(outcome);
}

async fn make(
    shared: &Shared,
    session: &mut Option<Session>,
    turn: &mut Turn,
    batches: &[ShardBatch],
) -> Result<(), StoreError> {
    let mut drafts = batches.iter().map(Draft::of).collect::<Result<VecDeque<_>, _>>()?;
    // Shards are locked in one order everywhere; the batches of one stay in theirs.
    drafts.make_contiguous().sort_by_key(|draft| draft.shard);
    for _ in 0..TRIES_MAX {
        if drafts.is_empty() {
            return Ok(());
        }
        match attempt(shared, open(shared, session).await?, turn, &drafts).await? {
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
        // Rows that were to be copied may still be on their way.
        *session = None;
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

/// One part of a commit.
enum Part<'a> {
    /// The beginning or the end.
    Said(&'static str),
    Copied(Copied),
    Bound(Request<'a>),
}

/// Parts in their order, each with the position of its draft.
type Plan<'a> = Vec<(usize, Part<'a>)>;

async fn attempt(
    shared: &Shared,
    session: &Session,
    turn: &mut Turn,
    drafts: &VecDeque<Draft>,
) -> Result<Outcome, StoreError> {
    let manner = shared.connector.manner();
    let mut plan: Plan<'_> = vec![(0, Part::Said(BEGIN))];
    let mut layouts = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.iter().enumerate() {
        let layout = shared.layout(session, draft.shard).await?;
        let copies = bind::copies(draft, &layout, manner);
        plan.extend(copies.into_iter().map(|copied| (index, Part::Copied(copied))));
        layouts.push(layout);
    }
    if plan.len() > 1 && turn.is_to_come() {
        if let Some(refusal) = send_all(shared, session, &plan).await? {
            return judge(drafts, refusal);
        }
        plan.clear();
    }
    turn.come().await;
    for (index, (draft, layout)) in drafts.iter().zip(&layouts).enumerate() {
        plan.push((index, Part::Bound(bind::fence(draft, layout))));
        let rows = bind::rows(draft, layout, shared.swept_until(draft.shard), manner);
        plan.extend(rows.into_iter().map(|request| (index, Part::Bound(request))));
    }
    plan.push((0, Part::Said("COMMIT")));
    match send_all(shared, session, &plan).await? {
        None => Ok(Outcome::Committed),
        Some(refusal) => judge(drafts, refusal),
    }
}

/// The first part that was refused, which is the reason of all that follow it: of which draft it
/// is, and why.
async fn send_all(
    shared: &Shared,
    session: &Session,
    plan: &Plan<'_>,
) -> Result<Option<(usize, Error)>, StoreError> {
    let mut statements = Vec::with_capacity(plan.len());
    for (_, part) in plan {
        let sql = match part {
            Part::Said(_) => None,
            Part::Copied(Copied { sql, .. }) | Part::Bound(Request { sql, .. }) => Some(sql),
        };
        let prepared = match sql {
            Some(sql) => Some(session.prepare(&shared.sql(sql)).await),
            None => None,
        };
        statements.push(prepared.transpose().map_err(failed("prepare a commit"))?);
    }
    let parts = plan.iter().zip(&statements);
    let requests = parts.map(|((_, part), sql)| send(session, sql.as_ref(), part)).collect();
    let answers = pipelined(requests).await.into_iter().zip(plan);
    let refusals = answers.filter_map(|(answer, (index, _))| Some((*index, answer.err()?)));
    Ok({ refusals }.next())
}

fn send<'a>(
    session: &'a Session,
    statement: Option<&'a Prepared>,
    part: &'a Part<'_>,
) -> BoxFuture<'a, Result<(), Error>> {
    async move {
        match (part, statement) {
            (Part::Said(text), _) => session.run(text).await,
            // The bytes are shared, not copied.
            (Part::Copied(copied), Some(sql)) => session.copy(sql, copied.rows.clone()).await,
            (Part::Bound(request), Some(sql)) => {
                let values: Vec<Value<'_>> =
                    request.values.iter().map(|it| &**it as Value<'_>).collect();
                session.execute(sql, &values).await.map(drop)
            }
            (Part::Copied(_) | Part::Bound(_), None) => unreachable!("it was prepared"),
        }
    }
    .boxed()
}

fn judge(
    drafts: &VecDeque<Draft>,
    (index, refusal): (usize, Error),
) -> Result<Outcome, StoreError> {
    let shard = drafts.get(index).map(|draft| draft.shard).unwrap_or_default();
    match error::code(&refusal) {
        Some(error::REPEATED) => Ok(Outcome::Repeated(index)),
        // Rows that came before the fence may have found their partition gone.
        Some(error::MOVED | error::NO_PARTITION) => Ok(Outcome::Moved(shard)),
        _ => Err(failed("commit")(refusal)),
    }
}
