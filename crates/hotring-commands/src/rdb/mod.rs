//! Building blocks of Redis's RDB format, which DUMP uses, too: lengths, compressed strings, listpacks, the checksum.
//! `dump.rs` builds payloads from them, `source.rs` and `file.rs` read values and whole files from a stream.
//!
//! The input is untrusted: every length must be checked, and no length may reserve memory before its bytes are there.

use std::borrow::Cow;

pub(crate) mod dump;
pub mod file;
mod item;
mod list;
pub mod source;
mod ziplist;

pub use item::{FieldUntil, Item, ReadError, Value, each_once, hash, shown};
pub use list::{
    NODE_PACKED, NODE_PLAIN, TYPE_LIST, TYPE_LIST_QUICKLIST, TYPE_LIST_QUICKLIST_2,
    TYPE_LIST_ZIPLIST,
};
pub use ziplist::ziplist;
pub mod zset;

/// The type of a string.
pub const TYPE_STRING: u8 = 0;
/// The type of a set: the number of its members, then the members, all of them strings.
pub const TYPE_SET: u8 = 2;
/// The type of a set of integers in one string, sorted.
pub const TYPE_SET_INTSET: u8 = 11;
/// The type of a set in one string, a listpack.
pub const TYPE_SET_LISTPACK: u8 = 20;
/// The type of a hash: the number of its fields, then fields and values alternating, all of them strings.
pub const TYPE_HASH: u8 = 4;
/// The type of a hash in one string, a listpack.
pub const TYPE_HASH_LISTPACK: u8 = 16;

/// The type of a hash with expiring fields: the earliest expiry as u64, and the number of fields. Each field follows as
/// its expiry, its name and its value. The expiry is 0 for none, else 1 plus the distance to the earliest expiry.
pub const TYPE_HASH_EXPIRING: u8 = 24;
/// The type of a hash with expiring fields in one string: the earliest expiry, then a listpack of field, value, and
/// expiry or 0.
pub const TYPE_HASH_LISTPACK_EXPIRING: u8 = 25;
/// The encodings of both types in a release candidate of Redis 7.4: without the earliest expiry, and with absolute
/// expiry times.
pub const TYPE_HASH_EXPIRING_OLD: u8 = 22;
pub const TYPE_HASH_LISTPACK_EXPIRING_OLD: u8 = 23;

/// The type of a sorted set: the number of its members, then members and scores alternating, the scores as text.
pub const TYPE_ZSET: u8 = 3;
/// The type of a sorted set with binary scores of 8 bytes.
pub const TYPE_ZSET_2: u8 = 5;
/// The type of a sorted set in one string, a listpack.
pub const TYPE_ZSET_LISTPACK: u8 = 17;

/// The format version of DUMP payloads: Redis 7.0's.
const VERSION: u16 = 10;

/// Length of the version and the checksum after a value of DUMP, in bytes.
pub const SEAL_LEN: usize = 10;

/// The format version of payloads with expiring fields: Redis 7.4's.
const VERSION_EXPIRING: u16 = 12;

