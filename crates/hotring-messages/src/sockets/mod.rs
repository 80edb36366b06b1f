//! The endpoint that every machine has: TCP and Unix sockets. A message is its length, u32, and its bytes.
//!
//! It copies messages between the slab and the sockets' buffers. Nothing is read while no RECV is posted, so that a
//! peer that sends too much waits in its own socket. Answers may be datagrams of UDP, if both ends want that.

mod connection;
mod datagrams;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use socket2::{SockRef, TcpKeepalive};

use connection::{Connection, Stream, connect, connect_unix};
use datagrams::{Inbox, Outbox};

use crate::endpoint::{Completion, Endpoint, Limits, Peer, Slab, Slot};

/// What an address of a Unix socket begins with; its path follows.
pub const UNIX: &str = "unix:";

/// How long no connection is accepted after that has failed: without a free file it would fail all the time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that one read takes at most.
const READ_LEN: usize = 64 << 10;

/// An endpoint over sockets. Addresses are `HOST:PORT` or `unix:PATH`.
#[derive(Debug)]
pub struct Sockets {
    slab: Slab,
    listener: Option<Listener>,
    connections_max: usize,
    /// The time without a sign of life after which a peer is asked for one.
    keepalive: Option<Duration>,
    /// How long a peer may take nothing of what waits for it.
    unread_max: Duration,
    accept_again: Option<Instant>,
    connections: BTreeMap<Peer, Connection>,
    outbox: Outbox,
    next_peer: u64,
    /// The peer that is served first.
    turn: Peer,
    posted: VecDeque<Slot>,
    completed: Vec<Completion>,
    read: Box<[u8]>,
    alarm: Arc<Alarm>,
}

/// What ends waits: its file can be read once the thread was woken.
#[derive(Debug)]
struct Alarm(OwnedFd);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        // Fails only if it is set already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

/// Where others connect to.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

