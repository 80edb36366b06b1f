//! The table of slots: one reserved address range, of which the lower `mask + 1` slots are in use.

use crate::core::config::{Config, ConfigError};
#[cfg(not(any(loom, shuttle)))]
use crate::core::memory::{HUGE_PAGE, Mapping};
use crate::core::sync::{AtomicU64, Ordering, TallyU64};
use crate::core::word::Hint;
use std::io;

/// A bucket's anchor and hints (several of the paper's head pointers). 16, 32 or 64 bytes, so that a slot never
/// crosses a cache line. All zeros: the bucket is not split off yet.
#[repr(C)]
pub(crate) struct Slot<const H: usize> {
    pub(crate) anchor: AtomicU64,
    pub(crate) hints: [AtomicU64; H],
}

const _: () = assert!(size_of::<Slot<1>>() == 16);
const _: () = assert!(size_of::<Slot<3>>() == 32);
const _: () = assert!(size_of::<Slot<7>>() == 64);

/// The set of hints of a slot with a matching tag.
#[derive(Clone, Copy)]
pub(crate) struct Matches(u32);

impl Matches {
    /// Hint 0, whatever its tag.
    pub(crate) const FIRST: Self = Self(1);
}

impl Iterator for Matches {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        // Hint k is bit 4 k.
        let k = self.0.trailing_zeros() >> 2;
        self.0 &= self.0 - 1;
        Some(k as usize)
    }
}

/// The position of a hint in its slot, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct HintAt<const H: usize>(usize);

impl<const H: usize> HintAt<H> {
    /// The position of this hint, which must be below H.
    #[inline(always)]
    pub(crate) fn of(hint: usize) -> Self {
        debug_assert!(hint < H);
        Self(8 + 8 * hint)
    }
}

impl<const H: usize> Slot<H> {
    /// All hints, as a set.
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
    const ALL: u32 = 0x1111_1111 & ((1 << (4 * H)) - 1);

    /// Resets the slot to its unused state. No other session may have a reference to it.
    fn zero(&self) {
        for word in std::iter::once(&self.anchor).chain(&self.hints) {
            // ORDERING: Relaxed, published by the mask that admits sessions to the slot.
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The first of [`Slot::matches`] for the tag of a hash. `is_wide` must be [`Table::is_wide`].
    #[inline(always)]
    #[cfg_attr(
        not(all(target_arch = "x86_64", not(any(loom, shuttle)))),
        expect(unused_variables, reason = "for the vector code")
    )]
    pub(crate) fn first_match(&self, hash: u64, is_wide: bool) -> Option<HintAt<H>> {
        #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
        if H == 7 && is_wide {
            let line = std::ptr::from_ref(self).cast();
            let set = line_matches_wide(line, Hint::tag_number(hash)) & (Self::ALL << 7);
            // Bit 4 i + 3 stands for word i, at byte 8 i: so the address needs no instruction of its own.
            let offset = || (2 * set.trailing_zeros() as usize).wrapping_sub(6);
            return (set != 0).then(|| HintAt(offset()));
        }
        self.matches(Hint::tag_and_more(hash)).next().map(HintAt::of)
    }

    #[inline(always)]
    pub(crate) fn hint_at(&self, position: HintAt<H>) -> &AtomicU64 {
        let slot = std::ptr::from_ref(self).cast::<AtomicU64>();
        // SAFETY: a `HintAt` is always the position of one of the H hints.
        unsafe { &*slot.byte_add(position.0) }
    }

    /// The hints that had this tag ([`Hint::tag_of`], [`Hint::tag_and_more`]) when read, each of them once,
    /// after everything that the caller has loaded before. Without branches, because the matching hint
    /// cannot be predicted.
    #[inline(always)]
    pub(crate) fn matches(&self, tag: u64) -> Matches {
        #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
        if H == 7 {
            return Matches(line_matches(self.anchor.as_ptr().cast(), tag) & Self::ALL);
        }
        let mut set = 0;
        for (k, word) in self.hints.iter().enumerate() {
            // ORDERING: Acquire pairs with the AcqRel CAS (or Release store) that set the hint.
            let hint = Hint(word.load(Ordering::Acquire));
            set |= u32::from(hint.has_tag(tag)) << (4 * k);
        }
        Matches(set)
    }
}

