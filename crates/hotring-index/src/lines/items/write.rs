//! The steps that change a table: inserting, replacing and removing an item.
//!
//! A new item is inserted under the LOCK of its home, so that no two sessions insert the same key and the home does
//! not move meanwhile. Replacement and removal are one 16-byte exchange of the lane, without a lock; FROZEN makes them
//! wait. The session whose exchange takes an item out of a lane retires it. Moves never retire an item.

use super::find::At;
use super::stash::Change;
use super::table::{ALL_LANES, Home, Table};
use super::{ItemLines, handle};
use crate::core::hooks::{Step, sometimes};
use crate::core::item::{Item, Kind};
use crate::core::sync::Ordering;
use crate::core::sync::spin::SpinWait;
use crate::core::word::REPL;
use crate::engine::KeyGoal;
use crate::lines::bits::{FROZEN, PROBE_MAX, STASHED, probe, probe_of, reach_of};
use crate::lines::lane::{Lane, Pair, Search};
use crate::lines::lookup::Found;
use crate::lines::relocate;
use crate::lines::write::{lock, raise_reach, unlock};
use crate::session::Pinned;

/// The place into which an item was put.
pub(super) enum Placed<'t> {
    Lane(&'t Lane),
    Stash,
}

impl Placed<'_> {
    pub(super) fn is_stash(&self) -> bool {
        matches!(self, Self::Stash)
    }
}

/// Exchanges a lane; false if it has changed. Debug builds can force a failure.
#[inline(always)]
fn exchange(found: &Found<'_>, new: Pair, lost: Step) -> bool {
    #[cfg(any(debug_assertions, loom))]
    if crate::core::hooks::is_failure_forced() {
        crate::core::hooks::note(lost);
        return false;
    }
    let won = found.lane.swap(found.pair, new);
    #[cfg(any(debug_assertions, loom))]
    if !won {
        crate::core::hooks::note(lost);
    }
    #[cfg(not(any(debug_assertions, loom)))]
    let _ = lost;
    won
}

impl ItemLines {
    /// Puts a private item in, if its key is absent.
    pub(super) fn insert<'s, S: Search, K: Kind>(
        p: &Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        item: Item,
    ) -> Option<Placed<'s>> {
        Self::make_live(item);
        let (position, mut table) = (goal.hash.reverse_bits(), p.engine.table());
        let mut is_it = |value| p.shared.kind.is(Self::item(p, value), goal.hash, goal.key);
        loop {
            let home = table.shape.home(position);
            let line = table.shape.line(home.index);
            let Some(control) = lock(line) else {
                table = table.after();
                continue;
            };
            let reach = reach_of(control);
            let is_there = table.shape.find::<S>(home, reach, &mut is_it).is_some()
                || reach == STASHED && table.stash.find(position, is_it).is_some();
            let value = handle::of(item);
            let placed = (!is_there).then(|| table.put_in::<S>(home, position, value, 0));
            unlock(line);
            if wrong!(table, LinesReachLate)
                && let Some(Placed::Lane(lane)) = &placed
            {
                raise_reach(line, probe_of(lane.word()));
            }
            return placed;
        }
    }

    /// Sets REPL in a private item. An item that has left its lane may have been replaced, and REPL tells a session to
    /// look for the key again. As REPL is set in every item, no session has to set it when it removes one.
    pub(super) fn make_live(item: Item) {
        // ORDERING: Relaxed, private until the exchange of its lane publishes it.
        let made = item.next().load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        item.next().store(made | REPL, Ordering::Relaxed);
    }

    /// Replaces an item by `new`, or removes it. False: the item is no longer there.
    pub(super) fn change<S: Search, K: Kind>(
        p: &Pinned<'_, K, Self>,
        hash: u64,
        old: Item,
        new: Option<Item>,
        lost: Step,
    ) -> bool {
        let (position, mut table) = (hash.reverse_bits(), p.engine.table());
        let (old, new) = (handle::of(old), new.map(handle::of));
        let mut spin = SpinWait::default();
        loop {
            let home = table.shape.home(position);
            match table.look::<S>(home, position, |value| value == old) {
                At::Lane(found) if found.pair.word & FROZEN != 0 => {
                    sometimes!(FrozenMet);
                    spin.wait();
                }
                At::Lane(found) => {
                    let then = match new {
                        Some(value) => Pair { value, ..found.pair },
                        None => Pair { word: found.line_bits(), value: 0 },
                    };
                    if exchange(&found, then, lost) {
                        if new.is_none() {
                            relocate::after_removal(table, &found, |index| {
                                relocate::tidy_home::<S, _>(table, index, &mut ());
                            });
                        }
                        return true;
                    }
                }
                At::Stash(_) => match table.stash.change(position, old, new) {
                    Change::Done => {
                        if new.is_none() {
                            relocate::tidy_home::<S, _>(table, home.index, &mut ());
                        }
                        return true;
                    }
                    Change::Frozen => spin.wait(),
                    Change::Absent => {}
                },
                At::Absent => return false,
                At::Moved => table = table.after(),
            }
        }
    }
}

impl Table {
    /// Puts an absent item into the first free lane of its sequence, or else into the stash. Must be called under the
    /// LOCK of its home. `flags` is 0 or FROZEN.
    #[inline(always)]
    pub(super) fn put_in<S: Search>(
        &self,
        home: Home,
        position: u64,
        value: u64,
        flags: u64,
    ) -> Placed<'_> {
        let (shape, step) = (&self.shape, self.shape.step(home.want));
        let head = shape.line(home.index);
        for number in 0..=PROBE_MAX {
            let line = shape.line(home.index + number * step);
            while let Some(free) = Found::free::<S>(line, ALL_LANES) {
                if !wrong!(self, LinesReachLate) {
                    raise_reach(head, number);
                }
                let word = free.line_bits() | home.want | flags | probe(number);
                if exchange(&free, Pair { word, value }, Step::LinkLost) {
                    return Placed::Lane(free.lane);
                }
            }
        }
        raise_reach(head, STASHED);
        self.stash.insert(position, value, flags & FROZEN != 0);
        sometimes!(Stashed);
        Placed::Stash
    }
}
