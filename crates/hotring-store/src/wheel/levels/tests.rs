//! The wheel against a sorted map of the same entries.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;

/// Entered hashes with their exact times. An entry that fires early is entered again, as in the store.
struct Tested {
    wheel: Wheel,
    due: BTreeMap<u64, u64>,
    now: u64,
    fired: usize,
    too_early: usize,
}

impl Tested {
    fn new(now: u64) -> Tested {
        Tested { wheel: Wheel::new(now), due: BTreeMap::new(), now, fired: 0, too_early: 0 }
    }

    fn enter(&mut self, hash: u64, due: u64) {
        self.wheel.enter(hash, due, self.now);
        // W2: nothing fires in the millisecond that is over.
        self.due.insert(hash, due.max(self.wheel.elapsed() + 1));
    }

    fn advance(&mut self, now: u64) {
        self.now = now;
        let mut requeued = Vec::new();
        loop {
            match self.wheel.step(now) {
                Step::Due(hash) if self.due[&hash] <= now => {
                    self.due.remove(&hash);
                    self.fired += 1;
                }
                Step::Due(hash) => requeued.push(hash),
                Step::Moved => {}
                Step::Done => break,
            }
        }
        self.too_early += requeued.len();
        for hash in requeued {
            self.wheel.enter(hash, self.due[&hash], now);
        }
        let late = self.due.iter().find(|(_, due)| **due <= now);
        assert_eq!(late, None, "not fired at {now}");
        assert_eq!(self.wheel.len(), self.due.len());
        let until = self.wheel.until();
        let first = self.due.values().min();
        assert_eq!(until.is_some(), first.is_some());
        assert!(until.is_none_or(|until| until > now), "{until:?} at {now}");
        assert!(until <= first.copied() || first.is_none(), "{until:?} is after {first:?}");
    }
}

fn run(seed: u64, start: u64) {
    let mut random = Rng::with_seed(seed);
    let mut tested = Tested::new(start);
    let mut entered = 0;
    for _ in 0..3_000 {
        for _ in 0..random.u64(..4) {
            let far = random.u64(..48);
            let due = tested.now.saturating_sub(3) + (random.u64(..) & ((1 << far) - 1));
            tested.enter(entered, due);
            entered += 1;
        }
        let far = random.u64(..46);
        let now = match random.u64(..4) {
            0 => tested.now,
            1 => tested.now + random.u64(..1 << far),
            // To the very millisecond of the next one.
            2 => tested.wheel.until().unwrap_or(tested.now),
            _ => tested.now + 1 + random.u64(..100),
        };
        tested.advance(now);
    }
    tested.advance(tested.now + SPAN);
    tested.advance(tested.now + SPAN);
    assert_eq!((tested.fired as u64, tested.due.len()), (entered, 0));
    // Each at most once for each level, and once for the end of a span.
    assert!(tested.too_early as u64 <= 3 * entered, "{} of {entered}", tested.too_early);
    assert!(tested.wheel.bytes() < 64 << 10, "{} bytes of nothing", tested.wheel.bytes());
}

#[test]
fn all_entries_fire_in_time() {
    for seed in 0..20 {
        run(seed, 1_700_000_000_000);
        run(seed, seed);
        // Over the end of the span.
        run(seed, SPAN - 1 - seed * 1_000);
        run(seed, 5 * SPAN - (1 << seed));
    }
}

#[test]
fn entries_due_within_four_minutes_fire_in_their_millisecond() {
    let start = 1_700_000_000_123;
    let mut random = Rng::with_seed(7);
    let mut tested = Tested::new(start);
    for hash in 0..20_000 {
        // The present 2^18 ms.
        let end = start | ((1 << 18) - 1);
        let due = start + 1 + random.u64(..end - start);
        tested.enter(hash, due);
    }
    assert!(tested.wheel.bytes() < 20_000 * 14, "{} bytes", tested.wheel.bytes());
    while let Some(until) = tested.wheel.until() {
        tested.advance(until);
    }
    assert_eq!((tested.fired, tested.too_early), (20_000, 0));
}

#[test]
fn a_step_is_little_work_however_many_are_in_one_slot() {
    let mut wheel = Wheel::new(0);
    // One slot of level 2.
    (0..10_000).for_each(|hash| wheel.enter(hash, 8_192 + hash % 4_096, 0));
    assert_eq!(wheel.step(8_191), Step::Done);
    assert_eq!(wheel.step(8_192), Step::Moved, "the slot is opened");
    let mut due = 0;
    for _ in 0..10_000 {
        due += usize::from(matches!(wheel.step(8_192), Step::Due(_)));
    }
    assert_eq!((due, wheel.step(8_192)), (3, Step::Done));
    // An entry made in the middle of it finds its place.
    assert_eq!(wheel.step(8_193), Step::Moved);
    wheel.enter(99_999, 8_194, 8_193);
    let mut taken = Vec::new();
    while taken.len() < 7 {
        if let Step::Due(hash) = wheel.step(8_194) {
            taken.push(hash);
        }
    }
    assert!(taken.contains(&99_999), "{taken:?}");
}

#[test]
fn a_clock_that_goes_back_keeps_nothing_in_a_circle() {
    let mut wheel = Wheel::new(1_000);
    assert_eq!(wheel.step(2_000), Step::Done);
    wheel.enter(1, 1_500, 1_400);
    wheel.enter(2, 1_600, 1_400);
    assert_eq!((wheel.until(), wheel.step(1_600)), (Some(2_001), Step::Done));
    let mut steps =
        std::iter::from_fn(|| Some(wheel.step(2_001)).filter(|step| *step != Step::Done));
    assert_eq!(steps.by_ref().filter(|step| matches!(step, Step::Due(_))).count(), 2);
}
