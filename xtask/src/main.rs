//! `cargo xtask`: every check and every generated page of this project, one subcommand each.
//!
//! `main` only names the tasks. `suite` runs steps and summarizes them, `test` lists the steps of a
//! full run, `tidy` checks the style rules that no other tool knows, `tools` finds or installs the
//! programs that the steps need.
#![forbid(unsafe_code)]

mod clients;
mod docs;
mod engines;
mod fuzz;
mod instructions;
mod lanes;
mod long;
mod package;
mod process;
mod prove;
mod redis;
mod server;
mod suite;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
Usage: cargo xtask TASK

  check          Formatting, lints, style and unit tests: the quick round during work
  test           Formatting, style, all tests of the product, documentation, generated pages, instructions.
                 Lists missing tools, then installs them
  prove          Searches for faults that tests do not show: lints, loom, shuttle, optimised, asan, tsan, schedules,
                 differential, fuzzing, torture, measurements, instructions, crashes, engines, redis-tools,
                 clients, or the named ones; --long runs them for hours
  tools          Installs the programs that test and prove need
  tidy           Checks the style rules that rustfmt and clippy do not know
  docs           Regenerates the pages of docs/ that come from tables
  docs --check   Fails if one of them is stale
  clients        Runs client libraries, their own tests, and tools against a server: all of them, or the
                 named ones
  instructions   Compares instructions per operation with the baseline; --renew rewrites it
  fuzz           Runs each target of fuzz/, or the named ones, for 600 seconds; --seconds N; --together
                 runs all of them at once
  package        Builds the packages for users and tries them: install, static, deb, unit, or the named
                 ones. Installs their tools first
  long           Runs for hours: long recorded histories, all proofs, real traces (HOTRING_TRACES), and
                 the licences of dependencies, whose checker takes long to build
  measure        Runs the measurements of docs/results on this machine: compare, memory, reclamation, bounds,
                 servers, evict (with the traces of HOTRING_TRACES, too), expiry

Environment: CI=true makes a tool that cannot be installed a failure instead of a skipped step.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<ExitCode> {
    match words {
        ["check"] => test::check(),
        ["test"] => test::test(),
        ["tools"] => test::tools(),
        ["tidy"] => tidy::run().map(|_| ExitCode::SUCCESS),
        ["docs"] => docs::write().map(|()| ExitCode::SUCCESS),
        ["docs", "--check"] => docs::check().map(|_| ExitCode::SUCCESS),
        ["clients", names @ ..] => clients::run(names),
        ["prove", words @ ..] => prove::prove(words),
        ["instructions"] => instructions::run(false).map(|()| ExitCode::SUCCESS),
        ["instructions", "--renew"] => instructions::run(true).map(|()| ExitCode::SUCCESS),
        ["fuzz", words @ ..] => fuzz::fuzz(words),
        ["package", names @ ..] => package::run(names),
        ["long"] => long::long(),
        ["measure"] => long::measure(),
        [] | ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("no such task: {}\n\n{USAGE}", words.join(" ")),
    }
}
