//! `moves`: what a move of slots between two servers costs their clients.
//!
//! Two servers of this machine form a cluster with the embedded coordinator, and one thread keeps both busy at a fixed
//! rate. Slots go from one to the other and back; each move is compared with a window in which nothing moves.

mod load;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use hotring_cluster::{SLOTS, slot_of};

use crate::cluster::Cluster;
use crate::durability::{Figures, Testbed};
use crate::folder::file_system;
use crate::machine::Machine;
use crate::report::{self, Files, Results};
use load::{Loader, Mix, Seen, Work};

const PART: &str = "moves";
const QUIET: &str = "quiet";
const MOVING: &str = "moving";

/// The figures that are compared, of requests for slots that stay.
const P99: &str = "others p99 us";
const RATE: &str = "writes/s";

/// Slots that one move takes. With more the command would make several.
const SLOTS_MAX: u16 = 1_024;

/// Measure what a move of slots between two servers costs their clients
///
/// Requests are due at fixed times, and latencies count from these, so that a pause counts for all requests that it
/// delays. One stream writes keys of the slots that move, the other one reads and writes keys of all other slots. A
/// window lasts until the slots have moved and the source has removed the keys. "pause" is the longest latency of a
/// write to the moving slots, redirection included; "move s" ends with the first redirection. In the end every key must
/// have the value that was acknowledged last.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MovesArgs {
    /// Keys of both servers
    #[arg(long, value_parser = crate::count::count, default_value = "2M")]
    keys: u64,
    /// Length of a value in bytes
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Slots that move, 1 to 1024
    #[arg(long, default_value_t = SLOTS_MAX)]
    slots: u16,
    /// Writes per second to the slots that move
    #[arg(long, value_parser = crate::count::count, default_value = "30k")]
    rate: u64,
    /// Requests per second to the other slots, half of them reads
    #[arg(long, value_parser = crate::count::count, default_value = "10k")]
    others: u64,
    /// Connections of each stream to each server
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Seconds of a window in which nothing moves
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Moves, of which each has a window without one before it
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Threads per server that serve requests
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[command(flatten)]
    testbed: Testbed,
    #[command(flatten)]
    files: Files,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench moves
  hotring-bench moves --keys 200k --rate 5k --others 2k --rounds 2 --seconds 1";

impl MovesArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        let is_time = self.seconds > 0.0 && self.seconds < 1e6;
        ensure!(is_time && self.rounds > 0, "--seconds and --rounds must be more than 0");
        ensure!((1..=SLOTS_MAX).contains(&self.slots), "--slots is 1 to {SLOTS_MAX}");
        ensure!(self.connections > 0 && self.threads > 0, "nothing would be sent");
        ensure!(
            self.value_size >= load::NUMBER_LEN,
            "--value-size is {} or more",
            load::NUMBER_LEN
        );
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its figures are meaningless");
        }
        let machine = Machine::here();
        print!("{machine}");
        println!("files: {}\n", file_system(&self.testbed.folder()));
        let figures = self.measure()?;
        println!("{}", figures.table());
        let results = Results::new(machine, figures.rows());
        self.files.write(&results.rows, &results)
    }

    fn measure(&self) -> Result<Figures> {
        let pair = Cluster::start(&self.testbed, 2, self.threads)?;
        let (moving, others): (Vec<_>, Vec<_>) =
            (0..self.keys).map(load::key).partition(|key| slot_of(key) < self.slots);
        ensure!(!moving.is_empty() && !others.is_empty(), "more --keys are needed");
        let mut loader =
            Loader::open(pair.endpoints(), [moving, others], self.value_size, self.connections)?;
        loader.all(Mix::Writes).context("while the keys are loaded")?;
        let mut figures = Figures::new(PART, self.setting());
        let bar = report::progress(self.rounds as u64, PART);
        // The first window is a warm-up.
        self.quiet(&mut loader)?;
        for round in 0..self.rounds {
            let seen = self.quiet(&mut loader)?;
            add(&mut figures, QUIET, &seen);
            self.moving(&pair, &mut loader, (round + 1) % 2, &mut figures)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        loader.all(Mix::Reads)?;
        figures.add_ratio("others p99 of quiet", P99, MOVING, QUIET);
        figures.add_ratio("writes of quiet", RATE, MOVING, QUIET);
        Ok(figures)
    }

    fn setting(&self) -> String {
        let MovesArgs { keys, value_size, slots, rate, others, .. } = self;
        format!(
            "{slots} of {SLOTS} slots move, {keys} keys with values of {value_size} bytes, {rate} writes/s to \
             the moving slots, {others} requests/s to the others"
        )
    }

    fn work(&self) -> [Work; 2] {
        let work = |rate: u64, mix| Work { rate: rate as f64, mix, total: u64::MAX };
        [work(self.rate, Mix::Writes), work(self.others, Mix::Half)]
    }

    fn quiet(&self, loader: &mut Loader) -> Result<[Seen; 2]> {
        let work =
            self.work().map(|work| Work { total: (work.rate * self.seconds) as u64, ..work });
        loader.run(&work, &AtomicBool::new(false))
    }

    /// Moves the slots to a shard.
    fn moving(
        &self,
        pair: &Cluster,
        loader: &mut Loader,
        to: usize,
        figures: &mut Figures,
    ) -> Result<()> {
        let (work, stop) = (self.work(), AtomicBool::new(false));
        let sent = pair.sent_bytes()?;
        let began = Instant::now();
        let seen = std::thread::scope(|scope| {
            let loading = scope.spawn(|| loader.run(&work, &stop));
            let moved = pair.move_slots(self.slots, to);
            let moved = moved.and_then(|()| pair.wait_until_forgotten(self.keys));
            // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
            stop.store(true, Relaxed);
            let seen = loading.join().expect("the loading thread panicked");
            moved.and(seen)
        })?;
        let (redirected, node) = seen[0].redirected.context("no client was redirected")?;
        loader.note_owner(self.slots, node);
        let seconds = redirected.saturating_duration_since(began);
        add(figures, MOVING, &seen);
        figures.add(MOVING, "pause ms", seen[0].latency.max() as f64 / 1e6);
        figures.add(MOVING, "move s", seconds.as_secs_f64());
        figures.add(MOVING, "MB sent", (pair.sent_bytes()? - sent) as f64 / 1e6);
        figures.add(MOVING, "window s", seen[0].took.as_secs_f64());
        Ok(())
    }
}

fn add(figures: &mut Figures, case: &str, [moving, others]: &[Seen; 2]) {
    let us = |seen: &Seen, share| seen.latency.value_at_quantile(share) as f64 / 1e3;
    let rate = |seen: &Seen| {
        seen.latency.len() as f64 / seen.took.max(Duration::from_nanos(1)).as_secs_f64()
    };
    figures.add(case, RATE, rate(moving));
    figures.add(case, "p99 us", us(moving, 0.99));
    figures.add(case, "others/s", rate(others));
    figures.add(case, "others p50 us", us(others, 0.5));
    figures.add(case, P99, us(others, 0.99));
    figures.add(case, "others max us", us(others, 1.0));
}
