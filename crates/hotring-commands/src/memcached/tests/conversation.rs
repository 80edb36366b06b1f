//! Complete conversations: pieces, batches, limits, ends, and authentication.

use super::*;
use crate::state::batching::BATCH_LEN;

fn sample() -> Vec<u8> {
    let mut input = b"set a 5 0 3\r\nx\r\n\r\nget a\r\nms b 2 c\r\nhi\r\nmg b v k\r\n".to_vec();
    input.extend_from_slice(b"set c 0 0 99\r\nget a\r\n");
    input.resize(input.len() + 99 - 7, b'y');
    input.extend_from_slice(b"\r\nnonsense\r\nincr n 1\r\ndelete a\r\nmn\r\n");
    input
}

const REPLIES: &str = "STORED¶VALUE a 5 3¶x¶¶END¶HD c1¶VA 2 kb¶hi¶\
    SERVER_ERROR object too large for cache¶ERROR¶NOT_FOUND¶DELETED¶MN¶";

#[test]
fn replies_are_the_same_wherever_the_input_is_cut() {
    let input = sample();
    let replies = |cuts: &[usize]| {
        let mut dialogue = Dialogue::new();
        let mut config = dialogue.server.settings.config().as_ref().clone();
        config.memcached.value_len_max = 98;
        dialogue.server.change_config(|_| Ok::<_, String>(config)).unwrap();
        let (mut out, mut start) = (Vec::new(), 0);
        for end in cuts.iter().copied().chain([input.len()]) {
            let piece = &input[start..end];
            let fed = dialogue.executor.feed(&mut dialogue.memcached, piece, START, &mut out);
            assert!(!fed.stalled);
            start += fed.consumed;
        }
        assert_eq!(start, input.len());
        shown(out)
    };
    assert_eq!(replies(&[]), REPLIES);
    for cut in 0..input.len() {
        assert_eq!(replies(&[cut]), REPLIES, "cut at {cut}");
    }
    let every: Vec<usize> = (0..input.len()).collect();
    assert_eq!(replies(&every), REPLIES, "byte by byte");
}

#[test]
fn the_batch_size_shows_nowhere() {
    for n in [BATCH_LEN - 1, BATCH_LEN, BATCH_LEN + 1, 3 * BATCH_LEN] {
        let mut dialogue = Dialogue::new();
        dialogue.say("set n 0 0 1¶0");
        let expected: String = (1..=n).map(|i| format!("{i}\r\n")).collect();
        assert_eq!(dialogue.ask(&b"incr n 1\r\n".repeat(n)), expected.as_bytes());
        let keys: String = (0..3 * n).map(|i| format!(" k{i}")).collect();
        assert_eq!(dialogue.say(&format!("get{keys}")), "END¶");
    }
}

#[test]
fn output_above_the_limit_stops_the_batch_and_later_goes_on() {
    let config = Config { output_soft_max: 5000, ..Config::default() };
    let mut dialogue = Dialogue::with(config, Options::default());
    dialogue.ask(format!("set a 0 0 1000\r\n{}\r\n", "v".repeat(1000)).as_bytes());
    let mut input = b"get a\r\n".repeat(30);
    // The start of another request: the decoder is in the middle of it when the batch stops.
    input.extend(b"set b 0 0 5\r\nhe");
    let (mut all, mut rounds) = (Vec::new(), 0);
    loop {
        let mut out = Vec::new();
        let fed = dialogue.executor.feed(&mut dialogue.memcached, &input, START, &mut out);
        assert!(out.len() <= 5000 + 1100, "{} bytes at once", out.len());
        all.extend(out);
        input.drain(..fed.consumed);
        rounds += 1;
        if !fed.stalled {
            break;
        }
    }
    assert!(rounds > 3, "{rounds} rounds");
    assert_eq!(all.len(), 30 * (1000 + "VALUE a 0 1000\r\n\r\nEND\r\n".len()));
    input.extend(b"llo\r\n");
    assert_eq!(shown(dialogue.ask(&input)), "STORED¶");
}

