//! Checksums of items (RHKV section 4.8): coverage, computation and verification.
//!
//! ```text
//! check   63 .. 48       47 .. 32          31 .. 0
//!         sum of meta    sum of lengths    CRC32C of meta, version, lengths, value, key
//! ```
//!
//! The checksum covers everything that never changes: hash, flags, kind, both lengths, key, value, version. It
//! does not cover the expiry, which is changed in place, or `next`, which belongs to the engine, except for
//! SIGN, a bit of the value. The word of an item with a checksum must never be changed in place.
//!
//! A damaged length would lead the verification out of the item's block. So each field that determines the
//! length of a read must be verified before use, in a chain: the check directly follows `meta` in every item
//! that has a check; the sum of `meta` covers the flags, and so the position of the lengths; the sum of the
//! lengths covers the lengths. A sum detects every single flipped bit, and misses other damage with a
//! probability of 1 in 65,536.

use crate::bytes::item::{
    CHECK, CHECKSUM, KEY_LEN_LONG, Layout, META, bytes, join, layout_of, meta, version_of, word_of,
};
use crate::core::item::Item;
use crate::core::sync::Ordering;
use crate::core::word::Next;

/// The verdict of a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Sound,
    Damaged,
    /// The item has no checksum.
    Unchecked,
}

/// 2^64 divided by the golden ratio: its bits have no repeated pattern, so each input bit reaches the upper
/// 16 bits of the product.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn sum(word: u64) -> u64 {
    word.wrapping_mul(SPREAD) >> 48
}

/// The part of a check that covers the flags.
pub(crate) fn sum_of(meta: u64) -> u64 {
    sum(meta) << 48
}

fn lengths(layout: &Layout) -> u64 {
    (layout.key_len as u64) << 32 | layout.value_len as u64
}

/// The check stored in the item.
fn stored(item: Item) -> u64 {
    // SAFETY: P, and every caller has seen the flag CHECKSUM, so the word exists; it never changes.
    unsafe { item.start().add(CHECK).cast::<u64>().read() }
}

/// Whether the flags of an item with a checksum are intact; true without one.
#[inline(always)]
pub(crate) fn flags_hold(item: Item, meta: u64) -> bool {
    meta & CHECKSUM == 0 || stored(item) >> 48 == sum(meta)
}

/// The layout of an item with a checksum, if flags and lengths are intact.
pub(crate) fn bounds(item: Item) -> Option<Layout> {
    let meta = meta(item);
    if meta & CHECKSUM == 0 || !flags_hold(item, meta) {
        return None;
    }
    let layout = layout_of(item, meta);
    (stored(item) >> 32 & 0xffff == sum(lengths(&layout))).then_some(layout)
}

/// Bytes of an item with a checksum, or 0 if its lengths are damaged.
#[cold]
pub(crate) fn size(item: Item) -> usize {
    bounds(item).map_or(0, |layout| layout.end())
}

/// Writes the check of an otherwise complete item.
///
/// # Safety
/// The item must be private, and must have space for a check.
#[cold]
pub(crate) unsafe fn seal(item: Item) {
    let meta = meta(item);
    let layout = layout_of(item, meta);
    let check = sum_of(meta) | sum(lengths(&layout)) << 32 | u64::from(crc(item, meta, &layout));
    // SAFETY: the caller's promise.
    unsafe { item.start().add(CHECK).cast::<u64>().write(check) };
}

fn crc(item: Item, meta: u64, layout: &Layout) -> u32 {
    let word = word_of(item).map_or(0, |word| {
        // ORDERING: Relaxed, only FROZEN changes, and `join` leaves it out; SIGN never does.
        join(word.load(Ordering::Relaxed), Next(item.next().load(Ordering::Relaxed)))
    });
    let words = [meta, version_of(item).unwrap_or(0), word, lengths(layout)];
    let mut head = [0; 32];
    for (field, word) in head.chunks_exact_mut(8).zip(words) {
        field.copy_from_slice(&word.to_le_bytes());
    }
    // SAFETY: from the layout; the value's bytes follow the key's.
    let body = unsafe { bytes(item, layout.key, layout.end() - layout.key) };
    crc32c::crc32c_append(crc32c::crc32c(&head), body)
}

/// Verifies the item. O(length).
pub(crate) fn state(item: Item) -> State {
    let meta = meta(item);
    if meta & CHECKSUM == 0 {
        return State::Unchecked;
    }
    match bounds(item) {
        Some(layout) if stored(item) as u32 == crc(item, meta, &layout) => State::Sound,
        _ => State::Damaged,
    }
}

/// The covered bytes of an item.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Meta,
    Check,
    Version,
    Word,
    Lengths,
    Key,
    Value,
}

