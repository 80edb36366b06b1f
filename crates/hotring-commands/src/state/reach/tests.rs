//! Tests of scripts whose texts prove, or do not prove, that only declared keys are used.

use super::is_declared;
use super::lexer::{Lexer, Token};

fn assert_all(texts: &[&str], expected: bool) {
    for text in texts {
        assert_eq!(is_declared(text.as_bytes()), expected, "{text}");
    }
}

/// Scripts of libraries, in our own words.
const LIBRARIES: &[(&str, bool, &str)] = &[
    (
        "a lock is released: Redlock, redis-py, Spring",
        true,
        r#"
        if redis.call("get", KEYS[1]) == ARGV[1] then
            return redis.call("del", KEYS[1])
        else
            return 0
        end"#,
    ),
    (
        "a lock is extended: redis-py",
        true,
        r"
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then return 0 end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then expiration = 0 end
        if expiration < 0 then return 0 end
        local newttl = ARGV[2]
        if ARGV[3] == '0' then newttl = ARGV[2] + expiration end
        redis.call('pexpire', KEYS[1], newttl)
        return 1",
    ),
    (
        "several locks: node-redlock",
        true,
        r#"
        local count = 0
        for i, key in ipairs(KEYS) do
            -- Only those that this client owns.
            if redis.call("get", key) == ARGV[1] then
                redis.pcall("del", key)
                count = count + 1
            end
        end
        return count"#,
    ),
    (
        "several locks, all or none: node-redlock",
        true,
        r#"
        for i = 1, #KEYS do
            if redis.call("exists", KEYS[i]) == 1 then return 0 end
        end
        for _, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
        return #KEYS"#,
    ),
    (
        "a lock that its owner may take again: Redisson",
        true,
        r"
        if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
            redis.call('hincrby', KEYS[1], ARGV[2], 1);
            redis.call('pexpire', KEYS[1], ARGV[1]);
            return nil;
        end;
        return redis.call('pttl', KEYS[1]);",
    ),
    (
        "jobs that are due: Sidekiq",
        true,
        r#"
        local key, now = KEYS[1], ARGV[1]
        local jobs = redis.call("zrange", key, "-inf", now, "byscore", "limit", 0, 1)
        if jobs[1] then
            redis.call("zrem", key, jobs[1])
            return jobs[1]
        end"#,
    ),
    (
        "a job is added: bee-queue",
        true,
        r#"
        local jobId = ARGV[1]
        if jobId == "" then jobId = "" .. redis.call("incr", KEYS[1]) end
        if redis.call("hexists", KEYS[2], jobId) == 1 then return nil end
        redis.call("hset", KEYS[2], jobId, ARGV[2])
        redis.call("lpush", KEYS[3], jobId)
        return jobId"#,
    ),
    (
        "stalled jobs: bee-queue",
        true,
        r#"
        local now = tonumber(ARGV[1])
        if redis.call("set", KEYS[2], now, "px", ARGV[2], "nx") then
            local stalling = redis.call("smembers", KEYS[1])
            if next(stalling) ~= nil then
                for i, id in ipairs(stalling) do redis.call("lrem", KEYS[4], 0, id) end
                redis.call("rpush", KEYS[3], unpack(stalling))
                redis.call("del", KEYS[1])
            end
        end"#,
    ),
    (
        "a job is finished: BullMQ",
        false,
        r#"
        local rcall = redis.call
        local prefix = ARGV[3]
        rcall("ZREM", KEYS[1], ARGV[1])
        rcall("HSET", prefix .. ARGV[1], "finishedOn", ARGV[2])
        return rcall("LLEN", KEYS[2])"#,
    ),
    (
        "a queue is paused: BullMQ",
        true,
        r#"
        local rcall = redis.call
        if rcall("EXISTS", KEYS[1]) == 1 then rcall("RENAME", KEYS[1], KEYS[2]) end
        if ARGV[1] == "paused" then
            rcall("HSET", KEYS[3], "paused", 1)
        else
            rcall("HDEL", KEYS[3], "paused")
        end
        rcall("PUBLISH", "events", ARGV[1])"#,
    ),
    (
        "a task is taken: Asynq",
        false,
        r#"
        if redis.call("EXISTS", KEYS[2]) == 0 then
            local id = redis.call("RPOPLPUSH", KEYS[1], KEYS[3])
            if id then
                local key = ARGV[2] .. id
                redis.call("HSET", key, "state", "active")
                redis.call("ZADD", KEYS[4], ARGV[1], id)
                return redis.call("HGET", key, "msg")
            end
        end
        return nil"#,
    ),
    (
        "a task is done: Asynq",
        true,
        r#"
        if redis.call("LREM", KEYS[1], 0, ARGV[1]) == 0 then
          return redis.error_reply("NOT FOUND")
        end
        if redis.call("ZREM", KEYS[2], ARGV[1]) == 0 then return redis.error_reply("NOT FOUND") end
        local n = redis.call("INCR", KEYS[4])
        if tonumber(n) == 1 then redis.call("EXPIREAT", KEYS[4], ARGV[2]) end
        local total = redis.call("GET", KEYS[5])
        if tonumber(total) == tonumber(ARGV[3]) then
            redis.call("SET", KEYS[5], 1)
        else
            redis.call("INCR", KEYS[5])
        end
        return redis.status_reply("OK")"#,
    ),
    (
        "a bucket of tokens: Spring Cloud Gateway",
        true,
        r#"
        redis.replicate_commands()
        local tokens_key = KEYS[1]
        local timestamp_key = KEYS[2]
        --redis.log(redis.LOG_WARNING, "tokens_key " .. tokens_key)
        local rate, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
        local now = tonumber(ARGV[3]) or redis.call('TIME')[1]
        local ttl = math.floor(capacity / rate * 2)
        local last_tokens = tonumber(redis.call("get", tokens_key))
        if last_tokens == nil then last_tokens = capacity end
        local last_refreshed = tonumber(redis.call("get", timestamp_key)) or 0
        local filled = math.min(capacity, last_tokens + (math.max(0, now - last_refreshed) * rate))
        local allowed = filled >= 1
        if ttl > 0 then
            redis.call("setex", tokens_key, ttl, filled)
            redis.call("setex", timestamp_key, ttl, now)
        end
        return { allowed and 1 or 0, filled }"#,
    ),
    (
        "a fixed window: INCR and EXPIRE",
        true,
        r"
        local current = redis.call('INCR', KEYS[1])
        if tonumber(current) == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
        return current",
    ),
    (
        "a sliding window: sorted set",
        true,
        r"
        local key = KEYS[1]
        local now, window = tonumber(ARGV[1]), tonumber(ARGV[2])
        redis.call('ZREMRANGEBYSCORE', key, 0, now - window)
        if redis.call('ZCARD', key) < tonumber(ARGV[3]) then
            redis.call('ZADD', key, now, ARGV[4])
            redis.call('PEXPIRE', key, window)
            return 1
        end
        return 0",
    ),
    (
        "one cell: GCRA",
        true,
        r#"
        redis.replicate_commands()
        local rate_limit_key = KEYS[1]
        local burst, rate, period = ARGV[1], ARGV[2], ARGV[3]
        local emission_interval = period / rate
        local now = redis.call("TIME")
        now = (now[1] - 1483228800) + (now[2] / 1000000)
        local tat = redis.call("GET", rate_limit_key)
        if not tat then tat = now else tat = tonumber(tat) end
        tat = math.max(tat, now)
        local new_tat = tat + emission_interval
        local diff = now - (new_tat - emission_interval * burst)
        if diff < 0 then return { 0, 0, tostring(emission_interval), tostring(tat - now) } end
        local reset_after = new_tat - now
        if reset_after > 0 then
            redis.call("SET", rate_limit_key, new_tat, "EX", math.ceil(reset_after))
        end
        return { 1, diff / emission_interval, tostring(-1), tostring(reset_after) }"#,
    ),
    (
        "a hash becomes a document",
        true,
        r"
        local doc = cjson.encode({ id = ARGV[1], [ARGV[2]] = redis.call('HGETALL', KEYS[1]); 1 })
        return redis.sha1hex(doc)",
    ),
    (
        "keys of a pattern go",
        false,
        r"
        for _, key in ipairs(redis.call('keys', ARGV[1])) do redis.call('del', key) end",
    ),
];

