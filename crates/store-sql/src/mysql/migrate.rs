//! Makes the tables, step by step. A step cannot be taken back by the server when it fails in the
//! middle, so each is written such that it can be run again.

use hence_store::{ErrorKind, StoreError};

use super::session::{Session, column};
use super::shared::Tables;
use super::text::Text;
use crate::limits::CALL_SECS_MAX;
use crate::migrate::{Applied, Direction, Migration, Step, checksum, plan};

/// Every migration there is.
pub(super) const MIGRATIONS: [Migration; 3] = [
    Migration {
        version: 1,
        name: "tables",
        up: include_str!("migrations/0001_tables.up.sql"),
        down: include_str!("migrations/0001_tables.down.sql"),
    },
    Migration {
        version: 2,
        name: "views",
        up: include_str!("migrations/0002_views.up.sql"),
        down: include_str!("migrations/0002_views.down.sql"),
    },
    Migration {
        version: 3,
        name: "letters",
        up: include_str!("migrations/0003_letters.up.sql"),
        down: include_str!("migrations/0003_letters.down.sql"),
    },
];

const WHAT: &str = "migrate the tables";

/// What was run, in order.
pub(super) async fn applied(
    session: &mut Session,
    tables: &Tables,
) -> Result<Vec<Applied>, StoreError> {
    let exists = tables.text(
        "SELECT COUNT(*) FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '@migrations'",
    );
    let mut sets = session.ask(WHAT, &exists).await?;
    let row = sets.first_mut().and_then(|rows| rows.first_mut());
    let count: i64 = row.map_or(Ok(0), |row| column(WHAT, row, 0))?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let sql = tables.text("SELECT version, checksum FROM @migrations ORDER BY version");
    let rows = session.ask(WHAT, &sql).await?.into_iter().flatten();
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
    let done = run(session, tables, to).await;
    // The lock goes with the connection, when this fails.
    let released = session.run(WHAT, &tables.text("SELECT RELEASE_LOCK('@migrate')")).await;
    done.and_then(|steps| released.map(|()| steps))
}

/// One process at a time.
async fn lock(session: &mut Session, tables: &Tables) -> Result<(), StoreError> {
    let wait = CALL_SECS_MAX / 2;
    let sql = tables.text(&format!("SELECT GET_LOCK('@migrate', {wait})"));
    let mut sets = session.ask(WHAT, &sql).await?;
    let row = sets.first_mut().and_then(|rows| rows.first_mut());
    let got: Option<i64> = row.map_or(Ok(None), |row| column(WHAT, row, 0))?;
    if got == Some(1) {
        return Ok(());
    }
    let message = format!("{WHAT}: another process has been at it for {wait} seconds");
    Err(StoreError::new(ErrorKind::Unavailable, message))
}

async fn run(
    session: &mut Session,
    tables: &Tables,
    to: Option<u32>,
) -> Result<Vec<Step>, StoreError> {
    let list = "CREATE TABLE IF NOT EXISTS @migrations (version INT NOT NULL PRIMARY KEY, \
                name VARCHAR(100) NOT NULL, checksum VARCHAR(64) CHARACTER SET ascii NOT NULL, \
                run_at DATETIME(3) NOT NULL) ENGINE = InnoDB";
    session.run(WHAT, &tables.text(list)).await?;
    let steps = plan(&MIGRATIONS, &applied(session, tables).await?, to)?;
    for step in &steps {
        tracing::info!(version = step.version, name = step.name, "migrating the tables");
        session.run(WHAT, &tables.text(step.sql)).await?;
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
        session.run(WHAT, &record).await?;
    }
    Ok(steps)
}
