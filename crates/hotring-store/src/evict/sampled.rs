//! The sampling policies: they evict the best victim among a few keys near a random position. The best candidates of
//! earlier draws are remembered, as in Redis's pool.
//!
//! Differences to Redis: an LRU age counts written bytes in 256 steps, not seconds (`hotring_index::Noting`); the keys
//! of a sample are neighbours in the index's order of hashes, which is as good as random.
//!
//! An age of 256 ticks looks like 0. So with every draw a hand goes through a part of all items, two rounds for each
//! memory size written, and caps ages at `AGE_MAX`.

use std::collections::HashSet;

use fastrand::Rng;
use hotring_index::{AnySession, Entry, Marked};

use super::{Policy, Spared, TICKS_A_TURN, Victim};

/// Maximum number of remembered candidates.
const POOL: usize = 16;
/// Minimum sample size of the random policies.
const RANDOM_SAMPLES: usize = 16;
/// Items visited in one call of the index.
const PIECE: usize = 256;
/// Maximum calls of the index per draw: about 30 ms if hardly any key may be evicted. The next draw continues after
/// them.
const PIECES: usize = 4096;
/// The maximum age, to which the hand caps older ages.
const AGE_MAX: u8 = 191;
/// The hand passes each item twice a turn, so an item of this age is capped again before its age wraps around.
const _: () = assert!(TICKS_A_TURN / 2 + (AGE_MAX as u64) < 256);

/// A candidate and its score: the highest score is the best victim.
struct Candidate {
    score: u64,
    victim: Victim,
}

/// The state of the sampling policies.
pub(crate) struct Sampled {
    /// Candidates, the worst first.
    pool: Vec<Candidate>,
    random: Rng,
    /// Positions of the search for keys with an expiry, and of the hand that caps ages.
    expiring_hand: u64,
    age_hand: u64,
}

/// The criteria of one draw.
#[derive(Clone, Copy)]
pub(crate) struct Draw<'a> {
    pub(crate) policy: Policy,
    pub(crate) samples: usize,
    pub(crate) tick: u8,
    pub(crate) spared: Spared<'a>,
    /// The hashes of victims that were chosen already and may not have been removed yet.
    pub(crate) chosen: &'a HashSet<u64>,
}

impl Draw<'_> {
    fn may_go(self, entry: &Entry<'_>, hash: u64) -> bool {
        !self.chosen.contains(&hash) && !self.spared.has(entry.key)
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

    /// Chooses the next victim; None if there is none.
    pub(crate) fn choose(&mut self, index: &mut AnySession, draw: Draw<'_>) -> Option<Victim> {
        if draw.policy.takes_expiring_only() && index.counts().1 == 0 {
            self.pool.clear();
            return None;
        }
        self.draw(index, draw);
        self.pool.pop().map(|best| best.victim)
    }

    /// Adds neighbouring keys to the pool: keys near a random position; or keys with an expiry, from the end of the
    /// last draw on, because they may be few among many.
    fn draw(&mut self, index: &mut AnySession, mut draw: Draw<'_>) {
        let luck = self.luck(&mut draw);
        let is_expiring = draw.policy.takes_expiring_only();
        let goes_on = is_expiring && draw.policy != Policy::ExpiringRandom;
        let mut cursor = if goes_on { self.expiring_hand } else { self.random() };
        let piece = if is_expiring { PIECE } else { draw.samples };
        // At most two passes: from the position to the end, and once from the beginning.
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

    /// Moves the hand that caps ages, by the share of `written` bytes in all bytes.
    pub(crate) fn age(
        &mut self,
        index: &mut AnySession,
        tick: u8,
        (written, all): (u64, u64),
        items: usize,
    ) {
        // Two rounds a turn; a turn is half of the 256 ticks.
        let count = (items as u128 * 2 * u128::from(written) / u128::from(all.max(1))) as usize;
        self.age_hand = index.review(self.age_hand, count.clamp(1, 64 * PIECE), |_, marked| {
            let age = tick.wrapping_sub(marked.bits);
            (tick.wrapping_sub(age.min(AGE_MAX)), true)
        });
    }

    /// For the random policies: a random number that is mixed into the scores of a draw. The single key after a random
    /// position would favour keys after wide gaps, so the draw chooses among several.
    fn luck(&mut self, draw: &mut Draw<'_>) -> u64 {
        if !matches!(draw.policy, Policy::AllKeysRandom | Policy::ExpiringRandom) {
            return 0;
        }
        draw.samples = draw.samples.max(RANDOM_SAMPLES);
        self.pool.clear();
        self.random()
    }

    /// A random position: a reversed 48-bit hash. It needs no cryptographic randomness, because nothing secret depends
    /// on the choice.
    fn random(&mut self) -> u64 {
        self.random.u64(..) & !0xffff
    }
}
