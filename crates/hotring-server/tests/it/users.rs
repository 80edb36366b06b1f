//! Tests of users over real sockets: passwords, changes of rights, the ACL file, protected mode.

use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hotring_log::wire::WIRE_VERSION;
use hotring_server::{Config, CoordinatorAddress, Secret, start};

use crate::wire::{Reply, TestServer, Wire, bulk, ok, request};

fn noauth() -> Reply {
    Reply::Error("NOAUTH Authentication required.".into())
}

#[test]
fn a_password_is_asked_for() {
    let server = TestServer::with(|c| c.requirepass = Secret::new("secret"));
    let mut wire = server.connect();
    assert_eq!(wire.say("SET k v"), noauth());
    // A client that knows the password sends its complete pipeline at once.
    wire.send(&[request(&["AUTH", "secret"]), request(&["SET", "k", "v"])].concat());
    assert_eq!([wire.reply(), wire.reply()], [ok(), ok()]);
    assert!(server.connect().say("HELLO 3").is_error());
    let mut other = server.connect();
    assert!(matches!(other.say("HELLO 3 AUTH default secret"), Reply::Map(_)));
    assert_eq!(other.say("GET k"), bulk("v"));
}

#[test]
fn rights_change_for_connections_that_are_open() {
    let server = TestServer::new();
    let mut admin = server.connect();
    assert_eq!(admin.say("ACL SETUSER u on >pw +@all ~a* &news"), ok());
    let mut users: Vec<Wire> = (0..4).map(|_| server.connect()).collect();
    for user in &mut users {
        assert_eq!(user.say("AUTH u pw"), ok());
        assert_eq!(user.say("SET a 1"), ok());
    }
    let mut listener = server.connect();
    assert_eq!(listener.say("AUTH u pw"), ok());
    listener.say("SUBSCRIBE news");
    // As soon as the change is acknowledged, it holds on all threads.
    for _ in 0..20 {
        assert_eq!(admin.say("ACL SETUSER u -set"), ok());
        assert!(users.iter_mut().all(|user| user.say("SET a 1").is_error()));
        assert_eq!(admin.say("ACL SETUSER u +set"), ok());
        assert!(users.iter_mut().all(|user| user.say("SET a 1") == ok()));
    }
    assert_eq!(admin.say("PUBLISH news x"), Reply::Int(1));
    assert_eq!(listener.reply().items()[2], bulk("x"));
    assert_eq!(admin.say("ACL SETUSER u resetchannels &other"), ok());
    assert!(listener.is_closed(), "it may no longer listen to what it listens to");
    assert_eq!(users[0].say("GET a"), bulk("1"), "who does not listen stays");
    let list = admin.say("CLIENT LIST").text();
    assert_eq!(list.matches(" user=u ").count(), 4, "{list}");
    assert_eq!(admin.say("CLIENT KILL USER u SKIPME no").int(), 4);
    assert!(users.iter_mut().all(Wire::is_closed));
    let mut user = server.connect();
    assert_eq!(user.say("AUTH u pw"), ok());
    assert_eq!(admin.say("ACL DELUSER u"), Reply::Int(1));
    assert!(user.is_closed());
    assert_eq!(admin.say("PING"), Reply::Simple("PONG".into()));
}

/// A link is no client any more, but must not outlive the right to begin it: one to the coordinator may write any
/// record of the cluster.
#[test]
fn links_to_other_nodes_end_with_the_rights_of_their_user() {
    const HELLO_MAX: Duration = Duration::from_secs(10);
    let server = TestServer::with(|c| {
        c.replication.cluster.coordinator = Some(CoordinatorAddress::Embedded);
    });
    let mut admin = server.connect();
    let replicate = format!("HOTRING.REPLICATE {WIRE_VERSION} 1");
    for begins in ["HOTRING.COORDINATE 1", &replicate] {
        let right = begins.split(' ').next().unwrap();
        for ends in ["CLIENT KILL USER u", &format!("ACL SETUSER u -{right}"), "ACL DELUSER u"] {
            assert_eq!(admin.say(&format!("ACL SETUSER u on >pw +{right}")), ok());
            let mut link = server.connect();
            assert_eq!([link.say("AUTH u pw"), link.say(begins)], [ok(), ok()], "{begins}");
            assert_eq!(admin.say("ACL SETUSER u >another"), ok());
            assert!(link.is_silent_for(Duration::from_millis(50)), "a right that stays");
            let begun = Instant::now();
            assert!(!admin.say(ends).is_error(), "{ends}");
            assert!(link.is_closed() && begun.elapsed() < HELLO_MAX / 2, "{begins}, {ends}");
        }
    }
}

