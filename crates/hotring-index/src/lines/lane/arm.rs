//! Lanes on aarch64 with LSE, the atomic instructions of ARMv8.1: `casp` exchanges 16 bytes.

use super::{Line, Matches, Pair, Search};
use crate::core::sync::{AtomicU64, Ordering};
use std::arch::{asm, is_aarch64_feature_detected};

/// The slot of one item: a word that identifies the key, and the value next to it.
#[repr(C, align(16))]
pub(in crate::lines) struct Lane {
    word: AtomicU64,
    value: AtomicU64,
}

/// The instructions that search lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// NEON, and `ldp` for 16 bytes, which is one access on processors with LSE2.
    Neon,
    /// Word by word, and `casp` for 16 bytes, for all other processors.
    Plain,
}

#[derive(Clone, Copy)]
pub(in crate::lines) struct Neon;
#[derive(Clone, Copy)]
pub(in crate::lines) struct Plain;

/// The form that callers have compiled into their code.
pub(in crate::lines) type Best = Neon;

/// Runs code for a form.
macro_rules! by_form {
    ($form:expr, $search:ident => $do:expr) => {
        match $form {
            Form::Neon => {
                type $search = crate::lines::lane::Neon;
                $do
            }
            Form::Plain => {
                type $search = crate::lines::lane::Plain;
                $do
            }
        }
    };
}
pub(in crate::lines) use by_form;

impl Form {
    /// The form of [`Best`].
    pub(in crate::lines) const BEST: Self = Self::Neon;

    /// All forms, the best first.
    pub const ALL: [Self; 2] = [Self::Neon, Self::Plain];

    /// The best form that this processor has. `None`: it has no atomic accesses of 16 bytes.
    pub fn best() -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.is_available())
    }

    /// Whether this processor has the instructions.
    pub fn is_available(self) -> bool {
        let has_swap = is_aarch64_feature_detected!("lse");
        has_swap
            && match self {
                Self::Neon => is_aarch64_feature_detected!("lse2"),
                Self::Plain => true,
            }
    }
}

impl Lane {
    /// The word alone. An acquire.
    #[inline(always)]
    pub(in crate::lines) fn word(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in every write of a word.
        self.word.load(Ordering::Acquire)
    }

    /// The value alone: for a lane that is frozen, and so has one value. An acquire.
    #[inline(always)]
    pub(in crate::lines) fn value(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release of the write that stored it.
        self.value.load(Ordering::Acquire)
    }

    /// Replaces `old` by `new`; false if the lane has changed. Acquire and release.
    #[inline(always)]
    pub(in crate::lines) fn swap(&self, old: Pair, new: Pair) -> bool {
        exchange(self, old, new) == old
    }

    /// Replaces the word `old` by `new`, whatever the value is. Acquire and release.
    #[inline(always)]
    pub(in crate::lines) fn swap_word(&self, old: u64, new: u64) -> bool {
        // ORDERING: AcqRel, as the method says; Relaxed on failure, as nothing is read through what was found.
        self.word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Writes the word unchanged if it is zero, so that the page is allocated. No load comes first: it would map the
    /// system's page of zeros, which some kernels split into small pages on the next write.
    pub(in crate::lines) fn touch(&self) {
        // If the exchange fails, another thread has written to the page.
        let _ = self.swap_word(0, 0);
    }

    /// Clears bits of the word. Acquire and release.
    #[inline(always)]
    pub(in crate::lines) fn clear(&self, bits: u64) {
        // ORDERING: AcqRel, as the method says.
        self.word.fetch_and(!bits, Ordering::AcqRel);
    }

    /// Sets bits of the word. Acquire and release.
    #[inline(always)]
    pub(in crate::lines) fn set(&self, bits: u64) {
        // ORDERING: AcqRel, as the method says.
        self.word.fetch_or(bits, Ordering::AcqRel);
    }
}

/// Replaces `old` by `new`; returns the previous content, which is `old` on success. Acquire and
/// release.
#[inline(always)]
fn exchange(lane: &Lane, old: Pair, new: Pair) -> Pair {
    let (word, value): (u64, u64);
    // SAFETY: the lane is aligned, and `Form::best` has found the instruction.
    unsafe {
        asm!(
            ".arch_extension lse",
            "caspal x0, x1, x2, x3, [{lane}]",
            lane = in(reg) lane,
            inout("x0") old.word => word,
            inout("x1") old.value => value,
            in("x2") new.word,
            in("x3") new.value,
            options(nostack, preserves_flags),
        );
    }
    Pair { word, value }
}

impl Search for Neon {
    /// A load of several words is one access for each word, in any order; the barrier makes these accesses acquires.
    #[inline(always)]
    fn matches(line: &Line, want: u64, mask: &u64) -> Matches {
        let found: u64;
        // SAFETY: the line is aligned and readable, and all processors have NEON.
        unsafe {
            asm!(
                "ld2 {{v16.2d, v17.2d}}, [{line}], #32",
                "ld2 {{v18.2d, v19.2d}}, [{line}]",
                "dup v20.2d, {want}",
                "dup v21.2d, {mask}",
                "eor v16.16b, v16.16b, v20.16b",
                "eor v18.16b, v18.16b, v20.16b",
                "and v16.16b, v16.16b, v21.16b",
                "and v18.16b, v18.16b, v21.16b",
                "cmeq v16.2d, v16.2d, #0",
                "cmeq v18.2d, v18.2d, #0",
                "xtn v16.2s, v16.2d",
                "xtn2 v16.4s, v18.2d",
                "xtn v16.4h, v16.4s",
                "fmov {found}, d16",
                "dmb ishld",
                line = inout(reg) line => _,
                want = in(reg) want,
                mask = in(reg) *mask,
                found = out(reg) found,
                out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        // Each lane has 16 bits here, of which one is kept and moved to bit `2 * lane`.
        let found = found & 0x0001_0001_0001_0001;
        let bits = (found | found >> 14 | found >> 28 | found >> 42) & 0x55;
        Matches(bits as u32)
    }

    #[inline(always)]
    fn load(lane: &Lane) -> Pair {
        let (word, value): (u64, u64);
        // SAFETY: the lane is aligned and readable.
        unsafe {
            asm!(
                "ldp {word}, {value}, [{lane}]",
                "dmb ishld",
                lane = in(reg) lane,
                word = out(reg) word,
                value = lateout(reg) value,
                options(nostack, readonly, preserves_flags),
            );
        }
        Pair { word, value }
    }
}

impl Search for Plain {
    #[inline(always)]
    fn matches(line: &Line, want: u64, mask: &u64) -> Matches {
        let is_match = |lane: &Lane| (lane.word() ^ want) & *mask == 0;
        let bit = |(i, lane)| u32::from(is_match(lane)) << (2 * i);
        Matches(line.0.iter().enumerate().map(bit).sum())
    }

    /// Loads by an exchange of zeros for zeros, which never changes the lane.
    #[inline(always)]
    fn load(lane: &Lane) -> Pair {
        let nothing = Pair { word: 0, value: 0 };
        exchange(lane, nothing, nothing)
    }
}
