//! The section `Cluster`. Redis has its first field only.

use std::time::Duration;

use hotring_cluster::directory::Wanted;

use super::{Facts, counters, field};
use crate::state::cluster_facts::ClusterFacts;
use crate::state::moves::Sent;

/// Most moves of slots that are listed.
const MOVES_SHOWN: usize = 16;

pub(super) fn cluster(f: &Facts<'_>, text: &mut String) {
    field(text, "cluster_enabled", u8::from(f.server.cluster.is_some()));
    let Some(facts) = ClusterFacts::collect(f.server) else { return };
    let (nodes, alive) = facts.nodes();
    field(text, "cluster_role", facts.role);
    field(text, "cluster_shard", facts.shard.map_or(-1, i64::from));
    field(text, "cluster_shard_epoch", facts.epoch);
    field(text, "cluster_data_epoch", facts.data_epoch);
    field(text, "cluster_slots_owned", facts.slots_owned);
    field(text, "cluster_copies", facts.copies);
    field(text, "cluster_copies_in_sync", facts.copies_in_sync);
    field(text, "cluster_may_answer", u8::from(facts.may_answer));
    field(text, "cluster_promotions", facts.promotions);
    field(text, "cluster_recoveries", facts.recoveries);
    field(text, "cluster_replicas_given_up", facts.given_up);
    field(text, "cluster_joins_given_up", facts.joins_given_up);
    field(text, "cluster_move_bytes", facts.move_bytes);
    moves(&facts, text);
    field(text, "cluster_shards", facts.directory.shards.len());
    field(text, "cluster_nodes", nodes);
    field(text, "cluster_nodes_alive", alive);
    field(text, "cluster_slots_unserved", facts.slots_unserved);
    let coordinator = &facts.coordinator;
    let ms = |time: Option<Duration>| time.map_or(-1, |time| time.as_millis() as i64);
    field(text, "cluster_registered", u8::from(facts.is_registered));
    field(text, "cluster_lease_age_ms", ms(coordinator.lease_age));
    field(text, "coordinator_up", u8::from(coordinator.reachable_since.is_some()));
    field(text, "coordinator_up_since", coordinator.reachable_since.unwrap_or(0) / 1000);
    field(text, "coordinator_silent_ms", ms(coordinator.silent));
    field(text, "coordinator_requests", coordinator.requests);
    field(text, "coordinator_failures", coordinator.failures);
    let messages = &facts.messages;
    field(text, "cluster_message_links", messages.links);
    field(text, "cluster_messages_sent", messages.sent);
    field(text, "cluster_messages_dropped", messages.dropped);
    let mirrors = &facts.mirrors;
    field(text, "cluster_mirrored_keys", mirrors.keys);
    field(text, "cluster_mirrors_held", mirrors.held);
    field(text, "cluster_mirror_grants", mirrors.grants);
    field(text, "cluster_mirror_hits", mirrors.hits);
    field(text, "cluster_mirror_revocations", mirrors.revocations);
    field(text, "cluster_mirror_wait_usec", mirrors.waited.as_micros());
    counters(f, "Cluster", text);
}

/// Each move in a line. The slots come last, as they have commas.
fn moves(facts: &ClusterFacts, text: &mut String) {
    field(text, "cluster_moves", facts.moves.len());
    for (at, status) in facts.first_moves(MOVES_SHOWN).into_iter().enumerate() {
        let Wanted { from, to, slots } = &status.wanted;
        let sent = status.sent.map_or(String::new(), |sent| {
            let Sent { keys_total, keys_looked_at, keys, bytes, bytes_per_second } = sent;
            format!(
                "keys_total={keys_total},keys_looked_at={keys_looked_at},keys={keys},bytes={bytes},\
                 bytes_per_sec={bytes_per_second},"
            )
        });
        let (id, count, phase) = (status.id, slots.len(), status.phase_name());
        let known = format_args!("id={id},from={from},to={to},slot_count={count},phase={phase}");
        field(text, &format!("cluster_move_{at}"), format_args!("{known},{sent}slots={slots}"));
    }
}
