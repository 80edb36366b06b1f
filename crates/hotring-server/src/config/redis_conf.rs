//! Settings from a `redis.conf`, for who brings one along: the lines that have a counterpart here are
//! taken, those that only tune what works differently here are told and left out, and those that ask for
//! what is not here are refused, as a server without it is not what was asked for.
//!
//! Lines are split as Redis splits them, which is how it splits an inline request.

use std::path::{Path, PathBuf};

use hotring_protocol::{Args, Decoded, Decoder, Limits};

use super::{Config, StartError};
use crate::settings::{self, Setting};

/// How deep files may name others by `include`.
const INCLUDES_MAX: usize = 8;

/// Directives of Redis 7.4 without which this server does the same for its clients, or that say how
/// Redis's own parts work.
const WITHOUT_EFFECT: &[&str] = &[
    "active-defrag-cycle-max",
    "active-defrag-cycle-min",
    "active-defrag-ignore-bytes",
    "active-defrag-max-scan-fields",
    "active-defrag-threshold-lower",
    "active-defrag-threshold-upper",
    "active-expire-effort",
    "activedefrag",
    "activerehashing",
    "always-show-logo",
    "aof-disable-auto-gc",
    "aof-load-truncated",
    "aof-rewrite-incremental-fsync",
    "aof-timestamp-enabled",
    "aof-use-rdb-preamble",
    "aof_rewrite_cpulist",
    "appenddirname",
    "appendfilename",
    "bgsave_cpulist",
    "bio_cpulist",
    "cluster-allow-pubsubshard-when-down",
    "cluster-allow-reads-when-down",
    "cluster-allow-replica-migration",
    "cluster-announce-bus-port",
    "cluster-announce-hostname",
    "cluster-announce-human-nodename",
    "cluster-announce-ip",
    "cluster-announce-port",
    "cluster-announce-tls-port",
    "cluster-config-file",
    "cluster-link-sendbuf-limit",
    "cluster-migration-barrier",
    "cluster-node-timeout",
    "cluster-port",
    "cluster-preferred-endpoint-type",
    "cluster-replica-no-failover",
    "cluster-replica-validity-factor",
    "cluster-require-full-coverage",
    "cluster-slave-no-failover",
    "cluster-slave-validity-factor",
    "crash-log-enabled",
    "crash-memcheck-enabled",
    "daemonize",
    "databases",
    "dbfilename",
    "disable-thp",
    "dynamic-hz",
    "hash-max-listpack-entries",
    "hash-max-listpack-value",
    "hash-max-ziplist-entries",
    "hash-max-ziplist-value",
    "hll-sparse-max-bytes",
    "hz",
    "ignore-warnings",
    "io-threads-do-reads",
    "jemalloc-bg-thread",
    "latency-tracking",
    "latency-tracking-info-percentiles",
    "lazyfree-lazy-eviction",
    "lazyfree-lazy-expire",
    "lazyfree-lazy-server-del",
    "lazyfree-lazy-user-del",
    "lazyfree-lazy-user-flush",
    "list-compress-depth",
    "list-max-listpack-size",
    "list-max-ziplist-size",
    "locale-collate",
    "logfile",
    "max-new-connections-per-cycle",
    "max-new-tls-connections-per-cycle",
    "maxmemory-eviction-tenacity",
    "min-replicas-max-lag",
    "min-slaves-max-lag",
    "no-appendfsync-on-rewrite",
    "oom-score-adj",
    "oom-score-adj-values",
    "pidfile",
    "proc-title-template",
    "propagation-error-behavior",
    "rdb-del-sync-files",
    "rdb-save-incremental-fsync",
    "rdbchecksum",
    "rdbcompression",
    "repl-backlog-size",
    "repl-backlog-ttl",
    "repl-disable-tcp-nodelay",
    "repl-diskless-load",
    "repl-diskless-sync",
    "repl-diskless-sync-delay",
    "repl-diskless-sync-max-replicas",
    "repl-ping-replica-period",
    "repl-ping-slave-period",
    "repl-timeout",
    "replica-announce-ip",
    "replica-announce-port",
    "replica-announced",
    "replica-ignore-disk-write-errors",
    "replica-ignore-maxmemory",
    "replica-lazy-flush",
    "replica-priority",
    "replica-read-only",
    "replica-serve-stale-data",
    "sanitize-dump-payload",
    "server_cpulist",
    "set-max-intset-entries",
    "set-max-listpack-entries",
    "set-max-listpack-value",
    "set-proc-title",
    "shutdown-on-sigint",
    "shutdown-on-sigterm",
    "slave-announce-ip",
    "slave-announce-port",
    "slave-ignore-maxmemory",
    "slave-lazy-flush",
    "slave-priority",
    "slave-read-only",
    "slave-serve-stale-data",
    "socket-mark-id",
    "stop-writes-on-bgsave-error",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "supervised",
    "syslog-enabled",
    "syslog-facility",
    "syslog-ident",
    "tls-dh-params-file",
    "tls-prefer-server-ciphers",
    "tls-session-cache-size",
    "tls-session-cache-timeout",
    "tls-session-caching",
    "zset-max-listpack-entries",
    "zset-max-listpack-value",
    "zset-max-ziplist-entries",
    "zset-max-ziplist-value",
];

