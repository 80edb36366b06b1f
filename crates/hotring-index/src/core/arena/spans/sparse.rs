//! Chooses sparsely used chunks to be emptied. [`compact`](crate::session::compact) moves their items.
//!
//! Nothing is allocated from a closing chunk: its spans leave the bins of their classes when next met
//! there, and it leaves the bins of the pool. Sessions may still use blocks of it from their caches; the
//! next walk moves these again. Once its last block has been returned it is an ordinary free chunk.
//!
//! Not all free memory can be gained: each class keeps the rest of its last span, and each width the rest of
//! its last chunk. So a choice goes through the chunks, the emptiest first, and computes where their blocks
//! would go: into free blocks of their classes elsewhere, else into free spans, else into another chunk. It
//! closes the prefix that gains most for the bytes moved. If less than half of the chunks would remain, it
//! closes all: most items move anyway, and end as dense as after a load.

use super::Arena;
use super::pool::{Chosen, Found, leaves};
use crate::core::arena::classes::{CHUNK_LEN, CLASSED_MAX, Width, len_of, width_of};
use std::ptr::NonNull;

/// Up to this many bytes nothing can be gained.
const WASTE_MIN: usize = CHUNK_LEN;

/// The aim of compaction, and its price.
struct Aim {
    /// Compaction begins when more is held than allocated by one part in this many.
    waste_parts: usize,
    /// It then aims at one part in this many, and does not begin a round that gains less.
    goal_parts: usize,
    /// Bytes moved per byte gained, at most. The free bytes of closed chunks count as moved, because they
    /// cannot be used meanwhile.
    price: usize,
    /// Chunks with more allocated bytes than this are left alone.
    dense: usize,
    /// A round moves at most one part in this many of the held memory, and takes about this many chunks for
    /// the copies: until the round ends, its items take memory twice.
    moved_parts: usize,
    taken_max: usize,
}

const USUAL: Aim = Aim {
    waste_parts: 8,
    goal_parts: 16,
    price: 4,
    dense: CHUNK_LEN / 8 * 7,
    moved_parts: 1,
    taken_max: usize::MAX,
};

/// The values used while memory is tight.
const TIGHT: Aim = Aim {
    waste_parts: 32,
    goal_parts: 64,
    price: 32,
    dense: CHUNK_LEN / 32 * 31,
    moved_parts: 4,
    taken_max: 1,
};

fn aim(is_tight: bool) -> &'static Aim {
    if is_tight { &TIGHT } else { &USUAL }
}

/// A survey of all chunks, and then a choice, some chunks at a time.
#[derive(Default)]
pub(crate) struct Survey {
    next: usize,
    found: Found,
    choice: Option<Choice>,
}

/// The chunks to close.
#[derive(Default)]
struct Choice {
    /// All chunks, the emptiest first, and the number considered so far.
    chunks: Vec<Chosen>,
    reckoned: usize,
    free_space: FreeSpace,
    /// Bytes allocated in the considered chunks.
    moved: usize,
    /// The best prefix: chunks to close, chunks gained, and the gain in bytes moved.
    len: usize,
    gained: usize,
    worth: usize,
}

/// The free memory of the remaining chunks.
#[derive(Default)]
struct FreeSpace {
    /// Free bytes in the spans of each class.
    free: Vec<isize>,
    /// Bytes of free spans by width. Negative: taken from further chunks.
    unused: [isize; Width::ALL.len()],
}

impl FreeSpace {
    /// Removes a chunk and distributes its allocated blocks.
    fn empty(&mut self, chunk: Chosen) {
        chunk.each_span(|width, used| match used {
            Some((class, free, out)) => self.free[class] -= (free + out) as isize,
            None => self.unused[width as usize] -= width.len() as isize,
        });
        chunk.each_span(|_, used| {
            if let Some((class, ..)) = used {
                self.begin_spans(class);
            }
        });
    }

    /// Begins as many spans as a class needs.
    fn begin_spans(&mut self, class: usize) {
        let (free, len) = (&mut self.free[class], len_of(class));
        if *free < 0 && len > 0 {
            let width = width_of(class);
            let of_span = width.len() / len * len;
            let spans = free.unsigned_abs().div_ceil(of_span);
            *free += (spans * of_span) as isize;
            self.unused[width as usize] -= (spans * width.len()) as isize;
        }
    }

