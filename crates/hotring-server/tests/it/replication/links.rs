//! Links that are slow, that carry only one side's bytes, or that are dead without an end.

use std::time::{Duration, Instant};

use super::pair::Pair;
use super::proxy::Sender;
use super::{assert_equal, info, wait_for};
use crate::wire::{Reply, ok};

/// A pair whose links end after a second of silence, if they can.
fn pair() -> Pair {
    Pair::with(|config| config.replication.timeout_s = 1)
}

#[test]
fn a_slow_link_slows_down_writes_and_nothing_else() {
    let pair = pair();
    let (mut p, mut r) = (pair.connect(), pair.replica.connect());
    let delay = Duration::from_millis(30);
    pair.proxy.delay(delay);
    for n in 0..10 {
        let begun = Instant::now();
        assert_eq!(p.say(&format!("SET k {n}")), ok());
        assert!(begun.elapsed() >= 2 * delay, "{:?} for both ways", begun.elapsed());
        assert_eq!(r.say("GET k").text(), n.to_string());
    }
    pair.proxy.delay(Duration::ZERO);
    assert_equal(&mut p, &mut r);
    assert_eq!(info(&mut p, "sync_full"), "1");
}

/// Whoever sends what does not arrive: nothing is acknowledged meanwhile, and nothing is lost afterwards.
#[test]
fn a_link_that_carries_one_side_only_acknowledges_nothing() {
    for silent in [&[Sender::Replica][..], &[Sender::Primary], &[Sender::Replica, Sender::Primary]]
    {
        let pair = pair();
        let (mut p, mut r) = (pair.connect(), pair.replica.connect());
        let hold = |holds| silent.iter().for_each(|sender| pair.proxy.hold(*sender, holds));
        hold(true);
        let reply = pair.connect().say("SET k 1");
        assert!(reply.text().starts_with("NOREPLICAS "), "{silent:?}: {reply:?}");
        wait_for("writes are refused", || {
            let reply = pair.connect().say("SET k 2").text();
            reply == "NOREPLICAS Not enough good replicas to write."
        });
        let arrives = !silent.contains(&Sender::Primary);
        wait_for("the replica has what arrives", || (r.say("GET k") != Reply::Null) == arrives);
        hold(false);
        pair.wait_until_in_sync();
        assert_equal(&mut p, &mut r);
        assert_eq!(info(&mut p, "sync_full"), "1");
    }
}

/// Neither side is told of the end. Both find out by themselves, and the replica dials again.
#[test]
fn a_dead_link_is_noticed_by_both_sides() {
    let pair = pair();
    let (mut p, mut r) = (pair.connect(), pair.replica.connect());
    pair.proxy.refuse(true);
    for sender in [Sender::Replica, Sender::Primary] {
        pair.proxy.hold(sender, true);
    }
    wait_for("the primary notices", || info(&mut p, "connected_slaves") == "0");
    wait_for("the replica notices", || info(&mut r, "master_link_status") == "down");
    for sender in [Sender::Replica, Sender::Primary] {
        pair.proxy.hold(sender, false);
    }
    pair.proxy.refuse(false);
    pair.wait_until_in_sync();
    assert_equal(&mut p, &mut r);
    assert_eq!(info(&mut p, "sync_full"), "1");
}
