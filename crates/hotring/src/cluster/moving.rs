//! `hotring cluster move` and `rebalance`: slots go from shard to shard.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Command, value_parser};
use hotring_cluster::changes::{cancel, want};
use hotring_cluster::directory::{Directory, MoveId, Wanted};
use hotring_cluster::{Move, ShardId, Slot, SlotSet};

use super::loads::{heat, loads};
use super::plan;
use super::present::{at_rest, exists, present};
use super::records::{Records, address_args};
use super::{auto, change};

const MOVE_NOTES: &str = "\
Clients go on meanwhile: they are redirected when a slot has moved. Ctrl-C ends the waiting alone.

    hotring cluster move --coordinator 127.0.0.1:7000 0-99,2000 --to 2
    hotring cluster move --coordinator 127.0.0.1:7000 --cancel all

Exit codes: 0 if the slots have moved, or would with --dry-run, or no longer will with --cancel; 1 if not";

const REBALANCE_NOTES: &str = "\
Moves as little as possible, until no shard has more than 1.05 of its share by weight. By bytes or keys, the primaries are \
asked what their slots have (CLUSTER SLOT-STATS), which walks over all keys. By heat, they are asked twice how often keys of \
their slots have been used. A slot that is hotter than a share stays where it is, and others leave its shard.

    hotring cluster rebalance --coordinator 127.0.0.1:7000 --by heat --auto

One process with --auto is enough for a cluster. 'hotring cluster move --cancel all' takes its moves back and ends it.

Exit codes: 0 if the shards are balanced, or would be with --dry-run, or after Ctrl-C of --auto unless it waits for moves; 1 if not";

/// The subcommand `move` and its flags.
pub(super) fn move_cli() -> Command {
    let shard = |name: &'static str, help: &'static str| {
        let parser = value_parser!(u32);
        Arg::new(name).long(name).value_name("SHARD").value_parser(parser).help(help)
    };
    Command::new("move")
        .about("Move slots to another shard, or take moves back")
        .after_help(MOVE_NOTES)
        .args(address_args())
        .arg(
            Arg::new("SLOTS")
                .required_unless_present("cancel")
                .help("The slots, such as 7 or 0-99,2000"),
        )
        .arg(shard("to", "The shard that gets them").required_unless_present("cancel"))
        .arg(shard("from", "The shard that has them [default: whichever has]"))
        .arg(
            Arg::new("cancel")
                .long("cancel")
                .value_name("ID|all")
                .conflicts_with_all(["SLOTS", "to", "from"])
                .help("Take a move back, unless it is through, or all of them"),
        )
        .args(change::args())
}

/// The subcommand `rebalance` and its flags.
pub(super) fn rebalance_cli() -> Command {
    Command::new("rebalance")
        .about("Move slots until each shard has its share")
        .after_help(REBALANCE_NOTES)
        .args(address_args())
        .arg(
            Arg::new("by")
                .long("by")
                .value_name("WHAT")
                .value_parser(["slots", "keys", "bytes", "heat"])
                .default_value("slots")
                .help("What is balanced"),
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=86_400))
                .default_value("30")
                .help("How long accesses are counted, by heat"),
        )
        .args(auto::args())
        .args(change::args())
}

/// Moves slots.
pub(super) fn run(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    if let Some(which) = flags.get_one::<String>("cancel") {
        return take_back(&records, which, flags);
    }
    let directory = records.read()?;
    exists(&directory)?;
    let slots = flags.get_one::<String>("SLOTS").expect("it is required");
    let slots: SlotSet = slots.parse().map_err(|why| format!("{why}"))?;
    let to = *flags.get_one::<u32>("to").expect("it is required");
    let moves = moves(&directory, &slots, flags.get_one::<u32>("from").copied(), to)?;
    if moves.is_empty() {
        println!("shard {to} has these slots already");
        return Ok(());
    }
    moves.iter().for_each(|planned| println!("{planned}"));
    let wanted = change::in_pieces(&moves);
    // What is refused now would be later, too.
    for some in wanted.chunks(hotring_cluster::changes::MOVES_MAX) {
        want(&directory, some).map_err(|why| why.to_string())?;
    }
    carry_out(&records, &wanted, flags)
}

fn carry_out(records: &Records, wanted: &[Wanted], flags: &ArgMatches) -> Result<(), String> {
    match change::agreed(flags, "Move these slots?")? {
        true => change::make_moves(records, wanted, flags.get_flag("no-wait")),
        false => Ok(()),
    }
}

