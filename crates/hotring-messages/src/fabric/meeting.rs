//! What an endpoint and its peers say over their sockets: how they meet, wake each other, and see each other end.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::control::Control;
use super::{Fabric, Link, provider};
use crate::endpoint::{Completion, Endpoint, Peer};

impl Fabric {
    /// Says something over a peer's socket. False if there is no room.
    pub(super) fn say(&mut self, peer: Peer, control: Control<'_>) -> bool {
        let Some(slot) = self.sockets.slab().take() else { return false };
        let written = control.write(self.sockets.slab().bytes_mut(&slot));
        let sent = match written {
            Some(len) => self.sockets.send(peer, slot, len),
            None => Err(slot),
        };
        sent.map_err(|slot| self.sockets.slab().give(slot)).is_ok()
    }

    /// Tells a peer this end's address, and the token for its messages.
    pub(super) fn greet(&mut self, peer: Peer) -> io::Result<()> {
        let token = getrandom::u64().map_err(io::Error::other)?;
        let name = self.device.name()?;
        self.tokens.insert(token, peer);
        match self.say(peer, Control::Greeting { token, name: &name }) {
            true => Ok(()),
            false => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Takes what has come over the sockets.
    pub(super) fn look(&mut self) {
        let mut events = Vec::new();
        self.sockets.poll(&mut events);
        self.looked_at = Instant::now();
        if events.iter().any(|event| matches!(event, Completion::Left(_))) {
            // What a peer has sent before it ended comes first.
            self.progress();
        }
        for event in events {
            match event {
                Completion::Came(peer) => self.completed.push(Completion::Came(peer)),
                Completion::Sent(slot) => self.sockets.slab().give(slot),
                Completion::Left(peer) => {
                    self.forget(peer);
                    self.completed.push(Completion::Left(peer));
                }
                Completion::Received { from: Some(peer), slot, len } => {
                    let bytes = self.sockets.slab().bytes(&slot)[..len].to_vec();
                    self.sockets.post(slot);
                    let is_right = match Control::read(&bytes) {
                        Some(Control::Bell) => true,
                        Some(Control::Greeting { token, name }) => self.meet(peer, token, name),
                        None => false,
                    };
                    if !is_right {
                        self.end(peer);
                    }
                }
                Completion::Received { from: None, slot, .. } => self.sockets.post(slot),
            }
        }
    }

    /// Takes a peer's greeting, and answers it. False if it is not acceptable.
    fn meet(&mut self, peer: Peer, token: u64, name: &[u8]) -> bool {
        if self.links.contains_key(&peer) || self.links.len() >= self.peers_max {
            return false;
        }
        // A client must never make this end connect to another machine.
        let origin = self.sockets.origin(peer);
        let may_be = |ip: IpAddr| match origin.parse::<SocketAddr>() {
            Ok(origin) => ip == origin.ip(),
            // A Unix socket's.
            Err(_) => ip.is_loopback(),
        };
        let must_be_checked = self.listens && self.provider.has_ip();
        if must_be_checked && !provider::ip_of(name).is_some_and(may_be) {
            return false;
        }
        let Some(address) = self.device.insert(name) else { return false };
        let spoken_at = self.looked_at;
        let link =
            Link { address, token, pending: 0, unread_since: None, spoken_at, is_over: false };
        self.links.insert(peer, link);
        !self.listens || self.greet(peer).is_ok()
    }

    /// Waits for the greeting of a server.
    pub(super) fn await_greeting(&mut self, peer: Peer, limit: Duration) -> io::Result<()> {
        let begun = Instant::now();
        while !self.links.contains_key(&peer) {
            let left = limit.checked_sub(begun.elapsed()).ok_or(ErrorKind::TimedOut)?;
            self.sockets.wait(Duration::ZERO, left);
            self.look();
            let is_left = |one: &Completion| matches!(one, Completion::Left(left) if *left == peer);
            if self.completed.iter().any(is_left) {
                self.completed.retain(|one| !is_left(one));
                let why = "the server takes no such connection here: see its setting fabric";
                return Err(io::Error::new(ErrorKind::ConnectionRefused, why));
            }
        }
        Ok(())
    }
}
