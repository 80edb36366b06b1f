//! The metrics of a node of a cluster; a server outside a cluster has no values of them.

use std::fmt::Display;

use hotring_cluster::moves::Phase;
use hotring_commands::observe::counters::Group;
use hotring_commands::state::cluster_facts::ClusterFacts;
use hotring_commands::state::moves::MoveStatus;

use super::{Figures, Lines, Part, counter, gauge};

pub(super) static PARTS: &[Part] = &[
    gauge("cluster_role", "1, with the role by the records as a label", |f, l| {
        if let Some(facts) = &f.cluster {
            l.labelled(&[("role", facts.role)], 1);
        }
    }),
    gauge("cluster_nodes", "Nodes in the records, by whether their leases live", |f, l| {
        if let Some(facts) = &f.cluster {
            let (nodes, alive) = facts.nodes();
            l.labelled(&[("state", "alive")], alive);
            l.labelled(&[("state", "gone")], nodes - alive);
        }
    }),
    gauge("cluster_shards", "Shards in the records", |f, l| {
        value(f, l, |facts| facts.directory.shards.len());
    }),
    gauge("cluster_slots_owned", "Slots of this node's shard", |f, l| {
        value(f, l, |facts| facts.slots_owned);
    }),
    gauge("cluster_slots_unserved", "Slots without a shard whose primary lives", |f, l| {
        value(f, l, |facts| facts.slots_unserved);
    }),
    gauge("cluster_epoch", "The last epoch of this node's shard; 0 without one", |f, l| {
        value(f, l, |facts| facts.epoch);
    }),
    gauge("cluster_copies", "Nodes of this node's shard", |f, l| {
        value(f, l, |facts| facts.copies);
    }),
    gauge(
        "cluster_copies_in_sync",
        "Nodes of this node's shard that have every acknowledged write",
        |f, l| value(f, l, |facts| facts.copies_in_sync),
    ),
    gauge("cluster_may_answer", "1 while this node may answer requests for its data", |f, l| {
        value(f, l, |facts| u8::from(facts.may_answer));
    }),
    counter(
        "cluster_promotions_total",
        "Times that this node became the primary of its shard",
        |f, l| value(f, l, |facts| facts.promotions),
    ),
    counter(
        "cluster_recoveries_total",
        "Times that it became that as the node with the most, after all nodes of the shard had been started again",
        |f, l| value(f, l, |facts| facts.recoveries),
    ),
    gauge(
        "cluster_replicas_given_up",
        "Replicas that this primary no longer waits for and that are not in sync",
        |f, l| value(f, l, |facts| facts.given_up),
    ),
    counter(
        "cluster_joins_given_up_total",
        "Times that this node gave up a replica before it was in sync",
        |f, l| value(f, l, |facts| facts.joins_given_up),
    ),
    gauge("cluster_moves", "Moves that give slots of this primary away, by their phase", |f, l| {
        if let Some(facts) = &f.cluster {
            for phase in Phase::ALL {
                let is_so = |status: &&MoveStatus| status.phase == Some(phase);
                l.labelled(&[("phase", phase.name())], facts.moves.iter().filter(is_so).count());
            }
        }
    }),
    counter("cluster_move_bytes_total", "Bytes sent to other shards to give them slots", |f, l| {
        value(f, l, |facts| facts.move_bytes)
    }),
    gauge(
        "cluster_mirrored_keys",
        "Keys of this node of which proxies may answer reads",
        |f, l| {
            value(f, l, |facts| facts.mirrors.keys);
        },
    ),
    counter(
        "cluster_mirror_hits_total",
        "Reads of this node's keys that proxies answered",
        |f, l| {
            value(f, l, |facts| facts.mirrors.hits);
        },
    ),
    counter(
        "cluster_mirror_revocations_total",
        "Writes that waited until proxies had dropped their key",
        |f, l| value(f, l, |facts| facts.mirrors.revocations),
    ),
    counter("cluster_mirror_wait_seconds_total", "The time for which they waited", |f, l| {
        value(f, l, |facts| facts.mirrors.waited.as_secs_f64());
    }),
    gauge("cluster_registered", "1 while this node has a lease of the coordinator", |f, l| {
        value(f, l, |facts| u8::from(facts.is_registered));
    }),
    gauge("cluster_lease_age_seconds", "Time since the lease was granted or renewed", |f, l| {
        let age = f.cluster.as_ref().and_then(|facts| facts.coordinator.lease_age);
        age.into_iter().for_each(|age| l.value(age.as_secs_f64()));
    }),
    gauge("coordinator_up", "1 while the coordinator answers this node", |f, l| {
        value(f, l, |facts| u8::from(facts.coordinator.reachable_since.is_some()));
    }),
    gauge(
        "coordinator_up_since_seconds",
        "Since when the coordinator has answered this node without a failure, in Unix seconds; 0 while it does not answer",
        |f, l| value(f, l, |facts| facts.coordinator.reachable_since.unwrap_or(0) as f64 / 1000.0),
    ),
    gauge("coordinator_silent_seconds", "Time since the coordinator's last answer", |f, l| {
        let silent = f.cluster.as_ref().and_then(|facts| facts.coordinator.silent);
        silent.into_iter().for_each(|silent| l.value(silent.as_secs_f64()));
    }),
    counter("coordinator_requests_total", "Requests to the coordinator", |f, l| {
        value(f, l, |facts| facts.coordinator.requests);
    }),
    counter(
        "coordinator_failures_total",
        "Requests to the coordinator that got no answer",
        |f, l| value(f, l, |facts| facts.coordinator.failures),
    ),
    gauge("cluster_message_links", "Other nodes that messages of PUBLISH reach", |f, l| {
        value(f, l, |facts| facts.messages.links);
    }),
    counter(
        "cluster_messages_total",
        "Messages for other nodes, by what became of them",
        |f, l| {
            if let Some(facts) = &f.cluster {
                l.labelled(&[("state", "sent")], facts.messages.sent);
                l.labelled(&[("state", "dropped")], facts.messages.dropped);
            }
        },
    ),
    Part::Counters(Group::Cluster),
];

/// Writes a value of a node of a cluster.
fn value<T: Display>(f: &Figures<'_>, l: &mut Lines<'_>, value: fn(&ClusterFacts) -> T) {
    if let Some(facts) = &f.cluster {
        l.value(value(facts));
    }
}
