//! Bugs that were found once, each with its story.

use crate::u64s::config;
use hotring_index::{
    Action, Bytes, Config, Expiry, Growth, HotRing, NewValue, RcuCounts, Ring, Session, Strategy,
    U64, Value,
};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

fn text(value: &[u8]) -> NewValue<'_> {
    NewValue::Bytes { kind: 0, bytes: value.into() }
}

fn word(word: u64) -> NewValue<'static> {
    NewValue::Word { kind: 1, word }
}

fn index<const H: usize>() -> HotRing<Bytes, H> {
    HotRing::new(Config { slots_max: 1 << 10, slots_initial: 1, ..Config::default() })
        .expect("a valid configuration")
}

/// Items retired by an ended session were re-tagged by their adopter, and ended sessions handed them on and
/// on: nothing was ever freed, nor counted.
#[test]
fn short_lived_sessions_leave_no_garbage_behind() {
    let index = index::<7>();
    let value = [7u8; 200];
    for _ in 0..2_000 {
        let mut session = index.session();
        for i in 0..50u32 {
            session.put(&(i % 8).to_le_bytes(), text(&value), Expiry::Never, 1);
        }
    }
    let stats = index.stats();
    assert!(stats.bytes < 200_000, "{stats:?}");
    assert!(stats.limbo_bytes < stats.bytes, "what is kept is counted: {stats:?}");
}

/// A session that removed a large value and then only read never tried to free it again.
#[test]
fn a_reader_frees_what_it_removed_before() {
    let index = index::<7>();
    let mut session = index.session();
    session.put(b"large", text(&vec![0; 10 << 20]), Expiry::Never, 1);
    session.remove(b"large", 1);
    for _ in 0..10_000 {
        session.get(b"other", 1, |_| ());
    }
    session.put(b"other", text(b"x"), Expiry::Never, 1);
    for _ in 0..10_000 {
        session.get(b"other", 1, |_| ());
    }
    assert_eq!(index.stats().limbo_bytes, 0);
}

/// A counter's value and expiry are two words, and a read between two changes in place saw a pair
/// that had never been there.
#[test]
fn a_counter_and_its_expiry_are_seen_as_one() {
    const BASE: u64 = 1 << 40;
    let index = index::<7>();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = index.session();
            session.put(b"k", word(0), Expiry::At(BASE), 1);
            for n in 1..200_000u64 {
                let keep = Action::Put { value: word(n), expiry: Expiry::Keep };
                session.update(b"k", 1, |_| (keep.clone(), ()));
                session.update(b"k", 1, |_| (Action::Expire(Expiry::At(BASE + n)), ()));
            }
            done.store(true, Ordering::SeqCst);
        });
        let mut session = index.session();
        while !done.load(Ordering::SeqCst) {
            let seen = session.get(b"k", 1, |entry| {
                let Value::Word { word, .. } = entry.value else { unreachable!("a counter") };
                (word, entry.expire_at)
            });
            let Some((word, Some(at))) = seen else { continue };
            let n = at - BASE;
            assert!(word == n || word == n + 1, "value {word} with the expiry of {n}");
        }
    });
}

/// A write counted for the predecessor put the predecessor under the tag of the written key, and a
/// complete line then denied that the predecessor was there.
#[test]
fn writes_count_for_predecessors_only_where_that_makes_sense() {
    let config = Config { rcu_counts: RcuCounts::Predecessor, ..config(Strategy::Vote) };
    assert!(HotRing::<U64>::new(config).is_err());
}

/// A clear that met a key just being replaced marked nothing, and the copy survived it.
#[test]
fn clear_removes_a_key_that_is_being_replaced() {
    let index = index::<7>();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = index.session();
            while !done.load(Ordering::SeqCst) {
                session.update(b"k", 1, |old| match old {
                    // Only ever longer: a first letter other than the last clear's is a survivor.
                    Some(entry) => {
                        let Value::Bytes { bytes, .. } = entry.value else { unreachable!() };
                        let mut longer = bytes.to_vec();
                        longer.truncate(9);
                        longer.push(b'+');
                        let value = NewValue::Bytes { kind: 0, bytes: longer.into() };
                        (Action::Put { value, expiry: Expiry::Never }, ())
                    }
                    None => (Action::Keep, ()),
                });
            }
        });
        let mut session = index.session();
        for round in 0..20_000u64 {
            session.put(b"k", text(&round.to_be_bytes()), Expiry::Never, 1);
            session.clear();
            assert!(session.get(b"k", 1, |_| ()).is_none(), "round {round}");
        }
        done.store(true, Ordering::SeqCst);
    });
}

/// Whether these bytes are at an address; not if nothing is mapped there.
fn is_at(address: usize, bytes: &[u8]) -> bool {
    let memory = std::fs::File::open("/proc/self/mem").expect("Linux");
    let mut there = vec![0; bytes.len()];
    memory.read_exact_at(&mut there, address as u64).is_ok() && there == bytes
}

