//! The list of keys with the largest values, found by a slow, continuous walk over all keys.
//!
//! The list has the findings of the last complete round and of the current one so far. A round takes about three
//! minutes for each million keys.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use hotring_store::Session;

/// The number of keys per step, which takes about 50 µs.
const STEP_KEYS: usize = 512;

/// The number of listed keys.
const KEPT: usize = 10;

/// The maximum length in bytes of a listed key.
const KEY_LEN_MAX: usize = 4 << 10;

/// The maximum number of displayed bytes of a key.
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
    /// Takes one step: visits the next keys.
    pub fn step(&self, store: &mut Session, now: u64) {
        // The lock is rarely contended, and a panic leaves the walk consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).step(store, now);
    }

    /// The keys with the largest values, largest first.
    pub fn largest(&self) -> Vec<BigKey> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).largest()
    }
}

/// The walk and its findings.
#[derive(Debug, Default)]
struct Walk {
    /// The ID of the database that the walk is in.
    database_id: u8,
    cursor: u64,
    /// The findings of the current round, largest last.
    found: Vec<BigKey>,
    /// The findings of the last complete round.
    before: Vec<BigKey>,
}

impl Walk {
    /// Takes one step: visits the next keys.
    fn step(&mut self, store: &mut Session, now: u64) {
        let (found, from) = (&mut self.found, self.cursor);
        self.cursor = store.within(self.database_id, |store| {
            let next = store.scan(from, STEP_KEYS, now, |key, value| {
                let bytes = value.len();
                if key.len() <= KEY_LEN_MAX && (found.len() < KEPT || found[0].bytes < bytes) {
                    keep(found, key, bytes);
                }
            });
            // Ignore damage: the next read of a damaged item reports it.
            store.take_damage();
            next
        });
        if self.cursor > 0 {
            return;
        }
        self.database_id = store.database_id_after(self.database_id).unwrap_or(0);
        if self.database_id == 0 {
            self.before = std::mem::take(&mut self.found);
        }
    }

    /// The keys with the largest values, largest first.
    fn largest(&self) -> Vec<BigKey> {
        let mut all: Vec<BigKey> = self.found.iter().chain(&self.before).cloned().collect();
        all.sort_by(|a, b| b.cmp(a));
        // Both rounds may have found the same key, which is shown once, with its largest value.
        let mut keys = HashSet::new();
        all.retain(|big| keys.insert(big.key.clone()));
        all.truncate(KEPT);
        all
    }
}

/// A key, or its beginning, as printable text.
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
