//! Tests of active expiry: how late keys are removed without an access, and which events that
//! causes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::wire::{Reply, TestServer, Wire, bulk, ok, request};

const KEYS: usize = 20_000;

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn info(wire: &mut Wire, name: &str) -> f64 {
    let text = wire.say("INFO").text();
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| *field == name).expect("it is there");
    value.trim_end().parse().expect("a number")
}

/// The machine may be busy: the limit is far from the usual delay, and far from the time of a walk
/// over all keys.
#[test]
fn thousands_of_keys_are_removed_soon_after_they_expire() {
    let server = TestServer::with(|config| config.admin = Some("127.0.0.1:0".into()));
    let mut wire = server.connect();
    // Keys that do not expire.
    for chunk in 0..100 {
        let sets = (0..1_000).flat_map(|i| request(&["SET", &format!("stays:{chunk}:{i}"), "v"]));
        wire.send(&sets.collect::<Vec<u8>>());
        (0..1_000).for_each(|_| assert_eq!(wire.reply(), ok()));
    }
    for chunk in 0..KEYS / 1_000 {
        let sets = (0..1_000).flat_map(|i| {
            let ms = (500 + i).to_string();
            request(&["SET", &format!("goes:{chunk}:{i}"), "v", "PX", &ms])
        });
        wire.send(&sets.collect::<Vec<u8>>());
        (0..1_000).for_each(|_| assert_eq!(wire.reply(), ok()));
    }
    while wire.say("DBSIZE") != Reply::Int(100_000) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(info(&mut wire, "expired_keys"), KEYS as f64);
    let [p50, p99, max] =
        ["p50", "p99", "max"].map(|name| info(&mut wire, &format!("expired_lag_{name}_ms")));
    // `hotring-bench expiry` measures the lag; here other tests take the processor.
    assert!(p50 < 1_000.0 && p99 < 5_000.0, "{p50} ms, {p99} ms, {max} ms");
    assert!(p50 <= p99 && max > 0.0, "{p50} ms, {p99} ms, {max} ms");
    assert_eq!(info(&mut wire, "expiry_entries"), 0.0);
    let metrics = crate::admin::metrics(server.admin());
    for part in ["count", "bucket{le=\"+Inf\"}"] {
        assert_eq!(metrics[&format!("hotring_expire_lag_seconds_{part}")], KEYS as f64);
    }
    wire.say("CONFIG RESETSTAT");
    assert_eq!(info(&mut wire, "expired_lag_max_ms"), 0.0);
    assert_eq!(info(&mut wire, "expired_lag_p99_ms"), 0.0);
}

#[test]
fn a_subscriber_gets_events_at_once() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.say("CONFIG SET notify-keyspace-events Ex");
    let mut listener = server.connect();
    listener.say("SUBSCRIBE __keyevent@0__:expired");
    // One with a late expiry time, so that the expiry thread sleeps.
    wire.say("SET far v EX 1000");
    for i in 0..5 {
        std::thread::sleep(Duration::from_millis(30));
        let due = unix_ms() + 20;
        assert_eq!(wire.say(&format!("SET key:{i} v PXAT {due}")), ok());
        let message = ["message", "__keyevent@0__:expired", &format!("key:{i}")].map(bulk);
        assert_eq!(listener.reply(), Reply::Array(message.to_vec()));
        let told = unix_ms();
        assert!(told >= due, "{told} is before {due}");
        assert!(told < due + 2_000, "{told} is long after {due}");
    }
    // An earlier expiry time than it sleeps for, by a command without a value.
    let due = unix_ms() + 20;
    assert_eq!(wire.say(&format!("PEXPIREAT far {due}")), Reply::Int(1));
    let message = ["message", "__keyevent@0__:expired", "far"].map(bulk);
    assert_eq!(listener.reply(), Reply::Array(message.to_vec()));
    assert!(unix_ms() >= due);
}
