//! Waits of a connection for a key, the log or the end of a client pause.
//!
//! The task is woken by the write that changes the key (through `ClientShared`), by a command that
//! ends the wait, by the timer, and by input: the end of the stream ends the wait. Requests that
//! arrive meanwhile are kept and run after the reply.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hotring_commands::exec::{Conversation, Executor, WaitEnd};
use hotring_commands::host::clock;
use hotring_commands::state::client::Wait;
use hotring_store::Watched;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::{Job, Socket};

/// The timer of a wait.
pub(super) struct Alarm {
    /// When the wait times out.
    deadline: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    fn new(limit: Option<Duration>) -> Self {
        // A limit beyond the range of the clock means never.
        let deadline = limit.and_then(|limit| clock::monotonic().checked_add(limit));
        Alarm { deadline, sleep: Box::pin(tokio::time::sleep(Duration::ZERO)) }
    }

    fn poll(
        &mut self,
        executor: &mut Executor,
        conversation: &Conversation,
        cx: &mut Context<'_>,
    ) -> Poll<WaitEnd> {
        loop {
            let unix_ms = clock::unix_ms();
            let until = match executor.poll_wait(conversation, unix_ms) {
                Watched::Fired => return Poll::Ready(WaitEnd::Fired),
                Watched::Waiting { until } => until,
            };
            if conversation.client.shared.unblocked().is_some() {
                // The end of the wait finds out how it was unblocked.
                return Poll::Ready(WaitEnd::TimedOut);
            }
            let now = clock::monotonic();
            if self.deadline.is_some_and(|deadline| deadline <= now) {
                // Fails if an element is on its way: then the task is woken soon.
                return match conversation.client.shared.end_own_wait() {
                    true => Poll::Ready(WaitEnd::TimedOut),
                    false => Poll::Pending,
                };
            }
            let check_at = until
                .and_then(|at| now.checked_add(Duration::from_millis(at.saturating_sub(unix_ms))));
            let Some(next) = self.deadline.into_iter().chain(check_at).min() else {
                return Poll::Pending;
            };
            self.sleep.as_mut().reset(next.into());
            ready!(self.sleep.as_mut().poll(cx));
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Polls the wait; ready when it has ended and its reply is on the way.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(wait) = self.conversation.client.wait() else { return Poll::Ready(Ok(())) };
        let thread = self.thread.clone();
        let limit = match wait {
            Wait::Key { limit, .. } | Wait::Element { limit, .. } | Wait::Safe { limit, .. } => {
                *limit
            }
            Wait::Pause { .. }
            | Wait::Moving { .. }
            | Wait::Log
            | Wait::Script { .. }
            | Wait::Save { .. } => None,
        };
        let alarm = self.alarm.get_or_insert_with(|| Alarm::new(limit));
        let conversation = &*self.conversation;
        let end = match thread.finishing.get() && conversation.client.shared.end_own_wait() {
            true => WaitEnd::Stopping,
            false => {
                ready!(thread.with_work(|work| alarm.poll(&mut work.executor, conversation, cx)))
            }
        };
        self.alarm = None;
        let mut runner = thread.runner();
        runner.work.now = clock::unix_ms();
        runner.work.job = Job::EndWait(end);
        self.run(runner, cx)
    }

    /// Reads once during a wait and keeps the bytes until its end. Ready with 0 at the end of the stream.
    pub(super) fn poll_receive_in_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let thread = self.thread.clone();
        let (stream, input) = (&mut self.stream, &mut self.input);
        let read = thread.with_work(|work| {
            let mut buffer = ReadBuf::new(&mut work.read);
            ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
            input.extend(buffer.filled())?;
            Poll::Ready(Ok::<_, io::Error>((
                buffer.filled().len(),
                work.executor.config().query_buffer_max,
            )))
        });
        let (n, max) = ready!(read)?;
        if n > 0 {
            self.received(n);
            self.publish_lengths();
            self.check_input_limit(max)?;
        } else {
            // The client may fetch unsent replies slowly or never; that must not count as waiting
            // for a key.
            self.conversation.client.end_wait(clock::unix_ms());
        }
        Poll::Ready(Ok(n))
    }
}
