//! A non-blocking connection that sends the requests of its script and checks the replies.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use super::dialect::{Dialect, Step};
use crate::address::{Endpoint, Stream};

/// A connection and its position in its script.
pub struct Connection<'a> {
    /// The socket.
    pub stream: Stream,
    script: &'a [Step],
    /// Requests sent since the connection was opened.
    pub sent: u64,
    /// Replies received since the connection was opened.
    pub answered: u64,
    /// The time at which the last batch was sent.
    pub departure: Instant,
    output: Vec<u8>,
    written: usize,
    /// The beginning of an incomplete reply.
    carried: Vec<u8>,
}

impl<'a> Connection<'a> {
    /// Connects to a server. The script is repeated as often as necessary.
    pub fn open(endpoint: &Endpoint, script: &'a [Step]) -> Result<Self> {
        assert!(!script.is_empty(), "a connection has something to ask for");
        let stream = endpoint.connect()?;
        match &stream {
            Stream::Tcp(stream) => stream.set_nonblocking(true)?,
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(Connection {
            stream,
            script,
            sent: 0,
            answered: 0,
            departure: Instant::now(),
            output: Vec::new(),
            written: 0,
            carried: Vec::new(),
        })
    }

    /// Requests in flight: sent, but not answered.
    pub fn outstanding(&self) -> u64 {
        self.sent - self.answered
    }

    /// Requests until the script restarts.
    pub fn left(&self) -> u64 {
        (self.script.len() as u64).saturating_sub(self.sent)
    }

    /// Adds the next requests to the output.
    pub fn push(&mut self, count: u64, dialect: &Dialect) {
        for _ in 0..count {
            dialect.request(self.step(self.sent), self.sent, &mut self.output);
            self.sent += 1;
        }
    }

    fn step(&self, position: u64) -> Step {
        self.script[(position % self.script.len() as u64) as usize]
    }

    /// Sends the pushed requests. Gives false if the socket does not take all of them at once.
    pub fn send(&mut self) -> Result<bool> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => bail!("the server takes no more requests"),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot send requests"),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(true)
    }

    /// Reads once, checks the complete replies, and gives their number. `buffer` must be longer than any reply.
    pub fn receive(&mut self, dialect: &Dialect, buffer: &mut [u8]) -> Result<u64> {
        let carried = self.carried.len();
        buffer[..carried].copy_from_slice(&self.carried);
        let read = match self.stream.read(&mut buffer[carried..]) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(read) => read,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(0);
            }
            Err(error) => return Err(error).context("cannot read replies"),
        };
        let before = self.answered;
        let mut rest = &buffer[..carried + read];
        while self.answered < self.sent {
            let Some(length) = dialect.reply(self.step(self.answered), rest)? else { break };
            rest = &rest[length..];
            self.answered += 1;
        }
        let surplus = self.answered == self.sent && !rest.is_empty();
        ensure!(!surplus, "the server sends more than was asked for: \"{}\"", rest.escape_ascii());
        self.carried.clear();
        self.carried.extend_from_slice(rest);
        Ok(self.answered - before)
    }
}
