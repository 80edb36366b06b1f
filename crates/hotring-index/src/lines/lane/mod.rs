//! All accesses of the table's memory: lanes of 16 bytes, four in a line of 64.
//!
//! # Why this is sound
//!
//! A lane is read and written in accesses of 8, 16 and 64 bytes, by several threads at a time. Rust has no atomic type
//! for that, so:
//!
//! 1. The memory is never the target of an ordinary Rust access. References to a [`Line`] or [`Lane`] are to
//!    `UnsafeCell`s (the two atomic words), which allow others to write.
//! 2. 8 bytes go through `AtomicU64`. 16 and 64 bytes go through `asm!`, which the compiler must treat as any code that
//!    may do what atomic accesses of the same words may do. It does not move such a block past another one, nor past a
//!    fence.
//! 3. The blocks rely on guarantees of the processor: an aligned 16-byte load is one access on x86-64 processors with
//!    AVX (Intel's manual, volume 3, 9.1.1; AMD's, volume 2, 7.3.2), `lock cmpxchg16b` is one on all that have it, and
//!    a wider load reads each aligned 8 bytes in one access. The forms for processors without AVX load 16 bytes by
//!    `cmpxchg16b`. [`Form::best`] refuses where there is no `cmpxchg16b`.
//! 4. x86-64 loads are acquires and locked instructions are full barriers, so that each block has at least the order
//!    that its documentation names.
//!
//! On aarch64 an aligned 16-byte `ldp` is one access on processors with LSE2 (ARM's manual, B2.2.1), and `casp` is one
//! on all that have LSE. A wider load of NEON reads each aligned 8 bytes in one access. Loads that must be acquires end
//! with a barrier.
//!
//! Under loom a lane is one atomic word of two halves, so that all of the code above runs under it (`model.rs`).

#[cfg(all(target_arch = "aarch64", not(loom)))]
mod arm;
#[cfg(loom)]
mod model;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86;

#[cfg(all(target_arch = "aarch64", not(loom)))]
pub use arm::Form;
#[cfg(all(target_arch = "aarch64", not(loom)))]
pub(super) use arm::{Best, Lane, Neon, Plain, by_form};

#[cfg(loom)]
pub use model::Form;
#[cfg(loom)]
pub(super) use model::{Best, Lane, Model, Torn, by_form};
#[cfg(all(target_arch = "x86_64", not(loom)))]
pub use x86::Form;
#[cfg(all(target_arch = "x86_64", not(loom)))]
pub(super) use x86::{Avx2, Avx512, Best, Lane, Plain, Sse2, by_form};

use super::bits::LIVE;
use super::permutation::Permutation;

/// A cache line of lanes.
#[repr(C, align(64))]
pub(super) struct Line([Lane; LANES]);

/// Lanes of a line.
pub(super) const LANES: usize = 4;

/// The content of a lane at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) word: u64,
    pub(super) value: u64,
}

/// A form as a type, so that loops are compiled for each form.
pub(super) trait Search: Copy {
    /// A bit for each lane of which `word & mask == want & mask`: bit `2 * lane`. Each word is read at one moment, the
    /// line as a whole is not. The mask is passed by its address because AVX-512 can compare with a word of memory. An
    /// acquire.
    fn matches(line: &Line, want: u64, mask: &u64) -> Matches;

    /// Reads word and value at one moment. An acquire.
    fn load(lane: &Lane) -> Pair;

    /// As [`Permutation::hash_all`], with the instructions of the form.
    fn hash_all(permutation: &Permutation, keys: &[u64], hashes: &mut [u64]) {
        permutation.hash_all(keys, hashes);
    }
}

/// Lanes of a line, by bit `2 * lane`.
#[derive(Clone, Copy)]
pub(super) struct Matches(u32);

impl Matches {
    #[inline(always)]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Only lanes of this set, which has bit `2 * lane` as well.
    #[inline(always)]
    pub(super) fn only(self, lanes: u32) -> Self {
        Self(self.0 & lanes)
    }

    /// The first lane; the set must not be empty.
    #[inline(always)]
    pub(super) fn first(self, line: &Line) -> &Lane {
        // By bytes, as the bit's number then needs no division by two.
        let at = self.0.trailing_zeros() as usize * (size_of::<Lane>() / 2);
        // SAFETY: no form sets other bits than 2 * 0 to 2 * 3, so this is one of the four lanes.
        unsafe { &*line.0.as_ptr().byte_add(at) }
    }

    /// The lanes, one after the other.
    #[inline(always)]
    pub(super) fn each(mut self, line: &Line) -> impl Iterator<Item = &Lane> {
        std::iter::from_fn(move || {
            if self.is_empty() {
                return None;
            }
            let lane = self.first(line);
            self.0 &= self.0 - 1;
            Some(lane)
        })
    }
}

impl Line {
    /// Lane 0, whose word has the control bits of the line.
    #[inline(always)]
    pub(super) fn head(&self) -> &Lane {
        &self.0[0]
    }

    /// The control bits of the line, among those of lane 0's item. An acquire.
    #[inline(always)]
    pub(super) fn control(&self) -> u64 {
        self.0[0].word()
    }

    /// Whether all lanes have items. Advice, as the lanes are read one after the other.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.0.iter().all(|lane| lane.word() & LIVE != 0)
    }

    /// Whether this is lane 0.
    #[inline(always)]
    pub(super) fn is_head(&self, lane: &Lane) -> bool {
        std::ptr::eq(&raw const self.0[0], lane)
    }
}
