//! `hotring cluster create`: makes shards of the nodes that have registered, and gives them all slots.

use std::collections::BTreeMap;
use std::io::{BufRead, Write as _};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hotring_cluster::directory::{Directory, node_name, node_value};
use hotring_cluster::{NodeId, founding_records};
use hotring_coordinator::{Change, Outcome, Transaction};

use super::file::{self, Cluster};
use super::plan::{self, Planned};
use super::records::{Records, address_args};

/// How long the nodes may take to begin their roles.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two looks at the records.
const LOOK: Duration = Duration::from_millis(200);

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
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
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
        .arg(flag("dry-run", "Show the shards and do nothing"))
        .arg(flag("yes", "Do not ask"))
}

/// Makes the cluster.
pub(super) fn run(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    let copies = *flags.get_one::<u32>("copies").expect("it has a default") as usize;
    let directory = records.read()?;
    let nodes = living(&directory)?;
    let planned = plan::make(described(&directory, &nodes, copies), None)
        .map_err(|why| format!("{why}; {} nodes are alive", nodes.len()))?;
    print!("{planned}");
    if flags.get_flag("dry-run") {
        return Ok(());
    }
    if !flags.get_flag("yes") && !agrees()? {
        return Err("nothing was changed".to_string());
    }
    found(&records, &planned, &nodes)?;
    wait_until_all_serve(&records)
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

/// The nodes as a description of which a plan can be made.
fn described(directory: &Directory, nodes: &[NodeId], copies: usize) -> Cluster {
    let described = |id: &NodeId| {
        let node = directory.node(*id).expect("it is registered");
        file::Node {
            name: format!("{id} at {}:{}", node.host, node.port),
            shard: None,
            zone: node.zone.clone(),
            weight: node.weight,
            leaves: false,
        }
    };
    Cluster { copies, shards: BTreeMap::new(), nodes: nodes.iter().map(described).collect() }
}

fn agrees() -> Result<bool, String> {
    print!("Make this cluster? (yes/no) ");
    let _ = std::io::stdout().flush();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|why| why.to_string())?;
    Ok(matches!(line.trim(), "yes" | "y"))
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
    let (began, mut shown) = (Instant::now(), String::new());
    loop {
        let directory = records.read()?;
        let shards = directory.shards.values();
        let in_sync: usize = shards.clone().map(|(_, shard)| shard.in_sync.len()).sum();
        let replicas: usize = shards.clone().map(|(_, shard)| shard.replicas.len()).sum();
        let dead = shards.filter(|(_, shard)| !directory.is_alive(shard.primary.node)).count();
        let now = format!("{in_sync} of {replicas} replicas are in sync");
        if now != shown {
            println!("{now}");
            shown = now;
        }
        if dead == 0 && in_sync == replicas {
            println!("the cluster serves all slots");
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            return Err(format!(
                "the cluster is made, but {shown} and {dead} primaries are gone: see the nodes' logs, and 'hotring \
                 cluster status'"
            ));
        }
        std::thread::sleep(LOOK);
    }
}
