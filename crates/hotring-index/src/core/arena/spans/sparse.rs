//! Chunks that are to become free, because little of them is in use: which ones. Who moves what is in
//! them is [`compact`](crate::session::compact).
//!
//! Nothing is taken any more of a chunk that is closing: its spans leave the bins of their classes as they
//! are met there, and it leaves those of the pool. What sessions have cached of it they may still use, which
//! the next walk moves again. Once its last block is back it is an ordinary free chunk.
//!
//! What is free is worth nothing where it cannot be gained: a class keeps the rest of its last span, and a
//! width that of its last chunk. So a choice goes through the chunks, those of which least is out first, and
//! reckons where their blocks would go: into what their classes have free elsewhere, else into free spans, else
//! into another chunk. The row is closed that gains most for what it moves. Where less than half of them are left
//! by that, all are closed, as most of what is in use moves anyway: it then lies as after a load, and of what classes
//! have begun no more pages are in memory than are used.

use super::Arena;
use super::pool::{Chosen, Found, leaves};
use crate::core::arena::classes::{CHUNK_LEN, CLASSED_MAX, Width, len_of, width_of};
use std::ptr::NonNull;

/// Up to this many bytes there is nothing to gain.
const WASTE_MIN: usize = CHUNK_LEN;

/// How much is to be gained, and at what price.
struct Aim {
    /// Memory that is held may be more than what is out by one part in this many.
    waste_parts: usize,
    /// When it is more, it is brought down to one part in this many, and what gains less is not begun.
    goal_parts: usize,
    /// This many bytes may be moved for one that is gained: what is in closed chunks is moved, and what is free in them
    /// is of no use meanwhile.
    price: usize,
    /// Chunks of which more than this is out are left alone.
    dense: usize,
    /// In one round at most one part in this many of what is held is moved, and about this many chunks are taken for
    /// it: until its end it takes memory twice.
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

/// Where memory is tight.
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

/// A look at all chunks, and then a choice, some chunks at a time.
#[derive(Default)]
pub(crate) struct Survey {
    next: usize,
    found: Found,
    choice: Option<Choice>,
}

/// Which chunks to close.
#[derive(Default)]
struct Choice {
    /// All, the ones first of which least is out, and how many of them were reckoned with.
    chunks: Vec<Chosen>,
    reckoned: usize,
    free_space: FreeSpace,
    /// Bytes that are out of these.
    moved: usize,
    /// The number to close of the first ones, the number gained, and its worth in bytes moved.
    len: usize,
    gained: usize,
    worth: usize,
}

/// What is free in the chunks that stay.
#[derive(Default)]
struct FreeSpace {
    /// Bytes of each class's spans.
    free: Vec<isize>,
    /// Bytes of free spans, for each width. Below zero: of other chunks, which are taken for them.
    unused: [isize; Width::ALL.len()],
}

impl FreeSpace {
    /// Takes a chunk away, and puts what is out of it elsewhere.
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

    /// Begins as many spans as a class lacks.
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

    /// Chunks that are taken for blocks that do not fit into the others.
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

    /// Reckons with `count` chunks more, until this many bytes are gained. True: that was all.
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
    /// Bytes that are held and not out, if they may be worth moving items; `items` is what these take.
    pub(crate) fn waste(&self, items: usize, is_tight: bool) -> Option<usize> {
        let out = self.classed(items);
        let waste = self.pool.held_bytes().saturating_sub(out);
        (waste > WASTE_MIN && waste > out / aim(is_tight).waste_parts).then_some(waste)
    }

    /// Of what items take, what is not pages of their own.
    fn classed(&self, items: usize) -> usize {
        items.saturating_sub(self.large.bytes())
    }

    /// Looks at `count` chunks more. True: that was all.
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

    /// Closes the chunks that were chosen. Returns what is held, less than which it is to be once they are empty;
    /// `None`: there is nothing to gain.
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

    /// Whether the item's block, which is out, is in a chunk that is closing.
    pub(crate) fn leaves(&self, block: NonNull<u8>, size: usize) -> bool {
        // SAFETY: of a class, and out.
        size <= CLASSED_MAX && unsafe { leaves(block) }
    }
}
