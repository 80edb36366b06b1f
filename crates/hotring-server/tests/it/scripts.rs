//! Tests of scripts of many connections on several threads. No test depends on durations.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use crate::wire::{Reply, TestServer, Wire, bulk, ok, request};

fn eval(wire: &mut Wire, script: &str, keys: &[&str], args: &[&str]) -> Reply {
    let n_keys = keys.len().to_string();
    wire.ask(&[&["EVAL", script, &n_keys], keys, args].concat())
}

#[test]
fn no_client_sees_the_middle_of_a_script() {
    const ROUNDS: usize = 300;
    let server = TestServer::new();
    let moving = "redis.call('DECR', KEYS[1]) redis.call('INCR', KEYS[3]) \
                  local c = redis.call('GET', KEYS[3]) \
                  redis.call('INCR', KEYS[2]) redis.call('INCR', KEYS[3]) return tonumber(c)";
    // Declared keys, and keys whose names the script computes.
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
                // A failure is another connection's success, so this ends.
                while done < EACH {
                    if wire.say(&format!("SET lock {me} NX")) == Reply::Null {
                        continue;
                    }
                    // Not atomic alone: the lock ensures that.
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
    // A script that has written goes on; here until it sees another connection's write.
    let waits = "redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[1])";
    assert_eq!(eval(&mut looping, waits, &["k"], &[]), bulk("1"));
    assert!(other.say("SCRIPT KILL").text().starts_with("NOTBUSY"));
}

/// Regression test: the globals of every script stayed, as a weak table had them as values that refer to their keys.
#[test]
fn a_script_leaves_no_memory_behind() {
    let server = TestServer::with(|config| config.lua_memory_max = 1 << 20);
    let mut wire = server.connect();
    for n in 0..5_000 {
        assert_eq!(eval(&mut wire, "return ARGV[1]", &[], &["x"]), bulk("x"), "script {n}");
    }
    // Scripts that end by an error, too.
    for n in 0..5_000 {
        assert!(eval(&mut wire, "local t = {} t.x.y = 1", &[], &[]).is_error());
        assert_eq!(eval(&mut wire, "return ARGV[1]", &[], &["x"]), bulk("x"), "script {n}");
    }
}

/// Regression test: each of these ended the process or blocked a thread for ever. Lua's own matcher
/// recursed for each item of a pattern and never checked the time limit; and Rust could hold only
/// 8,000 of Lua's values.
#[test]
fn no_script_ends_or_wedges_the_server() {
    let server = TestServer::with(|config| {
        config.lua_time_ms = 300;
        config.lua_memory_max = 64 << 20;
    });
    let (mut wire, mut other) = (server.connect(), server.connect());
    let answered = [
        ("return string.find('', string.rep('x*', 14000))", ":1"),
        ("return #string.gsub('', string.rep('x*', 14000), 'y')", ":1"),
        ("return string.find(string.rep('a', 50000), string.rep('a?', 50000))", ":1"),
        ("return string.find(string.rep('a', 50000), string.rep('.-', 50000))", ":1"),
        ("return string.match('', string.rep('x-', 50000)) == ''", ":1"),
        ("for x in string.gmatch('', string.rep('x?', 50000)) do return #x end", ":0"),
        ("local t={} for i=1,8200 do t[i]={} end; return #cmsgpack.pack(t)", ":8203"),
        ("local t={} for i=1,8200 do t[i]='x'..i end; return #cmsgpack.pack(t) > 8203 and 1", ":1"),
        (
            "local t={} for i=1,8200 do t['x'..i]={} end; return #cmsgpack.pack(t) > 8203 and 1",
            ":1",
        ),
        ("local t={} for i=1,100000 do t[i]={} end; return #cjson.encode(t)", ":300001"),
        ("return #cjson.decode('['..string.rep('{},',100000)..'{}]')", ":100001"),
        ("return #cmsgpack.unpack('\\221\\0\\1\\134\\160'..string.rep('\\144',100000))", ":100000"),
        ("local t={} for i=1,100000 do t[i]={} end; return t", "*100000"),
        ("local t={} for i=1,9000 do t['x'..i]={} end; return {map=t}", "*18000"),
        ("local t={} for i=1,9000 do t['x'..i]=true end; return {set=t}", "*9000"),
        (
            "local t={} for i=1,7000 do t[i]='x'..i end; return #redis.call('MGET', unpack(t))",
            ":7000",
        ),
        ("local t={} for i=1,20000 do t[i]=string.gmatch('x'..i, '.') end; return #t", ":20000"),
        (
            "local t={} for i=1,7000 do t[i]='x'..i end; return #cmsgpack.pack(unpack(t)) > 7000 and 1",
            ":1",
        ),
        ("return #KEYS + #ARGV", ":0"),
    ];
    for (script, expected) in answered {
        let reply = eval(&mut wire, script, &[], &[]);
        let said = match &reply {
            Reply::Array(items) => format!("*{}", items.len()),
            Reply::Int(n) => format!(":{n}"),
            other => format!("{other:?}"),
        };
        // A slow machine may end one by its time limit, which is fine, too.
        assert!(said == expected || said.contains("lua-time-limit"), "{script}: {said}");
    }
    let many = "local function more(n, ...) if n == 0 then return ... end
        return more(n - 1, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', ...) end ";
    let ended = [
        "return string.find(string.rep('a',50000),'.-.-.-.-b')".to_owned(),
        "return string.gsub(string.rep('a',50000),'.-.-.-.-b', 'x')".to_owned(),
        "return string.match(string.rep('(',300000),'%b()')".to_owned(),
        "local t = {} for i = 1, 60 do t = {t, t} end return cjson.encode(t)".to_owned(),
        "local t = {} for i = 1, 14 do local u = {} for j = 1, 99 do u[j] = t end t = u end return cmsgpack.pack(t)".to_owned(),
        "return string.rep('x', 2147483647)".to_owned(),
        "return string.gsub(string.rep('x', 100000), 'x', string.rep('y', 100000))".to_owned(),
        "table.insert({}, -2147483648, 1)".to_owned(),
        "local t = {} while true do t[#t + 1] = string.rep('x', 1000) end".to_owned(),
        "redis.call('DEL', unpack({}, 1, 10000))".to_owned(),
        format!("{many} redis.call('DEL', more(700))"),
        format!("{many} redis.pcall('DEL', more(7000)).err()"),
        format!("{many} cmsgpack.pack(more(5000))"),
        format!("{many} bit.band(more(5000))"),
        format!("{many} cjson.encode(more(5000))"),
        format!("{many} redis.log(more(5000))"),
        format!("{many} struct.pack(more(5000))"),
        format!("{many} string.find(more(5000))"),
        format!("{many} return {{string.gsub('x', more(5000))}}, nil .. 1"),
        "string.gsub('x', '.', function() string.gsub('x', '.', error) end)".to_owned(),
        "local function f() string.gsub('x', '.', f) end f()".to_owned(),
        format!("cjson.decode('{}')", "[".repeat(100_000)),
        "local t = {} for i = 1, 300 do t = {t} end cjson.encode(t)".to_owned(),
    ];
    for script in &ended {
        let reply = eval(&mut wire, script, &[], &[]);
        assert!(reply.is_error(), "{script}: {reply:?}");
        assert_eq!(other.say("PING").text(), "PONG");
    }
    let keys: Vec<String> = (0..100_000).map(|i| format!("k{i}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert_eq!(eval(&mut wire, "return #KEYS + #ARGV", &keys, &keys), Reply::Int(200_000));
    // Regression test: the time of a million comparisons was not checked.
    let sorts = "local t = {} for i = 1, 200000 do t[i] = -i % 1000 end
        while true do table.sort(t) for i = 1, #t do t[i] = -t[i] end end";
    let reply = eval(&mut wire, sorts, &[], &[]);
    assert!(reply.text().contains("lua-time-limit"), "{reply:?}");
}

/// Regression test: a script kept all connections of its thread waiting, including SCRIPT KILL;
/// with one thread it could not be ended.
#[test]
fn the_connections_of_a_scripts_own_thread_are_served() {
    let server = TestServer::with(|config| {
        config.threads = 1;
        config.lua_time_ms = 0;
    });
    let (mut looping, mut other) = (server.connect(), server.connect());
    // From its second run on, a script holds only its own keys.
    assert_eq!(eval(&mut other, "return 2", &["k"], &[]), Reply::Int(2));
    let patterns = "return string.find(string.rep('a', 50000), '.-.-.-.-b') or KEYS[1]";
    for script in ["while true do end return KEYS[1]", patterns] {
        let known = format!("if #ARGV > 0 then return 1 end {script}");
        assert_eq!(eval(&mut other, &known, &["k"], &["x"]), Reply::Int(1));
        looping.send(&crate::wire::request(&["EVAL", &known, "1", "k"]));
        assert_eq!(other.say("SET elsewhere 1"), ok());
        assert_eq!(eval(&mut other, "return 2", &["another"], &[]), Reply::Int(2));
        while other.say("SCRIPT KILL").is_error() {}
        let reply = looping.reply();
        assert!(reply.text().starts_with("ERR Script killed by user"), "{reply:?}");
    }
}

/// Regression test: a request for a script's keys waited for it, however long it ran.
#[test]
fn requests_for_keys_of_a_long_script_are_refused() {
    for threads in [1, 2] {
        let server = TestServer::with(|config| {
            config.threads = threads;
            config.lua_time_ms = 20_000;
            config.busy_reply_ms = 100;
        });
        let (mut looping, mut other) = (server.connect(), server.connect());
        let script = "if #ARGV > 0 then return 1 end while true do end return KEYS[1]";
        assert_eq!(eval(&mut other, script, &["k"], &["x"]), Reply::Int(1));
        looping.send(&request(&["EVAL", script, "1", "k"]));
        // Before the threshold it would wait.
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(other.say("SET elsewhere 1"), ok());
        while !other.say("GET k").text().starts_with("BUSY Redis is busy running a script.") {}
        assert!(eval(&mut other, "return 1", &["k"], &[]).text().starts_with("BUSY "));
        assert_eq!(other.say("GET elsewhere"), bulk("1"));
        assert_eq!(other.say("SCRIPT KILL"), ok());
        assert!(looping.reply().text().starts_with("ERR Script killed by user"));
        assert_eq!(other.say("GET k"), Reply::Null);
    }
}

/// Regression test: requests from before the threshold waited until the script ended, while later
/// ones were refused.
#[test]
fn requests_that_wait_for_a_script_are_refused_at_the_threshold() {
    for threads in [1, 2] {
        let server = TestServer::with(|config| {
            config.threads = threads;
            config.lua_time_ms = 60_000;
            config.busy_reply_ms = 400;
        });
        let mut looping = server.connect();
        let script = "if #ARGV > 0 then return 1 end while true do end return KEYS[1]";
        assert_eq!(eval(&mut looping, script, &["k"], &["x"]), Reply::Int(1));
        let requests: &[&[&str]] = &[
            &["GET", "k"],
            &["MGET", "a", "k"],
            &["SET", "k", "v"],
            &["EXEC"],
            &["KEYS", "*"],
            &["DEL", "b", "k"],
            &["EVAL", script, "1", "k"],
            &["EVAL", "return 'of unknown keys'", "0"],
        ];
        let mut waiting: Vec<Wire> = requests.iter().map(|_| server.connect()).collect();
        assert_eq!(waiting[3].say("MULTI"), ok());
        assert_eq!(waiting[3].say("INCR k"), Reply::Simple("QUEUED".into()));
        let mut killer = server.connect();
        let begun = Instant::now();
        looping.send(&request(&["EVAL", script, "1", "k"]));
        std::thread::sleep(Duration::from_millis(100));
        for (wire, words) in waiting.iter_mut().zip(requests) {
            wire.send(&request(words));
        }
        // If this key waited for the endless script, its request would be refused as well.
        assert_eq!(killer.say("SET elsewhere 1"), ok());
        for (wire, words) in waiting.iter_mut().zip(requests) {
            let text = wire.reply().text();
            let is_told = text.starts_with("BUSY Redis is busy")
                || text.starts_with("EXECABORT") && text.contains("Redis is busy");
            assert!(is_told, "{words:?}: {text}");
        }
        assert!(begun.elapsed() >= Duration::from_millis(400), "they were refused early");
        assert_eq!(killer.say("SCRIPT KILL"), ok());
        assert!(looping.reply().text().starts_with("ERR Script killed by user"));
        // A request that waits for less than the threshold gets its reply.
        assert_eq!(killer.say("CONFIG SET busy-reply-threshold 60000"), ok());
        looping.send(&request(&["EVAL", script, "1", "k"]));
        std::thread::sleep(Duration::from_millis(50));
        waiting[0].send(&request(&["GET", "k"]));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(killer.say("SCRIPT KILL"), ok());
        assert_eq!(waiting[0].reply(), Reply::Null);
        assert!(looping.reply().text().starts_with("ERR Script killed by user"));
    }
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

/// A script that holds one key blocks only requests for that key: not those for other keys, nor
/// connections on the thread of a waiter. Regression test: threads used to spin until the script's
/// end, with all their connections.
#[test]
fn waiting_for_a_script_blocks_no_thread() {
    let seconds = std::env::var("HOTRING_SECONDS").ok().and_then(|text| text.parse().ok());
    let held_for = Duration::from_millis(seconds.map_or(500, |seconds: u64| seconds * 1_000));
    let server = TestServer::new();
    // New connections go to the thread that has fewer.
    let [mut script, mut waiting, _beside, mut other] = [(); 4].map(|()| server.connect());
    let busy = "redis.call('SET', KEYS[1], 'held') local t = redis.call('TIME') \
                local till = t[1] * 1000000 + t[2] + ARGV[1] * 1000 \
                repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] >= till return 'done'";
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
    // A read that waits for the script takes as long as it: there would be one.
    assert!(took.len() > 20, "{} reads", took.len());
    assert!(p99 < held_for / 2, "p99 {p99:?}");
    assert_eq!(waiting.reply(), bulk("held"));
    assert_eq!(script.reply(), bulk("done"));
}

/// Requests that looked from time to time whether a slow script had ended missed the gap before the next one, for as
/// long as scripts followed one another.
#[test]
fn successive_scripts_starve_no_client() {
    const SCRIPTS: usize = 20;
    for threads in [1, 2] {
        let server = TestServer::with(|config| {
            config.threads = threads;
            config.lua_time_ms = 200;
        });
        let (mut looping, mut waiting) = (server.connect(), server.connect());
        let (is_served, n) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_served.load(Relaxed) && n.fetch_add(1, Relaxed) < SCRIPTS {
                    eval(&mut looping, "while true do end", &["k"], &[]);
                }
            });
            while n.load(Relaxed) == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(waiting.say("GET k"), Reply::Null);
            is_served.store(true, Relaxed);
        });
        let n = n.into_inner();
        assert!(n < SCRIPTS / 2, "{threads} threads: GET waited for {n} scripts");
    }
}

/// A WAITKEY that waits for a script is blocked, and has no place in the queue for its key until the script ends. One
/// that is killed meanwhile leaves nothing behind.
#[test]
fn a_client_that_waits_for_a_script_is_blocked_first() {
    let server = TestServer::with(|config| {
        config.threads = 1;
        config.lua_time_ms = 60_000;
        config.busy_reply_ms = 0;
    });
    let [mut looping, mut waiting, mut killed, mut other] = [(); 4].map(|()| server.connect());
    let script = "if #ARGV > 0 then return 1 end while true do end return KEYS[1]";
    assert_eq!(eval(&mut looping, script, &["k"], &["x"]), Reply::Int(1));
    let Reply::Int(id) = killed.say("CLIENT ID") else { panic!("a number") };
    let mut until = |blocked: usize, placed: usize| {
        let expected = format!("\r\nblocked_clients:{blocked}\r\nwaiting_clients:{placed}\r\n");
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let text = other.say("INFO clients").text();
            if text.contains(&expected) {
                return;
            }
            assert!(Instant::now() < end, "{expected:?} is not in {text}");
        }
    };
    looping.send(&request(&["EVAL", script, "1", "k"]));
    std::thread::sleep(Duration::from_millis(100));
    waiting.send(&request(&["WAITKEY", "k", "0"]));
    killed.send(&request(&["WAITKEY", "k", "0"]));
    until(2, 0);
    let mut killer = server.connect();
    assert_eq!(killer.say(&format!("CLIENT KILL ID {id}")), Reply::Int(1));
    until(1, 0);
    assert_eq!(killer.say("SCRIPT KILL"), ok());
    assert!(looping.reply().text().starts_with("ERR Script killed by user"));
    until(1, 1);
    assert_eq!(killer.say("SET k v"), ok());
    assert_eq!(waiting.reply(), Reply::Int(1));
    until(0, 0);
}

