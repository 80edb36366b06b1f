//! The one instruction by which memory is asked for before it is wanted.

use crate::core::item::Kind;

/// Asks for the cache line at `at`; does nothing where there is no such instruction.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing into the program and cannot fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{at}]", at = in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// As [`prefetch`], for a line that will be written: no other core keeps it. For lines.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64", loom), not(shuttle)))]
#[inline(always)]
pub fn prefetch_to_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{at}]", at = in(reg) at, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Asks for the first cache line of a value. For measurements of what memory can do.
#[inline(always)]
pub fn prefetch_value<T>(value: &T) {
    prefetch(std::ptr::from_ref(value).cast());
}

/// Asks for what a lookup is going to read of the item at `address` (0: of nothing). That may be two
/// lines: items begin at any multiple of 8.
#[inline(always)]
pub fn prefetch_item<K: Kind>(address: u64) {
    let start = std::ptr::without_provenance::<u8>(address as usize);
    prefetch(start);
    prefetch(start.wrapping_add(K::LOOKED_AT - 1));
}
