//! Requests to the nodes of a cluster.

use clap::ArgMatches;
use hotring_cluster::NodeId;
use hotring_cluster::directory::Directory;

use super::present::called;
use super::records::tls;
use crate::client::{Answer, Client, PASSWORD};

/// A node that can be asked.
pub(super) struct Talk {
    client: Client,
    called: String,
}

/// Connects to a node, and logs in as at the coordinator.
pub(super) fn connect(
    directory: &Directory,
    id: NodeId,
    flags: &ArgMatches,
) -> Result<Talk, String> {
    let called = called(directory, id);
    let node = directory.node(id).ok_or_else(|| format!("node {called}: nobody can reach it"))?;
    let failed = |why: &dyn std::fmt::Display| format!("cannot ask node {called}: {why}");
    let connected = match (node.tls_port, tls(flags)?) {
        (Some(port), Some(config)) => Client::tls(&node.host, port, config),
        _ if node.port == 0 => {
            return Err(format!("node {called} is reached over TLS only: name --tls-ca-cert-file"));
        }
        _ => Client::tcp(&format!("{}:{}", node.host, node.port)),
    };
    let mut client = connected.map_err(|why| failed(&why))?;
    if let Ok(password) = std::env::var(PASSWORD) {
        let user = flags.get_one::<String>("user").map(String::as_str).unwrap_or_default();
        let user = if user.is_empty() { "default" } else { user };
        client.ask_words(&["AUTH", user, password.as_str()]).map_err(|why| failed(&why))?;
    }
    Ok(Talk { client, called })
}

impl Talk {
    /// Asks one thing.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<Answer, String> {
        self.client.ask_words(words).map_err(|why| format!("node {}: {why}", self.called))
    }
}
