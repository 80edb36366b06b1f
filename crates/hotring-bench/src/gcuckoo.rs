//! `gcuckoo`: counts the kicks of insertions into cuckoo tables, by load.
//!
//! Compares the index's own code ([`CuckooPair`]: the algorithms of one page, over plain numbers) with the plain
//! scheme, which kicks at random and gives up at a limit. All schemes fill tables of the same number of slots
//! with the same keys, which have the same two buckets.

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use fastrand::Rng;
use hotring_engines::{CuckooCase, CuckooPair};

use crate::machine::Machine;
use crate::report::Table;

/// Count kicks by load: G-Cuckoo with one and four slots per bucket, and plain random walks
#[derive(Debug, Args)]
pub struct GCuckooArgs {
    /// Total slots of both tables, a power of two
    #[arg(long, value_parser = crate::count::count, default_value_t = 1 << 21)]
    slots: u64,
    /// Maximum number of kicks of the plain scheme
    #[arg(long, default_value_t = 500)]
    limit: usize,
    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The upper loads of the bands, in percent.
const BANDS_SINGLE: &[u64] = &[20, 30, 35, 40, 45, 48, 49, 50, 55];
const BANDS_FOUR: &[u64] = &[50, 80, 90, 95, 97];

/// The outcome of an insertion.
#[derive(Clone, Copy)]
pub struct Insertion {
    kicks: usize,
    placed: bool,
}

/// A table to fill.
pub trait Filled {
    /// Inserts an absent key.
    fn insert(&mut self, key: u64) -> Insertion;
    /// Whether a key is present.
    fn contains(&self, key: u64) -> bool;
}

/// The outcomes of the insertions of one band.
#[derive(Clone, Copy, Default)]
pub struct Band {
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
        let (single, four) = (self.fill_single(), self.fill_four());
        println!("One slot a bucket:\n\n{}", render(&single));
        println!("Four slots a bucket:\n\n{}", render(&four));
        let all = single.iter().chain(&four);
        for (name, filling) in ["plain", "gcuckoo", "walk", "search"].into_iter().zip(all) {
            let (failed, wasted) = (filling.failed(), filling.wasted());
            println!("{name}_failed {failed}\n{name}_wasted_kicks {wasted}");
        }
        Ok(())
    }

    /// Default settings, except for the number of slots.
    pub fn of(slots: u64) -> Self {
        GCuckooArgs { slots, limit: 500, seed: 1 }
    }

    /// Maximum number of kicks of the plain scheme.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Fills tables of one slot per bucket: the plain scheme, then ours.
    pub fn fill_single(&self) -> [Filling; 2] {
        let buckets = (self.slots / 2) as u32;
        [
            self.fill("plain", &mut Plain::<1>::new(buckets, self), BANDS_SINGLE),
            self.fill("G-Cuckoo", &mut CuckooPair::<1>::new(buckets), BANDS_SINGLE),
        ]
    }

    /// Fills tables of four slots per bucket: the plain scheme, then ours.
    pub fn fill_four(&self) -> [Filling; 2] {
        let buckets = (self.slots / 8) as u32;
        [
            self.fill("plain", &mut Plain::<4>::new(buckets, self), BANDS_FOUR),
            self.fill("G-Cuckoo", &mut CuckooPair::<4>::new(buckets), BANDS_FOUR),
        ]
    }

    /// Fills a table band by band. Its random numbers serve as both keys and hashes.
    fn fill(&self, name: &'static str, to: &mut impl Filled, bands: &[u64]) -> Filling {
        let mut keys = Rng::with_seed(self.seed);
        let (mut filling, mut n) = (Filling { name, bands: Vec::new() }, 0);
        for &percent in bands {
            let mut band = Band::default();
            let end = self.slots * percent / 100;
            let drawn: Vec<u64> = (n..end).map(|_| keys.u64(1..)).collect();
            let start = Instant::now();
            drawn.into_iter().for_each(|key| band.note(to.insert(key)));
            band.nanoseconds = start.elapsed().as_nanos();
            n = end;
            filling.bands.push((percent as f64, band));
        }
        filling
    }
}

