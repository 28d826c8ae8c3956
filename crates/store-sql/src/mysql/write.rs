//! Commits: one connection, one after the other, in two round trips.
//!
//! The first locks the shards and says how they are; whether the batches may be written is judged
//! here. The second writes them and commits. Whoever takes a shard over waits for the lock, so
//! nothing can come between.
//!
//! In a Galera cluster a lock is known to one node only, and a transaction that all nodes have
//! accepted is carried out even if its locks were taken from it meanwhile. What nodes do compare is
//! which rows are written. So a commit writes the row of its shard there, as a takeover does: of
//! two that have not seen each other, the second is taken back, tried again, and then refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use hence_core::id::ShardId;
use hence_store::{ErrorKind, ShardBatch, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::session::{Cluster, Role, Session};
use super::shared::{Lock, ShardRow, Shared};
use super::statements;
use super::text::{Packets, Text};
use crate::draft::Draft;
use crate::front::{Moves, Tracker};
use crate::limits::SEQUENCE_BITS;
use crate::rows::Stamp;

/// A commit and whom to tell.
pub(super) struct Commit {
    pub(super) batches: Vec<ShardBatch>,
    pub(super) answer: oneshot::Sender<Result<(), StoreError>>,
}

/// How often a commit is made when the server takes it back: two that wait for each other, or for
/// the turn of an era, is all that should come of it.
const TRIES_MAX: usize = 4;

/// Commits what comes, in order, until nobody can send any more.
pub(super) async fn writer(shared: Arc<Shared>, mut commits: mpsc::Receiver<Commit>) {
    let mut session = None;
    while let Some(Commit { batches, answer }) = commits.recv().await {
        let within = shared.connector.patience.call;
        let committing = commit(&shared, &mut session, &batches);
        let outcome = tokio::time::timeout(within, committing).await.unwrap_or_else(|_| {
            let message = format!("commit: no answer within {within:?}");
            Err(StoreError::new(ErrorKind::Unavailable, message))
        });
        if outcome.as_ref().is_err_and(StoreError::is_retryable) {
            // Something may still be under way on it: the next commit begins on a fresh one.
            session = None;
        }
        shared.note_room(&outcome);
        // Whoever asked may be gone; then nobody wants to know.
        drop(answer.send(outcome));
    }
}

async fn commit(
    shared: &Shared,
    session: &mut Option<Session>,
    batches: &[ShardBatch],
) -> Result<(), StoreError> {
    let mut drafts = batches.iter().map(Draft::of).collect::<Result<Vec<_>, _>>()?;
    if drafts.is_empty() {
        return Ok(());
    }
    // Shards are locked in one order everywhere; the batches of one stay in theirs.
    drafts.sort_by_key(|draft| draft.shard);
    let usable = session.take().filter(|session| !session.is_over());
    let fresh = match usable {
        Some(usable) => usable,
        None => shared.connector.connect(Role::Writer).await?,
    };
    let session = session.insert(fresh);
    let mut written = write(shared, session, &drafts).await;
    for _ in 1..TRIES_MAX {
        let Err(error) = &written else { break };
        if session.is_broken() {
            // The server takes it back as soon as it sees that the connection is gone.
            break;
        }
        session.run("roll a commit back", &Text::new("ROLLBACK")).await?;
        if error.kind() != ErrorKind::Unavailable {
            break;
        }
        written = write(shared, session, &drafts).await;
    }
    written
}

async fn write(shared: &Shared, session: &mut Session, drafts: &[Draft]) -> Result<(), StoreError> {
    let mut held = lock(shared, session, drafts).await?;
    let mut packets = Packets::default();
    let mut written = Vec::new();
    for draft in drafts {
        let held = held.get_mut(&draft.shard).expect("the shard of every draft was locked");
        let (before, verdict) = (held.last, judge(held, draft)?);
        let moves = Moves::of(draft);
        if verdict == Verdict::Next {
            let after = |known: &mut Tracker| known.after(&held.fronts, before, &moves);
            held.fronts = shared.waiting(draft.shard, after);
            statements::add(&mut packets, &shared.tables, draft, held);
            held.last = draft.stamp;
        }
        written.push((draft, before, verdict, moves));
    }
    for shard in held.keys().filter(|_| session.cluster() == Cluster::Galera) {
        packets.add(&shared.mark_sql(*shard));
    }
    packets.add(&Text::new("COMMIT"));
    for packet in packets.into_packets() {
        session.run("commit", &packet).await?;
    }
    for (draft, before, verdict, moves) in written {
        shared.outstanding(draft.shard, |outstanding| outstanding.committed(draft));
        shared.waiting(draft.shard, |known| match verdict {
            Verdict::Next => known.committed(before, draft.stamp, moves),
            Verdict::Known => known.was_committed(draft.stamp, moves),
        });
    }
    Ok(())
}

/// Begins a transaction, locks the shards, and says how they are.
async fn lock(
    shared: &Shared,
    session: &mut Session,
    drafts: &[Draft],
) -> Result<BTreeMap<ShardId, ShardRow>, StoreError> {
    let mut shards: Vec<ShardId> = drafts.iter().map(|draft| draft.shard).collect();
    shards.dedup();
    let mut sql = Text::new("BEGIN; ");
    sql.append(&shared.share_sql());
    for (index, shard) in shards.iter().enumerate() {
        sql.raw(if index == 0 { "" } else { "; " });
        sql.append(&shared.shard_sql(*shard, Lock::Exclusive));
    }
    let mut sets = session.ask("lock a shard", &sql).await?.into_iter().skip(2);
    let read = |shard: ShardId| Ok((shard, shared.shard_row(shard, &mut sets)?));
    shards.into_iter().map(read).collect()
}

/// Whether a batch may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// It is the next one.
    Next,
    /// It was written before.
    Known,
}

