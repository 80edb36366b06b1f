//! Hash flooding: keys that an attacker chose to collide under one seed are ordinary keys under
//! another. For byte strings; the u64 kind's hash is a fixed bijection behind a XOR, made for speed
//! and not for keys that come from people one does not trust.
//!
//! Shown for one pair of seeds. That an attacker cannot choose keys without the seed is SipHash's
//! promise, not ours.

use hotring_index::{Bytes, Config, Expiry, Growth, HotRing, NewValue};
use siphasher::sip::SipHasher13;

const BUCKETS: u64 = 1 << 16;
const KNOWN: [u64; 2] = [3, 4];
const OTHER: [u64; 2] = [0x0123_4567_89ab_cdef, 42];
/// Each takes 2^16 hashes to find.
const KEYS: usize = if cfg!(debug_assertions) { 150 } else { 500 };

fn bucket([a, b]: [u64; 2], key: &[u8]) -> u64 {
    SipHasher13::new_with_keys(a, b).hash(key) % BUCKETS
}

fn colliding(seed: [u64; 2]) -> Vec<[u8; 8]> {
    let all = (0u64..).map(u64::to_le_bytes);
    all.filter(|key| bucket(seed, key) == 0x1234).take(KEYS).collect()
}

fn load_of_the_fullest(seed: [u64; 2], keys: &[[u8; 8]]) -> usize {
    let mut buckets: Vec<u64> = keys.iter().map(|key| bucket(seed, key)).collect();
    buckets.sort_unstable();
    buckets.chunk_by(|a, b| a == b).map(<[u64]>::len).max().expect("not empty")
}

/// Items that a lookup visits, on average over all of the keys.
fn visits<const H: usize>(seed: [u64; 2], keys: &[[u8; 8]]) -> f64 {
    let slots = BUCKETS as usize;
    let config = Config {
        seed,
        period: Some(1),
        growth: Some(Growth::Fixed),
        slots_initial: slots,
        slots_max: slots,
        huge_pages: false,
        ..Config::default()
    };
    let index = HotRing::<Bytes, H>::new(config).expect("a valid configuration");
    let mut session = index.session();
    for key in keys {
        session.put(key, NewValue::Word { kind: 1, word: 1 }, Expiry::Never, 1);
    }
    let before = index.stats();
    for key in keys.iter().cycle().take(3 * keys.len()) {
        assert!(session.get(key, 1, |_| ()).is_some());
    }
    let after = index.stats();
    let lookups = after.lookups_sampled - before.lookups_sampled;
    assert!(lookups >= 2 * keys.len() as u64, "{lookups} lookups were counted");
    (after.visits_sampled - before.visits_sampled) as f64 / lookups as f64
}

fn compare<const H: usize>(chosen: &[[u8; 8]], random: &[[u8; 8]]) {
    let (known, other) = (visits::<H>(KNOWN, chosen), visits::<H>(OTHER, chosen));
    let usual = visits::<H>(OTHER, random);
    println!(
        "{H} hints: {known} visits under the known seed, {other} under another, {usual} usual"
    );
    assert!(known > KEYS as f64 / 10.0, "{H} hints: {known} visits where all keys collide");
    assert!(other < 1.2 && usual < 1.2, "{H} hints: {other} visits, {usual} for random keys");
}

#[test]
fn keys_that_collide_under_a_known_seed_do_not_under_another() {
    let chosen = colliding(KNOWN);
    let random: Vec<[u8; 8]> =
        (0..KEYS as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    assert_eq!(load_of_the_fullest(KNOWN, &chosen), KEYS, "they do collide");
    // Three of 500 keys in one of 65,536 buckets happen, five do not.
    assert!(load_of_the_fullest(OTHER, &chosen) < 5);
    assert!(load_of_the_fullest(OTHER, &random) < 5);
    compare::<1>(&chosen, &random);
    compare::<3>(&chosen, &random);
    compare::<7>(&chosen, &random);
}
