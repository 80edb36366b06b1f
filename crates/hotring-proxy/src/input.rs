//! The bytes of a connection that have arrived and not been used.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that are read at once, unless a longer message is expected.
const READ_LEN: usize = 16 << 10;

/// An empty buffer above this length is freed.
const KEPT_MAX: usize = 64 << 10;

/// A buffer whose unused bytes are `buffer[start..end]`.
#[derive(Debug, Default)]
pub(crate) struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// The unused bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Removes bytes from the front.
    pub(crate) fn consume(&mut self, n: usize) {
        self.start += n;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > KEPT_MAX {
                self.buffer = Vec::new();
            }
        }
    }

    /// Reads what has arrived: up to `wanted` bytes in all, or a usual portion. Ok(0): the end.
    pub(crate) fn poll_read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin + ?Sized),
        wanted: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let space = READ_LEN.max(wanted.saturating_sub(self.end).min(1 << 20));
        if self.buffer.len() < self.end + space {
            self.buffer.resize(self.end + space, 0);
        }
        let mut free = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(Pin::new(stream).poll_read(cx, &mut free))?;
        let n = free.filled().len();
        self.end += n;
        Poll::Ready(Ok(n))
    }
}
