//! The gate under a model checker: `loom` runs each scenario in every order of its steps (up to a
//! bound on preemptions) and with every value that the memory orders allow a load to return.
//!
//! This compiles the store's own `src/gate/mod.rs`, with loom's atomics for the real ones, two stripes
//! for 64, and a full fence for both sides of the asymmetric barrier. The keys are words that are
//! read and written Relaxed, so whatever order holds between them comes from the gate.
//!
//! It also compiles `src/watch`: a waiter must be notified of every change after its first look at its key, and an
//! observer of every change that a read after its registration does not show. The scenarios of lines of waiting clients
//! are in `line.rs`.
//!
//! The second half of the tests are negative controls: the same scenarios with a step left out must fail.
//!
//! Not covered: more than three threads; waiting that lasts (a thread that waits gives way to the
//! others); more than `PREEMPTIONS` switches that nothing forced; loads that take effect after a
//! later store of their thread, which loom does not do. The light barrier is a full fence here and
//! only a compiler fence where the kernel has membarrier: the fences beside it in `gate/mod.rs`, which
//! order what it then does not, can be left out here without a failure.
#![cfg(loom)]

#[path = "../../src/gate/mod.rs"]
// A wait sleeps at once here, after 0 rounds, so that a comparison with the number of rounds is always false.
#[allow(dead_code, clippy::absurd_extreme_comparisons)]
mod gate;
#[path = "../../src/holds.rs"]
#[allow(dead_code)]
mod holds;
#[path = "../../src/in_flight.rs"]
#[allow(dead_code)]
mod in_flight;
mod sync;
#[path = "../../src/wait.rs"]
#[allow(dead_code)]
mod wait;
#[path = "../../src/watch/mod.rs"]
#[allow(dead_code)]
mod watch;

use loom::thread;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::Waker;

use gate::{Fault, Gate, GateSession, Hold};
use holds::Keys;
use sync::{Arc, AtomicU64};
use watch::{Event, FirstLook, Leave, Observer, Watch, Watchers};

/// Tests that a scenario finds a wrong variant, one test for each part that a variant leaves out.
macro_rules! found {
    ($($name:ident: $scenario:ident, $left_out:expr, $wrong:literal;)*) => {$(
        #[test]
        #[should_panic = $wrong]
        fn $name() {
            $scenario($left_out);
        }
    )*};
}

// This module uses the macro, which must be defined before it.
mod line;

const PREEMPTIONS: usize = 3;
/// The most steps of one run; a run that needs more waits for ever.
const STEPS_MAX: usize = 10_000;
const BOTH: u64 = 0b11;

/// The hash of the key of a stripe.
fn hash(key: usize) -> u64 {
    (key as u64) << 63
}

/// The hash of another key in the stripe of key 0.
const BESIDE: u64 = 1;

fn keys(mask: u64) -> Keys {
    Keys::new(&mut (0..2).filter(|key| mask >> key & 1 == 1).map(hash).collect())
}

/// The part that a wrong variant leaves out.
#[derive(Clone, Copy)]
enum LeftOut {
    Nothing,
    Light,
    Step(Fault),
}

/// The name under which waiters watch key 0.
const NAME: &[u8] = b"key";

/// The gate and two keys, one to each stripe.
struct World {
    gate: Arc<Gate>,
    watchers: Arc<Watchers>,
    keys: [AtomicU64; 2],
    told: AtomicU64,
}

impl World {
    fn session(&self) -> GateSession {
        Gate::register(&self.gate)
    }

    fn get(&self, session: &mut GateSession, key: usize) -> u64 {
        let _reading = session.read(hash(key));
        self.keys[key].load(Relaxed)
    }

    fn set(&self, session: &mut GateSession, key: usize, value: u64) {
        let _writing = session.write(hash(key));
        self.keys[key].store(value, Relaxed);
    }

    /// Adds 1 without atomicity, unlike the index, so that a write in between is lost and the scenario fails.
    fn add(&self, key: usize) {
        self.keys[key].store(self.keys[key].load(Relaxed) + 1, Relaxed);
    }

    fn hold(&self, session: &mut GateSession, mask: u64, how: Hold, work: impl FnOnce()) {
        session.acquire(&keys(mask), how);
        work();
        session.release();
    }

    /// Begins to wait for a change of key 0. Also returns the value at the first look.
    fn watch(&self, session: &mut GateSession) -> (u64, Watch) {
        let leave = Leave::ask(&self.watchers).unwrap();
        session.acquire(&keys(0b01), Hold::Read);
        let seen = self.keys[0].load(Relaxed);
        let first = FirstLook { present: true, expected: false };
        let watch = leave.enter((0, 0), NAME, None, Waker::noop().clone(), first);
        session.release();
        (seen, watch)
    }

