//! Messages between clients and a server, in the style of RDMA's SEND and RECV: a batch of operations is one message,
//! its reply another one. `docs/design/messages.md` describes the bytes and the rules.
//!
//! Three layers. [`message`] has the bytes. [`Caller`] and [`ReplyCache`] are the two ends without I/O: they see to it
//! that a write is applied once, or that its fate is told to be unknown, whatever is lost, doubled or late.
//! [`Client`] and [`Server`] drive them over an [`Endpoint`], which moves messages between buffers; [`Sockets`] is the
//! one that every machine has, [`Fabric`] the one over libfabric.

#[macro_use]
mod faults;

mod blocking;
mod caller;
mod client;
mod endpoint;
mod fabric;
mod link;
pub mod message;
mod reply_cache;
mod server;
mod shared;
mod slab;
mod sockets;

pub use blocking::Blocking;
pub use caller::{Caller, Given, Login, Options, Outcome, Reason, Ticket, Unstarted};
pub use client::Client;
pub use endpoint::{AnyEndpoint, Completion, Endpoint, Limits, Peer, Slab, Slot};
pub use fabric::{Fabric, Provider};
pub use reply_cache::{Admission, Bounds, ReplyCache};
pub use server::{Host, Job, Patience, Server, Wait};
pub use shared::{Pace, Shared};
pub use sockets::{Listener, Sockets, UNIX};
