//! Memory of long values: pages of their own, filled by one owner, then shared by all who use them, and
//! given back bit by bit.
//!
//! A value of more than [`LONG_LEN`] bytes does not lie in its item, which has a [`Block`] in its place. So
//! only its maker copies it: a copy of the item (with another expiry, or elsewhere in memory) has
//! the same block, a reader may keep it for as long as it wants ([`Entry::block`](crate::Entry::block)), and
//! who receives a value from elsewhere receives it into a [`Buffer`], of which it becomes a part as it is.
//!
//! A system takes 0.1 ms to take back a megabyte of pages, so it would be long for a long value, in the
//! middle of whatever freed it. What is longer than `AT_ONCE` is taken back in steps
//! ([`Session::collect`](crate::Session::collect)).
//!
//! Items with a checksum have their values inside, whatever their length: a check of a value is made
//! from the bytes behind its key, and vouches for no address.

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

/// This many bytes are given back where they become free; of more, this many at a time.
const AT_ONCE: usize = 1 << 20;

/// A value may be a part of a buffer if not more than one part in this many of that is not the value's.
const PARTS: usize = 8;

/// Pages of an index's buffers and blocks: how many, and which are to be given back.
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

    /// Bytes of memory that buffers and blocks take, those included that are being given back.
    pub(crate) fn bytes(&self) -> u64 {
        // ORDERING: Relaxed, a sum; so for all below.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are being given back.
    pub(crate) fn dying_bytes(&self) -> u64 {
        // ORDERING: Relaxed, as in `bytes`.
        self.dying_bytes.load(Ordering::Relaxed)
    }

    /// Gives back a bounded part of what is free.
    #[inline]
    pub(crate) fn step(&self) {
        if self.dying_bytes() > 0 {
            self.give_back_some();
        }
    }

    /// Gives back this many bytes at once, if as many are free.
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

    /// Bytes that were dying are free.
    fn given_back(&self, bytes: u64) {
        // ORDERING: Relaxed, as in `bytes`; both only once they are free.
        self.dying_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Frees a part of an object that no session uses any more.
    fn dismantle_some(&self) {
        let next = self.dying_objects.lock().expect("no code panics under this lock").pop();
        // Others may be at other objects, or there is none left.
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

    /// Takes an object that no session uses any more.
    fn bury_object(&self, object: Attached) {
        // ORDERING: Relaxed, as in `bytes`. Before another session can take them off again.
        self.dying_bytes.fetch_add(object.bytes(), Ordering::Relaxed);
        self.dying_objects.lock().expect("no code panics under this lock").push(object);
    }

    /// Takes pages, all in memory, that no session uses any more.
    fn bury(&self, pages: Pages) {
        let len = pages.len as u64;
        if pages.len <= AT_ONCE {
            drop(pages);
            // ORDERING: Relaxed, as in `bytes`.
            self.bytes.fetch_sub(len, Ordering::Relaxed);
            return;
        }
        // ORDERING: Relaxed, as in `bytes`. Before anybody can take them off again.
        self.dying_bytes.fetch_add(len, Ordering::Relaxed);
        self.dying.lock().expect("no code panics under this lock").push(pages);
    }
}

/// A value with an inside of its own, for which a block stands: what reads and changes it is its own
/// affair. The index counts its memory, and takes it apart in steps when it goes.
pub trait Object: Any + Send + Sync {
    /// Frees a part of about a megabyte, and returns the bytes; None once nothing is left. No session can
    /// see the object any more.
    fn dismantle(&mut self) -> Option<usize>;
}

/// An object, with the bytes that are counted for it.
struct Attached {
    object: Box<dyn Object>,
    bytes: TallyU64,
}

impl Attached {
    /// What is counted for an object of this many bytes: an even number, as for all that items have elsewhere.
    fn counted(bytes: usize) -> u64 {
        (bytes + size_of::<Buffer>()).next_multiple_of(8) as u64
    }

    fn bytes(&self) -> u64 {
        // ORDERING: Relaxed, a count; so for its changes.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns what was counted before.
    fn set_bytes(&self, bytes: u64) -> u64 {
        self.bytes.swap(bytes, Ordering::Relaxed)
    }
}

/// A mapping, or none if it is empty. Unmapped on drop.
struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an address range; what is done with its bytes is its owner's concern.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(len: usize) -> io::Result<Pages> {
        Ok(Pages { start: map_sparse(len)?, len })
    }

    /// Takes away what lies behind `len`, a multiple of a page.
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
            // SAFETY: mapped, and no other session's; no session uses it any more, since its owner goes.
            unsafe { unmap_pages(self.start, self.len) };
        }
    }
}

