//! The server's configuration and the three places that it comes from.
//!
//! Later sources win: defaults, then the file of `--config`, then `HOTRING_...` variables, then
//! flags. The file has Redis's form, one `name value` a line, because the names are the ones that
//! CONFIG GET and CONFIG SET use on the wire, because a person who comes from Redis can bring the
//! lines along, and because every setting is flat: TOML would add a second spelling and nothing else.

use std::fmt;
use std::path::{Path, PathBuf};

use hotring_protocol::quoted;
use hotring_store::index::Checksum;

use crate::acl::Secret;
use crate::engine::IndexSettings;
use crate::guard::Guard;
use crate::notify::Notify;
use crate::settings::{self, Change, MemcachedSettings, settings};
use crate::tls::TlsSettings;

/// All settings of a server. `settings/` names and explains each.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `ADDR:PORT` of each listener; empty means `bind` and `port`.
    pub listen: Vec<String>,
    /// Addresses to listen on.
    pub bind: Vec<String>,
    /// The port for `bind`.
    pub port: u16,
    /// Path of the unix socket, if any.
    pub unixsocket: Option<PathBuf>,
    /// Permission bits of the unix socket's file.
    pub unixsocketperm: u32,
    /// Whether to refuse other machines while the default user needs no password.
    pub protected_mode: bool,
    /// The default user's password; empty for none.
    pub requirepass: Secret,
    /// The file of users.
    pub aclfile: Option<PathBuf>,
    /// Entries that ACL LOG keeps.
    pub acllog_len_max: usize,
    /// Milliseconds that each wrong password holds back its connection's replies.
    pub auth_failure_delay_ms: u64,
    /// Who may change settings that name files while the server runs.
    pub enable_protected_configs: Guard,
    /// TLS, if it is spoken.
    pub tls: TlsSettings,
    /// Seconds that a connection has to shake hands by TLS, and to authenticate; 0 for ever.
    pub handshake_timeout_s: u64,
    /// memcached's protocol.
    pub memcached: MemcachedSettings,
    /// Threads that serve connections; 0 means one for each available core.
    pub threads: usize,
    /// Connections at one time.
    pub maxclients: usize,
    /// Connections that may wait for keys at one time.
    pub waiting_max: u64,
    /// Keys that one connection may watch.
    pub watched_max: usize,
    /// Idle seconds after which a connection is closed; 0 never.
    pub timeout_s: u64,
    /// Seconds after which a connection with an unfinished request is closed; 0 never.
    pub request_timeout_s: u64,
    /// Seconds of silence before TCP probes; 0 never.
    pub tcp_keepalive_s: u64,
    /// The kernel's queue of connections that are not yet accepted.
    pub tcp_backlog: u32,
    /// Largest unfinished request, in bytes.
    pub query_buffer_max: usize,
    /// Unsent bytes above which a connection is not read from.
    pub output_soft_max: usize,
    /// Unsent bytes above which a connection is closed; 0 never.
    pub output_hard_max: usize,
    /// Unsent bytes above which a connection that listens gets no more messages and is closed; 0 never.
    pub subscriber_output_max: usize,
    /// Which changes of keys are told to who listens.
    pub notify: Notify,
    /// Channels and patterns that one connection may listen to.
    pub subscriptions_max: usize,
    /// Bytes of removed values that may wait for a thread that does not leave its command, before
    /// writes are refused; 0 for no limit.
    pub unreclaimed_max: usize,
    /// Whether items have checksums, and who looks at them.
    pub checksum: Checksum,
    /// Earlier values that are kept of each key; 0 for none.
    pub history: usize,
    /// Bytes that the earlier values of one key may take.
    pub history_bytes_max: usize,
    /// Longest argument of a request.
    pub bulk_len_max: usize,
    /// Most arguments of a request.
    pub args_max: usize,
    /// Longest line of an inline request.
    pub inline_len_max: usize,
    /// The index underneath.
    pub index: IndexSettings,
    /// Microseconds from which on SLOWLOG keeps a request; negative for none.
    pub slowlog_threshold_us: i64,
    /// Requests that SLOWLOG keeps.
    pub slowlog_len_max: usize,
    /// What is logged.
    pub log_level: LogLevel,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: Vec::new(),
            bind: vec!["127.0.0.1".to_string()],
            port: 6379,
            unixsocket: None,
            unixsocketperm: 0o700,
            protected_mode: true,
            requirepass: Secret::default(),
            aclfile: None,
            acllog_len_max: 128,
            auth_failure_delay_ms: 250,
            enable_protected_configs: Guard::No,
            tls: TlsSettings::default(),
            handshake_timeout_s: 30,
            memcached: MemcachedSettings::default(),
            threads: 0,
            maxclients: 10_000,
            waiting_max: 1_000,
            watched_max: 1_000,
            timeout_s: 0,
            request_timeout_s: 30,
            tcp_keepalive_s: 300,
            tcp_backlog: 511,
            query_buffer_max: 1 << 30,
            output_soft_max: 1 << 20,
            output_hard_max: 1 << 30,
            subscriber_output_max: 32 << 20,
            notify: Notify::default(),
            subscriptions_max: 10_000,
            unreclaimed_max: 1 << 30,
            checksum: Checksum::default(),
            history: 0,
            history_bytes_max: 1 << 20,
            bulk_len_max: 512 << 20,
            args_max: 1 << 20,
            inline_len_max: 64 << 10,
            index: IndexSettings::default(),
            slowlog_threshold_us: 10_000,
            slowlog_len_max: 128,
            log_level: LogLevel::Notice,
        }
    }
}

