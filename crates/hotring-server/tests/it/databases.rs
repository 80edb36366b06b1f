//! Databases, as clients see them, and in comparison with a real `redis-server`.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hotring_server::LogSettings;

use crate::differential::{Raw, Redis, assert_equal_replies, compare_content, exact_request};
use crate::requests::{Random, show};
use crate::wire::{Reply, TestServer, bulk, ok};

#[test]
fn each_database_has_its_own_keys() {
    let server = TestServer::new();
    let (mut a, mut b) = (server.connect(), server.connect());
    assert_eq!(a.say("SELECT 1"), ok());
    a.say("SET k one");
    b.say("SET k zero");
    assert_eq!((a.say("GET k"), b.say("GET k")), (bulk("one"), bulk("zero")));
    assert_eq!(a.say("CONFIG GET databases").items()[1], bulk("16"));
    assert!(a.say("SELECT 16").is_error() && a.say("SELECT -1").is_error());
    assert!(a.say("CLIENT INFO").text().contains(" db=1 "));
    a.say("SET other 1 EX 100");
    let keyspace = b.say("INFO keyspace").text();
    assert!(
        keyspace.contains("db0:keys=1,expires=0,") && keyspace.contains("db1:keys=2,expires=1,")
    );
    b.say("FLUSHDB");
    assert_eq!((a.say("DBSIZE").int(), b.say("DBSIZE").int()), (2, 0));
    assert_eq!(b.say("RANDOMKEY"), Reply::Null);
    b.say("FLUSHALL");
    assert_eq!(a.say("DBSIZE").int(), 0);
    assert_eq!(a.say("RESET"), Reply::Simple("RESET".into()));
    assert!(a.say("CLIENT INFO").text().contains(" db=0 "));
}

/// The replies of a script of requests by two clients.
fn compare(lines: &[(usize, &str)]) {
    let Some(redis) = Redis::start_with("16") else { return };
    let server = TestServer::new();
    let mut pairs = [(); 2].map(|()| [Raw::connect(server.address), Raw::connect(redis.address)]);
    for (client, line) in lines {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let [ours, theirs] = pairs[*client].each_mut().map(|raw| raw.ask(&words));
        let [ours, theirs] = [ours, theirs].map(|reply| reply.escape_ascii().to_string());
        assert_eq!(ours, theirs, "client {client}: {line}");
    }
}

#[test]
fn requests_about_databases_get_the_replies_of_redis() {
    compare(&[
        (0, "SELECT x"),
        (0, "SELECT 16"),
        (0, "SELECT 99999999999"),
        (0, "SET k 1"),
        (0, "MOVE k 0"),
        (0, "MOVE k 16"),
        (0, "MOVE k x"),
        (0, "MOVE none 1"),
        (0, "MOVE k 1"),
        (0, "GET k"),
        (0, "SET k 2"),
        (0, "MOVE k 1"),
        (1, "SELECT 1"),
        (1, "GET k"),
        (0, "COPY k k"),
        (0, "COPY k k DB 1"),
        (0, "COPY k k DB 1 REPLACE"),
        (0, "COPY k k DB 16"),
        (0, "COPY k k DB"),
        (1, "GET k"),
        (0, "SWAPDB x 1"),
        (0, "SWAPDB 0 x"),
        (0, "SWAPDB 0 16"),
        (0, "SWAPDB 0 0"),
        (0, "SET only zero"),
        (0, "SWAPDB 0 1"),
        (0, "EXISTS only"),
        (1, "EXISTS only"),
        (0, "FLUSHDB"),
        (1, "DBSIZE"),
        (0, "DBSIZE"),
        (0, "MULTI"),
        (0, "SELECT 3"),
        (0, "SET m 1"),
        (0, "SELECT 4"),
        (0, "MOVE m 5"),
        (0, "EXEC"),
        (0, "DBSIZE"),
        (0, "SELECT 3"),
        (0, "GET m"),
        (0, "WATCH w"),
        (0, "SELECT 6"),
        (1, "SELECT 3"),
        (1, "SET w 1"),
        (0, "MULTI"),
        (0, "PING"),
        (0, "EXEC"),
        (0, "WATCH w"),
        (1, "SET w 2"),
        (0, "MULTI"),
        (0, "PING"),
        (0, "EXEC"),
        (1, "SELECT 7"),
        (1, "SET w 1"),
        (0, "WATCH w"),
        (1, "SWAPDB 6 7"),
        (0, "MULTI"),
        (0, "PING"),
        (0, "EXEC"),
        (0, "EVAL redis.call('select',9)redis.call('set','s',1)return{redis.call('dbsize')} 0"),
        (0, "EXISTS s"),
        (0, "SELECT 9"),
        (0, "EXISTS s"),
    ]);
}

