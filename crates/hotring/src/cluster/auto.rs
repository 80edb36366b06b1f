//! `hotring cluster rebalance --by heat --auto`: measures until Ctrl-C, and moves some slots when a shard is too hot.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use hotring_cluster::Move;

use super::change;
use super::loads::heat;
use super::plan;
use super::present::{at_rest, exists, present};
use super::records::Records;

/// The flags of the lasting form.
pub(super) fn args() -> [Arg; 3] {
    let number = |name: &'static str, value: &'static str| {
        Arg::new(name).long(name).value_name(value).requires("auto")
    };
    [
        Arg::new("auto")
            .long("auto")
            .action(ArgAction::SetTrue)
            .conflicts_with("no-wait")
            .help("Go on until Ctrl-C, by heat: measure for --seconds, move what is too hot without asking, measure again"),
        number("above", "PERCENT")
            .value_parser(value_parser!(u32).range(105..=1_000_000))
            .default_value("120")
            .help("With --auto: begin to move when a shard has more than this of its share"),
        number("most", "SLOTS")
            .value_parser(value_parser!(u32).range(1..=16_384))
            .default_value("256")
            .help("With --auto: the most slots between two measurements, the hottest first"),
    ]
}

/// What was measured, and what would mend it.
struct Measured {
    /// The load of the hottest shard, in percent of its share.
    hottest: f64,
    /// The hottest slots of the plan, as many as may move at once.
    moves: Vec<Move>,
    /// Whether the plan has more.
    has_more: bool,
}

/// Balances until Ctrl-C, or until an operator takes its moves back.
pub(super) fn run(records: &Records, flags: &ArgMatches) -> Result<(), String> {
    let number = |name: &str| *flags.get_one::<u32>(name).expect("it has a default");
    let (above, most) = (number("above"), number("most"));
    let seconds = *flags.get_one::<u64>("seconds").expect("it has a default");
    println!(
        "measuring for {seconds} seconds at a time; above {above} % of a share at most {most} slots move; Ctrl-C ends this"
    );
    let (mut said, mut is_unfinished) = (String::new(), false);
    loop {
        let measured = measure(records, flags, seconds, most as usize);
        let Ok(Some(measured)) = measured else {
            let Err(why) = measured else { return Ok(()) };
            say(&mut said, format!("nothing is moved: {why}"));
            // What fails at once must not be tried without a pause.
            match records.is_interrupted(Duration::from_secs(seconds))? {
                true => return Ok(()),
                false => continue,
            }
        };
        let Measured { hottest, moves, has_more } = measured;
        // A plan that was begun is brought to its end.
        let is_due = is_unfinished || hottest > f64::from(above);
        is_unfinished = is_due && has_more && !flags.get_flag("dry-run");
        if !is_due || moves.is_empty() {
            let text = match is_due && hottest > f64::from(above) {
                true => "a shard is too hot, and no move makes it less".to_string(),
                false => format!("no shard has more than {above} % of its share"),
            };
            say(&mut said, text);
            continue;
        }
        say(&mut said, format!("the hottest shard has {hottest:.0} % of its share"));
        moves.iter().for_each(|planned| println!("{planned}"));
        if !flags.get_flag("dry-run") {
            try_moves(records, &moves, &mut said)?;
        }
    }
}

/// Makes the moves, unless the records refuse them. An error if Ctrl-C came, or an operator took them back.
fn try_moves(records: &Records, moves: &[Move], said: &mut String) -> Result<(), String> {
    let wanted = change::in_pieces(moves);
    match change::want(records, &wanted) {
        Ok(ids) => change::wait_for_moves(records, &ids, &wanted),
        Err(why) => {
            say(said, format!("nothing is moved: {why}"));
            Ok(())
        }
    }
}

/// Prints a text unless it was the last one.
fn say(said: &mut String, text: String) {
    if *said != text {
        println!("{text}");
        *said = text;
    }
}

/// Counts accesses, and plans. None after Ctrl-C.
fn measure(
    records: &Records,
    flags: &ArgMatches,
    seconds: u64,
    most: usize,
) -> Result<Option<Measured>, String> {
    let directory = records.read()?;
    exists(&directory)?;
    at_rest(&directory)?;
    let Some(loads) = heat(records, &directory, seconds, flags)? else { return Ok(None) };
    let planned = plan::make(present(&directory, &[], 1, |_| false).cluster, Some(loads))?;
    let (moves, hottest) = (planned.hottest(most), planned.fullest() * 100.0);
    let count = |moves: &[Move]| moves.iter().map(|planned| planned.slots.len()).sum::<usize>();
    let has_more = count(&moves) < count(planned.moves());
    Ok(Some(Measured { hottest, moves, has_more }))
}
