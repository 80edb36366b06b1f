//! Copies of a pool's keys in which not all servers do their part.

use std::time::{Duration, Instant};

use hotring_proxy::Settings;
use rustix::process::Signal;

use super::pool::{Backend, File, memcached};
use super::pool_changes::{copy, key_of, told};
use super::{connect, say, wait_for};

/// Each of its keys once counted as a failure of the old server, which was given up.
#[test]
fn keys_that_the_new_server_does_not_take_stay_and_others_come() {
    let three = [Backend::redis(&[]), Backend::redis(&[]), Backend::redis(&[])];
    let all: Vec<(&str, &str, &str)> =
        ["a", "b", "c"].into_iter().zip(&three).map(|(n, it)| (n, "redis", &*it.address)).collect();
    let file = File::new("pool-full");
    let proxy = file.write("", &all[..1]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    for n in 0..1_000 {
        assert_eq!(say(&mut wire, &format!("SET k{n} v")), "OK");
    }
    assert_eq!(say(&mut three[1].wire(), "CONFIG SET maxmemory 1"), "OK");
    file.write("", &all);
    let how = copy(&mut wire);
    assert!(how.starts_with("done,"), "{how}");
    let stay = say(&mut three[0].wire(), "DBSIZE").parse::<u32>().unwrap();
    let came = say(&mut three[2].wire(), "DBSIZE").parse::<u32>().unwrap();
    assert!(came > 200 && stay + came == 1_000, "{stay} {came}");
    let cold: u32 = how.rsplit_once('=').unwrap().1.parse().unwrap();
    assert!(how.starts_with(&format!("done,copied={came},")) && cold > 200, "{how}");
}

/// A server that is full for a moment.
#[test]
fn keys_that_the_new_server_does_not_take_are_tried_again() {
    let two = [Backend::redis(&[]), Backend::redis(&[])];
    let listed = [("a", "redis", &*two[0].address), ("b", "redis", &*two[1].address)];
    let file = File::new("pool-full-for-a-moment");
    let proxy = file.write("", &listed[..1]).proxy(Settings::default());
    let (mut wire, mut target) = (connect(&proxy), two[1].wire());
    for n in 0..100 {
        assert_eq!(say(&mut wire, &format!("SET k{n} v")), "OK");
    }
    assert_eq!(say(&mut target, "CONFIG SET maxmemory 1"), "OK");
    file.write("", &listed[1..]);
    assert_eq!(say(&mut wire, "POOL RELOAD COPY"), "OK");
    wait_for("a key is refused", || say(&mut target, "INFO errorstats").contains("OOM"));
    assert_eq!(say(&mut target, "CONFIG SET maxmemory 0"), "OK");
    wait_for("the copy has ended", || !told(&mut wire, "copy", "").starts_with("running"));
    assert_eq!(told(&mut wire, "copy", ""), "done,copied=100,cold=0");
}

/// One silent server once kept the keys of all others waiting for minutes.
#[test]
fn a_silent_server_delays_others_for_a_moment() {
    let three = [Backend::redis(&[]), Backend::redis(&[]), Backend::redis(&[])];
    let all: Vec<(&str, &str, &str)> =
        ["a", "b", "c"].into_iter().zip(&three).map(|(n, it)| (n, "redis", &*it.address)).collect();
    let file = File::new("pool-silent");
    let options = "eject-after = 4\nprobe-interval = 200\nprobe-timeout = 500";
    let retry_for = Duration::from_millis(500);
    let settings = Settings { retry_for, ..Settings::default() };
    let proxy = file.write(options, &all[..2]).proxy(settings);
    let mut wire = connect(&proxy);
    let [dead, alive] = [0, 1].map(|at| key_of(&mut wire, all[at].2));
    assert_eq!(say(&mut wire, &format!("MSET {dead} 1 {alive} 1")), "OK");
    three[0].signal(Signal::STOP);
    file.write(options, &all[2..]);
    assert_eq!(say(&mut wire, "POOL RELOAD COPY"), "OK");
    let begun = Instant::now();
    let refused = say(&mut wire, &format!("GET {dead}"));
    assert!(refused.starts_with("-TRYAGAIN The key is still at a server"), "{refused}");
    let refused = memcached(&proxy).say(&format!("get {dead}"));
    assert!(refused.starts_with("SERVER_ERROR TRYAGAIN"), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    wait_for("it is given up", || told(&mut wire, "copy", "").starts_with("gave_up"));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(told(&mut wire, "copy", ""), "gave_up,copied=1,cold=0,servers=a");
    assert_eq!(say(&mut wire, &format!("GET {alive}")), "1");
    three[0].signal(Signal::CONT);
}

/// A source that is gone must not keep clients waiting for ever.
#[test]
fn a_server_that_fails_while_its_keys_come_over_is_given_up() {
    let (gone, stays) = (Backend::redis(&[]), Backend::redis(&[]));
    let listed = [("a", "redis", &*gone.address), ("b", "redis", &*stays.address)];
    let file = File::new("pool-given-up");
    let options = "eject-after = 2\nprobe-interval = 100";
    let proxy = file.write(options, &listed).proxy(Settings::default());
    let mut wire = connect(&proxy);
    let key = key_of(&mut wire, &gone.address);
    assert_eq!(say(&mut wire, &format!("SET {key} 1")), "OK");
    gone.signal(Signal::KILL);
    file.write(options, &listed[1..]);
    let begun = Instant::now();
    assert_eq!(say(&mut wire, "POOL RELOAD COPY"), "OK");
    wire.send(&format!("GET {key}\r\n")).unwrap();
    let mut other = connect(&proxy);
    assert!(say(&mut other, "POOL RELOAD").contains("keys are being copied"));
    wait_for("it is given up", || told(&mut other, "copy", "").starts_with("gave_up"));
    // Since it is ejected, and not after all tries.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(told(&mut other, "copy", "servers"), "a");
    assert_eq!(super::shown(&wire.reply().unwrap()), "nil");
    assert_eq!(say(&mut wire, "POOL RELOAD"), "OK");
}
