//! Blocking commands: replies without a wait, and the order in which clients are served.

use hotring_protocol::Version;
use hotring_store::End;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn elements_that_are_there_are_taken_at_once() {
    play(
        r#"
        RPUSH l a b c d e           -> :5¶
        BLPOP none l 0              -> *2¶$1¶l¶$1¶a¶
        BRPOP l none 0              -> *2¶$1¶l¶$1¶e¶
        BLMOVE l m LEFT RIGHT 0     -> $1¶b¶
        BRPOPLPUSH l m 0            -> $1¶d¶
        BLMPOP 0 2 none m LEFT COUNT 5 -> *2¶$1¶m¶*2¶$1¶d¶$1¶b¶
        ZADD z 1 a 2 b 3 c 4 d      -> :4¶
        BZPOPMIN none z 0           -> *3¶$1¶z¶$1¶a¶$1¶1¶ | *3¶$1¶z¶$1¶a¶,1¶
        BZPOPMAX z 0                -> *3¶$1¶z¶$1¶d¶$1¶4¶ | *3¶$1¶z¶$1¶d¶,4¶
        BZMPOP 0 1 z MAX COUNT 2    -> *2¶$1¶z¶*2¶*2¶$1¶c¶$1¶3¶*2¶$1¶b¶$1¶2¶ | *2¶$1¶z¶*2¶*2¶$1¶c¶,3¶*2¶$1¶b¶,2¶
        BLPOP l 1e300               -> -ERR timeout is out of range¶
        BLPOP l inf                 -> -ERR timeout is out of range¶
        EVAL "return redis.call('BLPOP', KEYS[1], 0)" 1 none -> $-1¶ | _¶
        EVAL "return redis.call('BLPOP', KEYS[1], 0)[2]" 1 l -> $1¶c¶
        "#,
    );
}

/// A newcomer never takes an element that another client waits for, even if the session that has pushed it is yet to
/// serve the line.
#[test]
fn a_newcomer_serves_earlier_waiters() {
    let mut first = Dialogue::new(Version::Resp2);
    let mut second = first.with_version(Version::Resp3);
    let mut other = first.with_version(Version::Resp2);
    assert_eq!(first.say("BLPOP k 0"), "");
    assert_eq!(other.say("BZPOPMIN k 0"), "", "it waits for another type");
    let mut pusher = first.server().store.session();
    pusher.list_push(b"k", End::Back, &[b"a"], false, 1).unwrap();
    assert!(pusher.has_ready());
    assert_eq!(second.say("BLPOP k 0"), "");
    assert_eq!(first.ended_wait(), "*2¶$1¶k¶$1¶a¶");
    assert_eq!([second.ended_wait(), other.ended_wait()], ["", ""]);
    pusher.list_push(b"k", End::Back, &[b"b", b"c"], false, 1).unwrap();
    assert_eq!(first.say("BRPOP k 0"), "*2¶$1¶k¶$1¶c¶", "the second was first");
    assert_eq!(second.ended_wait(), "*2¶$1¶k¶$1¶b¶");
    assert_eq!(other.ended_wait(), "");
}

/// The line is longer than one hold serves. Some of its clients move their element to another key, and some have
/// stopped waiting without having left the line yet.
#[test]
fn a_long_line_is_served_to_its_end() {
    let mut pusher = Dialogue::new(Version::Resp2);
    let mut clients: Vec<_> = (0..100).map(|_| pusher.with_version(Version::Resp2)).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        let line = match i % 3 {
            0 => format!("BLMOVE k to{i} LEFT LEFT 0"),
            1 => "BLPOP k 0".to_string(),
            _ => "BZPOPMIN k 0".to_string(),
        };
        assert_eq!(client.say(&line), "");
    }
    let has_ended = |i: usize| [4, 7, 13].contains(&i);
    for (_, client) in clients.iter().enumerate().filter(|(i, _)| has_ended(*i)) {
        assert_eq!(pusher.say(&format!("CLIENT UNBLOCK {}", client.id())), ":1¶");
    }
    let elements: String = (0..80).map(|i| format!(" {i:02}")).collect();
    assert_eq!(pusher.say(&format!("RPUSH k{elements}")), ":80¶");
    let mut n_served = 0;
    for (i, client) in clients.iter_mut().enumerate() {
        let reply = match i % 3 {
            _ if has_ended(i) => String::new(),
            0 => format!("$2¶{n_served:02}¶"),
            1 => format!("*2¶$1¶k¶$2¶{n_served:02}¶"),
            _ => String::new(),
        };
        assert_eq!(client.ended_wait(), reply, "{i}");
        n_served += usize::from(i % 3 < 2 && !has_ended(i));
    }
    assert_eq!(pusher.say("LLEN k"), format!(":{}¶", 80 - n_served));
    assert_eq!(pusher.say("LRANGE to3 0 -1"), "*1¶$2¶02¶");
}

/// Events and invalidations come as if the clients that are served had popped themselves, behind those of the push.
#[test]
fn events_come_in_order() {
    let mut pusher = Dialogue::new(Version::Resp2);
    let mut listener = pusher.with_version(Version::Resp2);
    let mut waiter = pusher.with_version(Version::Resp3);
    pusher.say("CONFIG SET notify-keyspace-events KA");
    assert_eq!(waiter.say("BLPOP k 0"), "");
    listener.say("PSUBSCRIBE __keyspace*");
    assert_eq!(pusher.say("RPUSH k a"), ":1¶");
    let events: Vec<String> = listener.messages().split('¶').map(str::to_string).collect();
    let events: Vec<_> = events.iter().skip(8).step_by(9).map(String::as_str).collect();
    assert_eq!(events, ["rpush", "lpop", "del"]);
    assert_eq!(waiter.ended_wait(), "*2¶$1¶k¶$1¶a¶");
}

/// Serving a client may fail; then no element is lost.
#[test]
fn an_element_that_may_not_move_stays() {
    let mut pusher = Dialogue::new(Version::Resp2);
    let mut mover = pusher.with_version(Version::Resp2);
    assert_eq!(mover.say("BLMOVE k text LEFT LEFT 0"), "");
    assert_eq!(pusher.say("SET text t"), "+OK¶");
    assert_eq!(pusher.say("RPUSH k a"), ":1¶");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value¶";
    assert_eq!(mover.ended_wait(), wrong);
    assert_eq!(pusher.say("LRANGE k 0 -1"), "*1¶$1¶a¶");
    let stats = pusher.say("INFO commandstats");
    assert!(
        stats.contains("cmdstat_blmove:calls=1,") && stats.contains("failed_calls=1"),
        "{stats}"
    );
}
