//! `cargo xtask prove`: searches for faults that tests do not show. Lints read all code, models of the index take every
//! order of its steps, sanitizers check its memory, decoders get random input, servers are killed
//! and loaded, and client libraries of several languages talk to a server.

mod nemesis;
mod sanitizers;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail, ensure};

use crate::suite::{Done, Suite};
use crate::test::{binary, build_quietly, count_tests, lints};
use crate::workspace::{PRODUCT, cargo, target};
use crate::{clients, engines, fuzz, instructions, process, redis, tools};

/// The duration of a proof.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Minutes, for every change.
    Quick,
    /// About an hour.
    Long,
}

/// A proof: its name and its function.
type Proof = (&'static str, fn(Form) -> Result<Done>);

const PROOFS: &[Proof] = &[
    ("lints", |_| lints()),
    ("loom", loom),
    ("shuttle", shuttle),
    ("optimised", optimised),
    ("asan", sanitizers::asan),
    ("tsan", sanitizers::tsan),
    ("schedules", schedules),
    ("differential", differential),
    ("faults", faults),
    ("coordinator", coordinator),
    ("nemesis", nemesis::nemesis),
    ("fuzzing", fuzzing),
    ("torture", torture),
    ("memory", memory),
    ("measurements", measurements),
    ("instructions", |_| instructions::check(&instructions::COMMANDS)),
    ("crashes", crashes),
    ("engines", engine_servers),
    ("redis-tools", redis_tools),
    ("alerts", alerts),
];

/// The name of the client steps.
const CLIENTS: &str = "clients";

/// Clients that run each time; `cargo xtask clients` has more.
const TRIED_CLIENTS: &[&str] = &[
    "redis-cli",
    "redis-py",
    "go-redis",
    "ioredis",
    "redis-py-cluster",
    "go-redis-cluster",
    "ioredis-cluster",
    "pymemcache",
    "memccapable",
    "redis-py-proxy",
    "pymemcache-proxy",
    "memccapable-proxy",
    "pool",
    "arq",
    "bee-queue",
    "asynq",
];

/// The product's tests as `cargo xtask test` builds them, with the programs that they start. Of a single package cargo
/// would build most again, as its dependencies have fewer features then.
fn tests() -> Vec<&'static str> {
    [&["test", "--locked", "--quiet"], PRODUCT, &["--test", "it"]].concat()
}

/// The optimised bench and its tests.
const BENCH: &[&str] = &[
    "test",
    "--locked",
    "--quiet",
    "--profile",
    "tested",
    "-p",
    "hotring-bench",
    "-p",
    "hotring-cpp-peers",
    "--lib",
    "--bins",
    "--test",
    "it",
];

/// The optimised tests of the index.
const INDEX: &[&str] =
    &["test", "--locked", "--quiet", "--profile", "tested", "-p", "hotring-index", "--test", "it"];

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

