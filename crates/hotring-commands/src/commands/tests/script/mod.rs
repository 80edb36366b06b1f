//! Scripts, as a client sees them.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};

/// A request whose arguments may hold anything.
fn ask(dialogue: &mut Dialogue, args: &[&str]) -> String {
    let mut input = format!("*{}\r\n", args.len());
    for arg in args {
        input.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
    }
    String::from_utf8_lossy(&dialogue.ask(input.as_bytes())).replace("\r\n", "¶")
}

/// The reply to a script with these keys and arguments.
fn eval(dialogue: &mut Dialogue, script: &str, keys: &[&str], args: &[&str]) -> String {
    let n_keys = keys.len().to_string();
    ask(dialogue, &[&["EVAL", script, &n_keys], keys, args].concat())
}

#[test]
fn values_become_replies() {
    play(
        r#"
        EVAL "return 1" 0                                   -> :1¶
        EVAL "return 3.99" 0                                -> :3¶
        EVAL "return -3.99" 0                               -> :-3¶
        EVAL "return 'x'" 0                                 -> $1¶x¶
        EVAL "return true" 0                                -> :1¶
        EVAL "return false" 0                               -> $-1¶ | _¶
        EVAL "return nil" 0                                 -> $-1¶ | _¶
        EVAL "" 0                                           -> $-1¶ | _¶
        EVAL "return {1,'two',{3},nil,4}" 0                 -> *3¶:1¶$3¶two¶*1¶:3¶
        EVAL "return {}" 0                                  -> *0¶
        EVAL "return {ok='fine'}" 0                         -> +fine¶
        EVAL "return {err='MINE broken'}" 0                 -> -MINE broken¶
        EVAL "return redis.status_reply('fine')" 0          -> +fine¶
        EVAL "return redis.error_reply('MINE broken')" 0    -> -MINE broken¶
        EVAL "return redis.error_reply('-MINE broken')" 0   -> -MINE broken¶
        EVAL "return redis.error_reply('broken')" 0         -> -ERR broken¶
        EVAL "return {double=1.5}" 0                        -> $3¶1.5¶ | ,1.5¶
        EVAL "return {map={a=1}}" 0                         -> *2¶$1¶a¶:1¶ | %1¶$1¶a¶:1¶
        EVAL "return {set={a=true}}" 0                      -> *1¶$1¶a¶ | ~1¶$1¶a¶
        EVAL "return {big_number='123'}" 0                  -> $3¶123¶ | (123¶
        EVAL "return {verbatim_string={format='txt',string='x'}}" 0 -> $1¶x¶ | =5¶txt:x¶
        EVAL "redis.setresp(3) return true" 0               -> :1¶ | #t¶
        EVAL "return {KEYS[1],KEYS[2],ARGV[1],#KEYS,#ARGV}" 2 a b c -> *5¶$1¶a¶$1¶b¶$1¶c¶:2¶:1¶
        "#,
    );
}

fn sha(script: &str) -> String {
    crate::state::scripts::digest_text(&crate::state::scripts::digest(script.as_bytes()))
}

#[test]
fn replies_become_values() {
    play(
        r#"
        SET n 5                                                          -> +OK¶
        HSET h f v                                                       -> :1¶
        EVAL "return redis.call('INCR', KEYS[1]) + 1" 1 n                -> :7¶
        EVAL "return redis.call('GET', KEYS[1])" 1 n                     -> $1¶6¶
        EVAL "return redis.call('GET', KEYS[1]) == false" 1 missing      -> :1¶
        EVAL "return redis.call('SET', KEYS[1], 1).ok" 1 n               -> $2¶OK¶
        EVAL "return #redis.call('MGET', KEYS[1], KEYS[2])" 2 n missing  -> :2¶
        EVAL "return redis.call('HGETALL', KEYS[1])" 1 h                 -> *2¶$1¶f¶$1¶v¶
        EVAL "redis.setresp(3) return redis.call('HGETALL', KEYS[1]).map.f" 1 h -> $1¶v¶
        EVAL "redis.setresp(3) return redis.call('GET', KEYS[1]) == nil" 1 missing -> :1¶ | #t¶
        EVAL "return redis.pcall('INCR', KEYS[1]).err" 1 h -> $65¶WRONGTYPE Operation against a key holding the wrong kind of value¶
        EVAL "redis.call('SET', KEYS[1], 10) redis.call('SET', KEYS[1], 2.5) return redis.call('GET', KEYS[1])" 1 n -> $3¶2.5¶
        EVAL "redis.call('SET', KEYS[1], 1e21) return redis.call('GET', KEYS[1])" 1 n -> $5¶1e+21¶
        EVAL "redis.call('SET', KEYS[1], 1e-7) return redis.call('GET', KEYS[1])" 1 n -> $4¶1e-7¶
        EVAL "return redis.call('TIME')[1] ~= nil" 0                     -> :1¶
        EVAL "return redis.sha1hex('')" 0 -> $40¶da39a3ee5e6b4b0d3255bfef95601890afd80709¶
        "#,
    );
}

#[test]
fn mistakes_get_the_errors_of_redis() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for (script, error) in [
        ("return redis.call()", "ERR Please specify at least one argument for this redis lib call"),
        ("return redis.call('NONSENSE')", "ERR Unknown Redis command called from script"),
        ("return redis.call('GET')", "ERR Wrong number of args calling Redis command from script"),
        (
            "return redis.call('GET', {})",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        ("return redis.call('MULTI')", "ERR This Redis command is not allowed from script"),
        (
            "return redis.call('EVAL', 'return 1', 0)",
            "ERR This Redis command is not allowed from script",
        ),
        (
            "return redis.call('SUBSCRIBE', 'a')",
            "ERR This Redis command is not allowed from script",
        ),
        (
            "return redis.call('WAITKEY', 'a', 1)",
            "ERR This Redis command is not allowed from script",
        ),
        (
            "return redis.call('CONFIG', 'GET', '*')",
            "ERR This Redis command is not allowed from script",
        ),
        ("error('mine')", "ERR user_script:1: mine"),
        ("error({err='MINE x'})", "MINE x"),
        ("x = 1", "ERR user_script:1: Attempt to modify a readonly table"),
        // Lua itself raises this one, without a place.
        ("next({}, 1)", "ERR invalid key to 'next'"),
        (
            "return nothing.x",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'nothing'",
        ),
        (
            "local a = nil; return a.b",
            "ERR user_script:1: attempt to index local 'a' (a nil value)",
        ),
        (
            "return cjson.decode('{')",
            "ERR user_script:1: Expected valid JSON: EOF while parsing an object at line 1 column 1",
        ),
        (
            "return string.rep()",
            "ERR user_script:1: bad argument #1 to 'rep' (string expected, got no value)",
        ),
    ] {
        let reply = eval(&mut dialogue, script, &[], &[]);
        let expected = format!("-{error} script: {}, on @user_script:1.¶", sha(script));
        assert_eq!(reply, expected, "{script}");
    }
    let second = eval(&mut dialogue, "local a = 1\nerror('there')", &[], &[]);
    assert!(second.ends_with("on @user_script:2.¶"), "{second}");
    let compiled = eval(&mut dialogue, "return (", &[], &[]);
    let expected = "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'¶";
    assert_eq!(compiled, expected);
    play(
        r#"
        EVAL "return 1" x                -> -ERR value is not an integer or out of range¶
        EVAL "return 1" -1               -> -ERR Number of keys can't be negative¶
        EVAL "return 1" 1                -> -ERR Number of keys can't be greater than number of args¶
        EVALSHA abc 0                    -> -NOSCRIPT No matching script. Please use EVAL.¶
        EVALSHA ffffffffffffffffffffffffffffffffffffffff 0 -> -NOSCRIPT No matching script. Please use EVAL.¶
        SCRIPT FLUSH NOW                 -> -ERR SCRIPT FLUSH only support SYNC|ASYNC option¶
        SCRIPT KILL                      -> -NOTBUSY No scripts in execution right now.¶
        SCRIPT NONSENSE                  -> -ERR unknown subcommand 'NONSENSE'. Try SCRIPT HELP.¶
        "#,
    );
}

#[test]
fn read_only_scripts_write_nothing() {
    let refusal = |script: &str| {
        format!(
            "-ERR Write commands are not allowed from read-only scripts. script: {}, on @user_script:1.¶",
            sha(script)
        )
    };
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("SET k v");
    let script = "return redis.call('DEL', KEYS[1])";
    assert_eq!(ask(&mut dialogue, &["EVAL_RO", script, "1", "k"]), refusal(script));
    assert_eq!(ask(&mut dialogue, &["EVALSHA_RO", &sha(script), "1", "k"]), refusal(script));
    let publish = "return redis.call('PUBLISH', 'a', 'b')";
    assert_eq!(ask(&mut dialogue, &["EVAL_RO", publish, "0"]), refusal(publish));
    assert_eq!(
        ask(&mut dialogue, &["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "k"]),
        "$1¶v¶"
    );
    let marked = "#!lua flags=no-writes\nreturn redis.call('DEL', KEYS[1])";
    let reply = eval(&mut dialogue, marked, &["k"], &[]);
    assert_eq!(reply, refusal(marked).replace("user_script:1", "user_script:2"));
    assert_eq!(eval(&mut dialogue, script, &["k"], &[]), ":1¶");
}

#[test]
fn the_cache_is_filled_and_emptied() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let (one, two) = (sha("return 1"), sha("return 2"));
    assert_eq!(
        ask(&mut dialogue, &["EVALSHA", &one, "0"]),
        "-NOSCRIPT No matching script. Please use EVAL.¶"
    );
    assert_eq!(ask(&mut dialogue, &["SCRIPT", "LOAD", "return 1"]), format!("$40¶{one}¶"));
    assert_eq!(ask(&mut dialogue, &["EVALSHA", &one.to_uppercase(), "0"]), ":1¶");
    assert_eq!(eval(&mut dialogue, "return 2", &[], &[]), ":2¶");
    assert_eq!(ask(&mut dialogue, &["SCRIPT", "EXISTS", &one, &two, "x"]), "*3¶:1¶:1¶:0¶");
    assert_eq!(ask(&mut dialogue, &["SCRIPT", "FLUSH", "async"]), "+OK¶");
    assert_eq!(
        ask(&mut dialogue, &["EVALSHA", &one, "0"]),
        "-NOSCRIPT No matching script. Please use EVAL.¶"
    );
    assert_eq!(ask(&mut dialogue, &["SCRIPT", "EXISTS", &one, &two]), "*2¶:0¶:0¶");
    let broken = ask(&mut dialogue, &["SCRIPT", "LOAD", "return ("]);
    assert!(broken.starts_with("-ERR Error compiling script"), "{broken}");
    assert_eq!(dialogue.say("CONFIG SET script-cache-limit 64kb"), "+OK¶");
    for i in 0..500 {
        assert_eq!(eval(&mut dialogue, &format!("return {i}"), &[], &[]), format!(":{i}¶"));
    }
    let (n, _) = dialogue.server().scripts.counts();
    assert!(n <= 128, "{n} scripts of more than 512 bytes each");
}

#[test]
fn libraries_are_read_only() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let libraries =
        ["redis", "cjson", "cmsgpack", "bit", "struct", "string", "table", "math", "coroutine"];
    for library in libraries {
        let (assigned, raw) = (format!("{library}.x = 1"), format!("rawset({library}, 'x', 1)"));
        // As in Redis, only the first one names the place in the text itself.
        for (script, place) in [(assigned, "user_script:1: "), (raw, "")] {
            let reply = eval(&mut dialogue, &script, &[], &[]);
            let expected = format!("-ERR {place}Attempt to modify a readonly table script: ");
            assert!(reply.starts_with(&expected), "{script}: {reply}");
        }
        let script = format!(
            "local n = 0 for name, entry in pairs({library}) do \
               n = n + 1 assert({library}[name] == entry and rawget({library}, name) == entry) \
             end \
             return n > 1 and next({library}) ~= nil"
        );
        assert_eq!(eval(&mut dialogue, &script, &[], &[]), ":1¶", "{library}");
    }
    for (script, why) in [
        ("pairs(1)", "bad argument #1 to 'pairs' (table expected, got number)"),
        ("next()", "bad argument #1 to 'next' (table expected, got no value)"),
        ("rawget(nil, 1)", "bad argument #1 to 'rawget' (table expected, got nil)"),
    ] {
        let reply = eval(&mut dialogue, script, &[], &[]);
        assert!(reply.starts_with(&format!("-ERR user_script:1: {why} script: ")), "{reply}");
    }
    let script =
        "local t = {} rawset(t, 'a', 1) return {rawget(t, 'a'), next(t), next(t, 'a') == nil}";
    assert_eq!(eval(&mut dialogue, script, &[], &[]), "*3¶:1¶$1¶a¶:1¶");
}

#[test]
fn a_run_does_not_affect_the_next() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for script in [
        "pcall(loadstring('string.upper = nil')) return 1",
        "pcall(loadstring('redis.call = nil')) return 1",
        "pcall(rawset, _G, 'leak', 1) return 1",
        "for _, t in pairs({_G, redis, math}) do pcall(table.insert, t, 1) pcall(table.insert, t, 1, 2) end return 1",
        "pcall(table.sort, redis) pcall(table.remove, redis) pcall(rawset, math, 'leak', 1) return 1",
        "pcall(rawset, string, 'rep', error) for _, part in pairs({_G, redis}) do pairs(part) end return 1",
        "local _, strings = pairs(string) strings.upper = nil return 1",
        "KEYS.leak = 1 return 1",
        "setmetatable(KEYS, {__index = function() return 'leak' end}) return 1",
        "for name in pairs(_G) do pcall(rawset, _G, name, nil) end return 1",
        "for name in pairs(redis) do pcall(rawset, redis, name, nil) end return 1",
        "pcall(function() redis.call = nil end) pcall(function() KEYS = nil end) return 1",
        "collectgarbage('stop') return 1",
        "math.randomseed(7) return 1",
        "pcall(setmetatable, _G, {}) return 1",
        "local co = coroutine.create(function() string.len = nil end) coroutine.resume(co) return 1",
        "pcall(loadstring('string.sub = nil')) return 1",
    ] {
        assert_eq!(eval(&mut dialogue, script, &[], &[]), ":1¶", "{script}");
        let check = "return string.upper('a') .. ('a'):rep(2) .. redis.call('ECHO', 'x') .. \
                     tostring(rawget(_G, 'leak')) .. tostring(redis[1]) .. tostring(math.leak) .. \
                     tostring(KEYS.leak) .. string.len('') .. string.sub('abc', 2, 2)";
        assert_eq!(eval(&mut dialogue, check, &[], &[]), "$18¶Aaaxnilnilnilnil0b¶", "{script}");
    }
}