/// The moves that bring slots to a shard.
fn moves(
    directory: &Directory,
    slots: &SlotSet,
    from: Option<ShardId>,
    to: ShardId,
) -> Result<Vec<Move>, String> {
    let mut of: BTreeMap<ShardId, Vec<Slot>> = BTreeMap::new();
    for slot in slots.iter() {
        let owner = directory.owners.of(slot);
        let owner = owner.ok_or_else(|| format!("slot {slot} has no shard"))?;
        match from {
            Some(from) if from != owner => {
                return Err(format!("slot {slot} is in shard {owner}, not in shard {from}"));
            }
            _ if owner == to => {}
            _ => of.entry(owner).or_default().push(slot),
        }
    }
    let planned = |(from, slots): (ShardId, Vec<Slot>)| Move {
        from: Some(from),
        to,
        slots: slots.into_iter().collect(),
    };
    Ok(of.into_iter().map(planned).collect())
}

fn take_back(records: &Records, which: &str, flags: &ArgMatches) -> Result<(), String> {
    let directory = records.read()?;
    let ids: Vec<MoveId> = match which {
        "all" => directory.moves.keys().copied().collect(),
        number => vec![number.parse().map_err(|_| {
            format!("'{number}' is no move: write its number, as 'hotring cluster status' shows it, or all")
        })?],
    };
    for id in &ids {
        let (_, wanted) =
            directory.moves.get(id).ok_or_else(|| format!("there is no move {id}"))?;
        println!("move {id}: {}", shown(wanted));
    }
    if ids.is_empty() {
        println!("no move is under way");
        return Ok(());
    }
    if !change::agreed(flags, "Take these moves back?")? {
        return Ok(());
    }
    for id in ids {
        // It may be through by now.
        match change::change(records, |directory| cancel(directory, id)) {
            Err(why) if records.read()?.moves.contains_key(&id) => return Err(why),
            Err(_) => println!("move {id} is through"),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// A move as plans show it.
pub(super) fn shown(wanted: &Wanted) -> Move {
    let Wanted { from, to, slots } = wanted;
    Move { from: Some(*from), to: *to, slots: slots.clone() }
}

/// Balances the shards.
pub(super) fn rebalance(flags: &ArgMatches) -> Result<(), String> {
    let records = Records::connect(flags)?;
    let by = flags.get_one::<String>("by").map(String::as_str);
    if flags.get_flag("auto") {
        return match by {
            Some("heat") => auto::run(&records, flags),
            _ => Err("--auto balances by heat: give --by heat, too".to_string()),
        };
    }
    let directory = records.read()?;
    exists(&directory)?;
    at_rest(&directory)?;
    let loads = match by {
        Some("keys") => Some(loads(&directory, "key-count", flags)?),
        Some("bytes") => Some(loads(&directory, "memory-bytes", flags)?),
        Some("heat") => {
            let seconds = *flags.get_one::<u64>("seconds").expect("it has a default");
            println!("counting accesses for {seconds} seconds");
            let heat = heat(&records, &directory, seconds, flags)?;
            Some(heat.ok_or("interrupted: nothing was changed")?)
        }
        _ => None,
    };
    let planned = plan::make(present(&directory, &[], 1, |_| false).cluster, loads)?;
    print!("{planned}");
    let wanted = change::in_pieces(planned.moves());
    if wanted.is_empty() {
        return Ok(());
    }
    carry_out(&records, &wanted, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_moved_from_whichever_shard_has_them() {
        let mut directory = Directory::default();
        (0..100).for_each(|slot| directory.owners.give(slot, u32::from(slot) / 40));
        let slots: SlotSet = "30-50,85".parse().unwrap();
        let planned = moves(&directory, &slots, None, 1).unwrap();
        let lines: Vec<String> = planned.iter().map(Move::to_string).collect();
        assert_eq!(
            lines,
            ["shard 0 -> shard 1: 10 slots: 30-39", "shard 2 -> shard 1: 1 slot: 85"]
        );
        let error = moves(&directory, &slots, Some(0), 1).unwrap_err();
        assert_eq!(error, "slot 40 is in shard 1, not in shard 0");
        let none: SlotSet = "100".parse().unwrap();
        assert_eq!(moves(&directory, &none, None, 1).unwrap_err(), "slot 100 has no shard");
    }
}
