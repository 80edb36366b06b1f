//! Checks Redis's own tools against the server: the first commands of a new user must work.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::process;
use crate::server::Server;
use crate::suite::Done;

/// Commands of redis-cli, and the output that they must have.
const TYPED: &[(&[&str], &str)] = &[
    (&["ping"], "PONG"),
    (&["set", "greeting", "hello"], "OK"),
    (&["get", "greeting"], "hello"),
    (&["incr", "visits"], "1"),
    (&["mset", "a", "1", "b", "2"], "OK"),
    (&["-3", "hello"], "proto 3"),
    (&["set", "short", "x", "px", "60000"], "OK"),
    (&["ttl", "short"], "60"),
    (&["get", "nothing"], ""),
    (&["incr", "greeting"], "ERR value is not an integer or out of range"),
];

/// Runs `redis-cli`, `redis-benchmark` and Ctrl-C.
pub fn check(hotring: &Path) -> Result<Done> {
    let server = Server::start(hotring)?;
    let port = server.port.to_string();
    for (words, wanted) in TYPED {
        let mut command = process::command("redis-cli");
        let reply = process::output(command.args(["-p", &port]).args(*words))?;
        println!("  redis-cli {} -> {}", words.join(" "), reply.lines().next().unwrap_or_default());
        let fits = if wanted.is_empty() { reply.trim().is_empty() } else { reply.contains(wanted) };
        ensure!(fits, "redis-cli {}: wanted {wanted:?}, got {reply:?}", words.join(" "));
    }
    let mut command = process::command("redis-benchmark");
    command.args(["-p", &port, "-t", "set,get,incr,mset", "-P", "16", "-n", "200000", "-q"]);
    let report = process::output(&mut command)?;
    let rates: Vec<&str> =
        report.split(['\r', '\n']).filter(|l| l.contains("requests per second")).collect();
    rates.iter().for_each(|rate| println!("  redis-benchmark: {rate}"));
    ensure!(rates.len() == 4, "redis-benchmark reports 4 rates, not {}: {report}", rates.len());
    let status = server.interrupt()?;
    ensure!(status.success(), "Ctrl-C ends the server with {status}, not 0");
    println!("  Ctrl-C -> {status}");
    Ok(Done::Passed(TYPED.len() + rates.len() + 1))
}
