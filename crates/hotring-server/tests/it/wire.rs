//! A small client for the tests: sends raw bytes, reads replies of both protocol versions.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_coordinator::Coordinator;
use hotring_log::Disk;
use hotring_log::storage::Memory;
use hotring_protocol::{Reply as Received, ReplyReader};
use hotring_server::{Config, Running, StartError, start, start_in};

/// A reply that takes longer fails the test.
const READ_MAX: Duration = Duration::from_secs(20);

/// A server for one test, stopped on drop.
pub struct TestServer {
    running: Option<Running>,
    pub address: SocketAddr,
}

impl TestServer {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::by(start, change)
    }

    /// A node of the cluster whose records this coordinator keeps.
    pub fn in_cluster(coordinator: Arc<dyn Coordinator>, change: impl FnOnce(&mut Config)) -> Self {
        Self::by(|config| start_in(config, coordinator, &Disk::open), change)
    }

    /// The same, with a log on this disk.
    pub fn in_cluster_on(
        disk: &Memory,
        coordinator: Arc<dyn Coordinator>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        // The node's name is in the folder all the same.
        let open = |folder: PathBuf| std::fs::create_dir_all(folder).map(|()| disk.clone());
        Self::by(|config| start_in(config, coordinator, &open), change)
    }

    fn by(
        start: impl FnOnce(Config) -> Result<Running, StartError>,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let listen = vec!["127.0.0.1:0".to_string()];
        let mut config = Config { listen, threads: 2, ..Config::default() };
        change(&mut config);
        let running = start(config).expect("the server starts");
        let begun = Instant::now();
        while !running.is_loaded() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the data is not loaded");
            std::thread::sleep(Duration::from_millis(1));
        }
        TestServer { address: running.addresses()[0], running: Some(running) }
    }

    pub fn connect(&self) -> Wire {
        Wire::connect(self.address)
    }

    /// The address of the status page, if it is served.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.running.as_ref().expect("runs until dropped").admin_address()
    }

    /// The same, if it must be served.
    pub fn admin(&self) -> SocketAddr {
        self.admin_address().expect("the setting admin asks for it")
    }

    /// The server itself.
    pub fn running(&self) -> &Running {
        self.running.as_ref().expect("runs until dropped")
    }

    /// Stops the server and waits for its end.
    pub fn stop(mut self) {
        self.end();
    }

    pub fn ask_to_stop(&self) {
        self.running.as_ref().expect("runs until dropped").stop();
    }

    /// The TLS address.
    pub fn tls_address(&self) -> SocketAddr {
        self.running.as_ref().expect("runs until dropped").tls_addresses()[0]
    }

    /// The memcached address.
    pub fn memcached_address(&self) -> SocketAddr {
        self.running.as_ref().expect("runs until dropped").memcached_addresses()[0]
    }

    pub fn reload(&self) {
        self.running.as_ref().expect("runs until dropped").reload();
    }

    fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
            let _ = running.wait();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A reply. `Null` is RESP3's null and RESP2's null bulk and null array.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Vec<u8>),
    Verbatim(String),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Set(Vec<Reply>),
    Push(Vec<Reply>),
    Double(f64),
    Bool(bool),
    Null,
}

impl Reply {
    fn of(reply: Received) -> Reply {
        let all = |replies: Vec<_>| replies.into_iter().map(Reply::of).collect();
        match reply {
            Received::Simple(text) => Reply::Simple(text),
            Received::Error(text) => Reply::Error(text),
            Received::Int(number) => Reply::Int(number),
            Received::Bulk(bytes) => Reply::Bulk(bytes),
            Received::Verbatim(text) => {
                Reply::Verbatim(String::from_utf8(text).expect("a text is UTF-8"))
            }
            Received::Array(items) => Reply::Array(all(items)),
            Received::Map(pairs) => {
                let pairs = pairs.into_iter();
                Reply::Map(pairs.map(|(key, value)| (Reply::of(key), Reply::of(value))).collect())
            }
            Received::Set(items) => Reply::Set(all(items)),
            Received::Push(items) => Reply::Push(all(items)),
            Received::Double(number) => Reply::Double(number),
            Received::Boolean(truth) => Reply::Bool(truth),
            Received::BigNumber(digits) => panic!("a big number: {digits}"),
            Received::Null => Reply::Null,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Reply::Simple(s) | Reply::Error(s) | Reply::Verbatim(s) => s.clone(),
            Reply::Bulk(b) => String::from_utf8_lossy(b).into_owned(),
            other => panic!("{other:?} is no text"),
        }
    }

    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(n) => *n,
            other => panic!("{other:?} is no integer"),
        }
    }

    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => items,
            other => panic!("{other:?} is no array"),
        }
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

