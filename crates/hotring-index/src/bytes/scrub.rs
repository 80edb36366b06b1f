//! Detection of damaged items, by reads and by a walk over all items (scrub).
//!
//! A damaged item must never be returned. An operation treats its key as absent and does not carry out the
//! caller's decision, and the session records the damage. Writing or removing the key without reading its
//! value works as usual, and repairs the damage.
//!
//! A search compares hashes and keys. If the key, its length or the flags are damaged, the search passes the
//! item, and `Bytes` counts a suspect; the operation then examines all items of the hash. If the hash is
//! damaged, only the walk finds the item.

use crate::bytes::check::{self, Part, State};
use crate::bytes::item::{Bytes, Layout, bytes};
use crate::bytes::update::Goal;
use crate::bytes::{PIECE, POSITION};
use crate::core::config::Checksum;
use crate::core::item::{Damaged, Item, Kind};
use crate::core::sync::Ordering;
use crate::engine::{Engine, Hit};
use crate::session::{Pinned, Session};

/// Checking this many bytes costs as much as reaching the item.
const BYTES_PER_ITEM: usize = 1 << 10;

/// The counts of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// Items checked.
    pub items: u64,
    /// Bytes of the checked items, including headers.
    pub bytes: u64,
    /// Items without a checksum. In an index with checksums such an item has lost its flag, and counts as damaged.
    pub unchecked: u64,
    /// Damaged items.
    pub damaged: u64,
}

/// A walk that checks all items ([`Session::scrub_step`]), and its findings.
#[derive(Clone, Debug)]
pub struct Scrub {
    /// The counts so far.
    pub counts: ScrubCounts,
    /// The first damaged items found.
    pub first: Vec<Damaged>,
    first_max: usize,
    cursor: u64,
    is_done: bool,
}

impl Scrub {
    /// A new walk that will name up to `first_max` damaged items.
    pub fn new(first_max: usize) -> Self {
        let counts = ScrubCounts::default();
        Self { counts, first: Vec::new(), first_max, cursor: 0, is_done: false }
    }

    /// Whether the walk has reached the end.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Continues with another index and keeps the counts.
    pub fn begin_next(&mut self) {
        (self.cursor, self.is_done) = (0, false);
    }

    /// The progress from 0 to 1. Hashes are spread evenly, so it grows in proportion to the items checked.
    pub fn progress(&self) -> f64 {
        if self.is_done { 1.0 } else { self.cursor as f64 / 2f64.powi(64) }
    }

    /// Counts an item, sound or not. Returns the cost of checking it, in items.
    fn count_item(&mut self, item: Item, state: State, is_checked: bool) -> usize {
        let layout = is_checked.then(|| check::bounds(item)).flatten();
        let len = layout.as_ref().map_or(0, Layout::end);
        self.counts.items += 1;
        self.counts.bytes += len as u64;
        self.counts.unchecked += u64::from(state == State::Unchecked);
        if is_checked && state != State::Sound {
            self.counts.damaged += 1;
            if self.first.len() < self.first_max {
                self.first.push(Damaged { key: layout.map(|layout| stored_key(item, &layout)) });
            }
        }
        1 + len / BYTES_PER_ITEM
    }
}

fn stored_key(item: Item, layout: &Layout) -> Box<[u8]> {
    // SAFETY: from a layout whose lengths were checked.
    unsafe { bytes(item, layout.key, layout.key_len) }.into()
}

impl<E: Engine> Pinned<'_, Bytes, E> {
    /// Whether reads verify items.
    #[inline(always)]
    pub(crate) fn verifies(&self) -> bool {
        self.shared.kind.checksum == Checksum::Verify
    }

    /// Whether the item of this key may be returned to the caller. Records the damage if not.
    #[inline(always)]
    pub(crate) fn vouches(&mut self, key: &[u8], item: Item) -> bool {
        if !self.verifies() || check::state(item) == State::Sound {
            return true;
        }
        self.note_damage(Damaged { key: Some(key.into()) });
        false
    }

    /// The search of readers: the live item of the key, if it may be returned to the caller.
    #[inline(always)]
    pub(crate) fn find_for_read(&mut self, goal: Goal<'_>) -> Option<Hit> {
        if self.verifies() { self.find_verified(goal) } else { E::lookup(self, goal) }
    }

    #[cold]
    fn find_verified(&mut self, goal: Goal<'_>) -> Option<Hit> {
        let suspects = self.suspects();
        let hit = E::lookup(self, goal);
        let is_fine = match hit {
            Some(hit) => self.vouches(goal.key, hit.item),
            None => self.vouches_for_absence(goal, suspects),
        };
        hit.filter(|_| is_fine)
    }

    /// The number of suspects so far, to compare with the number after a search.
    #[inline(always)]
    pub(crate) fn suspects(&self) -> u64 {
        // ORDERING: Relaxed, only counts of this thread matter.
        if self.verifies() { self.shared.kind.suspects.load(Ordering::Relaxed) } else { 0 }
    }

    /// Whether the key is really absent, after a search that began with `suspects` suspects. If a damaged item may
    /// be the key's, records the damage and returns false.
    #[inline(always)]
    pub(crate) fn vouches_for_absence(&mut self, goal: Goal<'_>, suspects: u64) -> bool {
        if self.suspects() == suspects || !self.with_suspects(goal, |_, _| ()) {
            return true;
        }
        self.note_damage(Damaged { key: Some(goal.key.into()) });
        false
    }

    /// Removes damaged items that may be the key's, if a search that began with `suspects` suspects has
    /// passed any. True if there were such items.
    #[inline(always)]
    pub(crate) fn remove_suspects(&mut self, goal: Goal<'_>, suspects: u64) -> bool {
        self.suspects() != suspects && self.with_suspects(goal, |p, hit| _ = E::kill_at(p, hit))
    }

    /// Calls `f` with all damaged items of the key's hash. True if there are any.
    #[cold]
    fn with_suspects(&mut self, goal: Goal<'_>, mut f: impl FnMut(&mut Self, Hit)) -> bool {
        let mut is_any = false;
        let cursor = goal.hash.reverse_bits();
        let from = E::bucket(self, goal.hash);
        let (next, _) = E::scan(self, cursor, 1, |pinned, hit| {
            let same_hash = pinned.shared.kind.item_hash(hit.item) == goal.hash;
            if same_hash && check::state(hit.item) != State::Sound {
                is_any = true;
                f(pinned, hit);
            }
            1
        });
        E::sweep(self, from, next);
        is_any
    }

    /// The report on an item that a walk must not return to the caller, if the item is damaged.
    pub(crate) fn damage_of(&self, item: Item) -> Option<Damaged> {
        if !self.verifies() || check::state(item) == State::Sound {
            return None;
        }
        Some(Damaged { key: check::bounds(item).map(|layout| stored_key(item, &layout)) })
    }

    #[cold]
    pub(crate) fn note_damage(&mut self, damaged: Damaged) {
        self.local.damages += 1;
        self.local.damage.get_or_insert_with(|| Box::new(damaged));
    }
}

