//! Bit operations on strings: SETBIT, GETBIT, BITCOUNT, BITPOS and BITOP. Bit 0 is the highest bit of the first byte.
//! All but BITOP are single-key reads or writes; BITOP holds its keys.

use hotring_containers::Piece;
use hotring_index::Expiry;

use crate::container::Changes;
use crate::error::StoreError;
use crate::long_text::{Patch, TextRef};
use crate::session::Session;
use crate::value::encode_owned;

/// A range of a value, as in BITCOUNT and BITPOS: both ends included, negative positions count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    /// The first position.
    pub start: i64,
    /// The last position; None for the end of the value.
    pub end: Option<i64>,
    /// Whether positions count bits instead of bytes.
    pub in_bits: bool,
}

impl BitRange {
    /// The entire value.
    pub const ALL: BitRange = BitRange { start: 0, end: None, in_bits: false };

    /// The first bit of the range and the first bit after it; None if the range is empty.
    fn bits(self, len: usize) -> Option<(usize, usize)> {
        let unit = if self.in_bits { 1 } else { 8 };
        let places = i64::try_from(len * 8 / unit).expect("values are shorter than 4 GiB");
        let place = |at: i64| if at < 0 { at.saturating_add(places).max(0) } else { at };
        let (first, last) = (place(self.start), place(self.end.unwrap_or(-1)).min(places - 1));
        // Both are in 0..places here, so the product is at most 8 * len.
        (first <= last).then(|| (first as usize * unit, (last as usize + 1) * unit))
    }
}

/// The operation of BITOP on the bits of all sources at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOp {
    /// 1 if all bits are 1.
    And,
    /// 1 if any bit is 1.
    Or,
    /// 1 if an odd number of bits is 1.
    Xor,
    /// The complement of the first source, which should be the only one.
    Not,
}

impl Session {
    /// Sets one bit and returns its old state. Extends the value with zero bytes as needed. The expiry stays.
    pub fn set_bit(
        &mut self,
        key: &[u8],
        offset: u64,
        bit: bool,
        now: u64,
    ) -> Result<bool, StoreError> {
        self.check_key(key)?;
        let at = self.byte_of_bit(offset)?;
        if let Err(error) = self.check_text(at + 1, 1) {
            // Redis reports a wrong type first.
            return self.strlen(key, now).and(Err(error));
        }
        let mask = mask(offset);
        self.change_text(key, now, |text| {
            let byte = text.byte(at);
            let old = byte.is_some_and(|byte| byte & mask != 0);
            let after = if bit { byte.unwrap_or(0) | mask } else { byte.unwrap_or(0) & !mask };
            // As in Redis, storing the present value is not a write for watchers of the key.
            let patches = match byte == Some(after) {
                true => Vec::new(),
                false => vec![Patch { at, bytes: one_byte(after).into() }],
            };
            Ok((Changes::Many(patches), old))
        })
    }

    /// Reads one bit: false if the key is absent or the value is too short.
    pub fn bit(&mut self, key: &[u8], offset: u64, now: u64) -> Result<bool, StoreError> {
        let at = self.byte_of_bit(offset)?;
        let byte = self.read_text(key, now, |text| text.byte(at))?.flatten();
        Ok(byte.is_some_and(|byte| byte & mask(offset) != 0))
    }

    /// Counts the bits of the range that are 1. A range with two negative, inverted ends is empty, even if both are
    /// before the begin of the value.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn bit_count(&mut self, key: &[u8], range: BitRange, now: u64) -> Result<u64, StoreError> {
        let inverted = range.end.is_some_and(|end| range.start < 0 && end < 0 && range.start > end);
        let count = |text: TextRef<'_>| match range.bits(text.len()) {
            Some((first, end)) if !inverted => {
                bits_of(text, first, end).map(|bits| bits.ones()).sum()
            }
            _ => 0,
        };
        Ok(self.walk_text(key, now, count)?.unwrap_or(0))
    }

    /// Finds the first bit of the range that equals `bit`, counted from the start of the value. Zeros follow the value,
    /// unless the range has an end.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn bit_pos(
        &mut self,
        key: &[u8],
        bit: bool,
        range: BitRange,
        now: u64,
    ) -> Result<Option<u64>, StoreError> {
        let find = |text: TextRef<'_>| {
            let (first, end) = range.bits(text.len())?;
            match bits_of(text, first, end).find_map(|bits| bits.find(bit)) {
                None if !bit && range.end.is_none() => Some(end as u64),
                found => found.map(|at| at as u64),
            }
        };
        let found = self.walk_text(key, now, find)?;
        Ok(found.unwrap_or((!bit).then_some(0)))
    }

    /// Stores the result of `op` on the sources' values, read at one moment, in `to`, and returns its length. Shorter
    /// values are extended with zero bytes. An empty result removes `to`. The expiry of `to` is cleared.
    pub fn bit_op(
        &mut self,
        op: BitOp,
        to: &[u8],
        sources: &[&[u8]],
        now: u64,
    ) -> Result<usize, StoreError> {
        self.check_key(to)?;
        self.admit()?;
        let keys = std::iter::once(to).chain(sources.iter().copied());
        self.hold_keys(keys, |session| {
            session.check_role()?;
            let damages = session.damages();
            let mut text = Vec::new();
            for (i, key) in sources.iter().enumerate() {
                let present = session.walk_text(key, now, |source| {
                    op.add(&mut text, i == 0, &source.whole());
                })?;
                if present.is_none() {
                    op.add(&mut text, i == 0, b"");
                }
            }
            if session.damages() != damages {
                // A result without one of the sources must not replace the value of `to`.
                return Ok(0);
            }
            let len = text.len();
            if len == 0 {
                session.remove(to, now);
            } else {
                session.admit_bytes(len)?;
                session.change(to, |to| to.put(encode_owned(text), Expiry::Never, now));
            }
            Ok(len)
        })
    }

    /// The position of the byte that contains a bit.
    ///
    /// # Errors
    /// [`StoreError::ValueTooLong`] if no value may be that long.
    fn byte_of_bit(&self, offset: u64) -> Result<usize, StoreError> {
        let at = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        self.limits.check_value(at.saturating_add(1))?;
        Ok(at)
    }
}

