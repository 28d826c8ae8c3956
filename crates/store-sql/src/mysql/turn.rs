//! The turn of an era: every few minutes the rows of a shard are brought to where they belong.
//!
//! 1. The slots of the next days are made, if they are not there.
//! 2. Late jobs are carried from their slots to the rows that are removed one by one.
//! 3. Far jobs whose slot has opened are taken into it.
//! 4. All commits are folded into the first row of the next era ([`super::folding`]).
//! 5. What no shard needs any more is dropped whole.
//!
//! Each of 2 to 4 is a short transaction that holds the shard's lock, moves some rows, and moves
//! the instants that say where rows lie by just as much. It may end anywhere: the next turn goes
//! on.

use hence_core::id::ShardId;
use hence_core::time::{Millis, Timestamp};
use hence_store::{ErrorKind, StoreError};
use mysql_async::Row;

use super::letters;
use super::schema::Schema;
use super::session::{Session, column};
use super::shared::{Lock, Shared};
use super::snapshot::{BY_PLACE, COUNTS};
use super::statements::JOB_COLUMNS;
use super::sweep::BEGIN;
use super::text::Text;
use crate::fold::Folded;
use crate::limits::CARRY_ROWS_MAX;
use crate::slots::{ELSEWHERE, Layout, slot_of};

pub(super) const WHAT: &str = "turn an era";

/// How often a transaction of a turn is made when the server takes it back.
const TRIES_MAX: usize = 4;

/// Brings the shard up to `now`, if its era is over.
pub(super) async fn keep_up(
    shared: &Shared,
    session: &mut Session,
    shard: ShardId,
    now: Timestamp,
) -> Result<(), StoreError> {
    let target = Layout::at(now, &shared.slots);
    let mut sets = session.ask(WHAT, &shared.shard_sql(shard, Lock::None)).await?.into_iter();
    if target.era <= shared.shard_row(shard, &mut sets)?.layout.era {
        return Ok(());
    }
    let mut schema = Schema { session, tables: &shared.tables };
    // One turn at a time: another could drop the era that this one is about to begin.
    schema.lock().await?;
    let turned = turn(shared, schema.session, shard, target).await;
    if turned.is_ok() || !schema.session.is_broken() {
        schema.unlock().await?;
    }
    turned
}

async fn turn(
    shared: &Shared,
    session: &mut Session,
    shard: ShardId,
    target: Layout,
) -> Result<(), StoreError> {
    let mut schema = Schema { session, tables: &shared.tables };
    schema.make_partitions(&target).await?;
    let before = Folded::default();
    let mut turn = Turn { shared, session: schema.session, shard, target, before };
    turn.run_step(Step::Carry).await?;
    turn.run_step(Step::Open).await?;
    turn.fold_before().await?;
    turn.run_step(Step::Fold).await?;
    let mut schema = Schema { session: turn.session, tables: &shared.tables };
    schema.drop_partitions(shared.slots.width).await?;
    letters::forget(shared, schema.session).await
}

pub(super) struct Turn<'a> {
    pub(super) shared: &'a Shared,
    pub(super) session: &'a mut Session,
    pub(super) shard: ShardId,
    pub(super) target: Layout,
    /// What the commits of the era came to before the shard was locked for the last step.
    pub(super) before: Folded,
}

#[derive(Clone, Copy)]
enum Step {
    Carry,
    Open,
    Fold,
}

