//! A client that waits for an element of a list or sorted set, and its reply once a session has served it.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use hotring_log::Lsn;
use hotring_protocol::Version;
use hotring_store::{End, Taker};

use crate::state::client::ClientShared;
use crate::table::Spec;

/// The part of a key that a blocking command takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// One element of a list (BLPOP, BRPOP).
    Element(End),
    /// Up to this many (BLMPOP).
    Elements(End, usize),
    /// One element, which goes to another list (BLMOVE, BRPOPLPUSH).
    Move { from: End, to: End, destination: Box<[u8]> },
    /// The member with the lowest or the highest score of a sorted set (BZPOPMIN, BZPOPMAX).
    Member(End),
    /// Up to this many of those (BZMPOP).
    Members(End, usize),
}

impl Want {
    /// Redis's name of the type that it is taken from.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Want::Element(_) | Want::Elements(..) | Want::Move { .. } => "list",
            Want::Member(_) | Want::Members(..) => "zset",
        }
    }

    /// The key that the element goes to.
    pub(crate) fn destination(&self) -> Option<&[u8]> {
        match self {
            Want::Move { destination, .. } => Some(destination),
            _ => None,
        }
    }
}

/// A client that waits. It is claimed at most once, by the session that has an element for it.
#[derive(Debug)]
pub struct Blocked {
    pub(crate) client: Arc<ClientShared>,
    pub(crate) version: Version,
    pub(crate) spec: &'static Spec,
    pub(crate) want: Want,
    served: OnceLock<Served>,
}

/// The reply of a client that was served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) reply: Vec<u8>,
    /// The record of the log that the reply acknowledges.
    pub(crate) logged: Option<Lsn>,
}

impl Blocked {
    pub(crate) fn new(
        client: Arc<ClientShared>,
        version: Version,
        spec: &'static Spec,
        want: Want,
    ) -> Blocked {
        Blocked { client, version, spec, want, served: OnceLock::new() }
    }

    /// All takers of this server are clients.
    pub(crate) fn of(taker: &dyn Taker) -> &Blocked {
        (taker as &dyn Any).downcast_ref().expect("only clients wait in the lines of a server")
    }

    /// Gives the client its reply. Called once, by the session that has claimed it.
    pub(crate) fn serve(&self, served: Served) {
        self.served.set(served).expect("it was claimed once");
        self.client.wake();
    }

    pub(crate) fn served(&self) -> Option<&Served> {
        self.served.get()
    }
}

impl Taker for Blocked {
    fn claim(&self) -> bool {
        self.client.claim()
    }
}
