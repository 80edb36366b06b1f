//! Checks the invariants of a table at rest, for the suites of the model checkers.

use super::GCuckoo;
use super::bucket_pair::{Entry, tag_of};
use super::lock::{FROZEN, LOCKED};
use super::page::{Page, View};
use hotring_index::checks::Checked;
use hotring_index::sync::Ordering;
use hotring_index::toolkit::{Index, Kind, Session};
use hotring_index::word::{MARK, Next};
use std::collections::HashSet;

impl<const S: usize> Checked for GCuckoo<S> {
    /// Pages, tags, buckets, stashes and graphs agree, no lock is held, and every item that is not
    /// retired is in the table, once.
    fn check_at_rest<K: Kind>(session: &mut Session<K, Self>, index: &Index<K, Self>) {
        let pinned = session.pin_to_look();
        let mut held = HashSet::new();
        pinned.engine.directory.for_each(|page| {
            check_page(page, &pinned.shared.kind, &mut held);
        });
        let alive: HashSet<u64> = index.alive().collect();
        assert_eq!(alive, held, "an item is in the table or retired");
    }
}

fn check_page<K: Kind, const S: usize>(page: &Page<S>, kind: &K, held: &mut HashSet<u64>) {
    for group in 0..page.groups.len() {
        assert_eq!(page.groups.load(group) & (LOCKED | FROZEN), 0, "a lock is held");
    }
    let view = View { page, kind, since: 0 };
    let (mut in_tables, mut in_stash) = (0, 0);
    let mut check = |word: Entry, bucket: Option<u32>| {
        let item = view.item(word);
        let hash = kind.item_hash(item);
        assert!(item.lifetime().is_alive(), "a retired item is in the table");
        // ORDERING: Acquire, as for readers.
        assert!(!Next(item.next().load(Ordering::Acquire)).is(MARK), "a dead item is in the table");
        assert!(held.insert(item.address()), "an item is in the table twice");
        assert_eq!(hash & ((1 << page.depth) - 1), page.prefix, "an item is in the wrong page");
        assert_eq!(word.tag(), tag_of(hash, page.depth), "a tag differs from that of its item");
        let at = page.buckets_of(hash);
        assert!(
            bucket.is_none_or(|b| b == at.one || b == at.two),
            "an item is in the wrong bucket"
        );
    };
    for slot in 0..page.slots() as u32 {
        let word = page.load(slot);
        if !word.is_vacant() {
            check(word, Some(slot / S as u32));
            in_tables += 1;
        }
    }
    for index in 0..page.shelf().len() {
        let word = page.load_stash(index);
        if !word.is_vacant() {
            check(word, None);
            in_stash += 1;
        }
    }
    assert_eq!(page.stashed(), in_stash, "the count of the stash is wrong");
    let mut state = page.state.lock();
    if S == 1 {
        assert_eq!(state.items, in_tables, "the count of items is wrong");
    }
    let words = (0..page.slots() as u32).map(|slot| page.load(slot)).filter(|w| !w.is_vacant());
    let edges: Vec<_> = words.map(|word| view.buckets_of(word)).collect();
    if let Some(graph) = &mut state.graph {
        let full: Vec<bool> = (0..2 * page.buckets).map(|b| graph.is_full(b)).collect();
        graph.rebuild(edges.into_iter());
        for (bucket, full) in full.into_iter().enumerate() {
            let is_full = graph.is_full(bucket as u32);
            assert!(!full || is_full, "the graph reports a component with a vacancy as full");
        }
    }
}
