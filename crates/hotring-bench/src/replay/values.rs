//! The values of a replay: length and content follow from the key alone.

use std::str::FromStr;

use fastrand::Rng;

use crate::workload::mix::mix;

/// The range of value lengths, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSize {
    min: usize,
    max: usize,
}

impl FromStr for ValueSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once("..").unwrap_or((text, text));
        match (min.parse(), max.parse()) {
            (Ok(min), Ok(max)) if min <= max => Ok(ValueSize { min, max }),
            _ => Err(format!("{text:?} is neither a size such as 100 nor a range such as 20..500")),
        }
    }
}

impl ValueSize {
    /// Writes the value of a key to `value`.
    pub fn fill(self, key: &[u8], value: &mut Vec<u8>) {
        let digest = key.iter().fold(0, |sum: u64, &byte| mix(sum ^ u64::from(byte)));
        let mut random = Rng::with_seed(digest);
        let spare = random.u64(..(self.max - self.min) as u64 + 1) as usize;
        let length = self.min + spare;
        value.clear();
        while value.len() < length {
            value.extend_from_slice(&random.u64(..).to_le_bytes());
        }
        value.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_in_their_range_and_follow_from_the_key() {
        let sizes: ValueSize = "20..40".parse().unwrap();
        let (mut value, mut refilled) = (Vec::new(), Vec::new());
        let mut lengths = std::collections::BTreeSet::new();
        for key in 0..500_u32 {
            sizes.fill(&key.to_le_bytes(), &mut value);
            sizes.fill(&key.to_le_bytes(), &mut refilled);
            assert_eq!(value, refilled);
            lengths.insert(value.len());
        }
        assert_eq!(lengths, (20..=40).collect());
    }

    #[test]
    fn a_size_is_a_number_or_a_range() {
        assert_eq!("100".parse::<ValueSize>().unwrap(), ValueSize { min: 100, max: 100 });
        for bad in ["", "a", "5..", "9..5", "-1"] {
            assert!(bad.parse::<ValueSize>().is_err(), "{bad}");
        }
    }
}
