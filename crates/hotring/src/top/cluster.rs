//! The lines about the cluster to which a server belongs: its own place, all slots as a picture, and the shards.

use std::collections::BTreeMap;

use super::sample::{Node, Sample};
use super::screen::{bytes, count};

/// Slots of a cluster, and the cells of the picture.
const SLOTS: usize = 16_384;
const CELLS: usize = 64;

/// Most shards shown.
const SHARDS_SHOWN: usize = 12;

/// Most moves of slots shown.
const MOVES_SHOWN: usize = 8;

/// The names of shards in the picture, in the order of their first slots.
const NAMES: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The name of shards that come after those with a name of their own.
const OTHER: char = '#';

/// The lines; none if the server belongs to no cluster.
pub(super) fn cluster(sample: &Sample) -> Vec<String> {
    if sample.text("cluster_enabled") != "1" {
        return Vec::new();
    }
    let mut primaries: Vec<&Node> =
        sample.nodes.iter().filter(|node| !node.slots.is_empty()).collect();
    primaries.sort_by_key(|node| node.slots[0]);
    let mut lines = vec![own(sample), format!("slots      {}", picture(&primaries))];
    let shown = primaries.iter().enumerate().take(SHARDS_SHOWN);
    lines.extend(shown.map(|(at, primary)| shard(at, primary, &sample.nodes)));
    if primaries.len() > SHARDS_SHOWN {
        lines.push(format!("shards     {} more", primaries.len() - SHARDS_SHOWN));
    }
    lines.extend(moves(sample));
    lines
}

/// The moves of slots, as the server lists them.
fn moves(sample: &Sample) -> Vec<String> {
    let listed = sample.moves();
    let mut lines: Vec<_> = listed.iter().take(MOVES_SHOWN).map(moved).collect();
    let all = sample.number("cluster_moves") as usize;
    if all > lines.len() {
        lines.push(format!("moves      {} more", all - lines.len()));
    }
    lines
}

fn moved(fields: &BTreeMap<String, String>) -> String {
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    let number = |name: &str| field(name).parse().unwrap_or(0.0);
    let sent = match field("bytes") {
        "" => String::new(),
        _ => format!(
            "   {} of {} keys looked at   {} keys and {} sent   {}/s",
            count(number("keys_looked_at")),
            count(number("keys_total")),
            count(number("keys")),
            bytes(number("bytes")),
            bytes(number("bytes_per_sec")),
        ),
    };
    format!(
        "move {:<5} {} slots of shard {} to {}   {}{sent}",
        field("id"),
        field("slot_count"),
        field("from"),
        field("to"),
        field("phase"),
    )
}

/// The place of the server itself.
fn own(sample: &Sample) -> String {
    let text = |name| sample.text(name);
    let coordinator = match text("coordinator_up") {
        "1" => "up".to_string(),
        _ => format!("SILENT for {:.0} s", sample.number("coordinator_silent_ms") / 1000.0),
    };
    format!(
        "cluster    {} of {} nodes live   {} slots unserved   copies in sync: {} of {}   coordinator {coordinator}",
        text("cluster_nodes_alive"),
        text("cluster_nodes"),
        text("cluster_slots_unserved"),
        text("cluster_copies_in_sync"),
        text("cluster_copies"),
    )
}

fn name(at: usize) -> char {
    NAMES.get(at).map_or(OTHER, |name| char::from(*name))
}

/// All slots, each cell with the name of the shard that owns the slot in its middle; a dot if none does.
fn picture(primaries: &[&Node]) -> String {
    let owner = |slot: usize| {
        let owns = |node: &&Node| {
            let mut ranges = node.slots.iter();
            ranges.any(|(first, last)| (usize::from(*first)..=usize::from(*last)).contains(&slot))
        };
        primaries.iter().position(owns)
    };
    let middle = |cell: usize| cell * SLOTS / CELLS + SLOTS / CELLS / 2;
    (0..CELLS).map(|cell| owner(middle(cell)).map_or('.', name)).collect()
}

fn shard(at: usize, primary: &Node, nodes: &[Node]) -> String {
    let replicas = nodes.iter().filter(|node| node.primary.as_ref() == Some(&primary.id));
    let replicas: Vec<String> = replicas.map(told).collect();
    format!(
        "shard {}    {}   {} slots   epoch {}   replicas: {}",
        name(at),
        told(primary),
        primary.slot_count(),
        primary.epoch,
        if replicas.is_empty() { "none".to_string() } else { replicas.join(", ") },
    )
}

fn told(node: &Node) -> String {
    let me = if node.is_me { " (this)" } else { "" };
    let failed = if node.has_failed { " NOT ALIVE" } else { "" };
    format!("{}{me}{failed}", node.address)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_slots_are_a_picture_of_their_shards() {
        let info = "cluster_enabled:1\r\ncluster_nodes:4\r\ncluster_nodes_alive:3\r\ncluster_slots_unserved:4096\r\n\
            cluster_copies:2\r\ncluster_copies_in_sync:1\r\ncoordinator_up:0\r\ncoordinator_silent_ms:4200\r\n\
            cluster_moves:3\r\ncluster_move_0:id=7,from=0,to=1,slot_count=3,phase=copying,keys_total=20000,\
            keys_looked_at=900,keys=30,bytes=2048,bytes_per_sec=1024,slots=5-6,9\r\n\
            cluster_move_1:id=8,from=1,to=0,slot_count=1,phase=elsewhere,slots=7\r\n";
        let mut sample = Sample::read(Instant::now(), info, "");
        sample.read_nodes(
            "c h:3@1 master - 0 0 9 connected 4096-8191 12288\n\
             a h:1@1 myself,master - 0 0 7 connected 0-4095\n\
             b h:2@1 slave,fail a 0 0 7 disconnected\n\
             d h:4@1 master - 0 0 0 connected\n",
        );
        let dots = ".".repeat(32);
        assert_eq!(
            cluster(&sample),
            [
                "cluster    3 of 4 nodes live   4096 slots unserved   copies in sync: 1 of 2   coordinator SILENT for 4 s",
                &format!("slots      {}{}{dots}", "A".repeat(16), "B".repeat(16))[..],
                "shard A    h:1 (this)   4096 slots   epoch 7   replicas: h:2 NOT ALIVE",
                "shard B    h:3   4097 slots   epoch 9   replicas: none",
                "move 7     3 slots of shard 0 to 1   copying   900 of 20.0k keys looked at   30 keys and 2.00K sent   1.00K/s",
                "move 8     1 slots of shard 1 to 0   elsewhere",
                "moves      1 more",
            ]
        );
        assert!(cluster(&Sample::read(Instant::now(), "cluster_enabled:0\r\n", "")).is_empty());
    }
}
