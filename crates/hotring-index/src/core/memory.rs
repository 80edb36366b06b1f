//! Anonymous memory from the system: reserved address ranges and aligned chunks.

use std::io;
use std::ptr::NonNull;

/// Size and alignment of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// A multiple of every page size that Linux uses for ordinary memory.
const PAGE_MAX: usize = 64 << 10;

/// The page size, or a multiple of it.
pub(crate) const PAGE: usize = if cfg!(target_arch = "x86_64") { 4 << 10 } else { PAGE_MAX };

/// The low bits of a link hold an address.
const ADDRESS_BITS: u32 = 48;

/// Whether all addresses of the block fit into links.
pub(crate) fn is_addressable(start: NonNull<u8>, len: usize) -> bool {
    let end = start.as_ptr().addr().checked_add(len);
    end.is_some_and(|end| end <= 1 << ADDRESS_BITS)
}

/// Returns pages to the system; they read as zeros afterwards. False if the range does not consist of entire
/// pages, or the system refused (locked memory); any part of the range may then read as zeros.
///
/// # Safety
/// The range must lie in a mapping of the caller, and no session may use its contents.
pub(crate) unsafe fn give_back(start: NonNull<u8>, len: usize) -> bool {
    if !start.as_ptr().addr().is_multiple_of(PAGE_MAX) || !len.is_multiple_of(PAGE_MAX) {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTNEED) == 0 }
}

/// Makes the process's allocator return unused pages. It walks its complete heap.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Maps anonymous pages whose addresses fit into links. They read as zeros.
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

/// As `map_pages`, for ranges that are filled page by page and may stay mostly empty.
pub(crate) fn map_sparse(len: usize) -> io::Result<NonNull<u8>> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
    if raw == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Only advice: if refused, one touched byte may take a huge page.
    // SAFETY: the range is ours, and the advice does not change its contents.
    unsafe { libc::madvise(raw, len, libc::MADV_NOHUGEPAGE) };
    Ok(NonNull::new(raw.cast()).expect("mmap never returns address 0 here"))
}

/// Extends a mapping of `map_sparse`, possibly at another address. New pages read as zeros.
///
/// # Safety
/// `map_sparse` must have returned the mapping with this length, and no session may use it. After an error
/// it is unchanged.
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

/// Unmaps a mapping of `map_pages` or `map_sparse`, or its end.
///
/// # Safety
/// The mapping must have this length, and no session may use it.
pub(crate) unsafe fn unmap_pages(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if libc::munmap(start.as_ptr().cast(), len) != 0 {
            // The process has reached its limit of mappings, and this call would split one. Address space
            // is lost, memory is not.
            libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTNEED);
        }
    }
}

/// A mapped range, zero until first use, unmapped on drop.
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an address range; its owner is responsible for access to its bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes (a multiple of a huge page), aligned to a huge page. Memory is used only where
    /// it is touched. All addresses fit into links.
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
        // SAFETY: lead < HUGE_PAGE, so both edges lie inside the new mapping, and [lead, lead + len) stays.
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
            // Only advice: if refused, ordinary pages serve.
            // SAFETY: the range is ours, and the advice does not change its contents.
            unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
        let mapping = Self { start, len };
        if !is_addressable(start, len) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(mapping)
    }

    /// The start of the range.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Makes the system back the bytes from `from` to `to` (entire huge pages) with memory, in huge pages if
    /// possible. The contents stay. False: the system refused.
    pub fn populate(&self, from: usize, to: usize) -> bool {
        self.advise(from, to, libc::MADV_POPULATE_WRITE)
    }

    /// Makes the system replace the small pages from `from` to `to` with huge pages. The contents stay. False:
    /// the system refused.
    pub fn collapse(&self, from: usize, to: usize) -> bool {
        self.advise(from, to, libc::MADV_COLLAPSE)
    }

    /// Gives the system an advice that does not change the contents of the bytes.
    fn advise(&self, from: usize, to: usize, advice: i32) -> bool {
        assert!(from <= to && to <= self.len, "inside of the mapping");
        // SAFETY: the range is ours, and the advice does not change its contents.
        unsafe { libc::madvise(self.start.as_ptr().add(from).cast(), to - from, advice) == 0 }
    }

    /// Returns the bytes from `from` to `to` to the system; they read as zeros afterwards. False if the range does
    /// not consist of entire pages, or the system refused; any part of the range may then read as zeros. No session
    /// may use the bytes meanwhile.
    pub fn give_back(&self, from: usize, to: usize) -> bool {
        assert!(from <= to && to <= self.len, "inside of the mapping");
        // SAFETY: the range is ours, and its contents are no longer used.
        unsafe { give_back(self.start.add(from), to - from) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `reserve` mapped the range, and the structures that hold references into it own the
        // Mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
