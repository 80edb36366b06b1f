//! A client that connects again when its connection breaks: what `Blocking` and `Shared` drive.

use std::io;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::caller::{Caller, Login, Options};
use crate::client::Client;
use crate::endpoint::{AnyEndpoint, Endpoint};
use crate::fabric::{Fabric, Provider};
use crate::sockets::Sockets;

/// Slots for sending, beside one for each reply.
const SENDS: u32 = 2;

/// Pauses between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The longest attempt to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// After this long without a sign of life the server is asked for one; twice as long, and it has left.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Most bytes of all slots.
const SLAB_LEN_MAX: usize = 1 << 30;

/// An end for the server of an address: `HOST:PORT` or `unix:PATH`, with a provider of libfabric and a comma before it
/// if the messages go over that.
pub fn endpoint(address: &str, slots: u32, message_len_max: usize) -> io::Result<AnyEndpoint> {
    match Provider::split(address) {
        (Some(provider), address) => {
            let mut fabric = Fabric::new(provider, address, slots, message_len_max)?;
            fabric.set_keepalive(Some(SILENCE_MAX));
            Ok(Box::new(fabric))
        }
        (None, _) => {
            let mut sockets = Sockets::new(slots, message_len_max)?;
            sockets.set_keepalive(Some(SILENCE_MAX));
            Ok(Box::new(sockets))
        }
    }
}

/// A client, its address, and its clock.
#[derive(Debug)]
pub struct Link {
    pub client: Client<AnyEndpoint>,
    address: Vec<u8>,
    begun: Instant,
    pause: Duration,
    /// No attempt to connect is made before.
    again_at: Duration,
}

impl Link {
    /// Connects, for at most `receives` calls in flight.
    pub fn connect(
        address: &str,
        login: Login,
        options: Options,
        receives: u32,
    ) -> io::Result<Link> {
        let slots = receives.saturating_add(SENDS);
        if (slots as usize).saturating_mul(options.message_len_max) > SLAB_LEN_MAX {
            let why = "calls in flight times the longest message must be at most 1 GiB";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let number = getrandom::u64().map_err(io::Error::other)?;
        let caller = Caller::new(number, login, options).ok_or_else(|| {
            let why = "the login does not fit into a message";
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        let mut endpoint = endpoint(address, slots, options.message_len_max)?;
        let server = endpoint.peer(address.as_bytes(), CONNECT_LIMIT)?;
        let client = Client::new(endpoint, server, caller, receives as usize);
        let (address, begun) = (address.into(), Instant::now());
        Ok(Link { client, address, begun, pause: PAUSE_MIN, again_at: Duration::ZERO })
    }

    /// The time that deadlines are of.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What ends a wait from another thread.
    pub fn waker(&mut self) -> Waker {
        self.client.endpoint().waker()
    }

    /// Receives and sends, and connects again if a call needs it and the last attempt was long enough ago.
    pub fn step(&mut self) {
        let now = self.now();
        self.client.step(now);
        if self.client.is_connected() && self.client.is_welcome() {
            self.pause = PAUSE_MIN;
        }
        if !self.client.is_connected() && self.again_at <= now && self.client.has_calls() {
            self.connect_again(now);
        }
    }

    fn connect_again(&mut self, now: Duration) {
        let deadline = self.client.next_deadline().unwrap_or(now);
        let limit = deadline.saturating_sub(now).clamp(PAUSE_MIN, CONNECT_LIMIT);
        // A failure is tried again. So is a connection that the server ends, as it does if it is full.
        let connected = self.client.endpoint().peer(&self.address, limit);
        self.again_at = self.now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        if let Ok(server) = connected {
            self.client.reconnect(server);
            self.client.step(self.now());
        }
    }

    /// Waits until there is something to do, at most for `limit`, the first `spin` of it without sleeping.
    pub fn wait(&mut self, spin: Duration, limit: Duration) {
        let now = self.now();
        let next = match self.client.is_connected() {
            true => self.client.next_time(),
            false => self.client.next_deadline().map(|deadline| deadline.min(self.again_at)),
        };
        let limit = next.map_or(limit, |next| next.saturating_sub(now).min(limit));
        self.client.endpoint().wait(spin, limit);
    }
}
