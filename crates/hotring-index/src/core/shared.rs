//! Values that are changed in place while other threads read them: [`Shared`].
//!
//! Readers write no memory that another reader writes, so that a hot value is read by all cores at once.
//! Writers take turns, and wait for the readers that are there; readers wait for the writer that is there.
//! Readers and writers of different values never wait for each other.
//!
//! # Picture
//! ```text
//!   each value                        one slot a visitor, written by that visitor only
//!   +----------------------------+    +------------------------------------------+
//!   | turn   0, 1 or 2: a writer |    | reading   address of the value, or 0     |
//!   | value                      |    +------------------------------------------+
//!   +----------------------------+          ^ looked at by writers
//! ```
//! *Reader*: own slot to the value's address; fence; look at `turn`; if it is 2, slot to 0, wait
//! until it is not, again; read; slot to 0.
//! *Writer*: `turn` from 0 to 1; decide, beside readers, on what no one else changes; `turn` to 2; fence; wait until no
//! other visitor's slot has the address; write; give the turn back: 0.
//!
//! # Why a reader and a writer never meet
//! The reader stores its slot and then loads `turn`; the writer stores 2 and then loads the slots. Both
//! have a sequentially consistent fence in between, so at least one sees the other. If the writer sees
//! the slot it waits; the reader's Release of the slot,
//! or of the next value's address in it, pairs with its Acquire. If the reader sees the turn it takes
//! its slot back and waits; the Release of the turn pairs with its Acquire. A reader that sees 1 has what the last
//! writer wrote, too: the turn was taken by a read-modify-write, which goes on with that writer's release.
//!
//! The list of slots is behind a mutex, with a count of its changes; writers keep a copy, and load the count behind
//! their fence. A visitor raises the count before its first read: the same argument holds for count and `turn`.
//!
//! A light barrier ([`crate::barrier`]) on the readers' side would ask for a system call in each write. The
//! fence costs a reader some nanoseconds, a write a look at each slot.

use std::cell::UnsafeCell;
use std::ptr;

use crate::core::sync::spin::{SpinMutex, SpinWait, is_over};
use crate::core::sync::{Arc, AtomicU64, Ordering, fence};

/// All possible readers of some values.
pub struct Visitors {
    slots: SpinMutex<Vec<Arc<Slot>>>,
    /// Visitors that there have been, and that have left.
    changes: AtomicU64,
    #[cfg(any(loom, shuttle))]
    fault: SharedFault,
}

/// One thread's access to values. Not shared: it reads or writes one value at a time.
pub struct Visitor {
    visitors: Arc<Visitors>,
    slot: Arc<Slot>,
    /// The others' slots as of `peers_at` changes.
    peers: Vec<Arc<Slot>>,
    peers_at: u64,
}

/// Off its neighbours' cache lines; two lines, because processors fetch them in pairs.
#[repr(align(128))]
struct Slot {
    reading: AtomicU64,
}

/// A value that visitors read, and change in place.
pub struct Shared<T> {
    visitors: Arc<Visitors>,
    turn: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the protocol above lets one writer at the value, or any number of readers, of any threads.
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
    /// The real thing.
    #[default]
    None,
    /// A reader looks at the turn without a fence.
    ReaderNoFence,
    /// A writer looks at the slots without a fence.
    WriterNoFence,
    /// A writer does not wait for readers.
    NoWait,
    /// A writer does not look for visitors that are new.
    NoRefresh,
    /// A reader leaves with Relaxed.
    RelaxedLeave,
    /// A writer gives the turn back with Relaxed.
    RelaxedTurn,
    /// A reader sees the turn with Relaxed.
    RelaxedLook,
    /// A reader goes on to another value with Relaxed.
    RelaxedNext,
    /// A writer writes while readers take it to be deciding.
    NoWriting,
}

