//! Requests of memcached's protocol and the exact replies to them, without sockets. `both` tests one key
//! under both protocols.

mod both;
mod classic;
mod cluster;
mod conversation;
mod meta;

use std::sync::Arc;
use std::time::Duration;

use hotring_store::Options;

use crate::exec::{Conversation, Executor};
use crate::settings::config::Config;
use crate::settings::config::MemcachedSettings;
use crate::state::client::Closing;
use crate::state::memcached::Shared;
use crate::state::server::{Parts, Server};

/// Where the clock stands at the start: 2023-11-14, in Unix milliseconds.
const START: u64 = 1_700_000_000_000;

/// Two clients of one server, one for each protocol.
struct Dialogue {
    server: Arc<Server>,
    executor: Executor,
    memcached: Conversation,
    redis: Conversation,
    now: u64,
}

impl Dialogue {
    fn new() -> Self {
        Self::with(Config::default(), Options::default())
    }

    fn with(config: Config, options: Options) -> Self {
        Self::of(Parts {
            memcached: Shared::new(Vec::new(), &config.memcached).unwrap(),
            ..Parts::unconnected(options, config)
        })
    }

    fn of(parts: Parts) -> Self {
        let server = Arc::new(Server::new(parts));
        let [a, b] = [(); 2].map(|()| server.clients.enter("peer".into(), "local".into(), 0));
        let executor = Executor::new(server.clone(), 0, 1);
        let memcached = Conversation::memcached(a, &server);
        Dialogue { memcached, redis: Conversation::new(b, &server), executor, server, now: START }
    }

    fn small(change: impl FnOnce(&mut MemcachedSettings)) -> Self {
        let mut config = Config::default();
        change(&mut config.memcached);
        Self::with(config, Options::default())
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds;
    }

    fn ask(&mut self, input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        // Between two requests as much time has passed as a wrong password costs.
        self.memcached.client.penalty = Duration::ZERO;
        let fed = self.executor.feed(&mut self.memcached, input, self.now, &mut out);
        assert_eq!(fed.consumed, input.len(), "{} is not whole", input.escape_ascii());
        out
    }

    /// The reply to a request, with ¶ for CR LF in both.
    fn say(&mut self, request: &str) -> String {
        let input = format!("{request}\r\n").replace('¶', "\r\n");
        shown(self.ask(input.as_bytes()))
    }

    /// The reply of Redis's protocol to a typed line.
    fn redis(&mut self, line: &str) -> String {
        let (mut out, input) = (Vec::new(), format!("{line}\r\n").replace('¶', "\r\n"));
        self.executor.feed(&mut self.redis, input.as_bytes(), self.now, &mut out);
        shown(out)
    }

    fn closing(&self) -> Option<Closing> {
        self.memcached.client.closing
    }

    /// Plays a table: a request and its reply per line, `+ n` to let n milliseconds pass, and requests of a
    /// Redis client behind `redis>`.
    fn play(&mut self, table: &str) {
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(milliseconds) = line.strip_prefix("+ ") {
                self.pass(milliseconds.parse().unwrap());
                continue;
            }
            let silent = line.strip_suffix(" ->").map(|request| (request, ""));
            let (request, reply) = line.split_once(" -> ").or(silent).expect("a reply");
            let said = match request.strip_prefix("redis> ") {
                Some(request) => self.redis(request),
                None => self.say(request),
            };
            assert_eq!(said, reply, "{request}");
        }
    }
}

fn shown(reply: Vec<u8>) -> String {
    String::from_utf8(reply).expect("text").replace("\r\n", "¶")
}

fn play(table: &str) {
    Dialogue::new().play(table);
}
