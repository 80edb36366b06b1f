//! A small client for the tests: sends raw bytes, reads replies of both protocol versions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hotring_server::{Config, Running, start};

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
    reader: BufReader<TcpStream>,
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
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Wire { stream, reader }
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

    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Whether the server has closed the connection; reads what is left.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.reader.read_to_end(&mut rest).expect("reads to the end");
        rest
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).expect("reads a line");
        assert!(line.ends_with(b"\r\n"), "the connection ended inside a reply: {line:?}");
        line.truncate(line.len() - 2);
        String::from_utf8(line).expect("a header line is text")
    }

    fn exactly(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len + 2];
        self.reader.read_exact(&mut bytes).expect("reads a bulk");
        assert_eq!(bytes.split_off(len), b"\r\n");
        bytes
    }

    pub fn reply(&mut self) -> Reply {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().unwrap_or_else(|_| panic!("no number: {line}"));
        match kind {
            "+" => Reply::Simple(rest.to_string()),
            "-" => Reply::Error(rest.to_string()),
            ":" => Reply::Int(number()),
            "," => Reply::Double(rest.parse().unwrap()),
            "#" => Reply::Bool(rest == "t"),
            "_" => Reply::Null,
            "$" | "*" if rest == "-1" => Reply::Null,
            "$" => Reply::Bulk(self.exactly(number() as usize)),
            "=" => {
                let bytes = self.exactly(number() as usize);
                Reply::Verbatim(String::from_utf8(bytes[4..].to_vec()).unwrap())
            }
            "*" => Reply::Array((0..number()).map(|_| self.reply()).collect()),
            "~" => Reply::Set((0..number()).map(|_| self.reply()).collect()),
            ">" => Reply::Push((0..number()).map(|_| self.reply()).collect()),
            "%" => Reply::Map((0..number()).map(|_| (self.reply(), self.reply())).collect()),
            _ => panic!("not a reply: {line}"),
        }
    }
}
