//! The memory of an endpoint's messages.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

/// A part of the slab. Whoever has it may touch its bytes.
#[derive(Debug)]
pub struct Slot(u32);

impl Slot {
    /// Its number, below that of all slots.
    pub(crate) fn index(&self) -> usize {
        self.0 as usize
    }
}

/// The memory of all messages of an endpoint, in slots of one length. It never moves nor grows.
///
/// Bytes are borrowed slot by slot, as others than this program may write to the slots that the endpoint has.
#[derive(Debug)]
pub struct Slab {
    bytes: NonNull<[u8]>,
    slot_len: usize,
    free: Vec<Slot>,
}

// SAFETY: it owns its bytes as a box does.
unsafe impl Send for Slab {}

impl Slab {
    /// `count` slots of `slot_len` bytes.
    pub fn new(count: u32, slot_len: usize) -> Slab {
        let bytes = Box::into_raw(vec![0; count as usize * slot_len].into_boxed_slice());
        let bytes = NonNull::new(bytes).expect("a box is somewhere");
        Slab { bytes, slot_len, free: (0..count).map(Slot).collect() }
    }

    /// The length of each slot in bytes.
    pub fn slot_len(&self) -> usize {
        self.slot_len
    }

    /// How many slots are free.
    pub fn free_len(&self) -> usize {
        self.free.len()
    }

    /// A free slot.
    pub fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Makes a slot free.
    pub fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// The bytes of a slot.
    pub fn bytes(&self, slot: &Slot) -> &[u8] {
        // SAFETY: whoever has the slot lends it, and no other code touches these bytes meanwhile.
        unsafe { &*self.place(slot) }
    }

    /// The bytes of a slot, to be written.
    pub fn bytes_mut(&mut self, slot: &Slot) -> &mut [u8] {
        // SAFETY: as in `bytes`; the slab is borrowed as well.
        unsafe { &mut *self.place(slot) }
    }

    /// Where the bytes of a slot are.
    pub(crate) fn place(&self, slot: &Slot) -> *mut [u8] {
        let start = slot.index() * self.slot_len;
        assert!(start + self.slot_len <= self.bytes.len(), "a slot of this slab");
        // SAFETY: it was checked to be within the bytes.
        let start = unsafe { self.bytes.cast::<u8>().add(start) };
        ptr::slice_from_raw_parts_mut(start.as_ptr(), self.slot_len)
    }

    /// Where all bytes are.
    pub(crate) fn memory(&self) -> *mut [u8] {
        self.bytes.as_ptr()
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: a box it was, and nothing uses it any more.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}
