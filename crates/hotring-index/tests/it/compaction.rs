//! Compaction: memory of which little is used goes back, unnoticed by readers and writers.

use fastrand::Rng;
use hotring_engines::EngineChoice;
use hotring_index::{
    Action, AnySession, Bytes, Checksum, Config, Entry, Expiry, HotRing, HotRingSession, NewValue,
    Stats, Value,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: u64 = 1 << 20;

/// Items are fewer by this factor under a sanitizer, where each is an allocation of its own: nothing moves, and only
/// the accesses count.
const FEWER: u64 = if cfg!(hotring_plain_arena) { 8 } else { 1 };

/// From HOTRING_SEED, or a fixed seed; printed, for the log of a failure.
fn random_of_test() -> Rng {
    let seed = std::env::var("HOTRING_SEED").map_or(7, |seed| seed.parse().expect("a number"));
    println!("HOTRING_SEED={seed}");
    Rng::with_seed(seed | 1)
}

/// The comparable parts of an entry.
#[derive(Debug, PartialEq)]
struct Seen {
    word: Option<u64>,
    bytes: Vec<u8>,
    expire_at: Option<u64>,
    version: Option<u64>,
}

fn seen(entry: Entry<'_>) -> Seen {
    let (word, bytes) = match entry.value {
        Value::Word { word, .. } => (Some(word), Vec::new()),
        Value::Bytes { bytes, .. } => (None, bytes.to_vec()),
    };
    Seen { word, bytes, expire_at: entry.expire_at, version: entry.version }
}

/// Stores one of several kinds of entries.
fn put(session: &mut AnySession, key: u64, len_max: u64) {
    let expiry = if key.is_multiple_of(3) { Expiry::At(1 << 40) } else { Expiry::Never };
    let value = match key % 7 {
        // Bit 63 is kept apart from the others.
        0 => NewValue::Word { kind: 1, word: key << 40 | key << 63 },
        _ => NewValue::Bytes { kind: 2, bytes: vec![key as u8; (key % len_max) as usize].into() },
    };
    session.put(&key.to_le_bytes(), value, expiry, 1);
    if key.is_multiple_of(5) {
        session.version(&key.to_le_bytes(), 1);
    }
}

/// Compacts until there is nothing more to do; how many items moved.
fn compact(session: &mut AnySession) -> usize {
    let mut moved = 0;
    for _ in 0..100_000 {
        let done = session.compact_step(1_000);
        moved += done.moved;
        session.collect();
        if done.visited == 0 {
            return moved;
        }
    }
    panic!("it never ends");
}

/// Loads, removes nine tenths at random, and compacts. Returns the bytes held then, and those of a load of
/// the rest alone.
fn removed_at_random(engine: EngineChoice, keys: u64, len_max: u64) -> (Stats, Stats) {
    let config = Config { checksum: Checksum::Verify, ..Config::default() };
    let new = || engine.open(config.clone()).expect("a valid configuration");
    let (index, fresh) = (new(), new());
    let mut session = index.try_session(None).expect("the first session");
    let mut random = random_of_test();
    let keys = keys / FEWER;
    (0..keys).for_each(|key| put(&mut session, key, len_max));
    let mut left: HashMap<u64, Seen> = HashMap::new();
    for key in 0..keys {
        if random.u64(..10) == 0 {
            let entry = session.get(&key.to_le_bytes(), 1, seen).expect("it is there");
            left.insert(key, entry);
        } else {
            session.remove(&key.to_le_bytes(), 1);
        }
    }
    (0..300).for_each(|_| session.collect());
    let sparse = index.stats();
    let moved = compact(&mut session);
    (0..300).for_each(|_| session.collect());
    if !cfg!(hotring_plain_arena) {
        assert!(sparse.fragmentation() > 2.0 && moved > 0, "{engine:?}: {sparse:?}");
    }
    assert_eq!(index.len(), left.len());
    let mut other = fresh.try_session(None).expect("the first session");
    for (key, kept) in left {
        let entry = session.get(&key.to_le_bytes(), 1, seen);
        assert_eq!(entry, Some(kept), "{engine:?}: {key}");
        put(&mut other, key, len_max);
    }
    assert_eq!(session.damages(), 0);
    drop(other);
    (index.stats(), fresh.stats())
}

#[test]
fn items_left_by_a_mass_removal_are_compacted() {
    let (dense, fresh) = removed_at_random(EngineChoice::HotRing, 400_000, 1_300);
    let most = fresh.held_bytes + fresh.held_bytes / 10 * 3;
    assert!(dense.held_bytes <= most, "{dense:?}, {fresh:?}");
}

/// Chunks of 2 MiB need no rounding: the remaining items take as many as if they were alone.
#[test]
fn small_stores_are_left_like_fresh_ones() {
    // About 16 MiB and 60 MiB of items, of few lengths and of many.
    for (keys, len_max) in [(130_000, 200), (28_000, 1_300), (8_200, 4_500), (104_000, 1_300)] {
        let (dense, fresh) = removed_at_random(EngineChoice::HotRing, keys, len_max);
        let most = fresh.held_bytes + fresh.held_bytes / 10 * 3;
        assert!(dense.held_bytes <= most, "{keys} keys: {dense:?}, {fresh:?}");
    }
}

#[test]
fn items_move_with_any_engine() {
    for &engine in EngineChoice::ALL {
        let (dense, _) = removed_at_random(engine, 200_000, 200);
        let most = (dense.bytes + dense.bytes / 5).max(dense.bytes + 8 * MIB) + 2 * MIB;
        assert!(dense.held_bytes <= most, "{engine:?}: {dense:?}");
    }
}

/// Puts and removes entries at random, so that this many bytes are there.
struct Churn {
    session: HotRingSession<Bytes>,
    index: HotRing<Bytes>,
    random: Rng,
    keys: Vec<u64>,
    next: u64,
    live: u64,
    moved_bytes: usize,
}

impl Churn {
    fn new(live: u64) -> Self {
        let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
        let (session, random) = (index.session(), random_of_test());
        Self { session, index, random, keys: Vec::new(), next: 0, live, moved_bytes: 0 }
    }

    /// Writes this many times as much in sizes up to `len_max`; the most that was held for one byte of items.
    fn write(&mut self, times: u64, len_max: u64) -> f64 {
        let (mut written, mut most) = (0, 0.0f64);
        while written < times * self.live {
            let len = 16 + self.random.u64(..len_max - 16);
            let bytes = vec![self.next as u8; len as usize].into();
            let value = NewValue::Bytes { kind: 0, bytes };
            self.session.put(&self.next.to_le_bytes(), value, Expiry::Never, 1);
            self.keys.push(self.next);
            self.next += 1;
            written += len;
            while self.index.stats().bytes > self.live {
                let key = self.keys.swap_remove(self.random.u64(..self.keys.len() as u64) as usize);
                self.session.remove(&key.to_le_bytes(), 1);
                // Removed items count until they are free.
                if key.is_multiple_of(64) {
                    self.session.collect();
                }
            }
            if self.next.is_multiple_of(64) {
                self.moved_bytes += self.session.compact_step(1_000).moved_bytes;
                most = most.max(self.index.stats().fragmentation());
            }
        }
        most
    }
}

/// Ten times as much is written as is there; then in sizes that were rare before.
#[test]
fn churn_of_mixed_sizes_wastes_little() {
    let mut churn = Churn::new(96 * MIB / FEWER);
    churn.write(1, 4096);
    let most = churn.write(10, 4096);
    let of_other_sizes = churn.write(2, 256);
    println!(
        "at most {most:.3} bytes held for one of items, {of_other_sizes:.3} when sizes change"
    );
    while churn.session.compact_step(1_000).visited > 0 {
        churn.session.collect();
    }
    let stats = churn.index.stats();
    if !cfg!(hotring_plain_arena) {
        assert!(most < 1.15, "{most}");
        assert!(of_other_sizes < 1.35, "{of_other_sizes}");
        // The classes of which there are few items now have most of their last spans for nothing.
        assert!(stats.fragmentation() < 1.2, "{} {stats:?}", stats.fragmentation());
    }
}

/// Blocks free at one time are in use at another, so moving items again and again does not pay.
#[test]
fn a_small_store_in_a_steady_state_moves_little() {
    for live in [4 * MIB, 16 * MIB] {
        let mut churn = Churn::new(live);
        churn.write(5, 4096);
        let before = churn.moved_bytes;
        churn.write(20, 4096);
        let moved = (churn.moved_bytes - before) as u64;
        println!("{moved} bytes moved for {} written", 20 * live);
        assert!(moved <= 2 * live, "{moved} bytes moved for {} written", 20 * live);
    }
}

/// No addition is lost, whenever its item moves, and no removed key comes back.
#[test]
fn items_move_under_readers_and_writers() {
    const KEYS: u64 = 300_000;
    const KEPT: u64 = KEYS / 10;
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let mut session = index.session();
    let word = |word: u64| NewValue::Word { kind: 0, word };
    for key in 0..KEYS {
        session.put(&key.to_le_bytes(), word(0), Expiry::Never, 1);
    }
    for key in (0..KEYS).filter(|key| !key.is_multiple_of(10)) {
        session.remove(&key.to_le_bytes(), 1);
    }
    (0..100).for_each(|_| session.collect());
    let ended = AtomicBool::new(false);
    let added = std::thread::scope(|scope| {
        let adders: Vec<_> = (0..2u64)
            .map(|adder| {
                let (mut session, ended) = (index.session(), &ended);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(adder * 2 + 1);
                    let mut added = 0u64;
                    while !ended.load(Ordering::Relaxed) {
                        let key = random.u64(..KEPT) * 10;
                        if key.is_multiple_of(11) {
                            session.remove(&key.to_le_bytes(), 1);
                            continue;
                        }
                        added += session.update(&key.to_le_bytes(), 1, |old| {
                            let Some(Value::Word { word: old, .. }) = old.map(|entry| entry.value)
                            else {
                                panic!("{key} is missing")
                            };
                            (Action::Put { value: word(old + 1), expiry: Expiry::Keep }, 1)
                        });
                    }
                    added
                })
            })
            .collect();
        let mut moved = 0;
        for _ in 0..20_000 {
            moved += session.compact_step(200).moved;
        }
        ended.store(true, Ordering::Relaxed);
        assert!(moved > 0 || cfg!(hotring_plain_arena), "nothing moved");
        adders.into_iter().map(|adder| adder.join().expect("no panic")).sum::<u64>()
    });
    let mut sum = 0;
    session.scan(0, usize::MAX, 1, |entry| {
        let Value::Word { word, .. } = entry.value else { panic!("only words are put") };
        sum += word;
    });
    assert_eq!(sum, added);
    for key in (0..KEPT).map(|key| key * 10) {
        let is_present = session.get(&key.to_le_bytes(), 1, |_| ()).is_some();
        assert!(is_present || key.is_multiple_of(11), "{key} is lost");
    }
}
