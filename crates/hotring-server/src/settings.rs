//! The table of settings: flags, environment, configuration file, CONFIG GET, CONFIG SET and the
//! help text all come from this one table.
//!
//! Names are Redis's wherever Redis has the setting. A fixed setting is one that Redis clients and
//! tools ask for and that has only one value here; it can be read, and "set" to that value.

use std::path::PathBuf;
use std::str::FromStr;

use hotring_store::index::Checksum;

use crate::config::{Config, LogLevel};
use crate::notify::Notify;

/// When a setting may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only before the start.
    Start,
    /// Also by CONFIG SET while the server runs.
    Running,
    /// Never: it tells what this server is.
    Fixed,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name in the configuration file, in CONFIG GET, and after `--` on the command line.
    pub name: &'static str,
    /// A second spelling for the command line and the file, or "".
    pub alias: &'static str,
    /// What stands for the value in the help text.
    pub placeholder: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    /// When it may be changed.
    pub change: Change,
    pub(crate) get: fn(&Config) -> String,
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Setting {
    /// The value that holds when nobody sets it.
    pub fn default_text(&self) -> String {
        (self.get)(&Config::default())
    }

    /// The environment variable that sets it: `HOTRING_` and the name in capitals.
    pub fn variable(&self) -> String {
        format!("HOTRING_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }
}

/// Finds a setting by its name or second spelling, in any case.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| {
        s.name.eq_ignore_ascii_case(name)
            || (!s.alias.is_empty() && s.alias.eq_ignore_ascii_case(name))
    })
}

