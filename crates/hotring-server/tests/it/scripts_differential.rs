//! Compares scripts with a real `redis-server`: every reply must be the same, byte for byte, and
//! the error counts must agree in number and kind.
//!
//! Not requested: fractions as arguments, which Redis has printed with fewer digits since 7.2; the
//! libraries' errors for bad input; several errors in one reply, which Redis counts as several
//! failed calls; and random numbers without a seed, because here each run begins with the same one.

use crate::differential::{Raw, Redis};
use crate::wire::TestServer;

/// Scripts on the key `n`, an integer, the key `h`, a hash, and two arguments.
const SCRIPTS: &[&str] = &[
    "return 1",
    "return 1.9",
    "return -1.9",
    "return 2^53",
    "return 'text'",
    "return ''",
    "return true",
    "return false",
    "return nil",
    "return",
    "return {1, 2, {3, 'four', {5}}, false, true, nil, 7}",
    "return {}",
    "return {{}, {{}}}",
    "return {a = 1}",
    "return {1, 2, a = 3}",
    "return {ok = 'fine'}",
    "return {ok = 'two\\r\\nlines'}",
    "return {err = 'MINE broken'}",
    "return {err = 'broken'}",
    "return {{err = 'ERR a'}, {ok = 'b'}}",
    "return {double = 3.5}",
    "return {map = {a = 1}}",
    "return {set = {a = true}}",
    "return {big_number = '12345678901234567890'}",
    "return {verbatim_string = {format = 'txt', string = 'hello'}}",
    "return print",
    "return function() end",
    "return coroutine.create(function() end)",
    "return redis.error_reply('MINE broken')",
    "return redis.error_reply('-MINE broken')",
    "return redis.error_reply('broken')",
    "return redis.error_reply('broken\\r\\n')",
    "return redis.error_reply()",
    "return redis.error_reply(5)",
    "return redis.status_reply('fine')",
    "return redis.status_reply()",
    "redis.setresp(3) return true",
    "redis.setresp(3) return {true, false}",
    "redis.setresp(3) return redis.call('HGETALL', KEYS[2])",
    "redis.setresp(3) return redis.call('GET', 'missing')",
    "redis.setresp(3) return type(redis.call('GET', 'missing'))",
    "redis.setresp(4)",
    "redis.setresp()",
    "return redis.call('HGETALL', KEYS[2])",
    "return redis.call('GET', KEYS[1])",
    "return redis.call('GET', 'missing')",
    "return type(redis.call('GET', 'missing'))",
    "return redis.call('MGET', KEYS[1], 'missing', KEYS[1])",
    "return redis.call('INCR', KEYS[1])",
    "return redis.call('INCR', KEYS[2])",
    "return redis.pcall('INCR', KEYS[2])",
    "return redis.pcall('INCR', KEYS[2]).err",
    "return redis.pcall('NONSENSE').err",
    "return {redis.pcall('INCR', KEYS[2])}",
    "redis.pcall('INCR', KEYS[2]) redis.pcall('NONSENSE') redis.pcall() return 1",
    "redis.pcall('INCR', KEYS[2]) return redis.call('GET', KEYS[2])",
    "error(redis.pcall('INCR', KEYS[2]))",
    "return redis.pcall('INCR', KEYS[2]).ignore_error_stats_update",
    "local ok, err = pcall(redis.call, 'INCR', KEYS[2]) return {type(err), err.err}",
    "local ok, err = pcall(redis.call, 'NONSENSE') return {type(err), err.err}",
    "local ok, err = pcall(error, 'x') return {type(err), err}",
    "local ok, err = pcall(function() return missing end) return err",
    "local ok, err = pcall(string.rep) return err",
    "return select(2, xpcall(function() error('a') end, function(e) return e .. '!' end))",
    "return redis.call('INCR')",
    "return redis.call('NONSENSE', 'x')",
    "return redis.call('CLIENT', 'NONSENSE')",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call('GET', {})",
    "return redis.call('GET', true)",
    "return redis.call(5)",
    "return redis.call('SET', KEYS[1], 7)",
    "return redis.call('SET', KEYS[1], 7).ok",
    "redis.call('SET', KEYS[1], 2^40) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], -0) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 'a\\0b') return redis.call('STRLEN', KEYS[1])",
    "return redis.call('PING')",
    "return redis.call('PING', 'x')",
    "return redis.call('ECHO', 'x')",
    "return redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[1])",
    "return redis.call('TYPE', KEYS[1])",
    "return redis.call('TYPE', KEYS[1]).ok",
    "return redis.call('MULTI')",
    "return redis.call('WATCH', 'a')",
    "return redis.call('SUBSCRIBE', 'a')",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.call('SCRIPT', 'EXISTS', 'x')",
    "return redis.call('HELLO', 3)",
    "return redis.call('AUTH', 'x')",
    "return redis.call('CLIENT', 'ID')",
    "return redis.call('CONFIG', 'GET', 'port')",
    "return redis.call('RESET')",
    "return redis.call('SELECT', 0)",
    "return redis.call('PUBLISH', 'nobody', 'x')",
    "return KEYS[1] .. KEYS[2] .. ARGV[1] .. ARGV[2] .. #KEYS .. #ARGV",
    "return KEYS",
    "return ARGV",
    "KEYS[1] = 'x' return KEYS[1]",
    "KEYS = {} return 1",
    "x = 1",
    "x.y = 1",
    "return missing",
    "_G.x = 1",
    "return _G.missing",
    "return rawget(_G, 'missing')",
    "return getmetatable(_G) == nil",
    "error('mine')",
    "error('mine', 0)",
    "error({err = 'MINE x'})",
    "error({err = 'x'})",
    "error()",
    "error(5)",
    "local function f() error('deep') end f()",
    "\n\nerror('third line')",
    "local t = nil return t.x",
    "return 1 + {}",
    "return #5",
    "return 'a' < 1",
    "return string.rep()",
    "return ('x'):bad()",
    "return tostring(1e15) .. tostring(0.1) .. tostring(-1/0)",
    "return tonumber('0x10') + tonumber('10', 2)",
    "return table.concat({1, 2, 3}, ',')",
    "local t = {3, 1, 2} table.sort(t) return t",
    "return {math.floor(-1.5), math.max(1, 5), math.huge > 1, math.pi}",
    "math.randomseed(12345) return {math.random(1000000), math.random(1000000)}",
    "math.randomseed(-7) return {math.random(1000000), math.random(10, 20), tostring(math.random())}",
    "return math.random(0)",
    "return math.random(2, 1)",
    "return math.random(1, 2, 3)",
    "return string.format('%5.2f|%d|%s|%q', 3.14159, 42, 'x', 'a\"b')",
    "return {string.find('hello', 'l(l)o')}",
    "return string.gsub('hello', 'l', 'L')",
    "return loadstring('return 5')()",
    "return loadstring('return KEYS[1]')()",
    "return loadstring('return (') == nil",
    "local f = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end) \
     return {f(1), f(10)}",
    "return redis.sha1hex('hello')",
    "return redis.sha1hex(5)",
    "return redis.sha1hex()",
    "return redis.replicate_commands()",
    "return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}",
    "redis.log(redis.LOG_DEBUG, 'x')",
    "redis.log(redis.LOG_DEBUG)",
    "redis.log('x', 'y')",
    "redis.log(7, 'y')",
    "return cjson.encode({1, 2, {a = 'b'}})",
    "return cjson.encode({})",
    "return cjson.encode({[1] = 1, [2] = 2, [4] = 4})",
    "return cjson.encode('a/b\\n\\1\\127\"')",
    "return cjson.encode({true, false, cjson.null})",
    "return cjson.encode(1e20) .. cjson.encode(0.1) .. cjson.encode(12345678)",
    "return cjson.decode('[1,2,{\"a\":[null,true,\"x\"]}]')[3].a[3]",
    "return cjson.decode('{\"a\":1.5}').a * 2",
    "return cjson.decode('[null]')[1] == cjson.null",
    "return cjson.decode(ARGV[1])",
    "return bit.tohex(bit.bor(0xf0, 0x0f), 4)",
    "return {bit.band(7, 5), bit.bxor(7, 5), bit.bnot(0), bit.lshift(1, 31), bit.rshift(-1, 28)}",
    "return {bit.tobit(2^32 + 5), bit.rol(0x12345678, 8), bit.bswap(1), bit.arshift(-16, 2)}",
    "return struct.pack('>I4h', 7, -2)",
    "return {struct.unpack('>I4h', struct.pack('>I4h', 7, -2))}",
    "return struct.pack('s', 'abc') .. struct.pack('c2', 'xyz') .. struct.size('bhil')",
    "return {struct.unpack('Bc0', '\\3abcdef')}",
    "return cmsgpack.pack(1, -1, 300, -300, 70000, 'x', true, {1, 2}, {a = 1})",
    "return cmsgpack.pack(1.5, 0.1, 2^40, -2^40, 2^63)",
    "return {cmsgpack.unpack(cmsgpack.pack(1, 'x', {2, {3}}))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2), 0)}",
    "return cmsgpack.pack({1, 2, nil, 4}, {[1] = 1, [3] = 3}, {})",
    "return (",
    "return 'unfinished",
    "for",
    "#!lua\nreturn 1",
    "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 1)",
    "#!lua flags=nonsense\nreturn 1",
    "#!python\nreturn 1",
    "#!lua",
];

