//! `hotring cluster add`: nodes that have registered get a shard, as replicas or as a new one.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hotring_cluster::changes::{found_shard, join};
use hotring_cluster::directory::{Directory, Wanted};
use hotring_cluster::{NodeId, ShardId};

use super::change;
use super::plan::{self, Planned};
use super::present::{Present, at_rest, called, exists, find, idle, present};
use super::records::{Records, address_args};

const NOTES: &str = "\
Start the nodes first, each with the same coordinator and cluster-name as the others:

    hotring serve --port 7006 --data g --log everysec --coordinator 127.0.0.1:7000
    hotring cluster add --coordinator 127.0.0.1:7000 127.0.0.1:7006

NODE is HOST:PORT, or the beginning of a node's name; without it all nodes that live and have no shard, unless they were \
drained. Shards that lack copies get replicas first, in other zones if possible. What remains forms new shards, to which \
slots then move. Data that a node has already is given up.

Ctrl-C leaves everything as it is by then; what was begun goes on, and 'hotring cluster rebalance' plans moves that are \
missing.

Exit codes: 0 if the nodes have their places, or would with --dry-run; 1 if not";

/// The subcommand and its flags.
pub(super) fn cli() -> Command {
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").help(help)
    };
    Command::new("add")
        .about("Give registered nodes a shard, as replicas or as a new one")
        .after_help(NOTES)
        .args(address_args())
        .arg(Arg::new("NODE").action(ArgAction::Append).help("The nodes"))
        .arg(
            number("shard", "Make all of them replicas of this shard")
                .value_parser(value_parser!(u32))
                .conflicts_with("copies"),
        )
        .arg(
            number(
                "copies",
                "Nodes of a shard, its primary included [default: those of the largest]",
            )
            .value_parser(value_parser!(u32).range(1..=100)),
        )
        .args(change::args())
}

/// The changes of the records.
struct Plan {
    replicas: BTreeMap<ShardId, Vec<NodeId>>,
    shards: Vec<(ShardId, Vec<NodeId>)>,
    moves: Vec<Wanted>,
}

/// Adds the nodes.
pub(super) fn run(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    let directory = records.read()?;
    exists(&directory)?;
    let nodes = named(flags, &directory)?;
    let plan = match flags.get_one::<u32>("shard") {
        Some(shard) => {
            let replicas = [(*shard, nodes)].into();
            Plan { replicas, shards: Vec::new(), moves: Vec::new() }
        }
        None => planned(flags, &directory, &nodes)?,
    };
    // What is refused now would be later, too.
    for (shard, nodes) in &plan.replicas {
        join(&directory, *shard, nodes).map_err(|why| why.to_string())?;
    }
    for (shard, nodes) in &plan.replicas {
        for node in nodes {
            println!("node {} becomes a replica of shard {shard}", called(&directory, *node));
        }
    }
    if !change::agreed(flags, "Add these nodes?")? {
        return Ok(());
    }
    carry_out(&records, &plan, flags.get_flag("no-wait"))
}

/// The nodes that the command line names.
fn named(flags: &ArgMatches, directory: &Directory) -> Result<Vec<NodeId>, String> {
    let Some(names) = flags.get_many::<String>("NODE") else {
        let idle = idle(directory);
        return match idle.is_empty() {
            true => Err("no node is registered that lives and has no shard, unless it was drained: start one with \
                         --coordinator, and with the same --cluster-name as here"
                .to_string()),
            false => Ok(idle),
        };
    };
    let mut nodes: Vec<NodeId> =
        names.map(|name| find(directory, name)).collect::<Result<_, _>>()?;
    nodes.sort_unstable();
    nodes.dedup();
    for node in &nodes {
        let called = called(directory, *node);
        if let Some((shard, _)) = directory.shard_of_node(*node) {
            return Err(format!("node {called} belongs to shard {shard} already"));
        }
        if !directory.is_alive(*node) {
            return Err(format!("node {called} is not alive: start it first"));
        }
    }
    Ok(nodes)
}

/// Where the nodes go, and the moves if there are new shards.
fn planned(flags: &ArgMatches, directory: &Directory, nodes: &[NodeId]) -> Result<Plan, String> {
    let largest = directory.shards.values().map(|(_, shard)| shard.replicas.len() + 1).max();
    let copies = flags.get_one::<u32>("copies").map(|copies| *copies as usize);
    let copies = copies.or(largest).unwrap_or(1);
    let Present { cluster, ids } = present(directory, nodes, copies, |_| false);
    let planned = plan::make(cluster, None)?;
    let (mut replicas, mut shards): (BTreeMap<ShardId, Vec<NodeId>>, Vec<_>) = Default::default();
    for (shard, members) in planned.shards() {
        let members: Vec<NodeId> = members.iter().map(|at| ids[*at]).collect();
        if !directory.shards.contains_key(shard) {
            shards.push((*shard, members));
            continue;
        }
        let joins: Vec<NodeId> = members.into_iter().filter(|node| nodes.contains(node)).collect();
        if !joins.is_empty() {
            replicas.insert(*shard, joins);
        }
    }
    // Replicas alone are no reason to move slots.
    let moves = if shards.is_empty() { Vec::new() } else { moves(directory, &planned)? };
    Ok(Plan { replicas, shards, moves })
}

fn moves(directory: &Directory, planned: &Planned) -> Result<Vec<Wanted>, String> {
    at_rest(directory)?;
    print!("{planned}");
    Ok(change::in_pieces(planned.moves()))
}

fn carry_out(records: &Records, plan: &Plan, returns: bool) -> Result<(), String> {
    for (shard, nodes) in &plan.replicas {
        change::change(records, |directory| join(directory, *shard, nodes))?;
    }
    for (shard, nodes) in &plan.shards {
        change::change(records, |directory| found_shard(directory, *shard, nodes))?;
    }
    if !returns {
        let new = plan.shards.iter().map(|(shard, _)| *shard);
        let touched: Vec<ShardId> = plan.replicas.keys().copied().chain(new).collect();
        change::wait_until_in_sync(records, &touched)?;
    }
    if plan.moves.is_empty() {
        return Ok(());
    }
    change::make_moves(records, &plan.moves, returns)
}
