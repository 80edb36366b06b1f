//! Fuzzes both sides of the link between servers: a primary that reads a hostile replica, and a replica that reads a
//! hostile primary, over real sockets. Nothing panics. A hostile replica costs the primary a connection: its data and
//! its role stay. A hostile primary may replace the data of a replica, which an operator has told to follow it; but
//! the replica ends every link, answers, and can be a primary again or follow another.
//!
//! Bit 0 of the first byte says who is hostile: 1 the replica. Then come messages: a kind, options, a length of two
//! bytes, and the body. The target makes the numbers and checksums of frames right. Options: bit 0 leaves them out,
//! bit 1 says that more frames of the message follow, bit 2 writes the names into the message that the other side has
//! told (its incarnation, the stamp of the link), bit 3 makes the numbers and checksums of records right.
#![no_main]

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

use hotring_log::wire::{BODY_MAX, FRAME_HEAD_LEN, FrameReader, FrameWriter, Kind, WIRE_VERSION};
use hotring_server::{Config, Running, start};
use libfuzzer_sys::fuzz_target;

/// Longest wait for anything that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longest wait for a first message: none comes if what was sent before is no whole frame.
const FIRST: Duration = Duration::from_millis(300);

/// Where an answer has its stamp, behind its type, the incarnation, the attempt and the node; and its course, behind
/// the stamp and the store.
const STAMP: Range<usize> = 37..61;
const COURSE: usize = 77;

/// The frames of an input.
struct Hostile<'a> {
    input: &'a [u8],
    writer: FrameWriter,
    /// What goes over the first bytes of a message's content.
    names: Vec<u8>,
    /// The next record.
    next: u64,
}

impl Hostile<'_> {
    /// The bytes of the next frame.
    fn frame(&mut self) -> Option<Vec<u8>> {
        let [kind, options, low, high, rest @ ..] = self.input else { return None };
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len()).min(BODY_MAX);
        let (body, rest) = rest.split_at(len);
        self.input = rest;
        let kinds = [Kind::Message, Kind::Records, Kind::CopyBegin, Kind::Part, Kind::CopyEnd];
        let kind = kinds[usize::from(*kind) % kinds.len()];
        let (mut frame, mut body) = (Vec::new(), body.to_vec());
        if options & 4 != 0 && kind == Kind::Message && body.len() > self.names.len() {
            body[1..=self.names.len()].copy_from_slice(&self.names);
        }
        if options & 8 != 0 && kind == Kind::Records {
            self.seal(&mut body);
        }
        if let (Kind::CopyBegin, Some(after)) = (kind, body.first_chunk()) {
            self.next = u64::from_le_bytes(*after).wrapping_add(1);
        }
        let at = self.writer.begin(&mut frame);
        frame.append(&mut body);
        self.writer.end(&mut frame, at, kind, options & 2 != 0);
        Some(if options & 1 != 0 { frame.split_off(FRAME_HEAD_LEN) } else { frame })
    }

    /// Makes the numbers and checksums of records right, up to the first one that is cut short.
    fn seal(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + 16) {
            let len = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
            let Some(record) = bytes.get_mut(at..at + 16 + len).filter(|_| len > 0) else { break };
            record[8..16].copy_from_slice(&self.next.to_le_bytes());
            let crc = crc32c::crc32c(&record[8..]);
            record[4..8].copy_from_slice(&crc.to_le_bytes());
            self.next = self.next.wrapping_add(1);
            at += 16 + len;
        }
    }
}

struct World {
    running: Running,
    /// Two hostile primaries by turns: the same one would be dialled only after a pause.
    primaries: [TcpListener; 2],
    turn: usize,
}

impl World {
    fn new() -> World {
        let listen = vec!["127.0.0.1:0".to_string()];
        let running = start(Config { listen, threads: 1, ..Config::default() });
        let primaries = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let mut world = World { running: running.expect("it starts"), primaries, turn: 0 };
        world.until("+OK", "SET k 1");
        world
    }

    fn address(&self) -> SocketAddr {
        self.running.addresses()[0]
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
        stream.set_nodelay(true).expect("a socket has it");
        stream
    }

    /// The first line of the reply to a request.
    fn ask(&mut self, line: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(format!("{line}\r\n").as_bytes()).expect("it reads");
        read_line(&mut stream)
    }

    fn until(&mut self, start: &str, line: &str) {
        let begun = Instant::now();
        loop {
            let reply = self.ask(line);
            if reply.starts_with(start) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{line}: {reply}");
        }
    }