/// The keys, and keys with an expiry, of all databases and of the client's own, as both servers report them.
fn await_same_counts(pair: &mut [Raw; 2], round: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let said = pair.each_mut().map(|raw| {
            let mut lines = Vec::new();
            for request in [&[&b"INFO"[..], b"keyspace"], &[b"CLIENT", b"INFO"]] {
                let text = String::from_utf8_lossy(&raw.ask(request)).into_owned();
                let words = text.split([' ', '\r', '\n']).filter(|word| word.starts_with("db"));
                lines.extend(words.map(|word| word.split(",avg_ttl").next().unwrap().to_string()));
            }
            lines.push(raw.ask(&[b"DBSIZE"]).escape_ascii().to_string());
            lines
        });
        if said[0] == said[1] {
            let own = said[0].iter().rev().nth(1);
            assert!(own.is_some_and(|own| own.starts_with("db=")), "{said:?}");
            return;
        }
        assert!(Instant::now() < deadline, "round {round}: {said:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Random requests of two clients that go from database to database.
#[test]
fn random_requests_in_several_databases_get_the_replies_of_redis() {
    const REQUESTS: usize = 8_000;
    let Some(redis) = Redis::start_with("4") else { return };
    let server = TestServer::with(|config| config.databases = 4);
    let mut pairs = [(); 2].map(|()| [Raw::connect(server.address), Raw::connect(redis.address)]);
    let mut random = Random::new(29);
    for round in 0..REQUESTS {
        let client = random.below(2) as usize;
        let number = |random: &mut Random| random.below(4).to_string().into_bytes();
        let args = match random.below(23) {
            20 => vec![b"PEXPIRE".to_vec(), b"k1".to_vec(), b"1".to_vec()],
            21 => vec![b"EXPIRE".to_vec(), b"k2".to_vec(), b"1000".to_vec()],
            22 if random.below(20) == 0 => vec![b"FLUSHALL".to_vec()],
            0 => vec![b"SELECT".to_vec(), number(&mut random)],
            1 => vec![b"SWAPDB".to_vec(), number(&mut random), number(&mut random)],
            2 | 3 => vec![b"MOVE".to_vec(), b"k0".to_vec(), number(&mut random)],
            4 => {
                [&b"COPY"[..], b"k0", b"k1", b"DB", &number(&mut random)].map(<[u8]>::to_vec).into()
            }
            5 if random.below(8) == 0 => vec![b"FLUSHDB".to_vec()],
            _ => exact_request(&mut random),
        };
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let [ours, theirs] = pairs[client].each_mut().map(|raw| raw.ask(&words));
        assert_equal_replies(&ours, &theirs, || {
            format!("round {round}, client {client}: {}", show(&args))
        });
        if words[0] == b"PEXPIRE" {
            // Redis removes what has expired when it is asked for it.
            std::thread::sleep(Duration::from_millis(3));
            for raw in &mut pairs[client] {
                raw.ask(&[b"EXISTS", b"k1"]);
            }
        }
        if words[0] == b"PEXPIRE" || round % 40 == 0 {
            await_same_counts(&mut pairs[client], round);
        }
    }
    for number in [&b"0"[..], b"1", b"2", b"3"] {
        let [ours, theirs] = &mut pairs[0];
        ours.ask(&[b"SELECT", number]);
        theirs.ask(&[b"SELECT", number]);
        compare_content(ours, theirs);
    }
}

/// Ends another thread, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed, a flag.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// EXEC once ran the commands behind a SELECT in another place than those before, if it had waited for a SWAPDB.
#[test]
fn a_transaction_sees_one_order_of_the_databases() {
    let server = TestServer::with(|config| config.threads = 2);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = server.connect();
            // ORDERING: Relaxed, a flag.
            while !done.load(Ordering::Relaxed) {
                assert_eq!(wire.say("SWAPDB 0 1"), ok());
            }
        });
        let _ends = Ends(&done);
        let (mut writer, mut reader) = (server.connect(), server.connect());
        for i in 0..200 {
            writer.send(
                format!("MULTI\r\nSET a {i}\r\nSELECT 0\r\nSET b {i}\r\nEXEC\r\n").as_bytes(),
            );
            reader.send(b"MGET a b\r\n");
            (0..5).for_each(|_| assert!(!writer.reply().is_error()));
            let reply = reader.reply();
            let [a, b] = reply.items() else { panic!("{reply:?}") };
            assert_eq!(a, b, "round {i}");
        }
    });
}

