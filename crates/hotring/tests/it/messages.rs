//! Messages beside a Redis client, and what clients of messages are told when servers and connections die.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hotring_messages::message::{Operation, Status};
use hotring_messages::{
    Blocking, Fabric, Given, Login, Options, Outcome, Provider, Reason, Unstarted,
};
use rustix::process::Signal;

use crate::{Folder, Server, hotring, say};

const LIMIT: Duration = Duration::from_secs(60);

/// The settings' defaults.
const MESSAGE_LEN_MAX: usize = 64 << 10;

fn start(fabric: &str, more: &[&str]) -> Server {
    let fabric = match Provider::split(fabric) {
        (None, _) => format!("sockets,{fabric}"),
        (Some(_), _) => fabric.to_string(),
    };
    let mut command = hotring(&["serve", "--listen", "127.0.0.1:0", "--fabric", &fabric]);
    Server::start(command.args(more))
}

pub fn client(server: &Server, user: &str, password: &str) -> Blocking {
    connect(server, user, password, None)
}

pub fn connect(
    server: &Server,
    user: &str,
    password: &str,
    datagrams: Option<Duration>,
) -> Blocking {
    let (user, password) = (user.into(), password.into());
    let login = Login { user, password };
    let options = Options {
        retry: Duration::from_secs(5),
        datagrams,
        queue_max: 1,
        message_len_max: MESSAGE_LEN_MAX,
    };
    Blocking::connect(&server.fabric, login, options).expect("the server listens")
}

fn call(client: &mut Blocking, operations: &[Operation<'_>]) -> Outcome {
    client.call(operations, LIMIT).expect("it fits")
}

/// The only answer.
pub fn ask(client: &mut Blocking, operation: Operation<'_>) -> Given {
    match call(client, &[operation]) {
        Outcome::Done(mut given) => given.remove(0).expect("the checksum is right"),
        outcome => panic!("{operation:?}: {outcome:?}"),
    }
}

#[test]
fn messages_and_redis_share_keys() {
    share_keys(start("127.0.0.1:0", &["--history", "4"]));
}

/// An address of a provider in a folder. None if the machine has no such provider.
fn place(provider: Provider, folder: &Folder) -> Option<String> {
    let socket = format!("unix:{}", folder.0.join("messages").display());
    match Fabric::new(provider, &socket, 1, 64) {
        Ok(_) => Some(format!("{},{socket}", provider.name())),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

#[test]
fn messages_over_libfabric_and_redis_share_keys() {
    for provider in [Provider::Shm, Provider::Tcp] {
        let folder = Folder::new(&format!("messages-{}", provider.name()));
        let Some(address) = place(provider, &folder) else { continue };
        share_keys(start(&address, &["--history", "4", "--fabric-spin", "20"]));
    }
}

#[test]
fn a_provider_that_is_not_there_is_told() {
    for (fabric, told) in [("efa,127.0.0.1:0", "libfabric"), ("shm,127.0.0.1:0", "shm,unix:PATH")] {
        let mut command = hotring(&["serve", "--listen", "127.0.0.1:0", "--fabric", fabric]);
        let output = command.output().expect("the program runs");
        assert!(!output.status.success());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(told), "{error}");
    }
}

fn share_keys(mut server: Server) {
    let (mut redis, mut client) = (server.connect(), client(&server, "", ""));
    let (key, other) = (&b"k"[..], &b"other"[..]);
    assert_eq!(say(&mut redis, "SET k 41"), "+OK");
    let given = match call(
        &mut client,
        &[
            Operation::Increment { key, by: 1 },
            Operation::Get { key },
            Operation::Get { key: other },
            Operation::Update { key: other, value: b"v" },
            Operation::Set { key: other, value: b"v", expiry_ms: 100_000 },
            Operation::Expire { key: other, after_ms: 0 },
            Operation::Delete { key: other },
        ],
    ) {
        Outcome::Done(given) => {
            given.into_iter().map(|one| one.expect("right")).collect::<Vec<_>>()
        }
        outcome => panic!("{outcome:?}"),
    };
    let statuses: Vec<Status> = given.iter().map(|given| given.status).collect();
    use Status::{Absent, Conflict, Done, TimedOut};
    assert_eq!(statuses, [Done, Done, Absent, Absent, Done, Done, Absent]);
    assert_eq!((&given[0].value, &given[1].value), (&b"42".to_vec(), &b"42".to_vec()));
    let version = given[1].version;
    assert_eq!(say(&mut redis, "INCR k"), ":43");
    let swap = Operation::CompareAndSet { key, value: b"x", version };
    assert_eq!(ask(&mut client, swap).status, Conflict, "Redis's client has written");
    let back = Operation::Rollback { key, version: 1 };
    assert_eq!(ask(&mut client, Operation::History { key, count: 9 }).status, Done);
    assert_eq!(ask(&mut client, back).status, Done);
    assert_eq!(say(&mut redis, "INCR k"), ":42", "it was the first value again");
    let long = vec![b'x'; MESSAGE_LEN_MAX];
    let set = Operation::Set { key, value: &long, expiry_ms: 0 };
    assert_eq!(client.call(&[set], LIMIT), Err(Unstarted::TooLong));
    assert_eq!(say(&mut redis, &format!("SETRANGE k {MESSAGE_LEN_MAX} x")), ":65537");
    assert_eq!(ask(&mut client, Operation::Get { key }).status, Status::Failed);
    let change = Operation::WaitForChange { key: other, limit_ms: 20 };
    assert_eq!(ask(&mut client, change).status, TimedOut);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(say(&mut redis, "SET other now"), "+OK");
        });
        let value = Operation::WaitForValue { key: other, value: b"now", limit_ms: 60_000 };
        assert_eq!(ask(&mut client, value).status, Done);
    });
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
}