/// What a script finds must not tell what earlier ones have used.
#[test]
fn all_scripts_see_the_same_globals() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let names = "local names = {} for name in pairs(_G) do names[#names + 1] = name end \
                 table.sort(names) return table.concat(names, ' ')";
    let first = eval(&mut dialogue, names, &[], &[]);
    for name in ["KEYS", "ARGV", "redis", "cjson", "string", "pairs", "loadstring", "_G"] {
        assert!(first.contains(name), "{name}: {first}");
    }
    eval(&mut dialogue, "return cjson.encode({struct.pack('i', #KEYS)})", &["a"], &["b"]);
    assert_eq!(eval(&mut dialogue, names, &[], &[]), first);
    assert_eq!(eval(&mut dialogue, "return {#rawget(_G, 'KEYS'), #ARGV}", &[], &[]), "*2¶:0¶:0¶");
}

#[test]
fn scripts_reach_nothing_outside() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for name in ["os", "io", "debug", "require", "package", "dofile", "loadfile", "module", "print"]
        .into_iter()
        .chain(["getfenv", "setfenv", "newproxy", "gcinfo"])
    {
        let reply = eval(&mut dialogue, &format!("return {name}"), &[], &[]);
        assert!(reply.contains("nonexistent global variable"), "{name}: {reply}");
    }
    for script in [
        "return getmetatable('').__index",
        "return getmetatable(_G).__index",
        "return getmetatable(redis)",
        "return loadstring(string.dump(function() return 1 end))",
        "return loadstring('\\27Lua')",
        "local part = '\\27' return load(function() local p = part part = nil return p end)",
    ] {
        let reply = eval(&mut dialogue, script, &[], &[]);
        let is_nothing = reply == "$-1¶" || reply.starts_with("-ERR");
        assert!(is_nothing, "{script}: {reply}");
    }
    let bytecode = ask(&mut dialogue, &["EVAL", "\u{1b}Lua", "0"]);
    assert!(bytecode.starts_with("-ERR Error compiling script"), "{bytecode}");
    assert_eq!(eval(&mut dialogue, "return loadstring('return KEYS[1]')()", &["a"], &[]), "$1¶a¶");
    let parts = "local parts = {'return ', '2 + 3'} \
                 return load(function() return table.remove(parts, 1) end)()";
    assert_eq!(eval(&mut dialogue, parts, &[], &[]), ":5¶");
}

