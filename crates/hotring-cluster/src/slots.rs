//! Slots: which of the 16,384 a key belongs to, and sets of slots.

use std::fmt;
use std::str::FromStr;

use crc::{CRC_16_XMODEM, Crc};

/// The number of a slot, below [`SLOTS`].
pub type Slot = u16;

/// The number of slots, which clients of Redis Cluster know.
pub const SLOTS: Slot = 16_384;

static CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a key. Keys with the same hash tag share a slot.
pub fn slot_of(key: &[u8]) -> Slot {
    CRC.checksum(hash_tag(key)) % SLOTS
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
