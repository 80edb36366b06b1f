//! Compares the errors of scripts with those of a real `redis-server`, and what scripts may say of themselves.
//!
//! Not compared: `pairs()`, which is taken for `pairs(nil)`, and `next(nil)`, which is taken for `next()`.

use crate::differential::{Raw, Redis};
use crate::wire::TestServer;

const SCRIPTS: &[&str] = &[
    "return pairs(1)",
    "for k in pairs(nil) do end",
    "return ipairs()",
    "return next()",
    "return next(1)",
    "return next({}, 1)",
    "local ok, err = pcall(function() local x = next({}, 1) end) return err",
    "return rawset({}, nil, 1)",
    "return rawset({}, 0/0, 1)",
    "return rawset(1, 2, 3)",
    "return rawset({}, 1)",
    "return rawget(1, 2)",
    "return rawget({})",
    "return pcall()",
    "local ok, err = pcall(pairs, 1) return err",
    "return setmetatable(1, {})",
    "return tonumber()",
    "return tostring()",
    "return select('x')",
    "return unpack()",
    "return string.rep()",
    "return string.sub()",
    "return string.format('%d', 'x')",
    "return string.find('a', '[')",
    "return ('x'):nope()",
    "return nil + 1",
    "return 'a' + 1",
    "return 1 .. {}",
    "return #nil",
    "return {} < {}",
    "return 1 < 'a'",
    "return nil.x",
    "local t; t.x = 1",
    "foo = 1",
    "return foo",
    "foo()",
    "local x = 5; x()",
    "error('boom')",
    "error('x', 0)",
    "error()",
    "error({err='ERR my'})",
    "error({err='My Err'})",
    "return redis.call()",
    "return redis.call('nope')",
    "return redis.call('get')",
    "return redis.call('set', 'a', {})",
    "return redis.call('incr', 's')",
    "return redis.pcall('incr', 's')",
    "return redis.error_reply()",
    "return redis.error_reply('x')",
    "return redis.status_reply(1)",
    "return redis.sha1hex()",
    "return redis.log()",
    "return redis.log(9, 'x')",
    "return redis.setresp(4)",
    "return redis.set_repl()",
    "return redis.set_repl(99)",
    "return redis.set_repl(redis.REPL_ALL)",
    "redis = 1",
    "redis.call = 1",
    "cjson = 1",
    "cjson.x = 1",
    "cmsgpack = 1",
    "bit = {}",
    "bit.band = 1",
    "string.x = 1",
    "_G.x = 1",
    "return rawset(_G, 'x', 1)",
    "KEYS = 1",
    "return bit.band()",
    "return bit.band(1, {})",
    "return bit.lshift(1)",
    "return bit.tohex('x')",
    "return bit.tohex(1, 'x')",
    "return math.random(0)",
    "return math.floor('x')",
    "return table.concat({{}})",
    "return table.insert({})",
    "return os.time()",
    "return print('x')",
    "return assert(false)",
    "return assert(nil, 'msg')",
    "x =",
    "return 'a",
    "for i=1 do end",
    "#!lua\nreturn 1",
    "#!lua flags=\nreturn 1",
    "#!lua flags=nope\nreturn 1",
    "#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], 1)",
    "#!lua flags=no-writes,allow-oom\nreturn redis.call('get', KEYS[1])",
    "#!lua flags=allow-stale,no-cluster,allow-cross-slot-keys\nreturn 1",
    "#!lua flags=no-writes,,allow-oom\nreturn 1",
    "#!lua flags=no-writes flags=x\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!py\nreturn 1",
    "#!lua",
];

#[test]
fn scripts_fail_with_the_words_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    for raw in [&mut ours, &mut theirs] {
        raw.ask(&[b"SET", b"s", b"x"]);
    }
    for script in SCRIPTS {
        let request: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", b"a"];
        let [a, b] = [&mut ours, &mut theirs].map(|raw| raw.ask(&request));
        assert_eq!(a.escape_ascii().to_string(), b.escape_ascii().to_string(), "{script}");
    }
}

/// Run at the limit of memory, and at a replica without its primary.
const FLAGGED: &[&str] = &[
    "return redis.call('set', KEYS[1], 1)",
    "return redis.call('get', KEYS[1])",
    "#!lua flags=allow-oom\nreturn redis.call('rpush', KEYS[1] .. 'l', ARGV[1])",
    "#!lua flags=allow-oom\nfor i = 1, 9 do redis.call('sadd', 'b' .. i, ARGV[1]) end return 1",
    "#!lua flags=allow-oom,no-writes\nreturn redis.call('get', KEYS[1])",
    "#!lua flags=no-writes\nreturn redis.call('get', KEYS[1])",
    "#!lua flags=allow-cross-slot-keys\nreturn redis.call('get', KEYS[1])",
    "#!lua\nreturn redis.call('get', KEYS[1])",
    "#!lua\nreturn redis.call('del', KEYS[1])",
    "#!lua\nreturn 1",
];

/// Scripts whose flags said `allow-oom` were refused at the limit, and those with other flags ran until their first
/// write, there and at replicas.
#[test]
fn flags_of_scripts_say_whether_they_run_where_writes_are_refused() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    let value = [b'x'; 5000];
    for orders in [
        "CONFIG SET maxmemory-policy noeviction maxmemory 1",
        "CONFIG SET maxmemory 0|REPLICAOF 127.0.0.1 1",
    ] {
        for raw in [&mut ours, &mut theirs] {
            for order in orders.split('|') {
                let words: Vec<&[u8]> = order.split(' ').map(str::as_bytes).collect();
                assert_eq!(raw.ask(&words), b"+OK\r\n");
            }
            raw.ask(&[b"CONFIG", b"RESETSTAT"]);
        }
        for script in FLAGGED {
            let request: [&[u8]; 5] = [b"EVAL", script.as_bytes(), b"1", b"a", &value];
            let [a, b] = [&mut ours, &mut theirs].map(|raw| raw.ask(&request));
            assert_eq!(a.escape_ascii().to_string(), b.escape_ascii().to_string(), "{script}");
        }
        // A script that is refused at its beginning counts as rejected.
        let [a, b] = [&mut ours, &mut theirs].map(|raw| {
            let stats = raw.ask(&[b"INFO", b"commandstats"]);
            let stats = String::from_utf8_lossy(&stats).into_owned();
            let eval = stats.lines().find(|line| line.starts_with("cmdstat_eval:"));
            let (calls, rest) = eval.unwrap().split_once(",usec").unwrap();
            format!("{calls},{}", &rest[rest.find("rejected").unwrap()..])
        });
        assert_eq!(a, b, "{orders}");
    }
}
