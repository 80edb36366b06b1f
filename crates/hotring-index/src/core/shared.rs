//! [`Shared`]: a reader-writer lock around a value, optimised for many concurrent readers.
//!
//! Each reader writes only its own memory, so that all cores can read a hot value at the same time. Writers
//! take turns and wait for the active readers; readers wait for an active writer. Readers and writers of
//! different values never wait for each other.
//!
//! # Picture
//! ```text
//!   each value                        one slot per visitor, written by that visitor only
//!   +----------------------------+    +------------------------------------------+
//!   | turn   0, 1 or 2: a writer |    | reading   address of the value, or 0     |
//!   | value                      |    +------------------------------------------+
//!   +----------------------------+          ^ read by writers
//! ```
//! *Reader*: store the value's address in the own slot; fence; load `turn`. If `turn` is 2: store 0 in the
//! slot, wait until `turn` changes, start over. Otherwise read the value; store 0 in the slot.
//!
//! *Writer*: change `turn` from 0 to 1; decide, while readers may read and no other writer may write; set
//! `turn` to 2; fence; wait until no other visitor's slot has the address; write; set `turn` to 0.
//!
//! # Why a reader and a writer never meet
//! The reader stores its slot and then loads `turn`; the writer stores 2 and then loads the slots. Both have
//! a sequentially consistent fence in between, so at least one sees the other's store. If the writer sees
//! the slot, it waits: the reader's Release store to the slot (of 0, or of the next value's address) pairs
//! with the writer's Acquire load. If the reader sees a `turn` of 2, it clears its slot and waits: the
//! writer's Release store of `turn` pairs with the reader's Acquire load. A reader that sees a `turn` of 1
//! also sees the last writer's changes: the read-modify-write that set 1 continues the release sequence of
//! that writer's store.
//!
//! The list of slots is behind a mutex, with a count of its changes. Writers keep a copy of the list, and
//! load the count after their fence. A visitor increments the count before its first read, so the same
//! argument holds for the count and `turn`.
//!
//! A light barrier ([`crate::barrier`]) on the readers' side would require a system call in each write. The
//! fence costs a reader a few nanoseconds; a write loads each slot.

use std::cell::UnsafeCell;
use std::ptr;

use crate::core::sync::spin::{SpinMutex, SpinWait, is_over};
use crate::core::sync::{Arc, AtomicU64, Ordering, fence};

/// The set of all visitors of a group of values.
pub struct Visitors {
    slots: SpinMutex<Vec<Arc<Slot>>>,
    /// The number of visitors that have joined plus the number that have left.
    changes: AtomicU64,
    #[cfg(any(loom, shuttle))]
    fault: SharedFault,
}

/// One thread's access to the values. It reads or writes one value at a time.
pub struct Visitor {
    visitors: Arc<Visitors>,
    slot: Arc<Slot>,
    /// The slots of the other visitors after `peers_at` changes of the list.
    peers: Vec<Arc<Slot>>,
    peers_at: u64,
}

/// Must not share cache lines with other slots. Two lines, because processors fetch them in pairs.
#[repr(align(128))]
struct Slot {
    reading: AtomicU64,
}

/// A value that visitors read and change in place.
pub struct Shared<T> {
    visitors: Arc<Visitors>,
    turn: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the protocol above admits one writer or any number of readers to the value, on any threads.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

const FREE: u64 = 0;
/// A writer decides, and has written nothing yet.
const DECIDING: u64 = 1;
/// A writer writes, or waits for readers to leave.
const WRITING: u64 = 2;
/// In a slot: its visitor reads nothing.
const NOTHING: u64 = 0;

/// A wrong variant of one step; the checkers must find each.
#[cfg(any(loom, shuttle))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedFault {
    /// The correct protocol.
    #[default]
    None,
    /// A reader loads the turn without a fence.
    ReaderNoFence,
    /// A writer loads the slots without a fence.
    WriterNoFence,
    /// A writer does not wait for readers.
    NoWait,
    /// A writer does not check for new visitors.
    NoRefresh,
    /// A reader leaves with Relaxed.
    RelaxedLeave,
    /// A writer gives the turn back with Relaxed.
    RelaxedTurn,
    /// A reader loads the turn with Relaxed.
    RelaxedLook,
    /// A reader goes on to another value with Relaxed.
    RelaxedNext,
    /// A writer writes while `turn` tells readers that it is deciding.
    NoWriting,
}

