//! What the writer and the readers of one store have in common.

use std::ops::Deref;

use hence_core::id::ShardId;
use hence_core::time::Timestamp;
use hence_store::{ErrorKind, StoreError};

use super::error::failed;
use super::session::{Connector, Session};
use crate::known::Known;
use crate::names::SqlName;
use crate::patience::Patience;
use crate::pool::{self, Connect, Pool};
use crate::rows::Stamp;
use crate::slots::{Layout, Slots};

pub(super) struct Shared {
    pub(super) connector: Connector,
    pub(super) pool: Pool<Connector>,
    pub(super) schema: SqlName,
    pub(super) slots: Slots,
    pub(super) patience: Patience,
    known: Known,
}

/// A connection that reads.
pub(super) type Reader<'a> = pool::Reader<'a, Connector>;

impl Connect for Connector {
    type Session = Session;

    fn connect(&self) -> impl Future<Output = Result<Session, StoreError>> + Send {
        Connector::connect(self)
    }

    fn is_good(session: &Session) -> bool {
        session.is_good()
    }
}

/// What is known is asked of it; the rest is read over one of its connections.
impl Deref for Shared {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.known
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
    pub(super) fn new(
        connector: Connector,
        readers: usize,
        schema: SqlName,
        slots: Slots,
        patience: Patience,
    ) -> Self {
        Shared {
            pool: Pool::new(connector.clone(), readers),
            connector,
            schema,
            slots,
            patience,
            known: Known::default(),
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
        if let Some(layout) = self.noted_layout(shard) {
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
        self.note_layout(shard, row.layout);
        self.sweep_to(shard, row.swept_until);
    }
}
