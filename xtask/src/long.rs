//! `cargo xtask long` and `measure`: the long forms of the checks, and the measurements of `docs/results`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;
use crate::prove::{self, Form};
use crate::server::Server;
use crate::suite::{Done, Suite};
use crate::test::{binary, count_tests, release_build};
use crate::tools;
use crate::workspace::{cargo, target};

/// Environment variables that lengthen the recorded-history tests, unless the caller has set them.
const LONGER: &[(&str, &str)] = &[
    ("HOTRING_SECONDS", "600"),
    ("HOTRING_SEQUENCES", "20"),
    ("HOTRING_SOAK", "50"),
    ("HOTRING_DIFFERENTIAL_SEEDS", "50"),
];

/// The long forms of the checks.
pub fn long() -> Result<ExitCode> {
    let mut suite = Suite::new();
    if !suite.step("release build", || release_build().map(|()| Done::Passed(1))) {
        return Ok(suite.finish());
    }
    suite.step("licences, sources", licences);
    suite.step("long histories", || {
        let which = ["test", "--release", "--locked", "-p", "hotring-index", "-p", "hotring-store"];
        let mut command = cargo();
        lengthen(command.args(which).args(["-p", "hotring-server", "--test", "it"]));
        count_tests(&mut command)
    });
    prove::steps(&mut suite, &[], Form::Long);
    suite.step("traces", traces);
    Ok(suite.finish())
}

fn licences() -> Result<Done> {
    tools::prepare_deny()?;
    // Advisories would need the network, so they are not checked.
    let checks = ["--all-features", "check", "bans", "licenses", "sources"];
    process::run(cargo().args(["deny", "--log-level=error"]).args(checks))?;
    Ok(Done::Passed(3))
}

fn lengthen(command: &mut Command) {
    for (name, value) in LONGER {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
}

/// Replays every trace of `HOTRING_TRACES` in process, over the wire and against a plain map. All
/// three must have the same number of hits.
fn traces() -> Result<Done> {
    let Some(files) = trace_files()? else {
        return Ok(Done::Skipped("HOTRING_TRACES does not name a folder of traces".into()));
    };
    for file in &files {
        let server = Server::start(&binary("release", "hotring"))?;
        let wire = format!("redis://127.0.0.1:{}", server.port);
        let model = hits(file, "model")?;
        for target in ["store", &wire] {
            let hits = hits(file, target)?;
            let name = file.display();
            ensure!(hits == model, "{name}: {hits} hits on {target}, {model} in a plain map");
        }
    }
    Ok(Done::Passed(2 * files.len()))
}

/// The traces in the folder that `HOTRING_TRACES` names, if set.
fn trace_files() -> Result<Option<Vec<PathBuf>>> {
    let Some(folder) = std::env::var_os("HOTRING_TRACES") else { return Ok(None) };
    let folder = PathBuf::from(folder);
    // The bench may read the files from another working directory.
    let folder = folder.canonicalize().with_context(|| format!("no {}", folder.display()))?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().contains(".trace"))
        .collect();
    files.sort();
    ensure!(!files.is_empty(), "{} holds no file *.trace or *.trace.xz", folder.display());
    Ok(Some(files))
}

fn hits(file: &PathBuf, target: &str) -> Result<u64> {
    let mut replay = process::command(binary("release", "hotring-bench"));
    replay.arg("replay").arg(file).args(["--pipeline", "16", "--json", "--target", target]);
    let text = process::output(&mut replay)?;
    let summary: Value = serde_json::from_str(&text).context("hotring-bench prints JSON")?;
    println!("  {} on {target}: {} hits", file.display(), summary["hits"]);
    summary["hits"].as_u64().context("the summary has no hits")
}

/// The measurements of `docs/results`, with the commands given there.
const MEASUREMENTS: &[&[&str]] = &[
    &["compare", "--parts", "free", "--ops", "1M", "--csv", "free.csv"],
    &["compare", "--parts", "equal-memory", "--ops", "1M", "--csv", "equal-memory.csv"],
    &["compare", "--parts", "rcu", "--ops", "1M", "--csv", "rcu.csv"],
    &["compare", "--parts", "shift", "--ops", "2M"],
    &["compare", "--parts", "growth"],
    &["compare", "--parts", "tails", "--ops", "2M"],
    &["memory"],
    &["reclamation"],
    &["bounds", "--csv", "bounds.csv"],
    &["servers", "--skew", "uniform,0.99", "--csv", "servers.csv"],
    &["servers", "--pipeline", "1", "--rate", "20k,50k", "--csv", "servers-paced.csv"],
    &["containers", "--csv", "containers.csv"],
    &["durability", "modes", "--csv", "durability-modes.csv"],
    &["durability", "modes", "--mix", "writes", "--csv", "durability-writes.csv"],
    &["durability", "replicas", "--value-size", "32", "--csv", "durability-replicas.csv"],
    &["moves", "--csv", "moves.csv"],
    &["proxy", "--csv", "proxy.csv"],
    &["durability", "restart", "--csv", "durability-restart.csv"],
    &["durability", "snapshot", "--csv", "durability-snapshot.csv"],
    &["durability", "space", "--csv", "durability-space.csv", "--plot", "durability"],
];

/// The arguments of the two eviction measurements. The first compares the policies alone, at all
/// sizes. The second also compares the store and a server over the wire, at one size.
const EVICTION: [&[&str]; 2] = [
    &["--csv", "evict.csv", "--plot", "evict"],
    &["--only", "heat,fifo,random,redis lru,redis lfu", "--sizes", "10", "--store"],
];

/// Runs the measurements; files go to `target/measure`.
pub fn measure() -> Result<ExitCode> {
    let folder = target().join("measure");
    std::fs::create_dir_all(&folder)?;
    release_build()?;
    println!("files go to {}; keep the machine quiet meanwhile", folder.display());
    let bench = || {
        let mut bench = process::command(binary("release", "hotring-bench"));
        bench.current_dir(&folder);
        bench
    };
    for words in MEASUREMENTS {
        process::run(bench().args(*words))?;
    }
    let traces = trace_files()?.unwrap_or_default();
    let evict = |words: &[&str]| {
        let mut evict = bench();
        evict.arg("evict").args(&traces).args(["scan", "shift"]).args(words);
        evict
    };
    let [alone, at_one_size] = EVICTION;
    process::run(&mut evict(alone))?;
    with_server(|wire, _| {
        process::run(evict(at_one_size).args(["--server", wire, "--csv", "evict-server.csv"]))
    })?;
    with_server(|wire, pid| {
        process::run(bench().args(["memory", "--target", wire, "--pid", pid]))
    })?;
    with_server(|wire, _| process::run(bench().args(["expiry", "--target", wire])))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `measure` with the address and the process ID of a fresh server.
fn with_server(measure: impl FnOnce(&str, &str) -> Result<()>) -> Result<()> {
    let server = Server::start(&binary("release", "hotring"))?;
    measure(&format!("redis://127.0.0.1:{}", server.port), &server.pid().to_string())
}
