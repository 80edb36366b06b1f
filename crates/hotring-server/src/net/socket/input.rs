//! A connection's own buffer for input that cannot run yet, as small as possible. All other input
//! stays in the read buffer that the connections of a thread share.
//!
//! The start of a long request goes into memory of the store if that is available, so that its
//! value need not be copied once it is complete.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hotring_store::{Buffer, LONG_LEN};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use super::{LONG_TURN, READ_LEN};

/// Least number of bytes to read beyond a request's long argument.
const BEHIND: usize = 4 << 10;

/// Bytes of requests.
#[derive(Default)]
pub(super) struct Input {
    held: Held,
    /// Bytes at the start that have run; more than 0 only while the rest waits.
    ran: usize,
}

enum Held {
    Private(Vec<u8>),
    /// Shared only while a request in it runs.
    Store(Arc<Buffer>),
}

impl Default for Held {
    fn default() -> Self {
        Held::Private(Vec::new())
    }
}

impl Input {
    /// The bytes that have not run.
    pub(super) fn bytes(&self) -> &[u8] {
        let all: &[u8] = match &self.held {
            Held::Private(bytes) => bytes,
            Held::Store(buffer) => buffer,
        };
        &all[self.ran..]
    }

    pub(super) fn len(&self) -> usize {
        self.bytes().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Unused bytes of its memory.
    pub(super) fn free(&self) -> usize {
        match &self.held {
            Held::Private(bytes) => bytes.capacity() - self.len(),
            Held::Store(buffer) => buffer.footprint() - self.len(),
        }
    }

    /// Bytes of memory that the store does not count.
    pub(super) fn own_memory(&self) -> usize {
        match &self.held {
            Held::Private(bytes) => bytes.capacity(),
            Held::Store(_) => 0,
        }
    }

    /// The store's buffer that holds the bytes, if any.
    pub(super) fn buffer(&self) -> Option<&Arc<Buffer>> {
        match &self.held {
            Held::Private(_) => None,
            Held::Store(buffer) => Some(buffer),
        }
    }

    /// Appends bytes that have arrived.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.held {
            Held::Private(all) => all.extend_from_slice(bytes),
            Held::Store(buffer) => exclusive(buffer)?.extend(bytes)?,
        }
        Ok(())
    }

    /// Keeps nothing but `left`.
    pub(super) fn keep(&mut self, left: &[u8]) {
        self.ran = 0;
        match &mut self.held {
            Held::Private(all) if !left.is_empty() => {
                all.clear();
                all.extend_from_slice(left);
            }
            held => *held = Held::Private(left.to_vec()),
        }
    }

    /// Reserves space for the next read: usually `READ_LEN` bytes, for a long request up to all
    /// of its missing bytes.
    ///
    /// `wanted` is the length of the pending request. Growth must follow the bytes that have
    /// arrived, never the announced length alone; that length only caps it. The start of a request
    /// with a long argument moves into memory of the store.
    pub(super) fn reserve(&mut self, wanted: usize, buffer: impl FnOnce(usize) -> Option<Buffer>) {
        let Held::Private(all) = &mut self.held else { return };
        let (len, missing) = (all.len(), wanted.saturating_sub(self.ran + all.len()));
        if missing > LONG_LEN / 2 && wanted > LONG_LEN && len <= LONG_LEN && self.ran == 0 {
            let filled = buffer(wanted + BEHIND).and_then(|mut buffer| {
                buffer.extend(all).ok()?;
                Some(buffer)
            });
            if let Some(buffer) = filled {
                self.held = Held::Store(Arc::new(buffer));
                return;
            }
        }
        if all.capacity() - len < READ_LEN {
            all.reserve_exact(missing.clamp(READ_LEN, len.max(READ_LEN)));
        }
    }

    /// Reads into the reserved space; 0 at the end of the stream.
    pub(super) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        wanted: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let missing = wanted.saturating_sub(self.len());
        match &mut self.held {
            Held::Private(all) => std::pin::pin!(stream.read_buf(all)).poll(cx),
            Held::Store(buffer) => {
                let buffer = exclusive(buffer)?;
                let most = missing.clamp(BEHIND, LONG_TURN);
                let mut unfilled = ReadBuf::new(&mut buffer.spare(most)?[..most]);
                ready!(Pin::new(stream).poll_read(cx, &mut unfilled))?;
                let n = unfilled.filled().len();
                buffer.advance(n);
                Poll::Ready(Ok(n))
            }
        }
    }

    /// Drops the bytes that have run, and memory that the rest does not need. If the rest will run
    /// bit by bit (`rest_waits`), only once it is the shorter part: moving it each time would be
    /// quadratic.
    pub(super) fn drop_ran(&mut self, consumed: usize, rest_waits: bool) {
        self.ran += consumed;
        let rest = self.bytes();
        if rest.is_empty() || (self.ran > 0 && !(rest_waits && rest.len() > self.ran)) {
            self.held = Held::Private(rest.to_vec());
            self.ran = 0;
        }
    }
}

/// The buffer, for filling.
fn exclusive(buffer: &mut Arc<Buffer>) -> io::Result<&mut Buffer> {
    Arc::get_mut(buffer)
        .ok_or_else(|| io::Error::other("the buffer of a request is already a value of the store"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_that_runs_bit_by_bit_is_rarely_moved() {
        const LEN: usize = 1 << 20;
        const BIT: usize = 10;
        let mut input = Input::default();
        input.extend(&(0..LEN).map(|i| i as u8).collect::<Vec<_>>()).expect("it is its own");
        let mut moved = 0;
        for done in (0..LEN).step_by(BIT) {
            assert_eq!(input.len(), LEN - done);
            assert_eq!(input.bytes()[0], done as u8);
            let before = input.ran;
            input.drop_ran(BIT.min(input.len()), true);
            moved += if input.ran <= before { input.len() } else { 0 };
        }
        assert_eq!((input.len(), input.free(), input.ran), (0, 0, 0));
        assert!(moved <= LEN, "{moved} bytes");
    }

    #[test]
    fn the_start_of_a_request_keeps_no_memory_of_completed_ones() {
        let mut input = Input::default();
        input.extend(&[b'x'; 1 << 20]).expect("it is its own");
        input.drop_ran((1 << 20) - 3, false);
        assert_eq!((input.bytes(), input.ran), (&b"xxx"[..], 0));
        assert!(input.free() < 100, "{} bytes", input.free());
        // Nothing has run: it keeps growing in place.
        let mut input = Input { held: Held::Private(Vec::with_capacity(1000)), ran: 0 };
        input.extend(b"xxx").expect("it is its own");
        input.drop_ran(0, false);
        assert_eq!(input.free(), 997);
    }
}
