//! Memory of long values: pages that one owner fills, all users share, and the index returns to the system in
//! steps.
//!
//! A value longer than [`LONG_LEN`] does not lie in its item; the item holds a [`Block`] instead. So the
//! bytes are copied at most once, when the value is made. A copy of the item (with another expiry, or
//! elsewhere in memory) has the same block, a reader may keep the block for as long as it likes
//! ([`Entry::block`](crate::Entry::block)), and bytes that arrive from a network go into a [`Buffer`] that
//! becomes the block.
//!
//! The kernel takes 0.1 ms to reclaim a megabyte of pages, which would stall the session that frees a long
//! value. Anything longer than `AT_ONCE` is therefore returned in steps
//! ([`Session::collect`](crate::Session::collect)).
//!
//! An item with a checksum must hold its value inside, however long: its check is computed from the bytes
//! behind the key and cannot vouch for an address.

use crate::core::arena::CLASSED_MAX;
use crate::core::memory::{PAGE, grow_pages, map_sparse, unmap_pages};
use crate::core::sync::{Arc, Mutex, Ordering, TallyU64};
use std::any::Any;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

/// Values of more bytes have blocks.
pub const LONG_LEN: usize = CLASSED_MAX;

/// Up to this many bytes are returned at once; more are returned in steps of this size.
const AT_ONCE: usize = 1 << 20;

/// A slice may share a buffer's memory only if it leaves less than one part in this many of it unused.
const PARTS: usize = 8;

/// The pages of an index's buffers and blocks: their total, and those waiting to be returned.
pub(crate) struct Blocks {
    bytes: TallyU64,
    /// Of these, bytes that no session uses any more.
    dying_bytes: TallyU64,
    dying: Mutex<Vec<Pages>>,
    dying_objects: Mutex<Vec<Attached>>,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        let none = || TallyU64::new(0);
        let (dying, dying_objects) = (Mutex::default(), Mutex::default());
        Self { bytes: none(), dying_bytes: none(), dying, dying_objects }
    }

    /// Bytes taken by buffers and blocks, including those waiting to be returned.
    pub(crate) fn bytes(&self) -> u64 {
        // ORDERING: Relaxed, a sum; so for all below.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes waiting to be returned.
    pub(crate) fn dying_bytes(&self) -> u64 {
        // ORDERING: Relaxed, as in `bytes`.
        self.dying_bytes.load(Ordering::Relaxed)
    }

    /// Returns a bounded part of the waiting memory.
    #[inline]
    pub(crate) fn step(&self) {
        if self.dying_bytes() > 0 {
            self.give_back_some();
        }
    }

    /// Returns up to this many of the waiting bytes.
    pub(crate) fn give_back(&self, bytes: u64) {
        let steps = bytes.div_ceil(AT_ONCE as u64);
        for _ in 0..steps {
            if self.dying_bytes() == 0 {
                break;
            }
            self.give_back_some();
        }
    }

    #[cold]
    fn give_back_some(&self) {
        let mut dying = self.dying.lock().expect("no code panics under this lock");
        let Some(last) = dying.last_mut() else {
            drop(dying);
            return self.dismantle_some();
        };
        let part = last.cut(last.len.saturating_sub(AT_ONCE));
        if last.len == 0 {
            dying.pop();
        }
        drop(dying);
        let len = part.len as u64;
        drop(part);
        self.given_back(len);
    }

    /// Counts waiting bytes as returned.
    fn given_back(&self, bytes: u64) {
        // ORDERING: Relaxed, as in `bytes`. Both change only after the memory is free.
        self.dying_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Frees a part of an object that no session uses any more.
    fn dismantle_some(&self) {
        let next = self.dying_objects.lock().expect("no code panics under this lock").pop();
        // None if the list is empty, or other sessions have taken the objects.
        let Some(mut dying) = next else { return };
        let counted = dying.bytes();
        match dying.object.dismantle() {
            Some(freed) => {
                let freed = counted.min(freed as u64);
                dying.set_bytes(counted - freed);
                self.dying_objects.lock().expect("no code panics under this lock").push(dying);
                self.given_back(freed);
            }
            None => self.given_back(counted),
        }
    }

    /// Queues an object that no session uses any more.
    fn bury_object(&self, object: Attached) {
        // ORDERING: Relaxed, as in `bytes`. Counted before another session can dequeue it, so that the
        // count never wraps.
        self.dying_bytes.fetch_add(object.bytes(), Ordering::Relaxed);
        self.dying_objects.lock().expect("no code panics under this lock").push(object);
    }

    /// Queues resident pages that no session uses any more, or unmaps them if they are few.
    fn bury(&self, pages: Pages) {
        let len = pages.len as u64;
        if pages.len <= AT_ONCE {
            drop(pages);
            // ORDERING: Relaxed, as in `bytes`.
            self.bytes.fetch_sub(len, Ordering::Relaxed);
            return;
        }
        // ORDERING: Relaxed, as in `bytes`. Counted before another session can dequeue it, so that the
        // count never wraps.
        self.dying_bytes.fetch_add(len, Ordering::Relaxed);
        self.dying.lock().expect("no code panics under this lock").push(pages);
    }
}

/// A value with an inner structure of its own, held by a block. The index counts its memory and dismantles
/// it in steps when its key goes; how it is read and changed is up to its owner.
pub trait Object: Any + Send + Sync {
    /// Frees about a megabyte and returns the number of bytes, or None once nothing is left. No session can
    /// reach the object any more.
    fn dismantle(&mut self) -> Option<usize>;
}

/// An object and the bytes counted for it.
struct Attached {
    object: Box<dyn Object>,
    bytes: TallyU64,
}

impl Attached {
    /// The count for an object of this size, rounded to 8 bytes as for all memory of items.
    fn counted(bytes: usize) -> u64 {
        (bytes + size_of::<Buffer>()).next_multiple_of(8) as u64
    }

    fn bytes(&self) -> u64 {
        // ORDERING: Relaxed, a count; so for its changes.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the count before the change.
    fn set_bytes(&self, bytes: u64) -> u64 {
        self.bytes.swap(bytes, Ordering::Relaxed)
    }
}

/// A mapping, or none if it is empty. Unmapped on drop.
struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an address range; its owner is responsible for access to its bytes.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(len: usize) -> io::Result<Pages> {
        Ok(Pages { start: map_sparse(len)?, len })
    }

    /// Splits off everything behind `len`, rounded up to a page.
    fn cut(&mut self, len: usize) -> Pages {
        let len = len.next_multiple_of(PAGE).min(self.len);
        // SAFETY: inside of the mapping, or at its end.
        let rest = Pages { start: unsafe { self.start.add(len) }, len: self.len - len };
        self.len = len;
        rest
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: mapped and owned by this value; no session uses the pages once their owner is
            // dropped.
            unsafe { unmap_pages(self.start, self.len) };
        }
    }
}

