//! The settings of replication.

use std::fmt;
use std::time::Duration;

use hotring_cluster::Rules;

use crate::settings::config::{ClusterSettings, LogSettings, OnError, Secret};

/// The settings of replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationSettings {
    /// The primary that this server follows, if it is a replica.
    pub source: Option<Source>,
    /// The user that a replica authenticates as; empty for the default user.
    pub user: String,
    /// The password that a replica authenticates with; empty for none.
    pub password: Secret,
    /// Whether a replica's link uses TLS.
    pub tls: bool,
    /// The bytes of the stream that are kept in memory for replicas that come back.
    pub backlog_max: usize,
    /// The maximum number of bytes per second of a full copy's keys; 0 for no limit.
    pub copy_rate: usize,
    /// Seconds of silence after which either side closes the link.
    pub timeout_s: u64,
    /// Whether a write is acknowledged only once the in-sync replicas have applied it; None for what is usual.
    pub replicated: Option<bool>,
    /// The replicas that must have a write before it is acknowledged, if writes are replicated.
    pub in_sync: Vec<Source>,
    /// Writes are refused while fewer of `in_sync` follow.
    pub min_in_sync: usize,
    /// Milliseconds for which an answered beat binds a replica, a beat being due each eighth of it; None for what is
    /// usual.
    pub lease_ms: Option<u64>,
    /// Milliseconds that a replica may be behind without being missed; None for what is usual.
    pub in_sync_lag_ms: Option<u64>,
    /// The treatment of what a Redis primary has, and this server has not.
    pub unknown: Unknown,
    /// The rank of this server when a replica is chosen for promotion; 0 means never.
    pub priority: u32,
    /// The settings of a node of a cluster.
    pub cluster: ClusterSettings,
}

impl Default for ReplicationSettings {
    fn default() -> Self {
        ReplicationSettings {
            source: None,
            user: String::new(),
            password: Secret::default(),
            tls: false,
            backlog_max: 64 << 20,
            copy_rate: 256 << 20,
            timeout_s: 60,
            replicated: None,
            in_sync: Vec::new(),
            min_in_sync: 0,
            lease_ms: None,
            in_sync_lag_ms: None,
            unknown: Unknown::Stop,
            priority: 100,
            cluster: ClusterSettings::default(),
        }
    }
}

/// Why an operator cannot say whom a node of a cluster follows, or which replicas are in sync.
pub const RECORDED: &str = "the coordinator's records say whom a node of a cluster follows and which replicas are in sync, \
     not replicaof and in-sync-replicas: see 'hotring cluster'";

/// The treatment of what a Redis primary has, and this server has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Stop in front of it.
    Stop,
    /// Pass it over.
    Skip,
}

/// The address of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A name or an IP address.
    pub host: String,
    /// The port of Redis's protocol.
    pub port: u16,
}

