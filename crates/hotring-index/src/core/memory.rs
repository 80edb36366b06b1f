//! Anonymous memory from the system: reserved address ranges and aligned chunks.

use std::io;
use std::ptr::NonNull;

/// Size and alignment of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// A multiple of every page size that Linux uses for memory that is no huge page.
const PAGE_MAX: usize = 64 << 10;

/// A page, or several.
pub(crate) const PAGE: usize = if cfg!(target_arch = "x86_64") { 4 << 10 } else { PAGE_MAX };

/// Links keep an address in the low bits of a word.
const ADDRESS_BITS: u32 = 48;

/// Whether all addresses of a block fit into links.
pub(crate) fn is_addressable(start: NonNull<u8>, len: usize) -> bool {
    let end = start.as_ptr().addr().checked_add(len);
    end.is_some_and(|end| end <= 1 << ADDRESS_BITS)
}

/// Gives whole pages back to the system; they read as zeros from then on. False: these are no whole
/// pages, or the system refused (where memory is locked), and any part of them may be zeros by now.
///
/// # Safety
/// They lie in a mapping of the caller's, and no session uses what is in them.
pub(crate) unsafe fn give_back(start: NonNull<u8>, len: usize) -> bool {
    if !start.as_ptr().addr().is_multiple_of(PAGE_MAX) || !len.is_multiple_of(PAGE_MAX) {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTNEED) == 0 }
}

/// Has the process's allocator give back the pages that it keeps and no session uses. It walks over all that it has.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Anonymous memory of whole pages, whose addresses fit into links. It reads as zeros.
#[cfg_attr(any(loom, shuttle, hotring_plain_arena), allow(dead_code))]
pub(crate) fn map_pages(len: usize) -> io::Result<NonNull<u8>> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
    if raw == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let block = NonNull::new(raw.cast()).expect("mmap never returns address 0 here");
    assert!(is_addressable(block, len), "memory at {block:p} does not fit into a link");
    Ok(block)
}

/// As `map_pages`, of pages that take memory one by one, as they are touched, and of which most may never be.
pub(crate) fn map_sparse(len: usize) -> io::Result<NonNull<u8>> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
    if raw == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Only advice: where it is refused, a touched byte may take a huge page.
    // SAFETY: the range is ours, and the advice does not change its contents.
    unsafe { libc::madvise(raw, len, libc::MADV_NOHUGEPAGE) };
    Ok(NonNull::new(raw.cast()).expect("mmap never returns address 0 here"))
}

/// Makes what `map_sparse` returned longer, perhaps at another address. What is new reads as zeros.
///
/// # Safety
/// It returned it with this length, and no session uses what is there. After an error it is as before.
pub(crate) unsafe fn grow_pages(
    start: NonNull<u8>,
    len: usize,
    new_len: usize,
) -> io::Result<NonNull<u8>> {
    let start = start.as_ptr().cast();
    // SAFETY: the caller's promise.
    let raw = unsafe { libc::mremap(start, len, new_len, libc::MREMAP_MAYMOVE) };
    if raw == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(raw.cast()).expect("mremap never returns address 0 here"))
}

/// Gives back what `map_pages` or `map_sparse` returned, or its end.
///
/// # Safety
/// It did with this length, and no session uses what is there.
pub(crate) unsafe fn unmap_pages(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if libc::munmap(start.as_ptr().cast(), len) != 0 {
            // The process has as many mappings as it may have, and this would split one. The address
            // space is lost then, the memory is not.
            libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTNEED);
        }
    }
}

/// A mapped range, zeroed on first touch, given back on drop.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapping is an address range; what is done with its bytes is its owner's concern.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes (a multiple of a huge page), aligned to a huge page. Memory is used
    /// only where it is touched. All addresses in it fit into links.
    pub fn reserve(len: usize, huge_pages: bool) -> io::Result<Self> {
        assert!(len > 0 && len.is_multiple_of(HUGE_PAGE), "whole huge pages only");
        let padded = len.checked_add(HUGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), padded, prot, flags, -1, 0) };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let raw = raw.cast::<u8>();
        let lead = raw.align_offset(HUGE_PAGE);
        // SAFETY: lead < HUGE_PAGE, so both edges lie inside the mapping just made, and the range
        // that is kept is [lead, lead + len).
        let start = unsafe {
            if lead > 0 {
                libc::munmap(raw.cast(), lead);
            }
            let start = raw.add(lead);
            libc::munmap(start.add(len).cast(), HUGE_PAGE - lead);
            start
        };
        let start = NonNull::new(start).expect("mmap never returns address 0 here");
        if huge_pages {
            // Only advice: where it is refused, ordinary pages serve.
            // SAFETY: the range is ours, and the advice does not change its contents.
            unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
        let mapping = Self { start, len };
        if !is_addressable(start, len) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(mapping)
    }

    /// Where the range begins.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Has the system put memory behind the bytes from `from` to `to`, whole huge pages, in huge pages where it can.
    /// What is in them stays. False: it did not.
    pub fn populate(&self, from: usize, to: usize) -> bool {
        self.advise(from, to, libc::MADV_HUGEPAGE);
        self.advise(from, to, libc::MADV_POPULATE_WRITE)
    }

    /// Has the system replace small pages from `from` to `to` by huge ones. What is in them stays. False: it did not.
    pub fn collapse(&self, from: usize, to: usize) -> bool {
        self.advise(from, to, libc::MADV_COLLAPSE)
    }

    /// Gives an advice that does not change what is in the bytes.
    fn advise(&self, from: usize, to: usize, advice: i32) -> bool {
        assert!(from <= to && to <= self.len, "inside of the mapping");
        // SAFETY: the range is ours, and the advice does not change its contents.
        unsafe { libc::madvise(self.start.as_ptr().add(from).cast(), to - from, advice) == 0 }
    }

    /// Gives the bytes from `from` to `to` back to the system; they read as zeros from then on.
    /// False: these are no whole pages, or the system refused, and any part of them may be zeros by
    /// now. No session uses the bytes meanwhile.
    pub fn give_back(&self, from: usize, to: usize) -> bool {
        assert!(from <= to && to <= self.len, "inside of the mapping");
        // SAFETY: the range is ours, and what was in it is not used any more.
        unsafe { give_back(self.start.add(from), to - from) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `reserve` and no session holds a reference into it: the
        // structures that do own the Mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
