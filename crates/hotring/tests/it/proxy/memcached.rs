//! A client of memcached's protocol before a cluster.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use hotring_cluster::{ShardId, SlotSet, slot_of};
use hotring_proxy::{Proxy, Settings};

use super::wait_for;
use crate::cluster_demo::Demo;
use crate::cluster_moves::Keeper;

pub struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(proxy: &Proxy) -> Client {
        Client::to(&proxy.addresses().last().unwrap().to_string())
    }

    pub fn to(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client(BufReader::new(stream))
    }

    /// Sends requests, and the one that shows where the replies end. ¶ stands for the end of a line.
    pub fn say(&mut self, requests: &str) -> String {
        let requests = format!("{requests}¶mn¶").replace('¶', "\r\n");
        self.0.get_mut().write_all(requests.as_bytes()).unwrap();
        let mut replies = String::new();
        while !replies.ends_with("MN\r\n") {
            assert!(self.0.read_line(&mut replies).unwrap() > 0, "{replies}");
        }
        replies.strip_suffix("MN\r\n").unwrap().replace("\r\n", "¶")
    }
}

fn proxy(demo: &Demo, settings: Settings) -> Proxy {
    super::proxy(demo, Settings { memcached: vec!["127.0.0.1:0".parse().unwrap()], ..settings })
}

#[test]
fn clients_of_memcached_use_the_whole_cluster() {
    let demo = Demo::start(&["--copies", "1"]);
    let proxy = proxy(&demo, Settings::default());
    let mut client = Client::connect(&proxy);
    for (requests, replies) in [
        ("set a 5 0 1¶x¶set b 6 0 2¶yy¶set c 7 0 0¶", "STORED¶STORED¶STORED¶"),
        ("get a", "VALUE a 5 1¶x¶END¶"),
        ("get nope", "END¶"),
        ("add a 0 0 1¶x", "NOT_STORED¶"),
        ("append a 0 0 1¶z", "STORED¶"),
        ("set n 0 0 1¶7¶incr n 3¶decr n 1", "STORED¶10¶9¶"),
        ("delete n¶delete n", "DELETED¶NOT_FOUND¶"),
        ("touch a 0", "TOUCHED¶"),
        ("set q 0 0 1 noreply¶x¶get q", "VALUE q 0 1¶x¶END¶"),
        ("add q 0 0 1 noreply¶y¶get q", "VALUE q 0 1¶x¶END¶"),
        ("mg a v f k", "VA 2 f5 ka¶xz¶"),
        ("mg nope v", "EN¶"),
        ("mg nope v q¶mg a v q", "VA 2¶xz¶"),
        ("ms m 3 q¶abc¶mg m v", "VA 3¶abc¶"),
        ("mg YQ== b v", "VA 2¶xz¶"),
        ("md m q¶mg m v", "EN¶"),
        ("mg nope q1¶mg a v", "VA 2¶xz¶"),
        ("ms m 1 qx¶y¶mg m v", "VA 1¶y¶"),
        ("nonsense", "ERROR¶"),
        ("get", "ERROR¶"),
        ("version", "VERSION 1.6.45¶"),
        ("shutdown", "ERROR¶"),
        ("verbosity 1", "OK¶"),
    ] {
        assert_eq!(client.say(requests), replies, "{requests}");
    }
    let reply = client.say("get a b c nope q");
    let values = reply.strip_suffix("END¶").expect("it has one end");
    let mut values: Vec<_> = values.split("VALUE ").skip(1).collect();
    values.sort_unstable();
    assert_eq!(values, ["a 5 2¶xz¶", "b 6 2¶yy¶", "c 7 0¶¶", "q 0 1¶x¶"]);
    // More requests without a reply than may be on their way at once.
    let many: String = (0..3_000).map(|n| format!("set many:{n} 0 0 1 noreply¶x¶")).collect();
    assert_eq!(client.say(&format!("{many}get many:2999")), "VALUE many:2999 0 1¶x¶END¶");
    let mut last = Client::connect(&proxy);
    last.0.get_mut().write_all(b"set last 0 0 1 noreply\r\nx\r\nquit\r\n").unwrap();
    assert_eq!(last.0.read_line(&mut String::new()).unwrap(), 0, "the connection ends");
    assert_eq!(client.say("get last"), "VALUE last 0 1¶x¶END¶");
    assert!(client.say("stats").starts_with("STAT pid "));
    // Redis's clients see the same keys.
    let mut redis = super::connect(&proxy);
    assert_eq!(super::say(&mut redis, "GET a"), "xz");
    assert_eq!(client.say("flush_all noreply¶get a b c"), "END¶");
    assert_eq!(client.say("flush_all"), "OK¶");
    assert_eq!(super::say(&mut redis, "DBSIZE"), "0");
    drop(proxy);
    demo.end();
}

#[test]
fn nothing_is_lost_or_done_twice_while_slots_move() {
    let demo = Demo::start(&["--copies", "1"]);
    let keeper = Keeper::of(&demo);
    let proxy = proxy(&demo, Settings::default());
    let mut client = Client::connect(&proxy);
    let keys: Vec<String> = (0..6).map(|n| format!("counter:{n}")).collect();
    keys.iter().for_each(|key| drop(client.say(&format!("set {key} 0 0 1¶0"))));
    let slots: SlotSet = keys.iter().map(|key| slot_of(key.as_bytes())).collect();
    let (mut n, mut moved) = (0, 0);
    while moved < 6 {
        let directory = keeper.directory();
        if directory.moves.is_empty() {
            // All to one shard, and from there to the next.
            let shards: Vec<ShardId> = directory.shards.keys().copied().collect();
            let to = shards[moved % shards.len()];
            for (i, from) in shards.iter().enumerate().filter(|(_, from)| **from != to) {
                let of_it = slots.iter().filter(|slot| directory.owners.of(*slot) == Some(*from));
                let of_it: SlotSet = of_it.collect();
                if !of_it.is_empty() {
                    keeper.order((moved * 3 + i) as u64, *from, to, &of_it);
                }
            }
            moved += 1;
        }
        for _ in 0..20 {
            n += 1;
            for key in &keys {
                assert_eq!(client.say(&format!("incr {key} 1")), format!("{n}¶"), "{key}");
            }
            assert_eq!(
                client.say(&format!("get {}", keys.join(" "))).matches(&format!("¶{n}¶")).count(),
                6
            );
        }
    }
    wait_for("the moves are through", || keeper.directory().moves.is_empty());
    let redirects = super::counted(&mut super::connect(&proxy), "proxy_redirects");
    assert!(redirects > 0, "no request met a move");
    drop(proxy);
    demo.end();
}
