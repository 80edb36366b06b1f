//! Copies of a pool's keys in which not all servers do their part, and copies that are ended.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hotring_proxy::Settings;
use rustix::process::Signal;

use super::pool::{Backend, File, listed, memcached};
use super::pool_changes::{copy, key_of, told};
use super::{connect, say, wait_for};
use crate::nemesis::clients::Wire;

#[test]
fn a_copy_is_ended_between_two_keys() {
    const N: u32 = 2_000;
    let two = [Backend::redis(&[]), Backend::redis(&[])];
    let listed = [("a", "redis", &*two[0].address), ("b", "redis", &*two[1].address)];
    let file = File::new("pool-stop");
    let proxy = file.write("", &listed[..1]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    assert!(say(&mut wire, "POOL COPY STOP").starts_with("-ERR no keys are being copied"));
    let pairs: Vec<String> = (0..N).map(|n| format!("k{n} v{n}")).collect();
    assert_eq!(say(&mut wire, &format!("MSET {}", pairs.join(" "))), "OK");
    // Keys cannot be removed there for a while: the first ones are at both servers then.
    assert_eq!(say(&mut two[0].wire(), "CLIENT PAUSE 1500 WRITE"), "OK");
    file.write("", &listed[1..]);
    assert_eq!(say(&mut wire, "POOL RELOAD COPY"), "OK");
    wait_for("some are copied", || two[1].keys() > 0);
    assert_eq!(say(&mut wire, "POOL COPY STOP"), "OK");
    assert!(told(&mut wire, "copy", "").starts_with("running"));
    wait_for("it has ended", || told(&mut wire, "copy", "").starts_with("stopped,copied="));
    let (stay, came) = (two[0].keys(), two[1].keys());
    assert!(came > 0 && came < N && stay + came == N, "{stay} {came}");
    assert_eq!(told(&mut wire, "copy", "copied"), came.to_string());
    // The others are cold: they come back with their server.
    let found = |wire: &mut Wire| {
        let keys = (0..N).filter(|n| say(wire, &format!("GET k{n}")) == format!("v{n}"));
        keys.count() as u32
    };
    assert_eq!(found(&mut wire), came);
    file.write("", &listed[..1]);
    assert_eq!(say(&mut wire, "POOL RELOAD"), "OK");
    assert_eq!(found(&mut wire), stay);
}

/// A crawler that worked for another client once counted as a failure, and its server was given up.
#[test]
fn a_memcached_whose_crawler_is_busy_is_asked_again() {
    let (cache, redis) = (Backend::memcached(), Backend::redis(&[]));
    let listed = [("a", "memcached", &*cache.address), ("b", "redis", &*redis.address)];
    let file = File::new("pool-busy");
    let proxy = file.write("", &listed[..1]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    const N: u32 = 20_000;
    for n in 0..N {
        wire.send(&format!("SET k{n} {}\r\n", "v".repeat(100))).unwrap();
    }
    (0..N).for_each(|_| assert_eq!(super::shown(&wire.reply().unwrap()), "OK"));
    // Each thousand keys take a second.
    let mut direct = BufReader::new(TcpStream::connect(&cache.address).unwrap());
    let mut ask = |line: &str| {
        direct.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        direct.read_line(&mut reply).unwrap();
        reply
    };
    assert_eq!(ask("lru_crawler sleep 1000000"), "OK\r\n");
    assert_eq!(ask("lru_crawler crawl all"), "OK\r\n");
    assert!(ask("lru_crawler metadump hash").starts_with("BUSY"));
    file.write("", &listed[1..]);
    assert_eq!(say(&mut wire, "POOL RELOAD COPY"), "OK");
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    // Keys that are wanted come over meanwhile.
    assert_eq!(say(&mut wire, "STRLEN k7"), "100");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // More often than a server may fail.
    std::thread::sleep(Duration::from_secs(6));
    assert!(told(&mut wire, "copy", "").starts_with("running"));
    assert_eq!(ask("lru_crawler sleep 0"), "OK\r\n");
    wait_for("it has ended", || told(&mut wire, "copy", "").starts_with("done"));
    assert_eq!(told(&mut wire, "copy", ""), format!("done,copied={N},cold=0"));
}

/// One that is older than 1.6.13, or whose crawler is off, does not list its keys. It says so.
#[test]
fn a_memcached_that_does_not_list_its_keys_is_named() {
    let cache = Backend::memcached_with(&["-o", "no_lru_crawler,no_lru_maintainer"]);
    let redis = Backend::redis(&[]);
    let listed = [("a", "memcached", &*cache.address), ("b", "redis", &*redis.address)];
    let file = File::new("pool-no-list");
    let proxy = file.write("", &listed[..1]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    assert_eq!(say(&mut wire, "SET k 1"), "OK");
    file.write("", &listed[1..]);
    let begun = Instant::now();
    let how = copy(&mut wire);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(how.starts_with("gave_up,copied=0,cold=0,servers=a,why=it does not list"), "{how}");
    assert!(how.contains("1.6.13") && how.contains("disabled"), "{how}");
}

/// Each of its keys once counted as a failure of the old server, which was given up.
#[test]
fn keys_that_the_new_server_does_not_take_stay_and_others_come() {
    let three = [Backend::redis(&[]), Backend::redis(&[]), Backend::redis(&[])];
    let all = listed(&three);
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
    let stay = three[0].keys();
    let came = three[2].keys();
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
    let all = listed(&three);
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
    let how = told(&mut wire, "copy", "");
    assert!(how.starts_with("gave_up,copied=1,cold=0,servers=a,why="), "{how}");
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