/// Compares the top 16 bits of words 1 to 7 of a 64-byte line with those of `tag`. The result has one
/// significant bit in four.
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
#[inline(always)]
fn line_matches(line: *const u64, tag: u64) -> u32 {
    let low: u32;
    let high: u32;
    // SAFETY: reads the 64 bytes of one slot, which is 64-aligned. Other threads change its words by atomic
    // operations meanwhile. On this architecture an aligned 8-byte part of such a load is never torn, and
    // loads are not reordered with other loads. The block may touch memory, so the compiler keeps it
    // between the atomic loads around it. SSE2 is part of x86_64.
    unsafe {
        std::arch::asm!(
            "pshuflw {t}, {t}, 0xff",
            "pshufd {t}, {t}, 0",
            "movdqa {a}, xmmword ptr [{line}]",
            "movdqa {b}, xmmword ptr [{line} + 16]",
            "movdqa {c}, xmmword ptr [{line} + 32]",
            "movdqa {d}, xmmword ptr [{line} + 48]",
            "pcmpeqw {a}, {t}",
            "pcmpeqw {b}, {t}",
            "pcmpeqw {c}, {t}",
            "pcmpeqw {d}, {t}",
            "packsswb {a}, {b}",
            "packsswb {c}, {d}",
            "pmovmskb {low:e}, {a}",
            "pmovmskb {high:e}, {c}",
            line = in(reg) line,
            t = inout(xmm_reg) f64::from_bits(tag) => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            low = out(reg) low,
            high = out(reg) high,
            options(nostack, preserves_flags),
        );
    }
    // Four bits per word, the last for the tag. Word 0, the anchor, is dropped.
    (high << 16 | low) >> 7
}

/// As [`line_matches`], in three instructions and not shifted: bit 4 i + 3 stands for word i. The caller
/// must have checked for AVX-512 with comparisons of 16 bits.
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
#[inline(always)]
fn line_matches_wide(line: *const u64, tag: u32) -> u32 {
    let set: u32;
    // SAFETY: as in `line_matches`: the 8-byte parts of a 64-byte load are not torn either. Registers above
    // the 16th do not slow down later vector code.
    unsafe {
        std::arch::asm!(
            "vpbroadcastw zmm16, {tag:e}",
            "vpcmpeqw k1, zmm16, zmmword ptr [{line}]",
            "kmovd {set:e}, k1",
            line = in(reg) line,
            tag = in(reg) tag,
            set = out(reg) set,
            out("zmm16") _,
            out("k1") _,
            options(nostack, preserves_flags),
        );
    }
    set
}

/// Every operation reads the mask, and only a change of size writes it. So its cache line must hold nothing
/// that changes.
#[repr(align(128))]
struct Mask {
    value: AtomicU64,
    /// Whether the processor can compare an entire line with one instruction. Constant, and read with the mask.
    is_wide: bool,
}

pub(crate) struct Table<const H: usize> {
    mask: Mask,
    slots: Slots<H>,
    /// Slots below this number have been prefaulted.
    touched: TallyU64,
}

/// A page of memory, in bytes.
const PAGE: u64 = 4096;

#[cfg(target_arch = "x86_64")]
fn has_wide() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_wide() -> bool {
    false
}

