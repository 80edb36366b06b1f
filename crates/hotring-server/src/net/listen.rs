//! Listening sockets: binds them, accepts connections, hands each to the least loaded thread.
//!
//! One thread accepts for all. The kernel could distribute connections with `SO_REUSEPORT`, but it
//! does so by hash, so a handful of busy connections easily end up on one thread.

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use tokio::sync::mpsc::UnboundedSender;

use hotring_commands::host::clock;
use hotring_commands::host::start_error::StartError;
use hotring_commands::settings::config::Config;
use hotring_commands::state::server::Server;

/// Delay before the next accept when the process has run out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Least time between two log lines about exhausted file descriptors.
const FILES_LOG_PAUSE: Duration = Duration::from_secs(10);

/// Replies to a connection above `maxclients`: Redis's text and memcached's.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
const TOO_MANY_MEMCACHED: &[u8] = b"ERROR Too many open connections\r\n";

/// Reply to a remote connection in protected mode; Redis's code.
const PROTECTED: &[u8] =
    b"-DENIED Redis is running in protected mode: the default user has no password, \
    so only connections from the same machine are accepted. Either set a password by CONFIG SET \
    requirepass or --requirepass, or, if only machines that you trust can reach this address, turn \
    protected mode off by CONFIG SET protected-mode no or --protected-mode no\r\n";

/// The same for memcached clients.
const PROTECTED_MEMCACHED: &[u8] = b"SERVER_ERROR protected mode: only connections from the same machine are \
    accepted. Either name users in memcached-auth-file, or, if only machines that you trust can reach this \
    address, turn protected mode off by --protected-mode no\r\n";

/// A connection on its way to a thread.
pub(crate) enum Incoming {
    /// Plain TCP.
    Tcp(TcpStream, SocketAddr),
    /// TCP with TLS.
    Tls(TcpStream, SocketAddr),
    /// TCP with the memcached protocol.
    Memcached(TcpStream, SocketAddr),
    /// Unix socket.
    Unix(UnixStream),
}

/// Wraps an accepted TCP connection for the protocol of its listener.
pub(crate) type Spoken = fn(TcpStream, SocketAddr) -> Incoming;

/// Binds TCP addresses. One with a leading '-' is optional: it is skipped if this machine does not
/// have it.
pub(crate) fn bind_tcp(
    addresses: &[String],
    config: &Config,
) -> Result<Vec<TcpListener>, StartError> {
    let mut listeners = Vec::new();
    for text in addresses {
        let (is_optional, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.as_str()),
        };
        for address in resolve(text)? {
            match bind_one(address, config.tcp_backlog) {
                Ok(listener) => listeners.push(listener),
                Err(error) if is_optional && is_missing(&error) => {
                    tracing::info!(%address, "skipping an optional address that this machine does not have");
                }
                Err(error) => return Err(bind_error(address, &error)),
            }
        }
    }
    if listeners.is_empty() && !addresses.is_empty() {
        let all = addresses.join(" ");
        return Err(StartError::new(format!("cannot listen: this machine has none of {all}")));
    }
    Ok(listeners)
}

/// Whether binding failed because this machine has no such address.
fn is_missing(error: &io::Error) -> bool {
    const NO_SUCH_FAMILY: i32 = 97;
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(NO_SUCH_FAMILY)
}

/// Binds the address of the setting `admin`, if there is one.
pub(crate) fn bind_admin(config: &Config) -> Result<Option<TcpListener>, StartError> {
    let Some(text) = &config.admin else { return Ok(None) };
    let Some(address) = resolve(text)?.into_iter().next() else { return Ok(None) };
    if config.protected_mode && !address.ip().is_loopback() {
        return Err(StartError::new(format!(
            "refusing to serve the status page on {text}: other machines can reach this address, and \
             the page shows clients and keys without a password.\n\
             Either set admin to an address on 127.0.0.1, or to none, or, if only machines that you trust \
             can reach it, say so with --protected-mode no"
        )));
    }
    let listener = bind_one(address, config.tcp_backlog);
    listener.map(Some).map_err(|error| bind_error(address, &error))
}

