//! A client over an endpoint: posts RECVs, sends what the [`Caller`] wants to be sent, and gives it what arrives.

use std::time::Duration;

use crate::caller::{Batch, Caller, Outcome, Ticket, Unstarted};
use crate::endpoint::{Completion, Endpoint, Peer, Slot};
use crate::message::Operation;

/// A client of one server.
#[derive(Debug)]
pub struct Client<E> {
    endpoint: E,
    server: Peer,
    caller: Caller,
    /// A message that the endpoint had no room for.
    unsent: Option<(Slot, usize)>,
    is_connected: bool,
    /// Messages that could not be read.
    damaged: u64,
    completions: Vec<Completion>,
    out: Vec<u8>,
}

impl<E: Endpoint> Client<E> {
    /// Posts `receives` RECVs, which is how many calls may be in flight; the other slots are for sending.
    pub fn new(mut endpoint: E, server: Peer, mut caller: Caller, receives: usize) -> Client<E> {
        for _ in 0..receives {
            let slot = endpoint.slab().take().expect("more slots than RECVs");
            endpoint.post(slot);
            caller.posted();
        }
        assert!(endpoint.slab().free_len() > 0, "a slot must be left for sending");
        let mut client = Client {
            endpoint,
            server,
            caller,
            unsent: None,
            is_connected: true,
            damaged: 0,
            completions: Vec::new(),
            out: Vec::new(),
        };
        client.open_datagrams();
        client
    }

    fn open_datagrams(&mut self) {
        if self.caller.wants_datagrams() {
            self.caller.set_datagram_address(self.endpoint.datagrams_at(self.server));
        }
    }

    /// Begins a call. See [`Caller::start`].
    pub fn start(
        &mut self,
        operations: &[Operation<'_>],
        deadline: Duration,
    ) -> Result<Ticket, Unstarted> {
        self.caller.start(operations, deadline)
    }

    /// Begins a call for whoever counts them.
    pub(crate) fn start_batch(&mut self, batch: Batch, deadline: Duration) -> Ticket {
        self.caller.start_batch(batch, deadline)
    }

    /// Ends all calls as if their deadlines had come.
    pub fn end_all(&mut self) {
        self.caller.end_due(Duration::MAX);
    }

    /// The next outcome.
    pub fn take(&mut self) -> Option<(Ticket, Outcome)> {
        self.caller.take()
    }

    /// When [`Client::step`] must be called if nothing arrives.
    pub fn next_time(&self) -> Option<Duration> {
        self.caller.next_time()
    }

    /// The first deadline of all calls.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.caller.next_deadline()
    }

    /// Whether the server has let the client in, over the present connection.
    pub fn is_welcome(&self) -> bool {
        self.caller.is_welcome()
    }

    /// Whether a call has not ended.
    pub fn has_calls(&self) -> bool {
        self.caller.has_calls()
    }

    /// Whether the server's peer is still there. If not, connect, and tell [`Client::reconnect`].
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// How many messages could not be read.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The endpoint, to wait or to connect.
    pub fn endpoint(&mut self) -> &mut E {
        &mut self.endpoint
    }

    /// Goes on over another connection.
    pub fn reconnect(&mut self, server: Peer) {
        if server != self.server {
            self.endpoint.leave(self.server);
        }
        (self.server, self.is_connected) = (server, true);
        if let Some((slot, _)) = self.unsent.take() {
            self.endpoint.slab().give(slot);
        }
        self.caller.reconnected();
        self.open_datagrams();
    }

    /// Takes what has arrived, and sends what can be sent.
    pub fn step(&mut self, now: Duration) {
        self.endpoint.poll(&mut self.completions);
        for completion in std::mem::take(&mut self.completions) {
            match completion {
                Completion::Received { slot, len, .. } => {
                    let bytes = &self.endpoint.slab().bytes(&slot)[..len];
                    self.damaged += u64::from(self.caller.receive(now, bytes).is_err());
                    self.endpoint.post(slot);
                    self.caller.posted();
                }
                Completion::Sent(slot) => self.endpoint.slab().give(slot),
                // A client takes no connections.
                Completion::Came(peer) => self.endpoint.leave(peer),
                Completion::Left(peer) => self.is_connected &= peer != self.server,
            }
        }
        self.caller.end_due(now);
        while self.is_connected && self.send(now) {}
    }

    /// Sends one message. False if there is none, or no room.
    fn send(&mut self, now: Duration) -> bool {
        let next = self.unsent.take().or_else(|| {
            let slot = self.endpoint.slab().take()?;
            if !self.caller.next_message(now, &mut self.out) {
                self.endpoint.slab().give(slot);
                return None;
            }
            let len = self.out.len();
            self.endpoint.slab().bytes_mut(&slot)[..len].copy_from_slice(&self.out);
            Some((slot, len))
        });
        let Some((slot, len)) = next else { return false };
        match self.endpoint.send(self.server, slot, len) {
            Ok(()) => true,
            Err(slot) => {
                self.unsent = Some((slot, len));
                false
            }
        }
    }
}
