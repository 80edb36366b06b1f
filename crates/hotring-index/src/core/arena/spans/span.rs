//! Spans: runs of memory divided into blocks of one class, with lists of the free blocks. A span must be read
//! and changed only under the lock of its class, unless it is in no bin.

use super::bins::{Bins, Node};
use super::list::{FreeList, Run, link};
use super::poison;
use super::pool::{is_closing, span_memory, span_of};
use crate::core::arena::classes::{CLASSES, UNIT, Width, len_of, width_of};
use crate::core::sync::{Ordering, TallyU32};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};

/// Spans with free blocks have fewer than `1 << LEVELS` allocated ones.
const LEVELS: usize = (UNIT / 8).ilog2() as usize;

/// A span's header. The bins find it by its first field.
#[repr(C, align(64))]
pub(super) struct Span {
    pub(super) node: Node,
    /// Free blocks, linked from `head` to `tail`.
    head: Cell<*mut u8>,
    tail: Cell<*mut u8>,
    /// The first block that was never allocated.
    fresh_at: Cell<*mut u8>,
    listed: Figure,
    fresh: Figure,
    /// All blocks, allocated or not.
    blocks: Figure,
    class: Figure,
}

const _: () = assert!(size_of::<Span>() == 64, "a line, so that no two classes write the same one");

/// A number with one writer at a time, which any thread may read as an estimate.
#[derive(Default)]
pub(super) struct Figure(TallyU32);

impl Figure {
    #[inline]
    pub(super) fn get(&self) -> u32 {
        // ORDERING: Relaxed: a thread that bases a decision on the number holds the lock under which it changes,
        // or owns it.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, number: u32) {
        // ORDERING: Relaxed, as in `get`.
        self.0.store(number, Ordering::Relaxed);
    }
}

impl Span {
    /// The class, and the bytes of free and of allocated blocks. An estimate if they change meanwhile.
    pub(super) fn use_of(&self) -> (usize, usize, usize) {
        let class = (self.class.get() as usize).min(CLASSES - 1);
        let (all, len) = (self.blocks.get(), len_of(class));
        let free = (self.listed.get() + self.fresh.get()).min(all);
        (class, free as usize * len, (all - free) as usize * len)
    }

    /// Allocated blocks, including those in a session's cache.
    fn out(&self) -> u32 {
        self.blocks.get() - self.listed.get() - self.fresh.get()
    }

    /// The bin, by use. None if the span is full or its chunk is closing.
    fn bin(&self) -> Option<u32> {
        let out = self.out();
        (out < self.blocks.get() && !is_closing(self)).then(|| out.checked_ilog2().unwrap_or(0))
    }

    /// Divides a free span, owned by the caller, into blocks of a class.
    pub(super) fn begin(&self, class: usize) {
        let (start, len) = span_memory(self, width_of(class));
        let blocks = (len / len_of(class)) as u32;
        self.head.set(null_mut());
        self.tail.set(null_mut());
        self.fresh_at.set(start);
        self.listed.set(0);
        self.fresh.set(blocks);
        self.blocks.set(blocks);
        self.class.set(class as u32);
    }

    /// Allocates as many fresh blocks as the run requests, and at least one.
    pub(super) fn carve(&self, run: &mut Run) {
        let len = len_of(self.class.get() as usize) as u32;
        let blocks = self.fresh.get().min((run.ask / len).max(1));
        let (at, bytes) = (self.fresh_at.get(), blocks * len);
        // SAFETY: `fresh` blocks begin at `fresh_at` inside the span.
        self.fresh_at.set(unsafe { at.add(bytes as usize) });
        self.fresh.set(self.fresh.get() - blocks);
        run.ask = (run.ask * 2).min(UNIT as u32);
        // SAFETY: the blocks belonged to the span and belong to the run from now on.
        unsafe { run.fill(at, bytes) };
    }

    /// Allocates listed blocks: one block if the blocks are long, otherwise all.
    fn splice(&self, to: &mut FreeList) {
        if width_of(self.class.get() as usize) != Width::Narrow {
            return self.pop(to);
        }
        let len = self.listed.get();
        self.listed.set(0);
        let (head, tail) = (self.head.replace(null_mut()), self.tail.replace(null_mut()));
        // SAFETY: the span linked them, and they belong to the list from now on.
        unsafe { to.prepend(head, tail, len) };
    }

    fn pop(&self, to: &mut FreeList) {
        let mut listed = FreeList::EMPTY;
        // SAFETY: the span linked them, and they belong to the list for now.
        unsafe { listed.prepend(self.head.get(), self.tail.get(), self.listed.get()) };
        let block = listed.pop().expect("the caller has found a listed block");
        // SAFETY: the block was the span's, of the list's class, and belongs to the list from now on.
        unsafe { to.push(block) };
        self.listed.set(listed.len());
        self.head.set(listed.head());
    }

