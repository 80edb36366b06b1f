//! Drives one connection: reads into the thread's buffer, feeds the executor, writes the replies.
//!
//! A connection owns memory only while something is unfinished: `input` holds the start of an
//! incomplete request, `unsent` the replies that the kernel would not take. Otherwise all
//! connections of a thread share one read buffer and one reply buffer.
//!
//! This gives back-pressure: while `unsent` is above the soft limit the connection is not read, so
//! the client's send buffer fills up and the client must read its replies first.
//!
//! * After a wrong password a connection is neither read nor written for a while (`held`).
//! * Replies that acknowledge writes are sent only once the log has the records; until then the
//!   connection runs nothing (`logged.rs`).
//! * While a command waits for a key (`wait`) the connection is read, to notice its end, but runs
//!   nothing until that command has its reply.

mod batch;
mod input;
mod links;
mod logged;
mod output;
mod thread;
mod wait;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use hotring_log::{LogError, Lsn};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use batch::{Away, Job, Stopped, Work};
use hotring_commands::commands::pubsub::leave_all;
use hotring_commands::exec::Conversation;
use hotring_commands::host::clock;
use hotring_commands::observe::counters::Counters;
use hotring_commands::settings::config::OnError;
use hotring_commands::state::client::{Closing, KILLED, MESSAGES, OVERFLOWED, USERS_CHANGED};
use hotring_commands::state::durability;
use input::Input;
use output::Output;
use thread::Runner;
pub(crate) use thread::Thread;
use wait::Alarm;

/// Size of a thread's read buffer. A full one holds about 1,500 small requests; twice the size was
/// not faster.
const READ_LEN: usize = 64 << 10;

/// Up to this length, the start of a request is copied to the front of the thread's buffer, so that
/// the connection needs no large buffer of its own. Above it, the rest is read into the
/// connection's buffer.
const CARRIED_MAX: usize = 4 << 10;

/// A reply buffer that has grown past this is freed after use.
const REPLY_KEPT_MAX: usize = 1 << 20;

/// Bytes that are read of a long request, or sent of a long reply, before other connections have a
/// turn.
const LONG_TURN: usize = 256 << 10;

/// One connection.
pub(crate) struct Socket<S> {
    stream: S,
    thread: Rc<Thread>,
    conversation: Away<Conversation>,
    /// Its batch that has stopped in the middle.
    stopped: Option<Stopped>,
    /// The start of an incomplete request, or input that arrived behind a wait.
    input: Input,
    /// `input` may hold complete requests, which wait for output space or for their turn.
    stalled: bool,
    /// Replies that the kernel has not taken yet.
    unsent: Output,
    /// The last record of the connection's requests that no reply has acknowledged yet.
    unacknowledged: Option<Lsn>,
    /// Replies that must not be sent before their records are in the log.
    logged: Option<logged::Wait>,
    /// The delay after a wrong password: until its end the connection is neither read nor written.
    held: Option<Pin<Box<Sleep>>>,
    /// The timer of the current wait.
    alarm: Option<Alarm>,
    waker_known: bool,
}

impl<S> Socket<S> {
    fn leave(&mut self) {
        // From here on, no session may take a list element on behalf of this client.
        self.conversation.client.end_wait(clock::unix_ms());
        self.conversation.client.end_transaction();
        leave_all(&mut self.conversation.client, &self.thread.server, &mut Vec::new());
        self.thread.server.leave(&self.conversation.client.shared);
    }
}

/// Reschedules the task behind all others that are ready, including those whose readiness the
/// runtime has not polled yet. A task that only wakes itself runs many times before the runtime
/// polls for them.
fn yield_turn(cx: &mut Context<'_>) {
    let asked = std::pin::pin!(tokio::task::yield_now()).poll(cx);
    debug_assert!(asked.is_pending(), "the first time it always is");
}

