//! `hotring cluster failover`: another node of a shard becomes its primary.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use hotring_cluster::directory::Directory;
use hotring_cluster::{NodeId, Shard, ShardId};

use super::change::{self, Progress};
use super::present::{called, find};
use super::records::{Records, address_args};
use super::talk::Access;
use crate::client::Answer;

/// How long the present primary waits for a replica to have everything, in milliseconds.
const HANDOVER_MS: &str = "10000";

/// How long the record may take to name the other node.
const PATIENCE: Duration = Duration::from_secs(30);

const NOTES: &str = "\
A primary that lives hands over in order: writes wait for some milliseconds, and none is lost. Of a dead one an in-sync \
replica takes over by itself; this command has it do so at once.

With --force a node becomes primary that may lack acknowledged writes, which are then lost: by default the one with the \
most of those that live. The command shows what each one has. Start all nodes of the shard before: once its in-sync set \
is back as a whole, the one with the most leads by itself. A primary that is not alive must be stopped: one that is cut \
off from the coordinator alone may go on answering.

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
        .arg(Arg::new("to").long("to").value_name("NODE").help(
            "The new primary [default: a replica in sync; with --force the node that has the most]",
        ))
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
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
    if directory.has_primary(record) {
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

/// The node, if it lives and is a replica, or was the primary before it was started again.
fn replica(
    directory: &Directory,
    shard: ShardId,
    record: &Shard,
    node: NodeId,
) -> Result<NodeId, String> {
    let called = called(directory, node);
    match () {
        () if record.primary.node == node && directory.has_primary(record) => {
            Err(format!("node {called} is the primary of shard {shard} already"))
        }
        () if record.primary.node != node && !record.replicas.contains(&node) => {
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

/// A node takes the role of a primary that serves no more.
fn take_over(
    records: &Records,
    directory: &Directory,
    shard: ShardId,
    to: Option<NodeId>,
    flags: &ArgMatches,
) -> Result<(), String> {
    let record = record(directory, shard)?;
    if flags.get_flag("force") {
        let to = the_furthest(directory, record, &Access::of(flags)?, to)?;
        let named = called(directory, to);
        println!(
            "shard {shard}: {named} becomes primary. ACKNOWLEDGED WRITES THAT IT LACKS ARE LOST"
        );
        return have_lead(records, directory, shard, (to, "TAKEOVER"), flags);
    }
    let is_alive = |node: &&NodeId| directory.is_alive(**node);
    let to = match to {
        Some(to) if record.in_sync.contains(&to) => to,
        Some(to) => {
            return Err(format!(
                "node {} is not in sync and may lack acknowledged writes: choose another one, or accept their loss with --force",
                called(directory, to)
            ));
        }
        None => *record.in_sync.iter().find(is_alive).ok_or(
            "no replica of this shard is in sync and alive: start the primary again. If its data is gone, --force makes \
             the node primary that has the most, which loses the writes that it lacks",
        )?,
    };
    println!("shard {shard}: {} becomes primary", called(directory, to));
    let led = have_lead(records, directory, shard, (to, "FORCE"), flags);
    led.map_err(|why| {
        format!("{why}\n'hotring cluster failover {shard} --force' shows what the nodes have, and takes the most")
    })
}

/// Asks, and has a node take the role.
fn have_lead(
    records: &Records,
    directory: &Directory,
    shard: ShardId,
    (to, how): (NodeId, &str),
    flags: &ArgMatches,
) -> Result<(), String> {
    if !change::agreed(flags, "Do this?")? {
        return Ok(());
    }
    // The shard may have a primary by now: nodes come back while an operator thinks, also in the start that the record
    // names.
    let (now, shown) = (records.read()?, directory.shards.get(&shard));
    let found = now.shards.get(&shard);
    if found != shown || found.is_some_and(|(_, record)| now.has_primary(record)) {
        return Err(format!(
            "shard {shard} has changed since this was shown: look again with 'hotring cluster status'"
        ));
    }
    Access::of(flags)?.connect(directory, to)?.ask(&["CLUSTER", "FAILOVER", how])?;
    wait(records, shard, |node| node == to)
}

/// How far a node's data goes: the last epoch that it has, then its last record. A record's number alone says nothing,
/// as two primaries may have given it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    epoch: u64,
    record: u64,
}

impl Position {
    fn ask(directory: &Directory, node: NodeId, access: &Access<'_>) -> Result<Position, String> {
        let text = access.connect(directory, node)?.ask(&["INFO", "everything"])?;
        let Answer::Text(text) = text else { return Err("it answers nonsense".to_string()) };
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let value = value.and_then(|value| value.trim().parse().ok());
            value.ok_or_else(|| {
                format!("its INFO has no {name}: see 'hotring cluster check' for its version")
            })
        };
        Ok(Position { epoch: field("cluster_data_epoch")?, record: field("master_repl_offset")? })
    }
}

/// Prints how far the nodes of a shard are, and what may be lost. Returns the one that has the most, or `to`, if no
/// other one has more.
fn the_furthest(
    directory: &Directory,
    record: &Shard,
    access: &Access<'_>,
    to: Option<NodeId>,
) -> Result<NodeId, String> {
    let mut told: Vec<(Position, NodeId)> = Vec::new();
    for node in [record.primary.node].into_iter().chain(record.replicas.iter().copied()) {
        let named = called(directory, node);
        let counts = node == record.primary.node || record.in_sync.contains(&node);
        let asked = match directory.is_alive(node) {
            true => Position::ask(directory, node, access),
            false => Err("not alive".to_string()),
        };
        match asked {
            Ok(position) => {
                let Position { epoch, record } = position;
                println!("  {named}: up to record {record} of epoch {epoch}");
                told.push((position, node));
            }
            Err(why) if counts => println!("  {named}: {why}. WHAT IT ALONE HAS IS LOST"),
            Err(why) => println!("  {named}: {why}. It was not in sync"),
        }
    }
    choose(&told, to).map_err(|better| match better {
        None => "no node of this shard is alive: start them again".to_string(),
        Some((Position { epoch, record }, node)) => format!(
            "node {} has more, up to record {record} of epoch {epoch}: choose that one, or stop it first if its data must \
             not be used",
            called(directory, node)
        ),
    })
}

/// The node with the most, or `to`. Fails with one that has more than `to`, or without if no node has told anything.
fn choose(
    told: &[(Position, NodeId)],
    to: Option<NodeId>,
) -> Result<NodeId, Option<(Position, NodeId)>> {
    // The first of equals, which is the primary if it is among them.
    let most = *told.iter().rev().max_by_key(|(position, _)| *position).ok_or(None)?;
    let Some(to) = to else { return Ok(most.1) };
    let has_most = |(position, node): &(Position, NodeId)| *node == to && *position == most.0;
    if told.iter().any(has_most) { Ok(to) } else { Err(Some(most)) }
}

/// Waits until the record names a primary that is wanted.
fn wait(
    records: &Records,
    shard: ShardId,
    is_wanted: impl Fn(NodeId) -> bool,
) -> Result<(), String> {
    const HINT: &str = "The shard may still change its primary: see 'hotring cluster status', and the logs of its nodes";
    change::wait(records, Some(PATIENCE), HINT, |directory| {
        let record = directory.shards.get(&shard).map(|(_, record)| record);
        let record = record.filter(|record| directory.has_primary(record));
        let primary = record.map(|record| record.primary.node);
        match primary.filter(|node| is_wanted(*node)) {
            Some(node) => Progress::Done(format!("{} is primary", called(directory, node))),
            None => Progress::Going(String::new()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_epoch_counts_before_the_last_record() {
        let id = |n: u8| NodeId([n; 20]);
        let at = |n: u8, epoch, record| (Position { epoch, record }, id(n));
        // Node 1 was primary of epoch 2 and went on by itself; node 2 was promoted, and node 3 follows it.
        let told = [at(1, 2, 90), at(2, 3, 50), at(3, 3, 40)];
        assert_eq!(choose(&told, None), Ok(id(2)));
        assert_eq!(choose(&told, Some(id(2))), Ok(id(2)));
        assert_eq!(choose(&told, Some(id(1))), Err(Some(told[1])));
        assert_eq!(choose(&told, Some(id(3))), Err(Some(told[1])));
        assert_eq!(choose(&told, Some(id(9))), Err(Some(told[1])), "it has told nothing");
        assert_eq!(choose(&[], None), Err(None));
        let equal = [at(2, 3, 50), at(1, 3, 50)];
        assert_eq!(choose(&equal, None), Ok(id(2)));
        assert_eq!(choose(&equal, Some(id(1))), Ok(id(1)));
    }
}
