//! Splitting a bucket in six steps, each of which any session can do for another one.

use crate::chaining::Chaining;
use crate::chaining::word::{Head, SEALED, address, low_bits};
use crate::hooks::{Step, cas};
use hotring_index::sync::Ordering;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Item, Kind};
use hotring_index::word::{MARK, Next, REPL};
use hotring_index::{sometimes, wrong};

/// Private copies of the leaving items, linked among themselves.
#[derive(Default)]
struct Copies {
    first: u64,
    last: Option<Item>,
    count: u64,
}

impl Chaining {
    /// Splits a bucket that is ready, if it is not on the table's level yet, and finishes a split that another session
    /// has begun. The caller must read the bucket again, as the call may have come too late or too early.
    #[cold]
    #[inline(never)]
    pub(crate) fn split<K: Kind>(p: &mut Pinned<'_, K, Self>, index: u64) {
        let mut head = p.engine.table.head(index);
        if head.is_frozen() {
            sometimes!(SplitHelped);
        } else {
            if head.level() >= p.engine.table.level() {
                return;
            }
            let word = p.engine.table.word(index);
            let after = head.frozen();
            // ORDERING: AcqRel: inserts come before, or fail.
            if !cas(word, head.0, after.0, Ordering::AcqRel, Step::FreezeLost) {
                return;
            }
            head = after;
        }
        Self::finish_split(p, index, head);
    }

    /// Steps 2 to 6 of a split.
    fn finish_split<K: Kind>(p: &mut Pinned<'_, K, Self>, index: u64, head: Head) {
        let sibling = head.sibling(index);
        wrong!(p, ChainMarksEarly => let _ = Self::copy_leaving(p, head, sibling).map(|copies| Self::discard_copies(p, &copies)); Self::mark_left(p, head, sibling););
        if !p.engine.table.head(sibling).is_ready()
            && let Some(copies) = Self::copy_leaving(p, head, sibling)
        {
            Self::publish(p, head, sibling, &copies);
        }
        Self::mark_left(p, head, sibling);
        let (word, after) = (p.engine.table.word(index), head.after_split());
        // ORDERING: AcqRel: a session that sees the next level sees the leaving items marked, and their
        // copies.
        if word.compare_exchange(head.0, after.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            p.engine.table.count_split();
            Self::tidy(p, index);
        }
    }

    /// Step 4: publishes the copies as the sibling's chain.
    fn publish<K: Kind>(p: &mut Pinned<'_, K, Self>, head: Head, sibling: u64, copies: &Copies) {
        let word = p.engine.table.word(sibling);
        let after = Head::new(head.level() + 1, copies.first);
        // ORDERING: AcqRel publishes the copies to Acquire walks.
        if word.compare_exchange(0, after.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // ORDERING: Relaxed, statistics.
            p.engine.items_copied.fetch_add(copies.count, Ordering::Relaxed);
        } else {
            sometimes!(CopiesUnused);
            Self::discard_copies(p, copies);
        }
    }

    /// Steps 2 and 3: seals and copies the leaving items. None: the sibling is ready, so the copies
    /// are not needed.
    fn copy_leaving<K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        head: Head,
        sibling: u64,
    ) -> Option<Copies> {
        let mut copies = Copies::default();
        let mut at = head.first();
        while at != 0 {
            let item = Self::item(p, at);
            let leaves = Self::leaves(p, item, head, sibling);
            let (word, is_live) =
                if leaves { Self::seal(p, item) } else { (Self::next(item), false) };
            at = address(word.0);
            if !is_live {
                continue;
            }
            if p.engine.table.head(sibling).is_ready() {
                sometimes!(CopyingEnded);
                Self::discard_copies(p, &copies);
                return None;
            }
            let copy = Self::copy(p, item);
            match copies.last {
                Some(last) => Self::point(last, copy.address()),
                None => copies.first = copy.address(),
            }
            copies.last = Some(copy);
            copies.count += 1;
        }
        Some(copies)
    }

    /// Whether an item leaves for this sibling. False for an item that left for another sibling before and is still
    /// linked.
    fn leaves<K: Kind>(p: &Pinned<'_, K, Self>, item: Item, head: Head, sibling: u64) -> bool {
        low_bits(p.shared.kind.item_hash(item), head.level() + 1) == sibling
    }

    fn next(item: Item) -> Next {
        // ORDERING: Acquire, as for every step of a walk.
        Next(item.next().load(Ordering::Acquire))
    }

    /// Seals an item unless it is dead. Returns its word from then on, and whether it was live.
    fn seal<K: Kind>(p: &Pinned<'_, K, Self>, item: Item) -> (Next, bool) {
        let mut word = Self::next(item);
        loop {
            if word.is(SEALED) {
                return (word, true);
            }
            if word.is(MARK) {
                return (word, false);
            }
            if wrong!(p, ChainUnsealed) {
                return (word, true);
            }
            let after = word.0 | SEALED | REPL;
            // ORDERING: AcqRel: removals, replacements and unlinkings behind it come before, or fail.
            if cas(item.next(), word.0, after, Ordering::AcqRel, Step::SealLost) {
                return (Next(after), true);
            }
            word = Self::next(item);
        }
    }

    /// A private copy of a sealed item, whose value and expiry are frozen.
    fn copy<K: Kind>(p: &mut Pinned<'_, K, Self>, item: Item) -> Item {
        let kind = &p.shared.kind;
        if !wrong!(p, ChainUnfrozen) {
            kind.freeze(item);
        }
        kind.copy_of(item, |size| p.alloc(size))
    }

    fn discard_copies<K: Kind>(p: &mut Pinned<'_, K, Self>, copies: &Copies) {
        let mut at = copies.first;
        while at != 0 {
            // SAFETY: P: a private item of ours.
            let copy = unsafe { Item::at(at) };
            // ORDERING: Relaxed, private.
            at = address(copy.next().load(Ordering::Relaxed));
            p.discard(copy);
        }
    }

    /// Step 5: marks the sealed items. The sibling must be ready.
    fn mark_left<K: Kind>(p: &mut Pinned<'_, K, Self>, head: Head, sibling: u64) {
        let mut at = head.first();
        while at != 0 {
            let item = Self::item(p, at);
            let word = Self::next(item);
            at = address(word.0);
            // A late helper may meet items sealed by the next split, which it must not mark.
            if word.is(SEALED) && !word.is(MARK) && Self::leaves(p, item, head, sibling) {
                // ORDERING: AcqRel: the publication of the copies comes before.
                item.next().fetch_or(MARK, Ordering::AcqRel);
                wrong!(p, ChainRetires => p.retire(item););
            }
        }
    }
}
