//! Sessions: the operations of one thread on a map, and its share of the work that growth and shrinking take.

use super::lane::{Best, Form, Search, by_form};
use super::lookup::{AtHome, look_up};
use super::map::{Record, Shared};
use super::permutation::Permutation;
use super::relocate::{self, Untidied};
use super::stash::{Decision, Spare};
use super::sweep;
use super::table::{Shape, Table};
use super::write::{self, Inserted};
use crate::core::sync::Arc;
use std::ptr::NonNull;

/// A thread's access to a map of lines. Each thread should keep one session.
///
/// An idle session keeps the address range of the table that it used last, but not its memory.
pub struct LinesSession {
    permutation: Permutation,
    /// The shape of `table`.
    pub(super) shape: Shape,
    pub(super) form: Form,
    /// The change of the number of items that was not reported to the map yet, and its limit.
    pending: i64,
    /// The size of `pending` at which the session reports it.
    pending_max: i64,
    /// Removals since the session last tidied homes.
    removals: u32,
    /// Reads until the next one is noted.
    pub(super) until_noted: u32,
    /// Nodes for the stash; none unless keys have collided in masses.
    spare: Spare,
    /// Homes of `table` that removals have left untidy.
    untidied: Untidied,
    /// The table that `record` announces.
    table: NonNull<Table>,
    record: Arc<Record>,
    shared: Arc<Shared>,
}

// SAFETY: the record's announcement keeps the table alive, on whichever thread the session is used.
unsafe impl Send for LinesSession {}

/// After `TIDY_EVERY` removals a session tidies `TIDY_HOMES` homes. So each home is tidied once in the time in which
/// all items are removed about twice.
const TIDY_EVERY: u32 = 64;
/// Homes that a session tidies at a time.
const TIDY_HOMES: u64 = 16;

/// One read in this many is noted in its item: a prime, so that a loop over hot keys is unlikely to fall in step.
pub(super) const NOTED_EVERY: u32 = 61;

/// The largest change of the number of items that a session may leave unreported.
const PENDING_MAX: u64 = 256;

/// Lines of the next table that are populated in advance of the homes that move there: 64 MiB.
const POPULATED_AHEAD: u64 = 1 << 20;

