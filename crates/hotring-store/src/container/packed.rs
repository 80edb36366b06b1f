//! The packed form of a container, stored as one value: a header, followed by its entries.
//!
//! ```text
//!   number of changes | number of entries | length of a part, the part | ...
//! ```
//! Numbers and lengths take 7 bits a byte, lowest first, with the highest bit set in all but the last byte. The log and
//! snapshots use the same form for large containers. The bytes may be damaged: wrong lengths give wrong entries, not a
//! panic.

/// Maximum bytes of a number.
const NUMBER_LEN_MAX: usize = 10;

/// The header of the form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of changes so far, by which replay skips log records older than a snapshot's value.
    pub(crate) number: u64,
    /// Number of entries.
    pub(crate) count: usize,
}

impl Head {
    /// Splits the header from the entries. An empty container if the header is damaged.
    pub(crate) fn split(held: &[u8]) -> (Head, &[u8]) {
        Self::try_split(held).unwrap_or_default()
    }

    fn try_split(held: &[u8]) -> Option<(Head, &[u8])> {
        let (number, rest) = split_number(held)?;
        let (count, entries) = split_number(rest)?;
        Some((Head { number, count: usize::try_from(count).ok()? }, entries))
    }

    /// Copies the form with another number of changes.
    pub(crate) fn renumbered(held: &[u8], number: u64) -> Vec<u8> {
        let (head, entries) = Head::split(held);
        let mut held = Head { number, ..head }.begin(entries.len());
        held.extend_from_slice(entries);
        held
    }

    /// Begins the form with a header, with capacity for this many bytes of entries.
    pub(crate) fn begin(self, entries_len: usize) -> Vec<u8> {
        let mut held = Vec::with_capacity(2 * NUMBER_LEN_MAX + entries_len);
        push_number(&mut held, self.number);
        push_number(&mut held, self.count as u64);
        held
    }
}

/// Whether two parts are equal. Compares the last bytes first, because parts of one container often have the same
/// length and a common prefix.
#[inline]
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.last() == b.last() && a == b
}

/// Appends a part with its length.
#[inline]
pub(crate) fn push(held: &mut Vec<u8>, part: &[u8]) {
    push_number(held, part.len() as u64);
    held.extend_from_slice(part);
}

#[inline]
pub(crate) fn push_number(held: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        // The lowest 7 bits.
        held.push(number as u8 | 0x80);
        number >>= 7;
    }
    held.push(number as u8);
}

/// Splits off a part with its length.
#[inline]
pub(crate) fn split(held: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, tail) = split_number(held)?;
    tail.split_at_checked(usize::try_from(len).ok()?)
}

/// Splits off a number. Nearly all lengths take one byte, and most numbers of changes up to two.
#[inline]
pub(crate) fn split_number(held: &[u8]) -> Option<(u64, &[u8])> {
    match held {
        [byte @ 0..0x80, tail @ ..] => Some((u64::from(*byte), tail)),
        [low, high @ 0..0x80, tail @ ..] => {
            Some((u64::from(low & 0x7f) | u64::from(*high) << 7, tail))
        }
        _ => split_long_number(held),
    }
}

fn split_long_number(held: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (i, byte) in held.iter().enumerate().take(NUMBER_LEN_MAX) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((number, &held[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_damaged_ones_are_none() {
        for number in [0, 1, 127, 128, 16_383, 16_384, 1 << 20, u64::from(u32::MAX), u64::MAX] {
            let mut held = Vec::new();
            push_number(&mut held, number);
            assert_eq!(split_number(&held), Some((number, &[][..])), "{held:?}");
            assert_eq!(split_number(&held[..held.len() - 1]), None);
        }
        assert_eq!(split_number(&[0xff; 20]), None);
        let head = Head { number: 300, count: 2 };
        assert_eq!(Head::split(&head.begin(0)), (head, &[][..]));
        assert_eq!(Head::split(&[]), (Head::default(), &[][..]));
    }
}
