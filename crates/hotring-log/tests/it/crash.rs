//! Tests of crashes: before each write and each sync of a random workload, in each setting, the
//! directory is turned into what a kill or a power cut may leave. Recovery must return a prefix of
//! the records that were handed over, in order, with complete batches and everything that was
//! acknowledged. Then the log continues from there. The steps of the manifest are included.
//!
//! Not checked: a disk that loses synced data, and blocks torn within 512 bytes other than at the
//! last change.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use hotring_log::storage::memory::{Cut, Memory, Step};
use hotring_log::{AckWhen, Log, Recovered, Syncer};

use crate::number;
use crate::workload::{Batch, Running, draw, recovered};

const SEGMENT_LEN: u64 = 4096;

/// The checker's record of the run.
struct Witness {
    log: Arc<Log>,
    /// Batches that were handed over, in order.
    order: Mutex<Vec<Batch>>,
    state: Mutex<State>,
}

struct State {
    random: Rng,
    /// The last record written before the current step.
    written: u64,
    /// The number of unsynced changes then.
    changes: usize,
    images: usize,
    /// The first fault.
    wrong: Option<String>,
}

impl Witness {
    /// Checks the recovery of this image, if everything up to `acknowledged` must be there.
    fn check(
        &self,
        image: &Memory,
        acknowledged: u64,
        state: &mut State,
        what: &dyn Fn() -> String,
    ) {
        state.images += 1;
        let order = self.order.lock().unwrap();
        let wrong = match recovered(image, 1) {
            Err(error) => Some(error.to_string()),
            Ok((report, batches)) => {
                let is_start = batches.len() <= order.len() && batches == order[..batches.len()];
                let last = batches.last().map_or(0, |(last, _)| *last);
                if !is_start || report.last != last {
                    Some(format!("{last} is the last record and the order is wrong: {report:?}"))
                } else if last < acknowledged {
                    Some(format!("{last} is the last record, {acknowledged} was acknowledged"))
                } else {
                    None
                }
            }
        };
        if let (Some(wrong), None) = (wrong, &state.wrong) {
            state.wrong = Some(format!("{}: {wrong}", what()));
        }
    }

    /// Continues the log from this image, and crashes again.
    fn go_on(&self, image: &Memory, state: &mut State, cuts: bool) {
        let copy = image.killed();
        let Ok((report, mut batches)) = recovered(image, 1) else { return };
        let image = if cuts { image } else { &copy };
        let mut next = Running::new(image, AckWhen::Synced, SEGMENT_LEN, &report);
        for _ in 0..3 {
            let (mut records, bytes) = draw(&mut state.random, 9);
            batches.push((next.log.append(&mut records), bytes));
            next.step();
        }
        let cut = Cut { kept: vec![false; image.unsynced()], torn: None };
        let wrong = match recovered(&image.image(&cut), 1) {
            Err(error) => error.to_string(),
            Ok((_, again)) if again != batches => {
                "it does not go on where it had ended".to_string()
            }
            Ok(_) => return,
        };
        state.wrong.get_or_insert(format!("after recovery: {wrong}"));
    }

    /// Crashes during the recovery of this image: the next recovery must find the same.
    fn interrupt(image: &Memory, state: &mut State) {
        let crashed: Arc<Mutex<Vec<Memory>>> = Arc::default();
        let keeps = crashed.clone();
        image.before_each(move |image, _| {
            let images = image.power_cuts(8, 1).into_iter().map(|cut| image.image(&cut));
            keeps.lock().unwrap().extend(images);
        });
        let Ok((_, batches)) = recovered(image, 1) else { return };
        for image in crashed.lock().unwrap().drain(..) {
            let wrong = match recovered(&image, 1) {
                Err(error) => error.to_string(),
                Ok((_, again)) if again != batches => "it finds something else".to_string(),
                Ok(_) => continue,
            };
            state.wrong.get_or_insert(format!("after a crash of recovery: {wrong}"));
        }
    }

    /// Before each step: checks the images that a crash at this moment may leave.
    fn look(&self, memory: &Memory, drawn: usize, cuts: bool) {
        let state = &mut *self.state.lock().unwrap();
        if state.wrong.is_some() {
            return;
        }
        let (written, synced) = (self.log.written(), self.log.synced());
        let seed = state.random.usize(..1 << 40) as u64;
        for cut in memory.power_cuts(drawn, seed) {
            let image = memory.image(&cut);
            // Changes by recovery come later.
            let copy = state.random.usize(..16).eq(&0).then(|| image.killed());
            self.check(&image, synced, state, &|| format!("power cut, {cut:?}"));
            if let Some(copy) = copy {
                Witness::interrupt(&copy.killed(), state);
                self.go_on(&copy, state, cuts);
            }
        }
        let before = std::mem::replace(&mut state.written, written);
        let changes = memory.unsynced();
        let known = std::mem::replace(&mut state.changes, changes);
        if memory.last_step() == Some(Step::Write) && changes > known {
            // A part of the last write is there.
            let end = known + 1 + state.random.usize(..changes - known);
            let kept = (0..changes).map(|change| change < end).collect();
            let torn = Cut { kept, torn: Some(state.random.usize(..512)) };
            self.check(&memory.image(&torn), before, state, &|| "killed while it wrote".into());
        }
        self.check(&memory.killed(), written, state, &|| "killed".into());
    }
}