/// Arriving bytes, in memory of an index ([`Index::buffer`](crate::Index::buffer)). Dereferences to the
/// bytes received so far. Memory is taken as bytes arrive, whatever the capacity.
pub struct Buffer {
    pages: Pages,
    len: usize,
    /// Bytes counted as memory: the pages that have been written.
    counted: usize,
    blocks: Arc<Blocks>,
    object: Option<Attached>,
}

impl Buffer {
    /// With address space for `capacity` bytes.
    ///
    /// # Errors
    /// The system has no address space left.
    pub(crate) fn new(blocks: Arc<Blocks>, capacity: usize) -> io::Result<Buffer> {
        let len =
            capacity.max(1).checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = Pages::map(len)?;
        Ok(Buffer { pages, len: 0, counted: 0, blocks, object: None })
    }

    /// Unwritten space of at least `at_least` bytes, and at least one byte, behind the received ones. Bytes
    /// written there count once [`advance`](Self::advance) is called.
    ///
    /// # Errors
    /// The system has no address space left. O(1), unless the kernel must move the pages.
    pub fn spare(&mut self, at_least: usize) -> io::Result<&mut [u8]> {
        let wanted = self.len.checked_add(at_least.max(1)).ok_or(io::ErrorKind::OutOfMemory)?;
        if wanted > self.pages.len {
            // Reserve more than necessary: address space is free, moving pages is not.
            let wanted = wanted.max(self.pages.len + self.pages.len / 4);
            let len = wanted.checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
            // SAFETY: this buffer owns the mapping, and no session has a reference into it.
            self.pages.start = unsafe { grow_pages(self.pages.start, self.pages.len, len) }?;
            self.pages.len = len;
        }
        // SAFETY: mapped, reads as zeros before it is written, and belongs to this buffer alone.
        Ok(unsafe {
            let start = self.pages.start.add(self.len).as_ptr();
            std::slice::from_raw_parts_mut(start, self.pages.len - self.len)
        })
    }

