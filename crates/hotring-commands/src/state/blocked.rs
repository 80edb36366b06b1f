//! A client that waits in a blocking command for an element of a list or sorted set, and the reply that another
//! session makes for it.

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
    /// Up to this many elements of a list (BLMPOP).
    Elements(End, usize),
    /// One element of a list, to be moved to another list (BLMOVE, BRPOPLPUSH).
    Move { from: End, to: End, destination: Box<[u8]> },
    /// The member with the lowest or the highest score of a sorted set (BZPOPMIN, BZPOPMAX).
    Member(End),
    /// Up to this many such members (BZMPOP).
    Members(End, usize),
}

impl Want {
    /// Redis's name of the key's required type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Want::Element(_) | Want::Elements(..) | Want::Move { .. } => "list",
            Want::Member(_) | Want::Members(..) => "zset",
        }
    }

    /// The key of the list that receives the element.
    pub(crate) fn destination(&self) -> Option<&[u8]> {
        match self {
            Want::Move { destination, .. } => Some(destination),
            _ => None,
        }
    }
}

/// A client that waits. At most one session claims it, when that session has an element for it.
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
    /// The log record of the change that the reply acknowledges.
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

    /// The client behind a taker. All takers of this server are clients.
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