impl<E: Engine> Session<Bytes, E> {
    /// Takes the report on the first damaged item that operations of this session have met since the last call.
    /// Only with [`Checksum::Verify`]. Costs one load.
    #[inline]
    pub fn take_damage(&mut self) -> Option<Damaged> {
        self.local().damage.take().map(|damaged| *damaged)
    }

    /// The number of damaged items that operations of this session have met.
    pub fn damages(&mut self) -> u64 {
        self.local().damages
    }

    /// Checks about `budget` further items, or fewer long items (each KiB counts as another item). May miss items
    /// that are added or removed meanwhile. Without effect in an index without checksums.
    pub fn scrub_step(&mut self, scrub: &mut Scrub, budget: usize) {
        let (mut left, mut widen) = (budget, 1);
        while !scrub.is_done && (left > 0 || widen > 1) {
            let count = left.clamp(1, PIECE).saturating_mul(widen);
            let (done, is_further) = self.scrub_piece(scrub, count);
            left = left.saturating_sub(done.max(1));
            widen = if is_further { 1 } else { widen.saturating_mul(2) };
        }
    }

    /// Checks about `count` items. False if the piece ended at an item whose damaged hash would move the cursor
    /// backwards: the caller must ask for a longer piece.
    fn scrub_piece(&mut self, scrub: &mut Scrub, count: usize) -> (usize, bool) {
        let mut pinned = self.pin();
        let is_checked = pinned.shared.kind.checksum != Checksum::Off;
        let (cursor, before, n_first) = (scrub.cursor, scrub.counts, scrub.first.len());
        // The furthest position of a sound item, and the position of the last item.
        let (mut last, mut at) = (cursor, cursor);
        let (next, done) = E::scan(&mut pinned, cursor, count, |pinned, hit| {
            let state = check::state(hit.item);
            at = pinned.shared.kind.item_hash(hit.item).reverse_bits();
            last = if state == State::Damaged { last } else { last.max(at) };
            scrub.count_item(hit.item, state, is_checked)
        });
        if next != 0 && next <= last {
            scrub.counts = before;
            scrub.first.truncate(n_first);
            return (done, false);
        }
        // The position of the next item may be damaged, too; continue behind the last item.
        let last = if at < next { last.max(at) } else { last };
        let known = if last > cursor { last.wrapping_add(POSITION) } else { next };
        scrub.cursor = if next == 0 { 0 } else { known };
        scrub.is_done = scrub.cursor == 0;
        (done, true)
    }

    /// Flips one bit of a key's item while `f` runs, then flips it back, to test detection. `None` if there is no
    /// such key or bit. The item must not be written in place meanwhile.
    #[doc(hidden)]
    pub fn with_damage<R>(
        &mut self,
        key: &[u8],
        part: Part,
        bit: usize,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        let mut pinned = self.pin();
        let goal = pinned.bytes_goal(key.into());
        let item = E::lookup(&mut pinned, goal)?.item;
        let (at, len) = check::locate(item, part)?;
        if bit >= len * 8 {
            return None;
        }
        // SAFETY: P until the pin ends, and the byte is one of the item's.
        let byte = unsafe { item.start().add(at + bit / 8) };
        // SAFETY: as above; the test ensures that no session reads the byte at this moment.
        unsafe { byte.write(byte.read() ^ 1 << (bit % 8)) };
        let result = f();
        // SAFETY: as above; the pin keeps the item even if `f` has removed it.
        unsafe { byte.write(byte.read() ^ 1 << (bit % 8)) };
        Some(result)
    }
}
