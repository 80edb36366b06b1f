//! The line of clients that wait for an element of a key (BLPOP and the like): first come, first served, across
//! threads.
//!
//! # Picture
//! ```text
//!   key -> entries, in order:  7 -> taker, 9 -> taker, 12 -> taker
//!                             ^ first come
//! ```
//! *Waiting*: hold all requested keys; look at each; if none has an element, enter the line of each under one entry
//! number, and release the keys.
//! *A write* that stores a value with elements under a key with a line marks the key as ready
//! ([`crate::Session::next_ready`]).
//! *Serving*, by the session that wrote: hold the key; while it has an element and there is a line, claim the first
//! taker, and remove the element for it.
//! *The end* of a wait for another reason: the taker cannot be claimed from then on, and leaves its lines.
//!
//! If a key has a line already, a taker enters behind the others without a hold, looks then, and serves the key if it
//! has an element. Only the begin of a line needs a hold, so that the writes in flight see it.
//!
//! # Invariant
//! An element and a taker for it must not both remain: if a key has both, a session that wrote the key, or swapped its
//! database, is about to serve it. A hold excludes the writes of its keys. So either a write has ended before a taker
//! looks, and the taker removes the element itself; or the writer finds the taker's line, and serves it.
//!
//! # Why nothing is served twice, and nothing is lost
//! A taker has one mark for all its keys, and [`Taker::claim`] succeeds once. It is called only with the key held and
//! an element present, so a claim never has to be undone. If a taker were claimed before the look, another key's
//! session could find it claimed, skip it and leave its element; after the claim was undone, taker and element would
//! both remain.
//!
//! # Databases
//! Lines belong to the number of a database, as clients know it: two databases that swap their numbers exchange their
//! lines ([`Watchers::swap_lines`]). A [`Home`] finds the present lines of an entry, and prevents them from moving
//! meanwhile.
//!
//! # Order
//! Entries have increasing numbers. These are assigned with all keys held, so that the order in each line is the order
//! of arrival. A newcomer that finds an element and a line must serve the line first.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc as StdArc;
use std::sync::atomic::Ordering::Relaxed;

use super::Watchers;
use crate::gate::stripes_of;

/// A client that waits for an element.
pub trait Taker: Any + Send + Sync {
    /// Ends the wait because there is an element. Must return true at most once, and never after the wait has ended for
    /// another reason. Called under a lock of the line: it must not use the store.
    fn claim(&self) -> bool;
}

/// The decision on a taker in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Claims the taker.
    Takes,
    /// Skips the taker, which waits for a value of another type.
    Passes,
    /// Stops: the taker and all behind it keep their entries.
    Stops,
}

/// The takers that wait for elements of one key, by entry number.
pub(super) type Line = BTreeMap<u64, StdArc<dyn Taker>>;

/// The function from a key to its stripe.
pub(crate) type StripeOf<'a> = &'a dyn Fn(&[u8]) -> u32;