/// All settings, in the order of the help text.
pub static SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Listen here; may be given several times; replaces bind and port",
        change: Change::Start,
        get: |c| c.listen.join(" "),
        set: |c, v| {
            c.listen.extend(v.split_whitespace().map(str::to_string));
            Ok(())
        },
    },
    Setting {
        name: "bind",
        alias: "",
        placeholder: "ADDR",
        help: "Addresses to listen on (Redis's way to say it), separated by spaces",
        change: Change::Start,
        get: |c| c.bind.join(" "),
        set: |c, v| {
            // Redis marks addresses that may be missing by a leading '-'.
            c.bind = v.split_whitespace().map(|a| a.trim_start_matches('-').to_string()).collect();
            Ok(())
        },
    },
    Setting {
        name: "port",
        alias: "",
        placeholder: "PORT",
        help: "Port for the addresses of bind; 0 takes a free one",
        change: Change::Start,
        get: |c| c.port.to_string(),
        set: |c, v| number(v, 0, u16::MAX).map(|n| c.port = n),
    },
    Setting {
        name: "unixsocket",
        alias: "",
        placeholder: "PATH",
        help: "Listen on this unix socket as well: less than half the CPU time of TCP",
        change: Change::Start,
        get: |c| c.unixsocket.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
        set: |c, v| {
            c.unixsocket = (!v.is_empty()).then(|| PathBuf::from(v));
            Ok(())
        },
    },
    Setting {
        name: "unixsocketperm",
        alias: "",
        placeholder: "OCTAL",
        help: "Who may connect to the unix socket: the permission bits of its file",
        change: Change::Start,
        get: |c| format!("{:o}", c.unixsocketperm),
        set: |c, v| match u32::from_str_radix(v, 8) {
            Ok(mode) if mode <= 0o777 => {
                c.unixsocketperm = mode;
                Ok(())
            }
            _ => Err("must be an octal number from 0 to 777".to_string()),
        },
    },
    Setting {
        name: "protected-mode",
        alias: "",
        placeholder: "yes|no",
        help: "With yes, refuse to start on an address that other machines can reach",
        change: Change::Start,
        get: |c| yes_no(c.protected_mode),
        set: |c, v| boolean(v).map(|b| c.protected_mode = b),
    },
    Setting {
        name: "threads",
        alias: "io-threads",
        placeholder: "N",
        help: "Threads that serve connections; 0 means one for each available core",
        change: Change::Start,
        get: |c| c.threads.to_string(),
        set: |c, v| number(v, 0, 1024).map(|n| c.threads = n),
    },
    Setting {
        name: "maxclients",
        alias: "",
        placeholder: "N",
        help: "Connections at one time; more are refused with an error",
        change: Change::Running,
        get: |c| c.maxclients.to_string(),
        set: |c, v| number(v, 1, usize::MAX).map(|n| c.maxclients = n),
    },
    Setting {
        name: "max-waiting-clients",
        alias: "",
        placeholder: "N",
        help: "Connections that may wait by WAITKEY at one time; more get an error",
        change: Change::Running,
        get: |c| c.waiting_max.to_string(),
        set: |c, v| number(v, 0, u64::MAX).map(|n| c.waiting_max = n),
    },
    Setting {
        name: "max-watched-keys",
        alias: "",
        placeholder: "N",
        help: "Keys that a connection may watch by WATCH at one time; more get an error",
        change: Change::Running,
        get: |c| c.watched_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.watched_max = n),
    },
    Setting {
        name: "slowlog-log-slower-than",
        alias: "",
        placeholder: "MICROSECONDS",
        help: "SLOWLOG keeps requests that take so long, among the commands that can; -1 keeps none",
        change: Change::Running,
        get: |c| c.slowlog_threshold_us.to_string(),
        set: |c, v| number(v, -1, i64::MAX).map(|n| c.slowlog_threshold_us = n),
    },
    Setting {
        name: "slowlog-max-len",
        alias: "",
        placeholder: "N",
        help: "Requests that SLOWLOG keeps, up to 8 KiB each; the oldest go first",
        change: Change::Running,
        get: |c| c.slowlog_len_max.to_string(),
        set: |c, v| number(v, 0, 1 << 20).map(|n| c.slowlog_len_max = n),
    },
    Setting {
        name: "timeout",
        alias: "",
        placeholder: "SECONDS",
        help: "Close a connection that has been idle for this long, unless it waits; 0 never does",
        change: Change::Running,
        get: |c| c.timeout_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.timeout_s = n),
    },
    Setting {
        name: "request-timeout",
        alias: "",
        placeholder: "SECONDS",
        help: "Close a connection whose request is unfinished for this long, and a second more for \
               each 64 KiB of it; 0 never does",
        change: Change::Running,
        get: |c| c.request_timeout_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.request_timeout_s = n),
    },
    Setting {
        name: "tcp-keepalive",
        alias: "",
        placeholder: "SECONDS",
        help: "Probe silent TCP peers after this long; 0 never does",
        change: Change::Running,
        get: |c| c.tcp_keepalive_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.tcp_keepalive_s = n),
    },
    Setting {
        name: "tcp-backlog",
        alias: "",
        placeholder: "N",
        help: "Connections that the kernel may queue before they are accepted",
        change: Change::Start,
        get: |c| c.tcp_backlog.to_string(),
        set: |c, v| number(v, 1, i32::MAX as u32).map(|n| c.tcp_backlog = n),
    },
    Setting {
        name: "client-query-buffer-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Close a connection whose unfinished request is larger than this",
        change: Change::Running,
        get: |c| c.query_buffer_max.to_string(),
        set: |c, v| size(v, 1 << 20).map(|n| c.query_buffer_max = n),
    },
    Setting {
        name: "output-buffer-soft-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Stop reading from a connection while more than this is waiting to be sent to it",
        change: Change::Running,
        get: |c| c.output_soft_max.to_string(),
        set: |c, v| size(v, 1 << 10).map(|n| c.output_soft_max = n),
    },
    Setting {
        name: "output-buffer-hard-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Close a connection when more than this is waiting to be sent to it; 0 never does",
        change: Change::Running,
        get: |c| c.output_hard_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.output_hard_max = n),
    },
    Setting {
        name: "subscriber-output-buffer-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Close a connection when a message comes and more than this is waiting to be sent to it; \
               0 never does",
        change: Change::Running,
        get: |c| c.subscriber_output_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.subscriber_output_max = n),
    },
    Setting {
        name: "notify-keyspace-events",
        alias: "",
        placeholder: "CLASSES",
        help: "Changes of keys that are told by messages, in Redis's letters, such as KEA for all; empty \
               for none",
        change: Change::Running,
        get: |c| c.notify.text(),
        set: |c, v| Notify::parse(v).map(|notify| c.notify = notify),
    },
    Setting {
        name: "max-subscriptions",
        alias: "",
        placeholder: "N",
        help: "Channels and patterns that a connection may listen to; more get an error",
        change: Change::Running,
        get: |c| c.subscriptions_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.subscriptions_max = n),
    },
    Setting {
        name: "unreclaimed-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Refuse writes (-OOM) while a thread does not leave its command and more than this, \
               removed or overwritten by others, waits for it; 0 never does",
        change: Change::Running,
        get: |c| c.unreclaimed_max.to_string(),
        set: |c, v| {
            let n = size(v, 0)?;
            if n > 0 && n < UNRECLAIMED_LEAST {
                return Err(format!("must be 0 or at least {UNRECLAIMED_LEAST} bytes"));
            }
            c.unreclaimed_max = n;
            Ok(())
        },
    },
    Setting {
        name: "checksum",
        alias: "",
        placeholder: "off|write|verify",
        help: "Give each item a CRC32C, which SCRUB checks (write) and each read as well (verify)",
        change: Change::Start,
        get: |c| c.checksum.name().to_string(),
        set: |c, v| {
            let named = |checksum: &Checksum| v.eq_ignore_ascii_case(checksum.name());
            let checksum = Checksum::ALL.into_iter().find(named);
            c.checksum = checksum.ok_or("must be 'off', 'write' or 'verify'")?;
            Ok(())
        },
    },
    Setting {
        name: "history",
        alias: "",
        placeholder: "N",
        help: "Earlier values of each key that HISTORY lists and ROLLBACK restores, at most 16; 0 keeps \
               none",
        change: Change::Start,
        get: |c| c.history.to_string(),
        set: |c, v| number(v, 0, 16).map(|n| c.history = n),
    },
    Setting {
        name: "history-max-bytes",
        alias: "",
        placeholder: "SIZE",
        help: "Memory that the earlier values of one key may take, up to 1gb; the oldest go first",
        change: Change::Start,
        get: |c| c.history_bytes_max.to_string(),
        set: |c, v| {
            let n = size(v, 0)?;
            if n > HISTORY_BYTES_LIMIT {
                return Err("must be at most 1gb".to_string());
            }
            c.history_bytes_max = n;
            Ok(())
        },
    },
    Setting {
        name: "proto-max-bulk-len",
        alias: "",
        placeholder: "SIZE",
        help: "Longest argument of a request, and so the largest value",
        change: Change::Start,
        get: |c| c.bulk_len_max.to_string(),
        set: |c, v| {
            let n = size(v, 1 << 20)?;
            if n > BULK_LEN_LIMIT {
                return Err("must be at most 512mb".to_string());
            }
            c.bulk_len_max = n;
            Ok(())
        },
    },
    Setting {
        name: "proto-max-args",
        alias: "",
        placeholder: "N",
        help: "Most arguments of one request",
        change: Change::Running,
        get: |c| c.args_max.to_string(),
        set: |c, v| number(v, 16, i32::MAX as usize).map(|n| c.args_max = n),
    },
    Setting {
        name: "proto-inline-max-len",
        alias: "",
        placeholder: "SIZE",
        help: "Longest line of an inline (telnet) request",
        change: Change::Running,
        get: |c| c.inline_len_max.to_string(),
        set: |c, v| size(v, 64).map(|n| c.inline_len_max = n),
    },
    Setting {
        name: "index",
        alias: "",
        placeholder: "ENGINE",
        help: "How keys are found: hotring, or one of those it is compared with, chaining, mercury or \
               gcuckoo",
        change: Change::Start,
        get: |c| c.index.engine.to_string(),
        set: |c, v| v.parse().map(|engine| c.index.engine = engine),
    },
    Setting {
        name: "index-strategy",
        alias: "",
        placeholder: "STRATEGY",
        help: "How hotring finds hot keys: vote (auto), none, or with one head as in the paper random \
               or sampling",
        change: Change::Start,
        get: |c| c.index.strategy.to_string(),
        set: |c, v| v.parse().map(|strategy| c.index.strategy = strategy),
    },
    Setting {
        name: "index-bytes-per-key",
        alias: "",
        placeholder: "BYTES",
        help: "Double the table of hotring or chaining when it has fewer bytes than this a key; 0 \
               leaves it to the engine",
        change: Change::Start,
        get: |c| c.index.bytes_per_key.to_string(),
        set: |c, v| number(v, 0, 1024).map(|n| c.index.bytes_per_key = n),
    },
    Setting {
        name: "mercury-locking",
        alias: "",
        placeholder: "SCHEME",
        help: "The locks of mercury's buckets: test-and-set or mutex",
        change: Change::Start,
        get: |c| c.index.mercury_locking.to_string(),
        set: |c, v| v.parse().map(|locking| c.index.mercury_locking = locking),
    },
    Setting {
        name: "gcuckoo-slots",
        alias: "",
        placeholder: "1|4",
        help: "Slots in a bucket of gcuckoo: 4, or 1 as in the paper",
        change: Change::Start,
        get: |c| c.index.gcuckoo_slots.to_string(),
        set: |c, v| match v {
            "1" | "4" => {
                c.index.gcuckoo_slots = if v == "1" { 1 } else { 4 };
                Ok(())
            }
            _ => Err("must be 1 or 4".to_string()),
        },
    },
    Setting {
        name: "gcuckoo-atomicity",
        alias: "",
        placeholder: "MODE",
        help: "How gcuckoo keeps operations apart: optimistic, lock, hle or rtm",
        change: Change::Start,
        get: |c| c.index.gcuckoo_atomicity.to_string(),
        set: |c, v| v.parse().map(|atomicity| c.index.gcuckoo_atomicity = atomicity),
    },
    Setting {
        name: "gcuckoo-cache",
        alias: "",
        placeholder: "N",
        help: "Entries of each thread's cache of recent keys in front of gcuckoo's tables, a power of \
               two; 0 for none",
        change: Change::Start,
        get: |c| c.index.gcuckoo_cache.to_string(),
        set: |c, v| match number(v, 0, 1 << 24)? {
            n if n == 0 || usize::is_power_of_two(n) => {
                c.index.gcuckoo_cache = n;
                Ok(())
            }
            _ => Err("must be a power of two, or 0".to_string()),
        },
    },
    Setting {
        name: "loglevel",
        alias: "log-level",
        placeholder: "LEVEL",
        help: "error, warning, notice, verbose, debug or nothing",
        change: Change::Running,
        get: |c| c.log_level.name().to_string(),
        set: |c, v| LogLevel::parse(v).map(|l| c.log_level = l),
    },
    fixed("save", "\"\"", "No snapshots yet", |_| String::new(), |_, v| only(v, "")),
    fixed("appendonly", "no", "No log yet", |_| "no".into(), |_, v| only(v, "no")),
    fixed("databases", "1", "One database, number 0", |_| "1".into(), |_, v| only(v, "1")),
    fixed("maxmemory", "0", "No memory limit yet", |_| "0".into(), |_, v| only(v, "0")),
    fixed(
        "maxmemory-policy",
        "noeviction",
        "Nothing is evicted",
        |_| "noeviction".into(),
        |_, v| only(v, "noeviction"),
    ),
    fixed("cluster-enabled", "no", "No cluster yet", |_| "no".into(), |_, v| only(v, "no")),
    fixed("daemonize", "no", "Runs in front", |_| "no".into(), |_, v| only(v, "no")),
];