    /// Writes key 0 in the steps of `Session::change`.
    fn set_and_tell(&self, session: &mut GateSession, value: u64) {
        let _writing = session.write(hash(0));
        let watched = self.watchers.is_watched(0, NAME);
        self.keys[0].store(value, Relaxed);
        if watched {
            _ = self.watchers.notify(0, NAME, &Event::Stored(Some(b"value")));
            self.watchers.notify_observer(NAME, 0);
        }
    }

    /// Reads both keys at one moment; None if the first attempt fails.
    fn snapshot(&self, session: &mut GateSession) -> Option<[u64; 2]> {
        let begun = session.snapshot_begin(&keys(BOTH));
        let values = [self.keys[0].load(Relaxed), self.keys[1].load(Relaxed)];
        (begun && session.snapshot_end(&keys(BOTH))).then_some(values)
    }
}

/// Records that it was notified. The atomic is not loom's, so that it orders nothing.
#[derive(Default)]
struct Told(AtomicBool);

impl Observer for Told {
    fn changed(&self, _: &[u8], _: u64) {
        self.0.store(true, Relaxed);
    }

    fn cleared(&self, _: u64) {}
}

/// Runs a scenario in every order.
fn explore(left_out: LeftOut, scenario: impl Fn(&Arc<World>) + Sync + Send + 'static) {
    let fault = if let LeftOut::Step(fault) = left_out { fault } else { Fault::None };
    sync::leave_light_out(matches!(left_out, LeftOut::Light));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = STEPS_MAX;
    builder.check(move || {
        let keys = [AtomicU64::new(0), AtomicU64::new(0)];
        let gate = Arc::new(Gate::new(fault));
        let watchers = Arc::new(Watchers::new(2));
        scenario(&Arc::new(World { gate, watchers, keys, told: AtomicU64::new(0) }));
    });
}

fn spawn(world: &Arc<World>, f: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || f(&world))
}

/// A write and a hold of one key never overlap.
fn write_and_hold(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let writer = spawn(world, |world| {
            let mut session = world.session();
            let _writing = session.write(hash(0));
            world.add(0);
        });
        world.hold(&mut session, 0b01, Hold::WriteOnce, || world.add(0));
        writer.join().unwrap();
        assert_eq!(world.keys[0].load(Relaxed), 2, "an update was lost");
    });
}

/// Holds of common stripes never overlap, whatever their order, and all come to an end.
fn hold_and_hold(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let other = spawn(world, |world| {
            let mut session = world.session();
            world.hold(&mut session, 0b10, Hold::Exclusive, || world.add(1));
        });
        world.hold(&mut session, BOTH, Hold::WriteOnce, || {
            world.add(1);
            world.add(0);
        });
        other.join().unwrap();
        assert_eq!(world.keys[1].load(Relaxed), 2, "an update was lost");
    });
}

/// Intermediate writes of an exclusive holder are never read.
fn read_and_exclusive(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let holder = spawn(world, |world| {
            let mut session = world.session();
            world.hold(&mut session, 0b01, Hold::Exclusive, || {
                world.keys[0].store(1, Relaxed);
                world.keys[0].store(2, Relaxed);
            });
        });
        assert_ne!(world.get(&mut session, 0), 1, "the middle of an exclusive hold");
        holder.join().unwrap();
    });
}

/// A session that has read one new value also reads the other one, in its next operation.
fn reads_in_turn(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let holder = spawn(world, |world| {
            let mut session = world.session();
            world.hold(&mut session, BOTH, Hold::WriteOnce, || {
                world.keys[0].store(1, Relaxed);
                world.keys[1].store(1, Relaxed);
            });
        });
        let first = world.get(&mut session, 0);
        let second = world.get(&mut session, 1);
        assert!(first <= second, "half of a multi-key write");
        holder.join().unwrap();
    });
}

/// The same, with the second read by a thread that was told of the first.
fn reads_by_hearsay(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let [mut teller, mut holder] = [world.session(), world.session()];
        let teller = spawn(world, move |world| {
            // Only a read that did not wait is told: a read that waited has seen the end of the hold.
            let first = if world.gate.is_held(0b01) { 0 } else { world.get(&mut teller, 0) };
            world.told.store(first, Release);
        });
        let holder = spawn(world, move |world| {
            world.hold(&mut holder, BOTH, Hold::WriteOnce, || {
                world.keys[0].store(1, Relaxed);
                world.keys[1].store(1, Relaxed);
            });
        });
        if world.told.load(Acquire) == 1 {
            assert_eq!(world.get(&mut session, 1), 1, "half of a multi-key write");
        }
        holder.join().unwrap();
        teller.join().unwrap();
    });
}

