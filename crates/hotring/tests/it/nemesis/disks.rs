//! The disk of either server is full. Where a tmpfs cannot be mounted, the test prints so and does nothing.

use std::path::PathBuf;
use std::process::Command;

use hotring_protocol::Reply;

use super::clients::Wire;
use super::{Pair, wait_for};

/// Length of each value.
const VALUE_LEN: usize = 2_000;

/// A small tmpfs with ballast, unmounted after the test.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: PathBuf) -> Option<Disk> {
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&path);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            eprintln!("not tried: a tmpfs cannot be mounted here");
            return None;
        }
        std::fs::write(path.join("ballast"), vec![1; 2 << 20]).unwrap();
        Some(Disk(path))
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The folder of a server's data: a tmpfs holds it.
fn folder(pair: &Pair, node: usize) -> PathBuf {
    pair.folder.0.join(pair.addresses[node].rsplit_once(':').unwrap().1)
}

fn start(node: usize) -> Option<(Pair, Disk)> {
    let mut disk = None;
    let settings = &["--log-segment", "256kb"];
    let pair = Pair::start_with(&format!("disk-{node}"), "everysec", settings, |pair| {
        disk = Disk::mount(folder(pair, node));
    });
    Some((pair, disk?))
}

fn key(n: usize) -> String {
    format!("SET key:{n} {}", "x".repeat(VALUE_LEN))
}

/// Whether the last write to the log failed.
fn fails(pair: &Pair, node: usize) -> bool {
    match pair.say(node, "INFO persistence") {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).contains("aof_last_write_status:err"),
        _ => false,
    }
}

/// Everything that was acknowledged is at both, also after they were killed.
fn check(mut pair: Pair, acknowledged: usize) {
    pair.wait_until_equal();
    for node in [pair.primary, pair.other()] {
        pair.kill(node);
        pair.serve(node, node != pair.primary);
        pair.wait_until_equal();
    }
    let mut wire = Wire::connect(&pair.addresses[pair.primary]).unwrap();
    for n in 0..acknowledged {
        let len = wire.say(&format!("STRLEN key:{n}")).unwrap();
        assert_eq!(len, Reply::Int(VALUE_LEN as i64), "{n} of {acknowledged}");
    }
    pair.end();
}

#[test]
fn a_primary_with_a_full_disk_refuses_writes_and_loses_none() {
    let Some((pair, disk)) = start(0) else { return };
    let mut wire = Wire::connect(&pair.addresses[0]).unwrap();
    let refused = (0..2_000).find_map(|n| match wire.say(&key(n)).unwrap() {
        Reply::Error(text) => Some((n, text)),
        _ => None,
    });
    let (acknowledged, error) = refused.expect("the disk has an end");
    assert!(error.starts_with("MISCONF ") && error.contains("No space left on device"), "{error}");
    assert!(fails(&pair, 0) && !fails(&pair, 1));
    disk.make_room();
    wait_for("there is room", || !fails(&pair, 0));
    check(pair, acknowledged);
}

/// Its log goes on where it was: what it has acknowledged meanwhile is in its memory, and at the primary.
#[test]
fn a_replica_with_a_full_disk_tells_so_and_goes_on_once_there_is_room() {
    let Some((pair, disk)) = start(1) else { return };
    let mut wire = Wire::connect(&pair.addresses[0]).unwrap();
    let mut acknowledged = 0;
    wait_for("the disk is full", || {
        for _ in 0..20 {
            assert_eq!(wire.say(&key(acknowledged)).unwrap(), Reply::Simple("OK".into()));
            acknowledged += 1;
        }
        fails(&pair, 1)
    });
    let told = pair.told[1].lock().unwrap().clone();
    assert!(told.contains("No space left on device"), "{told}");
    disk.make_room();
    wait_for("there is room", || !fails(&pair, 1));
    check(pair, acknowledged);
}
