//! Links to a scripted Redis whose replica has a slow disk: what happens in the middle of a step.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hotring_commands::settings::config::{Config, LogSettings};
use hotring_log::storage::Memory;
use hotring_log::storage::memory::Step;

use crate::run::{Running, start_with};

fn server(storage: &Memory, queue_max: usize) -> Running {
    let log = LogSettings { is_on: true, queue_max, ..LogSettings::default() };
    let config = Config { port: 0, threads: 2, log, ..Config::default() };
    start_with(config, Box::new(|_| {}), &|_| Ok(storage.clone())).unwrap()
}

/// The first line of the reply.
fn say(address: SocketAddr, line: &str) -> String {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_line(&mut reply).unwrap();
    reply.trim_end().to_string()
}

/// A replica that has asked for the stream.
fn accept(listener: &TcpListener) -> BufReader<TcpStream> {
    loop {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|len| len > 0) {
            let reply: &[u8] = match line.trim_end() {
                "PING" => b"+PONG\r\n",
                "REPLCONF" => b"+OK\r\n",
                "HOTRING.REPLICATE" => b"-ERR unknown command 'HOTRING.REPLICATE'\r\n",
                // Its two arguments.
                "PSYNC" => {
                    (0..4).for_each(|_| _ = stream.read_line(&mut line));
                    return stream;
                }
                _ => b"",
            };
            stream.get_mut().write_all(reply).unwrap();
            line.clear();
        }
    }
}

/// A file with keys of this length.
fn file(count: u16, len: u16) -> Vec<u8> {
    let mut file = b"REDIS0010\xfe\x00".to_vec();
    for key in 0..count {
        let [high, low] = len.to_be_bytes();
        file.extend_from_slice(&[0, 2]);
        file.extend_from_slice(&key.to_be_bytes());
        file.extend_from_slice(&[0x40 | high, low]);
        file.resize(file.len() + usize::from(len), b'v');
    }
    file.extend_from_slice(&[0xff; 1]);
    file.extend_from_slice(&[0; 8]);
    file
}

fn send_copy(stream: &mut TcpStream, file: &[u8]) {
    let head = format!("+FULLRESYNC {} 7\r\n${}\r\n", "0".repeat(40), file.len());
    // The replica may have gone already.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(file));
}

fn is_link_thread() -> bool {
    std::thread::current().name() == Some(super::THREAD)
}

/// Regression test: the promotion was acknowledged, and then the data was dropped for the copy.
#[test]
fn a_promotion_while_a_copy_begins_loses_nothing_that_it_acknowledges() {
    let (storage, listener) = (Memory::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let running = server(&storage, 1 << 20);
    let address = running.addresses()[0];
    assert_eq!(say(address, "SET own 1"), "+OK");
    let (reply, asked) = (Arc::new(Mutex::new(None)), AtomicBool::new(false));
    let answered = reply.clone();
    // The copy notes durably that it begins.
    storage.before_each(move |_, step| {
        if step == Step::Create && is_link_thread() && !asked.swap(true, SeqCst) {
            let telling = answered.clone();
            std::thread::spawn(move || {
                *telling.lock().unwrap() = Some(say(address, "REPLICAOF NO ONE"));
            });
            // The answer comes only after this, if the copy locks the promotion out.
            for _ in 0..200 {
                std::thread::sleep(Duration::from_millis(5));
                if answered.lock().unwrap().is_some() {
                    break;
                }
            }
        }
    });
    let port = listener.local_addr().unwrap().port();
    assert_eq!(say(address, &format!("REPLICAOF 127.0.0.1 {port}")), "+OK");
    let mut peer = accept(&listener);
    // The end of the file is missing.
    let file = file(10, 10);
    send_copy(peer.get_mut(), &file[..file.len() - 20]);
    let begun = Instant::now();
    let reply = loop {
        if let Some(reply) = reply.lock().unwrap().clone() {
            break reply;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "no answer to REPLICAOF NO ONE");
        std::thread::sleep(Duration::from_millis(5));
    };
    match reply.as_str() {
        "+OK" => {
            // What the link does is done once it has ended.
            let _ = peer.read_to_end(&mut Vec::new());
            assert_eq!(say(address, "EXISTS own"), ":1");
        }
        refused => assert!(refused.starts_with("-ERR the copy"), "{refused}"),
    }
    running.stop();
    running.wait().unwrap();
}

/// The store is slower than the file comes, for longer than a primary waits for a sign of life.
#[test]
fn a_primary_hears_from_a_replica_that_cannot_store_what_came() {
    let (storage, listener) = (Memory::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let running = server(&storage, 64 << 10);
    let address = running.addresses()[0];
    let port = listener.local_addr().unwrap().port();
    assert_eq!(say(address, &format!("REPLICAOF 127.0.0.1 {port}")), "+OK");
    let peer = accept(&listener);
    let (lives, is_open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let opens = is_open.clone();
    storage.before_each(move |_, step| {
        while step == Step::Write && !is_link_thread() && !opens.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let (mut reading, heard) = (peer.get_ref().try_clone().unwrap(), lives.clone());
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok(len @ 1..) = reading.read(&mut bytes) {
            heard.fetch_add(bytes[..len].iter().filter(|byte| **byte == b'\n').count(), SeqCst);
        }
    });
    let mut writing = peer.get_ref().try_clone().unwrap();
    // Longer than all buffers on the way together.
    let sending = std::thread::spawn(move || send_copy(&mut writing, &file(3_000, 16_000)));
    std::thread::sleep(Duration::from_millis(4_500));
    let before = lives.load(SeqCst);
    is_open.store(true, SeqCst);
    assert!(before >= 2, "{before} signs of life in 4.5 s");
    sending.join().unwrap();
    let begun = Instant::now();
    while say(address, "DBSIZE") != ":3000" {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", say(address, "DBSIZE"));
        std::thread::sleep(Duration::from_millis(5));
    }
    running.stop();
    running.wait().unwrap();
}