/// The directive for the limits of unsent replies by class of client.
const OUTPUT_LIMIT: &str = "client-output-buffer-limit";

/// Directives that ask for what is not here: what that is, and the values, Redis's defaults above all, that do not
/// ask for it.
const MISSING: &[(&str, &str, &[&str])] = &[
    ("acl-pubsub-default", "users who may use all channels from the start", &["resetchannels"]),
    ("bind-source-addr", "replication", NONE),
    ("enable-module-command", "modules", NO),
    ("loadmodule", "modules", &[]),
    ("masterauth", "replication", NONE),
    ("masteruser", "replication", NONE),
    ("min-replicas-to-write", "replication", &["0"]),
    ("min-slaves-to-write", "replication", &["0"]),
    ("rename-command", "other names of commands", &[]),
    ("replicaof", "replication", OF_NOBODY),
    ("slaveof", "replication", OF_NOBODY),
    ("tls-ca-cert-dir", "a folder of certificates", NONE),
    ("tls-ciphers", "a choice of ciphers", NONE),
    ("tls-ciphersuites", "a choice of ciphers", NONE),
    ("tls-client-cert-file", "replication", NONE),
    ("tls-client-key-file", "replication", NONE),
    ("tls-client-key-file-pass", "replication", NONE),
    ("tls-cluster", "a cluster", NO),
    ("tls-key-file-pass", "keys behind a password", NONE),
    ("tls-replication", "replication", NO),
    ("user", "users outside of a file of users (aclfile)", OPEN_USER),
];

const NONE: &[&str] = &[""];
const NO: &[&str] = &["no"];
const OF_NOBODY: &[&str] = &["", "no one"];

/// What Redis's CONFIG REWRITE adds to its file where nobody has changed a user.
const OPEN_USER: &[&str] =
    &["default on nopass ~* &* +@all", "default on nopass sanitize-payload ~* &* +@all"];

