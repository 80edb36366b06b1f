//! `null-server`: serves requests without any lookup, as the lower bound of a server's cost.
//!
//! It reads, splits pipelines into requests, and answers each with a constant, in one write per read. It uses the
//! same I/O engine as hotring's server, in the same way: a current-thread tokio runtime per core, one read buffer
//! for all connections of a thread, an acceptor that distributes connections round-robin. It must share no code
//! with that server, so that any additional work there, the handling of sockets included, shows as a multiple of
//! this limit.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Turn, Poll, ready};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, LocalRuntime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::dialect::NULL_VALUE;

/// Serve constant replies: the upper limit for the compared servers
#[derive(Debug, Args)]
pub struct NullServerArgs {
    /// Address to listen on; port 0 chooses a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Also listen on this unix socket
    #[arg(long)]
    unixsocket: Option<PathBuf>,
    /// Threads that serve connections
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Length of the value in each reply to GET, in bytes
    #[arg(long, default_value_t = 8)]
    value_size: usize,
}

/// Bytes per read, as in hotring's server, or more if values are long. A request longer than half of the buffer
/// ends its connection.
const READ_LEN: usize = 64 << 10;

/// The largest number accepted in a request.
const NUMBER_MAX: usize = 1 << 30;

enum Incoming {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl NullServerArgs {
    /// Serves until the process ends.
    pub fn run(&self) -> Result<()> {
        ensure!(self.threads > 0, "--threads must be at least 1");
        let tcp = TcpListener::bind(self.listen);
        let tcp = tcp.with_context(|| format!("cannot listen on {}", self.listen))?;
        println!("null server on null://{}", tcp.local_addr()?);
        let mut doors = Vec::new();
        for _ in 0..self.threads {
            let (door, incoming) = unbounded_channel();
            doors.push(door);
            let value = value_reply(self.value_size);
            std::thread::spawn(move || serve(incoming, value));
        }
        if let Some(path) = &self.unixsocket {
            let unix = UnixListener::bind(path);
            let unix = unix.with_context(|| format!("cannot listen on {}", path.display()))?;
            let doors = doors.clone();
            std::thread::spawn(move || {
                accept(&doors, || unix.accept().map(|(s, _)| Incoming::Unix(s)))
            });
        }
        accept(&doors, || {
            let (stream, _) = tcp.accept()?;
            stream.set_nodelay(true)?;
            Ok(Incoming::Tcp(stream))
        });
        bail!("nothing more to accept from")
    }
}

/// The reply to every GET.
fn value_reply(value_len: usize) -> Vec<u8> {
    let mut reply = format!("${value_len}\r\n").into_bytes();
    reply.resize(reply.len() + value_len, NULL_VALUE);
    reply.extend_from_slice(b"\r\n");
    reply
}

/// Distributes connections over the threads in turn.
fn accept(doors: &[UnboundedSender<Incoming>], next: impl Fn() -> io::Result<Incoming>) {
    for door in doors.iter().cycle() {
        match next() {
            Ok(incoming) => {
                if door.send(incoming).is_err() {
                    return;
                }
            }
            Err(error) => eprintln!("note: a connection was lost while accepting it: {error}"),
        }
    }
}

/// The state shared by the connections of a thread.
struct Work {
    read: Box<[u8]>,
    replies: Vec<u8>,
    value: Vec<u8>,
}

fn serve(incoming: UnboundedReceiver<Incoming>, value: Vec<u8>) {
    let runtime: LocalRuntime = Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a process that could open listeners can open an event loop");
    let read = vec![0; READ_LEN.max(4 * value.len())].into();
    let work = Work { read, replies: Vec::new(), value };
    runtime.block_on(receive(incoming, Rc::new(RefCell::new(work))));
}

async fn receive(mut incoming: UnboundedReceiver<Incoming>, work: Rc<RefCell<Work>>) {
    while let Some(connection) = incoming.recv().await {
        if let Err(error) = start(connection, &work) {
            eprintln!("note: cannot serve a connection: {error}");
        }
    }
}

fn start(connection: Incoming, work: &Rc<RefCell<Work>>) -> io::Result<()> {
    match connection {
        Incoming::Tcp(stream) => {
            stream.set_nonblocking(true)?;
            tokio::task::spawn_local(
                Socket::new(tokio::net::TcpStream::from_std(stream)?, work).serve(),
            );
        }
        Incoming::Unix(stream) => {
            stream.set_nonblocking(true)?;
            tokio::task::spawn_local(
                Socket::new(tokio::net::UnixStream::from_std(stream)?, work).serve(),
            );
        }
    }
    Ok(())
}

struct Socket<S> {
    stream: S,
    work: Rc<RefCell<Work>>,
    /// The beginning of an incomplete request.
    carried: Vec<u8>,
    /// Replies; the kernel has taken those before `sent`.
    unsent: Vec<u8>,
    sent: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    fn new(stream: S, work: &Rc<RefCell<Work>>) -> Self {
        Socket { stream, work: work.clone(), carried: Vec::new(), unsent: Vec::new(), sent: 0 }
    }

