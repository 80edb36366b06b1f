//! Hot spot detection: three strategies that decide which items get hints. Each session calls its strategy on
//! every R-th access.
//!
//! * [`Strategy::Random`], FAST'20 section 3.2.1: the R-th access takes the head.
//! * [`Strategy::Sampling`], section 3.2.2: an R-th access to a cold item starts a round of as many
//!   counted accesses as the arc has items; the last one moves the head to the best place.
//! * [`Strategy::Vote`]: each hint word has up to 7 votes. An R-th access to a hinted item adds a vote to its
//!   word. An R-th access to an item without a hint removes a vote from a random word; a word without votes
//!   goes to the new item. This is the majority vote of Boyer and Moore; for several words it is the
//!   "frequent" algorithm of Misra and Gries. A settled line is never written to.

use crate::core::config::{RcuCounts, Strategy};
use crate::core::hooks::sometimes;
use crate::core::item::{Item, Kind};
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{
    COMPLETE, COUNTER, COUNTER_ONE, Hint, Link, MARK, Next, VOTES_MAX, head, ring_cmp,
};
use crate::engine::Hit;
use crate::ring::Ring;
use crate::ring::hint::VOTES_NEW;
use crate::session::Pinned;

/// Buckets of eager growth work that an R-th access does.
const EAGER_BUCKETS: u64 = if cfg!(any(loom, shuttle)) { 1 } else { 2 };
/// Items that one adjustment considers; of longer arcs it considers only the first part.
const ARC_MAX: usize = 64;
/// The longest period is 2 to the power of this times R.
const CALM_MAX: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 3 };
/// Under a checker runs may differ only in their schedules, so random choices are disabled.
const ALWAYS: bool = cfg!(any(loom, shuttle));
/// The period without a strategy, which only counts accesses.
const PERIOD_IDLE: u32 = 64;
/// Exponent of the back-off: a cold access starts a round with probability 2^-exponent.
const BACKOFF_MAX: u64 = 7;

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Counts an access by a lookup or a write in place.
    #[inline(always)]
    pub(crate) fn access(&mut self, hash: u64, hit: Option<Hit>, visits: u32) {
        if H == 1
            && self.shared.config.strategy == Strategy::Sampling
            && let Some(hit) = hit
        {
            self.count_sample(hash, hit.item);
        }
        self.local.countdown -= 1;
        if self.local.countdown == 0 {
            self.reborrow().every_rth(hash, hit, visits);
        }
    }

    /// Counts a read-copy-update write (FAST'20 section 3.2.2, "Write-Intensive Hotspot").
    pub(crate) fn access_rcu(&mut self, item: Item, pred: Link) {
        let item = match self.shared.config.rcu_counts {
            RcuCounts::Predecessor if pred.is_anchor() => return,
            RcuCounts::Predecessor => self.item(pred),
            RcuCounts::Item => item,
        };
        // ORDERING: Relaxed, only the strategy looks at it.
        let word = Next(item.next().load(Ordering::Relaxed));
        self.access(self.shared.kind.item_hash(item), Some(Hit { item, word }), 1);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn every_rth(&mut self, hash: u64, hit: Option<Hit>, visits: u32) {
        // This access stands for all accesses since the previous R-th one.
        let (lookups, visits) = (1 << self.local.calm, u64::from(visits) << self.local.calm);
        self.record().lookups.add(lookups as i64);
        self.record().visits.add(visits as i64);
        self.consider_overhead(lookups, visits);
        let has_eager_work = self.growth_step(EAGER_BUCKETS);
        let settled = self.decide(hash, hit) && !has_eager_work;
        let config = &self.shared.config;
        if config.strategy == Strategy::Vote && config.period.is_none() {
            self.local.calm = if settled { CALM_MAX.min(self.local.calm + 1) } else { 0 };
        }
        // R on average, randomly from R/2 to 3R/2, because a fixed R could synchronize with periodic accesses. The
        // period is longer while nothing changes.
        let period = match config.strategy {
            Strategy::None => PERIOD_IDLE,
            _ => config.period() << self.local.calm,
        };
        self.local.countdown = self.around(period);
        self.local.participant.count_accesses(self.engine.resizing.is_busy(), period);
    }

    /// Handles an R-th access: moves hints to hot items, and completes lines for misses. True: no change was
    /// necessary.
    fn decide(&mut self, hash: u64, hit: Option<Hit>) -> bool {
        let bucket = hash & self.engine.table.mask();
        let Some(hit) = hit else {
            let settled = !self.engine.completes || self.is_marked_complete(bucket);
            if !settled {
                self.try_complete(bucket);
            }
            return settled;
        };
        match self.shared.config.strategy {
            Strategy::None => {}
            Strategy::Random => self.move_head(bucket, hit.item),
            Strategy::Sampling => self.start_sampling(bucket, hit),
            Strategy::Vote => return self.vote(bucket, hash, hit),
        }
        true
    }

    fn is_marked_complete(&self, bucket: u64) -> bool {
        // ORDERING: Relaxed, advice.
        Next(self.engine.table.slot(bucket).anchor.load(Ordering::Relaxed)).is(COMPLETE)
    }

    fn around(&mut self, period: u32) -> u32 {
        let half = period / 2;
        period - half + (self.local.random() >> 40) as u32 % (2 * half + 1)
    }

    fn move_head(&mut self, bucket: u64, item: Item) {
        // ORDERING: Acquire, we may release the item behind it.
        let hint = Hint(self.engine.table.slot(bucket).hints[0].load(Ordering::Acquire));
        if hint.address() != item.address() && self.is_usable(bucket) {
            self.heat(bucket, 0, hint, item, Hint(item.address()));
        }
    }

    /// Whether a slot's anchor is linked. Hints must go only into such slots.
    pub(crate) fn is_usable(&self, bucket: u64) -> bool {
        // ORDERING: Acquire, as in `bucket`.
        Next(self.engine.table.slot(bucket).anchor.load(Ordering::Acquire)).is_start()
    }

    /// Votes for an item. False: the item had no hint, or the slot's anchor is not linked yet.
    fn vote(&mut self, bucket: u64, hash: u64, hit: Hit) -> bool {
        let slot = self.engine.table.slot(bucket);
        // ORDERING: Acquire, as in `bucket`.
        let control = Next(slot.anchor.load(Ordering::Acquire));
        // A vote is an atomic write, which waits for all lookups in flight. If every item has a hint, a
        // vote changes nothing.
        if !control.is_start() || control.is(COMPLETE) {
            return control.is_start();
        }
        let tag = Hint::tag_of(hash);
        for k in slot.matches(tag) {
            // ORDERING: Relaxed, a vote: the CAS validates it, no memory is read through it.
            let hint = Hint(slot.hints[k].load(Ordering::Relaxed));
            if hint.address() == hit.item.address() {
                if hint.votes() < VOTES_MAX {
                    self.cast(bucket, k, hint, hint.votes() + 1);
                }
                return true;
            }
        }
        self.challenge(bucket, tag, hit.item, control.link());
        false
    }

    /// For an item without a hint: takes a free word or the word of a hint without votes; otherwise removes a vote
    /// from that hint.
    fn challenge(&mut self, bucket: u64, tag: u64, item: Item, first: Link) {
        let luck = self.local.random() >> 33;
        if first == Link::item(item.address()) && luck & 3 != 0 && !ALWAYS {
            return;
        }
        let second = || if luck & 4 == 0 { self.hint_of_first(bucket, first) } else { None };
        let any = (luck >> 3) as usize % H;
        let k = self.free_hint(bucket).or_else(second).unwrap_or(any);
        // ORDERING: Acquire, we may release the item behind it.
        let hint = Hint(self.engine.table.slot(bucket).hints[k].load(Ordering::Acquire));
        if hint.is_reserved() {
            return;
        }
        if !hint.is_empty() && hint.votes() > 0 {
            self.cast(bucket, k, hint, hint.votes() - 1);
            return;
        }
        let after = Hint::new(tag, item.address(), 1);
        self.heat(bucket, k, hint, item, after);
    }

    fn free_hint(&self, bucket: u64) -> Option<usize> {
        // ORDERING: Relaxed, the CAS that takes the word validates it.
        let free = |word: &AtomicU64| word.load(Ordering::Relaxed) == 0;
        self.engine.table.slot(bucket).hints.iter().position(free)
    }

    /// The hint that leads to the node behind a bucket's anchor. This hint is the least valuable one: without
    /// it the item is still found at once, because the anchor is in the same line.
    fn hint_of_first(&self, bucket: u64, first: Link) -> Option<usize> {
        // ORDERING: Relaxed, as in `free_hint`.
        let leads =
            |word: &AtomicU64| Hint(word.load(Ordering::Relaxed)).address() == first.address();
        if first.is_anchor() {
            None
        } else {
            self.engine.table.slot(bucket).hints.iter().position(leads)
        }
    }

    /// Called for a new item whose line has no free word: gives it the hint of the item behind the anchor, unless
    /// that item is hot.
    pub(crate) fn crowd_in(&mut self, bucket: u64, hash: u64, item: Item) {
        if H == 1 || self.shared.config.strategy != Strategy::Vote {
            return;
        }
        let slot = self.engine.table.slot(bucket);
        // ORDERING: Relaxed, only compared with hints.
        let first = Next(slot.anchor.load(Ordering::Relaxed)).link();
        let Some(k) = self.hint_of_first(bucket, first) else { return };
        // ORDERING: Acquire, we may release the item behind it.
        let hint = Hint(slot.hints[k].load(Ordering::Acquire));
        if hint.address() == first.address() && hint.votes() <= VOTES_NEW {
            let after = Hint::new(Hint::tag_of(hash), item.address(), VOTES_NEW);
            if self.move_hint(bucket, k, hint, item, after) {
                sometimes!(CrowdedIn);
                self.bring_home(bucket, hash, item);
            }
        }
    }

    /// Called after a hint was put into the line of `bucket`. If the item's own bucket was split off meanwhile,
    /// its readers do not read this line, so the hint is removed. A session that is still splitting moves the
    /// hint.
    fn bring_home(&mut self, bucket: u64, hash: u64, item: Item) {
        let home = hash & self.engine.table.mask();
        if home != bucket && self.is_usable(home) {
            self.clear_hint(item);
        }
    }

    /// Moves a hint to a hot item, and counts the move.
    fn heat(&mut self, bucket: u64, k: usize, hint: Hint, item: Item, after: Hint) {
        let moved = self.move_hint(bucket, k, hint, item, after);
        self.record().head_moves.add(i64::from(moved));
    }

    fn cast(&mut self, bucket: u64, k: usize, hint: Hint, votes: u64) {
        let word = &self.engine.table.slot(bucket).hints[k];
        let after = hint.with_votes(votes).0;
        // ORDERING: Relaxed: a read-modify-write continues the release sequence that published the item. A lost
        // vote does no harm.
        let _ = word.compare_exchange(hint.0, after, Ordering::Relaxed, Ordering::Relaxed);
    }

    // --- HotRing-s

    /// While a round runs, each access takes one sample from the head and adds it to its item.
    #[inline(always)]
    fn count_sample(&mut self, hash: u64, item: Item) {
        let bucket = hash & self.engine.table.mask();
        // ORDERING: Relaxed, a counter; the CAS validates it.
        let word = self.engine.table.slot(bucket).hints[0].load(Ordering::Relaxed);
        if word & head::ACTIVE != 0 {
            self.take_sample(bucket, word, item);
        }
    }

    #[cold]
    fn take_sample(&mut self, bucket: u64, word: u64, item: Item) {
        let left = head::left(word);
        let last = left <= 1;
        let after = if last { head::idle(word) } else { word - head::TOTAL_ONE };
        let hint = &self.engine.table.slot(bucket).hints[0];
        // ORDERING: Relaxed, as in `cast`. On failure the sample is dropped.
        if hint.compare_exchange(word, after, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        // ORDERING: Relaxed, a counter in the top bits; overflow falls off the end of the word.
        item.next().fetch_add(COUNTER_ONE, Ordering::Relaxed);
        if last {
            self.adjust(bucket);
        }
    }

    /// Called when the R-th access was to a cold item: counts the items of the arc and starts a round of as many
    /// samples.
    fn start_sampling(&mut self, bucket: u64, hit: Hit) {
        let hint = &self.engine.table.slot(bucket).hints[0];
        // ORDERING: Relaxed, the CAS validates it.
        let word = hint.load(Ordering::Relaxed);
        let is_hot = Hint(word & !head::ACTIVE).address() == hit.item.address();
        if is_hot || word & head::ACTIVE != 0 || !self.is_usable(bucket) {
            return;
        }
        if self.shared.config.backoff && self.back_off(word) {
            return;
        }
        let samples = self.arc(bucket, |_| {}).max(1) as u64;
        let after = head::sampling(word, samples);
        // ORDERING: Relaxed, as in `cast`.
        if hint.compare_exchange(word, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.record().sampling_rounds.add(1);
        }
    }

    /// Whether back-off suppresses this round. The exponent is in the three low bits, which a head does not use
    /// for votes.
    fn back_off(&mut self, word: u64) -> bool {
        let exponent = Hint(word).votes();
        self.local.random() >> 32 & ((1 << exponent) - 1) != 0
    }

    /// Moves the head to the item from which the counted accesses would have cost least.
    ///
    /// With an anchor at the start of the arc, item i of the arc (from 1) costs i - t + 1 visits if the head is
    /// at t <= i, and 1 + i otherwise (the head is read first). This is the paper's income W_t, equation 6, for a
    /// ring that is entered at its anchor and not walked around. The best t has the largest
    /// t * (accesses from t on).
    fn adjust(&mut self, bucket: u64) {
        let mut items = [None; ARC_MAX];
        let mut counts = [0u64; ARC_MAX];
        let mut n = 0;
        self.arc(bucket, |item| {
            // ORDERING: Relaxed, resets a counter, as in `take_sample`.
            let old = Next(item.next().fetch_and(!COUNTER, Ordering::Relaxed));
            items[n] = Some(item);
            counts[n] = old.count();
            n += 1;
        });
        let hint_word = &self.engine.table.slot(bucket).hints[0];
        // ORDERING: Acquire, we may release the item behind it.
        let hint = Hint(hint_word.load(Ordering::Acquire));
        if hint.0 & head::ACTIVE != 0 {
            return;
        }
        let income = |at: usize| (at as u64 + 1) * counts[at..n].iter().sum::<u64>();
        let Some(best) = (0..n).max_by_key(|&at| income(at)) else { return };
        let current =
            (0..n).find(|&at| items[at].is_some_and(|item: Item| item.address() == hint.address()));
        let gain = income(best) - current.map_or(0, income).min(income(best));
        let exponent = self.next_exponent(hint, gain, counts[..n].iter().sum());
        let Some(item) = items[best] else { return };
        if current == Some(best) || gain == 0 {
            // An empty head with an exponent would look like a reservation.
            if exponent != hint.votes() && !hint.is_empty() {
                self.cast(bucket, 0, hint, exponent);
            }
            return;
        }
        self.heat(bucket, 0, hint, item, Hint(item.address() | exponent));
    }

    fn next_exponent(&self, hint: Hint, gain: u64, samples: u64) -> u64 {
        if !self.shared.config.backoff {
            return 0;
        }
        // Less than a quarter of a visit per access was not worth a round.
        if gain * 4 < samples {
            (hint.votes() + 1).min(BACKOFF_MAX)
        } else {
            hint.votes().saturating_sub(2)
        }
    }

    /// Calls `f` for the live items of a bucket's arc, up to [`ARC_MAX`]; returns their number.
    fn arc(&self, bucket: u64, mut f: impl FnMut(Item)) -> usize {
        let mask = self.engine.table.mask();
        // ORDERING: Acquire, as for every step of a walk.
        let mut word = Next(self.engine.table.slot(bucket).anchor.load(Ordering::Acquire));
        let mut n = 0;
        while n < ARC_MAX {
            let link = word.link();
            if link.is_anchor() {
                if link == Link::END || link.slot() & mask != bucket {
                    break;
                }
                debug_assert!(ring_cmp(bucket, link.slot()).is_lt());
                // ORDERING: Acquire, as above.
                word = Next(self.next(link).load(Ordering::Acquire));
                continue;
            }
            let item = self.item(link);
            // ORDERING: Acquire, as above.
            word = Next(item.next().load(Ordering::Acquire));
            if !word.is(MARK) {
                f(item);
                n += 1;
            }
        }
        n
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
