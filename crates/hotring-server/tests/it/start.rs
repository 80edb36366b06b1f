//! Tests of start and end: unavailable addresses, unix sockets, SHUTDOWN, the last replies.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use hotring_server::{Config, start};

use crate::wire::{Reply, TestServer, request};

fn failure(config: Config) -> String {
    match start(config) {
        Ok(_) => panic!("the server started"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_port_in_use_is_named_with_advice() {
    let server = TestServer::new();
    let config = Config { listen: vec![server.address.to_string()], ..Config::default() };
    let error = failure(config);
    assert!(error.contains(&format!("cannot listen on {}", server.address)), "{error}");
    assert!(error.contains("--listen"), "{error}");
}

#[test]
fn several_addresses_and_a_unix_socket_serve_the_same_keys() {
    let path = std::env::temp_dir().join(format!("hotring-it-{}.sock", std::process::id()));
    let server = TestServer::with(|c| {
        c.listen = vec!["127.0.0.1:0".to_string(), "127.0.0.2:0".to_string()];
        c.unixsocket = Some(path.clone());
    });
    assert_eq!(server.connect().say("SET a 1").text(), "OK");
    let mut unix = UnixStream::connect(&path).unwrap();
    unix.write_all(b"GET a\r\nCLIENT INFO\r\nQUIT\r\n").unwrap();
    let mut text = String::new();
    unix.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("$1\r\n1\r\n"), "{text}");
    assert!(text.contains(&format!("laddr={}:0", path.display())), "{text}");
    let other = Config { port: 0, unixsocket: Some(path.clone()), ..Config::default() };
    assert!(failure(other.clone()).contains("another server listens there"));
    server.stop();
    assert!(!path.exists(), "the socket's file is left behind");
    // A socket left by a killed server is replaced; any other file is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let running = start(other.clone()).unwrap();
    running.stop();
    running.wait().unwrap();
    std::fs::write(&path, "precious").unwrap();
    assert!(failure(other).contains("is not a socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    std::fs::remove_file(&path).unwrap();
}

/// Regression test: with Redis's `port 0`, a free port was opened beside the socket.
#[test]
fn a_server_of_a_unix_socket_alone_opens_no_port() {
    let name = format!("hotring-it-alone-{}", std::process::id());
    let path = std::env::temp_dir().join(&name).with_extension("sock");
    let conf = std::env::temp_dir().join(name).with_extension("conf");
    std::fs::write(&conf, format!("port 0\nsave \"\"\nunixsocket {}\n", path.display())).unwrap();
    let mut config = Config { threads: 1, ..Config::default() };
    assert_eq!(config.read_redis_conf(&conf).unwrap(), Vec::<String>::new());
    std::fs::remove_file(conf).unwrap();
    let running = start(config).unwrap();
    assert_eq!(running.addresses(), []);
    let mut unix = UnixStream::connect(&path).unwrap();
    unix.write_all(b"PING\r\nCONFIG GET port\r\nQUIT\r\n").unwrap();
    let mut text = String::new();
    unix.read_to_string(&mut text).unwrap();
    assert_eq!(text, "+PONG\r\n*2\r\n$4\r\nport\r\n$1\r\n0\r\n+OK\r\n");
    running.stop();
    running.wait().unwrap();
}

#[test]
fn a_unix_socket_is_private_and_only_its_own_file_is_removed() {
    let dir = std::env::temp_dir().join(format!("hotring-it-own-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let (path, moved) = (dir.join("a.sock"), dir.join("b.sock"));
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let config =
        Config { port: 0, threads: 1, unixsocket: Some(path.clone()), ..Config::default() };
    let first = start(config.clone()).unwrap();
    assert_eq!(mode(), 0o700);
    // Another server takes the path while the first one runs: it keeps its socket.
    std::fs::rename(&path, &moved).unwrap();
    let second = start(Config { unixsocketperm: 0o660, ..config.clone() }).unwrap();
    assert_eq!(mode(), 0o660);
    first.stop();
    first.wait().unwrap();
    assert!(UnixStream::connect(&path).is_ok(), "the second server's file is gone");
    second.stop();
    second.wait().unwrap();
    assert!(!path.exists());
    // A socket that refuses connections although it is in use.
    let other_kind = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    assert!(failure(config).contains("it is unclear whether"));
    assert!(path.exists());
    drop(other_kind);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_stop_runs_received_requests_and_sends_the_replies() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let value = "v".repeat(1 << 20);
    assert_eq!(wire.ask(&["SET", "big", &value]).text(), "OK");
    // More than the kernel's buffers hold, so that most of it waits in the server.
    let n = 50;
    wire.send(&request(&["GET", "big"]).repeat(n));
    std::thread::sleep(std::time::Duration::from_millis(100));
    server.ask_to_stop();
    let all = wire.read_to_end();
    assert_eq!(all.len(), n * (value.len() + "$1048576\r\n\r\n".len()));
    server.stop();
}

#[test]
fn shutdown_ends_the_server_and_refuses_unsupported_options() {
    let server = TestServer::new();
    let mut wire = server.connect();
    assert_eq!(
        wire.say("SHUTDOWN SAVE"),
        Reply::Error("ERR Errors trying to SHUTDOWN. Check logs.".into())
    );
    assert!(wire.say("SHUTDOWN ABORT").is_error());
    assert!(wire.say("SHUTDOWN nonsense").is_error());
    wire.send(&request(&["SHUTDOWN", "NOSAVE"]));
    assert!(wire.is_closed());
    let address = server.address;
    server.stop();
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// The order of SCAN reveals the hash; two servers must not have the same.
#[test]
fn each_server_has_a_seed_of_its_own() {
    let order = || {
        let server = TestServer::new();
        let mut wire = server.connect();
        for i in 0..64 {
            assert_eq!(wire.say(&format!("SET key:{i} v")).text(), "OK");
        }
        let (mut keys, mut cursor) = (Vec::new(), "0".to_string());
        loop {
            let reply = wire.say(&format!("SCAN {cursor} COUNT 1000"));
            cursor = reply.items()[0].text();
            keys.extend(reply.items()[1].items().iter().map(Reply::text));
            if cursor == "0" {
                return keys;
            }
        }
    };
    let (first, second) = (order(), order());
    assert_eq!((first.len(), second.len()), (64, 64));
    assert_ne!(first, second, "both go by the same hash");
}
