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
//! 3. What the blocks rely on is the processor's: an aligned 16-byte load is one access on x86-64 processors with AVX
//!    (Intel's manual, volume 3, 9.1.1; AMD's, volume 2, 7.3.2), `lock cmpxchg16b` is one on all that have it, and a
//!    wider load reads each aligned 8 bytes in one access. The forms for processors without AVX load 16 bytes by
//!    `cmpxchg16b`. [`Form::best`] refuses where there is no `cmpxchg16b`.
//! 4. x86-64 loads are acquires and locked instructions are full barriers, so that each block has at least the order
//!    that its documentation names.

use crate::core::sync::{AtomicU64, Ordering};
use std::arch::asm;

/// A place for one item: the word says whose, and the value is beside it.
#[repr(C, align(16))]
pub(super) struct Lane {
    word: AtomicU64,
    value: AtomicU64,
}

/// A cache line of lanes.
#[repr(C, align(64))]
pub(super) struct Line([Lane; LANES]);

/// Lanes of a line.
pub(super) const LANES: usize = 4;

/// What a lane had at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) word: u64,
    pub(super) value: u64,
}

/// The instructions with which lines are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One comparison of 64 bytes.
    Avx512,
    /// Two of 32.
    Avx2,
    /// Two of 16, for processors with AVX only.
    Sse2,
    /// Word by word, on all others.
    Plain,
}

/// A form as a type, so that loops are compiled for each.
pub(super) trait Search: Copy {
    /// A bit for each lane of which `word & mask == want & mask`: bit `2 * lane`. Each word is of one moment, the
    /// line is not. An acquire.
    fn matches(line: &Line, want: u64, mask: u64) -> Matches;

    /// Word and value of one moment. An acquire.
    fn load(lane: &Lane) -> Pair;
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

    /// The first lane, which is there.
    #[inline(always)]
    pub(super) fn first(self, line: &Line) -> &Lane {
        // SAFETY: no form sets bits above 2 * 3.
        unsafe { line.0.get_unchecked((self.0.trailing_zeros() / 2) as usize) }
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

#[derive(Clone, Copy)]
pub(super) struct Avx512;
#[derive(Clone, Copy)]
pub(super) struct Avx2;
#[derive(Clone, Copy)]
pub(super) struct Sse2;
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl Form {
    /// All of them, the best first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Sse2, Self::Plain];

    /// The best that this processor has. `None`: it has no atomic accesses of 16 bytes.
    pub fn best() -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.is_available())
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        let has_swap = is_x86_feature_detected!("cmpxchg16b");
        let has_loads = is_x86_feature_detected!("avx");
        has_swap
            && match self {
                Self::Avx512 => has_loads && is_x86_feature_detected!("avx512f"),
                Self::Avx2 => has_loads && is_x86_feature_detected!("avx2"),
                Self::Sse2 => has_loads,
                Self::Plain => true,
            }
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

    /// Whether this is lane 0.
    #[inline(always)]
    pub(super) fn is_head(&self, lane: &Lane) -> bool {
        std::ptr::eq(&raw const self.0[0], lane)
    }
}

impl Lane {
    /// The word alone. An acquire.
    #[inline(always)]
    pub(super) fn word(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in every write of a word.
        self.word.load(Ordering::Acquire)
    }

    /// The value alone: for a lane that is frozen, and so has one value. An acquire.
    #[inline(always)]
    pub(super) fn value(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release of the write that stored it.
        self.value.load(Ordering::Acquire)
    }

    /// Puts `new` in the place of `old`. Acquire and release.
    #[inline(always)]
    pub(super) fn swap(&self, old: Pair, new: Pair) -> bool {
        let won: u64;
        // SAFETY: the lane is aligned, and `Form::best` has found the instruction. LLVM keeps rbx for itself, so it is
        // put back, and no operand may be in it.
        unsafe {
            asm!(
                "xchg rbx, rsi",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "mov rbx, rsi",
                "sete cl",
                in("rdi") self,
                inout("rsi") new.word => _,
                inout("rcx") new.value => won,
                inout("rax") old.word => _,
                inout("rdx") old.value => _,
                options(nostack),
            );
        }
        won as u8 != 0
    }

    /// Puts `new` in the place of the word `old`; the value may be any. Acquire and release.
    #[inline(always)]
    pub(super) fn swap_word(&self, old: u64, new: u64) -> bool {
        // ORDERING: AcqRel, as the method says; Relaxed on failure, as nothing is read through what was found.
        self.word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Writes what is there, so that the page is.
    pub(super) fn touch(&self) {
        let word = self.word();
        // A change by another thread has written as well.
        let _ = self.swap_word(word, word);
    }

    /// Clears bits of the word. Acquire and release.
    #[inline(always)]
    pub(super) fn clear(&self, bits: u64) {
        // ORDERING: AcqRel, as the method says.
        self.word.fetch_and(!bits, Ordering::AcqRel);
    }

    /// Sets bits of the word. Acquire and release.
    #[inline(always)]
    pub(super) fn set(&self, bits: u64) {
        // ORDERING: AcqRel, as the method says.
        self.word.fetch_or(bits, Ordering::AcqRel);
    }
}

/// Word and value by one aligned load.
#[inline(always)]
fn load_by_sse(lane: &Lane) -> Pair {
    let (word, value): (u64, u64);
    // SAFETY: the lane is aligned and readable.
    unsafe {
        asm!(
            "movdqa {both}, xmmword ptr [{lane}]",
            "movq {word}, {both}",
            "punpckhqdq {both}, {both}",
            "movq {value}, {both}",
            lane = in(reg) lane,
            both = out(xmm_reg) _,
            word = lateout(reg) word,
            value = lateout(reg) value,
            options(nostack, readonly, preserves_flags),
        );
    }
    Pair { word, value }
}

impl Search for Avx512 {
    #[inline(always)]
    fn matches(line: &Line, want: u64, mask: u64) -> Matches {
        let found: u32;
        // Registers 16 and up have no upper halves that would slow later SSE instructions down.
        // SAFETY: the line is aligned and readable, and the form is available.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {want}",
                "vpbroadcastq zmm17, {mask}",
                "vpxorq zmm16, zmm16, zmmword ptr [{line}]",
                "vptestnmq k1, zmm16, zmm17",
                "kmovw {found:e}, k1",
                line = in(reg) line,
                want = in(reg) want,
                mask = in(reg) mask,
                found = lateout(reg) found,
                out("xmm16") _,
                out("xmm17") _,
                out("k1") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        Matches(found & 0x55)
    }

