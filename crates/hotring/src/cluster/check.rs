//! `hotring cluster check`: what is wrong with a cluster, by its records and by what its nodes say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::{ArgMatches, Command};
use hotring_cluster::directory::Directory;
use hotring_cluster::{NodeId, SLOTS, Shard, ShardId, Slot};

use super::present::{called, exists};
use super::records::{Records, address_args};
use super::talk::Access;
use crate::client::Answer;

/// How often what the nodes say is compared, as they hear of a change a moment after it, and the time in between.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

const NOTES: &str = "\
Looks for: slots without a shard; shards without a living primary, with one copy, with replicas that are behind, or with \
copies in one zone; dead nodes; moves that nobody carries out; nodes that know another table of slots, or have another \
version.

Exit codes: 0 if nothing is wrong, 1 if something is";

/// The subcommand and its flags.
pub(super) fn cli() -> Command {
    Command::new("check")
        .about("Look for what is wrong with a cluster")
        .after_help(NOTES)
        .args(address_args())
}

/// Prints what is wrong.
pub(super) fn run(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    let directory = records.read()?;
    exists(&directory)?;
    let mut wrong = of_records(&directory);
    wrong.extend(of_nodes(&records, flags)?);
    wrong.iter().for_each(|line| println!("{line}"));
    match wrong.len() {
        0 => {
            let (nodes, shards) = (directory.nodes.len(), directory.shards.len());
            println!("{shards} shards of {nodes} nodes: nothing is wrong");
            Ok(())
        }
        1 => Err("1 thing is wrong".to_string()),
        count => Err(format!("{count} things are wrong")),
    }
}

/// What the records show.
fn of_records(directory: &Directory) -> Vec<String> {
    let mut wrong = Vec::new();
    let without = (0..SLOTS).filter(|slot| directory.owners.of(*slot).is_none()).count();
    if without > 0 {
        wrong.push(format!("{without} slots have no shard: their keys cannot be used"));
    }
    let owners: BTreeSet<ShardId> =
        (0..SLOTS).filter_map(|slot| directory.owners.of(slot)).collect();
    let unknown = owners.iter().filter(|shard| !directory.shards.contains_key(shard));
    wrong.extend(unknown.map(|shard| format!("shard {shard} has slots and no record")));
    for (id, (_, shard)) in &directory.shards {
        of_shard(directory, *id, shard, &mut wrong);
    }
    for id in directory.nodes.keys().filter(|id| !directory.is_alive(**id)) {
        let advice = match directory.shard_of_node(*id) {
            Some(_) => "start it again, or replace it ('hotring cluster add') and remove it",
            None => "start it again, or remove it",
        };
        wrong.push(format!("node {} is not alive: {advice}", called(directory, *id)));
    }
    for (id, (_, wanted)) in &directory.moves {
        let leads = |shard: ShardId| {
            let record = directory.shards.get(&shard).map(|(_, record)| record);
            record.is_some_and(|record| directory.is_alive(record.primary.node))
        };
        let has_all = wanted.slots.iter().all(|s| directory.owners.of(s) == Some(wanted.from));
        let why = match () {
            () if !has_all => format!("shard {} does not own all of its slots", wanted.from),
            () if !leads(wanted.from) => format!("shard {} has no living primary", wanted.from),
            () if !leads(wanted.to) => format!("shard {} has no living primary", wanted.to),
            () => continue,
        };
        wrong.push(format!("move {id} stands still: {why} ('hotring cluster move --cancel {id}')"));
    }
    wrong
}

fn of_shard(directory: &Directory, id: ShardId, shard: &Shard, wrong: &mut Vec<String>) {
    if !directory.is_alive(shard.primary.node) {
        wrong.push(format!("shard {id} has no living primary ('hotring cluster failover --help')"));
    } else if !directory.has_primary(shard) {
        wrong.push(format!(
            "shard {id} is served by nobody: its primary was started again and may have lost writes ('hotring cluster \
             failover --help')"
        ));
    }
    if shard.in_sync.is_empty() {
        wrong.push(format!(
            "shard {id} has one copy: its loss loses the keys ('hotring cluster add')"
        ));
    }
    for node in &shard.replicas {
        if directory.is_alive(*node) && !shard.in_sync.contains(node) {
            let called = called(directory, *node);
            wrong.push(format!("shard {id}: the replica {called} is behind, see its log"));
        }
    }
    let zone = |node: &NodeId| directory.node(*node).map(|node| node.zone.clone());
    let nodes = || [&shard.primary.node].into_iter().chain(&shard.replicas);
    let zones: BTreeSet<String> = nodes().filter_map(zone).collect();
    let others = directory.nodes.values().map(|(_, node)| &node.zone);
    let has_choice = others.collect::<BTreeSet<_>>().len() > 1;
    if has_choice && zones.len() == 1 && nodes().count() > 1 {
        wrong.push(format!("shard {id} has all its copies in one zone"));
    }
}

/// What the nodes say. One that is dead by the records is not asked.
fn of_nodes(records: &Records, flags: &ArgMatches) -> Result<Vec<String>, String> {
    let access = Access::of(flags)?;
    let (mut wrong, mut versions) = (Vec::new(), BTreeMap::<String, Vec<NodeId>>::new());
    for tries in 0..TRIES {
        let directory = records.read()?;
        (wrong, versions) = Default::default();
        for id in directory.nodes.keys().filter(|id| directory.is_alive(**id)) {
            match ask(&directory, *id, &access) {
                Ok((is_same, version)) => {
                    versions.entry(version).or_default().push(*id);
                    if !is_same {
                        let called = called(&directory, *id);
                        wrong.push(format!("node {called} knows another table of slots"));
                    }
                }
                Err(why) => wrong.push(why),
            }
        }
        if wrong.is_empty() || tries + 1 == TRIES || records.is_interrupted(PAUSE)? {
            break;
        }
    }
    if versions.len() > 1 {
        let each = versions.iter().map(|(version, nodes)| format!("{version} at {}", nodes.len()));
        let each: Vec<String> = each.collect();
        wrong.push(format!("the nodes have several versions: {}", each.join(", ")));
    }
    Ok(wrong)
}