#[test]
fn scripts_of_libraries_are_understood() {
    for (what, expected, text) in LIBRARIES {
        assert_eq!(is_declared(text.as_bytes()), *expected, "{what}");
    }
}

#[test]
fn only_declared_keys_are_proved() {
    assert_all(
        &[
            "",
            "return 1",
            "return redis.call('GET', KEYS[1])",
            "return redis.call 'PING'",
            "return redis . call --[[ x ]] ( 'GET' --[==[ ]] ]==] , ( KEYS [ ARGV[1] + 1 ] ) )",
            "redis.call('DEL', unpack(KEYS))",
            "redis.call('DEL', KEYS[1], unpack(KEYS, 2, #KEYS - 1))",
            "local unpack = unpack or table.unpack return redis.call('MGET', unpack(KEYS))",
            "local a, b = unpack(KEYS) return redis.call('RENAME', a, b)",
            "redis.call('SET', unpack(KEYS), ARGV[1])",
            "redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])",
            "redis.call('SADD', KEYS[1], unpack(ARGV))",
            "redis.call('BLPOP', KEYS[1], KEYS[2], 0)",
            "redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[2], KEYS[3], 'WEIGHTS', 1, 2)",
            "redis.call('ZINTERSTORE', KEYS[1], #KEYS - 1, unpack(KEYS, 2))",
            "redis.call('BITOP', 'AND', KEYS[1], KEYS[2], KEYS[3])",
            "return redis.call('OBJECT', 'ENCODING', KEYS[1])",
            "redis.call('SET', KEYS[1], redis.call('GET', KEYS[2]))",
            "redis.call('COPY', KEYS[1], KEYS[2], 'REPLACE')",
            "local k = KEYS local call = redis.call return call('GET', k[1])",
            "local r = redis return r.call('GET', (KEYS[1]))",
            "local k = ARGV[1] == 'x' and KEYS[1] or KEYS[2] return redis.call('GET', k)",
            "for i, k in pairs(KEYS) do local function f() redis.call('DEL', k) end f() end",
            "local k = 'x' do local k = KEYS[1] redis.call('GET', k) end k = k .. 'y'",
            "repeat local k = KEYS[1] until redis.call('GET', k) == 'x'",
            "local t = { KEYS[1], k = KEYS[2], ['x'] = 1; 2 } t.k = KEYS[1] function t.f() end return t",
            "local x = KEYS[1]:sub(2) .. #KEYS[1] return ('%s'):format(x)",
            "while true do if ARGV[1] then break end return redis.call('TIME') end",
            "return function(a, ...) return a, ... end",
            "return 0x1F + 1e-3 + .5 - -2 ^ 3 % 4 == 1, [==[ ]] redis ]==], \"\\\"\\\n\"",
            "local t = { redis = 1, KEYS = 2 } return t.KEYS, t.redis",
        ],
        true,
    );
}

