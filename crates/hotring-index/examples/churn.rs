//! What item memory costs where items of mixed sizes come and go, and how it goes back.
//!
//! ```console
//! cargo run --release -p hotring-index --example churn -- 256
//! ```
//! Keeps this many MiB of items (256), replaces ten times as much at random in each of some ranges of sizes, one
//! after the other in the same index, removes nine tenths in the end, and says what is held for one byte of
//! items: as the index counts it, and as the system does (resident, of the whole process, tables included); and in
//! the end what a new index holds that has been loaded with the rest alone.

use std::time::Instant;

use fastrand::Rng;
use hotring_index::{
    Bytes, Config, ConfigError, Entry, Expiry, HotRing, HotRingSession, NewValue, Value,
};

/// Ranges of lengths of values.
const SIZES: [(u64, u64); 5] = [(16, 4096), (16, 128), (512, 1024), (4096, 65_536), (16, 4096)];
/// How many times as much is written as is kept.
const TIMES: u64 = 10;
/// Bytes written between two steps of compaction, and items that one looks at.
const INTERVAL: u64 = 16 << 10;
const BUDGET: usize = 1_000;

struct Churn {
    index: HotRing<Bytes>,
    session: HotRingSession<Bytes>,
    random: Rng,
    keys: Vec<u64>,
    next: u64,
    moved_bytes: usize,
}

impl Churn {
    fn new() -> Result<Self, ConfigError> {
        let index = HotRing::<Bytes>::new(Config::default())?;
        let session = index.session();
        Ok(Self {
            index,
            session,
            random: Rng::with_seed(7),
            keys: Vec::new(),
            next: 0,
            moved_bytes: 0,
        })
    }

    fn put(&mut self, key: u64, len: u64) {
        let value = NewValue::Bytes { kind: 0, bytes: vec![1; len as usize].into() };
        self.session.put(&key.to_le_bytes(), value, Expiry::Never, 1);
        self.keys.push(key);
    }

    /// The keys that are there, with the lengths of their values.
    fn entries(&mut self) -> Vec<(u64, u64)> {
        let keys = std::mem::take(&mut self.keys);
        let len = |entry: Entry<'_>| match entry.value {
            Value::Bytes { bytes, .. } => bytes.len() as u64,
            Value::Word { .. } => 8,
        };
        let mut entry = |key: u64| Some((key, self.session.get(&key.to_le_bytes(), 1, len)?));
        keys.into_iter().filter_map(&mut entry).collect()
    }

    fn remove_one(&mut self) {
        let at = self.random.usize(..self.keys.len());
        let key = self.keys.swap_remove(at);
        self.session.remove(&key.to_le_bytes(), 1);
        // What is removed counts until it is free.
        if key.is_multiple_of(64) {
            self.session.collect();
        }
    }

    /// Writes this many bytes in such sizes; the most that was held for one byte of items.
    fn write(&mut self, bytes: u64, live: u64, (from, to): (u64, u64)) -> f64 {
        let (mut written, mut stepped, mut most) = (0, 0, 0.0f64);
        while written < bytes {
            let len = from + self.random.u64(..to - from);
            self.put(self.next, len);
            self.next += 1;
            written += len;
            while self.index.stats().bytes > live {
                self.remove_one();
            }
            if written >= stepped + INTERVAL {
                stepped = written;
                self.moved_bytes += self.session.compact_step(BUDGET).moved_bytes;
                most = most.max(self.index.stats().fragmentation());
            }
        }
        most
    }

    fn say(&self, what: &str, most: f64) {
        let stats = self.index.stats();
        println!(
            "{what:24} {:8} items {:6} MiB of items {:6} held, {:5.3} for one, at most {most:5.3}; \
             {:6} MiB resident, {:6} MiB of items moved",
            stats.items,
            stats.bytes >> 20,
            stats.held_bytes >> 20,
            stats.fragmentation(),
            resident_mib(),
            self.moved_bytes >> 20,
        );
    }
}

/// As `/proc` tells it, in pages of 4 KiB.
fn resident_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) / 256
}

fn main() -> Result<(), ConfigError> {
    let live = std::env::args().nth(1).and_then(|mib| mib.parse::<u64>().ok()).unwrap_or(256) << 20;
    let mut churn = Churn::new()?;
    churn.write(live, live, SIZES[0]);
    churn.say("load", 0.0);
    for sizes in SIZES {
        let most = churn.write(TIMES * live, live, sizes);
        churn.say(&format!("{} to {} bytes", sizes.0, sizes.1), most);
    }
    for _ in 0..churn.keys.len() / 10 * 9 {
        churn.remove_one();
    }
    (0..300).for_each(|_| churn.session.collect());
    churn.say("nine tenths removed", 0.0);
    let (begun, mut steps) = (Instant::now(), 0);
    while churn.session.compact_step(BUDGET).visited > 0 {
        churn.session.collect();
        steps += 1;
    }
    churn.say("compacted", 0.0);
    println!("{steps} steps of {BUDGET} items in {:.3} s", begun.elapsed().as_secs_f64());
    let rest = churn.entries();
    drop(churn);
    let mut churn = Churn::new()?;
    rest.into_iter().for_each(|(key, len)| churn.put(key, len));
    churn.say("loaded again", 0.0);
    Ok(())
}
