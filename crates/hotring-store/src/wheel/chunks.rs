//! A bag of words, stored in chunks: no word is copied as it grows, and memory is returned as it empties.

use std::mem::size_of;

/// Words in the smallest chunk.
const CHUNK_MIN: usize = 8;
/// Words in the largest chunk: 4 KiB.
const CHUNK_MAX: usize = 512;

/// The bag; last in, first out.
#[derive(Default)]
pub(super) struct Chunks {
    /// All chunks but the last are full, and none is empty.
    chunks: Vec<Vec<u64>>,
    len: usize,
}

impl Chunks {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn push(&mut self, word: u64) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == chunk.capacity()) {
            // Each chunk adds a third, so at most a quarter is unused.
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

    /// Heap memory in bytes.
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
    fn words_come_out_in_reverse_order_and_memory_follows() {
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
