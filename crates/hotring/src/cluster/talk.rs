//! Requests to the nodes of a cluster.

use std::sync::Arc;

use clap::ArgMatches;
use hotring_cluster::NodeId;
use hotring_cluster::directory::Directory;
use tokio_rustls::rustls::ClientConfig;

use super::present::called;
use super::records::tls;
use crate::client::{Answer, Client, PASSWORD};

/// A node that can be asked.
pub(super) struct Talk {
    client: Client,
    called: String,
}

/// How nodes are reached, as a command's flags say.
pub(super) struct Access<'f> {
    tls: Option<Arc<ClientConfig>>,
    user: &'f str,
}

impl<'f> Access<'f> {
    /// Reads the files of TLS.
    pub(super) fn of(flags: &'f ArgMatches) -> Result<Self, String> {
        let user = flags.get_one::<String>("user").map_or("", String::as_str);
        let user = if user.is_empty() { "default" } else { user };
        Ok(Access { tls: tls(flags)?, user })
    }

    /// Connects to a node, and logs in as at the coordinator.
    pub(super) fn connect(&self, directory: &Directory, id: NodeId) -> Result<Talk, String> {
        let called = called(directory, id);
        let node =
            directory.node(id).ok_or_else(|| format!("node {called}: nobody can reach it"))?;
        let failed = |why: &dyn std::fmt::Display| format!("cannot ask node {called}: {why}");
        let connected = match (node.tls_port, &self.tls) {
            (Some(port), Some(config)) => Client::tls(&node.host, port, config.clone()),
            _ if node.port == 0 => {
                return Err(format!(
                    "node {called} is reached over TLS only: name --tls-ca-cert-file"
                ));
            }
            _ => Client::tcp(&format!("{}:{}", node.host, node.port)),
        };
        let mut client = connected.map_err(|why| failed(&why))?;
        if let Ok(password) = std::env::var(PASSWORD) {
            client
                .ask_words(&["AUTH", self.user, password.as_str()])
                .map_err(|why| failed(&why))?;
        }
        Ok(Talk { client, called })
    }
}

impl Talk {
    /// Asks one thing.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<Answer, String> {
        self.client.ask_words(words).map_err(|why| format!("node {}: {why}", self.called))
    }
}
