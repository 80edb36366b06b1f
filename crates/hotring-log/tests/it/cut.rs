//! Tests of cutting the log behind a record: wherever a crash comes, what recovers is the old log up to that record or
//! beyond, or the log that goes on from there; never a mixture, and never nothing.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use hotring_log::storage::memory::{Memory, Step};
use hotring_log::{AckWhen, Recovered};

use crate::number;
use crate::workload::{Batch, Running, draw, recovered};

/// Appends random batches.
fn append(running: &mut Running, random: &mut Rng, count: usize, order: &mut Vec<Batch>) {
    for _ in 0..count {
        let (mut records, bytes) = draw(random, 3);
        order.push((running.log.append(&mut records), bytes));
        if random.usize(..3) > 0 {
            running.step();
        }
        if random.usize(..5) == 0 {
            running.syncer.step();
        }
        if random.usize(..12) == 0 {
            running.log.begin_segment();
        }
    }
}

/// What a crash at any of the steps since then may leave.
fn watch(memory: &Memory) -> Arc<Mutex<Vec<Memory>>> {
    let images: Arc<Mutex<Vec<Memory>>> = Arc::default();
    let keeps = images.clone();
    memory.before_each(move |memory, _| {
        let mut images = keeps.lock().unwrap();
        let seed = images.len() as u64;
        images.extend(memory.power_cuts(6, seed).iter().map(|cut| memory.image(cut)));
        images.push(memory.killed());
    });
    images
}

/// Whether these batches are a beginning of the others, and at least `least`.
fn is_start(found: &[Batch], of: &[Batch], least: usize) -> bool {
    found.len() >= least && found.len() <= of.len() && found == &of[..found.len()]
}

#[test]
fn a_crash_of_a_cut_leaves_the_old_log_or_the_new_one() {
    let seed = number("HOTRING_SEED", 1);
    for seed in seed..seed + 5 * number("HOTRING_SEQUENCES", 1) {
        let (mut random, memory) = (Rng::with_seed(seed), Memory::new());
        let when = [AckWhen::Written, AckWhen::Synced, AckWhen::Handed][seed as usize % 3];
        let mut running = Running::new(&memory, when, 4096, &Recovered::nothing(1));
        let mut old = Vec::new();
        append(&mut running, &mut random, 25, &mut old);
        let kept = random.usize(1..=old.len());
        let (last, _) = old[kept - 1];
        let is_synced = random.bool();
        if is_synced {
            running.step();
            running.syncer.step();
        }
        let least = if is_synced { kept } else { 0 };
        let images = watch(&memory);
        running.log.cut(last);
        assert!(running.log.is_restarting());
        running.step();
        assert!(!running.log.is_restarting() && running.log.error().is_none());
        let (log, ends) = (&running.log, [last; 3]);
        assert_eq!([log.handed(), log.written(), log.synced()], ends, "seed {seed}");
        let mut new = old[..kept].to_vec();
        append(&mut running, &mut random, 12, &mut new);
        running.close();
        for (n, image) in images.lock().unwrap().drain(..).enumerate() {
            let found = recovered(&image, 1);
            let (_, found) = found.unwrap_or_else(|why| panic!("seed {seed}, crash {n}: {why}"));
            let is_right = is_start(&found, &old, least) || is_start(&found, &new, kept);
            let ends = found.last().map(|(last, _)| *last);
            assert!(is_right, "seed {seed}, crash {n}: it ends with {ends:?}, cut behind {last}");
        }
        let (_, found) = recovered(&memory, 1).expect("it was closed");
        assert!(found == new, "seed {seed}: cut behind {last}");
    }
}

/// A snapshot has taken the place of all that stays, and the log begins with what goes.
#[test]
fn a_log_can_be_cut_in_front_of_its_first_record() {
    let (mut random, memory) = (Rng::with_seed(1), Memory::new());
    let mut running = Running::new(&memory, AckWhen::Written, 4096, &Recovered::nothing(41));
    let mut old = Vec::new();
    append(&mut running, &mut random, 30, &mut old);
    running.step();
    running.log.cut(40);
    running.step();
    let mut new = Vec::new();
    append(&mut running, &mut random, 5, &mut new);
    running.close();
    assert_eq!(recovered(&memory, 41).expect("it was closed").1, new);
}

