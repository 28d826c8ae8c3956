//! How safe a server is, by asking it.

use hence_store::{ErrorKind, StoreError, Tier};

use super::error::failed;
use super::session::Session;

/// The oldest server that is used: older ones lock a table to attach a partition to it.
const VERSION_MIN: i32 = 120_000;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Questioned {
    pub(super) tier: Tier,
    pub(super) notes: Vec<String>,
}

/// What a server says about itself.
#[derive(Clone, Debug)]
struct Answers {
    version: i32,
    fsync: String,
    synchronous_commit: String,
    full_page_writes: String,
    synchronous_standby_names: String,
}

/// Asks the server.
pub(super) async fn question(session: &Session) -> Result<Questioned, StoreError> {
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('fsync'), \
               current_setting('synchronous_commit'), current_setting('full_page_writes'), \
               current_setting('synchronous_standby_names')";
    let rows = session.query(sql, &[]).await.map_err(failed("question the server"))?;
    let none = || StoreError::new(ErrorKind::Unavailable, "question the server: no answer");
    let row = rows.first().ok_or_else(none)?;
    let read = || -> Result<Answers, tokio_postgres::Error> {
        Ok(Answers {
            version: row.try_get(0)?,
            fsync: row.try_get(1)?,
            synchronous_commit: row.try_get(2)?,
            full_page_writes: row.try_get(3)?,
            synchronous_standby_names: row.try_get(4)?,
        })
    };
    judge(&read().map_err(failed("question the server"))?)
}

fn judge(answers: &Answers) -> Result<Questioned, StoreError> {
    let Answers { version, fsync, synchronous_commit, full_page_writes, .. } = answers;
    if *version < VERSION_MIN {
        let message = format!(
            "PostgreSQL {} is too old; use {} or later",
            version / 10_000,
            VERSION_MIN / 10_000
        );
        return Err(StoreError::new(ErrorKind::Unsupported, message));
    }
    let mut notes = vec![format!("PostgreSQL {}", version / 10_000)];
    let mut tier = Tier::Durable;
    if fsync != "on" {
        tier = Tier::BestEffort;
        notes.push("fsync is off: a power cut can destroy the whole database".to_string());
    }
    if synchronous_commit == "off" {
        tier = Tier::BestEffort;
        notes.push(
            "synchronous_commit is off: a crash of the server loses what was acknowledged last"
                .to_string(),
        );
    } else if fsync == "on" {
        notes.push(format!(
            "synchronous_commit is {synchronous_commit}: written and flushed before every answer"
        ));
    }
    if full_page_writes != "on" {
        tier = Tier::BestEffort;
        notes.push("full_page_writes is off: a power cut can tear pages".to_string());
    }
    if answers.synchronous_standby_names.is_empty() {
        notes.push("no synchronous standby: a failover can lose what was acknowledged".to_string());
    } else {
        notes.push("a synchronous standby has every acknowledged commit".to_string());
    }
    Ok(Questioned { tier, notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tier_is_what_the_settings_allow() {
        let rows = [
            ("on", "on", "on", Tier::Durable),
            ("on", "local", "on", Tier::Durable),
            ("on", "remote_apply", "on", Tier::Durable),
            ("on", "off", "on", Tier::BestEffort),
            ("off", "on", "on", Tier::BestEffort),
            ("on", "on", "off", Tier::BestEffort),
        ];
        for (fsync, synchronous_commit, full_page_writes, tier) in rows {
            let answers = Answers {
                version: 150_000,
                fsync: fsync.to_string(),
                synchronous_commit: synchronous_commit.to_string(),
                full_page_writes: full_page_writes.to_string(),
                synchronous_standby_names: String::new(),
            };
            let found = judge(&answers).unwrap();
            assert_eq!(found.tier, tier, "{answers:?}");
            assert!(found.notes.iter().any(|note| note.contains("no synchronous standby")));
            let old = Answers { version: 110_000, ..answers };
            assert_eq!(judge(&old).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
}
