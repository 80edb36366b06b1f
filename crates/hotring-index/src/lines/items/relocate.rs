//! Moves within a table of items, by the code that both kinds of lines share (`lines/relocate.rs`).

use super::table::{ALL_LANES, MASK, Table};
use crate::core::sync::Ordering;
use crate::lines::bits::{HEAT, PROBE_MAX, STASHED};
use crate::lines::lane::{Line, Search};
use crate::lines::lookup::Found;
use crate::lines::relocate::{Homes, place};

impl Homes for Table {
    /// The stash allocates by itself.
    type Spare = ();

    fn homes(&self) -> u64 {
        self.shape.lines()
    }

    fn line(&self, index: u64) -> &Line {
        self.shape.line(index)
    }

    fn index(&self, line: &Line) -> u64 {
        self.shape.index(line)
    }

    fn step(&self, word: u64) -> u64 {
        self.shape.step(word)
    }

    fn mask(&self) -> u64 {
        MASK
    }

    fn heat(&self) -> u64 {
        HEAT
    }

    fn lanes(&self) -> u32 {
        ALL_LANES
    }

    fn is_moving_on(&self) -> bool {
        self.next().is_some()
    }

    fn tidied(&self, homes: u64) -> u64 {
        // ORDERING: Relaxed: it decides which session does it, and nothing is read through it.
        self.tidied.fetch_add(homes, Ordering::Relaxed)
    }

    fn count_move(&self, index: u64) {
        if !wrong!(self, LinesNoCount) {
            self.moves.raise(index);
        }
    }

    fn each_item<'t, S: Search>(&'t self, index: u64, reach: u64, see: impl FnMut(Found<'t>)) {
        self.shape.each_item::<S>(index, reach, see);
    }

    #[cold]
    fn unstash<S: Search>(&self, index: u64, _spare: &mut ()) -> u64 {
        let mut needed = 0;
        while let Some(first) = self.stash.freeze_first(self.shape.positions(index)) {
            let Ok((position, value)) = first else { return STASHED };
            if wrong!(self, LinesStashUnfrozen) {
                self.stash.thaw(position, value);
            }
            let word = self.shape.home(position).want;
            let Some((number, copy)) = place::<S, Self>(self, index, word, 0..=PROBE_MAX, value)
            else {
                self.stash.thaw(position, value);
                return STASHED;
            };
            needed = needed.max(number);
            self.count_move(index);
            self.stash.remove(position, value);
            self.thaw(&copy);
        }
        needed
    }
}
