//! Values that are changed in place, under readers, other writers, and visitors that come late.

use hotring_index::{Shared, SharedFault, Visitors};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::world::{Run, explore_with};

/// The value: loom complains if a write of it meets a read, or is not ordered before it.
struct Probe {
    watched: UnsafeCell<()>,
    count: u64,
}

impl Probe {
    fn read(&self) -> u64 {
        self.watched.with(|_| self.count)
    }

    fn add(&mut self) {
        self.watched.with_mut(|_| ());
        self.count += 1;
    }
}

/// Runs a scenario in all orders, and returns loom's complaint.
fn explore(fault: SharedFault, scenario: fn(SharedFault)) -> Option<String> {
    let report = explore_with(Run::real(), move || scenario(fault));
    println!("{} executions", report.executions);
    report.complaint
}

fn value(fault: SharedFault) -> (std::sync::Arc<Visitors>, Arc<Shared<Probe>>) {
    let visitors = Visitors::with_fault(fault);
    let value = Arc::new(Shared::new(&visitors, Probe { watched: UnsafeCell::new(()), count: 0 }));
    (visitors, value)
}

/// One thread reads twice while another writes twice: the reader never goes back.
fn reader_and_writer(fault: SharedFault) {
    let (visitors, value) = value(fault);
    let (mut reader, mut writer) = (visitors.visitor(), visitors.visitor());
    let written = value.clone();
    let thread = thread::spawn(move || {
        written.write(&mut writer, Probe::add);
        written.write(&mut writer, Probe::add);
    });
    let first = value.read(&mut reader, Probe::read);
    let second = value.read(&mut reader, Probe::read);
    assert!(first <= second, "went back");
    thread.join().expect("no panic");
    assert_eq!(value.read(&mut reader, Probe::read), 2);
}

/// One reads while another decides on what it reads itself, and writes.
fn reader_and_decider(fault: SharedFault) {
    let (visitors, value) = value(fault);
    let (mut reader, mut writer) = (visitors.visitor(), visitors.visitor());
    let other = value.clone();
    let mut add = move |value: &Shared<Probe>| {
        value.update(
            &mut writer,
            |probe| Ok(probe.read()),
            |probe, seen| {
                assert_eq!(probe.count, seen, "another wrote");
                probe.add();
            },
        );
    };
    let thread = thread::spawn(move || {
        add(&other);
        add(&other);
    });
    let first = value.read(&mut reader, Probe::read);
    assert!(first <= value.read(&mut reader, Probe::read), "went back");
    thread.join().expect("no panic");
    assert_eq!(value.read(&mut reader, Probe::read), 2);
}

/// Two write, and no write is lost.
fn two_writers(fault: SharedFault) {
    let (visitors, value) = value(fault);
    let (mut a, mut b) = (visitors.visitor(), visitors.visitor());
    let other = value.clone();
    let thread = thread::spawn(move || other.write(&mut b, Probe::add));
    value.write(&mut a, Probe::add);
    thread.join().expect("no panic");
    assert_eq!(value.read(&mut a, Probe::read), 2);
}

/// A visitor comes and reads while another writes for the second time.
fn newcomer(fault: SharedFault) {
    let (visitors, value) = value(fault);
    let mut writer = visitors.visitor();
    let _other = visitors.visitor();
    value.write(&mut writer, Probe::add);
    let read = value.clone();
    let thread = thread::spawn(move || {
        let mut reader = visitors.visitor();
        read.read(&mut reader, Probe::read)
    });
    value.write(&mut writer, Probe::add);
    assert!((1..=2).contains(&thread.join().expect("no panic")));
}

/// One reads a value and then another, while the first is written.
fn next_value(fault: SharedFault) {
    let (visitors, value) = value(fault);
    let other = Shared::new(&visitors, Probe { watched: UnsafeCell::new(()), count: 0 });
    let (mut reader, mut writer) = (visitors.visitor(), visitors.visitor());
    let written = value.clone();
    let thread = thread::spawn(move || written.write(&mut writer, Probe::add));
    value.read(&mut reader, Probe::read);
    other.read(&mut reader, Probe::read);
    thread.join().expect("no panic");
}

const SCENARIOS: [fn(SharedFault); 5] =
    [reader_and_writer, two_writers, newcomer, next_value, reader_and_decider];

#[test]
fn shared_values_are_never_read_while_they_change() {
    for scenario in SCENARIOS {
        assert_eq!(explore(SharedFault::None, scenario), None);
    }
}

#[test]
fn wrong_variants_of_shared_values_are_found() {
    let faults = [
        (SharedFault::ReaderNoFence, 0),
        (SharedFault::WriterNoFence, 0),
        (SharedFault::NoWait, 0),
        (SharedFault::NoRefresh, 2),
        (SharedFault::RelaxedLeave, 0),
        (SharedFault::RelaxedTurn, 0),
        (SharedFault::RelaxedLook, 0),
        (SharedFault::RelaxedNext, 3),
        (SharedFault::NoWriting, 4),
    ];
    for (fault, scenario) in faults {
        let complaint = explore(fault, SCENARIOS[scenario]);
        println!("{fault:?}: {}", complaint.as_deref().unwrap_or("NOT FOUND"));
        assert!(complaint.is_some(), "{fault:?} was not found");
    }
}