/// Appends the end of a DUMP payload: the format version, and the checksum of all bytes before it.
pub fn seal(out: &mut Vec<u8>) {
    let version = match out.first() {
        Some(&TYPE_HASH_EXPIRING) => VERSION_EXPIRING,
        _ => VERSION,
    };
    out.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(0, out);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Appends a length or a count.
///
/// # Panics
/// If `len` is 4 GiB or more.
pub fn push_len(out: &mut Vec<u8>, len: usize) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        _ => {
            let len = u32::try_from(len).expect("values are below 4 GiB");
            out.push(0x80);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
}

/// Appends a number in the encoding of lengths; it may be 4 GiB or more.
pub fn push_number(out: &mut Vec<u8>, number: u64) {
    if number <= u64::from(u32::MAX) {
        return push_len(out, number as usize);
    }
    out.push(0x81);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Appends a string without compression.
pub fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    push_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The text of a number.
fn text(n: i64) -> Cow<'static, [u8]> {
    n.to_string().into_bytes().into()
}

/// Decompresses LZF: literal runs, and copies of earlier bytes. None unless exactly `len` bytes result.
pub fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // Three bytes expand to at most 264, so more cannot be valid.
    let mut out = Vec::with_capacity(len.min(packed.len().saturating_mul(88)));
    let mut bytes = packed.iter().copied();
    while let Some(control) = bytes.next() {
        if control < 0x20 {
            for _ in 0..=control {
                out.push(bytes.next()?);
            }
        } else {
            let long = if control >> 5 == 7 { usize::from(bytes.next()?) } else { 0 };
            let copied = usize::from(control >> 5) + long + 2;
            let back = usize::from(control & 0x1f) << 8 | usize::from(bytes.next()?);
            let from = out.len().checked_sub(back + 1)?;
            // A copy may overlap itself.
            (from..from + copied).for_each(|at| out.push(out[at]));
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// Longest packed string (listpack, intset, ziplist) that is read, in bytes. Redis's are some kilobytes; while an entry
/// is read, it takes far more memory than its bytes.
pub(crate) const PACKED_MAX: usize = 32 << 20;

/// Parses a listpack: its length as u32, the number of elements as u16, the elements, each followed by its length, and
/// 0xff.
pub fn listpack(list: &[u8]) -> Option<Vec<Cow<'_, [u8]>>> {
    if list.len() > PACKED_MAX {
        return None;
    }
    let (len, rest) = list.split_first_chunk()?;
    let (_, rest) = rest.split_first_chunk::<2>()?;
    let mut items = Vec::new();
    let mut at = rest.split_last().filter(|(end, _)| **end == 0xff)?.1;
    if u32::from_le_bytes(*len) as usize != list.len() {
        return None;
    }
    while !at.is_empty() {
        let (item, behind) = listpack_item(at)?;
        let item_len = at.len() - behind.len();
        items.push(item);
        at = behind.get(back_len(item_len)..)?;
    }
    Some(items)
}

/// Number of bytes of the length that follows an element of a listpack, at 7 bits each. As in Redis, the bounds beyond
/// one byte are one short of the greatest length that fits.
fn back_len(item_len: usize) -> usize {
    1 + [127, 16_382, 2_097_150, 268_435_454].iter().filter(|most| item_len > **most).count()
}

/// Parses an intset: the width as u32, the number of integers as u32, then the integers, sorted and distinct.
pub fn intset(set: &[u8]) -> Option<Vec<Cow<'static, [u8]>>> {
    if set.len() > PACKED_MAX {
        return None;
    }
    let (width, rest) = set.split_first_chunk()?;
    let (count, ints) = rest.split_first_chunk()?;
    let width = u32::from_le_bytes(*width) as usize;
    let count = u32::from_le_bytes(*count) as usize;
    if !matches!(width, 2 | 4 | 8) || Some(ints.len()) != count.checked_mul(width) {
        return None;
    }
    let number = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[8 - width..].copy_from_slice(bytes);
        // The arithmetic shift extends the sign.
        i64::from_le_bytes(wide) >> (64 - 8 * width)
    };
    let numbers: Vec<i64> = ints.chunks_exact(width).map(number).collect();
    numbers.is_sorted_by(|a, b| a < b).then(|| numbers.into_iter().map(text).collect())
}

fn listpack_item(at: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let (first, rest) = at.split_first()?;
    let string = |len: usize, rest: &'_ [u8]| -> Option<(usize, usize)> {
        (len <= rest.len()).then_some((at.len() - rest.len(), len))
    };
    let (start, len) = match first {
        0..0x80 => return Some((text(i64::from(*first)), rest)),
        0x80..0xc0 => string(usize::from(first & 0x3f), rest)?,
        0xc0..0xe0 => {
            let (low, rest) = rest.split_first()?;
            // A signed integer of 13 bits.
            let n = (i16::from(first & 0x1f) << 8 | i16::from(*low)) << 3 >> 3;
            return Some((text(n.into()), rest));
        }
        0xe0..0xf0 => {
            let (low, rest) = rest.split_first()?;
            string(usize::from(first & 0x0f) << 8 | usize::from(*low), rest)?
        }
        0xf0 => {
            let (len, rest) = rest.split_first_chunk()?;
            string(u32::from_le_bytes(*len) as usize, rest)?
        }
        0xf1..=0xf4 => {
            let width = [2, 3, 4, 8][usize::from(first - 0xf1)];
            let (bytes, rest) = rest.split_at_checked(width)?;
            let mut wide = [0; 8];
            wide[8 - width..].copy_from_slice(bytes);
            // The arithmetic shift extends the sign.
            return Some((text(i64::from_le_bytes(wide) >> (64 - 8 * width)), rest));
        }
        _ => return None,
    };
    Some((Cow::Borrowed(&at[start..start + len]), &at[start + len..]))
}

/// The polynomial of Redis's CRC-64 (Jones), lowest bit first.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// The table that advances the checksum by one byte.
static CRC_STEPS: [u64; 256] = crc_steps();

const fn crc_steps() -> [u64; 256] {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        steps[byte] = sum;
        byte += 1;
    }
    steps
}

/// Continues a checksum with more bytes; the initial `sum` is 0.
pub fn crc64(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| sum >> 8 ^ CRC_STEPS[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_of_a_listpack_are_read() {
        let cases: [(&[u8], i64); 7] = [
            (&[0x7f], 127),
            (&[0xdf, 0xff], -1),
            (&[0xcf, 0xff], 4095),
            (&[0xf1, 0x00, 0x80], -32768),
            (&[0xf2, 0xff, 0xff, 0x7f], 0x7f_ffff),
            (&[0xf3, 0xff, 0xff, 0xff, 0xff], -1),
            (&[0xf4, 0, 0, 0, 0, 0, 0, 0, 0x80], i64::MIN),
        ];
        for (bytes, number) in cases {
            let (item, rest) = listpack_item(bytes).unwrap();
            assert_eq!((&*item, rest), (number.to_string().as_bytes(), &b""[..]));
        }
    }
}
