//! The endpoint that every machine has: TCP and Unix sockets. A message is its length, u32, and its bytes.
//!
//! It copies messages between the slab and the sockets' buffers. Nothing is read while no RECV is posted, so that a
//! peer that sends too much waits in its own socket.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::endpoint::{Completion, Endpoint, Limits, Peer, Slab, Slot};

/// What an address of a Unix socket begins with; its path follows.
pub const UNIX: &str = "unix:";

/// Bytes that wait for a peer from which on no more are taken.
const OUTPUT_MAX: usize = 256 << 10;

/// Bytes that one read takes at most.
const READ_LEN: usize = 64 << 10;

/// An endpoint over sockets. Addresses are `HOST:PORT` or `unix:PATH`.
#[derive(Debug)]
pub struct Sockets {
    slab: Slab,
    listener: Option<Listener>,
    connections_max: usize,
    connections: BTreeMap<Peer, Connection>,
    next_peer: u64,
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

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
struct Connection {
    stream: Stream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the output that were written.
    written: usize,
    is_over: bool,
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
            connections: BTreeMap::new(),
            next_peer: 0,
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
        let listener = match address.strip_prefix(UNIX) {
            Some(path) => Listener::Unix(UnixListener::bind(path)?),
            None => Listener::Tcp(TcpListener::bind(address)?),
        };
        Sockets::on(listener, connections_max, slots, slot_len)
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

    fn add(&mut self, stream: Stream) -> io::Result<Peer> {
        match &stream {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
            }
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
        }
        let (input, output) = (Vec::new(), Vec::new());
        let connection = Connection { stream, input, output, written: 0, is_over: false };
        let peer = Peer(self.next_peer);
        self.next_peer += 1;
        self.connections.insert(peer, connection);
        Ok(peer)
    }