    /// # Safety
    /// As for `Class::put`.
    unsafe fn push(&self, block: NonNull<u8>) {
        debug_assert!(self.out() > 0, "a block came back twice");
        if self.head.get().is_null() {
            self.tail.set(block.as_ptr());
        }
        // SAFETY: the caller's promise.
        unsafe { link(block.as_ptr(), self.head.get()) };
        self.head.set(block.as_ptr());
        self.listed.set(self.listed.get() + 1);
    }
}

/// Spans that became free and wait for the pool.
pub(super) type Emptied = Bins<1>;

/// The spans of a class that have free blocks, by the number of allocated ones.
pub(super) struct Class {
    bins: Bins<LEVELS>,
}

impl Class {
    pub(super) const EMPTY: Self = Self { bins: Bins::EMPTY };

    /// Fills an empty list or run from the fullest spans with free blocks. If these have few, it takes
    /// several, so that not every block takes the lock.
    pub(super) fn take(&mut self, list: &mut FreeList, run: &mut Run, enough: u32) {
        while list.len() < enough
            && let Some(node) = self.bins.fullest()
        {
            // SAFETY: the node is the first field of a span of this class.
            let span = unsafe { node.cast::<Span>().as_ref() };
            if is_closing(span) {
                // SAFETY: the span is one of ours, and spans never move.
                unsafe { self.bins.set_bin(&span.node, None) };
                continue;
            }
            let is_fresh = span.listed.get() == 0;
            if is_fresh {
                span.carve(run);
            } else {
                span.splice(list);
            }
            // SAFETY: the span is one of ours, and spans never move.
            unsafe { self.bins.set_bin(&span.node, span.bin()) };
            if is_fresh {
                return;
            }
        }
    }

    /// Takes over a span in use if it has free blocks.
    ///
    /// # Safety
    /// The span must be of this class, in no bin, and no other session's.
    pub(super) unsafe fn adopt(&mut self, span: &Span) {
        // SAFETY: the caller's promise.
        unsafe { self.bins.set_bin(&span.node, span.bin()) };
    }

    /// Takes back blocks, each into its span.
    ///
    /// # Safety
    /// They must be unused blocks of this class, owned by the caller.
    pub(super) unsafe fn put(&mut self, class: usize, mut list: FreeList, emptied: &mut Emptied) {
        let width = width_of(class);
        while let Some(block) = list.pop() {
            // SAFETY: the block lies in a span of this class, whose lock is held.
            let span = unsafe { span_of(block, width) };
            debug_assert!(span.class.get() as usize == class, "freed with another size");
            // SAFETY: the caller's promise.
            unsafe {
                span.push(block);
                self.settle(span, emptied);
            }
        }
    }

    /// Takes back a run.
    ///
    /// # Safety
    /// As for `put`.
    pub(super) unsafe fn put_run(&mut self, class: usize, run: &mut Run, emptied: &mut Emptied) {
        let Some((at, bytes)) = run.empty_out() else { return };
        // SAFETY: as in `put`.
        let span = unsafe { span_of(at, width_of(class)) };
        let len = len_of(class);
        debug_assert!(span.class.get() as usize == class, "freed with another size");
        // SAFETY: the run ends inside the span or at its end.
        if unsafe { at.add(bytes as usize) }.as_ptr() == span.fresh_at.get() {
            span.fresh_at.set(at.as_ptr());
            span.fresh.set(span.fresh.get() + bytes / len as u32);
        } else {
            // Another session owns the blocks behind the run.
            for offset in (0..bytes as usize).step_by(len).rev() {
                // SAFETY: the offset lies inside the run, which the caller gives up.
                unsafe {
                    poison::fill(at.add(offset), len);
                    span.push(at.add(offset));
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.settle(span, emptied) };
    }

    /// Puts a span that has gained free blocks into its bin.
    ///
    /// # Safety
    /// The span must be of this class.
    unsafe fn settle(&mut self, span: &Span, emptied: &mut Emptied) {
        // SAFETY: the caller's promise; a free span is in no bins but `emptied`.
        unsafe {
            if span.out() > 0 {
                self.bins.set_bin(&span.node, span.bin());
            } else {
                self.bins.set_bin(&span.node, None);
                emptied.set_bin(&span.node, Some(0));
            }
        }
    }
}

#[cfg(test)]
impl Span {
    /// Free blocks, listed and fresh, and all blocks.
    pub(super) fn counts(&self) -> (u32, u32, u32) {
        (self.listed.get(), self.fresh.get(), self.blocks.get())
    }
}

#[cfg(test)]
impl Class {
    /// Whether no span of the class has a free block.
    pub(super) fn is_empty(&self) -> bool {
        self.bins.fullest().is_none()
    }
}