/// If a session outlived the index's last handle, large blocks that it had retired leaked.
#[test]
#[cfg_attr(hotring_plain_arena, ignore = "the process's allocator keeps what is freed")]
fn large_items_are_freed_by_the_last_user() {
    // No other test has such bytes.
    let value: Vec<u8> =
        (0..400_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for session_last in [false, true] {
        let index = index::<7>();
        let mut session = index.session();
        let mut addresses = Vec::new();
        for key in [b"keyA", b"keyA", b"keyA", b"keyB"] {
            session.put(key, text(&value), Expiry::Never, 1);
            let address = session.get(key, 1, |entry| match entry.value {
                Value::Bytes { bytes, .. } => bytes.as_ptr().addr(),
                Value::Word { .. } => unreachable!("only bytes are put"),
            });
            addresses.push(address.expect("just put"));
        }
        assert!(is_at(addresses[3], &value), "it can be seen");
        if session_last {
            drop(index);
            drop(session);
        } else {
            drop(session);
            drop(index);
        }
        let left = addresses.iter().filter(|&&address| is_at(address, &value)).count();
        assert_eq!(left, 0, "session last: {session_last}");
    }
}

/// Retries of a read-modify-write kept the hint word that they had reserved, and a panic in the
/// caller's closure lost it for good; here: the closure panics at its first call.
#[test]
fn a_panic_in_a_closure_leaves_the_key_usable() {
    let index = index::<7>();
    let mut session = index.session();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.update(b"k", 1, |_| -> (Action<'_>, ()) { panic!("on purpose") });
    }));
    assert!(panicked.is_err());
    assert!(!session.put(b"k", text(b"v"), Expiry::Never, 1));
    assert!(session.get(b"k", 1, |_| ()).is_some());
    assert_eq!(index.stats().oldest_pin, 0);
}

/// With one hint a sweep began at the head and left dead items before it in the chain.
#[test]
fn sweeps_clean_whole_arcs() {
    let index: HotRing<Bytes, 1> = HotRing::new(Config {
        slots_max: 1,
        slots_initial: 1,
        period: Some(1),
        ..Config::default()
    })
    .expect("a valid configuration");
    let mut session: Session<Bytes, Ring<1>> = index.session();
    for i in 0..1_000u32 {
        let expiry = if i == 500 { Expiry::Never } else { Expiry::At(5) };
        session.put(&i.to_le_bytes(), text(b"v"), expiry, 1);
        session.get(&500u32.to_le_bytes(), 1, |_| ());
    }
    for _ in 0..200 {
        session.expire_step(100, 10);
    }
    let stats = index.stats();
    assert_eq!((stats.items, stats.limbo_bytes), (1, 0), "{stats:?}");
    assert!(stats.bytes < 100, "{stats:?}");
}

/// A key that was only ever added to never won a hint.
#[test]
fn additions_make_a_key_hot() {
    let index = HotRing::<U64>::new(Config { slots_max: 1, slots_initial: 1, ..Config::default() })
        .expect("a valid configuration");
    let mut session = index.session();
    for key in 0..500 {
        session.insert(key, 0);
    }
    for _ in 0..2_000 {
        session.fetch_add(321, 1);
    }
    let before = index.stats();
    for _ in 0..1_000 {
        session.get(321);
    }
    let after = index.stats();
    let visits = after.visits_sampled - before.visits_sampled;
    let lookups = after.lookups_sampled - before.lookups_sampled;
    assert_eq!(visits, lookups, "one item visited per lookup");
}

/// A scan that was asked for nothing returned the same cursor for ever.
#[test]
fn scans_always_get_on() {
    let index = HotRing::<U64>::new(config(Strategy::Vote)).expect("a valid configuration");
    let mut session = index.session();
    for key in 0..100 {
        session.insert(key, key);
    }
    let (mut cursor, mut seen, mut calls) = (0, 0, 0);
    loop {
        cursor = session.scan(cursor, 0, |_, _| seen += 1);
        calls += 1;
        if cursor == 0 || calls > 1_000 {
            break;
        }
    }
    assert_eq!(seen, 100);
}

/// A batch whose head turned out to be beyond the key read its slot again, and a doubling in between
/// had given it one that was not split off yet: a walk from address 0.
#[test]
fn batches_survive_a_doubling_table() {
    for seed in 0..4u64 {
        let index: HotRing<U64, 1> = HotRing::new(Config {
            seed: [seed, 1],
            strategy: Strategy::Random,
            period: Some(1),
            slots_initial: 1,
            slots_max: 1 << 16,
            ..Config::default()
        })
        .expect("a valid configuration");
        let inserted = AtomicI64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut session = index.session();
                for key in 0..100_000 {
                    session.insert(key, key);
                    inserted.store(key as i64, Ordering::Release);
                }
            });
            let mut session = index.session();
            let mut out = [None; 64];
            loop {
                let top = inserted.load(Ordering::Acquire) as u64;
                let keys: [u64; 64] = std::array::from_fn(|i| top * i as u64 / 64);
                session.get_many(&keys, &mut out);
                for (key, value) in keys.iter().zip(out) {
                    assert_eq!(value, (top > 0).then_some(*key).or(value), "key {key} of {top}");
                }
                if top == 99_999 {
                    break;
                }
            }
        });
    }
}

