//! Keys and values made to be awkward: every operation on them gives a map's answers, in every
//! configuration. Threads on colliding keys are in `linearizability`.
//!
//! Not covered: two keys with equal hashes of which one is the beginning of the other; to find a
//! pair takes 2^48 hashes. `PREFIXED` has such keys with equal tags and buckets.

use crate::colliding::{PREFIXED, TAG, bytes_hash, pairs, u64_hash, u64_key};
use crate::shapes::{Family, Growing, Setup, every_engine, number, setups, with_engine};
use crate::{model_bytes, model_u64s};
use fastrand::Rng;
use hotring_index::{
    Action, Bytes, Engine, Entry, Expiry, HotRing, Index, NewValue, Session, Value,
};

/// All strategies, with a table that stays small, doubles, and goes up and down.
fn awkward(mut all: Vec<Setup>) -> Vec<Setup> {
    all.retain(|setup| {
        let depth = setup.config.pipeline_depth;
        depth == 16 && setup.is_eager() && setup.growing != Growing::Huge
    });
    assert!(all.len().is_multiple_of(3) && !all.is_empty(), "three ways of growing");
    all
}

fn u64s(family: Family, name: &str, hash: impl Fn(u64) -> u64, count: u64) {
    let keys: Vec<u64> = (0..count).map(|i| u64_key(hash(i))).collect();
    let seed = number("HOTRING_SEED", 501);
    println!("{name}, seed {seed}");
    for seed in seed..seed + number("HOTRING_SEQUENCES", 1) {
        model_u64s::compare(seed, 1_200, &keys, &awkward(setups(family)));
    }
}

fn bytes(family: Family, name: &str, keys: &[Vec<u8>], steps: usize) {
    let seed = number("HOTRING_SEED", 601);
    println!("{name}, seed {seed}");
    for seed in seed..seed + number("HOTRING_SEQUENCES", 1) {
        model_bytes::compare(seed, steps, keys, &awkward(setups(family)));
    }
}

/// Numbers that look random.
fn mixed(i: u64) -> u64 {
    Rng::with_seed(i + 1).u64(..)
}

every_engine!(u64_keys_with_equal_tags, |family| {
    u64s(family, "equal tags", |i| mixed(i) & !TAG | 0xbeef << 32, 60);
    u64s(family, "tag 0, as an empty word has it", |i| mixed(i) & !TAG, 60);
    u64s(family, "tag and bucket equal", |i| i << 48 | 0xbeef_0000_1234, 60);
});

every_engine!(u64_keys_in_one_bucket, |family| {
    u64s(family, "one bucket of every table", |i| mixed(i) << 32 | 0x1234_5678, 60);
    u64s(family, "all bits equal but the highest", |i| i << 63 | 0x7777_7777_7777_7777, 2);
    u64s(family, "all bits equal but the highest four", |i| i << 60 | 0x0777_7777_7777_7777, 16);
    u64s(
        family,
        "the ends of the ring",
        |i| if i.is_multiple_of(2) { i / 2 } else { !(i / 2) },
        32,
    );
});

every_engine!(byte_keys_with_equal_hashes, |family| {
    let keys: Vec<Vec<u8>> = pairs().into_iter().flatten().collect();
    bytes(family, "pairs with equal hashes", &keys, 1_500);
});

every_engine!(byte_keys_with_equal_tags, |family| {
    let mut keys: Vec<Vec<u8>> = PREFIXED.iter().map(|key| key.as_bytes().to_vec()).collect();
    let all = (0..).map(|i: u32| format!("tag {i}").into_bytes());
    keys.extend(all.filter(|key| bytes_hash(key) & TAG == 0).take(12));
    bytes(family, "equal tags and buckets, and tag 0", &keys, 1_500);
});

every_engine!(byte_keys_of_awkward_lengths, |family| {
    let mut keys: Vec<Vec<u8>> =
        [0, 1, 2, 7, 8, 253, 254, 255, 256, 257].map(|len| vec![0; len]).to_vec();
    keys.extend([1, 254, 255, 256].map(|len| vec![0xff; len]));
    bytes(family, "lengths about that of the escape", &keys, 1_500);
    let long = |end| {
        let mut key = vec![b'x'; 64 << 10];
        *key.last_mut().expect("not empty") = end;
        key
    };
    bytes(family, "64 KiB, of which the last byte differs", &[1, 2, 3, 4, 5, 6].map(long), 40);
});

