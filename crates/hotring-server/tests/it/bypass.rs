//! A user with few rights tries to get more: by scripts, by transactions, by changing the
//! connection, by the other protocol. It must neither see nor change the key `secret`.
//!
//! Wrong passwords are in `users.rs`; the rules are compared with Redis in `differential_acl.rs`.

use hotring_server::Config;

use crate::differential::Redis;
use crate::memcached::{Both, Lines};
use crate::wire::{Reply, TestServer, Wire, bulk, ok, request};

const SECRET: &str = "9f2c4be1d07a";

/// Everything that is not dangerous, on keys and channels that begin with an a.
const RIGHTS: &str = "ACL SETUSER limited on nopass +@all -@dangerous ~a* &a*";

/// One thread, so that all share one interpreter.
fn one_thread(config: &mut Config) {
    config.threads = 1;
}

/// A user with all rights, in a store that has the secret, and a user with few.
fn with_secret(server: &TestServer) -> (Wire, Wire) {
    let (mut admin, mut user) = (server.connect(), server.connect());
    assert_eq!(admin.say(RIGHTS), ok());
    assert_eq!(admin.say(&format!("MSET secret {SECRET} a1 1")), ok());
    assert_eq!(user.say("AUTH limited x"), ok());
    (admin, user)
}

fn has_secret(reply: &Reply) -> bool {
    format!("{reply:?}").contains(&format!("{:?}", SECRET.as_bytes()).replace(['[', ']'], ""))
        || format!("{reply:?}").contains(SECRET)
}

/// Scripts that need more rights than the user has, with their keys, and a text that the reply must
/// contain.
const SCRIPTS: &[(&str, &[&str], &str)] = &[
    ("return redis.call('GET', 'secret')", &[], "No permissions to access a key"),
    ("return redis.call('GET', KEYS[1])", &["secret"], "No permissions to access a key"),
    ("return redis.call('GET', ARGV[1])", &["a1"], "No permissions to access a key"),
    ("return redis.pcall('GET', 'sec' .. 'ret')", &["a1"], "No permissions to access a key"),
    ("return redis.call('gEt', 'secret')", &[], "No permissions to access a key"),
    ("return {pcall(redis.call, 'GET', 'secret')}", &[], "No permissions to access a key"),
    ("return select(2, pcall(redis.call, 'GET', 'secret'))", &[], "No permissions to access a key"),
    (
        "return loadstring('return redis.call(...)')('GET', 'secret')",
        &[],
        "No permissions to access a key",
    ),
    (
        "return loadstring('return redis.call(\\'GET\\', \\'secret\\')')()",
        &[],
        "No permissions to access a key",
    ),
    (
        "return coroutine.wrap(function() return redis.call('GET', 'secret') end)()",
        &[],
        "No permissions to access a key",
    ),
    (
        "return setmetatable({}, {__index = function(_, k) return redis.call('GET', k) end}).secret",
        &[],
        "No permissions to access a key",
    ),
    ("return redis.call('MGET', 'a1', 'secret')", &["a1"], "No permissions to access a key"),
    ("return redis.call('COPY', 'secret', 'a2')", &["a1"], "No permissions to access a key"),
    (
        "return redis.call('COPY', 'a1', 'secret', 'REPLACE')",
        &["a1"],
        "No permissions to access a key",
    ),
    ("return redis.call('RENAME', 'secret', 'a2')", &[], "No permissions to access a key"),
    ("return redis.call('RENAME', 'a1', 'secret')", &[], "No permissions to access a key"),
    ("return redis.call('BITOP', 'NOT', 'a2', 'secret')", &[], "No permissions to access a key"),
    ("return redis.call('MSET', 'a2', 1, 'secret', 1)", &["a2"], "No permissions to access a key"),
    ("return redis.call('MSETEX', 2, 'a2', 1, 'secret', 1)", &[], "No permissions to access a key"),
    ("return redis.call('GETEX', 'secret', 'PX', 1)", &[], "No permissions to access a key"),
    ("return redis.call('SET', 'secret', 1, 'GET')", &[], "No permissions to access a key"),
    ("return redis.call('DEL', 'a1', 'secret')", &["a1"], "No permissions to access a key"),
    ("return redis.call('DUMP', 'secret')", &[], "No permissions to access a key"),
    ("return redis.call('HISTORY', 'secret')", &[], "No permissions to access a key"),
    ("return redis.call('OBJECT', 'ENCODING', 'secret')", &[], "No permissions to access a key"),
    ("return redis.call('MEMORY', 'USAGE', 'secret')", &[], "No permissions to access a key"),
    ("return redis.call('GETRANGE', 'secret', 0, -1)", &[], "No permissions to access a key"),
    ("return redis.call('DIGEST', 'secret')", &[], "No permissions to access a key"),
    ("return redis.call('PUBLISH', 'news', 'x')", &[], "No permissions to access a channel"),
    ("return redis.call('FLUSHALL')", &[], "no permissions to run the 'flushall' command"),
    ("return redis.call('KEYS', '*')", &[], "no permissions to run the 'keys' command"),
    (
        "return redis.call('RESTORE', 'a2', 0, 'x')",
        &[],
        "no permissions to run the 'restore' command",
    ),
    ("return redis.call('CONFIG', 'GET', 'requirepass')", &[], "not allowed from script"),
    ("return redis.call('ACL', 'SETUSER', 'limited', 'allkeys')", &[], "not allowed from script"),
    ("return redis.call('ACL', 'WHOAMI')", &[], "not allowed from script"),
    ("return redis.call('AUTH', 'default', '')", &[], "not allowed from script"),
    ("return redis.call('HELLO', 3, 'AUTH', 'default', '')", &[], "not allowed from script"),
    ("return redis.call('RESET')", &[], "not allowed from script"),
    ("return redis.call('MULTI')", &[], "not allowed from script"),
    (
        "return redis.call('EVAL', 'return redis.call(\"GET\", \"secret\")', 0)",
        &[],
        "not allowed from script",
    ),
    ("return redis.call('EVALSHA', ARGV[1], 0)", &[], "not allowed from script"),
    ("return redis.call('SCRIPT', 'LOAD', 'return 1')", &[], "not allowed from script"),
    ("return redis.call('CLIENT', 'KILL', 'SKIPME', 'yes')", &[], "not allowed from script"),
    ("return redis.call('MONITOR')", &[], "not allowed from script"),
    ("return redis.call('SUBSCRIBE', 'news')", &[], "not allowed from script"),
    ("return redis.call('DEBUG', 'OBJECT', 'secret')", &[], "not allowed from script"),
    ("return redis.call('SLOWLOG', 'GET')", &[], "no permissions to run the 'slowlog|get' command"),
];

