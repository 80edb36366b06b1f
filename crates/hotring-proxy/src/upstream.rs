//! A connection to a node that all clients of one user on one thread share. Their requests go out in the order in which
//! they come, in as few writes as possible, and the replies come back in that order.
//!
//! 1. A request that the kernel has not taken whole has not been executed, and may be sent again or elsewhere.
//! 2. A request that may write, and was sent whole, must never be sent again without a reply that says that the node
//!    has not executed it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hotring_cluster::Slot;
use tokio::io::AsyncWrite;
use tokio::time::Sleep;

use crate::link::{DialError, Link};
use crate::mirror::{Keeps, Mirror, Read};
use crate::reply::Form;
use crate::request::{Aside, Request};
use crate::settle::{give_up, settle, undo};
use crate::thread::Thread;
use crate::upstreams::Upstreams;

/// Pause before a node is dialled again.
const PAUSE: Duration = Duration::from_millis(50);

/// Bytes of unanswered requests above which clients must wait before they add more.
const ROOM: usize = 4 << 20;

/// Answered bytes that are dropped at once.
const DROPPED_MIN: usize = 64 << 10;

/// Entries of the table of reads that others may join.
const JOINABLE: usize = 64;

/// Why a connection ends whose clients have left.
const NOT_NEEDED: &str = "no client needs it";

/// A connection to a node.
pub(crate) struct Upstream {
    /// The number of the node on this thread.
    pub node: usize,
    inner: RefCell<Inner>,
}

struct Inner {
    requests: VecDeque<Queued>,
    /// The number of the request at the front.
    first: u64,
    /// The bytes of the requests. `bytes[0]` is byte `begin` of all that were ever queued.
    bytes: Vec<u8>,
    begin: u64,
    /// Bytes that the kernel has taken.
    sent: u64,
    /// For some reads, by their slots, the number of the request.
    joinable: [u64; JOINABLE],
    /// The mirrors of the node's hot keys.
    mirror: Mirror,
    /// The task that serves the connection.
    task: Option<Waker>,
    /// Clients that wait for room.
    waiting: Vec<Waker>,
    /// When the first request that is not sent was queued.
    queued_at: Option<Instant>,
    /// When the node last answered, or got a request while it had none.
    heard_at: Instant,
    /// The number of the connection.
    connection: u64,
    /// There is a connection.
    is_connected: bool,
    /// The connection must end.
    is_broken: bool,
    /// No client will use it again.
    is_closed: bool,
}

struct Queued {
    request: Request,
    /// Where its bytes end.
    end: u64,
    len: usize,
}

impl Upstream {
    pub(crate) fn new(node: usize) -> Rc<Self> {
        let inner = Inner {
            requests: VecDeque::new(),
            first: 1,
            bytes: Vec::new(),
            begin: 0,
            sent: 0,
            joinable: [0; JOINABLE],
            mirror: Mirror::default(),
            task: None,
            waiting: Vec::new(),
            queued_at: None,
            heard_at: Instant::now(),
            connection: 0,
            is_connected: false,
            is_broken: false,
            is_closed: false,
        };
        Rc::new(Upstream { node, inner: RefCell::new(inner) })
    }

    /// Whether clients may add requests. If not, wakes the task once they may.
    pub(crate) fn has_room(&self, cx: Option<&Context<'_>>) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let has_room = inner.unanswered() < ROOM;
        if let Some(cx) = cx.filter(|_| !has_room) {
            inner.waiting.retain(|waker| !waker.will_wake(cx.waker()));
            inner.waiting.push(cx.waker().clone());
        }
        has_room
    }

    /// Adds a request.
    pub(crate) fn queue(&self, bytes: &[u8], request: Request, now: Instant) {
        self.inner.borrow_mut().queue(bytes, request, now);
    }

