//! `hotring cluster status`: the nodes, shards and slots of a cluster, as the coordinator has them.

use std::fmt::Write as _;

use clap::{ArgMatches, Command};
use hotring_cluster::directory::{Directory, Replacing, sets};
use hotring_cluster::{NodeId, SLOTS, Shard, ShardId};

use super::moving::shown;
use super::records::{Records, address_args};

/// The subcommand and its flags.
pub(super) fn cli() -> Command {
    Command::new("status")
        .about("Show the nodes, shards and slots of a cluster")
        .after_help("Exit codes: 0 if each shard has a primary that is alive, 1 if not")
        .args(address_args())
}

/// Prints the status.
pub(super) fn run(flags: &ArgMatches) -> Result<(), String> {
    let directory = Records::connect(flags)?.read()?;
    print!("{}", text(&directory));
    let dead = |(_, shard): &&(_, Shard)| !directory.has_primary(shard);
    match directory.shards.values().filter(dead).count() {
        0 => Ok(()),
        count => Err(format!(
            "{count} of {} shards have no primary that is alive and serves",
            directory.shards.len()
        )),
    }
}

fn text(directory: &Directory) -> String {
    let mut text = String::new();
    match &directory.cluster {
        Some((_, id)) => _ = writeln!(text, "cluster {id}"),
        None => {
            text.push_str("no cluster yet: 'hotring cluster create' makes one of these nodes\n")
        }
    }
    let sets = sets(&directory.owners);
    for (id, (_, shard)) in &directory.shards {
        let slots = sets.get(id).map_or(0, hotring_cluster::SlotSet::len);
        write_shard(&mut text, directory, *id, shard, slots);
    }
    let idle = directory.nodes.keys().filter(|id| directory.shard_of_node(**id).is_none());
    for (at, node) in idle.enumerate() {
        if at == 0 {
            text.push_str("no shard\n");
        }
        let was_drained = directory.leaving.contains_key(node);
        write_node(&mut text, directory, *node, if was_drained { "drained" } else { "idle" });
    }
    for (id, (_, wanted)) in &directory.moves {
        let _ = writeln!(text, "move {id}: {}", shown(wanted));
    }
    for (shard, (_, replacing)) in &directory.replacing {
        let Replacing { dead, spare } = replacing;
        let _ = writeln!(text, "shard {shard}: {spare} is to replace {dead}");
    }
    let unowned = (0..SLOTS).filter(|slot| directory.owners.of(*slot).is_none()).count();
    if unowned > 0 && directory.cluster.is_some() {
        let _ = writeln!(text, "warning: {unowned} slots have no shard");
    }
    text
}

fn write_shard(text: &mut String, directory: &Directory, id: ShardId, shard: &Shard, slots: usize) {
    let _ = writeln!(text, "shard {id}: {slots} slots, epoch {}", shard.epoch.0);
    let primary = shard.primary.node;
    let serves = directory.has_primary(shard) || !directory.is_alive(primary);
    let role = if serves { "primary" } else { "primary before its restart" };
    write_node(text, directory, primary, role);
    for node in &shard.replicas {
        let is_in_sync = shard.in_sync.contains(node);
        write_node(
            text,
            directory,
            *node,
            if is_in_sync { "replica, in sync" } else { "replica, behind" },
        );
    }
}

fn write_node(text: &mut String, directory: &Directory, id: NodeId, role: &str) {
    let address = directory.node(id).map_or_else(
        || "an unknown address".to_string(),
        |node| {
            let zone =
                if node.zone.is_empty() { String::new() } else { format!(", zone {}", node.zone) };
            format!("{}:{}{zone}", node.host, node.port)
        },
    );
    let alive = if directory.is_alive(id) { "alive" } else { "NOT ALIVE" };
    let _ = writeln!(text, "  {id} at {address}: {role}, {alive}");
}

#[cfg(test)]
mod tests {
    use hotring_cluster::directory::{Node, Wanted};
    use hotring_cluster::{Epoch, Identity, Incarnation};

    use super::*;

    #[test]
    fn the_status_names_what_is_wrong() {
        let id = |n: u8| NodeId([n; 20]);
        let mut directory = Directory::default();
        assert!(text(&directory).contains("hotring cluster create"));
        for n in 1..=4 {
            let zone = if n == 1 { "east" } else { "" }.to_string();
            let node = Node { host: "h".into(), port: n.into(), tls_port: None, zone, weight: 100 };
            directory.nodes.insert(id(n), (1, node));
        }
        directory.alive.insert(id(1), Incarnation(1));
        directory.cluster = Some((1, "c".into()));
        let primary = Identity { node: id(1), incarnation: Incarnation(1) };
        let (in_sync, replicas) = (vec![id(2)], vec![id(2), id(3)]);
        let shard = Shard { epoch: Epoch(5), promoted: Epoch(4), primary, in_sync, replicas };
        directory.shards.insert(7, (1, shard));
        (1..SLOTS).for_each(|slot| directory.owners.give(slot, 7));
        let slots = "5-9".parse().unwrap();
        directory.moves.insert(3, (1, Wanted { from: 7, to: 8, slots }));
        directory.leaving.insert(id(5), Epoch(5));
        directory.nodes.insert(id(5), directory.nodes[&id(4)].clone());
        directory.replacing.insert(7, (1, Replacing { dead: id(3), spare: id(4) }));
        let text = text(&directory);
        for part in [
            "cluster c\n",
            "shard 7: 16383 slots, epoch 5\n",
            "at h:1, zone east: primary, alive\n",
            "at h:2: replica, in sync, NOT ALIVE\n",
            "at h:3: replica, behind, NOT ALIVE\n",
            "no shard\n",
            "at h:4: idle, NOT ALIVE\n",
            "at h:4: drained, NOT ALIVE\n",
            "move 3: shard 7 -> shard 8: 5 slots: 5-9\n",
            &format!("shard 7: {} is to replace {}\n", id(4), id(3)),
            "warning: 1 slots have no shard\n",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        directory.alive.insert(id(1), Incarnation(2));
        let text = super::text(&directory);
        assert!(text.contains(": primary before its restart, alive\n"), "{text}");
    }
}
