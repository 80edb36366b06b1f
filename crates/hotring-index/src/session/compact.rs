//! Compaction: moves items out of sparsely used chunks, so that the chunks return to the system.
//!
//! Blocks of one class share spans, spans share chunks, and only a free chunk returns to the system. After
//! many removals most chunks may hold only a few items. [`arena`](crate::core::arena) decides when too much
//! memory is wasted, and closes the chunks with the fewest items. A walk over the table then replaces each
//! item in a closed chunk with a copy elsewhere, as a write by copy does: the item is frozen, copied, and
//! replaced by one CAS, which fails if another session was first. Concurrent readers and writers are not
//! affected. The copy has the same sign, expiry, version and checksum. Old items are retired like any others.
//!
//! One session at a time compacts, in steps: a survey of the chunks, then a walk, then the next survey while
//! too much is wasted. Memory that cannot be gained does not count, such as the free blocks of classes with
//! few items. Removed items that readers may still see, and free blocks in sessions' caches, keep their chunk
//! until they return; after a walk without gain, compaction pauses for that.

use crate::core::arena::{Compaction, CompactionPhase, CompactionWalk, Survey, footprint};
use crate::core::hooks::{sometimes, wrong};
use crate::core::item::{Item, Kind};
use crate::engine::{Engine, Hit, KeyGoal};
use crate::session::{Pinned, Session};
use std::sync::MutexGuard;

/// Items visited under one pin.
const PIECE: usize = 256;
/// Chunks surveyed in one step. A chunk costs as much as an item.
const CHUNKS: usize = 64;
/// Bytes moved under one pin: moved items take memory twice until the old ones are freed.
const PIECE_BYTES: usize = 256 << 10;
/// Attempts to move an item. An attempt fails if a neighbouring item is added or removed.
const TRIES: usize = 3;
/// The number of collections that free everything retired before them, if no session is pinned.
const GRACE: usize = 4;
/// While memory is tight, one step counts as this many steps of a pause.
const TIGHT_STEPS: u32 = 8;

/// The result of a step of compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The cost: items and chunks visited. 0: there was nothing to do.
    pub visited: usize,
    /// Items moved.
    pub moved: usize,
    /// Bytes of the moved items.
    pub moved_bytes: usize,
}

impl<K: Kind, E: Engine> Session<K, E> {
    /// Does a step of compaction, if much item memory is held but unused: more than an eighth and 2 MiB of
    /// gainable memory, or a thirty-second if held memory exceeds the limit. Visits up to about `budget` items.
    /// Call it periodically, more often while it has work. Of concurrent calls only one does work.
    ///
    /// Moved items take memory twice until a collection frees the old ones. A collection follows each piece of
    /// 256 items or 256 KiB.
    pub fn compact_step(&mut self, budget: usize) -> Compacted {
        let mut done = Compacted::default();
        if self.local().participant.is_over_limit() {
            // Moved items would only wait for the pinned session.
            return done;
        }
        let taken = self.compaction().take();
        let Some(mut compaction) = taken else { return done };
        while done.visited < budget && self.compact_piece(&mut compaction, budget, &mut done) {}
        *self.compaction() = Some(compaction);
        done
    }

    fn compaction(&self) -> MutexGuard<'_, Option<Compaction>> {
        self.shared().compaction.lock().expect("no code panics under this lock")
    }

    /// Does one piece of work. False: there is no further work at the moment.
    fn compact_piece(
        &mut self,
        compaction: &mut Compaction,
        budget: usize,
        done: &mut Compacted,
    ) -> bool {
        let arena = &self.shared().arena;
        let items = self.shared().item_bytes() as usize;
        let is_tight = self.shared().is_tight();
        match &mut compaction.phase {
            CompactionPhase::Idle => {
                let steps = if is_tight { TIGHT_STEPS } else { 1 };
                compaction.pause = compaction.pause.saturating_sub(steps);
                let Some(waste) = arena.waste(items, is_tight) else { return false };
                if compaction.pause > 0 && waste < compaction.futile_waste {
                    return false;
                }
                compaction.phase = CompactionPhase::Survey(Survey::default());
            }
            CompactionPhase::Survey(survey) => {
                done.visited += CHUNKS;
                if arena.survey(survey, CHUNKS, items, is_tight) {
                    let Some(held) = arena.close(std::mem::take(survey), items, is_tight) else {
                        compaction.pause(arena.waste(items, is_tight).unwrap_or(0));
                        return false;
                    };
                    compaction.phase = CompactionPhase::Walk(CompactionWalk { cursor: 0, held });
                }
            }
            CompactionPhase::Walk(walk) => {
                self.leave_caches();
                let count = (budget - done.visited).min(PIECE);
                walk.cursor = self.move_piece(walk.cursor, count, done);
                if walk.cursor == 0 {
                    // Frees the old versions of the last moved items, unless a pinned session prevents it.
                    (0..GRACE).for_each(|_| self.leave_caches());
                    let arena = &self.shared().arena;
                    if arena.has_gained(walk.held) {
                        *compaction = Compaction::default();
                    } else {
                        compaction.pause(arena.waste(items, is_tight).unwrap_or(0));
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Visits about `count` items from `cursor` and moves those in closed chunks. Returns the next cursor.
    fn move_piece(&mut self, cursor: u64, count: usize, done: &mut Compacted) -> u64 {
        let mut pinned = self.pin();
        let from = E::bucket(&mut pinned, cursor.reverse_bits());
        let mut items = Vec::new();
        let (next, work) = E::scan(&mut pinned, cursor, count, |pinned, hit: Hit| {
            let size = pinned.shared.kind.size(hit.item);
            if size == 0 || !pinned.shared.arena.leaves(hit.item.start(), size) {
                return 1;
            }
            items.push(hit.item);
            // The more bytes there are to move, the fewer items the piece visits.
            1 + count * size / PIECE_BYTES
        });
        for item in items {
            let moved = pinned.move_item(item);
            done.moved += usize::from(moved > 0);
            done.moved_bytes += moved;
        }
        // Also unlinks dead versions that no walk has passed since.
        E::sweep(&mut pinned, from, next);
        drop(pinned);
        done.visited += work.clamp(1, count);
        // The position decreases only after an item with a damaged hash.
        if next <= cursor { 0 } else { next }
    }
}

impl<K: Kind, E: Engine> Pinned<'_, K, E> {
    /// Replaces an item with a copy, if it is still in the table. Returns the bytes moved.
    fn move_item(&mut self, item: Item) -> usize {
        let kind = &self.shared.kind;
        let goal = KeyGoal { hash: kind.item_hash(item), key: K::key(item) };
        let bucket = E::bucket(self, goal.hash);
        for _ in 0..TRIES {
            let found = E::find(self, goal, bucket);
            let Some(hit) = found.hit.filter(|hit| hit.item == item) else { return 0 };
            if !wrong!(self, MoveUnfrozen) {
                kind.freeze(item);
            }
            let copy = kind.copy_of(item, |size| self.alloc(size));
            if E::replace(self, goal, bucket, hit, copy, Some(&found)) {
                sometimes!(Moved);
                return footprint(kind.size(copy));
            }
            self.discard(copy);
        }
        0
    }
}
