//! Visiting the whole table, in the order of bit-reversed hashes.
//!
//! A page is one range of that order, and within it tags say where an item lies. A scan copies the
//! words of a page that are not before the cursor, all at one moment, so that no kick hides an item
//! from it, and looks only at those items that it comes to visit.

use super::GCuckoo;
use super::lock::{Frozen, LOCKED};
use super::page::Page;
use super::place::Entry;
use crate::config::Atomicity;
use crate::engine::Hit;
use crate::item::Kind;
use crate::rare::{sometimes, wrong};
use crate::session::Pinned;

/// Words that are sorted at first; a scan that goes on sorts twice as many each time.
const RUN_MIN: usize = 32;
/// Slots that cost as much as an item to pass.
const SLOTS_AN_ITEM: usize = 64;
/// Looks at a page without locks, before all of its groups are locked.
const LOOKS_MAX: u32 = 2;

const POSITION_SHIFT: u32 = 48;

impl<'s, K: Kind, const S: usize> Pinned<'s, K, GCuckoo<S>> {
    pub(crate) fn scan(
        &mut self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&mut Self, Hit) -> usize,
    ) -> (u64, usize) {
        let count = count.max(1);
        let (mut at, mut visited, mut passed) = (cursor, 0, 0);
        let mut words = std::mem::take(&mut self.local.engine.words);
        loop {
            let page = self.page(at.reverse_bits());
            self.copy_words(page, at, &mut words);
            passed += page.slots();
            let stop = self.visit(page, at, &mut words, |pinned, hit| {
                visited += hit.map_or(0, |hit| f(pinned, hit));
                visited >= count
            });
            at = stop.unwrap_or_else(|| page.end());
            let work = visited + passed / SLOTS_AN_ITEM;
            if at == 0 || visited >= count || work >= count {
                self.local.engine.words = words;
                return (at, work);
            }
        }
    }

    /// Visits items from the position `from` on, until `f` says that it is enough, and then those
    /// with the same tag. Returns where to go on, if it did not come to the end of the page. `f` gets
    /// None for an item that is gone.
    fn visit(
        &mut self,
        page: &'s Page<S>,
        from: u64,
        mut words: &mut [u64],
        mut f: impl FnMut(&mut Self, Option<Hit>) -> bool,
    ) -> Option<u64> {
        let (mut enough, mut last, mut run) = (false, None, RUN_MIN);
        while !words.is_empty() {
            let n = run.min(words.len());
            if n < words.len() {
                words.select_nth_unstable(n);
            }
            let (now, later) = words.split_at_mut(n);
            now.sort_unstable();
            for &word in &*now {
                let position = word >> POSITION_SHIFT;
                if enough && last != Some(position) {
                    return Some(page.base() + (position << (POSITION_SHIFT - page.depth)));
                }
                last = Some(position);
                // Only the address is left; the tag's place has the position.
                let item = self.view(page).item(Entry(word & !(u64::MAX << POSITION_SHIFT)));
                let shift = POSITION_SHIFT - page.depth;
                let start = page.base() + (position << shift);
                let at = self.shared.kind.item_hash(item).reverse_bits();
                // One that is elsewhere by its hash is damaged: shown with the beginning of its tag.
                let is_ours = at.wrapping_sub(page.base()) >> shift == position;
                let due = if is_ours { at } else { start };
                if due >= from {
                    let hit = self.live(item);
                    enough |= f(self, hit);
                }
            }
            (words, run) = (later, 2 * run);
        }
        None
    }

    /// Copies the words of a page that are not before a position, with their own positions in the
    /// place of their tags, as they are at one moment.
    fn copy_words(&self, page: &'s Page<S>, from: u64, words: &mut Vec<u64>) {
        let first = (from - page.base()) >> (POSITION_SHIFT - page.depth);
        let mut copy = || {
            words.clear();
            let some = page.words().filter(|word| word.position() >= first);
            words.extend(some.map(|word| word.position() << POSITION_SHIFT | word.address()));
        };
        let all = 0..page.groups.len();
        if self.engine.mode == Atomicity::Optimistic {
            for _ in 0..LOOKS_MAX {
                let before: Vec<u64> = all.clone().map(|g| page.groups.look(g)).collect();
                copy();
                let is_same = all.clone().all(|g| page.groups.look(g) == before[g as usize]);
                let locked = before.iter().any(|word| word & LOCKED != 0);
                if (is_same && !locked) || wrong!(self, TornScan) {
                    return;
                }
                sometimes!(ScannedAgain);
            }
        }
        let all: Vec<u32> = all.collect();
        let mode = self.engine.mode;
        // Frozen: nothing in the whole page changes any more.
        let taken = page.groups.take(&all, mode);
        copy();
        if taken != Err(Frozen) {
            page.groups.release(&all, mode, false);
        }
    }
}
