//! Chunks that are to become free, because little of them is in use: which ones. Who moves what is in
//! them is [`compact`](crate::compact).
//!
//! Nothing is taken any more of a chunk that is closing: its spans leave the bins of their classes as they
//! are met there, and it leaves those of the pool. What sessions have cached of it they may still use, which
//! the next walk moves again. Once its last block is back it is an ordinary free chunk.

use super::Arena;
use super::pool::{Found, leaves};
use crate::arena::classes::{CHUNK_LEN, CLASSED_MAX, UNIT, Width, width_of};
use std::ptr::NonNull;

/// Below so many bytes there is nothing to gain.
const WASTE_MIN: usize = 8 << 20;
/// Memory that is held may be more than what is out by one part in so many.
const WASTE_PARTS: usize = 8;
/// When it is more, it is brought down to one part in so many.
const GOAL_PARTS: usize = 16;
/// Fewer bytes are no gain.
const GAIN_MIN: usize = 2 << 20;
/// Chunks of which more than this is out are left alone.
const DENSE: usize = CHUNK_LEN / 8 * 7;

/// A look at all chunks, some at a time.
#[derive(Default)]
pub(crate) struct Survey {
    next: usize,
    found: Found,
}

impl Survey {
    /// Bytes that would be free if the blocks of each class were in as few spans as can be, and these in as
    /// few chunks.
    fn spare(&self) -> usize {
        let spans = self.found.free.iter().enumerate().map(|(class, free)| {
            let len = width_of(class).units() * UNIT;
            free / len * len
        });
        let spare = spans.sum::<usize>() + self.found.unused;
        spare.saturating_sub(Width::ALL.len() * CHUNK_LEN)
    }
}

impl Arena {
    /// Bytes that are held and not out, if they are worth moving items; `items` is what these take.
    pub(crate) fn waste(&self, items: usize) -> Option<usize> {
        let out = self.classed(items);
        let waste = self.pool.held_bytes().saturating_sub(out);
        (waste > WASTE_MIN && waste > out / WASTE_PARTS).then_some(waste)
    }

    /// Of what items take, what is not pages of their own.
    fn classed(&self, items: usize) -> usize {
        items.saturating_sub(self.large.bytes())
    }

    /// Looks at `count` chunks more. True: that was all.
    pub(crate) fn survey(&self, survey: &mut Survey, count: usize) -> bool {
        let from = survey.next;
        survey.next += count;
        !self.pool.survey(from, count, &mut survey.found)
    }

    /// Closes the chunks of which least is out, until what is free in those that are closing is what is
    /// too much. False: there is nothing to gain.
    pub(crate) fn close(&self, survey: Survey, waste: usize, items: usize) -> bool {
        let goal = waste.saturating_sub(self.classed(items) / GOAL_PARTS).min(survey.spare());
        let Found { mut chunks, closing: mut gain, .. } = survey.found;
        if goal > GAIN_MIN {
            chunks.sort_unstable();
            for chunk in chunks.into_iter().take_while(|chunk| chunk.out <= DENSE) {
                if gain >= goal {
                    break;
                }
                gain += CHUNK_LEN - chunk.out;
                self.pool.close(chunk);
            }
        }
        gain > 0
    }

    /// Whether the item's block, which is out, is in a chunk that is closing.
    pub(crate) fn leaves(&self, block: NonNull<u8>, size: usize) -> bool {
        // SAFETY: of a class, and out.
        size <= CLASSED_MAX && unsafe { leaves(block) }
    }
}
