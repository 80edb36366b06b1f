//! Debug builds can be made to lose compare-exchanges that no session contends for. Here every third one
//! is lost, in single threads whose answers are known and in several that change the same keys, so
//! that each way out of bad luck is taken many times, and shown to have been.
//!
//! A binary of its own, because forcing affects the whole process.
#![cfg(debug_assertions)]

use fastrand::Rng;
use hotring_engines::Chaining;
use hotring_engines::hooks as engines;
#[cfg(target_arch = "x86_64")]
use hotring_index::ItemLines;
use hotring_index::hooks::{Step, force, taken};
use hotring_index::{
    Action, Bytes, Config, Engine, Expiry, Growth, Index, NewValue, RcuCounts, Ring, Session,
    Strategy, U64,
};
use std::borrow::Cow;
use std::collections::HashMap;

/// The steps that depend on a lost compare-exchange.
const FORCED: [Step; 9] = [
    Step::LinkLost,
    Step::ReplaceLost,
    Step::KillLost,
    Step::CutLost,
    Step::UnlinkLeft,
    Step::ClaimRefused,
    Step::MoveLost,
    Step::SplitLost,
    Step::DoomLost,
];

/// Those of chains: their own, and those that they have in common with the ring.
const FORCED_IN_CHAINS: [engines::Step; 7] = [
    engines::Step::LinkLost,
    engines::Step::ReplaceLost,
    engines::Step::KillLost,
    engines::Step::CutLost,
    engines::Step::UnlinkLeft,
    engines::Step::FreezeLost,
    engines::Step::SealLost,
];

/// Those of lines, which the ring has as well.
#[cfg(target_arch = "x86_64")]
const LINES_LOSE: [Step; 3] = [Step::LinkLost, Step::ReplaceLost, Step::KillLost];

fn configs() -> Vec<Config> {
    let base =
        Config { period: Some(1), slots_initial: 1, slots_max: 1 << 10, ..Config::default() };
    let vote = |complete_lines| Config { complete_lines: Some(complete_lines), ..base.clone() };
    vec![vote(false), vote(true)]
}

fn one_head() -> Vec<Config> {
    let base =
        Config { period: Some(1), slots_initial: 1, slots_max: 1 << 10, ..Config::default() };
    let rcu_counts = RcuCounts::Predecessor;
    vec![
        Config { strategy: Strategy::Random, ..base.clone() },
        Config { strategy: Strategy::Sampling, ..base.clone() },
        Config { strategy: Strategy::Sampling, rcu_counts, ..base },
    ]
}

fn u64s<E: Engine>(config: Config) {
    let index = Index::<U64, E>::new(config).expect("a valid configuration");
    let (mut session, mut model, mut random) = (index.session(), HashMap::new(), Rng::with_seed(9));
    for _ in 0..20_000 {
        let key = random.u64(..300);
        let value = random.u64(..9) | random.u64(..2) << 63;
        match random.u64(..8) {
            0 | 1 => assert_eq!(session.put(key, value), model.insert(key, value).is_some()),
            2 => assert_eq!(session.remove(key), model.remove(&key).is_some()),
            3 => assert_eq!(session.take(key), model.remove(&key)),
            4 => {
                let sum = model.get_mut(&key).map(|old| {
                    *old = old.wrapping_add(value);
                    *old
                });
                assert_eq!(session.fetch_add(key, value), sum);
            }
            5 if random.u64(..40) == 0 => {
                session.grow();
            }
            5 if random.u64(..40) == 0 => {
                session.shrink();
            }
            5 => session.collect(),
            _ => assert_eq!(session.get(key), model.get(&key).copied()),
        }
    }
    assert_eq!(index.len(), model.len());
}

fn text(value: &str) -> NewValue<'_> {
    NewValue::Bytes { kind: 0, bytes: Cow::Borrowed(value.as_bytes()) }
}

/// Each thread has keys of its own among those of the others, and knows their values.
fn bytes_on_threads<E: Engine>(config: Config) {
    let index = Index::<Bytes, E>::new(config).expect("a valid configuration");
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let mut session = index.session();
            scope.spawn(move || own_keys(&mut session, thread));
        }
    });
}

