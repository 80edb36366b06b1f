//! Items with `u64` keys and values: 24 bytes each, with values updated in place.

pub(crate) mod guard;

use crate::core::arena::footprint;
use crate::core::config::{Checksum, Config, ConfigError};
use crate::core::hooks::{sometimes, wrong};
use crate::core::item::{Header, Item, Kind, sealed};
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{FROZEN, Next, SIGN};
use crate::engine::{Engine, FastLookup, Found, Hit, KeyGoal, Reservation};
use crate::session::{Pinned, Session};
use std::cmp;
use std::mem::{ManuallyDrop, offset_of};
use std::ptr::NonNull;

/// The item kind of `u64` keys and values.
///
/// The hash is a fixed bijection of the key XOR the seed. It spreads ordinary keys, but it is not a keyed
/// hash: a client that knows the seed can choose keys for any bucket and tag, and measured response times may
/// reveal enough of the seed. If keys come from untrusted clients, use [`crate::Bytes`], whose hash is
/// SipHash-1-3.
pub struct U64 {
    seed: u64,
}

#[repr(C)]
struct U64Item {
    header: Header,
    key: u64,
    /// The value's low 63 bits and FROZEN; its bit 63 is SIGN in the header.
    value: AtomicU64,
}

const SIZE: usize = size_of::<U64Item>();
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(SIZE == 24);

/// 2^64 divided by the golden ratio: the products of neighbouring keys are far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl sealed::Sealed for U64 {}

impl Kind for U64 {
    type Key = u64;
    const LOOKED_AT: usize = SIZE;

    fn new(config: &Config) -> Result<Self, ConfigError> {
        if config.checksum != Checksum::Off {
            return Err(ConfigError::Unsupported(
                "items of u64 have no space for a checksum: leave checksum at Off, or use items of bytes",
            ));
        }
        let [a, b] = config.seed;
        Ok(Self { seed: a ^ b.rotate_left(32) })
    }

    /// A bijection: two keys never have the same hash. The best mixed bits of a product are the highest, but the
    /// lowest bits choose the bucket, hence the swap of bytes.
    #[inline(always)]
    fn hash(&self, key: &u64) -> u64 {
        (key ^ self.seed).wrapping_mul(SPREAD).swap_bytes()
    }

    #[inline(always)]
    fn item_hash(&self, item: Item) -> u64 {
        self.hash(&key_of(item))
    }

    #[inline(always)]
    fn is(&self, item: Item, _hash: u64, key: &u64) -> bool {
        key_of(item) == *key
    }

    #[inline(always)]
    fn key_cmp(&self, _item: Item, _key: &u64) -> cmp::Ordering {
        cmp::Ordering::Equal
    }

    fn key<'a>(item: Item) -> &'a u64 {
        // SAFETY: P, and every item of this kind is a U64Item, whose key never changes.
        unsafe { &item.start().cast::<U64Item>().as_ref().key }
    }

    fn size(&self, _item: Item) -> usize {
        SIZE
    }

    fn expires(_item: Item) -> bool {
        false
    }

    fn freeze(&self, item: Item) {
        // ORDERING: AcqRel: in-place writes come before (the copy has them) or fail.
        value_of(item).fetch_or(FROZEN, Ordering::AcqRel);
    }

    fn copy_of(&self, item: Item, alloc: impl FnOnce(usize) -> NonNull<u8>) -> Item {
        // ORDERING: Relaxed, SIGN is constant.
        let sign = item.next().load(Ordering::Relaxed) & SIGN;
        // ORDERING: Acquire, as for readers; the value is frozen.
        let value = value_of(item).load(Ordering::Acquire) & !FROZEN;
        let copy =
            U64Item { header: Header::new(sign), key: key_of(item), value: AtomicU64::new(value) };
        let block = alloc(SIZE);
        // SAFETY: the block is fresh, 8-aligned and holds SIZE bytes.
        unsafe { block.cast::<U64Item>().write(copy) };
        // SAFETY: just initialised, and private (P).
        unsafe { Item::new(block) }
    }
}

