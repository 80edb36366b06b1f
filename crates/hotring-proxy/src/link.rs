//! A connection to a node: dials, logs in, and reads replies one by one.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::time::Duration;

use hotring_protocol::memcached;
use hotring_protocol::{ReplyEnd, ReplyLimits};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, client, server};

use crate::foreign::server::{Kind, Server};
use crate::input::Input;
use crate::plan::write_request;
use crate::reply::{Form, Refusal};
use crate::shared::Shared;

/// Silence after which the system probes a node, so that a connection to one that is gone ends.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Limit of the time to connect and to log in.
const DIAL_MAX: Duration = Duration::from_secs(2);

/// A connection of any kind.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin {
    /// What carries it.
    fn socket(&self) -> &TcpStream;
}

impl Connection for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Connection for client::TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

impl Connection for server::TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Who a connection to a node acts for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Login {
    /// Name and password; None for the default user without a password.
    pub user: Option<(Vec<u8>, Vec<u8>)>,
    pub protocol: Protocol,
}

/// What a connection to a node speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    #[default]
    Resp2,
    Resp3,
    /// memcached's, after a login in RESP.
    Memcached,
    /// memcached's, at a server that speaks nothing else.
    PlainMemcached,
}

impl Protocol {
    pub(crate) fn is_memcached(self) -> bool {
        matches!(self, Protocol::Memcached | Protocol::PlainMemcached)
    }

    /// What a connection to a server of a pool speaks for clients that speak this.
    pub(crate) fn at(self, kind: Kind) -> Protocol {
        match (self, kind) {
            (_, Kind::Memcached) => Protocol::PlainMemcached,
            (Protocol::Memcached, Kind::Redis) => Protocol::Resp2,
            (protocol, _) => protocol,
        }
    }
}

/// Why there is no connection to a node.
#[derive(Debug)]
pub(crate) enum DialError {
    /// What answers there is no node, or there is no answer.
    Unreachable(String),
    /// The node's error for this login.
    Refused(Vec<u8>),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DialError::Unreachable(why) => f.write_str(why),
            DialError::Refused(error) => f.write_str(String::from_utf8_lossy(error).trim_end()),
        }
    }
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        DialError::Unreachable(error.to_string())
    }
}

/// A connection to a node.
pub(crate) struct Link {
    pub stream: Box<dyn Connection>,
    pub input: Input,
    /// The longest reply. Its node is not trusted: its parts may have any number, and each any length.
    reply_max: usize,
    end: ReplyEnd,
    memcached_end: memcached::ReplyEnd,
}

impl Link {
    /// Connects to a node and logs in.
    pub(crate) async fn dial(
        shared: &Shared,
        address: &str,
        login: &Login,
    ) -> Result<Self, DialError> {
        let dialled = tokio::time::timeout(DIAL_MAX, dial(shared, address, login)).await;
        dialled.unwrap_or_else(|_| Err(DialError::Unreachable("connecting takes too long".into())))
    }

    /// Sends a request.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await
    }

    /// The next reply.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<u8>> {
        self.next_of(Form::Resp).await
    }

    /// The next reply, which has this form.
    pub(crate) async fn next_of(&mut self, form: Form) -> io::Result<Vec<u8>> {
        loop {
            if let Some(len) = self.find_end(form)? {
                let reply = self.input.bytes()[..len].to_vec();
                self.input.consume(len);
                return Ok(reply);
            }
            let Link { stream, input, .. } = self;
            if poll_fn(|cx| input.poll_read(stream, 0, cx)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The next reply, if it comes in time.
    pub(crate) async fn next_within(&mut self, form: Form, time: Duration) -> io::Result<Vec<u8>> {
        let next = tokio::time::timeout(time, self.next_of(form)).await;
        next.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The length of the next reply of this form, if it has arrived. An error ends the connection.
    pub(crate) fn find_end(&mut self, form: Form) -> io::Result<Option<usize>> {
        let bytes = self.input.bytes();
        if bytes.is_empty() {
            return Ok(None);
        }
        let found = match form {
            Form::Resp => self.end.find(bytes, &ReplyLimits::default()).map_err(io::Error::other),
            Form::Memcached { form, .. } => {
                let found = self.memcached_end.find(form, bytes);
                found.map_err(|_| io::Error::other("a line without an end"))
            }
        }?;
        match found.unwrap_or(bytes.len()) > self.reply_max {
            true => Err(io::Error::other("a reply longer than output-max")),
            false => Ok(found),
        }
    }

    /// Sends a request and returns its reply, if that comes in time.
    pub(crate) async fn ask_within(
        &mut self,
        request: &[u8],
        time: Duration,
    ) -> io::Result<Vec<u8>> {
        self.send(request).await?;
        self.next_within(Form::Resp, time).await
    }

    /// Sends a request and returns its reply.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        self.send(request).await?;
        self.next().await
    }
}

async fn dial(shared: &Shared, address: &str, login: &Login) -> Result<Link, DialError> {
    let server = match &shared.foreign {
        None => None,
        Some(pool) => Some(pool.server(address).ok_or_else(|| {
            DialError::Unreachable("it is no server of the pool any more".to_string())
        })?),
    };
    let (login, tls) = match server.as_deref() {
        // The pool's file says who the proxy is to its servers.
        Some(Server { login: user, tls, kind, .. }) => {
            let login = Login { user: user.clone(), protocol: login.protocol.at(*kind) };
            (&login.clone(), shared.tls.as_ref().filter(|_| *tls))
        }
        None => (login, shared.tls.as_ref()),
    };
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    let stream: Box<dyn Connection> = match tls {
        None => Box::new(stream),
        Some(tls) => {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let name = ServerName::try_from(host.trim_matches(['[', ']']).to_string())
                .map_err(|why| DialError::Unreachable(format!("TLS: {why}")))?;
            Box::new(TlsConnector::from(tls.clone()).connect(name, stream).await?)
        }
    };
    let mut link = Link {
        stream,
        input: Input::default(),
        reply_max: shared.settings.output_max,
        end: ReplyEnd::default(),
        memcached_end: memcached::ReplyEnd::default(),
    };
    let mut greeting = Vec::new();
    if let Some((user, password)) = &login.user {
        write_request([b"AUTH", &user[..], password].into_iter(), &mut greeting);
    }
    match login.protocol {
        Protocol::Resp2 | Protocol::PlainMemcached => {}
        Protocol::Resp3 => write_request([&b"HELLO"[..], b"3"].into_iter(), &mut greeting),
        Protocol::Memcached => {
            write_request([&b"HOTRING.MEMCACHED"[..]].into_iter(), &mut greeting);
        }
    }
    if greeting.is_empty() {
        return Ok(link);
    }
    link.send(&greeting).await?;
    let greets = !matches!(login.protocol, Protocol::Resp2 | Protocol::PlainMemcached);
    for _ in 0..usize::from(login.user.is_some()) + usize::from(greets) {
        let reply = link.next().await?;
        if reply.starts_with(b"-") {
            return Err(match Refusal::read(&reply) {
                Some(_) => DialError::Unreachable("the node is not ready".to_string()),
                None => DialError::Refused(reply),
            });
        }
    }
    Ok(link)
}
