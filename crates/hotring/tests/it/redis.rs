//! Tests of `export` and `import` with a real Redis: its RDB files, and a running server. Without a
//! `redis-server` of version 7 they print so and do nothing.

use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::transfer::{ask, code, end, fill, import, serve, values};
use crate::{Folder, Server, hotring, output, stderr};

/// A Redis process, killed on drop.
struct Redis {
    process: Child,
    address: String,
}

impl Redis {
    fn start(folder: &Folder, words: &[&str]) -> Option<Redis> {
        if !has_redis() {
            return None;
        }
        // Bound and released: the port is most likely still free a moment later.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .args(words)
            .current_dir(&folder.0)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let redis = Redis { process, address: address.to_string() };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&redis.address).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(redis)
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        BufReader::new(stream)
    }
}

/// Whether a `redis-server` of version 7 is installed. Prints so if it is not.
pub fn has_redis() -> bool {
    let version = Command::new("redis-server").arg("--version").output();
    let has = version.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains(" v=7."));
    if !has {
        eprintln!("skipped: there is no redis-server of version 7");
    }
    has
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Values in all of Redis's encodings, with checksums and compression on and off.
#[test]
fn a_file_of_redis_is_read() {
    for words in [
        &["--rdbcompression", "yes"][..],
        &["--rdbcompression", "no", "--rdbchecksum", "no", "--hash-max-listpack-entries", "0"],
    ] {
        let folder = Folder::new(&format!("rdb-{}", words.len()));
        let Some(redis) = Redis::start(&folder, words) else { return };
        let server = serve();
        fill(&mut redis.connect(), false);
        let mut stream = redis.connect();
        let (again, at) = (b"again and ".repeat(500), b"4000000000000");
        ask(&mut stream, &[b"HSET", b"packed", b"text", &again, b"n", b"-100000", b"", b"4095"]);
        ask(&mut stream, &[b"SET", &again, &again, b"PXAT", at]);
        ask(
            &mut stream,
            &[b"FUNCTION", b"LOAD", b"#!lua name=x\nredis.register_function('f', function() end)"],
        );
        assert_eq!(ask(&mut stream, &[b"SAVE"]), b"+OK");
        let file = folder.0.join("dump.rdb").display().to_string();
        let done = import(&server, &[&file]);
        assert_eq!(code(&done), Some(0), "{}", stderr(&done));
        assert!(
            stderr(&done).contains("; 1 functions or modules' data left out"),
            "{}",
            stderr(&done)
        );
        let theirs = values(&mut redis.connect());
        assert!(values(&mut server.connect()) == theirs, "they differ");
        ask(&mut stream, &[b"SADD", b"a bag", b"1"]);
        ask(&mut stream, &[b"ZADD", b"a set", b"1.5", b"m", b"inf", b"n"]);
        ask(&mut stream, &[b"RPUSH", b"a list", b"m", b"7", &again]);
        // A type that hotring lacks.
        ask(&mut stream, &[b"XADD", b"a stream", b"*", b"f", b"v"]);
        ask(&mut stream, &[b"XGROUP", b"CREATE", b"a stream", b"group", b"0"]);
        ask(&mut stream, &[b"SADD", b"few", b"1", b"2"]);
        assert_eq!(ask(&mut stream, &[b"SAVE"]), b"+OK");
        let refused = import(&server, &[&file]);
        assert_eq!(code(&refused), Some(2));
        assert!(stderr(&refused).contains(", which hotring does not have; --skip-unknown"));
        let done = import(&server, &["--skip-unknown", &file]);
        assert_eq!(code(&done), Some(0), "{}", stderr(&done));
        assert!(stderr(&done).contains("a stream: it is a stream: left out"), "{}", stderr(&done));
        assert!(stderr(&done).contains("; 1 of other types left out"), "{}", stderr(&done));
        ask(&mut stream, &[b"DEL", b"a stream"]);
        let theirs = values(&mut redis.connect());
        assert!(values(&mut server.connect()) == theirs, "they differ");
        end(server);
    }
}

#[test]
fn redis_is_a_server_too() {
    let folder = Folder::new("redis");
    let Some(redis) = Redis::start(&folder, &[]) else { return };
    let (server, other) = (serve(), serve());
    fill(&mut server.connect(), true);
    let file = folder.0.join("all.resp").display().to_string();
    let run = |name: &str, address: &str, words: &[&str]| {
        output(hotring(&[name, "--address", address]).args(words).arg(&file))
    };
    let done = run("export", &server.address, &[]);
    assert_eq!(code(&done), Some(0), "{}", stderr(&done));
    let done = run("import", &redis.address, &["--on-existing", "fail"]);
    assert_eq!(code(&done), Some(0), "{}", stderr(&done));
    assert!(values(&mut redis.connect()) == values(&mut server.connect()), "they differ");
    ask(&mut redis.connect(), &[b"XADD", b"a bag", b"*", b"f", b"v"]);
    let done = run("export", &redis.address, &["--format", "json"]);
    assert_eq!(code(&done), Some(1), "{}", stderr(&done));
    assert!(stderr(&done).contains("a bag: its type, a stream, cannot be exported"));
    let done = run("import", &other.address, &[]);
    assert_eq!(code(&done), Some(0), "{}", stderr(&done));
    assert!(values(&mut other.connect()) == values(&mut server.connect()), "they differ");
    end(server);
    end(other);
}

#[test]
fn a_server_is_started_as_a_replica_of_redis() {
    let folder = Folder::new("source");
    let Some(redis) = Redis::start(&folder, &[]) else { return };
    fill(&mut redis.connect(), false);
    let server = Server::start(&mut hotring(&[
        "serve",
        "--port",
        "0",
        "--replicaof-redis",
        &redis.address.replace(':', " "),
    ]));
    let (mut theirs, mut ours) = (redis.connect(), server.connect());
    assert_eq!(ask(&mut theirs, &[b"SET", b"last", b"of the copy"]), b"+OK");
    wait_for(&mut ours, b"of the copy");
    assert_eq!(ask(&mut theirs, &[b"SET", b"last", b"of the stream"]), b"+OK");
    wait_for(&mut ours, b"of the stream");
    assert!(values(&mut ours) == values(&mut theirs), "they differ");
    assert!(ask(&mut ours, &[b"SET", b"a", b"b"]).starts_with(b"-READONLY"));
    end(server);
}

/// Waits until the key "last" has this value.
fn wait_for(stream: &mut BufReader<TcpStream>, value: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while ask(stream, &[b"GET", b"last"]) != value {
        assert!(Instant::now() < deadline, "the replica lacks {}", value.escape_ascii());
        std::thread::sleep(Duration::from_millis(10));
    }
}