impl<S> Drop for Socket<S> {
    fn drop(&mut self) {
        // Otherwise a stopped batch has the conversation, and both end with the thread.
        if !self.conversation.is_away() {
            self.leave();
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// A connection that has just been accepted.
    pub(crate) fn new(stream: S, thread: Rc<Thread>, conversation: Conversation) -> Self {
        Socket {
            stream,
            conversation: Away::new(conversation),
            stopped: None,
            thread,
            input: Input::default(),
            stalled: false,
            unsent: Output::default(),
            unacknowledged: None,
            logged: None,
            held: None,
            alarm: None,
            waker_known: false,
        }
    }

    /// Serves the connection until it ends.
    #[expect(clippy::manual_async_fn, reason = "its future would hold the socket twice")]
    pub(crate) fn serve(mut self) -> impl Future<Output = ()> {
        async move {
            let ended = std::future::poll_fn(|cx| self.poll(cx)).await;
            if ended.is_ok() {
                self.become_link().await;
            }
            // Before the client can see the end: it must then find the connection gone.
            self.leave();
            if ended.is_ok() {
                // Send TLS close_notify; skip it if the peer is gone.
                let mut shut_down =
                    |cx: &mut Context<'_>| Pin::new(&mut self.stream).poll_shutdown(cx);
                let _ = std::future::poll_fn(|cx| Poll::Ready(shut_down(cx))).await;
            }
            let id = self.conversation.client.shared.id;
            match ended {
                Ok(()) => tracing::trace!(client = id, "connection closed"),
                Err(error) => tracing::debug!(client = id, %error, "connection lost"),
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.waker_known {
            self.conversation.client.shared.set_waker(cx.waker());
            self.waker_known = true;
        }
        self.thread.logged.count_turn();
        self.thread.activity.note();
        // Before anything else, a stopped batch must finish.
        if self.stopped.is_some() {
            ready!(self.poll_stopped(cx))?;
        }
        loop {
            let signals = self.conversation.client.shared.signals();
            if signals & (KILLED | OVERFLOWED | USERS_CHANGED) != 0
                && let Some(end) = self.obey_signals(signals)
            {
                return Poll::Ready(end);
            }
            if self.is_held(cx) {
                return Poll::Pending;
            }
            if self.poll_logged(cx).is_pending() {
                return Poll::Pending;
            }
            let blocked = self.poll_send(cx)?.is_pending();
            // A connection that is being closed may have lost its right to messages.
            let is_closing = self.conversation.client.closing.is_some();
            if signals & MESSAGES != 0 && !blocked && !is_closing {
                if self.must_wait_for_messages() {
                    ready!(self.run_messages(cx))?;
                    continue;
                }
                // Messages are sent next.
                self.conversation.client.shared.fetch(self.unsent.bytes());
                self.publish_lengths();
                continue;
            }
            if self.conversation.client.closing.is_some() {
                // ORDERING: Relaxed, shown to people.
                self.conversation.client.shared.closes.store(true, Ordering::Relaxed);
                return if blocked { Poll::Pending } else { Poll::Ready(Ok(())) };
            }
            if blocked && self.unsent.len() > self.soft_max() {
                return Poll::Pending;
            }
            if self.stalled {
                ready!(self.run_own(cx))?;
                if self.stalled {
                    // Give other connections a turn.
                    yield_turn(cx);
                    return Poll::Pending;
                }
                continue;
            }
            let waits = self.conversation.client.wait().is_some();
            if waits && self.poll_wait(cx)?.is_ready() {
                continue;
            }
            let received =
                if waits { self.poll_receive_in_wait(cx) } else { self.poll_receive(cx) };
            match received {
                Poll::Ready(Ok(0)) => self.conversation.client.closing = Some(Closing::Asked),
                Poll::Ready(Ok(n)) if n >= READ_LEN - CARRIED_MAX => {
                    // More has probably arrived: give other connections a turn.
                    yield_turn(cx);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                // A batch that waits for a key which another session holds ends first.
                Poll::Pending if self.stopped.is_some() => return Poll::Pending,
                // All input that arrived before the stop has run. A connection that still waits is about to get its
                // element, so it stays open.
                Poll::Pending if self.thread.finishing.get() && !waits => {
                    self.conversation.client.closing = Some(Closing::Killed);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Whether messages show writes that replicas may lack.
    fn must_wait_for_messages(&self) -> bool {
        self.thread.server.persist.durability.awaits_replicas()
            && self.conversation.client.shared.has_invalidations()
    }

    /// Fetches the messages on a fiber, because it may wait for writes that are under way.
    fn run_messages(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut runner = self.thread.runner();
        runner.work.job = Job::Messages;
        self.run(runner, cx)
    }

    /// Acts on signals from other threads; Some if the connection must end.
    fn obey_signals(&mut self, signals: u8) -> Option<io::Result<()>> {
        if signals & KILLED != 0 {
            return Some(Ok(()));
        }
        if signals & OVERFLOWED != 0 {
            return Some(Err(self.over_output_limit()));
        }
        let stays = self.conversation.client.renew_access(&self.thread.server.acl);
        (!stays).then_some(Ok(()))
    }

    /// Whether the delay after a wrong password is still running.
    fn is_held(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(sleep) = &mut self.held else { return false };
        let goes_on = sleep.as_mut().poll(cx).is_pending() && !self.thread.finishing.get();
        if !goes_on {
            self.held = None;
        }
        goes_on
    }

    fn soft_max(&self) -> usize {
        let client = &self.conversation.client;
        self.thread.with_work(|work| client.output_soft_max(work.executor.config()))
    }

    /// Waits until the records that the unsent replies acknowledge are as safe as the settings
    /// require. Meanwhile the connection runs nothing; others do.
    fn poll_logged(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(wait) = &mut self.logged else { return Poll::Ready(()) };
        let Thread { server, logged, .. } = &*self.thread;
        let reached = ready!(logged.poll(&server.persist.durability, wait, cx.waker()));
        let logged::Wait { has_others, is_of_messages, since, .. } = *wait;
        self.logged = None;
        if let Some(since) = since {
            let counters = self.counters();
            counters.replica_waits.add(1);
            counters.replica_wait_us.add(since.elapsed().as_micros() as u64);
        }
        if let Err(error) = reached {
            let is_sent = match error.of_replicas {
                // While a replica is missing, a client may read a key once too often.
                true => is_of_messages,
                false => self.thread.server.settings.config().log.on_error != OnError::Stop,
            };
            if !is_sent {
                self.take_back((!has_others).then_some(&error));
            }
        }
        Poll::Ready(())
    }

    /// Replaces the replies with an error because the log failed, and closes the connection: the
    /// replies may acknowledge writes that are not logged. `error` is None when earlier replies
    /// may be partly sent: an error could then end up inside one of them.
    #[cold]
    fn take_back(&mut self, error: Option<&LogError>) {
        self.unsent = Output::default();
        self.conversation.client.closing = Some(Closing::Killed);
        let Some(error) = error else { return self.publish_lengths() };
        let error = durability::refusal(error);
        let error = match self.conversation.is_memcached() {
            true => format!("SERVER_ERROR {error}\r\n"),
            false => format!("-{error}\r\n"),
        };
        self.unsent.bytes().extend_from_slice(error.as_bytes());
        self.publish_lengths();
    }

    /// Sends pending output; pending while some is left.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut turn = 0;
        while let Some(next) = self.unsent.next() {
            if turn >= LONG_TURN && self.unsent.attached_len() > 0 {
                // Give other connections a turn.
                yield_turn(cx);
                return Poll::Pending;
            }
            let n = ready!(Pin::new(&mut self.stream).poll_write(cx, next))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            turn += n;
            self.count_sent(n);
            self.unsent.advance(n);
            self.publish_lengths();
            // A client that is fetching a large reply is not idle.
            self.conversation.client.shared.active_at.store(clock::unix_ms(), Ordering::Relaxed);
        }
        if self.unsent.end() {
            self.publish_lengths();
            // Input was not read while replies were unsent: the time for the rest of a request starts again.
            self.wait_for_request(clock::unix_ms(), true);
        }
        // TLS may have buffered a part. Other streams have nothing to flush.
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Reads once and runs the requests that are complete; 0 at the end of the stream.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.input.len() > CARRIED_MAX {
            self.poll_receive_own(cx)
        } else {
            self.poll_receive_shared(cx)
        }
    }

    /// Reads into the thread's buffer, behind the start of an incomplete request if there is one.
    fn poll_receive_shared(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut runner = self.thread.runner();
        let carried = self.input.len();
        let mut buffer = ReadBuf::new(&mut runner.work.read[carried..]);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
        let n = buffer.filled().len();
        if n == 0 || read.is_pending() {
            self.thread.give_back(runner);
            return read.map_ok(|()| 0);
        }
        runner.work.read[..carried].copy_from_slice(self.input.bytes());
        runner.work.now = self.received(n);
        runner.work.job = Job::ThreadBuffer { len: carried + n };
        ready!(self.run(runner, cx))?;
        Poll::Ready(Ok(n))
    }

    /// Keeps the bytes that were not consumed.
    fn keep_input(&mut self, left: &[u8]) {
        self.input.keep(left);
        self.publish_lengths();
    }

    /// Reads behind a long incomplete request, in its own buffer.
    fn poll_receive_own(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let wanted = self.conversation.input_len_wanted();
        let thread = self.thread.clone();
        self.input.reserve(wanted, |len| thread.with_work(|work| work.executor.buffer(len)));
        self.publish_lengths();
        let n = ready!(self.input.poll_fill(&mut self.stream, wanted, cx))?;
        if n == 0 {
            return Poll::Ready(Ok(0));
        }
        self.received(n);
        // A stopped batch may hold keys, and this would wait for them.
        if self.input.buffer().is_some() && thread.stopped.get() == 0 {
            thread.with_work(|work| work.executor.evict_for(n));
        }
        if self.input.len() >= wanted {
            ready!(self.run_own(cx))?;
        } else {
            self.publish_lengths();
        }
        let max = thread.with_work(|work| work.executor.config().query_buffer_max);
        self.check_input_limit(max)?;
        Poll::Ready(Ok(n))
    }

    /// Runs the requests in the connection's own buffer.
    fn run_own(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut runner = self.thread.runner();
        runner.work.now = clock::unix_ms();
        runner.work.job = Job::Input(std::mem::take(&mut self.input));
        self.run(runner, cx)
    }

    /// Records since when the rest of a request is awaited, so that a client cannot keep one open
    /// for ever. The time does not run while replies are unsent, as the client may be unable to
    /// send, nor while its command waits for a key, as later input is not read.
    fn wait_for_request(&self, now: u64, restart: bool) {
        let is_free = !self.stalled && self.conversation.client.wait().is_none();
        let waits = !self.input.is_empty() && is_free && self.unsent.is_empty();
        let since = &self.conversation.client.shared.request_since;
        // ORDERING: Relaxed, compared with a timeout.
        if !waits {
            since.store(0, Ordering::Relaxed);
        } else if restart || since.load(Ordering::Relaxed) == 0 {
            since.store(now, Ordering::Relaxed);
        }
    }

    /// Records that bytes have arrived; returns the time.
    fn received(&mut self, n: usize) -> u64 {
        let now = clock::unix_ms();
        // ORDERING: Relaxed, shown to people and compared with the idle timeout.
        self.conversation.client.shared.active_at.store(now, Ordering::Relaxed);
        let counters = self.counters();
        counters.reads.add(1);
        counters.input_bytes.add(n as u64);
        now
    }

    fn counters(&self) -> &Counters {
        &self.thread.server.threads[self.thread.index].counters
    }

    fn count_sent(&self, n: usize) {
        let counters = self.counters();
        counters.writes.add(1);
        counters.output_bytes.add(n as u64);
    }

    /// Sends the replies of a batch with one write; the rest stays in `unsent`.
    fn send_replies(&mut self, cx: &mut Context<'_>, work: &mut Work) -> io::Result<()> {
        // Recorded even without a reply: a later reply may acknowledge everything before it.
        self.unacknowledged = work.executor.take_logged().max(self.unacknowledged);
        match self.conversation.client.closing {
            Some(Closing::OutputLimit) => {
                work.give_back_replies();
                return Err(self.over_output_limit());
            }
            Some(Closing::InputLimit) => {
                work.give_back_replies();
                return Err(self.over_input_limit());
            }
            _ => {}
        }
        // The delay applies even if the reply is suppressed.
        let penalty = std::mem::take(&mut self.conversation.client.penalty);
        if !penalty.is_zero() {
            self.held = Some(Box::pin(tokio::time::sleep(penalty)));
        }
        if work.replies.is_empty() {
            work.give_back_replies();
            return Ok(());
        }
        let server = &self.thread.server;
        if let Some(lsn) = self.unacknowledged.take()
            && !server.has_reached(lsn)
        {
            let since = server.persist.durability.awaits_replicas().then(clock::monotonic);
            let mut wait = logged::Wait::new(lsn, !self.unsent.is_empty());
            wait.since = since;
            self.logged = Some(wait);
        }
        let is_free = self.held.is_none() && self.logged.is_none();
        let mut sent = 0;
        if self.unsent.is_empty() && is_free && work.attached.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &work.replies) {
                Poll::Ready(Ok(n)) => {
                    self.count_sent(n);
                    sent = n;
                }
                Poll::Ready(Err(error)) => {
                    work.give_back_replies();
                    return Err(error);
                }
                Poll::Pending => {}
            }
        }
        if sent < work.replies.len() {
            let is_large = work.replies.len() > REPLY_KEPT_MAX;
            if is_large && self.unsent.is_empty() && work.attached.is_empty() {
                // Large enough to be worth a move instead of a copy.
                self.unsent.take(std::mem::take(&mut work.replies), sent);
            } else {
                self.unsent.extend(&work.replies, sent, &mut work.attached);
            }
            self.publish_lengths();
        }
        work.give_back_replies();
        let hard_max = work.executor.config().output_hard_max;
        if hard_max > 0 && self.unsent.len() > hard_max {
            return Err(self.over_output_limit());
        }
        Ok(())
    }

    fn check_input_limit(&self, max: usize) -> io::Result<()> {
        if self.input.len() > max {
            return Err(self.over_input_limit());
        }
        Ok(())
    }

    fn over_input_limit(&self) -> io::Error {
        self.counters().input_limit_closed.add(1);
        self.over_limit("a request is larger than client-query-buffer-limit")
    }

    fn over_output_limit(&self) -> io::Error {
        self.counters().output_limit_closed.add(1);
        self.over_limit(
            "unsent replies exceed output-buffer-hard-limit or subscriber-output-buffer-limit",
        )
    }

    fn over_limit(&self, limit: &'static str) -> io::Error {
        let shared = &self.conversation.client.shared;
        tracing::warn!(client = shared.id, peer = %shared.peer, "{limit}; connection closed");
        io::Error::other(limit)
    }

    fn publish_lengths(&self) {
        let shared = &self.conversation.client.shared;
        // ORDERING: Relaxed, shown to people.
        shared.input_len.store(self.input.len(), Ordering::Relaxed);
        shared.input_free.store(self.input.free(), Ordering::Relaxed);
        shared.unsent_len.store(self.unsent.len(), Ordering::Relaxed);
        let own = self.unsent.own_memory();
        shared.output_memory.store(own + self.unsent.shared_memory(), Ordering::Relaxed);
        shared.buffers_outside_store.store(self.input.own_memory() + own, Ordering::Relaxed);
    }
}
