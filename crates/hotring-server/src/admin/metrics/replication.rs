//! The metrics of replication: the replicas of a primary, the link of a replica, and what only a link to a Redis has.

use std::fmt::Display;
use std::sync::atomic::Ordering;

use hotring_commands::state::replication::attached::{ReplicaStatus, Stage};

use super::{Figures, Lines, Part, counter, gauge};

pub(super) static PARTS: &[Part] = &[
    gauge("replica", "1 if the server follows a primary", |f, l| {
        l.value(u8::from(f.facts.server.replication.is_replica()));
    }),
    gauge("replica_link_up", "1 while a replica follows its primary's stream", |f, l| {
        l.value(u8::from(f.facts.server.replication.link_status().is_up()));
    }),
    gauge("replica_copying", "1 while a replica receives a full copy", |f, l| {
        l.value(u8::from(f.facts.server.replication.link_status().is_copying()));
    }),
    gauge(
        "replica_copy_progress_ratio",
        "Progress of the last full copy that a replica received, from 0 to 1; 0 if its size is unknown",
        |f, l| l.value(f.facts.server.replication.link_status().copied.progress()),
    ),
    gauge("replica_copy_bytes", "Bytes of the last full copy that a replica received", |f, l| {
        l.value(f.facts.server.replication.link_status().copied.bytes);
    }),
    gauge("replica_copy_keys", "Keys of the last full copy that a replica received", |f, l| {
        l.value(f.facts.server.replication.link_status().copied.keys);
    }),
    gauge("replicas_connected", "Replicas that are attached", |f, l| {
        l.value(f.facts.server.replication.replicas().len());
    }),
    gauge("replicas_awaited", "Replicas in in-sync-replicas, if ack is replicated", |f, l| {
        l.value(f.facts.config.replication.awaited().len());
    }),
    gauge(
        "replicas_in_sync",
        "Replicas in in-sync-replicas that keep up, if ack is replicated",
        |f, l| {
            let replicas = f.facts.server.replication.replicas();
            l.value(replicas.iter().filter(|replica| replica.is_in_sync).count());
        },
    ),
    gauge(
        "replication_refuses_writes",
        "1 while a primary answers writes with -NOREPLICAS",
        |f, l| l.value(u8::from(f.facts.server.replication.lacks_replicas())),
    ),
    gauge(
        "replication_lag_bytes",
        "Bytes of the stream that a replica has not applied, about",
        |f, l| by_replica(f, l, |replica| replica.lag_bytes),
    ),
    gauge(
        "replication_lag_seconds",
        "Age of the oldest write that a replica has not applied",
        |f, l| by_replica(f, l, |replica| replica.lag.as_secs_f64()),
    ),
    gauge("replication_online", "1 once a replica has its full copy, 0 before", |f, l| {
        by_replica(f, l, |replica| u8::from(replica.stage == Stage::Online));
    }),
    gauge(
        "replication_copy_bytes",
        "Bytes of the full copy that are sent to a replica; 0 if it needed none",
        |f, l| by_replica(f, l, |replica| replica.copied),
    ),
    counter("replication_full_copies_total", "Full copies that were begun for replicas", |f, l| {
        // ORDERING: Ordering::Relaxed, a figure.
        l.value(f.facts.server.replication.counts.full.load(Ordering::Relaxed));
    }),
    counter("replication_continued_total", "Links of replicas that needed no full copy", |f, l| {
        // ORDERING: Ordering::Relaxed, a figure.
        l.value(f.facts.server.replication.counts.partial.load(Ordering::Relaxed));
    }),
    gauge(
        "replication_backlog_bytes",
        "Bytes of the latest writes in memory for replicas",
        |f, l| {
            let backlog = f.facts.server.persist.durability.backlog();
            l.value(backlog.map_or(0, |backlog| backlog.status().bytes));
        },
    ),
    gauge(
        "redis_link_up",
        "1 while commands of the followed Redis arrive, 0 while they do not",
        |f, l| {
            let replication = &f.facts.server.replication;
            if replication.redis.is_on() {
                l.value(u8::from(replication.link_status().is_up()));
            }
        },
    ),
    gauge(
        "redis_link_position",
        "The place in the stream of the followed Redis up to which everything is applied; compare master_repl_offset there",
        |f, l| {
            if let Some(position) = f.facts.server.replication.redis.position() {
                l.value(position);
            }
        },
    ),
    counter(
        "redis_link_copies_total",
        "Connections to the followed Redis, by what it sent",
        |f, l| {
            let redis = &f.facts.server.replication.redis;
            for (kind, count) in [("full", &redis.full_copies), ("partial", &redis.partial_copies)]
            {
                // ORDERING: Ordering::Relaxed, a figure.
                l.labelled(&[("kind", kind)], count.load(Ordering::Relaxed));
            }
        },
    ),
    gauge(
        "redis_link_unknown",
        "Commands and keys of the followed Redis that hotring lacks",
        |f, l| {
            // ORDERING: Ordering::Relaxed, a figure.
            l.value(f.facts.server.replication.redis.unknown.load(Ordering::Relaxed));
        },
    ),
];

/// Writes a line for each attached replica.
fn by_replica<T: Display>(f: &Figures<'_>, l: &mut Lines<'_>, value: fn(&ReplicaStatus) -> T) {
    for replica in f.facts.server.replication.replicas() {
        l.labelled(&[("replica", &replica.address())], value(&replica));
    }
}
