//! Tests of snapshots of a running server: recovery after a kill, removal of old files, status, and
//! refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotring_server::{Config, LogSettings, SavePoint, start};

use crate::wire::{Reply, TestServer, Wire, ok};

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("hotring-it-snapshots-{}-{name}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    /// The files that a kill at this moment would leave.
    fn killed(&self, name: &str) -> Folder {
        let copy = Folder::new(name);
        fs::create_dir(&copy.0).unwrap();
        for entry in fs::read_dir(&self.0).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.0.join(entry.file_name())).unwrap();
        }
        copy
    }

    fn names(&self, beginning: &str) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(beginning)).collect();
        names.sort();
        names
    }

    fn settings(&self) -> LogSettings {
        let data = self.0.clone();
        LogSettings { is_on: true, data, segment_len: 64 << 10, ..LogSettings::default() }
    }

    fn server(&self) -> TestServer {
        TestServer::with(|c| c.log = self.settings())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set_many(wire: &mut Wire, keys: std::ops::Range<u32>, value: &str) {
    for key in keys {
        assert_eq!(wire.say(&format!("SET key:{key} {value}:{key}")), ok());
    }
}

fn info(wire: &mut Wire, name: &str) -> String {
    let text = wire.say("INFO persistence").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_string()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_server_recovers_its_snapshot_and_later_records() {
    let folder = Folder::new("killed");
    let server = folder.server();
    let mut wire = server.connect();
    let padding = "x".repeat(100);
    set_many(&mut wire, 0..3_000, &padding);
    assert_eq!(wire.say("PIN key:7").int(), 1);
    assert!(folder.names("log-").len() > 4, "short segments");
    let before = folder.names("log-");
    assert_eq!(wire.say("BGSAVE").text(), "Background saving started");
    wait_for("the snapshot", || info(&mut wire, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(&mut wire, "rdb_last_bgsave_status"), "ok");
    assert_eq!(folder.names("snapshot-").len(), 1);
    let after = folder.names("log-");
    assert!(after.len() <= 2 && after[0] >= *before.last().unwrap(), "{before:?} {after:?}");
    set_many(&mut wire, 2_000..4_000, "later");
    assert_eq!(wire.say("DEL key:1").int(), 1);
    let copy = folder.killed("killed-copy");
    server.stop();
    for folder in [&folder, &copy] {
        let server = folder.server();
        let mut wire = server.connect();
        assert_eq!(wire.say("DBSIZE").int(), 3_999);
        for key in [0, 2, 500, 1_999, 2_000, 2_999, 3_999] {
            let value = if key < 2_000 { &padding[..] } else { "later" };
            assert_eq!(wire.say(&format!("GET key:{key}")).text(), format!("{value}:{key}"));
        }
        assert_eq!(wire.say("EXISTS key:1").int(), 0);
        assert_eq!(wire.say("PIN key:7").int(), 0, "it is pinned already");
        // And once more from there.
        assert_eq!(wire.say("SET again 1"), ok());
        assert_eq!(wire.say("SAVE"), ok());
        assert_eq!(folder.names("snapshot-").len(), 1);
    }
    assert_eq!(copy.server().connect().say("GET again").text(), "1");
}

#[test]
fn save_answers_when_it_is_there_and_others_do_not_wait() {
    let folder = Folder::new("save");
    let server = TestServer::with(|c| {
        c.log = folder.settings();
        c.log.snapshots.rate = 200_000;
    });
    let (mut wire, mut other) = (server.connect(), server.connect());
    let started_at = wire.say("LASTSAVE").int();
    wire.say(&format!("SET long {}", "x".repeat(300_000)));
    set_many(&mut wire, 0..2_000, "value");
    assert_eq!(info(&mut wire, "rdb_changes_since_last_save"), "2001");
    std::thread::sleep(Duration::from_millis(1_100));
    let started = Instant::now();
    wire.send(b"SAVE\r\nGET key:1\r\n");
    wait_for("it begins", || info(&mut other, "rdb_bgsave_in_progress") == "1");
    assert_eq!(info(&mut other, "aof_rewrite_in_progress"), "1");
    let under_way = "ERR Background save already in progress";
    assert_eq!(other.say("BGSAVE").text(), under_way);
    assert_eq!(other.say("SAVE").text(), under_way);
    assert!(other.say("BGREWRITEAOF").is_error());
    assert_eq!(other.say("BGSAVE SCHEDULE").text(), "Background saving scheduled");
    assert_eq!(other.say("SET written meanwhile"), ok());
    wait_for("its file", || folder.names("snapshot-").iter().any(|name| name.ends_with(".tmp")));
    assert_eq!(wire.reply(), ok());
    assert!(started.elapsed() > Duration::from_secs(1), "the rate was kept");
    assert_eq!(wire.reply().text(), "value:1");
    assert!(wire.say("LASTSAVE").int() > started_at);
    assert_eq!(wire.say("CONFIG SET snapshot-rate 0"), ok());
    wait_for("the scheduled one", || info(&mut other, "rdb_bgsave_in_progress") == "0");
    for (request, error) in [
        ("BGSAVE NOW", "ERR syntax error"),
        ("SAVE NOW", "ERR wrong number of arguments for 'save' command"),
    ] {
        assert_eq!(wire.say(request).text(), error);
    }
    assert_eq!(wire.say("MULTI"), ok());
    assert_eq!(wire.say("SAVE").text(), "ERR Command not allowed inside a transaction");
    assert_eq!(wire.say("DISCARD"), ok());
    assert_eq!(wire.say("BGREWRITEAOF").text(), "Background append only file rewriting started");
}

#[test]
fn a_log_that_grows_makes_a_snapshot_due() {
    let folder = Folder::new("grows");
    let server = TestServer::with(|c| {
        c.log = folder.settings();
        c.log.snapshots.log_min = 100_000;
    });
    let mut wire = server.connect();
    let long = "x".repeat(1_000);
    set_many(&mut wire, 0..50, &long);
    std::thread::sleep(Duration::from_millis(1_200));
    assert!(folder.names("snapshot-").is_empty(), "the log is short");
    set_many(&mut wire, 50..120, &long);
    wait_for("a snapshot", || info(&mut wire, "aof_base_size") != "0");
    let len: u64 = info(&mut wire, "aof_base_size").parse().unwrap();
    assert!((120_000..140_000).contains(&len), "{len}");
    let name = folder.names("snapshot-");
    // While the log is shorter than the snapshot.
    set_many(&mut wire, 0..60, &long);
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(folder.names("snapshot-"), name);
    drop(server);
    // The log found at the start counts.
    let server = TestServer::with(|c| {
        c.log = folder.settings();
        c.log.snapshots.log_min = 100_000;
    });
    let mut wire = server.connect();
    assert!(info(&mut wire, "aof_current_size").parse::<u64>().unwrap() > 60_000);
    set_many(&mut wire, 60..120, &long);
    set_many(&mut wire, 60..90, &long);
    wait_for("another one", || folder.names("snapshot-") != name);
    assert_eq!(wire.ask(&["CONFIG", "SET", "auto-aof-rewrite-percentage", "0"]), ok());
}

#[test]
fn a_slower_rate_holds_from_then_on() {
    let folder = Folder::new("pace");
    let server = TestServer::with(|c| {
        c.log = folder.settings();
        c.log.snapshots.rate = 400_000;
    });
    let mut wire = server.connect();
    set_many(&mut wire, 0..600, &"x".repeat(1_000));
    assert_eq!(wire.say("BGSAVE").text(), "Background saving started");
    std::thread::sleep(Duration::from_millis(800));
    // The part so far was written without a limit: at this rate it would have taken over a quarter
    // of a minute.
    assert_eq!(wire.say("CONFIG SET snapshot-rate 20000"), ok());
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(wire.say("CONFIG SET snapshot-rate 0"), ok());
    let begun = Instant::now();
    wait_for("the snapshot", || info(&mut wire, "rdb_bgsave_in_progress") == "0");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_shutdown_that_saves_needs_no_client_and_can_be_taken_back() {
    let folder = Folder::new("shutdown");
    let slow = || {
        TestServer::with(|c| {
            c.log = folder.settings();
            c.log.snapshots.rate = 100_000;
        })
    };
    let server = slow();
    let (mut wire, mut other) = (server.connect(), server.connect());
    set_many(&mut wire, 0..100, &"x".repeat(1_000));
    wire.send(b"SHUTDOWN SAVE\r\n");
    wait_for("it begins", || info(&mut other, "rdb_bgsave_in_progress") == "1");
    assert_eq!(other.say("SHUTDOWN ABORT"), ok());
    assert!(other.say("SHUTDOWN ABORT").is_error());
    assert!(wire.reply().text().starts_with("ERR Errors trying to SHUTDOWN"));
    wire.send(b"SHUTDOWN SAVE\r\n");
    wait_for("it begins", || info(&mut other, "rdb_bgsave_in_progress") == "1");
    drop(wire);
    assert!(other.is_closed(), "the server ends");
    drop(server);
    assert_eq!(folder.names("snapshot-").len(), 1);
    assert_eq!(slow().connect().say("DBSIZE").int(), 100);
}

#[test]
fn waitaof_waits_for_the_disk() {
    let folder = Folder::new("waitaof");
    let server = folder.server();
    let mut wire = server.connect();
    for number in 0..50 {
        assert_eq!(wire.say(&format!("SET key {number}")), ok());
        assert_eq!(wire.say("WAITAOF 1 0 0").items(), [Reply::Int(1), Reply::Int(0)]);
        let [last, synced] = ["log_last_record", "log_last_synced"].map(|n| info(&mut wire, n));
        assert_eq!(last, synced);
    }
    // Each waited for its own sync.
    let syncs: u64 = info(&mut wire, "log_syncs").parse().unwrap();
    assert!(syncs >= 50, "{syncs}");
    assert_eq!(wire.say("WAITAOF 0 1 10").items()[1], Reply::Int(0));
    assert!(wire.say("WAITAOF 2 0 0").text().contains("must be between 0 and 1"));
    let alone = TestServer::new();
    assert!(alone.connect().say("WAITAOF 1 0 0").text().contains("appendonly is disabled"));
    assert_eq!(alone.connect().say("WAITAOF 0 0 0").items()[0], Reply::Int(0));
}

#[test]
fn the_schedule_is_kept() {
    let folder = Folder::new("schedule");
    let server = folder.server();
    let mut wire = server.connect();
    assert_eq!(wire.say("CONFIG GET save").items()[1].text(), "");
    set_many(&mut wire, 0..10, "value");
    assert_eq!(wire.ask(&["CONFIG", "SET", "save", "3600 1 1 11"]), ok());
    assert_eq!(wire.say("CONFIG GET save").items()[1].text(), "3600 1 1 11");
    std::thread::sleep(Duration::from_millis(2_000));
    assert!(folder.names("snapshot-").is_empty(), "too few changes");
    set_many(&mut wire, 0..1, "value");
    wait_for("a snapshot", || folder.names("snapshot-").iter().any(|n| n.ends_with("11.hrs")));
    wait_for("its mark", || info(&mut wire, "rdb_changes_since_last_save") == "0");
}

#[test]
fn a_snapshot_that_fails_leaves_all_as_it_was() {
    let folder = Folder::new("fails");
    let server = folder.server();
    let mut wire = server.connect();
    set_many(&mut wire, 0..3, "value");
    let obstacle = folder.0.join("snapshot-00000000000000000003.tmp");
    fs::create_dir(&obstacle).unwrap();
    let error = wire.say("SAVE").text();
    assert!(error.starts_with("ERR the snapshot failed: "), "{error}");
    assert_eq!(info(&mut wire, "rdb_last_bgsave_status"), "err");
    assert!(!info(&mut wire, "snapshot_last_error").is_empty());
    assert_eq!(info(&mut wire, "rdb_changes_since_last_save"), "3");
    let error = wire.say("SHUTDOWN SAVE").text();
    assert_eq!(error, "ERR Errors trying to SHUTDOWN. Check logs.");
    fs::remove_dir(&obstacle).unwrap();
    assert_eq!(wire.say("SAVE"), ok());
    assert_eq!(info(&mut wire, "rdb_last_bgsave_status"), "ok");
    set_many(&mut wire, 3..5, "value");
    wire.send(b"SHUTDOWN SAVE\r\n");
    assert!(wire.is_closed(), "there is no reply");
    server.stop();
    assert_eq!(folder.names("snapshot-"), ["snapshot-00000000000000000005.hrs"]);
    assert_eq!(folder.server().connect().say("DBSIZE").int(), 5);
}

#[test]
fn a_damaged_snapshot_is_refused_by_name() {
    let folder = Folder::new("damaged");
    let server = folder.server();
    let mut wire = server.connect();
    set_many(&mut wire, 0..100, "value");
    assert_eq!(wire.say("SAVE"), ok());
    server.stop();
    let path = folder.0.join("snapshot-00000000000000000100.hrs");
    let mut bytes = fs::read(&path).unwrap();
    bytes[200] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = refused(&folder.0, |_| {});
    for part in ["snapshot-00000000000000000100.hrs is damaged at byte 64", " --repair NEWDIR"] {
        assert!(error.contains(part), "{error}");
    }
    bytes[200] ^= 1;
    fs::write(&path, &bytes).unwrap();
    // Unfinished snapshots are removed.
    fs::write(folder.0.join("snapshot-00000000000000000101.tmp"), "x").unwrap();
    assert_eq!(folder.server().connect().say("DBSIZE").int(), 100);
    assert_eq!(folder.names("snapshot-").len(), 1);
    // Without the log that it needs.
    for name in folder.names("log-") {
        fs::remove_file(folder.0.join(name)).unwrap();
    }
    fs::rename(&path, folder.0.join("snapshot-00000000000000000090.hrs")).unwrap();
    assert!(refused(&folder.0, |_| {}).contains("does not match the file's name"));
}

fn refused(data: &Path, change: impl FnOnce(&mut Config)) -> String {
    let listen = vec!["127.0.0.1:0".to_string()];
    let log = LogSettings { is_on: true, data: data.into(), ..LogSettings::default() };
    let mut config = Config { listen, threads: 1, log, ..Config::default() };
    change(&mut config);
    match start(config) {
        // It finds this out later.
        Ok(running) => {
            assert!(!running.is_loaded(), "the server started");
            running.wait().expect_err("it ends by itself").to_string()
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn there_is_no_snapshot_without_a_log() {
    let folder = Folder::new("no-log");
    // Naming a folder does not turn the log on.
    for data in [LogSettings::default().data, folder.0.clone()] {
        let server = TestServer::with(|c| c.log.data = data);
        let mut wire = server.connect();
        let error = "ERR a snapshot needs a log beside it: start the server with log everysec";
        for request in ["SAVE", "BGSAVE", "BGSAVE SCHEDULE", "BGREWRITEAOF"] {
            assert_eq!(wire.say(request).text(), error, "{request}");
        }
        let error = wire.say("SHUTDOWN SAVE").text();
        assert_eq!(error, "ERR Errors trying to SHUTDOWN. Check logs.");
        assert!(wire.say("LASTSAVE").int() > 0);
    }
    assert!(!folder.0.exists());
    let server = TestServer::new();
    let mut wire = server.connect();
    assert!(wire.ask(&["CONFIG", "SET", "save", "900 1"]).text().contains("need a log"));
    assert_eq!(wire.ask(&["CONFIG", "SET", "save", ""]), ok());
    assert_eq!(info(&mut wire, "rdb_bgsave_in_progress"), "0");
    let error = refused(Path::new("unused"), |c| {
        c.log.is_on = false;
        c.log.snapshots.points = vec![SavePoint { seconds: 900, changes: 1 }];
    });
    assert!(error.contains("need a log"), "{error}");
}

#[test]
fn force_ends_a_server_whose_snapshot_fails() {
    let folder = Folder::new("forced");
    let server = folder.server();
    let mut wire = server.connect();
    set_many(&mut wire, 0..3, "value");
    let obstacle = folder.0.join("snapshot-00000000000000000003.tmp");
    fs::create_dir(&obstacle).unwrap();
    assert!(wire.say("SHUTDOWN SAVE").is_error());
    wire.send(b"SHUTDOWN SAVE FORCE\r\n");
    assert!(wire.read_to_end().is_empty(), "a success has no reply");
    server.stop();
    fs::remove_dir(&obstacle).unwrap();
    assert_eq!(folder.server().connect().say("DBSIZE").int(), 3);
}