/// Whether a node knows the table of the records, and its version.
fn ask(directory: &Directory, id: NodeId, access: &Access<'_>) -> Result<(bool, String), String> {
    let mut node = access.connect(directory, id)?;
    let known = primaries(&node.ask(&["CLUSTER", "SLOTS"])?);
    let wanted = |slot: Slot| {
        let (_, shard) = directory.shard_of_slot(slot)?;
        directory.node(shard.primary.node).map(|_| shard.primary.node)
    };
    let is_same = (0..SLOTS).all(|slot| known.get(&slot).copied() == wanted(slot));
    let Answer::Text(info) = node.ask(&["INFO", "server"])? else {
        return Ok((is_same, String::new()));
    };
    let version = info.lines().find_map(|line| line.strip_prefix("hotring_version:"));
    Ok((is_same, version.unwrap_or_default().to_string()))
}

/// The primary of each slot in a reply to CLUSTER SLOTS.
fn primaries(answer: &Answer) -> BTreeMap<Slot, NodeId> {
    let Answer::List(ranges) = answer else { return BTreeMap::new() };
    let range = |range: &Answer| {
        let Answer::List(parts) = range else { return None };
        let [Answer::Number(first), Answer::Number(last), Answer::List(node), ..] = &parts[..]
        else {
            return None;
        };
        let Some(Answer::Text(id)) = node.get(2) else { return None };
        let (first, last) = (Slot::try_from(*first).ok()?, Slot::try_from(*last).ok()?);
        Some((first..=last, NodeId::parse(id)?))
    };
    let ranges = ranges.iter().filter_map(range);
    ranges.flat_map(|(slots, node)| slots.map(move |slot| (slot, node))).collect()
}

#[cfg(test)]
mod tests {
    use hotring_cluster::directory::{Node, Wanted};
    use hotring_cluster::{Epoch, Identity, Incarnation};

    use super::*;

    fn id(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    /// Shard 0 of nodes 1 and 2 in two zones.
    fn directory() -> Directory {
        let mut directory = Directory { cluster: Some((1, "c".into())), ..Directory::default() };
        for n in 1..=2 {
            let zone = format!("zone-{n}");
            let node = Node { host: "h".into(), port: n.into(), tls_port: None, zone, weight: 100 };
            directory.nodes.insert(id(n), (1, node));
            directory.alive.insert(id(n), Incarnation(1));
        }
        let primary = Identity { node: id(1), incarnation: Incarnation(1) };
        let (in_sync, replicas) = (vec![id(2)], vec![id(2)]);
        let shard = Shard { epoch: Epoch(5), promoted: Epoch(4), primary, in_sync, replicas };
        directory.shards.insert(0, (1, shard));
        (0..SLOTS).for_each(|slot| directory.owners.give(slot, 0));
        directory
    }

    #[test]
    fn each_thing_that_is_wrong_is_told() {
        assert_eq!(of_records(&directory()), Vec::<String>::new());
        let told = |change: &dyn Fn(&mut Directory)| {
            let mut directory = directory();
            change(&mut directory);
            of_records(&directory).join("\n")
        };
        let of = |part: &str, change: &dyn Fn(&mut Directory)| {
            let told = told(change);
            assert!(told.contains(part), "{part} is missing: {told}");
        };
        of("1 slots have no shard", &|d| {
            d.owners = Default::default();
            (1..SLOTS).for_each(|slot| d.owners.give(slot, 0));
        });
        of("shard 9 has slots and no record", &|d| d.owners.give(4, 9));
        of("shard 0 has no living primary", &|d| _ = d.alive.remove(&id(1)));
        of("is not alive: start it again, or replace it", &|d| _ = d.alive.remove(&id(2)));
        of("shard 0 has one copy", &|d| d.shards.get_mut(&0).unwrap().1.in_sync.clear());
        of("is behind", &|d| d.shards.get_mut(&0).unwrap().1.in_sync.clear());
        let slots = || "5".parse().unwrap();
        let wanted = |from, to| (1, Wanted { from, to, slots: slots() });
        of("move 3 stands still: shard 7 does not own", &|d| _ = d.moves.insert(3, wanted(7, 0)));
        of("move 3 stands still: shard 8 has no", &|d| _ = d.moves.insert(3, wanted(0, 8)));
        of("all its copies in one zone", &|d| {
            let (_, node) = d.nodes[&id(2)].clone();
            d.nodes.insert(id(3), (1, node));
            d.alive.insert(id(3), Incarnation(1));
            d.nodes.get_mut(&id(2)).unwrap().1.zone = "zone-1".into();
        });
    }

    #[test]
    fn the_table_of_a_node_is_read_from_its_reply() {
        let text = |text: String| Answer::Text(text);
        let node = |n: u8| {
            Answer::List(vec![text("h".into()), Answer::Number(1), text(id(n).to_string())])
        };
        let range = |first, last, n| {
            Answer::List(vec![Answer::Number(first), Answer::Number(last), node(n), node(9)])
        };
        let known = primaries(&Answer::List(vec![range(0, 2, 1), range(7, 7, 2)]));
        let all: Vec<(Slot, NodeId)> = known.into_iter().collect();
        assert_eq!(all, [(0, id(1)), (1, id(1)), (2, id(1)), (7, id(2))]);
    }
}
