//! `proxy`: what a proxy before servers costs, and what it saves by merging.
//!
//! The main figure is the processor time of the proxy's own process for a request, beside that of twemproxy and that of
//! a server which is asked directly. Each proxy has a server of its own behind it, and all of them have the same data.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cluster::Cluster;
use crate::durability::{Figures, Testbed};
use crate::machine::{Machine, cores};
use crate::report::{self, Files, Results};
use crate::resp::{Client, info_field};
use crate::servers::{Data, Kind, Load, Plan, Rounds, Sample, Scripts, Target, Transport};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// The cases of the first part. The last two are named as their servers are.
const DIRECT: &str = "a server itself";
const OURS: &str = "hotring proxy";
const TWEMPROXY: &str = "twemproxy";

const CPU: &str = "CPU us";

/// Windows of merging, in milliseconds.
const WINDOWS: [u64; 4] = [0, 1, 5, 20];

/// Requests drawn in advance, over all connections.
const DRAWN: u64 = 1_000_000;

/// Measure what a proxy costs a request, and what merging of reads saves
///
/// Starts servers and proxies on loopback: "hotring proxy" before a cluster of one node, twemproxy (if nutcracker is
/// installed) before a server, and a server that is asked directly. "CPU us" is the processor time of the proxy's
/// process, or of the server that is asked directly, for a request. The second part reads by Zipf's law through proxies
/// with merge windows of 0, 1, 5 and 20 ms; "sent of asked" is the share of requests that the proxy sends on.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProxyArgs {
    /// Keys of each server
    #[arg(long, value_parser = crate::count::count, default_value = "100k")]
    keys: u64,
    /// Length of a key in bytes
    #[arg(long, default_value_t = 16)]
    key_size: usize,
    /// Length of a value in bytes
    #[arg(long, default_value_t = 32)]
    value_size: usize,
    /// Connections of clients
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Requests in flight on each connection
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    pipeline: Vec<u64>,
    /// The distribution of reads that are merged: a Zipf exponent
    #[arg(long, default_value = "1.22")]
    merge_skew: Skew,
    /// Seconds per round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Measured rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(flatten)]
    testbed: Testbed,
    #[command(flatten)]
    files: Files,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench proxy
  hotring-bench proxy --pipeline 1 --rounds 1 --seconds 0.5";