#[test]
fn a_script_that_does_not_end_is_ended() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    assert_eq!(dialogue.say("CONFIG SET lua-time-limit 0 lua-instruction-limit 100000"), "+OK¶");
    dialogue.say("SET k before");
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function again() return pcall(again) end while true do pcall(again) end",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end",
        "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "while true do redis.call('GET', KEYS[1]) end",
        "while true do redis.pcall('GET') end",
        "return setmetatable({}, {__index = function() while true do end end}).x",
    ] {
        let reply = eval(&mut dialogue, script, &["k"], &[]);
        let expected = format!(
            "-ERR Script ended after 100000 instructions (lua-instruction-limit). script: {}¶",
            sha(script)
        );
        assert_eq!(reply, expected, "{script}");
        assert_eq!(
            eval(&mut dialogue, "return redis.call('GET', KEYS[1])", &["k"], &[]),
            "$6¶before¶"
        );
    }
    let writes = "redis.call('SET', KEYS[1], 'after') while true do end";
    let reply = eval(&mut dialogue, writes, &["k"], &[]);
    assert!(reply.contains("; what it has written stays"), "{reply}");
    assert_eq!(dialogue.say("GET k"), "$5¶after¶");
    assert_eq!(dialogue.say("CONFIG SET lua-time-limit 1 lua-instruction-limit 0"), "+OK¶");
    let reply = eval(&mut dialogue, "while true do end", &[], &[]);
    assert!(reply.starts_with("-ERR Script ended after 1 ms (lua-time-limit)."), "{reply}");
}