fn judge(held: &ShardRow, draft: &Draft) -> Result<Verdict, StoreError> {
    let (shard, epoch) = (draft.shard, i64::from(draft.epoch));
    if !held.owned || held.epoch != epoch {
        let message =
            format!("commit to {shard:?} under epoch {epoch}: it is at {} now", held.epoch);
        return Err(StoreError::new(ErrorKind::Fenced, message));
    }
    let last = held.last.max(Stamp(epoch << SEQUENCE_BITS));
    if draft.stamp <= last {
        return Ok(Verdict::Known);
    }
    if draft.stamp.0 > last.0 + 1 {
        let sequence = |stamp: Stamp| stamp.0 & ((1 << SEQUENCE_BITS) - 1);
        let message =
            format!("commit to {shard:?}: {} after {}", sequence(draft.stamp), sequence(last));
        return Err(StoreError::new(ErrorKind::Unsupported, message));
    }
    Ok(Verdict::Next)
}

#[cfg(test)]
mod tests {
    use hence_core::time::Timestamp;

    use super::*;
    use crate::slots::{Layout, Slots};

    #[test]
    fn a_batch_is_judged_by_owner_and_order() {
        let stamp = |epoch: i64, sequence: i64| Stamp(epoch << SEQUENCE_BITS | sequence);
        let held = |owned, epoch, last| ShardRow {
            epoch,
            owned,
            layout: Layout::at(Timestamp::EPOCH, &Slots::default()),
            last,
            swept_until: Timestamp::MIN,
            fronts: crate::front::Fronts::default(),
        };
        let rows = [
            ("the first", held(true, 2, stamp(1, 9)), 2, 1, Ok(Verdict::Next)),
            ("the next", held(true, 2, stamp(2, 4)), 2, 5, Ok(Verdict::Next)),
            ("again", held(true, 2, stamp(2, 4)), 2, 4, Ok(Verdict::Known)),
            ("long ago", held(true, 2, stamp(2, 4)), 2, 1, Ok(Verdict::Known)),
            ("a gap", held(true, 2, stamp(2, 4)), 2, 6, Err(ErrorKind::Unsupported)),
            ("a gap at first", held(true, 2, stamp(1, 4)), 2, 2, Err(ErrorKind::Unsupported)),
            ("taken over", held(true, 3, stamp(2, 4)), 2, 5, Err(ErrorKind::Fenced)),
            ("from the future", held(true, 1, stamp(1, 4)), 2, 1, Err(ErrorKind::Fenced)),
            ("given up", held(false, 2, stamp(2, 4)), 2, 5, Err(ErrorKind::Fenced)),
            ("given up, again", held(false, 2, stamp(2, 4)), 2, 4, Err(ErrorKind::Fenced)),
        ];
        for (what, held, epoch, sequence, expected) in rows {
            let draft =
                Draft { epoch, stamp: stamp(i64::from(epoch), sequence), ..Draft::default() };
            let verdict = judge(&held, &draft).map_err(|error| error.kind());
            assert_eq!(verdict, expected, "{what}");
        }
    }
}