/// It went on until its own end, and so did those behind it: they took the places of others.
#[test]
fn a_wait_ends_at_the_server_with_its_call() {
    let server = start("127.0.0.1:0", &["--fabric-window", "1"]);
    let mut client = client(&server, "", "");
    let wait = |limit_ms| Operation::WaitForChange { key: b"k", limit_ms };
    let late = client.call(&[wait(600_000)], Duration::from_millis(200)).expect("it fits");
    // On a busy machine the server's word may come before the client looks at its clock.
    let is_over =
        |given: &Option<Given>| matches!(given, Some(given) if given.status == Status::TimedOut);
    match late {
        Outcome::NotDone(Reason::Late) => {}
        Outcome::Done(given) if given.iter().all(is_over) => {}
        other => panic!("{other:?}"),
    }
    let begun = Instant::now();
    loop {
        let given = ask(&mut client, wait(20));
        if given.status == Status::TimedOut {
            break;
        }
        let why = String::from_utf8_lossy(&given.value);
        assert!(given.status == Status::Failed && begun.elapsed() < LIMIT / 6, "{why}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_wrong_password_is_denied() {
    let server = start("127.0.0.1:0", &["--requirepass", "secret"]);
    let mut redis = server.connect();
    assert_eq!(say(&mut redis, "AUTH secret"), "+OK");
    assert_eq!(say(&mut redis, "ACL SETUSER reader on >pw ~a* +get"), "+OK");
    let get = Operation::Get { key: b"a" };
    for (user, password) in [("", ""), ("", "wrong"), ("reader", "secret"), ("stranger", "pw")] {
        let outcome = call(&mut client(&server, user, password), &[get]);
        assert_eq!(outcome, Outcome::NotDone(Reason::Denied), "{user} {password}");
    }
    assert_eq!(ask(&mut client(&server, "", "secret"), get).status, Status::Absent);
    let mut reader = client(&server, "reader", "pw");
    assert_eq!(ask(&mut reader, get).status, Status::Absent);
    let delete = ask(&mut reader, Operation::Delete { key: b"a" });
    assert_eq!(delete.status, Status::Failed);
    assert!(delete.value.starts_with(b"NOPERM "), "{delete:?}");
    assert_eq!(say(&mut redis, "ACL DELUSER reader"), ":1");
    let gone = ask(&mut reader, get);
    assert!(gone.value.starts_with(b"NOAUTH "), "{gone:?}");
    assert_eq!(call(&mut reader, &[get]), Outcome::NotDone(Reason::Denied));
}

/// Counts increments of `n`, each within `limit`, until `stops`: done, and of unknown fate.
pub fn count(client: &mut Blocking, limit: Duration, stops: &AtomicBool) -> (i64, i64) {
    let (mut done, mut unknown) = (0, 0);
    while !stops.load(Ordering::Relaxed) {
        let add = Operation::Increment { key: b"n", by: 1 };
        match client.call(&[add], limit).expect("it fits") {
            Outcome::Done(given) => match given[0].as_ref().expect("right").status {
                Status::Done => done += 1,
                Status::Unknown => unknown += 1,
                // It was not run.
                _ => {}
            },
            Outcome::Unknown => unknown += 1,
            Outcome::NotDone(_) => {}
        }
    }
    (done, unknown)
}

pub fn value_of_n(server: &Server) -> i64 {
    let reply = say(&mut server.connect(), "INCRBY n 0");
    reply.trim_start_matches(':').parse().expect("a number")
}

#[test]
fn a_client_whose_connections_are_killed_writes_once() {
    write_once(None);
}

/// The first of these is so short that most answers are asked for again.
#[test]
fn a_client_whose_connections_are_killed_writes_once_with_answers_as_datagrams() {
    for datagrams in [Duration::from_micros(50), Duration::from_millis(20)] {
        write_once(Some(datagrams));
    }
}

/// Whether the server has a socket for datagrams at the port of its messages.
fn has_datagrams(server: &Server) -> bool {
    let port = server.fabric.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let end = format!(":{:04X}", port.expect("it listens at a port"));
    let table = std::fs::read_to_string("/proc/net/udp").expect("the system has it");
    table.lines().filter_map(|line| line.split_whitespace().nth(1)).any(|own| own.ends_with(&end))
}

#[test]
fn only_clients_that_ask_get_datagrams_and_only_if_the_server_has_them() {
    let get = Operation::Get { key: b"k" };
    for (max, wanted, expected) in
        [("1400", None, false), ("1400", Some(LIMIT), true), ("0", Some(LIMIT), false)]
    {
        let server = start("127.0.0.1:0", &["--fabric-max-datagram", max]);
        let mut client = connect(&server, "", "", wanted);
        assert_eq!(ask(&mut client, get).status, Status::Absent);
        assert_eq!(has_datagrams(&server), expected, "{max} {wanted:?}");
    }
}

fn write_once(datagrams: Option<Duration>) {
    let server = start("127.0.0.1:0", &[]);
    let mut client = connect(&server, "", "", datagrams);
    let stops = AtomicBool::new(false);
    let (done, unknown) = std::thread::scope(|scope| {
        let counts = scope.spawn(|| count(&mut client, LIMIT, &stops));
        let mut redis = server.connect();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(200));
            while say(&mut redis, "CLIENT KILL TYPE normal SKIPME yes") != ":1" {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        stops.store(true, Ordering::Relaxed);
        counts.join().expect("it does not panic")
    });
    assert_eq!((value_of_n(&server), unknown), (done, 0));
    assert!(done > 100, "{done}");
}

/// Kills of a server, unless `HOTRING_KILLS` says otherwise.
const KILLS: u64 = 3;

#[test]
fn a_killed_server_has_applied_what_was_told() {
    let folder = Folder::new("messages-killed");
    be_killed("127.0.0.1:0", &folder);
}

#[test]
fn a_killed_server_over_shared_memory_has_applied_what_was_told() {
    let folder = Folder::new("messages-killed-shm");
    if let Some(address) = place(Provider::Shm, &folder) {
        be_killed(&address, &folder);
    }
}

fn be_killed(fabric: &str, folder: &Folder) {
    let data = folder.0.join("data");
    let serve =
        |fabric: &str| start(fabric, &["--log", "sync", "--data", data.to_str().expect("text")]);
    let mut server = serve(fabric);
    let fabric = server.fabric.clone();
    let mut client = client(&server, "", "");
    let (mut done, mut unknown) = (0, 0);
    let set = std::env::var("HOTRING_KILLS").ok();
    let kills = set.map_or(KILLS, |text| text.parse().expect("HOTRING_KILLS is a number"));
    for round in 0..kills {
        let stops = AtomicBool::new(false);
        let counts = std::thread::scope(|scope| {
            let counts = scope.spawn(|| count(&mut client, LIMIT, &stops));
            std::thread::sleep(Duration::from_millis(300));
            server.signal(Signal::KILL);
            server.end();
            server = serve(&fabric);
            std::thread::sleep(Duration::from_millis(300));
            stops.store(true, Ordering::Relaxed);
            counts.join().expect("it does not panic")
        });
        (done, unknown) = (done + counts.0, unknown + counts.1);
        let value = value_of_n(&server);
        assert!(
            (done..=done + unknown).contains(&value),
            "round {round}: {value}, {done}, {unknown}"
        );
    }
    assert!(done > 0 && unknown > 0, "{done} {unknown}");
}
