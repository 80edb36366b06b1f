//! A small RESP client for subcommands that talk to a running server: one request and reply at a
//! time or, for `export` and `import`, pipelined requests and raw replies.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgMatches};
use hotring_protocol::{Reply, ReplyLimits, ReplyReader};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The default address of the server.
const ADDRESS: &str = "127.0.0.1:6379";
/// The environment variable from which redis-cli takes the password. Unlike a flag, it is in no process list.
pub(crate) const PASSWORD: &str = "REDISCLI_AUTH";
/// Time limit for a reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes per read.
const READ_LEN: usize = 64 << 10;

/// The password: of the file, or of the variable. No flag takes it, as the machine's users can see flags.
pub(crate) fn password(file: Option<&String>) -> Result<String, String> {
    let Some(file) = file else {
        return Ok(std::env::var(PASSWORD).unwrap_or_default());
    };
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|why| format!("cannot read the password in {file}: {why}"))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_string()),
        _ => Err(format!("the first line of {file} has no password")),
    }
}

/// A decoded reply to show to people. Requests are sent without HELLO, so replies are RESP2.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Text(String),
    Number(i64),
    List(Vec<Answer>),
    Nothing,
}

impl Answer {
    /// Decodes a reply, or returns the first error in it.
    fn of(reply: Reply) -> Result<Answer, Error> {
        Ok(match reply {
            Reply::Simple(text) => Answer::Text(text),
            Reply::Bulk(bytes) => Answer::Text(String::from_utf8_lossy(&bytes).into_owned()),
            Reply::Error(text) => return Err(Error::Refused(text)),
            Reply::Int(number) => Answer::Number(number),
            Reply::Array(parts) => {
                Answer::List(parts.into_iter().map(Answer::of).collect::<Result<_, _>>()?)
            }
            Reply::Null => Answer::Nothing,
            _ => return Err(invalid("the reply is of RESP3, which was not asked for").into()),
        })
    }
}

/// Appends a request of these words.
pub(crate) fn push_request(out: &mut Vec<u8>, words: &[&[u8]]) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n", word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// Why there is no reply.
#[derive(Debug)]
pub(crate) enum Error {
    /// The server's error text.
    Refused(String),
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(text) => write!(f, "the server replied: {text}"),
            Error::Io(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

/// The flags that select the server.
pub(crate) fn address_args() -> [Arg; 3] {
    let address = Arg::new("address")
        .long("address")
        .value_name("ADDR:PORT")
        .conflicts_with("unixsocket")
        .help(format!("The server's address [default: {ADDRESS}]"));
    let unixsocket = Arg::new("unixsocket")
        .long("unixsocket")
        .value_name("PATH")
        .help("The server's unix socket");
    let user = Arg::new("user")
        .long("user")
        .value_name("NAME")
        .help(format!("Log in as this user, with the password in the variable {PASSWORD}"));
    [address, unixsocket, user]
}

/// The name of the selected server, for messages.
pub(crate) fn address_name(flags: &ArgMatches) -> &str {
    let name = |flag: &str| flags.get_one::<String>(flag);
    name("unixsocket").or_else(|| name("address")).map_or(ADDRESS, String::as_str)
}

/// Connects to the selected server, and logs in if there is a password.
pub(crate) fn connect(flags: &ArgMatches) -> Result<Client, Error> {
    let name = address_name(flags);
    let connected = match flags.contains_id("unixsocket") {
        true => Client::unix(Path::new(name)),
        false => Client::tcp(name),
    };
    let mut client = connected
        .map_err(|e| io::Error::new(e.kind(), format!("cannot connect to {name}: {e}")))?;
    if let Ok(password) = std::env::var(PASSWORD) {
        let user = flags.get_one::<String>("user").map_or("default", String::as_str);
        client.ask_words(&["AUTH", user, &password])?;
    }
    Ok(client)
}

/// A connection to a server.
pub(crate) struct Client {
    input: Box<dyn Read>,
    output: Box<dyn Write>,
    replies: ReplyReader,
    chunk: Vec<u8>,
}

impl Client {
    /// Connects to `ADDR:PORT`.
    pub(crate) fn tcp(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client::new(stream.try_clone()?, stream))
    }

    /// Connects to `HOST:PORT` over TLS.
    pub(crate) fn tls(host: &str, port: u16, config: Arc<ClientConfig>) -> io::Result<Self> {
        let stream = TcpStream::connect((host, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let both = BothWays(Rc::new(RefCell::new(StreamOwned::new(connection, stream))));
        Ok(Client::new(both.clone(), both))
    }

    /// Connects to a unix socket.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client::new(stream.try_clone()?, stream))
    }

    fn new(input: impl Read + 'static, output: impl Write + 'static) -> Self {
        let replies = ReplyReader::new(ReplyLimits::default());
        let (input, output) = (Box::new(input), Box::new(output));
        Client { input, output, replies, chunk: vec![0; READ_LEN] }
    }

    /// Sends the words of a line as a request, and waits for the reply.
    pub(crate) fn ask(&mut self, request: &str) -> Result<Answer, Error> {
        self.send(format!("{request}\r\n").as_bytes())?;
        Answer::of(self.reply()?)
    }

    /// Like `ask`, for words that may contain spaces.
    pub(crate) fn ask_words(&mut self, words: &[&str]) -> Result<Answer, Error> {
        let mut request = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        push_request(&mut request, &words);
        self.send(&request)?;
        Answer::of(self.reply()?)
    }

    /// Sends requests without waiting.
    pub(crate) fn send(&mut self, requests: &[u8]) -> io::Result<()> {
        self.output.write_all(requests)?;
        self.output.flush()
    }

    /// Waits for the next reply.
    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.replies.next_reply().map_err(invalid)? {
                return Ok(reply);
            }
            match self.input.read(&mut self.chunk) {
                Ok(0) => return Err(closed()),
                Ok(len) => self.replies.push(&self.chunk[..len]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A stream over TLS, whose two directions share the keys.
#[derive(Clone)]
struct BothWays(Rc<RefCell<StreamOwned<ClientConnection, TcpStream>>>);

impl Read for BothWays {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(bytes)
    }
}

impl Write for BothWays {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(input: &'static [u8]) -> Client {
        Client::new(input, io::sink())
    }

    #[test]
    fn replies_are_read_whole() {
        let mut client = replies(b"*4\r\n$3\r\na\r\n\r\n:-5\r\n*0\r\n$-1\r\n+OK\r\n-ERR no\r\n");
        let text = |text: &str| Answer::Text(text.to_string());
        let list = vec![text("a\r\n"), Answer::Number(-5), Answer::List(vec![]), Answer::Nothing];
        assert_eq!(client.ask("x").unwrap(), Answer::List(list));
        assert_eq!(client.ask("x").unwrap(), text("OK"));
        let error = client.ask("x").unwrap_err();
        assert_eq!(error.to_string(), "the server replied: ERR no");
        assert_eq!(client.ask("x").unwrap_err().to_string(), "the connection was closed");
    }

    #[test]
    fn invalid_replies_are_refused() {
        let nested: &str = "*1\r\n".repeat(100_000).leak();
        let others =
            ["\r\n", "HTTP/1.1 400\r\n", "$99999999999\r\n", "$x\r\n", "*1\r\n", "ä\r\n", "%0\r\n"];
        for input in [nested].into_iter().chain(others) {
            assert!(replies(input.as_bytes()).ask("x").is_err(), "{input:.20?}");
        }
    }
}
