//! Growth: a page that is too full is split into two, by one more bit of the hash.
//!
//! The paper leaves resizing out, and of rehashing everything it only says that it takes long. Here
//! one operation pays for one page at most, some 4,000 slots. Readers go on with the old page
//! meanwhile, and need not know; writers of this page wait until its halves are in the directory.

use super::GCuckoo;
use super::lock::FROZEN;
use super::page::{Page, Scratch};
use super::place::Entry;
use crate::item::Kind;
use crate::prefetch::prefetch_item;
use crate::rare::{sometimes, wrong};
use crate::session::Pinned;

/// Items that are fetched ahead of the one that is moved.
const AHEAD: usize = 16;

impl<'s, K: Kind, const S: usize> Pinned<'s, K, GCuckoo<S>> {
    /// Splits a page. False: somebody has, or it may not be split any more.
    #[cold]
    pub(crate) fn split(&mut self, page: &'s Page<S>) -> bool {
        let directory = &self.engine.directory;
        let participant = &self.local.participant;
        let state = page.state.lock();
        if page.groups.look(0) & FROZEN != 0 {
            sometimes!(SplitLate);
            return false;
        }
        if !directory.widen(page.depth, || participant.grace()) {
            return false;
        }
        // From here on the page is as it is (V5).
        if !wrong!(self, SplitUnfrozen) {
            page.groups.freeze();
        }
        let halves = self.halve(page);
        let participant = &self.local.participant;
        directory.publish(page, halves, || participant.grace());
        self.local.engine.counts.splits.add(1);
        drop(state);
        true
    }

    /// Both halves of a page that is frozen.
    fn halve(&self, page: &'s Page<S>) -> [Page<S>; 2] {
        let half = |bit: u64| {
            let prefix = page.prefix | bit << page.depth;
            Page::new(page.depth + 1, prefix, page.buckets)
        };
        let halves = [half(0), half(1)];
        let mut states = [halves[0].state.lock(), halves[1].state.lock()];
        let mut scratch = Scratch::default();
        let (view, kind) = (self.view(page), &self.shared.kind);
        let words: Vec<Entry> = page.words().collect();
        for (i, &word) in words.iter().enumerate() {
            if let Some(later) = words.get(i + AHEAD) {
                prefetch_item::<K>(later.address());
            }
            let item = view.item(word);
            let hash = kind.item_hash(item);
            let k = (hash >> page.depth & 1) as usize;
            halves[k].fill(&mut states[k], kind, (hash, item), &mut scratch);
        }
        drop(states);
        halves
    }

    /// Splits every page, as far as that may be; true if there was one.
    pub(crate) fn split_all(&mut self) -> bool {
        let (mut position, mut any) = (0u64, false);
        loop {
            let page = self.page(position.reverse_bits());
            any |= self.split(page);
            position = page.end();
            if position == 0 {
                return any;
            }
        }
    }
}