#[test]
fn a_script_that_takes_too_much_memory_is_ended() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    assert_eq!(dialogue.say("CONFIG SET lua-memory-limit 4mb"), "+OK¶");
    for script in [
        "return ('x'):rep(1e9)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
        "local function deep() return deep() + 1 end return deep()",
    ] {
        let reply = eval(&mut dialogue, script, &[], &[]);
        let is_refusal = reply.contains("not enough memory")
            || reply.contains("lua-memory-limit")
            || reply.contains("stack overflow");
        assert!(is_refusal, "{script}: {reply}");
        assert_eq!(eval(&mut dialogue, "return 1", &[], &[]), ":1¶");
    }
    // Here only replies take memory, each of them little.
    dialogue.say(&format!("RPUSH list {}", "v ".repeat(100)));
    let replies = "local t = {} for i = 1, 5000 do t[i] = false end \
                   for i = 1, 5000 do t[i] = redis.call('LRANGE', KEYS[1], 0, -1) end return 1";
    let reply = eval(&mut dialogue, replies, &["list"], &[]);
    assert!(reply.contains("lua-memory-limit"), "{reply}");
    let long = "x".repeat(5_000_000);
    let reply = eval(&mut dialogue, "return #ARGV[1]", &[], &[&long]);
    assert!(reply.contains("lua-memory-limit"), "{reply}");
    // A value that is too long for Lua does not harm the connection either.
    dialogue.say("SETRANGE long 8000000 x");
    let reply = eval(&mut dialogue, "return redis.call('GET', KEYS[1])", &["long"], &[]);
    assert!(reply.starts_with("-ERR"), "{reply}");
    assert_eq!(dialogue.closing(), None);
}

