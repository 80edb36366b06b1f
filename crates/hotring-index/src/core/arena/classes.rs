//! Size classes: the block length for an item of a given size, and the span length of each class.
//!
//! Up to 1 KiB every multiple of 8 bytes is a class. Above, each class is at most an eighth longer than the
//! previous one, chosen so that its blocks fill a span: a block is at most 11 % longer than its item, and no
//! span wastes its end. Items longer than the last class (nearly 256 KiB) have pages of their own.

use crate::core::memory::PAGE;

/// Sizes and addresses are multiples of this.
pub(super) const GRAIN: usize = 8;
/// Up to this size every multiple of `GRAIN` is a class.
pub(super) const FINE_MAX: usize = 1 << 10;
const FINE: usize = FINE_MAX / GRAIN;

/// Length and alignment of the shortest spans.
pub(super) const UNIT: usize = 64 << 10;
/// Length and alignment of a chunk, which is the longest span.
pub(super) const CHUNK_LEN: usize = crate::core::memory::HUGE_PAGE;
/// Length of a chunk's header.
pub(super) const CHUNK_HEADER: usize = 2112;

/// A span has at least this many blocks: with fewer, a class would exceed the previous class by more than an
/// eighth.
const BLOCKS_MIN: usize = 8;

/// The lengths of spans. A class uses the shortest possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// 64 KiB.
    Narrow,
    /// 256 KiB.
    Wide,
    /// A chunk.
    Whole,
}

impl Width {
    pub(super) const ALL: [Self; 3] = [Self::Narrow, Self::Wide, Self::Whole];

    /// The length in units of 64 KiB.
    pub(super) const fn units(self) -> usize {
        match self {
            Self::Narrow => 1,
            Self::Wide => 4,
            Self::Whole => CHUNK_LEN / UNIT,
        }
    }

    /// The length in bytes.
    pub(super) const fn len(self) -> usize {
        self.units() * UNIT
    }

    /// The number of bytes that can hold blocks.
    const fn usable_len(self) -> usize {
        match self {
            Self::Whole => CHUNK_LEN - CHUNK_HEADER,
            _ => self.len(),
        }
    }
}

/// The length of the class after the class of length `len`, from 1 KiB on; 0 after the last class.
const fn after(len: usize) -> usize {
    // Round down.
    let most = len + len / 8 + GRAIN;
    let mut i = 0;
    while i < Width::ALL.len() {
        let width = Width::ALL[i];
        let blocks = width.usable_len().div_ceil(most);
        let next = width.usable_len() / blocks / GRAIN * GRAIN;
        if blocks >= BLOCKS_MIN && next > len {
            return next;
        }
        i += 1;
    }
    0
}

/// The number of classes above 1 KiB.
const fn coarse() -> usize {
    let (mut len, mut n) = (after(FINE_MAX), 0);
    while len > 0 {
        (len, n) = (after(len), n + 1);
    }
    n
}

/// Class numbers are below this; 0 means none.
pub(super) const CLASSES: usize = FINE + 1 + coarse();

/// The length of each class. The array is long enough that any byte plus one is a valid index.
const LENS: [u32; 257] = {
    let mut lens = [0; 257];
    let mut class = 1;
    while class < CLASSES {
        let len = if class <= FINE { class * GRAIN } else { after(lens[class - 1] as usize) };
        lens[class] = len as u32;
        class += 1;
    }
    lens
};

/// The longest block of a class.
pub(crate) const CLASSED_MAX: usize = LENS[CLASSES - 1] as usize;

/// Sizes above 1 KiB are looked up in pieces of this many bytes. No piece contains the ends of two classes.
const PIECE: usize = 64;
/// The class of the shortest size of each piece.
static BY_PIECE: [u8; CLASSED_MAX.div_ceil(PIECE)] = {
    assert!(CLASSES <= 256, "a class is a byte");
    let mut by_piece = [0; CLASSED_MAX.div_ceil(PIECE)];
    let mut class = FINE;
    let mut piece = FINE_MAX / PIECE;
    while piece < by_piece.len() {
        while (LENS[class] as usize) <= piece * PIECE {
            class += 1;
        }
        by_piece[piece] = class as u8;
        piece += 1;
    }
    by_piece
};

/// The class whose blocks hold `size` bytes, at most `CLASSED_MAX`.
#[inline(always)]
pub(super) fn class_of(size: usize) -> usize {
    if size <= FINE_MAX { size.div_ceil(GRAIN) } else { coarse_class_of(size) }
}

#[inline]
fn coarse_class_of(size: usize) -> usize {
    let class = usize::from(BY_PIECE[(size - 1) / PIECE]);
    class + usize::from(len_of(class) < size)
}

/// The block length of a class.
#[inline(always)]
pub(super) fn len_of(class: usize) -> usize {
    static TABLE: [u32; 257] = LENS;
    TABLE[class] as usize
}

/// The span length of a class.
pub(super) fn width_of(class: usize) -> Width {
    let fits = |width: &&Width| len_of(class) * BLOCKS_MIN <= width.usable_len();
    *Width::ALL.iter().find(fits).expect("the longest block fits")
}

/// Bytes that an item of `size` bytes occupies: the length of its block. Inlined, so that the compiler
/// drops the computation if its result is unused.
#[inline(always)]
pub(crate) fn footprint(size: usize) -> usize {
    if size <= FINE_MAX { size.next_multiple_of(GRAIN) } else { coarse_footprint(size) }
}

#[inline]
fn coarse_footprint(size: usize) -> usize {
    if size <= CLASSED_MAX { len_of(coarse_class_of(size)) } else { size.next_multiple_of(PAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_the_shortest_block_that_holds_it() {
        assert_eq!((footprint(1), footprint(8), footprint(1021)), (8, 8, 1024));
        for size in 1..=CLASSED_MAX {
            let class = class_of(size);
            let (len, shorter) = (len_of(class), len_of(class - 1));
            assert!(shorter < size && size <= len, "{size} in {len}");
            assert_eq!((footprint(size), footprint(len)), (len, len));
            assert!(size < 64 || len - size <= len / 8 + GRAIN, "{size} in {len}");
        }
        assert_eq!(footprint(CLASSED_MAX + 1) % PAGE, 0);
        assert!((255 << 10..=256 << 10).contains(&CLASSED_MAX));
    }

    #[test]
    fn blocks_fill_their_spans() {
        for class in FINE + 1..CLASSES {
            let usable_len = width_of(class).usable_len();
            let left = usable_len % len_of(class);
            assert!(
                left < usable_len / 100,
                "{left} of {usable_len} are left by blocks of {}",
                len_of(class)
            );
        }
    }
}