impl Visitors {
    /// An empty set.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Arc<Visitors> {
        Arc::new(Visitors {
            slots: SpinMutex::new(Vec::new()),
            changes: AtomicU64::new(0),
            #[cfg(any(loom, shuttle))]
            fault: SharedFault::None,
        })
    }

    /// An empty set whose values run a wrong variant.
    #[cfg(any(loom, shuttle))]
    pub fn with_fault(fault: SharedFault) -> Arc<Visitors> {
        Arc::new(Visitors { slots: SpinMutex::new(Vec::new()), changes: AtomicU64::new(0), fault })
    }

    /// Adds a visitor.
    pub fn visitor(self: &Arc<Self>) -> Visitor {
        let slot = Arc::new(Slot { reading: AtomicU64::new(NOTHING) });
        let mut slots = self.slots.lock();
        slots.push(slot.clone());
        // ORDERING: Release pairs with the Acquire in `refresh`. If a writer misses this increment, its fence
        // comes first, and this visitor's first read sees the writer's turn.
        self.changes.fetch_add(1, Ordering::Release);
        drop(slots);
        Visitor { visitors: self.clone(), slot, peers: Vec::new(), peers_at: 0 }
    }

    #[cfg(any(loom, shuttle))]
    fn is(&self, fault: SharedFault) -> bool {
        self.fault == fault
    }

    #[cfg(not(any(loom, shuttle)))]
    #[allow(clippy::unused_self)]
    #[inline(always)]
    fn is(&self, _: ()) -> bool {
        false
    }
}

/// Whether a checker asks for a wrong variant.
macro_rules! is_wrong {
    ($visitors:expr, $fault:ident) => {{
        #[cfg(any(loom, shuttle))]
        let fault = SharedFault::$fault;
        #[cfg(not(any(loom, shuttle)))]
        let fault = ();
        $visitors.is(fault)
    }};
}

/// The order of a step, or Relaxed in a wrong variant.
// ORDERING: each use gives its reason.
macro_rules! order {
    ($visitors:expr, $fault:ident, $order:ident) => {
        if is_wrong!($visitors, $fault) { Ordering::Relaxed } else { Ordering::$order }
    };
}

impl Visitor {
    /// Copies the list of slots if it has changed.
    fn refresh(&mut self) {
        if is_wrong!(self.visitors, NoRefresh) && !self.peers.is_empty() {
            return;
        }
        // ORDERING: Acquire pairs with the Release of the change. Must come after the writer's fence.
        let changes = self.visitors.changes.load(Ordering::Acquire);
        if changes == self.peers_at {
            return;
        }
        let slots = self.visitors.slots.lock();
        // ORDERING: Relaxed, the count changes only under the lock.
        self.peers_at = self.visitors.changes.load(Ordering::Relaxed);
        self.peers.clear();
        self.peers.extend(slots.iter().filter(|slot| !Arc::ptr_eq(slot, &self.slot)).cloned());
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        if is_over() {
            return;
        }
        let mut slots = self.visitors.slots.lock();
        slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        // ORDERING: Release, as in `visitor`.
        self.visitors.changes.fetch_add(1, Ordering::Release);
    }
}