fn show(entry: Entry<'_>) -> (u8, Vec<u8>, u64) {
    match entry.value {
        Value::Word { kind, word } => (kind, Vec::new(), word),
        Value::Bytes { kind, bytes } => (kind, bytes.to_vec(), 0),
    }
}

fn values_are_kept<E: Engine>(session: &mut Session<Bytes, E>, key: &[u8]) {
    let large = |fill| NewValue::Bytes { kind: 15, bytes: vec![fill; 1 << 20].into() };
    let empty = NewValue::Bytes { kind: 0, bytes: (&[][..]).into() };
    let word = |word| NewValue::Word { kind: 9, word };
    let values = [
        empty.clone(),
        large(1),
        word(1 << 63),
        word(u64::MAX),
        large(2),
        word(0),
        word(1 << 63 | 1),
        empty,
        word(1),
        word(1 << 62),
    ];
    for (i, value) in values.iter().enumerate() {
        let expected = match value.as_value() {
            Value::Word { kind, word } => (kind, Vec::new(), word),
            Value::Bytes { kind, bytes } => (kind, bytes.to_vec(), 0),
        };
        if i % 2 == 0 {
            session.put(key, value.clone(), Expiry::Never, 1);
        } else {
            let put = Action::Put { value: value.clone(), expiry: Expiry::At(50) };
            session.update(key, 1, |old| (put.clone(), assert!(old.is_some())));
        }
        assert!(session.get(key, 1, show) == Some(expected.clone()), "value {i}");
        assert!(session.version(key, 1).is_some());
        session.grow();
        let mut seen = None;
        session.get_many(&[key], 1, |_, entry| seen = entry.map(show));
        assert!(seen == Some(expected), "value {i} with a version, by a batch");
        session.shrink();
        session.collect();
    }
    assert!(session.remove(key, 1));
    assert!(session.get(key, 1, |_| ()).is_none());
}

fn all_values<E: Engine>(setup: &Setup) {
    let index = Index::<Bytes, E>::new(setup.config.clone()).expect("a valid configuration");
    let mut session = index.session();
    for [a, b] in [pairs()[0].clone(), [Vec::new(), vec![0; 255]]] {
        // The other one stays there.
        session.put(&b, NewValue::Word { kind: 1, word: 1 << 63 }, Expiry::Never, 1);
        values_are_kept(&mut session, &a);
        assert_eq!(session.get(&b, 1, show), Some((1, Vec::new(), 1 << 63)));
        values_are_kept(&mut session, &b);
    }
}

every_engine!(awkward_values_are_kept, |family| {
    for setup in awkward(setups(family)) {
        with_engine!(setup.shape, all_values(&setup));
    }
});

#[test]
fn hashes_are_as_these_tests_assume() {
    // A scan's cursor is the bit-reversed hash of the item where it goes on.
    let index = HotRing::<Bytes>::new(crate::u64s::config(hotring_index::Strategy::Vote))
        .expect("a valid configuration");
    let mut session = index.session();
    let mut names: Vec<Vec<u8>> = (0..50).map(|i| format!("key:{i}").into_bytes()).collect();
    for name in &names {
        session.put(name, NewValue::Word { kind: 1, word: 1 }, Expiry::Never, 1);
    }
    names.sort_by_key(|name| bytes_hash(name).reverse_bits());
    let mut met = Vec::new();
    assert_eq!(session.scan(0, usize::MAX, 1, |entry| met.push(entry.key.to_vec())), 0);
    assert_eq!(met, names);
    let index = HotRing::<hotring_index::U64>::new(crate::u64s::config(Default::default()))
        .expect("a valid configuration");
    let mut session = index.session();
    let mut keys: Vec<u64> = (0..50).collect();
    for key in &keys {
        session.put(*key, 1);
    }
    keys.sort_by_key(|key| u64_hash(*key).reverse_bits());
    let mut met = Vec::new();
    assert_eq!(session.scan(0, usize::MAX, |key, _| met.push(key)), 0);
    assert_eq!(met, keys);
}
