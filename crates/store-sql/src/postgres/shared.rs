//! What the writer and the readers of one store have in common.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hence_core::id::{Epoch, ShardId};
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, Pressure, StoreError};

use super::error::failed;
use super::pool::Pool;
use super::session::{Connector, Session};
use crate::leases::LeaseLog;
use crate::names::SqlName;
use crate::outstanding::Outstanding;
use crate::rows::Stamp;
use crate::slots::{Layout, Slots};

pub(super) struct Shared {
    pub(super) connector: Connector,
    pub(super) pool: Pool,
    pub(super) schema: SqlName,
    pub(super) slots: Slots,
    shards: Mutex<HashMap<ShardId, Known>>,
    full: AtomicBool,
}

/// What is known of a shard. All of it can be read again.
#[derive(Clone, Default)]
struct Known {
    layout: Option<Layout>,
    swept_until: Option<Timestamp>,
    log: Option<Arc<EraLog>>,
    /// The epoch under which this process owns it, or did.
    owned: Option<Epoch>,
    outstanding: Outstanding,
}

/// The leases of one era.
pub(super) struct EraLog {
    pub(super) era: i64,
    pub(super) log: Mutex<LeaseLog>,
}

impl EraLog {
    pub(super) fn new(era: i64, log: LeaseLog) -> Self {
        EraLog { era, log: Mutex::new(log) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LeaseLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the rows of a shard lie, and the last row of its commits.
pub(super) const SHARD: &str = "SELECT s.near_from, s.near_until, s.era, c.stamp, c.swept_until
FROM @shards s LEFT JOIN LATERAL (
    SELECT stamp, swept_until FROM @commits
    WHERE era = s.era AND shard = s.shard ORDER BY stamp DESC LIMIT 1) c ON true
WHERE s.shard = $1";

/// A shard as its rows say.
#[derive(Clone, Copy)]
pub(super) struct ShardRow {
    pub(super) layout: Layout,
    pub(super) last: Stamp,
    pub(super) swept_until: Timestamp,
}

impl Shared {
    pub(super) fn new(connector: Connector, readers: usize, schema: SqlName, slots: Slots) -> Self {
        Shared {
            pool: Pool::new(connector.clone(), readers),
            connector,
            schema,
            slots,
            shards: Mutex::default(),
            full: AtomicBool::new(false),
        }
    }

    /// The text of a statement, in this schema.
    pub(super) fn sql(&self, text: &str) -> String {
        text.replace('@', &format!("{}.", self.schema.as_str()))
    }

    /// Where the rows of a shard lie, as far as is known; read if nothing is.
    pub(super) async fn layout(
        &self,
        session: &Session,
        shard: ShardId,
    ) -> Result<Layout, StoreError> {
        if let Some(layout) = self.known(shard, |known| known.layout) {
            return Ok(layout);
        }
        let rows = session.query(&self.sql(SHARD), &[&i32::from(shard.0)]).await;
        let row = self.shard_row(shard, &rows.map_err(failed("read a shard"))?)?;
        self.note(shard, row);
        Ok(row.layout)
    }

    /// What the row of a shard says.
    pub(super) fn shard_row(
        &self,
        shard: ShardId,
        rows: &[tokio_postgres::Row],
    ) -> Result<ShardRow, StoreError> {
        let [row] = rows else {
            return Err(StoreError::new(ErrorKind::Unsupported, format!("there is no {shard:?}")));
        };
        let read = || -> Result<ShardRow, tokio_postgres::Error> {
            let layout = Layout {
                width: self.slots.width,
                near_from: Timestamp::from_millis(row.try_get(0)?),
                near_until: Timestamp::from_millis(row.try_get(1)?),
                era: row.try_get(2)?,
            };
            let last = Stamp(row.try_get::<_, Option<i64>>(3)?.unwrap_or_default());
            let swept: Option<i64> = row.try_get(4)?;
            let swept_until = swept.map_or(Timestamp::MIN, Timestamp::from_millis);
            Ok(ShardRow { layout, last, swept_until })
        };
        read().map_err(failed("read a shard"))
    }

    /// Remembers what a row said.
    pub(super) fn note(&self, shard: ShardId, row: ShardRow) {
        self.known(shard, |known| {
            known.layout = Some(row.layout);
            known.swept_until = known.swept_until.max(Some(row.swept_until));
        });
    }

    pub(super) fn forget_layout(&self, shard: ShardId) {
        self.known(shard, |known| known.layout = None);
    }

    /// What was to be kept until here is gone.
    pub(super) fn swept_until(&self, shard: ShardId) -> Timestamp {
        self.known(shard, |known| known.swept_until).unwrap_or(Timestamp::MIN)
    }

    pub(super) fn sweep_to(&self, shard: ShardId, now: Timestamp) {
        self.known(shard, |known| known.swept_until = known.swept_until.max(Some(now)));
    }

    /// The leases that were read last.
    pub(super) fn log(&self, shard: ShardId) -> Option<Arc<EraLog>> {
        self.known(shard, |known| known.log.clone())
    }

    /// Remembers the leases of an era, unless a later one is known.
    pub(super) fn keep_log(&self, shard: ShardId, log: &Arc<EraLog>) {
        self.known(shard, |known| {
            if known.log.as_ref().is_none_or(|old| old.era < log.era) {
                known.log = Some(Arc::clone(log));
            }
        });
    }

    /// The shard is this process's, under this epoch.
    pub(super) fn note_owned(&self, shard: ShardId, epoch: Epoch) {
        self.known(shard, |known| known.owned = Some(epoch));
    }

    /// Under which epoch this process owns the shard, or did.
    pub(super) fn owned(&self, shard: ShardId) -> Option<Epoch> {
        self.known(shard, |known| known.owned)
    }

    /// What is known of leases that are not over.
    pub(super) fn outstanding<T>(
        &self,
        shard: ShardId,
        look: impl FnOnce(&mut Outstanding) -> T,
    ) -> T {
        self.known(shard, |known| look(&mut known.outstanding))
    }

    /// Whether there is room, as far as the last commit could tell.
    pub(super) fn pressure(&self) -> Pressure {
        if self.full.load(Ordering::Acquire) { Pressure::Full } else { Pressure::Normal }
    }

    pub(super) fn note_room(&self, outcome: &Result<(), StoreError>) {
        match outcome {
            Ok(()) => self.full.store(false, Ordering::Release),
            Err(error) if error.kind() == ErrorKind::Full => {
                self.full.store(true, Ordering::Release);
            }
            Err(_) => {}
        }
    }

    fn known<T>(&self, shard: ShardId, look: impl FnOnce(&mut Known) -> T) -> T {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        look(shards.entry(shard).or_default())
    }
}