    /// Chunks needed for blocks that do not fit into the others.
    fn taken(&self) -> usize {
        self.unused.iter().map(|&free| free.min(0).unsigned_abs().div_ceil(CHUNK_LEN)).sum()
    }
}

impl Choice {
    fn of(found: &mut Found) -> Self {
        let mut chunks = std::mem::take(&mut found.chunks);
        chunks.sort_unstable();
        let free = found.free.iter().map(|&free| free as isize).collect();
        let free_space = FreeSpace { free, unused: found.unused.map(usize::cast_signed) };
        Self { chunks, free_space, ..Self::default() }
    }

    /// Considers `count` further chunks, until this many bytes are gained. True at the end.
    fn reckon(&mut self, count: usize, goal: usize, moved_max: usize, aim: &Aim) -> bool {
        for &chunk in self.chunks.iter().skip(self.reckoned).take(count) {
            let is_enough = self.gained * CHUNK_LEN >= goal
                || self.moved >= moved_max
                || self.free_space.taken() > aim.taken_max;
            if is_enough || chunk.out > aim.dense {
                return true;
            }
            self.free_space.empty(chunk);
            self.reckoned += 1;
            self.moved += chunk.out;
            let gained = self.reckoned.saturating_sub(self.free_space.taken());
            let worth = (gained * CHUNK_LEN * aim.price).saturating_sub(self.moved);
            if worth > self.worth {
                (self.len, self.gained, self.worth) = (self.reckoned, gained, worth);
            }
        }
        self.reckoned == self.chunks.len()
    }
}

impl Arena {
    /// Held bytes that are not allocated, if moving items may be worthwhile; `items` is the memory of all
    /// items.
    pub(crate) fn waste(&self, items: usize, is_tight: bool) -> Option<usize> {
        let out = self.classed(items);
        let waste = self.pool.held_bytes().saturating_sub(out);
        (waste > WASTE_MIN && waste > out / aim(is_tight).waste_parts).then_some(waste)
    }

    /// The memory of items without pages of their own.
    fn classed(&self, items: usize) -> usize {
        items.saturating_sub(self.large.bytes())
    }

    /// Surveys `count` further chunks. True at the end.
    pub(crate) fn survey(
        &self,
        survey: &mut Survey,
        count: usize,
        items: usize,
        is_tight: bool,
    ) -> bool {
        if let Some(choice) = &mut survey.choice {
            let aim = aim(is_tight);
            let waste = self.waste(items, is_tight).unwrap_or(0);
            let goal = waste.saturating_sub(self.classed(items) / aim.goal_parts);
            let moved_max = (self.pool.held_bytes() / aim.moved_parts).max(CHUNK_LEN);
            return choice.reckon(count, goal, moved_max, aim);
        }
        let from = survey.next;
        survey.next += count;
        if !self.pool.survey(from, count, &mut survey.found) {
            survey.choice = Some(Choice::of(&mut survey.found));
        }
        false
    }

    /// Closes the chosen chunks. Returns the held bytes, which must be fewer once the chunks are empty, or
    /// `None` if nothing can be gained.
    pub(crate) fn close(&self, survey: Survey, items: usize, is_tight: bool) -> Option<usize> {
        let goal_parts = aim(is_tight).goal_parts;
        let held = self.pool.held_bytes();
        let Choice { chunks, len, gained, .. } = survey.choice.unwrap_or_default();
        if gained > 0 && gained * CHUNK_LEN >= held / goal_parts {
            let len = if !is_tight && gained > chunks.len() / 2 { chunks.len() } else { len };
            chunks[..len].iter().for_each(|&chunk| self.pool.close(chunk));
        } else if survey.found.closing == 0 {
            if self.classed(items) < CHUNK_LEN * goal_parts {
                self.pool.trim();
            }
            return None;
        }
        Some(held)
    }

    /// Whether less is held than when chunks were closed.
    pub(crate) fn has_gained(&self, held: usize) -> bool {
        self.pool.held_bytes() < held
    }

    /// Whether the block of an item lies in a closing chunk.
    pub(crate) fn leaves(&self, block: NonNull<u8>, size: usize) -> bool {
        // SAFETY: the block is of a class, and allocated.
        size <= CLASSED_MAX && unsafe { leaves(block) }
    }
}
