//! Lazy unlinking: limits the dead versions that writers leave in the chain for later walks to unlink.
//!
//! Replacing a hinted item needs no search for its predecessor if the dead version may stay until a walk
//! passes it. For a few hot keys the dead versions take few bytes. But if many keys are overwritten, dead
//! versions would take several times the memory of live items. So each session counts the bytes that it
//! leaves and the bytes that it unlinks, and may leave more only while the sum over all sessions is below a
//! share of the items' bytes. Beyond this share a session may leave dead versions only of keys that it has
//! just replaced: at most as many as it remembers, and their bytes are counted, too.

use crate::core::item::{Item, Kind};
use crate::ring::Ring;
use crate::session::Pinned;

/// The debt of a dead item that its replacer has left in the chain. Must be larger than the debt of
/// any live item.
pub(super) const LEFT: u64 = 15;

/// Items of this size or more are unlinked at once.
const SIZE_MAX: usize = 512;
/// Dead versions may take the items' bytes divided by this.
const PARTS: i64 = 16;
/// This many bytes may be left dead in any case.
const FLOOR: i64 = 1 << 20;
/// Replacements between two checks of the sum while too much is left.
const WAIT: u32 = 256;
/// Hashes that a session remembers.
const RECENT: usize = 64;

/// The state of lazy unlinking in a session.
pub(super) struct Laziness {
    /// Bytes that may be left before the next check of the sum.
    until_check: i64,
    /// While nothing may be left: replacements before the next check.
    wait: u32,
    /// Hashes of the keys that were replaced last, indexed by their low bits.
    recent: [u64; RECENT],
}

impl Default for Laziness {
    fn default() -> Self {
        Self { until_check: 0, wait: 0, recent: [0; RECENT] }
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

    #[cold]
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
        let recent = &mut self.local.engine.lazy.recent[hash as usize % RECENT];
        std::mem::replace(recent, hash) == hash
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