/// Finds the lines that an entry is in.
pub(crate) trait Home: Send + Sync {
    /// Calls `f` with the watchers that have the lines, and with the function from a key to its stripe. No line moves
    /// meanwhile.
    fn visit(&self, f: &mut dyn FnMut(&Watchers, StripeOf<'_>));
}

/// A taker's entry in the lines of some keys. Dropping it leaves the lines.
pub struct LineEntry {
    number: u64,
    keys: Vec<Box<[u8]>>,
    home: Box<dyn Home>,
}

impl LineEntry {
    /// The keys of the lines.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }
}

impl Watchers {
    /// Enters the taker into the lines of keys: of `held` keys, which the caller holds and has found without elements,
    /// and of `others`, behind their takers. The caller must look at the others afterwards. Writes of these keys in
    /// flight then began after the line did, so they find it, and mark the key as ready.
    ///
    /// The caller must prevent lines from moving meanwhile.
    ///
    /// # Errors
    /// One of the others has no line. The entry must be dropped once lines may move.
    pub(crate) fn line_up<'k>(
        &self,
        home: Box<dyn Home>,
        held: impl Iterator<Item = (u32, &'k [u8])>,
        others: impl Iterator<Item = (u32, &'k [u8])>,
        taker: &StdArc<dyn Taker>,
    ) -> Result<LineEntry, LineEntry> {
        // ORDERING: Relaxed; the holds of a key order the numbers in its line. Two takers that enter at the same time
        // without holds may get either order.
        let number = self.entries.fetch_add(1, Relaxed);
        let mut entry = LineEntry { number, keys: Vec::new(), home };
        for (stripe, key) in others {
            let mut shard = self.shard(stripe as usize);
            let Some(line) = shard.lines.get_mut(key) else { return Err(entry) };
            line.insert(number, StdArc::clone(taker));
            drop(shard);
            entry.keys.push(key.into());
        }
        for (stripe, key) in held {
            let mut shard = self.shard(stripe as usize);
            shard.lines.entry(key.into()).or_default().insert(number, StdArc::clone(taker));
            self.mark(stripe);
            drop(shard);
            entry.keys.push(key.into());
        }
        Ok(entry)
    }

    /// Sets the bit of a stripe with a waiter. The caller must hold the key, and have locked the shard.
    fn mark(&self, stripe: u32) {
        // ORDERING: Relaxed; the release of the hold makes the bit visible to later writes.
        self.stripes.0.fetch_or(1 << stripe, Relaxed);
    }

    /// Exchanges all lines with those of another database. `ours` and `theirs` return the stripe of a key. The caller
    /// must hold all keys, and prevent lines from being entered or left. Returns the keys of the lines that moved
    /// here, and of those that moved there.
    pub(crate) fn swap_lines(
        &self,
        ours: impl Fn(&[u8]) -> u32,
        other: &Watchers,
        theirs: impl Fn(&[u8]) -> u32,
    ) -> [Vec<Box<[u8]>>; 2] {
        let (from_here, from_there) = (self.take_lines(), other.take_lines());
        // A later taker must get a higher number than those that moved.
        // ORDERING: Relaxed, as in `line_up`; no number is assigned meanwhile.
        let last = self.entries.load(Relaxed).max(other.entries.load(Relaxed));
        [self, other].iter().for_each(|watchers| watchers.entries.store(last, Relaxed));
        [self.put_lines(from_there, ours), other.put_lines(from_here, theirs)]
    }

    fn take_lines(&self) -> Vec<(Box<[u8]>, Line)> {
        let mut all = Vec::new();
        // ORDERING: Relaxed, the hold orders it as the gate does in `is_watched`.
        for stripe in stripes_of(self.stripes.0.load(Relaxed)) {
            let mut shard = self.shard(stripe);
            all.extend(std::mem::take(&mut shard.lines));
            self.tidy(stripe, &shard);
        }
        all
    }

    fn put_lines(
        &self,
        lines: Vec<(Box<[u8]>, Line)>,
        stripe_of: impl Fn(&[u8]) -> u32,
    ) -> Vec<Box<[u8]>> {
        let mut keys = Vec::with_capacity(lines.len());
        for (key, line) in lines {
            let stripe = stripe_of(&key);
            keys.push(key.clone());
            let mut shard = self.shard(stripe as usize);
            shard.lines.insert(key, line);
            self.mark(stripe);
        }
        keys
    }

    /// Claims the first taker that `turn` selects and that can be claimed. The caller must hold the key.
    pub(crate) fn claim_first(
        &self,
        stripe: u32,
        key: &[u8],
        mut turn: impl FnMut(&StdArc<dyn Taker>) -> Turn,
    ) -> Option<StdArc<dyn Taker>> {
        let mut shard = self.shard(stripe as usize);
        let line = shard.lines.get_mut(key)?;
        let mut gone = Vec::new();
        let mut claimed = None;
        for (number, taker) in line.iter() {
            match turn(taker) {
                Turn::Passes => continue,
                Turn::Stops => break,
                Turn::Takes => gone.push(*number),
            }
            // A taker that cannot be claimed has ended its wait and is about to leave.
            if taker.claim() {
                claimed = Some(StdArc::clone(taker));
                break;
            }
        }
        gone.iter().for_each(|number| _ = line.remove(number));
        if line.is_empty() {
            shard.lines.remove(key);
        }
        self.tidy(stripe as usize, &shard);
        claimed
    }

    /// Calls `f` with the takers in the key's line, in order, until it breaks.
    pub(crate) fn walk_line(
        &self,
        stripe: u32,
        key: &[u8],
        f: impl FnMut(&StdArc<dyn Taker>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let shard = self.shard(stripe as usize);
        shard.lines.get(key).into_iter().flat_map(BTreeMap::values).try_for_each(f)
    }

    /// Whether the key has a line.
    pub(crate) fn has_line(&self, stripe: u32, key: &[u8]) -> bool {
        self.shard(stripe as usize).lines.contains_key(key)
    }
}

impl Drop for LineEntry {
    fn drop(&mut self) {
        let LineEntry { number, keys, home } = self;
        home.visit(&mut |watchers, stripe_of| {
            for key in &*keys {
                let stripe = stripe_of(key) as usize;
                let mut shard = watchers.shard(stripe);
                let Some(line) = shard.lines.get_mut(key) else { continue };
                line.remove(number);
                if line.is_empty() {
                    shard.lines.remove(key);
                }
                watchers.tidy(stripe, &shard);
            }
        });
    }
}

impl std::fmt::Debug for LineEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("number", &self.number).finish_non_exhaustive()
    }
}
