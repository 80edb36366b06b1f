//! Scripts that use other keys than they were given.

use std::sync::Arc;

use fastrand::Rng;
use hotring_protocol::Version;

use super::{ask, eval, sha};
use crate::exec::dialogue::Dialogue;
use crate::state::scripts::{Script, digest, parse_digest};

#[test]
fn keys_that_were_not_declared_are_held_all_the_same() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let wide = "return redis.call('INCR', ARGV[1])";
    for i in 1..4 {
        assert_eq!(eval(&mut dialogue, wide, &[], &["x"]), format!(":{i}¶"));
    }
    // The first run of each uses its own keys only, and the later one another as well.
    let later = "local n = redis.call('GET', KEYS[1]) if ARGV[1] then redis.call('SET', ARGV[1], 1) end \
                 return redis.call('INCR', KEYS[1])";
    assert_eq!(eval(&mut dialogue, later, &["n"], &[]), ":1¶");
    assert_eq!(eval(&mut dialogue, later, &["n"], &["other"]), ":2¶");
    assert_eq!(dialogue.say("GET other"), "$1¶1¶");
    // Regression test: once it had written, this was refused.
    let late = "redis.call('INCR', KEYS[1]) return ARGV[1] and redis.call('GET', ARGV[1])";
    assert_eq!(eval(&mut dialogue, late, &["m"], &[]), "$-1¶");
    assert_eq!(eval(&mut dialogue, late, &["m"], &["other"]), "$1¶1¶");
    assert_eq!(dialogue.say("GET m"), "$1¶2¶");
    // Walks over all keys count as others.
    let walk = "return ARGV[1] and redis.call('DBSIZE') or 0";
    assert_eq!(eval(&mut dialogue, walk, &[], &[]), ":0¶");
    assert_eq!(eval(&mut dialogue, walk, &[], &["all"]), ":4¶");
}

/// A cached script that is taken for one that uses only declared keys.
fn believed(dialogue: &mut Dialogue, script: &str) -> Arc<Script> {
    let name = sha(script);
    let loaded = ask(dialogue, &["SCRIPT", "LOAD", script]);
    assert_eq!(loaded, format!("$40¶{name}¶"), "{script}");
    let sha = parse_digest(name.as_bytes()).unwrap();
    let script = dialogue.server().scripts.find(&sha).unwrap();
    script.believe();
    script
}

/// The last defence, should a proof be wrong.
#[test]
fn a_script_that_wants_a_key_that_it_does_not_hold_starts_again_or_is_refused() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("SET other 1");
    let mut run = |script: &str, keys: &[&str], args: &[&str]| {
        let cached = believed(&mut dialogue, script);
        let reply = eval(&mut dialogue, script, keys, args);
        assert!(!cached.is_declared(), "it holds everything from now on");
        reply
    };
    let early = "local n = redis.call('GET', ARGV[1]) return redis.call('INCR', KEYS[1]) + n";
    assert_eq!(run(early, &["n"], &["other"]), ":2¶");
    // Behind a pcall too.
    let caught = "local ok = pcall(redis.call, 'GET', ARGV[1]) return {tostring(ok)}";
    assert_eq!(run(caught, &[], &["x"]), "*1¶$4¶true¶");
    assert_eq!(run("return redis.call('DBSIZE')", &[], &[]), ":2¶");
    let late = "redis.call('INCR', KEYS[1]) return redis.call('GET', ARGV[1])";
    let refused = run(late, &["m"], &["other"]);
    assert!(refused.starts_with("-ERR Script uses a key that is not among KEYS"), "{refused}");
    assert_eq!(eval(&mut dialogue, late, &["m"], &["other"]), "$1¶1¶");
    assert_eq!(dialogue.say("GET m"), "$1¶2¶");
}

/// Makes up scripts of which some use other keys, some only seem to.
struct Author {
    random: Rng,
    depth: usize,
}

impl Author {
    fn one(&mut self, of: &[&str]) -> String {
        self.random.choice(of).expect("there is one").to_string()
    }

    /// A value that is often a declared key.
    fn value(&mut self) -> String {
        match self.random.u8(..14) {
            0..6 => self.one(&["KEYS[1]", "KEYS[2]", "KEYS[ARGV[3] + 0]", "(KEYS[1])"]),
            6..9 => self.one(&["a", "k", "k"]),
            9 => self.one(&["ARGV[1]", "'x'", "ARGV[1] or KEYS[1]", "KEYS[1] .. 'x'", "_VERSION"]),
            10 => self.one(&["unpack(KEYS)", "unpack(KEYS, 2)", "(unpack(KEYS))", "unpack(ARGV)"]),
            11 => format!("({} and {})", self.value(), self.value()),
            12 => format!("({} or {})", self.value(), self.value()),
            _ => self.one(&["KEYS[1]", "select(2, ipairs(KEYS))", "#KEYS", "tostring(KEYS[1])"]),
        }
    }