/// Adds a step for each named proof, or for all.
pub fn steps(suite: &mut Suite, names: &[&str], form: Form) {
    if names.is_empty() || names.contains(&CLIENTS) {
        suite.step("tools of the proofs", tools::prepare_proofs);
    }
    let ahead = names.is_empty().then(|| {
        std::thread::spawn(|| {
            // The models leave a processor idle meanwhile.
            for words in [INDEX, BENCH, &tests()] {
                build_quietly(&[words, &["--no-run"]].concat());
            }
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

/// The tests of hotring-index, built with flags in a separate folder.
fn index_tests(folder: &str, flags: &str, which: &[&str]) -> Command {
    let mut command = flagged_tests(folder, flags);
    command.args(["-p", "hotring-index"]).args(which);
    command
}

/// Tests that are built with flags in a separate folder.
fn flagged_tests(folder: &str, flags: &str) -> Command {
    let mut command = cargo();
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target().join(folder));
    // This variable would override the flags, and the checker would check nothing.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.args(["test", "--locked", "--quiet"]);
    command
}

/// Runs tests and requires at least one: without its flag a checker's file is empty.
fn count_some(command: &mut Command) -> Result<Done> {
    let done = count_tests(command)?;
    ensure!(!matches!(done, Done::Passed(0)), "no test ran");
    Ok(done)
}

/// Sets a variable unless the caller's environment does.
fn default(command: &mut Command, name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        command.env(name, value);
    }
}

/// The index's scenarios, the gate's and the log's.
const MODELS: &[&str] = &[
    "-p",
    "hotring-index",
    "--test",
    "loom",
    "-p",
    "hotring-store",
    "--test",
    "model_gate",
    "-p",
    "hotring-log",
    "--test",
    "model_log",
];

/// Tries every order of the steps of small scenarios. Every deliberately wrong variant must be found.
fn loom(form: Form) -> Result<Done> {
    let mut command = flagged_tests("loom", "--cfg loom");
    command.args(["--profile", "tested"]).args(MODELS);
    if form == Form::Long {
        // Three preemptions instead of two, within a time limit per scenario.
        default(&mut command, "HOTRING_LOOM_LONG", "1");
        default(&mut command, "HOTRING_LOOM_PREEMPTIONS", "3");
        default(&mut command, "HOTRING_LOOM_SECONDS", "30");
    }
    count_some(command.args(["--", "--nocapture"]))
}

/// Tries random orders of the steps of larger scenarios.
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

/// The index's tests in optimised code, which shows races that other code hides.
fn optimised(_: Form) -> Result<Done> {
    count_some(cargo().args(INDEX))
}

/// Replication in virtual time: crashes, pauses, cuts and lost messages. Wrong variants must be found.
fn schedules(form: Form) -> Result<Done> {
    let mut command = cargo();
    let count = if form == Form::Long { "500000" } else { "30000" };
    default(&mut command, "HOTRING_SCHEDULES", count);
    let which = ["-p", "hotring-cluster", "--test", "it", "--", "--nocapture"];
    count_some(command.args(["test", "--locked", "--quiet", "--profile", "tested"]).args(which))
}

/// Replies compared with those of a real Redis and memcached; the long form has more seeds than the tests.
fn differential(form: Form) -> Result<Done> {
    let mut command = cargo();
    let seeds = if form == Form::Long { "100" } else { "2" };
    default(&mut command, "HOTRING_DIFFERENTIAL_SEEDS", seeds);
    count_some(command.args(tests()).arg("differential"))
}

/// Two servers that are killed, stopped, cut off and replaced: nothing that was acknowledged may be lost.
fn faults(form: Form) -> Result<Done> {
    let mut command = cargo();
    default(&mut command, "HOTRING_FAULTS", if form == Form::Long { "3000" } else { "200" });
    // They wait more than they compute.
    default(&mut command, "RUST_TEST_THREADS", "4");
    count_some(command.args(tests()).args(["nemesis::", "--", "--nocapture"]))
}

/// A real etcd under the suite of all coordinators, and clients while its members are killed and stopped.
fn coordinator(_: Form) -> Result<Done> {
    if let Some(missing) = tools::prepare_etcd() {
        return Ok(Done::Skipped(missing));
    }
    let mut command = cargo();
    command.env("HOTRING_ETCD", "etcd");
    count_some(command.args(tests()).args(["etcd::", "--", "--nocapture"]))
}

/// The alert rules for Prometheus: each of those about replication fires when it should, and not before.
fn alerts(_: Form) -> Result<Done> {
    let folder = "packaging/monitoring";
    let [rules, tests] = ["alerts.yml", "alerts_test.yml"].map(|name| format!("{folder}/{name}"));
    tools::promtool(&[&["check", "rules", &rules], &["test", "rules", &tests]])
}

/// Random input to the decoders, to scripts, to recovery and to links.
fn fuzzing(form: Form) -> Result<Done> {
    let seconds = if form == Form::Long { fuzz::SECONDS } else { 20 };
    fuzz::side_by_side(fuzz::TARGETS, seconds)
}

/// Mixed operations with every result checked, on index and store.
fn torture(form: Form) -> Result<Done> {
    let seconds = if form == Form::Long { "60" } else { "10" };
    process::run(process::command(bench()?).args(["torture", "--seconds", seconds]))?;
    Ok(Done::Passed(2))
}

/// The process's memory stays near its limit under loads that try to exceed it.
fn memory(_: Form) -> Result<Done> {
    count_some(cargo().args(BENCH).args(["--", "--ignored", "bounds::"]))
}

/// Every measurement in small: its rows, its files and its errors.
fn measurements(_: Form) -> Result<Done> {
    count_some(cargo().args(BENCH))
}

/// Kills servers with a log: each mode of the log must keep its guarantees.
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
        Some(missing) => Ok(Done::Skipped(missing)),
        None => redis::check(&server()?),
    }
}

/// Builds the optimised bench.
fn bench() -> Result<PathBuf> {
    process::run(cargo().args(BENCH).arg("--no-run"))?;
    Ok(binary("tested", "hotring-bench"))
}

/// Builds the server with assertions.
fn server() -> Result<PathBuf> {
    process::run(cargo().args(tests()).arg("--no-run"))?;
    Ok(binary("debug", "hotring"))
}