impl<const H: usize> Table<H> {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let initial = config.slots_initial.max(1).next_power_of_two();
        let mut slots = config.slots_max.next_power_of_two();
        loop {
            match Slots::reserve(slots, config.huge_pages) {
                Ok(slots) => {
                    let mask = Mask {
                        value: AtomicU64::new(initial as u64 - 1),
                        is_wide: H == 7 && has_wide(),
                    };
                    return Ok(Self { mask, slots, touched: TallyU64::new(0) });
                }
                // The address space is limited (ulimit -v, overcommit): try a smaller table.
                Err(_) if slots / 2 >= initial && slots > 1 => slots /= 2,
                Err(error) => return Err(ConfigError::NoMemory(error)),
            }
        }
    }

    #[inline(always)]
    pub(crate) fn slot(&self, index: u64) -> &Slot<H> {
        self.slots.slot(index)
    }

    /// Whether the slot lies in the reserved range, in use or not.
    pub(crate) fn has(&self, index: u64) -> bool {
        index < self.slots.len()
    }

    #[inline(always)]
    pub(crate) fn mask(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release of `set_mask`. Loaded after the pin.
        self.mask.value.load(Ordering::Acquire)
    }

    /// Whether one instruction compares an entire line.
    #[inline(always)]
    pub(crate) fn is_wide(&self) -> bool {
        self.mask.is_wide
    }

    /// Doubles the table within the reserved range; new slots are zero already. The caller must hold the
    /// resizing lock.
    pub(crate) fn double(&self, mask: u64) -> bool {
        let has_space = mask + 1 < self.slots.len();
        if has_space {
            self.set_mask(mask << 1 | 1);
        }
        has_space
    }

    /// Makes the system provide the memory of a part (0 to 1) of the slots that a doubling would add,
    /// `pages` at a time; true once it is there. Without this, all threads would touch new pages, and wait
    /// for them, at the same moment after a doubling.
    pub(crate) fn prefault(&self, mask: u64, part: f64, pages: u64) -> bool {
        let half = mask + 1;
        let wanted = (half + (half as f64 * part) as u64).min(self.slots.len());
        // ORDERING: Relaxed, it only divides the work.
        let seen = self.touched.load(Ordering::Relaxed);
        let (from, step) = (seen.max(half), PAGE / size_of::<Slot<H>>() as u64);
        if from >= wanted || cfg!(any(loom, shuttle)) {
            return true;
        }
        let to = wanted.min(from + pages * step);
        // ORDERING: Relaxed, as above.
        if self.touched.compare_exchange(seen, to, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            for index in (from..to).step_by(step as usize) {
                // A write, because a read would map the shared page of zeros.
                // ORDERING: Relaxed, the write changes nothing, even if the slot is in use.
                let _ = self.slot(index).anchor.compare_exchange(
                    0,
                    0,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
        }
        to == wanted
    }

    /// The caller must hold the resizing lock.
    pub(crate) fn set_mask(&self, mask: u64) {
        // ORDERING: Release pairs with `mask`: sessions see zeroed slots.
        self.mask.value.store(mask, Ordering::Release);
    }

    /// Zeroes the slots from `from` to `to`. No session may use them.
    pub(crate) fn give_back(&self, from: u64, to: u64) {
        self.slots.zero(from, to);
        // ORDERING: Relaxed, as in `prefault`.
        self.touched.fetch_min(from, Ordering::Relaxed);
    }
}

/// The slots: zeroed memory of the system. Unused slots are not touched.
#[cfg(not(any(loom, shuttle)))]
struct Slots<const H: usize> {
    start: *const Slot<H>,
    len: u64,
    mapping: Mapping,
}

// SAFETY: the slots are atomics in memory owned by this value.
#[cfg(not(any(loom, shuttle)))]
unsafe impl<const H: usize> Send for Slots<H> {}
// SAFETY: as above.
#[cfg(not(any(loom, shuttle)))]
unsafe impl<const H: usize> Sync for Slots<H> {}

#[cfg(not(any(loom, shuttle)))]
impl<const H: usize> Slots<H> {
    fn reserve(len: usize, huge_pages: bool) -> io::Result<Self> {
        let bytes = (len * size_of::<Slot<H>>()).next_multiple_of(HUGE_PAGE);
        let mapping = Mapping::reserve(bytes, huge_pages)?;
        Ok(Self { start: mapping.start().as_ptr().cast(), len: len as u64, mapping })
    }

    fn len(&self) -> u64 {
        self.len
    }

    #[inline(always)]
    fn slot(&self, index: u64) -> &Slot<H> {
        debug_assert!(index < self.len, "bucket numbers are masked");
        // SAFETY: index < len: every caller masks a hash, takes a bucket's parent, or reads the number of a
        // linked anchor. Zeroed memory is a valid slot.
        unsafe { &*self.start.add(index as usize) }
    }

    fn zero(&self, from: u64, to: u64) {
        let size = size_of::<Slot<H>>();
        if !self.mapping.give_back(from as usize * size, to as usize * size) {
            (from..to).for_each(|index| self.slot(index).zero());
        }
    }
}

/// The slots under a checker, which must know each atomic.
#[cfg(any(loom, shuttle))]
struct Slots<const H: usize>(Box<[Slot<H>]>);

#[cfg(any(loom, shuttle))]
impl<const H: usize> Slots<H> {
    fn reserve(len: usize, _huge_pages: bool) -> io::Result<Self> {
        let slot = |_| Slot {
            anchor: AtomicU64::new(0),
            hints: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Ok(Self((0..len).map(slot).collect()))
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn slot(&self, index: u64) -> &Slot<H> {
        &self.0[index as usize]
    }

    fn zero(&self, from: u64, to: u64) {
        (from..to).for_each(|index| self.slot(index).zero());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_matches<const H: usize>() {
        let tag = Hint::tag_of(0xbeef << 32);
        let other = Hint::tag_of(0xbeee << 32);
        #[repr(align(64))]
        struct Line<const H: usize>(Slot<H>);
        for set in 0u32..1 << H {
            let hints: [AtomicU64; H] = std::array::from_fn(|k| {
                // The tag's bits elsewhere in the word must not count.
                let noise = tag >> 16 | tag >> 32 & !7;
                AtomicU64::new(if set >> k & 1 == 1 { tag | noise } else { other | noise })
            });
            let line = Line::<H>(Slot { anchor: AtomicU64::new(tag), hints });
            let found: Vec<usize> = line.0.matches(tag).collect();
            let expected: Vec<usize> = (0..H).filter(|k| set >> k & 1 == 1).collect();
            assert_eq!(found, expected, "{H} hints, set {set:b}");
            let expected = expected.first().map(|&k| &raw const line.0.hints[k]);
            for is_wide in [false, H == 7 && has_wide()] {
                let first = line.0.first_match(tag >> 16, is_wide);
                let first = first.map(|position| std::ptr::from_ref(line.0.hint_at(position)));
                assert_eq!(first, expected, "{H} hints, set {set:b}, wide {is_wide}");
            }
        }
    }

    #[test]
    fn memory_is_requested_in_steps_and_again_after_its_return() {
        let config = Config {
            slots_initial: 1 << 10,
            slots_max: 1 << 12,
            huge_pages: false,
            ..Config::default()
        };
        let table = Table::<7>::new(&config).expect("memory for 256 KiB");
        let steps = |part| (1..100).find(|_| table.prefault(table.mask(), part, 4));
        // 1024 slots are 16 pages.
        assert_eq!(steps(0.5), Some(2));
        assert_eq!(steps(1.0), Some(2));
        assert_eq!(steps(1.0), Some(1));
        (0..1 << 11)
            .for_each(|slot| assert_eq!(table.slot(slot).anchor.load(Ordering::Relaxed), 0));
        table.give_back(1 << 10, 1 << 11);
        assert_eq!(steps(1.0), Some(4));
        // No more slots than reserved.
        assert!(table.double(table.mask()) && table.double(table.mask()));
        assert_eq!(steps(1.0), Some(1));
    }

    #[test]
    fn matches_are_those_with_the_tag() {
        check_matches::<7>();
        check_matches::<3>();
        check_matches::<1>();
    }
}
