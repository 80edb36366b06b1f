//! `servers`: compares servers over the wire.
//!
//! The main figure is the processor time that a server's process takes for a request: if clients share the
//! machine with servers, throughput depends on the clients as much as on the servers. Targets take turns within
//! each round, so that drift of the machine hits all of them, and ratios are taken within rounds: to a base, and
//! to a null server, which looks nothing up and so is the limit of any server on this I/O engine. Every answer is
//! checked; a wrong one fails the run.

mod connection;
mod content;
mod dialect;
mod measure;
mod null;
mod pool;
mod process;
mod results;
mod spawn;
mod target;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

pub use content::Content;
pub use measure::{Data, Load, Rounds, Sample, Scripts};
pub use null::NullServerArgs;
pub use process::CpuTime;
pub use spawn::{Kind, LogPlan, Plan, Spawned, Transport};
pub use target::Target;

use crate::machine::{Machine, cores};
use crate::report::{self, Files, Results};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;
use content::{KEY_LEN_MAX, LEN_MIN};
use results::Row;
use target::Given;

/// Compare servers over the wire: CPU time per request, throughput, latency
///
/// Without --rate, a connection sends a batch once the one before is answered (a closed loop), which
/// shows throughput and CPU time. With --rate, requests have fixed times, from which latencies are
/// counted (an open loop), so that they are free of coordinated omission.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServersArgs {
    /// A running, empty server: redis://HOST:PORT (any server that speaks RESP), memcached://HOST:PORT,
    /// unix:///PATH (RESP), null://HOST:PORT; followed by ?pid=N if its process cannot be found by the
    /// listening socket. Loaded keys are removed at the end
    #[arg(long = "target", value_name = "URL")]
    targets: Vec<Given>,
    /// Servers to start on loopback, without persistence [default: all, unless --target is given]
    #[arg(long, value_enum, value_delimiter = ',')]
    spawn: Vec<Kind>,
    /// Index engines of hotring: hotring, chaining, mercury, gcuckoo
    #[arg(long, value_delimiter = ',', default_value = "hotring")]
    engines: Vec<String>,
    /// Threads of started servers
    #[arg(long, value_delimiter = ',', default_value = "1")]
    server_threads: Vec<usize>,
    /// Sockets of started servers
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp")]
    sockets: Vec<Transport>,
    /// The baseline: the name of a started server, or an address of --target
    #[arg(long, default_value = "redis")]
    base: String,
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "1M")]
    keys: u64,
    /// Length of a key in bytes, 8 to 250
    #[arg(long, default_value_t = 8)]
    key_size: usize,
    /// Lengths of a value in bytes, at least 8
    #[arg(long, value_delimiter = ',', default_value = "8")]
    value_size: Vec<usize>,
    /// Mixes of operations
    #[arg(long, value_enum, value_delimiter = ',', default_value = "b")]
    workloads: Vec<Workload>,
    /// Distributions of the accesses: "uniform", Zipf exponents of at least 0, "latest" or "shift"
    #[arg(long, value_delimiter = ',', default_value = "uniform")]
    skew: Vec<Skew>,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_value = "50")]
    connections: Vec<usize>,
    /// Requests in flight on each connection
    #[arg(long, value_delimiter = ',', default_value = "1,16,64")]
    pipeline: Vec<u64>,
    /// Requests per second over all connections (an open loop; client threads do not sleep)
    #[arg(long, value_parser = crate::count::count, value_delimiter = ',')]
    rate: Vec<u64>,
    /// Client threads
    #[arg(long, default_value_t = 1)]
    client_threads: usize,
    /// Let the kernel choose the cores of clients and started servers. By default servers have the first
    /// cores and clients the next ones, if there are enough for all
    #[arg(long)]
    no_pin: bool,
    /// Seconds per round
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Measured rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Warm-up rounds
    #[arg(long, default_value_t = 1)]
    warmup: usize,
    /// Number of requests drawn in advance, which are repeated (workload D ends the round instead)
    #[arg(long, value_parser = crate::count::count, default_value = "2M")]
    drawn: u64,
    /// Seed of the requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench servers
  hotring-bench servers --spawn hotring,redis,null --server-threads 1,2 --connections 50,500
  hotring-bench servers --sockets tcp,unix --pipeline 1,16 --workloads a,b,c --skew uniform,0.99
  hotring-bench servers --pipeline 1 --rate 50000
  hotring-bench servers --spawn null --target redis://127.0.0.1:7000 --base redis://127.0.0.1:7000";

