//! Makes the tables, step by step. A step cannot be taken back by the server when it fails in the
//! middle, so each is written such that it can be run again.

use hence_store::{ErrorKind, StoreError};
use mysql_async::Row;
use mysql_async::prelude::FromValue;

use super::error::unreadable;
use super::session::{Cluster, Session, column};
use super::shared::Tables;
use super::text::Text;
use crate::limits::CALL_SECS_MAX;
use crate::migrate::{Applied, Direction, Migration, Step, checksum, migrations, plan};

/// Every migration there is, in order.
pub(super) const MIGRATIONS: [Migration; 5] = migrations![
    "0001" "tables",
    "0002" "views",
    "0003" "letters",
    "0004" "writes",
    "0005" "fronts",
];

const WHAT: &str = "migrate the tables";

/// How often a statement is sent again that was taken back for the sake of another node's: each
/// time that node has got on, and it has a few dozen of them.
const TAKEN_BACK_MAX: usize = 100;

/// What was run, in order.
pub(super) async fn applied(
    session: &mut Session,
    tables: &Tables,
) -> Result<Vec<Applied>, StoreError> {
    let exists = tables.text(
        "SELECT COUNT(*) FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '@migrations'",
    );
    if ask_one::<i64>(session, &exists).await? != Some(1) {
        return Ok(Vec::new());
    }
    let sql =
        tables.text("SELECT version, checksum FROM @migrations WHERE version > 0 ORDER BY version");
    let rows = ask(session, &sql).await?.into_iter().flatten();
    let read = |mut row| {
        Ok(Applied { version: column(WHAT, &mut row, 0)?, checksum: column(WHAT, &mut row, 1)? })
    };
    rows.map(read).collect()
}

/// Runs what leads to a version; the newest, without one. Gives what was run.
pub(super) async fn migrate(
    session: &mut Session,
    tables: &Tables,
    to: Option<u32>,
) -> Result<Vec<Step>, StoreError> {
    // Nothing to do is what mostly is, and needs no lock.
    if plan(&MIGRATIONS, &applied(session, tables).await?, to)?.is_empty() {
        return Ok(Vec::new());
    }
    lock(session, tables).await?;
    let done = match session.cluster() {
        Cluster::None => run(session, tables, to).await,
        Cluster::Galera => run_alone(session, tables, to).await,
    };
    // The lock goes with the connection, when this fails.
    let released = ask(session, &tables.text("SELECT RELEASE_LOCK('@migrate')")).await;
    done.and_then(|steps| released.map(|_| steps))
}

/// One process at a time, of those that use the same server.
async fn lock(session: &mut Session, tables: &Tables) -> Result<(), StoreError> {
    let wait = CALL_SECS_MAX / 2;
    let sql = tables.text(&format!("SELECT GET_LOCK('@migrate', {wait})"));
    if ask_one::<Option<i64>>(session, &sql).await? == Some(Some(1)) {
        return Ok(());
    }
    let message = format!("{WHAT}: another process has been at it for {wait} seconds");
    Err(StoreError::new(ErrorKind::Unavailable, message))
}

/// One process at a time in a whole cluster, where a lock is known to one node only. A node on
/// which a view is made waits for ever when a table beneath it is changed on another at the same
/// time. So there is a row that one of them has; it is good for as long as a call may take.
async fn run_alone(
    session: &mut Session,
    tables: &Tables,
    to: Option<u32>,
) -> Result<Vec<Step>, StoreError> {
    make_list(session, tables).await?;
    let claimant: Option<String> = ask_one(session, &Text::new("SELECT UUID()")).await?;
    let claimant = claimant.ok_or_else(|| unreadable(WHAT))?;
    let mut claim = tables.text("INSERT INTO @migrations VALUES (0, 'claim', ");
    claim.text(&claimant).raw(", NOW(3)) ON DUPLICATE KEY UPDATE checksum = IF(run_at < NOW(3) - ");
    claim.raw(&format!("INTERVAL {CALL_SECS_MAX} SECOND, VALUES(checksum), checksum), "));
    claim.raw("run_at = IF(checksum = VALUES(checksum), VALUES(run_at), run_at); ");
    claim.raw(&tables.named("DO SLEEP(0.1); SELECT checksum FROM @migrations WHERE version = 0"));
    while ask_one::<String>(session, &claim).await?.as_deref() != Some(claimant.as_str()) {}
    let done = run(session, tables, to).await;
    let mut release = tables.text("DELETE FROM @migrations WHERE version = 0 AND checksum = ");
    ask(session, release.text(&claimant)).await?;
    done
}

/// Sends statements that can be run again: in a cluster, any may be taken back, as a deadlock, when
/// another node changes tables at the same time.
async fn ask(session: &mut Session, sql: &Text) -> Result<Vec<Vec<Row>>, StoreError> {
    for _ in 0..TAKEN_BACK_MAX {
        match session.ask(WHAT, sql).await {
            Err(error)
                if error.kind() == ErrorKind::Unavailable
                    && session.cluster() == Cluster::Galera
                    && !session.is_broken() => {}
            answered => return answered,
        }
    }
    session.ask(WHAT, sql).await
}

async fn ask_one<T: FromValue>(session: &mut Session, sql: &Text) -> Result<Option<T>, StoreError> {
    let row = ask(session, sql).await?.into_iter().flatten().next();
    row.map(|mut row| column(WHAT, &mut row, 0)).transpose()
}

async fn make_list(session: &mut Session, tables: &Tables) -> Result<(), StoreError> {
    let list = "CREATE TABLE IF NOT EXISTS @migrations (version INT NOT NULL PRIMARY KEY, \
                name VARCHAR(100) NOT NULL, checksum VARCHAR(64) CHARACTER SET ascii NOT NULL, \
                run_at DATETIME(3) NOT NULL) ENGINE = InnoDB";
    ask(session, &tables.text(list)).await.map(drop)
}

async fn run(
    session: &mut Session,
    tables: &Tables,
    to: Option<u32>,
) -> Result<Vec<Step>, StoreError> {
    make_list(session, tables).await?;
    let steps = plan(&MIGRATIONS, &applied(session, tables).await?, to)?;
    for step in &steps {
        tracing::info!(version = step.version, name = step.name, "migrating the tables");
        ask(session, &tables.text(step.sql)).await?;
        let mut record = Text::default();
        match step.direction {
            Direction::Up => {
                record.raw(&tables.named("INSERT INTO @migrations VALUES ("));
                record.number(i64::from(step.version)).raw(", ").text(step.name).raw(", ");
                record.text(&checksum(step.sql)).raw(", NOW(3))");
            }
            Direction::Down => {
                record.raw(&tables.named("DELETE FROM @migrations WHERE version = "));
                record.number(i64::from(step.version));
            }
        }
        ask(session, &record).await?;
    }
    Ok(steps)
}
