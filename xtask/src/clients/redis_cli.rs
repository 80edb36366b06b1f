//! Checks the interactive modes of redis-cli.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::server::Server;
use crate::suite::Done;

/// Keys in the server.
const KEYS: usize = 2_000;

/// Lines of `--stat` to wait for.
const STAT_LINES: usize = 5;

/// Modes that end: their flags, and the texts that the output must contain.
const MODES: &[(&[&str], &[&str])] = &[
    (&["--bigkeys"], &["Biggest string found", "cli:big", "2001 strings", "1 hashs"]),
    (&["--memkeys"], &["Biggest string found", "cli:big"]),
    (&["--latency", "--raw"], &[" "]),
    (&["info", "server"], &["hotring_version"]),
    (&["-3", "client", "list"], &["resp=3"]),
    (&["--json", "config", "get", "maxclients"], &["\"maxclients\""]),
    (&["--csv", "mget", "cli:big:no", "cli:key:1"], &["NULL"]),
];

/// Checks all modes against a fresh server.
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
    watch(&port)?;
    hot_keys(&port)?;
    server.interrupt()?;
    Ok(Done::Passed(checks + 4))
}

/// Loads keys with `--pipe`, which sends the raw protocol.
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

/// Checks modes that do not end.
fn watch(port: &str) -> Result<()> {
    let stat = lines(port, &["--stat", "-i", "0.05"], STAT_LINES)?;
    let last = stat.last().context("redis-cli --stat says nothing")?;
    let keys = last.split_whitespace().next().unwrap_or_default();
    ensure!(keys == (KEYS + 2).to_string(), "redis-cli --stat: {stat:?}");
    println!("  redis-cli --stat -> {last}");
    let history = lines(port, &["--latency-history", "--raw", "-i", "1"], 2)?;
    // Least, most, average, count.
    let is_line = |line: &String| line.split_whitespace().all(|n| n.parse::<f64>().is_ok());
    ensure!(history.len() == 2 && history.iter().all(is_line), "--latency-history: {history:?}");
    println!("  redis-cli --latency-history -> {}", history[1]);
    Ok(())
}

/// The first lines of a program that does not end.
fn lines(port: &str, flags: &[&str], n: usize) -> Result<Vec<String>> {
    let mut child = process::command("redis-cli")
        .args(["-p", port])
        .args(flags)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run redis-cli")?;
    let output = child.stdout.take().context("its output is piped")?;
    let lines = BufReader::new(output).lines().take(n).collect::<std::io::Result<_>>()?;
    child.kill()?;
    child.wait()?;
    Ok(lines)
}

/// Checks that `--hotkeys` fails with the error about LFU: the server's policy counts no frequencies.
fn hot_keys(port: &str) -> Result<()> {
    let output = process::command("redis-cli").args(["-p", port, "--hotkeys"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && text.contains("LFU"), "redis-cli --hotkeys: {text}");
    println!("  redis-cli --hotkeys -> {}", text.trim().lines().last().unwrap_or_default());
    Ok(())
}
