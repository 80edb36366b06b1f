//! `gcuckoo`: what insertions into cuckoo tables kick around, by load.
//!
//! The index's own code ([`CuckooPair`]: the algorithms of one page, over plain numbers) beside the
//! plain scheme, which kicks at random up to a limit and so finds out. All fill tables of the same
//! number of slots with the same keys, which have the same two buckets.

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use hotring_index::{CuckooCase, CuckooPair};

use crate::machine::Machine;
use crate::report::Table;

/// Count kicks by load: G-Cuckoo with one and four slots a bucket, and plain random walks
#[derive(Debug, Args)]
pub struct GCuckooArgs {
    /// Slots of both tables together, 2^k
    #[arg(long, value_parser = crate::cli::count, default_value_t = 1 << 21)]
    slots: u64,
    /// Kicks after which the plain scheme gives up
    #[arg(long, default_value_t = 500)]
    limit: usize,
    /// What the keys are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Loads, in percent, up to which bands go.
const BANDS_SINGLE: &[u64] = &[20, 30, 35, 40, 45, 48, 49, 50, 55];
const BANDS_FOUR: &[u64] = &[50, 80, 90, 95, 97];

/// What an insertion came to.
#[derive(Clone, Copy)]
struct Insertion {
    kicks: usize,
    placed: bool,
}

/// A table that is filled.
trait Filled {
    fn insert(&mut self, key: u64) -> Insertion;
}

/// What the insertions of one band came to.
#[derive(Clone, Copy, Default)]
struct Band {
    insertions: u64,
    kicks: u64,
    longest: usize,
    failed: u64,
    wasted: u64,
    nanoseconds: u128,
}

impl GCuckooArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.slots.is_power_of_two(), "--slots is 2^k");
        ensure!((1 << 6..=1 << 30).contains(&self.slots), "--slots is 2^6 to 2^30");
        print!("{}", Machine::here());
        println!("{} slots in two tables, limit {}, seed {}\n", self.slots, self.limit, self.seed);
        let single = (self.slots / 2) as u32;
        let mut table = new_table();
        let plain =
            self.fill("plain", &mut Plain::<1>::new(single, self), BANDS_SINGLE, &mut table);
        let mut pair = CuckooPair::<1>::new(single);
        let known = self.fill("G-Cuckoo", &mut pair, BANDS_SINGLE, &mut table);
        println!("One slot a bucket:\n\n{}", table.render());
        let mut table = new_table();
        let mut walk = Plain::<4>::new(single / 4, self);
        let walk = self.fill("plain", &mut walk, BANDS_FOUR, &mut table);
        let mut pair = CuckooPair::<4>::new(single / 4);
        let search = self.fill("G-Cuckoo", &mut pair, BANDS_FOUR, &mut table);
        println!("Four slots a bucket:\n\n{}", table.render());
        for (name, band) in
            [("plain", plain), ("gcuckoo", known), ("walk", walk), ("search", search)]
        {
            println!("{name}_failed {}\n{name}_wasted_kicks {}", band.failed, band.wasted);
        }
        Ok(())
    }

    /// Fills a table band by band; the sum of all.
    fn fill(&self, name: &str, to: &mut impl Filled, bands: &[u64], table: &mut Table) -> Band {
        let mut keys = Keys(self.seed);
        let (mut sum, mut n, mut from) = (Band::default(), 0, 0);
        for &percent in bands {
            let mut band = Band::default();
            let end = self.slots * percent / 100;
            let start = Instant::now();
            while n < end {
                n += 1;
                band.note(to.insert(keys.next()));
            }
            band.nanoseconds = start.elapsed().as_nanos();
            table.row(band.row(name, from, percent));
            sum.add(&band);
            from = percent;
        }
        sum
    }
}

fn new_table() -> Table {
    let columns = ["", "load", "kicks an insertion", "longest", "no room", "kicks wasted", "ns"];
    Table::new(&columns)
}

impl Band {
    fn note(&mut self, insertion: Insertion) {
        self.insertions += 1;
        self.kicks += insertion.kicks as u64;
        self.longest = self.longest.max(insertion.kicks);
        if !insertion.placed {
            self.failed += 1;
            self.wasted += insertion.kicks as u64;
        }
    }

    fn add(&mut self, other: &Self) {
        self.failed += other.failed;
        self.wasted += other.wasted;
    }

    fn row(&self, name: &str, from: u64, to: u64) -> Vec<String> {
        let each = |sum: f64| sum / self.insertions.max(1) as f64;
        vec![
            name.to_owned(),
            format!("{:.2} to {:.2}", from as f64 / 100.0, to as f64 / 100.0),
            format!("{:.3}", each(self.kicks as f64)),
            self.longest.to_string(),
            self.failed.to_string(),
            self.wasted.to_string(),
            format!("{:.0}", each(self.nanoseconds as f64)),
        ]
    }
}

impl<const S: usize> Filled for CuckooPair<S> {
    fn insert(&mut self, key: u64) -> Insertion {
        let inserted = CuckooPair::insert(self, key);
        debug_assert!(inserted.case != Some(CuckooCase::C3) || inserted.stashed);
        Insertion { kicks: inserted.kicks, placed: !inserted.stashed }
    }
}

/// Random numbers that are keys and hashes at once.
struct Keys(u64);

impl Keys {
    /// The next one of a splitmix generator; never 0.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31).max(1)
    }
}

/// The conventional scheme: whoever finds both buckets full kicks somebody out at random, and so on,
/// up to a limit. What has no place then is left over.
struct Plain<const S: usize> {
    words: Vec<u64>,
    buckets: u32,
    limit: usize,
    random: Keys,
}

impl<const S: usize> Plain<S> {
    fn new(buckets: u32, args: &GCuckooArgs) -> Self {
        let words = vec![0; 2 * buckets as usize * S];
        Self { words, buckets, limit: args.limit, random: Keys(!args.seed) }
    }

    /// Puts a key into a bucket if it has a vacant slot.
    fn put(&mut self, bucket: u32, key: u64) -> bool {
        let first = bucket as usize * S;
        let vacant = self.words[first..first + S].iter_mut().find(|word| **word == 0);
        vacant.map(|word| *word = key).is_some()
    }
}

impl<const S: usize> Filled for Plain<S> {
    fn insert(&mut self, mut key: u64) -> Insertion {
        let both = CuckooPair::<S>::buckets_of(key, self.buckets);
        if both.iter().any(|&bucket| self.put(bucket, key)) {
            return Insertion { kicks: 0, placed: true };
        }
        let mut bucket = both[self.random.next() as usize % 2];
        for kicks in 1..=self.limit {
            let victim = bucket as usize * S + self.random.next() as usize % S;
            key = std::mem::replace(&mut self.words[victim], key);
            let both = CuckooPair::<S>::buckets_of(key, self.buckets);
            bucket = if both[0] == bucket { both[1] } else { both[0] };
            if self.put(bucket, key) {
                return Insertion { kicks, placed: true };
            }
        }
        Insertion { kicks: self.limit, placed: false }
    }
}
