//! `heat`, an eviction policy of the S3-FIFO class: a new item must be visited again soon, and then stays as long as it
//! is visited more often than others.
//!
//! # Picture
//! ```text
//!   entered --> [ young: hashes, first in, first out ] --> visited?  yes: becomes old
//!      |                                                             no:  evicted --> ghosts of the young
//!      | known to ghosts
//!      +------> ( old: a hand goes round in the index's order ) -> visited?  yes: a visit less, stays
//!                                                                  no:  evicted --> ghosts of the old
//! ```
//! This is S3-FIFO (Yang and others, SOSP 2023) with CLOCK instead of its main queue, so that an old item costs three
//! bits in the item and no memory here; and the share of the young adapts.
//!
//! # Words
//! *Visits*: accesses since the last look at the item, counted up to `VISITS_MAX`. *Young*: on probation. A *look*
//! shows an item to the policy. The *hand* is a position in the order of reversed hashes, so that the index can walk
//! without memory of its own. *Ghosts* are hashes of evicted items.
//!
//! # The share of the young
//! Young items are evicted while they exceed their share of all items, otherwise old ones. A ghost hit is a miss that
//! more memory would have avoided: a hit of a young item raises the share, a hit of an old item lowers it. The ghosts
//! of the young are the larger table, because they also identify known keys; only their newest part tells the benefit
//! of slightly more memory.
//!
//! # Bounds
//! H1. A call of [`Heat::evict`] looks at `LOOKS` items at most, of which `QUEUE_LOOKS` are of the queue, and requests
//!     items at most as often. The last look evicts any item.
//! H2. The queue has as many entries as there were items at the last eviction, or `QUEUE_FREE`. A key that enters
//!     while it is full begins old. An entry whose item is gone or old is dropped when its turn comes.
//! H3. No item stays young for ever, even if its entry is lost (a policy restarts, or two keys have one hash): in each
//!     round the hand makes one in `ROUNDS` of the young items old, another part each round; with an empty queue, all.
//! H4. Ghosts take 1.5 bytes per item, the queue 8 bytes per entry.
//!
//! No clock and no randomness: the same calls have the same outcome.

use super::ghosts::{Ghosts, LANES};
use super::queue::Queue;

#[cfg(test)]
mod tests;

/// Maximum of the visit counter.
pub const VISITS_MAX: u8 = 2;

/// Maximum looks of an eviction, and the part of them that may be at young items from the queue.
const LOOKS: usize = 65;
const QUEUE_LOOKS: usize = 48;
/// Entries that the queue may always have, however few items there are.
const QUEUE_FREE: usize = 1 << 16;
/// Rounds of the hand after which each young item that it passes has become old.
const ROUNDS: u64 = 64;
/// Minimum and maximum share of the young.
const SHARE_MIN: f64 = 0.1;
const SHARE_MAX: f64 = 0.9;
/// The step by which a ghost hit moves the share. The steps, the sizes of the tables and `FRESH` come from
/// replays of recorded traces (docs/decisions/0019-heat.md): a hit of the young weighs less, because most
/// of their misses are not requested again.
const RAISE: f64 = 2.5;
const LOWER: f64 = 1.0;
/// Only hits in this part of a bucket of young ghosts raise the share.
const FRESH: usize = LANES / 4;

/// The meaning of an item's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Visits since the last look at the item, up to [`VISITS_MAX`].
    pub visits: u8,
    /// Whether the item is on probation.
    pub young: bool,
}

/// The policy's verdict on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The item stays, with these bits.
    Keep(Marks),
    /// The item is evicted.
    Evict,
}

/// The result of carrying out verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// There was no item.
    Absent,
    /// All shown items are kept.
    Kept,
    /// The last shown item was evicted.
    Evicted,
}

/// The items, by their 48-bit hashes.
pub trait Items {
    /// Number of items.
    fn count(&self) -> usize;

    /// Shows the item with this hash, if there is one, to `verdict`, and carries the verdict out.
    fn judge(&mut self, hash: u64, verdict: impl FnMut(Marks) -> Verdict) -> Judged;

    /// Shows items from `hand` on, in the order of reversed hashes, until one is evicted or `looks` were shown. Returns
    /// the next hand, 0 at the end, and the result. A hand of 0 restarts.
    fn judge_next(
        &mut self,
        hand: u64,
        looks: usize,
        verdict: impl FnMut(u64, Marks) -> Verdict,
    ) -> (u64, Judged);
}

