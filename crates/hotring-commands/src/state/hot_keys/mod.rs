//! The list of hot keys: the keys that requests name most often, estimated from a sample, with bounds.
//!
//! The executor notes a few thousand requests a second ([`crate::state::batching`] chooses them), with or without keys.
//! Each note has a weight: the number of requests that the noted one stands for. The list covers the last [`SPANS`]
//! seconds. Sums are kept per second, and each is dropped when its second leaves that window, whether or not there are
//! requests.
//!
//! A thread keeps the sums of [`SETS`] times [`WAYS`] keys. Each set uses the algorithm *Space-Saving* (Metwally,
//! Agrawal, El Abbadi, 2005): a key without an entry replaces the entry with the lowest sum, and the new entry records
//! which part of its sum belongs to earlier keys. The bounds account for that part and for the error of the sample.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::AddAssign;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::state::thread_shared::ThreadShared;

/// The number of seconds that the shares cover, including the current one.
pub const SPANS: usize = 10;
const SPAN_MS: u64 = 1000;

/// The hash of a key selects one of `SETS` sets, which has `WAYS` entries. If 3,000 requests a second are noted, a key
/// that is in one request of 1,000 always has an entry.
const SETS: usize = 64;
const WAYS: usize = 16;

/// The maximum length in bytes of a noted key.
const KEY_LEN_MAX: usize = 1 << 10;

/// The maximum number of noted keys of one request. If it has more, the noted keys stand for the others.
const KEYS_MAX: usize = 16;

/// The minimum number of notes of a listed key: fewer may be chance.
const NOTES_MIN: u32 = 2;

/// The distance of the bounds in standard deviations: 19 shares of 20 are within the bounds.
const DEVIATIONS: f64 = 2.0;

/// The minimum number of notes for bounds that are symmetric around the share.
const EVEN_MIN: f64 = 64.0;

/// The notes of one thread. The thread itself writes; other threads read occasionally.
#[derive(Debug, Default)]
pub struct HotKeys(Mutex<Sketch>);

#[derive(Debug, Default)]
struct Sketch {
    hasher: RandomState,
    /// Empty until the first note.
    sets: Vec<Vec<Kept>>,
    /// The sums of all noted requests, including those without an entry in a set.
    all: [Sum; SPANS],
    /// The current second in Unix time. Its sums are at this number modulo [`SPANS`].
    span: u64,
}

/// The entry of a key in a set.
#[derive(Debug)]
struct Kept {
    hash: u64,
    database: u8,
    key: Box<[u8]>,
    /// The notes of the key itself.
    counted: [Sum; SPANS],
    /// The weights of the keys that had this entry before.
    others: [f32; SPANS],
    /// The sum of all weights, including those of the earlier keys.
    weight: f32,
}

/// The sum of several notes.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    notes: u32,
    weight: f32,
    /// The sum of the squared weights: few heavy notes give a less certain estimate than many light ones.
    squares: f32,
}

/// The name of an entry: the number of a database, and a key.
type Name = (u8, Box<[u8]>);

/// A key, and the share of all requests that name it.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The number of the database that clients had selected.
    pub database: u8,
    pub key: Box<[u8]>,
    /// The share, from 0 to 1. The shares of all keys may add up to more than 1, because a request may name several
    /// keys.
    pub share: f64,
    /// The bounds: with 95 % probability the share is between `low` and `high`.
    pub low: f64,
    pub high: f64,
    /// Notes of the key.
    pub notes: u32,
}

