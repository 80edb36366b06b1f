//! Clients that keep copies (CLIENT TRACKING). Such a client has connections to the nodes of its own, on which they
//! note what it reads. Their messages are passed on.
//!
//! 1. A message must not overtake the reply to a request that was sent before: with the old value, which comes behind
//!    it, the client would have a copy of which no node knows. So a message takes the next place among the replies.
//!    If too many wait there, one that tells the client to drop all copies replaces them, behind the last.
//! 2. When a connection has ended, or the routes have changed, messages may have been lost: the client is told to drop
//!    all copies, behind the replies to all that it has sent so far.
//! 3. A connection on which nothing comes is asked from time to time. So one whose node is cut off ends.
//! 4. In broadcast mode nodes tell of keys that the client has read elsewhere. So there must be a connection to each
//!    primary, and once a new one is there the client drops all copies.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};

use crate::link::{DialError, Link};
use crate::replies::Replies;
use crate::reply::{DROP_ALL, Refusal};
use crate::upstreams::Upstreams;

/// Clients of one thread that keep copies at the same time. Each has connections of its own.
const TRACKERS_MAX: usize = 1_000;

/// How the copies of one client are kept true.
pub(crate) struct Tracking {
    /// The requests that begin it on a connection.
    pub setup: Vec<u8>,
    /// The number of these.
    pub n_setup: usize,
    pub is_broadcast: bool,
    /// The client may keep copies, and gets messages.
    pub is_on: Cell<bool>,
    /// The replies of the client.
    pub replies: Rc<Replies>,
}

impl Tracking {
    /// Of a client that has these replies. It is off.
    pub(crate) fn new(
        setup: Vec<u8>,
        n_setup: usize,
        is_broadcast: bool,
        replies: Rc<Replies>,
    ) -> Rc<Self> {
        Rc::new(Tracking { setup, n_setup, is_broadcast, is_on: Cell::new(false), replies })
    }

    /// Begins on a new connection.
    pub(crate) async fn begin(&self, link: &mut Link) -> Result<(), DialError> {
        let reply = ask_all(link, &self.setup, self.n_setup).await?;
        if reply.starts_with(b"-") {
            return Err(match Refusal::read(&reply) {
                Some(_) => DialError::Unreachable("the node is not ready".to_string()),
                None => DialError::Refused(reply),
            });
        }
        if self.is_broadcast {
            self.drop_all();
        }
        Ok(())
    }

    /// Passes a message of a node on.
    pub(crate) fn pass_on(&self, message: &[u8]) {
        if self.is_on.get() {
            self.replies.tell(message);
        }
    }

    /// Tells the client to drop all copies.
    pub(crate) fn drop_all(&self) {
        self.pass_on(DROP_ALL);
    }
}

/// The clients of a thread that keep copies.
#[derive(Default)]
pub(crate) struct Trackers(RefCell<Vec<Weak<Upstreams>>>);

impl Trackers {
    /// Whether there is room for the connections of another client.
    pub(crate) fn has_room(&self) -> bool {
        self.all().len() < TRACKERS_MAX
    }

    /// Adds a client.
    pub(crate) fn add(&self, upstreams: &Rc<Upstreams>) {
        self.0.borrow_mut().push(Rc::downgrade(upstreams));
    }

    /// The connections of all that are still there.
    pub(crate) fn all(&self) -> Vec<Rc<Upstreams>> {
        let known = &mut *self.0.borrow_mut();
        known.retain(|upstreams| upstreams.strong_count() > 0);
        known.iter().filter_map(Weak::upgrade).collect()
    }

    /// Tells all to drop all copies, after a change of the routes.
    pub(crate) fn drop_all(&self) {
        for upstreams in self.all() {
            upstreams.tracking.iter().for_each(|tracking| tracking.drop_all());
        }
    }
}

/// Sends this many requests, and returns the first error among the replies, or the last one.
pub(crate) async fn ask_all(link: &mut Link, requests: &[u8], n: usize) -> io::Result<Vec<u8>> {
    link.send(requests).await?;
    let mut left = n;
    loop {
        let reply = link.next().await?;
        left -= usize::from(!reply.starts_with(b">"));
        if reply.starts_with(b"-") || left == 0 {
            return Ok(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::link::Login;
    use crate::settings::Settings;
    use crate::shared::Shared;
    use crate::thread::Thread;

    fn tracker(thread: &Thread) -> Rc<Upstreams> {
        let tracking = Tracking::new(Vec::new(), 0, false, Rc::default());
        tracking.is_on.set(true);
        let upstreams = Upstreams::tracking(&Upstreams::new(Login::default()), tracking);
        thread.trackers.add(&upstreams);
        upstreams
    }

    fn told(upstreams: &Upstreams) -> Vec<u8> {
        let mut out = Vec::new();
        upstreams.tracking.as_ref().unwrap().replies.take_ready(&mut out);
        out
    }

    /// A node that is no primary any more may tell nothing.
    #[test]
    fn copies_are_dropped_when_the_routes_change() {
        let shared = Shared::new(Settings::default(), Box::new(|_, _| true)).unwrap();
        let thread = Thread::new(Arc::new(shared));
        let (one, other) = (tracker(&thread), tracker(&thread));
        thread.moved(7, "a:1");
        assert_eq!([told(&one), told(&other)], [DROP_ALL, DROP_ALL]);
        thread.moved(7, "a:1");
        assert_eq!(told(&one), b"");
        // A layout without this slot.
        thread.shared.publish(Default::default());
        thread.renew();
        assert_eq!(told(&one), DROP_ALL);
        thread.shared.publish(Default::default());
        thread.renew();
        assert_eq!(told(&one), b"");
        one.tracking.as_ref().unwrap().is_on.set(false);
        drop(other);
        thread.moved(7, "b:1");
        assert_eq!((told(&one), thread.trackers.all().len()), (Vec::new(), 1));
    }

    #[test]
    fn clients_that_keep_copies_are_bounded() {
        let shared = Shared::new(Settings::default(), Box::new(|_, _| true)).unwrap();
        let thread = Thread::new(Arc::new(shared));
        let mut known: Vec<_> = (0..TRACKERS_MAX).map(|_| tracker(&thread)).collect();
        assert!(!thread.trackers.has_room());
        known.pop();
        assert!(thread.trackers.has_room());
    }
}
