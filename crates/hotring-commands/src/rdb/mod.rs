//! Parts of the format of Redis's RDB files, which is that of DUMP, too: lengths, compressed strings, listpacks, the
//! checksum. `dump.rs` makes payloads of them; the command line reads and writes files with them.
//!
//! Input comes from strangers: nothing is trusted, and no length reserves memory before its bytes are there.

use std::borrow::Cow;

pub(crate) mod dump;
mod list;
mod ziplist;

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
/// The type of a set of integers in one string, in their order.
pub const TYPE_SET_INTSET: u8 = 11;
/// The type of a set in one string, which is a listpack.
pub const TYPE_SET_LISTPACK: u8 = 20;
/// The type of a hash: the number of its fields, then field and value in turn, all of them strings.
pub const TYPE_HASH: u8 = 4;
/// The type of a hash in one string, which is a listpack.
pub const TYPE_HASH_LISTPACK: u8 = 16;

/// The type of a hash with fields that expire: the earliest expiry u64, the number of fields, then for each 0 or how
/// much later it expires and 1, the field, and its value.
pub const TYPE_HASH_EXPIRING: u8 = 24;
/// The same in one string behind the earliest expiry, a listpack: field, value, and expiry or 0.
pub const TYPE_HASH_LISTPACK_EXPIRING: u8 = 25;
/// The forms of the two in a candidate of Redis 7.4, with no earliest expiry: each field has its expiry itself.
pub const TYPE_HASH_EXPIRING_OLD: u8 = 22;
pub const TYPE_HASH_LISTPACK_EXPIRING_OLD: u8 = 23;

/// The type of a sorted set: the number of its members, then member and score in turn; the score as text.
pub const TYPE_ZSET: u8 = 3;
/// The same with scores of 8 bytes.
pub const TYPE_ZSET_2: u8 = 5;
/// The type of a sorted set in one string, which is a listpack.
pub const TYPE_ZSET_LISTPACK: u8 = 17;

/// The version that DUMP has here: Redis 7.0's.
const VERSION: u16 = 10;

/// Length of the bytes behind a value of DUMP.
pub const SEAL_LEN: usize = 10;

/// The version that has fields which expire: Redis 7.4's.
const VERSION_EXPIRING: u16 = 12;

/// Appends the end of a DUMP: the format version, and the checksum of everything before.
pub fn seal(out: &mut Vec<u8>) {
    let version = match out.first() {
        Some(&TYPE_HASH_EXPIRING) => VERSION_EXPIRING,
        _ => VERSION,
    };
    out.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(0, out);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Adds a length, or the number of elements.
///
/// # Panics
/// It is 4 GiB or more.
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

/// Adds a number that may be 4 GiB or more, as a length.
pub fn push_number(out: &mut Vec<u8>, number: u64) {
    if number <= u64::from(u32::MAX) {
        return push_len(out, number as usize);
    }
    out.push(0x81);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Adds a string as it is.
pub fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    push_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// A number as the string that it stands for.
fn text(n: i64) -> Cow<'static, [u8]> {
    n.to_string().into_bytes().into()
}

/// LZF: literal runs, and copies of earlier bytes. None unless exactly `len` bytes result.
pub fn unpack(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    // Three bytes give 264 at most.
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

/// Longest string that holds several entries. Redis's hold some kilobytes; each entry takes far more memory than its
/// bytes while it is read.
pub(crate) const PACKED_MAX: usize = 32 << 20;

/// The elements of a listpack: its length u32, their number u16, each with its length behind it, 0xff.
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

/// Bytes that the length behind an element of a listpack takes: 7 bits each, and none of them full.
fn back_len(item_len: usize) -> usize {
    1 + [127, 16_382, 2_097_150, 268_435_454].iter().filter(|most| item_len > **most).count()
}

/// The elements of an intset: the width u32, their number u32, the integers in their order, each once.
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
        // The sign comes along as the word is shifted down.
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
            // 13 bits with a sign.
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
            // The sign comes along as the word is shifted down.
            return Some((text(i64::from_le_bytes(wide) >> (64 - 8 * width)), rest));
        }
        _ => return None,
    };
    Some((Cow::Borrowed(&at[start..start + len]), &at[start + len..]))
}

/// The polynomial of Redis's CRC-64 (Jones), its lowest bit first.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// The effect of each byte on the sum.
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

/// The sum of more bytes behind those of `sum`, which is 0 at first.
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