    /// Serves until the connection ends. A client that violates the protocol or disconnects only loses its
    /// connection.
    async fn serve(mut self) {
        let _ = poll_fn(|turn| self.poll(turn)).await;
    }

    fn poll(&mut self, turn: &mut Turn<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.sent < self.unsent.len() {
                let rest = &self.unsent[self.sent..];
                self.sent += ready!(Pin::new(&mut self.stream).poll_write(turn, rest))?;
            }
            self.unsent = Vec::new();
            self.sent = 0;
            if ready!(self.poll_requests(turn))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Reads once and answers the complete requests. Returns 0 at the end of the stream.
    fn poll_requests(&mut self, turn: &mut Turn<'_>) -> Poll<io::Result<usize>> {
        let work = &mut *self.work.borrow_mut();
        let carried = self.carried.len();
        let mut buffer = ReadBuf::new(&mut work.read[carried..]);
        ready!(Pin::new(&mut self.stream).poll_read(turn, &mut buffer))?;
        let read = buffer.filled().len();
        if read == 0 {
            return Poll::Ready(Ok(0));
        }
        work.read[..carried].copy_from_slice(&self.carried);
        work.replies.clear();
        let input = &work.read[..carried + read];
        let left = &input[answer(input, &work.value, &mut work.replies)?..];
        if left.len() > work.read.len() / 2 {
            return Poll::Ready(Err(broken()));
        }
        self.carried.clear();
        self.carried.extend_from_slice(left);
        let written = match Pin::new(&mut self.stream).poll_write(turn, &work.replies)? {
            Poll::Ready(written) => written,
            Poll::Pending => 0,
        };
        self.unsent.extend_from_slice(&work.replies[written..]);
        Poll::Ready(Ok(read))
    }
}

/// Answers the complete requests at the start of the input, and returns their length.
fn answer(input: &[u8], value: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
    let mut done = 0;
    while let Some((length, command)) = request(&input[done..])? {
        done += length;
        match command {
            b'G' | b'g' => out.extend_from_slice(value),
            b'S' | b's' => out.extend_from_slice(b"+OK\r\n"),
            b'D' | b'd' => out.extend_from_slice(b":1\r\n"),
            _ => out.extend_from_slice(b"-ERR a null server knows GET, SET and DEL\r\n"),
        }
    }
    Ok(done)
}

/// The length of the request at the start of the input and the first letter of its command, or None if the
/// request is incomplete.
fn request(input: &[u8]) -> io::Result<Option<(usize, u8)>> {
    let Some((args, mut at)) = number(input, 0, b'*')? else { return Ok(None) };
    let mut command = b' ';
    for arg in 0..args {
        let Some((length, start)) = number(input, at, b'$')? else { return Ok(None) };
        at = start + length + 2;
        if at > input.len() {
            return Ok(None);
        }
        if arg == 0 {
            command = input[start];
        }
    }
    Ok((at <= input.len()).then_some((at, command)))
}

/// The number after a mark and the end of its line, or None if the line is incomplete.
fn number(input: &[u8], start: usize, mark: u8) -> io::Result<Option<(usize, usize)>> {
    let Some(&first) = input.get(start) else { return Ok(None) };
    if first != mark {
        return Err(broken());
    }
    let mut number = 0;
    for (at, &byte) in input.iter().enumerate().skip(start + 1) {
        match byte {
            b'0'..=b'9' if number <= NUMBER_MAX => number = 10 * number + usize::from(byte - b'0'),
            b'\r' if number <= NUMBER_MAX => return Ok(Some((number, at + 2))),
            _ => return Err(broken()),
        }
    }
    Ok(None)
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no request that a null server reads")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_once_it_is_complete() {
        let input = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n\
                      *1\r\n$4\r\nPING\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";
        let value = value_reply(3);
        let mut whole = Vec::new();
        assert_eq!(answer(input, &value, &mut whole).unwrap(), input.len());
        let text = "$3\r\nxxx\r\n+OK\r\n-ERR a null server knows GET, SET and DEL\r\n:1\r\n";
        assert_eq!(String::from_utf8(whole.clone()).unwrap(), text);
        // The same in two parts, cut anywhere.
        for cut in 0..input.len() {
            let mut out = Vec::new();
            let done = answer(&input[..cut], &value, &mut out).unwrap();
            let rest = answer(&input[done..], &value, &mut out).unwrap();
            assert_eq!((done + rest, &out), (input.len(), &whole), "cut at {cut}");
        }
    }

    #[test]
    fn invalid_requests_are_refused() {
        for bad in ["GET key\r\n", "*1\r\nPING\r\n", "*1\r\n$x\r\n", "*99999999999999999999\r\n"] {
            assert!(answer(bad.as_bytes(), b"", &mut Vec::new()).is_err(), "{bad}");
        }
    }
}