#[test]
fn a_client_that_kills_itself_gets_its_reply_first() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.say("ACL SETUSER u on nopass +@all");
    assert_eq!(wire.say("AUTH u x"), ok());
    wire.send(&[request(&["ACL", "DELUSER", "u"]), request(&["SET", "k", "v"])].concat());
    assert_eq!(wire.reply(), Reply::Int(1));
    assert!(wire.is_closed());
    assert_eq!(server.connect().say("EXISTS k"), Reply::Int(0), "nothing behind it ran");
}

#[test]
fn wrong_passwords_delay_no_other_client() {
    const DELAY_MS: u64 = 100;
    const TRIES: usize = 10;
    let server = TestServer::with(|c| {
        c.requirepass = Secret::new("secret");
        c.auth_failure_delay_ms = DELAY_MS;
    });
    let mut guesser = server.connect();
    let begun = Instant::now();
    guesser.send(&request(&["AUTH", "nonsense"]).repeat(TRIES));
    let mut good = server.connect();
    assert_eq!(good.say("AUTH secret"), ok());
    assert_eq!(good.say("PING"), Reply::Simple("PONG".into()));
    for _ in 0..TRIES {
        assert!(guesser.reply().text().starts_with("WRONGPASS "));
    }
    // In parallel they take as long as one after the other.
    let least = Duration::from_millis(DELAY_MS * TRIES as u64);
    assert!(begun.elapsed() >= least, "{:?} for {TRIES} tries", begun.elapsed());
    assert_eq!(guesser.say("AUTH secret"), ok(), "it may go on");
    let stats = good.say("INFO stats").text();
    assert!(stats.contains("acl_access_denied_auth:10\r\n"), "{stats}");
    // The server must not wait for a connection that is held back.
    assert_eq!(good.say("CONFIG SET auth-failure-delay 60000"), ok());
    let mut last = server.connect();
    last.send(&request(&["AUTH", "nonsense"]));
    while !good.say("INFO stats").text().contains("acl_access_denied_auth:11\r\n") {}
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn a_client_that_does_not_authenticate_in_time_is_closed() {
    let server = TestServer::with(|c| {
        c.requirepass = Secret::new("secret");
        c.handshake_timeout_s = 2;
    });
    let mut knows = server.connect();
    assert_eq!(knows.say("AUTH secret"), ok());
    let mut silent = server.connect();
    let mut talks = server.connect();
    assert_eq!(talks.say("PING"), noauth());
    assert!(silent.is_closed() && talks.is_closed());
    assert_eq!(knows.say("PING"), Reply::Simple("PONG".into()));
    // A user that drops its rights gets a time limit again.
    knows.send(&[request(&["RESET"]), request(&["AUTH", "secret"])].concat());
    assert_eq!([knows.reply(), knows.reply()], [Reply::Simple("RESET".into()), ok()]);
}

/// A file that is removed after the test.
struct AclFile(PathBuf);

impl AclFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hotring-{name}-{}.acl", std::process::id()));
        std::fs::write(&path, text).unwrap();
        AclFile(path)
    }
}

impl Drop for AclFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

#[test]
fn users_come_from_a_file_and_go_there() {
    let file = AclFile::new("users", "user alice on >pw ~* +@all\nuser default off\n");
    let server = TestServer::with(|c| {
        c.aclfile = Some(file.0.clone());
        c.requirepass = Secret::new("not-used-while-the-file-names-the-user");
    });
    let mut wire = server.connect();
    assert_eq!(wire.say("PING"), noauth());
    assert_eq!(wire.say("AUTH alice pw"), ok());
    assert_eq!(wire.say("ACL SETUSER bob on nopass +get ~b*"), ok());
    assert_eq!(wire.say("ACL SAVE"), ok());
    let saved = std::fs::read_to_string(&file.0).unwrap();
    assert_eq!(saved.lines().count(), 3, "{saved}");
    assert!(saved.contains("\nuser bob on nopass sanitize-payload ~b* resetchannels -@all +get\n"));
    assert!(!saved.contains(">pw"), "passwords are kept as digests: {saved}");
    let mut bob = server.connect();
    assert_eq!(bob.say("AUTH bob x"), ok());
    // A faulty file changes nothing.
    std::fs::write(&file.0, "user alice on >pw ~* +@all\nuser carol +nonsense\n").unwrap();
    let error = wire.say("ACL LOAD").text();
    assert!(error.starts_with("ERR ") && error.contains(":2: "), "{error}");
    assert!(error.contains("'+nonsense': Unknown command or category name in ACL"), "{error}");
    assert_eq!(bob.say("GET b"), Reply::Null);
    server.reload();
    assert_eq!(bob.say("GET b"), Reply::Null);
    // Users in the file stay, with its rights; the connections of others are closed.
    std::fs::write(&file.0, "user alice on nopass ~* +@all -get\n").unwrap();
    server.reload();
    assert!(bob.is_closed());
    assert!(wire.say("GET k").is_error());
    assert_eq!(wire.say("ACL USERS").items(), [bulk("alice"), bulk("default")]);
    // Without its line the default user gets the password of the settings. Regression test: it had
    // none.
    assert_eq!(server.connect().say("PING"), noauth());
    assert_eq!(server.connect().say("AUTH not-used-while-the-file-names-the-user"), ok());
    assert_eq!(wire.say("ACL LOAD"), ok());
    assert_eq!(server.connect().say("PING"), noauth());
    std::fs::remove_file(&file.0).unwrap();
    assert!(wire.say("ACL LOAD").text().contains("opening file"));
}

