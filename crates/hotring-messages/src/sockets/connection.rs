//! One connection: what was read and not given away, and what waits to be written.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

use super::datagrams::{Inbox, Way};

/// Bytes that wait for a peer from which on no more are taken. Nor does a server read more of its requests then.
const OUTPUT_MAX: usize = 256 << 10;

/// The pause between two attempts to connect to a Unix socket.
const CONNECT_PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
pub struct Connection {
    pub stream: Stream,
    /// The peer's address.
    pub origin: String,
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    /// Bytes of the input that were given away.
    pub taken: usize,
    /// Bytes of the output that were written.
    pub written: usize,
    /// Since when the peer has taken nothing, if something waits for it.
    pub unread_since: Option<Instant>,
    pub is_over: bool,
    /// Where datagrams of the peer come to.
    pub inbox: Option<Inbox>,
    /// Where datagrams for the peer go.
    pub way: Option<Way>,
}

impl Connection {
    /// A new one, of which nothing was read yet.
    pub fn new(stream: Stream, origin: String) -> Connection {
        Connection {
            stream,
            origin,
            input: Vec::new(),
            output: Vec::new(),
            taken: 0,
            written: 0,
            unread_since: None,
            is_over: false,
            inbox: None,
            way: None,
        }
    }

    /// What was read and not given away.
    pub fn waiting(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    /// Ends it, whatever was read.
    pub fn end(&mut self) {
        self.input.clear();
        (self.taken, self.is_over) = (0, true);
    }

    /// Whether the peer takes less than is sent to it.
    pub fn is_congested(&self) -> bool {
        !self.is_over && self.output.len() - self.written > OUTPUT_MAX
    }

    /// The length of the message that the input begins with.
    pub fn frame_len(&self) -> Option<usize> {
        self.waiting().first_chunk().map(|len| u32::from_le_bytes(*len) as usize)
    }

    /// Whether the input begins with a whole message.
    pub fn has_message(&self) -> bool {
        self.frame_len().is_some_and(|len| self.waiting().len() - 4 >= len)
    }

    pub fn has_output(&self) -> bool {
        self.written < self.output.len()
    }

    pub fn read(&mut self, buffer: &mut [u8]) {
        match self.stream.read(buffer) {
            Ok(0) => self.is_over = true,
            Ok(len) => self.input.extend_from_slice(&buffer[..len]),
            Err(error) if is_passing(&error) => {}
            Err(_) => self.is_over = true,
        }
    }

    pub fn flush(&mut self) {
        let mut has_taken = false;
        while self.has_output() && !self.is_over {
            match self.stream.write(&self.output[self.written..]) {
                Ok(len) => {
                    self.written += len;
                    has_taken = true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_over = true,
            }
        }
        if !self.has_output() {
            self.unread_since = None;
        } else if has_taken || self.unread_since.is_none() {
            self.unread_since = Some(Instant::now());
        }
        // What was written is cut off in large pieces, as each cut moves the rest.
        if !self.has_output() || self.written > OUTPUT_MAX {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }
}

/// Connects to the first address of a name that answers.
pub fn connect(address: &str, limit: Duration) -> io::Result<TcpStream> {
    let begun = Instant::now();
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        let left = limit.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to a Unix socket. While the server is behind with accepting, each attempt fails.
pub fn connect_unix(path: &str, limit: Duration) -> io::Result<UnixStream> {
    let begun = Instant::now();
    let address = SockAddr::unix(path)?;
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address) {
            Ok(()) => return Ok(OwnedFd::from(socket).into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < limit => {
                std::thread::sleep(CONNECT_PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl Stream {
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }
}