impl Visitors {
    /// None yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Arc<Visitors> {
        Arc::new(Visitors {
            slots: SpinMutex::new(Vec::new()),
            changes: AtomicU64::new(0),
            #[cfg(any(loom, shuttle))]
            fault: SharedFault::None,
        })
    }

    /// A wrong variant.
    #[cfg(any(loom, shuttle))]
    pub fn with_fault(fault: SharedFault) -> Arc<Visitors> {
        Arc::new(Visitors { slots: SpinMutex::new(Vec::new()), changes: AtomicU64::new(0), fault })
    }

    /// One more.
    pub fn visitor(self: &Arc<Self>) -> Visitor {
        let slot = Arc::new(Slot { reading: AtomicU64::new(NOTHING) });
        let mut slots = self.slots.lock();
        slots.push(slot.clone());
        // ORDERING: Release pairs with the Acquire in `refresh`; a reader that misses it is seen by its
        // turn.
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
    /// Takes over the list of slots if it has changed.
    fn refresh(&mut self) {
        if is_wrong!(self.visitors, NoRefresh) && !self.peers.is_empty() {
            return;
        }
        // ORDERING: Acquire pairs with the Release of the change; behind the writer's fence.
        let changes = self.visitors.changes.load(Ordering::Acquire);
        if changes == self.peers_at {
            return;
        }
        let slots = self.visitors.slots.lock();
        // ORDERING: Relaxed, it changes under the lock.
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

    /// Reads the value. `f` should be short: a writer waits for it.
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
            // ORDERING: Release: a writer of the value that was read before may see this in place of the store that
            // ended that reading. The fence orders it before the look at the turn.
            let order = order!(self.visitors, RelaxedNext, Release);
            visitor.slot.reading.store(address, order);
            if !is_wrong!(self.visitors, ReaderNoFence) {
                // ORDERING: SeqCst, against the writer's.
                fence(Ordering::SeqCst);
            }
            // ORDERING: Acquire pairs with the Release that gives the turn back.
            if self.turn.load(order!(self.visitors, RelaxedLook, Acquire)) != WRITING {
                break;
            }
            // ORDERING: Relaxed; nothing was read.
            visitor.slot.reading.store(NOTHING, Ordering::Relaxed);
            // ORDERING: Relaxed, a hint. Announcing again and again would keep the writer waiting.
            while self.turn.load(Ordering::Relaxed) == WRITING {
                waits.wait();
            }
        }
        let _leave = Leave(visitor);
        // SAFETY: no writer has the turn, and a writer that takes it waits for this slot.
        f(unsafe { &*self.value.get() })
    }

    /// Changes the value, alone.
    ///
    /// # Panics
    /// The visitor belongs to others.
    #[inline]
    pub fn write<R>(&self, visitor: &mut Visitor, f: impl FnOnce(&mut T) -> R) -> R {
        self.update(visitor, |_| Ok(()), |value, ()| f(value))
    }

    /// Decides on the value, which no other writer changes meanwhile, and changes it, alone; or leaves it as it is if
    /// the decision is an `Err`. Readers do not wait for `decide`.
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
        // ORDERING: Acquire pairs with the Release that gives the turn back. Relaxed where it fails: nothing is done.
        while self
            .turn
            .compare_exchange(FREE, DECIDING, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            waits.wait();
        }
        let _turn = GiveBack(self);
        // SAFETY: only the writer that has the turn changes the value; readers may be there.
        let decision = match decide(unsafe { &*self.value.get() }) {
            Ok(decision) => decision,
            Err(result) => return result,
        };
        if !is_wrong!(self.visitors, NoWriting) {
            // ORDERING: Relaxed, nothing is written before the fence behind it.
            self.turn.store(WRITING, Ordering::Relaxed);
        }
        if !is_wrong!(self.visitors, WriterNoFence) {
            // ORDERING: SeqCst, against the readers'.
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
        // SAFETY: this writer has the turn, no reader was there behind the fence, and those that come wait.
        change(unsafe { &mut *self.value.get() }, decision)
    }

    fn check(&self, visitor: &Visitor) {
        assert!(Arc::ptr_eq(&self.visitors, &visitor.visitors), "a visitor of other values");
    }
}