#[test]
fn possibly_undeclared_keys_are_not_proved() {
    assert_all(
        &[
            "return redis.call('GET', 'x')",
            "return redis.call('GET', ARGV[1])",
            "return redis.call('GET', KEYS[1] .. ':x')",
            "return redis.call('GET', KEYS[1]:upper())",
            "return redis.call('GET', KEYS[1] and ARGV[1])",
            "return redis.call('GET', KEYS[1] or ARGV[1])",
            "return redis.call('MGET', KEYS[1], ARGV[1])",
            "return redis.call('MGET', unpack(ARGV))",
            "return redis.call('MGET', KEYS[1], ...)",
            "return redis.call('MGET', KEYS[1], unpack(ARGV))",
            "return redis.call('MGET', unpack(KEYS), 'x')",
            "return redis.call('MSET', KEYS[1], unpack(ARGV))",
            "return redis.call('BLPOP', KEYS[1], ARGV[1], 0)",
            "return redis.call('BLPOP', KEYS[1], unpack(ARGV))",
            "return redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[2], ARGV[1])",
            "return redis.call('ZUNIONSTORE', KEYS[1], ARGV[1], KEYS[2], ARGV[2])",
            "return redis.call('ZUNIONSTORE', KEYS[1], 0x2, KEYS[2], ARGV[2])",
            "return redis.call('RENAME', KEYS[1], ARGV[1])",
            "return redis.call(ARGV[1], KEYS[1])",
            "return redis.call(unpack(KEYS))",
            "return redis.call(...)",
            "return redis.call()",
            "return redis.call{'GET', 'x'}",
            "return redis.call('G\\69T', KEYS[1])",
            "return redis.call([[GET]], KEYS[1])",
            "return redis.call('NONSENSE', KEYS[1])",
            "return redis.call('OBJECT', ARGV[1], KEYS[1])",
        ],
        false,
    );
}

