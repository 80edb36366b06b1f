//! `hotring cluster drain` and `remove`: nodes and shards leave a cluster.

use clap::{Arg, ArgAction, ArgMatches, Command};
use hotring_cluster::changes::{Refused, end_shard, forget, found_again, leave};
use hotring_cluster::directory::Directory;
use hotring_cluster::{NodeId, ShardId};

use super::change;
use super::failover::hand_over;
use super::plan;
use super::present::{Present, at_rest, called, count, exists, find, idle, present};
use super::records::{Records, address_args};
use super::talk::Access;
use crate::client::Answer;

const DRAIN_NOTES: &str = "\
A shard gives all its slots to the others, and ends. A node leaves its shard: a primary hands its role over first. What \
is left over lives on without a shard, and gets none unless 'hotring cluster add' names it. Stop it then, and forget it by \
'hotring cluster remove'.

Exit codes: 0 if the shard or node is drained, or would be with --dry-run; 1 if not";

const REMOVE_NOTES: &str = "\
The node must have ended. A replica leaves its shard, too. A dead primary cannot be removed: a replica takes its place \
about two seconds after its death ('hotring cluster failover' says more).

With --force a node that was the only one of its shard is given up, and all keys of its slots with it: they are lost. \
Another node without a shard, which must be empty, gets the slots.

Exit codes: 0 if the node is removed, or would be with --dry-run; 1 if not";

/// The subcommand `drain` and its flags.
pub(super) fn drain_cli() -> Command {
    Command::new("drain")
        .about("Take all slots from a shard, or a node out of its shard")
        .after_help(DRAIN_NOTES)
        .args(address_args())
        .arg(
            Arg::new("WHAT").required(true).value_name("SHARD|NODE").help(
                "The number of a shard, or a node by HOST:PORT or by the beginning of its name",
            ),
        )
        .args(change::args())
}

/// The subcommand `remove` and its flags.
pub(super) fn remove_cli() -> Command {
    Command::new("remove")
        .about("Forget a node that has ended")
        .after_help(REMOVE_NOTES)
        .args(address_args())
        .arg(
            Arg::new("NODE")
                .required(true)
                .help("The node, by HOST:PORT or by the beginning of its name"),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Give up the only node of a shard: all its keys are lost"),
        )
        .arg(
            Arg::new("with")
                .long("with")
                .value_name("NODE")
                .requires("force")
                .help("The empty node that gets its slots [default: any]"),
        )
        .args(change::args())
}

/// Drains a shard or a node.
pub(super) fn drain(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    let directory = records.read()?;
    exists(&directory)?;
    let what = flags.get_one::<String>("WHAT").expect("it is required");
    let shard = what.parse().ok().filter(|shard| directory.shards.contains_key(shard));
    match shard {
        Some(shard) => drain_shard(&records, &directory, shard, flags),
        None => drain_node(&records, &directory, find(&directory, what)?, flags),
    }
}

fn drain_shard(
    records: &Records,
    directory: &Directory,
    shard: ShardId,
    flags: &ArgMatches,
) -> Result<(), String> {
    if count(&directory.owners, shard) > 0 {
        at_rest(directory)?;
        let Present { cluster, .. } = present(directory, &[], 1, |other| other == shard);
        let planned = plan::make(cluster, None)
            .map_err(|_| format!("shard {shard} is the only one: nobody could take its slots"))?;
        print!("{planned}");
        if !change::agreed(flags, "Move these slots, and end the shard?")? {
            return Ok(());
        }
        let moves = planned.moves().iter().filter(|planned| planned.from == Some(shard));
        let wanted = change::in_pieces(&moves.cloned().collect::<Vec<_>>());
        let ids = change::want(records, &wanted)?;
        if flags.get_flag("no-wait") {
            println!("say this once more when no move is left, to end the shard");
            return Ok(());
        }
        change::wait_for_moves(records, &ids, &wanted)?;
    } else {
        println!("shard {shard} has no slots");
        if !change::agreed(flags, "End it?")? {
            return Ok(());
        }
    }
    change::change(records, |directory| end_shard(directory, shard))?;
    println!("shard {shard} has ended: its nodes can be stopped");
    Ok(())
}

