//! Finding items in one table, and following a key from table to table.
//!
//! A *hit* takes effect at the load of its lane. Its item is alive under the pin: a session retires an item only after
//! it has taken the item out of its lane. A *miss* reads the control word of the home and its count of moves, then the
//! lines as far as REACH says, then both again. If the home was ACTIVE both times and the count is the same, no item of
//! it has moved meanwhile. So a key that was there all the time was in one lane (or the stash) all the time, within
//! REACH. A home with REACH 0 both times needs no count: see `lines/relocate.rs`.

use super::table::{Home, Table};
use super::{ItemLines, handle};
use crate::core::item::{Item, Kind};
use crate::core::sync::{Ordering, fence};
use crate::core::word::Next;
use crate::engine::{Hit, KeyGoal};
use crate::lines::bits::{ACTIVE, STASHED, reach_of};
use crate::lines::lane::Search;
use crate::lines::lookup::{Found, Seen, is_plain, is_plain_still};
use crate::session::Pinned;

/// The place of an item in a table.
pub(super) enum At<'t> {
    Lane(Found<'t>),
    /// The item is in the stash; holds the value that a lane would hold.
    Stash(u64),
    /// The item is absent.
    Absent,
    /// The home has moved on: look in the next table.
    Moved,
}

impl Table {
    /// Looks for the item of a home that `is_it` accepts by the lane's value.
    #[inline(always)]
    pub(super) fn look<S: Search>(
        &self,
        home: Home,
        position: u64,
        mut is_it: impl FnMut(u64) -> bool,
    ) -> At<'_> {
        let line = self.shape.line(home.index);
        // A hit needs no look at the control word. But a single lookup has time for it while it waits for memory, and
        // without it a miss would have to search twice.
        let control = line.control();
        if let Some(found) = self.shape.find_in::<S>(line, home.want, &mut is_it) {
            return At::Lane(found);
        }
        if is_plain(control) && (wrong!(self, LinesNoSecondLook) || is_plain_still(line)) {
            return At::Absent;
        }
        self.look_further::<S>(home, position, &mut is_it)
    }

    /// As `look`, for a home whose items are in other lines, too, or that has moved on.
    #[inline(never)]
    fn look_further<S: Search>(
        &self,
        home: Home,
        position: u64,
        is_it: &mut impl FnMut(u64) -> bool,
    ) -> At<'_> {
        loop {
            let Some(seen) = self.see(home.index) else { return At::Moved };
            if let Some(found) = self.shape.find::<S>(home, seen.reach, &mut *is_it) {
                return At::Lane(found);
            }
            if seen.reach == STASHED
                && let Some(value) = self.stash.find(position, &mut *is_it)
            {
                return At::Stash(value);
            }
            if self.is_as(home.index, seen) {
                return At::Absent;
            }
        }
    }

    /// Must be called before a look at the lanes of a home. `None`: the home has moved on. An acquire.
    #[inline(always)]
    pub(super) fn see(&self, index: u64) -> Option<Seen> {
        let control = self.shape.line(index).control();
        let seen = || Seen { reach: reach_of(control), moves: self.moves.of(index) };
        (control & ACTIVE != 0).then(seen)
    }

    /// Must be called after a look in vain: whether no item of the home has moved meanwhile, to another lane or
    /// another table.
    #[inline(always)]
    pub(super) fn is_as(&self, index: u64, seen: Seen) -> bool {
        if wrong!(self, LinesNoSecondLook) {
            return true;
        }
        // ORDERING: Acquire: the lanes were read before. If a lane was seen empty because its item has moved, it was
        // emptied after ACTIVE was cleared or the count of moves was raised; that is seen here, too.
        fence(Ordering::Acquire);
        self.shape.line(index).control() & ACTIVE != 0 && self.moves.of(index) == seen.moves
    }
}

impl ItemLines {
    /// The item of a lane's value.
    #[inline(always)]
    pub(super) fn item<K: Kind>(p: &Pinned<'_, K, Self>, value: u64) -> Item {
        // SAFETY: P: a session retires an item only after it has taken the item out of its lane; the lane was read
        // under the pin.
        let item = unsafe { handle::item(value) };
        item.lifetime().check_access(p.local.participant.pinned_at());
        item
    }

    /// An item and its word.
    #[inline(always)]
    pub(super) fn hit<K: Kind>(p: &Pinned<'_, K, Self>, value: u64) -> Hit {
        let item = Self::item(p, value);
        // ORDERING: Acquire, as in every engine; lanes do not depend on it.
        Hit { item, word: Next(item.next().load(Ordering::Acquire)) }
    }

    /// The live item of a key, and the number of items that were looked at.
    #[inline(always)]
    pub(super) fn search<S: Search, K: Kind>(
        p: &Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
    ) -> (Option<Hit>, u32) {
        let (position, mut table, mut visits) = (goal.hash.reverse_bits(), p.engine.table(), 0);
        loop {
            let home = table.shape.home(position);
            let at = table.look::<S>(home, position, |value| {
                visits += 1;
                p.shared.kind.is(Self::item(p, value), goal.hash, goal.key)
            });
            match at {
                At::Lane(found) => return (Some(Self::hit(p, found.pair.value)), visits),
                At::Stash(value) => return (Some(Self::hit(p, value)), visits),
                At::Absent => return (None, visits),
                At::Moved if wrong!(table, LinesStaleTable) => return (None, visits),
                At::Moved => table = table.after(),
            }
        }
    }
}
