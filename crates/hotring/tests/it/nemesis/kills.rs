//! Kills of the primary, of the replica, and of both, with each mode of the log.

use std::time::Duration;

use super::{Pair, rounds};

#[derive(Clone, Copy, Debug)]
enum Victim {
    Primary,
    Replica,
    Both,
}

/// Kills, and does what an operator does: with a log everyone starts again as before; without one, a killed primary has
/// lost its data, and the replica takes its place.
fn kill(pair: &mut Pair, victim: Victim) {
    let (primary, replica) = (pair.primary, pair.other());
    match victim {
        Victim::Primary if pair.log == "off" => {
            pair.kill(primary);
            pair.promote();
            pair.serve(primary, true);
        }
        Victim::Primary => {
            pair.kill(primary);
            pair.serve(primary, false);
        }
        Victim::Replica => {
            pair.kill(replica);
            pair.serve(replica, true);
        }
        Victim::Both => {
            pair.kill(primary);
            pair.kill(replica);
            pair.serve(primary, false);
            pair.serve(replica, true);
        }
    }
}

#[test]
fn killed_servers_have_the_same_and_all_that_was_acknowledged() {
    for (i, log) in ["off", "everysec", "sync"].into_iter().enumerate() {
        let mut pair = Pair::start("kills", log, &[]);
        for n in i..i + rounds(6) / 6 {
            let victim = [Victim::Primary, Victim::Replica, Victim::Both][n % 3];
            let load = pair.load();
            load.beside(n as u64, || {
                std::thread::sleep(Duration::from_millis(60));
                kill(&mut pair, victim);
                pair.wait_until_in_sync();
                std::thread::sleep(Duration::from_millis(30));
            });
            pair.wait_until_equal();
            assert!(load.answered() > 0, "{victim:?}");
            // Without a log both lose everything.
            if !(matches!(victim, Victim::Both) && log == "off") {
                let checked = load.check(&pair.addresses[pair.primary]);
                println!("log {log}, killed {victim:?}: {checked:?}");
            }
        }
        pair.end();
    }
}
