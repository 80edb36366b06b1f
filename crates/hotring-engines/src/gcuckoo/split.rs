//! Growth: a page that is too full is split into two, by one more bit of the hash.
//!
//! The paper leaves out resizing, and says of rehashing everything only that it takes long. Here
//! one operation pays for one page at most, some 4,000 slots. Readers continue with the old page
//! meanwhile; writers of this page wait until its halves are in the directory.

use super::GCuckoo;
use super::bucket_pair::Entry;
use super::lock::FROZEN;
use super::page::{Page, Scratch};
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::prefetch_item;
use hotring_index::{sometimes, wrong};

/// The distance between the item that is prefetched and the item that is moved.
const PREFETCH_DISTANCE: usize = 16;

impl<const S: usize> GCuckoo<S> {
    /// Splits a page. False if another session has split it, or if it must not be split further.
    #[cold]
    pub(crate) fn split<'s, K: Kind>(p: &mut Pinned<'s, K, Self>, page: &'s Page<S>) -> bool {
        let directory = &p.engine.directory;
        let participant = &p.local.participant;
        let state = page.state.lock();
        if page.groups.load(0) & FROZEN != 0 {
            sometimes!(SplitLate);
            return false;
        }
        if !directory.widen(page.depth, || participant.grace()) {
            return false;
        }
        // From here on the page does not change (V5).
        if !wrong!(p, SplitUnfrozen) {
            page.groups.freeze();
        }
        let halves = Self::halve(p, page);
        let participant = &p.local.participant;
        directory.publish(page, halves, || participant.grace());
        p.local.engine.counts.splits.add(1);
        drop(state);
        true
    }

    /// Makes both halves of a frozen page.
    fn halve<'s, K: Kind>(p: &Pinned<'s, K, Self>, page: &'s Page<S>) -> [Page<S>; 2] {
        let half = |bit: u64| {
            let prefix = page.prefix | bit << page.depth;
            Page::new(page.depth + 1, prefix, page.buckets)
        };
        let halves = [half(0), half(1)];
        let mut states = [halves[0].state.lock(), halves[1].state.lock()];
        let mut scratch = Scratch::default();
        let (view, kind) = (Self::view(p, page), &p.shared.kind);
        let words: Vec<Entry> = page.words().collect();
        for (i, &word) in words.iter().enumerate() {
            if let Some(later) = words.get(i + PREFETCH_DISTANCE) {
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

    /// Splits every page that may be split; true if there was one.
    pub(crate) fn split_all<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        let (mut position, mut any) = (0u64, false);
        loop {
            let page = Self::page(p, position.reverse_bits());
            any |= Self::split(p, page);
            position = page.end();
            if position == 0 {
                return any;
            }
        }
    }
}