fn resolve(text: &str) -> Result<Vec<SocketAddr>, StartError> {
    // Redis's notation for every address.
    let plain = text.strip_prefix("*:").map(|port| format!("0.0.0.0:{port}"));
    let plain = plain.as_deref().unwrap_or(text);
    let found = plain.to_socket_addrs().map_err(|error| {
        StartError::new(format!(
            "cannot listen on '{text}': {error}; expected an address such as 127.0.0.1:6379 or [::1]:6379"
        ))
    })?;
    // A name such as localhost may resolve to several addresses; the first is enough.
    Ok(found.take(1).collect())
}

fn bind_error(address: SocketAddr, error: &io::Error) -> StartError {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another program uses this port.\nStop it (find it with: ss -ltnp 'sport = :{0}'), or \
             choose another port: --listen {1}:{2}",
            address.port(),
            address.ip(),
            address.port().wrapping_add(1).max(1024),
        ),
        io::ErrorKind::PermissionDenied => {
            "not permitted; ports below 1024 need privileges, choose a higher one".to_string()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; list them with: ip address".to_string()
        }
        _ => error.to_string(),
    };
    StartError::new(format!("cannot listen on {address}: {advice}"))
}

fn bind_one(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Binds the unix socket, replacing a file left by a dead server.
pub(crate) fn bind_unix(
    path: &Path,
    config: &Config,
) -> Result<(UnixListener, UnixPath), StartError> {
    let failed =
        |why: String| StartError::new(format!("cannot listen on {}: {why}", path.display()));
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(failed("a file with this name exists and is not a socket".to_string()));
        }
        match UnixStream::connect(path) {
            Ok(_) => {
                return Err(failed(
                    "another server listens there; stop it or choose another path".to_string(),
                ));
            }
            // Only this error proves that no server listens; any other may come from a live one.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(|e| failed(e.to_string()))?;
            }
            Err(error) => {
                return Err(failed(format!(
                    "the socket exists, and it is unclear whether a server listens on it: {error}"
                )));
            }
        }
    }
    bind_unix_file(path, config).map_err(|e| failed(e.to_string()))
}

fn bind_unix_file(path: &Path, config: &Config) -> io::Result<(UnixListener, UnixPath)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = UnixPath::of(path)?;
    // Before `listen`: until then no client can connect, whatever the file's permissions were.
    fs::set_permissions(path, fs::Permissions::from_mode(config.unixsocketperm))?;
    socket.listen(i32::try_from(config.tcp_backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), file))
}

/// Removes the unix socket's file on drop, unless another file has replaced it.
pub(crate) struct UnixPath {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl UnixPath {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(UnixPath { path: path.to_path_buf(), file: Self::file(path)? })
    }

    fn file(path: &Path) -> io::Result<(u64, u64)> {
        fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
    }
}