#[inline(always)]
fn key_of(item: Item) -> u64 {
    *U64::key(item)
}

#[inline(always)]
fn value_of<'a>(item: Item) -> &'a AtomicU64 {
    // SAFETY: P, and every item of a U64 ring is a U64Item.
    unsafe { item.word(offset_of!(U64Item, value)) }
}

/// The value of a hit, all 64 bits.
#[inline(always)]
pub(crate) fn load(hit: Hit) -> u64 {
    // ORDERING: Acquire pairs with the AcqRel of in-place writes.
    let word = value_of(hit.item).load(Ordering::Acquire);
    join(word, hit.word)
}

#[inline(always)]
fn join(word: u64, next: Next) -> u64 {
    // Takes bit 63 from `next` and the other bits from `word`, with the fewest instructions.
    ((next.0 << (FROZEN.ilog2() - SIGN.ilog2())) ^ word) & FROZEN ^ word
}

/// Keys looked up under one pin.
const CHUNK: usize = 1024;

/// A batch of lookups as a pipeline, all under one pin.
fn get_by_pipeline<E: Engine>(
    pinned: &mut Pinned<'_, U64, E>,
    keys: &[u64],
    out: &mut [Option<u64>],
) {
    let goal = |kind: &U64, i: usize| KeyGoal { hash: kind.hash(&keys[i]), key: &keys[i] };
    E::pipeline(pinned, keys.len(), goal, |i, hit| out[i] = hit.map(load));
}

/// The decision of a read-modify-write.
enum Decision {
    Keep,
    Write(u64),
    Remove,
}

/// The result of an attempt. `Done` has the item that holds the key's value, if any.
enum Attempt {
    Done(Option<Item>),
    Again,
}

impl<'s, E: Engine> Pinned<'s, U64, E> {
    fn make(&mut self, key: u64, value: u64) -> Item {
        let block = self.alloc(footprint(SIZE));
        let sign = if value & FROZEN != 0 { SIGN } else { 0 };
        let item =
            U64Item { header: Header::new(sign), key, value: AtomicU64::new(value & !FROZEN) };
        // SAFETY: the block is fresh, 8-aligned and holds SIZE bytes.
        unsafe { block.cast::<U64Item>().write(item) };
        // SAFETY: just initialised, and private (P).
        unsafe { Item::new(block) }
    }