/// A script was held to have run since its batch began, and while it waited for the one before it: BUSY came at once.
#[test]
fn the_wait_for_keys_does_not_count_as_script_time() {
    let server = TestServer::with(|config| {
        config.threads = 2;
        config.lua_time_ms = 500;
        config.busy_reply_ms = 1_000;
    });
    let script = "if #ARGV > 0 then return 1 end while true do end";
    let (mut one, mut other) = (server.connect(), server.connect());
    assert_eq!(eval(&mut one, script, &["k"], &["x"]), Reply::Int(1));
    let looping = request(&["EVAL", script, "1", "k"]);
    // Some follow one another in a batch, others wait in the gate.
    one.send(&looping.repeat(4));
    other.send(&looping.repeat(2));
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(1_200));
        assert_eq!(server.connect().say("GET k"), Reply::Null);
    }
}

/// Regression test: a script whose first run found nothing to do was taken for one that uses only its KEYS. The next
/// one had taken the task from its queue when the task's own key was refused to it, and the task was lost.
#[test]
fn an_element_taken_by_a_script_is_not_lost() {
    const TASKS: usize = 20;
    let server = TestServer::new();
    let mut wires = [server.connect(), server.connect()];
    let take = "local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2]) if id then \
                redis.call('HSET', ARGV[1] .. id, 'state', 'active') end return id";
    let sha = wires[0].ask(&["SCRIPT", "LOAD", take]).text();
    let run = |wire: &mut Wire| wire.ask(&["EVALSHA", &sha, "2", "pending", "active", "task:"]);
    assert_eq!(run(&mut wires[0]), Reply::Null);
    for i in 0..TASKS {
        let id = i.to_string();
        assert_eq!(wires[0].ask(&["LPUSH", "pending", &id]), Reply::Int(1));
        assert_eq!(run(&mut wires[(i + 1) % 2]), bulk(&id));
        assert_eq!(wires[0].ask(&["HGET", &format!("task:{id}"), "state"]), bulk("active"));
    }
}