/// Bytes that arrive, in memory of an index ([`Index::buffer`](crate::Index::buffer)): what has arrived of
/// them is what it shows. Takes memory as they arrive, whatever it was made for.
pub struct Buffer {
    pages: Pages,
    len: usize,
    /// Bytes of memory that are counted: pages that something has arrived in.
    counted: usize,
    blocks: Arc<Blocks>,
    object: Option<Attached>,
}

impl Buffer {
    /// For `capacity` bytes at first.
    ///
    /// # Errors
    /// The system has no address space left.
    pub(crate) fn new(blocks: Arc<Blocks>, capacity: usize) -> io::Result<Buffer> {
        let len =
            capacity.max(1).checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let pages = Pages::map(len)?;
        Ok(Buffer { pages, len: 0, counted: 0, blocks, object: None })
    }

    /// The bytes behind those that have arrived, for more of them, at least one. They have arrived once
    /// [`advance`](Self::advance) says so.
    ///
    /// # Errors
    /// The system has no address space left. O(1), or by what it takes the system to move pages.
    pub fn spare(&mut self, at_least: usize) -> io::Result<&mut [u8]> {
        let wanted = self.len.checked_add(at_least.max(1)).ok_or(io::ErrorKind::OutOfMemory)?;
        if wanted > self.pages.len {
            // Address space costs nothing, to move pages does.
            let wanted = wanted.max(self.pages.len + self.pages.len / 4);
            let len = wanted.checked_next_multiple_of(PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
            // SAFETY: the mapping is this one's; no session has a reference into it.
            self.pages.start = unsafe { grow_pages(self.pages.start, self.pages.len, len) }?;
            self.pages.len = len;
        }
        // SAFETY: mapped, readable as zeros before it is written, and no other session's.
        Ok(unsafe {
            let start = self.pages.start.add(self.len).as_ptr();
            std::slice::from_raw_parts_mut(start, self.pages.len - self.len)
        })
    }

    /// Says that `n` more bytes have arrived.
    ///
    /// # Panics
    /// They are more than there is room for.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.pages.len - self.len, "as many as fit");
        self.len += n;
        let counted = self.len.next_multiple_of(PAGE);
        // ORDERING: Relaxed, a sum.
        self.blocks.bytes.fetch_add((counted - self.counted) as u64, Ordering::Relaxed);
        self.counted = counted;
        // Who takes memory gives back as much, or it would not come to an end where values are replaced all the time.
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

    /// Bytes of memory that it takes.
    pub fn footprint(&self) -> usize {
        self.counted + self.object.as_ref().map_or(0, |object| object.bytes() as usize)
    }

    /// These bytes of it, as a value that is stored as it is; None if they are not, or are so little of it
    /// that a copy is better.
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
        // SAFETY: mapped, and changed by no session while there is a reference to the buffer.
        unsafe { std::slice::from_raw_parts(self.pages.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            self.blocks.bury_object(object);
        }
        // What nothing has arrived in is no memory.
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

/// Bytes of a long value, which no session copies and no session changes: they stay as they are, and in memory, for
/// as long as anybody has them, whatever becomes of the key.
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

    /// A block without bytes that stands for an object, with the bytes of memory that it takes.
    pub(crate) fn of_object(blocks: &Arc<Blocks>, object: Box<dyn Object>, bytes: usize) -> Block {
        let bytes = Attached::counted(bytes);
        // ORDERING: Relaxed, a sum.
        blocks.bytes.fetch_add(bytes, Ordering::Relaxed);
        let pages = Pages { start: NonNull::dangling(), len: 0 };
        let object = Some(Attached { object, bytes: TallyU64::new(bytes) });
        let buffer = Buffer { pages, len: 0, counted: 0, blocks: blocks.clone(), object };
        Block { buffer: Arc::new(buffer), from: 0, len: 0 }
    }

    /// The object that it stands for.
    pub fn object(&self) -> Option<&dyn Object> {
        self.lend().object()
    }

    /// A part of these bytes, which is given as a slice of them; None if it is another's.
    pub fn part(&self, part: &[u8]) -> Option<Block> {
        let from = part.as_ptr().addr().checked_sub(self.as_ptr().addr())?;
        let is_inside = from.checked_add(part.len())? <= self.len;
        is_inside.then(|| Block {
            buffer: self.buffer.clone(),
            from: self.from + from,
            len: part.len(),
        })
    }

    /// Bytes of memory that are free when no session has it any more.
    pub fn footprint(&self) -> usize {
        self.buffer.footprint()
    }

    /// The part of them for each of all who have it now: keys, readers, connections.
    pub fn fair_share(&self) -> usize {
        self.footprint() / Arc::strong_count(&self.buffer)
    }

    /// Shows it, for as long as there is this reference.
    pub fn lend(&self) -> BlockRef<'_> {
        let buffer = Arc::as_ptr(&self.buffer).cast_mut();
        let buffer = NonNull::new(buffer).expect("an Arc is somewhere");
        BlockRef { raw: Raw { buffer, from: self.from, len: self.len }, borrow: PhantomData }
    }

    /// Leaves its share of the buffer to whoever has the result.
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

/// What an item has of its block: a share of the buffer, which its [`Arc`] counts.
#[derive(Clone, Copy, Debug)]
struct Raw {
    buffer: NonNull<Buffer>,
    from: usize,
    len: usize,
}

/// Bytes of an item that it takes.
pub(crate) const STORED: usize = size_of::<Raw>();

/// A block that an owner keeps for that long.
#[derive(Clone, Copy, Debug)]
pub struct BlockRef<'a> {
    raw: Raw,
    borrow: PhantomData<&'a Buffer>,
}

impl<'a> BlockRef<'a> {
    /// The block at a place that one was stored at.
    ///
    /// # Safety
    /// [`store`](Self::store) wrote it there, and it is not taken away for as long as the result is used.
    pub(crate) unsafe fn at(place: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise; the place need not be aligned.
        BlockRef { raw: unsafe { place.cast::<Raw>().read_unaligned() }, borrow: PhantomData }
    }

