//! Operations on all items: random picks and clear.

use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::core::word::{Next, REPL};
use crate::engine::{Engine, Hit, KeyGoal};
use crate::session::{Pinned, Session};

/// Items handled under one pin.
pub(crate) const STEP: usize = 1024;

impl<'s, K: Kind, E: Engine> Pinned<'s, K, E> {
    /// One of the next few items from `cursor` that `usable` accepts, if there is one within a step, and the
    /// position where the step ended.
    pub(crate) fn pick(
        &mut self,
        cursor: u64,
        random: u64,
        usable: impl Fn(&mut Self, Hit) -> bool,
    ) -> (u64, Option<Hit>) {
        // Not always the first item: an item after a gap would be picked more often than others.
        let mut skip = random.rotate_right(17) % 8;
        let mut picked = None;
        let mut done = false;
        let (next, _) = E::scan(self, cursor, STEP, |pinned, hit| {
            if done || !usable(pinned, hit) {
                return 1;
            }
            picked = Some(hit);
            if skip == 0 {
                done = true;
                return STEP;
            }
            skip -= 1;
            1
        });
        (next, picked)
    }

    /// Kills the item, or the version that has replaced it.
    fn kill_present(&mut self, mut hit: Hit) {
        while !E::kill_at(self, hit) {
            // ORDERING: Acquire pairs with the step that marked it.
            let dead = Next(hit.item.next().load(Ordering::Acquire));
            if !dead.is(REPL) {
                return;
            }
            let key = K::key(hit.item);
            let goal = KeyGoal { hash: self.shared.kind.item_hash(hit.item), key };
            let bucket = E::bucket(self, goal.hash);
            match E::find(self, goal, bucket).hit {
                Some(live) => hit = live,
                None => return,
            }
        }
    }
}

impl<K: Kind, E: Engine> Session<K, E> {
    /// Removes every item that is present when the scan reaches its position. O(n).
    pub fn clear(&mut self) {
        self.clear_range(0, 0);
    }

    /// As [`clear`](Self::clear), for the items at the positions from `from` to before `to`; 0 stands for the end. A
    /// position is a hash with its bits reversed. Returns the numbers of removed items and of those with an expiry.
    pub fn clear_range(&mut self, from: u64, to: u64) -> (u64, u64) {
        let range = from..=to.wrapping_sub(1);
        let before = self.own_counts();
        let mut cursor = from;
        loop {
            let mut pinned = self.pin();
            let bucket = E::bucket(&mut pinned, cursor.reverse_bits());
            let (next, _) = E::scan(&mut pinned, cursor, STEP, |pinned, hit| {
                let position = pinned.shared.kind.item_hash(hit.item).reverse_bits();
                if range.contains(&position) {
                    pinned.kill_present(hit);
                }
                // Nothing behind the range is of interest.
                if position > *range.end() { STEP } else { 1 }
            });
            E::sweep(&mut pinned, bucket, next);
            drop(pinned);
            if next == 0 || !range.contains(&next) {
                break;
            }
            cursor = next;
        }
        let after = self.own_counts();
        (before.0.wrapping_sub(after.0), before.1.wrapping_sub(after.1))
    }

    /// This session's shares of the numbers of items and of expiring items; either may be negative.
    fn own_counts(&self) -> (u64, u64) {
        let record = self.local.participant.record();
        (record.items.load().cast_unsigned(), record.expiring.load().cast_unsigned())
    }
}