/// The error texts in an array of replies.
fn texts(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => items.iter().map(texts).collect::<Vec<_>>().join("\n"),
        Reply::Simple(_) | Reply::Error(_) | Reply::Bulk(_) => reply.text(),
        other => format!("{other:?}"),
    }
}

#[test]
fn scripts_get_no_further_than_their_user() {
    let server = TestServer::with(one_thread);
    let (mut admin, mut user) = with_secret(&server);
    for (script, keys, refusal) in SCRIPTS {
        let n_keys = keys.len().to_string();
        let args = [keys, &["secret"][..]].concat();
        let sha = admin.ask(&["SCRIPT", "LOAD", script]).text();
        for verb in [["EVAL", script], ["EVAL_RO", script], ["EVALSHA", &sha], ["EVALSHA_RO", &sha]]
        {
            let line = [&verb[..], &[&n_keys], &args].concat();
            let reply = user.ask(&line);
            assert!(texts(&reply).contains(refusal), "{line:?}: {reply:?}");
            // The same in a transaction: it must be refused when queued or when run.
            assert_eq!(user.say("MULTI"), ok());
            let queued = user.ask(&line);
            let reply = if queued.is_error() { queued } else { user.say("EXEC") };
            user.say("DISCARD");
            assert!(texts(&reply).contains(refusal), "{line:?} in a transaction: {reply:?}");
            assert_eq!(admin.say("GET secret"), bulk(SECRET), "{line:?}");
        }
    }
    assert_eq!(user.say("GET a1"), bulk("1"), "the user goes on with what it may");
    assert_eq!(user.say("EXISTS a2"), Reply::Int(0), "nothing was copied");
    // Denials within scripts are logged.
    let log = admin.say("ACL LOG 1");
    assert!(texts(&log).contains("lua"), "{log:?}");
}

#[test]
fn scripts_of_others_run_with_ones_own_rights() {
    let server = TestServer::with(one_thread);
    let (mut admin, mut user) = with_secret(&server);
    let reads = "return redis.call('GET', 'secret')";
    let sha = admin.ask(&["SCRIPT", "LOAD", reads]).text();
    // Compiled, run, and found to use more than its keys, by a user who may.
    for _ in 0..3 {
        assert_eq!(admin.ask(&["EVALSHA", &sha, "0"]), bulk(SECRET));
        let refused = user.ask(&["EVALSHA", &sha, "0"]);
        assert!(
            refused.text().starts_with("ERR ACL failure in script: No permissions"),
            "{refused:?}"
        );
    }
    // The run leaves nothing behind that the next could find.
    let leave = "local call = redis.call string.left = call math.left = call redis.left = call \
                 rawset(_G, 'left', call) left_too = coroutine.wrap(function() call('GET', 'secret') end)";
    admin.ask(&["EVAL", leave, "0"]);
    let take = "local left = rawget(_G, 'left') or string.left or math.left or redis.left or ('').left \
                return left and left('GET', 'secret')";
    assert_eq!(user.ask(&["EVAL", take, "0"]), Reply::Null);
    // Nor can a user's run change those of others.
    let trap = "redis.call = function() return 'trapped' end redis.pcall = redis.call \
                string.format, tostring, pairs = nil, nil, nil rawset(_G, 'redis', {}) return 1";
    user.ask(&["EVAL", trap, "0"]);
    assert_eq!(admin.ask(&["EVAL", reads, "0"]), bulk(SECRET));
}