#[test]
fn replies_have_limits() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let deep = "local t = {} for i = 1, 200 do t = {t} end return t";
    assert_eq!(eval(&mut dialogue, deep, &[], &[]), "-ERR reached lua stack limit¶");
    let endless = "local t = {} t[1] = t return t";
    assert_eq!(eval(&mut dialogue, endless, &[], &[]), "-ERR reached lua stack limit¶");
    assert_eq!(dialogue.say("CONFIG SET output-buffer-hard-limit 100kb"), "+OK¶");
    dialogue.say(&format!("SET k {}", "v".repeat(60_000)));
    let twice = "return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[1])}";
    assert_eq!(eval(&mut dialogue, twice, &["k"], &[]), "");
    assert_eq!(dialogue.closing(), Some(crate::state::client::Closing::OutputLimit));
}

#[test]
fn scripts_take_part_in_transactions() {
    play(
        r#"
        MULTI                                                     -> +OK¶
        SET a 1                                                   -> +QUEUED¶
        EVAL "return redis.call('INCR', 'a')" 0                   -> +QUEUED¶
        EVAL "return redis.call('GET', KEYS[1])" 1 a              -> +QUEUED¶
        SCRIPT EXISTS x                                           -> +QUEUED¶
        EXEC                                                      -> *4¶+OK¶:2¶$1¶2¶*1¶:0¶
        WATCH a                                                   -> +OK¶
        EVAL "return redis.call('INCR', KEYS[1])" 1 a             -> :3¶
        MULTI                                                     -> +OK¶
        PING                                                      -> +QUEUED¶
        EXEC                                                      -> *-1¶ | _¶
        "#,
    );
}