/// The policy; see the header.
pub struct Heat {
    /// Hashes of young items, oldest first.
    queue: Queue,
    young_ghosts: Ghosts,
    old_ghosts: Ghosts,
    /// Maximum share of young items among all items.
    share: f64,
    hand: u64,
    /// Number of rounds that the hand has completed.
    round: u64,
    /// Items at the last eviction.
    count: usize,
}

impl Default for Heat {
    fn default() -> Self {
        Self::new()
    }
}

impl Heat {
    /// A policy that knows no item.
    pub const fn new() -> Self {
        Heat {
            queue: Queue::new(),
            young_ghosts: Ghosts::new(),
            old_ghosts: Ghosts::new(),
            share: SHARE_MIN,
            hand: 0,
            round: 0,
            count: 0,
        }
    }

    /// Notes a new key. True if it begins young, false if it begins old because it was evicted recently or the queue is
    /// full.
    pub fn entered(&mut self, hash: u64) -> bool {
        let known = self.known(hash);
        let young = !known && self.queue.len() < self.count.max(QUEUE_FREE);
        if young {
            self.queue.push(hash);
        }
        young
    }

    /// Evicts one item; false if none can be evicted.
    pub fn evict(&mut self, items: &mut impl Items) -> bool {
        self.count = items.count();
        self.young_ghosts.fit(self.count / 2);
        self.old_ghosts.fit(self.count / 4);
        let mut looks = LOOKS;
        while looks > 0 {
            let young_turn = looks > LOOKS - QUEUE_LOOKS && self.young_too_many();
            let judged = match young_turn.then(|| self.queue.pop()).flatten() {
                Some(hash) => {
                    looks -= 1;
                    self.judge_young(hash, items)
                }
                None => self.judge_old(items, &mut looks),
            };
            if judged == Judged::Evicted {
                return true;
            }
        }
        false
    }

    /// Memory of the policy, in bytes.
    pub fn bytes(&self) -> usize {
        self.queue.bytes() + self.young_ghosts.bytes() + self.old_ghosts.bytes()
    }

    /// Whether the key was evicted recently; if so, adapts the share of the young.
    fn known(&mut self, hash: u64) -> bool {
        let (young, old) = (self.young_ghosts.take(hash), self.old_ghosts.take(hash));
        let items = match (young, old) {
            (Some(age), _) if age < FRESH => RAISE,
            (None, Some(_)) => -LOWER,
            _ => 0.0,
        };
        let moved = self.share + items / self.count.max(1) as f64;
        self.share = moved.clamp(SHARE_MIN, SHARE_MAX);
        young.is_some() || old.is_some()
    }

    /// Whether the young exceed their share, or are all items.
    fn young_too_many(&self) -> bool {
        let young = self.queue.len();
        young as f64 > self.share * self.count as f64 || young >= self.count
    }

    /// Looks at the item of an entry that has left the queue.
    fn judge_young(&mut self, hash: u64, items: &mut impl Items) -> Judged {
        let judged = items.judge(hash, |marks| match marks {
            Marks { visits: 0, young: true } => Verdict::Evict,
            Marks { young: true, .. } => Verdict::Keep(Marks { visits: 0, young: false }),
            // The entry is stale: the key was removed, came back, and is old already.
            old => Verdict::Keep(old),
        });
        if judged == Judged::Evicted {
            self.young_ghosts.put(hash);
        }
        judged
    }

    /// Moves the hand on until an old item is evicted or there are no looks left.
    fn judge_old(&mut self, items: &mut impl Items, looks: &mut usize) -> Judged {
        let (all, round, none_young) = (*looks, self.round, self.queue.len() == 0);
        let (mut shown, mut last) = (0, None);
        let (hand, judged) = items.judge_next(self.hand, all, |hash, marks| {
            // `verdict` may be called again for an item that another session has changed meanwhile; that counts as a
            // look, too.
            shown += 1;
            let young = marks.young && !none_young && hash % ROUNDS != round % ROUNDS;
            last = Some((hash, marks.young));
            match marks.visits {
                _ if shown >= all => Verdict::Evict,
                _ if young => Verdict::Keep(marks),
                0 if !marks.young || none_young => Verdict::Evict,
                visits => Verdict::Keep(Marks { visits: visits.saturating_sub(1), young: false }),
            }
        });
        *looks -= shown.clamp(1, all);
        self.hand = hand;
        self.round = self.round.wrapping_add(u64::from(hand == 0));
        if let (Judged::Evicted, Some((hash, young))) = (judged, last) {
            if young { self.young_ghosts.put(hash) } else { self.old_ghosts.put(hash) }
        }
        judged
    }
}