#[test]
fn commands_that_name_no_keys_but_use_some_are_not_proved() {
    assert_all(
        &[
            "return redis.call('KEYS', '*')",
            "return redis.call('SCAN', 0)",
            "return redis.call('RANDOMKEY')",
            "return redis.call('DBSIZE')",
            "return redis.call('FLUSHALL')",
            "return redis.call('SELECT', 1)",
            "return redis.call('SWAPDB', 0, 1)",
            "return redis.call('MOVE', KEYS[1], 1)",
            "return redis.call('COPY', KEYS[1], KEYS[2], 'DB', 1)",
            "return redis.call('COPY', KEYS[1], KEYS[2], unpack(ARGV))",
            "return redis.call('SORT', KEYS[1])",
            "return redis.call('SORT_RO', KEYS[1], 'GET', 'x*')",
            "return redis.call('EVAL', 'return 1', 0)",
            "return redis.call('GEORADIUS', KEYS[1], 1, 1, 1, 'm', 'STORE', ARGV[1])",
            "return redis.call('GEORADIUS', KEYS[1], 1, 1, 1, 'm', ARGV[1], ARGV[2])",
        ],
        false,
    );
}

#[test]
fn names_that_are_bound_otherwise_prove_nothing() {
    assert_all(
        &[
            "local k = KEYS[1] k = ARGV[1] return redis.call('GET', k)",
            "local k = KEYS[1] local f = function() k = ARGV[1] end f() redis.call('GET', k)",
            "local k = KEYS[1] while true do redis.call('GET', k) a, k = 1, ARGV[1] end",
            "local k, t = KEYS[1], {} k, t.x = ARGV[1], 2 return redis.call('GET', k)",
            "local k = KEYS[1] for k = 1, 2 do redis.call('GET', k) end",
            "local k = KEYS[1] for k in pairs(ARGV) do redis.call('GET', k) end",
            "for k, v in pairs(KEYS) do redis.call('GET', k) end",
            "for _, k in ipairs(KEYS) do k = 'x' redis.call('GET', k) end",
            "local arg = KEYS local function f(...) return redis.call('GET', arg[1]) end f('x')",
            "for _, k in ipairs(ARGV) do redis.call('GET', k) end",
            "local k = KEYS[1] local function f(k) redis.call('GET', k) end f('x')",
            "local k = KEYS[1] local function k() end redis.call('GET', k)",
            "local k = KEYS[1] function k() end redis.call('GET', k)",
            "local k = KEYS[1] do local k = ARGV[1] redis.call('GET', k) end",
            "do local k = KEYS[1] end return redis.call('GET', k)",
            "local a, k = KEYS[1] return redis.call('GET', k)",
            "local k = KEYS[1], KEYS[2] local k, l = ARGV[1], KEYS[1] redis.call('GET', k)",
            "local t = { function(self) end } function t:f() redis.call('GET', self) end",
            "return redis.call('GET', _VERSION)",
            "local KEYS = ARGV return redis.call('GET', KEYS[1])",
            "local function f(KEYS) return redis.call('GET', KEYS[1]) end return f({'x'})",
            "local unpack = function() return 'x' end redis.call('DEL', unpack(KEYS))",
            "local ipairs = f for _, k in ipairs(KEYS) do redis.call('DEL', k) end",
        ],
        false,
    );
}

