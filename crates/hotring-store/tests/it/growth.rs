//! Many keys in a table that grows from one slot, against a plain map: sizes that the short sequences of
//! `model` do not reach.

use std::collections::HashMap;

use hotring_store::index::Config;
use hotring_store::{ExpireCondition, Options, SetExpiry, SetOptions, Store};

use crate::random::Random;

const KEYS: u64 = 20_000;
const STEPS: u64 = 300_000;

/// From a few bytes to some hundred, half of them integers.
fn value_of(n: u64) -> Vec<u8> {
    match n % 4 {
        0 | 1 => (n as i64).to_string().into_bytes(),
        2 => format!("{n:x}").into_bytes()[..4].to_vec(),
        _ => format!("{n:0width$}", width = (n % 300) as usize + 20).into_bytes(),
    }
}

#[test]
fn many_keys_in_a_growing_table() {
    let index = Config { slots_initial: 1, ..Config::default() };
    let store = Store::new(Options { index, ..Options::default() }).unwrap();
    let mut session = store.session();
    let mut model: HashMap<Vec<u8>, (Vec<u8>, Option<u64>)> = HashMap::new();
    let mut random = Random::new(1);
    let mut now = 1_000_000;
    for step in 0..STEPS {
        now += u64::from(step % 100 == 0);
        // The range of keys grows with time, so that the table does.
        let key = format!("key:{}", random.below(1 + KEYS * step / STEPS)).into_bytes();
        model.get(&key).and_then(|held| held.1).filter(|at| *at <= now).map(|_| model.remove(&key));
        let at = now + random.below(500);
        let value = value_of(random.next());
        match random.below(8) {
            0..=3 => {
                let expires = random.one_in(4);
                let expiry = if expires { SetExpiry::At(at) } else { SetExpiry::Clear };
                let options = SetOptions { expiry, ..SetOptions::default() };
                session.set(&key, &value, options, now).unwrap();
                model.insert(key, (value, expires.then_some(at)));
            }
            4 => assert_eq!(session.remove(&key, now), model.remove(&key).is_some(), "{step}"),
            5 => {
                let set = session.expire_at(&key, at, ExpireCondition::Always, now).unwrap();
                let held = model.get_mut(&key).map(|held| held.1 = Some(at));
                assert_eq!(set, held.is_some(), "{step}");
            }
            6 => {
                session.expire_due(now, 50, |_, _| {});
            }
            _ => {
                let got = session.get(&key, now, |value| value.to_vec());
                assert_eq!(got.as_ref(), model.get(&key).map(|held| &held.0), "{step}");
            }
        }
    }
    model.retain(|_, held| held.1.is_none_or(|at| at > now));
    assert!(model.len() > 2_000, "{}", model.len());
    let (mut seen, mut cursor) = (0, 0);
    loop {
        cursor = session.scan(cursor, 100, now, |key, value| {
            assert_eq!(model.get(key).map(|held| &held.0), Some(&value.to_vec()));
            seen += 1;
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, model.len(), "each key once");
    // Everything goes: by its time, then by hand.
    while session.expire_due(now + 1_000, 1_000, |_, _| {}).next.is_some() {}
    model.retain(|_, held| held.1.is_none());
    assert_eq!(store.len(), model.len());
    assert!(model.keys().all(|key| session.remove(key, now)));
    assert_eq!((store.len(), store.stats().index.expiring), (0, 0));
}
