//! Keys and values that identify each other, so that every reply can be checked.
//!
//! A key is its number in eight letters, padded to the key length. A value begins with five letters that follow
//! from its key and three that state its version, and continues with text that follows from both, so that the
//! value of another key, a torn value and a truncated value are all detected. No letter is a digit, because
//! servers may store numbers in another form, and all letters are allowed in memcached's keys.

use fastrand::Rng;

use crate::workload::mix::mix;

/// The least length of a key or a value, in bytes.
pub const LEN_MIN: usize = 8;

/// The greatest length of a key in memcached, in bytes.
pub const KEY_LEN_MAX: usize = 250;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.~!*@$%&+=";

/// Positions in the text where the rest of a value can begin.
const OFFSETS: usize = 4096;

const VERSION_LETTERS: usize = 3;

/// Generates keys of one length and values of one length.
#[derive(Debug)]
pub struct Content {
    key_len: usize,
    value_len: usize,
    text: Vec<u8>,
}

impl Content {
    /// Keys of 8 to 250 bytes, and values of 8 bytes or more.
    pub fn new(key_len: usize, value_len: usize) -> Self {
        assert!((LEN_MIN..=KEY_LEN_MAX).contains(&key_len) && value_len >= LEN_MIN);
        let mut random = Rng::with_seed(1);
        let text = (0..OFFSETS + value_len).map(|_| letter(random.u64(..))).collect();
        Content { key_len, value_len, text }
    }

    /// Bytes of a key.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// Bytes of a value.
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// Appends a key.
    pub fn key(&self, key: u64, out: &mut Vec<u8>) {
        debug_assert!(key < 1 << 48, "eight letters of six bits");
        out.extend((0..LEN_MIN).map(|i| letter(key >> (6 * i))));
        out.resize(out.len() + self.key_len - LEN_MIN, b'k');
    }

    /// Whether `bytes` are the key of number `key`.
    pub fn is_key(&self, key: u64, bytes: &[u8]) -> bool {
        let (head, rest) = bytes.split_at(LEN_MIN);
        head.iter().enumerate().all(|(i, &byte)| byte == letter(key >> (6 * i)))
            && rest.iter().all(|&byte| byte == b'k')
    }

    /// Appends the value of a key in a version.
    pub fn value(&self, key: u64, version: u64, out: &mut Vec<u8>) {
        let tag = mix(key);
        let version_letters = (0..VERSION_LETTERS).map(|i| letter(version >> (6 * i)));
        let head = LEN_MIN - VERSION_LETTERS;
        out.extend((0..head).map(|i| letter(tag >> (6 * i))).chain(version_letters));
        let start = offset_of(tag, &out[out.len() - VERSION_LETTERS..]);
        out.extend_from_slice(&self.text[start..start + self.value_len - LEN_MIN]);
    }

    /// Whether `value` is the key's value in any version.
    pub fn is_value_of(&self, key: u64, value: &[u8]) -> bool {
        if value.len() != self.value_len {
            return false;
        }
        let tag = mix(key);
        let (head, rest) = value.split_at(LEN_MIN);
        let (named, version) = head.split_at(LEN_MIN - VERSION_LETTERS);
        let start = offset_of(tag, version);
        named.iter().enumerate().all(|(i, &byte)| byte == letter(tag >> (6 * i)))
            && *rest == self.text[start..start + rest.len()]
    }
}

fn letter(word: u64) -> u8 {
    LETTERS[(word & 63) as usize]
}

fn offset_of(tag: u64, version: &[u8]) -> usize {
    let version = version.iter().fold(0, |sum: usize, &byte| sum * 61 + usize::from(byte));
    (version + (tag >> 32) as usize) % OFFSETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_belongs_to_its_key_alone() {
        for value_len in [8, 9, 100, 10_000] {
            let content = Content::new(8, value_len);
            for (key, version) in [(0, 0), (1, 7), (1 << 47, u64::MAX)] {
                let mut value = Vec::new();
                content.value(key, version, &mut value);
                assert!(content.is_value_of(key, &value), "{key} {version} {value_len}");
                assert!(!content.is_value_of(key + 1, &value));
                assert!(!content.is_value_of(key, &value[1..]), "cut");
                let last = value.len() - 1;
                if last >= LEN_MIN {
                    value[last] ^= 1;
                    assert!(!content.is_value_of(key, &value), "torn");
                }
            }
        }
    }

    #[test]
    fn versions_differ_and_keys_are_distinct_words() {
        let content = Content::new(20, 8);
        let value = |version| {
            let mut out = Vec::new();
            content.value(5, version, &mut out);
            out
        };
        assert_ne!(value(1), value(2));
        let key = |number| {
            let mut out = Vec::new();
            content.key(number, &mut out);
            assert_eq!(out.len(), 20);
            assert!(out.iter().all(u8::is_ascii_graphic));
            out
        };
        let keys: std::collections::BTreeSet<_> = (0..5000).map(key).collect();
        assert_eq!(keys.len(), 5000);
    }
}
