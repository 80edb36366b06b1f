//! A proxy between a replica and its primary that cuts links, and holds back what either side sends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A proxy; its threads end with the process.
pub struct Proxy {
    state: Arc<State>,
    port: u16,
}

struct State {
    target: SocketAddr,
    /// Bytes from the primary until all links are cut.
    left: AtomicUsize,
    refuses: AtomicBool,
    /// What the replica sends, and what the primary sends, stays here for now.
    holds: [AtomicBool; 2],
    links: Mutex<Vec<TcpStream>>,
}

const NEVER: usize = usize::MAX >> 1;

impl Proxy {
    pub fn new(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            target,
            left: AtomicUsize::new(NEVER),
            refuses: AtomicBool::new(false),
            holds: Default::default(),
            links: Mutex::default(),
        });
        let shared = state.clone();
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                if !shared.refuses.load(Ordering::SeqCst) {
                    shared.begin(near);
                }
            }
        });
        Proxy { state, port }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts all links once this many more bytes have come from the primary.
    pub fn cut_after(&self, bytes: usize) {
        self.state.left.store(bytes, Ordering::SeqCst);
        if bytes == 0 {
            self.state.cut();
        }
    }

    /// Whether the links were cut since the last call of `cut_after`.
    pub fn is_cut(&self) -> bool {
        self.state.left.load(Ordering::SeqCst) == NEVER
    }

    pub fn never_cut(&self) {
        self.state.left.store(NEVER, Ordering::SeqCst);
    }

    /// Whether new links are refused.
    pub fn refuse(&self, refuses: bool) {
        self.state.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Whether what the replica sends stays here, acknowledgements included.
    pub fn hold_back_replica(&self, holds: bool) {
        self.state.holds[0].store(holds, Ordering::SeqCst);
    }

    /// Whether what either side sends stays here.
    pub fn hold_back_both(&self, holds: bool) {
        self.state.holds.iter().for_each(|held| held.store(holds, Ordering::SeqCst));
    }
}

impl State {
    /// Waits while what this side sends must stay here.
    fn wait(&self, side: usize) {
        while self.holds[side].load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn begin(self: &Arc<Self>, near: TcpStream) {
        let Ok(far) = TcpStream::connect(self.target) else { return };
        let (mut from_near, mut to_near) = (near.try_clone().unwrap(), near.try_clone().unwrap());
        let (mut from_far, mut to_far) = (far.try_clone().unwrap(), far.try_clone().unwrap());
        self.links.lock().unwrap().extend([near, far]);
        let state = self.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = from_near.read(&mut buffer) {
                state.wait(0);
                if to_far.write_all(&buffer[..len]).is_err() {
                    break;
                }
            }
            let _ = to_far.shutdown(Shutdown::Both);
        });
        let state = self.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = from_far.read(&mut buffer) {
                state.wait(1);
                let left = state.left.load(Ordering::SeqCst);
                if to_near.write_all(&buffer[..len.min(left)]).is_err() {
                    break;
                }
                if left <= len {
                    // The last bytes must arrive before the end of the link does.
                    thread::sleep(Duration::from_millis(1));
                    state.cut();
                    break;
                }
                if left < NEVER {
                    state.left.fetch_sub(len, Ordering::SeqCst);
                }
            }
            let _ = to_near.shutdown(Shutdown::Both);
        });
    }

    fn cut(&self) {
        self.links.lock().unwrap().drain(..).for_each(|link| _ = link.shutdown(Shutdown::Both));
        self.left.store(NEVER, Ordering::SeqCst);
    }
}
