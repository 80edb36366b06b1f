//! The table halves after removals, its memory goes back, unnoticed by readers and writers.

use crate::u64s::config;
use fastrand::Rng;
use hotring_index::{Bytes, Config, Expiry, HotRing, NewValue, Ring, Strategy, U64};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes a halving to its end.
fn settle<const H: usize>(session: &mut hotring_index::Session<U64, Ring<H>>) {
    for _ in 0..100_000 {
        session.collect();
    }
}

#[test]
fn the_table_shrinks_after_mass_removal_to_where_it_began() {
    let index = HotRing::<U64>::new(config(Strategy::Vote)).expect("a valid configuration");
    let mut session = index.session();
    for key in 0..100_000 {
        session.insert(key, key);
    }
    let grown = index.stats().slots;
    assert!(grown >= 1 << 13, "{grown} slots for 100,000 items");
    for key in 0..100_000 {
        assert!(session.remove(key));
    }
    settle(&mut session);
    let stats = index.stats();
    assert!(stats.slots <= 64, "{} slots are left for nothing", stats.slots);
    let slots_split = stats.engine.get("slots_split").expect("a ring");
    assert!(slots_split <= stats.slots, "{stats:?}");
    for key in 0..100_000 {
        assert_eq!(session.get(key), None);
        session.insert(key, key + 1);
    }
    assert!(index.stats().slots >= 1 << 13, "it grows again");
    for key in 0..100_000 {
        assert_eq!(session.get(key), Some(key + 1));
    }
}

#[test]
fn shrinking_by_hand_keeps_every_key_in_every_phase() {
    for complete_lines in [Some(false), Some(true)] {
        let config = Config { period: Some(1), complete_lines, ..config(Strategy::Vote) };
        let index = HotRing::<U64>::new(config).expect("a valid configuration");
        let mut session = index.session();
        for _ in 0..10 {
            assert!(session.grow());
        }
        for key in 0..3000 {
            session.insert(key, key);
        }
        let mut halvings = 0;
        for step in 0..4000u64 {
            halvings += u64::from(session.shrink());
            session.collect();
            let key = step * 7 % 3000;
            assert_eq!(session.get(key), Some(key), "step {step}");
            assert_eq!(session.get(key + 3000), None, "step {step}");
            assert!(session.remove(key) && session.insert(key, key), "step {step}");
            if step % 17 == 0 {
                session.grow();
            }
        }
        assert!(halvings > 20, "{halvings} halvings");
    }
}

/// Readers, writers and a session that keeps changing the size, on the real thing.
#[test]
fn growth_and_shrinking_stay_unnoticed() {
    let index = HotRing::<Bytes>::new(config(Strategy::Vote)).expect("a valid configuration");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (index, stop) = (&index, &stop);
            scope.spawn(move || {
                let mut session = index.session();
                let mut random = Rng::with_seed(thread + 7);
                let mut present = vec![false; 500];
                for _ in 0..60_000 {
                    let n = random.u64(..500);
                    let key = format!("{thread}:{n}");
                    let here = &mut present[n as usize];
                    match random.u64(..3) {
                        0 => {
                            let bytes = Cow::Borrowed(key.as_bytes());
                            let value = NewValue::Bytes { kind: 0, bytes };
                            let was = session.put(key.as_bytes(), value, Expiry::Never, 1);
                            assert_eq!(was, *here, "{key}");
                            *here = true;
                        }
                        1 => {
                            assert_eq!(session.remove(key.as_bytes(), 1), *here, "{key}");
                            *here = false;
                        }
                        _ => {
                            let found = session.get(key.as_bytes(), 1, |_| ()).is_some();
                            assert_eq!(found, *here, "{key}");
                        }
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        let mut session = index.session();
        let (mut rounds, mut halvings) = (0, 0);
        // At least one, should the others be done before this thread gets a processor.
        while !stop.load(Ordering::Relaxed) || (halvings == 0 && rounds < 1_000) {
            session.grow();
            session.grow();
            for _ in 0..20 {
                halvings += u64::from(session.shrink());
                session.collect();
                std::thread::yield_now();
            }
            rounds += 1;
        }
        assert!(halvings > 0, "{rounds} rounds");
    });
}

/// So large that its upper half is zeroed in several steps, where each slot that is left over would
/// lead to an item that is not there any more.
#[test]
fn a_large_table_is_given_back_step_by_step() {
    let config = Config { slots_max: 1 << 18, ..config(Strategy::Vote) };
    let index = HotRing::<U64>::new(config).expect("a valid configuration");
    let mut session = index.session();
    while index.stats().slots < 1 << 18 {
        assert!(session.grow());
    }
    for key in 0..50_000 {
        session.insert(key, key);
    }
    for key in 0..50_000 {
        assert!(session.remove(key));
    }
    settle(&mut session);
    assert!(index.stats().slots <= 64, "{} slots are left for nothing", index.stats().slots);
    while index.stats().slots < 1 << 18 {
        assert!(session.grow());
    }
    for key in 0..50_000 {
        assert!(session.insert(key, key + 1));
    }
    for key in 0..50_000 {
        assert_eq!(session.get(key), Some(key + 1));
    }
}