/// A table that had held millions of keys and now held one was walked from end to end by each step
/// of the expirer, and by each scan for a single key.
#[test]
fn steps_over_a_sparse_table_are_bounded() {
    // One that never shrinks, or is not there yet.
    let growth = Growth::Auto { visits_max: 1.5, items_min: 6.0, items_max: 8.0, items_low: 0.0 };
    let config = Config { slots_max: 1 << 16, growth: Some(growth), ..Config::default() };
    let index = HotRing::<Bytes>::new(config).expect("a valid configuration");
    let mut session = index.session();
    for i in 0..400_000u32 {
        session.put(&i.to_be_bytes(), text(b"v"), Expiry::Never, 1);
    }
    let slots = index.stats().engine.get("slots_split").expect("a ring");
    session.clear();
    session.put(b"one", text(b"v"), Expiry::At(5), 1);
    let (mut cursor, mut calls, mut seen) = (0, 0, 0);
    loop {
        cursor = session.scan(cursor, 10, 1, |_| seen += 1);
        calls += 1;
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, 1);
    assert!(calls > slots / 2000, "{calls} calls for {slots} slots: none walks far");
    let mut steps = 0;
    while !index.is_empty() {
        session.expire_step(64, 10);
        steps += 1;
        assert!(steps <= slots, "the expirer gets round");
    }
    assert!(session.sample(1, 10, |_| ()).is_none());
}

/// The few keys of a small table were once found in several steps of a scan, where Redis takes one.
#[test]
fn a_small_table_is_scanned_in_one_step() {
    let config = Config { slots_max: 1 << 10, ..Config::default() };
    let index = HotRing::<Bytes>::new(config).expect("a valid configuration");
    let mut session = index.session();
    for i in 0..20_000u32 {
        session.put(&i.to_be_bytes(), text(b"v"), Expiry::Never, 1);
    }
    assert_eq!(index.stats().engine.get("slots_split"), Some(1 << 10), "every slot has its anchor");
    session.clear();
    for key in [b"a", b"b", b"c"] {
        session.put(key, text(b"v"), Expiry::Never, 1);
    }
    let mut seen = 0;
    assert_eq!(session.scan(0, 10, 1, |_| seen += 1), 0, "this is the end");
    assert_eq!(seen, 3);
}

/// With back-off an exponent was stored into an empty head, which then looked reserved for ever.
#[test]
fn back_off_leaves_empty_heads_usable() {
    let config = Config {
        strategy: Strategy::Sampling,
        backoff: true,
        period: Some(1),
        slots_initial: 1,
        slots_max: 1,
        ..Config::default()
    };
    let index = HotRing::<U64, 1>::new(config).expect("a valid configuration");
    let mut session = index.session();
    for _ in 0..50 {
        for key in 0..8 {
            session.insert(key, key);
        }
        for i in 0..200u64 {
            session.get(i % 8);
        }
        for key in 0..8 {
            session.remove(key);
        }
    }
    for key in 0..50 {
        session.insert(key, key);
    }
    for _ in 0..10_000 {
        session.get(33);
    }
    let before = index.stats();
    for _ in 0..1_000 {
        session.get(33);
    }
    let after = index.stats();
    let visits = (after.visits_sampled - before.visits_sampled) as f64;
    let mean = visits / (after.lookups_sampled - before.lookups_sampled) as f64;
    assert!(mean < 1.5, "the head is at the hot item: {mean} visits");
}

/// A halving is advanced by sessions that free memory or read. Inserts do neither, so if all sessions only
/// inserted, a table in halving never grew again, and arcs got ever longer.
#[test]
fn inserts_alone_finish_or_undo_a_halving() {
    for complete_lines in [Some(false), Some(true)] {
        for collections in 0..10 {
            let config = Config { complete_lines, ..config(Strategy::Vote) };
            let index = HotRing::<U64>::new(config).expect("a valid configuration");
            let mut session = index.session();
            (0..8).for_each(|_| assert!(session.grow()));
            assert!(session.shrink());
            (0..collections).for_each(|_| session.collect());
            (0..20_000).for_each(|key| assert!(session.insert(key, key)));
            let slots = index.stats().slots;
            assert!(slots >= 20_000 / 8, "{slots} slots, {complete_lines:?}, {collections}");
        }
    }
}

/// A removal of an item hinted by an upper slot did not find its hint in a halved table: the item was kept
/// until the slot was swept, and was neither live nor counted as waiting.
#[test]
fn removals_from_a_halved_table_are_counted() {
    let index = HotRing::<U64>::new(config(Strategy::Vote)).expect("a valid configuration");
    let mut session = index.session();
    (0..8).for_each(|_| assert!(session.grow()));
    (0..200).for_each(|key| assert!(session.insert(key, key)));
    assert!(session.shrink());
    (0..200).for_each(|key| assert!(session.remove(key)));
    let stats = index.stats();
    assert_eq!((stats.items, stats.limbo_bytes), (0, stats.bytes), "{stats:?}");
}