    fn goal<'k>(&self, key: &'k u64) -> KeyGoal<'k, U64> {
        KeyGoal { hash: self.shared.kind.hash(key), key }
    }

    /// Writes the value word by CAS. None: the item must be replaced instead.
    fn write_in_place(&self, hit: Hit, value: u64, expected: Option<u64>) -> Option<bool> {
        if (value & FROZEN != 0) != hit.word.is(SIGN) {
            return None;
        }
        let word = value_of(hit.item);
        // ORDERING: Relaxed, validated by the CAS.
        let mut old = word.load(Ordering::Relaxed);
        loop {
            if old & FROZEN != 0 {
                sometimes!(Frozen);
                return None;
            }
            if wrong!(self, StoreInPlace) && expected.is_none() {
                // ORDERING: AcqRel, as below.
                word.swap(value & !FROZEN, Ordering::AcqRel);
                return Some(true);
            }
            if expected.is_some_and(|expected| expected != join(old, hit.word)) {
                return Some(false);
            }
            // ORDERING: AcqRel: a reader of the value sees everything that its writer had seen.
            match word.compare_exchange_weak(
                old,
                value & !FROZEN,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(true),
                Err(now) => old = now,
            }
        }
    }

    #[inline(always)]
    pub(crate) fn get(&mut self, key: u64) -> Option<u64> {
        let goal = self.goal(&key);
        let hit = if E::HAS_FAST_PATH { E::slow_lookup(self, goal) } else { E::lookup(self, goal) };
        hit.map(load)
    }

    pub(crate) fn fetch_add(&mut self, key: u64, by: u64) -> Option<u64> {
        let old = self.update(key, |now| Decision::Write(now.wrapping_add(by)));
        old.map(|old| old.wrapping_add(by))
    }

    /// Stores a value unconditionally. True: an item with this key was present.
    pub(crate) fn put(&mut self, key: u64, value: u64) -> bool {
        let goal = self.goal(&key);
        if let Some(hit) = E::probe(self, goal)
            && self.write_in_place(hit, value, None).is_some()
        {
            E::accessed(self, goal.hash, Some(hit), 1);
            return true;
        }
        let bucket = E::bucket(self, goal.hash);
        let mut new = None;
        let mut reservation = E::Reservation::default();
        loop {
            let found = E::find(self, goal, bucket);
            let item = if let Some(hit) = found.hit {
                if self.write_in_place(hit, value, None).is_some() {
                    E::accessed(self, goal.hash, Some(hit), 1);
                    break;
                }
                let copy = *new.get_or_insert_with(|| self.make(key, value));
                if E::replace(self, goal, bucket, hit, copy, Some(&found)) {
                    reservation.give_back(self, bucket);
                    return true;
                }
                continue;
            } else {
                *new.get_or_insert_with(|| self.make(key, value))
            };
            if E::link(self, goal, bucket, &found, item, &mut reservation) {
                return false;
            }
        }
        if let Some(item) = new {
            self.discard(item);
        }
        reservation.give_back(self, bucket);
        true
    }

    pub(crate) fn insert(&mut self, key: u64, value: u64) -> bool {
        let goal = self.goal(&key);
        let bucket = E::bucket(self, goal.hash);
        let mut new = None;
        let mut reservation = E::Reservation::default();
        loop {
            let found = E::find(self, goal, bucket);
            if found.hit.is_some() {
                if let Some(item) = new {
                    self.discard(item);
                }
                reservation.give_back(self, bucket);
                return false;
            }
            let item = *new.get_or_insert_with(|| self.make(key, value));
            if E::link(self, goal, bucket, &found, item, &mut reservation) {
                return true;
            }
        }
    }

    /// Read-modify-write of a present key; `None` if it is absent.
    fn update(&mut self, key: u64, mut decide: impl FnMut(u64) -> Decision) -> Option<u64> {
        let goal = self.goal(&key);
        let bucket = E::bucket(self, goal.hash);
        loop {
            let (hit, found) = match E::probe(self, goal) {
                Some(hit) => (hit, None),
                None => {
                    let found = E::find(self, goal, bucket);
                    (found.hit?, Some(found))
                }
            };
            let old = load(hit);
            let attempt = match decide(old) {
                Decision::Keep => Attempt::Done(Some(hit.item)),
                Decision::Write(value) => self.write(goal, bucket, hit, found, (old, value)),
                Decision::Remove => self.remove_frozen(goal, bucket, old),
            };
            if let Attempt::Done(item) = attempt {
                // ORDERING: Relaxed, only the strategy looks at it.
                let word = |item: Item| Next(item.next().load(Ordering::Relaxed));
                let hit = item.map(|item| Hit { item, word: word(item) });
                E::accessed(self, goal.hash, hit, 1);
                return Some(old);
            }
        }
    }

    fn write(
        &mut self,
        goal: KeyGoal<'_, U64>,
        bucket: E::Bucket,
        hit: Hit,
        found: Option<Found<E::Position<'s>>>,
        (old, value): (u64, u64),
    ) -> Attempt {
        match self.write_in_place(hit, value, Some(old)) {
            Some(true) => return Attempt::Done(Some(hit.item)),
            Some(false) => return Attempt::Again,
            None => {}
        }
        if self.freeze(hit) != old {
            return Attempt::Again;
        }
        let copy = self.make(*goal.key, value);
        if E::replace(self, goal, bucket, hit, copy, found.as_ref()) {
            return Attempt::Done(Some(copy));
        }
        self.discard(copy);
        Attempt::Again
    }

    /// Removes the item if its value is `old` and stays so until the removal.
    fn remove_frozen(&mut self, goal: KeyGoal<'_, U64>, bucket: E::Bucket, old: u64) -> Attempt {
        let found = E::find(self, goal, bucket);
        if found.hit.is_none_or(|hit| self.freeze(hit) != old) {
            return Attempt::Again;
        }
        if E::kill(self, goal, bucket, &found) { Attempt::Done(None) } else { Attempt::Again }
    }

    /// Permanently stops in-place writes of an item and returns its last value. A replacement or removal that
    /// depends on the old value must freeze the item first, or an in-place write in between is lost.
    fn freeze(&self, hit: Hit) -> u64 {
        if wrong!(self, NoFreeze) {
            return load(hit);
        }
        // ORDERING: AcqRel: in-place writes come before (we read them) or fail.
        join(value_of(hit.item).fetch_or(FROZEN, Ordering::AcqRel), hit.word)
    }

    pub(crate) fn remove(&mut self, key: u64) -> bool {
        let goal = self.goal(&key);
        let bucket = E::bucket(self, goal.hash);
        loop {
            let found = E::find(self, goal, bucket);
            if found.hit.is_none() {
                return false;
            }
            if E::kill(self, goal, bucket, &found) {
                return true;
            }
        }
    }
}

