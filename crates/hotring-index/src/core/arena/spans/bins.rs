//! Intrusive doubly linked lists, one per level of use. Allocation takes the fullest node first, so that
//! nearly empty nodes are left alone and become empty.

use std::cell::Cell;
use std::ptr::{NonNull, null};

/// A node's links, inside the header of the node. All zeros means that it is in no bin.
pub(super) struct Node {
    before: Cell<*const Node>,
    after: Cell<*const Node>,
    /// The number of the bin plus 1; 0 means none.
    bin_plus_one: Cell<u8>,
}

impl Node {
    /// Resets the links of memory that is reused.
    pub(super) fn reset(&self) {
        self.before.set(null());
        self.after.set(null());
        self.bin_plus_one.set(0);
    }
}

/// Lists by number. Access to the bins includes access to their nodes.
pub(super) struct Bins<const N: usize> {
    heads: [*const Node; N],
    /// A bit per list, set if the list is not empty.
    filled: u64,
}

impl<const N: usize> Bins<N> {
    pub(super) const EMPTY: Self = {
        assert!(N <= 64, "a bit each");
        Self { heads: [null(); N], filled: 0 }
    };

    /// A node of the highest list that is not empty.
    pub(super) fn fullest(&self) -> Option<NonNull<Node>> {
        let bin = 63u32.checked_sub(self.filled.leading_zeros())?;
        NonNull::new(self.heads[bin as usize].cast_mut())
    }

    /// Moves the node to a bin, or to none.
    ///
    /// # Safety
    /// The node must be in these bins or in none, and must not move in memory while it is in a bin.
    #[inline]
    pub(super) unsafe fn set_bin(&mut self, node: &Node, bin: Option<u32>) {
        let bin_plus_one = bin.map_or(0, |bin| bin as u8 + 1);
        if node.bin_plus_one.get() == bin_plus_one {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.move_to(node, bin_plus_one) };
    }

    /// # Safety
    /// As for [`set_bin`](Self::set_bin).
    unsafe fn move_to(&mut self, node: &Node, bin_plus_one: u8) {
        if let Some(bin) = node.bin_plus_one.get().checked_sub(1) {
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
        if let Some(bin) = bin_plus_one.checked_sub(1) {
            let head = &mut self.heads[bin as usize];
            // SAFETY: as above.
            if let Some(after) = unsafe { head.as_ref() } {
                after.before.set(node);
            }
            node.after.set(*head);
            *head = node;
            node.bin_plus_one.set(bin_plus_one);
            self.filled |= 1 << bin;
        }
    }
}
