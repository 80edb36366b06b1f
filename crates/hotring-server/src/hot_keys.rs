//! Which keys are asked for most, as far as a sample of the requests tells.
//!
//! Of each run of requests that the executor samples one request is noted, with its keys or without any, and stands
//! for all of it: the other runs pay nothing. A thread keeps the keys of [`KEPT`] counts by the algorithm
//! *Space-Saving* (Metwally, Agrawal, El Abbadi, 2005): a key that has none takes over the lowest count, and it is
//! remembered how much of that is another's. Counts fade, so that they are about the last half minute.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::server::ThreadShared;

/// Keys that a thread has counts of. One that gets one request in 128, or more, has one in any case.
const KEPT: usize = 128;

/// Longer ones are not noted.
const KEY_LEN_MAX: usize = 1 << 10;

/// Of a request with more keys no more are noted, and these stand for the others.
const KEYS_MAX: usize = 16;

/// After so many milliseconds a count is worth half.
const HALF_LIFE_MS: u64 = 10_000;

/// A key that was met once may be any.
const NOTES_MIN: u32 = 2;

/// The counts of one thread, which writes them. Others read them now and then.
#[derive(Debug, Default)]
pub(crate) struct HotKeys(Mutex<Sketch>);

#[derive(Debug, Default)]
struct Sketch {
    counts: Vec<Count>,
    /// What all requests add up to, also those for keys without a count and for none.
    total: f64,
    /// When counts faded last, in Unix milliseconds.
    faded_at: u64,
}

#[derive(Clone, Debug)]
struct Count {
    key: Box<[u8]>,
    count: f64,
    /// How much of it may be other keys'.
    others: f64,
    /// How often the key was met.
    notes: u32,
}

/// A key, and which part of all requests name it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotKey {
    pub key: Box<[u8]>,
    /// At least this, from 0 to 1, as far as the sample tells. Those of several keys may add up to more, as a
    /// request may have several.
    pub share: f64,
}