    fn accept(&mut self) {
        loop {
            let stream = match &self.listener {
                None => return,
                Some(Listener::Tcp(listener)) => listener.accept().map(|(new, _)| Stream::Tcp(new)),
                Some(Listener::Unix(listener)) => {
                    listener.accept().map(|(new, _)| Stream::Unix(new))
                }
            };
            match stream {
                // A socket that cannot be set up is closed, as the peer will see.
                Ok(stream) if self.connections.len() < self.connections_max => {
                    if let Ok(peer) = self.add(stream) {
                        self.completed.push(Completion::Came(peer));
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Whether something can be completed without waiting.
    fn has_something(&self) -> bool {
        let may_receive = !self.posted.is_empty();
        let mut all = self.connections.values();
        let is_ready = all.any(|connection| match connection.has_message() {
            true => may_receive,
            false => connection.is_over,
        });
        is_ready || !self.completed.is_empty()
    }

    /// Waits until a socket is ready, and says which ones are.
    fn look(&self, limit: Duration) -> Ready {
        let (may_read, listener) = (!self.posted.is_empty(), self.listener.as_ref());
        let alarm = PollFd::from_borrowed_fd(self.alarm.0.as_fd(), PollFlags::IN);
        let accepts =
            listener.map(|listener| PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN));
        let open = self.connections.iter().filter(|(_, connection)| !connection.is_over);
        let moves = open.filter_map(|(&peer, connection)| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, may_read);
            flags.set(PollFlags::OUT, connection.has_output());
            // Without flags the end of a connection, which cannot be read now, would end every wait.
            let fd = connection.stream.fd();
            (!flags.is_empty()).then(|| (peer, PollFd::from_borrowed_fd(fd, flags)))
        });
        let (peers, moves): (Vec<Peer>, Vec<PollFd<'_>>) = moves.unzip();
        let mut fds: Vec<PollFd<'_>> = [alarm].into_iter().chain(accepts).chain(moves).collect();
        // Milliseconds would round a short wait to none.
        let limit = Timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // A signal or a failure ends the wait early, which a waiter must expect anyway.
        let n_ready = poll(&mut fds, Some(&limit)).unwrap_or(0);
        let is_ready = |fd: &PollFd<'_>| fd.revents().intersects(!PollFlags::OUT);
        let (fixed, moves) = fds.split_at(fds.len() - peers.len());
        let readable = peers.into_iter().zip(moves).filter(|(_, fd)| is_ready(fd));
        Ready {
            is_any: n_ready > 0,
            alarm: is_ready(&fixed[0]),
            listener: fixed.get(1).is_some_and(is_ready),
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

    fn peer(&mut self, address: &[u8]) -> io::Result<Peer> {
        let address = std::str::from_utf8(address).map_err(|_| ErrorKind::InvalidInput)?;
        self.add(match address.strip_prefix(UNIX) {
            Some(path) => Stream::Unix(UnixStream::connect(path)?),
            None => Stream::Tcp(TcpStream::connect(address)?),
        })
    }

    fn origin(&self, peer: Peer) -> String {
        let address = self.connections.get(&peer).map(|connection| match &connection.stream {
            Stream::Tcp(stream) => {
                stream.peer_addr().map_or(String::new(), |from| from.to_string())
            }
            Stream::Unix(_) => String::from_utf8_lossy(&self.address()).into_owned(),
        });
        address.unwrap_or_default()
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
            if connection.output.len() - connection.written > OUTPUT_MAX {
                return Err(slot);
            }
            connection.output.extend_from_slice(&(len as u32).to_le_bytes());
            connection.output.extend_from_slice(&self.slab.bytes(&slot)[..len]);
            connection.flush();
        }
        self.completed.push(Completion::Sent(slot));
        Ok(())
    }

    fn leave(&mut self, peer: Peer) {
        self.connections.remove(&peer);
    }

    fn poll(&mut self, out: &mut Vec<Completion>) {
        // One look at all sockets, as a read of each would cost a system call each.
        let ready = self.look(Duration::ZERO);
        if ready.alarm {
            // Before the caller looks at what the wake-up tells of. Fails only if it was read before.
            let _ = rustix::io::read(&self.alarm.0, &mut [0; 8]);
        }
        if ready.listener {
            self.accept();
        }
        for (&peer, connection) in &mut self.connections {
            connection.flush();
            let mut may_read = !self.posted.is_empty() && ready.peers.binary_search(&peer).is_ok();
            loop {
                while let Some(len) = connection.frame_len().filter(|_| connection.has_message()) {
                    if len > self.slab.slot_len() {
                        break;
                    }
                    let Some(slot) = self.posted.pop_front() else { break };
                    let bytes = &connection.input[4..4 + len];
                    self.slab.bytes_mut(&slot)[..len].copy_from_slice(bytes);
                    connection.input.drain(..4 + len);
                    self.completed.push(Completion::Received { from: Some(peer), slot, len });
                }
                if connection.frame_len().is_some_and(|len| len > self.slab.slot_len()) {
                    connection.input.clear();
                    connection.is_over = true;
                }
                if !std::mem::take(&mut may_read) || connection.is_over {
                    break;
                }
                connection.read(&mut self.read);
            }
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
                self.look(limit.saturating_sub(elapsed));
                return;
            }
            if self.look(Duration::ZERO).is_any {
                return;
            }
        }
    }

    fn waker(&self) -> Waker {
        self.alarm.clone().into()
    }
}

impl Connection {
    /// The length of the message that the input begins with.
    fn frame_len(&self) -> Option<usize> {
        self.input.first_chunk().map(|len| u32::from_le_bytes(*len) as usize)
    }

    /// Whether the input begins with a whole message.
    fn has_message(&self) -> bool {
        self.frame_len().is_some_and(|len| self.input.len() - 4 >= len)
    }

    fn has_output(&self) -> bool {
        self.written < self.output.len()
    }

    fn read(&mut self, buffer: &mut [u8]) {
        match self.stream.read(buffer) {
            Ok(0) => self.is_over = true,
            Ok(len) => self.input.extend_from_slice(&buffer[..len]),
            Err(error) if is_passing(&error) => {}
            Err(_) => self.is_over = true,
        }
    }

    fn flush(&mut self) {
        while self.has_output() && !self.is_over {
            match self.stream.write(&self.output[self.written..]) {
                Ok(len) => self.written += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_over = true,
            }
        }
        // What was written is cut off in large pieces, as each cut moves the rest.
        if !self.has_output() || self.written > OUTPUT_MAX {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Stream {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }
}

impl Listener {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}
