//! Counts of error replies by the first word of the error (INFO errorstats).
//!
//! Each thread has its own counts, so that their lock is contended only while another thread reads them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of kinds that a thread distinguishes. There must be a limit because scripts can make up any
/// number of kinds.
const KINDS_MAX: usize = 128;

/// The kind under which all further kinds are counted.
const OTHERS: &str = "ERRORSTATS_OVERFLOW";

/// A kind must be shorter than this many bytes. A longer first word is not a kind.
const KIND_LEN_MAX: usize = 32;

/// One thread's counts.
#[derive(Debug, Default)]
pub struct ErrorKinds(Mutex<BTreeMap<String, u64>>);

impl ErrorKinds {
    /// Counts an error by its text.
    pub(crate) fn note(&self, error: &str) {
        let kind = kind(error);
        let mut kinds = self.lock();
        let kind = match kinds.len() < KINDS_MAX || kinds.contains_key(&kind) {
            true => kind,
            false => OTHERS.to_string(),
        };
        *kinds.entry(kind).or_default() += 1;
    }

    /// Adds the counts to `sums`.
    pub(crate) fn add_to(&self, sums: &mut BTreeMap<String, u64>) {
        for (kind, count) in self.lock().iter() {
            *sums.entry(kind.clone()).or_default() += count;
        }
    }

    /// Resets the counts.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        // A panic during a change leaves the map consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first word of an error, with characters that a line of INFO cannot hold replaced.
fn kind(error: &str) -> String {
    let word = error.split_once(' ').map(|(word, _)| word);
    let word = word.filter(|word| !word.is_empty() && word.len() < KIND_LEN_MAX).unwrap_or("ERR");
    let shown = |c: char| if c.is_ascii_graphic() && !"#:=".contains(c) { c } else { '_' };
    word.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let kinds = ErrorKinds::default();
        let long = format!("{} x", "X".repeat(40));
        for error in
            ["ERR syntax error", "WRONGTYPE x", "ERR x", "alone", "", " x", &long, "A:=#\r x"]
        {
            kinds.note(error);
        }
        (0..200).for_each(|i| kinds.note(&format!("MADE{i:03} up")));
        (0..3).for_each(|_| kinds.note("MADE000 up"));
        let mut sums = BTreeMap::from([("ERR".to_string(), 10)]);
        kinds.add_to(&mut sums);
        assert_eq!(sums["ERR"], 10 + 6);
        assert_eq!((sums["WRONGTYPE"], sums["A____"], sums["MADE000"]), (1, 1, 4));
        assert_eq!(sums.len(), KINDS_MAX + 1);
        assert_eq!(sums[OTHERS], 200 - (KINDS_MAX as u64 - 3));
        kinds.clear();
        sums.clear();
        kinds.add_to(&mut sums);
        assert!(sums.is_empty());
    }
}
