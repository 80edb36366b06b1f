//! Operations on several keys, each atomic to every observer.
//!
//! Reads take an optimistic snapshot ([`Session::read_many`]); writes hold their keys. Under `Hold::WriteOnce` a key
//! must change at most once, because single-key readers that began before the hold may still read (the gate's header
//! explains why that suffices).

use std::borrow::Cow;

use hotring_index::{BlockRef, Expiry, Key, NewValue};

use crate::container::{is_present, large};
use crate::error::StoreError;
use crate::gate::Hold;
use crate::gathered::{PREFETCH_KEYS, no_keys, prefetched};
use crate::holds::Keys;
use crate::ops::fields::due_of_new;
use crate::ops::set::SetExpiry;
use crate::session::Session;
use crate::value::{ValueRef, detach_entry, encode, len_of, reborrow};
use hotring_index::AnySession as Index;

/// Keys that may be read in vain, because writes of other sessions invalidate the snapshot, before the keys are held
/// instead.
const SPOILT_READS_MAX: usize = 64;
/// A larger snapshot buffer, in bytes, is freed after use.
const SNAPSHOT_LEN_KEPT: usize = 1 << 20;
/// Number of pairs up to which a quadratic search for repeated keys is faster than sorting.
const PAIRS_QUADRATIC: usize = 16;

/// The condition of [`Session::mset_ex`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MSetCondition {
    /// Always.
    Always,
    /// Only if no key is present (NX).
    IfNonePresent,
    /// Only if all keys are present (XX).
    IfAllPresent,
}

/// A key and its value.
type Pair<'p> = (&'p [u8], &'p [u8]);