#[test]
fn a_script_may_do_no_more_than_its_user() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("SET secret s");
    dialogue.say("SET own:k v");
    assert_eq!(dialogue.say("ACL SETUSER u on nopass ~own:* +@all -set"), "+OK¶");
    assert_eq!(dialogue.say("AUTH u x"), "+OK¶");
    let script = "return redis.call('GET', ARGV[1])";
    assert_eq!(eval(&mut dialogue, script, &[], &["own:k"]), "$1¶v¶");
    for args in [&["secret"][..], &["secret", "again"]] {
        let reply = eval(&mut dialogue, script, &[], args);
        let refused = "-ERR ACL failure in script: No permissions to access a key script: ";
        assert!(reply.starts_with(refused), "{reply}");
    }
    let caught = "local ok, err = pcall(redis.call, 'SET', 'own:k', 1) return err";
    let reply = eval(&mut dialogue, caught, &[], &[]);
    let refused = "ACL failure in script: User u has no permissions to run the 'set' command";
    assert!(reply.contains(refused), "{reply}");
    let declared = eval(&mut dialogue, script, &["secret"], &["own:k"]);
    assert!(declared.starts_with("-NOPERM "), "{declared}");
    let log = dialogue.say("ACL LOG 1");
    assert_eq!(dialogue.say("GET own:k"), "$1¶v¶", "{log}");
}

#[test]
fn random_numbers_are_those_of_redis() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let draw = "return {math.random(1000000), math.random(1000000), math.random(5, 6)}";
    let first = eval(&mut dialogue, draw, &[], &[]);
    assert_eq!(first, "*3¶:170829¶:749902¶:5¶");
    assert_eq!(eval(&mut dialogue, draw, &[], &[]), first, "each run restarts");
    let seeded = format!("math.randomseed(3) {draw}");
    assert_ne!(eval(&mut dialogue, &seeded, &[], &[]), first);
}

