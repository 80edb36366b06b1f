//! Tests of complete servers whose disk becomes read-only, like a file system that the kernel
//! remounts after an error, or whose disk fails a single step of a snapshot.

use std::io::{BufRead, ErrorKind, Read, Write};

use super::tests::{admin, connect, healthz, info, lines, logged};
use super::*;
use hotring_commands::settings::config::OnError;
use hotring_log::AckWhen;
use hotring_log::storage::Memory;
use hotring_log::storage::memory::Step;

fn snapshots(storage: &Memory) -> Vec<String> {
    storage.list().unwrap().into_iter().filter(|name| name.starts_with("snapshot-")).collect()
}

fn end(running: Running) {
    running.stop();
    running.wait().unwrap();
}

/// A server with a snapshot of `a`, and a later write of `b`.
fn saved(storage: &Memory, when: AckWhen, on_error: OnError) -> Running {
    let running = logged(storage, when, on_error);
    let replies = lines(&mut connect(&running), "SET a 1\r\nSAVE\r\nSET b 2\r\n");
    assert_eq!(replies, ["+OK\r\n"; 3]);
    running
}

/// Starts a server from this disk, which works again, and returns whether it has each of the keys.
fn found(left: &Memory, keys: [&str; 3]) -> [bool; 3] {
    let running = logged(left, AckWhen::Written, OnError::Stop);
    while !running.is_loaded() {
        std::thread::yield_now();
    }
    let mut stream = connect(&running);
    let found = keys.map(|key| lines(&mut stream, &format!("EXISTS {key}\r\n"))[0] == ":1\r\n");
    end(running);
    found
}

#[test]
fn a_disk_that_becomes_read_only_stops_writes_and_nothing_acknowledged_is_lost() {
    for when in [AckWhen::Handed, AckWhen::Written, AckWhen::Synced] {
        let storage = Memory::new();
        let running = saved(&storage, when, OnError::Stop);
        if when == AckWhen::Handed {
            assert_eq!(lines(&mut connect(&running), "WAITAOF 1 0 0\r\n"), ["*2\r\n"]);
        }
        let names = snapshots(&storage);
        storage.set_read_only();
        let error = lines(&mut connect(&running), "SAVE\r\n").remove(0);
        assert!(error.starts_with("-ERR the snapshot failed: "), "{when:?}: {error}");
        assert!(error.contains("read-only filesystem"), "{when:?}: {error}");
        let mut stream = loop {
            let mut stream = connect(&running);
            stream.get_mut().write_all(b"SET c 3\r\nPING\r\n").unwrap();
            let mut replies = [String::new(), String::new()];
            replies.iter_mut().for_each(|line| _ = stream.read_line(line).unwrap());
            let is_told = replies[0].starts_with("-MISCONF Errors writing to the log: ");
            assert!(is_told || when == AckWhen::Handed, "{when:?}: {}", replies[0]);
            assert!(!is_told || replies[0].contains("read-only filesystem"), "{}", replies[0]);
            if is_told && replies[1] == "+PONG\r\n" {
                break stream;
            }
        };
        assert_eq!(lines(&mut stream, "STRLEN a\r\nSTRLEN b\r\n"), [":1\r\n"; 2]);
        assert!(healthz(&running).starts_with("503 the log cannot be written: "));
        // A load balancer must send its writes elsewhere.
        assert_eq!(admin(&running, "/readyz"), "503 writes are refused; /healthz has the reason");
        let error = lines(&mut stream, "SAVE\r\n").remove(0);
        assert!(error.starts_with("-ERR the snapshot failed: "), "{error}");
        assert!(info(&mut stream).contains("rdb_last_bgsave_status:err\r\n"));
        end(running);
        assert_eq!(snapshots(&storage), names);
        assert_eq!(found(&storage.killed(), ["a", "b", "c"]), [true, true, false], "{when:?}");
        if when == AckWhen::Synced {
            for cut in storage.power_cuts(8, 1) {
                assert_eq!(found(&storage.image(&cut), ["a", "b", "a"]), [true; 3], "{cut:?}");
            }
        }
    }
}

#[test]
fn with_on_error_continue_a_read_only_disk_does_not_stop_writes() {
    for when in [AckWhen::Handed, AckWhen::Written, AckWhen::Synced] {
        let storage = Memory::new();
        let running = saved(&storage, when, OnError::Continue);
        storage.set_read_only();
        let mut stream = connect(&running);
        while !running.server.persist.durability.is_abandoned() {
            assert_eq!(lines(&mut stream, "SET c 3\r\n"), ["+OK\r\n"], "{when:?}");
        }
        assert_eq!(lines(&mut stream, "SET c 4\r\nSTRLEN c\r\n"), ["+OK\r\n", ":1\r\n"]);
        assert!(healthz(&running).starts_with("503 the log cannot be written: "));
        end(running);
    }
}

#[test]
fn a_snapshot_that_fails_at_any_step_leaves_the_one_before() {
    for kind in [ErrorKind::Other, ErrorKind::ReadOnlyFilesystem] {
        // With the number of steps of this kind that the log makes first: it begins a segment for each snapshot.
        let steps = [
            (Step::Create, 1),
            (Step::Write, 1),
            (Step::Sync, 0),
            (Step::Rename, 0),
            (Step::SyncDirectory, 1),
        ];
        for (step, of_log) in steps {
            let storage = Memory::new();
            let running = saved(&storage, AckWhen::Written, OnError::Stop);
            let mut stream = connect(&running);
            assert_eq!(lines(&mut stream, "WAITAOF 1 0 0\r\n"), ["*2\r\n"]);
            stream.read_exact(&mut [0; 8]).unwrap();
            let names = snapshots(&storage);
            storage.fail(step, of_log, 1, kind);
            let error = lines(&mut stream, "SAVE\r\n").remove(0);
            assert!(error.starts_with("-ERR the snapshot failed: "), "{step:?}: {error}");
            assert!(info(&mut stream).contains("snapshot_last_error:"), "{step:?}");
            if step != Step::SyncDirectory {
                assert_eq!(snapshots(&storage), names, "{step:?}");
            }
            assert_eq!(found(&storage.killed(), ["a", "b", "a"]), [true; 3], "{step:?}");
            for cut in storage.power_cuts(8, 1) {
                assert_eq!(found(&storage.image(&cut), ["a", "b", "a"]), [true; 3], "{cut:?}");
            }
            // The log still works, and the next snapshot succeeds.
            assert_eq!(lines(&mut stream, "SET c 3\r\nSAVE\r\n"), ["+OK\r\n"; 2], "{step:?}");
            end(running);
            assert_eq!(found(&storage.killed(), ["a", "b", "c"]), [true; 3], "{step:?}");
        }
    }
}
