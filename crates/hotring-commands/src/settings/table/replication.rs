//! Settings of replication.

use crate::settings::config::{Secret, Source, Unknown};
use crate::settings::setting::{Change, Setting};
use crate::settings::values::{boolean, number, one_of, size, yes_no};

pub(super) static REPLICATION: &[Setting] = &[
    Setting {
        name: "replicaof",
        alias: "slaveof",
        placeholder: "HOST PORT",
        help: "Follow this primary as a replica that refuses writes; REPLICAOF changes it while the server runs",
        change: Change::Start,
        get: |c| c.replication.source.as_ref().map(Source::to_string).unwrap_or_default(),
        set: |c, v| Source::parse(v).map(|source| c.replication.source = source),
    },
    Setting {
        name: "masteruser",
        alias: "",
        placeholder: "USER",
        help: "User as which a replica authenticates with its primary; empty: the default user",
        change: Change::Running,
        get: |c| c.replication.user.clone(),
        set: |c, v| {
            c.replication.user = v.to_string();
            Ok(())
        },
    },
    Setting {
        name: "masterauth",
        alias: "",
        placeholder: "PASSWORD",
        help: "Password with which a replica authenticates with its primary; empty: none",
        change: Change::Running,
        get: |c| c.replication.password.reveal().to_string(),
        set: |c, v| {
            c.replication.password = Secret::new(v);
            Ok(())
        },
    },
    Setting {
        name: "tls-replication",
        alias: "",
        placeholder: "yes|no",
        help: "Reach the primary by TLS; its certificate must come from an authority in tls-ca-cert-file",
        change: Change::Running,
        get: |c| yes_no(c.replication.tls),
        set: |c, v| boolean(v).map(|tls| c.replication.tls = tls),
    },
    Setting {
        name: "repl-backlog",
        alias: "repl-backlog-size",
        placeholder: "SIZE",
        help: "Bytes of the latest writes kept in memory once there is a replica, so that one that was away for a \
               moment needs no full copy",
        change: Change::Running,
        get: |c| c.replication.backlog_max.to_string(),
        set: |c, v| size(v, 16 << 10).map(|n| c.replication.backlog_max = n),
    },
    Setting {
        name: "repl-rate",
        alias: "",
        placeholder: "SIZE",
        help: "Most bytes per second of the keys that a full copy sends to a replica; 0: no limit",
        change: Change::Running,
        get: |c| c.replication.copy_rate.to_string(),
        set: |c, v| size(v, 0).map(|n| c.replication.copy_rate = n),
    },
    Setting {
        name: "repl-timeout",
        alias: "",
        placeholder: "SECONDS",
        help: "Close the link between a primary and a replica after this long without a sign of life",
        change: Change::Running,
        get: |c| c.replication.timeout_s.to_string(),
        set: |c, v| number(v, 1, i32::MAX as u64).map(|n| c.replication.timeout_s = n),
    },
    Setting {
        name: "ack",
        alias: "",
        placeholder: "local|replicated",
        help: "When a write is acknowledged: once it is here, as log says (local), or once every replica of \
               in-sync-replicas has applied it as well (replicated, usual in a cluster)",
        change: Change::Running,
        get: |c| if c.replication.is_replicated() { "replicated" } else { "local" }.to_string(),
        set: |c, v| {
            c.replication.replicated = Some(one_of(v, &["local", "replicated"])? == "replicated");
            Ok(())
        },
    },
    Setting {
        name: "in-sync-replicas",
        alias: "",
        placeholder: "IP:PORT ...",
        help: "Replicas that must have each write before it is acknowledged, by the addresses at which they listen; no \
               replica leaves this list by itself: while one is missing, writes are refused",
        change: Change::Running,
        get: |c| {
            let all = c.replication.in_sync.iter();
            all.map(|Source { host, port }| format!("{host}:{port}")).collect::<Vec<_>>().join(" ")
        },
        set: |c, v| {
            let all = v.split_whitespace().map(|word| Source::parse(word).map(Option::into_iter));
            let all: Vec<_> = all.collect::<Result<_, _>>()?;
            c.replication.in_sync = all.into_iter().flatten().collect();
            Ok(())
        },
    },
    Setting {
        name: "min-in-sync",
        alias: "",
        placeholder: "N",
        help: "Refuse writes while fewer than this many of in-sync-replicas follow; 0: no limit",
        change: Change::Running,
        get: |c| c.replication.min_in_sync.to_string(),
        set: |c, v| number(v, 0, 1024).map(|n| c.replication.min_in_sync = n),
    },
    Setting {
        name: "lease",
        alias: "",
        placeholder: "MS",
        help: "A primary asks its replicas for a sign of life each eighth of this time; in a cluster, where 2000 is usual, \
               it is replaced after this time",
        change: Change::Running,
        get: |c| c.replication.lease().as_millis().to_string(),
        set: |c, v| number(v, 1_000, 3_600_000).map(|n| c.replication.lease_ms = Some(n)),
    },
    Setting {
        name: "in-sync-lag",
        alias: "",
        placeholder: "MS",
        help: "A replica of in-sync-replicas that is further behind, or silent for longer, counts as missing; must be \
               at least a quarter of lease, and below 0.9 of it",
        change: Change::Running,
        get: |c| c.replication.in_sync_lag().as_millis().to_string(),
        set: |c, v| number(v, 250, 3_600_000).map(|n| c.replication.in_sync_lag_ms = Some(n)),
    },
    Setting {
        name: "replicaof-unknown",
        alias: "",
        placeholder: "stop|skip",
        help: "What a Redis primary has and hotring has not, such as streams: stop following in front of it, or skip \
               it; it is counted and named either way",
        change: Change::Running,
        get: |c| if c.replication.unknown == Unknown::Skip { "skip" } else { "stop" }.to_string(),
        set: |c, v| {
            let skips = one_of(v, &["stop", "skip"])? == "skip";
            c.replication.unknown = if skips { Unknown::Skip } else { Unknown::Stop };
            Ok(())
        },
    },
    Setting {
        name: "replica-priority",
        alias: "slave-priority",
        placeholder: "N",
        help: "Rank of this server when Redis Sentinel chooses a replica for promotion: the lowest number goes first, 0 \
               is never chosen",
        change: Change::Running,
        get: |c| c.replication.priority.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u32).map(|n| c.replication.priority = n),
    },
];
