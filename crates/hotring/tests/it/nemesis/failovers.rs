//! The role moves again and again: by FAILOVER, and by an operator after a kill.

use std::time::Duration;

use fastrand::Rng;
use hotring_protocol::Reply;

use super::{Pair, rounds, wait_for};

/// Moves the role by FAILOVER.
fn hand_over(pair: &mut Pair) {
    let (from, to) = (pair.primary, pair.other());
    let (ip, port) = pair.addresses[to].rsplit_once(':').unwrap();
    let line = format!("FAILOVER TO {ip} {port}");
    wait_for("a failover begins", || matches!(pair.say(from, &line), Reply::Simple(_)));
    wait_for("the role has moved", || pair.info(to, "role").as_deref() == Some("master"));
    pair.primary = to;
    wait_for("the old one follows", || pair.info(from, "role").as_deref() == Some("slave"));
}

/// Kills the primary and promotes its replica; the old one comes back as a replica.
fn replace(pair: &mut Pair) {
    let killed = pair.primary;
    pair.kill(killed);
    pair.promote();
    pair.serve(killed, true);
}

#[test]
fn failovers_and_promotions_lose_nothing_that_was_acknowledged() {
    for log in ["off", "everysec"] {
        let mut pair = Pair::start("failovers", log, &[]);
        let load = pair.load();
        let count = rounds(4) / 2;
        load.beside(1, || {
            let mut random = Rng::with_seed(1);
            for n in 0..count {
                std::thread::sleep(Duration::from_millis(random.u64(20..120)));
                pair.wait_until_in_sync();
                if n % 2 == 0 { hand_over(&mut pair) } else { replace(&mut pair) }
            }
            pair.wait_until_in_sync();
        });
        pair.wait_until_equal();
        let acknowledged = load.answered();
        let checked = load.check(&pair.addresses[pair.primary]);
        println!("log {log}: {count} failovers, {acknowledged} acknowledged writes, {checked:?}");
        assert!(acknowledged > 5 * count as u64, "too few to tell");
        pair.end();
    }
}