impl HotKeys {
    /// Notes a request with these keys in a database. The request stands for `weight` requests.
    #[cold]
    pub(crate) fn note<'a, K: Iterator<Item = &'a [u8]>>(
        &self,
        database: u8,
        keys: impl Fn() -> K,
        weight: f64,
        random: u64,
        now: u64,
    ) {
        // If a reader holds the lock, this note is dropped: the thread must not wait.
        let Ok(mut sketch) = self.0.try_lock() else { return };
        sketch.move_to(now);
        let at = sketch.position();
        sketch.all[at] += Sum::one(weight);
        let stride = keys().count().div_ceil(KEYS_MAX).max(1);
        let first = random as usize % stride;
        let weight = weight * stride as f64;
        let mut noted: [&[u8]; KEYS_MAX] = [b""; KEYS_MAX];
        let mut n_noted = 0;
        for key in keys().skip(first).step_by(stride) {
            if key.len() <= KEY_LEN_MAX && !noted[..n_noted].contains(&key) {
                noted[n_noted] = key;
                n_noted += 1;
                sketch.note(database, key, weight);
            }
        }
    }

    fn lock(&self, now: u64) -> MutexGuard<'_, Sketch> {
        let mut sketch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sketch.move_to(now);
        sketch
    }
}

/// The hottest keys of all threads, hottest first: at most `len` keys that `shown` accepts.
pub fn hottest(
    threads: &[ThreadShared],
    now: u64,
    len: usize,
    shown: impl Fn(&[u8]) -> bool,
) -> Vec<HotKey> {
    let mut all = Sum::default();
    let mut sums: HashMap<Name, (Sum, f64)> = HashMap::new();
    for thread in threads {
        let sketch = thread.hot_keys.lock(now);
        all += sum(&sketch.all);
        for kept in sketch.sets.iter().flatten() {
            let (counted, others) = sums.entry((kept.database, kept.key.clone())).or_default();
            *counted += sum(&kept.counted);
            *others += f64::from(kept.others.iter().sum::<f32>());
        }
    }
    sums.retain(|(_, key), (counted, _)| counted.notes >= NOTES_MIN && shown(key));
    let mut hottest: Vec<HotKey> = sums
        .into_iter()
        .map(|(key, (counted, others))| HotKey::new(key, counted, others, all.weight))
        .collect();
    hottest.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name().cmp(&b.name())));
    hottest.truncate(len);
    for thread in threads {
        let sketch = thread.hot_keys.lock(now);
        for hot in &mut hottest {
            let unseen = f64::from(sketch.unseen(hot.database, &hot.key) / all.weight);
            hot.high = (hot.high + unseen).min(1.0);
        }
    }
    hottest
}

/// The number of notes in the last [`SPANS`] seconds.
pub fn notes(threads: &[ThreadShared], now: u64) -> u64 {
    threads.iter().map(|thread| u64::from(sum(&thread.hot_keys.lock(now).all).notes)).sum()
}

impl HotKey {
    /// The key, prefixed with the number of its database unless that is 0.
    pub fn name(&self) -> Cow<'_, [u8]> {
        match self.database {
            0 => Cow::Borrowed(&self.key),
            number => Cow::Owned([format!("db{number}:").as_bytes(), &self.key].concat()),
        }
    }

    fn new((database, key): Name, counted: Sum, others: f64, all: f32) -> Self {
        let (weight, all) = (f64::from(counted.weight), f64::from(all));
        // If a request has many keys, the weight of each noted key is an estimate, which may exceed the total.
        let share = (weight / all).min(1.0);
        // The effective number of notes: this many notes of equal weight would be equally certain.
        let notes = weight * weight / f64::from(counted.squares);
        let (low, high) = bounds(share, notes);
        let high = (high + others / all).min(1.0);
        HotKey { database, key, share, low, high, notes: counted.notes }
    }
}

/// The confidence interval of a share that is estimated from this many notes.
fn bounds(share: f64, notes: f64) -> (f64, f64) {
    let all = notes / share;
    let square = DEVIATIONS * DEVIATIONS;
    let (middle, deviation) = if notes >= EVEN_MIN {
        (share, (share * (1.0 - share) / all).sqrt())
    } else {
        // Wilson's interval: with few notes, more may be missing by chance than are there by chance, so that the
        // interval is not symmetric.
        let scale = 1.0 + square / all;
        let deviation = (share * (1.0 - share) / all + square / (4.0 * all * all)).sqrt();
        ((share + square / (2.0 * all)) / scale, deviation / scale)
    };
    ((middle - DEVIATIONS * deviation).max(0.0), (middle + DEVIATIONS * deviation).min(1.0))
}

