//! A proxy between a replica and its primary that cuts links, slows them down, or holds back what one side sends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
    /// Whether new links are refused once the present ones were cut.
    refuses_later: AtomicBool,
    links: Mutex<Vec<TcpStream>>,
    /// How much later everything arrives, in milliseconds.
    delay: AtomicU64,
    /// Whether bytes are held back, by the side that has sent them.
    holds: [AtomicBool; 2],
}

/// Who has sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Replica = 0,
    Primary = 1,
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
            refuses_later: AtomicBool::new(false),
            links: Mutex::default(),
            delay: AtomicU64::new(0),
            holds: Default::default(),
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

    /// Everything arrives later from now on, as on a long way.
    pub fn delay(&self, by: Duration) {
        self.state.delay.store(by.as_millis() as u64, Ordering::SeqCst);
    }

    /// Whether what this side sends is held back: neither side notices more than silence.
    pub fn hold(&self, sender: Sender, holds: bool) {
        self.state.holds[sender as usize].store(holds, Ordering::SeqCst);
    }

    /// New links are refused after the next cut.
    pub fn refuse_after_cut(&self) {
        self.state.refuses_later.store(true, Ordering::SeqCst);
    }
}

impl State {
    fn begin(self: &Arc<Self>, near: TcpStream) {
        let Ok(far) = TcpStream::connect(self.target) else { return };
        let (mut from_near, mut to_near) = (near.try_clone().unwrap(), near.try_clone().unwrap());
        let (mut from_far, mut to_far) = (far.try_clone().unwrap(), far.try_clone().unwrap());
        self.links.lock().unwrap().extend([near, far]);
        let (state, other) = (self.clone(), self.clone());
        thread::spawn(move || state.pass(&mut from_near, &mut to_far, Sender::Replica));
        thread::spawn(move || other.pass(&mut from_far, &mut to_near, Sender::Primary));
    }

    fn pass(&self, from: &mut TcpStream, to: &mut TcpStream, sender: Sender) {
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            thread::sleep(Duration::from_millis(self.delay.load(Ordering::SeqCst)));
            while self.holds[sender as usize].load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            let left = match sender {
                Sender::Primary => self.left.load(Ordering::SeqCst),
                Sender::Replica => NEVER,
            };
            if to.write_all(&buffer[..len.min(left)]).is_err() {
                break;
            }
            if left <= len {
                // The last bytes must arrive before the end of the link does.
                thread::sleep(Duration::from_millis(1));
                self.cut();
                break;
            }
            if left < NEVER {
                self.left.fetch_sub(len, Ordering::SeqCst);
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    fn cut(&self) {
        if self.refuses_later.swap(false, Ordering::SeqCst) {
            self.refuses.store(true, Ordering::SeqCst);
        }
        self.links.lock().unwrap().drain(..).for_each(|link| _ = link.shutdown(Shutdown::Both));
        self.left.store(NEVER, Ordering::SeqCst);
    }
}