    fn call(&mut self) -> String {
        let call = self.one(&[
            "redis.call",
            "redis.call",
            "redis.pcall",
            "c",
            "redis --[[ ' ]] . call",
            "redis['call']",
        ]);
        let (one, two) = (self.value(), self.value());
        match self.random.u8(..9) {
            0 => format!("{call}('GET', {one})"),
            1 => format!("{call}('SET', {one}, {two})"),
            2 => format!("{call}('MGET', {one}, {two})"),
            3 => format!("{call}(\"del\", {one}, {two})"),
            4 => format!("{call}('RPOPLPUSH', {one}, {two})"),
            5 => format!("{call}('BLPOP', {one}, {two}, 0)"),
            6 => format!("{call}('SINTERCARD', {}, {one}, {two})", self.random.u8(1..3)),
            7 => format!("{call}('MSET', {one}, 1, {two})"),
            _ => format!("{call}('BITOP', 'OR', {one}, {two})"),
        }
    }

    fn block(&mut self) -> String {
        let n = self.random.usize(1..4);
        (0..n).map(|_| self.statement()).collect::<Vec<_>>().join(" ")
    }

    fn statement(&mut self) -> String {
        if self.depth > 3 {
            return self.call();
        }
        self.depth += 1;
        let (name, other) = (self.one(&["a", "k", "k"]), self.one(&["a", "b", "k"]));
        let text = match self.random.u8(..24) {
            0..8 => self.call(),
            8..11 => format!("local {name} = {}", self.value()),
            11 => format!("local {name}, {other} = {}, {}", self.value(), self.value()),
            12 => format!("local {name}, {other} = {}", self.value()),
            13 => format!("local b b, {name} = 1, {}", self.value()),
            14 => format!("for _, {name} in ipairs(KEYS) do {} end", self.block()),
            15 => format!("for {name}, {other} in pairs(ARGV) do {} end", self.block()),
            16 => format!("do {} end", self.block()),
            17 => format!("if {} then {} else {} end", self.value(), self.block(), self.block()),
            18 => format!("local function f({name}) {} end f({})", self.block(), self.value()),
            19 => format!("local function f() {name} = {} end f()", self.value()),
            20 => format!("repeat {} until {}", self.block(), self.value()),
            21 => self.one(&[
                "local c = redis.call",
                "local c = redis.pcall",
                "local redis = redis",
                "local KEYS = KEYS",
                "local KEYS = ARGV",
                "local r = redis local c = r.call",
                "local unpack = unpack or 1",
                "local unpack = function() return 'x' end",
            ]),
            22 => self.one(&[
                "table.insert(KEYS, 'x')",
                "KEYS[1] = ARGV[1]",
                "local t = KEYS t[2] = 'x'",
                "for _, k in ipairs(KEYS) do k = 'x' end",
                "table.sort({KEYS[1]})",
                "loadstring('KEYS[1] = ...')('x')",
                "rawset(_G.KEYS, 1, 'x')",
                "local _, t = ipairs(KEYS) t[1] = 'x'",
            ]),
            _ => self.one(&[
                "-- k = 'x'\n",
                "--[[ ]]",
                "local s = [[ redis.call('GET', 'x') ]]",
                "local s = '\\'' --'\n",
            ]),
        };
        self.depth -= 1;
        text
    }
}

#[test]
fn a_proved_script_uses_only_declared_keys() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    // Some never end.
    assert_eq!(dialogue.say("CONFIG SET lua-instruction-limit 3000"), "+OK¶");
    let mut author = Author { random: Rng::with_seed(7), depth: 0 };
    let (mut n_proved, mut n_wide) = (0, 0);
    for _ in 0..1_000 {
        let body = author.block();
        let script = format!("local a, b, k, c = KEYS[1], 1, KEYS[2], redis.call {body}");
        let text = script.as_bytes();
        let is_proved = Script::new(&digest(text), text).unwrap().is_declared();
        // EXEC holds everything, so that each script goes on to its end.
        let cached = believed(&mut dialogue, &script);
        dialogue.say("MULTI");
        dialogue.say("PING");
        eval(&mut dialogue, &script, &["{1}", "{2}"], &["y", "z", "1"]);
        let reply = dialogue.say("EXEC");
        let is_declared = cached.is_declared();
        assert!(is_declared || !is_proved, "{script}\n{reply}");
        n_proved += usize::from(is_proved);
        n_wide += usize::from(!is_declared);
    }
    println!("{n_proved} proved, {n_wide} used other keys");
    assert!(n_proved > 100 && n_wide > 100, "{n_proved} {n_wide}");
}
