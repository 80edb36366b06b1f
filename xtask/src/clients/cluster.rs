//! Cluster clients of several languages, and clients that know nothing of clusters through its proxy, against `hotring
//! cluster demo`, through the death of a primary.
//!
//! Each program gets the nodes with their process ids. It kills a primary while it counts up, must go on, and checks
//! that no acknowledged step is lost.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::suite::Done;

/// The nodes of the cluster: three shards with a replica each.
const NODES: u16 = 6;

/// Their ports, and those of the proxy.
const PORTS: u16 = NODES + 2;

/// A cluster of processes.
struct Demo {
    process: Child,
    /// Each node as `address=pid`, the one with the coordinator first.
    nodes: Vec<String>,
    /// The port of the proxy for Redis's clients; the next one is for memcached's.
    proxy: u16,
}

impl Demo {
    fn start(hotring: &Path) -> Result<Demo> {
        let port = free_ports()?;
        let (proxy, port) = (port + NODES, port.to_string());
        let mut command = process::command(hotring);
        command.args(["cluster", "demo", "--port", &port]).stdin(Stdio::null());
        let mut process =
            command.stdout(Stdio::piped()).spawn().context("cannot start the demo")?;
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let mut demo = Demo { process, nodes: Vec::new(), proxy };
        loop {
            let Some(line) = lines.next().transpose()? else { bail!("the demo has ended") };
            if let Some((address, pid)) = line.trim().split_once("  pid ") {
                demo.nodes.push(format!("{address}={pid}"));
            }
            if line.contains("Ctrl-C ends all") {
                break;
            }
        }
        // The demo must not stand still because its words are not read.
        std::thread::spawn(move || lines.for_each(drop));
        ensure!(demo.nodes.len() == usize::from(NODES), "the demo names {:?}", demo.nodes);
        Ok(demo)
    }

    /// Runs a program, and ends.
    fn run(self, program: &mut Command, mark: &str) -> Result<Done> {
        let mut checks = 0;
        process::run_lines(program, |line| checks += usize::from(line.starts_with(mark)))?;
        self.end()?;
        ensure!(checks > 0, "the program checked nothing");
        Ok(Done::Passed(checks))
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) -> Result<()> {
        let pid = self.process.id().to_string();
        process::run(process::command("kill").args(["-INT", &pid]))?;
        ensure!(self.process.wait()?.success(), "the demo fails at its end");
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            // It ends its nodes.
            process::succeeds(process::command("kill").arg(self.process.id().to_string()));
            let _ = self.process.wait();
        }
    }
}

/// The first of as many neighbouring ports as the demo needs.
fn free_ports() -> Result<u16> {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let begin = 30_000 + (std::process::id() % 2_000) as u16;
    let mut firsts = (begin..60_000).step_by(usize::from(PORTS));
    firsts.find(|first| (*first..first + PORTS).all(is_free)).context("no ports are free")
}

/// Runs a program with the nodes of a fresh cluster; each line "ok: ..." is a check.
pub fn against_demo(hotring: &Path, program: &mut Command) -> Result<Done> {
    let demo = Demo::start(hotring)?;
    program.args(&demo.nodes);
    demo.run(program, "ok: ")
}

/// Runs a program with the address of a proxy, and the nodes behind it.
pub fn against_proxy(hotring: &Path, program: &mut Command) -> Result<Done> {
    let demo = Demo::start(hotring)?;
    program.arg(format!("127.0.0.1:{}", demo.proxy)).args(&demo.nodes);
    demo.run(program, "ok: ")
}

/// Runs a program of memcached with the port of a proxy; each line with the mark is a check.
pub fn against_memcached_proxy(
    hotring: &Path,
    program: impl FnOnce(u16) -> (Command, &'static str),
) -> Result<Done> {
    let demo = Demo::start(hotring)?;
    let (mut program, mark) = program(demo.proxy + 1);
    demo.run(&mut program, mark)
}
