//! Endpoints of one process whose messages are lost, doubled, late, out of order and damaged, as a seed says.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;

use crate::endpoint::{Completion, Endpoint, Limits, Peer, Slab, Slot};

/// How bad the network is: chances in a thousand, and steps.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    pub lost: u32,
    pub doubled: u32,
    pub damaged: u32,
    pub delay_max: u64,
}

impl Weather {
    pub const CALM: Weather = Weather { lost: 0, doubled: 0, damaged: 0, delay_max: 3 };
}

/// What is under way.
#[derive(Debug)]
pub struct Network {
    pub weather: Weather,
    pub now: u64,
    random: Rng,
    letters: Vec<Letter>,
}

#[derive(Debug)]
struct Letter {
    at: u64,
    from: u64,
    to: u64,
    bytes: Vec<u8>,
}

impl Network {
    pub fn new(random: Rng, weather: Weather) -> Rc<RefCell<Network>> {
        Rc::new(RefCell::new(Network { weather, now: 0, random, letters: Vec::new() }))
    }

    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    fn send(&mut self, from: u64, to: u64, bytes: &[u8]) {
        let Weather { lost, doubled, damaged, delay_max } = self.weather;
        let mut copies = u32::from(self.random.u32(..1000) >= lost);
        copies += u32::from(self.random.u32(..1000) < doubled);
        for _ in 0..copies {
            let mut bytes = bytes.to_vec();
            if self.random.u32(..1000) < damaged {
                let at = self.random.usize(..bytes.len());
                bytes[at] ^= 1 << self.random.u32(..8);
            }
            let at = self.now + self.random.u64(1..=delay_max);
            self.letters.push(Letter { at, from, to, bytes });
        }
    }

    fn arrived(&mut self, to: u64) -> Vec<Letter> {
        let now = self.now;
        let mut arrived: Vec<_> =
            self.letters.extract_if(.., |letter| letter.to == to && letter.at <= now).collect();
        self.random.shuffle(&mut arrived);
        arrived
    }
}

/// One end.
#[derive(Debug)]
pub struct Lossy {
    network: Rc<RefCell<Network>>,
    own: u64,
    slab: Slab,
    posted: VecDeque<Slot>,
    sent: Vec<Slot>,
    /// Messages that found no RECV.
    pub unposted: u64,
}

impl Lossy {
    pub fn new(network: &Rc<RefCell<Network>>, own: u64, slots: u32, slot_len: usize) -> Lossy {
        let (posted, sent) = (VecDeque::new(), Vec::new());
        let (network, slab) = (Rc::clone(network), Slab::new(slots, slot_len));
        Lossy { network, own, slab, posted, sent, unposted: 0 }
    }
}

impl Endpoint for Lossy {
    fn address(&self) -> Vec<u8> {
        self.own.to_le_bytes().to_vec()
    }

    fn peer(&mut self, address: &[u8], _: Duration) -> io::Result<Peer> {
        let number = address.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(Peer(u64::from_le_bytes(number)))
    }

    fn origin(&self, _: Peer) -> String {
        String::new()
    }

    fn limits(&self) -> Limits {
        Limits { message_len_max: self.slab.slot_len(), reliable: false }
    }

    fn slab(&mut self) -> &mut Slab {
        &mut self.slab
    }

    fn post(&mut self, slot: Slot) {
        self.posted.push_back(slot);
    }

    fn send(&mut self, peer: Peer, slot: Slot, len: usize) -> Result<(), Slot> {
        let mut network = self.network.borrow_mut();
        if network.random.u32(..20) == 0 {
            return Err(slot);
        }
        network.send(self.own, peer.0, &self.slab.bytes(&slot)[..len]);
        self.sent.push(slot);
        Ok(())
    }

    fn has_sent_all(&self) -> bool {
        true
    }

    fn takes_nothing(&self, _: Peer, _: Duration) -> bool {
        false
    }

    fn set_unread_max(&mut self, _: Duration) {}

    fn leave(&mut self, _: Peer) {}

    fn poll(&mut self, out: &mut Vec<Completion>) {
        out.extend(self.sent.drain(..).map(Completion::Sent));
        for letter in self.network.borrow_mut().arrived(self.own) {
            let Some(slot) = self.posted.pop_front() else {
                self.unposted += 1;
                continue;
            };
            let len = letter.bytes.len();
            self.slab.bytes_mut(&slot)[..len].copy_from_slice(&letter.bytes);
            out.push(Completion::Received { from: Some(Peer(letter.from)), slot, len });
        }
    }

    fn wait(&mut self, _: Duration, _: Duration) {
        self.network.borrow_mut().now += 1;
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }
}