/// The rest of a pipeline once went on in the place that the database had had when it began.
#[test]
fn the_rest_of_a_pipeline_follows_a_swap() {
    let server = TestServer::with(|config| config.threads = 2);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut wire, requests) = (server.connect(), "INCR c\r\n".repeat(200));
            // ORDERING: Relaxed, a flag.
            while !done.load(Ordering::Relaxed) {
                wire.send(requests.as_bytes());
                (0..200).for_each(|_| _ = wire.reply().int());
            }
        });
        let _ends = Ends(&done);
        let (mut swapper, mut reader) = (server.connect(), server.connect());
        reader.say("SELECT 1");
        for round in 0..40 {
            assert_eq!(swapper.say("SWAPDB 0 1"), ok());
            let before = reader.say("INCRBY c 0").int();
            std::thread::sleep(Duration::from_millis(2));
            let after = reader.say("INCRBY c 0").int();
            assert!(after - before <= 1, "round {round}: {before}, {after}");
        }
    });
}

#[test]
fn hot_keys_are_shown_with_their_database() {
    let server = TestServer::new();
    let mut wire = server.connect();
    for number in [0, 3] {
        wire.say(&format!("SELECT {number}"));
        (0..400).for_each(|_| _ = wire.say("GET hot"));
    }
    let text = wire.say("INFO hotkeys").text();
    let keys = text.lines().filter(|line| line.ends_with("key=hot"));
    let mut databases: Vec<_> = keys.map(|line| line.contains(",db=3,key=")).collect();
    databases.sort();
    assert_eq!(databases, [false, true], "{text}");
}

#[test]
fn changes_are_reported_with_their_database() {
    let server = TestServer::new();
    let (mut writer, mut listener) = (server.connect(), server.connect());
    writer.say("CONFIG SET notify-keyspace-events KEA");
    listener.say("PSUBSCRIBE __keyevent*");
    writer.say("SELECT 2");
    writer.say("SET k v");
    writer.say("MOVE k 3");
    writer.say("SELECT 3");
    writer.say("PEXPIRE k 1");
    let expected = ["@2__:set", "@2__:move_from", "@3__:move_to", "@3__:expire", "@3__:expired"];
    for event in expected {
        let message = listener.reply();
        assert_eq!(message.items()[2], bulk(&format!("__keyevent{event}")));
        assert_eq!(message.items()[3], bulk("k"));
    }
}

#[test]
fn databases_come_back_after_a_restart_by_log_and_by_snapshot() {
    let folder = std::env::temp_dir().join(format!("hotring-it-databases-{}", std::process::id()));
    let log = LogSettings { is_on: true, data: folder.clone(), ..LogSettings::default() };
    let start = || TestServer::with(|config| config.log = log.clone());
    let server = start();
    let mut wire = server.connect();
    for number in 0..4 {
        wire.say(&format!("SELECT {number}"));
        wire.say(&format!("MSET k {number} only{number} x"));
        wire.say("HSET h f v");
    }
    wire.say("SWAPDB 1 2");
    wire.say("SELECT 3");
    wire.say("FLUSHDB");
    wire.say("SET late 3");
    let check = |server: &TestServer| {
        let mut wire = server.connect();
        for (number, value) in [(0, "0"), (1, "2"), (2, "1")] {
            wire.say(&format!("SELECT {number}"));
            assert_eq!(wire.say("GET k"), bulk(value), "database {number}");
            assert_eq!(wire.say(&format!("EXISTS only{value} h")).int(), 2);
            assert_eq!(wire.say("DBSIZE").int(), 3);
        }
        wire.say("SELECT 3");
        assert_eq!((wire.say("GET late"), wire.say("DBSIZE").int()), (bulk("3"), 1));
    };
    server.stop();
    let server = start();
    check(&server);
    let mut wire = server.connect();
    assert_eq!(wire.say("SAVE"), ok());
    wire.say("SELECT 5");
    wire.say("SET behind 1");
    server.stop();
    let server = start();
    check(&server);
    let mut wire = server.connect();
    wire.say("SELECT 5");
    assert_eq!((wire.say("GET behind"), wire.say("DBSIZE").int()), (bulk("1"), 1));
    server.stop();
    fs::remove_dir_all(&folder).ok();
}

/// A pipeline's keys are looked up ahead, by the hashes of one database.
#[test]
fn requests_behind_a_select_in_one_pipeline_are_of_its_database() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.send(b"SELECT 1\r\nSET a 1\r\nSET b 2\r\nSET c 3\r\nINCR a\r\nGET c\r\n");
    for expected in [ok(), ok(), ok(), ok(), Reply::Int(2), bulk("3")] {
        assert_eq!(wire.reply(), expected);
    }
    assert_eq!(wire.say("GET a"), bulk("2"));
    assert_eq!(wire.say("SET a 4"), ok());
    assert_eq!(wire.say("DBSIZE"), Reply::Int(3));
    assert_eq!(wire.say("DEL a b c"), Reply::Int(3));
    assert_eq!(wire.say("DBSIZE"), Reply::Int(0));
}
