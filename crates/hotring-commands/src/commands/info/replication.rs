//! The section `Replication`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Facts, field};
use crate::state::replication::attached::ReplicaStatus;
use crate::state::replication::link::{Copied, LinkStatus};

pub(super) fn replication(f: &Facts<'_>, text: &mut String) {
    let replication = &f.server.replication;
    match replication.shown_source() {
        None => field(text, "role", "master"),
        Some(source) => {
            field(text, "role", "slave");
            field(text, "master_host", &source.host);
            field(text, "master_port", source.port);
            link(f, &replication.link_status(), text);
        }
    }
    let replicas = replication.replicas();
    field(text, "connected_slaves", replicas.len());
    for (i, replica) in replicas.iter().enumerate() {
        let ReplicaStatus { ip, port, applied, copied, lag_bytes, .. } = replica;
        let (state, lag) = (replica.state(), replica.lag.as_secs());
        let known = format_args!("ip={ip},port={port},state={state},offset={applied},lag={lag}");
        let own = format_args!("lag_bytes={lag_bytes},copied_bytes={copied}");
        field(text, &format!("slave{i}"), format_args!("{known},{own}"));
    }
    let in_sync = replicas.iter().filter(|replica| replica.is_in_sync).count();
    field(text, "in_sync_replicas", in_sync);
    let failover = if replication.is_failing_over() { "waiting-for-sync" } else { "no-failover" };
    field(text, "master_failover_state", failover);
    field(text, "master_replid", replication.id());
    field(text, "master_replid2", "0".repeat(40));
    field(text, "master_repl_offset", f.server.stream_position());
    field(text, "second_repl_offset", -1);
    let backlog = f.server.persist.durability.backlog().filter(|backlog| backlog.is_on());
    let status = backlog.map(|backlog| backlog.status()).unwrap_or_default();
    field(text, "repl_backlog_active", u8::from(backlog.is_some()));
    field(text, "repl_backlog_size", f.config.replication.backlog_max);
    field(text, "repl_backlog_first_byte_offset", status.start + u64::from(backlog.is_some()));
    field(text, "repl_backlog_histlen", status.last - status.start);
    field(text, "repl_backlog_bytes", status.bytes);
}

/// The link of a replica.
fn link(f: &Facts<'_>, status: &LinkStatus, text: &mut String) {
    let LinkStatus { down, silent, received, copied, ref failure, .. } = *status;
    let (is_up, is_copying) = (status.is_up(), status.is_copying());
    field(text, "master_link_status", if is_up { "up" } else { "down" });
    let seconds = |time: std::time::Duration| time.as_secs() as i64;
    let silent = silent.map_or(-1, seconds);
    field(text, "master_last_io_seconds_ago", if is_up { silent } else { -1 });
    field(text, "master_sync_in_progress", u8::from(is_copying));
    field(text, "slave_read_repl_offset", received.max(f.server.stream_position()));
    field(text, "slave_repl_offset", f.server.stream_position());
    let redis = &f.server.replication.redis;
    if redis.is_on() {
        // ORDERING: Relaxed, figures.
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        field(text, "redis_link_full_copies", figure(&redis.full_copies));
        field(text, "redis_link_partial_copies", figure(&redis.partial_copies));
        field(text, "redis_link_copied_keys", copied.keys);
        field(text, "redis_link_unknown", figure(&redis.unknown));
        let kinds = redis.unknown_kinds();
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind}={count}")).collect();
        field(text, "redis_link_unknown_kinds", kinds.join(","));
    }
    if is_copying {
        let Copied { bytes, bytes_total, keys, keys_total } = copied;
        // As in Redis without a file: most primaries do not know the length before the end.
        let left = bytes_total.checked_sub(bytes).filter(|_| bytes_total > 0);
        field(text, "master_sync_total_bytes", bytes_total);
        field(text, "master_sync_read_bytes", bytes);
        field(text, "master_sync_left_bytes", left.map_or(-1, |left| left as i64));
        field(text, "master_sync_total_keys", keys_total);
        field(text, "master_sync_read_keys", keys);
        field(text, "master_sync_perc", format_args!("{:.2}", 100.0 * copied.progress()));
        field(text, "master_sync_last_io_seconds_ago", silent);
    }
    if let Some(down) = down {
        field(text, "master_link_down_since_seconds", seconds(down));
    }
    if let Some(failure) = failure {
        field(text, "master_link_error", failure);
    }
    field(text, "slave_priority", f.config.replication.priority);
    field(text, "slave_read_only", 1);
    field(text, "replica_announced", 1);
}
