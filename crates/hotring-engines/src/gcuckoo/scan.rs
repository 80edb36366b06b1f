//! Scanning the entire table, in the order of bit-reversed hashes.
//!
//! A page is one range of that order, and within it tags say where an item lies. A scan copies the
//! words of a part of a page, all at one moment, so that no kick hides an item from it, and reads
//! only those items that it visits. The first part is sized for a few items, later parts are wider.

use super::GCuckoo;
use super::bucket_pair::{Entry, TAG_BITS};
use super::lock::{Frozen, LOCKED};
use super::page::Page;
use crate::settings::Atomicity;
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Hit, Scan};
use hotring_index::{sometimes, wrong};
use std::ops::Range;

/// Items that the first part should hold; a scan that continues takes four times as many each time.
const WANTED_MIN: u64 = 32;
/// Passing this many slots counts as much as an item.
const SLOTS_PER_ITEM: usize = 64;
/// Passed slots, counted in items, after which a scan that visits few items returns: eight empty
/// pages.
const WORK_MAX: usize = 512;
/// Attempts to copy from a page without locks, before all of its groups are locked.
const LOOKS_MAX: u32 = 2;

const POSITION_SHIFT: u32 = 48;
/// The number of positions in a page that tags distinguish.
const POSITIONS: u64 = 1 << TAG_BITS;

impl<const S: usize> Scan for GCuckoo<S> {
    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize) {
        let count = count.max(1);
        let (mut at, mut visited, mut passed) = (cursor, 0, 0);
        let (mut wanted, mut in_page) = (WANTED_MIN, None);
        let mut words = std::mem::take(&mut p.local.engine.words);
        loop {
            let page = Self::page(p, at.reverse_bits());
            let first = (at - page.base()) >> (POSITION_SHIFT - page.depth);
            // Assumes a page that is two thirds full until items have been counted.
            let items = in_page.unwrap_or(page.slots() * 2 / 3).max(1) as u64;
            let width = (POSITIONS.saturating_mul(wanted) / items).max(1);
            let end = first.saturating_add(width).min(POSITIONS);
            in_page = Some(Self::copy_words(p, page, first..end, &mut words));
            wanted = wanted.saturating_mul(4);
            passed += page.slots();
            words.sort_unstable();
            let stop = Self::visit(p, page, at, &words, |pinned, hit| {
                visited += hit.map_or(0, |hit| f(pinned, hit));
                visited >= count
            });
            at = stop.unwrap_or_else(|| position_of(page, end));
            let vain = passed / SLOTS_PER_ITEM;
            if at == 0 || visited >= count || vain >= count.max(WORK_MAX) {
                p.local.engine.words = words;
                return (at, visited + vain);
            }
        }
    }
}

impl<const S: usize> GCuckoo<S> {
    /// Visits items from the position `from` on until `f` returns true, and then the rest of the items with the same
    /// tag. Returns the position at which to continue, None if all items were visited. `f` gets None for an item that
    /// was removed.
    fn visit<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        page: &'s Page<S>,
        from: u64,
        words: &[u64],
        mut f: impl FnMut(&mut Pinned<'s, K, Self>, Option<Hit>) -> bool,
    ) -> Option<u64> {
        let (mut enough, mut last) = (false, None);
        for &word in words {
            let position = word >> POSITION_SHIFT;
            let start = position_of(page, position);
            if enough && last != Some(position) {
                return Some(start);
            }
            last = Some(position);
            // Keeps only the address: the bits of the tag hold the position.
            let item = Self::view(p, page).item(Entry(word & !(u64::MAX << POSITION_SHIFT)));
            let at = p.shared.kind.item_hash(item).reverse_bits();
            // An item whose hash implies another position is damaged: it is visited at the
            // beginning of its tag.
            let shift = POSITION_SHIFT - page.depth;
            let is_ours = at.wrapping_sub(page.base()) >> shift == position;
            if (if is_ours { at } else { start }) >= from {
                let hit = Self::live(p, item);
                enough |= f(p, hit);
            }
        }
        None
    }

    /// Copies the words of a part of a page as they are at one moment, with positions instead of
    /// tags. Returns the number of items in the entire page.
    fn copy_words<'s, K: Kind>(
        p: &Pinned<'s, K, Self>,
        page: &'s Page<S>,
        part: Range<u64>,
        words: &mut Vec<u64>,
    ) -> usize {
        let mut copy = || {
            words.clear();
            let all = page.words().inspect(|word| {
                if part.contains(&word.position()) {
                    words.push(word.position() << POSITION_SHIFT | word.address());
                }
            });
            all.count()
        };
        let all = 0..page.groups.len();
        if p.engine.mode == Atomicity::Optimistic {
            for _ in 0..LOOKS_MAX {
                let before: Vec<u64> = all.clone().map(|g| page.groups.load(g)).collect();
                let n = copy();
                let is_same = all.clone().all(|g| page.groups.load(g) == before[g as usize]);
                let locked = before.iter().any(|word| word & LOCKED != 0);
                if (is_same && !locked) || wrong!(p, TornScan) {
                    return n;
                }
                sometimes!(ScannedAgain);
            }
        }
        let all: Vec<u32> = all.collect();
        let mode = p.engine.mode;
        // Frozen: nothing in the page changes any more.
        let taken = page.groups.take(&all, mode);
        let n = copy();
        if taken != Err(Frozen) {
            page.groups.release(&all, mode, false);
        }
        n
    }
}

/// The first position of a bit-reversed tag; for the tag after the last, the end of the page.
fn position_of<const S: usize>(page: &Page<S>, tag: u64) -> u64 {
    if tag == POSITIONS {
        return page.end();
    }
    page.base() + (tag << (POSITION_SHIFT - page.depth))
}
