//! Prefetch instructions for cache lines, values and items.

use crate::core::item::Kind;

/// Prefetches the cache line at `at`. Does nothing on processors without such an instruction.
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

/// Prefetches a cache line that will be written, in exclusive state. For the `lines` engine.
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

/// Prefetches the first cache line of a value. For benchmarks of raw memory throughput.
#[inline(always)]
pub fn prefetch_value<T>(value: &T) {
    prefetch(std::ptr::from_ref(value).cast());
}

/// Prefetches the bytes of the item at `address` that a lookup reads (address 0 is harmless). They may span
/// two cache lines, because items begin at any multiple of 8.
#[inline(always)]
pub fn prefetch_item<K: Kind>(address: u64) {
    let start = std::ptr::without_provenance::<u8>(address as usize);
    prefetch(start);
    prefetch(start.wrapping_add(K::LOOKED_AT - 1));
}