#[test]
fn nothing_runs_after_the_end_of_a_conversation() {
    let endless = "x".repeat(2049);
    for (end, why, reply) in [
        ("quit", Closing::Asked, ""),
        ("GET / HTTP/1.1", Closing::CrossProtocol, ""),
        (endless.as_str(), Closing::Protocol, "CLIENT_ERROR line too long¶"),
    ] {
        let mut dialogue = Dialogue::new();
        assert_eq!(
            dialogue.say(&format!("set a 0 0 1¶1¶{end}¶set a 0 0 1¶2")),
            format!("STORED¶{reply}")
        );
        assert_eq!(dialogue.closing(), Some(why));
        assert_eq!(dialogue.redis("GET a"), "$1¶1¶");
    }
}

#[test]
fn a_reply_that_is_too_long_ends_the_conversation() {
    let config = Config { output_hard_max: 4000, ..Config::default() };
    let mut dialogue = Dialogue::with(config, Options::default());
    dialogue.ask(format!("set a 0 0 1000\r\n{}\r\n", "v".repeat(1000)).as_bytes());
    let keys = " a".repeat(10);
    dialogue.say(&format!("get{keys}"));
    assert_eq!(dialogue.closing(), Some(Closing::OutputLimit));
}

/// A dialogue whose client must authenticate as ann or bob.
fn locked(name: &str) -> Dialogue {
    let file = format!("hotring-memcached-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, "ann:secret\nbob:x\n").unwrap();
    let dialogue = Dialogue::small(|settings| settings.auth_file = Some(path.clone()));
    std::fs::remove_file(&path).unwrap();
    dialogue
}

/// A pipeline of passwords was tried at once, and its replies alone had to wait.
#[test]
fn a_wrong_password_delays_later_requests() {
    let mut dialogue = locked("guesses");
    let guess = b"set k 0 0 9\r\nann wrong\r\n";
    let mut out = Vec::new();
    let input = guess.repeat(3);
    let fed = dialogue.executor.feed(&mut dialogue.memcached, &input, START, &mut out);
    assert_eq!((fed.consumed, fed.stalled), (guess.len(), true));
    assert_eq!(shown(out), "CLIENT_ERROR authentication failure¶");
    assert!(!dialogue.memcached.client.penalty.is_zero());
}

#[test]
fn an_unauthenticated_client_gets_only_errors() {
    use std::sync::atomic::Ordering::Relaxed;

    let mut dialogue = locked("users");
    let since = dialogue.memcached.client.shared.locked_since.load(Relaxed);
    assert_ne!(since, 0, "who never says it is ended by the handshake's timeout");
    dialogue.play(
        "get k -> CLIENT_ERROR unauthenticated¶
         mn -> CLIENT_ERROR unauthenticated¶
         ms k 1¶x -> CLIENT_ERROR unauthenticated¶
         set k 0 0 3¶ann -> CLIENT_ERROR bad authentication token format¶
         set k 0 0 1¶toolong -> CLIENT_ERROR bad command line termination¶CLIENT_ERROR unauthenticated¶
         set k 0 0 9¶ann wrong -> CLIENT_ERROR authentication failure¶
         set k 0 0 10¶ann secret -> STORED¶
         get k -> END¶
         set k 0 0 1¶x -> STORED¶
         get k -> VALUE k 0 1¶x¶END¶",
    );
    assert_eq!(dialogue.memcached.client.shared.locked_since.load(Relaxed), 0);
    let other = std::net::IpAddr::from([192, 0, 2, 1]);
    assert!(!dialogue.server.is_memcached_protected_from(other));
    let open = Dialogue::new();
    assert!(open.server.is_memcached_protected_from(other));
    assert!(!open.server.is_memcached_protected_from([127, 0, 0, 1].into()));
    let stats = dialogue.say("stats");
    assert!(stats.contains("STAT auth_cmds 2¶STAT auth_errors 1¶"), "{stats}");
    let shared = dialogue.server.clients.enter("peer".into(), "local".into(), 0);
    dialogue.memcached = Conversation::memcached(shared, &dialogue.server);
    let (wrong, right) = ("set k 0 0 9\r\nann wrong\r\n", "set k 0 0 10\r\nann secret\r\n");
    let (input, mut out) = (format!("{wrong}{right}"), Vec::new());
    let fed = dialogue.executor.feed(&mut dialogue.memcached, input.as_bytes(), START, &mut out);
    assert_eq!((fed.consumed, fed.stalled), (wrong.len(), true), "what is behind it waits");
}

#[test]
fn without_memory_reads_and_removals_go_on() {
    use crate::state::warnings::STALLING;
    use std::sync::PoisonError;

    let _alone = STALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let index = hotring_store::index::Config { limbo_max: 1 << 20, ..Default::default() };
    let mut dialogue = Dialogue::with(Config::default(), Options { index, ..Options::default() });
    dialogue.say("set k 5 0 1¶x");
    dialogue.say("mg k h");
    dialogue.say("set stale 0 0 1¶y");
    dialogue.say("md stale I");
    dialogue.say("set other 0 0 1¶z");
    dialogue.pass(1000);
    let mut stalled = dialogue.server.store.session_named("a test");
    let refused = "SERVER_ERROR out of memory storing object¶";
    let set = format!("set big 0 0 1000¶{}", "v".repeat(1000));
    stalled.item(b"k", START, |_| {
        let mut replies = (0..4_000).map(|_| dialogue.say(&set));
        assert!(replies.any(|reply| reply == refused));
        drop(replies);
        dialogue.play(
            "get k -> VALUE k 5 1¶x¶END¶
             mg k v h -> VA 1 h1¶x¶
             mg stale v -> VA 1 X¶y¶
             gets k -> SERVER_ERROR out of memory storing object¶
             set k 5 0 1¶y -> SERVER_ERROR out of memory storing object¶
             delete k -> NOT_FOUND¶
             md big -> NF¶
             delete other -> DELETED¶",
        );
    });
    dialogue.play(
        "set k 5 0 1¶y -> STORED¶
         mg stale v -> VA 1 X W¶y¶",
    );
}

/// `set` once looked at the old value, so nothing could be stored over a damaged item; and the error went
/// even to clients that wanted no reply.
#[test]
fn a_damaged_item_is_reported_and_replaced() {
    use hotring_store::index::{Checksum, Config as Index, Part};

    for request in ["set k 7 0 1¶x", "ms k 1 F7¶x", "redis> SET k x"] {
        for notify in ["''", "KEA"] {
            let index = Index { checksum: Checksum::Verify, ..Index::default() };
            let options = Options { index, ..Options::default() };
            let mut dialogue = Dialogue::with(Config::default(), options);
            dialogue.redis(&format!("CONFIG SET notify-keyspace-events {notify}"));
            dialogue.say("set k 5 0 12¶a long value");
            let mut damager = dialogue.server.store.session();
            let damaged = "SERVER_ERROR the item fails its checksum¶";
            let replaced = damager.with_damage(b"k", Part::Value, 99, || {
                for request in ["get k", "incr k 1", "add k 0 0 1¶x", "append k 0 0 1¶x", "mg k q"]
                {
                    assert_eq!(dialogue.say(request), damaged, "{request}");
                }
                for request in ["add k 0 0 1 noreply¶x", "incr k 1 noreply", "touch k 9 noreply"] {
                    assert_eq!(dialogue.say(request), "", "{request}");
                }
                assert_eq!(dialogue.server.totals_since_start().damaged_reads, 8);
                match request.strip_prefix("redis> ") {
                    Some(request) => assert_eq!(dialogue.redis(request), "+OK¶"),
                    None => assert!(["STORED¶", "HD¶"].contains(&&*dialogue.say(request))),
                }
                assert_eq!(dialogue.redis("GET k"), "$1¶x¶");
                assert_eq!(dialogue.server.totals_since_start().damaged_reads, 8);
            });
            replaced.expect("the item can be damaged there");
        }
    }
}

/// A client of the binary form once waited for its own timeout: its bytes are no line, so that there was no answer.
#[test]
fn a_client_of_the_binary_form_is_shown_out_at_once() {
    let get = b"\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00k";
    for input in [&get[..1], get] {
        let mut dialogue = Dialogue::new();
        assert_eq!(dialogue.ask(input), b"");
        assert_eq!(dialogue.closing(), Some(Closing::Protocol));
    }
    // Behind a line it is a byte like others.
    let mut dialogue = Dialogue::new();
    assert_eq!(dialogue.say("mn"), "MN¶");
    assert_eq!(dialogue.ask(b"\x80\r\n"), b"ERROR\r\n");
    assert_eq!(dialogue.closing(), None);
}