/// Regression test: the default user started without a password.
#[test]
fn a_file_without_the_default_user_leaves_it_its_password() {
    let file = AclFile::new("no-default", "user alice on >pw ~* +@all\n");
    let server = TestServer::with(|c| {
        c.aclfile = Some(file.0.clone());
        c.requirepass = Secret::new("secret");
    });
    let mut wire = server.connect();
    assert_eq!(wire.say("PING"), noauth());
    assert_eq!(wire.say("AUTH secret"), ok());
    assert_eq!(wire.say("ACL SETUSER default nopass"), ok());
    assert_eq!(server.connect().say("PING"), Reply::Simple("PONG".into()));
    // The same text as before still counts as a change.
    assert_eq!(wire.say("CONFIG SET requirepass secret"), ok());
    assert_eq!(server.connect().say("PING"), noauth());
    wire.send(&request(&[&b"CONFIG"[..], b"SET", b"requirepass", b"\xff"]));
    let refused = wire.reply().text();
    assert!(refused.ends_with("(possibly related to argument 'requirepass') - must be UTF-8"));
    assert_eq!(server.connect().say("AUTH secret"), ok());
}

#[test]
fn a_server_does_not_start_with_a_wrong_file() {
    let file = AclFile::new("wrong", "user alice on >pw\nuser alice off\n");
    let config = Config { port: 0, aclfile: Some(file.0.clone()), ..Config::default() };
    let error = start(config).err().expect("it does not start").to_string();
    assert!(error.contains("Duplicate user 'alice' found on line 2"), "{error}");
}

/// An address of this machine that others could reach, if there is one.
fn outer_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: this only chooses the source address of a packet.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn other_machines_are_refused_until_there_is_a_password() {
    let Some(outer) = outer_address() else {
        return eprintln!("skipped: this machine has no address that others could reach");
    };
    let server = TestServer::with(|c| {
        c.listen = vec!["0.0.0.0:0".to_string()];
        c.admin = Some("127.0.0.1:0".to_string());
    });
    let port = server.address.port();
    let mut inner = Wire::connect(([127, 0, 0, 1], port).into());
    let from_outside = || Wire::connect((outer, port).into());
    let is_refused = || {
        let reply = String::from_utf8(from_outside().read_to_end()).unwrap();
        assert!(reply.starts_with("-DENIED ") && reply.ends_with("\r\n"), "{reply}");
    };
    is_refused();
    let refused = |reason: &str| {
        let name = format!("hotring_connections_rejected_total{{reason=\"{reason}\"}}");
        crate::admin::metrics(server.admin())[&name]
    };
    assert_eq!((refused("maxclients"), refused("protected-mode")), (0.0, 1.0));
    assert!(inner.say("INFO stats").text().contains("rejected_connections:1\r\n"));
    assert_eq!(inner.say("CONFIG SET requirepass secret"), ok());
    let mut outside = from_outside();
    assert_eq!(outside.say("AUTH secret"), ok());
    assert_eq!(inner.ask(&["CONFIG", "SET", "requirepass", ""]), ok());
    is_refused();
    assert_eq!(outside.say("PING"), Reply::Simple("PONG".into()), "an open connection stays open");
    assert_eq!(inner.say("CONFIG SET protected-mode no"), ok());
    assert_eq!(from_outside().say("PING"), Reply::Simple("PONG".into()));
    assert_eq!(inner.say("CONFIG SET protected-mode yes"), ok());
    is_refused();
    // Every client needs a name and a password: that is protection enough.
    assert_eq!(inner.say("ACL SETUSER admin on >pw +@all ~*"), ok());
    assert_eq!(inner.say("ACL SETUSER default off"), ok());
    assert_eq!(from_outside().say("AUTH admin pw"), ok());
}
