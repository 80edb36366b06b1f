//! Long containers in the hands of hostile or careless clients: others are served meanwhile, and memory is bounded.

use std::io::{ErrorKind, Read};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::wire::{Reply, TestServer, Wire, number_after, ok, request};

/// Fills a key with as many members, fields or elements, each with the arguments that `args` gives it.
fn fill(wire: &mut Wire, command: &str, key: &str, n: usize, args: impl Fn(usize) -> Vec<String>) {
    for from in (0..n).step_by(1_000) {
        let mut line = vec![command.to_string(), key.to_string()];
        (from..n.min(from + 1_000)).for_each(|i| line.extend(args(i)));
        assert!(!wire.ask(&line).is_error());
    }
}

/// Fills a key of each type: the sets and the sorted sets twice, with half of the members in common.
fn fill_all(wire: &mut Wire, n: usize) {
    let member = |i: usize| format!("member:{i}");
    for (at, number) in [(0, "1"), (n / 2, "2")] {
        fill(wire, "SADD", &format!("set{number}"), n, |i| vec![member(at + i)]);
        fill(wire, "ZADD", &format!("zset{number}"), n, |i| {
            vec![(i * 7 % n).to_string(), member(at + i)]
        });
    }
    fill(wire, "HSET", "hash", n, |i| vec![member(i), "value".into()]);
    // It is walked over much faster.
    fill(wire, "RPUSH", "list", 10 * n, |i| vec![member(i)]);
}

/// Requests that take long.
const LONG: [&str; 13] = [
    "ZUNIONSTORE to 2 zset1 zset2",
    "ZINTER 2 zset1 zset2",
    "ZRANGE zset1 0 -1 WITHSCORES",
    "ZRANDMEMBER zset1 -100000",
    "SUNIONSTORE to set1 set2",
    "SDIFF set1 set2",
    "SINTERCARD 2 set1 set2",
    "SMEMBERS set1",
    "SRANDMEMBER set1 -100000",
    "HGETALL hash",
    "HVALS hash",
    "HRANDFIELD hash -100000",
    "LRANGE list 0 -1",
];

/// Whether a reply has arrived, which stays unread.
fn has_reply(wire: &mut Wire) -> bool {
    wire.stream.set_nonblocking(true).unwrap();
    let seen = wire.stream.peek(&mut [0]);
    wire.stream.set_nonblocking(false).unwrap();
    match seen {
        Ok(n) => n > 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Regression test: other connections of the thread waited for the end.
#[test]
fn a_long_command_lets_others_have_a_turn() {
    let server = TestServer::with(|config| config.threads = 1);
    let [mut long, mut other] = [(); 2].map(|()| server.connect());
    fill_all(&mut long, 20_000);
    for line in LONG {
        // On a busy machine it may be over before the other request comes: then several in a batch.
        let overtakes = (0..24).any(|round| {
            let n = 1 << (round / 4);
            long.send(&request(&line.split(' ').collect::<Vec<_>>()).repeat(n));
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(other.say("SET k v"), ok());
            let overtakes = !has_reply(&mut long);
            (0..n).for_each(|_| assert!(!long.reply().is_error(), "{line}"));
            overtakes
        });
        assert!(overtakes, "{line}");
    }
}

/// Long commands of one thread, in transactions and scripts too, some of them on one another's keys.
#[test]
fn long_commands_do_not_keep_one_another_from_their_end() {
    let server = TestServer::with(|config| config.threads = 1);
    let mut good = server.connect();
    fill_all(&mut good, 3_000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for at in 0..8 {
            let (mut wire, is_over) = (server.connect(), &is_over);
            scope.spawn(move || {
                let script = "return redis.call('SUNIONSTORE', KEYS[1], KEYS[2], KEYS[3])";
                for line in LONG.iter().cycle().skip(at) {
                    if is_over.load(Relaxed) {
                        return;
                    }
                    match at % 3 {
                        0 => assert!(!wire.say(line).is_error()),
                        1 => {
                            wire.say("MULTI");
                            wire.say(line);
                            wire.say("SET k v");
                            assert_eq!(wire.say("EXEC").items().len(), 2);
                        }
                        _ => {
                            let keys = ["3", "to", "set1", "set2"];
                            let reply = wire.ask(&[&["EVAL", script], &keys[..]].concat());
                            assert_eq!(reply, Reply::Int(4_500));
                        }
                    }
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            assert_eq!(good.say("SET other v"), ok());
        }
        is_over.store(true, Relaxed);
    });
    assert_eq!(good.say("SCARD set1"), Reply::Int(3_000));
}

/// A count far beyond what a reply may have ends in an error or with the connection, soon and without its memory.
#[test]
fn counts_beyond_all_bounds_hurt_only_their_sender() {
    let server = TestServer::with(|config| config.output_hard_max = 1 << 20);
    let mut good = server.connect();
    fill_all(&mut good, 2_000);
    let used = |wire: &mut Wire| number_after(&wire.say("INFO memory").text(), "\r\nused_memory:");
    let before = used(&mut good);
    for count in ["-9223372036854775808", "-9223372036854775807", "-2000000000", "-150000"] {
        for line in
            ["SRANDMEMBER set1", "HRANDFIELD hash", "ZRANDMEMBER zset1"].map(|s| s.to_string())
        {
            let mut greedy = server.connect();
            greedy.send(format!("{line} {count}\r\n").as_bytes());
            greedy.half_close();
            let mut reply = Vec::new();
            _ = greedy.stream.read_to_end(&mut reply);
            assert!(reply.is_empty() || reply.starts_with(b"-ERR"), "{line} {count}");
        }
    }
    let end = Instant::now() + Duration::from_secs(20);
    while used(&mut good) > before + (2 << 20) {
        assert!(Instant::now() < end, "{} and {before} before", used(&mut good));
        std::thread::sleep(Duration::from_millis(20));
    }
}