/// What a directive of a redis.conf becomes here.
#[derive(Clone, Copy, Debug)]
pub enum Counterpart {
    /// This setting.
    Setting(&'static Setting),
    /// Settings for this part of it.
    Partly(&'static str),
    /// Nothing: it tunes a part of Redis that is not here.
    WithoutEffect,
    /// An error: it asks for what is not here.
    Missing {
        /// What that is.
        what: &'static str,
        /// Values with which it does not ask for it, and has no effect.
        harmless: &'static [&'static str],
    },
    /// An error: there is no setting of this name.
    Unknown,
}

/// What a directive becomes.
pub fn counterpart(directive: &str) -> Counterpart {
    let name = directive.to_ascii_lowercase();
    if WITHOUT_EFFECT.contains(&name.as_str()) {
        return Counterpart::WithoutEffect;
    }
    if let Some((_, what, harmless)) = MISSING.iter().find(|(missing, ..)| *missing == name) {
        return Counterpart::Missing { what, harmless };
    }
    match settings::find(&name) {
        Some(setting) => Counterpart::Setting(setting),
        None if name == OUTPUT_LIMIT => {
            Counterpart::Partly("the hard limits of normal and pubsub clients")
        }
        None => Counterpart::Unknown,
    }
}

/// A line that is no comment.
struct Line {
    /// Where it stands, for errors.
    from: String,
    /// In lower case.
    name: String,
    values: Vec<String>,
}

/// Takes settings from a redis.conf; returns what has no effect here, a line of text each.
pub(super) fn read_file(config: &mut Config, path: &Path) -> Result<Vec<String>, StartError> {
    let mut lines = Vec::new();
    read_included(path, INCLUDES_MAX, &mut lines)?;
    config.forget_addresses(lines.iter().map(|line| line.name.as_str()));
    let mut notes = Vec::new();
    for line in &lines {
        notes.extend(take(config, line)?);
    }
    Ok(notes)
}

/// Collects the lines of a file and of those that it includes, in order.
fn read_included(path: &Path, depth: usize, lines: &mut Vec<Line>) -> Result<(), StartError> {
    let text = super::read_to_string(path)?;
    for (i, line) in text.lines().enumerate() {
        let from = format!("{}, line {}", path.display(), i + 1);
        let words = words(line).map_err(|why| StartError::new(format!("{from}: {why}")))?;
        match words.split_first() {
            None => {}
            Some((name, [file])) if name.eq_ignore_ascii_case("include") => {
                if depth == 0 {
                    return Err(StartError::new(format!("{from}: files are included too deep")));
                }
                read_included(&beside(path, file), depth - 1, lines)?;
            }
            Some((name, values)) => {
                let (name, values) = (name.to_ascii_lowercase(), values.to_vec());
                lines.push(Line { from, name, values });
            }
        }
    }
    Ok(())
}

/// A name in a file is looked for beside that file, wherever the server was started.
fn beside(path: &Path, file: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new(".")).join(file)
}

