//! A small blocking RESP2 client that can load a server, replay a trace and read INFO.
//!
//! [`Client::push`] collects requests and [`Client::flush`] sends them with one write; [`Client::reply`] returns
//! replies in order. At most one window of requests is in flight, and the caller must keep the window small
//! compared with the socket's buffers.

use std::io::{Read, Write};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hotring_protocol::{Part, ReplyLimits, find_part};

use crate::address::{Address, Protocol, Stream};

/// One reply, borrowed from the client's buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A simple string such as `+OK`.
    Simple(&'a str),
    /// An integer.
    Integer(i64),
    /// A string, or nil.
    Bulk(Option<&'a [u8]>),
    /// The length of an array, whose elements are the next replies.
    Array(usize),
}

/// A connection to a server.
pub struct Client<S = Stream> {
    stream: S,
    output: Vec<u8>,
    input: Vec<u8>,
    /// The unread bytes are `input[used..filled]`.
    used: usize,
    filled: usize,
}

impl Client<Stream> {
    /// Connects to a server that speaks RESP.
    pub fn connect(address: &Address) -> Result<Self> {
        ensure!(address.protocol == Protocol::Resp, "{address} does not speak RESP");
        Ok(Client::new(address.endpoint.connect()?))
    }
}

impl<S: Read + Write> Client<S> {
    fn new(stream: S) -> Self {
        Client { stream, output: Vec::new(), input: Vec::new(), used: 0, filled: 0 }
    }

    /// Adds a request to the next flush.
    pub fn push(&mut self, args: &[&[u8]]) {
        self.begin(args.len());
        args.iter().for_each(|arg| self.arg(arg));
    }

    /// Begins a request of `args` arguments. The caller must add each by [`Client::arg`].
    pub fn begin(&mut self, args: usize) {
        write!(self.output, "*{args}\r\n").expect("a Vec takes every write");
    }

    /// Adds the next argument of the request.
    pub fn arg(&mut self, arg: &[u8]) {
        write!(self.output, "${}\r\n", arg.len()).expect("a Vec takes every write");
        self.output.extend_from_slice(arg);
        self.output.extend_from_slice(b"\r\n");
    }

    /// Sends the pushed requests.
    pub fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.output).context("the server does not take requests")?;
        self.output.clear();
        Ok(())
    }

    /// Waits for the next reply. Gives an error for an error reply.
    pub fn reply(&mut self) -> Result<Reply<'_>> {
        let part = loop {
            let unread = &self.input[self.used..self.filled];
            if let Some((part, len)) = find_part(unread, &ReplyLimits::default())? {
                let start = self.used;
                self.used += len;
                break part.of(&self.input[start..self.used]);
            }
            self.fill()?;
        };
        let text = |bytes| str::from_utf8(bytes).context("the server's reply is not text");
        match part {
            Part::Simple(bytes) => Ok(Reply::Simple(text(bytes)?)),
            Part::Error(bytes) => bail!("the server answers: {}", text(bytes)?),
            Part::Int(number) => Ok(Reply::Integer(number)),
            Part::Bulk(bytes) => Ok(Reply::Bulk(Some(bytes))),
            Part::Absent | Part::Null => Ok(Reply::Bulk(None)),
            Part::Array(len) => Ok(Reply::Array(len)),
            other => bail!("unexpected kind of reply: {other:?}"),
        }
    }

    /// Sends one request and waits for its reply, for commands outside measurements.
    pub fn call(&mut self, args: &[&[u8]]) -> Result<Reply<'_>> {
        self.push(args);
        self.flush()?;
        self.reply()
    }

    /// Waits until a newly started server accepts commands.
    pub fn wait_until_loaded(&mut self) -> Result<()> {
        while let Err(error) = self.call(&[b"PING"]) {
            rest_if_loading(error)?;
        }
        Ok(())
    }

    /// The connection itself, for input that is no reply to a request. No byte of it has been read if no request
    /// was sent.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// The text of one section of the server's INFO.
    pub fn info(&mut self, section: &str) -> Result<String> {
        match self.call(&[b"INFO", section.as_bytes()])? {
            Reply::Bulk(Some(text)) => Ok(String::from_utf8_lossy(text).into_owned()),
            other => bail!("INFO answers {other:?}"),
        }
    }

    /// Moves the unread bytes to the front, and reads more after them.
    fn fill(&mut self) -> Result<()> {
        const CHUNK: usize = 64 << 10;
        self.input.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
        if self.input.len() < self.filled + CHUNK {
            self.input.resize((self.filled + CHUNK).next_power_of_two(), 0);
        }
        let read = self.stream.read(&mut self.input[self.filled..]);
        match read.context("the server does not answer")? {
            0 => bail!("the server closed the connection"),
            read => self.filled += read,
        }
        Ok(())
    }
}

/// Waits a moment if `error` says that the server is still loading its data; otherwise returns it.
pub fn rest_if_loading(error: anyhow::Error) -> Result<()> {
    if !error.to_string().contains("LOADING ") {
        return Err(error);
    }
    std::thread::sleep(Duration::from_millis(1));
    Ok(())
}

/// The value of a `name:value` line of an INFO text.
pub fn info_field<T: FromStr>(info: &str, name: &str) -> Option<T> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream whose replies arrive `step` bytes at a time.
    struct Script {
        replies: Vec<u8>,
        at: usize,
        step: usize,
        sent: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let left = &self.replies[self.at..];
            let count = left.len().min(self.step).min(buffer.len());
            buffer[..count].copy_from_slice(&left[..count]);
            self.at += count;
            Ok(count)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.sent.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn client(replies: &[u8], step: usize) -> Client<Script> {
        Client::new(Script { replies: replies.to_vec(), at: 0, step, sent: Vec::new() })
    }

    #[test]
    fn replies_are_the_same_however_they_arrive() {
        for step in [1, 2, 7, 1000] {
            let mut client = client(b"+OK\r\n:-12\r\n$-1\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n", step);
            assert_eq!(client.reply().unwrap(), Reply::Simple("OK"));
            assert_eq!(client.reply().unwrap(), Reply::Integer(-12));
            assert_eq!(client.reply().unwrap(), Reply::Bulk(None));
            assert_eq!(client.reply().unwrap(), Reply::Bulk(Some(b"a\r\nbc")));
            assert_eq!(client.reply().unwrap(), Reply::Bulk(Some(b"")));
            let end = client.reply().unwrap_err();
            assert!(end.to_string().contains("closed the connection"), "{end}");
        }
    }

    #[test]
    fn an_error_reply_carries_the_servers_words() {
        let error = client(b"-ERR no such thing\r\n", 100).reply().unwrap_err();
        assert!(error.to_string().contains("ERR no such thing"), "{error}");
    }

    #[test]
    fn requests_leave_as_one_write_of_bulk_strings() {
        let mut client = client(b"", 1);
        client.push(&[b"GET", b"key"]);
        client.push(&[b"PING"]);
        client.flush().unwrap();
        assert_eq!(client.stream.sent, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n$4\r\nPING\r\n");
    }

    #[test]
    fn info_fields_are_found_by_their_whole_name() {
        let info = "# Memory\r\nused_memory:5\r\nused_memory_rss:1234\r\n";
        assert_eq!(info_field::<u64>(info, "used_memory_rss"), Some(1234));
        assert_eq!(info_field::<u64>(info, "used"), None);
    }
}