impl<T> Shared<T> {
    /// A value for these visitors.
    pub fn new(visitors: &Arc<Visitors>, value: T) -> Shared<T> {
        Shared {
            visitors: visitors.clone(),
            turn: AtomicU64::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// The value, for its sole owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Reads the value. `f` should be short: writers wait for it.
    ///
    /// # Panics
    /// The visitor belongs to others.
    #[inline]
    pub fn read<R>(&self, visitor: &mut Visitor, f: impl FnOnce(&T) -> R) -> R {
        /// Leaves also when `f` panics.
        struct Leave<'a>(&'a Visitor);
        impl Drop for Leave<'_> {
            #[inline]
            fn drop(&mut self) {
                // ORDERING: Release, the reads happen before the writer writes.
                let order = order!(self.0.visitors, RelaxedLeave, Release);
                self.0.slot.reading.store(NOTHING, order);
            }
        }
        self.check(visitor);
        let address = ptr::from_ref(self).addr() as u64;
        let mut waits = SpinWait::default();
        loop {
            // ORDERING: Release: a writer of the previously read value may see this store instead of the store that
            // ended that read. The fence orders this store before the load of the turn.
            let order = order!(self.visitors, RelaxedNext, Release);
            visitor.slot.reading.store(address, order);
            if !is_wrong!(self.visitors, ReaderNoFence) {
                // ORDERING: SeqCst, pairs with the writer's fence.
                fence(Ordering::SeqCst);
            }
            // ORDERING: Acquire pairs with the Release that gives the turn back.
            if self.turn.load(order!(self.visitors, RelaxedLook, Acquire)) != WRITING {
                break;
            }
            // ORDERING: Relaxed; nothing was read.
            visitor.slot.reading.store(NOTHING, Ordering::Relaxed);
            // ORDERING: Relaxed, a hint. Storing the slot repeatedly would keep the writer waiting.
            while self.turn.load(Ordering::Relaxed) == WRITING {
                waits.wait();
            }
        }
        let _leave = Leave(visitor);
        // SAFETY: no writer has the turn, and a writer that takes it waits for this slot.
        f(unsafe { &*self.value.get() })
    }

    /// Changes the value with exclusive access.
    ///
    /// # Panics
    /// The visitor belongs to others.
    #[inline]
    pub fn write<R>(&self, visitor: &mut Visitor, f: impl FnOnce(&mut T) -> R) -> R {
        self.update(visitor, |_| Ok(()), |value, ()| f(value))
    }

    /// Calls `decide` while no other writer may change the value, then changes the value with exclusive access.
    /// An `Err` of `decide` leaves the value unchanged. Readers do not wait for `decide`.
    ///
    /// # Panics
    /// The visitor belongs to others.
    #[inline]
    pub fn update<D, R>(
        &self,
        visitor: &mut Visitor,
        decide: impl FnOnce(&T) -> Result<D, R>,
        change: impl FnOnce(&mut T, D) -> R,
    ) -> R {
        /// Gives the turn back also when `f` panics.
        struct GiveBack<'a, T>(&'a Shared<T>);
        impl<T> Drop for GiveBack<'_, T> {
            #[inline]
            fn drop(&mut self) {
                // ORDERING: Release, these writes happen before other sessions' reads and writes.
                self.0.turn.store(FREE, order!(self.0.visitors, RelaxedTurn, Release));
            }
        }
        self.check(visitor);
        let mut waits = SpinWait::default();
        // ORDERING: Acquire pairs with the Release that gives the turn back. Relaxed on failure: nothing is read.
        while self
            .turn
            .compare_exchange(FREE, DECIDING, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            waits.wait();
        }
        let _turn = GiveBack(self);
        // SAFETY: only the writer that has the turn changes the value; readers may read it, and so does `decide`.
        let decision = match decide(unsafe { &*self.value.get() }) {
            Ok(decision) => decision,
            Err(result) => return result,
        };
        if !is_wrong!(self.visitors, NoWriting) {
            // ORDERING: Relaxed, the value is not written before the fence below.
            self.turn.store(WRITING, Ordering::Relaxed);
        }
        if !is_wrong!(self.visitors, WriterNoFence) {
            // ORDERING: SeqCst, pairs with the readers' fences.
            fence(Ordering::SeqCst);
        }
        visitor.refresh();
        let address = ptr::from_ref(self).addr() as u64;
        for peer in &visitor.peers {
            let mut waits = SpinWait::default();
            // ORDERING: Acquire pairs with the Release of the reader that leaves.
            while peer.reading.load(Ordering::Acquire) == address
                && !is_wrong!(self.visitors, NoWait)
            {
                waits.wait();
            }
        }
        // SAFETY: this writer has the turn, no reader's slot had the address after the fence, and later readers
        // wait.
        change(unsafe { &mut *self.value.get() }, decision)
    }

    fn check(&self, visitor: &Visitor) {
        assert!(Arc::ptr_eq(&self.visitors, &visitor.visitors), "a visitor of other values");
    }
}
