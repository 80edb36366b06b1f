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
pub struct Blocking(Link);

impl Blocking {
    /// Connects to `HOST:PORT` or `unix:PATH`. The login is checked with the first call.
    ///
    /// # Errors
    /// No server listens there, or the login is too long for a message.
    pub fn connect(address: &str, login: Login, options: Options) -> io::Result<Blocking> {
        Link::connect(address, login, options, RECEIVES).map(Blocking)
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
        let Blocking(link) = self;
        let deadline = link.now().saturating_add(limit);
        let call = link.client.start(operations, deadline)?;
        loop {
            link.step();
            while let Some((ticket, outcome)) = link.client.take() {
                if ticket == call {
                    return Ok(outcome);
                }
            }
            link.wait(Duration::ZERO, limit);
        }
    }
}
