//! A Galera cluster: private MariaDB servers on loopback, each of which has every commit before it
//! is acknowledged.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::install::{GALERA, MARIADB};
use crate::mariadb::{self, MariaDb};
use crate::place::{Own, database_name};
use crate::{free_port, sql, until};

/// How long the nodes may take to find each other.
const JOINS_WITHIN: Duration = Duration::from_mins(1);

/// Servers that form one cluster. A node that was killed stays away: what it missed would have to
/// be copied by scripts that come with a package that starts services.
#[derive(Debug)]
pub struct Galera {
    nodes: Vec<MariaDb>,
}

impl Galera {
    /// So many nodes.
    pub fn start(nodes: usize) -> Result<Self> {
        Galera::start_with(nodes, "", &[])
    }

    /// The same with options of the provider (`name=value;…`) and lines at the end of the settings
    /// of each node.
    pub fn start_with(nodes: usize, options: &str, settings: &[&str]) -> Result<Self> {
        let (server, provider) = (MARIADB.need()?, GALERA.need()?);
        let ports: Vec<u16> = (0..nodes).map(|_| free_port()).collect::<Result<_>>()?;
        let members: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut cluster = Galera { nodes: Vec::new() };
        for (index, member) in members.iter().enumerate() {
            let own = Own::new("galera", "mysql")?;
            let lines = [
                "wsrep_on = ON".to_owned(),
                format!("wsrep_provider = {}", provider.display()),
                format!("wsrep_cluster_address = gcomm://{}", members.join(",")),
                format!("wsrep_node_address = {member}"),
                format!("wsrep_node_name = node-{index}"),
                format!(
                    "wsrep_provider_options = \"gmcast.listen_addr=tcp://{member};\
                     ist.recv_addr=127.0.0.1:{};gcache.size=16M;gcache.page_size=16M;{options}\"",
                    free_port()?
                ),
                "wsrep_sst_method = skip".to_owned(),
                "binlog_format = ROW".to_owned(),
                "innodb_autoinc_lock_mode = 2".to_owned(),
            ];
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            mariadb::make(&own, &server, &[&lines, settings].concat())?;
            let first = match cluster.nodes.first() {
                None => vec!["--wsrep-new-cluster"],
                Some(first) => {
                    begin_where(&own, first)?;
                    Vec::new()
                }
            };
            mariadb::start(&own, &server, &first)?;
            cluster.nodes.push(MariaDb::of(own));
            cluster.wait_for(index, index + 1)?;
        }
        Ok(cluster)
    }

    /// One of the nodes.
    pub fn node(&self, index: usize) -> &MariaDb {
        &self.nodes[index]
    }

    /// Makes an empty database with a name of its own, and gives its URL, with every node in it.
    pub fn database(&self) -> Result<String> {
        let name = database_name();
        self.nodes[0].sql(&format!("CREATE DATABASE {name}"))?;
        let hosts = self.nodes.iter().map(|node| sql::address(&node.url()));
        let hosts: Vec<String> = hosts.collect::<Result<_>>()?;
        let url = sql::with_database(&self.nodes[0].url(), &name);
        Ok(sql::with_address(&url, &hosts.join(",")))
    }

    /// The same URL with one of the nodes only.
    pub fn url_at(&self, index: usize, url: &str) -> Result<String> {
        Ok(sql::with_address(url, &sql::address(&self.nodes[index].url())?))
    }

    /// Waits until this node takes work and is one of so many.
    pub fn wait_for(&self, index: usize, members: usize) -> Result<()> {
        let node = &self.nodes[index];
        let status = "SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME) \
                      FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN \
                      ('wsrep_cluster_size', 'wsrep_cluster_status', 'wsrep_local_state_comment')";
        let expected = format!("{members},Primary,Synced");
        let mut last = String::new();
        let joined = until(JOINS_WITHIN, || {
            last = node.sql(status).unwrap_or_else(|error| format!("{error:#}"));
            (last == expected).then_some(())
        });
        let log = || format!("{last}, not {expected}:\n{}", node.log_tail());
        joined.with_context(log)?;
        ensure!(node.sql("SELECT @@wsrep_on")? == "1", "it is not part of a cluster");
        Ok(())
    }
}

/// A node that is to join begins where the first one is: all have the same empty data, so there is
/// nothing to copy.
fn begin_where(own: &Own, first: &MariaDb) -> Result<()> {
    let position = "SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME SEPARATOR ' ') \
                    FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN \
                    ('wsrep_cluster_state_uuid', 'wsrep_last_committed')";
    let position = first.sql(position)?;
    let (group, number) = position.split_once(' ').context("a position has two parts")?;
    let text = format!(
        "# GALERA saved state\nversion: 2.1\nuuid: {group}\nseqno: {number}\n\
         safe_to_bootstrap: 0\n"
    );
    let file = own.home().join("data/grastate.dat");
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    own.user.own(&file)
}
