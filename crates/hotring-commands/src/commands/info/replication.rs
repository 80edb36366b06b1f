//! The section `Replication`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Facts, NO_BACKLOG, constants, field};
use crate::state::replication::link::{LinkStage, LinkStatus};

pub(super) fn replication(f: &Facts<'_>, text: &mut String) {
    let replication = &f.server.replication;
    match replication.source() {
        None => field(text, "role", "master"),
        Some(source) => {
            field(text, "role", "slave");
            field(text, "master_host", &source.host);
            field(text, "master_port", source.port);
            link(f, &replication.link_status(), text);
        }
    }
    field(text, "connected_slaves", 0);
    field(text, "master_failover_state", "no-failover");
    field(text, "master_replid", replication.id());
    field(text, "master_replid2", "0".repeat(40));
    constants(text, &["master_repl_offset"], &[("second_repl_offset", "-1")]);
    constants(text, NO_BACKLOG, &[]);
}

/// The link of a replica.
fn link(f: &Facts<'_>, status: &LinkStatus, text: &mut String) {
    let LinkStatus { stage, down, silent, copied, copy_len, ref failure } = *status;
    let is_up = stage == LinkStage::Connected;
    field(text, "master_link_status", if is_up { "up" } else { "down" });
    let seconds = |time: std::time::Duration| time.as_secs() as i64;
    let silent = silent.map_or(-1, seconds);
    field(text, "master_last_io_seconds_ago", if is_up { silent } else { -1 });
    let is_copying = stage == LinkStage::Copying;
    field(text, "master_sync_in_progress", u8::from(is_copying));
    let redis = &f.server.replication.redis;
    let position = redis.position().unwrap_or(0);
    field(text, "slave_read_repl_offset", position);
    field(text, "slave_repl_offset", position);
    if redis.is_on() {
        // ORDERING: Relaxed, figures.
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        field(text, "redis_link_full_copies", figure(&redis.full_copies));
        field(text, "redis_link_partial_copies", figure(&redis.partial_copies));
        field(text, "redis_link_copied_keys", figure(&redis.copy_keys));
        field(text, "redis_link_unknown", figure(&redis.unknown));
        let kinds = redis.unknown_kinds();
        let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind}={count}")).collect();
        field(text, "redis_link_unknown_kinds", kinds.join(","));
    }
    if is_copying {
        field(text, "master_sync_total_bytes", copy_len);
        field(text, "master_sync_read_bytes", copied);
        field(text, "master_sync_left_bytes", copy_len - copied);
        let percent = copied as f64 * 100.0 / copy_len.max(1) as f64;
        field(text, "master_sync_perc", format_args!("{percent:.2}"));
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
