//! Properties of Mercury alone: its locks, refused settings, and the threads that move its buckets. The
//! suites that run over all engines cover the rest.

use crate::colliding::u64_key;
use hotring_engines::{
    EngineChoice, Expander, Locking, Mercury, MercuryConfig, MercuryHash, NoLock, OsMutex,
    TestAndSet,
};
use hotring_index::{
    Bytes, Config, ConfigError, Expiry, Growth, HotRing, NewValue, Stats, U64, Value,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

const SEED: [u64; 2] = [3, 4];

fn config() -> Config {
    Config { seed: SEED, slots_initial: 4, ..Config::default() }
}

fn with_thread() -> Config {
    Config { engine: MercuryConfig { expander: Expander::Thread }.into(), ..config() }
}

fn expansions(stats: &Stats) -> u64 {
    stats.engine.get("expansions").expect("it is Mercury")
}

fn refusal<T>(result: Result<T, ConfigError>) -> String {
    result.err().expect("it is refused").to_string()
}

fn numbers<L: Locking>() {
    let index = MercuryHash::<U64, L>::new(config()).expect("a valid configuration");
    let mut session = index.session();
    for key in 0..10_000 {
        assert!(session.insert(key, key) && !session.insert(key, 0));
    }
    assert!(index.stats().slots >= 8192, "{:?}", index.stats());
    assert!(index.stats().visits_mean() < 2.5, "{:?}", index.stats());
    for key in 0..10_000 {
        assert_eq!(session.get(key), Some(key));
        match key % 4 {
            0 => assert!(session.remove(key)),
            1 => assert_eq!(session.fetch_add(key, 1 << 63), Some(key | 1 << 63)),
            2 => assert!(session.put(key, 7)),
            _ => assert_eq!(session.take(key), Some(key)),
        }
    }
    assert_eq!(index.len(), 5_000);
    let mut seen = 0;
    assert_eq!(session.scan(0, usize::MAX, |_, _| seen += 1), 0);
    assert_eq!(seen, 5_000);
    session.clear();
    assert!(index.is_empty());
}

fn strings<L: Locking>() {
    let index = MercuryHash::<Bytes, L>::new(config()).expect("a valid configuration");
    let mut session = index.session();
    let name = |i: u32| format!("key {i}").into_bytes();
    // Some are larger than the arena's largest class, so that the engine must find them when it goes.
    let len = |i: u32| if i % 100 == 8 { 300_000 + i as usize } else { i as usize };
    let value = |i: u32| NewValue::Bytes { kind: 0, bytes: vec![i as u8; len(i)].into() };
    for i in 0..3_000 {
        let expiry = if i % 2 == 0 { Expiry::Never } else { Expiry::At(10) };
        assert!(!session.put(&name(i), value(i), expiry, 1));
    }
    for i in 0..3_000 {
        let got = session.get(&name(i), 10, |entry| match entry.value {
            Value::Bytes { bytes, .. } => bytes.len(),
            Value::Word { .. } => unreachable!("only bytes are put"),
        });
        assert_eq!(got, (i % 2 == 0).then_some(len(i)));
    }
    assert_eq!(session.expire_step(usize::MAX, 10).1, 1_500);
    assert_eq!(index.len(), 1_500);
}

#[test]
fn every_lock_serves_both_kinds_of_items() {
    numbers::<TestAndSet>();
    numbers::<OsMutex>();
    numbers::<NoLock>();
    strings::<TestAndSet>();
    strings::<OsMutex>();
    strings::<NoLock>();
}

#[test]
fn without_locks_there_is_one_session() {
    let index = MercuryHash::<U64, NoLock>::new(config()).expect("a valid configuration");
    let first = index.session();
    let why = refusal(index.try_session(None));
    assert!(why.contains("one session at a time") && why.contains("test-and-set"), "{why}");
    drop(first);
    // One after the other, on any thread.
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(index.session().insert(1, 2)));
    });
    assert_eq!(index.session().get(1), Some(2));
    let why = refusal(MercuryHash::<U64, NoLock>::new(with_thread()));
    assert!(why.contains("test-and-set"), "{why}");
}

#[test]
fn unknown_options_are_refused() {
    let growth = |growth| Config { growth: Some(growth), ..config() };
    let auto = Growth::Auto { visits_max: 1.5, items_min: 1.0, items_max: 2.0, items_low: 0.0 };
    for growth in [growth(auto), growth(Growth::BytesPerKey(8.0))] {
        let why = refusal(MercuryHash::<U64>::new(growth));
        assert!(why.contains("leave growth unset"), "{why}");
    }
    let why = refusal(MercuryHash::<U64>::new(Config { period: Some(9), ..config() }));
    assert!(why.contains("hotring"), "{why}");
    let why = refusal(HotRing::<U64>::new(with_thread()));
    assert!(why.contains("mercury"), "{why}");
}

#[test]
fn a_fixed_table_stays_and_a_largest_one_too() {
    for (growth, slots_max) in [(Some(Growth::Fixed), 1 << 20), (None, 4)] {
        let config = Config { growth, slots_max, ..config() };
        let index = MercuryHash::<U64>::new(config).expect("a valid configuration");
        let mut session = index.session();
        (0..1_000).for_each(|key| assert!(session.insert(key, key)));
        assert_eq!(index.stats().slots, 4);
        (0..1_000).for_each(|key| assert_eq!(session.get(key), Some(key)));
        assert_eq!(session.grow(), slots_max > 4, "by hand, if there is room");
    }
}

