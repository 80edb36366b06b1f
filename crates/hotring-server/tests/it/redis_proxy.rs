//! A proxy between a replica and its primary, which cuts the link at a byte or refuses connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// No cut.
const NEVER: u64 = u64::MAX;

struct State {
    /// Bytes of the primary that pass before the next cut.
    left: AtomicU64,
    refuses: AtomicBool,
    refuses_later: AtomicBool,
    ends: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// A proxy in front of one address.
pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
}

impl Proxy {
    pub fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            left: AtomicU64::new(NEVER),
            refuses: AtomicBool::new(false),
            refuses_later: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let shared = state.clone();
        std::thread::spawn(move || {
            for replica in listener.incoming() {
                let Ok(replica) = replica else { continue };
                if shared.ends.load(SeqCst) {
                    return;
                }
                if shared.refuses.load(SeqCst) {
                    continue;
                }
                let Ok(primary) = TcpStream::connect(target) else { continue };
                let ends = [replica.try_clone().unwrap(), primary.try_clone().unwrap()];
                shared.open.lock().unwrap().extend(ends);
                let [to_primary, from_replica] =
                    [primary.try_clone().unwrap(), replica.try_clone().unwrap()];
                let state = shared.clone();
                std::thread::spawn(move || pass(from_replica, to_primary, None));
                std::thread::spawn(move || pass(primary, replica, Some(&state)));
            }
        });
        Proxy { address, state }
    }

    /// Cuts the link now.
    pub fn cut(&self) {
        self.state.left.store(NEVER, SeqCst);
        self.state.cut();
    }

    /// Cuts the link after this many more bytes of the primary.
    pub fn cut_after(&self, bytes: u64) {
        self.state.left.store(bytes, SeqCst);
    }

    /// Whether connections are refused; a present one is cut if so.
    pub fn refuse(&self, refuses: bool) {
        self.state.refuses.store(refuses, SeqCst);
        if refuses {
            self.cut();
        }
    }

    /// Whether connections are refused after the next cut at a byte.
    pub fn refuse_later(&self, refuses: bool) {
        self.state.refuses_later.store(refuses, SeqCst);
    }
}

impl State {
    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The bytes out of `len` that pass, and whether the link is cut behind them.
    fn passing(&self, len: usize) -> (usize, bool) {
        let left = self.left.load(SeqCst);
        if left == NEVER || len as u64 <= left {
            let taken = if left == NEVER { 0 } else { len as u64 };
            self.left.fetch_sub(taken, SeqCst);
            return (len, false);
        }
        self.left.store(NEVER, SeqCst);
        if self.refuses_later.swap(false, SeqCst) {
            self.refuses.store(true, SeqCst);
        }
        (left as usize, true)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ends.store(true, SeqCst);
        self.cut();
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: Option<&State>) {
    let mut buffer = [0; 4096];
    loop {
        let len = from.read(&mut buffer).unwrap_or(0);
        let (len, is_cut) = state.map_or((len, false), |state| state.passing(len));
        if len > 0 && to.write_all(&buffer[..len]).is_err() || len == 0 || is_cut {
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
    }
}