impl Turn<'_> {
    /// All transactions of a step. One that the server took back is made again.
    async fn run_step(&mut self, step: Step) -> Result<(), StoreError> {
        let mut failures = 0;
        loop {
            match self.take(step).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    failures += 1;
                    let passes = error.kind() == ErrorKind::Unavailable;
                    if !passes || failures == TRIES_MAX || self.session.is_broken() {
                        return Err(error);
                    }
                    self.session.run(WHAT, &Text::new("ROLLBACK")).await?;
                }
            }
        }
    }

    /// One transaction of a step; whether the step is done.
    async fn take(&mut self, step: Step) -> Result<bool, StoreError> {
        let mut sql = Text::new(BEGIN);
        sql.append(&self.shared.share_sql());
        sql.append(&self.shared.shard_sql(self.shard, Lock::Exclusive));
        let mut sets = self.session.ask(WHAT, &sql).await?.into_iter().skip(3);
        let row = self.shared.shard_row(self.shard, &mut sets)?;
        let done = match step {
            Step::Carry => self.carry(&row.layout).await,
            Step::Open => self.open(&row.layout).await,
            Step::Fold => self.fold(&row).await,
        }?;
        self.session.run(WHAT, &Text::new("COMMIT")).await?;
        Ok(done)
    }

    /// Carries late jobs to slot 0, and the beginning of the near slots past them.
    async fn carry(&mut self, layout: &Layout) -> Result<bool, StoreError> {
        let target = self.target.near_from.min(layout.near_until);
        if target <= layout.near_from {
            self.jump(layout).await?;
            return Ok(true);
        }
        let (first, _) = layout.slots();
        let last = slot_of(target.minus(Millis::new(1)), layout.width);
        let mut near = self.rows((first, last), layout.near_from).await?;
        let until = self.portion(&near, layout.near_from, target).await?;
        near.raw(" AND ").raw(&self.shared.tables.named(COUNTS));
        let head = format!("INSERT INTO @jobs (slot, {JOB_COLUMNS}) SELECT 0, {}", job_columns());
        self.run_on(&head, &near, until).await?;
        self.set(&[("near_from", until)]).await?;
        Ok(false)
    }

    /// After a long pause all near slots are over, and those up to now were never made: what is due
    /// in them stays elsewhere.
    async fn jump(&mut self, layout: &Layout) -> Result<(), StoreError> {
        let from = self.target.near_from;
        if from <= layout.near_until {
            return Ok(());
        }
        self.set(&[("near_from", from), ("near_until", from)]).await
    }

    /// Takes far jobs into the slots that are open now, and the end of the near slots past them.
    async fn open(&mut self, layout: &Layout) -> Result<bool, StoreError> {
        let target = self.target.near_until;
        if target <= layout.near_until {
            return Ok(true);
        }
        let far = self.rows((ELSEWHERE, ELSEWHERE), layout.near_until).await?;
        let until = self.portion(&far, layout.near_until, target).await?;
        let (columns, width) = (job_columns(), self.target.width.get());
        let slot = format!("j.due_at DIV {width}");
        let head = format!("INSERT INTO @jobs (slot, {JOB_COLUMNS}) SELECT {slot}, {columns}");
        self.run_on(&head, &far, until).await?;
        self.run_on("DELETE j", &far, until).await?;
        self.set(&[("near_until", until)]).await?;
        Ok(until >= target)
    }

    /// The rows of these slots from a due time on, as the middle of a statement. They lie by queue
    /// and due time: without the queues, all of them would be looked at.
    async fn rows(&mut self, slots: (i64, i64), from: Timestamp) -> Result<Text, StoreError> {
        let head = format!(" FROM {BY_PLACE} WHERE j.slot BETWEEN ");
        let mut rows = self.shared.tables.text(&head);
        rows.number(slots.0).raw(" AND ").number(slots.1).raw(" AND j.shard = ");
        rows.number(i64::from(self.shard.0));
        let queues = self.queues(&rows).await?;
        if queues.is_empty() {
            rows.raw(" AND FALSE");
            return Ok(rows);
        }
        rows.raw(" AND j.queue IN (").list(&queues, |text, queue| {
            text.bytes(queue);
        });
        rows.raw(") AND j.due_at >= ").time(from);
        Ok(rows)
    }

    /// The queues of these rows, found by leaping from one to the next.
    async fn queues(&mut self, rows: &Text) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut queues: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut sql = Text::new("SELECT j.queue");
            sql.append(rows);
            if let Some(last) = queues.last() {
                sql.raw(" AND j.queue > ").bytes(last);
            }
            sql.raw(" ORDER BY j.queue LIMIT 1");
            let found = self.session.ask(WHAT, &sql).await?.into_iter().flatten().next();
            let Some(mut row) = found else { return Ok(queues) };
            queues.push(column(WHAT, &mut row, 0)?);
        }
    }

    /// Up to which due time rows are looked at now: the end, or where there are enough, those that
    /// are over included: nobody can commit meanwhile. All that are due at one instant go together.
    async fn portion(
        &mut self,
        rows: &Text,
        from: Timestamp,
        end: Timestamp,
    ) -> Result<Timestamp, StoreError> {
        let mut sql = Text::new("SELECT j.due_at");
        sql.append(rows).raw(" AND j.due_at < ").time(end);
        sql.raw(&format!(" ORDER BY j.due_at LIMIT {CARRY_ROWS_MAX}, 1"));
        let found = self.session.ask(WHAT, &sql).await?.into_iter().flatten().next();
        let Some(mut row) = found else { return Ok(end) };
        let due_at = Timestamp::from_millis(column(WHAT, &mut row, 0)?);
        Ok(end.min(due_at.max(from.plus(Millis::new(1)))))
    }

    /// Runs a statement on the rows up to a due time.
    async fn run_on(
        &mut self,
        head: &str,
        rows: &Text,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let mut sql = self.shared.tables.text(head);
        sql.append(rows).raw(" AND j.due_at < ").time(until);
        self.session.run(WHAT, &sql).await
    }

    /// Moves instants that say where the rows of the shard lie.
    async fn set(&mut self, columns: &[(&str, Timestamp)]) -> Result<(), StoreError> {
        let mut sql = self.shared.tables.text("UPDATE @shards SET ");
        sql.list(columns, |sql, (column, at)| {
            sql.raw(column).raw(" = ").time(*at);
        });
        sql.raw(" WHERE shard = ").number(i64::from(self.shard.0));
        self.session.run(WHAT, &sql).await
    }

    pub(super) async fn ask(&mut self, sql: &str) -> Result<Vec<Row>, StoreError> {
        let sets = self.session.ask(WHAT, &self.shared.tables.text(sql)).await?;
        Ok(sets.into_iter().flatten().collect())
    }

    pub(super) async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.session.run(WHAT, &self.shared.tables.text(sql)).await
    }
}

/// The columns of the table that is called j.
fn job_columns() -> String {
    JOB_COLUMNS.split(", ").map(|it| format!("j.{}", it.trim())).collect::<Vec<_>>().join(", ")
}
