//! The key prefixes of broadcast mode, with the connections that read them.
//!
//! Finding all prefixes of a key takes one pass over the key and a lookup for each length of prefixes: the hash of a
//! prefix is extended byte by byte.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};

/// All prefixes.
#[derive(Default)]
pub(super) struct Prefixes {
    /// The prefixes by length, and by the hash of their bytes, hashed one by one.
    by_len: BTreeMap<usize, HashMap<u64, Vec<Prefix>>>,
    hasher: RandomState,
    len: usize,
}

/// A prefix with its readers.
struct Prefix {
    bytes: Box<[u8]>,
    readers: BTreeSet<u64>,
}

impl Prefixes {
    /// Number of prefixes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds `reader` to a prefix.
    pub(super) fn enter(&mut self, bytes: &[u8], reader: u64) {
        let hash = self.hash(bytes);
        let same_hash = self.by_len.entry(bytes.len()).or_default().entry(hash).or_default();
        if let Some(prefix) = same_hash.iter_mut().find(|prefix| *prefix.bytes == *bytes) {
            prefix.readers.insert(reader);
            return;
        }
        same_hash.push(Prefix { bytes: bytes.into(), readers: BTreeSet::from([reader]) });
        self.len += 1;
    }

    /// Removes `reader` from a prefix.
    pub(super) fn leave(&mut self, bytes: &[u8], reader: u64) {
        let hash = self.hash(bytes);
        let Some(of_len) = self.by_len.get_mut(&bytes.len()) else { return };
        let Some(same_hash) = of_len.get_mut(&hash) else { return };
        let before = same_hash.len();
        same_hash.retain_mut(|prefix| {
            *prefix.bytes != *bytes || {
                prefix.readers.remove(&reader);
                !prefix.readers.is_empty()
            }
        });
        self.len -= before - same_hash.len();
        if same_hash.is_empty() {
            of_len.remove(&hash);
            if of_len.is_empty() {
                self.by_len.remove(&bytes.len());
            }
        }
    }

    /// The readers of all prefixes of the key. A reader of several prefixes appears several times.
    pub(super) fn readers_of(&self, key: &[u8]) -> impl Iterator<Item = u64> {
        let (mut hasher, mut hashed) = (self.hasher.build_hasher(), 0);
        let of_key = self.by_len.range(..=key.len()).filter_map(move |(&len, of_len)| {
            // Byte by byte, as for each prefix: `Hasher` does not promise the same hash for several bytes at once.
            key[hashed..len].iter().for_each(|byte| hasher.write_u8(*byte));
            hashed = len;
            let same_hash = of_len.get(&hasher.finish())?;
            same_hash.iter().find(|prefix| *prefix.bytes == key[..len])
        });
        of_key.flat_map(|prefix| prefix.readers.iter().copied())
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        bytes.iter().for_each(|byte| hasher.write_u8(*byte));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    #[test]
    fn all_prefixes_of_a_key_are_found() {
        let mut random = Rng::with_seed(1);
        let (mut prefixes, mut model) = (Prefixes::default(), BTreeSet::new());
        for _ in 0..3_000 {
            let mut text = |len_max: u64| -> Vec<u8> {
                (0..random.u64(..len_max + 1)).map(|_| b"ab"[(random.u64(..2)) as usize]).collect()
            };
            let (prefix, key) = (text(6), text(9));
            let (reader, leaves) = (random.u64(..5), random.bool());
            if leaves {
                prefixes.leave(&prefix, reader);
                model.remove(&(prefix, reader));
            } else {
                prefixes.enter(&prefix, reader);
                model.insert((prefix, reader));
            }
            let mut found: Vec<u64> = prefixes.readers_of(&key).collect();
            found.sort_unstable();
            let is_found = |(prefix, _): &&(Vec<u8>, u64)| key.starts_with(prefix);
            let mut expected: Vec<u64> =
                model.iter().filter(is_found).map(|(_, reader)| *reader).collect();
            expected.sort_unstable();
            assert_eq!(found, expected, "of {}", key.escape_ascii());
            let different: BTreeSet<_> = model.iter().map(|(prefix, _)| prefix).collect();
            assert_eq!(prefixes.len(), different.len());
        }
        for (prefix, reader) in model {
            prefixes.leave(&prefix, reader);
        }
        assert!(prefixes.len() == 0 && prefixes.by_len.is_empty());
    }
}