impl BitOp {
    /// Combines one more source with the result.
    fn add(self, text: &mut Vec<u8>, is_first: bool, source: &[u8]) {
        if is_first {
            text.extend_from_slice(source);
            if self == BitOp::Not {
                text.iter_mut().for_each(|byte| *byte = !*byte);
            }
            return;
        }
        if text.len() < source.len() {
            text.resize(source.len(), 0);
        }
        // Zeros follow the end of the source.
        let (met, beyond) = text.split_at_mut(source.len());
        let pairs = met.iter_mut().zip(source);
        match self {
            BitOp::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                beyond.fill(0);
            }
            BitOp::Or => pairs.for_each(|(byte, other)| *byte |= other),
            BitOp::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            BitOp::Not => {}
        }
    }
}

/// The mask of the bit in its byte.
fn mask(offset: u64) -> u8 {
    0x80 >> (offset % 8)
}

/// The byte at position `at`, with all bits outside of `first..end` cleared.
fn within(mut byte: u8, at: usize, first: usize, end: usize) -> u8 {
    if at == first / 8 {
        byte &= 0xff >> (first % 8);
    }
    if at == end / 8 {
        byte &= !(0xff >> (end % 8));
    }
    byte
}

/// A string of one byte.
fn one_byte(byte: u8) -> &'static [u8] {
    static ALL: [u8; 256] = {
        let mut all = [0; 256];
        let mut i = 0;
        while i < 256 {
            all[i] = i as u8;
            i += 1;
        }
        all
    };
    std::slice::from_ref(&ALL[usize::from(byte)])
}

/// Consecutive bits of a string, at least one.
struct Bits<'a> {
    /// The bytes that contain the bits.
    piece: Piece<'a>,
    /// The first of the bits, and the first after them, counted from the begin of the piece.
    first: usize,
    end: usize,
    /// Number of bits of the string before the piece.
    before: usize,
}

/// The bits `first..end` of a string, piece by piece. The range must not be empty.
fn bits_of(text: TextRef<'_>, first: usize, end: usize) -> impl Iterator<Item = Bits<'_>> {
    let mut before = first / 8 * 8;
    text.pieces(first / 8..end.div_ceil(8)).map(move |piece| {
        let len = 8 * match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Zeros(len) => len,
        };
        let bits = Bits {
            piece,
            first: first.saturating_sub(before),
            end: (end - before).min(len),
            before,
        };
        before += len;
        bits
    })
}

impl Bits<'_> {
    /// Number of bits that are 1.
    fn ones(&self) -> u64 {
        match self.piece {
            Piece::Bytes(bytes) => count_ones(bytes, self.first, self.end),
            Piece::Zeros(_) => 0,
        }
    }

    /// Position in the string of the first bit that equals `bit`.
    fn find(&self, bit: bool) -> Option<usize> {
        let found = match self.piece {
            Piece::Bytes(bytes) => find_bit(bytes, self.first, self.end, bit),
            Piece::Zeros(_) => (!bit).then_some(self.first),
        };
        found.map(|at| self.before + at)
    }
}

/// Number of bits in `first..end` that are 1. The range must not be empty.
fn count_ones(text: &[u8], first: usize, end: usize) -> u64 {
    let (head, tail) = (first / 8, (end - 1) / 8);
    let mut count = u64::from(within(text[head], head, first, end).count_ones());
    if head < tail {
        count += u64::from(within(text[tail], tail, first, end).count_ones());
        let (words, bytes) = text[head + 1..tail].as_chunks();
        let of_word = |word: &[u8; 8]| u64::from(u64::from_ne_bytes(*word).count_ones());
        count += words.iter().map(of_word).sum::<u64>();
        count += bytes.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    }
    count
}

/// Position of the first bit in `first..end` that equals `bit`. The range must not be empty.
fn find_bit(text: &[u8], first: usize, end: usize, bit: bool) -> Option<usize> {
    let skipped = if bit { 0 } else { 0xff };
    let mut at = first / 8;
    while at <= (end - 1) / 8 {
        let ones = within(text[at] ^ skipped, at, first, end);
        if ones != 0 {
            return Some(at * 8 + ones.leading_zeros() as usize);
        }
        at += 1;
        // Compares entire bytes to skip those without such a bit.
        let whole = at.min(end / 8)..end / 8;
        at += text[whole.clone()].iter().position(|byte| *byte != skipped).unwrap_or(whole.len());
    }
    None
}
