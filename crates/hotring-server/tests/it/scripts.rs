//! Scripts of many connections on several threads. No test relies on how long something takes.

use std::time::{Duration, Instant};

use crate::wire::{Reply, TestServer, Wire, bulk, ok, request};

fn eval(wire: &mut Wire, script: &str, keys: &[&str], args: &[&str]) -> Reply {
    let n_keys = keys.len().to_string();
    wire.ask(&[&["EVAL", script, &n_keys], keys, args].concat())
}

#[test]
fn nobody_sees_the_middle_of_a_script() {
    const ROUNDS: usize = 300;
    let server = TestServer::new();
    let moving = "redis.call('DECR', KEYS[1]) redis.call('INCR', KEYS[3]) \
                  local c = redis.call('GET', KEYS[3]) \
                  redis.call('INCR', KEYS[2]) redis.call('INCR', KEYS[3]) return tonumber(c)";
    // Keys that it is given, and keys whose names it makes itself.
    let hidden = "local a, b, c = ARGV[1], ARGV[2], ARGV[3] redis.call('DECR', a) redis.call('INCR', c) \
                  local n = redis.call('GET', c) redis.call('INCR', b) redis.call('INCR', c) \
                  return tonumber(n)";
    std::thread::scope(|scope| {
        for i in 0..3 {
            let mut wire = server.connect();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let c = match i {
                        0 => eval(&mut wire, hidden, &[], &["a", "b", "c"]),
                        _ => eval(&mut wire, moving, &["a", "b", "c"], &[]),
                    };
                    assert_eq!(c.int() % 2, 1, "what is written within is seen within");
                }
            });
        }
        for script in [None, Some("return redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])")] {
            let mut wire = server.connect();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let seen = match script {
                        None => wire.say("MGET a b c"),
                        Some(script) => eval(&mut wire, script, &["a", "b", "c"], &[]),
                    };
                    let number = |reply: &Reply| match reply {
                        Reply::Null => 0,
                        text => text.text().parse::<i64>().unwrap(),
                    };
                    let seen: Vec<i64> = seen.items().iter().map(number).collect();
                    assert_eq!((seen[0] + seen[1], seen[2] % 2), (0, 0), "{seen:?}");
                }
            });
        }
    });
    let mut wire = server.connect();
    let moved = (3 * ROUNDS).to_string();
    assert_eq!(wire.say("MGET a b"), Reply::Array(vec![bulk(&format!("-{moved}")), bulk(&moved)]));
}

#[test]
fn a_lock_has_one_owner_at_a_time() {
    const EACH: usize = 50;
    const CONNECTIONS: usize = 4;
    let server = TestServer::new();
    let release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) \
                   else return 0 end";
    std::thread::scope(|scope| {
        for i in 0..CONNECTIONS {
            let mut wire = server.connect();
            scope.spawn(move || {
                let me = i.to_string();
                let mut done = 0;
                // A failure is another connection's success, so that this ends.
                while done < EACH {
                    if wire.say(&format!("SET lock {me} NX")) == Reply::Null {
                        continue;
                    }
                    // Not atomic by itself: the lock sees to that.
                    let n = wire.say("GET n");
                    let n = if n == Reply::Null { 0 } else { n.text().parse::<usize>().unwrap() };
                    assert_eq!(wire.say(&format!("SET n {}", n + 1)), ok());
                    assert_eq!(eval(&mut wire, release, &["lock"], &[&me]), Reply::Int(1));
                    done += 1;
                }
            });
        }
    });
    assert_eq!(server.connect().say("GET n"), bulk(&(EACH * CONNECTIONS).to_string()));
}

/// Connections on each of the two threads: one waits in a script, the other ends it.
#[test]
fn a_script_that_does_not_end_is_killed_by_another_connection() {
    let server = TestServer::with(|config| config.lua_time_ms = 0);
    let mut looping = server.connect();
    let thread = |wire: &mut Wire| {
        let info = wire.say("CLIENT INFO").text();
        crate::wire::number_after(&info, "io-thread=")
    };
    let busy = thread(&mut looping);
    let mut others: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
    let other = others.iter_mut().position(|wire| thread(wire) != busy);
    let other = &mut others[other.expect("connections are spread over the threads")];
    for script in ["while true do end", "while true do pcall(function() while true do end end) end"]
    {
        looping.send(&crate::wire::request(&["EVAL", script, "0"]));
        // As soon as it runs.
        while other.say("SCRIPT KILL").is_error() {}
        let reply = looping.reply();
        assert!(
            reply.text().starts_with("ERR Script killed by user with SCRIPT KILL"),
            "{reply:?}"
        );
    }
    // One that has written goes on; here until it sees what others do.
    let waits = "redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[1])";
    assert_eq!(eval(&mut looping, waits, &["k"], &[]), bulk("1"));
    assert!(other.say("SCRIPT KILL").text().starts_with("NOTBUSY"));
}

#[test]
fn threads_share_the_cache_of_scripts() {
    let server = TestServer::new();
    let mut wires: Vec<Wire> = (0..6).map(|_| server.connect()).collect();
    let sha = wires[0].ask(&["SCRIPT", "LOAD", "return ARGV[1]"]).text();
    for wire in &mut wires {
        assert_eq!(wire.ask(&["EVALSHA", &sha, "0", "x"]), bulk("x"));
    }
    assert_eq!(wires[1].say("SCRIPT FLUSH"), ok());
    for wire in &mut wires {
        assert!(wire.ask(&["EVALSHA", &sha, "0", "x"]).text().starts_with("NOSCRIPT"));
    }
}

/// A script that holds one key stops who wants that key, and nobody else: not those of other keys, nor the connections
/// that share a thread with who waits. Threads used to spin until the script's end, all their connections with
/// them.
#[test]
fn who_waits_for_a_script_keeps_no_thread() {
    let seconds = std::env::var("HOTRING_SECONDS").ok().and_then(|text| text.parse().ok());
    let held_for = Duration::from_millis(seconds.map_or(500, |seconds: u64| seconds * 1_000));
    let server = TestServer::new();
    // New connections go to the thread that has fewer.
    let [mut script, mut waiting, _beside, mut other] = [(); 4].map(|()| server.connect());
    let busy = "redis.call('SET', KEYS[1], 'held') local t = redis.call('TIME') \
                local till = t[1] * 1000000 + t[2] + ARGV[1] * 1000 \
                repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] >= till return 'done'";
    // The first run holds everything, to find out what it uses.
    assert_eq!(eval(&mut script, busy, &["k"], &["0"]), bulk("done"));
    let names: Vec<String> = (0..1_000).map(|i| format!("other:{i}")).collect();
    for name in &names {
        assert_eq!(other.say(&format!("SET {name} v")), ok());
    }
    waiting.say("PING");
    script.send(&request(&["EVAL", busy, "1", "k", &held_for.as_millis().to_string()]));
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    waiting.send(&request(&["GET", "k"]));
    let mut took = Vec::new();
    while begun.elapsed() + Duration::from_millis(150) < held_for {
        let asked = Instant::now();
        assert_eq!(other.say(&format!("GET {}", names[took.len() % names.len()])), bulk("v"));
        took.push(asked.elapsed());
    }
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    println!("{} reads of other keys in {held_for:?} of a hold, p99 {p99:?}", took.len());
    assert!(took.len() > 200, "{} reads", took.len());
    assert!(p99 < held_for / 5, "p99 {p99:?}");
    assert_eq!(waiting.reply(), bulk("held"));
    assert_eq!(script.reply(), bulk("done"));
}
