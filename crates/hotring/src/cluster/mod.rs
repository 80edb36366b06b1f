//! `hotring cluster`: tries a cluster on this machine, makes one, shows its state, plans changes and makes them.

mod add;
mod auto;
mod change;
mod check;
mod create;
mod demo;
mod drain;
mod failover;
mod file;
mod loads;
mod moving;
mod plan;
mod present;
mod records;
mod status;
mod talk;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};

use plan::Planned;

const NOTES: &str = "\
FILE is TOML:

    copies = 2                # nodes of a shard, the primary included [default: 1]

    [[shard]]                 # a shard that owns slots
    number = 0
    slots = \"0-16383\"
    ids = [\"0x1f00\", \"0x9a\"]  # its places on the circle [default: drawn, 128 for weight 100]

    [[node]]
    name = \"a\"
    shard = 0                 # the shard it is in [default: none, it joins]
    zone = \"east\"             # nodes of one zone may fail together [default: \"\"]
    weight = 200              # what it can carry [default: 100]
    leaves = true             # [default: false]

The first node of a shard is its primary. A node replaces another if one leaves and one joins. A shard without nodes that \
stay gives all its slots away. Slots that neither FILE's shards nor a plan gave to anyone are new.

Without --loads all slots count alike.

Exit codes: 0 if there is a plan, even an empty one, 2 if not";

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let path =
        |name: &'static str| Arg::new(name).value_name(name).value_parser(value_parser!(PathBuf));
    let plan = Command::new("plan")
        .about("Show which slots would move between shards, and how balanced they would be")
        .after_help(NOTES)
        .arg(path("FILE").required(true).help("The present shards, and the nodes as they should be"))
        .arg(path("LOADS").long("loads").help(
            "Balance what this file says instead of the number of slots, such as bytes or requests: \
             lines of a slot, a space and a number",
        ));
    Command::new("cluster")
        .about("Try a cluster, make one, show its state, change it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(demo::cli())
        .subcommand(create::cli())
        .subcommand(status::cli())
        .subcommand(check::cli())
        .subcommand(add::cli())
        .subcommand(drain::drain_cli())
        .subcommand(drain::remove_cli())
        .subcommand(moving::move_cli())
        .subcommand(moving::rebalance_cli())
        .subcommand(failover::cli())
        .subcommand(plan)
}

/// Does what the subcommand says.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    let (name, done) = match flags.subcommand() {
        Some(("plan", flags)) => return print_plan(flags),
        Some(("demo", flags)) => ("demo", demo::run(flags)),
        Some(("create", flags)) => ("create", create::run(flags)),
        Some(("status", flags)) => ("status", status::run(flags)),
        Some(("check", flags)) => ("check", check::run(flags)),
        Some(("add", flags)) => ("add", add::run(flags)),
        Some(("drain", flags)) => ("drain", drain::drain(flags)),
        Some(("remove", flags)) => ("remove", drain::remove(flags)),
        Some(("move", flags)) => ("move", moving::run(flags)),
        Some(("rebalance", flags)) => ("rebalance", moving::rebalance(flags)),
        Some(("failover", flags)) => ("failover", failover::run(flags)),
        _ => unreachable!("clap accepts no other subcommand"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hotring cluster {name}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn print_plan(flags: &ArgMatches) -> ExitCode {
    let file = flags.get_one::<PathBuf>("FILE").expect("it is required");
    match planned(file, flags.get_one::<PathBuf>("LOADS").map(PathBuf::as_path)) {
        Ok(planned) => {
            print!("{planned}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("hotring cluster plan: {why}");
            ExitCode::from(2)
        }
    }
}

fn planned(file: &Path, loads: Option<&Path>) -> Result<Planned, String> {
    let read = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|why| format!("cannot read {}: {why}", path.display()))
    };
    let named = |path: &Path, why: String| format!("{}, {why}", path.display());
    let wanted = file::cluster(&read(file)?).map_err(|why| named(file, why))?;
    let loads = match loads {
        Some(path) => Some(file::loads(&read(path)?).map_err(|why| named(path, why))?),
        None => None,
    };
    plan::make(wanted, loads).map_err(|why| format!("{}: {why}", file.display()))
}