#[test]
fn rights_that_go_between_queueing_and_exec_are_gone() {
    let server = TestServer::new();
    let (mut admin, mut user) = with_secret(&server);
    let sha = admin.ask(&["SCRIPT", "LOAD", "return redis.call('SET', KEYS[1], 'script')"]).text();
    let hidden = "return redis.call('SET', 'a' .. 2, 'script')";
    for (rule, refused) in [
        ("-set", [true, true, true, false]),
        ("-eval -evalsha", [false, true, true, false]),
        ("resetkeys ~a1", [true, true, true, false]),
        ("resetkeys %R~a*", [true, true, true, false]),
        ("-@all +exec +ping", [true, true, true, true]),
    ] {
        assert_eq!(admin.say("DEL a2"), admin.say("EXISTS none"), "{rule}: nothing was written");
        assert_eq!(user.say("MULTI"), ok());
        for line in [
            &["SET", "a2", "v"][..],
            &["EVALSHA", &sha, "1", "a2"],
            &["EVAL", hidden, "0"],
            &["GET", "a1"],
        ] {
            assert_eq!(user.ask(line), Reply::Simple("QUEUED".into()), "{line:?}");
        }
        let words: Vec<&str> =
            ["ACL", "SETUSER", "limited"].into_iter().chain(rule.split(' ')).collect();
        assert_eq!(admin.ask(&words), ok());
        let replies = user.say("EXEC");
        let found: Vec<bool> = replies.items().iter().map(Reply::is_error).collect();
        assert_eq!(found, refused, "{rule}: {replies:?}");
        if rule == "-eval -evalsha" {
            assert_eq!(admin.say("DEL a2"), Reply::Int(1));
        }
        assert_eq!(admin.say(RIGHTS), ok());
    }
    // A removed user's queued commands must not run.
    assert_eq!(user.say("MULTI"), ok());
    assert_eq!(user.say("SET a2 v"), Reply::Simple("QUEUED".into()));
    assert_eq!(admin.say("ACL DELUSER limited"), Reply::Int(1));
    assert!(user.is_closed());
    assert_eq!(admin.say("EXISTS a2"), Reply::Int(0));
}

#[test]
fn nothing_that_changes_a_connection_gives_rights() {
    let server = TestServer::with(|c| c.auth_failure_delay_ms = 1);
    let (mut admin, mut user) = with_secret(&server);
    assert_eq!(admin.say("ACL SETUSER default resetpass >pw"), ok());
    for line in [
        "HELLO 3",
        "HELLO 2",
        "HELLO 3 SETNAME default",
        "HELLO 3 AUTH default wrong",
        "AUTH wrong",
        "AUTH default wrong",
        "AUTH limited x",
        "CLIENT SETNAME default",
        "CLIENT SETINFO LIB-NAME default",
        "CLIENT NO-TOUCH ON",
        "SELECT 0",
        "WATCH a1",
        "MULTI|AUTH default wrong|EXEC",
        "MULTI|HELLO 3 AUTH default wrong|EXEC",
        "MULTI|DISCARD",
        "SUBSCRIBE a1|UNSUBSCRIBE",
        "PSUBSCRIBE *",
        "SUBSCRIBE secret",
        "WATCH secret",
        "EXEC",
        "CLIENT KILL USER default",
        "CLIENT LIST",
        "ACL SETUSER limited allkeys",
        "MONITOR",
        "SHUTDOWN",
        "CONFIG SET requirepass x",
    ] {
        for line in line.split('|') {
            let reply = user.say(line);
            assert!(!has_secret(&reply), "{line}: {reply:?}");
        }
        let refused = user.say("GET secret");
        assert!(
            refused.text().starts_with("NOPERM No permissions to access a key"),
            "{line}: {refused:?}"
        );
        assert_eq!(user.say("ACL WHOAMI"), bulk("limited"), "{line}");
        // Also as multibulk requests.
        user.send(b"get \"secret\"\r\n");
        assert!(user.reply().text().starts_with("NOPERM "), "{line}");
    }
    // RESET makes it the default user, which has a password now; also in a transaction that ends
    // with it.
    assert_eq!(user.say("MULTI"), ok());
    assert_eq!(user.say("SET a1 2"), Reply::Simple("QUEUED".into()));
    assert_eq!(user.say("RESET"), Reply::Simple("RESET".into()));
    for line in ["GET secret", "GET a1", "EVAL x 0", "HELLO 3", "CLIENT ID"] {
        assert!(user.say(line).text().starts_with("NOAUTH "), "{line}");
    }
    assert!(user.say("EXEC").text().ends_with("because of: NOAUTH Authentication required."));
    assert_eq!(admin.say("GET a1"), bulk("1"));
}

