//! `hotring cluster create`: makes shards of the nodes that have registered, and gives them all slots.

use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};
use hotring_cluster::directory::{Directory, node_name, node_value};
use hotring_cluster::kept::OPERATIONS_MAX;
use hotring_cluster::{NodeId, founding_records};
use hotring_coordinator::{Change, Outcome, Transaction};

use super::change::{self, Progress};
use super::plan::{self, Planned};
use super::present::present;
use super::records::{Records, address_args};

/// How long the nodes may take to begin their roles.
const PATIENCE: Duration = Duration::from_secs(60);

const NOTES: &str = "\
Start the nodes first, each with the same coordinator and cluster-name:

    hotring serve --port 7000 --data a --log everysec --coordinator embedded
    hotring serve --port 7001 --data b --log everysec --coordinator 127.0.0.1:7000
    hotring cluster create --coordinator 127.0.0.1:7000 --copies 2

Nodes that are left over become further replicas. Data that a node has already stays only at the nodes that become \
primaries.

Exit codes: 0 if the cluster serves, or would with --dry-run; 1 if not";

/// The subcommand and its flags.
pub(super) fn cli() -> Command {
    Command::new("create")
        .about("Make a cluster of the nodes that have registered with a coordinator")
        .after_help(NOTES)
        .args(address_args())
        .arg(
            Arg::new("copies")
                .long("copies")
                .value_name("N")
                .default_value("2")
                .value_parser(value_parser!(u32).range(1..=100))
                .help("Nodes of a shard, its primary included"),
        )
        .args(change::args())
}

/// Makes the cluster.
pub(super) fn run(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    let copies = *flags.get_one::<u32>("copies").expect("it has a default") as usize;
    let directory = records.read()?;
    let nodes = living(&directory)?;
    let planned = plan::make(present(&directory, &nodes, copies, |_| false).cluster, None)
        .map_err(|why| format!("{why}; {} nodes are alive", nodes.len()))?;
    print!("{planned}");
    check_size(planned.shards().len(), nodes.len(), copies)?;
    if !change::agreed(flags, "Make this cluster?")? {
        return Ok(());
    }
    found(&records, &planned, &nodes)?;
    match flags.get_flag("no-wait") {
        true => Ok(()),
        false => wait_until_all_serve(&records),
    }
}

/// The nodes that live, if a cluster can be made of them.
fn living(directory: &Directory) -> Result<Vec<NodeId>, String> {
    if directory.cluster.is_some() || !directory.shards.is_empty() {
        return Err(
            "there is a cluster already: see 'hotring cluster status', or take another --cluster-name".to_string()
        );
    }
    let alive = |id: &&NodeId| directory.is_alive(**id);
    let nodes: Vec<NodeId> = directory.nodes.keys().filter(alive).copied().collect();
    if nodes.is_empty() {
        return Err(
            "no node is registered: start each with --coordinator, and with the same --cluster-name as here".to_string()
        );
    }
    for id in directory.nodes.keys().filter(|id| !directory.is_alive(**id)) {
        println!("node {id} is not alive and is left out");
    }
    Ok(nodes)
}

/// Whether the first records fit into one transaction: those of the cluster and its slots, one of each shard and of
/// each node. Written by several, half a cluster could be left.
fn check_size(shards: usize, nodes: usize, copies: usize) -> Result<(), String> {
    const ROOM: usize = OPERATIONS_MAX - 2;
    if shards + nodes <= ROOM {
        return Ok(());
    }
    let most = ROOM * copies / (copies + 1);
    Err(format!(
        "{shards} shards of {nodes} nodes are more than a cluster begins with: start at most {most} of these nodes, make the \
         cluster, then start the others, and 'hotring cluster add' gives them shards"
    ))
}

/// Writes the records, if still none exists.
fn found(records: &Records, planned: &Planned, nodes: &[NodeId]) -> Result<(), String> {
    let directory = records.read()?;
    let shards: Vec<_> = planned
        .shards()
        .iter()
        .map(|(shard, members)| (*shard, members.iter().map(|at| nodes[*at]).collect()))
        .collect();
    let id = getrandom::u64().map_err(|why| format!("cannot get random numbers: {why}"))?;
    let id = format!("{id:016x}");
    let first = founding_records(&directory, &id, &shards, planned.after());
    let first = first.map_err(|why| format!("{why}: try again"))?;
    let expect = first.iter().map(|(name, _)| (name.clone(), 0)).collect();
    let put = |(name, value)| Change::Put { name, value, lease: None };
    // The records of nodes without a folder end with their leases; those of a shard's nodes must stay.
    let placed = shards.iter().flat_map(|(_, members)| members);
    let placed = placed.filter_map(|id| Some((node_name(*id), node_value(directory.node(*id)?))));
    let changes = first.into_iter().chain(placed).map(put).collect();
    match records.transact(&Transaction { expect, changes })? {
        Outcome::Done(_) => Ok(()),
        Outcome::Conflict => Err("another cluster was made meanwhile".to_string()),
    }
}

/// Waits until each shard has a primary that lives, and its replicas are in sync.
fn wait_until_all_serve(records: &Records) -> Result<(), String> {
    const HINT: &str = "The cluster is made, but not all of its nodes have begun: see their logs, and 'hotring cluster status'";
    change::wait(records, Some(PATIENCE), HINT, |directory| {
        let shards = directory.shards.values();
        let in_sync: usize = shards.clone().map(|(_, shard)| shard.in_sync.len()).sum();
        let replicas: usize = shards.clone().map(|(_, shard)| shard.replicas.len()).sum();
        let dead = shards.filter(|(_, shard)| !directory.is_alive(shard.primary.node)).count();
        match dead == 0 && in_sync == replicas {
            true => Progress::Done("the cluster serves all slots".to_string()),
            false => Progress::Going(format!("{in_sync} of {replicas} replicas are in sync")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The coordinator refused the transaction, and said only how many changes it had.
    #[test]
    fn a_cluster_begins_with_what_one_transaction_takes() {
        assert_eq!(check_size(42, 84, 2), Ok(()));
        assert_eq!(check_size(63, 63, 1), Ok(()));
        let why = check_size(43, 85, 2).unwrap_err();
        assert!(why.contains("at most 84 of these nodes"), "{why}");
        for copies in 1..=100 {
            let most = (OPERATIONS_MAX - 2) * copies / (copies + 1);
            assert_eq!(check_size(most / copies, most, copies), Ok(()), "{copies} copies");
            assert!(check_size(200 / copies + 1, 200, copies).is_err(), "{copies} copies");
        }
    }
}
