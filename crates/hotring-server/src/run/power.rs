//! Power cuts of complete servers: a disk in memory decides which data survives, and a new server starts
//! from it.

use std::io::BufRead;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::tests::{connect, lines, logged};
use super::*;
use hotring_commands::settings::config::OnError;
use hotring_log::AckWhen;
use hotring_log::storage::Memory;

const WRITERS: usize = 3;

/// The time at which each write was acknowledged, by writer.
type Acknowledged = [Mutex<Vec<Instant>>; WRITERS];

/// The disk after a power cut, the time of the cut, and the number of writes that each writer had acknowledged by then.
struct Cut {
    at: Instant,
    known: [usize; WRITERS],
    left: Memory,
}

/// Counts upwards, by single writes and by batches, and records when each is acknowledged.
fn write(running: &Running, writer: usize, answers: &Mutex<Vec<Instant>>, goes_on: &AtomicBool) {
    let mut stream = connect(running);
    let mut number = 0;
    // ORDERING: Relaxed, a write more or less does not matter.
    while goes_on.load(Ordering::Relaxed) {
        number += 1;
        let request = match number % 3 {
            0 => format!("INCR count:{writer}\r\n"),
            1 => format!("MSET count:{writer} {number} twin:{writer} {number}\r\n"),
            _ => format!("SET count:{writer} {number}\r\n"),
        };
        let reply = lines(&mut stream, &request).remove(0);
        assert!(reply == "+OK\r\n" || reply == format!(":{number}\r\n"), "{reply}");
        answers.lock().unwrap().push(Instant::now());
    }
}

/// Cuts the power at random moments of `time` while writers write and snapshots are made.
fn cut(when: AckWhen, time: Duration, cuts: u32, of_each: usize) -> (Vec<Cut>, Acknowledged) {
    let storage = Memory::new();
    let running = logged(&storage, when, OnError::Stop);
    let (acknowledged, goes_on) = (Acknowledged::default(), AtomicBool::new(true));
    let mut found = Vec::new();
    std::thread::scope(|scope| {
        for (writer, answers) in acknowledged.iter().enumerate() {
            let (running, goes_on) = (&running, &goes_on);
            scope.spawn(move || write(running, writer, answers, goes_on));
        }
        let mut stream = connect(&running);
        for number in 0..cuts {
            std::thread::sleep(time / cuts);
            if number % 8 == 0 {
                lines(&mut stream, "BGSAVE\r\n");
            }
            // This must precede the look at the disk: later acknowledgements may belong to later writes.
            let known = [0, 1, 2].map(|writer| acknowledged[writer].lock().unwrap().len());
            let at = Instant::now();
            for cut in storage.power_cuts(of_each, number.into()) {
                found.push(Cut { at, known, left: storage.image(&cut) });
            }
        }
        goes_on.store(false, Ordering::Relaxed);
    });
    running.stop();
    running.wait().unwrap();
    (found, acknowledged)
}

/// The number of each writer, according to a server that starts from this disk.
fn counts(left: &Memory) -> [usize; WRITERS] {
    let running = logged(left, AckWhen::Written, OnError::Stop);
    while !running.is_loaded() {
        std::thread::yield_now();
    }
    let mut stream = connect(&running);
    let mut number = |key: String| -> usize {
        let head = lines(&mut stream, &format!("GET {key}\r\n")).remove(0);
        if head == "$-1\r\n" {
            return 0;
        }
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.trim_end().parse().unwrap()
    };
    let counts = [0, 1, 2].map(|writer| {
        let (count, twin) = (number(format!("count:{writer}")), number(format!("twin:{writer}")));
        assert!(twin <= count && count < twin + 3, "half a batch: {count}, {twin}");
        count
    });
    running.stop();
    running.wait().unwrap();
    counts
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged_when_synced() {
    let (cuts, _) = cut(AckWhen::Synced, Duration::from_millis(600), 40, 2);
    assert!(cuts.iter().any(|cut| cut.known.iter().all(|known| *known > 20)), "all writers wrote");
    for (i, cut) in cuts.iter().enumerate() {
        let found = counts(&cut.left);
        let is_present = found.iter().zip(&cut.known).all(|(found, known)| found >= known);
        assert!(is_present, "cut {i}: {found:?} of {:?}", cut.known);
    }
}

#[test]
fn a_power_cut_loses_the_last_second_otherwise() {
    let (cuts, acknowledged) = cut(AckWhen::Written, Duration::from_secs(4), 30, 1);
    let mut lost = 0;
    for (i, cut) in cuts.iter().enumerate() {
        let found = counts(&cut.left);
        for (writer, answers) in acknowledged.iter().enumerate() {
            let answers = answers.lock().unwrap();
            if found[writer] < cut.known[writer] {
                lost += 1;
                let age = cut.at.saturating_duration_since(answers[found[writer]]);
                assert!(age < Duration::from_millis(3_500), "cut {i}: {age:?} are lost");
            }
        }
    }
    assert!(lost > 0, "some cut must lose the last second");
}
