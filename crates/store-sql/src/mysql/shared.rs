//! What the writer and the readers of one store have in common.

use std::ops::Deref;

use hence_core::id::ShardId;
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};
use mysql_async::Row;

use super::commit_row;
use super::session::{Connector, Role, Session, column};
use super::text::Text;
use crate::front::Fronts;
use crate::known::Known;
use crate::names::SqlName;
use crate::pool::{self, Connect, Pool};
use crate::rows::Stamp;
use crate::slots::{Layout, Slots};

pub(super) struct Shared {
    pub(super) connector: Connector,
    pub(super) pool: Pool<Connector>,
    pub(super) tables: Tables,
    pub(super) slots: Slots,
    known: Known,
}

/// What our tables are called.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    prefix: SqlName,
}

/// A connection that reads.
pub(super) type Reader<'a> = pool::Reader<'a, Connector>;

impl Connect for Connector {
    type Session = Session;

    fn connect(&self) -> impl Future<Output = Result<Session, StoreError>> + Send {
        Connector::connect(self, Role::Reader)
    }

    fn is_good(session: &Session) -> bool {
        !session.is_over()
    }
}

/// What is known is asked of it; the rest is read over one of its connections.
impl Deref for Shared {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.known
    }
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

impl Shared {
    pub(super) fn new(connector: Connector, readers: usize, tables: Tables, slots: Slots) -> Self {
        Shared {
            pool: Pool::new(connector.clone(), readers),
            connector,
            tables,
            slots,
            known: Known::default(),
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
}