    /// Answers a read of a key from a mirror, or makes the request fit to have its reply kept.
    pub(crate) fn read_mirror(
        &self,
        key: &[u8],
        bytes: &[u8],
        now: Instant,
        answer: impl FnOnce(&[u8]),
    ) -> Option<Option<Box<Keeps>>> {
        let inner = &mut *self.inner.borrow_mut();
        let mut keeps = None;
        let is_answered = match inner.mirror.read(inner.connection, key, bytes) {
            Read::Answered(reply) => {
                answer(reply);
                true
            }
            Read::Sent(may_keep) => {
                keeps = may_keep.map(Box::new);
                false
            }
        };
        if let Some((number, question)) = inner.mirror.ask(key, now) {
            inner.queue(&question, Request::aside(Aside::Ask(number), now), now);
        }
        (!is_answered).then_some(keeps)
    }

    /// Adds a read that others may join until it is sent.
    pub(crate) fn queue_joinable(&self, slot: Slot, bytes: &[u8], request: Request, now: Instant) {
        self.queue(bytes, request, now);
        let inner = &mut *self.inner.borrow_mut();
        let number = inner.first + inner.requests.len() as u64 - 1;
        inner.joinable[usize::from(slot) % JOINABLE] = number;
    }

    /// Joins a read of the same bytes that is not sent yet. Gives the request back if there is none.
    pub(crate) fn join(
        &self,
        slot: Slot,
        bytes: &[u8],
        joins: Request,
    ) -> Result<(), Box<Request>> {
        let inner = &mut *self.inner.borrow_mut();
        let number = inner.joinable[usize::from(slot) % JOINABLE];
        let found =
            number.checked_sub(inner.first).and_then(|at| inner.requests.get_mut(at as usize));
        let Some(Queued { request, end, len }) = found else { return Err(Box::new(joins)) };
        let start = *end - *len as u64;
        let at = (start - inner.begin) as usize;
        // The same bytes may have stood for different requests.
        let is_same = request.translation == joins.translation;
        if !is_same
            || start < inner.sent
            || *len != bytes.len()
            || inner.bytes[at..at + *len] != *bytes
        {
            return Err(Box::new(joins));
        }
        request.merged.push(joins.ticket);
        Ok(())
    }

    /// The number of the request that comes next.
    pub(crate) fn next_number(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.first + inner.requests.len() as u64
    }

    /// Whether all requests before this one are over.
    pub(crate) fn has_passed(&self, number: u64) -> bool {
        self.inner.borrow().first >= number
    }

    /// The number of the connection.
    pub(crate) fn connection(&self) -> u64 {
        self.inner.borrow().connection
    }