    /// Stores another share of it.
    ///
    /// # Safety
    /// The place has room for `STORED` bytes. Whoever has it calls [`take`](Self::take) once.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn store(self, place: NonNull<u8>) {
        // SAFETY: the caller's promise; the place need not be aligned.
        unsafe { place.cast::<Raw>().write_unaligned(self.to_block().into_raw()) };
    }

    /// Gives up the share that is stored at a place.
    ///
    /// # Safety
    /// As for [`at`](Self::at), and it is taken away by this.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn take(place: NonNull<u8>) {
        // SAFETY: the caller's promise.
        let raw = unsafe { Self::at(place) }.raw;
        // SAFETY: from `into_raw`, whose count this is.
        drop(unsafe { Arc::from_raw(raw.buffer.as_ptr()) });
    }

    /// All of its bytes.
    pub fn bytes(self) -> &'a [u8] {
        &self.buffer()[self.raw.from..self.raw.from + self.raw.len]
    }

    /// The object that it stands for.
    pub fn object(self) -> Option<&'a dyn Object> {
        self.buffer().object.as_ref().map(|attached| &*attached.object)
    }

    /// Bytes that a value takes: its own, or those of the object.
    pub(crate) fn weight(self) -> usize {
        self.buffer().object.as_ref().map_or(self.raw.len, |object| object.bytes() as usize)
    }

    /// Says how many bytes of memory the object takes now. Of calls for one object, none overlaps another.
    pub fn set_object_bytes(self, bytes: usize) {
        let Some(attached) = &self.buffer().object else { return };
        let bytes = Attached::counted(bytes);
        let before = attached.set_bytes(bytes);
        // ORDERING: Relaxed, a sum, which wraps as the difference does.
        self.buffer().blocks.bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// A buffer for this many bytes at first, in memory of the same index.
    ///
    /// # Errors
    /// The system has no address space left.
    pub fn buffer_beside(self, capacity: usize) -> io::Result<Buffer> {
        Buffer::new(self.buffer().blocks.clone(), capacity)
    }

    fn buffer(self) -> &'a Buffer {
        // SAFETY: an owner has a share for 'a.
        unsafe { self.raw.buffer.as_ref() }
    }

    /// How many have it.
    fn shares(self) -> usize {
        // SAFETY: the pointer is that of an `Arc`, of which an owner has a share for 'a; this one's is not given up.
        let buffer = ManuallyDrop::new(unsafe { Arc::from_raw(self.raw.buffer.as_ptr()) });
        Arc::strong_count(&buffer)
    }

    /// As [`Block::fair_share`].
    #[cold]
    pub(crate) fn fair_share(self) -> usize {
        self.buffer().footprint() / self.shares()
    }

    /// Bytes of memory that go with it: none if others have it, too.
    #[cold]
    pub(crate) fn sole(self) -> usize {
        if self.shares() == 1 { self.buffer().footprint() } else { 0 }
    }

    /// Whether it counts where the others of these count.
    pub(crate) fn is_of(self, blocks: &Arc<Blocks>) -> bool {
        Arc::ptr_eq(&self.buffer().blocks, blocks)
    }

    /// A share of it, to have it for longer.
    pub fn to_block(self) -> Block {
        let Raw { buffer, from, len } = self.raw;
        // SAFETY: as in `bytes`; the pointer is that of an `Arc`, and this is a count of it.
        let buffer = unsafe {
            Arc::increment_strong_count(buffer.as_ptr());
            Arc::from_raw(buffer.as_ptr())
        };
        Block { buffer, from, len }
    }
}