impl Sketch {
    fn note(&mut self, database: u8, key: &[u8], weight: f64) {
        let (hash, at) = (self.hash(database, key), self.position());
        if self.sets.is_empty() {
            self.sets.resize_with(SETS, Vec::new);
        }
        let set = &mut self.sets[hash as usize % SETS];
        if let Some(known) = set.iter_mut().find(|kept| kept.is(hash, database, key)) {
            known.counted[at] += Sum::one(weight);
            known.weight += weight as f32;
            return;
        }
        let mut new = Kept {
            hash,
            database,
            key: key.into(),
            counted: [Sum::default(); SPANS],
            others: [0.0; SPANS],
            weight: weight as f32,
        };
        new.counted[at] = Sum::one(weight);
        if set.len() < WAYS {
            set.push(new);
            return;
        }
        let lowest = set.iter_mut().min_by(|a, b| a.weight.total_cmp(&b.weight));
        let lowest = lowest.expect("it is full");
        for (at, others) in new.others.iter_mut().enumerate() {
            *others = lowest.counted[at].weight + lowest.others[at];
        }
        new.weight += lowest.weight;
        *lowest = new;
    }

    /// The maximum weight that may have been noted for a key without an entry.
    fn unseen(&self, database: u8, key: &[u8]) -> f32 {
        let hash = self.hash(database, key);
        let Some(set) = self.sets.get(hash as usize % SETS) else { return 0.0 };
        if set.len() < WAYS || set.iter().any(|kept| kept.is(hash, database, key)) {
            return 0.0;
        }
        set.iter().map(|kept| kept.weight).fold(f32::INFINITY, f32::min)
    }

    fn hash(&self, database: u8, key: &[u8]) -> u64 {
        self.hasher.hash_one((database, key))
    }

    /// The index of the sums of the current second.
    fn position(&self) -> usize {
        (self.span % SPANS as u64) as usize
    }

    /// Advances to the second of `now` and drops the sums of seconds that have left the window.
    fn move_to(&mut self, now: u64) {
        let span = now / SPAN_MS;
        if span != self.span {
            self.forget_until(span);
        }
    }

    #[cold]
    fn forget_until(&mut self, span: u64) {
        // If the clock was set back a little, the latest second continues until the clock reaches it again.
        if span < self.span && self.span - span < SPANS as u64 {
            return;
        }
        let passed = span.wrapping_sub(self.span).min(SPANS as u64);
        let over: Vec<usize> = (0..passed).map(|i| ((span - i) % SPANS as u64) as usize).collect();
        self.span = span;
        over.iter().for_each(|at| self.all[*at] = Sum::default());
        for set in &mut self.sets {
            set.retain_mut(|kept| {
                over.iter().for_each(|at| {
                    (kept.counted[*at], kept.others[*at]) = (Sum::default(), 0.0);
                });
                kept.weight = sum(&kept.counted).weight + kept.others.iter().sum::<f32>();
                kept.weight > 0.0
            });
        }
    }
}

impl Kept {
    fn is(&self, hash: u64, database: u8, key: &[u8]) -> bool {
        self.hash == hash && self.database == database && *self.key == *key
    }
}

impl Sum {
    fn one(weight: f64) -> Self {
        Sum { notes: 1, weight: weight as f32, squares: (weight * weight) as f32 }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.notes += other.notes;
        self.weight += other.weight;
        self.squares += other.squares;
    }
}

fn sum(spans: &[Sum; SPANS]) -> Sum {
    let mut sum = Sum::default();
    spans.iter().for_each(|span| sum += *span);
    sum
}

#[cfg(test)]
mod tests;
