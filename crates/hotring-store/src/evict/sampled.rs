//! The policies that draw samples: they evict the best victim among a few keys near a random position. The best victims
//! of earlier draws are remembered, as in Redis's pool.
//!
//! Differences: the age of LRU counts written bytes in 256 steps, not seconds (`hotring_index::Noting`);
//! keys near a position follow each other in the index's order of hashes, which is as good as any.
//!
//! An age of 256 ticks looks like 0. So with every draw a hand goes through a part of all items, two rounds
//! per memory size written, and caps older ages at `AGE_MAX`.

use std::collections::HashSet;

use fastrand::Rng;
use hotring_index::{AnySession, Entry, Marked};

use super::Victim;
use super::{Policy, TICKS_A_TURN};
use crate::pins::Pins;

/// Best candidates of earlier draws that are kept.
const POOL: usize = 16;
/// Keys among which chance chooses.
const RANDOM_SAMPLES: usize = 16;
/// Items looked at in one call of the index.
const PIECE: usize = 256;
/// Looks per draw: some 30 ms if hardly any key may be evicted. The next draw continues behind them.
const PIECES: usize = 4096;
/// The cap of older ages.
const AGE_MAX: u8 = 191;
/// In half a turn the hand comes by each item: before one of that age looks like now.
const _: () = assert!(TICKS_A_TURN / 2 + (AGE_MAX as u64) < 256);

/// The candidates and their scores: the highest is the best victim.
struct Candidate {
    score: u64,
    victim: Victim,
}

/// The state of these policies.
pub(crate) struct Sampled {
    /// From the worst to the best.
    pool: Vec<Candidate>,
    random: Rng,
    /// Where keys with an expiry are looked for, and where ages are.
    expiring_hand: u64,
    age_hand: u64,
}

/// The criterion of one choice.
#[derive(Clone, Copy)]
pub(crate) struct Draw<'a> {
    pub(crate) policy: Policy,
    pub(crate) samples: usize,
    pub(crate) tick: u8,
    pub(crate) pins: &'a Pins,
    /// The hashes of those that were chosen already and may still be there.
    pub(crate) chosen: &'a HashSet<u64>,
}

impl Draw<'_> {
    fn may_go(self, entry: &Entry<'_>, hash: u64) -> bool {
        !self.chosen.contains(&hash) && !self.pins.has(entry.key)
    }

    fn score(self, Marked { bits, hash, .. }: Marked, expire_at: Option<u64>, luck: u64) -> u64 {
        match self.policy {
            Policy::AllKeysLru | Policy::ExpiringLru => self.tick.wrapping_sub(bits).into(),
            Policy::AllKeysLfu | Policy::ExpiringLfu => (u8::MAX - bits).into(),
            Policy::ExpiringTtl => u64::MAX - expire_at.unwrap_or(u64::MAX),
            _ => (hash ^ luck).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }
}

impl Sampled {
    pub(crate) fn new(seed: u64) -> Self {
        Sampled { pool: Vec::new(), random: Rng::with_seed(seed), expiring_hand: 0, age_hand: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.pool.clear();
    }

    /// The next key to go; None if none may.
    pub(crate) fn choose(&mut self, index: &mut AnySession, draw: Draw<'_>) -> Option<Victim> {
        if draw.policy.takes_expiring_only() && index.counts().1 == 0 {
            self.pool.clear();
            return None;
        }
        self.draw(index, draw);
        self.pool.pop().map(|best| best.victim)
    }

    /// Enters keys that follow each other: near a random place; or those that expire, from where the last draw stopped,
    /// as they may be few among many.
    fn draw(&mut self, index: &mut AnySession, mut draw: Draw<'_>) {
        let luck = self.luck(&mut draw);
        let is_expiring = draw.policy.takes_expiring_only();
        let goes_on = is_expiring && draw.policy != Policy::ExpiringRandom;
        let mut cursor = if goes_on { self.expiring_hand } else { self.random() };
        let piece = if is_expiring { PIECE } else { draw.samples };
        // Twice through all, in the worst case: from the place to the end, and from the beginning.
        let (mut seen, mut rounds, mut pieces) = (0, 0, 0);
        while seen < draw.samples && rounds < 2 && pieces < PIECES {
            pieces += 1;
            let mut candidates = Vec::new();
            let left = draw.samples - seen;
            cursor = index.review(cursor, piece, |entry, marked| {
                let is_eligible = !is_expiring || entry.expire_at.is_some();
                if is_eligible && draw.may_go(&entry, marked.hash) {
                    candidates.push((
                        draw.score(marked, entry.expire_at, luck),
                        Victim::of(&entry, marked.hash),
                    ));
                }
                (marked.bits, candidates.len() < left)
            });
            rounds += usize::from(cursor == 0);
            seen += candidates.len();
            self.enter_all(candidates);
        }
        if is_expiring {
            self.expiring_hand = cursor;
        }
    }

    fn enter_all(&mut self, candidates: Vec<(u64, Victim)>) {
        for (score, victim) in candidates {
            let is_known = self.pool.iter().any(|known| known.victim.key == victim.key);
            let is_full = self.pool.len() >= POOL;
            if is_known || (is_full && self.pool[0].score >= score) {
                continue;
            }
            if is_full {
                self.pool.remove(0);
            }
            let at = self.pool.partition_point(|known| known.score < score);
            self.pool.insert(at, Candidate { score, victim });
        }
    }

    /// Goes on with the hand that keeps ages from coming round, for the bytes written since, of all bytes.
    pub(crate) fn age(
        &mut self,
        index: &mut AnySession,
        tick: u8,
        (written, all): (u64, u64),
        items: usize,
    ) {
        // Two rounds a turn; a turn is half of the ticks that there are.
        let count = (items as u128 * 2 * u128::from(written) / u128::from(all.max(1))) as usize;
        self.age_hand = index.review(self.age_hand, count.clamp(1, 64 * PIECE), |_, marked| {
            let age = tick.wrapping_sub(marked.bits);
            (tick.wrapping_sub(age.min(AGE_MAX)), true)
        });
    }

    /// For policies of chance: mixed into the scores of a draw. A single key behind a random position would
    /// always be one behind a wide gap, so chance chooses among several.
    fn luck(&mut self, draw: &mut Draw<'_>) -> u64 {
        if !matches!(draw.policy, Policy::AllKeysRandom | Policy::ExpiringRandom) {
            return 0;
        }
        draw.samples = draw.samples.max(RANDOM_SAMPLES);
        self.pool.clear();
        self.random()
    }

    /// A position: a hash of 48 bits, reversed. Which keys are looked at decides nothing that must not
    /// be foreseen.
    fn random(&mut self) -> u64 {
        self.random.u64(..) & !0xffff
    }
}