impl Sockets {
    /// A client's end, with `slots` slots of `slot_len` bytes, which is the longest message.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn new(slots: u32, slot_len: usize) -> io::Result<Sockets> {
        let alarm = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Sockets {
            slab: Slab::new(slots, slot_len),
            listener: None,
            connections_max: usize::MAX,
            keepalive: None,
            unread_max: Duration::MAX,
            accept_again: None,
            connections: BTreeMap::new(),
            outbox: Outbox::new(0),
            next_peer: 0,
            turn: Peer(0),
            posted: VecDeque::new(),
            completed: Vec::new(),
            read: vec![0; READ_LEN].into(),
            alarm: Arc::new(Alarm(alarm)),
        })
    }

    /// A server's end, which others connect to: at most `connections_max` at a time, more are closed at once.
    pub fn listen(
        address: &str,
        connections_max: usize,
        slots: u32,
        slot_len: usize,
    ) -> io::Result<Sockets> {
        Sockets::on(Listener::bind(address)?, connections_max, slots, slot_len)
    }

    /// As [`listen`](Self::listen), with a listener that exists.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn on(
        listener: Listener,
        connections_max: usize,
        slots: u32,
        slot_len: usize,
    ) -> io::Result<Sockets> {
        match &listener {
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
            Listener::Unix(listener) => listener.set_nonblocking(true)?,
        }
        let listener = Some(listener);
        Ok(Sockets { listener, connections_max, ..Sockets::new(slots, slot_len)? })
    }

    /// Has the system ask peers that are silent for this long whether they are still there: three times in as long
    /// again. A peer that does not answer has left.
    pub fn set_keepalive(&mut self, silence: Option<Duration>) {
        self.keepalive = silence;
    }

    /// Lets answers be datagrams of at most this many bytes; 0 for none.
    pub fn set_datagram_max(&mut self, len_max: usize) {
        self.outbox = Outbox::new(len_max);
    }

    fn add(&mut self, stream: Stream, origin: String) -> io::Result<Peer> {
        match &stream {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                if let Some(silence) = self.keepalive {
                    let interval = (silence / 3).max(Duration::from_secs(1));
                    let keepalive = TcpKeepalive::new().with_time(silence);
                    let keepalive = keepalive.with_interval(interval).with_retries(3);
                    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
                    // A client waits for nothing else than its server.
                    if self.listener.is_none() {
                        SockRef::from(stream).set_tcp_user_timeout(Some(silence * 2))?;
                    }
                }
            }
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
        }
        let connection = Connection::new(stream, origin);
        let peer = Peer(self.next_peer);
        self.next_peer += 1;
        self.connections.insert(peer, connection);
        Ok(peer)
    }

    fn accept(&mut self) {
        loop {
            let accepted = match &self.listener {
                None => return,
                Some(Listener::Tcp(listener)) => {
                    listener.accept().map(|(new, from)| (Stream::Tcp(new), from.to_string()))
                }
                Some(Listener::Unix(listener)) => {
                    let own = String::from_utf8_lossy(&self.address()).into_owned();
                    listener.accept().map(|(new, _)| (Stream::Unix(new), own))
                }
            };
            match accepted {
                // A socket that cannot be set up is closed, as the peer will see.
                Ok((stream, origin)) if self.connections.len() < self.connections_max => {
                    if let Ok(peer) = self.add(stream, origin) {
                        self.completed.push(Completion::Came(peer));
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// Whether a message of this connection would be taken now.
    fn may_receive(&self, connection: &Connection) -> bool {
        // A client must always read: the server may wait for that.
        let must_wait = self.listener.is_some() && connection.is_congested();
        !must_wait && !self.posted.is_empty()
    }

    /// Whether something can be completed without waiting.
    fn has_something(&self) -> bool {
        let mut all = self.connections.values();
        let is_ready = all.any(|connection| match connection.has_message() {
            true => self.may_receive(connection),
            false => connection.is_over,
        });
        is_ready || !self.completed.is_empty()
    }

    /// Waits until a socket or another file is ready, and says which sockets are.
    fn look(&self, limit: Duration, other: Option<BorrowedFd<'_>>) -> Ready {
        let pause = self.accept_again.map(|at| at.saturating_duration_since(Instant::now()));
        let pause = pause.filter(|pause| !pause.is_zero());
        let limit = pause.map_or(limit, |pause| limit.min(pause));
        let listener = self.listener.as_ref().filter(|_| pause.is_none());
        let alarm = PollFd::from_borrowed_fd(self.alarm.0.as_fd(), PollFlags::IN);
        let accepts =
            listener.map(|listener| PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN));
        let open = self.connections.iter().filter(|(_, connection)| !connection.is_over);
        let moves = open.filter_map(|(&peer, connection)| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, self.may_receive(connection));
            flags.set(PollFlags::OUT, connection.has_output());
            // Without flags the end of a connection, which cannot be read now, would end every wait.
            let fd = connection.stream.fd();
            (!flags.is_empty()).then(|| (peer, PollFd::from_borrowed_fd(fd, flags)))
        });
        let (peers, moves): (Vec<Peer>, Vec<PollFd<'_>>) = moves.unzip();
        let inboxes = self.connections.values().filter_map(|connection| connection.inbox.as_ref());
        let inboxes = inboxes.filter(|_| !self.posted.is_empty());
        let inboxes = inboxes.map(|inbox| PollFd::from_borrowed_fd(inbox.fd(), PollFlags::IN));
        let inboxes: Vec<PollFd<'_>> = inboxes.collect();
        let n_inboxes = inboxes.len();
        let n_fixed = 1 + usize::from(accepts.is_some());
        let other = other.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
        let all = [alarm].into_iter().chain(accepts).chain(inboxes).chain(moves).chain(other);
        let mut fds: Vec<PollFd<'_>> = all.collect();
        // Milliseconds would round a short wait to none.
        let limit = Timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // A signal or a failure ends the wait early, which a waiter must expect anyway.
        let n_ready = poll(&mut fds, Some(&limit)).unwrap_or(0);
        let is_ready = |fd: &PollFd<'_>| fd.revents().intersects(!PollFlags::OUT);
        let (fixed, moves) = fds.split_at(n_fixed);
        let (inboxes, moves) = moves.split_at(n_inboxes);
        let readable = peers.into_iter().zip(moves).filter(|(_, fd)| is_ready(fd));
        Ready {
            is_any: n_ready > 0,
            alarm: is_ready(&fixed[0]),
            listener: fixed.get(1).is_some_and(is_ready),
            datagrams: inboxes.iter().any(is_ready),
            peers: readable.map(|(peer, _)| peer).collect(),
        }
    }
}

/// What can be read without waiting.
struct Ready {
    /// Something can be read or written.
    is_any: bool,
    alarm: bool,
    listener: bool,
    datagrams: bool,
    /// In order.
    peers: Vec<Peer>,
}

impl Endpoint for Sockets {
    fn address(&self) -> Vec<u8> {
        match &self.listener {
            None => Vec::new(),
            Some(Listener::Tcp(listener)) => {
                listener.local_addr().map_or(Vec::new(), |address| address.to_string().into())
            }
            Some(Listener::Unix(listener)) => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                path.map_or(Vec::new(), |path| format!("{UNIX}{}", path.display()).into())
            }
        }
    }

    fn peer(&mut self, address: &[u8], limit: Duration) -> io::Result<Peer> {
        let address = std::str::from_utf8(address).map_err(|_| ErrorKind::InvalidInput)?;
        let stream = match address.strip_prefix(UNIX) {
            Some(path) => Stream::Unix(connect_unix(path, limit)?),
            None => Stream::Tcp(connect(address, limit)?),
        };
        self.add(stream, address.into())
    }

    fn origin(&self, peer: Peer) -> String {
        self.connections.get(&peer).map_or(String::new(), |connection| connection.origin.clone())
    }

    fn limits(&self) -> Limits {
        Limits { message_len_max: self.slab.slot_len(), reliable: true }
    }

    fn slab(&mut self) -> &mut Slab {
        &mut self.slab
    }

    fn post(&mut self, slot: Slot) {
        self.posted.push_back(slot);
    }

    fn send(&mut self, peer: Peer, slot: Slot, len: usize) -> Result<(), Slot> {
        if let Some(connection) = self.connections.get_mut(&peer) {
            if connection.is_congested() {
                return Err(slot);
            }
            connection.output.extend_from_slice(&(len as u32).to_le_bytes());
            connection.output.extend_from_slice(&self.slab.bytes(&slot)[..len]);
            connection.flush();
        }
        self.completed.push(Completion::Sent(slot));
        Ok(())
    }

    fn datagrams_at(&mut self, peer: Peer) -> Vec<u8> {
        let Some(connection) = self.connections.get_mut(&peer) else { return Vec::new() };
        let Stream::Tcp(stream) = &connection.stream else { return Vec::new() };
        // Without a socket answers come over the connection.
        connection.inbox = Inbox::open(stream).ok();
        let address = connection.inbox.as_ref().and_then(|inbox| inbox.address(stream).ok());
        address.unwrap_or_default()
    }

    fn set_datagrams_to(&mut self, peer: Peer, address: &[u8]) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let Stream::Tcp(stream) = &connection.stream else { return };
        connection.way = self.outbox.way(stream, address);
    }

    fn send_datagram(&mut self, peer: Peer, slot: Slot, len: usize) -> Result<(), Slot> {
        let way = self.connections.get(&peer).and_then(|connection| connection.way.as_ref());
        let Some(way) = way else { return Err(slot) };
        if !self.outbox.send(way, &self.slab.bytes(&slot)[..len]) {
            return Err(slot);
        }
        self.completed.push(Completion::Sent(slot));
        Ok(())
    }

    fn has_sent_all(&self) -> bool {
        self.connections.values().all(|connection| connection.is_over || !connection.has_output())
    }

    fn takes_nothing(&self, peer: Peer, time: Duration) -> bool {
        let since = self.connections.get(&peer).and_then(|connection| connection.unread_since);
        since.is_some_and(|since| since.elapsed() >= time)
    }

    fn set_unread_max(&mut self, unread_max: Duration) {
        self.unread_max = unread_max;
    }

    fn leave(&mut self, peer: Peer) {
        self.connections.remove(&peer);
    }

    fn poll(&mut self, out: &mut Vec<Completion>) {
        // One look at all sockets, as a read of each would cost a system call each.
        let ready = self.look(Duration::ZERO, None);
        if ready.alarm {
            // Before the caller looks at what the wake-up tells of. Fails only if it was read before.
            let _ = rustix::io::read(&self.alarm.0, &mut [0; 8]);
        }
        if ready.listener {
            self.accept();
        }
        if ready.datagrams {
            self.receive_datagrams();
        }
        // Whoever comes after the last one that got a slot begins: a busy peer must not keep the others waiting.
        let mut peers: Vec<Peer> = self.connections.keys().copied().collect();
        peers.rotate_left(self.connections.range(..self.turn).count());
        for peer in peers {
            self.serve(peer, ready.peers.binary_search(&peer).is_ok());
        }
        let is_done = |connection: &Connection| connection.is_over && !connection.has_message();
        let over = self.connections.extract_if(.., |_, connection| is_done(connection));
        self.completed.extend(over.map(|(peer, _)| Completion::Left(peer)));
        out.append(&mut self.completed);
    }

    fn wait(&mut self, spin: Duration, limit: Duration) {
        let begun = Instant::now();
        while !self.has_something() {
            let elapsed = begun.elapsed();
            if elapsed >= spin {
                self.look(limit.saturating_sub(elapsed), None);
                return;
            }
            if self.look(Duration::ZERO, None).is_any {
                return;
            }
        }
    }

    fn waker(&self) -> Waker {
        self.alarm.clone().into()
    }
}

