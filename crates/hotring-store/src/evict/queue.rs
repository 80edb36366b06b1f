//! A FIFO queue of hashes, stored in chunks, so that a long queue is never copied and returns unused memory.

use std::collections::VecDeque;

/// Hashes in a chunk: 4 KiB.
const CHUNK: usize = 512;

/// The queue, 8 bytes a hash.
pub struct Queue {
    chunks: VecDeque<Box<[u64; CHUNK]>>,
    /// Position of the oldest hash in the first chunk.
    first: usize,
    len: usize,
}

impl Queue {
    /// An empty queue without memory.
    pub const fn new() -> Self {
        Queue { chunks: VecDeque::new(), first: 0, len: 0 }
    }

    /// Number of hashes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a hash as the newest.
    pub fn push(&mut self, hash: u64) {
        let at = self.first + self.len;
        if at == self.chunks.len() * CHUNK {
            self.chunks.push_back(Box::new([0; CHUNK]));
        }
        self.chunks[at / CHUNK][at % CHUNK] = hash;
        self.len += 1;
    }

    /// Removes and returns the oldest hash.
    pub fn pop(&mut self) -> Option<u64> {
        let hash = (self.len > 0).then(|| self.chunks[0][self.first])?;
        self.len -= 1;
        self.first += 1;
        if self.first == CHUNK {
            self.chunks.pop_front();
            self.first = 0;
        }
        Some(hash)
    }

    /// Memory of the queue, in bytes.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<[u64; CHUNK]>() + self.chunks.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_leave_as_they_came_and_memory_goes_with_them() {
        let mut queue = Queue::new();
        assert_eq!((queue.pop(), queue.bytes()), (None, 0));
        let (mut pushed, mut popped) = (0, 0);
        for _ in 0..50 {
            (0..300).for_each(|_| {
                queue.push(pushed);
                pushed += 1;
            });
            for _ in 0..270 {
                assert_eq!(queue.pop(), Some(popped));
                popped += 1;
            }
            assert_eq!(queue.len() as u64, pushed - popped);
        }
        assert_eq!((popped..pushed).map(Some).find(|&hash| queue.pop() != hash), None);
        assert_eq!((queue.len(), queue.pop()), (0, None));
        assert!(queue.bytes() < 2 * 8 * CHUNK, "{} bytes", queue.bytes());
    }
}
