//! The address and protocol of a server, parsed from a URL, and a blocking connection to it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result};

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The protocol of Redis (RESP).
    Resp,
    /// The text protocol of memcached.
    Memcached,
    /// RESP as a null server speaks it: every answer is a constant.
    Null,
}

/// The endpoint on which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `HOST:PORT`.
    Tcp(String),
    /// The path of a unix socket.
    Unix(PathBuf),
}

/// The address of a server, written `redis://HOST:PORT`, `memcached://HOST:PORT`, `null://HOST:PORT`, or
/// `unix:///PATH` for a server that speaks RESP on a unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The protocol.
    pub protocol: Protocol,
    /// The endpoint on which the server listens.
    pub endpoint: Endpoint,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            Protocol::Resp => "redis",
            Protocol::Memcached => "memcached",
            Protocol::Null => "null",
        };
        match (&self.endpoint, self.protocol) {
            (Endpoint::Tcp(endpoint), _) => write!(f, "{scheme}://{endpoint}"),
            (Endpoint::Unix(path), Protocol::Resp) => write!(f, "unix://{}", path.display()),
            (Endpoint::Unix(path), _) => write!(f, "{scheme}+unix://{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "an address looks like redis://127.0.0.1:6379, memcached://127.0.0.1:11211 \
                       or unix:///run/redis.sock";
        let (scheme, endpoint) = text.split_once("://").ok_or(example)?;
        let protocol = match scheme {
            "redis" | "unix" => Protocol::Resp,
            "memcached" => Protocol::Memcached,
            "null" => Protocol::Null,
            _ => return Err(example.into()),
        };
        if scheme == "unix" {
            let endpoint = Endpoint::Unix(PathBuf::from(endpoint));
            return if text.len() > "unix:///".len() {
                Ok(Address { protocol, endpoint })
            } else {
                Err(example.into())
            };
        }
        match endpoint.trim_end_matches('/').rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Address { protocol, endpoint: Endpoint::Tcp(format!("{host}:{port}")) })
            }
            _ => Err(example.into()),
        }
    }
}

/// A connection over either kind of socket.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a unix socket.
    Unix(UnixStream),
}

impl Endpoint {
    /// Host and port, or the path.
    pub fn text(&self) -> String {
        match self {
            Endpoint::Tcp(address) => address.clone(),
            Endpoint::Unix(path) => path.display().to_string(),
        }
    }

    /// Connects to the server. Sets `TCP_NODELAY` on TCP.
    pub fn connect(&self) -> Result<Stream> {
        Ok(match self {
            Endpoint::Tcp(endpoint) => {
                let stream = TcpStream::connect(endpoint);
                let stream = stream.with_context(|| format!("cannot connect to {endpoint}"))?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path);
                Stream::Unix(
                    stream.with_context(|| format!("cannot connect to {}", path.display()))?,
                )
            }
        })
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Unix(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_they_are_written() {
        for text in [
            "redis://127.0.0.1:6379",
            "redis://[::1]:80",
            "memcached://cache:11211",
            "null://127.0.0.1:1",
            "unix:///run/hotring.sock",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let slash: Address = "redis://[::1]:80/".parse().unwrap();
        assert_eq!(slash.endpoint, Endpoint::Tcp("[::1]:80".into()));
    }

    #[test]
    fn only_whole_addresses_are_taken() {
        for bad in [
            "127.0.0.1:6379",
            "redis://host",
            "redis://:1",
            "redis://h:70000",
            "unix:///",
            "http://h:1",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
