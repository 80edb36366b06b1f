//! Lanes on x86-64.

use super::{Line, Matches, Pair, Permutation, Search};
use crate::core::sync::{AtomicU64, Ordering};
use std::arch::asm;

/// The slot of one item: a word that identifies the key, and the value next to it.
#[repr(C, align(16))]
pub(in crate::lines) struct Lane {
    word: AtomicU64,
    value: AtomicU64,
}

/// The instructions that search lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One comparison of 64 bytes, for processors with AVX-512 F, DQ and BW.
    Avx512,
    /// Two comparisons of 32 bytes, for processors with AVX2.
    Avx2,
    /// Two comparisons of 16 bytes, for processors with AVX but not AVX2.
    Sse2,
    /// Word by word, for all other processors.
    Plain,
}

#[derive(Clone, Copy)]
pub(in crate::lines) struct Avx512;
#[derive(Clone, Copy)]
pub(in crate::lines) struct Avx2;
#[derive(Clone, Copy)]
pub(in crate::lines) struct Sse2;
#[derive(Clone, Copy)]
pub(in crate::lines) struct Plain;

/// The form that callers have compiled into their code.
pub(in crate::lines) type Best = Avx512;

/// Runs code for a form.
macro_rules! by_form {
    ($form:expr, $search:ident => $do:expr) => {
        match $form {
            Form::Avx512 => {
                type $search = crate::lines::lane::Avx512;
                $do
            }
            Form::Avx2 => {
                type $search = crate::lines::lane::Avx2;
                $do
            }
            Form::Sse2 => {
                type $search = crate::lines::lane::Sse2;
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
    pub(in crate::lines) const BEST: Self = Self::Avx512;

    /// All forms, the best first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Sse2, Self::Plain];

    /// The best form that this processor has. `None`: it has no atomic accesses of 16 bytes.
    pub fn best() -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.is_available())
    }

    /// Whether this processor has the instructions.
    pub fn is_available(self) -> bool {
        let has_swap = is_x86_feature_detected!("cmpxchg16b");
        let has_loads = is_x86_feature_detected!("avx");
        has_swap
            && match self {
                Self::Avx512 => {
                    has_loads
                        && is_x86_feature_detected!("avx512f")
                        && is_x86_feature_detected!("avx512dq")
                        && is_x86_feature_detected!("avx512bw")
                }
                Self::Avx2 => has_loads && is_x86_feature_detected!("avx2"),
                Self::Sse2 => has_loads,
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
        let won: u64;
        // SAFETY: the lane is aligned, and `Form::best` has found the instruction. LLVM reserves rbx, so the block
        // restores it, and no operand may be in it.
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

/// Word and value by one aligned load. Processors without AVX do not make it one access.
#[inline(always)]
fn load_by_avx(lane: &Lane) -> Pair {
    let (word, value): (u64, u64);
    // SAFETY: the lane is aligned and readable.
    unsafe {
        asm!(
            "vmovdqa {both}, xmmword ptr [{lane}]",
            "vmovq {word}, {both}",
            "vpextrq {value}, {both}, 1",
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
    fn matches(line: &Line, want: u64, mask: &u64) -> Matches {
        let found: u32;
        // Registers 16 and up have no upper halves that would slow later SSE instructions down.
        // SAFETY: the line is aligned and readable, and so is the mask; the form is available.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {want}",
                "vpxorq zmm16, zmm16, zmmword ptr [{line}]",
                "vptestnmq k1, zmm16, qword ptr [{mask}]{{1to8}}",
                "kmovw {found:e}, k1",
                line = in(reg) line,
                want = in(reg) want,
                mask = in(reg) mask,
                found = lateout(reg) found,
                out("xmm16") _,
                out("k1") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        Matches(found & 0x55)
    }

    #[inline(always)]
    fn load(lane: &Lane) -> Pair {
        load_by_avx(lane)
    }

    fn hash_all(permutation: &Permutation, keys: &[u64], hashes: &mut [u64]) {
        // SAFETY: the form is available, and so are its instructions.
        unsafe { hash_by_avx512(permutation, keys, hashes) }
    }
}

/// Eight keys at a time.
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
fn hash_by_avx512(permutation: &Permutation, keys: &[u64], hashes: &mut [u64]) {
    permutation.hash_all(keys, hashes);
}

impl Search for Avx2 {
    #[inline(always)]
    fn matches(line: &Line, want: u64, mask: &u64) -> Matches {
        let (low, high): (u32, u32);
        // SAFETY: line and mask are aligned and readable, and the form is available. `vzeroupper` clears the upper
        // halves of all 16 registers, which are all named.
        unsafe {
            asm!(
                "vmovq xmm0, {want}",
                "vpbroadcastq ymm0, xmm0",
                "vpbroadcastq ymm1, qword ptr [{mask}]",
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
        load_by_avx(lane)
    }
}

impl Search for Sse2 {
    #[inline(always)]
    fn matches(line: &Line, want: u64, mask: &u64) -> Matches {
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
                mask = in(reg) *mask,
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
        load_by_avx(lane)
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
