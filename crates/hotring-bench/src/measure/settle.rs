//! Decides when an index has settled: the visits per lookup are the same in successive blocks of turns.
//!
//! Turns are grouped in blocks. The first block is long enough to touch as many keys as there are, and each later
//! one is as long as all before it. Three successive blocks that agree end the warm-up. Because blocks double, a
//! slow drift cannot hide between them for long.

use std::time::Duration;

/// The largest relative difference in visits per lookup between two blocks that agree.
const TOLERANCE: f64 = 0.02;

/// The effort of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settled {
    /// Turns before the first measured one.
    pub turns: u64,
    /// Operations of these turns, over all threads.
    pub ops: u64,
    /// Duration of these turns, in seconds.
    pub seconds: f64,
    /// Whether visits per lookup were stable at the end, or are not counted.
    pub is_stable: bool,
}

/// The state of an index during warm-up.
#[derive(Clone, Debug)]
pub struct Settling {
    /// The effort so far.
    pub so_far: Settled,
    /// The minimum number of operations in a block.
    block: u64,
    /// Operations, sampled lookups, and visits of these lookups in the current block.
    current: (u64, u64, u64),
    /// Visits per lookup in the previous block, and the number of sampled lookups.
    before: Option<(f64, u64)>,
    /// The number of successive blocks that agreed with the previous one.
    agreed: u32,
}

impl Settling {
    /// Begins the warm-up of an index with `keys` keys.
    pub fn new(keys: u64) -> Self {
        Settling {
            so_far: Settled::default(),
            block: keys,
            current: (0, 0, 0),
            before: None,
            agreed: 0,
        }
    }

    /// Records a turn: its work, and the lookups and visits that the index counted in it.
    pub fn note(&mut self, ops: u64, took: Duration, counted: Option<(u64, u64)>) {
        self.so_far.turns += 1;
        self.so_far.ops += ops;
        self.so_far.seconds += took.as_secs_f64();
        let Some((lookups, visits)) = counted else {
            self.so_far.is_stable = true;
            return;
        };
        self.current.0 += ops;
        self.current.1 += lookups;
        self.current.2 += visits;
        if self.current.0 < self.block {
            return;
        }
        let (_, lookups, visits) = std::mem::take(&mut self.current);
        let now = visits as f64 / lookups.max(1) as f64;
        if let Some((before, lookups_before)) = self.before {
            // A mean over few lookups is less exact than `TOLERANCE`.
            let tolerance = TOLERANCE.max(2.0 / (lookups_before.min(lookups).max(1) as f64).sqrt());
            let agrees = (now - before).abs() <= tolerance * before;
            self.agreed = if agrees { self.agreed + 1 } else { 0 };
            self.so_far.is_stable = self.agreed >= 2;
            self.block = self.so_far.ops;
        }
        self.before = Some((now, lookups));
    }
}

impl Settled {
    /// The effort in words.
    pub fn describe(&self) -> String {
        let Settled { turns, ops, seconds, is_stable } = self;
        let end = if *is_stable { "" } else { ", NOT STABLE" };
        format!("{:.1}M ops ({turns} turns, {seconds:.1} s){end}", *ops as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns of 100 operations on 200 keys until it has settled, or 1,000.
    fn turns(visits: impl Fn(u64) -> f64) -> u64 {
        let mut settling = Settling::new(200);
        while !settling.so_far.is_stable && settling.so_far.turns < 2_000 {
            let each = visits(settling.so_far.turns);
            let counted = (1_000_000, (each * 1e6) as u64);
            settling.note(100, Duration::ZERO, Some(counted));
        }
        settling.so_far.turns
    }

    #[test]
    fn constant_visits_settle_after_three_blocks() {
        assert_eq!(turns(|_| 5.0), 8);
    }

    /// Successive turns differ by less than two in a hundred.
    #[test]
    fn a_slow_drift_does_not_settle() {
        let slow = turns(|turn| 2.5 + 2.5 * 0.97_f64.powi(turn as i32));
        assert!((100..2_000).contains(&slow), "{slow}");
        assert_eq!(turns(|turn| 5.0 + turn as f64), 2_000, "never");
    }

    #[test]
    fn a_target_without_visits_is_settled() {
        let mut settling = Settling::new(1 << 30);
        settling.note(10, Duration::from_secs(1), None);
        assert!(settling.so_far.is_stable);
        assert_eq!(settling.so_far.describe(), "0.0M ops (1 turns, 1.0 s)");
    }
}