/// Keys that are there all the time are met once each, whatever comes and goes between two calls.
#[test]
fn a_scan_meets_all_once_while_the_table_doubles_again_and_again() {
    for count in [1, 3, 50] {
        let index = MercuryHash::<U64>::new(config()).expect("a valid configuration");
        let mut session = index.session();
        (0..300).for_each(|key| assert!(session.insert(key, key)));
        let (mut met, mut cursor, mut other) = (vec![0; 300], 0, 1_000);
        let before = expansions(&index.stats());
        loop {
            cursor = session.scan(cursor, count, |key, _| {
                if key < 300 {
                    met[key as usize] += 1;
                }
            });
            if cursor == 0 {
                break;
            }
            if other < 40_000 {
                (0..40).for_each(|n| assert!(session.insert(other + n, 0)));
                other += 40;
            }
        }
        assert!(met.iter().all(|&times| times == 1), "{count} at a time: {met:?}");
        assert!(count == 50 || expansions(&index.stats()) >= before + 3, "{:?}", index.stats());
    }
}

/// They share a bucket for ever: slow, but nothing else, and no stack is used for it.
#[test]
fn colliding_keys_make_one_long_chain() {
    const COUNT: u64 = 4_000;
    let index = MercuryHash::<U64>::new(config()).expect("a valid configuration");
    let mut session = index.session();
    let key = |i: u64| u64_key(i << 40 | 0x1234_5678);
    (0..COUNT).for_each(|i| assert!(session.insert(key(i), i)));
    assert_eq!(index.stats().slots, 4096);
    (0..COUNT).step_by(7).for_each(|i| assert_eq!(session.get(key(i)), Some(i)));
    let mut seen = 0;
    session.scan(0, usize::MAX, |_, _| seen += 1);
    assert_eq!(seen, COUNT);
    (0..COUNT).rev().for_each(|i| assert!(session.remove(key(i))));
    assert!(index.is_empty());
}

#[test]
fn a_thread_of_the_caller_s_moves_the_buckets() {
    let index = MercuryHash::<U64>::new(with_thread()).expect("a valid configuration");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (called, is_present) = mpsc::channel();
        let maintained = scope.spawn(|| {
            let called = called;
            Mercury::maintain(&index, || {
                let _ = called.send(());
                stop.load(Ordering::SeqCst)
            });
        });
        is_present.recv().expect("it asks whether to stop");
        // There is one such thread, so this returns.
        Mercury::maintain(&index, || panic!("a second thread is not asked"));
        let mut session = index.session();
        for key in 0..100_000 {
            assert!(session.insert(key, key));
        }
        // No session does it, and there is no more to come: it is the thread that ends it.
        while (index.stats().slots as usize) < index.len() {
            std::thread::yield_now();
        }
        (0..100_000).for_each(|key| assert_eq!(session.get(key), Some(key)));
        stop.store(true, Ordering::SeqCst);
        Mercury::wake(&index);
        maintained.join().expect("it stops");
        // From here on it is the sessions' again.
        (100_000..600_000).for_each(|key| assert!(session.insert(key, key)));
        assert!(index.stats().slots >= 1 << 19, "{:?}", index.stats());
    });
}

/// A thread that is there but does nothing does not let chains grow.
#[test]
fn sessions_help_a_thread_that_is_behind() {
    let index = MercuryHash::<U64>::new(with_thread()).expect("a valid configuration");
    let (release, held) = mpsc::channel::<()>();
    let (called, is_present) = mpsc::channel();
    std::thread::scope(|scope| {
        let index = &index;
        scope.spawn(move || {
            Mercury::maintain(index, || {
                let _ = called.send(());
                held.recv().is_err()
            });
        });
        is_present.recv().expect("it asks whether to stop, and hears nothing");
        let mut session = index.session();
        (0..50_000).for_each(|key| assert!(session.insert(key, key)));
        assert!(index.stats().slots >= 8192, "{:?}", index.stats());
        drop(release);
        Mercury::wake(index);
    });
}

/// Before it sleeps it checks for work once more, because a session may have begun some; a thread that
/// missed it would sleep here for ever.
#[test]
fn a_doubling_wakes_the_thread() {
    let config = Config { growth: Some(Growth::Fixed), ..with_thread() };
    let index = MercuryHash::<U64>::new(config).expect("a valid configuration");
    let bytes = index.stats().table_bytes;
    assert!(index.session().grow());
    Mercury::maintain(&index, || index.stats().table_bytes == 2 * bytes);
    assert_eq!((expansions(&index.stats()), index.stats().slots), (1, 8));
}

#[test]
fn there_is_no_work_for_a_thread_unless_it_is_asked_for() {
    for &engine in EngineChoice::ALL {
        let index = engine.open(Config::default()).expect("a valid configuration");
        index.maintain(|| panic!("nobody asks"));
        index.wake_maintenance();
    }
    let index = MercuryHash::<U64>::new(config()).expect("a valid configuration");
    Mercury::maintain(&index, || panic!("it is left to the sessions"));
}

/// Chunks reserved by sessions return when their items are gone.
#[test]
fn memory_of_removed_items_goes_back() {
    const KEYS: u64 = 300_000;
    let index = MercuryHash::<U64>::new(config()).expect("a valid configuration");
    let mut sessions = [index.session(), index.session(), index.session()];
    for key in 0..KEYS {
        assert!(sessions[key as usize % 3].insert(key, key));
    }
    let full = index.stats();
    assert!(full.held_bytes < full.bytes + (8 << 20), "{full:?}");
    for key in 0..KEYS {
        assert!(sessions[(key as usize + 1) % 3].remove(key));
    }
    for _ in 0..200 {
        sessions.iter_mut().for_each(|session| session.collect());
    }
    let empty = index.stats();
    assert!(empty.bytes == 0 && empty.held_bytes <= 2 << 20, "one chunk stays: {empty:?}");
}