impl<E: Engine> Session<U64, E> {
    /// The value of a key. O(1) expected; never waits.
    #[inline(always)]
    pub fn get(&mut self, key: u64) -> Option<u64> {
        if !E::HAS_FAST_PATH {
            return self.pin().get(key);
        }
        if self.pins_at_once() { self.get_pinned(key) } else { self.get_after_pin(key) }
    }

    #[cold]
    #[inline(never)]
    fn get_after_pin(&mut self, key: u64) -> Option<u64> {
        std::mem::forget(self.pin());
        self.get_pinned(key)
    }

    /// Looks up a key under the session's pin, and unpins. The slow path must be a separate function: then the fast
    /// path needs few registers and no stack frame, and the processor has more lookups in flight.
    #[inline(always)]
    fn get_pinned(&mut self, key: u64) -> Option<u64> {
        if let Some(answer) = self.fast_get(key) {
            drop(self.pinned());
            return answer;
        }
        self.slow_get(key)
    }

    /// The answer of the fast path under the session's pin. `None`: the slow path must follow, after
    /// `Local::not_counted`.
    #[inline(always)]
    pub(crate) fn fast_get(&mut self, key: u64) -> Option<Option<u64>> {
        let pinned = ManuallyDrop::new(self.pinned());
        let answer = match E::fast_lookup(&pinned, pinned.goal(&key)) {
            FastLookup::Hit(hit) => Some(load(hit)),
            FastLookup::Miss => None,
            FastLookup::Unknown => return None,
        };
        self.local().count_down().then_some(answer)
    }

    #[inline(never)]
    fn slow_get(&mut self, key: u64) -> Option<u64> {
        self.local().not_counted();
        self.pinned().get(key)
    }

    /// Stores a value, in place if possible; true if the key was present.
    #[inline]
    pub fn put(&mut self, key: u64, value: u64) -> bool {
        self.pin().put(key, value)
    }

    /// Stores a value unless the key is present; true if it was stored.
    pub fn insert(&mut self, key: u64, value: u64) -> bool {
        self.pin().insert(key, value)
    }

    /// Stores a value only if the key is present; returns the value that it had.
    pub fn replace(&mut self, key: u64, value: u64) -> Option<u64> {
        self.pin().update(key, |_| Decision::Write(value))
    }

    /// Stores `new` if the value is `old`.
    ///
    /// # Errors
    /// The key's actual value, or `None` if the key is absent.
    pub fn compare_exchange(&mut self, key: u64, old: u64, new: u64) -> Result<(), Option<u64>> {
        let decide = |now| if now == old { Decision::Write(new) } else { Decision::Keep };
        match self.pin().update(key, decide) {
            Some(now) if now == old => Ok(()),
            other => Err(other),
        }
    }

    /// Adds to the value (wrapping) and returns the sum; `None` if the key is absent.
    pub fn fetch_add(&mut self, key: u64, by: u64) -> Option<u64> {
        self.pin().fetch_add(key, by)
    }