impl Session {
    /// Calls `f` with each key's position and value, in order; the values are those of one moment. A key that does not
    /// hold a string counts as absent.
    pub fn mget(
        &mut self,
        keys: &[&[u8]],
        now: u64,
        mut f: impl FnMut(usize, Option<ValueRef<'_>>),
    ) {
        self.mget_within(keys, usize::MAX, now, |i, value, _| f(i, value))
            .expect("no values are longer than memory");
    }

    /// Like [`mget`](Self::mget), for callers with a limit: the values are copied first, which takes up to `bytes_max`
    /// bytes and one more value. Long values are shared instead of copied, but count; `f` gets their blocks
    /// ([`get_shared`](Self::get_shared)).
    ///
    /// # Errors
    /// [`StoreError::ValuesTooLong`] if the values of several keys together are longer than that; then `f` has not been
    /// called.
    pub fn mget_within(
        &mut self,
        keys: &[&[u8]],
        bytes_max: usize,
        now: u64,
        mut f: impl FnMut(usize, Option<ValueRef<'_>>, Option<BlockRef<'_>>),
    ) -> Result<(), StoreError> {
        if let [key] = keys {
            let found = self.get_shared(key, now, |value, block| f(0, Some(value), block));
            if !matches!(found, Ok(Some(()))) {
                f(0, None, None);
            }
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let fits = self.read_many(keys, |index| gathered.fill(index, keys, bytes_max, now));
        if fits {
            for i in 0..keys.len() {
                let (value, block) = gathered.part(i);
                f(i, value, block);
            }
        }
        // Kept shares would prevent their memory from being freed.
        if gathered.shared_len == 0 && gathered.bytes.capacity() <= SNAPSHOT_LEN_KEPT {
            self.gathered = gathered;
        }
        if fits { Ok(()) } else { Err(StoreError::ValuesTooLong { len_max: bytes_max }) }
    }

    /// Number of the keys that are present at one moment; a key that is named twice counts twice.
    pub fn exists_many(&mut self, keys: &[&[u8]], now: u64) -> usize {
        if let [key] = keys {
            return usize::from(self.exists(key, now));
        }
        self.count_many(keys, |index, key| {
            index.peek(key, now, |entry| is_present(&entry, now)) == Some(true)
        })
    }

    fn count_many(
        &mut self,
        keys: &[&[u8]],
        mut is_present: impl FnMut(&mut Index, Key<'_>) -> bool,
    ) -> usize {
        self.read_many(keys, |index| {
            let mut present = 0;
            let mut space = no_keys();
            for batch in keys.chunks(PREFETCH_KEYS) {
                let keys = prefetched(index, batch, &mut space).iter();
                present += keys.filter(|key| is_present(index, **key)).count();
            }
            present
        })
    }

    /// Like [`exists_many`](Self::exists_many), and counts as an access to each key, whatever the
    /// [`Origin`](crate::Origin).
    pub fn touch_many(&mut self, keys: &[&[u8]], now: u64) -> usize {
        self.mark_accesses(|session| {
            session.count_many(keys, |index, key| {
                index.get(key, now, |entry| is_present(&entry, now)) == Some(true)
            })
        })
    }

    /// Removes the keys and returns the number of removed ones.
    pub fn remove_many(&mut self, keys: &[&[u8]], now: u64) -> usize {
        if let [key] = keys {
            return usize::from(self.remove(key, now));
        }
        self.hold_keys(keys.iter().copied(), |session| {
            keys.iter().filter(|key| session.remove(key, now)).count()
        })
    }

    /// Sets all keys to their values and clears their expiries. The last of equal keys wins.
    pub fn mset(&mut self, pairs: &[(&[u8], &[u8])], now: u64) -> Result<(), StoreError> {
        self.mset_ex(pairs, MSetCondition::Always, SetExpiry::Clear, now).map(|_| ())
    }

    /// Like [`mset`](Self::mset), but only if none of the keys is present. True if it set them.
    pub fn mset_nx(&mut self, pairs: &[(&[u8], &[u8])], now: u64) -> Result<bool, StoreError> {
        self.mset_ex(pairs, MSetCondition::IfNonePresent, SetExpiry::Clear, now)
    }

    /// Like [`mset`](Self::mset), under a condition and with one expiry for all. True if it set them.
    pub fn mset_ex(
        &mut self,
        pairs: &[(&[u8], &[u8])],
        condition: MSetCondition,
        expiry: SetExpiry,
        now: u64,
    ) -> Result<bool, StoreError> {
        self.check_pairs(pairs)?;
        self.admit()?;
        let last = last_of_each(pairs);
        if let ([(key, value)], MSetCondition::Always) = (pairs, condition) {
            match expiry.of_item(now) {
                Some(expiry) => self.try_change(*key, |key| key.put(encode(value), expiry, now))?,
                None => _ = self.try_change(*key, |key| key.remove(now))?,
            }
            return Ok(true);
        }
        self.hold_keys(keys_of(pairs), |session| {
            session.check_role()?;
            let holds = match condition {
                MSetCondition::Always => true,
                MSetCondition::IfNonePresent => keys_of(pairs).all(|key| session.is_free(key, now)),
                MSetCondition::IfAllPresent => keys_of(pairs).all(|key| session.exists(key, now)),
            };
            if holds {
                session.put_pairs(&last, expiry, now);
            }
            Ok(holds)
        })
    }

    /// Moves `from`'s value, earlier values and expiry to `to`, replacing everything of `to`. Renaming a key to itself
    /// has no effect.
    pub fn rename(&mut self, from: &[u8], to: &[u8], now: u64) -> Result<(), StoreError> {
        self.move_item(from, to, true, now).map(|_| ())
    }

    /// Like [`rename`](Self::rename), but only if `to` is absent. True if it renamed the key.
    pub fn rename_nx(&mut self, from: &[u8], to: &[u8], now: u64) -> Result<bool, StoreError> {
        self.move_item(from, to, false, now)
    }

    /// Copies `from`'s value, earlier values and expiry to `to`, which must be absent unless `replace` is set. A long
    /// value is shared until one of the keys is written. False if nothing was copied: `to` is present, `from` is
    /// absent, or both are the same key.
    pub fn copy(
        &mut self,
        from: &[u8],
        to: &[u8],
        replace: bool,
        now: u64,
    ) -> Result<bool, StoreError> {
        self.check_key(to)?;
        if from == to {
            return Ok(false);
        }
        self.admit()?;
        self.hold_keys([from, to], |session| {
            session.check_role()?;
            let Some((value, expiry)) = session.detached(from, now) else { return Ok(false) };
            if !replace && !session.is_free(to, now) {
                return Ok(false);
            }
            session.admit_bytes(len_of(&value))?;
            let value = session.unshared(value);
            session.change(to, |to| to.put_item(reborrow(&value), expiry, now));
            session.enter_due(to, due_of_new(&value), now);
            Ok(true)
        })
    }

    /// Runs `f` while this session holds the keys: no other session sees a state in the middle of `f`, and none changes
    /// the keys meanwhile. An empty list stands for all keys of the store. Other sessions' operations on these keys
    /// wait, so `f` should be short. Operations in `f` may fail individually ([`StoreError::Stalled`]); call
    /// [`Session::admit`] first.
    ///
    /// # Panics
    /// If `f` accesses a key that is not among `keys`: waiting for that key while holding others could deadlock.
    pub fn exclusive<R>(&mut self, keys: &[&[u8]], f: impl FnOnce(&mut Session) -> R) -> R {
        let keys = if keys.is_empty() { Keys::All } else { self.keys(keys.iter().copied()) };
        self.hold(&keys, Hold::Exclusive, f)
    }

    /// Reads keys at one moment. `f` may run several times; only the result of its last run counts.
    pub(crate) fn read_many<R>(&mut self, keys: &[&[u8]], mut f: impl FnMut(&mut Index) -> R) -> R {
        let held = self.keys(keys.iter().copied());
        let mut f = |session: &mut Session| {
            for key in keys {
                session.clearing.settle((*key).into(), &mut session.index);
            }
            f(&mut session.index)
        };
        if self.gate.holds_any() {
            return self.hold(&held, Hold::Read, f);
        }
        let tries = (SPOILT_READS_MAX / keys.len().max(1)).clamp(1, 16);
        for _ in 0..tries {
            if self.gate.snapshot_begin(&held) {
                let result = f(self);
                if self.gate.snapshot_end(&held) {
                    return result;
                }
            }
        }
        self.hold(&held, Hold::Read, f)
    }

    pub(crate) fn hold_keys<'k, R>(
        &mut self,
        keys: impl IntoIterator<Item = &'k [u8]> + Clone,
        f: impl FnOnce(&mut Session) -> R,
    ) -> R {
        // Prefetched before the hold, to keep it short.
        let mut prefetched = no_keys();
        let n =
            prefetched.iter_mut().zip(keys.clone()).map(|(slot, key)| *slot = key.into()).count();
        self.index.prefetch(&mut prefetched[..n]);
        let keys = self.keys(keys);
        self.hold(&keys, Hold::WriteOnce, f)
    }

    fn move_item(
        &mut self,
        from: &[u8],
        to: &[u8],
        replace: bool,
        now: u64,
    ) -> Result<bool, StoreError> {
        self.check_key(to)?;
        if from == to {
            return if self.exists(from, now) { Ok(replace) } else { Err(StoreError::NoSuchKey) };
        }
        self.admit_little()?;
        self.hold_keys([from, to], |session| {
            session.check_role()?;
            let (value, expiry) = session.detached(from, now).ok_or(StoreError::NoSuchKey)?;
            if !replace && !session.is_free(to, now) {
                return Ok(false);
            }
            // A reader may still read under the old name, and must not see changes made under the new one.
            let value = session.unshared(value);
            session.change(to, |to| to.put_item(reborrow(&value), expiry, now));
            session.enter_due(to, due_of_new(&value), now);
            session.remove(from, now);
            Ok(true)
        })
    }

    /// Whether the key is absent and not just damaged: a damaged item must not be overwritten.
    pub(crate) fn is_free(&mut self, key: &[u8], now: u64) -> bool {
        let damages = self.index.damages();
        !self.exists(key, now) && self.index.damages() == damages
    }

    /// The value, or a copy if it is a large container: keys must never share an object that changes.
    fn unshared(&self, value: NewValue<'static>) -> NewValue<'static> {
        let copy = match &value {
            NewValue::Block { block, .. } => large::copy_of(block, &self.store),
            _ => None,
        };
        copy.unwrap_or(value)
    }

    /// A key's value, to be stored under another key, and its expiry.
    fn detached(&mut self, key: &[u8], now: u64) -> Option<(NewValue<'static>, Expiry)> {
        self.read(key, now, |entry| {
            let expiry = entry.expire_at.map_or(Expiry::Never, Expiry::At);
            is_present(&entry, now).then(|| (detach_entry(&entry), expiry))
        })
        .flatten()
    }

    fn check_pairs(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError> {
        let mut len = 0;
        for (key, value) in pairs {
            self.check_key(key)?;
            self.limits.check_value(value.len())?;
            len += key.len() + value.len();
        }
        self.admit_bytes(len)
    }

    fn put_pairs(&mut self, pairs: &[(&[u8], &[u8])], expiry: SetExpiry, now: u64) {
        for (key, value) in pairs {
            match expiry.of_item(now) {
                Some(expiry) => self.change(key, |key| key.put(encode(value), expiry, now)),
                None => drop(self.remove(key, now)),
            }
        }
    }
}

fn keys_of<'k>(pairs: &[(&'k [u8], &[u8])]) -> impl Iterator<Item = &'k [u8]> + Clone {
    pairs.iter().map(|(key, _)| *key)
}

/// The last pair of each key, because a key must change only once in a hold.
fn last_of_each<'p>(pairs: &'p [Pair<'p>]) -> Cow<'p, [Pair<'p>]> {
    if pairs.len() <= PAIRS_QUADRATIC {
        let is_last = |i: usize| !keys_of(&pairs[i + 1..]).any(|later| later == pairs[i].0);
        if (0..pairs.len()).all(is_last) {
            return Cow::Borrowed(pairs);
        }
        return (0..pairs.len()).filter(|i| is_last(*i)).map(|i| pairs[i]).collect();
    }
    let mut sorted = pairs.to_vec();
    // Stable, so equal keys stay in the order of their pairs.
    sorted.sort_by_key(|pair| pair.0);
    let mut last: Vec<Pair<'_>> = Vec::with_capacity(sorted.len());
    for pair in sorted {
        match last.last_mut() {
            Some(same) if same.0 == pair.0 => *same = pair,
            _ => last.push(pair),
        }
    }
    Cow::Owned(last)
}
