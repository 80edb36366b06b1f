//! The settings of a node of a cluster.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use hotring_cluster::mirrors::{Budget, Key};

use crate::settings::config::Secret;

/// The settings of a node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// What keeps the cluster's records; None for a server that belongs to no cluster.
    pub coordinator: Option<CoordinatorAddress>,
    /// The user as which an etcd is asked; empty for none.
    pub user: String,
    /// The user's password.
    pub password: Secret,
    /// The prefix of the records, so that clusters can share a coordinator.
    pub name: String,
    /// The address at which clients and other nodes reach this one; empty for the first that it listens on.
    pub announce_host: String,
    /// The port for that; 0 for the first that it listens on.
    pub announce_port: u16,
    /// The same for TLS.
    pub announce_tls_port: u16,
    /// Nodes of one zone may fail together.
    pub zone: String,
    /// What the node can carry, 100 as a rule.
    pub weight: u32,
    /// Addresses on which the node serves requests for any key, for Redis's clients.
    pub proxy_listen: Vec<SocketAddr>,
    /// The same for memcached's clients.
    pub proxy_memcached: Vec<SocketAddr>,
    /// Seconds after which a node without a shard replaces a dead replica; 0 for never.
    pub replace_after_s: u64,
    /// When a primary whose disk is full hands its role over.
    pub full_disk: FullDisk,
    /// Whether this node has proxies mirror its hot keys.
    pub mirrors: bool,
    /// How many keys, and how many bytes of their values.
    pub mirror_budget: Budget,
    /// Keys that are mirrored however cold they are.
    pub mirror_always: Vec<Key>,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        ClusterSettings {
            coordinator: None,
            user: String::new(),
            password: Secret::default(),
            name: "hotring".to_string(),
            announce_host: String::new(),
            announce_port: 0,
            announce_tls_port: 0,
            zone: String::new(),
            weight: hotring_cluster::USUAL_WEIGHT,
            proxy_listen: Vec::new(),
            proxy_memcached: Vec::new(),
            // Longer than a restart, an upgrade or a reboot takes, so that none of them begins a copy.
            replace_after_s: 600,
            full_disk: FullDisk::default(),
            mirrors: false,
            // Each surely has a sixty-fourth of the node's requests. The bytes are those of each connection of a proxy.
            mirror_budget: Budget { keys: 64, bytes: 4 << 20 },
            mirror_always: Vec::new(),
        }
    }
}

impl ClusterSettings {
    /// The time after which a dead replica is replaced; zero for never.
    pub fn replace_after(&self) -> Duration {
        Duration::from_secs(self.replace_after_s)
    }
}

/// When a primary whose disk is full hands its role over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullDisk {
    /// Milliseconds for which it must have been full.
    pub after_ms: u64,
    /// Milliseconds between two attempts.
    pub pause_ms: u64,
}

impl Default for FullDisk {
    fn default() -> Self {
        // The log is tried again each second. A pause that is longer than a repair keeps two small disks from passing
        // the role to and fro.
        FullDisk { after_ms: 1_200, pause_ms: 10_000 }
    }
}

impl FullDisk {
    /// How long the disk must have been full.
    pub fn after(&self) -> Duration {
        Duration::from_millis(self.after_ms)
    }

    /// The time between two attempts.
    pub fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }
}

/// What keeps the records of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorAddress {
    /// This node, for the others too.
    Embedded,
    /// The node at this `HOST:PORT`.
    Node(String),
    /// The etcd of this URL.
    Etcd(String),
}

impl CoordinatorAddress {
    /// Parses the setting; None for an empty one.
    ///
    /// # Errors
    /// It is none of the forms.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        const WRONG: &str = "must be 'embedded', HOST:PORT of the node with the embedded coordinator, or etcd://HOST:PORT,...";
        if text.is_empty() {
            return Ok(None);
        }
        if text.eq_ignore_ascii_case("embedded") {
            return Ok(Some(CoordinatorAddress::Embedded));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let is_etcd = matches!(scheme, "etcd" | "etcds") && !rest.is_empty();
            return if is_etcd {
                Ok(Some(CoordinatorAddress::Etcd(text.to_string())))
            } else {
                Err(WRONG.into())
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or(WRONG)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(WRONG.into());
        }
        Ok(Some(CoordinatorAddress::Node(text.to_string())))
    }
}

impl fmt::Display for CoordinatorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CoordinatorAddress::Embedded => "embedded",
            CoordinatorAddress::Node(address) | CoordinatorAddress::Etcd(address) => address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_is_here_at_a_node_or_an_etcd() {
        let parse = |text: &str| CoordinatorAddress::parse(text);
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("Embedded"), Ok(Some(CoordinatorAddress::Embedded)));
        for text in ["h:7000", "[::1]:7000", "etcd://a:2379,b:2379", "etcds://a:2379"] {
            assert_eq!(parse(text).unwrap().unwrap().to_string(), text);
        }
        for text in ["h", ":7", "h:x", "h:70000", "zk://a:1", "etcd://"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
