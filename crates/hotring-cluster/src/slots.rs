//! Slots: which of the 16,384 a key belongs to, and sets of slots.

use std::fmt;
use std::str::FromStr;

/// The number of a slot, below [`SLOTS`].
pub type Slot = u16;

/// The number of slots, which clients of Redis Cluster know.
pub const SLOTS: Slot = 16_384;

/// The polynomial of CRC-16/XMODEM.
const POLYNOMIAL: u16 = 0x1021;

/// The bytes that one step takes.
const WORD: usize = 8;

/// The CRC of each byte when this many zero bytes follow it. Each request of a cluster pays for its keys' checksums: of
/// 16 bytes in 114 instructions, where a general CRC crate takes 225. This checksum begins with 0, so zero bytes in
/// front change nothing, and the first word may be filled up with them.
static TABLES: [[u16; 256]; WORD] = tables();

const fn tables() -> [[u16; 256]; WORD] {
    let mut tables = [[0; 256]; WORD];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { POLYNOMIAL };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < WORD {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = crc << 8 ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The slot of a key. Keys with the same hash tag share a slot.
#[inline]
pub fn slot_of(key: &[u8]) -> Slot {
    let crc = checksum::<true>(key).or_else(|| checksum::<false>(hash_tag(key)));
    crc.unwrap_or_default() % SLOTS
}

/// The checksum of the bytes. With `ENDS` there is none if one of them is `{`.
#[inline]
fn checksum<const ENDS: bool>(bytes: &[u8]) -> Option<u16> {
    let (head, words) = bytes.as_rchunks::<WORD>();
    let mut crc = 0;
    if !head.is_empty() {
        let word = first_word(head);
        if ENDS && has_brace(word) {
            return None;
        }
        crc = fold(0, word);
    }
    for bytes in words {
        let word = u64::from_be_bytes(*bytes);
        if ENDS && has_brace(word) {
            return None;
        }
        crc = fold(crc, word);
    }
    Some(crc)
}

/// Fewer than [`WORD`] bytes, the last one lowest, with zeros above.
#[inline]
fn first_word(head: &[u8]) -> u64 {
    // Overlapping reads: the bytes that both have are the same.
    if let (Some(first), Some(last)) = (head.first_chunk::<4>(), head.last_chunk::<4>()) {
        let shift = 8 * (head.len() - 4);
        return u64::from(u32::from_be_bytes(*first)) << shift
            | u64::from(u32::from_be_bytes(*last));
    }
    if let (Some(first), Some(last)) = (head.first_chunk::<2>(), head.last_chunk::<2>()) {
        let shift = 8 * (head.len() - 2);
        return u64::from(u16::from_be_bytes(*first)) << shift
            | u64::from(u16::from_be_bytes(*last));
    }
    head.first().copied().map_or(0, u64::from)
}

/// Whether a byte of the word is `{`.
#[inline]
fn has_brace(word: u64) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; WORD]);
    // Zero where the word has a brace. A borrow reaches the highest bit of a byte only from a zero byte.
    let rest = word ^ (ONES * b'{' as u64);
    rest.wrapping_sub(ONES) & !rest & ONES << 7 != 0
}

/// The checksum after eight more bytes.
#[inline]
fn fold(crc: u16, word: u64) -> u16 {
    let word = word ^ u64::from(crc) << 48;
    let [one, two, three, four, five, six, seven, eight] = &TABLES;
    let at = |table: &[u16; 256], shift: u32| u32::from(table[usize::from((word >> shift) as u8)]);
    // Spelled out, because a loop takes some instructions more.
    let first = at(eight, 56) ^ at(seven, 48) ^ at(six, 40) ^ at(five, 32);
    let second = at(four, 24) ^ at(three, 16) ^ at(two, 8) ^ at(one, 0);
    (first ^ second) as u16
}

/// What is between the first `{` and the next `}`, unless that is nothing; otherwise the whole key.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        Some(0) if !wrong!(EmptyTag) => key,
        Some(end) => &rest[..end],
        None => key,
    }
}

/// A set of slots: ascending ranges, both ends included, that neither touch nor overlap.
///
/// The text form is the one of `CLUSTER NODES` with commas: `0-5460,7000`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotSet(Vec<(Slot, Slot)>);

/// The reason why a text names no set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSlots(String);

impl SlotSet {
    /// All slots, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }

    /// The slots as ascending ranges, both ends included.
    pub fn ranges(&self) -> &[(Slot, Slot)] {
        &self.0
    }

    /// Whether a slot is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        let behind = self.0.partition_point(|&(first, _)| first <= slot);
        behind > 0 && slot <= self.0[behind - 1].1
    }

    /// Whether some slot is in both sets.
    pub fn meets(&self, other: &SlotSet) -> bool {
        self.iter().any(|slot| other.contains(slot))
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.0.iter().map(|&(first, last)| usize::from(last - first) + 1).sum()
    }

    /// Whether no slot is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut slots: Vec<Slot> = slots.into_iter().collect();
        slots.sort_unstable();
        let mut ranges: Vec<(Slot, Slot)> = Vec::new();
        for slot in slots {
            match ranges.last_mut() {
                Some((_, last)) if slot <= last.saturating_add(1) => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        SlotSet(ranges)
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for SlotSet {
    type Err = BadSlots;

    fn from_str(text: &str) -> Result<Self, BadSlots> {
        let slot = |text: &str| text.trim().parse().ok().filter(|&slot: &Slot| slot < SLOTS);
        let mut slots = Vec::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (slot(first), slot(last)) {
                (Some(first), Some(last)) if first <= last => slots.extend(first..=last),
                _ => return Err(BadSlots(part.trim().to_owned())),
            }
        }
        Ok(slots.into_iter().collect())
    }
}

impl fmt::Display for BadSlots {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "'{}' is not a slot or range: write 7 or 0-5460, up to {}", self.0, SLOTS - 1)
    }
}

impl std::error::Error for BadSlots {}
