//! What an acknowledged commit survives: the server is asked, and its answers are judged.

use hence_store::{StoreError, Tier};

use super::session::{Session, column};
use super::text::Text;

/// What the server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) version: String,
    pub(super) flush_at_commit: i64,
    pub(super) flush_method: String,
    pub(super) doublewrite: bool,
    pub(super) binary_log: bool,
    pub(super) sync_binlog: i64,
    /// Replicas that must have a commit before it is acknowledged.
    pub(super) semi_sync_replicas: i64,
    pub(super) packet_bytes_max: i64,
}

/// Asks.
pub(super) async fn ask(session: &mut Session) -> Result<Answers, StoreError> {
    const WHAT: &str = "ask the server how safe it is";
    let sql = "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@innodb_flush_method, \
               @@innodb_doublewrite NOT IN ('0', 'OFF'), @@log_bin, @@sync_binlog, \
               @@max_allowed_packet; \
               SHOW GLOBAL VARIABLES WHERE Variable_name IN \
               ('rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled'); \
               SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_clients', \
               'Rpl_semi_sync_source_clients')";
    let mut sets = session.ask(WHAT, &Text::new(sql)).await?.into_iter();
    let mut next = || sets.next().unwrap_or_default().into_iter();
    let mut row = next().next().ok_or_else(|| super::error::unreadable(WHAT))?;
    let mut value = None;
    for mut row in next() {
        value = Some(column::<String>(WHAT, &mut row, 1)?);
    }
    let enabled = value.is_some_and(|value| value == "ON");
    let mut clients = 0;
    for mut row in next() {
        clients = column::<String>(WHAT, &mut row, 1)?.parse().unwrap_or(0);
    }
    Ok(Answers {
        version: column(WHAT, &mut row, 0)?,
        flush_at_commit: column(WHAT, &mut row, 1)?,
        flush_method: column::<Option<String>>(WHAT, &mut row, 2)?.unwrap_or_default(),
        doublewrite: column(WHAT, &mut row, 3)?,
        binary_log: column(WHAT, &mut row, 4)?,
        sync_binlog: column(WHAT, &mut row, 5)?,
        semi_sync_replicas: if enabled { clients } else { 0 },
        packet_bytes_max: column(WHAT, &mut row, 6)?,
    })
}

impl Answers {
    /// The tier, and why.
    pub(super) fn judge(&self) -> (Tier, Vec<String>) {
        let mut notes = vec![format!("server {}", self.version)];
        let mut against = Vec::new();
        if self.flush_at_commit != 1 {
            let value = self.flush_at_commit;
            against.push(format!(
                "innodb_flush_log_at_trx_commit is {value}: a power cut loses commits; set it to 1"
            ));
        }
        if self.binary_log && self.sync_binlog != 1 {
            let value = self.sync_binlog;
            // What the binary log has lost, the server takes back when it starts.
            against.push(format!("sync_binlog is {value}: a power cut loses commits; set it to 1"));
        }
        if !self.doublewrite {
            against
                .push("innodb_doublewrite is off: a power cut can tear pages; turn it on".into());
        }
        if self.flush_method.eq_ignore_ascii_case("nosync") {
            against.push("innodb_flush_method is nosync: a power cut loses commits".into());
        }
        if self.semi_sync_replicas > 0 {
            let replicas = self.semi_sync_replicas;
            notes.push(format!("a commit waits for one of {replicas} replicas (semi-synchronous)"));
        }
        let tier = match (against.is_empty(), self.semi_sync_replicas) {
            (true, _) => Tier::Durable,
            (false, 1..) => Tier::Replicated,
            (false, _) => Tier::BestEffort,
        };
        if tier == Tier::Durable {
            notes.push("the log is synced before every answer".into());
        }
        notes.extend(against);
        (tier, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_make_the_tier() {
        let safe = Answers {
            version: "10.11.19-MariaDB".into(),
            flush_at_commit: 1,
            flush_method: "O_DIRECT".into(),
            doublewrite: true,
            binary_log: false,
            sync_binlog: 0,
            semi_sync_replicas: 0,
            packet_bytes_max: 1 << 24,
        };
        let with = |change: fn(&mut Answers)| {
            let mut answers = safe.clone();
            change(&mut answers);
            answers
        };
        let rows = [
            ("as it comes", safe.clone(), Tier::Durable, "synced before every answer"),
            ("every second", with(|a| a.flush_at_commit = 2), Tier::BestEffort, "set it to 1"),
            (
                "a synced binary log",
                with(|a| (a.binary_log, a.sync_binlog) = (true, 1)),
                Tier::Durable,
                "synced before every answer",
            ),
            (
                "an unsynced binary log",
                with(|a| a.binary_log = true),
                Tier::BestEffort,
                "sync_binlog",
            ),
            ("torn pages", with(|a| a.doublewrite = false), Tier::BestEffort, "doublewrite"),
            ("no syncs", with(|a| a.flush_method = "nosync".into()), Tier::BestEffort, "nosync"),
            (
                "replicas",
                with(|a| (a.flush_at_commit, a.semi_sync_replicas) = (0, 2)),
                Tier::Replicated,
                "one of 2 replicas",
            ),
            ("both", with(|a| a.semi_sync_replicas = 1), Tier::Durable, "one of 1 replicas"),
        ];
        for (what, answers, expected, note) in rows {
            let (tier, notes) = answers.judge();
            assert_eq!(tier, expected, "{what}");
            assert!(notes.iter().any(|line| line.contains(note)), "{what}: {notes:?}");
        }
    }
}