fn render(fillings: &[Filling]) -> String {
    let columns = ["", "load", "kicks an insertion", "longest", "no room", "kicks wasted", "ns"];
    let mut table = Table::new(&columns);
    for filling in fillings {
        let mut from = 0.0;
        for (percent, band) in &filling.bands {
            table.row(band.row(filling.name, from, *percent));
            from = *percent;
        }
    }
    table.render()
}

/// The results of filling a table.
pub struct Filling {
    /// The scheme.
    pub name: &'static str,
    /// The upper loads of the bands, in percent, and their results.
    pub bands: Vec<(f64, Band)>,
}

impl Filling {
    /// Insertions that found no vacant slot.
    pub fn failed(&self) -> u64 {
        self.bands.iter().map(|(_, band)| band.failed).sum()
    }

    /// Kicks of the failed insertions.
    pub fn wasted(&self) -> u64 {
        self.bands.iter().map(|(_, band)| band.wasted).sum()
    }
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

    /// Kicks per insertion.
    pub fn kicks_each(&self) -> f64 {
        self.kicks as f64 / self.insertions.max(1) as f64
    }

    fn row(&self, name: &str, from: f64, to: f64) -> Vec<String> {
        let nanoseconds = self.nanoseconds as f64 / self.insertions.max(1) as f64;
        vec![
            name.to_owned(),
            format!("{:.2} to {:.2}", from / 100.0, to / 100.0),
            format!("{:.3}", self.kicks_each()),
            self.longest.to_string(),
            self.failed.to_string(),
            self.wasted.to_string(),
            format!("{nanoseconds:.0}"),
        ]
    }
}

impl<const S: usize> Filled for CuckooPair<S> {
    fn insert(&mut self, key: u64) -> Insertion {
        let inserted = CuckooPair::insert(self, key);
        debug_assert!(inserted.case != Some(CuckooCase::C3) || inserted.stashed);
        Insertion { kicks: inserted.kicks, placed: !inserted.stashed }
    }

    fn contains(&self, key: u64) -> bool {
        CuckooPair::contains(self, key)
    }
}

/// The plain scheme: if both buckets are full, it kicks out a random item, which then needs a slot in its other
/// bucket, and so on up to a limit. An item that then has no slot is left over.
pub struct Plain<const S: usize> {
    words: Vec<u64>,
    buckets: u32,
    limit: usize,
    random: Rng,
}

impl<const S: usize> Plain<S> {
    /// An empty table with `buckets` buckets in each half.
    pub fn new(buckets: u32, args: &GCuckooArgs) -> Self {
        let words = vec![0; 2 * buckets as usize * S];
        Self { words, buckets, limit: args.limit, random: Rng::with_seed(!args.seed) }
    }

    fn bucket(&self, bucket: u32) -> &[u64] {
        &self.words[bucket as usize * S..][..S]
    }

    /// Puts a key into a bucket, if the bucket has a vacant slot.
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
        let mut bucket = both[self.random.usize(..2)];
        for kicks in 1..=self.limit {
            let victim = bucket as usize * S + self.random.usize(..S);
            key = std::mem::replace(&mut self.words[victim], key);
            let both = CuckooPair::<S>::buckets_of(key, self.buckets);
            bucket = if both[0] == bucket { both[1] } else { both[0] };
            if self.put(bucket, key) {
                return Insertion { kicks, placed: true };
            }
        }
        Insertion { kicks: self.limit, placed: false }
    }

    fn contains(&self, key: u64) -> bool {
        let both = CuckooPair::<S>::buckets_of(key, self.buckets);
        both.iter().any(|&bucket| self.bucket(bucket).contains(&key))
    }
}
