//! A test harness that plays tables of requests and checks the exact replies.
//!
//! ```text
//! SET k v EX 10      -> +OK¶
//! GET missing        -> $-1¶ | _¶
//! + 10000
//! GET k              -> $-1¶ | _¶
//! ```
//!
//! A line is a request as typed and its reply, with ¶ for CR LF. If the reply in RESP3 differs, it follows after a bar.
//! `+ n` lets n milliseconds pass.

use std::sync::Arc;
use std::time::Duration;

use hotring_cluster::NodeId;
use hotring_cluster::directory::Directory;
use hotring_protocol::Version;
use hotring_store::{Options, Watched};

use crate::commands::pubsub::leave_all;
use crate::exec::{Conversation, Executor, WaitEnd};
use crate::settings::config::Config;
use crate::state::client::{Client, Closing, Wait};
use crate::state::cluster::tests::tenure;
use crate::state::server::{Parts, Server};

/// The time at the start: 2023-11-14, in Unix milliseconds.
const START: u64 = 1_700_000_000_000;

/// A client's conversation with a server, usually of its own.
pub(crate) struct Dialogue {
    server: Arc<Server>,
    executor: Executor,
    conversation: Conversation,
    now: u64,
}

impl Dialogue {
    pub(crate) fn new(version: Version) -> Self {
        Self::with(version, Options::default())
    }

    pub(crate) fn with(version: Version, options: Options) -> Self {
        Self::with_config(version, options, Config::default())
    }

    pub(crate) fn with_config(version: Version, options: Options, config: Config) -> Self {
        let server = Arc::new(Server::new(Parts::unconnected(options, config)));
        Self::begin(server, version)
    }

    /// A client of a node of a cluster with these records.
    pub(crate) fn of_node(version: Version, node: NodeId, directory: Directory) -> Self {
        let parts = Parts::of_node(Options::default(), Config::default(), node);
        let server = Arc::new(Server::new(parts));
        let cluster = server.cluster.as_ref().expect("it is a node");
        cluster.publish(directory);
        // If it is a replica, it has all keys.
        cluster.hear_tenure(tenure(&[(0, "0-16383")]), 0);
        Self::begin(server, version)
    }

    /// What a thread does that has no requests.
    pub(crate) fn idle(&mut self) {
        self.executor.collect();
    }

