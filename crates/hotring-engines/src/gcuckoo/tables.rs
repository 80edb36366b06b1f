//! A pair of tables as the search for a vacancy sees it, and the path of kicks that the search
//! finds.
//!
//! Nothing here knows of items, locks or readers: the same code runs over the atomic words of a
//! page, over a page that is still private, and over plain numbers ([`super::lab`]).

/// Two tables of buckets with `S` slots each. Slot k of bucket b has number b S + k.
pub(crate) trait Tables<const S: usize> {
    /// The contents of a slot; 0 means vacant.
    fn word(&self, slot: u32) -> u64;
    /// The other bucket of an item in a slot of `bucket`.
    fn other(&self, bucket: u32, word: u64) -> u32;
    /// Puts a word into a slot.
    fn set(&self, slot: u32, word: u64);

    /// A vacant slot of a bucket.
    #[inline]
    fn vacancy(&self, bucket: u32) -> Option<u32> {
        slots::<S>(bucket).find(|&slot| self.word(slot) == 0)
    }
}

/// The slots of a bucket.
#[inline(always)]
pub(crate) fn slots<const S: usize>(bucket: u32) -> std::ops::Range<u32> {
    bucket * S as u32..(bucket + 1) * S as u32
}

/// A slot, and its contents when the path was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) slot: u32,
    pub(crate) word: u64,
}

/// Slots from one of a key's own slots to a vacant slot: the item in each moves to the next. Empty if there is no
/// vacancy.
#[derive(Debug, Default)]
pub(crate) struct Path(pub(crate) Vec<Step>);

impl Path {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A path without kicks.
    pub(crate) fn set_direct(&mut self, slot: u32) {
        self.0.clear();
        self.0.push(Step { slot, word: 0 });
    }

    /// The number of items that have to move.
    pub(crate) fn kicks(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// Whether all slots on the path still hold the words that were found.
    pub(crate) fn holds<const S: usize>(&self, tables: &impl Tables<S>) -> bool {
        self.0.iter().all(|step| tables.word(step.slot) == step.word)
    }

    /// Whether no slot is on the path twice. A search of tables that others change meanwhile may
    /// visit a slot twice.
    pub(crate) fn is_simple(&self) -> bool {
        let slots = |from: usize| self.0[from..].iter().map(|step| step.slot);
        slots(0).enumerate().all(|(i, slot)| slots(i + 1).all(|later| later != slot))
    }

    /// Moves the items on the path, beginning at the vacancy, and puts `word` into its first slot. Each
    /// item is in its new place before it leaves the old one. Returns the kicks.
    pub(crate) fn apply<const S: usize>(&self, tables: &impl Tables<S>, word: u64) -> usize {
        for i in (1..self.0.len()).rev() {
            tables.set(self.0[i].slot, self.0[i - 1].word);
        }
        tables.set(self.0[0].slot, word);
        self.kicks()
    }
}
