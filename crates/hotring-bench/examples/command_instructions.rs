//! Requests for callgrind to count, for `cargo xtask instructions`: from the bytes of pipelines of 16 requests to the
//! bytes of their replies, without sockets.

#[path = "../../hotring-index/examples/counting/mod.rs"]
mod counting;

use std::sync::Arc;

use hotring_commands::exec::{Conversation, Executor};
use hotring_commands::settings::config::Config;
use hotring_commands::state::server::{Parts, Server};
use hotring_store::Options;

/// Requests of one case; a multiple of `PIPELINE`.
const REQUESTS: usize = 1024;
/// Requests that arrive together.
const PIPELINE: usize = 16;
/// Keys that the requests name in turn.
const KEYS: usize = 256;
/// The time of all requests, in Unix milliseconds.
const NOW: u64 = 1_700_000_000_000;

/// Two commands, as scripts of locks and limiters have.
const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])";

fn main() {
    let mut client = Client::new();
    let key = |n: usize| format!("key:{:012}", n % KEYS);
    let hash = |n: usize| format!("hash:{:011}", n % KEYS);
    let number = |n: usize| format!("number:{:09}", n % KEYS);
    let set = |n| request(&["SET", &key(n), "a value of 23 characters"]);
    client.case("SET", set);
    client.case("GET", |n| request(&["GET", &key(n)]));
    client.case("INCR", |n| request(&["INCR", &number(n)]));
    client.case("HSET", |n| request(&["HSET", &hash(n), "field", "value"]));
    client.case("EXEC of 5 SET", |n| {
        let begin = request(&["MULTI"]);
        [begin, (0..5).flat_map(|i| set(n + i)).collect(), request(&["EXEC"])].concat()
    });
    client.case("EVAL", |n| request(&["EVAL", SCRIPT, "1", &key(n), "value"]));
    let loaded = client.ask(&request(&["SCRIPT", "LOAD", SCRIPT]));
    let sha = String::from_utf8(loaded).expect("a digest is text");
    let sha = sha.split("\r\n").nth(1).expect("the reply is a bulk string").to_owned();
    client.case("EVALSHA", |n| request(&["EVALSHA", &sha, "1", &key(n), "value"]));
}

/// A request as bytes.
fn request(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len());
    for arg in args {
        bytes.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
    }
    bytes.into_bytes()
}

/// A client of a server without sockets.
struct Client {
    executor: Executor,
    conversation: Conversation,
    out: Vec<u8>,
}

impl Client {
    fn new() -> Client {
        let parts = Parts::unconnected(Options::default(), Config::default());
        let server = Arc::new(Server::new(parts));
        let shared = server.clients.enter("peer".into(), "local".into(), 0);
        Client {
            conversation: Conversation::new(shared, &server),
            executor: Executor::new(server, 0, 1),
            out: Vec::new(),
        }
    }

    fn feed(&mut self, input: &[u8]) {
        self.out.clear();
        let mut attached = Vec::new();
        let out = (&mut self.out, &mut attached);
        let fed = self.executor.feed_zero_copy(&mut self.conversation, (input, None), NOW, out);
        assert_eq!(fed.consumed, input.len(), "one turn takes a pipeline");
    }

    fn ask(&mut self, input: &[u8]) -> Vec<u8> {
        self.feed(input);
        assert!(!self.out.starts_with(b"-"), "{}", String::from_utf8_lossy(&self.out));
        self.out.clone()
    }

    /// Runs all requests once to warm up, and once as a case.
    fn case(&mut self, name: &str, request: impl Fn(usize) -> Vec<u8>) {
        let pipelines: Vec<Vec<u8>> = (0..REQUESTS / PIPELINE)
            .map(|at| (0..PIPELINE).flat_map(|n| request(at * PIPELINE + n)).collect())
            .collect();
        pipelines.iter().for_each(|pipeline| drop(self.ask(pipeline)));
        counting::case("commands", name, REQUESTS as u64, || {
            pipelines.iter().for_each(|pipeline| self.feed(pipeline));
        });
    }
}
