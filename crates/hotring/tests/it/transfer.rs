//! Tests of `export` and `import` through real servers: everything exported from one must be in the
//! other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::{Folder, Server, hotring, output, stderr};

/// A request with arbitrary bytes.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Sends it and returns the first line of the reply, or the string in it.
pub fn ask(stream: &mut BufReader<TcpStream>, words: &[&[u8]]) -> Vec<u8> {
    stream.get_mut().write_all(&request(words)).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let line = line.trim_end();
    match line.strip_prefix('$').and_then(|len| len.parse::<usize>().ok()) {
        Some(len) => {
            let mut bytes = vec![0; len + 2];
            stream.read_exact(&mut bytes).unwrap();
            bytes.truncate(len);
            bytes
        }
        None => line.as_bytes().to_vec(),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

pub fn serve() -> Server {
    Server::start(&mut hotring(&["serve", "--port", "0"]))
}

pub fn end(mut server: Server) {
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
}

/// All bytes, shuffled.
fn bytes() -> Vec<u8> {
    (0..=255u8).rev().chain(*b"\r\n*3\r\n").collect()
}

/// Values of each type, with and without expiry time, and keys of any bytes; pins, if the server
/// knows them.
pub fn fill(stream: &mut BufReader<TcpStream>, pins: bool) {
    let at = (now() + 3_600_000).to_string();
    let (odd, at) = (bytes(), at.as_bytes());
    let long = vec![b'x'; 300_000];
    let fields: Vec<Vec<u8>> = (0..3000).map(|i| format!("field:{i}").into_bytes()).collect();
    let pairs = fields.iter().flat_map(|field| [&field[..], &odd]);
    let large: Vec<&[u8]> = [&b"HSET"[..], b"large"].into_iter().chain(pairs).collect();
    let requests: [&[&[u8]]; 15] = [
        &[b"SET", b"text", "größer 'als' \"das\"".as_bytes()],
        &[b"SET", b"number", b"-12"],
        &[b"SET", b"almost a number", b"007"],
        &[b"SET", b"", b""],
        &[b"SET", &odd, &odd],
        &[b"SET", b"long", &long],
        &[b"SET", b"mortal", b"v", b"PXAT", at],
        &[b"SET", b"mortal number", b"9223372036854775807", b"PXAT", at],
        &[b"HSET", b"hash", b"a", b"1", b"", b"", &odd, &odd],
        &[b"HSET", b"mortal hash", b"f", b"v"],
        &[b"PEXPIREAT", b"mortal hash", at],
        &large,
        &[b"PIN", b"number", &odd],
        &[b"SET", b"gone", b"v", b"PX", b"1"],
        &[b"SET", b"user:1", b"one"],
    ];
    for words in requests.into_iter().filter(|words| pins || words[0] != b"PIN") {
        let reply = ask(stream, words);
        assert!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
    }
    std::thread::sleep(std::time::Duration::from_millis(5));
}

/// Keys that `fill` leaves, without the expired one.
const FILLED: usize = 12;

/// The strings of an array.
fn list(stream: &mut BufReader<TcpStream>, words: &[&[u8]]) -> Vec<Vec<u8>> {
    let count = String::from_utf8(ask(stream, words)).unwrap();
    let string = |_| {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let mut string = vec![0; line.trim_end()[1..].parse::<usize>().unwrap() + 2];
        stream.read_exact(&mut string).unwrap();
        string.truncate(string.len() - 2);
        string
    };
    (0..count[1..].parse::<usize>().unwrap()).map(string).collect()
}

/// All data of a server, byte for byte: key, DUMP, expiry time.
fn content(server: &Server) -> Vec<[Vec<u8>; 3]> {
    let stream = &mut server.connect();
    let mut keys = list(stream, &[b"KEYS", b"*"]);
    keys.sort();
    let value = |key: Vec<u8>| {
        let value = match &ask(stream, &[b"TYPE", &key])[..] {
            b"+hash" => fields(stream, &key).concat(),
            _ => ask(stream, &[b"DUMP", &key]),
        };
        let time = ask(stream, &[b"PEXPIRETIME", &key]);
        [key, value, time]
    };
    keys.into_iter().map(value).collect()
}

/// The fields and values of a hash, sorted by field: a large hash has an order of its own in each server.
fn fields(stream: &mut BufReader<TcpStream>, key: &[u8]) -> Vec<Vec<u8>> {
    let fields = list(stream, &[b"HGETALL", key]);
    let mut pairs: Vec<_> = fields.chunks(2).collect();
    pairs.sort();
    pairs.concat()
}

/// A key, its expiry time, and its value or its sorted fields and values.
pub type Held = (Vec<u8>, Vec<u8>, Vec<Vec<u8>>);

/// The strings and hashes of any server.
pub fn values(stream: &mut BufReader<TcpStream>) -> Vec<Held> {
    let mut keys = list(stream, &[b"KEYS", b"*"]);
    keys.sort();
    let value = |key: Vec<u8>| {
        let value = match &ask(stream, &[b"TYPE", &key])[..] {
            b"+string" => vec![ask(stream, &[b"GET", &key])],
            b"+hash" => fields(stream, &key),
            b"+list" => list(stream, &[b"LRANGE", &key, b"0", b"-1"]),
            b"+zset" => list(stream, &[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"]),
            b"+set" => {
                let mut members = list(stream, &[b"SMEMBERS", &key]);
                members.sort();
                members
            }
            _ => return None,
        };
        let time = ask(stream, &[b"PEXPIRETIME", &key]);
        Some((key, time, value))
    };
    keys.into_iter().filter_map(value).collect()
}

fn export(server: &Server, words: &[&str]) -> Output {
    output(hotring(&["export", "--address", &server.address]).args(words))
}

/// Sends a file as it is, and counts the errors.
fn pipe(server: &Server, file: &[u8]) -> usize {
    let mut stream = server.connect();
    stream.get_mut().write_all(file).unwrap();
    stream.get_mut().write_all(&request(&[b"ECHO", b"the end"])).unwrap();
    let (mut errors, mut line) = (0, String::new());
    while line != "the end\r\n" {
        line.clear();
        stream.read_line(&mut line).unwrap();
        errors += usize::from(line.starts_with('-'));
    }
    errors
}

#[test]
fn an_export_makes_another_server_the_same() {
    let (folder, server, other) = (Folder::new("export"), serve(), serve());
    fill(&mut server.connect(), true);
    let file = folder.0.join("all.resp");
    let done = export(&server, &[file.to_str().unwrap()]);
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(stderr(&done).contains(&format!("{FILLED} keys")), "{}", stderr(&done));
    assert_eq!(pipe(&other, &std::fs::read(&file).unwrap()), 0);
    let (ours, theirs) = (content(&server), content(&other));
    assert_eq!(ours.len(), FILLED);
    assert!(ours == theirs, "they differ");
    // It has its final name and no other.
    assert_eq!(folder.0.read_dir().unwrap().count(), 1);
    end(server);
    end(other);
}

#[test]
fn many_keys_and_long_ones_go_in_parts() {
    let (folder, server, other) = (Folder::new("many"), serve(), serve());
    let mut requests = Vec::new();
    for i in 0..3000 {
        let key = match i % 200 {
            0 => format!("{i}").repeat(12_000),
            _ => format!("key:{i}"),
        };
        requests.extend(request(&[b"SET", key.as_bytes(), format!("value {i}").as_bytes()]));
    }
    assert_eq!(pipe(&server, &requests), 0);
    let file = folder.0.join("all.resp").display().to_string();
    let done = export(&server, &[&file]);
    assert!(stderr(&done).contains("3000 keys"), "{}", stderr(&done));
    assert_eq!(code(&import(&other, &[&file])), Some(0));
    let theirs = content(&other);
    assert_eq!(theirs.len(), 3000);
    assert!(content(&server) == theirs, "they differ");
    end(server);
    end(other);
}

#[test]
fn an_export_has_the_requested_keys() {
    let server = serve();
    fill(&mut server.connect(), true);
    let done = export(&server, &["--match", "user:*", "-"]);
    assert_eq!(done.stdout, request(&[b"SET", b"user:1", b"one"]));
    let pins = export(&server, &["--pins", "--match", "number", "-"]).stdout;
    let expected = [request(&[b"SET", b"number", b"-12"]), request(&[b"PIN", b"number"])];
    assert_eq!(pins, expected.concat());
    let odd = bytes();
    let all = export(&server, &["--pins", "-"]).stdout;
    assert!(contains(&all, &request(&[b"PIN", &odd])));
    assert!(!contains(&export(&server, &["-"]).stdout, b"$3\r\nPIN\r\n"));
    end(server);
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

#[test]
fn an_export_does_not_count_as_access() {
    let words = ["serve", "--port", "0", "--maxmemory-policy", "allkeys-lfu", "--maxmemory", "1gb"];
    let server = Server::start(&mut hotring(&words));
    let mut stream = server.connect();
    ask(&mut stream, &[b"SET", b"key", b"v"]);
    let before = ask(&mut stream, &[b"OBJECT", b"FREQ", b"key"]);
    assert_eq!(code(&export(&server, &["-"])), Some(0));
    assert_eq!(ask(&mut stream, &[b"OBJECT", b"FREQ", b"key"]), before);
    ask(&mut stream, &[b"DUMP", b"key"]);
    assert_ne!(ask(&mut stream, &[b"OBJECT", b"FREQ", b"key"]), before, "nothing is noted at all");
    end(server);
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let folder = Folder::new("no-export");
    let old = folder.file("all.resp", "old");
    let done = output(&mut hotring(&["export", "--address", "127.0.0.1:1", &old]));
    assert_eq!(done.status.code(), Some(2));
    assert!(stderr(&done).contains("cannot connect to 127.0.0.1:1"), "{}", stderr(&done));
    let nowhere = output(hotring(&["export", "/no/such/folder/file"]).stdin(Stdio::null()));
    assert_eq!(code(&nowhere), Some(2));
    assert!(stderr(&nowhere).contains("/no/such/folder/file cannot be written"));
    // One that ends in the middle.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = [0; 1024];
        let _ = stream.read(&mut line).unwrap();
        for reply in ["-ERR unknown subcommand\r\n", "-NOPERM no INFO\r\n", "+OK\r\n"] {
            stream.write_all(reply.as_bytes()).unwrap();
            let _ = stream.read(&mut line).unwrap();
        }
        stream.write_all(b"*2\r\n$1\r\n0\r\n*1\r\n$3\r\nkey\r\n").unwrap();
        let _ = stream.read(&mut line).unwrap();
        stream.write_all(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$100\r\nab").unwrap();
    });
    let done = output(hotring(&["export", "--address", &address]).arg(&old).stdin(Stdio::null()));
    answer.join().unwrap();
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert!(stderr(&done).contains("the connection was closed"), "{}", stderr(&done));
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "old");
    assert_eq!(folder.0.read_dir().unwrap().count(), 1);
}

pub fn import(server: &Server, words: &[&str]) -> Output {
    output(hotring(&["import", "--address", &server.address]).args(words))
}

pub fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn an_import_restores_an_export() {
    ["resp", "json"].into_iter().for_each(comes_back);
}

fn comes_back(format: &str) {
    let (folder, server, other) = (Folder::new(format), serve(), serve());
    fill(&mut server.connect(), true);
    let file = folder.0.join("all").display().to_string();
    assert_eq!(code(&export(&server, &["--pins", "--format", format, &file])), Some(0));
    let done = import(&other, &[&file]);
    assert_eq!(code(&done), Some(0), "{}", stderr(&done));
    assert!(stderr(&done).contains(&format!("{FILLED} keys")), "{}", stderr(&done));
    assert!(content(&server) == content(&other), "they differ");
    let mut stream = other.connect();
    // It was pinned already.
    assert_eq!(ask(&mut stream, &[b"PIN", b"number", &bytes(), b"text"]), b":1");
    // Again, from standard input.
    let mut again = hotring(&["import", "--address", &other.address, "-"]);
    let again = output(again.stdin(std::fs::File::open(&file).unwrap()));
    assert_eq!(code(&again), Some(0), "{}", stderr(&again));
    assert!(content(&server) == content(&other), "they differ");
    end(server);
    end(other);
}

#[test]
fn existing_keys_stay_or_go_by_the_option() {
    let (folder, server) = (Folder::new("existing"), serve());
    let text = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\nnew\r\n*4\r\n$4\r\nHSET\r\n$1\r\nb\r\n$1\r\nf\r\n$1\r\nv\r\n\
                set c new\r\nset gone v pxat 1\r\n";
    let file = folder.file("few.resp", text);
    let values = |stream: &mut BufReader<TcpStream>| {
        [&b"a"[..], b"b", b"c"].map(|key| ask(stream, &[b"TYPE", key]))
    };
    let mut stream = server.connect();
    ask(&mut stream, &[b"HSET", b"a", b"old", b"1"]);
    ask(&mut stream, &[b"SET", b"b", b"old"]);
    let (hash, string) = (b"+hash".to_vec(), b"+string".to_vec());
    let kept = import(&server, &["--on-existing", "keep", &file]);
    assert_eq!(code(&kept), Some(0), "{}", stderr(&kept));
    assert!(stderr(&kept).contains("; 2 stayed as they were; 1 had expired"), "{}", stderr(&kept));
    assert_eq!(values(&mut stream), [hash.clone(), string.clone(), string.clone()]);
    let failed = import(&server, &["--on-existing", "fail", &file]);
    assert_eq!(code(&failed), Some(1));
    assert!(stderr(&failed).contains("b: the server has this key"), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("; 3 failed"), "{}", stderr(&failed));
    assert_eq!(values(&mut stream), [hash.clone(), string.clone(), string.clone()]);
    assert_eq!(code(&import(&server, &[&file])), Some(0));
    assert_eq!(values(&mut stream), [string.clone(), hash, string]);
    assert_eq!(ask(&mut stream, &[b"EXISTS", b"gone"]), b":0");
    end(server);
}

#[test]
fn keys_that_the_server_refuses_are_named() {
    let folder = Folder::new("refused");
    let server = Server::start(&mut hotring(&["serve", "--port", "0", "--max-key-len", "10"]));
    let mut stream = server.connect();
    let text: String = (0..600)
        .map(|i| format!("*3\r\n$3\r\nSET\r\n$12\r\nlong key {i:03}\r\n$1\r\nv\r\n"))
        .collect();
    let done = import(&server, &[&folder.file("long.resp", &(text + "set short v\r\n"))]);
    let told = stderr(&done);
    assert_eq!(code(&done), Some(1), "{told}");
    assert_eq!(told.matches("long key ").count(), 10, "{told}");
    assert!(told.contains("and 590 more keys failed") && told.contains("1 keys"), "{told}");
    assert_eq!(ask(&mut stream, &[b"GET", b"short"]), b"v");
    // Whether more commands for the last key would have followed is unknown.
    let text = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\nnew\r\nset last v\r\n*3\r\n$3\r\nSET\r\n";
    let done = import(&server, &[&folder.file("cut.resp", text)]);
    assert_eq!(code(&done), Some(2));
    let told = stderr(&done);
    assert!(told.contains("cut.resp: byte 41: the file ends within this command"), "{told}");
    assert_eq!(ask(&mut stream, &[b"GET", b"a"]), b"new");
    assert_eq!(ask(&mut stream, &[b"EXISTS", b"last"]), b":0");
    let other = import(&server, &[&folder.file("other", "hello")]);
    assert_eq!(code(&other), Some(2));
    assert!(stderr(&other).contains("byte 0: unknown file format"), "{}", stderr(&other));
    end(server);
}

/// All files of a folder with their contents.
fn files(folder: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect();
    files.sort();
    files
}

fn lines(output: &Output) -> Vec<String> {
    assert_eq!(code(output), Some(0), "{}", stderr(output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines: Vec<String> = text.lines().map(in_order).collect();
    lines.sort();
    lines
}

/// A line of JSON with the parts of a hash sorted, as the order of a large one says nothing.
fn in_order(line: &str) -> String {
    if !line.contains("\"type\":\"hash\"") {
        return line.to_string();
    }
    let (key, fields) = line.split_once("\"value\":").expect("a value");
    // Pairs, if a field is no text.
    let between = if fields.starts_with('[') { "],[" } else { ",\"" };
    let bare = |part: &str| part.trim_matches(['{', '}', '[', ']', '"']).to_string();
    let mut parts: Vec<String> = fields.split(between).map(bare).collect();
    parts.sort_unstable();
    format!("{key}{parts:?}")
}

#[test]
fn a_folder_has_the_keys_of_its_server() {
    let folder = Folder::new("folder");
    let data = folder.0.display().to_string();
    let words = ["serve", "--port", "0", "--log", "everysec", "--data", &data];
    let from_folder = |words: &[&str]| {
        output(hotring(&["export", "--format", "json", "--pins", "--data", &data]).args(words))
    };
    for has_snapshot in [false, true] {
        let server = Server::start(&mut hotring(&words));
        let mut stream = server.connect();
        ask(&mut stream, &[b"SET", b"removed", b"v"]);
        ask(&mut stream, &[b"SET", b"long", b"before"]);
        if has_snapshot {
            assert_eq!(ask(&mut stream, &[b"SAVE"]), b"+OK");
            ask(&mut stream, &[b"SET", b"behind", b"the snapshot"]);
        }
        ask(&mut stream, &[b"DEL", b"removed"]);
        fill(&mut server.connect(), true);
        let words = ["--format", "json", "--pins", "-"];
        let of_server = lines(&export(&server, &words));
        let in_use = from_folder(&["-"]);
        assert_eq!(code(&in_use), Some(2));
        assert!(stderr(&in_use).contains("is in use by another server"), "{}", stderr(&in_use));
        end(server);
        let before = files(&folder.0);
        assert_eq!(before.iter().any(|(name, _)| name.ends_with(".hrs")), has_snapshot);
        assert_eq!(lines(&from_folder(&["-"])), of_server);
        assert_eq!(of_server.len(), FILLED + usize::from(has_snapshot));
        assert_eq!(lines(&from_folder(&["--match", "user:*", "-"])).len(), 1);
        assert!(files(&folder.0) == before, "the folder is changed");
    }
    // Damage before the end does not count as a crash.
    let all = files(&folder.0);
    let (name, mut bytes) = all.into_iter().find(|(name, _)| name.ends_with(".hrs")).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&name, &bytes).unwrap();
    let damaged = from_folder(&["-"]);
    assert_eq!(code(&damaged), Some(2));
    assert!(stderr(&damaged).contains("is damaged at byte 64"), "{}", stderr(&damaged));
    let empty = Folder::new("empty");
    let none = output(hotring(&["export", "-", "--data"]).arg(&empty.0));
    assert!(stderr(&none).contains("has neither a snapshot nor a log"), "{}", stderr(&none));
    assert_eq!(files(&empty.0), []);
    let none = output(&mut hotring(&["export", "--data", "/no/such/folder", "-"]));
    assert!(stderr(&none).contains("there is no folder /no/such/folder"), "{}", stderr(&none));
}
