//! Maps of byte strings as targets: encodes numbers as keys and values of any length, and decodes them.
//!
//! A key or value consists of its number's bytes, the lowest first, and padding up to its length. Decoding a
//! value reads all of it, as a user of the value would.

use super::{BytesEngine, BytesSession, Engine, Session};

/// The lengths of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
}

/// The length of a number, in bytes.
const WORD: usize = size_of::<u64>();
/// Keys per call: as many as fit in an array on the stack.
const CHUNK: usize = 64;

impl Shape {
    /// Keys and values of one word each, which a map of numbers stores directly.
    pub const WORDS: Shape = Shape { key_bytes: WORD, value_bytes: WORD };

    /// The number of distinct keys of this length.
    pub fn keys_max(self) -> u64 {
        match self.key_bytes {
            0..WORD => 1 << (8 * self.key_bytes),
            _ => u64::MAX,
        }
    }
}

/// Writes a number as the bytes of a key or value.
fn write(number: u64, to: &mut [u8]) {
    let bytes = number.to_le_bytes();
    let len = to.len().min(WORD);
    to[..len].copy_from_slice(&bytes[..len]);
    to[len..].fill(bytes[0]);
}

/// Decodes a number. Bits that `bytes` are too short for are taken from `key`. If the padding is wrong, all bits
/// of the result are wrong.
fn read(bytes: &[u8], key: u64) -> u64 {
    let len = bytes.len().min(WORD);
    let mut word = key.to_le_bytes();
    word[..len].copy_from_slice(&bytes[..len]);
    let is_whole = bytes[len..].iter().fold(true, |whole, &byte| whole & (byte == word[0]));
    let number = u64::from_le_bytes(word);
    if is_whole { number } else { !key }
}

/// A map of byte strings as a map of numbers.
pub(super) struct Written<E> {
    engine: E,
    shape: Shape,
}

impl<E: BytesEngine> Written<E> {
    pub(super) fn new(engine: E, shape: Shape) -> Self {
        Written { engine, shape }
    }
}

impl<E: BytesEngine> Engine for Written<E> {
    type Session<'a>
        = WrittenSession<E::Session<'a>>
    where
        E: 'a;

    fn session(&self) -> Self::Session<'_> {
        let Shape { key_bytes, value_bytes } = self.shape;
        WrittenSession {
            session: self.engine.session(),
            key_bytes,
            keys: vec![0; key_bytes * CHUNK],
            value: vec![0; value_bytes],
        }
    }

    fn visits(&self) -> Option<(u64, u64)> {
        self.engine.visits()
    }

    fn index_bytes(&self) -> Option<u64> {
        self.engine.index_bytes()
    }
}

/// A session of a map of byte strings, used with numbers.
pub(super) struct WrittenSession<S> {
    session: S,
    key_bytes: usize,
    /// The buffer for encoded keys, one after the other.
    keys: Vec<u8>,
    value: Vec<u8>,
}

impl<S> WrittenSession<S> {
    fn with_key<R>(&mut self, key: u64, run: impl FnOnce(&mut S, &[u8]) -> R) -> R {
        let bytes = &mut self.keys[..self.key_bytes];
        write(key, bytes);
        run(&mut self.session, bytes)
    }
}

impl<S: BytesSession> Session for WrittenSession<S> {
    fn get(&mut self, key: u64) -> Option<u64> {
        self.with_key(key, |session, bytes| session.get(bytes, |value| read(value, key)))
    }

    fn put(&mut self, key: u64, value: u64) {
        write(value, &mut self.value);
        write(key, &mut self.keys[..self.key_bytes]);
        self.session.put(&self.keys[..self.key_bytes], &self.value);
    }

    fn remove(&mut self, key: u64) {
        self.with_key(key, S::remove);
    }

    fn settle(&mut self) {
        self.session.settle();
    }

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        for (keys, values) in keys.chunks(CHUNK).zip(values.chunks_mut(CHUNK)) {
            for (&key, bytes) in keys.iter().zip(self.keys.chunks_mut(self.key_bytes)) {
                write(key, bytes);
            }
            let mut slices: [&[u8]; CHUNK] = [&[]; CHUNK];
            for (slice, bytes) in slices.iter_mut().zip(self.keys.chunks(self.key_bytes)) {
                *slice = bytes;
            }
            values.fill(None);
            let see = |i: usize, value: &[u8]| values[i] = Some(read(value, keys[i]));
            self.session.get_many(&slices[..keys.len()], see);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_from_any_size() {
        for len in [1, 3, 8, 9, 100] {
            let mut bytes = vec![0xAA; len];
            for number in [0, 1, 255, 256, 0x1234_5678_9ABC_DEF0] {
                write(number, &mut bytes);
                assert_eq!(read(&bytes, number), number, "{len} bytes");
            }
        }
    }

    #[test]
    fn a_torn_value_is_seen() {
        let mut bytes = [0; 100];
        write(7, &mut bytes);
        bytes[99] ^= 1;
        assert_ne!(read(&bytes, 7), 7);
        write(8, &mut bytes);
        assert_ne!(read(&bytes, 7), 7);
    }

    #[test]
    fn short_keys_can_tell_few_numbers_apart() {
        assert_eq!(Shape { key_bytes: 2, value_bytes: 8 }.keys_max(), 65_536);
        assert_eq!(Shape::WORDS.keys_max(), u64::MAX);
    }
}
