//! The connection to a Redis primary: bytes and lines, within limits of time and length.
//!
//! Reads block for `TICK` at most, so that the thread of the link notices when it must end, and can tell the primary
//! that it is alive. The peer is not trusted: memory grows only with the bytes that arrive, up to a limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use hotring_commands::exec::follow::Refused;
use hotring_commands::host::clock;

/// The longest time that a read blocks.
const TICK: Duration = Duration::from_millis(100);
/// The longest time that a connection attempt or a write may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// The longest line: an error that the primary explains itself with.
const LINE_MAX: usize = 4 << 10;
/// Bytes that are received while those before must wait.
const WAITING_MAX: usize = 16 << 20;
/// An empty buffer that has grown beyond this is freed.
const KEPT_MAX: usize = 1 << 20;

/// Why a link has ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// This server has asked it to.
    Asked,
    /// The connection is lost, or what came over it is damaged. A new one may help.
    Lost(String),
    /// The primary has something that this server cannot apply.
    Refused(Refused),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::Lost(error.to_string())
    }
}

/// What a link does at its own time.
pub(super) struct Manners<'a> {
    /// The link must end.
    pub(super) stops: &'a (dyn Fn() -> bool + Sync),
    /// A primary that is silent for this long is taken for dead.
    pub(super) silence: Duration,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection to a primary.
pub(super) struct Wire<'a> {
    stream: Stream,
    chunk: Box<[u8]>,
    /// Received bytes; those before `start` are used.
    input: Vec<u8>,
    start: usize,
    heard: Instant,
    manners: &'a Manners<'a>,
}

impl<'a> Wire<'a> {
    /// Connects to this host and port.
    pub(super) fn dial(
        (host, port): (&str, u16),
        tls: Option<&Arc<ClientConfig>>,
        manners: &'a Manners<'a>,
    ) -> Result<Wire<'a>, Ended> {
        let mut last = Ended::Lost(format!("{host} has no address"));
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return Wire::new(stream, host, tls, manners),
                Err(error) => last = error.into(),
            }
            if (manners.stops)() {
                return Err(Ended::Asked);
            }
        }
        Err(last)
    }

    fn new(
        stream: TcpStream,
        host: &str,
        tls: Option<&Arc<ClientConfig>>,
        manners: &'a Manners<'a>,
    ) -> Result<Wire<'a>, Ended> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let stream = match tls {
            None => Stream::Plain(stream),
            Some(config) => {
                let name = ServerName::try_from(host.to_string());
                let name = name.map_err(|error| Ended::Lost(error.to_string()))?;
                let connection = ClientConnection::new(config.clone(), name);
                let connection = connection.map_err(|error| Ended::Lost(error.to_string()))?;
                Stream::Tls(Box::new(StreamOwned::new(connection, stream)))
            }
        };
        let chunk = vec![0; CHUNK].into_boxed_slice();
        let (input, start, heard) = (Vec::new(), 0, clock::monotonic());
        Ok(Wire { stream, chunk, input, start, heard, manners })
    }

    /// The received bytes that are not used yet.
    pub(super) fn unread(&self) -> &[u8] {
        &self.input[self.start..]
    }

    /// Marks bytes as used.
    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
        debug_assert!(self.start <= self.input.len());
        if self.start == self.input.len() {
            self.start = 0;
            self.input.clear();
            if self.input.capacity() > KEPT_MAX {
                self.input = Vec::new();
            }
        }
    }

    /// Fails if this server wants the link to end.
    pub(super) fn check_asked(&self) -> Result<(), Ended> {
        if (self.manners.stops)() { Err(Ended::Asked) } else { Ok(()) }
    }

    /// Receives more bytes while the bytes that are there must wait, so that a primary that ends or falls silent is
    /// noticed. Returns after `time` at the latest if none come, and after less if there are many.
    pub(super) fn receive_while_waiting(&mut self, time: Duration) -> Result<(), Ended> {
        if self.unread().len() >= WAITING_MAX {
            // It is this server that does not listen.
            self.heard = clock::monotonic();
            std::thread::sleep(time);
            return self.check_asked();
        }
        self.set_read_timeout(time)?;
        let received = self.receive();
        self.set_read_timeout(TICK)?;
        received.map(drop)
    }

    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        match &self.stream {
            Stream::Plain(stream) => stream.set_read_timeout(Some(time)),
            Stream::Tls(stream) => stream.sock.set_read_timeout(Some(time)),
        }
    }

    /// Receives more bytes; false if none came within a tick.
    pub(super) fn receive(&mut self) -> Result<bool, Ended> {
        self.check_asked()?;
        let read = match &mut self.stream {
            Stream::Plain(stream) => stream.read(&mut self.chunk),
            Stream::Tls(stream) => stream.read(&mut self.chunk),
        };
        match read {
            Ok(0) => Err(Ended::Lost("the primary has closed the connection".into())),
            Ok(len) => {
                self.input.drain(..std::mem::take(&mut self.start));
                self.input.extend_from_slice(&self.chunk[..len]);
                self.heard = clock::monotonic();
                Ok(true)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                let silent = self.heard.elapsed();
                match silent > self.manners.silence {
                    true => Err(Ended::Lost(format!("the primary is silent for {silent:.0?}"))),
                    false => Ok(false),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Receives a line; returns it without its end. Empty lines, with which a primary shows that it is alive, are
    /// passed over.
    pub(super) fn line(&mut self) -> Result<String, Ended> {
        loop {
            if let Some(end) = self.unread().iter().take(LINE_MAX).position(|byte| *byte == b'\n') {
                let line = self.unread()[..end].trim_ascii_end();
                let line = String::from_utf8_lossy(line).into_owned();
                self.consume(end + 1);
                if !line.is_empty() {
                    return Ok(line);
                }
            } else if self.unread().len() >= LINE_MAX {
                return Err(Ended::Lost("the primary sends a line without an end".into()));
            } else {
                self.receive()?;
            }
        }
    }

    /// Sends a command.
    pub(super) fn send(&mut self, words: &[&str]) -> Result<(), Ended> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        self.write(request.as_bytes())
    }

    /// Sends a command and returns the line of its reply.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<String, Ended> {
        self.send(words)?;
        self.line()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let written = match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        written.map_err(|error| Ended::Lost(format!("cannot write to the primary: {error}")))
    }
}
