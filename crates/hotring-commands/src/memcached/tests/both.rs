//! One key, seen by both protocols.

use hotring_store::Watched;

use super::*;
use crate::exec::WaitEnd;
use crate::state::batching::Fed;

#[test]
fn each_protocol_reads_values_of_the_other() {
    play(
        "set k 42 100 5¶hello -> STORED¶
         redis> GET k -> $5¶hello¶
         redis> TTL k -> :100¶
         redis> TYPE k -> +string¶
         redis> OBJECT ENCODING k -> $6¶embstr¶
         redis> APPEND k !! -> :7¶
         get k -> VALUE k 42 7¶hello!!¶END¶
         redis> SET k new -> +OK¶
         get k -> VALUE k 0 3¶new¶END¶
         set n 5 0 2¶10 -> STORED¶
         redis> INCR n -> :11¶
         redis> OBJECT ENCODING n -> $3¶int¶
         incr n 1 -> 12¶
         get n -> VALUE n 5 2¶12¶END¶
         redis> RENAME n m -> +OK¶
         get m -> VALUE m 5 2¶12¶END¶
         redis> COPY m o -> :1¶
         get o -> VALUE o 5 2¶12¶END¶
         redis> MSET a 1 b 2 -> +OK¶
         get a b -> VALUE a 0 1¶1¶VALUE b 0 1¶2¶END¶",
    );
}

#[test]
fn a_hash_is_not_there_for_memcached_until_it_is_overwritten() {
    play(
        "redis> HSET h f v -> :1¶
         get h -> END¶
         gets h -> END¶
         mg h v -> EN¶
         mg h N30 v -> EN¶
         add h 0 0 1¶x -> NOT_STORED¶
         append h 0 0 1¶x -> SERVER_ERROR Operation against a key holding the wrong kind of value¶
         incr h 1 -> CLIENT_ERROR cannot increment or decrement non-numeric value¶
         cas h 0 0 1 1¶x -> EXISTS¶
         touch h 50 -> TOUCHED¶
         redis> TTL h -> :50¶
         redis> HGET h f -> $1¶v¶
         md h I -> HD¶
         redis> EXISTS h -> :0¶
         redis> HSET h f v -> :1¶
         set h 0 0 1¶x -> STORED¶
         redis> GET h -> $1¶x¶",
    );
}

/// A flush was once left to the other protocol's next request, and removed values that Redis's clients had
/// stored since.
#[test]
fn a_flush_whose_time_has_come_is_done_before_either_protocol_stores() {
    play(
        "set old 0 0 1¶x -> STORED¶
         flush_all 2 -> OK¶
         + 2000
         redis> SET new y -> +OK¶
         get old new -> VALUE new 0 1¶y¶END¶
         flush_all 2 -> OK¶
         redis> FLUSHALL -> +OK¶
         set k 0 0 1¶x -> STORED¶
         + 2000
         get k -> END¶",
    );
}

#[test]
fn a_watched_key_notices_memcached() {
    play(
        "redis> SET k 1 -> +OK¶
         redis> WATCH k -> +OK¶
         incr k 1 -> 2¶
         redis> MULTI -> +OK¶
         redis> SET k 9 -> +QUEUED¶
         redis> EXEC -> *-1¶
         get k -> VALUE k 0 1¶2¶END¶",
    );
}

#[test]
fn changes_reach_listeners() {
    let mut dialogue = Dialogue::new();
    dialogue.play(
        "redis> CONFIG SET notify-keyspace-events KEA -> +OK¶
         redis> PSUBSCRIBE __keyspace@0__:* -> *3¶$10¶psubscribe¶$16¶__keyspace@0__:*¶:1¶",
    );
    dialogue.say("set k 0 100 1¶1");
    dialogue.say("incr k 1");
    dialogue.say("mg k h l");
    dialogue.say("touch k 5");
    dialogue.say("md k");
    let told = dialogue.redis("PING");
    let events: Vec<&str> = told.split('¶').filter(|line| !line.starts_with(['*', '$'])).collect();
    let events: Vec<&str> =
        events.into_iter().filter(|line| !line.contains("__") && *line != "pmessage").collect();
    assert_eq!(events[..5], ["set", "expire", "incrby", "expire", "del"], "{told}");
}

#[test]
fn values_keep_their_history() {
    let mut dialogue = Dialogue::with(
        Config { history: 3, ..Config::default() },
        Options { history: 3, ..Options::default() },
    );
    dialogue.play(
        "set k 1 0 1¶a -> STORED¶
         set k 2 0 1¶b -> STORED¶
         mg k h l c v f -> VA 1 h0 l0 c1 f2¶b¶
         redis> ROLLBACK k 1 -> +OK¶
         get k -> VALUE k 2 1¶a¶END¶",
    );
    let told = dialogue.redis("HISTORY k");
    assert!(told.starts_with("*2¶"), "{told}");
}

/// It was done in the middle of a pause, in which nothing is to change.
#[test]
fn a_pause_holds_back_a_flush() {
    let begin = "set k 0 0 1¶v -> STORED¶
         flush_all 2 -> OK¶";
    // Until its time is over or it is ended; later values stay.
    let ends = ["+ 9000", "redis> CLIENT UNPAUSE¶SET l 1 -> +OK¶+OK¶"];
    for (end, left) in ends.into_iter().zip(["$-1¶", "$1¶1¶"]) {
        play(&format!(
            "{begin}
             redis> CLIENT PAUSE 5000 WRITE -> +OK¶
             + 3000
             redis> GET k -> $1¶v¶
             {end}
             redis> GET k -> $-1¶
             redis> GET l -> {left}"
        ));
    }
    let mut dialogue = Dialogue::new();
    dialogue.play(begin);
    dialogue.play("redis> CLIENT PAUSE 5000 -> +OK¶");
    let (server, mut store) = (dialogue.server.clone(), dialogue.server.store.session());
    let mut is_held = |now| server.memcached.flush_if_due(&mut store, &server.clients.pause, now);
    assert!(is_held(START + 4_999) && server.store.len() == 1);
    assert!(!is_held(START + 5_000) && server.store.is_empty());
}

#[test]
fn all_requests_of_memcached_wait_for_the_end_of_any_pause() {
    for (mode, passes) in [("WRITE", 0), ("ALL", 5_000)] {
        let mut dialogue = Dialogue::new();
        dialogue.play(&format!("redis> CLIENT PAUSE 5000 {mode} -> +OK¶"));
        let Dialogue { executor, memcached, now, .. } = &mut dialogue;
        let (mut out, request) = (Vec::new(), b"get k\r\n");
        let fed = executor.feed(memcached, request, *now, &mut out);
        assert_eq!((fed, out.len()), (Fed { consumed: 0, stalled: false }, 0), "{mode}");
        let waits = Watched::Waiting { until: Some(START + 5_000) };
        assert_eq!(executor.poll_wait(memcached, *now), waits);
        *now += passes;
        if passes == 0 {
            assert_eq!(dialogue.redis("CLIENT UNPAUSE"), "+OK¶");
        }
        let Dialogue { executor, memcached, now, .. } = &mut dialogue;
        assert_eq!(executor.poll_wait(memcached, *now), Watched::Fired);
        executor.end_wait(memcached, WaitEnd::Fired, *now, &mut out);
        assert!(out.is_empty());
        assert_eq!(dialogue.say("get k"), "END¶");
    }
}
