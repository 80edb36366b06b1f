//! Tests on a real file system that is full or read-only: a tmpfs of a few megabytes. Where
//! mounting is not allowed, they print that they were skipped. Other failures of disks are
//! simulated by `hotring_log::storage::Memory`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hotring_log::AckWhen;
use hotring_server::{Config, LogSettings, start};

use crate::wire::{TestServer, Wire, ok};

/// A tmpfs that is unmounted after the test.
pub struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(name: &str) -> Option<Tmpfs> {
        let name = format!("hotring-it-{name}-{}", std::process::id());
        Tmpfs::mount_at(std::env::temp_dir().join(name))
    }

    /// At this path, which must not exist.
    pub fn mount_at(path: PathBuf) -> Option<Tmpfs> {
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(&path);
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Tmpfs(path));
        }
        eprintln!("not tried: a tmpfs cannot be mounted here");
        std::fs::remove_dir(&path).unwrap();
        None
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Takes this many of its bytes.
    pub fn shrink(&self, by: usize) {
        std::fs::write(self.ballast(), vec![1; by]).unwrap();
    }

    pub fn make_room(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn server(data: &Path, when: AckWhen) -> TestServer {
    let data = data.join("data");
    let log = LogSettings { is_on: true, when, data, segment_len: 256 << 10, ..Default::default() };
    TestServer::with(|c| c.log = log)
}

fn mount(args: &[&str], path: &Path) -> bool {
    let output = Command::new("mount").args(args).arg(path).output();
    output.is_ok_and(|output| output.status.success())
}

/// A file that is open stays writable, as the system keeps a mount in use writable, but no new one
/// can be created.
#[test]
fn a_folder_that_becomes_read_only_refuses_writes_once_a_file_is_full() {
    let Some(disk) = Tmpfs::mount("read-only") else { return };
    let data = disk.0.join("data");
    let server = server(&disk.0, AckWhen::Synced);
    let mut wire = server.connect();
    assert_eq!(wire.say("SET kept 1"), ok());
    assert_eq!(wire.say("SAVE"), ok());
    let bind = ["--bind", data.to_str().unwrap()];
    assert!(mount(&bind, &data) && mount(&["-o", "remount,bind,ro"], &data));
    let error = wire.say("SAVE").text();
    assert!(error.starts_with("ERR the snapshot failed: Read-only file system"), "{error}");
    let refused = (0..400).find_map(|key| {
        let reply = wire.say(&format!("SET key:{key} {}", "x".repeat(2_000)));
        (reply != ok()).then(|| (key, reply.text()))
    });
    let (count, error) = refused.expect("no segment can be begun");
    assert!(error.starts_with("MISCONF ") && error.contains("Read-only file system"), "{error}");
    let mut wire = server.connect();
    assert_eq!(wire.say("GET kept").text(), "1");
    assert!(wire.say("INFO persistence").text().contains("aof_last_write_status:err\r\n"));
    server.stop();
    let umount = Command::new("umount").arg("-l").arg(&data).status();
    assert!(umount.is_ok_and(|status| status.success()));
    let server = self::server(&disk.0, AckWhen::Synced);
    let mut wire = server.connect();
    assert_eq!(wire.say("GET kept").text(), "1");
    for key in 0..count {
        assert_eq!(wire.say(&format!("STRLEN key:{key}")).int(), 2_000, "{key} of {count}");
    }
}

#[test]
fn a_server_on_a_read_only_folder_gives_advice() {
    let Some(disk) = Tmpfs::mount("start") else { return };
    server(&disk.0, AckWhen::Synced).stop();
    assert!(mount(&["-o", "remount,ro"], &disk.0));
    let data = disk.0.join("data");
    let log = LogSettings { is_on: true, data: data.clone(), ..Default::default() };
    let listen = vec!["127.0.0.1:0".to_string()];
    let Err(error) = start(Config { listen, threads: 1, log, ..Config::default() }) else {
        panic!("it starts and cannot write")
    };
    let error = error.to_string();
    for part in [data.to_str().unwrap(), "Read-only file system", "--data"] {
        assert!(error.contains(part), "{error}");
    }
}

/// Sets one key after the other until a write is refused; returns how many were acknowledged.
fn fill(server: &TestServer, from: usize) -> usize {
    let mut wire = server.connect();
    for key in from.. {
        let reply = wire.say(&format!("SET key:{key} {}", "x".repeat(2_000)));
        if reply != ok() {
            let error = reply.text();
            assert!(error.starts_with("MISCONF "), "{error}");
            assert!(error.contains("it is tried again each second"), "{error}");
            return key;
        }
    }
    unreachable!("the disk has an end")
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    for when in [AckWhen::Written, AckWhen::Synced] {
        let Some(disk) = Tmpfs::mount("full") else { return };
        disk.shrink(1 << 20);
        let server = server(&disk.0, when);
        let count = fill(&server, 0);
        assert!(count > 500, "{count}");
        // Reads go on, snapshots fail, and the server keeps running.
        let mut wire = server.connect();
        assert_eq!(wire.say(&format!("STRLEN key:{}", count - 1)).int(), 2_000);
        assert!(wire.say("SAVE").is_error());
        assert!(wire.say("INFO persistence").text().contains("aof_last_write_status:err\r\n"));
        disk.make_room();
        let begun = Instant::now();
        let mut wire = loop {
            // A connection that met the error may have been closed.
            let mut wire = server.connect();
            if wire.say("SET after 1") == ok() {
                break wire;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "there is room");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert!(wire.say("INFO persistence").text().contains("aof_last_write_status:ok\r\n"));
        check(&mut wire, count);
        server.stop();
        let server = self::server(&disk.0, when);
        let mut wire = server.connect();
        check(&mut wire, count);
        // There is no space for a snapshot beside the log, and the failed attempt must not remove
        // anything.
        assert!(wire.say("SAVE").is_error());
        drop(server);
        check(&mut self::server(&disk.0, when).connect(), count);
    }
}

/// Everything that was acknowledged must be there.
fn check(wire: &mut Wire, count: usize) {
    for key in 0..count {
        assert_eq!(wire.say(&format!("STRLEN key:{key}")).int(), 2_000, "{key} of {count}");
    }
    assert_eq!(wire.say("GET after").text(), "1");
}
