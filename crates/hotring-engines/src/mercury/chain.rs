//! A locked bucket and its chain, which only the holder of the lock reads and changes.

use crate::mercury::locking::{Bucket, HASMOVED};
use hotring_index::sync::spin::is_over;
use hotring_index::sync::{Ordering, TallyU64};
use hotring_index::toolkit::Hit;
use hotring_index::toolkit::Item;
use hotring_index::word::{Link, MADE_WITH, MARK, Next, REPL};

/// A time later than any retirement, for `Lifetime::check_access`: an item in a chain is never
/// retired.
const NEVER: u64 = u64::MAX - 1;

/// A locked bucket. Unlocked when it is dropped.
pub(crate) struct Held<'t, B: Bucket> {
    bucket: &'t B,
    /// The next value of the bucket's word.
    word: u64,
}

/// An item of a chain, and its predecessor.
pub(crate) struct Spot {
    before: Option<Item>,
    pub(crate) hit: Hit,
}

impl<'t, B: Bucket> Held<'t, B> {
    #[inline(always)]
    pub(crate) fn lock(bucket: &'t B, waits: &TallyU64) -> Self {
        Self { bucket, word: bucket.lock(waits) }
    }

    /// Whether the chain is in the larger table.
    #[inline(always)]
    pub(crate) fn has_moved(&self) -> bool {
        self.word & HASMOVED != 0
    }

    /// Marks the bucket as moved. The caller owns the old chain.
    pub(crate) fn set_moved(&mut self) {
        self.word = HASMOVED;
    }

    /// The items of the chain, in order.
    #[inline(always)]
    pub(crate) fn items(&self) -> Items {
        Items { before: None, link: Next(self.word).link() }
    }

    /// The first item that `is_wanted` accepts, and the number of items that were looked at.
    #[inline(always)]
    pub(crate) fn search(&self, mut is_wanted: impl FnMut(Item) -> bool) -> (Option<Spot>, u32) {
        let mut visits = 0;
        for spot in self.items() {
            visits += 1;
            if is_wanted(spot.hit.item) {
                return (Some(spot), visits);
            }
        }
        (None, visits)
    }

    /// Inserts a private item at the head.
    pub(crate) fn push(&mut self, item: Item) {
        set_next(item, flags(item) & MADE_WITH, Next(self.word).link());
        self.word = item.address();
    }

    /// Takes an item out, which is dead from now on.
    pub(crate) fn remove(&mut self, spot: &Spot) {
        let word = spot.hit.word;
        set_next(spot.hit.item, word.0 | MARK, word.link());
        self.link_after(spot, word.link());
    }

    /// Replaces an item, which is dead from now on, by the private `copy`.
    pub(crate) fn replace(&mut self, spot: &Spot, copy: Item) {
        let word = spot.hit.word;
        set_next(copy, flags(copy) & MADE_WITH, word.link());
        set_next(spot.hit.item, word.0 | MARK | REPL, word.link());
        self.link_after(spot, Link::item(copy.address()));
    }

    fn link_after(&mut self, spot: &Spot, link: Link) {
        match spot.before {
            Some(before) => set_next(before, flags(before), link),
            None => self.word = link.address(),
        }
    }
}

impl<B: Bucket> Drop for Held<'_, B> {
    #[inline(always)]
    fn drop(&mut self) {
        if !is_over() {
            self.bucket.unlock(self.word);
        }
    }
}

/// The `next` word of an item that is in the holder's chain, or private.
pub(crate) fn flags(item: Item) -> u64 {
    // ORDERING: Relaxed, the bucket's lock orders it.
    item.next().load(Ordering::Relaxed)
}

/// Sets the successor of such an item, and the flags to those of `flags`.
pub(crate) fn set_next(item: Item, flags: u64, link: Link) {
    // ORDERING: Release pairs with sessions that check, without the lock, how an item found earlier died
    // (`kill_present`); for all others the bucket's lock orders it.
    item.next().store(Next(flags).with(link).0, Ordering::Release);
}

/// The items of a chain. Its bucket must be locked or private meanwhile.
pub(crate) struct Items {
    before: Option<Item>,
    link: Link,
}

impl Items {
    /// The chain of a bucket's word, when no other thread is left.
    pub(crate) fn of_word(word: u64) -> Self {
        Self { before: None, link: Next(word).link() }
    }
}

impl Iterator for Items {
    type Item = Spot;

    #[inline(always)]
    fn next(&mut self) -> Option<Spot> {
        if self.link == Link::NONE {
            return None;
        }
        // SAFETY: P: an item is retired after it has left its chain, which takes the bucket's lock.
        let item = unsafe { Item::at(self.link.address()) };
        item.lifetime().check_access(NEVER);
        let word = Next(flags(item));
        self.link = word.link();
        let before = self.before.replace(item);
        Some(Spot { before, hit: Hit { item, word } })
    }
}
