//! Operations of messages and their answers, beside a Redis client of the same data, without sockets.

mod cluster;
mod rules;
mod values;

use std::sync::Arc;
use std::task::Waker;

use hotring_messages::Given;
use hotring_messages::message::{Operation, Operations, Status};
use hotring_store::Options;

use super::{Executor, Held, Waited, log_in, take_back};
use crate::exec::{self, Conversation};
use crate::settings::config::Config;
use crate::state::client::Client;
use crate::state::server::{Parts, Server};

/// Where the clock stands at the start, in Unix milliseconds.
const START: u64 = 1_700_000_000_000;

/// A client of messages and one of Redis's protocol.
struct Dialogue {
    server: Arc<Server>,
    executor: Executor,
    client: Client,
    redis: exec::Executor,
    conversation: Conversation,
    now: u64,
}

impl Dialogue {
    fn new() -> Dialogue {
        Dialogue::of(Parts::unconnected(Options::default(), Config::default()))
    }

    fn of(parts: Parts) -> Dialogue {
        let server = Arc::new(Server::new(parts));
        let [a, b] = [(); 2].map(|()| server.clients.enter("peer".into(), "local".into(), 0));
        let client = log_in(&server, &a, b"", b"").expect("the default user needs no password");
        Dialogue {
            executor: Executor::new(server.clone(), 0, 1),
            redis: exec::Executor::new(server.clone(), 0, 2),
            conversation: Conversation::new(b, &server),
            client,
            server,
            now: START,
        }
    }

    /// Runs a request.
    fn run(&mut self, operations: &[Operation<'_>]) -> Result<Vec<Given>, Held> {
        let mut bytes = Vec::new();
        let operations = Operations::encode(operations, &mut bytes).expect("they fit");
        self.executor.begin(&mut self.client, operations.iter(), self.now)?;
        let ran = self.executor.run(&mut self.client, operations.iter(), self.now);
        assert_eq!(ran.given.len(), operations.len());
        Ok(ran.given)
    }

    /// The answer to one operation.
    fn ask(&mut self, operation: Operation<'_>) -> Given {
        self.run(&[operation]).expect("it is not held back").remove(0)
    }

    /// Status and text of the answer.
    fn say(&mut self, operation: Operation<'_>) -> (Status, String) {
        let given = self.ask(operation);
        (given.status, String::from_utf8(given.value).expect("text"))
    }

    fn get(&mut self, key: &str) -> Given {
        self.ask(Operation::Get { key: key.as_bytes() })
    }

    fn set(&mut self, key: &str, value: &str) -> Given {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        self.ask(Operation::Set { key, value, expiry_ms: 0 })
    }

    /// The reply of Redis's protocol to a typed line, with ¶ for CR LF.
    fn redis(&mut self, line: &str) -> String {
        let (mut out, input) = (Vec::new(), format!("{line}\r\n"));
        self.redis.feed(&mut self.conversation, input.as_bytes(), self.now, &mut out);
        String::from_utf8(out).expect("text").replace("\r\n", "¶")
    }

    /// What has come for the Redis client besides replies.
    fn messages(&mut self) -> String {
        let mut out = Vec::new();
        self.redis.fetch_messages(&self.conversation, &mut out);
        String::from_utf8(out).expect("text").replace("\r\n", "¶")
    }
}

fn done(version: u64, value: &str) -> Given {
    Given { status: Status::Done, version, value: value.into() }
}

const ABSENT: Given = Given { status: Status::Absent, version: 0, value: Vec::new() };
