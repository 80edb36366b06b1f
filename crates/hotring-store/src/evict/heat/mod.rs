//! `heat`: an item must be visited again soon, and then stays as long as its visits justify among the others.
//!
//! # Picture
//! ```text
//!   entered --> [ young: hashes, first in, first out ] --> visited?  yes: becomes old
//!      |                                                             no:  evicted --> ghosts of the young
//!      | known to ghosts
//!      +------> ( old: a hand goes round in the index's order ) -> visited?  yes: a visit less, stays
//!                                                                  no:  evicted --> ghosts of the old
//! ```
//! This is S3-FIFO (Yang and others, SOSP 2023) with CLOCK in place of its main queue, so that an old item costs
//! three bits in the item and nothing here; and the share of the young adapts.
//!
//! # Words
//! *Visits*: accesses since the item was last looked at, counted up to `VISITS_MAX`. *Young*: on probation.
//! A *look* shows an item to the policy. The *hand* is a position in the order of reversed hashes, so that the index
//! can walk without memory of its own. *Ghosts* are hashes of evicted items.
//!
//! # The share of the young
//! Young items are evicted when they exceed their share of all items, otherwise old ones. A ghost hit is a miss that
//! more memory would have avoided: one of a young item raises the share, one of an old item lowers it. The ghosts of
//! the young are the larger table, because they also identify known keys; only their newest part tells how slightly
//! more memory would do.
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

/// Visits that are counted.
pub const VISITS_MAX: u8 = 2;

/// Looks an eviction, and those of them at young items that come up.
const LOOKS: usize = 65;
const QUEUE_LOOKS: usize = 48;
/// Entries that the queue may have whatever the number of items.
const QUEUE_FREE: usize = 1 << 16;
/// Rounds of the hand in which each young item that it meets becomes old once.
const ROUNDS: u64 = 64;
/// The least and the greatest share of the young.
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
    /// How often it was visited since it was last looked at, up to [`VISITS_MAX`].
    pub visits: u8,
    /// It is on probation.
    pub young: bool,
}

/// The policy's verdict on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays, with these bits.
    Keep(Marks),
    /// It goes.
    Evict,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// There was no item.
    Absent,
    /// All that were shown are still there.
    Kept,
    /// The last one that was shown is gone.
    Evicted,
}

/// The items, by their 48-bit hashes.
pub trait Items {
    /// Items that there are.
    fn count(&self) -> usize;

    /// Shows the item with this hash, if there is one, to `verdict`, and carries the verdict out.
    fn judge(&mut self, hash: u64, verdict: impl FnMut(Marks) -> Verdict) -> Judged;

    /// Shows items from `hand` on, in the order of reversed hashes, one after the other until one is evicted or
    /// `looks` were shown. Returns where to go on, 0 at the end, and how it ended. A hand of 0 restarts.
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
    /// The part of all items that the young may be.
    share: f64,
    hand: u64,
    /// How often the hand has come round.
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
    /// Knows no item.
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

    /// Notes a new key. True if it begins young, false if it begins old, as one that is known from before.
    pub fn entered(&mut self, hash: u64) -> bool {
        let known = self.known(hash);
        let young = !known && self.queue.len() < self.count.max(QUEUE_FREE);
        if young {
            self.queue.push(hash);
        }
        young
    }

    /// Evicts one item; false if none could be.
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

    /// Memory that the policy takes.
    pub fn bytes(&self) -> usize {
        self.queue.bytes() + self.young_ghosts.bytes() + self.old_ghosts.bytes()
    }

    /// Whether the key was evicted lately; if so, it says whether the young or the old want more room.
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

    /// Whether the young are more than their share, or all that there are.
    fn young_too_many(&self) -> bool {
        let young = self.queue.len();
        young as f64 > self.share * self.count as f64 || young >= self.count
    }

    /// Looks at the item of an entry that has left the queue.
    fn judge_young(&mut self, hash: u64, items: &mut impl Items) -> Judged {
        let judged = items.judge(hash, |marks| match marks {
            Marks { visits: 0, young: true } => Verdict::Evict,
            Marks { young: true, .. } => Verdict::Keep(Marks { visits: 0, young: false }),
            // The entry is an earlier one of a key that was removed and came back, and is known by now.
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
            // The items may ask again when another session has changed one meanwhile; that is a look, too.
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