/// Position and length of a part of an undamaged item.
pub(crate) fn locate(item: Item, part: Part) -> Option<(usize, usize)> {
    let meta = meta(item);
    let layout = layout_of(item, meta);
    let has = |is_present: bool, len: usize| if is_present { len } else { 0 };
    let version = has(version_of(item).is_some(), 8);
    let word = has(word_of(item).is_some(), 8);
    let lengths = has(word == 0, 4) + has(layout.key_len >= KEY_LEN_LONG as usize, 4);
    let (at, len) = match part {
        Part::Meta => (META, 8),
        Part::Check => (CHECK, has(meta & CHECKSUM != 0, 8)),
        Part::Version => (layout.key - lengths - word - version, version),
        Part::Word => (layout.key - lengths - word, word),
        Part::Lengths => (layout.key - lengths, lengths),
        Part::Key => (layout.key, layout.key_len),
        Part::Value => (layout.key + layout.key_len, layout.value_len),
    };
    (len > 0).then_some((at, len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::item::{self, Bytes, Parts, expiry_of, value};
    use crate::bytes::value::{Content, Value};
    use crate::core::item::Kind;
    use crate::core::word::{FROZEN, SIGN};
    use std::ptr::NonNull;

    const PARTS: [Part; 7] =
        [Part::Meta, Part::Check, Part::Version, Part::Word, Part::Lengths, Part::Key, Part::Value];

    /// Items of every shape, each in a block of exactly its length.
    fn each_shape(mut f: impl FnMut(Item, &Parts<'_>)) {
        let long = vec![b'k'; 300];
        let keys: [&[u8]; 4] = [b"", b"k", b"a key", &long];
        let bytes = |bytes| Content::Bytes { kind: 3, bytes };
        let word = |word| Content::Word { kind: 9, word };
        let values =
            [bytes(&b""[..]), bytes(b"v"), bytes(&long), word(0), word(41), word(u64::MAX)];
        for (i, key) in keys.into_iter().enumerate() {
            for value in values {
                for fields in 0..8 {
                    let field = |bit: u8| (fields >> bit & 1 == 1).then_some(77 + u64::from(bit));
                    let parts = Parts {
                        hash: 0x1234_5678_9abc ^ i as u64,
                        key,
                        value,
                        expire_at: field(0),
                        version: field(1),
                        checksum: fields >> 2 == 1,
                    };
                    let len = crate::core::arena::footprint(parts.size());
                    let mut block = vec![0u64; len / 8].into_boxed_slice();
                    // SAFETY: the block is unused, aligned and long enough.
                    let item = unsafe { parts.write(NonNull::from(&mut *block).cast()) };
                    f(item, &parts);
                }
            }
        }
    }

    fn flip(item: Item, at: usize, bit: usize) {
        // SAFETY: the callers' offsets are inside the item, which is private to them.
        let byte = unsafe { &mut *item.start().add(at + bit / 8).as_ptr() };
        *byte ^= 1 << (bit % 8);
    }

    #[test]
    fn items_are_read_alike_with_and_without_a_checksum() {
        each_shape(|item, parts| {
            let expected = if parts.checksum { State::Sound } else { State::Unchecked };
            assert_eq!(state(item), expected);
            assert_eq!(version_of(item), parts.version);
            assert_eq!(Bytes::key(item), parts.key);
            assert_eq!(item::size(item), parts.size());
            let expiry = expiry_of(item).map(|expiry| expiry.load(Ordering::Relaxed));
            assert_eq!(expiry, parts.expire_at);
            let word = word_of(item).map(|word| word.load(Ordering::Relaxed));
            let next = Next(item.next().load(Ordering::Relaxed));
            let expected = match parts.value {
                Content::Word { kind, word } => Value::Word { kind, word },
                Content::Bytes { kind, bytes } => Value::Bytes { kind, bytes },
                Content::Block { .. } => unreachable!("none of the shapes"),
            };
            assert_eq!(value(item, next, word), expected);
        });
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let mut flips = 0;
        each_shape(|item, parts| {
            if !parts.checksum {
                return;
            }
            for (at, len) in PARTS.into_iter().filter_map(|part| locate(item, part)) {
                for bit in 0..len * 8 {
                    let frozen = matches!(parts.value, Content::Word { .. })
                        && Some((at, len)) == locate(item, Part::Word);
                    flip(item, at, bit);
                    let expected = if frozen && bit == 63 { State::Sound } else { State::Damaged };
                    // Without its flag an item has no checksum; the index knows that it should.
                    let is_flag = at == META && 1 << bit == CHECKSUM;
                    let expected = if is_flag { State::Unchecked } else { expected };
                    assert_eq!(state(item), expected, "bit {bit} from {at} of {parts:?}");
                    flip(item, at, bit);
                    flips += 1;
                }
            }
            let next = item.next().fetch_xor(SIGN, Ordering::Relaxed);
            let expected = if matches!(parts.value, Content::Word { .. }) {
                State::Damaged
            } else {
                State::Sound
            };
            assert_eq!(state(item), expected, "the value's bit 63");
            item.next().store(next, Ordering::Relaxed);
            assert_eq!(state(item), State::Sound);
        });
        println!("{flips} flips of one bit, all detected");
    }

    #[test]
    fn in_place_changes_are_not_covered() {
        each_shape(|item, parts| {
            let expected = state(item);
            if let Some(expiry) = expiry_of(item) {
                expiry.store(5, Ordering::Relaxed);
            }
            if let Some(word) = word_of(item) {
                word.fetch_or(FROZEN, Ordering::Relaxed);
            }
            item.next().fetch_or(0xff << 56 | 1, Ordering::Relaxed);
            assert_eq!(state(item), expected, "{parts:?}");
        });
    }

    /// A damaged flag must not make an item look expired, nor allow a write where no expiry is.
    #[test]
    fn damaged_flags_show_no_expiry() {
        each_shape(|item, parts| {
            for bit in (0..64).filter(|bit| parts.checksum && 1 << bit != CHECKSUM) {
                flip(item, META, bit);
                assert!(expiry_of(item).is_none(), "bit {bit} of {parts:?}");
                flip(item, META, bit);
            }
        });
    }

    #[test]
    fn a_sum_detects_every_flipped_bit() {
        for word in [0, u64::MAX, 0x0123_4567_89ab_cdef, SPREAD] {
            for bit in 0..64 {
                assert_ne!(sum(word), sum(word ^ 1 << bit), "bit {bit} of {word:#x}");
            }
        }
    }
}
