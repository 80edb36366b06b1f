//! What all subcommands do that change a cluster: ask first, make transactions, wait and show progress.

use std::io::{BufRead, Write as _};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches};
use hotring_cluster::changes::{self, MOVES_MAX};
use hotring_cluster::directory::{Directory, MoveId, Wanted};
use hotring_cluster::{Move, ShardId, Slot};
use hotring_coordinator::{Outcome, Transaction};

use super::records::Records;

/// How often a transaction is tried whose records are changed meanwhile.
const TRIES: u32 = 20;

/// Time between two tries, and between two looks at the records.
const LOOK: Duration = Duration::from_millis(200);

/// Most slots of a move. Each has its own end, so that a large change makes progress that stays.
const SLOTS_MAX: usize = 1_024;

/// The flags of each subcommand that changes something.
pub(super) fn args() -> [Arg; 3] {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    [
        flag("dry-run", "Show the plan and do nothing"),
        flag("yes", "Do not ask"),
        flag("no-wait", "Do not wait for the end: the nodes go on by themselves"),
    ]
}

/// Whether the plan that was shown is to be carried out.
pub(super) fn agreed(flags: &ArgMatches, question: &str) -> Result<bool, String> {
    if flags.get_flag("dry-run") {
        return Ok(false);
    }
    if flags.get_flag("yes") {
        return Ok(true);
    }
    print!("{question} (yes/no) ");
    let _ = std::io::stdout().flush();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|why| why.to_string())?;
    match line.trim() {
        "yes" | "y" => Ok(true),
        _ => Err("nothing was changed".to_string()),
    }
}

/// Makes a transaction of the present records until one is through.
pub(super) fn apply<T>(
    records: &Records,
    mut make: impl FnMut(&Directory) -> Result<(T, Transaction), String>,
) -> Result<T, String> {
    for _ in 0..TRIES {
        let (made, transaction) = make(&records.read()?)?;
        if let Outcome::Done(_) = records.transact(&transaction)? {
            return Ok(made);
        }
        std::thread::sleep(LOOK);
    }
    Err("the records change all the time: try again".to_string())
}

/// As [`apply`], for a change that is refused with a reason.
pub(super) fn change(
    records: &Records,
    mut make: impl FnMut(&Directory) -> Result<Transaction, changes::Refused>,
) -> Result<(), String> {
    let make = |directory: &Directory| {
        let made = make(directory).map_err(|why| why.to_string())?;
        Ok(((), made))
    };
    apply(records, make)
}

/// How far something is.
pub(super) enum Progress {
    Going(String),
    Done(String),
}

/// Waits until `look` says that it is done, at most for `patience`, and prints what has changed. `hint` says how to go
/// on if that is too long, or after Ctrl-C.
pub(super) fn wait(
    records: &Records,
    patience: Option<Duration>,
    hint: &str,
    mut look: impl FnMut(&Directory) -> Progress,
) -> Result<(), String> {
    let (began, mut shown) = (Instant::now(), String::new());
    loop {
        // The node with the embedded coordinator may be away for a moment.
        let (text, is_done) = match records.read().map(|directory| look(&directory)) {
            Ok(Progress::Going(text)) => (text, false),
            Ok(Progress::Done(text)) => (text, true),
            Err(why) => (why, false),
        };
        if text != shown && !text.is_empty() {
            println!("{text}");
            shown = text;
        }
        if is_done {
            return Ok(());
        }
        if patience.is_some_and(|patience| began.elapsed() > patience) {
            return Err(format!("it takes too long. {hint}"));
        }
        if records.is_interrupted(LOOK)? {
            return Err(format!("interrupted. {hint}"));
        }
    }
}

/// The moves of a plan, none too large.
pub(super) fn in_pieces(moves: &[Move]) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for Move { from, to, slots } in moves {
        // Slots without an owner have no keys, and no node that could give them.
        let Some(from) = from else { continue };
        let slots: Vec<Slot> = slots.iter().collect();
        wanted.extend(slots.chunks(SLOTS_MAX).map(|piece| {
            let slots = piece.iter().copied().collect();
            Wanted { from: *from, to: *to, slots }
        }));
    }
    wanted
}

/// Has moves made, and waits until they are over unless `returns`.
pub(super) fn make_moves(
    records: &Records,
    wanted: &[Wanted],
    returns: bool,
) -> Result<(), String> {
    let ids = want(records, wanted)?;
    match returns {
        true => Ok(()),
        false => wait_for_moves(records, &ids, wanted),
    }
}

/// Writes moves down, and returns their numbers.
pub(super) fn want(records: &Records, wanted: &[Wanted]) -> Result<Vec<MoveId>, String> {
    let mut ids = Vec::new();
    for some in wanted.chunks(MOVES_MAX) {
        let make =
            |directory: &Directory| changes::want(directory, some).map_err(|why| why.to_string());
        ids.extend(apply(records, make)?);
    }
    Ok(ids)
}

/// Waits until moves are over, and tells whether all are through.
pub(super) fn wait_for_moves(
    records: &Records,
    ids: &[MoveId],
    wanted: &[Wanted],
) -> Result<(), String> {
    const HINT: &str = "The moves go on by themselves: 'hotring cluster status' shows what is left, and 'hotring cluster \
                        move --cancel all' takes that back";
    let all: usize = wanted.iter().map(|wanted| wanted.slots.len()).sum();
    let mut cancelled: Vec<MoveId> = Vec::new();
    wait(records, None, HINT, |directory| {
        let moves = || ids.iter().zip(wanted);
        let is_open = |id: &MoveId| directory.moves.contains_key(id);
        let is_at = |wanted: &Wanted, shard: ShardId| {
            wanted.slots.iter().all(|slot| directory.owners.of(slot) == Some(shard))
        };
        let is_through = |wanted: &Wanted| is_at(wanted, wanted.to);
        let through = moves().filter(|(_, wanted)| is_through(wanted));
        let moved: usize = through.map(|(_, wanted)| wanted.slots.len()).sum();
        let left = moves().filter(|(id, wanted)| is_open(id) && !is_through(wanted)).count();
        let gone = moves().filter(|(id, wanted)| !is_open(id) && !is_through(wanted));
        cancelled = gone.map(|(id, _)| *id).collect();
        let text = format!("{moved} of {all} slots have moved, {left} moves are left");
        if left == 0 { Progress::Done(text) } else { Progress::Going(text) }
    })?;
    match cancelled.len() {
        0 => Ok(()),
        count => Err(format!("{count} moves were taken back")),
    }
}

/// Waits until all replicas of these shards are in sync.
pub(super) fn wait_until_in_sync(records: &Records, shards: &[ShardId]) -> Result<(), String> {
    const HINT: &str = "The replicas go on by themselves: 'hotring cluster status' shows whether they are in sync. If one \
                        never is, see its log, and that of its primary";
    wait(records, None, HINT, |directory| {
        let known = shards.iter().filter_map(|shard| directory.shards.get(shard));
        let (in_sync, replicas) = known.fold((0, 0), |(in_sync, replicas), (_, shard)| {
            (in_sync + shard.in_sync.len(), replicas + shard.replicas.len())
        });
        let text = format!("{in_sync} of {replicas} replicas are in sync");
        if in_sync == replicas { Progress::Done(text) } else { Progress::Going(text) }
    })
}