impl Source {
    /// Whether both are the same address. As in Redis the case of a name does not count.
    pub(crate) fn is_at(&self, other: &Source) -> bool {
        self.port == other.port && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Parses `HOST PORT` or `HOST:PORT`; None for no primary (`no one`, or nothing).
    pub(crate) fn parse(text: &str) -> Result<Option<Source>, String> {
        const WRONG: &str = "must be HOST PORT, or 'no one'";
        let words: Vec<&str> = text.split_whitespace().collect();
        let (host, port) = match words[..] {
            [] => return Ok(None),
            [no, one] if no.eq_ignore_ascii_case("no") && one.eq_ignore_ascii_case("one") => {
                return Ok(None);
            }
            [host, port] => (host, port),
            [address] => address.rsplit_once(':').ok_or(WRONG)?,
            _ => return Err(WRONG.to_string()),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        let port = port.parse().map_err(|_| WRONG)?;
        if host.is_empty() { Err(WRONG.to_string()) } else { Ok(Some(Source { host, port })) }
    }
}

impl ReplicationSettings {
    /// Whether records of a coordinator say who is primary.
    pub fn is_recorded(&self) -> bool {
        self.cluster.coordinator.is_some()
    }

    /// Whether a write is acknowledged only once the in-sync replicas have applied it: so it is in a cluster.
    pub fn is_replicated(&self) -> bool {
        self.replicated.unwrap_or(self.is_recorded())
    }

    /// For how long an answered beat binds a replica. A cluster must wait that long before it replaces a primary.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms.unwrap_or(if self.is_recorded() {
            2_000
        } else {
            8_000
        }))
    }

    /// How far a replica may be behind without being missed.
    pub fn in_sync_lag(&self) -> Duration {
        let usual = if self.is_recorded() { 1_000 } else { 2_000 };
        Duration::from_millis(self.in_sync_lag_ms.unwrap_or(usual))
    }

    /// The rules of the machines. Without a coordinator no replica promises anything.
    pub fn rules(&self) -> Rules {
        Rules {
            lease: self.lease(),
            promises: self.is_recorded(),
            in_sync_lag: self.in_sync_lag(),
            min_in_sync: self.min_in_sync,
            ..Rules::default()
        }
    }

    /// Refuses settings that exclude each other.
    pub fn check(&self, log: &LogSettings) -> Result<(), String> {
        if self.awaits() && log.on_error == OnError::Continue {
            return Err("log-on-error must be stop if replies wait for replicas (ack replicated, usual in a cluster): with \
                        continue they would not get what the log cannot take"
                .to_string());
        }
        if self.is_recorded() && (self.source.is_some() || !self.in_sync.is_empty()) {
            return Err(RECORDED.to_string());
        }
        let rules = self.rules();
        // A replica must not be missed because one beat is late.
        if rules.are_consistent() && rules.in_sync_lag >= 2 * rules.beat() {
            return Ok(());
        }
        Err(format!(
            "in-sync-lag is {} ms and must be at least a quarter of lease, which is {} ms, and below 0.9 of it",
            rules.in_sync_lag.as_millis(),
            rules.lease.as_millis()
        ))
    }

    /// The replicas for which replies wait.
    pub fn awaited(&self) -> &[Source] {
        if self.is_replicated() { &self.in_sync } else { &[] }
    }

    /// Whether replies wait for replicas, those named here or those of the records.
    pub fn awaits(&self) -> bool {
        self.is_replicated() && (self.is_recorded() || !self.in_sync.is_empty())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::config::CoordinatorAddress;

    #[test]
    fn the_lag_fits_the_lease() {
        let check = |lease_ms, in_sync_lag_ms| {
            let (lease_ms, in_sync_lag_ms) = (Some(lease_ms), Some(in_sync_lag_ms));
            ReplicationSettings { lease_ms, in_sync_lag_ms, ..Default::default() }
                .check(&LogSettings::default())
                .is_ok()
        };
        assert!(ReplicationSettings::default().check(&LogSettings::default()).is_ok());
        assert!(check(1_000, 250) && check(1_000, 899) && check(10_000, 8_999));
        assert!(!check(1_000, 249) && !check(1_000, 900) && !check(10_000, 9_000));
    }

    #[test]
    fn a_node_of_a_cluster_follows_its_records_and_waits_for_replicas() {
        let mut node = ReplicationSettings::default();
        assert!(!node.awaits() && !node.rules().promises);
        node.cluster.coordinator = Some(CoordinatorAddress::Embedded);
        assert!(
            node.awaits() && node.rules().promises && node.check(&LogSettings::default()).is_ok()
        );
        assert_eq!(node.lease(), Duration::from_secs(2));
        let continues = LogSettings { on_error: OnError::Continue, ..Default::default() };
        assert!(node.check(&continues).unwrap_err().contains("log-on-error must be stop"));
        node.replicated = Some(false);
        assert!(!node.awaits() && node.check(&continues).is_ok());
        node.source = Some(Source { host: "h".into(), port: 1 });
        assert!(node.check(&LogSettings::default()).unwrap_err().contains("hotring cluster"));
    }

    #[test]
    fn a_source_is_a_host_and_a_port_or_nobody() {
        let source = |text: &str| Source::parse(text).map(|source| source.map(|s| s.to_string()));
        for text in ["", "no one", " NO  ONE "] {
            assert_eq!(source(text), Ok(None), "{text}");
        }
        for (text, shown) in
            [("h 1", "h 1"), ("10.0.0.1:6379", "10.0.0.1 6379"), ("[::1]:7", "::1 7")]
        {
            assert_eq!(source(text), Ok(Some(shown.to_string())), "{text}");
        }
        for text in ["h", "h x", "h 70000", "a b c", ":1"] {
            assert!(source(text).is_err(), "{text}");
        }
    }
}
