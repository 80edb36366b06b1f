//! `evict`: replays access traces against caches that are too small for them, one for each eviction policy and
//! size, and counts hits. Every access is a read-through: a missing key is inserted, and another one is evicted
//! for it.
//!
//! Only the policy matters: items have no size, and nothing is timed. Each policy is a file in `policies/` and
//! implements the trait of `policy.rs`.

mod lists;
mod plot;
mod policies;
mod policy;
mod source;
mod stored;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;

use crate::address::Address;
use crate::machine::Machine;
use crate::plots;
use crate::report::{self, Files, Results, Table};
use crate::workload::trace::Format;
use policies::CONTESTANTS;
use policy::{Contestant, Setting};
use source::{Named, Source};
use stored::POLICIES;

/// Replay traces against caches of limited size, with every eviction policy, and count hits
#[derive(Debug, Args)]
pub struct EvictArgs {
    /// Traces: files, plain or .xz; "scan" (hot keys, a loop and scans); "shift" (hot keys that change)
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<Source>,
    /// Format of the files
    #[arg(long, value_enum, default_value = "u32le")]
    format: Format,
    /// Maximum number of accesses to replay from each trace
    #[arg(long, value_parser = crate::count::count)]
    limit: Option<u64>,
    /// Sizes of the cache, in percent of a trace's distinct keys
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = percent)]
    #[arg(default_value = "0.1,1,5,10,25")]
    sizes: Vec<f64>,
    /// Policies to measure, by their names in the table
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    only: Vec<String>,
    /// Also replay against hotring's store, with each of its policies
    #[arg(long)]
    store: bool,
    /// Also replay over one connection to this hotring server, with each of its policies. The server must be empty;
    /// its memory settings are changed
    #[arg(long, value_name = "ADDRESS")]
    server: Option<Address>,
    /// Length of the values of --store and --server, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    value: usize,
    #[command(flatten)]
    files: Files,
    /// Also draw the hit ratios of each trace into this folder, as TRACE.svg
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

/// The result of a policy at one size.
#[derive(Clone, Debug, Serialize)]
struct Row {
    trace: String,
    policy: String,
    /// The size as a percentage of the distinct keys.
    size_percent: f64,
    /// Items that the cache holds.
    items: usize,
    accesses: u64,
    distinct_keys: u64,
    hits: u64,
    hit_ratio: f64,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    number
        .filter(|&percent| percent > 0.0)
        .ok_or_else(|| format!("{text:?} is no percentage above 0"))
}

impl EvictArgs {
    /// Replays and prints the results.
    pub fn run(&self) -> Result<()> {
        let contestants = self.contestants()?;
        if self.plot.is_some() && contestants.iter().all(|contestant| contestant.name != plot::BASE)
        {
            bail!("--plot compares with {}: name it in --only, too", plot::BASE);
        }
        let machine = Machine::here();
        let mut rows = Vec::new();
        for source in &self.traces {
            let named = source.read(self.format, self.limit.unwrap_or(u64::MAX))?;
            if named.trace.accesses().is_empty() {
                bail!("{source} holds no access");
            }
            let of_trace = self.replay(&named, &contestants)?;
            self.print(&named, &of_trace);
            if let Some(folder) = &self.plot {
                plots::write(folder, &named.name, &plot::chart(&named.name, &of_trace))?;
            }
            rows.extend(of_trace);
        }
        self.files.write(&rows, &Results::new(machine, rows.clone()))
    }

    fn contestants(&self) -> Result<Vec<&'static Contestant>> {
        let known = |name: &String| CONTESTANTS.iter().any(|contestant| contestant.name == *name);
        if let Some(unknown) = self.only.iter().find(|name| !known(name)) {
            let names: Vec<_> = CONTESTANTS.iter().map(|contestant| contestant.name).collect();
            bail!("there is no policy {unknown:?}, but {}", names.join(", "));
        }
        let asked = |contestant: &&Contestant| {
            self.only.is_empty() || self.only.iter().any(|name| name == contestant.name)
        };
        Ok(CONTESTANTS.iter().filter(asked).collect())
    }

    /// A row for each policy and size.
    fn replay(&self, named: &Named, contestants: &[&'static Contestant]) -> Result<Vec<Row>> {
        let Named { name, trace } = named;
        type Hits<'a> = Box<dyn Fn(&Setting<'_>) -> Result<u64> + 'a>;
        let mut each: Vec<(String, Hits<'_>)> = Vec::new();
        for contestant in contestants {
            each.push((contestant.name.into(), Box::new(|setting| Ok(setting.hits(contestant)))));
        }
        for (name, policy) in POLICIES.into_iter().filter(|_| self.store) {
            let hits = move |setting: &Setting<'_>| stored::in_store(setting, policy, self.value);
            each.push((format!("store {name}"), Box::new(hits)));
        }
        for ((name, policy), address) in POLICIES.into_iter().zip(std::iter::repeat(&self.server)) {
            let Some(address) = address else { break };
            let hits = move |setting: &Setting<'_>| {
                stored::in_server(setting, (name, policy), self.value, address)
            };
            each.push((format!("server {name}"), Box::new(hits)));
        }
        let bar = report::progress((each.len() * self.sizes.len()) as u64, name);
        let accesses = trace.accesses().len() as u64;
        let mut rows = Vec::new();
        for (policy, hits) in each {
            for &size_percent in &self.sizes {
                let setting = Setting { trace, items: items(trace.distinct(), size_percent) };
                let hits = hits(&setting)?;
                bar.inc(1);
                rows.push(Row {
                    trace: name.clone(),
                    policy: policy.clone(),
                    size_percent,
                    items: setting.items,
                    accesses,
                    distinct_keys: trace.distinct() as u64,
                    hits,
                    hit_ratio: hits as f64 / accesses as f64,
                });
            }
        }
        bar.finish_and_clear();
        Ok(rows)
    }

    /// Prints hit ratios in percent, with a line for each policy.
    fn print(&self, named: &Named, rows: &[Row]) {
        let (trace, sizes) = (&named.trace, &self.sizes);
        println!(
            "{}: {} accesses to {} keys; hits in percent by items that fit",
            named.name,
            trace.accesses().len(),
            trace.distinct()
        );
        let of = |size: &f64| format!("{} ({size} %)", items(trace.distinct(), *size));
        let columns: Vec<String> =
            std::iter::once("policy".to_owned()).chain(sizes.iter().map(of)).collect();
        let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
        for of_policy in rows.chunks(sizes.len()) {
            let ratios = of_policy.iter().map(|row| format!("{:.2}", row.hit_ratio * 100.0));
            table.row(std::iter::once(of_policy[0].policy.clone()).chain(ratios).collect());
        }
        println!("{}", table.render());
    }
}

/// The capacity in items of a cache for a percentage of all keys.
fn items(distinct: usize, percent: f64) -> usize {
    ((distinct as f64 * percent / 100.0).round() as usize).max(1)
}
