//! The lines of a redis.conf, and the settings that it leaves out.

use hotring_store::EvictionPolicy;

use super::*;
use crate::settings::config::Secret;
use crate::settings::config::TlsSettings;

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
    // Addresses of a weaker source are forgotten.
    let conf = Conf::new("weaker", "port 7000\n");
    let mut weaker = Config { listen: vec!["127.0.0.1:1".to_string()], ..Config::default() };
    read_file(&mut weaker, &conf.0).unwrap();
    assert_eq!(weaker.addresses(), ["*:7000", "-[::]:7000"]);
    let (every, _) = read("every", "bind * -::*").unwrap();
    assert_eq!(every.addresses(), ["*:6379", "-[::]:6379"]);
    assert_eq!(config.unixsocket, Some("/tmp/a b".into()));
    assert_eq!((config.threads, config.tcp_keepalive_s), (3, 60));
    assert_eq!(config.slowlog_threshold_us, 5);
    assert_eq!((config.output_hard_max, config.subscriber_output_max), (1 << 20, 2 << 20));
    assert_eq!(notes, ["redis.conf, line 12: the soft limit of pubsub has no effect here"]);
}

/// The uncommented lines of the files that come with Redis 6.2, 7.2 and 7.4. They were once refused.
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

/// The comments of Redis 7's files, at the value that holds anyway, and the output of
/// CONFIG REWRITE and `CONFIG GET *`. Lines that ask for nothing were once refused by their names.
#[test]
fn redis_defaults_ask_for_nothing() {
    let no_effect = "acl-pubsub-default resetchannels\nenable-module-command no\n\
        min-replicas-to-write 0\nmin-replicas-max-lag 10\nmin-slaves-to-write 0\n\
        replica-read-only yes\nslave-serve-stale-data yes\ntls-cluster no\nTLS-Cluster NO\nbind-source-addr \"\"\ntls-ca-cert-dir \"\"\ntls-ciphers \"\"\ntls-ciphersuites \"\"\n\
        tls-client-cert-file \"\"\ntls-client-key-file \"\"\ntls-client-key-file-pass \"\"\n\
        tls-key-file-pass \"\"\ntls-prefer-server-ciphers no\nsupervised no\nsyslog-enabled no\n\
        user default on nopass ~* &* +@all\nuser default on nopass sanitize-payload ~* &* +@all\n";
    let taken = "bind * -::*\nenable-protected-configs no\nenable-debug-command no\nunixsocket \"\"\n\
        unixsocketperm 700\ntls-port 0\ntls-cert-file \"\"\ntls-key-file \"\"\ntls-ca-cert-file \"\"\n\
        tls-auth-clients yes\ntls-protocols \"\"\ntls-protocols \"TLSv1.2 TLSv1.3\"\nsave \"\"\naclfile \"\"\n\
        requirepass \"\"\ntracking-table-max-keys 1000000\nmaxclients 10000\nmaxmemory 0\n\
        maxmemory-policy noeviction\nmaxmemory-clients 0\nio-threads 1\nlua-time-limit 5000\n\
        busy-reply-threshold 5000\ncluster-enabled no\nclient-query-buffer-limit 1gb\n\
        proto-max-bulk-len 512mb\nreplicaof no one\nreplicaof \"\"\nslaveof no one\nmasterauth \"\"\n\
        masteruser \"\"\ntls-replication no\nreplica-priority 100\nrepl-timeout 60\nclient-output-buffer-limit normal 0 0 0 slave 268435456 67108864 60\n";
    let (config, notes) = read("defaults", &format!("{no_effect}{taken}")).unwrap();
    assert!(notes.iter().all(|note| note.ends_with(" has no effect here")), "{notes:?}");
    assert_eq!(notes.len(), no_effect.lines().count());
    assert_eq!((config.tls, config.requirepass), (TlsSettings::default(), Secret::default()));
    // The same directives with another value still ask for something.
    for text in [
        "tls-cluster yes",
        "min-replicas-to-write 1",
        "user default on nopass ~a &* +@all",
        "replica-read-only no",
        "slave-serve-stale-data no",
    ] {
        assert!(read("asks", text).unwrap_err().contains("asks for"), "{text}");
    }
}

#[test]
fn lines_that_only_tune_redis_are_reported() {
    let text = "databases 16\nhz 10\nPidfile x\nmaxclients 7\nsave \"\"";
    let (config, notes) = read("told", text).unwrap();
    assert_eq!(config.maxclients, 7);
    assert_eq!(config.databases, 16);
    let lines = ["line 2: hz", "line 3: pidfile"];
    assert_eq!(notes, lines.map(|line| format!("redis.conf, {line} has no effect here")));
}