    /// Removes a key; true if it was present.
    pub fn remove(&mut self, key: u64) -> bool {
        self.pin().remove(key)
    }

    /// Removes a key and returns the value that it had last.
    pub fn take(&mut self, key: u64) -> Option<u64> {
        self.pin().update(key, |_| Decision::Remove)
    }

    /// Removes a key if its value is `old`; true if it was removed.
    pub fn remove_if(&mut self, key: u64, old: u64) -> bool {
        let decide = |now| if now == old { Decision::Remove } else { Decision::Keep };
        self.pin().update(key, decide) == Some(old)
    }

    /// Looks up a batch as one pipeline with many memory accesses in flight: the fast way for more than a few
    /// keys. `out[i]` becomes the value of `keys[i]`. Each lookup is linearizable; the batch is not atomic, and
    /// its lookups may take effect in any order.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many(&mut self, keys: &[u64], out: &mut [Option<u64>]) {
        assert_eq!(keys.len(), out.len(), "one result per key");
        for (keys, out) in keys.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            get_by_pipeline(&mut self.pin(), keys, out);
        }
    }

    /// Stores a batch of pairs, in order, and prefetches the memory of later ones.
    pub fn put_many(&mut self, pairs: &[(u64, u64)]) {
        self.batch(pairs, |pinned, &(key, value)| {
            pinned.put(key, value);
        });
    }

    /// Inserts the pairs whose keys are absent, in order; returns the number of inserted pairs.
    pub fn insert_many(&mut self, pairs: &[(u64, u64)]) -> usize {
        let mut inserted = 0;
        self.batch(pairs, |pinned, &(key, value)| {
            inserted += usize::from(pinned.insert(key, value));
        });
        inserted
    }

    fn batch(
        &mut self,
        pairs: &[(u64, u64)],
        mut f: impl FnMut(&mut Pinned<'_, U64, E>, &(u64, u64)),
    ) {
        for chunk in pairs.chunks(64) {
            let mut pinned = self.pin();
            E::warm(&mut pinned, chunk.len(), |kind, i| KeyGoal {
                hash: kind.hash(&chunk[i].0),
                key: &chunk[i].0,
            });
            for pair in chunk {
                f(&mut pinned, pair);
            }
        }
    }

    /// Visits up to about `count` items from `cursor` and returns the next cursor. Visits all items of one hash
    /// together, and fewer or no items if the table is sparse. 0 starts a scan, and 0 is its end. A key that is
    /// present during the entire scan is visited exactly once, even while the table grows: the cursor is a
    /// position in the order of hashes, not in the table.
    pub fn scan(&mut self, cursor: u64, count: usize, mut f: impl FnMut(u64, u64)) -> u64 {
        let visit = |_: &mut Pinned<'_, U64, E>, hit: Hit| {
            f(key_of(hit.item), load(hit));
            1
        };
        E::scan(&mut self.pin(), cursor, count, visit).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(seed: [u64; 2]) -> U64 {
        U64::new(&Config { seed, ..Config::default() }).expect("the defaults are accepted")
    }

    #[test]
    fn the_hash_is_a_bijection_on_a_sample() {
        let kind = kind([7, 9]);
        let mut seen: Vec<u64> = (0..100_000u64).map(|key| kind.hash(&key)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 100_000);
    }

    #[test]
    fn neighbours_and_multiples_spread_over_buckets() {
        let kind = kind([1, 2]);
        for step in [1u64, 2, 64, 4096, 1 << 20, 1 << 32, 1 << 44] {
            let mut load = vec![0u32; 1 << 12];
            for i in 0..(1u64 << 15) {
                load[(kind.hash(&i.wrapping_mul(step)) & 0xfff) as usize] += 1;
            }
            let worst = load.iter().max().expect("not empty");
            assert!(*worst <= 40, "step {step}: a bucket with {worst} keys where 8 are expected");
        }
    }

    #[test]
    fn flags_do_not_disturb_values() {
        assert_eq!(join(5 | FROZEN, Next(1)), 5);
        assert_eq!(join(5, Next(SIGN)), 5 | 1 << 63);
    }
}
