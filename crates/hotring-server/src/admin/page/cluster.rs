//! The part of the status page about the node's cluster: a bar of all slots, and the shards with their nodes.

use std::time::Duration;

use hotring_cluster::directory::{Directory, Wanted, sets};
use hotring_cluster::{NodeId, SLOTS, Shard, ShardId, SlotSet};
use hotring_commands::host::clock;
use hotring_commands::state::cluster_facts::ClusterFacts;
use hotring_commands::state::moves::{MoveStatus, Sent};
use hotring_commands::state::replication::attached::ReplicaStatus;

use super::{Figures, Html, Plain, duration, human};

/// Size of the bar of slots.
const BAR: (f64, f64) = (720.0, 28.0);

/// Most moves of slots shown.
const MOVES_SHOWN: usize = 32;

/// Shows the cluster, if the server is a node of one.
pub(super) fn cluster(f: &Figures<'_>, html: &mut Html) {
    let Some(facts) = &f.cluster else { return };
    html.heading("Cluster");
    warnings(facts, html);
    own(facts, html);
    let slots = sets(&facts.directory.owners);
    bar(slots.iter(), html);
    html.add(format_args!(
        "<table>\n<tr><th>shard<th class=n>slots<th class=n>epoch<th>node<th>zone<th>role<th>state<th class=n>lag\n"
    ));
    let replicas = f.facts.server.replication.replicas();
    for (id, (_, shard)) in &facts.directory.shards {
        let slots = slots.get(id).map_or(0, SlotSet::len);
        shard_rows(&facts.directory, (*id, shard, slots), &replicas, html);
    }
    let is_idle = |id: &&NodeId| facts.directory.shard_of_node(**id).is_none();
    for id in facts.directory.nodes.keys().filter(is_idle) {
        html.add(format_args!("<tr><td>-<td><td>"));
        node_cells(&facts.directory, *id, "idle", &replicas, html);
    }
    html.add(format_args!("</table>\n"));
    moves(facts, html);
}

/// The moves of slots that the records want. What a move has sent is known where the slots come from.
fn moves(facts: &ClusterFacts, html: &mut Html) {
    if facts.moves.is_empty() {
        return;
    }
    let row = |status: &&MoveStatus| {
        let Wanted { from, to, slots } = &status.wanted;
        let sent = status.sent.map(|sent| {
            let Sent { keys_total, keys_looked_at, keys, bytes, bytes_per_second } = sent;
            let looked_at = format!("{keys_looked_at} of {keys_total}");
            let rate = format!("{}/s", human(bytes_per_second));
            [looked_at, keys.to_string(), human(bytes), rate]
        });
        let known = [
            status.id.to_string(),
            from.to_string(),
            to.to_string(),
            slots.len().to_string(),
            status.phase_name().to_string(),
        ];
        known.into_iter().chain(sent.unwrap_or_default()).collect::<Vec<_>>()
    };
    let rows: Vec<_> = facts.first_moves(MOVES_SHOWN).iter().map(row).collect();
    html.table(
        &["move", "from", "to", "#slots", "phase", "#keys looked at", "#keys", "#sent", "#rate"],
        &rows,
    );
}

fn warnings(facts: &ClusterFacts, html: &mut Html) {
    let mut warn = |text: String| html.add(format_args!("<p class=warn>{}\n", Plain(&text)));
    if facts.slots_unserved > 0 {
        warn(format!("{} slots have no primary that lives.", facts.slots_unserved));
    }
    if facts.shard.is_some() && !facts.may_answer {
        warn(
            "This node has not heard the other copies of its data: it answers -CLUSTERDOWN.".into(),
        );
    }
    if facts.given_up > 0 {
        warn(format!(
            "{} replicas of this primary are not in sync, and it no longer waits for them: its log says why.",
            facts.given_up
        ));
    }
    if facts.coordinator.reachable_since.is_none() {
        warn("The coordinator does not answer: the records below are the last known.".into());
    }
}

