//! What a server does while no client asks for anything.

use std::time::Duration;

use super::{Server, hotring, say};
use rustix::process::Signal;

/// How often a thread of a process has stopped to wait for something.
pub(super) fn waits_of(process: u32, thread: &str) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let count = status.split("\nvoluntary_ctxt_switches:").nth(1)?.lines().next()?;
        (name.trim() == thread).then(|| count.trim().parse::<u64>().unwrap())
    };
    threads.filter_map(|entry| of(entry.unwrap().path())).sum()
}

/// Each timer of a thread woke it ten times a second, idle or not.
#[test]
fn an_idle_server_rarely_wakes_and_is_not_stuck() {
    const SECONDS: u64 = 3;
    let command = &mut hotring(&["serve", "--port", "0", "--watchdog-period", "500"]);
    let mut server = Server::start(command);
    let (mut stream, process) = (server.connect(), server.process.id());
    assert_eq!(say(&mut stream, "SET k v"), "+OK");
    // Removed memory is looked after for a second.
    std::thread::sleep(Duration::from_secs(2));
    let threads = ["hotring-io-0", "hotring-expire", "hotring-memory", "hotring-watch"];
    let waits = || threads.map(|thread| waits_of(process, thread));
    let before = waits();
    std::thread::sleep(Duration::from_secs(SECONDS));
    let after = waits();
    for (thread, (before, after)) in threads.into_iter().zip(before.into_iter().zip(after)) {
        println!("{thread}: {} waits in {SECONDS} s", after - before);
        assert!(before > 0, "there is no thread {thread}");
        // The watchdog looks ten times in its period, but no more often than every 100 ms.
        let most = if thread == "hotring-watch" { 12 } else { 4 };
        assert!(after - before <= most * SECONDS, "{thread} woke {} times", after - before);
    }
    assert_eq!(say(&mut stream, "GET k"), "$1");
    server.signal(Signal::TERM);
    let (status, log) = server.end();
    assert!(status.success() && !log.contains("stuck"), "{log}");
}