impl ProxyArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.seconds > 0.0 && self.seconds < 1e6, "--seconds is a time");
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!(self.connections > 0 && self.keys > 0, "nothing would be sent");
        ensure!(!self.pipeline.contains(&0), "--pipeline must be at least 1");
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its figures are meaningless");
        }
        let machine = Machine::here();
        println!("{machine}");
        let data = Data { keys: self.keys, key_len: self.key_size, value_len: self.value_size };
        let cluster = Cluster::start(&self.testbed, 1, 1)?;
        let node = cluster.endpoints().remove(0);
        let mut rows = Vec::new();
        for figures in self.cost(&data, &node)?.into_iter().chain([self.merging(&data, &node)?]) {
            println!("{}", figures.table());
            rows.extend(figures.rows());
        }
        let results = Results::new(machine, rows);
        self.files.write(&results.rows, &results)
    }

    /// The plan of a process on one thread. Only the measured one is pinned; the clients are then elsewhere.
    fn plan(&self, kind: Kind, behind: &str, data: &Data) -> Plan {
        let ours = matches!(kind, Kind::Hotring | Kind::Proxy);
        Plan {
            program: self.testbed.program(Kind::Hotring).filter(|_| ours),
            behind: behind.to_owned(),
            connections: self.connections,
            pinned: cores().len() > 1,
            ..Plan::new(kind, Transport::Tcp, 1, "hotring", data)
        }
    }

    fn load(&self, workload: Workload, skew: Skew, depth: u64) -> Load {
        Load {
            workload,
            skew,
            connections: self.connections,
            depth,
            rate: None,
            clients: 1,
            time: Duration::from_secs_f64(self.seconds),
        }
    }

    fn rounds(&self) -> Rounds {
        Rounds { measured: self.rounds, warmup: 1 }
    }

    /// The costs of a request by each way, for reads and for writes.
    fn cost(&self, data: &Data, node: &str) -> Result<Vec<Figures>> {
        let mut targets = vec![
            Target::start(&self.plan(Kind::Hotring, "", data))?,
            Target::start(&self.plan(Kind::Proxy, node, data))?,
        ];
        targets[0].name = DIRECT.to_owned();
        let unpinned = Plan { pinned: false, ..self.plan(Kind::Hotring, "", data) };
        let behind = Target::start(&unpinned)?;
        match Kind::Twemproxy.program() {
            Ok(_) => {
                let behind = behind.address.endpoint.text();
                targets.push(Target::start(&self.plan(Kind::Twemproxy, &behind, data))?);
            }
            Err(error) => eprintln!("note: twemproxy left out: {error:#}"),
        }
        targets.iter().try_for_each(|target| data.load(target))?;
        let mut all = Vec::new();
        for (workload, depth) in [Workload::C, Workload::W]
            .into_iter()
            .flat_map(|workload| self.pipeline.iter().map(move |depth| (workload, *depth)))
        {
            let load = self.load(workload, Skew::Uniform, depth);
            let scripts = Scripts::draw(&load, data, DRAWN, 1)?;
            let steps = targets.len() * (self.rounds + 1);
            let bar = report::progress(steps as u64, "cost");
            let samples = load.measure(&targets, (data, &scripts), self.rounds(), &bar)?;
            bar.finish_and_clear();
            let part = if workload == Workload::C { "reads" } else { "writes" };
            let mut figures = Figures::new(part, format!("{}, P={depth}", self.setting()));
            for (target, samples) in targets.iter().zip(&samples) {
                samples.iter().try_for_each(|sample| add(&mut figures, &target.name, sample))?;
            }
            figures.add_ratio("CPU of a server's", CPU, OURS, DIRECT);
            figures.add_ratio("CPU of twemproxy's", CPU, OURS, TWEMPROXY);
            all.push(figures);
        }
        Ok(all)
    }

    fn setting(&self) -> String {
        let ProxyArgs { keys, key_size, value_size, connections, .. } = self;
        format!(
            "{connections} connections, {keys} keys of {key_size} bytes with values of {value_size}"
        )
    }

    /// Latencies of reads and the share that is sent on, by the window.
    fn merging(&self, data: &Data, node: &str) -> Result<Figures> {
        let mut proxies = Vec::new();
        for window in WINDOWS {
            let mut plan = self.plan(Kind::Proxy, node, data);
            plan.settings.push(("merge-window", window.to_string()));
            let mut proxy = Target::start(&plan)?;
            proxy.name = format!("{window} ms");
            proxies.push(proxy);
        }
        let load = self.load(Workload::C, self.merge_skew, 1);
        let scripts = Scripts::draw(&load, data, DRAWN, 1)?;
        let setting = format!("{}, reads by {}, P=1", self.setting(), self.merge_skew);
        let mut figures = Figures::new("merge window", setting);
        let bar = report::progress((proxies.len() * (self.rounds + 1)) as u64, "merging");
        for round in 0..=self.rounds {
            for proxy in &proxies {
                bar.inc(1);
                if round == 0 {
                    // A warm-up.
                    load.once(proxy, (data, &scripts))?;
                    continue;
                }
                let before = Merged::of(proxy)?;
                add(&mut figures, &proxy.name, &load.once(proxy, (data, &scripts))?)?;
                let after = Merged::of(proxy)?;
                let merged = (after.merged - before.merged) as f64;
                let asked = (after.asked - before.asked) as f64;
                figures.add(&proxy.name, "sent of asked", 1.0 - merged / asked);
            }
        }
        bar.finish_and_clear();
        Ok(figures)
    }
}

fn add(figures: &mut Figures, case: &str, sample: &Sample) -> Result<()> {
    let us = |share| sample.tally.latency.value_at_quantile(share) as f64 / 1e3;
    figures.add(case, CPU, sample.cpu_us.context("a process that was started is known")?);
    figures.add(case, "requests/s", sample.rate);
    figures.add(case, "p50 us", us(0.5));
    figures.add(case, "p99 us", us(0.99));
    Ok(())
}

/// Counters of a proxy.
struct Merged {
    asked: u64,
    merged: u64,
}

impl Merged {
    fn of(proxy: &Target) -> Result<Merged> {
        let info = Client::connect(&proxy.address)?.info("all")?;
        let field = |name: &str| info_field(&info, name).with_context(|| format!("no {name}"));
        Ok(Merged {
            asked: field("total_commands_processed")?,
            merged: field("proxy_merged_reads")?,
        })
    }
}
