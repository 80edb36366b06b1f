//! SHUTDOWN at a primary beside clients: the role is handed over first, as after SIGTERM.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::failover::pair;
use super::*;

/// Longest time without an acknowledged write while the role is handed over: 0.2 s, and more on a machine that does ten
/// other things. Without a handover it is longer than the lease.
const GAP_MAX: Duration = Duration::from_secs(3);

/// What a client has seen.
#[derive(Default)]
struct Seen {
    acknowledged: AtomicU64,
    /// Its longest time between two acknowledgements, in milliseconds.
    gap: AtomicU64,
    ends: AtomicBool,
}

/// Counts up at whichever node takes it, and checks that no acknowledged step is lost.
fn count_up(nodes: [SocketAddr; 2], key: &str, seen: &Seen) {
    let (mut at, mut wire) = (0, None);
    let (mut last, mut open, mut heard) = (0, 0, Instant::now());
    while !seen.ends.load(Ordering::Relaxed) {
        let Some(present) = &mut wire else {
            wire = Wire::try_connect(nodes[at]).ok();
            at = 1 - at;
            continue;
        };
        match present.try_say(&format!("INCR {key}")) {
            Ok(Reply::Int(now)) => {
                assert!(
                    (last + 1..=last + 1 + open).contains(&now),
                    "{now} after {last}, {open} open"
                );
                seen.gap.fetch_max(heard.elapsed().as_millis() as u64, Ordering::Relaxed);
                seen.acknowledged.fetch_add(1, Ordering::Relaxed);
                (last, open, heard) = (now, 0, Instant::now());
            }
            Ok(Reply::Error(why)) => {
                let may_pass =
                    ["MOVED", "CLUSTERDOWN", "READONLY", "NOREPLICAS", "UNBLOCKED", "UNKNOWN"];
                assert!(may_pass.iter().any(|word| why.starts_with(word)), "{why}");
                // One of these says that the fate of the write is unknown.
                open += i64::from(why.starts_with("UN"));
                wire = None;
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(other) => panic!("INCR answers {other:?}"),
            Err(_) => {
                open += 1;
                wire = None;
            }
        }
    }
}

fn wait_for_more(seen: &[Seen]) {
    let count = |seen: &Seen| seen.acknowledged.load(Ordering::Relaxed);
    let before: Vec<u64> = seen.iter().map(count).collect();
    wait_for("each client goes on", || {
        seen.iter().zip(&before).all(|(seen, before)| count(seen) > before + 100)
    });
}

/// SHUTDOWN ended a primary without a word to its replica: its shard stood still until the lease was over.
#[test]
fn a_primary_that_gets_shutdown_hands_its_role_over_under_load() {
    let (keeper, one, other) = pair("shutdown", Some(AckWhen::Written));
    let addresses = [&one, &other].map(|node| node.server.as_ref().unwrap().address);
    let seen: [Seen; 4] = Default::default();
    std::thread::scope(|scope| {
        for (n, seen) in seen.iter().enumerate() {
            scope.spawn(move || count_up(addresses, &format!("counter:{n}"), seen));
        }
        wait_for_more(&seen);
        wait_for("the replica may take over", || all_in_sync(&keeper.directory()));
        seen.iter().for_each(|seen| seen.gap.store(0, Ordering::Relaxed));
        let mut wire = one.wire();
        wire.send(b"SHUTDOWN\r\n");
        assert!(wire.read_to_end().is_empty(), "a success has no reply");
        wait_for_more(&seen);
        seen.iter().for_each(|seen| seen.ends.store(true, Ordering::Relaxed));
    });
    let gap = seen.iter().map(|seen| seen.gap.load(Ordering::Relaxed)).max().unwrap();
    println!("the longest wait was {gap} ms");
    assert!(gap < GAP_MAX.as_millis() as u64, "{gap} ms without a write");
    assert_eq!(keeper.directory().shards[&0].1.primary.node, other.id(&keeper));
}

/// It ended in the middle of the handover, which no replica took up: its shard stood still until the lease was over.
#[test]
fn a_primary_that_gets_shutdown_during_a_handover_lets_it_end_first() {
    let (keeper, one, other) = pair("twice", Some(AckWhen::Written));
    write(&one, 0..100);
    wait_for("the replica may take over", || all_in_sync(&keeper.directory()));
    let began = Instant::now();
    let mut wire = one.wire();
    wire.send(b"FAILOVER\r\nSHUTDOWN\r\n");
    wire.read_to_end();
    let ended = began.elapsed();
    wait_until_it_serves(&other);
    println!("it ends after {ended:?}, and writes go on after {:?}", began.elapsed());
    assert!(began.elapsed() < LEASE, "{:?}", began.elapsed());
    assert_has(&other, 0..100);
}

/// Nothing may keep a server that must end now.
#[test]
fn shutdown_now_hands_nothing_over() {
    let (keeper, one, other) = pair("now", Some(AckWhen::Written));
    write(&one, 0..10);
    let mut wire = one.wire();
    wire.send(b"SHUTDOWN NOW\r\n");
    assert!(wire.is_closed());
    wait_until_it_serves(&other);
    assert_has(&other, 0..10);
    let promoted = keeper.directory().shards[&0].1.primary.node;
    assert_eq!(promoted, other.id(&keeper));
}

/// With SAVE a snapshot comes first, and then the handover.
#[test]
fn shutdown_save_hands_over_after_the_snapshot() {
    let (_keeper, one, other) = pair("save", Some(AckWhen::Written));
    write(&one, 0..100);
    let began = Instant::now();
    let mut wire = one.wire();
    wire.send(b"SHUTDOWN SAVE\r\n");
    assert!(wire.read_to_end().is_empty(), "a success has no reply");
    wait_until_it_serves(&other);
    println!("writes go on after {:?}", began.elapsed());
    assert!(began.elapsed() < LEASE, "{:?}", began.elapsed());
    assert_has(&other, 0..100);
}
