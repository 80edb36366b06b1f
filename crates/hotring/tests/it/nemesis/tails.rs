//! An old primary that has written on by itself comes back: what only it has must go, and both have the same.

use fastrand::Rng;
use hotring_protocol::Reply;

use super::clients::Wire;
use super::{Pair, rounds};

/// Writes of all kinds.
fn write(wire: &mut Wire, random: &mut Rng, clears: bool) {
    let (key, n) = (random.u32(..30), random.u32(..1000));
    let line = match random.u32(..14) {
        0 => format!("SET s{key} {n}"),
        1 => format!("SET s{key} {n} PXAT 4000000000000"),
        2 => format!("INCR n{key}"),
        3 => format!("APPEND long{key} {}", "a".repeat(1 + n as usize)),
        4 => format!("RPUSH l{key} {n} b"),
        5 => format!("LPOP l{key} 3"),
        6 => format!("HSET h{key} f{n} {n}"),
        7 => format!("HPEXPIREAT h{key} 4000000000000 FIELDS 1 f{n}"),
        8 => format!("SADD m{key} {n}"),
        9 => format!("ZADD z{key} {n} m{n}"),
        10 => format!("PIN s{key}"),
        11 => format!("DEL s{key} l{key} h{key}"),
        12 => format!("EVAL \"return redis.call('set',KEYS[1],ARGV[1])\" 1 s{key} {n}"),
        _ if clears => "FLUSHDB".to_string(),
        _ => format!("MSET s{key} {n} t{key} {n}"),
    };
    let reply = wire.say(&line).unwrap();
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
}

#[test]
fn an_old_primary_gives_up_what_only_it_has() {
    let mut random = Rng::with_seed(4);
    for log in ["off", "everysec"] {
        let mut pair = Pair::start("tails", log, &[]);
        for round in 0..rounds(16) / 8 {
            let (old, new) = (pair.primary, pair.other());
            let mut wires = [0, 1].map(|node| Wire::connect(&pair.addresses[node]).unwrap());
            (0..50).for_each(|_| write(&mut wires[old], &mut random, true));
            pair.promote();
            // Both believe to be the primary, and each writes for itself.
            for wire in &mut wires {
                let reply = wire.say("CONFIG SET ack local").unwrap();
                assert_eq!(reply, Reply::Simple("OK".into()));
            }
            assert_eq!(wires[old].say("SET only:here 1").unwrap(), Reply::Simple("OK".into()));
            for _ in 0..random.u32(1..60) {
                write(&mut wires[old], &mut random, round % 3 == 2);
                write(&mut wires[new], &mut random, false);
            }
            if log == "off" || random.bool() {
                pair.follow(old);
            } else {
                pair.kill(old);
                pair.serve(old, true);
            }
            for node in [old, new] {
                pair.order(node, "CONFIG SET ack replicated");
            }
            pair.wait_until_equal();
            assert_eq!(pair.say(new, "GET only:here"), Reply::Null, "log {log}, round {round}");
        }
        pair.end();
    }
}
