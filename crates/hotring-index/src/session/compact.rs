//! Moving items out of memory of which little is in use, so that it goes back to the system.
//!
//! Blocks of one class share spans, spans share chunks, and only a free chunk returns to the system. After
//! removals of items of all ages every chunk keeps a few. [`arena`](crate::core::arena) decides when that
//! wastes much, and closes the chunks with the fewest items. A walk over the table then replaces each item
//! in them by a copy elsewhere, as a write by copy does: the item is frozen, copied, and replaced by one
//! CAS, which fails if another session was first. Readers and writers notice nothing. The copy has the same
//! sign, expiry, version and checksum. Old items are retired like any others.
//!
//! One session at a time compacts, in steps: a survey of the chunks, a walk, and again from the start while
//! too much is wasted. Memory that cannot be gained does not count, such as the free blocks of classes with
//! few items. Removed items that readers may still see, and free blocks in sessions' caches, keep their
//! chunk until they return; after a walk without gain, compaction waits for that.

use crate::core::arena::{Compaction, CompactionPhase, CompactionWalk, Survey, footprint};
use crate::core::hooks::{sometimes, wrong};
use crate::core::item::{Item, Kind};
use crate::engine::{Engine, Hit, KeyGoal};
use crate::session::{Pinned, Session};
use std::sync::MutexGuard;

/// Items looked at under one pin.
const PIECE: usize = 256;
/// Chunks, which cost as much as an item each.
const CHUNKS: usize = 64;
/// Bytes moved under one pin: moved items take memory twice until the old ones are freed.
const PIECE_BYTES: usize = 256 << 10;
/// Times that a move is tried again, because an item beside this one came or went.
const TRIES: usize = 3;
/// Collections after which all is free that was retired before them, if no session is pinned.
const GRACE: usize = 4;
/// Steps of a pause that one step counts for where memory is tight.
const TIGHT_STEPS: u32 = 8;

/// The result of a step of compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The cost: items (and pieces of memory) looked at. 0: there was nothing to do.
    pub visited: usize,
    /// Items moved.
    pub moved: usize,
    /// Bytes of these.
    pub moved_bytes: usize,
}

impl<K: Kind, E: Engine> Session<K, E> {
    /// A step of compaction, if much item memory is held and not used: more than an eighth and 2 MiB of
    /// gainable memory, or a thirty-second if more is held than may be used. Looks at up to about `budget`
    /// items. Call it now and then, more often while it has something to do. Of concurrent calls only one
    /// does anything.
    ///
    /// Moved items take memory twice until [`Session::collect`] frees them, 256 KiB for each piece of 256
    /// items, after which it is called.
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

    /// False: that was the last piece for now.
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
                    // Frees the items that were moved last, if no pinned session prevents it.
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

    /// Moves the items of closed chunks among about `count` items from `cursor` on; returns the next cursor.
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
            // Where there is much to move the piece is a short one.
            1 + count * size / PIECE_BYTES
        });
        for item in items {
            let moved = pinned.move_item(item);
            done.moved += usize::from(moved > 0);
            done.moved_bytes += moved;
        }
        // Dead versions that no session has come by are there, too.
        E::sweep(&mut pinned, from, next);
        drop(pinned);
        done.visited += work.clamp(1, count);
        // Only an item with a damaged hash leads backwards.
        if next <= cursor { 0 } else { next }
    }
}

impl<K: Kind, E: Engine> Pinned<'_, K, E> {
    /// Replaces an item by a copy, if it is still there; the bytes that it takes.
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
