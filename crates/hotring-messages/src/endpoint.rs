//! What moves messages: an endpoint with a slab of slots, RECVs that are posted before messages come, and completions.
//!
//! The shape is that of an RDMA endpoint, so that a back end for one copies nothing: the slab is registered once, a
//! slot belongs to the endpoint from `post` or `send` until a completion gives it back, and nothing moves unless
//! `poll` is called. A [`Slot`] cannot be copied, so that no slot is touched while the endpoint has it.

use std::fmt::Debug;
use std::io;
use std::task::Waker;
use std::time::Duration;

pub use crate::slab::{Slab, Slot};

/// One end that receives and sends messages. One thread uses it.
pub trait Endpoint: Debug {
    /// The address under which others reach this end.
    fn address(&self) -> Vec<u8>;

    /// The peer of an address; connects if the back end has connections, and waits for that, at most for about `limit`.
    fn peer(&mut self, address: &[u8], limit: Duration) -> io::Result<Peer>;

    /// Where a connected peer has come from; empty if the back end does not know.
    fn origin(&self, peer: Peer) -> String;

    /// What fits, and what is certain.
    fn limits(&self) -> Limits;

    /// The slots that the endpoint does not have.
    fn slab(&mut self) -> &mut Slab;

    /// Posts a RECV: the next message that arrives, from whatever peer, goes to this slot.
    fn post(&mut self, slot: Slot);

    /// Sends the first `len` bytes of a slot, at most [`Limits::message_len_max`]. Gives the slot back if there is no
    /// room now: poll, and try again. A message to a peer that has left is lost.
    fn send(&mut self, peer: Peer, slot: Slot, len: usize) -> Result<(), Slot>;

    /// Where datagrams of a connected peer come to, for it alone to know; empty if they cannot come.
    fn datagrams_at(&mut self, _peer: Peer) -> Vec<u8> {
        Vec::new()
    }

    /// Where datagrams for a connected peer go, as it has told; empty for nowhere.
    fn set_datagrams_to(&mut self, _peer: Peer, _address: &[u8]) {}

    /// As [`send`](Self::send), but as a datagram, which may be lost. Gives the slot back if that cannot be.
    fn send_datagram(&mut self, _peer: Peer, slot: Slot, _len: usize) -> Result<(), Slot> {
        Err(slot)
    }

    /// Whether everything that was sent has left this end.
    fn has_sent_all(&self) -> bool;

    /// Whether a peer has taken nothing of what waits for it for this long.
    fn takes_nothing(&self, peer: Peer, time: Duration) -> bool;

    /// Has a peer left that takes nothing of what waits for it for this long.
    fn set_unread_max(&mut self, unread_max: Duration);

    /// Ends the connection to a peer, if there is one. No completion tells it.
    fn leave(&mut self, peer: Peer);

    /// Makes progress, and appends what is completed.
    fn poll(&mut self, out: &mut Vec<Completion>);

    /// Waits until `poll` may have something: looks all the time for `spin`, then sleeps, at most `limit` in all.
    fn wait(&mut self, spin: Duration, limit: Duration);

    /// What ends a wait from another thread, or the next one.
    fn waker(&self) -> Waker;
}

/// Who sends or gets a message. A number is never used for another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u64);

/// What an endpoint can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message in bytes: never longer than a slot.
    pub message_len_max: usize,
    /// Whether a message arrives, once, unless the peer leaves. Datagrams may be lost, doubled and late.
    pub reliable: bool,
}

/// What has happened.
#[derive(Debug)]
pub enum Completion {
    /// A peer has connected. Back ends without connections never say so.
    Came(Peer),
    /// A message has arrived in a posted slot.
    Received {
        /// The sender; none if the back end cannot tell, as the sender's address is not known yet.
        from: Option<Peer>,
        /// The slot of the RECV.
        slot: Slot,
        /// The message's length in bytes.
        len: usize,
    },
    /// The slot of a SEND is free again. That does not say that the message has arrived.
    Sent(Slot),
    /// The connection to a peer is over. What was sent and not answered may be lost.
    Left(Peer),
}

/// An endpoint that was chosen at run time.
pub type AnyEndpoint = Box<dyn Endpoint + Send>;

impl Endpoint for AnyEndpoint {
    fn address(&self) -> Vec<u8> {
        (**self).address()
    }

    fn peer(&mut self, address: &[u8], limit: Duration) -> io::Result<Peer> {
        (**self).peer(address, limit)
    }

    fn origin(&self, peer: Peer) -> String {
        (**self).origin(peer)
    }

    fn limits(&self) -> Limits {
        (**self).limits()
    }

    fn slab(&mut self) -> &mut Slab {
        (**self).slab()
    }

    fn post(&mut self, slot: Slot) {
        (**self).post(slot);
    }

    fn send(&mut self, peer: Peer, slot: Slot, len: usize) -> Result<(), Slot> {
        (**self).send(peer, slot, len)
    }

    fn datagrams_at(&mut self, peer: Peer) -> Vec<u8> {
        (**self).datagrams_at(peer)
    }

    fn set_datagrams_to(&mut self, peer: Peer, address: &[u8]) {
        (**self).set_datagrams_to(peer, address);
    }

    fn send_datagram(&mut self, peer: Peer, slot: Slot, len: usize) -> Result<(), Slot> {
        (**self).send_datagram(peer, slot, len)
    }

    fn has_sent_all(&self) -> bool {
        (**self).has_sent_all()
    }

    fn takes_nothing(&self, peer: Peer, time: Duration) -> bool {
        (**self).takes_nothing(peer, time)
    }

    fn set_unread_max(&mut self, unread_max: Duration) {
        (**self).set_unread_max(unread_max);
    }

    fn leave(&mut self, peer: Peer) {
        (**self).leave(peer);
    }

    fn poll(&mut self, out: &mut Vec<Completion>) {
        (**self).poll(out);
    }

    fn wait(&mut self, spin: Duration, limit: Duration) {
        (**self).wait(spin, limit);
    }

    fn waker(&self) -> Waker {
        (**self).waker()
    }
}