pub fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

pub fn ok() -> Reply {
    Reply::Simple("OK".to_string())
}

/// The number that follows `name` in a line of CLIENT LIST.
pub fn number_after(line: &str, name: &str) -> u64 {
    let rest = &line[line.find(name).unwrap_or_else(|| panic!("{name} in {line}")) + name.len()..];
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// One connection.
pub struct Wire {
    pub stream: TcpStream,
    replies: ReplyReader,
    /// Filled by each read; allocated by the first. To fill it with zeros for each reply takes longer than the reply.
    chunk: Vec<u8>,
}

/// A request as bytes.
pub fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Wire {
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("connects")
    }

    /// As [`connect`](Self::connect), to a server that may be gone.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READ_MAX))?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, replies: ReplyReader::default(), chunk: Vec::new() })
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sends");
    }

    /// Sends from another thread while replies are read.
    pub fn send_beside(&mut self, bytes: Vec<u8>) {
        let mut stream = self.stream.try_clone().unwrap();
        std::thread::spawn(move || stream.write_all(&bytes).expect("sends"));
    }

    pub fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        self.send(&request(args));
        self.reply()
    }

    /// Sends the words of a line, for requests without spaces in their arguments.
    pub fn say(&mut self, line: &str) -> Reply {
        self.ask(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Sends all lines before it reads the replies.
    pub fn say_all<L: AsRef<str>>(&mut self, lines: &[L]) -> Vec<Reply> {
        let words = |line: &L| request(&line.as_ref().split_whitespace().collect::<Vec<_>>());
        self.send(&lines.iter().flat_map(words).collect::<Vec<u8>>());
        lines.iter().map(|_| self.reply()).collect()
    }

    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Whether the server has closed the connection; reads what is left.
    pub fn is_closed(&mut self) -> bool {
        match self.stream.read_to_end(&mut Vec::new()) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }

    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = self.replies.unread().to_vec();
        self.stream.read_to_end(&mut rest).expect("reads to the end");
        rest
    }

    pub fn reply(&mut self) -> Reply {
        self.try_reply().expect("reads a reply")
    }

    /// The next reply, or why there is none.
    pub fn try_reply(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.replies.next_reply().expect("a reply of RESP") {
                return Ok(Reply::of(reply));
            }
            if self.chunk.is_empty() {
                self.chunk = vec![0; 64 << 10];
            }
            let len = self.stream.read(&mut self.chunk)?;
            if len == 0 {
                let unread = self.replies.unread().escape_ascii().to_string();
                let why = format!("the connection ended inside a reply: {unread}");
                return Err(io::Error::new(ErrorKind::UnexpectedEof, why));
            }
            self.replies.push(&self.chunk[..len]);
        }
    }

    /// As [`say`](Self::say), for a server that may end the connection.
    pub fn try_say(&mut self, line: &str) -> io::Result<Reply> {
        self.stream.write_all(&request(&line.split_whitespace().collect::<Vec<_>>()))?;
        self.try_reply()
    }

    /// Whether no byte of a reply comes within this time.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        assert!(self.replies.unread().is_empty(), "replies that no one has read");
        self.stream.set_read_timeout(Some(time)).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(READ_MAX)).unwrap();
        matches!(
            peeked.map_err(|error| error.kind()),
            Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)
        )
    }
}
