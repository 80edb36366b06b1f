//! A proxy before servers that know nothing of each other: redis-server, memcached and hotring as they are.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hotring_proxy::{Proxy, Settings};
use rustix::process::{Pid, Signal, kill_process};

use super::memcached::Client;
use super::{connect, say, wait_for};
use crate::Folder;
use crate::nemesis::clients::Wire;

const REDIS: [&str; 6] = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];

/// A server that is killed on drop.
pub(super) struct Backend {
    process: Child,
    pub(super) address: String,
}

impl Backend {
    pub(super) fn redis(words: &[&str]) -> Backend {
        Backend::start("redis-server", "--port", &[&REDIS[..], words].concat())
    }

    pub(super) fn redis_over_tls(words: &[&str]) -> Backend {
        let all = [&REDIS[..], &["--port", "0"], words].concat();
        Backend::start("redis-server", "--tls-port", &all)
    }

    pub(super) fn memcached() -> Backend {
        Backend::memcached_with(&[])
    }

    pub(super) fn memcached_with(words: &[&str]) -> Backend {
        let all = [&["-l", "127.0.0.1", "-u", "root", "-t", "1"], words].concat();
        Backend::start("memcached", "-p", &all)
    }

    fn start(program: &str, port: &str, words: &[&str]) -> Backend {
        // Bound and released: the port is most likely still free a moment later.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(program);
        command.args([port, &address.port().to_string()]).args(words);
        let command = command.current_dir(std::env::temp_dir()).stdout(Stdio::null());
        let process = command.spawn().unwrap_or_else(|why| panic!("{program} is needed: {why}"));
        let backend = Backend { process, address: address.to_string() };
        wait_for("a server listens", || TcpStream::connect(&backend.address).is_ok());
        backend
    }

    pub(super) fn wire(&self) -> Wire {
        Wire::connect(&self.address).unwrap()
    }

