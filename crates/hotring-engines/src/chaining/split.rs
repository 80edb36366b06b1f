//! Splitting a bucket: six steps, each of which anybody can take, and finish for another.

use crate::chaining::Chaining;
use crate::chaining::word::{Head, SEALED, address, low_bits};
use crate::item::{Item, Kind};
use crate::rare::{lost, sometimes, wrong};
use crate::session::Pinned;
use crate::sync::Ordering;
use crate::word::{MARK, Next, REPL};

/// Private copies of what leaves a bucket, linked among themselves.
#[derive(Default)]
struct Copies {
    first: u64,
    last: Option<Item>,
    count: u64,
}

impl<K: Kind> Pinned<'_, K, Chaining> {
    /// Splits a bucket that is ready, if it is not on the table's level yet, and finishes the split
    /// that somebody else has begun. The caller looks again: it may have been too late, or too early.
    #[cold]
    #[inline(never)]
    pub(crate) fn split(&mut self, index: u64) {
        let mut head = self.engine.table.head(index);
        if head.is_frozen() {
            sometimes!(SplitHelped);
        } else {
            if head.level() >= self.engine.table.level() {
                return;
            }
            let word = self.engine.table.word(index);
            let after = head.frozen();
            // ORDERING: AcqRel: inserts come before, or fail.
            let cas =
                || word.compare_exchange(head.0, after.0, Ordering::AcqRel, Ordering::Relaxed);
            if lost!(FreezeLost, cas()) {
                return;
            }
            head = after;
        }
        self.finish_split(index, head);
    }

    /// Steps 2 to 6 of a split.
    fn finish_split(&mut self, index: u64, head: Head) {
        let sibling = head.sibling(index);
        wrong!(self, ChainMarksEarly => let _ = self.copy_leaving(head, sibling).map(|copies| self.discard_copies(&copies)); self.mark_left(head, sibling););
        if !self.engine.table.head(sibling).is_ready()
            && let Some(copies) = self.copy_leaving(head, sibling)
        {
            self.publish(head, sibling, &copies);
        }
        self.mark_left(head, sibling);
        let (word, after) = (self.engine.table.word(index), head.after_split());
        // ORDERING: AcqRel: who sees the next level sees what left marked, and its copies.
        if word.compare_exchange(head.0, after.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.engine.table.count_split();
            self.tidy(index);
        }
    }

    /// Step 4.
    fn publish(&mut self, head: Head, sibling: u64, copies: &Copies) {
        let word = self.engine.table.word(sibling);
        let after = Head::new(head.level() + 1, copies.first);
        // ORDERING: AcqRel publishes the copies to Acquire walks.
        if word.compare_exchange(0, after.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // ORDERING: Relaxed, statistics.
            self.engine.items_copied.fetch_add(copies.count, Ordering::Relaxed);
        } else {
            sometimes!(CopiesUnused);
            self.discard_copies(copies);
        }
    }

    /// Steps 2 and 3. None: the sibling is ready, so nobody needs copies any more.
    fn copy_leaving(&mut self, head: Head, sibling: u64) -> Option<Copies> {
        let mut copies = Copies::default();
        let mut at = head.first();
        while at != 0 {
            let item = self.item(at);
            let leaves = self.leaves(item, head, sibling);
            let (word, is_live) = if leaves { self.seal(item) } else { (self.next(item), false) };
            at = address(word.0);
            if !is_live {
                continue;
            }
            if self.engine.table.head(sibling).is_ready() {
                sometimes!(CopyingEnded);
                self.discard_copies(&copies);
                return None;
            }
            let copy = self.copy(item);
            match copies.last {
                Some(last) => self.point(last, copy.address()),
                None => copies.first = copy.address(),
            }
            copies.last = Some(copy);
            copies.count += 1;
        }
        Some(copies)
    }

    /// Whether an item is of those that leave for the sibling; what left for another one before and
    /// is still linked is not.
    fn leaves(&self, item: Item, head: Head, sibling: u64) -> bool {
        low_bits(self.shared.kind.item_hash(item), head.level() + 1) == sibling
    }

    fn next(&self, item: Item) -> Next {
        // ORDERING: Acquire, as for every step of a walk.
        Next(item.next().load(Ordering::Acquire))
    }

    /// Seals an item unless it is dead; its word from then on, and whether it was live.
    fn seal(&self, item: Item) -> (Next, bool) {
        let mut word = self.next(item);
        loop {
            if word.is(SEALED) {
                return (word, true);
            }
            if word.is(MARK) {
                return (word, false);
            }
            if wrong!(self, ChainUnsealed) {
                return (word, true);
            }
            let after = word.0 | SEALED | REPL;
            let next = item.next();
            // ORDERING: AcqRel: removals, replacements and unlinkings behind it come before, or fail.
            let cas = || next.compare_exchange(word.0, after, Ordering::AcqRel, Ordering::Relaxed);
            if !lost!(SealLost, cas()) {
                return (Next(after), true);
            }
            word = self.next(item);
        }
    }

    /// A private copy of a sealed item, whose value and expiry change no more.
    fn copy(&mut self, item: Item) -> Item {
        let kind = &self.shared.kind;
        if !wrong!(self, ChainUnfrozen) {
            kind.freeze(item);
        }
        kind.copy_of(item, |size| self.alloc(size))
    }

    fn discard_copies(&mut self, copies: &Copies) {
        let mut at = copies.first;
        while at != 0 {
            // SAFETY: P: a private item of ours.
            let copy = unsafe { Item::at(at) };
            // ORDERING: Relaxed, private.
            at = address(copy.next().load(Ordering::Relaxed));
            self.discard(copy);
        }
    }

    /// Step 5, once the sibling is ready.
    fn mark_left(&mut self, head: Head, sibling: u64) {
        let mut at = head.first();
        while at != 0 {
            let item = self.item(at);
            let word = self.next(item);
            at = address(word.0);
            // Who is late may meet what the next split has sealed: not its own, not yet to be marked.
            if word.is(SEALED) && !word.is(MARK) && self.leaves(item, head, sibling) {
                // ORDERING: AcqRel: the publication of the copies comes before.
                item.next().fetch_or(MARK, Ordering::AcqRel);
                wrong!(self, ChainRetires => self.retire(item););
            }
        }
    }
}
