//! What the writer and the readers of one store have in common.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hence_core::id::ShardId;
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, Pressure, StoreError};
use mysql_async::Row;

use super::commit_row;
use super::pool::Pool;
use super::session::{Connector, column};
use super::text::Text;
use crate::front::{Fronts, Tracker};
use crate::leases::LeaseLog;
use crate::names::SqlName;
use crate::rows::Stamp;
use crate::slots::{Layout, Slots};

pub(super) struct Shared {
    pub(super) connector: Connector,
    pub(super) pool: Pool,
    pub(super) tables: Tables,
    pub(super) slots: Slots,
    shards: Mutex<HashMap<ShardId, Known>>,
    full: AtomicBool,
}

/// What our tables are called.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    prefix: SqlName,
}

/// What is known of a shard. All of it can be read again.
#[derive(Default)]
struct Known {
    swept_until: Option<Timestamp>,
    log: Option<Arc<EraLog>>,
    waiting: Tracker,
}

/// The leases of one era.
pub(super) struct EraLog {
    pub(super) era: i64,
    log: Mutex<LeaseLog>,
}

/// A shard as its rows say.
#[derive(Clone, Debug)]
pub(super) struct ShardRow {
    pub(super) epoch: i64,
    pub(super) owned: bool,
    pub(super) layout: Layout,
    pub(super) last: Stamp,
    pub(super) swept_until: Timestamp,
    pub(super) fronts: Fronts,
}

/// How a shard is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lock {
    /// As the transaction sees it.
    None,
    /// As it is, and nobody else changes it until the transaction ends.
    Exclusive,
}

impl Tables {
    pub(super) fn new(prefix: SqlName) -> Self {
        Tables { prefix }
    }

    /// The prefix of all of them.
    pub(super) fn prefix(&self) -> &str {
        self.prefix.as_str()
    }

    /// A piece of a statement, in which `@` stands for the prefix. It must hold no values.
    pub(super) fn named(&self, sql: &str) -> String {
        sql.replace('@', self.prefix())
    }

    /// The same as the beginning of a statement.
    pub(super) fn text(&self, sql: &str) -> Text {
        Text::new(&self.named(sql))
    }
}

impl EraLog {
    pub(super) fn new(era: i64) -> Self {
        EraLog { era, log: Mutex::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LeaseLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(super) fn new(connector: Connector, readers: usize, tables: Tables, slots: Slots) -> Self {
        Shared {
            pool: Pool::new(connector.clone(), readers),
            connector,
            tables,
            slots,
            shards: Mutex::default(),
            full: AtomicBool::new(false),
        }
    }

    /// The first statement of every transaction that writes: a share of the tables with partitions,
    /// as whoever writes needs it. Who reads one of them first and asks for more later, while
    /// somebody waits to change its partitions, would wait for them and they for him.
    pub(super) fn share_sql(&self) -> Text {
        self.tables
            .text("SELECT 1 FROM @commits c, @jobs j, @gone g, @history h WHERE FALSE FOR UPDATE; ")
    }

    /// Changes the row of a shard, for those who write it on another node of a cluster.
    pub(super) fn mark_sql(&self, shard: ShardId) -> Text {
        let mut text = self.tables.text("UPDATE @shards SET writes = writes + 1 WHERE shard = ");
        text.number(i64::from(shard.0));
        text
    }

    /// Two statements: the row of a shard, and the last row of its commits.
    pub(super) fn shard_sql(&self, shard: ShardId, lock: Lock) -> Text {
        let mut text = self.tables.text(
            "SELECT epoch, owner IS NOT NULL, near_from, near_until, era FROM @shards \
             WHERE shard = ",
        );
        text.number(i64::from(shard.0));
        if lock == Lock::Exclusive {
            text.raw(" FOR UPDATE");
        }
        let last = "; SELECT stamp, swept_until, fronts FROM @commits WHERE shard = ";
        text.raw(&self.tables.named(last)).number(i64::from(shard.0));
        text.raw(" ORDER BY stamp DESC LIMIT 1");
        text
    }

    /// What the answers to [`Shared::shard_sql`] say.
    pub(super) fn shard_row(
        &self,
        shard: ShardId,
        sets: &mut impl Iterator<Item = Vec<Row>>,
    ) -> Result<ShardRow, StoreError> {
        const WHAT: &str = "read a shard";
        let (rows, last) = (sets.next().unwrap_or_default(), sets.next().unwrap_or_default());
        let Some(mut row) = rows.into_iter().next() else {
            return Err(StoreError::new(ErrorKind::Unsupported, format!("there is no {shard:?}")));
        };
        let (mut stamp, mut swept) = (Stamp::default(), Timestamp::MIN);
        let mut fronts = Fronts::default();
        for mut row in last {
            stamp = Stamp(column(WHAT, &mut row, 0)?);
            swept = Timestamp::from_millis(column(WHAT, &mut row, 1)?);
            fronts = commit_row::fronts(shard, stamp, column(WHAT, &mut row, 2)?)?;
        }
        let layout = Layout {
            width: self.slots.width,
            near_from: Timestamp::from_millis(column(WHAT, &mut row, 2)?),
            near_until: Timestamp::from_millis(column(WHAT, &mut row, 3)?),
            era: column(WHAT, &mut row, 4)?,
        };
        self.sweep_to(shard, swept);
        Ok(ShardRow {
            epoch: column(WHAT, &mut row, 0)?,
            owned: column(WHAT, &mut row, 1)?,
            layout,
            last: stamp,
            swept_until: self.swept_until(shard),
            fronts,
        })
    }

    /// What was to be kept until here is gone.
    pub(super) fn swept_until(&self, shard: ShardId) -> Timestamp {
        self.known(shard, |known| known.swept_until).unwrap_or(Timestamp::MIN)
    }

    /// What was to be kept until `now` is gone; written with the next commit.
    pub(super) fn sweep_to(&self, shard: ShardId, now: Timestamp) {
        self.known(shard, |known| known.swept_until = known.swept_until.max(Some(now)));
    }

    /// What is known of the waiting jobs of a shard.
    pub(super) fn waiting<T>(&self, shard: ShardId, look: impl FnOnce(&mut Tracker) -> T) -> T {
        self.known(shard, |known| look(&mut known.waiting))
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