/// The functions that replace Lua's own have the same errors.
#[test]
fn texts_are_searched_as_lua_does() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for (script, reply) in [
        ("return {string.find('hello', 'l')}", "*2¶:3¶:3¶"),
        ("return {string.find('hello', 'l', -2)}", "*2¶:4¶:4¶"),
        ("return {string.find('hello', 'xx')}", "*0¶"),
        ("return {string.find('a.b', '.', 2, true)}", "*2¶:2¶:2¶"),
        ("return {string.find('hello', '', 99)}", "*2¶:6¶:5¶"),
        ("return {string.find('hello', '(l)(l)()')}", "*5¶:3¶:4¶$1¶l¶$1¶l¶:5¶"),
        ("return {('key=val'):match('(%w+)=(%w+)')}", "*2¶$3¶key¶$3¶val¶"),
        ("return {('  x '):match('^%s*(.-)%s*$')}", "*1¶$1¶x¶"),
        ("return {string.match(12345, '%d%d')}", "*1¶$2¶12¶"),
        (
            "local t = {} for a, b in ('a=1,b=2'):gmatch('(%w)=(%w)') do t[#t+1] = a..b end return t",
            "*2¶$2¶a1¶$2¶b2¶",
        ),
        (
            "local t = {} for a in ('abc'):gmatch('%w*') do t[#t+1] = a end return t",
            "*2¶$3¶abc¶$0¶¶",
        ),
        ("local t = {} for a in ('ab'):gmatch('()') do t[#t+1] = a end return t", "*3¶:1¶:2¶:3¶"),
        ("return {string.gsub('hello world', 'o', '0')}", "*2¶$11¶hell0 w0rld¶:2¶"),
        ("return {string.gsub('hello', 'l', 'x', 1)}", "*2¶$5¶hexlo¶:1¶"),
        ("return {string.gsub('abc', '%w', '%0%0')}", "*2¶$6¶aabbcc¶:3¶"),
        ("return {string.gsub('abc', '(a)(b)', '%2%1%%')}", "*2¶$4¶ba%c¶:1¶"),
        ("return {string.gsub('abc', '', '-')}", "*2¶$7¶-a-b-c-¶:4¶"),
        ("return {string.gsub('abc', '()', '%1')}", "*2¶$7¶1a2b3c4¶:4¶"),
        ("return {string.gsub('abc abc', '^a', 'x')}", "*2¶$7¶xbc abc¶:1¶"),
        ("return {string.gsub('abc', '%w', {a = 'x', b = 7, c = false})}", "*2¶$3¶x7c¶:3¶"),
        (
            "return {string.gsub('abc', '(b)()', function(b, at) return b .. at end)}",
            "*2¶$4¶ab3c¶:1¶",
        ),
        ("return {string.gsub('abc', 'x*', function() return '-' end)}", "*2¶$7¶-a-b-c-¶:4¶"),
        ("return {string.gsub('abc', '^x*', function() return '-' end)}", "*2¶$4¶-abc¶:1¶"),
        ("return {string.gsub('abc', '.', function() end, 2)}", "*2¶$3¶abc¶:2¶"),
        (
            "return string.rep('ab', 3) .. string.rep('x', 0) .. string.rep('', 5) .. ('z'):rep(-1)",
            "$6¶ababab¶",
        ),
        ("local t = {1, 3} table.insert(t, 2, 2) table.insert(t, 4) return t", "*4¶:1¶:2¶:3¶:4¶"),
        (
            "local t = {1, 2, 3} local a, b = table.remove(t, 1), table.remove(t) return {a, b, t[1], #t}",
            "*4¶:1¶:3¶:2¶:1¶",
        ),
        (
            "local t = {} for i = 1, 5000 do t[i] = -i end table.sort(t) return {t[1], t[5000]}",
            "*2¶:-5000¶:-1¶",
        ),
        ("return select(2, pcall(string.find, 'a', '('))", "$18¶unfinished capture¶"),
        (
            "return select(2, pcall(string.rep))",
            "$63¶bad argument #1 to '?' (string expected, got no value)¶",
        ),
        (
            "local ok, why = pcall(function() return 1 + #('x'):find('[') end) return why",
            "?malformed pattern (missing ']')",
        ),
        (
            "local ok, why = pcall(function() local x = ('x'):rep({}) end) return why",
            "?user_script:1: bad argument #1 to 'rep' (number expected, got table)",
        ),
        (
            "local ok, why = pcall(function() local x = string.gsub('x', {}) end) return why",
            "?user_script:1: bad argument #2 to 'gsub' (string expected, got table)",
        ),
        (
            "local ok, why = pcall(function() local x = string.gsub('x', 'x', true) end) return why",
            "?user_script:1: bad argument #3 to 'gsub' (string/function/table expected)",
        ),
        (
            "local ok, why = pcall(function() local x = string.gsub('x', 'x', function() return {} end) end) return why",
            "?user_script:1: invalid replacement value (a table)",
        ),
        (
            "local ok, why = pcall(function() local x = string.gsub('x', 'x', '%2') end) return why",
            "?user_script:1: invalid capture index",
        ),
        (
            "local ok, why = pcall(function() table.insert(nil, 1) end) return why",
            "?user_script:1: bad argument #1 to 'insert' (table expected, got nil)",
        ),
        (
            "local ok, why = pcall(function() string.gsub('x', 'x', function() error({err = 'MINE'}) end) end) return why",
            "$4¶MINE¶",
        ),
    ] {
        let said = eval(&mut dialogue, script, &[], &[]);
        match reply.strip_prefix('?') {
            Some(part) => assert!(said.contains(part), "{script}: {said}"),
            None if reply.starts_with("$63") => {
                assert!(said.contains(&reply[5..reply.len() - 2]), "{said}")
            }
            None => assert_eq!(said, reply, "{script}"),
        }
    }
}