impl HotKeys {
    /// Notes a request that stands for `weight` of them.
    #[cold]
    pub(crate) fn note<'a, K: Iterator<Item = &'a [u8]>>(
        &self,
        keys: impl Fn() -> K,
        weight: usize,
        random: u64,
        now: u64,
    ) {
        // Somebody reads: then there is one note less.
        let Ok(mut sketch) = self.0.try_lock() else { return };
        sketch.fade(now);
        sketch.total += weight as f64;
        let stride = keys().count().div_ceil(KEYS_MAX).max(1);
        // Other bits than those that have chosen the request.
        let first = (random >> 32) as usize % stride;
        let mut noted: Vec<&[u8]> = Vec::new();
        for key in keys().skip(first).step_by(stride) {
            if key.len() <= KEY_LEN_MAX && !noted.contains(&key) {
                noted.push(key);
                sketch.note(key, (weight * stride) as f64);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sketch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hottest keys of all threads, at most `len` of those that `shown` wants, the hottest first.
pub(crate) fn hottest(
    threads: &[ThreadShared],
    now: u64,
    len: usize,
    shown: impl Fn(&[u8]) -> bool,
) -> Vec<HotKey> {
    let mut total = 0.0;
    let mut sums: HashMap<Box<[u8]>, (f64, u32)> = HashMap::new();
    for thread in threads {
        let mut sketch = thread.hot_keys.lock();
        sketch.fade(now);
        total += sketch.total;
        for count in &sketch.counts {
            let (sum, notes) = sums.entry(count.key.clone()).or_default();
            *sum += count.count - count.others;
            *notes = notes.saturating_add(count.notes);
        }
    }
    sums.retain(|key, (_, notes)| *notes >= NOTES_MIN && shown(key));
    // Where a request has many keys and one of them many times, that one may seem to be in more requests.
    let share = |sum: f64| (sum / total).min(1.0);
    let mut hottest: Vec<HotKey> =
        sums.into_iter().map(|(key, (sum, _))| HotKey { key, share: share(sum) }).collect();
    hottest.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.key.cmp(&b.key)));
    hottest.truncate(len);
    hottest
}

impl Sketch {
    fn note(&mut self, key: &[u8], weight: f64) {
        if let Some(known) = self.counts.iter_mut().find(|count| *count.key == *key) {
            known.count += weight;
            known.notes = known.notes.saturating_add(1);
            return;
        }
        let mut new = Count { key: key.into(), count: weight, others: 0.0, notes: 1 };
        if self.counts.len() < KEPT {
            self.counts.push(new);
            return;
        }
        let lowest = self.counts.iter_mut().min_by(|a, b| a.count.total_cmp(&b.count));
        let lowest = lowest.expect("it is full");
        new.others = lowest.count;
        new.count += lowest.count;
        *lowest = new;
    }

    /// Makes less of what is some time ago.
    fn fade(&mut self, now: u64) {
        let halvings = now.saturating_sub(self.faded_at) / HALF_LIFE_MS;
        if halvings == 0 {
            return;
        }
        self.faded_at = now;
        let left = 0.5f64.powi(i32::try_from(halvings).unwrap_or(i32::MAX));
        for count in &mut self.counts {
            count.count *= left;
            count.others *= left;
        }
        self.total *= left;
        // Less than a tenth of a request.
        self.counts.retain(|count| count.count >= 0.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const NOW: u64 = 1_700_000_000_000;

    fn threads(n: usize) -> Vec<ThreadShared> {
        (0..n).map(|_| ThreadShared::default()).collect()
    }

    /// Notes a request for these keys.
    fn note(thread: &ThreadShared, keys: &[&str], weight: usize, now: u64) {
        let keys = || keys.iter().map(|key| key.as_bytes());
        thread.hot_keys.note(keys, weight, 0, now);
    }

    fn keys(hottest: &[HotKey]) -> Vec<String> {
        hottest.iter().map(|hot| String::from_utf8_lossy(&hot.key).into_owned()).collect()
    }

    #[test]
    fn hot_keys_are_found_among_many_others() {
        let threads = threads(2);
        let mut random = Random::new(7);
        for i in 0..20_000 {
            // A fifth of the requests are for one key, a twentieth for another; the rest are spread.
            let key = match random.next() % 20 {
                0..4 => "hot".to_string(),
                4 => "warm".to_string(),
                _ => format!("key:{}", random.next() % 1_000_000),
            };
            note(&threads[i % 2], &[&key], 1, NOW);
        }
        let hottest = hottest(&threads, NOW, 10, |_| true);
        assert_eq!(keys(&hottest[..2]), ["hot", "warm"]);
        assert!((hottest[0].share - 0.2).abs() < 0.02, "{hottest:?}");
        assert!((hottest[1].share - 0.05).abs() < 0.02, "{hottest:?}");
        assert!(hottest[2..].iter().all(|other| other.share < 0.001), "{hottest:?}");
    }

    #[test]
    fn a_request_of_a_pipeline_stands_for_all_of_it() {
        let threads = threads(1);
        let note = |key: &str, weight| note(&threads[0], &[key], weight, NOW);
        (0..10).for_each(|_| note("alone", 1));
        (0..2).for_each(|_| note("batch", 45));
        note("once", 5);
        let found = hottest(&threads, NOW, 10, |_| true);
        assert_eq!(keys(&found), ["batch", "alone"]);
        assert_eq!(found[1].share, 10.0 / 105.0);
        assert_eq!(keys(&hottest(&threads, NOW, 10, |key| key != b"batch")), ["alone"]);
        assert_eq!(keys(&hottest(&threads, NOW, 1, |_| true)), ["batch"]);
    }

    /// Shares were once of the keys that were noted: of those that all requests had together.
    #[test]
    fn shares_are_of_requests() {
        let threads = threads(1);
        let note = |keys: &[&str]| (0..2).for_each(|_| note(&threads[0], keys, 5, NOW));
        note(&[]);
        note(&["a"]);
        note(&["a", "b", "c", "a"]);
        note(&[&"x".repeat(KEY_LEN_MAX + 1)]);
        let shares: Vec<f64> =
            hottest(&threads, NOW, 10, |_| true).iter().map(|h| h.share).collect();
        assert_eq!(shares, [0.5, 0.25, 0.25]);
    }

    /// Of long requests only the first keys were once noted.
    #[test]
    fn every_key_of_a_long_request_may_be_noted() {
        let threads = threads(1);
        let many: Vec<String> = (0..KEYS_MAX * 8).map(|i| format!("key:{i}")).collect();
        let keys = || many.iter().map(|key| key.as_bytes());
        let mut random = Random::new(7);
        (0..2_000).for_each(|_| threads[0].hot_keys.note(keys, 1, random.next(), NOW));
        let found = hottest(&threads, NOW, KEPT, |_| true);
        assert_eq!(found.len(), many.len());
        assert!(found.iter().all(|hot| hot.share > 0.7), "{found:?}");
        // One key over and over is in no more than all requests.
        let threads = self::threads(1);
        (0..2).for_each(|_| note(&threads[0], &["a"; KEYS_MAX * 8], 1, NOW));
        assert_eq!(hottest(&threads, NOW, 10, |_| true)[0].share, 1.0);
    }

    #[test]
    fn what_was_hot_fades() {
        let threads = threads(1);
        let note = |key: &str, n, now| (0..n).for_each(|_| note(&threads[0], &[key], 1, now));
        note("old", 80, NOW);
        note("new", 40, NOW + 2 * HALF_LIFE_MS);
        let found = hottest(&threads, NOW + 2 * HALF_LIFE_MS, 10, |_| true);
        assert_eq!(keys(&found), ["new", "old"]);
        assert_eq!((found[0].share, found[1].share), (40.0 / 60.0, 20.0 / 60.0));
        // A clock that is put back changes nothing, and long after all is forgotten.
        assert_eq!(hottest(&threads, NOW, 10, |_| true), found);
        assert_eq!(hottest(&threads, NOW + 1_000_000, 10, |_| true), []);
    }

    #[test]
    fn memory_is_bounded() {
        let threads = threads(1);
        let long = "x".repeat(KEY_LEN_MAX + 1);
        note(&threads[0], &[&long, &long], 1, NOW);
        assert_eq!(hottest(&threads, NOW, 10, |_| true), []);
        let many: Vec<String> = (0..1000).map(|i| format!("key:{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        note(&threads[0], &many, 1, NOW);
        assert_eq!(threads[0].hot_keys.lock().counts.len(), KEYS_MAX);
        for key in &many {
            note(&threads[0], &[key], 1, NOW);
        }
        assert_eq!(threads[0].hot_keys.lock().counts.len(), KEPT);
    }
}