#[test]
fn keys_and_redis_go_nowhere_else() {
    assert_all(
        &[
            "KEYS[1] = ARGV[1] return redis.call('GET', KEYS[1])",
            "KEYS = ARGV return redis.call('GET', KEYS[1])",
            "KEYS.x = ARGV[1] return redis.call('GET', KEYS[1])",
            "local k = KEYS k[1] = ARGV[1]",
            "local t = {} t.x, KEYS[1] = 1, ARGV[1]",
            "function KEYS.f() end",
            "table.insert(KEYS, ARGV[1])",
            "table.insert((KEYS), ARGV[1])",
            "table.insert(x or KEYS, ARGV[1])",
            "table.insert({ KEYS }, 1)",
            "table.insert({ x = KEYS }, 1)",
            "local t = {} t.k = KEYS",
            "local t = {} t[KEYS] = 1",
            "local f = function() return KEYS end",
            "local f, k = ipairs(KEYS) k[1] = 'x'",
            "local k = select(2, ipairs(KEYS)) k[1] = 'x'",
            "local t = { pairs(KEYS) }",
            "f((ipairs(KEYS)))",
            "for _, k in (ipairs(KEYS)) do end",
            "for _, k in next, KEYS do redis.call('GET', k) end",
            "f(unpack(KEYS, 1, KEYS))",
            "f 'x' (KEYS)",
            "('x'):f(KEYS)",
            "KEYS:f()",
            "rawset(KEYS, 1, ARGV[1])",
            "return KEYS == f",
            "return #f(KEYS)",
            "_G.KEYS[1] = 'x'",
            "loadstring('KEYS[1] = 1')()",
            "load(f)()",
            "setmetatable({}, {})",
            "return redis['call']('GET', 'x')",
            "return redis[ARGV[1]]('GET', 'x')",
            "return redis:call('GET', 'x')",
            "return (redis).call('GET', 'x')",
            "local redis = {} redis.call('GET', KEYS[1]) f(KEYS)",
            "local redis = { call = redis.call } return redis.call('GET', 'x')",
            "redis.call = f",
            "function redis.call() end",
            "local r = redis r.call('GET', 'x')",
            "local c = redis.call c('GET', 'x')",
            "local c = redis.call c = f c('GET', KEYS[1])",
            "pcall(redis.call, 'GET', 'x')",
            "local t = { c = redis.call } t.c('GET', 'x')",
            "return redis.call == f and redis or redis.pcall",
            "f(redis)",
        ],
        false,
    );
    // A table of one's own may have these names.
    assert!(is_declared(b"local redis = {} redis.call('GET', 'x')"));
}

#[test]
fn strings_and_comments_end_where_lua_ends_them() {
    assert_all(
        &[
            "-- [[\nredis.call('GET', 'x') -- ]]",
            "--[[ ]] redis.call('GET', 'x')",
            "--[=[ ]] ]==] ]=]redis.call('GET', 'x')",
            "--[==\nredis.call('GET', 'x') --]==]",
            "-- \rredis.call('GET', 'x')",
            "local s = [==[ ]=] ]==]redis.call('GET', 'x')",
            "local s = '\\\\' redis.call('GET', 'x') local t = '\\''",
            "local s = \"'\" redis.call('GET', 'x') --'",
            // Lua refuses these.
            "local s = '",
            "local s = 'a\nb'",
            "local s = [[ [[ ]] ]]",
            "local s = [=x",
            "--[[ redis",
            "return ~1",
            "return \u{e9}",
            "return 1 +",
            "if x then",
            "end",
        ],
        false,
    );
}

#[test]
fn a_text_is_separated_into_tokens() {
    let mut lexer = Lexer::new(b"x1=.5..0x1F...y2~=1e+5--c\r[[a]]'b\\n'[==[]]]==]");
    let sign = |sign: &'static str| Token::Sign(sign.as_bytes());
    for expected in [
        Token::Name(b"x1"),
        sign("="),
        // Lua reads on, and refuses it then.
        Token::Number(b".5..0x1F...y2"),
        sign("~="),
        Token::Number(b"1e+5"),
        Token::Encoded,
        Token::Encoded,
        Token::Encoded,
        Token::End,
    ] {
        if let Token::Number(b".5..0x1F...y2") = expected {
            assert_eq!(lexer.next(), Some(Token::Number(b".5..0x1F")));
            assert_eq!(lexer.next(), Some(sign("...")));
            assert_eq!(lexer.next(), Some(Token::Name(b"y2")));
            continue;
        }
        assert_eq!(lexer.next(), Some(expected));
    }
}

/// The text comes from a client: stack, memory and time must stay bounded whatever it contains.
#[test]
fn huge_texts_are_given_up_soon() {
    const N: usize = 200_000;
    for text in [
        "(".repeat(N),
        "{".repeat(N),
        "- ".repeat(N),
        "do ".repeat(N),
        "f(".repeat(N),
        "x=function() ".repeat(N),
        "x = y .. ".repeat(N),
        "local x ".repeat(N),
        format!("local a{}", ",a".repeat(N)),
        format!("f(a{})", ",a".repeat(N)),
        format!("f(function(a{}) end)", ",a".repeat(N)),
        format!("--[{0}[{0}", "=".repeat(N)),
        format!("[{}[{}", "=".repeat(N), "]=".repeat(N)),
    ] {
        assert!(!is_declared(text.as_bytes()), "{}", &text[..20]);
    }
    assert!(is_declared("local function f() end f()\n".repeat(100).as_bytes()));
    assert!(is_declared("do local x = KEYS[1] end\n".repeat(N).as_bytes()));
}
