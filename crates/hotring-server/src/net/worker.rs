//! One I/O thread: a current-thread runtime that serves the connections handed to it.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use hotring_coordinator::Embedded;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::LocalRuntime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::net::listen::Incoming;
use crate::net::socket::{Socket, Thread};
use hotring_commands::exec::Conversation;
use hotring_commands::host::clock;
use hotring_commands::observe::beats;
use hotring_commands::state::client::{ClientShared, KILLED};
use hotring_commands::state::server::Server;

/// Time limit for clients to fetch their last replies when the server stops.
const FINISH_MAX: Duration = Duration::from_secs(5);

/// Time between two looks of an idle thread at memory that was removed.
const IDLE: Duration = Duration::from_secs(1);

/// Beats without a turn of any connection after which a thread is idle: removed memory has been reclaimed by then,
/// unless another thread still reads it.
const BEATS_TO_IDLE: u32 = 10;

/// The event loop of I/O thread `index`. A thread that sleeps until there is work has no beats: so it need not wake for
/// them.
pub(crate) fn event_loop(server: &Arc<Server>, index: usize) -> io::Result<LocalRuntime> {
    // Not the server: it has wakers of this event loop, and so both would stay for ever.
    let (beats, started) = (server.threads[index].beats.clone(), server.process.started);
    let sleeping = beats.clone();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || sleeping.end())
        .on_thread_unpark(move || beats.beat(started))
        .build_local(Default::default())
}

/// Serves connections until the server stops. Runs on its own OS thread.
pub(crate) fn run(
    runtime: &LocalRuntime,
    server: &Arc<Server>,
    embedded: Option<Embedded>,
    index: usize,
    seed: u64,
    incoming: UnboundedReceiver<Incoming>,
) {
    let thread = Rc::new(Thread::new(server.clone(), embedded, index, seed));
    runtime.block_on(async {
        // Before anything runs: a thread that gets stuck in its first request must have been seen
        // once.
        server.threads[index].beats.beat(server.process.started);
        let receiving = tokio::task::spawn_local(receive(thread.clone(), incoming));
        let collecting = tokio::task::spawn_local(collect(thread.clone()));
        // Runs until the end: replies of connections that are finishing wait for the log, too.
        let waiting = thread.clone();
        tokio::task::spawn_local(async move { waiting.wake_logged().await });
        server.process.stopping().await;
        receiving.abort();
        collecting.abort();
        finish(&thread).await;
        server.threads[index].beats.end();
    });
}

/// Beats for the watchdog while the thread is too busy to sleep, and reclaims removed memory even while no command
/// runs; without any, it costs one comparison.
async fn collect(thread: Rc<Thread>) {
    let mut quiet = 0;
    loop {
        thread.server.threads[thread.index].beats.beat(thread.server.process.started);
        thread.collect();
        quiet = if thread.activity.has_been_active() { 0 } else { quiet + 1 };
        if quiet < BEATS_TO_IDLE {
            tokio::time::sleep(beats::BEAT).await;
        } else {
            // A busy thread must beat: it may not sleep until the idle time has passed.
            let _ = tokio::time::timeout(IDLE, thread.activity.begins()).await;
        }
    }
}

async fn receive(thread: Rc<Thread>, mut incoming: UnboundedReceiver<Incoming>) {
    while let Some(connection) = incoming.recv().await {
        let started = match connection {
            Incoming::Tcp(stream, peer) => {
                let local = stream.local_addr().map(|a| a.to_string()).unwrap_or_default();
                TcpStream::from_std(stream)
                    .map(|stream| start(&thread, stream, peer.to_string(), local))
            }
            Incoming::Memcached(stream, peer) => {
                let local = stream.local_addr().map(|a| a.to_string()).unwrap_or_default();
                TcpStream::from_std(stream)
                    .map(|stream| start_memcached(&thread, stream, peer.to_string(), local))
            }
            Incoming::Tls(stream, peer) => {
                let local = stream.local_addr().map(|a| a.to_string()).unwrap_or_default();
                TcpStream::from_std(stream)
                    .map(|stream| start_tls(&thread, stream, peer.to_string(), local))
            }
            Incoming::Unix(stream) => {
                let path = thread.server.process.unix_path.as_ref();
                let local = path.map(|p| format!("{}:0", p.display())).unwrap_or_default();
                tokio::net::UnixStream::from_std(stream)
                    .map(|stream| start(&thread, stream, local.clone(), local))
            }
        };
        if let Err(error) = started {
            // ORDERING: Relaxed, a number for balancing; the acceptor had counted the connection.
            thread.server.threads[thread.index].connections.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(%error, "cannot serve a connection");
        }
    }
}

