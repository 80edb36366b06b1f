//! The program `hotring`: `serve` runs the server, most other subcommands work with a running or stopped one.
#![forbid(unsafe_code)]

// First, because all later modules use its macros.
#[macro_use]
mod output;

mod check;
mod client;
mod cluster;
mod commands;
mod export;
mod import;
mod ping;
mod proxy;
mod scrub;
mod serve;
mod top;
mod transfer;

use std::process::ExitCode;

use clap::Command;

fn main() -> ExitCode {
    let matches = cli().get_matches();
    match matches.subcommand() {
        Some(("serve", flags)) => serve::run(flags),
        Some(("top", flags)) => top::run(flags),
        Some(("ping", flags)) => ping::run(flags),
        Some(("scrub", flags)) => scrub::run(flags),
        Some(("check", flags)) => check::run(flags),
        Some(("export", flags)) => export::run(flags),
        Some(("import", flags)) => import::run(flags),
        Some(("cluster", flags)) => cluster::run(flags),
        Some(("proxy", flags)) => proxy::run(flags),
        Some(("commands", flags)) => commands::run(flags),
        _ => unreachable!("clap accepts no other subcommand"),
    }
}

fn cli() -> Command {
    Command::new("hotring")
        .version(env!("CARGO_PKG_VERSION"))
        .about("An in-memory key-value store for skewed workloads")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve::cli())
        .subcommand(top::cli())
        .subcommand(ping::cli())
        .subcommand(scrub::cli())
        .subcommand(check::cli())
        .subcommand(export::cli())
        .subcommand(import::cli())
        .subcommand(cluster::cli())
        .subcommand(proxy::cli())
        .subcommand(commands::cli())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::cli().debug_assert();
    }
}
