//! Memory of items goes back to the system after removals.

use fastrand::Rng;
use hotring_index::{Bytes, Config, Expiry, HotRing, NewValue, U64};

const MIB: u64 = 1 << 20;

#[test]
fn item_memory_goes_back_after_mass_removal() {
    // Under a sanitizer each item is an allocation of its own.
    const KEYS: u64 = if cfg!(hotring_plain_arena) { 200_000 } else { 2_000_000 };
    let index = HotRing::<U64>::new(Config::default()).expect("a valid configuration");
    let mut session = index.session();
    for key in 0..KEYS {
        session.insert(key, key);
    }
    let full = index.stats();
    assert!((full.bytes..full.bytes + 4 * MIB).contains(&full.held_bytes), "{full:?}");
    // In an order that has nothing to do with that of the inserts: the last blocks lie anywhere.
    for key in 0..KEYS {
        assert!(session.remove(key * 1_234_577 % KEYS));
    }
    for _ in 0..100 {
        session.collect();
    }
    let empty = index.stats();
    assert_eq!(empty.bytes, 0);
    assert!(empty.held_bytes <= 4 * MIB, "{empty:?}");
    assert_eq!(empty.mapped_bytes, full.mapped_bytes, "address space stays");
    for key in 0..KEYS {
        session.insert(key, key);
    }
    assert_eq!(index.stats().mapped_bytes, full.mapped_bytes, "and serves again");
}

/// Each had up to eight dead versions in its chain, until a session came by.
#[test]
fn overwriting_at_random_leaves_little_behind() {
    const KEYS: u64 = 100_000;
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let mut session = index.session();
    let mut put = |key: u64| {
        let value = NewValue::Bytes { kind: 0, bytes: (&[7; 100]).into() };
        session.put(&key.to_le_bytes(), value, Expiry::Never, 1);
    };
    (0..KEYS).for_each(&mut put);
    let live = index.stats().bytes;
    let mut random = Rng::with_seed(1);
    let mut most = 0;
    for step in 0..10 * KEYS {
        // A tenth of them hit hot keys.
        put(if step % 10 == 0 { step / 10 % 4 } else { random.u64(..KEYS) });
        if step % 1024 == 0 {
            let stats = index.stats();
            most = most.max(stats.bytes - stats.limbo_bytes);
        }
    }
    assert!(most < live + live / 10, "{most} bytes for {live} that are live");
}

/// Free memory of one size serves another.
#[test]
fn memory_follows_sizes_that_change() {
    const KEYS: u64 = 20_000;
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let mut session = index.session();
    for len in (0..900).step_by(50) {
        let value = vec![7; len];
        for i in 0..KEYS {
            let key = (i * 7919 % KEYS).to_le_bytes();
            // Not over the old value: versions that hints still hold keep their spans.
            session.remove(&key, 1);
            let bytes = value.as_slice().into();
            session.put(&key, NewValue::Bytes { kind: 0, bytes }, Expiry::Never, 1);
        }
        for _ in 0..100 {
            session.collect();
        }
        let stats = index.stats();
        let most = stats.bytes + stats.bytes / 8 + 4 * MIB;
        assert!(stats.held_bytes < most, "values of {len} bytes: {stats:?}");
    }
}

/// The memory reported for an entry equals the memory that its removal returns, whatever its size.
#[test]
fn the_removal_of_an_entry_gives_back_its_footprint() {
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let mut session = index.session();
    for len in [0, 7, 100, 990, 1_000, 1_100, 5_000, 33_000, 200_000, 262_000, 300_000, 5_000_000] {
        let bytes = vec![1; len].into();
        session.put(b"key", NewValue::Bytes { kind: 0, bytes }, Expiry::Never, 1);
        let footprint = session.get(b"key", 1, |entry| entry.footprint).expect("just put");
        let full = index.stats();
        assert_eq!(full.bytes, footprint as u64, "{len}");
        assert!(footprint - len < 64 + len / 8, "{footprint} for {len}");
        assert!(full.held_bytes >= full.bytes && full.fragmentation() >= 1.0, "{full:?}");
        session.remove(b"key", 1);
        (0..10).for_each(|_| session.collect());
        let empty = index.stats();
        assert_eq!((empty.bytes, empty.fragmentation()), (0, 1.0));
        assert!(empty.held_bytes <= 2 * MIB, "{len}: one chunk stays: {empty:?}");
    }
}
