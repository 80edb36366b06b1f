//! Endpoints of one process whose messages are lost, doubled, late, out of order and damaged, as a seed says.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
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
    /// Of datagrams, if more than of others.
    pub lost_datagrams: u32,
    pub doubled: u32,
    pub damaged: u32,
    pub delay_max: u64,
}

impl Weather {
    pub const CALM: Weather =
        Weather { lost: 0, lost_datagrams: 300, doubled: 0, damaged: 0, delay_max: 3 };
}

/// What is under way.
#[derive(Debug)]
pub struct Network {
    pub weather: Weather,
    pub now: u64,
    /// Datagrams that were sent.
    pub datagrams: u64,
    random: Rng,
    letters: Vec<Letter>,
}

#[derive(Debug)]
struct Letter {
    at: u64,
    from: u64,
    to: u64,
    bytes: Vec<u8>,
    is_datagram: bool,
}

impl Network {
    pub fn new(random: Rng, weather: Weather) -> Rc<RefCell<Network>> {
        Rc::new(RefCell::new(Network {
            weather,
            now: 0,
            datagrams: 0,
            random,
            letters: Vec::new(),
        }))
    }

    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    fn send(&mut self, from: u64, to: u64, is_datagram: bool, bytes: &[u8]) {
        let Weather { lost, lost_datagrams, doubled, damaged, delay_max } = self.weather;
        let lost = if is_datagram { lost.max(lost_datagrams) } else { lost };
        let mut copies = u32::from(self.random.u32(..1000) >= lost);
        copies += u32::from(self.random.u32(..1000) < doubled);
        for _ in 0..copies {
            let mut bytes = bytes.to_vec();
            if self.random.u32(..1000) < damaged {
                let at = self.random.usize(..bytes.len());
                bytes[at] ^= 1 << self.random.u32(..8);
            }
            let at = self.now + self.random.u64(1..=delay_max);
            self.letters.push(Letter { at, from, to, bytes, is_datagram });
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

/// The longest datagram.
const DATAGRAM_MAX: usize = 100;

/// One end.
#[derive(Debug)]
pub struct Lossy {
    network: Rc<RefCell<Network>>,
    own: u64,
    slab: Slab,
    posted: VecDeque<Slot>,
    sent: Vec<Slot>,
    /// The peers that take datagrams.
    takers: BTreeSet<Peer>,
    /// Messages that found no RECV.
    pub unposted: u64,
}

impl Lossy {
    pub fn new(network: &Rc<RefCell<Network>>, own: u64, slots: u32, slot_len: usize) -> Lossy {
        let (posted, sent, takers) = (VecDeque::new(), Vec::new(), BTreeSet::new());
        let (network, slab) = (Rc::clone(network), Slab::new(slots, slot_len));
        Lossy { network, own, slab, posted, sent, takers, unposted: 0 }
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
        network.send(self.own, peer.0, false, &self.slab.bytes(&slot)[..len]);
        self.sent.push(slot);
        Ok(())
    }

    fn datagrams_at(&mut self, _: Peer) -> Vec<u8> {
        self.address()
    }

    fn set_datagrams_to(&mut self, peer: Peer, address: &[u8]) {
        match address.is_empty() {
            true => self.takers.remove(&peer),
            false => self.takers.insert(peer),
        };
    }

    fn send_datagram(&mut self, peer: Peer, slot: Slot, len: usize) -> Result<(), Slot> {
        if len > DATAGRAM_MAX || !self.takers.contains(&peer) {
            return Err(slot);
        }
        let mut network = self.network.borrow_mut();
        network.send(self.own, peer.0, true, &self.slab.bytes(&slot)[..len]);
        network.datagrams += 1;
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
        let mut network = self.network.borrow_mut();
        for letter in network.arrived(self.own) {
            let Some(slot) = self.posted.pop_front() else {
                self.unposted += 1;
                // The others stay in their connection.
                if !letter.is_datagram {
                    network.letters.push(letter);
                }
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
