//! Servers that stand still for longer than every timeout, and go on.

use std::time::{Duration, Instant};

use hotring_protocol::Reply;
use rustix::process::Signal;

use super::{Pair, is_long, wait_for};

/// Longer than all timeouts of these servers: of links one second, of in-sync replicas two.
const STILL: Duration = Duration::from_millis(2_500);

/// A primary that an operator has replaced meanwhile must acknowledge nothing when it goes on, and gives up its tail.
#[test]
fn a_primary_that_stood_still_acknowledges_nothing_once_it_is_replaced() {
    let mut pair = Pair::start("still-primary", "everysec", &["--repl-timeout", "1"]);
    let load = pair.load();
    load.beside(1, || {
        std::thread::sleep(Duration::from_millis(100));
        let old = pair.primary;
        load.with_stale_reads(|| {
            pair.signal(old, Signal::STOP);
            std::thread::sleep(STILL);
            pair.promote();
            pair.order(pair.primary, "CONFIG SET in-sync-replicas \"\"");
            wait_for("the new primary acknowledges", || {
                matches!(pair.say(pair.primary, "SET new 1"), Reply::Simple(_))
            });
            std::thread::sleep(Duration::from_millis(200));
            pair.signal(old, Signal::CONT);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(300) {
                let reply = pair.say(old, "SET old 1");
                assert!(matches!(reply, Reply::Error(_)), "acknowledged by a replaced one");
            }
            pair.follow(old);
            let address = pair.addresses[old].clone();
            pair.order(pair.primary, &format!("CONFIG SET in-sync-replicas {address}"));
        });
        pair.wait_until_in_sync();
        std::thread::sleep(Duration::from_millis(50));
    });
    pair.wait_until_equal();
    assert_eq!(pair.say(pair.primary, "GET new"), Reply::Bulk(b"1".to_vec()));
    println!("{:?}", load.check(&pair.addresses[pair.primary]));
    pair.end();
}

/// Without a replacement writes stop and go on.
#[test]
fn a_pair_goes_on_after_either_stood_still() {
    let pair = Pair::start("still", "off", &["--repl-timeout", "1"]);
    let load = pair.load();
    load.beside(2, || {
        let nodes = [pair.other(), pair.primary];
        for node in nodes.into_iter().take(if is_long() { 2 } else { 1 }) {
            std::thread::sleep(Duration::from_millis(50));
            pair.signal(node, Signal::STOP);
            std::thread::sleep(STILL);
            if node == pair.other() {
                let reply = pair.say(pair.primary, "SET alone 1");
                assert!(matches!(reply, Reply::Error(_)), "acknowledged without the replica");
            }
            pair.signal(node, Signal::CONT);
            pair.wait_until_in_sync();
        }
        std::thread::sleep(Duration::from_millis(50));
    });
    pair.wait_until_equal();
    println!("{:?}", load.check(&pair.addresses[pair.primary]));
    pair.end();
}
