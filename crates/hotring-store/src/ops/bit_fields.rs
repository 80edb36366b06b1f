//! BITFIELD: integers of any width at any bit position of a string. One single-key read or write.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::container::Changes;
use crate::error::StoreError;
use crate::long_text::{Patch, TextRef};
use crate::session::Session;

/// An integer within a string, highest bit first, at any bit position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitField {
    /// Position of its first bit.
    pub offset: u64,
    /// Number of bits: 1 to 64, or to 63 for an unsigned integer.
    pub bits: u32,
    /// Whether the integer is signed (two's complement).
    pub is_signed: bool,
}

/// The treatment of a number that a field cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The lowest bits are stored.
    #[default]
    Wrap,
    /// The nearest number that fits is stored.
    Saturate,
    /// Nothing is stored.
    Fail,
}

/// An action on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldAction {
    /// Returns the number.
    Get,
    /// Stores a number, and returns the old one.
    Set(i64, Overflow),
    /// Adds to the number, and returns the sum.
    Add(i64, Overflow),
}

/// A field and an action on it.
pub type FieldOp = (BitField, FieldAction);

/// A string with changed bytes on top, which may be beyond its end.
struct Overlay<'a> {
    text: TextRef<'a>,
    changed: BTreeMap<usize, u8>,
}

impl BitField {
    /// Position of the byte with its last bit, capped if no string can be that long.
    fn last_byte(self) -> usize {
        usize::try_from((self.offset + u64::from(self.bits) - 1) / 8).unwrap_or(usize::MAX - 1)
    }

    /// The number to store for a result; None if nothing is stored.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = match self.is_signed {
            true => (-(1_i128 << (self.bits - 1)), (1_i128 << (self.bits - 1)) - 1),
            false => (0, (1_i128 << self.bits) - 1),
        };
        let fitting = match overflow {
            _ if (min..=max).contains(&number) => number,
            Overflow::Wrap => self.of_bits(number as u64 & self.mask()).into(),
            Overflow::Saturate => number.clamp(min, max),
            Overflow::Fail => return None,
        };
        Some(fitting as i64)
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The number that the lowest bits encode.
    fn of_bits(self, bits: u64) -> i64 {
        let unused = 64 - self.bits;
        if self.is_signed { ((bits << unused) as i64) >> unused } else { bits as i64 }
    }
}

impl<'a> Overlay<'a> {
    fn new(text: TextRef<'a>) -> Self {
        Overlay { text, changed: BTreeMap::new() }
    }

    fn run(&mut self, ops: &[FieldOp]) -> Vec<Option<i64>> {
        ops.iter().map(|op| self.act(*op)).collect()
    }

    fn byte(&self, at: usize) -> u8 {
        self.changed.get(&at).copied().or_else(|| self.text.byte(at)).unwrap_or(0)
    }

    /// The bytes that contain the field as one number, the position of the first, and the number of bits after the
    /// field.
    fn around(&self, field: BitField) -> (u128, usize, u32) {
        let (first, last) = ((field.offset / 8) as usize, field.last_byte());
        let bytes = (first..=last).fold(0, |all, at| all << 8 | u128::from(self.byte(at)));
        let before = (field.offset % 8) as u32;
        (bytes, first, (last - first + 1) as u32 * 8 - before - field.bits)
    }

    fn get(&self, field: BitField) -> i64 {
        let (bytes, _, shift) = self.around(field);
        field.of_bits((bytes >> shift) as u64 & field.mask())
    }

    fn set(&mut self, field: BitField, number: i64) {
        let (mut bytes, first, shift) = self.around(field);
        bytes &= !(u128::from(field.mask()) << shift);
        bytes |= u128::from(number as u64 & field.mask()) << shift;
        for at in (first..=field.last_byte()).rev() {
            self.changed.insert(at, bytes as u8);
            bytes >>= 8;
        }
    }

    fn act(&mut self, (field, action): FieldOp) -> Option<i64> {
        let old = self.get(field);
        let (number, overflow) = match action {
            FieldAction::Get => return Some(old),
            // As in Redis, a negative number is a large one for an unsigned field.
            FieldAction::Set(number, overflow) if !field.is_signed => {
                (i128::from(number as u64), overflow)
            }
            FieldAction::Set(number, overflow) => (number.into(), overflow),
            FieldAction::Add(delta, overflow) => (i128::from(old) + i128::from(delta), overflow),
        };
        let new = field.fit(number, overflow)?;
        if new != old {
            self.set(field, new);
        }
        Some(if matches!(action, FieldAction::Set(..)) { old } else { new })
    }

    /// The patches for the changed bytes, one for each run. Extends the string to reach the byte `last`.
    fn patches(mut self, last: usize) -> Vec<Patch<'static>> {
        if self.text.len() <= last {
            let byte = self.byte(last);
            self.changed.insert(last, byte);
        }
        let mut patches: Vec<(usize, Vec<u8>)> = Vec::new();
        for (at, byte) in self.changed {
            match patches.last_mut() {
                Some((start, run)) if *start + run.len() == at => run.push(byte),
                _ => patches.push((at, vec![byte])),
            }
        }
        patches.into_iter().map(|(at, run)| Patch { at, bytes: Cow::Owned(run) }).collect()
    }
}

impl Session {
    /// Executes the operations in their order, each on the result of the previous ones, and returns a result for each:
    /// None if a number did not fit and must not be stored. Operations that only read leave the value unchanged; others
    /// extend it with zero bytes up to the last field that they name, even if they store nothing. The expiry stays.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], [`StoreError::ValueTooLong`], and those of every write.
    pub fn bit_fields(
        &mut self,
        key: &[u8],
        ops: &[FieldOp],
        now: u64,
    ) -> Result<Vec<Option<i64>>, StoreError> {
        let writes = ops.iter().filter(|(_, action)| *action != FieldAction::Get);
        let Some(last) = writes.map(|(field, _)| field.last_byte()).max() else {
            let answers = self.read_text(key, now, |text| Overlay::new(text).run(ops))?;
            return Ok(answers.unwrap_or_else(|| Overlay::new(TextRef::plain(b"")).run(ops)));
        };
        self.check_key(key)?;
        if let Err(error) = self.check_text(last + 1, ops.len() * size_of::<u64>()) {
            // Redis reports a wrong type first.
            return self.strlen(key, now).and(Err(error));
        }
        self.change_text(key, now, |text| {
            let mut overlay = Overlay::new(text);
            let answers = overlay.run(ops);
            Ok((Changes::Many(overlay.patches(last)), answers))
        })
    }
}