    /// Whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.inner.borrow().is_connected
    }

    /// Whether there is a connection on which the node has said nothing since then.
    pub(crate) fn is_silent(&self, since: Instant) -> bool {
        let inner = self.inner.borrow();
        inner.is_connected && inner.heard_at < since
    }

    /// Ends the connection if the node owes replies and has been silent since then.
    pub(crate) fn break_if_silent(&self, since: Instant) {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.requests.is_empty() && inner.heard_at < since {
            inner.is_broken = true;
            inner.wake();
        }
    }

    /// Ends the task once it has no requests.
    pub(crate) fn close(&self) {
        let inner = &mut *self.inner.borrow_mut();
        inner.is_closed = true;
        inner.wake();
    }

    /// Serves the connection until it is closed. Dials when there are requests.
    pub(crate) async fn serve(self: Rc<Self>, thread: Rc<Thread>, upstreams: Weak<Upstreams>) {
        loop {
            poll_fn(|cx| self.poll_work(cx)).await;
            // Held for a moment only: those without clients must end.
            let used = upstreams.upgrade().filter(|_| self.has_work());
            let used = used.map(|it| (it.login.clone(), it.tracking.clone()));
            let Some((login, tracking)) = used else { return };
            let address = thread.address(self.node);
            let dialling = async {
                let mut link = Link::dial(&thread.shared, &address, &login).await?;
                if let Some(tracking) = &tracking {
                    tracking.begin(&mut link).await?;
                }
                Ok(link)
            };
            let dialled = tokio::select! {
                dialled = dialling => dialled,
                () = poll_fn(|cx| self.poll_broken(cx)) => {
                    Err(DialError::Unreachable("it is no primary any more".to_string()))
                }
                () = self.be_left(&thread) => Err(DialError::Unreachable(NOT_NEEDED.to_string())),
            };
            match dialled {
                Ok(link) => {
                    thread.shared.counters.dialled.add(1);
                    self.inner.borrow_mut().is_connected = true;
                    let why = tokio::select! {
                        why = self.talk(link, &thread, &upstreams) => why,
                        () = self.be_left(&thread) => io::Error::other(NOT_NEEDED),
                    };
                    // What a client sends can end a connection, so that only silence speaks against a server. One that
                    // is gone fails when it is dialled.
                    if self.inner.borrow().is_broken {
                        thread.note_failure(self.node, "it owes a reply and is silent");
                    }
                    tracing::debug!(node = %address, "connection lost: {why}");
                    self.end(&thread, &upstreams, None);
                    // Behind the replies: no node tells of what was read here.
                    tracking.inspect(|tracking| tracking.drop_all());
                }
                Err(why) => {
                    thread.shared.counters.unreachable.add(1);
                    // What a server refuses may be the client's fault. Probes show whether it lets the proxy in.
                    if let DialError::Unreachable(why) = &why {
                        thread.note_failure(self.node, why);
                    }
                    tracing::debug!(node = %address, "cannot connect: {why}");
                    thread.shared.look_again();
                    let error = match why {
                        DialError::Refused(error) => Some(error),
                        DialError::Unreachable(_) => None,
                    };
                    self.end(&thread, &upstreams, error.as_deref());
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.inner.borrow().requests.is_empty()
    }

    fn poll_work(&self, cx: &Context<'_>) -> Poll<()> {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.requests.is_empty() || inner.is_closed {
            return Poll::Ready(());
        }
        inner.task = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until the connection must end.
    fn poll_broken(&self, cx: &Context<'_>) -> Poll<()> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.must_end() {
            return Poll::Ready(());
        }
        inner.task = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Waits until no client has been there for so long that the node does not answer any more.
    async fn be_left(&self, thread: &Thread) {
        poll_fn(|cx| {
            let inner = &mut *self.inner.borrow_mut();
            if inner.is_closed {
                return Poll::Ready(());
            }
            inner.task = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        tokio::time::sleep(thread.shared.settings.node_timeout).await;
    }

    /// Exchanges requests and replies until the connection ends, and says why.
    async fn talk(
        &self,
        mut link: Link,
        thread: &Rc<Thread>,
        upstreams: &Weak<Upstreams>,
    ) -> io::Error {
        let mut pause: Option<Pin<Box<Sleep>>> = None;
        let talking = poll_fn(|cx| {
            loop {
                if self.inner.borrow().must_end() {
                    return Poll::Ready(io::Error::other(
                        "the node is silent, or no client needs it",
                    ));
                }
                if let Err(error) = self.poll_send(&mut link, &mut pause, thread, cx) {
                    return Poll::Ready(error);
                }
                match link.input.poll_read(&mut link.stream, 0, cx) {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(io::Error::other("the node has closed it"));
                    }
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(error),
                    Poll::Pending => break,
                }
                if let Err(error) = self.take_replies(&mut link, thread, upstreams) {
                    return Poll::Ready(error);
                }
            }
            self.inner.borrow_mut().task = Some(cx.waker().clone());
            Poll::Pending
        });
        talking.await
    }

    /// Sends what is queued, after a pause if the settings want that requests be merged meanwhile.
    fn poll_send(
        &self,
        link: &mut Link,
        pause: &mut Option<Pin<Box<Sleep>>>,
        thread: &Thread,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        let window = thread.shared.settings.merge_window;
        if !window.is_zero()
            && let Some(queued_at) = inner.queued_at
        {
            let until = (queued_at + window).into();
            let sleep = pause.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
        }
        loop {
            let unsent = &inner.bytes[(inner.sent - inner.begin) as usize..];
            if unsent.is_empty() {
                inner.queued_at = None;
                break;
            }
            match Pin::new(&mut link.stream).poll_write(cx, unsent) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                // Noted at once: what the kernel has taken may be executed, whatever happens next.
                Poll::Ready(Ok(n)) => inner.sent += n as u64,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(Err(error)) = Pin::new(&mut link.stream).poll_flush(cx) {
            return Err(error);
        }
        Ok(())
    }

    /// Passes on the replies that have arrived.
    fn take_replies(
        &self,
        link: &mut Link,
        thread: &Rc<Thread>,
        upstreams: &Weak<Upstreams>,
    ) -> io::Result<()> {
        let upstreams = &upstreams.upgrade().ok_or_else(|| io::Error::other(NOT_NEEDED))?;
        let (now, server) = (Instant::now(), thread.server(self.node));
        while let Some(len) = link.find_end(self.form())? {
            let reply = &link.input.bytes()[..len];
            // A push message answers no request.
            if reply[0] == b'>' {
                let answer = self.inner.borrow_mut().mirror.pushed(reply);
                match (answer, &upstreams.tracking) {
                    (Some(answer), _) => {
                        self.queue(&answer, Request::aside(Aside::Dropped, now), now);
                    }
                    (None, Some(tracking)) => tracking.pass_on(reply),
                    (None, None) => {}
                }
            } else {
                let (request, bytes) = self.answered(reply, now)?;
                if let Some(request) = request.and_then(|request| self.keep(request, reply)) {
                    if let Some(server) = &server {
                        server.health.answered(request.form.is_error(reply));
                    }
                    settle(thread, upstreams, self.node, request, bytes, reply, now);
                }
            }
            link.input.consume(len);
        }
        Ok(())
    }

    /// Takes what concerns mirrors from a reply. Gives the request back if it is a client's.
    fn keep(&self, mut request: Request, reply: &[u8]) -> Option<Request> {
        let inner = &mut *self.inner.borrow_mut();
        match request.aside {
            Some(Aside::Ask(number)) => inner.mirror.answered(number, reply),
            Some(Aside::Dropped) => {}
            None => {
                let keeps = request.keeps.take();
                let is_fit = |keeps: &Keeps| keeps.connection == inner.connection;
                if let Some(keeps) = keeps.filter(|keeps| is_fit(keeps) && reply[0] != b'-') {
                    inner.mirror.keep(*keeps, reply);
                }
                return Some(request);
            }
        }
        None
    }

    /// The form of the next reply.
    fn form(&self) -> Form {
        self.inner.borrow().requests.front().map_or(Form::Resp, |front| front.request.form)
    }

    /// The request that this reply ends, with its bytes if they are needed again: only an error may send it elsewhere.
    fn answered(&self, reply: &[u8], now: Instant) -> io::Result<(Option<Request>, Vec<u8>)> {
        let inner = &mut *self.inner.borrow_mut();
        inner.heard_at = now;
        let unasked = || io::Error::other("the node sends replies without requests");
        let front = inner.requests.front_mut().ok_or_else(unasked)?;
        let request = &mut front.request;
        // The first of several commands may be answered before the last one is sent.
        let sent_at_least =
            if request.missing == 1 { front.end } else { front.end - front.len as u64 + 1 };
        if inner.sent < sent_at_least {
            return Err(unasked());
        }
        if !request.count(reply) {
            return Ok((None, Vec::new()));
        }
        let is_error = request.form.is_error(reply);
        if request.writes && !is_error {
            request.ticket.replies.note_write(self.node, inner.connection);
        }
        let needs_bytes = is_error || request.error.is_some();
        let (request, bytes) = inner.pop(needs_bytes).expect("there is a front");
        Ok((Some(request), bytes))
    }

    /// Takes all requests back after the connection has ended. With an error of the node they all get that.
    fn end(&self, thread: &Rc<Thread>, upstreams: &Weak<Upstreams>, error: Option<&[u8]>) {
        let upstreams = upstreams.upgrade();
        let now = Instant::now();
        // A request does not make a node silent.
        let mut may_break = !self.inner.borrow().is_broken;
        loop {
            let (request, bytes, was_sent) = {
                let inner = &mut *self.inner.borrow_mut();
                let Some(front) = inner.requests.front() else { break };
                let was_sent = front.may_have_effect(inner.sent);
                let is_begun = front.end - (front.len as u64) < inner.sent;
                let (mut request, bytes) = inner.pop(true).expect("there is a front");
                // What breaks connections must not do so again and again.
                request.losses += u32::from(may_break && is_begun);
                may_break = false;
                (request, bytes, was_sent)
            };
            if request.aside.is_some() {
                continue;
            }
            match (error, &upstreams) {
                (Some(error), _) => {
                    let error = String::from_utf8_lossy(error);
                    request.refuse(error.trim_start_matches('-').trim_end());
                }
                (None, Some(upstreams)) => undo(thread, upstreams, request, bytes, was_sent, now),
                (None, None) => give_up(request),
            }
        }
        let inner = &mut *self.inner.borrow_mut();
        inner.begin += inner.bytes.len() as u64;
        inner.bytes.clear();
        (inner.sent, inner.queued_at) = (inner.begin, None);
        (inner.is_broken, inner.is_connected) = (false, false);
        inner.connection += 1;
        inner.mirror = Mirror::default();
        inner.wake_waiting();
    }
}

impl Queued {
    /// Whether the node may have executed it, once this much is sent.
    fn may_have_effect(&self, sent: u64) -> bool {
        match self.request.n_replies {
            // A transaction whose MULTI was refused is executed command by command.
            2.. => self.end - (self.len as u64) < sent,
            _ => self.end - self.request.form.tail() as u64 <= sent,
        }
    }
}

impl Inner {
    /// Adds a request.
    fn queue(&mut self, bytes: &[u8], request: Request, now: Instant) {
        if request.writes {
            self.mirror.written(request.target);
        }
        if self.requests.is_empty() {
            self.heard_at = now;
        }
        self.queued_at.get_or_insert(now);
        self.bytes.extend_from_slice(bytes);
        let end = self.begin + self.bytes.len() as u64;
        self.requests.push_back(Queued { request, end, len: bytes.len() });
        self.wake();
    }

    fn unanswered(&self) -> usize {
        let first = self.requests.front().map(|front| front.end - front.len as u64);
        first.map_or(0, |first| (self.begin + self.bytes.len() as u64 - first) as usize)
    }

    fn must_end(&self) -> bool {
        self.is_broken || self.is_closed && self.requests.is_empty()
    }

    /// Removes the request at the front. Its bytes are copied if they are needed.
    fn pop(&mut self, needs_bytes: bool) -> Option<(Request, Vec<u8>)> {
        let Queued { request, end, len } = self.requests.pop_front()?;
        self.first += 1;
        let end = (end - self.begin) as usize;
        let bytes = if needs_bytes { self.bytes[end - len..end].to_vec() } else { Vec::new() };
        let sent = (self.sent - self.begin) as usize;
        if end == self.bytes.len() && sent == end {
            self.begin += end as u64;
            self.bytes.clear();
            self.bytes.shrink_to(DROPPED_MIN);
        } else if end >= DROPPED_MIN && end * 2 >= self.bytes.len() && sent >= end {
            self.begin += end as u64;
            self.bytes.drain(..end);
        }
        if !self.waiting.is_empty() && self.unanswered() < ROOM / 2 {
            self.wake_waiting();
        }
        Some((request, bytes))
    }

    fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }
}
