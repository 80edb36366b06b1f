//! Runs every engine under the server with Redis's own benchmark, and compares the hits of a
//! recorded workload with those of a plain map.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::server::Server;
use crate::suite::Done;
use crate::workspace::target;

/// The engines and modes, as flags of `hotring serve`.
const ENGINES: &[&[&str]] = &[
    &["--index", "hotring"],
    &["--index", "hotring", "--index-strategy", "sampling"],
    &["--index", "chaining"],
    &["--index", "mercury"],
    &["--index", "mercury", "--mercury-locking", "mutex"],
    &["--index", "gcuckoo"],
    &["--index", "gcuckoo", "--gcuckoo-slots", "1"],
    &["--index", "gcuckoo", "--gcuckoo-atomicity", "lock", "--gcuckoo-cache", "1024"],
    #[cfg(target_arch = "x86_64")]
    &["--index", "lines"],
];

/// Keys and accesses of the workload.
const KEYS: &str = "50k";
const ACCESSES: &str = "500k";

/// Hits and misses of a replay.
type Found = (u64, u64);

/// Replays one workload on each engine, and runs `redis-benchmark` if it is installed.
pub fn check(hotring: &Path, bench: &Path) -> Result<Done> {
    let trace = target().join("engines.trace");
    let generate = ["generate", "--keys", KEYS, "--accesses", ACCESSES];
    process::run(process::command(bench).args(generate).arg(&trace))?;
    let expected = replay(bench, &trace, "model")?;
    let has_benchmark = process::succeeds(process::command("redis-benchmark").arg("--version"));
    for flags in ENGINES {
        let server = Server::start_with(hotring, flags)?;
        let address = format!("127.0.0.1:{}", server.port);
        let found = replay(bench, &trace, &format!("redis://{address}"))?;
        ensure!(found == expected, "{flags:?}: hits and misses {found:?}, not {expected:?}");
        let mut rates = String::new();
        if has_benchmark {
            rates = benchmark(server.port)?;
        }
        let status = server.interrupt()?;
        ensure!(status.success(), "{flags:?}: Ctrl-C ends the server with {status}, not 0");
        println!("  {}: {} hits, {} misses {rates}", flags.join(" "), found.0, found.1);
    }
    Ok(Done::Passed(ENGINES.len() * if has_benchmark { 2 } else { 1 }))
}

fn replay(bench: &Path, trace: &Path, to: &str) -> Result<Found> {
    let mut command = process::command(bench);
    command.arg("replay").arg(trace).args(["--target", to]);
    if to != "model" {
        command.args(["--threads", "2", "--pipeline", "32"]);
    }
    let text = process::output(&mut command)?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|n| n.parse().ok()).with_context(|| format!("{name} is missing in: {text}"))
    };
    Ok((number("hits")?, number("misses")?))
}

fn benchmark(port: u16) -> Result<String> {
    let mut command = process::command("redis-benchmark");
    command.args(["-p", &port.to_string(), "-t", "set,get,incr,mset", "-P", "16", "-r", "10000"]);
    let report = process::output(command.args(["-n", "100000", "-q"]))?;
    let rates: Vec<&str> = report
        .split(['\r', '\n'])
        .filter(|line| line.contains("requests per second"))
        .filter_map(|line| line.split(" requests").next())
        .collect();
    ensure!(rates.len() == 4, "redis-benchmark reports 4 rates, not {}: {report}", rates.len());
    Ok(format!("| {}", rates.join(" | ")))
}