/// A snapshot beside a session that changes key 0, key 1, and key 0 back to its old value. The values alone do not
/// show that key 0 had another value when key 1 changed.
fn snapshot_and_writes(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut other = world.session();
        let writer = spawn(world, move |world| {
            world.set(&mut other, 0, 1);
            world.set(&mut other, 1, 1);
            world.set(&mut other, 0, 0);
        });
        if world.snapshot(&mut session) == Some([0, 1]) {
            // Only the end looks like this.
            assert_eq!(world.keys[0].load(Relaxed), 0, "a snapshot of two moments");
        }
        writer.join().unwrap();
    });
}

/// A snapshot beside a session that comes in the middle of it.
fn snapshot_and_newcomer(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let newcomer = spawn(world, |world| {
            let mut session = world.session();
            world.set(&mut session, 0, 1);
            world.set(&mut session, 1, 1);
        });
        if let Some(values) = world.snapshot(&mut session) {
            assert_ne!(values, [0, 1], "a snapshot of two moments");
        }
        newcomer.join().unwrap();
    });
}

/// A snapshot beside a hold.
fn snapshot_and_hold(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let holder = spawn(world, |world| {
            let mut session = world.session();
            world.hold(&mut session, BOTH, Hold::WriteOnce, || {
                world.keys[0].store(1, Relaxed);
                world.keys[1].store(1, Relaxed);
            });
        });
        if let Some(values) = world.snapshot(&mut session) {
            assert_eq!(values[0], values[1], "half of a multi-key write");
        }
        holder.join().unwrap();
    });
}

/// A holder that knows its peers already does not miss one that comes.
fn hold_and_newcomer(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        world.hold(&mut session, 0b10, Hold::WriteOnce, || ());
        let newcomer = spawn(world, |world| {
            let mut session = world.session();
            let _writing = session.write(hash(0));
            world.add(0);
        });
        world.hold(&mut session, 0b01, Hold::WriteOnce, || world.add(0));
        newcomer.join().unwrap();
        assert_eq!(world.keys[0].load(Relaxed), 2, "an update was lost");
    });
}

/// While one session holds another key of the stripe, a write and a hold of key 0 never overlap, and all come to an
/// end.
fn write_and_hold_beside(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut beside = world.session();
        beside.acquire(&Keys::new(&mut vec![BESIDE]), Hold::WriteOnce);
        let writer = spawn(world, |world| {
            let mut session = world.session();
            let _writing = session.write(hash(0));
            world.add(0);
        });
        world.hold(&mut session, 0b01, Hold::WriteOnce, || world.add(0));
        writer.join().unwrap();
        beside.release();
        assert_eq!(world.keys[0].load(Relaxed), 2, "an update was lost");
    });
}

/// The end of a hold leaves the hold of another key of its stripe in place.
fn end_beside(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut beside = world.session();
        beside.acquire(&Keys::new(&mut vec![BESIDE]), Hold::WriteOnce);
        let writer = spawn(world, |world| {
            let mut session = world.session();
            let _writing = session.write(hash(0));
            world.add(0);
        });
        session.acquire(&keys(0b01), Hold::WriteOnce);
        beside.release();
        world.add(0);
        session.release();
        writer.join().unwrap();
        assert_eq!(world.keys[0].load(Relaxed), 2, "an update was lost");
    });
}

/// A snapshot beside a write that has met a hold and was put off.
fn snapshot_and_delayed_write(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut holder = world.session();
        holder.acquire(&keys(0b01), Hold::Read);
        let mut other = world.session();
        let writer = spawn(world, move |world| world.set(&mut other, 0, 1));
        holder.release();
        let begun = session.snapshot_begin(&keys(0b01));
        let [first, second] = [(); 2].map(|()| world.keys[0].load(Relaxed));
        if begun && session.snapshot_end(&keys(0b01)) {
            assert_eq!(first, second, "a snapshot of two moments");
        }
        writer.join().unwrap();
    });
}

/// A waiter is notified of a write that its first check did not show, and of no other.
fn watch_and_write(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut other = world.session();
        let writer = spawn(world, move |world| world.set_and_tell(&mut other, 1));
        let (seen, watch) = world.watch(&mut session);
        if watch.has_fired() {
            assert_eq!(world.get(&mut session, 0), 1, "told of a change that is not seen");
        }
        writer.join().unwrap();
        assert!(seen == 1 || watch.has_fired(), "a change was missed");
        assert!(seen == 0 || !watch.has_fired(), "told of what was seen");
    });
}

/// The same, while another waiter of the key leaves.
fn watch_and_leave(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut other = world.session();
        let (_, leaving) = world.watch(&mut session);
        let writer = spawn(world, move |world| {
            drop(leaving);
            world.set_and_tell(&mut other, 1);
        });
        let (seen, watch) = world.watch(&mut session);
        writer.join().unwrap();
        assert!(seen == 1 || watch.has_fired(), "a change was missed");
    });
}

