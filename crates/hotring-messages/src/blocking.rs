//! A client that waits for each call's outcome, and connects again when its connection breaks.

use std::io;
use std::time::{Duration, Instant};

use crate::caller::{Caller, Login, Options, Outcome, Unstarted};
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::message::Operation;
use crate::sockets::Sockets;

/// Slots: one for the reply of the only call, one for the answer to a greeting, the others for sending.
const SLOTS: u32 = 4;
const RECEIVES: usize = 2;

/// Pauses between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A client of one thread.
#[derive(Debug)]
pub struct Blocking {
    client: Client<Sockets>,
    address: Vec<u8>,
    begun: Instant,
    pause: Duration,
}

impl Blocking {
    /// Connects to `HOST:PORT` or `unix:PATH`. The login is checked with the first call.
    ///
    /// # Errors
    /// No server listens there, or the login is too long for a message.
    pub fn connect(address: &str, login: Login, options: Options) -> io::Result<Blocking> {
        let mut endpoint = Sockets::new(SLOTS, options.message_len_max)?;
        let server = endpoint.peer(address.as_bytes())?;
        let caller = Caller::new(login, options).ok_or(io::ErrorKind::InvalidInput)?;
        let client = Client::new(endpoint, server, caller, RECEIVES);
        let (address, begun) = (address.into(), Instant::now());
        Ok(Blocking { client, address, begun, pause: PAUSE_MIN })
    }

    /// Runs operations as one request, and waits for the outcome, at most for `limit`.
    ///
    /// # Errors
    /// The request was not begun: nothing was done.
    pub fn call(
        &mut self,
        operations: &[Operation<'_>],
        limit: Duration,
    ) -> Result<Outcome, Unstarted> {
        let deadline = self.begun.elapsed() + limit;
        let call = self.client.start(operations, deadline)?;
        loop {
            self.client.step(self.begun.elapsed());
            while let Some((ticket, outcome)) = self.client.take() {
                if ticket == call {
                    return Ok(outcome);
                }
            }
            let left = deadline.saturating_sub(self.begun.elapsed());
            if !self.client.is_connected() {
                self.connect_again(left);
                continue;
            }
            let next = self.client.next_time().unwrap_or(deadline);
            let limit = next.saturating_sub(self.begun.elapsed());
            self.client.endpoint().wait(Duration::ZERO, limit.min(left));
        }
    }

    fn connect_again(&mut self, left: Duration) {
        let address = std::mem::take(&mut self.address);
        let connected = self.client.endpoint().peer(&address);
        self.address = address;
        match connected {
            Ok(server) => {
                self.client.reconnect(server);
                self.pause = PAUSE_MIN;
            }
            Err(_) => {
                std::thread::sleep(self.pause.min(left));
                self.pause = (self.pause * 2).min(PAUSE_MAX);
            }
        }
    }
}