/// The words of a line; none of a comment.
fn words(line: &str) -> Result<Vec<String>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Vec::new());
    }
    let limits = Limits { inline_len_max: line.len() + 1, ..Limits::default() };
    let mut args = Args::new();
    let input = format!("{line}\n");
    match Decoder::new().decode(input.as_bytes(), &limits, &mut args) {
        Ok(Decoded::Request { .. }) => {
            let words = args.view(input.as_bytes()).iter();
            // What `\x` stands for may be none, and is not changed to it: it may be a password.
            let texts = words.map(|word| String::from_utf8(word.to_vec()));
            texts.collect::<Result<_, _>>().map_err(|_| "a value is not UTF-8".to_string())
        }
        Ok(Decoded::Incomplete) => Err("this is no line of a redis.conf".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Takes one line; what it returns says that it has no effect.
fn take(config: &mut Config, line: &Line) -> Result<Option<String>, StartError> {
    let Line { from, name, values } = line;
    let value = values.join(" ");
    let is_value = |text: &&str| text.eq_ignore_ascii_case(&value);
    let without_effect = || Ok(Some(format!("{from}: {name} has no effect here")));
    match counterpart(name) {
        Counterpart::WithoutEffect => without_effect(),
        Counterpart::Missing { harmless, .. } if harmless.iter().any(is_value) => without_effect(),
        Counterpart::Missing { what, .. } => Err(StartError::new(format!(
            "{from}: {name} asks for {what}, which this server does not have; take the line out to \
             do without"
        ))),
        Counterpart::Partly(_) => take_output_limit(config, line),
        // Each line adds to those before, and an empty one takes them away.
        Counterpart::Setting(setting) if setting.name == "save" && !value.is_empty() => {
            let all = format!("{} {value}", (setting.get)(config));
            config.set(name, &all, from).map(|()| None)
        }
        Counterpart::Setting(_) | Counterpart::Unknown => {
            config.set(name, &value, from).map(|()| None)
        }
    }
}

/// `client-output-buffer-limit CLASS HARD SOFT SECONDS ...`: the hard limits of those classes that there are.
fn take_output_limit(config: &mut Config, line: &Line) -> Result<Option<String>, StartError> {
    let Line { from, name, values } = line;
    let mut note = None;
    for class in values.chunks(4) {
        let [class, hard, soft, _] = class else {
            return Err(StartError::new(format!(
                "{from}: {name} has a class and three numbers, not '{}'",
                values.join(" ")
            )));
        };
        let setting = match class.to_ascii_lowercase().as_str() {
            "normal" => "output-buffer-hard-limit",
            "pubsub" => "subscriber-output-buffer-limit",
            "replica" | "slave" => continue,
            _ => return Err(StartError::new(format!("{from}: {name} has no class '{class}'"))),
        };
        config.set(setting, hard, from)?;
        if soft != "0" {
            note = Some(format!("{from}: the soft limit of {class} has no effect here"));
        }
    }
    Ok(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Secret;
    use crate::tls::TlsSettings;

    /// A file with this text, gone at the end.
    struct Conf(PathBuf);

    impl Conf {
        fn new(name: &str, text: &str) -> Self {
            let name = format!("hotring-redis-conf-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, text).unwrap();
            Conf(path)
        }
    }

    impl Drop for Conf {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn read(name: &str, text: &str) -> Result<(Config, Vec<String>), String> {
        let (conf, mut config) = (Conf::new(name, text), Config::default());
        let read = read_file(&mut config, &conf.0);
        let plain = |text: String| text.replace(&conf.0.display().to_string(), "redis.conf");
        match read {
            Ok(notes) => Ok((config, notes.into_iter().map(plain).collect())),
            Err(error) => Err(plain(error.to_string())),
        }
    }

    #[test]
    fn lines_with_a_counterpart_are_taken() {
        let text = "# Redis\nbind 127.0.0.1 -::1\nport 7000\ntimeout 0\nTCP-KeepAlive 60\n\
                    unixsocket \"/tmp/a\\x20b\"\nio-threads 3\nsave \"\"\nappendonly no\n\
                    slowlog-log-slower-than 5\nnotify-keyspace-events Ex\n\
                    client-output-buffer-limit normal 1mb 0 0 pubsub 2mb 8mb 60\n";
        let (config, notes) = read("taken", text).unwrap();
        assert_eq!(config.addresses(), ["127.0.0.1:7000", "-[::1]:7000"]);
        // What a weaker source has said of addresses is forgotten.
        let conf = Conf::new("weaker", "port 7000\n");
        let mut weaker = Config { listen: vec!["127.0.0.1:1".to_string()], ..Config::default() };
        read_file(&mut weaker, &conf.0).unwrap();
        assert_eq!(weaker.addresses(), ["127.0.0.1:7000"]);
        let (every, _) = read("every", "bind * -::*").unwrap();
        assert_eq!(every.addresses(), ["*:6379", "-[::]:6379"]);
        assert_eq!(config.unixsocket, Some("/tmp/a b".into()));
        assert_eq!((config.threads, config.tcp_keepalive_s), (3, 60));
        assert_eq!(config.slowlog_threshold_us, 5);
        assert_eq!((config.output_hard_max, config.subscriber_output_max), (1 << 20, 2 << 20));
        assert_eq!(notes, ["redis.conf, line 12: the soft limit of pubsub has no effect here"]);
    }

    /// What the files have uncommented that come with Redis 6.2, 7.2 and 7.4. They were once refused.
    #[test]
    fn the_files_that_come_with_redis_are_taken() {
        let all = "bind 127.0.0.1 -::1\nprotected-mode yes\nport 6379\ntcp-backlog 511\ntimeout 0\n\
            tcp-keepalive 300\ndaemonize no\npidfile /var/run/redis_6379.pid\nloglevel notice\nlogfile \"\"\n\
            databases 16\nalways-show-logo no\nset-proc-title yes\n\
            proc-title-template \"{title} {listen-addr} {server-mode}\"\nstop-writes-on-bgsave-error yes\n\
            rdbcompression yes\nrdbchecksum yes\ndbfilename dump.rdb\nrdb-del-sync-files no\ndir ./\n\
            replica-serve-stale-data yes\nreplica-read-only yes\nrepl-diskless-sync yes\n\
            repl-diskless-sync-delay 5\nrepl-diskless-load disabled\nrepl-disable-tcp-nodelay no\n\
            replica-priority 100\nacllog-max-len 128\nlazyfree-lazy-eviction no\nlazyfree-lazy-expire no\n\
            lazyfree-lazy-server-del no\nreplica-lazy-flush no\nlazyfree-lazy-user-del no\n\
            lazyfree-lazy-user-flush no\noom-score-adj no\noom-score-adj-values 0 200 800\ndisable-thp yes\n\
            appendonly no\nappendfilename \"appendonly.aof\"\nappendfsync everysec\n\
            no-appendfsync-on-rewrite no\nauto-aof-rewrite-percentage 100\nauto-aof-rewrite-min-size 64mb\n\
            aof-load-truncated yes\naof-use-rdb-preamble yes\nslowlog-log-slower-than 10000\n\
            slowlog-max-len 128\nlatency-monitor-threshold 0\nnotify-keyspace-events \"\"\n\
            list-compress-depth 0\nset-max-intset-entries 512\nhll-sparse-max-bytes 3000\n\
            stream-node-max-bytes 4096\nstream-node-max-entries 100\nactiverehashing yes\n\
            client-output-buffer-limit normal 0 0 0\nclient-output-buffer-limit replica 256mb 64mb 60\n\
            client-output-buffer-limit pubsub 32mb 8mb 60\nhz 10\ndynamic-hz yes\n\
            aof-rewrite-incremental-fsync yes\nrdb-save-incremental-fsync yes\njemalloc-bg-thread yes\n";
        let old = "lua-time-limit 5000\nhash-max-ziplist-entries 512\nhash-max-ziplist-value 64\n\
            list-max-ziplist-size -2\nzset-max-ziplist-entries 128\nzset-max-ziplist-value 64\n";
        let new = "locale-collate \"\"\nrepl-diskless-sync-max-replicas 0\nappenddirname appendonlydir\n\
            aof-timestamp-enabled no\nhash-max-listpack-entries 512\nhash-max-listpack-value 64\n\
            list-max-listpack-size -2\nset-max-listpack-entries 128\nset-max-listpack-value 64\n\
            zset-max-listpack-entries 128\nzset-max-listpack-value 64\n";
        for version in [old, new] {
            let (config, _) = read("stock", &format!("{all}{version}")).unwrap();
            assert_eq!(config.addresses(), ["127.0.0.1:6379", "-[::1]:6379"]);
        }
    }

    /// What the files of Redis 7 have as comments for who wants to say it, at the value that holds anyway, and what
    /// CONFIG REWRITE and `CONFIG GET *` write. Lines that ask for nothing were once refused by their names.
    #[test]
    fn redis_defaults_ask_for_nothing() {
        let no_effect = "acl-pubsub-default resetchannels\nenable-module-command no\n\
            min-replicas-to-write 0\nmin-replicas-max-lag 10\nmin-slaves-to-write 0\ntls-replication no\n\
            tls-cluster no\nTLS-Cluster NO\nreplicaof no one\nreplicaof \"\"\nslaveof no one\nmasterauth \"\"\n\
            masteruser \"\"\nbind-source-addr \"\"\ntls-ca-cert-dir \"\"\ntls-ciphers \"\"\ntls-ciphersuites \"\"\n\
            tls-client-cert-file \"\"\ntls-client-key-file \"\"\ntls-client-key-file-pass \"\"\n\
            tls-key-file-pass \"\"\ntls-prefer-server-ciphers no\nsupervised no\nsyslog-enabled no\n\
            user default on nopass ~* &* +@all\nuser default on nopass sanitize-payload ~* &* +@all\n";
        let taken = "bind * -::*\nenable-protected-configs no\nenable-debug-command no\nunixsocket \"\"\n\
            unixsocketperm 700\ntls-port 0\ntls-cert-file \"\"\ntls-key-file \"\"\ntls-ca-cert-file \"\"\n\
            tls-auth-clients yes\ntls-protocols \"\"\ntls-protocols \"TLSv1.2 TLSv1.3\"\nsave \"\"\naclfile \"\"\n\
            requirepass \"\"\ntracking-table-max-keys 1000000\nmaxclients 10000\nmaxmemory 0\n\
            maxmemory-policy noeviction\nmaxmemory-clients 0\nio-threads 1\nlua-time-limit 5000\n\
            busy-reply-threshold 5000\ncluster-enabled no\nclient-query-buffer-limit 1gb\n\
            proto-max-bulk-len 512mb\nclient-output-buffer-limit normal 0 0 0 slave 268435456 67108864 60\n";
        let (config, notes) = read("defaults", &format!("{no_effect}{taken}")).unwrap();
        assert!(notes.iter().all(|note| note.ends_with(" has no effect here")), "{notes:?}");
        assert_eq!(notes.len(), no_effect.lines().count());
        assert_eq!((config.tls, config.requirepass), (TlsSettings::default(), Secret::default()));
        // The same directives with another value still ask for something.
        for text in
            ["tls-cluster yes", "min-replicas-to-write 1", "user default on nopass ~a &* +@all"]
        {
            assert!(read("asks", text).unwrap_err().contains("asks for"), "{text}");
        }
    }

    #[test]
    fn lines_that_only_tune_redis_are_told() {
        let (config, notes) = read("told", "databases 16\nhz 10\nPidfile x\nmaxclients 7").unwrap();
        assert_eq!(config, Config { maxclients: 7, ..Config::default() });
        let lines = ["line 1: databases", "line 2: hz", "line 3: pidfile"];
        assert_eq!(notes, lines.map(|line| format!("redis.conf, {line} has no effect here")));
    }

    #[test]
    fn lines_that_ask_for_what_is_not_here_are_refused() {
        let refused = |text: &str| read("refused", text).unwrap_err();
        assert_eq!(
            refused("port 1\nreplicaof 127.0.0.1 6379"),
            "redis.conf, line 2: replicaof asks for replication, which this server does not have; take \
             the line out to do without"
        );
        assert!(refused("appendfsync often").contains("appendfsync must be 'always'"));
        assert!(refused("save 900").contains("save must be pairs"));
        assert!(refused("maxcleints 5").contains("did you mean 'maxclients'?"));
        assert!(refused("port \"1").starts_with("redis.conf, line 1: "));
        assert!(refused("client-output-buffer-limit normal 1mb").contains("three numbers"));
        assert!(refused("requirepass \"a\\xff\"").ends_with("line 1: a value is not UTF-8"));
        assert!(refused("include /no/such/file").contains("/no/such/file"));
    }

    #[test]
    fn files_include_others_but_not_for_ever() {
        let inner = Conf::new("inner", "timeout 9\n");
        let name = inner.0.file_name().unwrap().to_string_lossy().into_owned();
        let (config, _) = read("outer", &format!("timeout 1\ninclude {name}\n")).unwrap();
        assert_eq!(config.timeout_s, 9);
        let own = format!("hotring-redis-conf-{}-own", std::process::id());
        assert!(read("own", &format!("include {own}")).unwrap_err().contains("too deep"));
    }

    #[test]
    fn the_lists_name_no_setting_but_those_that_redis_files_always_set() {
        let settings: Vec<_> =
            WITHOUT_EFFECT.iter().filter(|name| settings::find(name).is_some()).collect();
        assert_eq!(settings, [&"daemonize", &"databases"]);
        assert!(MISSING.iter().all(|(name, ..)| settings::find(name).is_none()));
        assert!(WITHOUT_EFFECT.is_sorted());
    }
}
