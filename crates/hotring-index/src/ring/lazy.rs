//! Lazy unlinking: limits the dead versions that writers leave in the chain for later walks to unlink.
//!
//! Replacing a hinted item needs no search for its predecessor if the dead version may stay until a walk
//! passes it. For a few hot keys the dead versions take few bytes. But if many keys are overwritten, dead
//! versions would take several times the memory of live items. So each session counts the bytes that it
//! leaves and the bytes that it unlinks, and may leave more only while the sum over all sessions is below a
//! share of the items' bytes. Beyond this share a session queues the keys whose dead versions it leaves, and
//! unlinks them together once the queue is full. One walk after the other would wait for one cache miss after
//! the other; together they wait for all of them at the same time. A session that ends, or rests, unlinks what its
//! queue has: otherwise sessions of a few writes each would never unlink anything.

use crate::core::hooks::{sometimes, wrong};
use crate::core::item::{Item, Kind};
use crate::core::prefetch::prefetch;
use crate::core::sync::Ordering;
use crate::core::word::{Link, MARK, Next, ring_cmp};
use crate::ring::Ring;
use crate::ring::search::AnchorGoal;
use crate::session::Pinned;

/// The debt of a dead item that its replacer has left in the chain. Must be larger than the debt of
/// any live item.
pub(super) const LEFT: u64 = 15;

/// Items of this size or more are unlinked at once.
const SIZE_MAX: usize = 512;
/// Dead versions may take the items' bytes divided by this. Checkers have few items, and must reach the queue.
const PARTS: i64 = if cfg!(any(loom, shuttle)) { 1 << 40 } else { 16 };
/// This many bytes may be left dead in any case.
const FLOOR: i64 = if cfg!(any(loom, shuttle)) { 0 } else { 1 << 20 };
/// Replacements between two checks of the sum while too much is left.
const WAIT: u32 = 256;
/// Keys in the queue of a session.
const QUEUE: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };
/// Nodes that the walks to queued keys pass together. A longer walk goes on alone.
const STEPS_MAX: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// The state of lazy unlinking in a session.
pub(super) struct Laziness {
    /// Bytes that may be left before the next check of the sum.
    until_check: i64,
    /// While nothing may be left: replacements before the next check.
    wait: u32,
    /// Hashes of keys with a dead version to unlink, each of them once.
    queue: [u64; QUEUE],
    queued: usize,
    /// The dead version that was left last, which only wrong variants remember.
    #[cfg(any(loom, shuttle))]
    pub(super) remembered: u64,
}

impl Default for Laziness {
    fn default() -> Self {
        Self {
            until_check: 0,
            wait: 0,
            queue: [0; QUEUE],
            queued: 0,
            #[cfg(any(loom, shuttle))]
            remembered: 0,
        }
    }
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Whether a dead item of this many bytes may stay in the chain.
    #[inline(always)]
    pub(super) fn may_leave(&mut self, hash: u64, size: usize) -> bool {
        if size >= SIZE_MAX {
            return false;
        }
        self.local.engine.lazy.until_check -= size as i64;
        self.local.engine.lazy.until_check >= 0 || self.may_leave_more(hash)
    }

    #[inline(never)]
    fn may_leave_more(&mut self, hash: u64) -> bool {
        self.local.engine.lazy.until_check = 0;
        if self.local.engine.lazy.wait == 0 {
            let share = self.share_of_allowance();
            if share > 0 {
                self.local.engine.lazy.until_check = share;
                return true;
            }
            self.local.engine.lazy.wait = WAIT;
        }
        self.local.engine.lazy.wait -= 1;
        self.queue_to_unlink(hash);
        true
    }

    /// Queues a key whose dead version is about to be left. The queue outlives the pin, so it has hashes, not
    /// items.
    fn queue_to_unlink(&mut self, hash: u64) {
        let Laziness { queue, queued, .. } = &self.local.engine.lazy;
        if queue[..*queued].contains(&hash) {
            return;
        }
        if *queued == QUEUE {
            self.unlink_queued();
        }
        let lazy = &mut self.local.engine.lazy;
        lazy.queue[lazy.queued] = hash;
        lazy.queued += 1;
    }

    /// Unlinks the dead versions of the queued keys.
    pub(super) fn unlink_queued(&mut self) {
        let Laziness { queue, queued, .. } = &mut self.local.engine.lazy;
        let (queue, queued) = (*queue, std::mem::take(queued));
        sometimes!(queued > 0 => QueueUnlinked);
        if queued == QUEUE {
            self.prefetch_walks(&queue);
        }
        for &hash in &queue[..queued] {
            wrong!(self, QueueTrustsItem | QueueRetires => if self.unlink_remembered(hash) {
                continue;
            });
            let bucket = self.bucket(hash);
            // Ends at the first live item of this hash, having unlinked the dead ones before it. If another key has the
            // same hash, its dead versions stay until their number reaches the limit.
            self.find(&AnchorGoal(hash), bucket);
        }
    }

    /// Loads the nodes of the walks to several hashes, all walks one step at a time.
    fn prefetch_walks(&self, hashes: &[u64; QUEUE]) {
        let slots = hashes.map(|hash| self.engine.table.slot(hash & self.engine.table.mask()));
        for slot in slots {
            prefetch(std::ptr::from_ref(slot).cast());
        }
        // ORDERING: Acquire, as for every step of a walk.
        let mut ats = slots.map(|slot| Next(slot.anchor.load(Ordering::Acquire)));
        for at in &mut ats {
            *at = if self.is_start(*at) { *at } else { Next(Link::END.address()) };
        }
        for _ in 0..STEPS_MAX {
            let mut is_done = true;
            for (at, hash) in ats.iter_mut().zip(hashes) {
                let link = at.link();
                if link.is_anchor() {
                    continue;
                }
                let item = self.item(link);
                // ORDERING: Acquire, as above.
                *at = Next(item.next().load(Ordering::Acquire));
                if !at.is(MARK) && ring_cmp(self.shared.kind.item_hash(item), *hash).is_ge() {
                    *at = Next(Link::END.address());
                    continue;
                }
                prefetch(std::ptr::without_provenance(at.link().address() as usize));
                is_done = false;
            }
            if is_done {
                return;
            }
        }
    }

    /// This session's share of the bytes that all sessions together may still leave.
    fn share_of_allowance(&self) -> i64 {
        let (mut left, mut bytes, mut sessions) = (0, 0, 0);
        for record in self.shared.collector.records() {
            left += record.left_bytes.load();
            bytes += record.item_bytes.load();
            sessions += 1;
        }
        ((bytes / PARTS).max(FLOOR) - left) / sessions.max(1)
    }

    /// Notes that a dead item left in the chain was unlinked.
    pub(super) fn note_cleared(&self, dead: Item) {
        self.record().left_bytes.add(-(self.shared.kind.size(dead) as i64));
    }
}
