//! What the store was made with, and the partitions that come and go.
//!
//! Whoever makes or drops partitions holds one lock of the whole store, so that several nodes can
//! start at once. In a Galera cluster that lock is known to one node of it only, so nothing depends
//! on it: what another node has made or dropped meanwhile is taken as it is, and only what can
//! never be needed again is dropped, however old the knowledge about that is.

use std::collections::BTreeSet;

use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, StoreError};

use super::session::{Session, column};
use super::shared::Tables;
use super::text::Text;
use crate::limits::LOCK_SECS_MAX;
use crate::options::Meta;
use crate::slots::{Layout, start_of};

/// Tables with a partition for each slot.
const BY_SLOT: [&str; 3] = ["jobs", "gone", "history"];

/// How long a change of partitions waits for those who read the table: everybody else waits behind
/// it. Seconds; the server knows nothing shorter.
const DROP_WAIT_SECS: u64 = 1;

/// How often a change that is needed is tried: in between, everybody else has a turn.
const CHANGE_TRIES_MAX: usize = 10;

/// The tables of a store, over a connection.
pub(super) struct Schema<'a> {
    pub(super) session: &'a mut Session,
    pub(super) tables: &'a Tables,
}

impl Schema<'_> {
    /// What the store was made with; made with `wanted` when it is new.
    pub(super) async fn meta(&mut self, wanted: Meta, layout: &Layout) -> Result<Meta, StoreError> {
        if let Some(meta) = self.read_meta().await? {
            return Ok(meta);
        }
        self.lock().await?;
        let made = self.make(wanted, layout).await;
        if made.is_err() {
            self.session.run("make the store", &Text::new("ROLLBACK")).await?;
        }
        self.unlock().await?;
        match made {
            // In a cluster: another node was faster.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.read_meta().await?.ok_or(error)
            }
            made => made,
        }
    }

    async fn make(&mut self, wanted: Meta, layout: &Layout) -> Result<Meta, StoreError> {
        // Another node may have done it while this one waited.
        if let Some(meta) = self.read_meta().await? {
            return Ok(meta);
        }
        self.make_partitions(layout).await?;
        let mut sql = Text::new("BEGIN; ");
        let head = "INSERT INTO @shards (shard, near_from, near_until, era) VALUES ";
        sql.raw(&self.tables.named(head)).list(0..wanted.shards, |sql, shard| {
            sql.raw("(").number(i64::from(shard)).raw(", ").time(layout.near_from).raw(", ");
            sql.time(layout.near_until).raw(", ").number(layout.era).raw(")");
        });
        let head = "; INSERT INTO @meta (shards, slot_width, era_width, made_at) VALUES (";
        sql.raw(&self.tables.named(head)).number(i64::from(wanted.shards)).raw(", ");
        sql.number(wanted.width.get() as i64).raw(", ").number(wanted.era.get() as i64);
        sql.raw(", NOW(3)); COMMIT");
        self.session.run("make the store", &sql).await?;
        let (prefix, shards) = (self.tables.prefix(), wanted.shards);
        tracing::info!(prefix, shards, "made the tables of a new store in MySQL");
        Ok(wanted)
    }

    async fn read_meta(&mut self) -> Result<Option<Meta>, StoreError> {
        const WHAT: &str = "read the store";
        let sql = self.tables.text("SELECT shards, slot_width, era_width FROM @meta");
        let mut rows = self.session.ask(WHAT, &sql).await?.into_iter().flatten();
        let Some(mut row) = rows.next() else { return Ok(None) };
        let mut number = |index| column::<i64>(WHAT, &mut row, index);
        Meta::read(number(0)?, number(1)?, number(2)?).map(Some)
    }

    /// Makes what a layout needs and is not there.
    pub(super) async fn make_partitions(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.make_missing(layout).await {
                // Those who read a table keep it from being changed, or another node did it.
                Err(error)
                    if error.kind() == ErrorKind::Unavailable
                        && tries < CHANGE_TRIES_MAX
                        && !self.session.is_broken() => {}
                ended => return ended,
            }
        }
    }

    async fn make_missing(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let there = self.partitions().await?;
        let (first, last) = layout.slots();
        let slots = BY_SLOT.map(|table| (table, first..=last));
        for (table, values) in slots.into_iter().chain([("commits", layout.era..=layout.era)]) {
            let missing = values.filter(|value| !there.contains(&(table.to_owned(), *value)));
            let missing: Vec<i64> = missing.collect();
            if missing.is_empty() {
                continue;
            }
            let mut sql = self.tables.text(&format!("ALTER TABLE @{table} ADD PARTITION ("));
            sql.list(missing, |sql, value| {
                sql.raw("PARTITION s").number(value).raw(" VALUES IN (").number(value).raw(")");
            });
            self.session.run("make partitions", sql.raw(")")).await?;
        }
        Ok(())
    }

    /// Every partition: of which table, for which value.
    pub(super) async fn partitions(&mut self) -> Result<BTreeSet<(String, i64)>, StoreError> {
        const WHAT: &str = "list partitions";
        let names = ["jobs", "gone", "history", "commits"].map(|name| format!("'@{name}'"));
        let sql = self.tables.text(&format!(
            "SELECT TABLE_NAME, PARTITION_NAME FROM information_schema.PARTITIONS \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ({})",
            names.join(", ")
        ));
        let mut found = BTreeSet::new();
        for mut row in self.session.ask(WHAT, &sql).await?.into_iter().flatten() {
            let table: String = column(WHAT, &mut row, 0)?;
            let name: Option<String> = column(WHAT, &mut row, 1)?;
            let table = table.strip_prefix(self.tables.prefix()).map(str::to_owned);
            let value = name.and_then(|name| name.strip_prefix('s')?.parse().ok());
            found.extend(table.zip(value));
        }
        Ok(found)
    }

    /// Drops the partitions that no shard needs any more. One that is being read stays until the
    /// next time.
    pub(super) async fn drop_partitions(&mut self, width: Millis) -> Result<usize, StoreError> {
        const WHAT: &str = "read the shards";
        let sql = self.tables.text("SELECT near_from, era FROM @shards");
        let (mut near_from, mut oldest) = (Timestamp::MAX, i64::MAX);
        for mut row in self.session.ask(WHAT, &sql).await?.into_iter().flatten() {
            near_from = near_from.min(Timestamp::from_millis(column(WHAT, &mut row, 0)?));
            oldest = oldest.min(column::<i64>(WHAT, &mut row, 1)?);
        }
        // Both only ever grow.
        let over = |(table, value): &(String, i64)| match table.as_str() {
            "commits" => *value != 0 && *value < oldest,
            _ => *value != 0 && start_of(value + 1, width) <= near_from,
        };
        let mut dropped = 0;
        for (table, value) in self.partitions().await?.into_iter().filter(over) {
            match self.drop_partition(&table, value).await {
                Ok(()) => dropped += 1,
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::debug!(%error, table, value, "a partition is dropped later");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(dropped)
    }

    async fn drop_partition(&mut self, table: &str, value: i64) -> Result<(), StoreError> {
        let attempts = if table == "history" {
            // The attempts of finished jobs go with them.
            format!(
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
                 DELETE a FROM @attempts a JOIN @history h ON a.shard = h.shard \
                 AND a.number = h.number WHERE h.slot = {value}; "
            )
        } else {
            String::new()
        };
        let text = format!("{attempts}ALTER TABLE @{table} DROP PARTITION s{value}");
        self.session.run("drop a partition", &self.tables.text(&text)).await
    }

    /// One at a time, and nobody is kept waiting for long.
    pub(super) async fn lock(&mut self) -> Result<(), StoreError> {
        const WHAT: &str = "lock the tables";
        let wait = LOCK_SECS_MAX;
        let text = format!(
            "SET SESSION lock_wait_timeout = {DROP_WAIT_SECS}; SELECT GET_LOCK('@tables', {wait})"
        );
        let sets = self.session.ask(WHAT, &self.tables.text(&text)).await?;
        let row = sets.into_iter().flatten().next();
        let got: Option<i64> = row.map_or(Ok(None), |mut row| column(WHAT, &mut row, 0))?;
        if got == Some(1) {
            return Ok(());
        }
        let message = format!("{WHAT}: another node has been at it for {wait} seconds");
        Err(StoreError::new(ErrorKind::Unavailable, message))
    }

    /// The lock goes with the connection, when this fails.
    pub(super) async fn unlock(&mut self) -> Result<(), StoreError> {
        let wait = LOCK_SECS_MAX;
        let text =
            format!("SELECT RELEASE_LOCK('@tables'); SET SESSION lock_wait_timeout = {wait}");
        self.session.run("unlock the tables", &self.tables.text(&text)).await
    }
}