/// With the file that Debian has for Redis, nothing was once kept, and with `maxmemory` alone keys were evicted.
#[test]
fn where_the_file_is_silent_redis_defaults_hold() {
    let (config, notes) =
        read("silent", "maxmemory 100mb\nappendonly no\ndir /tmp/kept\n").unwrap();
    assert_eq!(config.eviction.policy, EvictionPolicy::NoEviction);
    assert!(config.log.is_on, "Redis keeps snapshots by default");
    assert_eq!(
        (config.log.when, config.log.data.as_path()),
        (AckWhen::Handed, Path::new("/tmp/kept"))
    );
    let points = config.log.snapshots.points.iter().map(|point| (point.seconds, point.changes));
    assert_eq!(points.collect::<Vec<_>>(), [(3600, 1), (300, 100), (60, 10_000)]);
    assert!(notes[0].contains("log async") && notes[0].contains("/tmp/kept"), "{notes:?}");
    assert_eq!(config.addresses(), ["*:6379", "-[::]:6379"]);
    assert!(config.protected_mode);
    assert_eq!(config.client_memory_max, 0);
    assert_eq!((config.lua_time_ms, config.busy_reply_ms), (0, 5_000));
    // The file wins.
    let text = "save \"\"\nmaxmemory-policy allkeys-lru\nbind 127.0.0.1\nmaxmemory-clients 1gb\n";
    let (config, notes) = read("says", text).unwrap();
    assert_eq!(config.eviction.policy, EvictionPolicy::AllKeysLru);
    assert!(!config.log.is_on && notes.is_empty(), "{notes:?}");
    assert_eq!(
        (config.addresses(), config.client_memory_max),
        (vec!["127.0.0.1:6379".to_string()], 1 << 30)
    );
    for (text, when) in [("appendonly yes\n", AckWhen::Written), ("log sync\n", AckWhen::Synced)] {
        let (config, notes) = read("when", text).unwrap();
        assert!(
            config.log.is_on && config.log.when == when && notes.is_empty(),
            "{text}: {notes:?}"
        );
    }
    let (config, notes) = read("off", "log off\n").unwrap();
    assert!(!config.log.is_on && notes.is_empty(), "{notes:?}");
}

/// It once ended scripts, and their writes stayed; Redis only answers BUSY.
#[test]
fn the_time_limit_of_redis_ends_no_script() {
    let (config, notes) = read("lua", "save \"\"\nlua-time-limit 700\n").unwrap();
    assert_eq!((config.lua_time_ms, config.busy_reply_ms), (0, 700));
    assert_eq!(notes, [""; 0]);
}

#[test]
fn files_of_redis_in_the_folder_are_named() {
    let folder = std::env::temp_dir().join(format!("hotring-redis-files-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("my.rdb"), "REDIS0011").unwrap();
    std::fs::create_dir(folder.join("appendonlydir")).unwrap();
    let text = format!("dir {}\ndbfilename my.rdb\nappendonly yes\n", folder.display());
    let (_, notes) = read("left", &text).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let rdb = folder.join("my.rdb").display().to_string();
    let wanted = format!(
        "{rdb} belongs to Redis and is not loaded; import its keys with: hotring import {rdb}"
    );
    assert!(notes.contains(&wanted), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("appendonlydir belongs to Redis")), "{notes:?}");
}

#[test]
fn lines_that_ask_for_missing_features_are_refused() {
    let refused = |text: &str| read("refused", text).unwrap_err();
    assert_eq!(
        refused("port 1\nbind-source-addr 127.0.0.1"),
        "redis.conf, line 2: bind-source-addr asks for a source address of links, which this server does not have; remove \
         the line to start without it"
    );
    assert!(
        refused("appendfsync often").contains("appendfsync must be one of the following: everysec")
    );
    assert!(refused("save 900").contains("': Invalid save parameters"));
    assert!(refused("maxcleints 5").contains("did you mean 'maxclients'?"));
    assert!(refused("port \"1").starts_with("redis.conf, line 1: "));
    assert!(refused("client-output-buffer-limit normal 1mb").contains("Wrong number of arguments"));
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
fn values_without_effect_are_kept_for_config_get() {
    let text = "hz 25\nslave-announce-port 7\ndynamic-hz maybe\nrepl-backlog-ttl 9\n";
    let (config, notes) = read("kept", text).unwrap();
    let shown = |wanted: &str| config.passive.shown().find(|(name, _)| *name == wanted).unwrap().1;
    assert_eq!((shown("hz"), shown("dynamic-hz")), ("25", "yes"));
    assert_eq!((shown("replica-announce-port"), shown("slave-announce-port")), ("7", "7"));
    assert_eq!((shown("repl-backlog-ttl"), shown("replica-announced")), ("9", "yes"));
    let odd =
        "redis.conf, line 3: dynamic-hz has no effect here, and 'maybe' is invalid for it in Redis";
    assert_eq!(notes[2], odd);
}

/// Each line adds to those before it.
#[test]
fn points_of_snapshots_are_taken() {
    let points = |text: &str| {
        let (config, _) = read("points", text).unwrap();
        (find("save").unwrap().get)(&config)
    };
    assert_eq!(points("save 900 1\n"), "900 1");
    assert_eq!(points("save 900 1\nsave 300 10\n"), "900 1 300 10");
    assert_eq!(points("save 900 1 300 10\nsave \"\"\nsave 60 5\n"), "60 5");
    assert_eq!(points("save 900 1\nsave \"\"\n"), "");
    assert_eq!(points("port 7000\n"), "3600 1 300 100 60 10000");
}
