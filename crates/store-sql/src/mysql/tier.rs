//! What an acknowledged commit survives: the server is asked, and its answers are judged.

use hence_store::{StoreError, Tier};

use super::session::{Cluster, Connector, Session, column};
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
    /// Nodes of its cluster, itself included, that have a commit before it is acknowledged.
    pub(super) cluster_nodes: i64,
    pub(super) packet_bytes_max: i64,
}

/// A node of a cluster, and what it says about itself; nothing when it cannot be asked.
pub(super) type Node = (String, Option<Answers>);

/// Asks.
pub(super) async fn ask(session: &mut Session) -> Result<Answers, StoreError> {
    const WHAT: &str = "ask the server how safe it is";
    let sql = "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@innodb_flush_method, \
               @@innodb_doublewrite NOT IN ('0', 'OFF'), @@log_bin, @@sync_binlog, \
               @@max_allowed_packet; \
               SHOW GLOBAL VARIABLES WHERE Variable_name IN \
               ('rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled'); \
               SHOW GLOBAL STATUS WHERE Variable_name IN ('Rpl_semi_sync_master_clients', \
               'Rpl_semi_sync_source_clients'); \
               SHOW GLOBAL STATUS WHERE Variable_name = 'wsrep_cluster_size'";
    let mut sets = session.ask(WHAT, &Text::new(sql)).await?.into_iter();
    let rows = sets.next().unwrap_or_default();
    let mut row = rows.into_iter().next().ok_or_else(|| super::error::unreadable(WHAT))?;
    let mut last = || {
        let row = sets.next().unwrap_or_default().pop();
        let value: Option<String> = row.map(|mut row| column(WHAT, &mut row, 1)).transpose()?;
        Ok::<_, StoreError>(value.unwrap_or_default())
    };
    let (enabled, clients, nodes) = (last()? == "ON", last()?, last()?);
    let number = |text: &str, counts: bool| text.parse().ok().filter(|_| counts).unwrap_or(0);
    Ok(Answers {
        version: column(WHAT, &mut row, 0)?,
        flush_at_commit: column(WHAT, &mut row, 1)?,
        flush_method: column::<Option<String>>(WHAT, &mut row, 2)?.unwrap_or_default(),
        doublewrite: column(WHAT, &mut row, 3)?,
        binary_log: column(WHAT, &mut row, 4)?,
        sync_binlog: column(WHAT, &mut row, 5)?,
        semi_sync_replicas: number(&clients, enabled),
        cluster_nodes: number(&nodes, session.cluster() == Cluster::Galera),
        packet_bytes_max: column(WHAT, &mut row, 6)?,
    })
}

/// Asks all hosts of a cluster. One that does not answer keeps nobody from starting.
pub(super) async fn ask_each(connector: &Connector) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (name, session) in connector.connect_to_each().await {
        let answers = match session {
            Ok(mut session) => ask(&mut session).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &answers {
            tracing::warn!(%error, host = name, "a node of the cluster does not answer");
        }
        nodes.push((name, answers.ok()));
    }
    nodes
}

/// The tier of a server, or of the nodes of its cluster, and why.
pub(super) fn judge(server: &Answers, nodes: &[Node]) -> (Tier, Vec<String>) {
    let mut notes = vec![format!("server {}", server.version)];
    let mut against = Vec::new();
    if nodes.is_empty() {
        against.extend(server.against());
    }
    for (name, answers) in nodes {
        match answers {
            Some(answers) => {
                against.extend(answers.against().iter().map(|line| format!("{name}: {line}")));
            }
            None => notes.push(format!("{name} did not answer: how safe it is is not known")),
        }
    }
    if server.semi_sync_replicas > 0 {
        let replicas = server.semi_sync_replicas;
        notes.push(format!("a commit waits for one of {replicas} replicas (semi-synchronous)"));
    }
    if server.cluster_nodes > 0 {
        notes.push(format!("a commit waits for all {} nodes of the cluster", server.cluster_nodes));
    }
    let elsewhere = server.semi_sync_replicas > 0 || server.cluster_nodes > 1;
    let tier = match (against.is_empty(), elsewhere) {
        (true, _) => Tier::Durable,
        (false, true) => Tier::Replicated,
        (false, false) => Tier::BestEffort,
    };
    if tier == Tier::Durable {
        notes.push("the log is synced before every answer".into());
    }
    notes.extend(against);
    (tier, notes)
}

impl Answers {
    /// What speaks against calling it durable.
    fn against(&self) -> Vec<String> {
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
        against
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
            cluster_nodes: 0,
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
            let (tier, notes) = judge(&answers, &[]);
            assert_eq!(tier, expected, "{what}");
            assert!(notes.iter().any(|line| line.contains(note)), "{what}: {notes:?}");
        }
        let (node, unsafe_node) = (with(|a| a.cluster_nodes = 3), with(|a| a.flush_at_commit = 0));
        let alone = with(|a| a.cluster_nodes = 1);
        let rows = [
            ("all safe", &node, vec![Some(&node); 3], Tier::Durable, "all 3 nodes"),
            (
                "one is not",
                &node,
                vec![Some(&node), Some(&unsafe_node)],
                Tier::Replicated,
                "n1: innodb_flush_log_at_trx_commit is 0",
            ),
            ("one is away", &node, vec![Some(&node), None], Tier::Durable, "n1 did not answer"),
            ("alone", &alone, vec![Some(&unsafe_node)], Tier::BestEffort, "n0: innodb_flush"),
        ];
        for (what, server, nodes, expected, note) in rows {
            let named = |(index, it): (usize, Option<&Answers>)| (format!("n{index}"), it.cloned());
            let nodes: Vec<Node> = nodes.into_iter().enumerate().map(named).collect();
            let (tier, notes) = judge(server, &nodes);
            assert_eq!(tier, expected, "{what}");
            assert!(notes.iter().any(|line| line.contains(note)), "{what}: {notes:?}");
        }
    }
}