fn own(facts: &ClusterFacts, html: &mut Html) {
    let coordinator = &facts.coordinator;
    let ago = |time: Duration| format!("{:.1} s ago", time.as_secs_f64());
    let answered = coordinator.silent.map_or("never answered".to_string(), |silent| {
        format!(
            "answered {}; {} of {} requests failed",
            ago(silent),
            coordinator.failures,
            coordinator.requests
        )
    });
    let since = coordinator.reachable_since.map_or(String::new(), |at| {
        let ms = clock::unix_ms().saturating_sub(at);
        format!("; without a failure for {}", duration(ms / 1000))
    });
    let mut rows = vec![
        (
            "this node",
            facts.shard.map_or("idle".to_string(), |id| format!("{} of shard {id}", facts.role)),
        ),
        ("copies in sync", format!("{} of {}", facts.copies_in_sync, facts.copies)),
        ("promotions", facts.promotions.to_string()),
        ("coordinator", answered + &since),
        ("lease renewed", coordinator.lease_age.map_or("no lease".to_string(), ago)),
    ];
    if !facts.directory.moves.is_empty() {
        rows.push(("moves of slots", facts.directory.moves.len().to_string()));
    }
    html.facts(&rows);
}

/// Draws all slots, each range in the colour of its shard. What no shard owns stays empty.
fn bar<'s>(slots: impl Iterator<Item = (&'s ShardId, &'s SlotSet)>, html: &mut Html) {
    let (width, height) = BAR;
    html.add(format_args!(
        "<p><svg viewBox=\"0 0 {width} {height}\" width={width} height={height} role=img>\
         <title>The owners of the slots</title>\n"
    ));
    for (id, slots) in slots {
        for (first, last) in slots.ranges() {
            let at = |slot: u32| f64::from(slot) * width / f64::from(SLOTS);
            let x = at(u32::from(*first));
            let wide = at(u32::from(*last) + 1) - x;
            html.add(format_args!(
                "<rect x={x:.2} y=0 width={wide:.2} height={height} fill=\"{}\">\
                 <title>shard {id}: slots {first} to {last}</title></rect>\n",
                colour(*id)
            ));
        }
    }
    html.add(format_args!("</svg>\n"));
}

/// The colour of a shard. Neighbours differ, as each is a golden angle further.
fn colour(shard: ShardId) -> String {
    format!("hsl({:.0},60%,50%)", (f64::from(shard) * 137.508) % 360.0)
}

fn shard_rows(
    directory: &Directory,
    (id, shard, slots): (ShardId, &Shard, usize),
    replicas: &[ReplicaStatus],
    html: &mut Html,
) {
    html.add(format_args!(
        "<tr><td><svg width=12 height=12><rect width=12 height=12 fill=\"{}\"></rect></svg> {id}\
         <td class=n>{slots}<td class=n>{}",
        colour(id),
        shard.epoch.0
    ));
    node_cells(directory, shard.primary.node, "primary", replicas, html);
    for node in &shard.replicas {
        let is_in_sync = shard.in_sync.contains(node);
        let role = if is_in_sync { "replica, in sync" } else { "replica, behind" };
        html.add(format_args!("<tr><td><td><td>"));
        node_cells(directory, *node, role, replicas, html);
    }
}

/// The cells about a node. The lag is known of the replicas that follow this node.
fn node_cells(
    directory: &Directory,
    id: NodeId,
    role: &str,
    replicas: &[ReplicaStatus],
    html: &mut Html,
) {
    let node = directory.node(id);
    let address = node.map_or("unknown".to_string(), |node| format!("{}:{}", node.host, node.port));
    let state = if directory.is_alive(id) { "alive" } else { "NOT ALIVE" };
    let followed = replicas.iter().find(|replica| replica.node == id);
    let lag =
        followed.map_or(String::new(), |replica| format!("{:.1} s", replica.lag.as_secs_f64()));
    html.add(format_args!(
        "<td title={id}>{}<td>{}<td>{role}<td>{state}<td class=n>{lag}\n",
        Plain(&address),
        Plain(node.map_or("", |node| &node.zone[..])),
    ));
}

#[cfg(test)]
mod tests {
    use hotring_cluster::Owners;

    use super::*;

    #[test]
    fn the_bar_shows_each_range_at_its_place() {
        let mut owners = Owners::default();
        (0..4096).for_each(|slot| owners.give(slot, 1));
        (8192..SLOTS).for_each(|slot| owners.give(slot, 2));
        let mut html = Html(String::new());
        bar(sets(&owners).iter(), &mut html);
        let first = "<rect x=0.00 y=0 width=180.00 height=28 fill=\"hsl(138,60%,50%)\"><title>shard 1: slots 0 to 4095";
        let second = "<rect x=360.00 y=0 width=360.00 height=28 fill=\"hsl(275,60%,50%)\"><title>shard 2: slots 8192 to 16383";
        assert!(html.0.contains(first) && html.0.contains(second), "{}", html.0);
        assert_eq!(html.0.matches("<rect").count(), 2);
    }
}
