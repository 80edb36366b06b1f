//! `hotring cluster failover`: another node of a shard becomes its primary.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hotring_cluster::directory::Directory;
use hotring_cluster::{NodeId, Shard, ShardId};

use super::change::{self, Progress};
use super::present::{called, find};
use super::records::{Records, address_args};
use super::talk::Access;

/// How long the present primary waits for a replica to have everything, in milliseconds.
const HANDOVER_MS: &str = "10000";

/// How long the record may take to name the other node.
const PATIENCE: Duration = Duration::from_secs(30);

const NOTES: &str = "\
A primary that lives hands over in order: writes wait for some milliseconds, and none is lost. Of a dead one an in-sync \
replica takes over by itself; this command has it do so at once.

With --force a replica becomes primary that may lack acknowledged writes, which are then lost. Stop the old primary \
before: one that is cut off from the coordinator alone may go on answering.

Exit codes: 0 if the node is primary, or would be asked with --dry-run; 1 if not";

/// The subcommand and its flags.
pub(super) fn cli() -> Command {
    Command::new("failover")
        .about("Make another node of a shard its primary")
        .after_help(NOTES)
        .args(address_args())
        .arg(
            Arg::new("SHARD")
                .required(true)
                .value_parser(value_parser!(u32))
                .help("The number of the shard"),
        )
        .arg(
            Arg::new("to")
                .long("to")
                .value_name("NODE")
                .help("The new primary [default: any replica in sync]"),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .requires("to")
                .help("Accept the loss of writes that it lacks"),
        )
        .args(change::args())
}

/// Changes the primary.
pub(super) fn run(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    let directory = records.read()?;
    let shard = *flags.get_one::<u32>("SHARD").expect("it is required");
    let record = record(&directory, shard)?;
    let to = match flags.get_one::<String>("to") {
        Some(name) => Some(replica(&directory, shard, record, find(&directory, name)?)?),
        None => None,
    };
    let old = called(&directory, record.primary.node);
    if directory.is_alive(record.primary.node) {
        if flags.get_flag("force") {
            return Err(format!(
                "the primary {old} is alive: without --force it hands over and nothing is lost. Otherwise stop it first"
            ));
        }
        match to {
            Some(to) => println!("shard {shard}: {old} hands over to {}", called(&directory, to)),
            None => println!("shard {shard}: {old} hands over to a replica in sync"),
        }
        if !change::agreed(flags, "Do this?")? {
            return Ok(());
        }
        return hand_over(&records, shard, to, flags);
    }
    take_over(&records, &directory, shard, to, flags)
}

fn record(directory: &Directory, shard: ShardId) -> Result<&Shard, String> {
    let found = directory.shards.get(&shard).map(|(_, record)| record);
    found.ok_or_else(|| format!("there is no shard {shard}: see 'hotring cluster status'"))
}

/// The node, if it is a replica that lives.
fn replica(
    directory: &Directory,
    shard: ShardId,
    record: &Shard,
    node: NodeId,
) -> Result<NodeId, String> {
    let called = called(directory, node);
    match () {
        () if record.primary.node == node => {
            Err(format!("node {called} is the primary of shard {shard} already"))
        }
        () if !record.replicas.contains(&node) => {
            Err(format!("node {called} is no replica of shard {shard}"))
        }
        () if !directory.is_alive(node) => Err(format!("node {called} is not alive")),
        () => Ok(node),
    }
}

/// Has the living primary of a shard hand its role over, and waits until another node has it.
pub(super) fn hand_over(
    records: &Records,
    shard: ShardId,
    to: Option<NodeId>,
    flags: &ArgMatches,
) -> Result<(), String> {
    let directory = records.read()?;
    let old = record(&directory, shard)?.primary.node;
    let mut words = vec!["FAILOVER"];
    let node = to.and_then(|to| directory.node(to));
    let port = node.map(|node| node.port.to_string());
    if let (Some(node), Some(port)) = (node, &port) {
        words.extend(["TO", node.host.as_str(), port.as_str()]);
    }
    words.extend(["TIMEOUT", HANDOVER_MS]);
    Access::of(flags)?.connect(&directory, old)?.ask(&words)?;
    wait(records, shard, |node| node != old)
}

/// A replica takes the role of a dead primary.
fn take_over(
    records: &Records,
    directory: &Directory,
    shard: ShardId,
    to: Option<NodeId>,
    flags: &ArgMatches,
) -> Result<(), String> {
    let (record, force) = (record(directory, shard)?, flags.get_flag("force"));
    let in_sync = || record.in_sync.iter().copied().filter(|node| directory.is_alive(*node));
    let to = match to {
        Some(to) if force || record.in_sync.contains(&to) => to,
        Some(to) => {
            return Err(format!(
                "node {} is not in sync and may lack acknowledged writes: choose another one, or accept their loss with --force",
                called(directory, to)
            ));
        }
        None => in_sync().next().ok_or(
            "no replica of this shard is in sync and alive: start the primary again. If its data is gone, --to NODE --force \
             makes another one primary, which loses the writes that it lacks",
        )?,
    };
    let loss = if force { ". ACKNOWLEDGED WRITES THAT IT LACKS ARE LOST" } else { "" };
    println!("shard {shard}: {} becomes primary{loss}", called(directory, to));
    if !change::agreed(flags, "Do this?")? {
        return Ok(());
    }
    let how = if force { "TAKEOVER" } else { "FORCE" };
    Access::of(flags)?.connect(directory, to)?.ask(&["CLUSTER", "FAILOVER", how])?;
    wait(records, shard, |node| node == to)
}

/// Waits until the record names a primary that is wanted.
fn wait(
    records: &Records,
    shard: ShardId,
    is_wanted: impl Fn(NodeId) -> bool,
) -> Result<(), String> {
    const HINT: &str = "The shard may still change its primary: see 'hotring cluster status', and the logs of its nodes";
    change::wait(records, Some(PATIENCE), HINT, |directory| {
        let primary = directory.shards.get(&shard).map(|(_, record)| record.primary.node);
        match primary.filter(|node| is_wanted(*node)) {
            Some(node) => Progress::Done(format!("{} is primary", called(directory, node))),
            None => Progress::Going(String::new()),
        }
    })
}
