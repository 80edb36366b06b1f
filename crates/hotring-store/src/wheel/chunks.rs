//! A list of words in chunks: as it grows, no word is copied, and as it empties, its memory goes back.

use std::mem::size_of;

/// Words of the smallest chunk.
const CHUNK_MIN: usize = 8;
/// Words of the largest: 4 KiB.
const CHUNK_MAX: usize = 512;

/// A bag of words: last in, first out.
#[derive(Default)]
pub(super) struct Chunks {
    /// Each but the last is full, and none is empty.
    chunks: Vec<Vec<u64>>,
    len: usize,
}

impl Chunks {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn push(&mut self, word: u64) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == chunk.capacity()) {
            // A third more each time: a quarter is unused at most.
            let capacity = (self.len / 3).clamp(CHUNK_MIN, CHUNK_MAX);
            self.chunks.push(Vec::with_capacity(capacity));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(word);
        }
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<u64> {
        let chunk = self.chunks.last_mut()?;
        let word = chunk.pop();
        if chunk.is_empty() {
            self.chunks.pop();
            if self.chunks.is_empty() {
                self.chunks = Vec::new();
            }
        }
        self.len -= 1;
        word
    }

    /// Bytes that it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        let words: usize = match self.chunks.split_last() {
            Some((last, full)) => full.iter().map(Vec::len).sum::<usize>() + last.capacity(),
            None => 0,
        };
        words * size_of::<u64>() + self.chunks.capacity() * size_of::<Vec<u64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_memory_follows() {
        let mut chunks = Chunks::default();
        assert_eq!((chunks.pop(), chunks.bytes()), (None, 0));
        for n in [1, 4, 5, 100, 10_000] {
            (0..n).for_each(|word| chunks.push(word));
            let exact = n as usize * 8;
            let bytes = chunks.bytes();
            assert!((exact..exact * 3 / 2 + 300).contains(&bytes), "{n} words take {bytes}");
            assert!((0..n).rev().all(|word| chunks.pop() == Some(word)));
            assert!(chunks.is_empty() && chunks.pop().is_none());
            assert_eq!(chunks.bytes(), 0);
        }
    }
}
