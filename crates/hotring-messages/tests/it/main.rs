//! The machines with their wrong variants, their unit tests, and the simulator that checks them.
//!
//! This compiles the crate's own sources, so that `cfg(test)` gives them the wrong variants of `faults.rs`.

#[macro_use]
#[path = "../../src/faults.rs"]
mod faults;
#[path = "../../src/caller/mod.rs"]
#[allow(dead_code)]
mod caller;
#[path = "../../src/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../../src/endpoint.rs"]
#[allow(dead_code)]
mod endpoint;
#[path = "../../src/fabric/mod.rs"]
#[allow(dead_code)]
mod fabric;
#[path = "../../src/link.rs"]
#[allow(dead_code)]
mod link;
#[path = "../../src/message/mod.rs"]
#[allow(dead_code)]
mod message;
#[path = "../../src/reply_cache/mod.rs"]
#[allow(dead_code)]
mod reply_cache;
#[path = "../../src/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "../../src/shared.rs"]
#[allow(dead_code)]
mod shared;
#[path = "../../src/slab.rs"]
#[allow(dead_code)]
mod slab;
#[path = "../../src/sockets/mod.rs"]
#[allow(dead_code)]
mod sockets;

mod datagrams;
mod fabric_abi;
mod fabrics;
mod killed;
mod lossy;
mod patience;
mod schedules;
mod sim;
mod streams;
mod threads;
mod unread;
