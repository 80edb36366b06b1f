//! Finding items in one table, and following a key from table to table.
//!
//! A *hit* takes effect at the load of its lane. Its item is alive under the pin: a session retires an item only after
//! it has taken the item out of its lane. A *miss* reads the control word of the home, then the lines as far as REACH
//! says, then the control word again. No item moves within a table. So a key that was there all the time was in one
//! lane (or the stash) all the time, within REACH, unless its home has moved on, which the second look tells.

use super::table::{Home, Table};
use super::{ItemLines, handle};
use crate::core::item::{Item, Kind};
use crate::core::sync::{Ordering, fence};
use crate::core::word::Next;
use crate::engine::{Hit, KeyGoal};
use crate::lines::bits::STASHED;
use crate::lines::lane::Search;
use crate::lines::lookup::Found;
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
        let Some(reach) = self.see(home.index) else { return At::Moved };
        if let Some(found) = self.shape.find::<S>(home, reach, &mut is_it) {
            return At::Lane(found);
        }
        if reach == STASHED
            && let Some(value) = self.stash.find(position, is_it)
        {
            return At::Stash(value);
        }
        if self.is_still_home(home.index) { At::Absent } else { At::Moved }
    }

    /// Must be called after a look in vain at the lanes of a home: whether the home has not moved
    /// on.
    #[inline(always)]
    pub(super) fn is_still_home(&self, index: u64) -> bool {
        if wrong!(self, LinesNoSecondLook) {
            return true;
        }
        // ORDERING: Acquire: the lanes were read before. If a lane was seen empty because its item has moved on, it
        // was emptied after ACTIVE was cleared; that is seen here, too.
        fence(Ordering::Acquire);
        self.see(index).is_some()
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