fn start<S>(thread: &Rc<Thread>, stream: S, peer: String, local: String)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let shared = thread.server.clients.enter(peer, local, thread.index);
    tracing::debug!(client = shared.id, peer = %shared.peer, "connected");
    let conversation = Conversation::new(shared, &thread.server);
    tokio::task::spawn_local(Socket::new(stream, thread.clone(), conversation).serve());
}

fn start_memcached(thread: &Rc<Thread>, stream: TcpStream, peer: String, local: String) {
    let shared = thread.server.clients.enter(peer, local, thread.index);
    tracing::debug!(client = shared.id, peer = %shared.peer, "connected (memcached)");
    let conversation = Conversation::memcached(shared, &thread.server);
    tokio::task::spawn_local(Socket::new(stream, thread.clone(), conversation).serve());
}

/// Performs the TLS handshake, then serves. The connection counts towards `maxclients` from the
/// start, so that unfinished handshakes cannot get around the limit.
fn start_tls(thread: &Rc<Thread>, stream: TcpStream, peer: String, local: String) {
    let shared = thread.server.clients.enter(peer, local, thread.index);
    let thread = thread.clone();
    tokio::task::spawn_local(async move {
        match shake_hands(&thread.server, &shared, stream).await {
            Ok(stream) => {
                tracing::debug!(client = shared.id, peer = %shared.peer, "connected (TLS)");
                let mut conversation = Conversation::new(shared, &thread.server);
                conversation.client.uses_tls = true;
                Socket::new(stream, thread, conversation).serve().await;
            }
            Err(error) => {
                tracing::debug!(peer = %shared.peer, %error, "a TLS handshake failed");
                thread.server.leave(&shared);
            }
        }
    });
}

/// The TLS stream, if the handshake completes in time, before the server stops and before the
/// connection is killed.
async fn shake_hands(
    server: &Server,
    shared: &ClientShared,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let config = server.process.tls.current().ok_or(io::ErrorKind::Unsupported)?;
    let limit = match server.settings.config().handshake_timeout_s {
        0 => Duration::MAX,
        seconds => Duration::from_secs(seconds),
    };
    let accept = TlsAcceptor::from(config).accept(stream);
    let mut accept = pin!(tokio::time::timeout(limit, accept));
    let mut stopping = pin!(server.process.stopping());
    std::future::poll_fn(|cx| {
        // Set before the check, so that a later kill wakes this task.
        shared.set_waker(cx.waker());
        let is_killed = shared.signals() & KILLED != 0;
        if is_killed || stopping.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let in_time =
            |done: Result<_, _>| done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        accept.as_mut().poll(cx).map(in_time)
    })
    .await
}

/// Lets every connection run its received requests and send its replies.
async fn finish(thread: &Thread) {
    thread.finishing.set(true);
    let deadline = clock::monotonic() + FINISH_MAX;
    loop {
        thread.server.threads[thread.index].beats.beat(thread.server.process.started);
        let mut open = 0;
        for client in thread.server.clients.all() {
            if client.thread == thread.index {
                open += 1;
                client.wake();
            }
        }
        if open == 0 {
            return;
        }
        if clock::monotonic() >= deadline {
            tracing::warn!(connections = open, "some clients did not fetch their last replies");
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