/// A full disk in the middle of a cut or restart used to end the log until the next start of the server. Now the
/// request stays, is tried once a second, and the log goes on once there is space. A crash meanwhile finds a log as
/// before.
#[test]
fn a_full_disk_delays_a_cut_and_ends_no_log() {
    let cuts = [Step::Write, Step::Create, Step::SetLen, Step::Rename, Step::Remove];
    let cuts = cuts.map(|step| (step, 0, true)).into_iter();
    let later = [(Step::Remove, 1, true), (Step::Remove, 0, false), (Step::Remove, 1, false)];
    for (step, after, keeps) in cuts.chain(later) {
        let (mut random, memory) = (Rng::with_seed(7), Memory::new());
        let when = AckWhen::Written;
        let mut running = Running::new(&memory, when, 4096, &Recovered::nothing(1));
        let mut old = Vec::new();
        append(&mut running, &mut random, 40, &mut old);
        running.step();
        running.syncer.step();
        let kept = if keeps { 3 } else { 0 };
        let last = if keeps { old[kept - 1].0 } else { 1000 };
        memory.fail(step, after, 3, ErrorKind::StorageFull);
        match keeps {
            true => running.log.cut(last),
            false => running.log.restart(last),
        }
        let what = format!("{step:?} {after}, keeps {keeps}");
        running.step();
        assert!(running.log.is_restarting(), "{what}");
        let images = watch(&memory);
        for _ in 0..60 {
            let error = running.log.error();
            assert_eq!(error.is_some(), running.log.is_restarting(), "{what}");
            assert!(error.is_none_or(|error| error.is_temporary), "{what}");
            running.step();
        }
        assert!(!running.log.is_restarting() && running.log.error().is_none(), "{what}");
        let mut new = old[..kept].to_vec();
        append(&mut running, &mut random, 12, &mut new);
        running.close();
        let (_, found) = recovered(&memory, if keeps { 1 } else { last + 1 }).unwrap();
        assert!(found == new, "{what}");
        for image in images.lock().unwrap().drain(..).filter(|_| keeps) {
            let (_, found) = recovered(&image, 1).unwrap_or_else(|why| panic!("{what}: {why}"));
            assert!(is_start(&found, &old, kept) || is_start(&found, &new, kept), "{what}");
        }
    }
}

/// A cut that was requested between the failure of a segment and its second attempt used to end the log for good: the
/// file that the first attempt had left was in its way.
#[test]
fn a_cut_does_not_meet_the_file_of_a_segment_that_failed() {
    let memory = Memory::new();
    let mut running = Running::new(&memory, AckWhen::Written, 4096, &Recovered::nothing(1));
    let kept = running.put(b"a", b"1");
    running.step();
    running.put(b"b", &[2; 5000]);
    memory.fail(Step::Write, 0, 1, ErrorKind::StorageFull);
    memory.fail(Step::Remove, 0, 1, ErrorKind::StorageFull);
    running.step();
    assert!(running.log.error().is_some_and(|error| error.is_temporary));
    running.log.cut(kept.0);
    running.step();
    assert!(running.log.is_restarting(), "it is too early for another attempt");
    running.steps(11);
    assert_eq!(running.log.error().map(|error| error.to_string()), None);
    assert!(!running.log.is_restarting());
    let new = running.put(b"c", b"3");
    running.close();
    assert_eq!(recovered(&memory, 1).unwrap().1, [kept, new]);
}

/// The writer's thread used to try such a cut again without any pause.
#[test]
fn a_cut_on_a_full_disk_is_not_tried_without_a_pause() {
    let memory = Memory::new();
    let mut running = Running::new(&memory, AckWhen::Written, 4096, &Recovered::nothing(1));
    running.put(b"a", b"1");
    let (last, _) = running.put(b"b", b"2");
    running.step();
    running.put(b"c", b"3");
    running.step();
    memory.fail(Step::SetLen, 0, 1000, ErrorKind::StorageFull);
    running.log.cut(last);
    running.step();
    let begun = Instant::now();
    running.writer.wait();
    assert!(begun.elapsed() > Duration::from_millis(500), "it waits before the next attempt");
    let attempts = Arc::new(AtomicUsize::new(0));
    let counts = attempts.clone();
    // ORDERING: Relaxed, one thread.
    memory.before_each(move |_, step| {
        counts.fetch_add(usize::from(step == Step::SetLen), Ordering::Relaxed);
    });
    running.pace = Duration::from_millis(1);
    running.steps(900);
    assert_eq!(attempts.load(Ordering::Relaxed), 0);
    running.steps(200);
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
}