impl Drop for UnixPath {
    fn drop(&mut self) {
        if Self::file(&self.path).is_ok_and(|file| file == self.file) {
            // Already gone: nothing to do.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Assigns connections to threads and enforces `maxclients`.
pub(crate) struct Acceptor {
    /// The shared state of the server.
    pub server: Arc<Server>,
    /// The channel to each thread.
    pub threads: Vec<UnboundedSender<Incoming>>,
    /// When exhausted file descriptors were last logged.
    pub files_logged: Cell<Option<Instant>>,
}

impl Acceptor {
    /// Accepts from a TCP listener until the server stops; `spoken` is its protocol.
    pub(crate) async fn accept_tcp(
        self: Rc<Self>,
        listener: tokio::net::TcpListener,
        spoken: Spoken,
    ) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    match self.prepare(&stream).and_then(|()| stream.into_std()) {
                        Ok(stream) => self.hand_over(spoken(stream, peer)),
                        Err(error) => tracing::debug!(%error, "connection lost while accepting"),
                    }
                }
                Err(error) => self.pause(&error).await,
            }
        }
    }

    /// Accepts from the unix socket until the server stops.
    pub(crate) async fn accept_unix(self: Rc<Self>, listener: tokio::net::UnixListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => match stream.into_std() {
                    Ok(stream) => self.hand_over(Incoming::Unix(stream)),
                    Err(error) => tracing::debug!(%error, "connection lost while accepting"),
                },
                Err(error) => self.pause(&error).await,
            }
        }
    }

    fn prepare(&self, stream: &tokio::net::TcpStream) -> io::Result<()> {
        // Otherwise the last part of a pipeline's replies would wait for the client's ACK.
        stream.set_nodelay(true)?;
        let seconds = self.server.settings.config().tcp_keepalive_s;
        if seconds > 0 {
            let interval = Duration::from_secs((seconds / 3).max(1));
            let keepalive = TcpKeepalive::new()
                .with_time(Duration::from_secs(seconds))
                .with_interval(interval)
                .with_retries(3);
            SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
        }
        Ok(())
    }

    fn hand_over(&self, incoming: Incoming) {
        self.server.observe.accepts.accepted.add(1);
        let is_protected = match &incoming {
            Incoming::Tcp(_, peer) | Incoming::Tls(_, peer) => {
                self.server.is_protected_from(peer.ip())
            }
            Incoming::Memcached(_, peer) => self.server.is_memcached_protected_from(peer.ip()),
            Incoming::Unix(_) => false,
        };
        if is_protected {
            self.server.observe.accepts.protected.add(1);
            return refuse(incoming, PROTECTED, PROTECTED_MEMCACHED);
        }
        if self.connections_len() >= self.server.settings.config().maxclients {
            self.server.observe.accepts.rejected.add(1);
            return refuse(incoming, TOO_MANY, TOO_MANY_MEMCACHED);
        }
        let load = |i: &usize| self.server.threads[*i].connections.load(Ordering::Relaxed);
        let thread = (0..self.threads.len()).min_by_key(load).expect("there is a thread");
        // ORDERING: Relaxed, a number for balancing and for the limit. It is raised here and not by
        // the thread, so that a burst of connections is spread before any of them is served.
        self.server.threads[thread].connections.fetch_add(1, Ordering::Relaxed);
        if self.threads[thread].send(incoming).is_err() {
            tracing::debug!("a connection came while the server was stopping");
        }
    }

    /// Waits after a failed accept, so that a repeated error does not become a busy loop.
    async fn pause(&self, error: &io::Error) {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        if !matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
            tracing::debug!(%error, "accept failed");
            tokio::time::sleep(Duration::from_millis(1)).await;
            return;
        }
        let now = clock::monotonic();
        if self.files_logged.get().is_none_or(|then| now - then >= FILES_LOG_PAUSE) {
            self.files_logged.set(Some(now));
            tracing::warn!(
                "out of file descriptors: new connections wait; raise the limit with ulimit -n, or \
                 lower maxclients"
            );
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    fn connections_len(&self) -> usize {
        self.server.threads.iter().map(|t| t.connections.load(Ordering::Relaxed)).sum()
    }
}

/// Tells a client why it is refused, in its protocol; never blocks.
fn refuse(incoming: Incoming, why: &[u8], why_memcached: &[u8]) {
    use std::io::Write;
    // A client that is gone or does not read misses only this explanation.
    let _ = match incoming {
        Incoming::Tcp(mut stream, _) => stream.write(why),
        Incoming::Memcached(mut stream, _) => stream.write(why_memcached),
        // A TLS client would not understand plain text.
        Incoming::Tls(..) => Ok(0),
        Incoming::Unix(mut stream) => stream.write(why),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Redis's own configuration file has `bind 127.0.0.1 -::1`, which once kept the server from
    /// starting without IPv6.
    #[test]
    fn addresses_that_may_be_missing_are_passed_over() {
        let bind = |addresses: &[&str]| {
            let addresses: Vec<String> = addresses.iter().map(|a| a.to_string()).collect();
            bind_tcp(&addresses, &Config::default()).map(|listeners| listeners.len())
        };
        // TEST-NET-1 belongs to no machine.
        assert_eq!(bind(&["127.0.0.1:0", "-192.0.2.1:0"]), Ok(1));
        assert!(bind(&["127.0.0.1:0", "192.0.2.1:0"]).is_err());
        let error = bind(&["-192.0.2.1:0"]).unwrap_err().to_string();
        assert!(error.contains("none of -192.0.2.1:0"), "{error}");
        // An address in use is not a missing one.
        let other = bind_one(([127, 0, 0, 1], 0).into(), 1).unwrap();
        let taken = format!("-{}", other.local_addr().unwrap());
        assert!(bind(&[&taken]).unwrap_err().to_string().contains("another program"));
    }
}