fn drain_node(
    records: &Records,
    directory: &Directory,
    node: NodeId,
    flags: &ArgMatches,
) -> Result<(), String> {
    let called = called(directory, node);
    let Some((shard, record)) = directory.shard_of_node(node) else {
        return Err(format!("node {called} has no shard: it can be stopped"));
    };
    let leads = record.primary.node == node;
    let others = record.in_sync.iter().filter(|other| **other != node).count();
    if leads && others == 0 {
        return Err(format!(
            "node {called} has the only copy of shard {shard}: give the shard another replica first ('hotring cluster add \
             --shard {shard} NODE'), or drain the shard"
        ));
    }
    if leads {
        println!("node {called} hands shard {shard} over to a replica");
    }
    let copies = if leads { others } else { others + 1 };
    println!("node {called} leaves shard {shard}, which then has {copies} copies in sync");
    if !change::agreed(flags, "Drain it?")? {
        return Ok(());
    }
    if leads {
        hand_over(records, shard, None, flags)?;
    }
    change::change(records, |directory| leave(directory, node))?;
    println!("node {called} has no shard any more: it can be stopped");
    Ok(())
}

/// Removes a node's records.
pub(super) fn remove(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    let directory = records.read()?;
    let node = find(&directory, flags.get_one::<String>("NODE").expect("it is required"))?;
    let called = called(&directory, node);
    match forget(&directory, node) {
        Ok(_) => {
            let shard = directory.shard_of_node(node);
            let shard =
                shard.map_or(String::new(), |(shard, _)| format!(" and leaves shard {shard}"));
            println!("node {called} is forgotten{shard}");
            if change::agreed(flags, "Remove it?")? {
                change::change(&records, |directory| forget(directory, node))?;
            }
            Ok(())
        }
        Err(Refused::Alive(_)) if directory.shard_of_node(node).is_some() => Err(format!(
            "node {called} is alive and has a shard: drain it first ('hotring cluster drain'), then stop it"
        )),
        Err(Refused::Leads(_, shard)) => remove_primary(&records, &directory, node, shard, flags),
        Err(why @ Refused::MayBeNeeded(_, shard)) => Err(format!(
            "{why}: see 'hotring cluster failover {shard} --help' for how the shard gets a primary"
        )),
        Err(why) => Err(why.to_string()),
    }
}

/// A dead primary: a replica follows it, or all is lost.
fn remove_primary(
    records: &Records,
    directory: &Directory,
    node: NodeId,
    shard: ShardId,
    flags: &ArgMatches,
) -> Result<(), String> {
    let (called, record) = (called(directory, node), &directory.shards[&shard].1);
    if !record.replicas.is_empty() {
        return Err(format!(
            "node {called} is still the primary of shard {shard}, which has other nodes: one that is in sync and alive takes \
             over by itself. If none does: 'hotring cluster failover {shard} --to NODE --force'"
        ));
    }
    let slots = count(&directory.owners, shard);
    if !flags.get_flag("force") {
        return Err(format!(
            "node {called} has the only copy of shard {shard}: start it again. If its data is gone, --force gives its {slots} \
             slots to an empty node, and all their keys are lost"
        ));
    }
    let empty = match flags.get_one::<String>("with") {
        Some(name) => find(directory, name)?,
        None => *idle(directory).first().ok_or(
            "no other node is registered that lives and has no shard: start one, so that it can take the slots",
        )?,
    };
    check_empty(directory, empty, flags)?;
    println!(
        "node {called} is forgotten, and ALL KEYS of its {slots} slots with it. Node {} gets the slots of shard {shard}, empty",
        super::present::called(directory, empty)
    );
    if change::agreed(flags, "Give these keys up?")? {
        change::change(records, |directory| found_again(directory, node, empty))?;
    }
    Ok(())
}

/// Old keys would appear again in the slots. A node without a shard shows none of them, but counts them.
fn check_empty(directory: &Directory, node: NodeId, flags: &ArgMatches) -> Result<(), String> {
    match Access::of(flags)?.connect(directory, node)?.ask(&["INFO", "keyspace"])? {
        Answer::Text(counts) if !counts.contains("keys=") => Ok(()),
        _ => {
            Err(format!("node {} has keys: start it with an empty folder", called(directory, node)))
        }
    }
}
