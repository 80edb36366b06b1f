//! Runs memcached clients, each against a fresh server with a memcached port.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::cluster::against_memcached_proxy;
use super::install_python;
use crate::process;
use crate::server::Server;
use crate::suite::Done;
use crate::workspace::root;

/// A command with the port of a server, and the beginning of its lines that are checks.
type Program<'a> = &'a dyn Fn(u16) -> (Command, &'static str);

/// Checks pymemcache.
pub fn pymemcache(hotring: &Path) -> Result<Done> {
    check_pymemcache(hotring, &[], against_server)
}

/// The same against the proxy of a cluster.
pub fn pymemcache_proxy(hotring: &Path) -> Result<Done> {
    check_pymemcache(hotring, &["proxy"], |hotring, program| {
        against_memcached_proxy(hotring, program)
    })
}

fn check_pymemcache(
    hotring: &Path,
    words: &[&str],
    run: impl FnOnce(&Path, Program<'_>) -> Result<Done>,
) -> Result<Done> {
    let folder = root().join("tests/clients/memcached");
    let python = match install_python("venv", &folder.join("requirements.txt")) {
        Ok(python) => python,
        Err(error) => {
            return Ok(Done::Skipped(format!("pymemcache cannot be installed: {error:#}")));
        }
    };
    run(hotring, &|port| {
        let mut check = process::command(&python);
        check.arg(folder.join("check.py")).arg(port.to_string()).args(words);
        (check, "ok: ")
    })
}

/// Runs libmemcached's tests for servers of the text protocol.
pub fn memccapable(hotring: &Path) -> Result<Done> {
    against_server(hotring, &capable)
}

/// The same against the proxy of a cluster.
pub fn memccapable_proxy(hotring: &Path) -> Result<Done> {
    against_memcached_proxy(hotring, capable)
}

fn capable(port: u16) -> (Command, &'static str) {
    let mut check = process::command("memccapable");
    check.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-a"]);
    (check, "ascii ")
}

/// Runs a command with the port of a fresh server; each line with the given prefix is a check.
fn against_server(hotring: &Path, command: Program<'_>) -> Result<Done> {
    let mut checks = 0;
    with_port(hotring, |port| {
        let (mut command, mark) = command(port);
        process::run_lines(&mut command, |line| checks += usize::from(line.starts_with(mark)))
    })?;
    ensure!(checks > 0, "the program checked nothing");
    Ok(Done::Passed(checks))
}

/// Runs `f` with the memcached port of a fresh server.
pub fn with_port<R>(hotring: &Path, f: impl FnOnce(u16) -> Result<R>) -> Result<R> {
    // Bound and released: the port is most likely still free a moment later.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let server = Server::start_with(hotring, &["--memcached", &format!("127.0.0.1:{port}")])?;
    let result = f(port)?;
    let status = server.interrupt()?;
    ensure!(status.success(), "Ctrl-C ends the server with {status}, not 0");
    Ok(result)
}
