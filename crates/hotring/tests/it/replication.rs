//! Replication between processes that are killed: with logs, neither side needs more than to start again.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{Folder, Server, hotring, say};

fn serve(port: &str, data: &Path, more: &[&str]) -> Server {
    let mut command =
        hotring(&["serve", "--port", port, "--log", "everysec", "--enable-debug-command", "yes"]);
    Server::start(command.arg("--data").arg(data).args(more))
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until both have the same data.
fn wait_until_equal(primary: &Server, replica: &Server) {
    let digest = |server: &Server| say(&mut server.connect(), "DEBUG DIGEST");
    wait_for("the digests are equal", || {
        let found = digest(primary);
        found.starts_with('+') && found == digest(replica)
    });
}

#[test]
fn killed_servers_go_on_as_primary_and_replica() {
    let (of_primary, of_replica) = (Folder::new("killed-primary"), Folder::new("killed-replica"));
    let mut primary = serve("0", &of_primary.0, &[]);
    let port = primary.address.rsplit_once(':').unwrap().1.to_string();
    let source = format!("127.0.0.1 {port}");
    let mut replica = serve("0", &of_replica.0, &["--replicaof", &source]);
    for round in 0..4 {
        let (stops, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let mut stream = primary.connect();
            let (stops, acknowledged) = (&stops, &acknowledged);
            scope.spawn(move || {
                for n in 1.. {
                    // A killed server answers nothing.
                    let answers = say(&mut stream, &format!("SET last:{round} {n}"));
                    if stops.load(Ordering::Relaxed) || answers != "+OK" {
                        return;
                    }
                    acknowledged.store(n, Ordering::Relaxed);
                    say(&mut stream, &format!("RPUSH list:{} {n}", n % 50));
                    say(&mut stream, &format!("HSET hash:{} f{n} {n}", n % 7));
                }
            });
            std::thread::sleep(Duration::from_millis(300));
            if round % 2 == 0 {
                replica.signal(Signal::KILL);
                replica.end();
                replica = serve("0", &of_replica.0, &["--replicaof", &source]);
                std::thread::sleep(Duration::from_millis(100));
            }
            stops.store(true, Ordering::Relaxed);
        });
        if round % 2 == 1 {
            primary.signal(Signal::KILL);
            primary.end();
            primary = serve(&port, &of_primary.0, &[]);
        }
        wait_until_equal(&primary, &replica);
        let mut stream = replica.connect();
        assert!(say(&mut stream, &format!("GET last:{round}")).starts_with('$'));
        let mut value = String::new();
        std::io::BufRead::read_line(&mut stream, &mut value).unwrap();
        let (found, told) =
            (value.trim().parse::<u64>().unwrap(), acknowledged.load(Ordering::Relaxed));
        assert!(found >= told && told > 0, "round {round}: {found} of {told}");
    }
    for mut server in [replica, primary] {
        server.signal(Signal::TERM);
        assert!(server.end().0.success());
    }
}