    /// Counts `n` more bytes as received.
    ///
    /// # Panics
    /// The bytes exceed the unwritten space.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.pages.len - self.len, "as many as fit");
        self.len += n;
        let counted = self.len.next_multiple_of(PAGE);
        // ORDERING: Relaxed, a sum.
        self.blocks.bytes.fetch_add((counted - self.counted) as u64, Ordering::Relaxed);
        self.counted = counted;
        // Returning as much as is taken keeps the backlog bounded while values are replaced continuously.
        self.blocks.give_back(n as u64);
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// As [`spare`](Self::spare).
    pub fn extend(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !bytes.is_empty() {
            self.spare(bytes.len())?[..bytes.len()].copy_from_slice(bytes);
            self.advance(bytes.len());
        }
        Ok(())
    }

    /// Bytes of memory in use.
    pub fn footprint(&self) -> usize {
        self.counted + self.object.as_ref().map_or(0, |object| object.bytes() as usize)
    }

    /// This part of the buffer as a value that shares its memory. None if the slice is not part of the
    /// buffer, or so small a part that a copy saves memory.
    pub fn share(self: &Arc<Self>, part: &[u8]) -> Option<Block> {
        if part.len() <= LONG_LEN || part.len() < self.counted - self.counted / PARTS {
            return None;
        }
        Block { buffer: self.clone(), from: 0, len: self.len }.part(part)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped, and no session changes it while a reference to the buffer exists.
        unsafe { std::slice::from_raw_parts(self.pages.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            self.blocks.bury_object(object);
        }
        // Pages without received bytes were never resident and need no step.
        drop(self.pages.cut(self.counted));
        let nothing = Pages { start: self.pages.start, len: 0 };
        self.blocks.bury(std::mem::replace(&mut self.pages, nothing));
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The bytes of a long value. They never change, and stay in memory while any session holds the block, even
/// if the key is removed.
#[derive(Clone)]
pub struct Block {
    buffer: Arc<Buffer>,
    from: usize,
    len: usize,
}

impl Block {
    /// A copy of these bytes.
    ///
    /// # Errors
    /// The system has no address space left.
    pub(crate) fn copy_of(blocks: &Arc<Blocks>, bytes: &[u8]) -> io::Result<Block> {
        let mut buffer = Buffer::new(blocks.clone(), bytes.len())?;
        buffer.extend(bytes)?;
        Ok(Block { buffer: Arc::new(buffer), from: 0, len: bytes.len() })
    }

    /// A block that stands for an object instead of bytes; `bytes` is the object's memory.
    pub(crate) fn of_object(blocks: &Arc<Blocks>, object: Box<dyn Object>, bytes: usize) -> Block {
        let bytes = Attached::counted(bytes);
        // ORDERING: Relaxed, a sum.
        blocks.bytes.fetch_add(bytes, Ordering::Relaxed);
        let pages = Pages { start: NonNull::dangling(), len: 0 };
        let object = Some(Attached { object, bytes: TallyU64::new(bytes) });
        let buffer = Buffer { pages, len: 0, counted: 0, blocks: blocks.clone(), object };
        Block { buffer: Arc::new(buffer), from: 0, len: 0 }
    }

    /// The object, if the block stands for one.
    pub fn object(&self) -> Option<&dyn Object> {
        self.lend().object()
    }

    /// A block of this part of the bytes; None if the slice lies elsewhere.
    pub fn part(&self, part: &[u8]) -> Option<Block> {
        let from = part.as_ptr().addr().checked_sub(self.as_ptr().addr())?;
        let is_inside = from.checked_add(part.len())? <= self.len;
        is_inside.then(|| Block {
            buffer: self.buffer.clone(),
            from: self.from + from,
            len: part.len(),
        })
    }

    /// Bytes of memory that become free with the last user.
    pub fn footprint(&self) -> usize {
        self.buffer.footprint()
    }

    /// The footprint divided by the number of current users: keys, readers, connections.
    pub fn fair_share(&self) -> usize {
        self.footprint() / Arc::strong_count(&self.buffer)
    }

    /// Borrows the block.
    pub fn lend(&self) -> BlockRef<'_> {
        let buffer = Arc::as_ptr(&self.buffer).cast_mut();
        let buffer = NonNull::new(buffer).expect("an Arc is somewhere");
        BlockRef { raw: Raw { buffer, from: self.from, len: self.len }, borrow: PhantomData }
    }

    /// Transfers this user's reference count into the result.
    fn into_raw(self) -> Raw {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the one reference count moves.
        let buffer = Arc::into_raw(unsafe { std::ptr::read(&raw const this.buffer) });
        let buffer = NonNull::new(buffer.cast_mut()).expect("an Arc is somewhere");
        Raw { buffer, from: this.from, len: this.len }
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[self.from..self.from + self.len]
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len).finish_non_exhaustive()
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Block {}

/// The representation of a block inside an item: one reference count of the buffer's [`Arc`].
#[derive(Clone, Copy, Debug)]
struct Raw {
    buffer: NonNull<Buffer>,
    from: usize,
    len: usize,
}

/// Bytes that the representation takes in an item.
pub(crate) const STORED: usize = size_of::<Raw>();

/// A borrowed block.
#[derive(Clone, Copy, Debug)]
pub struct BlockRef<'a> {
    raw: Raw,
    borrow: PhantomData<&'a Buffer>,
}

impl<'a> BlockRef<'a> {
    /// Reads the block stored at `address`.
    ///
    /// # Safety
    /// [`store`](Self::store) must have written it, and it must not be taken while the result is in use.
    pub(crate) unsafe fn at(address: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise; the address need not be aligned.
        BlockRef { raw: unsafe { address.cast::<Raw>().read_unaligned() }, borrow: PhantomData }
    }

    /// Stores a further reference to the block.
    ///
    /// # Safety
    /// `address` must be writable for `STORED` bytes, and its owner must call [`take`](Self::take) exactly
    /// once.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn store(self, address: NonNull<u8>) {
        // SAFETY: the caller's promise; the address need not be aligned.
        unsafe { address.cast::<Raw>().write_unaligned(self.to_block().into_raw()) };
    }

    /// Drops the reference stored at `address`.
    ///
    /// # Safety
    /// As for [`at`](Self::at), and the reference must not be read afterwards.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn take(address: NonNull<u8>) {
        // SAFETY: the caller's promise.
        let raw = unsafe { Self::at(address) }.raw;
        // SAFETY: the pointer comes from `into_raw`, which transferred this count.
        drop(unsafe { Arc::from_raw(raw.buffer.as_ptr()) });
    }

    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        &self.buffer()[self.raw.from..self.raw.from + self.raw.len]
    }

    /// The object, if the block stands for one.
    pub fn object(self) -> Option<&'a dyn Object> {
        self.buffer().object.as_ref().map(|attached| &*attached.object)
    }

    /// Length of the value, or memory of the object.
    pub(crate) fn weight(self) -> usize {
        self.buffer().object.as_ref().map_or(self.raw.len, |object| object.bytes() as usize)
    }

    /// Updates the count of the object's memory. Calls for one object must not overlap.
    pub fn set_object_bytes(self, bytes: usize) {
        let Some(attached) = &self.buffer().object else { return };
        let bytes = Attached::counted(bytes);
        let before = attached.set_bytes(bytes);
        // ORDERING: Relaxed, a sum, which wraps as the difference does.
        self.buffer().blocks.bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// A buffer with this capacity in memory of the same index.
    ///
    /// # Errors
    /// The system has no address space left.
    pub fn buffer_in_same_index(self, capacity: usize) -> io::Result<Buffer> {
        Buffer::new(self.buffer().blocks.clone(), capacity)
    }

    fn buffer(self) -> &'a Buffer {
        // SAFETY: an owner holds a count for 'a.
        unsafe { self.raw.buffer.as_ref() }
    }

    /// The number of users.
    fn shares(self) -> usize {
        // SAFETY: an owner holds a count of this `Arc` for 'a, and `ManuallyDrop` leaves the count
        // unchanged.
        let buffer = ManuallyDrop::new(unsafe { Arc::from_raw(self.raw.buffer.as_ptr()) });
        Arc::strong_count(&buffer)
    }

    /// As [`Block::fair_share`].
    #[cold]
    pub(crate) fn fair_share(self) -> usize {
        self.buffer().footprint() / self.shares()
    }

    /// Bytes that become free with this reference: none while there are other users.
    #[cold]
    pub(crate) fn sole(self) -> usize {
        if self.shares() == 1 { self.buffer().footprint() } else { 0 }
    }

    /// Whether the block is counted by `blocks`.
    pub(crate) fn is_of(self, blocks: &Arc<Blocks>) -> bool {
        Arc::ptr_eq(&self.buffer().blocks, blocks)
    }

    /// A further reference, which may outlive this borrow.
    pub fn to_block(self) -> Block {
        let Raw { buffer, from, len } = self.raw;
        // SAFETY: as in `buffer`; the pointer is that of an `Arc`, and the count is incremented first.
        let buffer = unsafe {
            Arc::increment_strong_count(buffer.as_ptr());
            Arc::from_raw(buffer.as_ptr())
        };
        Block { buffer, from, len }
    }
}
