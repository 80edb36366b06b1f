//! Starts and ends a proxy: its addresses, its threads, its clients.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use hotring_commands::host::threads;
use socket2::{Domain, Socket, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use crate::client::{Client, memcached};
use crate::discover::keep_looking;
use crate::foreign::copy::keep_copying;
use crate::foreign::probe::keep_probing;
use crate::link::Connection;
use crate::settings::Settings;
use crate::shared::{Admits, Shared};
use crate::thread::Thread;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 511;

/// Pause after a connection could not be accepted, for want of file descriptors above all.
const PAUSE: Duration = Duration::from_millis(20);

/// Limit of the time for a handshake of TLS.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Limit of the time in which clients get their last replies when the proxy ends.
const FINISH_MAX: Duration = Duration::from_secs(2);

/// What the clients of an address speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Resp,
    RespOverTls,
    Memcached,
}

/// A running proxy. It ends when it is dropped.
pub struct Proxy {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// Listens and begins to serve.
    ///
    /// # Errors
    ///
    /// A text for the operator: an address that cannot be listened on, faulty TLS files, no thread.
    pub fn start(settings: Settings) -> Result<Proxy, String> {
        Proxy::start_guarded(settings, Box::new(|_, _| true))
    }

    /// The same; `admits` decides which clients are let in.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_guarded(settings: Settings, admits: Admits) -> Result<Proxy, String> {
        let shared = Arc::new(Shared::new(settings, admits)?);
        let plain = shared.settings.listen.iter().map(|address| (*address, Kind::Resp));
        let tls = shared.settings.tls_listen.iter().map(|address| (*address, Kind::RespOverTls));
        let memcached = shared.settings.memcached.iter().map(|address| (*address, Kind::Memcached));
        let listeners: Vec<(TcpListener, Kind)> = plain
            .chain(tls)
            .chain(memcached)
            .map(|(address, kind)| {
                let listener = listen(address);
                let listener = listener.map_err(|why| format!("cannot listen on {address}: {why}"));
                Ok((listener?, kind))
            })
            .collect::<Result<_, String>>()?;
        let addresses = listeners.iter().map(|(listener, _)| listener.local_addr());
        let addresses = addresses.collect::<io::Result<_>>();
        let addresses = addresses.map_err(|why| format!("cannot tell an address: {why}"))?;
        let mut proxy = Proxy { shared: shared.clone(), addresses, threads: Vec::new() };
        let looking = shared.clone();
        proxy.spawn("hotring-proxy-look", move || run_looking(&looking))?;
        for i in 0..shared.settings.threads.max(1) {
            let own = listeners.iter().map(|(listener, kind)| Ok((listener.try_clone()?, *kind)));
            let own = own.collect::<io::Result<Vec<_>>>();
            let own = own.map_err(|why| format!("cannot listen on another thread: {why}"))?;
            let shared = shared.clone();
            proxy.spawn(&format!("hotring-proxy-{i}"), move || run(shared, own))?;
        }
        Ok(proxy)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
        self.threads.push(threads::spawn(name, work).map_err(|error| error.to_string())?);
        Ok(())
    }

    /// The addresses on which it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether it knows the layout of the cluster.
    pub fn is_ready(&self) -> bool {
        self.shared.version() > 0
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the proxy has panicked");
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn run_looking(shared: &Arc<Shared>) {
    on_event_loop(async {
        let watching = async {
            match &shared.foreign {
                Some(pool) => {
                    tokio::join!(keep_probing(shared, pool), keep_copying(shared, pool)).0
                }
                None => keep_looking(shared).await,
            }
        };
        tokio::select! {
            () = watching => {}
            () = shared.stopping() => {}
        }
    });
}

/// Serves the clients of one thread.
fn run(shared: Arc<Shared>, listeners: Vec<(TcpListener, Kind)>) {
    on_event_loop(async {
        let thread = Thread::new(shared.clone());
        let retrying = thread.clone();
        spawn_local(async move { retrying.keep_retrying().await });
        let keeping = thread.clone();
        spawn_local(async move { keeping.keep_house().await });
        let watching = thread.clone();
        spawn_local(async move { watching.keep_watching_access().await });
        let accepting: Vec<_> = listeners
            .into_iter()
            .map(|(listener, kind)| spawn_local(accept(thread.clone(), listener, kind)))
            .collect();
        shared.stopping().await;
        accepting.iter().for_each(|task| task.abort());
        thread.finish(FINISH_MAX).await;
    });
}

fn on_event_loop(task: impl Future<Output = ()>) {
    match threads::event_loop() {
        Ok(runtime) => runtime.block_on(task),
        Err(error) => tracing::error!(%error, "cannot start an event loop"),
    }
}

async fn accept(thread: Rc<Thread>, listener: TcpListener, kind: Kind) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot accept clients"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => begin(&thread, stream, peer, kind),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn begin(thread: &Rc<Thread>, mut stream: TcpStream, peer: SocketAddr, kind: Kind) {
    let shared = thread.shared.clone();
    // ORDERING: Relaxed, a limit that two threads may exceed by one for a moment.
    let clients = shared.clients.fetch_add(1, Ordering::Relaxed);
    let here = Here::new(thread.clone());
    let is_memcached = kind == Kind::Memcached;
    let refusal = match (shared.admits)(peer.ip(), is_memcached) {
        _ if clients >= shared.settings.clients_max => Some("max number of clients reached"),
        true => None,
        false => Some("protected mode: set a password, or protected-mode no"),
    };
    if let Some(why) = refusal {
        shared.counters.refused.add(1);
        let word = if is_memcached { "SERVER_ERROR" } else { "-ERR" };
        spawn_local(async move {
            _ = stream.write_all(format!("{word} {why}\r\n").as_bytes()).await;
            drop(here);
        });
        return;
    }
    let id = shared.counters.accepted.add(1) + 1;
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "a client is gone before it began");
        return;
    }
    let thread = thread.clone();
    spawn_local(async move {
        let served = match secure(&thread, stream, kind).await {
            Ok(stream) if kind == Kind::Memcached => {
                memcached::Client::new(stream, thread).serve().await
            }
            Ok(stream) => Client::new(stream, thread, id, peer.to_string()).serve().await,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "a client's connection was lost");
        }
        drop(here);
    });
}

/// Makes the connection one over TLS, if it came to such an address.
async fn secure(thread: &Thread, stream: TcpStream, kind: Kind) -> io::Result<Box<dyn Connection>> {
    if kind != Kind::RespOverTls {
        return Ok(Box::new(stream));
    }
    let config = thread.shared.client_tls.current().ok_or(io::ErrorKind::Unsupported)?;
    let shaken = tokio::time::timeout(HANDSHAKE_MAX, TlsAcceptor::from(config).accept(stream));
    Ok(Box::new(shaken.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??))
}

/// Counts a client as long as it lives.
struct Here(Rc<Thread>);

impl Here {
    fn new(thread: Rc<Thread>) -> Self {
        thread.clients.set(thread.clients.get() + 1);
        Here(thread)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.clients.set(self.0.clients.get() - 1);
        // ORDERING: Relaxed, as in `begin`.
        self.0.shared.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
