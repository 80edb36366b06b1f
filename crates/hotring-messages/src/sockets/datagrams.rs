//! Answers as datagrams of UDP, beside a connection of TCP.
//!
//! A client tells over its connection where it takes datagrams: a port, and a secret that each datagram begins with.
//! They come from the address to which the client has connected, and go to the one from which it has: no other machine
//! can be made a target, and none can answer that does not read the connection.
//!
//! The client also tells both addresses of its connection. If the server sees others, a translator or a tunnel lies in
//! between, and datagrams would go to whoever sits there: so there are none.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};

/// The length of a secret, in bytes.
const SECRET_LEN: usize = 16;

/// The length of a UDP port, which the secret follows.
const PORT_LEN: usize = 2;

/// Most addresses of a server from which datagrams leave at a time.
const SOCKETS_MAX: usize = 64;

/// Most datagrams without the secret that are looked at at once.
const FOREIGN_MAX: usize = 64;

/// A client's socket for the datagrams of one server.
#[derive(Debug)]
pub struct Inbox {
    socket: UdpSocket,
    secret: [u8; SECRET_LEN],
}

impl Inbox {
    /// For what the other end of this connection sends. The system drops what comes from elsewhere.
    pub fn open(stream: &TcpStream) -> io::Result<Inbox> {
        let mut own = stream.local_addr()?;
        own.set_port(0);
        let socket = UdpSocket::bind(own)?;
        socket.connect(stream.peer_addr()?)?;
        socket.set_nonblocking(true)?;
        let mut secret = [0; SECRET_LEN];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        Ok(Inbox { socket, secret })
    }

    /// What the other end of the connection must know.
    pub fn address(&self, stream: &TcpStream) -> io::Result<Vec<u8>> {
        let port = self.socket.local_addr()?.port().to_le_bytes();
        let ends = ends(stream.local_addr()?, stream.peer_addr()?);
        Ok([&port[..], &self.secret, ends.as_bytes()].concat())
    }

    /// The next message.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        for _ in 0..FOREIGN_MAX {
            // An error is that nothing has come, or tells of a datagram that was never sent.
            let len = self.socket.recv(buffer).ok()?;
            if buffer[..len].starts_with(&self.secret) {
                return Some(&buffer[SECRET_LEN..len]);
            }
        }
        None
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A connection's address at the client and at the server, as one of them sees both.
fn ends(client: SocketAddr, server: SocketAddr) -> String {
    format!("{client} {server}")
}

/// Where datagrams for a client go.
#[derive(Debug)]
pub struct Way {
    socket: Arc<UdpSocket>,
    to: SocketAddr,
    secret: [u8; SECRET_LEN],
}

/// A server's sockets: one for each of its addresses to which clients are connected.
#[derive(Debug)]
pub struct Outbox {
    /// The longest datagram in bytes; 0 for none.
    len_max: usize,
    sockets: BTreeMap<SocketAddr, Weak<UdpSocket>>,
    datagram: Vec<u8>,
}

impl Outbox {
    pub fn new(len_max: usize) -> Outbox {
        Outbox { len_max, sockets: BTreeMap::new(), datagram: Vec::new() }
    }

    /// The way to the other end of this connection, which has told where it takes datagrams.
    pub fn way(&mut self, stream: &TcpStream, address: &[u8]) -> Option<Way> {
        let (port, rest) = address.split_at_checked(PORT_LEN)?;
        let (secret, told) = rest.split_at_checked(SECRET_LEN)?;
        let port = u16::from_le_bytes(port.try_into().ok()?);
        let (from, mut to) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        if self.len_max == 0 || port == 0 || told != ends(to, from).as_bytes() {
            return None;
        }
        to.set_port(port);
        let secret = secret.try_into().ok()?;
        Some(Way { socket: self.open(from).ok()?, to, secret })
    }

    /// The socket at this address. It closes with the last connection that has a way from there.
    fn open(&mut self, from: SocketAddr) -> io::Result<Arc<UdpSocket>> {
        if let Some(socket) = self.sockets.get(&from).and_then(Weak::upgrade) {
            return Ok(socket);
        }
        self.sockets.retain(|_, socket| socket.strong_count() > 0);
        if self.sockets.len() >= SOCKETS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let socket = UdpSocket::bind(from)?;
        socket.set_nonblocking(true)?;
        let socket = Arc::new(socket);
        self.sockets.insert(from, Arc::downgrade(&socket));
        Ok(socket)
    }

    /// Sends a message. False if it is too long, or cannot be sent now.
    pub fn send(&mut self, way: &Way, message: &[u8]) -> bool {
        let len = SECRET_LEN + message.len();
        if len > self.len_max {
            return false;
        }
        self.datagram.clear();
        self.datagram.extend_from_slice(&way.secret);
        self.datagram.extend_from_slice(message);
        way.socket.send_to(&self.datagram, way.to).is_ok_and(|sent| sent == len)
    }
}
