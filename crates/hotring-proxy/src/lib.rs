//! One address for all keys of a cluster: a proxy for clients that know nothing of clusters. It also serves pools of
//! servers that know nothing of each other (`foreign`).
//!
//! A client's requests go to the nodes that have their keys, and the replies come back in the order of the requests.
//! The nodes check passwords and permissions: connections to nodes log in as the client has. The crate must not keep
//! data, and must not decide who may do what.
//!
//! Every thread serves the clients that it has accepted, over connections to nodes of its own; nothing is shared on the
//! way of a request. `plan` decides where a request goes, `combine` makes one reply of several, `upstream` is a
//! connection to a node, `settle` decides what becomes of a request that a node refuses or that a lost connection
//! leaves open.
#![forbid(unsafe_code)]

mod client;
mod combine;
mod counter;
mod discover;
mod foreign;
mod info;
mod input;
mod layout;
mod link;
mod listen;
mod mirror;
mod plan;
mod replies;
mod reply;
mod request;
mod settings;
mod settle;
mod shared;
mod thread;
mod tracking;
mod upstream;
mod upstreams;

pub use listen::Proxy;
pub use settings::Settings;
pub use shared::Admits;
