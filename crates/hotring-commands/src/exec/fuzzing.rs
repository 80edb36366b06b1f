//! An in-process server without sockets or background threads, for the fuzz target of scripts. Built only with
//! `--cfg fuzzing`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hotring_store::Options;

use crate::exec::{Conversation, Executor};
use crate::settings::config::Config;
use crate::state::server::{Parts, Server};

/// The time of all requests, in Unix milliseconds.
const NOW: u64 = 1_700_000_000_000;

/// A server that runs requests on the calling thread.
pub struct InProcess {
    server: Arc<Server>,
    executor: Executor,
}

/// A connection to the server.
pub struct Connection(Conversation);

impl InProcess {
    /// A server with these settings and an empty store.
    pub fn new(config: Config) -> Self {
        let options = Options { value_len_max: config.bulk_len_max, ..Options::default() };
        let server = Arc::new(Server::new(Parts::unconnected(options, config)));
        let executor = Executor::new(server.clone(), 0, 1);
        InProcess { server, executor }
    }

    /// A new connection.
    pub fn connect(&self) -> Connection {
        // ORDERING: Relaxed, there is only this thread.
        self.server.threads[0].connections.fetch_add(1, Ordering::Relaxed);
        let shared = self.server.clients.enter("peer".into(), "local".into(), 0);
        Connection(Conversation::new(shared, &self.server))
    }

    /// The reply to a request; None if the request has ended the connection.
    pub fn ask(&mut self, connection: &mut Connection, request: &[&[u8]]) -> Option<Vec<u8>> {
        let mut input = format!("*{}\r\n", request.len()).into_bytes();
        for arg in request {
            input.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            input.extend_from_slice(arg);
            input.extend_from_slice(b"\r\n");
        }
        let mut out = Vec::new();
        let fed = self.executor.feed(&mut connection.0, &input, NOW, &mut out);
        assert_eq!(fed.consumed, input.len());
        connection.0.client.closing.is_none().then_some(out)
    }

    /// Ends a connection.
    pub fn close(&self, connection: Connection) {
        self.server.leave(&connection.0.client.shared);
    }
}
