//! Lanes for loom: one atomic word each, of which the low half is the word and the high half the value.
//!
//! Such a word is read at one moment, as the 16 bytes are. A mutex would hide missing memory orders. A line is four
//! loads, in no order that others could rely on.

use super::{Line, Matches, Pair, Search};
use crate::core::sync::{AtomicU64, Ordering};

const HALF: u32 = 32;
const WORD: u64 = (1 << HALF) - 1;

/// The slot of one item.
pub(in crate::lines) struct Lane(AtomicU64);

/// The correct form, and a wrong variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The real one.
    Model,
    /// Word and value are loaded one after the other.
    Torn,
}

#[derive(Clone, Copy)]
pub(in crate::lines) struct Model;
#[derive(Clone, Copy)]
pub(in crate::lines) struct Torn;

/// The form that callers have compiled into their code.
pub(in crate::lines) type Best = Model;

/// Runs code for a form.
macro_rules! by_form {
    ($form:expr, $search:ident => $do:expr) => {
        match $form {
            Form::Model => {
                type $search = crate::lines::lane::Model;
                $do
            }
            Form::Torn => {
                type $search = crate::lines::lane::Torn;
                $do
            }
        }
    };
}
pub(in crate::lines) use by_form;

impl Form {
    /// The form of [`Best`].
    pub(in crate::lines) const BEST: Self = Self::Model;

    /// The real one.
    pub fn best() -> Option<Self> {
        Some(Self::Model)
    }

    /// All forms are available.
    pub fn is_available(self) -> bool {
        true
    }
}

fn pair(both: u64) -> Pair {
    Pair { word: both & WORD, value: both >> HALF }
}

fn both(pair: Pair) -> u64 {
    debug_assert!(pair.word <= WORD && pair.value <= WORD, "halves of a word");
    pair.word | pair.value << HALF
}

impl Default for Lane {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Lane {
    pub(in crate::lines) fn word(&self) -> u64 {
        // ORDERING: Acquire, as in the real lane.
        pair(self.0.load(Ordering::Acquire)).word
    }

    pub(in crate::lines) fn value(&self) -> u64 {
        // ORDERING: Acquire, as in the real lane.
        pair(self.0.load(Ordering::Acquire)).value
    }

    pub(in crate::lines) fn swap(&self, old: Pair, new: Pair) -> bool {
        // ORDERING: AcqRel, as in the real lane.
        self.0.compare_exchange(both(old), both(new), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    pub(in crate::lines) fn swap_word(&self, old: u64, new: u64) -> bool {
        // ORDERING: Relaxed: the exchange decides.
        let mut now = pair(self.0.load(Ordering::Relaxed));
        while now.word == old {
            let then = Pair { word: new, ..now };
            // ORDERING: AcqRel, as in the real lane.
            let done =
                self.0.compare_exchange(both(now), both(then), Ordering::AcqRel, Ordering::Relaxed);
            match done {
                Ok(_) => return true,
                // The value may have changed, which the real lane allows.
                Err(found) => now = pair(found),
            }
        }
        false
    }

    pub(in crate::lines) fn clear(&self, bits: u64) {
        // ORDERING: AcqRel, as in the real lane.
        self.0.fetch_and(!bits, Ordering::AcqRel);
    }

    /// For a wrong variant.
    pub(in crate::lines) fn clear_relaxed(&self, bits: u64) {
        // ORDERING: Relaxed: this is the fault.
        self.0.fetch_and(!bits, Ordering::Relaxed);
    }

    /// For a wrong variant: clears the entire lane.
    pub(in crate::lines) fn empty_relaxed(&self) {
        // ORDERING: Relaxed: this is the fault.
        self.0.fetch_and(0, Ordering::Relaxed);
    }

    pub(in crate::lines) fn set(&self, bits: u64) {
        // ORDERING: AcqRel, as in the real lane.
        self.0.fetch_or(bits, Ordering::AcqRel);
    }

    /// Memory is always mapped.
    pub(in crate::lines) fn touch(&self) {}

    /// As a page that went back to the system.
    pub(in crate::lines) fn wipe(&self) {
        // ORDERING: Release: the system interrupts all processors before it takes a page away.
        self.0.store(0, Ordering::Release);
    }
}

impl Line {
    /// A line of zeros.
    pub(in crate::lines) fn new() -> Self {
        Self(Default::default())
    }

    /// As a page that went back to the system.
    pub(in crate::lines) fn wipe(&self) {
        self.0.iter().for_each(Lane::wipe);
    }
}

fn matches(line: &Line, want: u64, mask: &u64) -> Matches {
    // ORDERING: Relaxed: weaker than any real form.
    let word = |lane: &Lane| pair(lane.0.load(Ordering::Relaxed)).word;
    let bit = |(i, lane)| u32::from((word(lane) ^ want) & mask == 0) << (2 * i);
    Matches(line.0.iter().enumerate().map(bit).sum())
}

impl Search for Model {
    fn matches(line: &Line, want: u64, mask: &u64) -> Matches {
        matches(line, want, mask)
    }

    fn load(lane: &Lane) -> Pair {
        // ORDERING: Acquire, as in the real lanes.
        pair(lane.0.load(Ordering::Acquire))
    }
}

impl Search for Torn {
    fn matches(line: &Line, want: u64, mask: &u64) -> Matches {
        matches(line, want, mask)
    }

    fn load(lane: &Lane) -> Pair {
        Pair { word: lane.word(), value: lane.value() }
    }
}
