//! Writes of one key.
//!
//! A present key is changed or removed by one 16-byte exchange of its lane, without a lock; the writer waits while the
//! item is frozen. A new key is inserted under the LOCK of its home: so no two threads insert the same key, and the
//! home does not move meanwhile. Code under LOCK must not wait for a client or for a page, and must not allocate.

use super::bits::{
    ACTIVE, FROZEN, LINE, LIVE, LOCK, PROBE_MAX, STASHED, probe, reach_of, with_reach,
};
use super::lane::{Line, Pair, Search};
use super::lookup::Found;
use super::relocate::{self, Untidied};
use super::stash::{Decision, Spare, Stashed};
use super::table::{Home, Table};
use crate::core::sync::spin::SpinWait;

/// The outcome of an insert.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inserted {
    /// The item is in a lane.
    InLane,
    /// The item is in the stash, as all lanes of its sequence are taken.
    InStash,
    /// The key was present.
    No,
}

impl<'t> Found<'t> {
    /// The first free lane of a line.
    #[inline(always)]
    pub(super) fn free<S: Search>(line: &'t Line, lanes: u32) -> Option<Self> {
        loop {
            let free = S::matches(line, 0, &LIVE).only(lanes);
            if free.is_empty() {
                return None;
            }
            let lane = free.first(line);
            let pair = S::load(lane);
            if pair.word & LIVE == 0 {
                return Some(Found { line, lane, pair });
            }
        }
    }

    /// Gives the item another value. False: the lane has changed.
    #[inline(always)]
    fn write(&self, value: u64) -> bool {
        self.lane.swap(self.pair, Pair { word: self.pair.word, value })
    }

    /// Empties the lane. False: it has changed.
    #[inline(always)]
    pub(super) fn empty(&self) -> bool {
        self.lane.swap(self.pair, Pair { word: self.line_bits(), value: 0 })
    }

    /// As [`empty_frozen`](Self::empty_frozen), for an item that has moved.
    pub(super) fn clear_moved<S: Search>(&self, table: &Table) {
        #[cfg(loom)]
        if wrong!(table, LinesRelaxedClear) && !self.line.is_head(self.lane) {
            return self.lane.empty_relaxed();
        }
        let _ = table;
        self.empty_frozen::<S>();
    }

    /// Empties the lane of a frozen item: only bits of the line may change meanwhile.
    pub(super) fn empty_frozen<S: Search>(&self) {
        let mut now = Found { pair: S::load(self.lane), ..*self };
        while !now.empty() {
            now.pair = S::load(self.lane);
        }
    }

    /// Unfreezes the item, which is the only copy left.
    pub(super) fn thaw(&self, table: &Table) {
        #[cfg(loom)]
        if wrong!(table, LinesRelaxedThaw) {
            return self.lane.clear_relaxed(FROZEN);
        }
        let _ = table;
        self.lane.clear(FROZEN);
    }

    /// The bits of the word that stay when the item is removed.
    #[inline(always)]
    pub(super) fn line_bits(&self) -> u64 {
        if self.line.is_head(self.lane) { self.pair.word & LINE } else { 0 }
    }
}

/// Where an absent item was put.
pub(super) enum Put<'t> {
    /// Into a lane: what it holds now.
    Lane(Found<'t>),
    /// Into the stash, as all lanes of its sequence are taken.
    Stash,
    /// Nowhere: the item belongs in the stash, but the thread has no spare node.
    Unprepared,
}

/// Changes or removes the value of a hash; returns the old value. `decide` may be called several times.
#[inline(always)]
pub(super) fn change<S: Search>(
    mut table: &Table,
    hash: u64,
    (spare, untidied): (&mut Spare, &mut Untidied),
    mut decide: impl FnMut(u64) -> Decision,
) -> Option<u64> {
    let mut spin = SpinWait::default();
    loop {
        let home = table.shape.home(hash);
        let Some(seen) = table.see(home.index) else {
            table = table.after();
            continue;
        };
        let reach = seen.reach;
        if let Some(found) = table.shape.find::<S>(home, reach) {
            let old = found.pair.value;
            let is_frozen = found.pair.word & FROZEN != 0;
            let done = match decide(old) {
                Decision::Keep => true,
                Decision::Write(value) => !is_frozen && found.write(value),
                Decision::Remove => {
                    let is_removed = !is_frozen && found.empty();
                    if is_removed {
                        relocate::after_removal(table, &found, |index| {
                            untidied.tidy::<S>(table, index, spare);
                        });
                    }
                    is_removed
                }
            };
            if done {
                return Some(old);
            }
            if is_frozen {
                spin.wait();
            }
            continue;
        }
        // `decide` is the caller's code and must run while no lock is held.
        if reach == STASHED
            && let Some(Stashed { value: old, is_frozen }) = table.stash.get(hash)
        {
            let done = match decide(old) {
                Decision::Keep => true,
                decision => !is_frozen && table.stash.change(hash, old, decision, spare),
            };
            if done {
                return Some(old);
            }
            if is_frozen {
                spin.wait();
            }
            continue;
        }
        if table.is_as(home.index, seen) {
            return None;
        }
    }
}