/// Both servers get the same attempts; this server must refuse whatever Redis refuses.
#[test]
fn attempts_that_redis_refuses_are_refused() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::with(one_thread);
    let ask = |address| {
        let (mut admin, mut user) = (Wire::connect(address), Wire::connect(address));
        assert_eq!(admin.say(RIGHTS), ok());
        assert_eq!(admin.say(&format!("MSET secret {SECRET} a1 1")), ok());
        assert_eq!(user.say("AUTH limited x"), ok());
        // Commands that only one of the two has do not count.
        let ours = ["HISTORY", "MSETEX", "DIGEST"];
        let attempts =
            SCRIPTS.iter().filter(|(script, ..)| !ours.iter().any(|name| script.contains(name)));
        attempts
            .map(|(script, keys, _)| {
                let n_keys = keys.len().to_string();
                let line = [&["EVAL", script, &n_keys][..], keys, &["secret"]].concat();
                assert_eq!(user.say("MULTI"), ok());
                let queued = user.ask(&line);
                let run = user.say("EXEC");
                (script, user.ask(&line).is_error(), queued.is_error(), is_refused(&run))
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(ask(server.address), ask(redis.address));
}

/// Whether a transaction, or one of its commands, was refused.
fn is_refused(reply: &Reply) -> bool {
    match reply {
        Reply::Array(items) => items.iter().any(Reply::is_error),
        other => other.is_error(),
    }
}

#[test]
fn memcacheds_port_needs_its_own_password() {
    let path = std::env::temp_dir().join(format!("hotring-bypass-{}", std::process::id()));
    std::fs::write(&path, "ann:word\n").unwrap();
    let server = Both::with(|c| {
        c.auth_failure_delay_ms = 1;
        c.memcached.auth_file = Some(path.clone());
    });
    std::fs::remove_file(&path).unwrap();
    let mut admin = Wire::connect(server.redis);
    assert_eq!(admin.say(&format!("SET secret {SECRET}")), ok());
    assert_eq!(admin.say("ACL SETUSER limited on >word +@all ~a*"), ok());
    for attempt in [
        "get secret\r\n",
        "gets secret\r\n",
        "gat 0 secret\r\n",
        "mg secret v\r\n",
        "mg secret q\r\nmn\r\n",
        "me secret\r\n",
        "delete secret\r\n",
        "md secret\r\n",
        "ma secret\r\n",
        "incr secret 1\r\n",
        "touch secret 1\r\n",
        "flush_all\r\n",
        "stats\r\n",
        "stats settings\r\n",
        // A login with the password of another user, or of a user of the other protocol.
        "set secret 0 0 10\r\nann wrong1\r\n",
        "set secret 0 0 12\r\nlimited word\r\n",
        "set secret 0 0 8\r\ndefault \r\n",
        "set secret 0 0 4\r\nann \r\n",
        "add secret 0 0 8\r\nann word\r\n",
        "ms secret 8\r\nann word\r\n",
        "cas secret 0 0 8 1\r\nann word\r\n",
        // The other protocol.
        "AUTH default \r\n",
        "HELLO 3\r\n",
        "*2\r\n$3\r\nGET\r\n$6\r\nsecret\r\n",
    ] {
        let mut lines = Lines::connect(server.memcached);
        let reply = lines.ask(attempt);
        assert!(reply.starts_with("CLIENT_ERROR "), "{}: {reply}", attempt.escape_debug());
        assert_eq!(admin.say("GET secret"), bulk(SECRET), "{}", attempt.escape_debug());
    }
    // Commands pipelined behind a wrong password must not run either.
    let mut lines = Lines::connect(server.memcached);
    assert_eq!(
        lines.ask("set x 0 0 8\r\nann drow\r\nget secret\r\n"),
        "CLIENT_ERROR authentication failure\r\n"
    );
    assert_eq!(lines.line(), "CLIENT_ERROR unauthenticated\r\n");
    // Nor is a name of this protocol valid in the other.
    let mut other = Wire::connect(server.redis);
    assert!(other.say("AUTH ann word").text().starts_with("WRONGPASS "));
    other.send(&request(&["AUTH", "limited", "word"]));
    assert_eq!(other.reply(), ok());
    assert!(other.say("GET secret").is_error());
}
