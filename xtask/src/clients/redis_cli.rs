//! The modes of redis-cli that people look at a server with.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::server::Server;
use crate::suite::Done;

/// Keys that are there to be found.
const KEYS: usize = 2_000;

/// Lines of `--stat` that are waited for.
const STAT_LINES: usize = 5;

/// Flags, and what the output has to have.
const MODES: &[(&[&str], &[&str])] = &[
    (&["--bigkeys"], &["Biggest string found", "cli:big", "2001 strings", "1 hashs"]),
    (&["--memkeys"], &["Biggest string found", "cli:big"]),
    (&["--latency", "--raw"], &[" "]),
    (&["info", "server"], &["hotring_version"]),
    (&["-3", "client", "list"], &["resp=3"]),
    (&["--json", "config", "get", "maxclients"], &["\"maxclients\""]),
    (&["--csv", "mget", "cli:big:no", "cli:key:1"], &["NULL"]),
];

/// All of them against a fresh server.
pub fn check(hotring: &Path) -> Result<Done> {
    let server = Server::start(hotring)?;
    let port = server.port.to_string();
    pipe(&port)?;
    let mut checks = 1;
    for (flags, wanted) in MODES {
        let mut command = process::command("redis-cli");
        let text = process::output(command.args(["-p", &port]).args(*flags))?;
        for part in *wanted {
            ensure!(text.contains(part), "redis-cli {}: no {part:?} in {text}", flags.join(" "));
        }
        println!("  redis-cli {} -> {}", flags.join(" "), text.lines().last().unwrap_or_default());
        checks += 1;
    }
    let mut scan = process::command("redis-cli");
    let keys = process::output(scan.args(["-p", &port, "--scan", "--pattern", "cli:key:*"]))?;
    let keys: std::collections::BTreeSet<&str> = keys.lines().collect();
    ensure!(keys.len() == KEYS, "--scan finds {} keys of {KEYS}", keys.len());
    println!("  redis-cli --scan -> {} keys", keys.len());
    stat(&port)?;
    server.interrupt()?;
    Ok(Done::Passed(checks + 2))
}

/// Loads keys by `--pipe`, which reads the protocol.
fn pipe(port: &str) -> Result<()> {
    let mut child = process::command("redis-cli")
        .args(["-p", port, "--pipe"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run redis-cli")?;
    let mut input = child.stdin.take().context("its input is piped")?;
    for i in 0..KEYS {
        write!(input, "SET cli:key:{i} {i}\r\n")?;
    }
    write!(input, "SET cli:big {}\r\nHSET cli:hash a 1 b 2\r\n", "x".repeat(10_000))?;
    drop(input);
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = format!("errors: 0, replies: {}", KEYS + 2);
    ensure!(output.status.success() && text.contains(&last), "redis-cli --pipe: {text}");
    println!("  redis-cli --pipe -> {last}");
    Ok(())
}

/// Reads some lines of a mode that does not end.
fn stat(port: &str) -> Result<()> {
    let mut child = process::command("redis-cli")
        .args(["-p", port, "--stat", "-i", "0.05"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run redis-cli")?;
    let output = child.stdout.take().context("its output is piped")?;
    let lines: Vec<String> =
        BufReader::new(output).lines().take(STAT_LINES).collect::<std::io::Result<_>>()?;
    child.kill()?;
    child.wait()?;
    let last = lines.last().context("redis-cli --stat says nothing")?;
    let keys = last.split_whitespace().next().unwrap_or_default();
    ensure!(keys == (KEYS + 2).to_string(), "redis-cli --stat: {lines:?}");
    println!("  redis-cli --stat -> {last}");
    Ok(())
}