    /// A hostile replica.
    fn feed(&mut self, input: &[u8]) {
        let mut stream = self.connect();
        let request = format!("HOTRING.REPLICATE {WIRE_VERSION} 7\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        assert_eq!(read_line(&mut stream), "+OK");
        let mut hostile =
            Hostile { input, writer: FrameWriter::default(), names: Vec::new(), next: 1 };
        let Some(hello) = hostile.frame() else { return };
        let _ = stream.write_all(&hello);
        let bytes = first_message(&mut stream, !hostile.input.is_empty());
        if let Some(stamp) = bytes.get(STAMP) {
            hostile.names = stamp.to_vec();
        }
        while let Some(frame) = hostile.frame() {
            if stream.write_all(&frame).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        end(stream);
        assert_eq!(self.ask("GET k"), "$1");
        assert_eq!(self.ask("SET k 1"), "+OK");
    }

    /// A hostile primary. False if the server cannot go on as a primary.
    fn lead(&mut self, input: &[u8]) -> bool {
        self.turn = 1 - self.turn;
        let port = self.primaries[self.turn].local_addr().expect("it is bound").port();
        let reply = self.ask(&format!("REPLICAOF 127.0.0.1 {port}"));
        assert!(reply.starts_with("+OK"), "{reply}");
        let (mut stream, _) = self.primaries[self.turn].accept().expect("the replica dials");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
        for _ in 0..7 {
            // The words of HOTRING.REPLICATE with their lengths.
            read_line(&mut stream);
        }
        let _ = stream.write_all(b"+OK\r\n");
        let hello = first_message(&mut stream, true);
        let mut hostile =
            Hostile { input, writer: FrameWriter::default(), names: Vec::new(), next: 1 };
        // Behind the kind and the node come the incarnation and the attempt, with which an answer begins.
        if let Some(names) = hello.get(21..37) {
            hostile.names = names.to_vec();
        }
        let (mut is_first, mut replaces) = (true, false);
        while let Some(frame) = hostile.frame() {
            let body = frame.get(FRAME_HEAD_LEN..).unwrap_or_default();
            // From here on the stamp that the answer has given.
            if let (true, Some(stamp)) = (is_first, body.get(STAMP)) {
                hostile.names = stamp.to_vec();
            }
            is_first = false;
            // An announced repair is enough: the replica gives up records for it. A copy must begin.
            let repairs = body.first() == Some(&1) && body.get(COURSE) == Some(&1);
            replaces |= repairs || frame.get(4) != Some(&(Kind::Message as u8));
            if stream.write_all(&frame).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        end(stream);
        let reply = self.ask("PING");
        assert!(reply == "+PONG" || (replaces && reply.starts_with("-LOADING ")), "{reply}");
        // By force, as the hostile primary may have said that it is a replica.
        let reply = self.ask("REPLICAOF NO ONE FORCE");
        if !reply.starts_with("+OK") {
            assert!(
                replaces && reply.starts_with("-ERR this replica has received only a part"),
                "{reply}"
            );
            return false;
        }
        assert!(replaces || self.ask("GET k") == "$1", "the data is gone");
        self.until("+OK", "SET k 1");
        true
    }

    fn stop(self) {
        self.running.stop();
        let _ = self.running.wait();
    }
}

/// Reads until the other side closes the connection, which it must.
fn end(mut stream: TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
    let mut bytes = [0; 4096];
    loop {
        match read(&mut stream, &mut bytes) {
            Ok(1..) => {}
            Ok(0) => return,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the link does not end")
            }
            Err(_) => return,
        }
    }
}

/// Reads some bytes. The fuzzer's timer interrupts reads that have a timeout, whatever its handler asks for.
fn read(stream: &mut TcpStream, bytes: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn read_line(stream: &mut TcpStream) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\r\n") && matches!(read(stream, &mut byte), Ok(1)) {
        line.extend_from_slice(&byte);
    }
    String::from_utf8_lossy(&line).trim_end().to_string()
}

/// The content of the other side's first message; nothing if it ends the link.
fn first_message(stream: &mut TcpStream, waits: bool) -> Vec<u8> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    stream.set_read_timeout(Some(FIRST)).expect("a socket has one");
    while waits && matches!(read(stream, &mut byte), Ok(1)) {
        bytes.extend_from_slice(&byte);
        if let Ok(Some((frame, _))) = FrameReader::default().read(&bytes) {
            return frame.body.to_vec();
        }
    }
    Vec::new()
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fuzz_target!(|input: &[u8]| {
    let [who, input @ ..] = input else { return };
    WORLD.with_borrow_mut(|world| {
        let mut present = world.take().unwrap_or_else(World::new);
        if who & 1 == 1 {
            present.feed(input);
        } else if !present.lead(input) {
            present.stop();
            return;
        }
        *world = Some(present);
    });
});