/// The server's error counts, by kind and by command.
fn errors(raw: &mut Raw) -> Vec<String> {
    let info = raw.ask(&[b"INFO", b"stats", b"commandstats", b"errorstats"]);
    let info = String::from_utf8_lossy(&info).into_owned();
    let is_counted = |line: &&str| {
        let by_command = line.starts_with("cmdstat_");
        let is_zero = line.ends_with("rejected_calls=0,failed_calls=0");
        line.starts_with("errorstat_")
            || line.starts_with("total_error_replies")
            || by_command && !is_zero
    };
    let mut lines: Vec<String> = info
        .lines()
        .filter(is_counted)
        // Without the durations.
        .map(|line| match (line.split_once(':'), line.split_once(",rejected_calls")) {
            (Some((name, _)), Some((_, rejected))) => format!("{name} {rejected}"),
            _ => line.to_string(),
        })
        .collect();
    lines.sort();
    lines
}

fn compare(hello: &[u8]) {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let mut both = [server.address, redis.address].map(Raw::connect);
    // INFO's text has another type in version 3.
    let mut observers = [server.address, redis.address].map(Raw::connect);
    let mut different = Vec::new();
    for raw in &mut both {
        assert!(!raw.ask(&[b"HELLO", hello]).starts_with(b"-"));
    }
    // Twice: known scripts run with their keys only.
    for script in SCRIPTS.iter().chain(SCRIPTS) {
        for command in [&b"EVAL"[..], b"EVAL_RO"] {
            observers.iter_mut().for_each(|raw| _ = raw.ask(&[b"CONFIG", b"RESETSTAT"]));
            let replies = both.each_mut().map(|raw| {
                raw.ask(&[b"SET", b"n", b"10"]);
                raw.ask(&[b"DEL", b"h"]);
                raw.ask(&[b"HSET", b"h", b"f", b"v"]);
                let reply = raw.ask(&[command, script.as_bytes(), b"2", b"n", b"h", b"17", b"x y"]);
                reply.escape_ascii().to_string()
            });
            let errors = observers.each_mut().map(errors);
            let [ours, theirs]: [_; 2] = std::array::from_fn(|i| (&replies[i], &errors[i]));
            if ours != theirs {
                let command = command.escape_ascii();
                different.push(format!("{command} {script}\n ours: {ours:?}\nredis: {theirs:?}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn scripts_get_the_replies_of_redis() {
    compare(b"2");
    compare(b"3");
}

#[test]
fn the_commands_of_scripts_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let mut both = [server.address, redis.address].map(Raw::connect);
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    for line in [
        "EVAL",
        "EVAL x",
        "EVAL return#1 0",
        "EVAL return#1 x",
        "EVAL return#1 -1",
        "EVAL return#1 1",
        "EVAL return#1 2 a",
        "EVAL return#1 99999999999999999999",
        "SCRIPT LOAD return#1",
        "SCRIPT LOAD return#(",
        "SCRIPT LOAD",
        "SCRIPT LOAD a b",
        &format!("EVALSHA {sha} 0"),
        &format!("EVALSHA {} 0", sha.to_uppercase()),
        &format!("EVALSHA_RO {sha} 0"),
        &format!("EVALSHA {sha} x"),
        "EVALSHA abc 0",
        "EVALSHA abc x",
        "EVALSHA zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz 0",
        &format!("SCRIPT EXISTS {sha} abc {}", sha.to_uppercase()),
        "SCRIPT EXISTS",
        "SCRIPT KILL",
        "SCRIPT KILL x",
        "SCRIPT FLUSH x",
        "SCRIPT FLUSH SYNC ASYNC",
        "SCRIPT FLUSH ASYNC",
        &format!("EVALSHA {sha} 0"),
        "SCRIPT FLUSH",
        "SCRIPT",
        "SCRIPT NONSENSE",
        "MULTI",
        "EVAL return#redis.call('INCR',KEYS[1]) 1 n",
        &format!("EVALSHA {sha} 0"),
        "EXEC",
    ] {
        // A space within an argument is written this way.
        let words: Vec<String> = line.split(' ').map(|word| word.replace('#', " ")).collect();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let [ours, theirs] = both.each_mut().map(|raw| raw.ask(&words).escape_ascii().to_string());
        assert_eq!(ours, theirs, "{line}");
    }
}
