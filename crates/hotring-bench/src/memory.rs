//! `memory`: measures the total memory per key, in the index or in a server.
//!
//! In process the figure is the growth of the process while the keys are loaded. The index's own byte counts
//! explain most of it; the remainder is slack: memory taken from the kernel without contents. Over the wire the
//! figure is the growth of the server's resident memory, according to the kernel or to the server's INFO.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hotring_index::{Config, HotRing, U64};
use indicatif::ProgressBar;

use crate::address::Address;
use crate::machine::{Machine, resident, resident_of, resident_peak};
use crate::report::{self, Strides};
use crate::resp::{Client, Reply, info_field};
use crate::workload::scramble::Scramble;

/// Load keys and print the total memory per key
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "20M")]
    keys: u64,
    /// Hints per slot of the index: 1, 3 or 7
    #[arg(long, default_value_t = 7)]
    hints: usize,
    /// Do not use huge pages
    #[arg(long)]
    no_huge_pages: bool,
    /// Load an empty server at redis://HOST:PORT or unix:///PATH instead, with keys and values of 8 bytes
    #[arg(long)]
    target: Option<Address>,
    /// The server's process ID, to get its memory from the kernel instead of INFO
    #[arg(long, requires = "target")]
    pid: Option<u32>,
}

/// SETs in flight.
const WINDOW: u64 = 512;

impl MemoryArgs {
    /// Loads and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.keys < 1 << 32, "at most 2^32 keys");
        let bar = report::progress(self.keys, "load");
        match &self.target {
            Some(address) => self.server(address, &bar)?,
            None => match self.hints {
                1 => self.index::<1>(&bar)?,
                3 => self.index::<3>(&bar)?,
                7 => self.index::<7>(&bar)?,
                _ => bail!("--hints is 1, 3 or 7"),
            },
        }
        print!("{}", Machine::here());
        Ok(())
    }

    fn index<const H: usize>(&self, bar: &ProgressBar) -> Result<()> {
        let before = resident()?;
        let config = Config { huge_pages: !self.no_huge_pages, ..Config::default() };
        let index = HotRing::<U64, H>::new(config)?;
        let mut session = index.session();
        let order = Scramble::new(self.keys, 1);
        let mut strides = Strides::on(bar);
        for rank in 0..self.keys {
            let key = order.key(rank);
            session.insert(key, key);
            strides.add(1);
        }
        bar.finish_and_clear();
        let grown = resident()?.saturating_sub(before);
        let peak = resident_peak()?.saturating_sub(before);
        let stats = index.stats();
        ensure!(stats.items == self.keys, "{} items of {} keys", stats.items, self.keys);
        let counted = stats.bytes + stats.table_bytes + stats.limbo_bytes;
        let slack = grown.cast_signed() - counted.cast_signed();
        println!("keys {}", self.keys);
        self.line("total", grown.cast_signed());
        self.line("peak", peak.cast_signed());
        self.line("items", stats.bytes.cast_signed());
        self.line("table", stats.table_bytes.cast_signed());
        self.line("limbo", stats.limbo_bytes.cast_signed());
        self.line("slack", slack);
        println!("slots {}", stats.slots);
        println!("items_per_slot {:.2}", stats.items as f64 / stats.slots.max(1) as f64);
        Ok(())
    }

    fn line(&self, label: &str, bytes: i64) {
        println!("{label}_bytes {bytes}");
        println!("{label}_bytes_per_key {:.2}", bytes as f64 / self.keys as f64);
    }

    fn server(&self, address: &Address, bar: &ProgressBar) -> Result<()> {
        let mut client = Client::connect(address)?;
        let held = size(&mut client)?;
        ensure!(held == 0, "the server holds {held} keys: the figure would be wrong, empty it");
        let before = self.server_resident(&mut client)?;
        self.load(&mut client, bar)?;
        bar.finish_and_clear();
        let grown = self.server_resident(&mut client)?.saturating_sub(before);
        let held = size(&mut client)?;
        ensure!(held == self.keys, "the server holds {held} keys of {}", self.keys);
        println!("target {address}");
        println!("keys {}", self.keys);
        self.line("total", grown.cast_signed());
        Ok(())
    }

    fn load(&self, client: &mut Client, bar: &ProgressBar) -> Result<()> {
        let order = Scramble::new(self.keys, 1);
        for start in (0..self.keys).step_by(WINDOW as usize) {
            let window = start..(start + WINDOW).min(self.keys);
            for rank in window.clone() {
                let key = order.key(rank);
                // Text of 8 bytes. The value is no number, because a server may store numbers in less space.
                client.push(&[
                    b"SET",
                    format!("{key:08x}").as_bytes(),
                    format!("v{:07x}", key % (1 << 28)).as_bytes(),
                ]);
            }
            client.flush()?;
            for _ in window.clone() {
                let reply = client.reply()?;
                ensure!(reply == Reply::Simple("OK"), "SET answers {reply:?}");
            }
            bar.inc(window.end - window.start);
        }
        Ok(())
    }

    fn server_resident(&self, client: &mut Client) -> Result<u64> {
        if let Some(pid) = self.pid {
            return resident_of(pid);
        }
        let info = client.info("memory")?;
        info_field(&info, "used_memory_rss").context("INFO has no used_memory_rss: give --pid")
    }
}

fn size(client: &mut Client) -> Result<u64> {
    match client.call(&[b"DBSIZE"])? {
        Reply::Integer(size) => Ok(u64::try_from(size)?),
        other => bail!("DBSIZE answers {other:?}"),
    }
}
