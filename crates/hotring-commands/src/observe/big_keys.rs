//! The keys with the largest values, found by a slow walk over all keys that goes round and round.
//!
//! The list has the findings of the last whole round, and of the present one so far. A round takes
//! its time: about three minutes for each million keys.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use hotring_store::Session;

/// Keys in a step; some 50 µs.
const STEP_KEYS: usize = 512;

/// Keys that are kept.
const KEPT: usize = 10;

/// Longer ones are not kept.
const KEY_LEN_MAX: usize = 4 << 10;

/// Bytes of a key that are shown to people.
const KEY_LEN_SHOWN: usize = 64;

/// A key and the bytes of its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BigKey {
    pub bytes: usize,
    pub key: Box<[u8]>,
}

/// The findings of the walk, for all readers.
#[derive(Debug, Default)]
pub struct BigKeys(Mutex<Walk>);

impl BigKeys {
    /// Looks at the next keys.
    pub fn step(&self, store: &mut Session, now: u64) {
        // Asked rarely, and each step leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).step(store, now);
    }

    /// The largest, the largest first.
    pub fn largest(&self) -> Vec<BigKey> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).largest()
    }
}

/// The walk and its findings.
#[derive(Debug, Default)]
struct Walk {
    /// The place of the database that it is in.
    place: u8,
    cursor: u64,
    /// The largest last.
    found: Vec<BigKey>,
    /// Of the last whole round.
    before: Vec<BigKey>,
}

impl Walk {
    /// Looks at the next keys.
    fn step(&mut self, store: &mut Session, now: u64) {
        let (found, from) = (&mut self.found, self.cursor);
        self.cursor = store.within(self.place, |store| {
            let next = store.scan(from, STEP_KEYS, now, |key, value| {
                let bytes = value.len();
                if key.len() <= KEY_LEN_MAX && (found.len() < KEPT || found[0].bytes < bytes) {
                    keep(found, key, bytes);
                }
            });
            // A damaged item is found by the next read.
            store.take_damage();
            next
        });
        if self.cursor > 0 {
            return;
        }
        self.place = store.place_after(self.place).unwrap_or(0);
        if self.place == 0 {
            self.before = std::mem::take(&mut self.found);
        }
    }

    /// The largest, the largest first.
    fn largest(&self) -> Vec<BigKey> {
        let mut all: Vec<BigKey> = self.found.iter().chain(&self.before).cloned().collect();
        all.sort_by(|a, b| b.cmp(a));
        // Both rounds may have met a key: it is shown once, as it was largest.
        let mut keys = HashSet::new();
        all.retain(|big| keys.insert(big.key.clone()));
        all.truncate(KEPT);
        all
    }
}

/// A key for people to read, or its beginning.
pub fn shown(key: &[u8]) -> String {
    let start = &key[..key.len().min(KEY_LEN_SHOWN)];
    let more = if start.len() < key.len() { "…" } else { "" };
    format!("{}{more}", start.escape_ascii())
}

fn keep(found: &mut Vec<BigKey>, key: &[u8], bytes: usize) {
    let big = BigKey { bytes, key: key.into() };
    let at = found.partition_point(|other| *other < big);
    found.insert(at, big);
    if found.len() > KEPT {
        found.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use hotring_store::{Options, SetOptions, Store};

    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn the_largest_are_found_in_one_round_and_forgotten_in_the_next() {
        let store = Store::new(Options::default()).unwrap();
        let mut session = store.session();
        for i in 0..5_000 {
            let (key, value) = (format!("key:{i}"), vec![b'v'; i % 100]);
            session.set(key.as_bytes(), &value, SetOptions::default(), NOW).unwrap();
        }
        let long = [b"\n".as_slice(), &[b'k'; 100]].concat();
        session.set(&long, &[b'v'; 3_000], SetOptions::default(), NOW).unwrap();
        session.set(b"big", &[b'v'; 2_000], SetOptions::default(), NOW).unwrap();
        let mut walk = Walk::default();
        let round = |walk: &mut Walk, session: &mut Session| {
            walk.step(session, NOW);
            while walk.cursor != 0 {
                walk.step(session, NOW);
            }
        };
        round(&mut walk, &mut session);
        let largest = walk.largest();
        assert_eq!(largest.len(), KEPT);
        assert_eq!(shown(&largest[0].key), format!("\\n{}…", "k".repeat(KEY_LEN_SHOWN - 1)));
        assert_eq!(largest[1], BigKey { bytes: 2_000, key: (*b"big").into() });
        assert!(largest[2..].iter().all(|big| big.bytes == 99), "{largest:?}");
        session.remove_many(&[b"big"], NOW);
        round(&mut walk, &mut session);
        assert_eq!(walk.largest().iter().map(|big| big.bytes).max(), Some(3_000));
        assert!(walk.largest().iter().all(|big| *big.key != *b"big"));
    }
}
