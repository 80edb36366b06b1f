//! A client that waits for each call's outcome.

use std::io;
use std::time::Duration;

use crate::caller::{Login, Options, Outcome, Unstarted};
use crate::link::Link;
use crate::message::Operation;

/// Replies that may come at once: that of the only call, and the answer to a greeting.
const RECEIVES: u32 = 2;

/// A client of one thread.
#[derive(Debug)]
pub struct Blocking {
    link: Link,
    spin: Duration,
}

impl Blocking {
    /// Connects to `HOST:PORT` or `unix:PATH`, or over a provider of libfabric to one of these, as in `shm,unix:PATH`.
    /// The login is checked with the first call.
    ///
    /// # Errors
    /// No server listens there, or the login is too long for a message.
    pub fn connect(address: &str, login: Login, options: Options) -> io::Result<Blocking> {
        let link = Link::connect(address, login, options, RECEIVES)?;
        Ok(Blocking { link, spin: Duration::ZERO })
    }

    /// How long a call looks for its answer before it sleeps. Without a call it sleeps at once.
    pub fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
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
        let Blocking { link, spin } = self;
        let deadline = link.now().saturating_add(limit);
        let call = link.client.start(operations, deadline)?;
        loop {
            link.step();
            while let Some((ticket, outcome)) = link.client.take() {
                if ticket == call {
                    return Ok(outcome);
                }
            }
            link.wait(*spin, limit);
        }
    }
}