/// How much is logged, by Redis's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing at all.
    Nothing,
    /// What stops the server or loses data.
    Error,
    /// What a person should look at.
    Warning,
    /// What a person wants to know in production.
    Notice,
    /// What helps to understand clients.
    Verbose,
    /// Everything.
    Debug,
}

impl LogLevel {
    const NAMES: [(LogLevel, &'static str, &'static str); 6] = [
        (LogLevel::Nothing, "nothing", "off"),
        (LogLevel::Error, "error", "error"),
        (LogLevel::Warning, "warning", "warn"),
        (LogLevel::Notice, "notice", "info"),
        (LogLevel::Verbose, "verbose", "debug"),
        (LogLevel::Debug, "debug", "trace"),
    ];

    /// Redis's name of the level.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|n| n.0 == self).map_or("notice", |n| n.1)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wanted = text.to_ascii_lowercase();
        // Redis's names go first: its "debug" is the most detailed level.
        let by_name = Self::NAMES.iter().find(|n| n.1 == wanted);
        by_name
            .or_else(|| Self::NAMES.iter().find(|n| n.2 == wanted))
            .map(|n| n.0)
            .ok_or_else(|| "must be error, warning, notice, verbose, debug or nothing".to_string())
    }
}

/// Why a server cannot start; printed to the person who started it.
#[derive(Debug, PartialEq, Eq)]
pub struct StartError(String);

impl StartError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        StartError(message.into())
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

impl Config {
    /// Sets one setting by name. `from` says where the text came from, for the error.
    pub fn set(&mut self, name: &str, value: &str, from: &str) -> Result<(), StartError> {
        let Some(setting) = settings::find(name) else {
            let hint = nearest(name).map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            return Err(StartError::new(format!("{from}: there is no setting '{name}'{hint}")));
        };
        (setting.set)(self, value).map_err(|why| {
            StartError::new(format!("{from}: {} {why}, not '{value}'", setting.name))
        })
    }

    /// Reads a file of `name value` lines; `#` starts a comment line.
    pub fn read_file(&mut self, path: &Path) -> Result<(), StartError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| StartError::new(format!("cannot read {}: {e}", path.display())))?;
        self.read_text(&text, &path.display().to_string())
    }

    fn read_text(&mut self, text: &str, source: &str) -> Result<(), StartError> {
        let mut listens = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let value = unquote(value.trim());
            let from = format!("{source}, line {}", i + 1);
            if name.eq_ignore_ascii_case("listen") {
                listens.push(value.to_string());
            } else {
                self.set(name, value, &from)?;
            }
        }
        self.listen.extend(listens);
        Ok(())
    }

    /// Takes settings from `HOTRING_...` variables; returns the names that are no setting.
    pub fn read_environment(
        &mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Vec<String>, StartError> {
        let mut unknown = Vec::new();
        for (name, value) in variables.filter(|(n, _)| n.starts_with("HOTRING_")) {
            let Some(setting) = settings().find(|s| s.variable() == name) else {
                unknown.push(name);
                continue;
            };
            if setting.name == "listen" {
                self.listen.clear();
            }
            self.set(setting.name, &value, &format!("environment variable {name}"))?;
        }
        Ok(unknown)
    }

    /// The limit of unreclaimed memory, as the store takes it.
    pub(crate) fn limbo_max(&self) -> u64 {
        if self.unreclaimed_max == 0 { u64::MAX } else { self.unreclaimed_max as u64 }
    }

    /// The addresses to bind, as text.
    pub(crate) fn addresses(&self) -> Vec<String> {
        if self.listen.is_empty() { self.bound_to(self.port) } else { self.listen.clone() }
    }

    /// The same for TLS.
    pub(crate) fn tls_addresses(&self) -> Vec<String> {
        match (self.tls.listen.as_slice(), self.tls.port) {
            ([], 0) => Vec::new(),
            ([], port) => self.bound_to(port),
            (listen, _) => listen.to_vec(),
        }
    }

    /// The addresses of `bind` with a port.
    fn bound_to(&self, port: u16) -> Vec<String> {
        let with_port = |a: &String| match a.contains(':') {
            true => format!("[{a}]:{port}"),
            false => format!("{a}:{port}"),
        };
        self.bind.iter().map(with_port).collect()
    }
}