    /// The number of its keys, if it is a Redis.
    pub(super) fn keys(&self) -> u32 {
        say(&mut self.wire(), "DBSIZE").parse().unwrap()
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// The file of a pool.
pub(super) struct File(Folder);

impl File {
    pub(super) fn new(name: &str) -> File {
        File(Folder::new(name))
    }

    pub(super) fn write(&self, options: &str, servers: &[(&str, &str, &str)]) -> &Self {
        let line = |(name, protocol, address): &(&str, &str, &str)| {
            format!("{name} = {{ address = \"{address}\", protocol = \"{protocol}\" }}\n")
        };
        let lines: String = servers.iter().map(line).collect();
        fs::write(self.0.0.join("pool.toml"), format!("{options}\n[servers]\n{lines}")).unwrap();
        self
    }

    pub(super) fn proxy(&self, settings: Settings) -> Proxy {
        let any = || vec!["127.0.0.1:0".parse().unwrap()];
        Proxy::start(Settings {
            listen: any(),
            memcached: any(),
            pool: Some(self.0.0.join("pool.toml")),
            threads: 2,
            ..settings
        })
        .unwrap()
    }
}

/// Servers of Redis for a pool, named by letters.
pub(super) fn listed(redis: &[Backend]) -> Vec<(&str, &str, &str)> {
    ["a", "b", "c"].into_iter().zip(redis).map(|(n, it)| (n, "redis", &*it.address)).collect()
}

pub(super) fn memcached(proxy: &Proxy) -> Client {
    Client::to(&proxy.addresses().last().unwrap().to_string())
}

/// The bytes of the replies to these requests. `mark` is a request and its reply, which shows where they end.
fn raw(address: &str, requests: &str, mark: (&str, &str)) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(format!("{requests}{}", mark.0).as_bytes()).unwrap();
    let (mut replies, mut chunk) = (Vec::new(), [0; 4096]);
    while !replies.ends_with(mark.1.as_bytes()) {
        let n = stream.read(&mut chunk).unwrap();
        assert!(n > 0, "{requests}: {}", String::from_utf8_lossy(&replies));
        replies.extend_from_slice(&chunk[..n]);
    }
    String::from_utf8(replies).unwrap()
}

/// Both of RESP's versions: each line alone, so that a difference names its request.
#[test]
fn redis_clients_of_a_memcached_get_the_bytes_of_redis() {
    let (redis, backend) = (Backend::redis(&[]), Backend::memcached());
    let file = File::new("pool-bytes-redis");
    let proxy = file.write("", &[("m", "memcached", &backend.address)]).proxy(Settings::default());
    let address = proxy.addresses()[0].to_string();
    let mark = ("ECHO mark\r\n", "$4\r\nmark\r\n");
    for hello in ["", "HELLO 3\r\n"] {
        let begin = |at: &str| match hello {
            "" => String::new(),
            _ => raw(at, hello, mark).split_at(2).0.to_string(),
        };
        assert_eq!(begin(&redis.address), begin(&address));
        raw(&redis.address, "FLUSHALL\r\n", mark);
        for line in [
            "FLUSHALL",
            "GET a",
            "SET a 1",
            "GET a",
            "SET a 2 NX",
            "SET a 2 XX",
            "SET b 2 XX",
            "SET b 5 NX EX 100",
            "TTL b",
            "TTL a",
            "TTL none",
            "PTTL none",
            "GET b",
            "SET c x PX 100000",
            "SET c y EX 0",
            "SET c y EX x",
            "SET c y NX XX",
            "SET c y EX",
            "SET c y PXAT 1",
            "GET c",
            "SETNX n 1",
            "SETNX n 2",
            "SETEX s 100 v",
            "SETEX s 0 v",
            "TTL s",
            "PSETEX s 0 v",
            "MGET a b none a",
            "MSET x 1 y 2 {x}z 3",
            "MGET x {x}z y",
            "DEL x {x}z y none",
            "EXISTS a a none",
            "TOUCH a none",
            "TYPE a",
            "TYPE none",
            "STRLEN b",
            "STRLEN none",
            "INCR i",
            "INCRBY i 41",
            "DECRBY i 2",
            "DECR i",
            "INCRBY i x",
            "INCR s",
            "GET i",
            "APPEND p ab",
            "APPEND p cde",
            "GET p",
            "EXPIRE p 100",
            "TTL p",
            "EXPIRE none 5",
            "EXPIRE p 0",
            "GET p",
            "EXPIREAT b 1",
            "EXISTS b",
            "GETEX a EX 100",
            "TTL a",
            "GETEX a PERSIST",
            "TTL a",
            "GETEX a EX 0",
            "UNLINK a none",
            "GET",
            "NONSENSE x",
            "SET big 2592001 EX 2592001",
            "SETEX long 1 ''",
            "GET long",
            "EXPIRE long x",
        ] {
            let request = format!("{hello}{line}\r\n");
            // What HELLO says of the server differs; the replies begin behind it.
            let own = |replies: String| match hello {
                "" => replies,
                _ => {
                    let modules = replies.find("modules\r\n*0\r\n").expect("the end of HELLO");
                    replies[modules..].to_string()
                }
            };
            let expected = own(raw(&redis.address, &request, mark));
            assert_eq!(own(raw(&address, &request, mark)), expected, "{line}");
        }
    }
    let mut wire = connect(&proxy);
    // A time of more than 30 days is a point in time for memcached, whose clock ticks once a second.
    let ttl: i64 = say(&mut wire, "TTL big").parse().unwrap();
    assert!((2_591_990..=2_592_003).contains(&ttl), "{ttl}");
    for (line, why) in [
        ("LPUSH l 1", "lpush does not work for keys on a memcached server"),
        ("SCAN 0", "memcached does not list its keys"),
        ("DBSIZE", "dbsize does not work for keys on a memcached server"),
        ("EVAL s 1 k", "eval does not work"),
        ("SUBSCRIBE c", "pass no messages on"),
        ("BLPOP a 0", "does not work over this pool"),
        ("WATCH a", "does not work over this pool"),
    ] {
        let reply = say(&mut wire, line);
        assert!(reply.starts_with("-ERR ") && reply.contains(why), "{line}: {reply}");
    }
    // What makes a whole transaction impossible fails before any of it is done.
    assert_eq!(say(&mut wire, "MULTI"), "OK");
    assert_eq!(say(&mut wire, "SET t 1"), "QUEUED");
    assert!(say(&mut wire, "EXEC").contains("multi does not work for keys on a memcached"));
    assert_eq!(say(&mut wire, "GET t"), "nil");
}

#[test]
fn memcached_clients_of_a_redis_get_the_bytes_of_memcached() {
    let (real, backend) = (Backend::memcached(), Backend::redis(&[]));
    let file = File::new("pool-bytes-memcached");
    let proxy = file.write("", &[("r", "redis", &backend.address)]).proxy(Settings::default());
    let address = proxy.addresses().last().unwrap().to_string();
    for line in [
        "get a",
        "set a 0 0 1¶x",
        "get a",
        "get a none a",
        "get none",
        "get {a}1 {a}2 a",
        "add a 0 0 1¶y",
        "add b 0 100 2¶yy",
        "replace a 0 0 1¶z",
        "replace none 0 0 1¶z",
        "append a 0 0 2¶12",
        "append none 0 0 1¶1",
        "prepend a 0 0 1¶0",
        "prepend none 0 0 1¶0",
        "get a b",
        "incr a 1",
        "set n 0 0 1¶7",
        "incr n 5",
        "decr n 2",
        "incr none 1",
        "incr n x",
        "get n",
        "decr n 100",
        "get nn",
        "delete n",
        "delete n",
        "delete a 5",
        "touch a 100",
        "touch a 0",
        "touch none 5",
        "touch none 0",
        "touch a x",
        "touch a -1",
        "get a",
        "set e 0 -1 1¶x",
        "get e",
        "add e 0 -1 1¶x",
        "replace b 0 -1 1¶x",
        "get b",
        "set q 0 0 1 noreply¶v",
        "get q",
        "append q 0 0 1 noreply¶w",
        "get q",
        "delete q noreply",
        "get q",
        "set f 0 2000000000 1¶x",
        "get f",
        "set x 0",
        "get",
        "nonsense",
        "set big 0 0 3¶abcd",
        "flush_all",
        "get f",
        "set z 0 0 0¶",
        "get z",
    ] {
        let request = format!("{line}¶").replace('¶', "\r\n");
        let mark = ("mn\r\n", "MN\r\n");
        let expected = raw(&real.address, &request, mark);
        assert_eq!(raw(&address, &request, mark), expected, "{line}");
    }
    let mut client = memcached(&proxy);
    for (request, why) in [
        ("gets a", "SERVER_ERROR gets does not work"),
        ("mg a v", "SERVER_ERROR mg does not work"),
        ("set a 5 0 1¶x", "SERVER_ERROR a Redis server keeps no flags"),
        ("cas a 0 0 1 1¶x", "SERVER_ERROR cas does not work"),
    ] {
        let reply = client.say(request);
        assert!(reply.starts_with(why), "{request}: {reply}");
    }
    assert_eq!(client.say("set a 5 0 1 noreply¶x¶get a"), "END¶");
}

/// The proxy writes these requests by itself.
#[test]
fn memcached_clients_of_a_memcached_get_its_bytes() {
    let (real, backend) = (Backend::memcached(), Backend::memcached());
    let file = File::new("pool-bytes-same");
    let proxy = file.write("", &[("m", "memcached", &backend.address)]).proxy(Settings::default());
    let address = proxy.addresses().last().unwrap().to_string();
    for line in [
        "  set  a +7 0 1¶x",
        "bget a",
        "gets a none a",
        "set b 4294967295 2147483647 2¶¶",
        "gets b",
        "cas a 1 0 2 1¶yy",
        "cas a 1 0 2 99¶zz",
        "cas none 1 0 2 99 noreply¶zz",
        "add a 0 0 1¶x",
        "replace a 5 100 1¶7",
        "append a 0 0 1¶0",
        "prepend a 0 0 1 noreply¶1",
        "incr a 5",
        "incr a 18446744073709551615",
        "decr a 1 noreply",
        "incr a x",
        "gat 0 a none",
        "gats 100 a",
        "gat x a",
        "touch a 0",
        "touch a x",
        "touch a -1 noreply",
        "get a",
        "ms m 2 T0 F5 c¶mm",
        "mg m v f k O12 c s t",
        "mg m v q",
        "mg none v q",
        "mg none v N30",
        "ms YQ== 1 b¶a",
        "mg YQ== b v k",
        "get a",
        "ma n N0 J5 v",
        "ma n D3 v",
        "ma n MD v q",
        "md n q",
        "mg n v",
        "ms m 1 MA¶m",
        "ms m 1 ME q¶m",
        "mg m s v",
        "mg m T",
        "mg m v v",
        "delete m 0",
        "delete m noreply",
        "delete m 5",
        "set a",
        "set a 0 0 1 noreply¶v",
        "flush_all noreply",
        "get a",
        "flush_all 0",
        "flush_all 100 noreply",
    ] {
        let request = format!("{line}¶").replace('¶', "\r\n");
        let mark = ("mn\r\n", "MN\r\n");
        let expected = raw(&real.address, &request, mark);
        assert_eq!(raw(&address, &request, mark), expected, "{line}");
    }
}

/// memcached takes a data block for commands if it refuses the line before it. With `noreply` it also answers the
/// proxy's mark, which was then taken for the end of another reply.
#[test]
fn lines_that_memcached_refuses_reach_no_other_client() {
    let backend = Backend::memcached();
    let file = File::new("pool-smuggled");
    let proxy = file.write("", &[("m", "memcached", &backend.address)]).proxy(Settings::default());
    let (mut other, mut client) = (memcached(&proxy), memcached(&proxy));
    assert_eq!(other.say("set victim 0 0 4¶mine"), "STORED¶");
    let (long, flags) = ("k".repeat(251), " O".repeat(20));
    let block = "set victim 0 0 4 noreply¶evil¶mn";
    let n = block.replace('¶', "\r\n").len();
    for line in [
        &format!("set {long} 0 0 {n}")[..],
        &format!("set k x 0 {n}"),
        &format!("set k -1 0 {n}"),
        &format!("set k 4294967296 0 {n}"),
        &format!("set k 0 x {n}"),
        &format!("add k 0 2147483648 {n}"),
        &format!("cas k 0 0 {n} x"),
        &format!("cas k 0 0 {n} 18446744073709551616"),
        &format!("replace k\0 0 0 {n}"),
        &format!("append k\x01 0 0 {n}"),
        &format!("prepend k\x7f 0 0 {n}"),
        &format!("set k \t0 0 {n}"),
        &format!("ms {long} {n}"),
        &format!("ms k {n}{flags}"),
        &format!("ms k {n} Z"),
        &format!("ms k {n} T0 T0"),
        &format!("ms k {n} Fx"),
        &format!("ms ! {n} b"),
        &format!("ms k\0 {n}"),
        &format!("ms k {n} O\0"),
    ] {
        let refused = client.say(&format!("{line}¶{block}"));
        assert!(refused.contains("ERROR"), "{line}: {refused}");
        assert_eq!(refused.matches('¶').count(), 1, "{line}: {refused}");
        let quiet = format!("{line} {}", if line.starts_with("ms") { "q" } else { "noreply" });
        let refused = client.say(&format!("{quiet}¶{block}¶get victim"));
        assert!(refused.ends_with("VALUE victim 0 4¶mine¶END¶"), "{quiet}: {refused}");
        assert_eq!(other.say("get victim"), "VALUE victim 0 4¶mine¶END¶", "{line}");
    }
    let keys = " victim".repeat(300);
    for line in [
        &format!("get victim {long}")[..],
        &format!("gets {long}"),
        "get victim\0",
        &format!("gat 0{keys}"),
        "gat x victim",
        &format!("incr {long} 1"),
        "decr victim -1",
        "touch victim \x010",
        &format!("delete {long}"),
        &format!("mg {long} v"),
        &format!("mg victim{flags}"),
        "md victim T",
        "ma victim Dx",
        "me victim\0",
        "flush_all x",
    ] {
        let refused = client.say(line);
        assert!(refused.starts_with("CLIENT_ERROR "), "{line}: {refused}");
        assert_eq!(refused.matches('¶').count(), 1, "{line}: {refused}");
        assert_eq!(other.say("get victim"), "VALUE victim 0 4¶mine¶END¶", "{line}");
    }
    // Nothing of this has ended the connection that all share.
    assert!(client.say(&format!("get{keys}")).ends_with("mine¶END¶"));
}

/// Commands run as the login of the pool's file, whoever asks.
#[test]
fn clients_learn_nothing_about_the_servers() {
    let backend = Backend::redis(&["--masterauth", "secret"]);
    let file = File::new("pool-config");
    let proxy = file.write("", &[("r", "redis", &backend.address)]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    assert_eq!(say(&mut wire, "CONFIG GET *"), "[]");
    assert_eq!(say(&mut wire, "ACL WHOAMI"), "default");
    for line in ["CONFIG SET masterauth x", "ACL LIST", "ACL CAT", "MEMORY STATS", "SLOWLOG GET"] {
        let reply = say(&mut wire, line);
        assert!(reply.contains("is about one node"), "{line}: {reply}");
    }
    let script = "EVAL \"return redis.call('CONFIG','GET','masterauth')\" 0";
    assert!(say(&mut wire, script).starts_with("-ERR This Redis command is not allowed"));
    assert_eq!(say(&mut wire, "EVAL 'return 7' 0"), "7");
    assert!(say(&mut wire, "TIME").starts_with('['));
    for line in ["CONFIG GET masterauth", "MEMORY STATS"] {
        assert_eq!(say(&mut wire, "MULTI"), "OK");
        let reply = say(&mut wire, line);
        assert!(reply.starts_with("-ERR "), "{line}: {reply}");
        assert!(say(&mut wire, "EXEC").starts_with("-EXECABORT"), "{line}");
    }
    assert!(say(&mut wire, "HELLO 3").starts_with("Map("));
    assert_eq!(say(&mut wire, "CONFIG GET save"), "Map([])");
}

/// A server may send replies without an end. The proxy must not keep all of it.
#[test]
fn a_reply_that_is_too_long_ends_its_connection_alone() {
    let servers = (Backend::redis(&[]), Backend::memcached());
    let listed =
        [("r", "redis", &servers.0.address[..]), ("m", "memcached", &servers.1.address[..])];
    for (name, protocol, address) in listed {
        let file = File::new(&format!("pool-long-{name}"));
        let settings = Settings { output_max: 1 << 20, ..Settings::default() };
        let proxy = file.write("", &[(name, protocol, address)]).proxy(settings);
        let (mut client, mut wire) = (memcached(&proxy), connect(&proxy));
        let value = "x".repeat(100_000);
        assert_eq!(client.say(&format!("set k 0 0 100000¶{value}")), "STORED¶");
        let keys = |n: usize| format!("get{}", " k".repeat(n));
        assert!(client.say(&keys(10)).ends_with("END¶"), "{name}");
        assert_eq!(say(&mut wire, "SET other 1"), "OK");
        let reply = client.say(&keys(11));
        assert!(reply.starts_with("SERVER_ERROR ") && reply.contains("too long"), "{name}");
        if name == "r" {
            let reply = say(&mut wire, &format!("MGET{}", " k".repeat(11)));
            assert!(reply.starts_with("-ERR ") && reply.contains("too long"), "{reply}");
        }
        assert_eq!(say(&mut wire, "GET other"), "1");
        assert_eq!(client.say("get other"), "VALUE other 0 1¶1¶END¶");
    }
}

/// An error must not hide what was done.
#[test]
fn errors_of_memcached_are_what_happened() {
    let backend = Backend::memcached_with(&["-I", "1024", "-o", "slab_chunk_max=512"]);
    let file = File::new("pool-errors");
    let proxy = file.write("", &[("m", "memcached", &backend.address)]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    assert_eq!(say(&mut wire, "SET n 9223372036854775807"), "OK");
    assert!(say(&mut wire, "INCR n").contains("was changed, and is 9223372036854775808 now"));
    assert_eq!(say(&mut wire, "GET n"), "9223372036854775808");
    assert_eq!(say(&mut wire, "DECR n"), "9223372036854775807");
    let value = "x".repeat(600);
    assert_eq!(say(&mut wire, &format!("SET a {value}")), "OK");
    assert!(say(&mut wire, &format!("APPEND a {value}")).contains("cannot hold so long a value"));
    assert_eq!(say(&mut wire, "STRLEN a"), "600");
    let reply = say(&mut wire, &format!("APPEND b {value}{value}"));
    assert_eq!(reply, "-ERR memcached: object too large for cache");
}

#[test]
fn reads_of_one_key_are_merged() {
    let backend = Backend::memcached();
    let file = File::new("pool-merged");
    let merge_window = Duration::from_millis(5);
    let settings = Settings { merge_window, ..Settings::default() };
    let proxy = file.write("", &[("m", "memcached", &backend.address)]).proxy(settings);
    let mut wires: Vec<Wire> = (0..16).map(|_| connect(&proxy)).collect();
    assert_eq!(say(&mut wires[0], "SET k value"), "OK");
    for _ in 0..10 {
        let name = |n: usize| ["GET", "STRLEN"][n / 8];
        for (n, wire) in wires.iter_mut().enumerate() {
            wire.send(&format!("{} k\r\n", name(n))).unwrap();
        }
        for (n, wire) in wires.iter_mut().enumerate() {
            assert_eq!(super::shown(&wire.reply().unwrap()), ["value", "5"][n / 8]);
        }
    }
    assert!(super::counted(&mut wires[0], "proxy_merged_reads") > 0);
}