/// Inserts a hash unless it is present.
#[inline(always)]
pub(super) fn insert<S: Search>(
    mut table: &Table,
    hash: u64,
    value: u64,
    spare: &mut Spare,
) -> Inserted {
    loop {
        let home = table.shape.home(hash);
        let line = table.shape.line(home.index);
        let Some(control) = lock(line) else {
            table = table.after();
            continue;
        };
        let reach = reach_of(control);
        let is_there = table.shape.find::<S>(home, reach).is_some()
            || reach == STASHED && table.stash.get(hash).is_some();
        if is_there {
            unlock(line);
            return Inserted::No;
        }
        let put = put_in::<S>(table, home, hash, Stashed { value, is_frozen: false }, spare);
        unlock(line);
        let inserted = match put {
            Put::Lane(_) => Inserted::InLane,
            Put::Stash => Inserted::InStash,
            Put::Unprepared => {
                spare.fill();
                continue;
            }
        };
        if wrong!(table, LinesReachLate) && table.shape.find::<S>(home, 0).is_none() {
            raise_reach(line, PROBE_MAX);
        }
        return inserted;
    }
}

/// Locks a home; returns its control word. `None`: it has moved on.
#[inline(always)]
pub(super) fn lock(line: &Line) -> Option<u64> {
    let mut spin = SpinWait::default();
    let control = loop {
        let control = line.control();
        if control & ACTIVE == 0 {
            break None;
        }
        if control & LOCK != 0 {
            spin.wait();
        } else if line.head().swap_word(control, control | LOCK) {
            break Some(control);
        }
    };
    #[cfg(all(test, not(loom)))]
    super::watch::locked(control.is_some());
    control
}

/// Must be called by the holder of the LOCK.
#[inline(always)]
pub(super) fn unlock(line: &Line) {
    line.head().clear(LOCK);
    #[cfg(all(test, not(loom)))]
    super::watch::unlocked();
}

/// Puts an absent item into the first free lane of its sequence, or else into the stash. Must be called under the LOCK
/// of its home.
#[inline(always)]
pub(super) fn put_in<'t, S: Search>(
    table: &'t Table,
    home: Home,
    hash: u64,
    item: Stashed,
    spare: &mut Spare,
) -> Put<'t> {
    let shape = &table.shape;
    let (flags, value) = (if item.is_frozen { FROZEN } else { 0 }, item.value);
    let (word, step) = (shape.word(home) | flags, shape.step(home.want));
    let head = shape.line(home.index);
    for number in 0..=PROBE_MAX {
        let line = shape.line(home.index + number * step);
        while let Some(free) = Found::free::<S>(line, shape.lanes()) {
            if !wrong!(table, LinesReachLate) {
                raise_reach(head, number);
            }
            let pair = Pair { word: free.line_bits() | word | probe(number), value };
            if free.lane.swap(free.pair, pair) {
                return Put::Lane(Found { pair, ..free });
            }
        }
    }
    put_into_stash(table, head, hash, item, spare)
}

#[cold]
fn put_into_stash(
    table: &Table,
    head: &Line,
    hash: u64,
    item: Stashed,
    spare: &mut Spare,
) -> Put<'static> {
    raise_reach(head, STASHED);
    if table.stash.insert(hash, item, spare) { Put::Stash } else { Put::Unprepared }
}

/// Raises REACH, before an item gets that far out. Must be called under LOCK; lane 0's item may still change
/// meanwhile.
#[inline(always)]
pub(super) fn raise_reach(head: &Line, reach: u64) {
    loop {
        let control = head.control();
        if reach_of(control) >= reach || head.head().swap_word(control, with_reach(control, reach))
        {
            return;
        }
    }
}