/// Less would be reached without anybody being stalled: a busy thread has 256 KiB at a time.
const UNRECLAIMED_LEAST: usize = 1 << 20;

/// With the longest value below the 4 GiB that the store can keep for one key.
const HISTORY_BYTES_LIMIT: usize = 1 << 30;

/// The store's own limit for one value.
const BULK_LEN_LIMIT: usize = 512 << 20;

const fn fixed(
    name: &'static str,
    placeholder: &'static str,
    help: &'static str,
    get: fn(&Config) -> String,
    set: fn(&mut Config, &str) -> Result<(), String>,
) -> Setting {
    Setting { name, alias: "", placeholder, help, change: Change::Fixed, get, set }
}

fn only(value: &str, allowed: &str) -> Result<(), String> {
    if value.eq_ignore_ascii_case(allowed) {
        Ok(())
    } else {
        Err(format!("can only be '{allowed}' in this version"))
    }
}

fn number<T>(text: &str, min: T, max: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    match text.parse::<T>() {
        Ok(n) if n >= min && n <= max => Ok(n),
        _ => Err(format!("must be a whole number from {min} to {max}")),
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "1" => Ok(true),
        "no" | "false" | "off" | "0" => Ok(false),
        _ => Err("must be 'yes' or 'no'".to_string()),
    }
}

fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_string()
}

/// A number of bytes with Redis's units: `k` is 1000, `kb` is 1024, likewise `m`, `mb`, `g`, `gb`.
fn size(text: &str, min: usize) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &lower[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err("must be a size such as 1048576, 512mb or 1gb".to_string()),
    };
    match digits.parse::<usize>().ok().and_then(|n| n.checked_mul(unit)) {
        Some(n) if n >= min => Ok(n),
        Some(_) => Err(format!("must be at least {min} bytes")),
        None => Err("must be a size such as 1048576, 512mb or 1gb".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_accepted_by_its_own_setting() {
        for setting in SETTINGS {
            let mut config = Config::default();
            (setting.set)(&mut config, &setting.default_text())
                .unwrap_or_else(|e| panic!("{}: {e}", setting.name));
        }
    }

    #[test]
    fn sizes_have_redis_units() {
        assert_eq!(size("1k", 0), Ok(1000));
        assert_eq!(size("1KB", 0), Ok(1024));
        assert_eq!(size("2gb", 0), Ok(2 << 30));
        assert!(size("1tb", 0).is_err());
        assert!(size("99999999999gb", 0).is_err());
        assert!(size("-1", 0).is_err());
        assert!(size("10", 64).is_err());
    }

    #[test]
    fn fixed_settings_refuse_another_value() {
        let mut config = Config::default();
        assert!((find("appendonly").unwrap().set)(&mut config, "yes").is_err());
        assert!((find("save").unwrap().set)(&mut config, "900 1").is_err());
        assert!((find("unreclaimed-limit").unwrap().set)(&mut config, "1000").is_err());
        assert!((find("checksum").unwrap().set)(&mut config, "yes").is_err());
        assert!((find("history").unwrap().set)(&mut config, "17").is_err());
        assert!((find("history-max-bytes").unwrap().set)(&mut config, "2gb").is_err());
        assert!((find("unixsocketperm").unwrap().set)(&mut config, "1000").is_err());
        assert!((find("unixsocketperm").unwrap().set)(&mut config, "788").is_err());
        assert!((find("APPENDONLY").unwrap().set)(&mut config, "no").is_ok());
    }
}