fn own_keys<E: Engine>(session: &mut Session<Bytes, E>, thread: u64) {
    let mut model: HashMap<u64, (String, u64)> = HashMap::new();
    let mut random = Rng::with_seed(thread + 3);
    for now in 1..6_000u64 {
        let n = random.u64(..60);
        let key = format!("{thread}:{n}");
        let live = model.get(&n).filter(|(_, at)| *at > now).cloned();
        match random.u64(..6) {
            0 | 1 => {
                let (value, at) = (format!("{now}"), now + 1 + random.u64(..90));
                let was = session.put(key.as_bytes(), text(&value), Expiry::At(at), now);
                assert_eq!(was, live.is_some(), "{key} at {now}");
                model.insert(n, (value, at));
            }
            2 => {
                assert_eq!(session.remove(key.as_bytes(), now), live.is_some(), "{key} at {now}");
                model.remove(&n);
            }
            3 => {
                let at = now + 50;
                let renewed = session.update(key.as_bytes(), now, |old| match old {
                    Some(_) => (Action::Expire(Expiry::At(at)), true),
                    None => (Action::Keep, false),
                });
                assert_eq!(renewed, live.is_some(), "{key} at {now}");
                if let Some((value, _)) = live {
                    model.insert(n, (value, at));
                }
            }
            // Other threads' clocks differ: only keys expired for all may be removed.
            4 => drop(session.expire_step(16, now.saturating_sub(6_000))),
            _ => {
                let found = session.get(key.as_bytes(), now, |entry| match entry.value {
                    hotring_index::Value::Bytes { bytes, .. } => bytes.to_vec(),
                    hotring_index::Value::Word { .. } => unreachable!("only bytes are put"),
                });
                assert_eq!(found, live.map(|(value, _)| value.into_bytes()), "{key} at {now}");
            }
        }
    }
}

/// An item that a removal could not cut out at once must not stay in the chain: in buckets of one item no
/// other walk comes by.
fn nothing_is_left<E: Engine>() {
    let growth = Some(Growth::Fixed);
    let config = Config { growth, slots_initial: 1 << 12, slots_max: 1 << 12, ..Config::default() };
    let index = Index::<U64, E>::new(config).expect("a valid configuration");
    let mut session = index.session();
    (0..300).for_each(|key| assert!(session.insert(key, key)));
    (0..300).for_each(|key| assert!(session.remove(key)));
    (0..10).for_each(|_| session.collect());
    assert_eq!(index.stats().bytes, 0, "removed items are kept");
}

#[test]
fn every_way_out_of_bad_luck_is_taken_and_right() {
    force(3);
    for config in configs() {
        u64s::<Ring<7>>(config.clone());
        bytes_on_threads::<Ring<7>>(config.clone());
        bytes_on_threads::<Ring<3>>(config);
    }
    for config in one_head() {
        u64s::<Ring<1>>(config.clone());
        bytes_on_threads::<Ring<1>>(config);
    }
    nothing_is_left::<Ring<7>>();
    let chains = Config { slots_initial: 1, slots_max: 1 << 10, ..Config::default() };
    u64s::<Chaining>(chains.clone());
    bytes_on_threads::<Chaining>(chains.clone());
    #[cfg(target_arch = "x86_64")]
    {
        let before = LINES_LOSE.map(taken);
        u64s::<ItemLines>(chains.clone());
        bytes_on_threads::<ItemLines>(chains);
        nothing_is_left::<ItemLines>();
        for (step, before) in LINES_LOSE.into_iter().zip(before) {
            assert!(taken(step) > before, "{step:?} was never taken in lines");
        }
    }
    force(0);
    for step in FORCED {
        println!("{step:?}: {}", taken(step));
        assert!(taken(step) > 0, "{step:?} was never taken");
    }
    for step in FORCED_IN_CHAINS {
        println!("chains, {step:?}: {}", engines::taken(step));
        assert!(engines::taken(step) > 0, "{step:?} was never taken in chains");
    }
}