    /// The client's state.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.conversation.client
    }

    /// A client of this server.
    pub(crate) fn begin(server: Arc<Server>, version: Version) -> Self {
        let shared = server.clients.enter("peer".into(), "local".into(), 0);
        let mut conversation = Conversation::new(shared, &server);
        conversation.client.speak(version, &server.acl, &mut Vec::new());
        let executor = Executor::new(server.clone(), 0, 1);
        Dialogue { server, executor, conversation, now: START }
    }

    /// Another client of the same server.
    pub(crate) fn with_version(&self, version: Version) -> Dialogue {
        Self::begin(self.server(), version)
    }

    /// The messages that have arrived without a request, with ¶ for CR LF.
    pub(crate) fn messages(&mut self) -> String {
        let mut out = Vec::new();
        self.conversation.client.fetch_messages(&mut out);
        String::from_utf8_lossy(&out).replace("\r\n", "¶")
    }

    /// The reply of a finished wait, with ¶ for CR LF; empty while the wait lasts.
    pub(crate) fn ended_wait(&mut self) -> String {
        if self.executor.poll_wait(&self.conversation, self.now) != Watched::Fired {
            return String::new();
        }
        let mut out = Vec::new();
        self.executor.end_wait(&mut self.conversation, WaitEnd::Fired, self.now, &mut out);
        String::from_utf8_lossy(&out).replace("\r\n", "¶")
    }

    /// The ID of the connection.
    pub(crate) fn id(&self) -> u64 {
        self.conversation.client.shared.id
    }

    /// Ends the connection.
    pub(crate) fn end(mut self) {
        leave_all(&mut self.conversation.client, &self.server, &mut Vec::new());
        self.server.leave(&self.conversation.client.shared);
    }

    /// The server.
    pub(crate) fn server(&self) -> Arc<Server> {
        self.server.clone()
    }

    /// The replies to the requests in `input`.
    pub(crate) fn ask(&mut self, input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        // Assume that the delay after a wrong password has passed since the last request.
        self.conversation.client.penalty = Duration::ZERO;
        let fed = self.executor.feed(&mut self.conversation, input, self.now, &mut out);
        assert_eq!(fed.consumed, input.len(), "{} is not whole", input.escape_ascii());
        out
    }

    /// The reply to a typed line; None if it waits before it begins.
    pub(crate) fn offer(&mut self, line: &str) -> Option<String> {
        let (mut out, input) = (Vec::new(), format!("{line}\r\n"));
        let fed = self.executor.feed(&mut self.conversation, input.as_bytes(), self.now, &mut out);
        if self.conversation.client.wait().is_some() {
            assert_eq!((fed.consumed, out.len()), (0, 0), "{line} has begun");
            return None;
        }
        assert_eq!(fed.consumed, input.len(), "{line}");
        Some(String::from_utf8_lossy(&out).replace("\r\n", "¶"))
    }

    /// Whether a blocking command waits; None if it must be offered again.
    pub(crate) fn offer_waiting(&mut self, line: &str) -> Option<bool> {
        let (mut out, input) = (Vec::new(), format!("{line}\r\n"));
        self.executor.feed(&mut self.conversation, input.as_bytes(), self.now, &mut out);
        match self.conversation.client.wait() {
            Some(Wait::Moving { .. }) => {
                self.pass(10);
                assert!(self.may_go_on());
                None
            }
            wait => Some(wait.is_some()),
        }
    }

    /// Whether a request that waits before it begins may be offered again.
    pub(crate) fn may_go_on(&mut self) -> bool {
        let is_over = self.executor.poll_wait(&self.conversation, self.now) == Watched::Fired;
        if is_over {
            let mut out = Vec::new();
            self.executor.end_wait(&mut self.conversation, WaitEnd::Fired, self.now, &mut out);
            assert!(out.is_empty());
        }
        is_over
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds;
    }

    /// The reason why the conversation must end, if it must.
    pub(crate) fn closing(&self) -> Option<Closing> {
        self.conversation.client.closing
    }

    /// The reply to a typed line, with ¶ for CR LF.
    pub(crate) fn say(&mut self, line: &str) -> String {
        let reply = self.ask(format!("{line}\r\n").as_bytes());
        String::from_utf8_lossy(&reply).replace("\r\n", "¶")
    }
}

/// Plays a table to a new server in each version of the protocol.
#[track_caller]
pub(crate) fn play(table: &str) {
    play_with(&Options::default(), table);
}

/// As [`play`], on a store with these options.
#[track_caller]
pub(crate) fn play_with(options: &Options, table: &str) {
    play_to(|version| Dialogue::with(version, options.clone()), table);
}

/// As [`play`], to a server that `begin` makes.
#[track_caller]
pub(crate) fn play_to(begin: impl Fn(Version) -> Dialogue, table: &str) {
    for version in [Version::Resp2, Version::Resp3] {
        let mut dialogue = begin(version);
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(milliseconds) = line.strip_prefix("+ ") {
                dialogue.pass(milliseconds.parse().expect("milliseconds"));
                continue;
            }
            let (request, replies) = line.split_once("->").expect("a request -> a reply");
            let (resp2, resp3) = replies.split_once(" | ").unwrap_or((replies, replies));
            let expected = if version == Version::Resp2 { resp2 } else { resp3 };
            let reply = dialogue.say(request.trim());
            assert_eq!(reply, expected.trim(), "{version:?}: {request}");
        }
    }
}
