//! Scripts of libraries, in our own words: locks and rate limits.

use hotring_protocol::Version;

use super::{ask, eval, sha};
use crate::exec::dialogue::Dialogue;

/// Removes a lock if it is still one's own: redis-py's Lock, Laravel's cache locks, phpredis's sessions.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
    return redis.call('del', KEYS[1]) else return 0 end";

/// Extends one's own lock, on top of the remaining time or instead of it, as redis-py does.
const EXTEND: &str = "
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    local left = redis.call('pttl', KEYS[1])
    if left < 0 then left = 0 end
    local more = tonumber(ARGV[2])
    if ARGV[3] == '0' then more = more + left end
    redis.call('pexpire', KEYS[1], more)
    return 1";

#[test]
fn a_lock_is_its_owners() {
    let mut dialogue = Dialogue::new(Version::Resp3);
    assert_eq!(dialogue.say("SET lock me NX PX 10000"), "+OK¶");
    assert_eq!(dialogue.say("SET lock you NX PX 10000"), "_¶");
    let release = ask(&mut dialogue, &["SCRIPT", "LOAD", RELEASE]);
    assert_eq!(release, format!("$40¶{}¶", sha(RELEASE)));
    assert_eq!(ask(&mut dialogue, &["EVALSHA", &sha(RELEASE), "1", "lock", "you"]), ":0¶");
    assert_eq!(eval(&mut dialogue, EXTEND, &["lock"], &["you", "1000", "0"]), ":0¶");
    dialogue.pass(4_000);
    assert_eq!(eval(&mut dialogue, EXTEND, &["lock"], &["me", "1000", "0"]), ":1¶");
    assert_eq!(dialogue.say("PTTL lock"), ":7000¶");
    assert_eq!(eval(&mut dialogue, EXTEND, &["lock"], &["me", "500", "1"]), ":1¶");
    assert_eq!(dialogue.say("PTTL lock"), ":500¶");
    assert_eq!(ask(&mut dialogue, &["EVALSHA", &sha(RELEASE), "1", "lock", "me"]), ":1¶");
    assert_eq!(eval(&mut dialogue, EXTEND, &["lock"], &["me", "500", "1"]), ":0¶");
}

/// Stores a value where none is, with a time: Laravel's Cache::add.
const ADD: &str =
    "return redis.call('exists', KEYS[1]) < 1 and redis.call('setex', KEYS[1], ARGV[2], ARGV[1])";

#[test]
fn a_value_is_added_once() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    assert_eq!(eval(&mut dialogue, ADD, &["k"], &["v", "10"]), "+OK¶");
    assert_eq!(eval(&mut dialogue, ADD, &["k"], &["w", "10"]), "$-1¶");
    assert_eq!(dialogue.say("GET k"), "$1¶v¶");
    assert_eq!(dialogue.say("TTL k"), ":10¶");
}

/// A fixed window: a number of requests per period (limits, express-rate-limit).
const WINDOW: &str = "
    local n = redis.call('INCRBY', KEYS[1], ARGV[2])
    if n == tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
    return { n, redis.call('PTTL', KEYS[1]) }";

#[test]
fn a_window_begins_with_its_first_request() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    assert_eq!(eval(&mut dialogue, WINDOW, &["w"], &["60000", "1"]), "*2¶:1¶:60000¶");
    dialogue.pass(20_000);
    assert_eq!(eval(&mut dialogue, WINDOW, &["w"], &["60000", "1"]), "*2¶:2¶:40000¶");
    dialogue.pass(40_000);
    assert_eq!(eval(&mut dialogue, WINDOW, &["w"], &["60000", "1"]), "*2¶:1¶:60000¶");
}

/// The generic cell rate algorithm, as redis_rate has it: the time at which all would be paid for, in
/// seconds since a day of 2017 so that a double keeps the microseconds. The clock is given by the test.
const CELLS: &str = "
    redis.replicate_commands()
    local burst, rate, period = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
    local cost, now = tonumber(ARGV[4]), tonumber(ARGV[5])
    local gap = period / rate
    local due = tonumber(redis.call('GET', KEYS[1]) or now)
    due = math.max(due, now)
    local paid = due + gap * cost
    local left = (now - (paid - gap * burst)) / gap
    if left < 0 then
        return { 0, 0, tostring((paid - gap * burst) - now), tostring(due - now) }
    end
    local reset = paid - now
    if reset > 0 then redis.call('SET', KEYS[1], paid, 'EX', math.ceil(reset)) end
    return { cost, left, '-1', tostring(reset) }";

#[test]
fn cells_fill_and_empty() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let mut take = |now: &str| eval(&mut dialogue, CELLS, &["r"], &["2", "8", "1", "1", now]);
    assert_eq!(take("1000.5"), "*4¶:1¶:1¶$2¶-1¶$5¶0.125¶");
    assert_eq!(take("1000.5"), "*4¶:1¶:0¶$2¶-1¶$4¶0.25¶");
    assert_eq!(take("1000.5"), "*4¶:0¶:0¶$5¶0.125¶$4¶0.25¶");
    assert_eq!(take("1000.75"), "*4¶:1¶:1¶$2¶-1¶$5¶0.125¶");
    // With the server's clock, as the library does it.
    let clock =
        "local now = redis.call('TIME') return (now[1] - 1483228800) + (now[2] / 1000000) > 0";
    assert_eq!(eval(&mut dialogue, clock, &[], &[]), ":1¶");
}
