//! The settings of replication.

use std::fmt;
use std::time::Duration;

use hotring_cluster::Rules;

use crate::settings::config::Secret;

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
    /// Whether a write is acknowledged only once the in-sync replicas have applied it.
    pub is_replicated: bool,
    /// The replicas that must have a write before it is acknowledged, if `is_replicated`.
    pub in_sync: Vec<Source>,
    /// Writes are refused while fewer of `in_sync` follow.
    pub min_in_sync: usize,
    /// Milliseconds for which an answered beat binds a replica; a beat is due each eighth of it.
    pub lease_ms: u64,
    /// Milliseconds that a replica may be behind without being missed.
    pub in_sync_lag_ms: u64,
    /// The treatment of what a Redis primary has, and this server has not.
    pub unknown: Unknown,
    /// The rank of this server when a replica is chosen for promotion; 0 means never.
    pub priority: u32,
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
            is_replicated: false,
            in_sync: Vec::new(),
            min_in_sync: 0,
            lease_ms: 8_000,
            in_sync_lag_ms: 2_000,
            unknown: Unknown::Stop,
            priority: 100,
        }
    }
}

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
    /// The rules of the machines. Without a coordinator no replica promises anything.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            lease: Duration::from_millis(self.lease_ms),
            promises: false,
            in_sync_lag: Duration::from_millis(self.in_sync_lag_ms),
            min_in_sync: self.min_in_sync,
            ..Rules::default()
        }
    }

    /// Refuses settings that exclude each other.
    pub fn check(&self) -> Result<(), String> {
        let rules = self.rules();
        // A replica must not be missed because one beat is late.
        if rules.are_consistent() && rules.in_sync_lag >= 2 * rules.beat() {
            return Ok(());
        }
        Err(format!(
            "in-sync-lag is {} ms and must be at least a quarter of lease, which is {} ms, and below 0.9 of it",
            self.in_sync_lag_ms, self.lease_ms
        ))
    }

    /// The replicas for which replies wait.
    pub fn awaited(&self) -> &[Source] {
        if self.is_replicated { &self.in_sync } else { &[] }
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

    #[test]
    fn the_lag_fits_the_lease() {
        let check = |lease_ms, in_sync_lag_ms| {
            ReplicationSettings { lease_ms, in_sync_lag_ms, ..Default::default() }.check().is_ok()
        };
        assert!(ReplicationSettings::default().check().is_ok());
        assert!(check(1_000, 250) && check(1_000, 899) && check(10_000, 8_999));
        assert!(!check(1_000, 249) && !check(1_000, 900) && !check(10_000, 9_000));
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
