//! Tables: made, brought up to date, and the partitions that come and go.
//!
//! Whoever makes or drops a table holds one lock of the whole schema, so that several nodes can
//! start at once.

use std::collections::BTreeSet;

use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, StoreError};

use super::error::{Columns, failed};
use super::session::Session;
use super::value::Value;
use crate::limits::DROP_WAIT_MILLIS_MAX;
use crate::migrate::{self, Applied, Direction, Migration, Step, migrations};
use crate::names::SqlName;
use crate::options::Meta;
use crate::slots::{Layout, start_of};

/// Every migration there is, in order.
pub(super) const MIGRATIONS: [Migration; 3] =
    migrations!["0001" "tables", "0002" "views", "0003" "letters"];

/// Tables with a partition for each slot.
const BY_SLOT: [&str; 3] = ["jobs", "gone", "history"];

/// The schema of a store, over a connection.
pub(super) struct Schema<'a> {
    pub(super) session: &'a Session,
    pub(super) name: &'a SqlName,
}

impl Schema<'_> {
    fn sql(&self, text: &str) -> String {
        text.replace('@', &format!("{}.", self.name.as_str()))
    }

    /// Which migrations were run; none, when there is no such schema.
    pub(super) async fn applied(&self) -> Result<Vec<Applied>, StoreError> {
        let table = self.sql("@migrations");
        let there = self.session.query("SELECT to_regclass($1) IS NOT NULL", &[&table]).await;
        let there = there.map_err(failed("look for the tables"))?;
        if !there.iter().any(|row| row.try_get(0).unwrap_or(false)) {
            return Ok(Vec::new());
        }
        let sql = self.sql("SELECT version, checksum FROM @migrations ORDER BY version");
        let rows = self.session.query(&sql, &[]).await.map_err(failed("read the migrations"))?;
        let read = |row: &tokio_postgres::Row| {
            let version: i32 = row.try_get(0).map_err(failed("read the migrations"))?;
            let checksum = row.try_get(1).map_err(failed("read the migrations"))?;
            Ok(Applied { version: version as u32, checksum })
        };
        rows.iter().map(read).collect()
    }

    /// What would be run, as text.
    pub(super) fn text(&self, steps: &[Step]) -> String {
        steps.iter().map(|step| step.text(|sql| self.sql(sql))).collect()
    }

    /// Brings the tables to a version; the newest, without one. Says what was run.
    pub(super) async fn migrate(&self, to: Option<u32>) -> Result<Vec<Step>, StoreError> {
        if migrate::plan(&MIGRATIONS, &self.applied().await?, to)?.is_empty() {
            return Ok(Vec::new());
        }
        self.locked(async {
            let make = format!("CREATE SCHEMA IF NOT EXISTS {}", self.name.as_str());
            let missing = "SELECT FROM pg_namespace WHERE nspname = $1";
            let there = self.session.query(missing, &[&self.name.as_str()]).await;
            // The right to make one is not needed when it is there.
            if there.map_err(failed("look for the schema"))?.is_empty() {
                self.session.run(&make).await.map_err(failed("make the schema"))?;
            }
            let table = self.sql(
                "CREATE TABLE IF NOT EXISTS @migrations (version int PRIMARY KEY, \
                 name text NOT NULL, checksum text NOT NULL, \
                 applied_at timestamptz NOT NULL DEFAULT now())",
            );
            self.session.run(&table).await.map_err(failed("make the tables"))?;
            // Another node may have done it while this one waited.
            let steps = migrate::plan(&MIGRATIONS, &self.applied().await?, to)?;
            for step in &steps {
                self.step(step).await?;
            }
            Ok(steps)
        })
        .await
    }

    async fn step(&self, step: &Step) -> Result<(), StoreError> {
        self.session.run(&self.sql(step.sql)).await.map_err(failed("run a migration"))?;
        let version = step.version as i32;
        let noted = match step.direction {
            Direction::Up => {
                let sql = self.sql("INSERT INTO @migrations VALUES ($1, $2, $3)");
                let checksum = migrate::checksum(step.sql);
                self.session.query(&sql, &[&version, &step.name, &checksum]).await
            }
            Direction::Down => {
                let sql = self.sql("DELETE FROM @migrations WHERE version = $1");
                self.session.query(&sql, &[&version]).await
            }
        };
        noted.map(drop).map_err(failed("note a migration"))
    }

    /// What the store was made with; made with `wanted` when it is new.
    pub(super) async fn meta(&self, wanted: Meta, layout: &Layout) -> Result<Meta, StoreError> {
        if let Some(meta) = self.read_meta().await? {
            return Ok(meta);
        }
        self.locked(async {
            if let Some(meta) = self.read_meta().await? {
                return Ok(meta);
            }
            self.make_partitions(&slots_of(layout)).await?;
            self.make_partitions(&[("commits", layout.era)]).await?;
            let sql = self.sql(
                "WITH made AS ( \
                     INSERT INTO @meta (shards, slot_width, era_width) VALUES ($1, $2, $3)) \
                 INSERT INTO @shards (shard, near_from, near_until, era) \
                 SELECT generate_series(0, $1 - 1), $4, $5, $6",
            );
            let shards = i32::from(wanted.shards);
            let (width, era) = (wanted.width.get() as i64, wanted.era.get() as i64);
            let (from, until) = (layout.near_from.as_millis(), layout.near_until.as_millis());
            let values: [Value<'_>; 6] = [&shards, &width, &era, &from, &until, &layout.era];
            self.session.query(&sql, &values).await.map_err(failed("make the store"))?;
            tracing::info!(
                schema = self.name.as_str(),
                shards,
                "made the tables of a new store in PostgreSQL"
            );
            Ok(wanted)
        })
        .await
    }

    async fn read_meta(&self) -> Result<Option<Meta>, StoreError> {
        let sql = self.sql("SELECT shards, slot_width, era_width FROM @meta");
        let rows = self.session.query(&sql, &[]).await.map_err(failed("read the store"))?;
        let Some(row) = rows.first() else { return Ok(None) };
        let read = || -> Columns<(i32, i64, i64)> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
        };
        let (shards, width, era) = read().map_err(failed("read the store"))?;
        Meta::read(i64::from(shards), width, era).map(Some)
    }

    /// Makes the slots that a layout needs and are not there.
    pub(super) async fn ensure_slots(&self, layout: &Layout) -> Result<(), StoreError> {
        self.locked(self.make_partitions(&slots_of(layout))).await
    }

    async fn make_partitions(&self, wanted: &[(&str, i64)]) -> Result<(), StoreError> {
        let there = self.partitions().await?;
        let mut text = String::new();
        for (table, value) in wanted {
            if there.contains(&((*table).to_string(), *value)) {
                continue;
            }
            // Attached and not made in place: that would lock readers and writers out.
            text += &self.sql(&format!(
                "CREATE TABLE @{table}_{value} (LIKE @{table} INCLUDING ALL);
                 ALTER TABLE @{table} ATTACH PARTITION @{table}_{value} FOR VALUES IN ({value});"
            ));
        }
        self.session.run(&text).await.map_err(failed("make partitions"))
    }

    /// Every partition: of which table, for which value.
    pub(super) async fn partitions(&self) -> Result<BTreeSet<(String, i64)>, StoreError> {
        let sql = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n \
                   ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relispartition \
                   AND c.relkind = 'r'";
        let rows = self.session.query(sql, &[&self.name.as_str()]).await;
        let rows = rows.map_err(failed("list partitions"))?;
        let parse = |row: &tokio_postgres::Row| {
            let name: &str = row.try_get(0).ok()?;
            let (table, value) = name.rsplit_once('_')?;
            Some((table.to_string(), value.parse().ok()?))
        };
        Ok(rows.iter().filter_map(parse).collect())
    }

    /// Runs the work with the partition of an era in place. It cannot be dropped meanwhile, though
    /// no shard is in it yet.
    pub(super) async fn with_era<T>(
        &self,
        era: i64,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.locked(async {
            self.make_partitions(&[("commits", era)]).await?;
            work.await
        })
        .await
    }

    /// Drops the partitions that no shard needs any more. One that is being read stays until the
    /// next time.
    pub(super) async fn drop_partitions(&self, width: Millis) -> Result<(), StoreError> {
        for (table, value) in self.over(width).await? {
            let outcome = self.locked(self.drop_partition(&table, value, width)).await;
            match outcome {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::debug!(%error, table, value, "a partition is dropped later");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The partitions that no shard needs any more, as of now.
    async fn over(&self, width: Millis) -> Result<Vec<(String, i64)>, StoreError> {
        let sql = self.sql("SELECT min(near_from), array_agg(DISTINCT era) FROM @shards");
        let rows = self.session.query(&sql, &[]).await.map_err(failed("read the shards"))?;
        let Some(row) = rows.first() else { return Ok(Vec::new()) };
        let read = || -> Columns<(i64, Vec<i64>)> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (near_from, eras) = read().map_err(failed("read the shards"))?;
        let over = |(table, value): &(String, i64)| match table.as_str() {
            "commits" => !eras.contains(value),
            _ => *value != 0 && start_of(value + 1, width) <= Timestamp::from_millis(near_from),
        };
        Ok(self.partitions().await?.into_iter().filter(over).collect())
    }

    /// Drops one, if it is still over now that nobody else can make or enter one.
    async fn drop_partition(
        &self,
        table: &str,
        value: i64,
        width: Millis,
    ) -> Result<(), StoreError> {
        if !self.over(width).await?.iter().any(|it| (it.0.as_str(), it.1) == (table, value)) {
            return Ok(());
        }
        let attempts = if table == "history" {
            // The attempts of finished jobs go with them.
            format!(
                "DELETE FROM @attempts a USING @history_{value} h \
                 WHERE a.shard = h.shard AND a.number = h.number; "
            )
        } else {
            String::new()
        };
        let text = format!(
            "SET LOCAL lock_timeout = {DROP_WAIT_MILLIS_MAX}; {attempts}\
             DROP TABLE IF EXISTS @{table}_{value}"
        );
        self.session.run(&self.sql(&text)).await.map_err(failed("drop a partition"))
    }

    /// Runs the work in a transaction that holds the lock of the schema.
    async fn locked<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        // Any number will do, as long as it is the same for the same schema.
        let lock = format!(
            "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('hence {}', 0))",
            self.name.as_str()
        );
        self.session.run(&lock).await.map_err(failed("lock the tables"))?;
        let done = work.await;
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.session.run(end).await.map_err(failed("commit a change of tables"));
        let done = done?;
        ended.map(|()| done)
    }
}

fn slots_of(layout: &Layout) -> Vec<(&'static str, i64)> {
    let (first, last) = layout.slots();
    let slots = |table: &&'static str| {
        let table = *table;
        (first..=last).map(move |slot| (table, slot))
    };
    BY_SLOT.iter().flat_map(slots).collect()
}
