//! Flushes memory out of the processor's caches, as a store must that orders its writes to persistent memory by
//! hand (RHKV section 6.7). The function is in this crate because it is `unsafe`; it calls no C++.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Flushes the cache lines of these bytes and waits until that is done. Returns false, without flushing, on
/// processors other than x86-64.
#[cfg(target_arch = "x86_64")]
pub fn flush(bytes: &[u8]) -> bool {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    let end = bytes.len();
    let unaligned = bytes.as_ptr().addr() % LINE;
    let first = if unaligned == 0 { 0 } else { (LINE - unaligned).min(end) };
    let lines = std::iter::once(0).chain((first..end).step_by(LINE)).filter(|at| *at < end);
    for at in lines {
        // SAFETY: the address lies within `bytes`; every x86-64 processor has SSE2; a flush changes no
        // content.
        unsafe { _mm_clflush(bytes[at..].as_ptr()) };
    }
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { _mm_mfence() };
    true
}

/// Flushes nothing and returns false: this processor is not supported.
#[cfg(not(target_arch = "x86_64"))]
pub fn flush(_: &[u8]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_keeps_the_bytes() {
        let bytes: Vec<u8> = (0..200).collect();
        for part in [&bytes[..], &bytes[3..4], &bytes[1..140], &[]] {
            assert_eq!(flush(part), cfg!(target_arch = "x86_64"));
        }
        assert!(bytes.iter().copied().eq(0..200));
    }
}
