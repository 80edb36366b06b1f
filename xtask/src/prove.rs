//! `cargo xtask prove`: what looks for faults that tests do not show. Models of the index take every
//! order of its steps, sanitizers watch its memory, decoders get random input, servers are killed and
//! loaded, and client libraries of five languages talk to one.

mod sanitizers;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail, ensure};

use crate::suite::{Done, Suite};
use crate::test::{binary, build_quietly, built, clippy_with, count_tests};
use crate::workspace::{cargo, target};
use crate::{clients, engines, fuzz, process, redis, tools};

/// How long a proof may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Minutes, for every change.
    Quick,
    /// An hour or so.
    Long,
}

/// A proof: its name, and what it does.
type Proof = (&'static str, fn(Form) -> Result<Done>);

const PROOFS: &[Proof] = &[
    ("all-features", |_| clippy_with(&["--all-features"])),
    ("loom", loom),
    ("shuttle", shuttle),
    ("asan", sanitizers::asan),
    ("tsan", sanitizers::tsan),
    ("fuzzing", fuzzing),
    ("torture", torture),
    ("crashes", crashes),
    ("engines", engine_servers),
    ("redis-tools", redis_tools),
];

/// The clients, a step each.
const CLIENTS: &str = "clients";

/// The clients that are tried each time; `cargo xtask clients` knows more.
const TRIED_CLIENTS: &[&str] =
    &["redis-cli", "redis-py", "go-redis", "ioredis", "pymemcache", "memccapable"];

/// What a later proof needs, built while the models leave a processor idle.
const AHEAD: &[&[&str]] = &[
    &["build", "--locked", "--quiet", "--profile", "tested", "-p", "hotring-bench"],
    &["build", "--locked", "--quiet", "--workspace", "--bins"],
];

/// `cargo xtask prove`: the named proofs, or all.
pub fn prove(words: &[&str]) -> Result<ExitCode> {
    let form = if words.contains(&"--long") { Form::Long } else { Form::Quick };
    let names: Vec<&str> = words.iter().copied().filter(|word| *word != "--long").collect();
    let known: Vec<&str> = PROOFS.iter().map(|(name, _)| *name).chain([CLIENTS]).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        bail!("no proof is called {name}; there are {}", known.join(", "));
    }
    let mut suite = Suite::new();
    steps(&mut suite, &names, form);
    Ok(suite.finish())
}

/// A step for each proof that is named, or for all of them.
pub fn steps(suite: &mut Suite, names: &[&str], form: Form) {
    if names.is_empty() || names.contains(&CLIENTS) {
        suite.step("tools of the proofs", tools::prepare_proofs);
    }
    let ahead = names.is_empty().then(|| {
        std::thread::spawn(|| {
            AHEAD.iter().for_each(|words| build_quietly(words));
            fuzz::build_ahead();
        })
    });
    for (name, run) in PROOFS {
        if names.is_empty() || names.contains(name) {
            suite.step(name, || run(form));
        }
    }
    let _ = ahead.map(std::thread::JoinHandle::join);
    if names.is_empty() || names.contains(&CLIENTS) {
        match server() {
            Ok(hotring) => clients::steps(suite, TRIED_CLIENTS, &hotring),
            Err(error) => drop(suite.step(CLIENTS, || Err(error))),
        }
    }
}

/// The tests of hotring-index, built with flags in a folder of their own.
fn index_tests(folder: &str, flags: &str, which: &[&str]) -> Command {
    let mut command = cargo();
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target().join(folder));
    // It would count instead, and the checker would look at nothing.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.args(["test", "--locked", "--quiet", "-p", "hotring-index"]).args(which);
    command
}

/// Runs tests, of which there have to be some: without its flag a checker's file is empty.
fn count_some(command: &mut Command) -> Result<Done> {
    let done = count_tests(command)?;
    ensure!(!matches!(done, Done::Passed(0)), "no test ran");
    Ok(done)
}

/// Sets a variable where the caller's environment does not.
fn default(command: &mut Command, name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        command.env(name, value);
    }
}

/// Every order of the steps of small scenarios, and every wrong variant found.
fn loom(form: Form) -> Result<Done> {
    let mut command = index_tests("loom", "--cfg loom", &["--profile", "tested", "--test", "loom"]);
    if form == Form::Long {
        // Three preemptions instead of two, as far as one gets in so many seconds a scenario.
        default(&mut command, "HOTRING_LOOM_LONG", "1");
        default(&mut command, "HOTRING_LOOM_PREEMPTIONS", "3");
        default(&mut command, "HOTRING_LOOM_SECONDS", "120");
    }
    count_some(command.args(["--", "--nocapture"]))
}

/// Random orders of larger scenarios.
fn shuttle(form: Form) -> Result<Done> {
    let which = ["--profile", "tested", "--test", "shuttle"];
    let mut command = index_tests("shuttle", "--cfg shuttle", &which);
    match form {
        // From 1,000 runs on, each rare step must have been taken.
        Form::Quick => default(&mut command, "HOTRING_SHUTTLE_ITERATIONS", "1000"),
        Form::Long => default(&mut command, "HOTRING_SHUTTLE_SECONDS", "600"),
    }
    count_some(command.args(["--", "--nocapture"]))
}

/// Random input to the decoders, to scripts and to recovery.
fn fuzzing(form: Form) -> Result<Done> {
    let seconds = if form == Form::Long { fuzz::SECONDS } else { 20 };
    fuzz::side_by_side(fuzz::TARGETS, seconds)
}

/// Mixed operations with every answer checked, on index and store.
fn torture(form: Form) -> Result<Done> {
    let seconds = if form == Form::Long { "60" } else { "10" };
    process::run(process::command(bench()?).args(["torture", "--seconds", seconds]))?;
    Ok(Done::Passed(2))
}

/// Servers with a log that are killed: each mode of the log keeps what it promises.
fn crashes(form: Form) -> Result<Done> {
    let (kills, life) = if form == Form::Long { ("100", "500") } else { ("6", "300") };
    let program = server()?;
    let mut crash = process::command(bench()?);
    crash.args(["crash", "--kills", kills, "--life", life, "--program"]).arg(program);
    process::run(&mut crash)?;
    Ok(Done::Passed(3))
}

/// Every engine under the server, with a workload whose hits are known.
fn engine_servers(_: Form) -> Result<Done> {
    engines::check(&server()?, &bench()?)
}

/// Redis's command-line tools.
fn redis_tools(_: Form) -> Result<Done> {
    match tools::missing(&["redis-cli", "redis-benchmark"]) {
        Some(what) => Ok(Done::Skipped(what)),
        None => redis::check(&server()?),
    }
}

/// The optimised bench, built.
fn bench() -> Result<PathBuf> {
    built(&["--profile", "tested", "-p", "hotring-bench"])?;
    Ok(binary("tested", "hotring-bench"))
}

/// The server with its assertions, built with the features of the tests' build: of the package alone
/// much would be built once more.
fn server() -> Result<PathBuf> {
    built(&["--workspace", "--bins"])?;
    Ok(binary("debug", "hotring"))
}
