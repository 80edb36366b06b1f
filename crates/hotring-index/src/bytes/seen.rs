//! `Seen`: a snapshot of an item for a read-modify-write, and the changes of an item in place.
//!
//! Value and expiry are separate words, changed by CAS. An operation that replaces or removes an item
//! *because of* their contents must freeze them first, or a change in between would be lost. A change to an
//! item that has been marked meanwhile takes effect just before the mark; no observer can tell the difference.

use crate::bytes::item::{
    Bytes, DEAD, EXPIRY_FROZEN, EXPIRY_MAX, block_of, expiry_of, expiry_time, is_fixed, is_long,
    is_past, kind_of, size, value, version_of, word_of,
};
use crate::bytes::value::{Content, Entry, Expiry, Value};
use crate::core::hooks::{Step, cas, sometimes};
use crate::core::item::{Item, Kind};
use crate::core::sync::Ordering;
use crate::core::word::{FROZEN, SIGN};
use crate::engine::Hit;

/// A snapshot of an item: the value word and the expiry as a read-modify-write read them.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) hit: Hit,
    /// The value word, frozen or not.
    pub(crate) word: Option<u64>,
    pub(crate) expiry: Option<u64>,
}

/// Prevents the renewal of an expired item. False if the item was renewed or is not expired.
pub(crate) fn doom(kind: &Bytes, item: Item, now: u64) -> bool {
    let Some(word) = kind.expiry(item) else { return false };
    // ORDERING: Relaxed, validated by the CAS.
    let expiry = word.load(Ordering::Relaxed);
    if !is_past(expiry, now) {
        return false;
    }
    // ORDERING: AcqRel: a renewal either happens before, or sees DEAD.
    expiry & DEAD != 0 || cas(word, expiry, expiry | DEAD, Ordering::AcqRel, Step::DoomLost)
}

/// Whether the item is unexpired at `now`. Freezes its expiry, so that the answer holds until the item is
/// marked. For operations that replace or remove the item regardless of its value.
pub(crate) fn stays_live(kind: &Bytes, item: Item, now: u64) -> bool {
    let Some(word) = kind.expiry(item) else { return true };
    // ORDERING: AcqRel: earlier changes are seen, later ones fail.
    !is_past(word.fetch_or(EXPIRY_FROZEN, Ordering::AcqRel), now)
}

#[derive(PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    /// The item has changed since.
    Changed,
    /// This item cannot hold the value in place: a copy is needed.
    NeedsCopy,
}

/// Writes a value into the item's word, if it has one of the same kind and may change.
pub(crate) fn write_word(hit: Hit, value: Content<'_>, expected: Option<u64>) -> Written {
    let Content::Word { kind, word: new } = value else { return Written::NeedsCopy };
    let Some(word) = word_of(hit.item) else { return Written::NeedsCopy };
    let same_sign = (new & FROZEN != 0) == hit.word.is(SIGN);
    let fixed = expiry_of(hit.item).is_some() && expected.is_none();
    if kind_of(hit.item) != kind || !same_sign || fixed || is_fixed(hit.item) {
        return Written::NeedsCopy;
    }
    // ORDERING: Relaxed, validated by the CAS.
    let mut old = expected.unwrap_or_else(|| word.load(Ordering::Relaxed));
    loop {
        if old & FROZEN != 0 {
            sometimes!(Frozen);
            return Written::NeedsCopy;
        }
        // ORDERING: AcqRel: a reader of the value sees everything that its writer had seen.
        match word.compare_exchange(old, new & !FROZEN, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Written::Yes,
            Err(_) if expected.is_some() => return Written::Changed,
            Err(now) => old = now,
        }
    }
}

impl Seen {
    #[inline]
    pub(crate) fn of(hit: Hit) -> Self {
        // ORDERING: Acquire pairs with the AcqRel of in-place writes.
        let word = word_of(hit.item).map(|word| word.load(Ordering::Acquire));
        // ORDERING: Acquire, likewise.
        let expiry = expiry_of(hit.item).map(|expiry| expiry.load(Ordering::Acquire));
        Self { hit, word, expiry }
    }

    #[inline]
    pub(crate) fn is_past(&self, now: u64) -> bool {
        self.expiry.is_some_and(|expiry| is_past(expiry, now))
    }

    /// Always inlined: most callers use one or two fields, and the others cost as much as the rest of a read.
    #[inline(always)]
    pub(crate) fn entry<'a>(&self) -> Entry<'a> {
        let item = self.hit.item;
        if is_long(item) {
            return self.long_entry();
        }
        Entry {
            key: Bytes::key(item),
            value: value(item, self.hit.word, self.word),
            expire_at: self.expiry.and_then(expiry_time),
            version: version_of(item),
            footprint: crate::core::arena::footprint(size(item)),
            block: None,
        }
    }

    /// As `entry`, for a value in a block.
    #[cold]
    #[inline(never)]
    fn long_entry<'a>(&self) -> Entry<'a> {
        let item = self.hit.item;
        let block = block_of(item).expect("it is long");
        Entry {
            key: Bytes::key(item),
            value: Value::Bytes { kind: kind_of(item), bytes: block.bytes() },
            expire_at: self.expiry.and_then(expiry_time),
            version: version_of(item),
            footprint: crate::core::arena::footprint(size(item)) + block.fair_share(),
            block: Some(block),
        }
    }

    /// Whether an in-place write of the value leaves the right expiry.
    pub(crate) fn may_stay(&self, expiry: Expiry) -> bool {
        match expiry {
            Expiry::Keep => true,
            Expiry::Never => self.expiry.is_none(),
            Expiry::At(_) => false,
        }
    }

    pub(crate) fn next_expiry(&self, expiry: Expiry) -> Option<u64> {
        match expiry {
            Expiry::Never => None,
            Expiry::At(at) => Some(at.max(1)),
            Expiry::Keep => self.expiry.and_then(expiry_time),
        }
    }

    /// Changes the expiry field in place. Some(false) if it has changed since; None if a copy is needed.
    pub(crate) fn expire_in_place(&self, expiry: Expiry) -> Option<bool> {
        let item = self.hit.item;
        let at = match expiry {
            // The count of expiring items depends on the presence of the field.
            Expiry::Never => return None,
            Expiry::At(at) => at.clamp(1, EXPIRY_MAX),
            Expiry::Keep => return Some(true),
        };
        let (word, old) = (expiry_of(item)?, self.expiry?);
        if word_of(item).is_some() {
            // If the item has a value word, a reader could see the new expiry with an old value.
            return None;
        }
        if old & (EXPIRY_FROZEN | DEAD) != 0 || version_of(item).is_some() {
            return None;
        }
        // ORDERING: AcqRel: a reader of the new expiry sees everything that we had seen.
        Some(word.compare_exchange(old, at, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    /// Freezes value and expiry. False if they have changed since.
    pub(crate) fn freeze(&self) -> bool {
        let item = self.hit.item;
        if let (Some(word), Some(seen)) = (word_of(item), self.word) {
            // ORDERING: AcqRel: earlier in-place writes are seen, later ones fail.
            if (word.fetch_or(FROZEN, Ordering::AcqRel) ^ seen) & !FROZEN != 0 {
                return false;
            }
        }
        if let (Some(word), Some(seen)) = (expiry_of(item), self.expiry) {
            // ORDERING: AcqRel, likewise.
            let old = word.fetch_or(EXPIRY_FROZEN, Ordering::AcqRel);
            if old & DEAD != 0 || (old ^ seen) & !EXPIRY_FROZEN != 0 {
                return false;
            }
        }
        true
    }
}
