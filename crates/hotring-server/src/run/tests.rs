//! Complete servers with damage, a stalled session, or a failing disk, as clients see them.

use super::*;
use hotring_commands::settings::config::{LogSettings, OnError};
use hotring_commands::state::warnings::STALLING;
use hotring_log::storage::Memory;
use hotring_log::storage::memory::Step;
use hotring_log::{ALL, AckWhen, Effect, Snapshot};
use hotring_store::index::{Checksum, Part};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::PoisonError;

/// Sends requests that each have a reply of one line, and returns these lines.
pub(super) fn lines(stream: &mut BufReader<TcpStream>, requests: &str) -> Vec<String> {
    stream.get_mut().write_all(requests.as_bytes()).unwrap();
    let n_lines = requests.matches("\r\n").count();
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line
    };
    (0..n_lines).map(|_| line()).collect()
}

pub(super) fn info(stream: &mut BufReader<TcpStream>) -> String {
    let header = lines(stream, "INFO\r\n").remove(0);
    let mut text = vec![0; header[1..].trim().parse::<usize>().unwrap() + 2];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn clients_see_damage_and_a_walk_finds_it() {
    let config = Config { port: 0, threads: 2, checksum: Checksum::Verify, ..Config::default() };
    let running = start(config).unwrap();
    let mut stream = BufReader::new(TcpStream::connect(running.addresses()[0]).unwrap());
    let sets: String = (0..5_000).map(|i| format!("SET key:{i} some-long-value\r\n")).collect();
    assert!(lines(&mut stream, &sets).iter().all(|reply| reply == "+OK\r\n"));
    let mut damager = running.server.store.session();
    damager
        .with_damage(b"key:77", Part::Value, 3, || {
            let replies = lines(&mut stream, "STRLEN key:77\r\nSTRLEN key:78\r\nSCRUB START\r\n");
            assert!(replies[0].starts_with("-DAMAGED the item of key 'key:77' "), "{}", replies[0]);
            assert_eq!(replies[1..], [":15\r\n", "+OK\r\n"]);
            // The background task has its own schedule.
            while !info(&mut stream).contains("scrub_state:done\r\n") {}
            let info = info(&mut stream);
            assert!(info.contains("scrub_items:5000\r\n"), "{info}");
            assert!(info.contains("scrub_damaged:1\r\n"), "{info}");
            assert!(info.contains("damaged_reads:1\r\n"), "{info}");
            assert_eq!(lines(&mut stream, "SET key:77 anew\r\n"), ["+OK\r\n"]);
        })
        .expect("the key is there");
    assert_eq!(lines(&mut stream, "STRLEN key:77\r\n"), [":4\r\n"]);
    running.stop();
    running.wait().unwrap();
}

/// A server with its log on this storage.
pub(super) fn logged(storage: &Memory, when: AckWhen, on_error: OnError) -> Running {
    let log = LogSettings { is_on: true, when, on_error, ..LogSettings::default() };
    let admin = Some("127.0.0.1:0".to_string());
    let config = Config { port: 0, threads: 2, log, admin, ..Config::default() };
    start_with(config, Box::new(|_| {}), &|_| Ok(storage.clone())).unwrap()
}

pub(super) fn connect(running: &Running) -> BufReader<TcpStream> {
    BufReader::new(TcpStream::connect(running.addresses()[0]).unwrap())
}

fn value_of(storage: &Memory, key: &str) -> String {
    let running = logged(storage, AckWhen::Synced, OnError::Stop);
    let mut stream = connect(&running);
    let length = lines(&mut stream, &format!("STRLEN {key}\r\n")).remove(0);
    running.stop();
    running.wait().unwrap();
    length
}

/// Sends the request, each time on a new connection, until the reply begins with `start`.
fn until(running: &Running, request: &str, start: &str) -> String {
    let begun = std::time::Instant::now();
    loop {
        let answer = lines(&mut connect(running), request).remove(0);
        if answer.starts_with(start) {
            return answer;
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{request:?}: {answer}");
    }
}

#[test]
fn a_disk_that_fails_stops_writes_and_nothing_acknowledged_is_lost() {
    for (step, when) in [
        (Step::Write, AckWhen::Written),
        (Step::Write, AckWhen::Synced),
        (Step::Sync, AckWhen::Synced),
        (Step::Create, AckWhen::Synced),
    ] {
        let storage = Memory::new();
        let running = logged(&storage, when, OnError::Stop);
        let mut stream = connect(&running);
        let (mut kept, mut failed) = (0, String::new());
        if step != Step::Create {
            assert_eq!(lines(&mut stream, "SET kept v\r\nAPPEND kept v\r\n").len(), 2);
            kept = 2;
        }
        storage.fail(step, 0, usize::MAX, std::io::ErrorKind::Other);
        stream.get_mut().write_all(b"APPEND kept v\r\n").unwrap();
        // The write must not be acknowledged, and the connection ends.
        stream.read_to_string(&mut failed).unwrap();
        assert!(failed.starts_with("-MISCONF Errors writing to the log: "), "{step:?}: {failed}");
        assert_eq!(failed.matches("\r\n").count(), 1, "{failed}");
        // Until all threads know, a write runs and its connection ends like this one.
        let mut stream = loop {
            let mut stream = connect(&running);
            let replies = lines(&mut stream, "APPEND kept v\r\nPING\r\n");
            assert!(replies[0].starts_with("-MISCONF "), "{}", replies[0]);
            if replies[1] == "+PONG\r\n" {
                break stream;
            }
        };
        let replies = lines(&mut stream, "EXISTS none\r\nDEL kept\r\nPING\r\n");
        assert_eq!((&*replies[0], &*replies[2]), (":0\r\n", "+PONG\r\n"));
        assert!(replies[1].starts_with("-MISCONF "), "{}", replies[1]);
        assert!(info(&mut stream).contains("aof_last_write_status:err\r\n"));
        running.stop();
        running.wait().unwrap();
        let found: usize = value_of(&storage.killed(), "kept")[1..].trim().parse().unwrap();
        assert!((kept..=kept + 1).contains(&found), "{step:?}: {found} of {kept}");
    }
}

#[test]
fn a_full_disk_is_tried_again() {
    let storage = Memory::new();
    let running = logged(&storage, AckWhen::Synced, OnError::Stop);
    let mut stream = connect(&running);
    assert_eq!(lines(&mut stream, "SET k v\r\n"), ["+OK\r\n"]);
    storage.fail(Step::Write, 0, 2, std::io::ErrorKind::StorageFull);
    stream.get_mut().write_all(b"APPEND k v\r\n").unwrap();
    let mut failed = String::new();
    stream.read_to_string(&mut failed).unwrap();
    assert!(failed.contains("it is tried again each second"), "{failed}");
    let length = until(&running, "APPEND k v\r\n", ":");
    running.stop();
    running.wait().unwrap();
    let found = value_of(&storage.killed(), "k");
    assert_eq!(found, length, "what was refused is logged with the rest");
}

#[test]
fn the_server_goes_on_without_a_log_if_the_setting_says_so() {
    let storage = Memory::new();
    let running = logged(&storage, AckWhen::Synced, OnError::Continue);
    let mut stream = connect(&running);
    assert_eq!(lines(&mut stream, "SET k v\r\n"), ["+OK\r\n"]);
    storage.fail(Step::Sync, 0, usize::MAX, std::io::ErrorKind::Other);
    // The first may meet the failure before it is known.
    let mut all = String::new();
    stream.get_mut().write_all(b"APPEND k v\r\n").unwrap();
    let _ = stream.read_line(&mut all);
    let mut stream = connect(&running);
    until(&running, "SET k vv\r\n", "+OK");
    assert_eq!(lines(&mut stream, "STRLEN k\r\n"), [":2\r\n"]);
    assert!(info(&mut stream).contains("aof_last_write_status:err\r\n"));
    running.stop();
    running.wait().unwrap();
}

/// The status and the body of `/healthz`.
pub(super) fn healthz(running: &Running) -> String {
    admin(running, "/healthz")
}

/// The status and the text of a page of the admin address.
pub(super) fn admin(running: &Running, path: &str) -> String {
    let mut stream = TcpStream::connect(running.admin_address().unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    format!(
        "{} {}",
        text.split(' ').nth(1).unwrap(),
        text.rsplit("\r\n").next().unwrap().trim_end()
    )
}

#[test]
fn no_writer_notices_that_the_server_goes_on_without_a_log() {
    for when in [AckWhen::Handed, AckWhen::Written, AckWhen::Synced] {
        let storage = Memory::new();
        let running = logged(&storage, when, OnError::Continue);
        let mut stream = connect(&running);
        let begun = std::time::Instant::now();
        let mut write = |number: usize| {
            let replies = lines(&mut stream, "INCR n\r\nINCR n\r\n");
            let told = [format!(":{}\r\n", 2 * number - 1), format!(":{}\r\n", 2 * number)];
            assert_eq!(replies, told, "{when:?}");
        };
        write(1);
        storage.fail(Step::Sync, 0, usize::MAX, std::io::ErrorKind::Other);
        let mut number = 1;
        while !running.server.persist.durability.is_abandoned() {
            number += 1;
            write(number);
            assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{when:?}");
        }
        (number + 1..number + 100).for_each(write);
        let info = info(&mut connect(&running));
        assert!(info.contains("log_abandoned:1\r\n"), "{info}");
        assert!(info.contains("aof_last_write_status:err\r\n"), "{info}");
        assert!(info.contains("aof_buffer_length:0\r\n"), "{info}");
        assert!(healthz(&running).starts_with("503 the log cannot be written: syncing the log"));
        let replies = lines(&mut connect(&running), "SAVE\r\nWAITAOF 1 0 0\r\n");
        assert!(
            replies[0].starts_with("-ERR the snapshot failed: syncing the log: "),
            "{replies:?}"
        );
        running.stop();
        running.wait().unwrap();
    }
}

#[test]
fn a_failed_sync_is_known_at_once_without_writes() {
    let storage = Memory::new();
    let running = logged(&storage, AckWhen::Written, OnError::Stop);
    let mut streams: Vec<_> = (0..4).map(|_| connect(&running)).collect();
    for stream in &mut streams {
        assert_eq!(lines(stream, "SET k v\r\n"), ["+OK\r\n"]);
    }
    storage.fail(Step::Sync, 0, usize::MAX, std::io::ErrorKind::Other);
    // Long enough that the writer, which passes the request on, is idle for a second when the sync
    // fails.
    storage.before_each(|_, step| {
        if step == Step::Sync {
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
    });
    let log = running.server.persist.durability.log().unwrap().clone();
    log.sync_soon();
    while log.error().is_none() {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    for mut stream in streams {
        stream.get_mut().write_all(b"SET k v\r\nPING\r\n").unwrap();
        let mut replies = [String::new(), String::new()];
        replies.iter_mut().for_each(|line| _ = stream.read_line(line).unwrap());
        assert!(replies[0].starts_with("-MISCONF "), "{}", replies[0]);
        assert_eq!(replies[1], "+PONG\r\n", "the write ran, and its connection ended");
    }
    running.stop();
    running.wait().unwrap();
}

/// Keys in the order of the snapshot, which is that of their hashes; none if there is no snapshot.
fn order(storage: &Memory) -> Vec<Vec<u8>> {
    let (mut keys, mut buffer) = (Vec::new(), Vec::new());
    let Some(snapshot) = Snapshot::newest(storage).unwrap() else { return keys };
    let mut note = |effects: &[Effect<'_>]| {
        keys.extend(effects.iter().map(|effect| match effect {
            Effect::Put { key, .. } => key.to_vec(),
            other => panic!("{other:?}"),
        }));
    };
    while snapshot.read_block(ALL, &mut buffer, &mut note).unwrap().is_some() {}
    keys
}

/// Neighbours in a snapshot are then neighbours in memory; and no other store has that order.
#[test]
fn a_store_has_the_same_hash_in_each_process() {
    let pairs: String = (0..100).map(|i| format!(" key:{i} v")).collect();
    let fill = format!("MSET{pairs}\r\n");
    let stores = [(); 2].map(|()| {
        let storage = Memory::new();
        // The second continues from a log alone.
        let [none, first, second] = [&fill[..], "SAVE\r\n", "SAVE\r\n"].map(|request| {
            let running = logged(&storage, AckWhen::Synced, OnError::Stop);
            while !running.is_loaded() {
                std::thread::yield_now();
            }
            assert_eq!(lines(&mut connect(&running), request), ["+OK\r\n"]);
            running.stop();
            running.wait().unwrap();
            order(&storage)
        });
        assert_eq!((none.len(), first.len()), (0, 100));
        assert_eq!(first, second);
        first
    });
    assert_ne!(stores[0], stores[1]);
}

#[test]
fn two_servers_cannot_have_one_folder() {
    let folder = std::env::temp_dir().join(format!("hotring-run-{}", std::process::id()));
    let log = LogSettings { is_on: true, data: folder.clone(), ..LogSettings::default() };
    let config = Config { port: 0, threads: 1, log, ..Config::default() };
    let running = start(config.clone()).unwrap();
    let Err(error) = start(config) else { panic!("two servers write one log") };
    assert!(error.to_string().contains("in use by another server"), "{error}");
    running.stop();
    running.wait().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn clients_of_a_stalled_server_get_errors_until_it_continues() {
    let _alone = STALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let config = Config { port: 0, threads: 2, unreclaimed_max: 1 << 20, ..Config::default() };
    let running = start(config).unwrap();
    let mut stream = BufReader::new(TcpStream::connect(running.addresses()[0]).unwrap());
    let set = format!("SET a {}\r\n", "v".repeat(1000));
    assert_eq!(lines(&mut stream, &set), ["+OK\r\n"]);
    let mut stalled = running.server.store.session_named("a test");
    stalled.get(b"a", 1, |_| {
        let replies = lines(&mut stream, &set.repeat(4_000));
        let (stored, refused): (Vec<_>, Vec<_>) =
            replies.iter().partition(|reply| *reply == "+OK\r\n");
        // 1 MiB, 256 KiB until the limit is noticed, and as much for the error of a batch.
        assert!(stored.len() <= 1_600, "{} were stored", stored.len());
        let told = |reply: &&String| reply.starts_with("-OOM ") && reply.contains("'a test'");
        assert!(refused.iter().all(told), "{}", refused[0]);
        assert!(lines(&mut stream, "STRLEN a\r\nDEL a\r\n") == [":1000\r\n", ":1\r\n"]);
        let info = info(&mut stream);
        assert!(info.contains("index_stalled_session:a test\r\n"), "{info}");
        assert!(info.contains(&format!("rejected_stalled:{}\r\n", refused.len())), "{info}");
    });
    assert!(lines(&mut stream, &set.repeat(1_000)).iter().all(|reply| reply == "+OK\r\n"));
    running.stop();
    running.wait().unwrap();
}
