//! The connection of a client: bytes in, replies out in order.
//!
//! A client that does not fetch its replies, or whose nodes do not answer, is not read: the kernel's buffers fill up,
//! and the client has to wait.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncWrite, Interest};

use super::core::Core;
use crate::input::Input;
use crate::link::Connection;

/// Bytes of unsent replies above which a client is not read.
pub(super) const OUTPUT_SOFT_MAX: usize = 1 << 20;

/// Bytes of further requests that are read from a client that waits.
const AHEAD_MAX: usize = 64 << 10;

/// The connection of a client.
pub(super) struct Wire {
    pub stream: Box<dyn Connection>,
    pub input: Input,
    /// Replies that the kernel has not taken, from `sent` on.
    output: Vec<u8>,
    sent: usize,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Connection>) -> Self {
        Wire { stream, input: Input::default(), output: Vec::new(), sent: 0 }
    }

    /// Waits until more has arrived, `wanted` bytes in all if possible, and writes replies meanwhile. False: the client
    /// sends nothing more. `take_messages` adds what has come for the client unasked.
    pub(super) async fn receive(
        &mut self,
        core: &Core,
        wanted: usize,
        mut take_messages: impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> io::Result<bool> {
        let settings = &core.thread.shared.settings;
        if self.input.bytes().len() > settings.request_len_max.saturating_add(OUTPUT_SOFT_MAX) {
            return Err(io::Error::other("a request is longer than the limit"));
        }
        let mut ending = pin!(core.thread.ending.notified());
        poll_fn(|cx| {
            core.replies.wake_later(cx);
            self.poll_write(core, cx)?;
            if take_messages(cx)?.is_ready() {
                self.poll_write(core, cx)?;
            }
            if self.unsent() > OUTPUT_SOFT_MAX {
                return Poll::Pending;
            }
            match self.input.poll_read(&mut self.stream, wanted, cx)? {
                Poll::Ready(n) => Poll::Ready(Ok(n > 0)),
                // What has arrived is answered before the client ends.
                Poll::Pending if core.thread.shared.is_stopping() => Poll::Ready(Ok(false)),
                Poll::Pending => {
                    _ = ending.as_mut().poll(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Writes replies until the client may send more.
    pub(super) async fn wait_for_room(&mut self, core: &mut Core) -> io::Result<()> {
        poll_fn(|cx| {
            core.replies.wake_later(cx);
            self.poll_write(core, cx)?;
            let may_take = self.unsent() <= OUTPUT_SOFT_MAX && core.may_take();
            match may_take && core.has_room(cx) {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Waits until all requests have their replies, and these are sent.
    pub(super) async fn drain(&mut self, core: &Core) -> io::Result<()> {
        poll_fn(|cx| {
            core.replies.wake_later(cx);
            self.poll_write(core, cx)?;
            match core.replies.waiting() == 0 && self.unsent() == 0 {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Writes what has come for a client that waits, and reads its further requests, to some extent. An error if it is
    /// gone. If it has sent more, this must be asked again from time to time; more than the kernel's buffer takes hides
    /// its end.
    pub(super) fn poll_ahead(&mut self, core: &Core, cx: &mut Context<'_>) -> io::Result<()> {
        core.replies.wake_later(cx);
        self.poll_write(core, cx)?;
        while self.input.bytes().len() < AHEAD_MAX {
            match self.input.poll_read(&mut self.stream, 0, cx)? {
                Poll::Ready(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(_) => {}
                Poll::Pending => return Ok(()),
            }
        }
        // The end stands behind requests that are not read.
        let readable = pin!(self.stream.socket().ready(Interest::READABLE));
        match readable.poll(cx) {
            Poll::Ready(Ok(ready)) if ready.is_read_closed() => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            _ => Ok(()),
        }
    }

    /// Bytes of replies that the kernel has not taken.
    fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Writes replies that are ready, as far as the kernel takes them.
    fn poll_write(&mut self, core: &Core, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            if self.sent == self.output.len() {
                self.output.clear();
                self.output.shrink_to(OUTPUT_SOFT_MAX);
                self.sent = 0;
                core.replies.take_ready(&mut self.output);
                if self.output.is_empty() {
                    break;
                }
            }
            match Pin::new(&mut self.stream).poll_write(cx, &self.output[self.sent..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => self.sent += n,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(Err(error)) = Pin::new(&mut self.stream).poll_flush(cx) {
            return Err(error);
        }
        match self.unsent() + core.replies.bytes() > core.thread.shared.settings.output_max {
            true => Err(io::Error::other("the client does not fetch its replies")),
            false => Ok(()),
        }
    }
}