#[test]
fn libraries_are_there() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for (script, reply) in [
        (
            "return cjson.encode({1, 'a', true, cjson.null, {x = 1.5}})",
            r#"[1,"a",true,null,{"x":1.5}]"#,
        ),
        ("return cjson.encode({})", "{}"),
        ("return cjson.encode('a\\n\"/\\127')", r#""a\n\"\/\u007f""#),
        ("return cjson.encode(1e15) .. cjson.encode(-0.5)", "1e+15-0.5"),
        ("return cjson.decode('{\"a\":[1,{\"b\":\"c\"}]}').a[2].b", "c"),
        ("return tostring(cjson.decode('[null]')[1] == cjson.null)", "true"),
        ("return tostring(cjson.decode('[1.25]')[1])", "1.25"),
        ("return bit.tohex(bit.bxor(0xff00, 0x0ff0))", "0000f0f0"),
        ("return bit.tohex(-1, 4) .. bit.tohex(255, -2)", "ffffFF"),
        (
            "return tostring(bit.band(0xffffffff, -1)) .. bit.lshift(1, 33) .. bit.arshift(-8, 1)",
            "-12-4",
        ),
        (
            "return tostring(bit.tobit(2^31)) .. bit.bnot(0) .. bit.rol(1, 31)",
            "-2147483648-1-2147483648",
        ),
        ("return tostring(struct.unpack('>I2', struct.pack('>I2', 258)))", "258"),
        ("return struct.pack('>hBs', 258, 3, 'ab'):byte(1, 2) .. ''", "1"),
        ("return tostring(struct.size('!8bI8')) .. struct.size('bI8')", "169"),
        (
            "return tostring(select(2, struct.unpack('Bc0b', struct.pack('Bc0b', 3, 'abc', -2))))",
            "-2",
        ),
        ("return tostring(struct.unpack('<i3', '\\255\\255\\255'))", "-1"),
        (
            "return tostring(cmsgpack.unpack(cmsgpack.pack({1, {a = 'b'}, -5, 1.5, true}))[2].a)",
            "b",
        ),
        ("local a, b = cmsgpack.unpack(cmsgpack.pack(1, 'x')) return a .. b", "1x"),
        (
            "local next, v = cmsgpack.unpack_one(cmsgpack.pack(1, 2), 0) return next .. ':' .. v",
            "1:1",
        ),
        (
            "local next, v = cmsgpack.unpack_limit(cmsgpack.pack(1, 2), 1, 1) return next .. ':' .. v",
            "-1:2",
        ),
    ] {
        let expected = format!("${}¶{reply}¶", reply.len());
        assert_eq!(eval(&mut dialogue, script, &[], &[]), expected, "{script}");
    }
    for number in
        ["0", "127", "128", "-1", "-32", "-33", "255", "256", "65535", "65536", "-128", "-129"]
            .into_iter()
            .chain([
                "-32768",
                "-32769",
                "4294967295",
                "4294967296",
                "-2147483648",
                "-2147483649",
                "0.5",
                "0.1",
            ])
    {
        let script =
            "local n = tonumber(ARGV[1]) return tostring(cmsgpack.unpack(cmsgpack.pack(n)) == n)";
        assert_eq!(eval(&mut dialogue, script, &[], &[number]), "$4¶true¶", "{number}");
    }
    for (script, why) in [
        ("return cjson.encode({[1]=1,[100]=2})", "excessively sparse array"),
        ("return cjson.encode(0/0)", "must not be NaN or Inf"),
        ("return cjson.encode(redis.call)", "type not supported"),
        ("local t = {} t.t = t return cjson.encode(t)", "excessive depth"),
        ("return cjson.decode('[' .. ('['):rep(1000))", "recursion limit"),
        ("return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Bad data format"),
        ("return cmsgpack.unpack(('\\145'):rep(1000))", "Bad data format"),
        ("return cmsgpack.pack()", "needs input"),
        ("return struct.unpack('I4', 'abc')", "too short"),
        ("return struct.unpack('Bc0', '\\5abc')", "too short"),
        ("return struct.pack('i99', 1)", "larger than limit"),
        ("return struct.pack('!3i', 1)", "power of 2"),
        ("return struct.pack('c9999999999999999999999', 'x')", "string too short"),
        ("return bit.band({})", "number expected"),
    ] {
        let reply = eval(&mut dialogue, script, &[], &[]);
        assert!(
            reply.starts_with("-ERR user_script:1: ") && reply.contains(why),
            "{script}: {reply}"
        );
    }
}

mod known;
mod reach;