impl Sockets {
    /// Sleeps until `poll` may have something, or a file that others read is ready.
    pub(crate) fn wait_for(&self, file: BorrowedFd<'_>, limit: Duration) {
        if !self.has_something() {
            self.look(limit, Some(file));
        }
    }

    fn receive_datagrams(&mut self) {
        for (&peer, connection) in &self.connections {
            let Some(inbox) = &connection.inbox else { continue };
            while let Some(slot) = self.posted.pop_front() {
                let message = inbox.receive(&mut self.read);
                let Some(message) = message.filter(|it| it.len() <= self.slab.slot_len()) else {
                    self.posted.push_front(slot);
                    break;
                };
                self.slab.bytes_mut(&slot)[..message.len()].copy_from_slice(message);
                let len = message.len();
                self.completed.push(Completion::Received { from: Some(peer), slot, len });
            }
        }
    }

    /// Sends and receives what it can with one peer, which gets at most half of the posted slots.
    fn serve(&mut self, peer: Peer, is_readable: bool) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        connection.flush();
        if connection.unread_since.is_some_and(|since| since.elapsed() >= self.unread_max) {
            connection.end();
        }
        // A client must always read: the server may wait for that.
        let is_congested = self.listener.is_some() && connection.is_congested();
        let mut share = if is_congested { 0 } else { self.posted.len().div_ceil(2) };
        let mut may_read = is_readable && share > 0;
        loop {
            while let Some(len) = connection.frame_len().filter(|_| connection.has_message()) {
                if len > self.slab.slot_len() || share == 0 {
                    break;
                }
                let Some(slot) = self.posted.pop_front() else { break };
                share -= 1;
                self.turn = Peer(peer.0 + 1);
                let bytes = &connection.waiting()[4..4 + len];
                self.slab.bytes_mut(&slot)[..len].copy_from_slice(bytes);
                // Cut off once, at the end.
                connection.taken += 4 + len;
                self.completed.push(Completion::Received { from: Some(peer), slot, len });
            }
            if connection.frame_len().is_some_and(|len| len > self.slab.slot_len()) {
                connection.end();
            }
            // No more is read than what has a place: what a peer sends beyond waits in its socket.
            if !std::mem::take(&mut may_read) || connection.is_over || connection.has_message() {
                break;
            }
            connection.read(&mut self.read);
        }
        connection.input.drain(..connection.taken);
        connection.taken = 0;
    }
}

impl Listener {
    /// Listens on `HOST:PORT` or `unix:PATH`.
    ///
    /// # Errors
    /// The address is not free, or not of this machine.
    pub fn bind(address: &str) -> io::Result<Listener> {
        match address.strip_prefix(UNIX) {
            Some(path) => UnixListener::bind(path).map(Listener::Unix),
            None => TcpListener::bind(address).map(Listener::Tcp),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}
