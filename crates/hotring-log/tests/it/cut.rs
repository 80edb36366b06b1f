//! Tests of cutting the log behind a record: wherever a crash comes, what recovers is the old log up to that record or
//! beyond, or the log that goes on from there; never a mixture, and never nothing.

use std::sync::{Arc, Mutex};

use fastrand::Rng;
use hotring_log::storage::memory::Memory;
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
        assert!(!running.log.is_restarting() && running.log.trouble().is_none());
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