    #[inline(always)]
    fn load(lane: &Lane) -> Pair {
        load_by_sse(lane)
    }
}

impl Search for Avx2 {
    #[inline(always)]
    fn matches(line: &Line, want: u64, mask: u64) -> Matches {
        let (low, high): (u32, u32);
        // SAFETY: the line is aligned and readable, and the form is available. `vzeroupper` clears the upper halves of
        // all 16 registers, which are all named.
        unsafe {
            asm!(
                "vmovq xmm0, {want}",
                "vpbroadcastq ymm0, xmm0",
                "vmovq xmm1, {mask}",
                "vpbroadcastq ymm1, xmm1",
                "vpxor xmm2, xmm2, xmm2",
                "vpxor ymm3, ymm0, ymmword ptr [{line}]",
                "vpand ymm3, ymm3, ymm1",
                "vpcmpeqq ymm3, ymm3, ymm2",
                "vmovmskpd {low:e}, ymm3",
                "vpxor ymm0, ymm0, ymmword ptr [{line} + 32]",
                "vpand ymm0, ymm0, ymm1",
                "vpcmpeqq ymm0, ymm0, ymm2",
                "vmovmskpd {high:e}, ymm0",
                "vzeroupper",
                line = in(reg) line,
                want = in(reg) want,
                mask = in(reg) mask,
                low = out(reg) low,
                high = lateout(reg) high,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        Matches((low | high << 4) & 0x55)
    }

    #[inline(always)]
    fn load(lane: &Lane) -> Pair {
        load_by_sse(lane)
    }
}

impl Search for Sse2 {
    #[inline(always)]
    fn matches(line: &Line, want: u64, mask: u64) -> Matches {
        let (low, high): (u32, u32);
        // SAFETY: the line is aligned and readable.
        unsafe {
            asm!(
                "movq {want_}, {want}",
                "punpcklqdq {want_}, {want_}",
                "movq {mask_}, {mask}",
                "punpcklqdq {mask_}, {mask_}",
                "pxor {zero}, {zero}",
                "movdqa {words}, xmmword ptr [{line}]",
                "punpcklqdq {words}, xmmword ptr [{line} + 16]",
                "pxor {words}, {want_}",
                "pand {words}, {mask_}",
                "pcmpeqd {words}, {zero}",
                "movmskps {low:e}, {words}",
                "movdqa {words}, xmmword ptr [{line} + 32]",
                "punpcklqdq {words}, xmmword ptr [{line} + 48]",
                "pxor {words}, {want_}",
                "pand {words}, {mask_}",
                "pcmpeqd {words}, {zero}",
                "movmskps {high:e}, {words}",
                line = in(reg) line,
                want = in(reg) want,
                mask = in(reg) mask,
                want_ = out(xmm_reg) _,
                mask_ = out(xmm_reg) _,
                zero = out(xmm_reg) _,
                words = out(xmm_reg) _,
                low = out(reg) low,
                high = lateout(reg) high,
                options(nostack, readonly, preserves_flags),
            );
        }
        // Both halves of a word must match.
        let halves = low | high << 4;
        Matches(halves & halves >> 1 & 0x55)
    }

    #[inline(always)]
    fn load(lane: &Lane) -> Pair {
        load_by_sse(lane)
    }
}

impl Search for Plain {
    #[inline(always)]
    fn matches(line: &Line, want: u64, mask: u64) -> Matches {
        let is_match = |lane: &Lane| (lane.word() ^ want) & mask == 0;
        let bit = |(i, lane)| u32::from(is_match(lane)) << (2 * i);
        Matches(line.0.iter().enumerate().map(bit).sum())
    }

    /// The exchange stores what was there, or nothing, and so changes nothing.
    #[inline(always)]
    fn load(lane: &Lane) -> Pair {
        let (word, value): (u64, u64);
        // SAFETY: as in `Lane::swap`.
        unsafe {
            asm!(
                "xchg rbx, rsi",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "mov rbx, rsi",
                in("rdi") lane,
                inout("rsi") 0_u64 => _,
                in("rcx") 0_u64,
                inout("rax") 0_u64 => word,
                inout("rdx") 0_u64 => value,
                options(nostack),
            );
        }
        Pair { word, value }
    }
}