/// A new observer is notified of a write that a later read does not show, also if it gets the bit of an observer that
/// leaves.
fn observe_and_write(left_out: LeftOut) {
    explore(left_out, |world| {
        let told = std::sync::Arc::new(Told::default());
        world.watchers.set_observer(told.clone());
        let mut session = world.session();
        let mut other = world.session();
        let (_, leaving) = world.watch(&mut session);
        let writer = spawn(world, move |world| {
            drop(leaving);
            world.set_and_tell(&mut other, 1);
        });
        world.hold(&mut session, BOTH, Hold::Exclusive, || world.watchers.observe(true));
        let seen = world.get(&mut session, 0);
        writer.join().unwrap();
        assert!(seen == 1 || told.0.load(Relaxed), "a change was missed");
    });
}

#[test]
fn writes_and_holds_exclude_each_other() {
    write_and_hold(LeftOut::Nothing);
    hold_and_hold(LeftOut::Nothing);
    hold_and_newcomer(LeftOut::Nothing);
}

#[test]
fn keys_of_one_stripe_are_held_beside_each_other() {
    write_and_hold_beside(LeftOut::Nothing);
    end_beside(LeftOut::Nothing);
}

#[test]
fn reads_see_all_or_nothing() {
    read_and_exclusive(LeftOut::Nothing);
    reads_in_turn(LeftOut::Nothing);
}

#[test]
fn reads_see_all_or_nothing_by_hearsay() {
    reads_by_hearsay(LeftOut::Nothing);
}

#[test]
fn snapshots_are_of_one_moment() {
    snapshot_and_writes(LeftOut::Nothing);
    snapshot_and_newcomer(LeftOut::Nothing);
    snapshot_and_hold(LeftOut::Nothing);
    snapshot_and_delayed_write(LeftOut::Nothing);
}

#[test]
fn no_change_is_missed_by_a_waiter() {
    watch_and_write(LeftOut::Nothing);
    watch_and_leave(LeftOut::Nothing);
}

#[test]
fn no_change_is_missed_by_an_observer() {
    observe_and_write(LeftOut::Nothing);
}

found! {
    without_a_look_at_the_keys_an_update_is_lost:
        write_and_hold_beside, LeftOut::Step(Fault::NoLook), "an update was lost";
    without_a_drain_beside_another_hold_an_update_is_lost:
        write_and_hold_beside, LeftOut::Step(Fault::NoDrain), "an update was lost";
    without_the_other_holds_stripe_an_update_is_lost:
        end_beside, LeftOut::Step(Fault::ClearsAll), "an update was lost";
    without_waiting_for_writes_an_observer_misses_a_change:
        observe_and_write, LeftOut::Step(Fault::NoDrain), "a change was missed";
    without_the_light_barrier_an_observer_misses_a_change:
        observe_and_write, LeftOut::Light, "a change was missed";
    without_holds_a_change_is_missed:
        watch_and_write, LeftOut::Step(Fault::NoHold), "a change was missed";
    without_waiting_for_writes_a_change_is_missed:
        watch_and_write, LeftOut::Step(Fault::NoDrain), "a change was missed";
    without_the_light_barrier_a_change_is_missed:
        watch_and_write, LeftOut::Light, "a change was missed";
    without_the_light_barrier_a_write_is_missed:
        write_and_hold, LeftOut::Light, "an update was lost";
    without_the_light_barrier_a_newcomer_is_missed:
        hold_and_newcomer, LeftOut::Light, "an update was lost";
    without_the_light_barrier_a_read_is_missed:
        read_and_exclusive, LeftOut::Light, "the middle of an exclusive hold";
    without_waiting_for_writes_an_update_is_lost:
        write_and_hold, LeftOut::Step(Fault::NoDrain), "an update was lost";
    without_waiting_for_reads_the_middle_is_seen:
        read_and_exclusive, LeftOut::Step(Fault::NoReaderDrain), "the middle of an exclusive hold";
    without_holds_half_is_seen:
        reads_in_turn, LeftOut::Step(Fault::NoHold), "half of a multi-key write";
    without_holds_half_is_seen_by_hearsay:
        reads_by_hearsay, LeftOut::Step(Fault::NoHold), "half of a multi-key write";
    without_the_second_collection_two_moments_are_seen:
        snapshot_and_newcomer, LeftOut::Step(Fault::NoRecheck), "a snapshot of two moments";
    without_the_second_collection_a_change_back_is_not_seen:
        snapshot_and_writes, LeftOut::Step(Fault::NoRecheck), "a snapshot of two moments";
    without_the_second_collection_half_is_seen:
        snapshot_and_hold, LeftOut::Step(Fault::NoRecheck), "half of a multi-key write";
}