impl ServersArgs {
    /// Starts the servers, loads and measures them, and prints the results.
    pub fn run(&self) -> Result<()> {
        self.check()?;
        let machine = Machine::here();
        println!("{machine}");
        let mut rows = Vec::new();
        for &value_len in &self.value_size {
            let data = Data { keys: self.keys, key_len: self.key_size, value_len };
            rows.extend(self.measure(&data)?);
        }
        let results = Results::new(machine, rows);
        print!("{}", results.table(&self.base));
        self.files.write(&results.rows, &results)
    }

    fn check(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!(self.keys < 1 << 40, "at most 2^40 keys");
        ensure!(self.seconds > 0.0 && self.seconds < 1e6, "--seconds is a time");
        let sizes = LEN_MIN..=KEY_LEN_MAX;
        ensure!(sizes.contains(&self.key_size), "--key-size is {LEN_MIN} to {KEY_LEN_MAX}");
        ensure!(
            self.value_size.iter().all(|&size| size >= LEN_MIN),
            "--value-size must be at least 8"
        );
        ensure!(!self.pipeline.contains(&0), "--pipeline must be at least 1");
        ensure!(self.rate.iter().all(|&rate| rate < 100_000_000), "--rate is below 100M");
        let clients = self.client_threads;
        ensure!(clients > 0, "--client-threads must be at least 1");
        let fewest = self.connections.iter().min().copied().unwrap_or_default();
        ensure!(fewest >= clients, "each of {clients} client threads needs a connection");
        if self.rounds < 5 {
            eprintln!("note: fewer than 5 rounds are for trying things out, not for figures");
        }
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its figures are meaningless");
        }
        Ok(())
    }

    fn measure(&self, data: &Data) -> Result<Vec<Row>> {
        let targets = self.targets(data)?;
        let bar = report::progress(targets.len() as u64, "load");
        for target in &targets {
            data.load(target)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        let loads = self.loads();
        let rounds = Rounds { measured: self.rounds, warmup: self.warmup };
        let steps = loads.len() * targets.len() * (self.rounds + self.warmup);
        let bar = report::progress(steps as u64, "measure");
        let mut rows = Vec::new();
        for load in &loads {
            bar.set_message(format!("{} {}, P={}", load.workload, load.skew, load.depth));
            let scripts = Scripts::draw(load, data, self.drawn, self.seed)?;
            let samples = load.measure(&targets, (data, &scripts), rounds, &bar)?;
            rows.extend(results::rows((data, load), &targets, &samples, &self.base));
        }
        bar.finish_and_clear();
        for target in targets.iter().filter(|target| !target.is_spawned()) {
            data.unload(target)?;
        }
        Ok(rows)
    }

    fn loads(&self) -> Vec<Load> {
        let rates: Vec<Option<u64>> = if self.rate.is_empty() {
            vec![None]
        } else {
            self.rate.iter().copied().map(Some).collect()
        };
        let mut loads = Vec::new();
        for &workload in &self.workloads {
            for &skew in &self.skew {
                for &connections in &self.connections {
                    for &depth in &self.pipeline {
                        loads.extend(rates.iter().map(|&rate| Load {
                            workload,
                            skew,
                            connections,
                            depth,
                            rate: rate.map(|rate| rate as f64),
                            clients: self.client_threads,
                            time: Duration::from_secs_f64(self.seconds),
                        }));
                    }
                }
            }
        }
        loads
    }

    fn targets(&self, data: &Data) -> Result<Vec<Target>> {
        let mut targets = self.targets.iter().map(Target::given).collect::<Result<Vec<_>>>()?;
        for plan in self.plans(data) {
            match plan.kind.program() {
                Ok(_) => targets.push(Target::start(&plan)?),
                Err(error) => eprintln!("note: {} left out: {error:#}", plan.name()),
            }
        }
        targets.first().context("nothing to measure")?;
        Ok(targets)
    }

    fn plans(&self, data: &Data) -> Vec<Plan> {
        let all = [Kind::Hotring, Kind::Redis, Kind::Memcached, Kind::Null];
        let kinds = match &self.spawn[..] {
            [] if self.targets.is_empty() => &all,
            given => given,
        };
        let one = [String::new()];
        let mut plans = Vec::new();
        for &transport in &self.sockets {
            for &threads in &self.server_threads {
                for &kind in kinds {
                    let engines = if kind == Kind::Hotring { &self.engines[..] } else { &one };
                    plans.extend(engines.iter().map(|engine| Plan {
                        connections: self.connections.iter().copied().max().unwrap_or_default(),
                        pinned: !self.no_pin && threads + self.client_threads <= cores().len(),
                        ..Plan::new(kind, transport, threads, engine, data)
                    }));
                }
            }
        }
        plans
    }
}