/// A run: its setting, and its deliberate faults.
struct Run {
    when: AckWhen,
    seed: u64,
    batches: usize,
    /// Power cuts per step.
    drawn: usize,
    /// Syncing does nothing.
    pretends: bool,
    /// Recovery cuts off unfinished writes.
    cuts: bool,
    /// The disk is sometimes full, and the setting changes.
    has_faults: bool,
}

impl Run {
    fn new(when: AckWhen, seed: u64) -> Run {
        Run { when, seed, batches: 30, drawn: 8, pretends: false, cuts: true, has_faults: false }
    }

    /// Returns how many images were checked, and the first fault.
    fn go(self) -> (usize, Option<String>) {
        let memory = Memory::new();
        memory.pretend(self.pretends);
        let mut running = Running::new(&memory, self.when, SEGMENT_LEN, &Recovered::nothing(1));
        let state = State {
            random: Rng::with_seed(self.seed),
            written: 0,
            changes: 0,
            images: 0,
            wrong: None,
        };
        let witness = Arc::new(Witness {
            log: running.log.clone(),
            order: Mutex::default(),
            state: Mutex::new(state),
        });
        let looks = witness.clone();
        memory.before_each(move |memory, _: Step| looks.look(memory, self.drawn, self.cuts));
        running.pace = Duration::from_millis(if self.has_faults { 400 } else { 100 });
        let mut random = Rng::with_seed(self.seed ^ 0xfeed);
        for _ in 0..self.batches {
            let (mut records, bytes) = draw(&mut random, self.seed as usize % 4);
            let mut order = witness.order.lock().unwrap();
            let last = running.log.append(&mut records);
            order.push((last, bytes));
            drop(order);
            if random.usize(..3) > 0 {
                running.step();
            }
            if random.usize(..6) == 0 {
                running.syncer.step();
            }
            if self.has_faults && random.usize(..4) == 0 {
                // As a snapshot does.
                running.log.begin_segment();
            }
            if self.has_faults && random.usize(..3) == 0 {
                let step =
                    [Step::Write, Step::Write, Step::Create, Step::Preallocate][random.usize(..4)];
                memory.fail(step, random.usize(..3), 1 + random.usize(..2), ErrorKind::StorageFull);
                running.log.set_when(
                    [AckWhen::Handed, AckWhen::Written, AckWhen::Synced][random.usize(..3)],
                );
            }
        }
        running.close();
        witness.look(&memory, self.drawn, self.cuts);
        let state = witness.state.lock().unwrap();
        (state.images, state.wrong.clone())
    }
}

/// Runs of one setting; the seeds come from `HOTRING_SEED` and `HOTRING_SEQUENCES`.
fn crash(when: AckWhen, has_faults: bool) {
    let seed = number("HOTRING_SEED", 1);
    let mut images = 0;
    for seed in seed..seed + number("HOTRING_SEQUENCES", 1) {
        let (looked, wrong) = Run { has_faults, ..Run::new(when, seed) }.go();
        assert_eq!(wrong, None, "{when:?}, seed {seed}");
        images += looked;
    }
    println!("{when:?}, seeds from {seed} on: {images} crashes");
}

#[test]
fn a_crash_loses_nothing_that_was_synced() {
    crash(AckWhen::Synced, false);
}

#[test]
fn a_kill_loses_nothing_that_was_written() {
    crash(AckWhen::Written, false);
}

#[test]
fn a_kill_loses_only_unwritten_records() {
    crash(AckWhen::Handed, false);
}

#[test]
fn a_disk_that_is_full_now_and_then_loses_nothing_either() {
    crash(AckWhen::Written, true);
}

#[test]
fn acknowledging_before_the_sync_is_noticed() {
    let run = Run { pretends: true, ..Run::new(AckWhen::Synced, 1) };
    let wrong = run.go().1.expect("what is not synced gets lost");
    // Or the manifest notices the loss first, or is lost in part itself.
    let said = ["was acknowledged", "had been synced", "manifest.hrm is damaged"];
    let is_noticed = said.iter().any(|said| wrong.contains(said));
    assert!(is_noticed, "{wrong}");
}

#[test]
fn a_recovery_that_does_not_cut_is_noticed() {
    let noticed = (1..=4).any(|seed| {
        let run = Run { cuts: false, ..Run::new(AckWhen::Written, seed) };
        run.go().1.is_some_and(|wrong| wrong.contains("after recovery"))
    });
    assert!(noticed);
}

#[test]
fn the_syncer_may_be_at_work_in_any_setting() {
    fn is_send<T: Send>(_: &T) {}
    let memory = Memory::new();
    let mut running = Running::new(&memory, AckWhen::Written, SEGMENT_LEN, &Recovered::nothing(1));
    let syncer: &Syncer = &running.syncer;
    is_send(syncer);
    is_send(&running.writer);
    running.put(b"k", b"v");
    running.step();
    assert_eq!((running.log.written(), running.log.synced()), (1, 0));
    running.syncer.step();
    assert_eq!(running.log.synced(), 1);
    running.close();
    assert!(!running.syncer.wait());
}
