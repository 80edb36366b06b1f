//! Doubly linked lists through what they hold, one for each level of use. The fullest comes first:
//! what is almost empty is left alone, so that it becomes empty.

use std::cell::Cell;
use std::ptr::{NonNull, null};

/// The part of a header by which bins hold it. Zeros are a node that is in no bin.
pub(super) struct Node {
    before: Cell<*const Node>,
    after: Cell<*const Node>,
    /// The bin's number and 1; 0 is none.
    place: Cell<u8>,
}

impl Node {
    /// Out of any bin; for memory that is used again.
    pub(super) fn reset(&self) {
        self.before.set(null());
        self.after.set(null());
        self.place.set(0);
    }
}

/// Lists by number. Whoever has it also has the nodes in it: none is touched by anybody else.
pub(super) struct Bins<const N: usize> {
    heads: [*const Node; N],
    /// A bit for each list that is not empty.
    filled: u64,
}

impl<const N: usize> Bins<N> {
    pub(super) const EMPTY: Self = {
        assert!(N <= 64, "a bit each");
        Self { heads: [null(); N], filled: 0 }
    };

    /// A node of the highest list that has any.
    pub(super) fn fullest(&self) -> Option<NonNull<Node>> {
        let bin = 63u32.checked_sub(self.filled.leading_zeros())?;
        NonNull::new(self.heads[bin as usize].cast_mut())
    }

    /// Where the node belongs from now on; `None` is nowhere.
    ///
    /// # Safety
    /// The node is in none but these bins, and stays where it is in memory until it is taken out.
    #[inline]
    pub(super) unsafe fn place(&mut self, node: &Node, bin: Option<u32>) {
        let place = bin.map_or(0, |bin| bin as u8 + 1);
        if node.place.get() == place {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.move_to(node, place) };
    }

    /// # Safety
    /// As for `place`.
    unsafe fn move_to(&mut self, node: &Node, place: u8) {
        if let Some(bin) = node.place.get().checked_sub(1) {
            let (before, after) = (node.before.get(), node.after.get());
            // SAFETY: nodes in bins stay in memory until they are taken out.
            if let Some(before) = unsafe { before.as_ref() } {
                before.after.set(after);
            } else {
                self.heads[bin as usize] = after;
                if after.is_null() {
                    self.filled &= !(1 << bin);
                }
            }
            // SAFETY: as above.
            if let Some(after) = unsafe { after.as_ref() } {
                after.before.set(before);
            }
        }
        node.reset();
        if let Some(bin) = place.checked_sub(1) {
            let head = &mut self.heads[bin as usize];
            // SAFETY: as above.
            if let Some(after) = unsafe { head.as_ref() } {
                after.before.set(node);
            }
            node.after.set(*head);
            *head = node;
            node.place.set(place);
            self.filled |= 1 << bin;
        }
    }
}