/// Applies CONFIG SET of a connection from `peer`: all of `changes` or none; the error is Redis's text.
pub(crate) fn change_running(
    config: &Config,
    changes: &[(String, String)],
    peer: &str,
) -> Result<Config, String> {
    let mut changed = config.clone();
    let mut seen: Vec<&'static str> = Vec::new();
    for (name, value) in changes {
        let failed = |why: &str| {
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        };
        let Some(setting) = settings::find(name) else {
            return Err(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                quoted(name.as_bytes())
            ));
        };
        if seen.contains(&setting.name) {
            return Err(failed("duplicate parameter"));
        }
        seen.push(setting.name);
        if setting.change == Change::Start {
            return Err(failed("can't set immutable config"));
        }
        if setting.change == Change::Protected && !config.enable_protected_configs.allows(peer) {
            return Err(failed("can't set protected config"));
        }
        (setting.set)(&mut changed, value).map_err(|why| failed(&why))?;
    }
    Ok(changed)
}

fn unquote(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    inner.or_else(|| value.strip_prefix('\'').and_then(|v| v.strip_suffix('\''))).unwrap_or(value)
}

/// The setting's name that is nearest to a mistyped one, if one is near.
fn nearest(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let closest = settings().map(|s| (distance(&lower, s.name), s.name)).min()?;
    (closest.0 <= 2).then_some(closest.1)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_what_it_names_and_keeps_the_rest() {
        let mut config = Config::default();
        let text = "# a comment\n\nport 7000\nmaxclients 5\nsave \"\"\nunixsocket \"/tmp/a b\"\n";
        config.read_text(text, "x.conf").unwrap();
        assert_eq!((config.port, config.maxclients), (7000, 5));
        assert_eq!(config.unixsocket, Some(PathBuf::from("/tmp/a b")));
        assert_eq!(config.addresses(), ["127.0.0.1:7000"]);
        assert_eq!(config.timeout_s, 0);
    }

    #[test]
    fn errors_name_the_line_and_the_nearest_setting() {
        let mut config = Config::default();
        let error = config.read_text("port 1\nmaxcleints 5", "x.conf").unwrap_err().to_string();
        assert_eq!(
            error,
            "x.conf, line 2: there is no setting 'maxcleints'; did you mean 'maxclients'?"
        );
        let error = config.read_text("appendonly yes", "x.conf").unwrap_err().to_string();
        assert_eq!(error, "x.conf, line 1: appendonly can only be 'no' in this version, not 'yes'");
    }

    #[test]
    fn environment_wins_over_the_file_and_unknown_names_are_told() {
        let mut config = Config::default();
        config.read_text("listen 127.0.0.1:1\nlisten 127.0.0.1:2", "x.conf").unwrap();
        assert_eq!(config.addresses(), ["127.0.0.1:1", "127.0.0.1:2"]);
        let vars = [("HOTRING_LISTEN", "127.0.0.1:3"), ("HOTRING_NONSENSE", "1"), ("PATH", "/")];
        let vars = vars.into_iter().map(|(n, v)| (n.to_string(), v.to_string()));
        assert_eq!(config.read_environment(vars).unwrap(), ["HOTRING_NONSENSE"]);
        assert_eq!(config.addresses(), ["127.0.0.1:3"]);
    }

    #[test]
    fn config_set_is_all_or_nothing() {
        let config = Config::default();
        let pair = |n: &str, v: &str| (n.to_string(), v.to_string());
        let changed = change_running(&config, &[pair("maxclients", "7"), pair("timeout", "3")], "");
        let changed = changed.unwrap();
        assert_eq!((changed.maxclients, changed.timeout_s), (7, 3));
        let bad = change_running(&config, &[pair("maxclients", "7"), pair("port", "3")], "");
        assert!(bad.unwrap_err().contains("can't set immutable config"));
        assert!(change_running(&config, &[pair("nonsense", "3")], "").is_err());
        let twice = [pair("loglevel", "debug"), pair("timeout", "3"), pair("log-level", "error")];
        assert_eq!(
            change_running(&config, &twice, "").unwrap_err(),
            "ERR CONFIG SET failed (possibly related to argument 'log-level') - duplicate parameter"
        );
    }
}