impl LinesSession {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (record, table) = shared.enter();
        // SAFETY: the record announces the table, so the table is kept.
        let first = unsafe { table.as_ref() };
        let (shape, untidied) = (first.shape, Untidied::of(first));
        Self {
            permutation: shared.permutation,
            shape,
            form: shared.form,
            pending: 0,
            pending_max: pending_max(&shape),
            removals: 0,
            until_noted: NOTED_EVERY,
            spare: Spare::default(),
            untidied,
            table,
            record,
            shared,
        }
    }

    /// The value of a key. O(1) expected; waits for no other thread, except for the stash's lock in a flood.
    #[inline(always)]
    pub fn get(&mut self, key: u64) -> Option<u64> {
        self.count_read(key);
        let hash = self.hash(key);
        // The best form is compiled into the caller's code, the others are not.
        if self.form != Form::BEST {
            return self.get_otherwise(hash);
        }
        match self.look_at_home::<Best>(hash) {
            AtHome::Hit(value) => Some(value),
            AtHome::Miss => {
                // Keeps the branch: as a conditional move, presence would wait for memory.
                std::hint::cold_path();
                None
            }
            AtHome::Further => self.get_further::<Best>(hash),
        }
    }

    /// Counts a read.
    #[inline(always)]
    pub(super) fn count_read(&mut self, key: u64) {
        self.until_noted -= 1;
        if self.until_noted == 0 {
            self.note_read(self.hash(key));
        }
    }

    /// Notes a read of a key, as one read in `NOTED_EVERY` does.
    #[cfg(loom)]
    pub fn note(&mut self, key: u64) {
        self.note_read(self.hash(key));
    }

    /// Counts reads. Called after they have ended, when the lines of their keys are cached.
    pub(super) fn note_reads(&mut self, keys: &[u64]) {
        let mut at = self.until_noted as usize;
        while let Some(key) = keys.get(at - 1) {
            self.note_read(self.hash(*key));
            at += NOTED_EVERY as usize;
        }
        self.until_noted = (at - keys.len()) as u32;
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note_read(&mut self, hash: u64) {
        self.until_noted = NOTED_EVERY;
        let table = self.table();
        by_form!(self.form, S => relocate::warm_hash::<S>(table, hash));
    }

    #[inline(always)]
    fn look_at_home<S: Search>(&self, hash: u64) -> AtHome {
        let home = self.shape.home(hash);
        self.shape.look_at_home::<S>(self.shape.line(home.index), home.want)
    }

    #[cold]
    #[inline(never)]
    fn get_otherwise(&mut self, hash: u64) -> Option<u64> {
        by_form!(self.form, S => match self.look_at_home::<S>(hash) {
            AtHome::Hit(value) => Some(value),
            AtHome::Miss => None,
            AtHome::Further => self.get_further::<S>(hash),
        })
    }

    /// The value of a key that is not in its home line.
    #[inline(never)]
    fn get_further<S: Search>(&mut self, hash: u64) -> Option<u64> {
        self.switch_table_if_left();
        look_up::<S>(self.table(), hash)
    }

    /// Stores a value; true if the key was present.
    pub fn put(&mut self, key: u64, value: u64) -> bool {
        let hash = self.hash(key);
        self.put_hash(hash, value)
    }

    pub(super) fn put_hash(&mut self, hash: u64, value: u64) -> bool {
        loop {
            if self.change(hash, |_| Decision::Write(value)).is_some() {
                return true;
            }
            if self.insert_hash(hash, value) {
                return false;
            }
        }
    }

    /// Stores a value unless the key is present; true if it was stored.
    pub fn insert(&mut self, key: u64, value: u64) -> bool {
        let hash = self.hash(key);
        self.insert_hash(hash, value)
    }

    /// Stores a value only if the key is present; returns the old value.
    pub fn replace(&mut self, key: u64, value: u64) -> Option<u64> {
        let hash = self.hash(key);
        self.change(hash, |_| Decision::Write(value))
    }

    /// Replaces the value of a present key by the result of `make`, and returns the old value. `make` may be called
    /// several times, and must not panic.
    pub fn update(&mut self, key: u64, mut make: impl FnMut(u64) -> u64) -> Option<u64> {
        let hash = self.hash(key);
        self.change(hash, |old| Decision::Write(make(old)))
    }

    /// Stores `new` if the value is `old`.
    ///
    /// # Errors
    /// The actual value of the key, `None` if the key is absent.
    pub fn compare_exchange(&mut self, key: u64, old: u64, new: u64) -> Result<(), Option<u64>> {
        let hash = self.hash(key);
        let decide = |now| if now == old { Decision::Write(new) } else { Decision::Keep };
        match self.change(hash, decide) {
            Some(now) if now == old => Ok(()),
            other => Err(other),
        }
    }

    /// Adds to the value (wrapping) and returns the sum; `None` if the key is absent.
    pub fn fetch_add(&mut self, key: u64, by: u64) -> Option<u64> {
        self.update(key, |old| old.wrapping_add(by)).map(|old| old.wrapping_add(by))
    }

    /// Removes a key; true if it was present.
    pub fn remove(&mut self, key: u64) -> bool {
        self.take(key).is_some()
    }

    /// Removes a key and returns its last value; `None` if the key was absent.
    pub fn take(&mut self, key: u64) -> Option<u64> {
        let hash = self.hash(key);
        self.remove_hash(hash, |_| Decision::Remove)
    }

    /// Removes a key if its value is `old`; true if it was removed.
    pub fn remove_if(&mut self, key: u64, old: u64) -> bool {
        let hash = self.hash(key);
        let decide = |now| if now == old { Decision::Remove } else { Decision::Keep };
        self.remove_hash(hash, decide) == Some(old)
    }

    /// Moves some homes on if the table is growing or shrinking. False: there are no homes left to claim.
    pub fn growth_step(&mut self) -> bool {
        self.switch_table_if_left();
        let (form, (table, spare)) = (self.form, self.parts());
        let Some(next) = table.next() else { return false };
        let has_moved = by_form!(form, S => sweep::step::<S>(table, next, spare));
        spare.trim();
        has_moved
    }

    /// Begins to grow the table, unless a resize is already under way; true if it did. Later writes,
    /// [`LinesSession::growth_step`] and [`LinesSession::maintain`] do the rest.
    pub fn grow(&mut self) -> bool {
        self.shared.grow(self.newest())
    }

    /// Begins to shrink the table to the size that its items need, as [`LinesSession::grow`] begins to grow it. Never
    /// shrinks below the first size.
    pub fn shrink(&mut self) -> bool {
        let items = self.report();
        self.shared.shrink(items, self.newest())
    }

    /// Does a piece of background work on the calling thread, of at most some milliseconds: populates pages that
    /// growth will reach, moves homes on, or makes small pages huge. False: there is nothing to do now.
    pub fn maintain(&mut self) -> bool {
        let huge_pages = self.shared.huge_pages();
        match self.moving() {
            None => huge_pages && self.table().collapse(),
            Some((table, next)) => {
                let at = sweep::position(table, next);
                next.populate(at, at + POPULATED_AHEAD) || self.growth_step()
            }
        }
    }

    #[inline(always)]
    pub(super) fn permutation(&self) -> &Permutation {
        &self.permutation
    }

    #[inline(always)]
    pub(super) fn hash(&self, key: u64) -> u64 {
        self.permutation.hash(key)
    }

    pub(super) fn key(&self, hash: u64) -> u64 {
        self.permutation.key(hash)
    }

    /// The session's table.
    #[inline(always)]
    pub(super) fn table(&self) -> &Table {
        // SAFETY: the record announces the table, so the table is kept.
        unsafe { self.table.as_ref() }
    }

    /// The session's table, and its spare nodes.
    #[inline(always)]
    fn parts(&mut self) -> (&Table, &mut Spare) {
        // SAFETY: as in `table`.
        (unsafe { self.table.as_ref() }, &mut self.spare)
    }

    fn change(&mut self, hash: u64, decide: impl FnMut(u64) -> Decision) -> Option<u64> {
        self.help();
        // SAFETY: as in `table`.
        let (form, table) = (self.form, unsafe { self.table.as_ref() });
        let rest = (&mut self.spare, &mut self.untidied);
        let old = by_form!(form, S => write::change::<S>(table, hash, rest, decide));
        self.spare.trim();
        old
    }

    /// Removes a hash if `decide` returns [`Decision::Remove`]. Returns the value before the call, removed or not.
    pub(super) fn remove_hash(
        &mut self,
        hash: u64,
        mut decide: impl FnMut(u64) -> Decision,
    ) -> Option<u64> {
        let mut is_removed = false;
        let old = self.change(hash, |old| {
            let decision = decide(old);
            is_removed = matches!(decision, Decision::Remove);
            decision
        });
        if is_removed && old.is_some() {
            self.count(-1);
            self.removals += 1;
            if self.removals == TIDY_EVERY {
                self.removals = 0;
                // SAFETY: as in `table`.
                let table = unsafe { self.table.as_ref() };
                let (spare, untidied) = (&mut self.spare, &mut self.untidied);
                by_form!(self.form, S => relocate::tidy_some(table, TIDY_HOMES, |index| {
                    untidied.tidy::<S>(table, index, spare);
                }));
            }
        }
        old
    }

    pub(super) fn insert_hash(&mut self, hash: u64, value: u64) -> bool {
        self.help();
        let (form, (table, spare)) = (self.form, self.parts());
        let inserted = by_form!(form, S => write::insert::<S>(table, hash, value, spare));
        if inserted == Inserted::No {
            return false;
        }
        self.count(1);
        if inserted == Inserted::InStash {
            let items = self.report();
            let newest = self.newest();
            self.shared.note_overflow(items, newest);
        }
        true
    }

    /// Does a share of the work of growing or shrinking, if that is under way.
    #[inline(always)]
    fn help(&mut self) {
        if self.table().next().is_some() {
            self.help_some();
        }
    }

    #[cold]
    #[inline(never)]
    fn help_some(&mut self) {
        self.growth_step();
    }

    /// The session's table and the next one, if homes are moving between them. Goes on to a later
    /// table before, if the session's has been left.
    fn moving(&mut self) -> Option<(&Table, &Table)> {
        self.switch_table_if_left();
        let table = self.table();
        table.next().map(|next| (table, next))
    }

    /// Switches to a later table if all homes of the session's table have moved.
    #[inline(always)]
    pub(super) fn switch_table_if_left(&mut self) {
        if self.table().next().is_some() && self.table().is_left() {
            self.switch_table();
        }
    }

    /// Switches to the first table that still has homes.
    #[cold]
    #[inline(never)]
    fn switch_table(&mut self) {
        let mut table = self.table();
        while let Some(next) = table.next().filter(|_| table.is_left()) {
            table = next;
        }
        let (pointer, shape, untidied) = (NonNull::from(table), table.shape, Untidied::of(table));
        self.record.announce(table);
        (self.table, self.shape, self.untidied) = (pointer, shape, untidied);
        self.pending_max = pending_max(&self.shape);
        self.shared.free_left();
    }

    /// The newest table.
    fn newest(&self) -> &Table {
        let mut table = self.table();
        while let Some(next) = table.next() {
            table = next;
        }
        table
    }

    /// Counts an insert or a removal.
    #[inline(always)]
    fn count(&mut self, by: i64) {
        self.pending += by;
        self.record.note(self.pending);
        if self.pending.abs() >= self.pending_max {
            self.report_and_fit();
        }
    }

    #[cold]
    #[inline(never)]
    fn report_and_fit(&mut self) {
        let items = self.report();
        self.shared.fit(items, self.newest());
    }

    /// Reports the session's change to the map; returns the number of items that have been reported.
    fn report(&mut self) -> i64 {
        self.shared.count(&self.record, std::mem::take(&mut self.pending))
    }
}

impl Drop for LinesSession {
    fn drop(&mut self) {
        self.shared.leave(&self.record);
    }
}

/// The limit of the unreported change for a table: a small table must learn of its items sooner.
fn pending_max(shape: &Shape) -> i64 {
    (shape.capacity() / 64).clamp(1, PENDING_MAX).cast_signed()
}
