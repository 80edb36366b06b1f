//! The expansion: moves buckets to a table of twice the size (Mercury section 3, "Hash table
//! expansion").
//!
//! *Moving* begins and ends with a change of state; in between, buckets are split in order, a few at a time. *Leaving*
//! returns the old table's memory, also a part at a time. The holder of the phase lock does a step; no session waits
//! for that lock. [`Expander`] chooses the holder: the inserting sessions, or a dedicated thread in [`Mover::run`]. If
//! that thread is missing or far behind, sessions replace it, so that chains do not grow without bound.

use crate::mercury::chain::{Held, Items, set_next};
use crate::mercury::locking::{Bucket, Locking};
use crate::mercury::table::Table;
use crate::mercury::{Mercury, Tables};
use crate::settings::Expander;
use hotring_index::Config;
use hotring_index::sync::spin::{SpinGuard, SpinMutex, SpinWait};
use hotring_index::sync::{Condvar, Mutex, Ordering, TallyU64};
use hotring_index::toolkit::EngineStats;
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::prefetch_item;
use hotring_index::toolkit::{Pinned, Shared};
use hotring_index::word::{Link, Next};
use hotring_index::{sometimes, wrong};
use std::mem;
use std::ptr::null_mut;

/// Buckets moved in one step: some 5 microseconds.
const BUCKETS_PER_STEP: u64 = if cfg!(any(loom, shuttle)) { 1 } else { 64 };
/// Buckets whose first item is prefetched.
const PREFETCH_DISTANCE: u64 = 8;
/// Inserts of a session between two steps while the table grows: four buckets move for each insert,
/// so that the expansion ends when a quarter of the table's capacity has been inserted.
const INSERTS_PER_STEP: u64 = 16;
/// Inserts of a session between two looks at the load, or a sixteenth of the buckets if those are
/// fewer.
const INSERTS_PER_CHECK: u64 = 64;
/// Items per bucket above which sessions help the dedicated thread, which should have kept the load
/// at one.
const BEHIND: u64 = 4;
/// Bytes of an old table that go back to the system in one step: a huge page.
const BYTES_LEFT: u64 = 2 << 20;

#[derive(Default)]
enum Phase<L> {
    #[default]
    Idle,
    /// Buckets of the current table from `from` on have not moved.
    Moving { from: u64 },
    /// No session uses the old table; its memory from bucket `from` on has not been given back yet.
    Leaving { old: Box<Table<L>>, from: u64 },
}

/// The meaning of [`Expansion::stage`].
const IDLE: u64 = 0;
const MOVING: u64 = 1;
const LEAVING: u64 = 2;

/// The state of an expansion, and the part of it that sessions read without the phase lock.
pub(crate) struct Expansion<L> {
    phase: SpinMutex<Phase<L>>,
    grows: bool,
    has_thread: bool,
    len_max: u64,
    pub(crate) bell: Bell,
    stage: TallyU64,
    len: TallyU64,
    bytes: TallyU64,
    expansions: TallyU64,
    buckets_moved: TallyU64,
    /// Addresses of freed tables, so that a checker finds late users.
    #[cfg(any(loom, shuttle))]
    #[allow(clippy::vec_box)]
    graves: Mutex<Vec<Box<Table<L>>>>,
}

impl<L: Locking> Expansion<L> {
    pub(crate) fn new(config: &Config, expander: Expander, grows: bool, table: &Table<L>) -> Self {
        Self {
            phase: SpinMutex::new(Phase::Idle),
            grows,
            has_thread: expander == Expander::Thread,
            len_max: config.slots_max.next_power_of_two() as u64,
            bell: Bell::default(),
            stage: TallyU64::new(IDLE),
            len: TallyU64::new(table.len()),
            bytes: TallyU64::new(table.bytes()),
            expansions: TallyU64::new(0),
            buckets_moved: TallyU64::new(0),
            #[cfg(any(loom, shuttle))]
            graves: Mutex::default(),
        }
    }

    /// Buckets of the current table.
    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        // ORDERING: Relaxed, a report.
        self.len.load(Ordering::Relaxed)
    }

    /// Bytes of all tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        // ORDERING: Relaxed, a report.
        self.bytes.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn stage(&self) -> u64 {
        // ORDERING: Relaxed, advice.
        self.stage.load(Ordering::Relaxed)
    }

    /// Whether there is a step to do and no dedicated thread to do it.
    pub(crate) fn waits_for_sessions(&self) -> bool {
        self.stage() != IDLE && !self.bell.is_attended()
    }

    pub(crate) fn stats(&self, lock_waits: u64) -> EngineStats {
        EngineStats::new(vec![
            // ORDERING: Relaxed, statistics.
            ("expansions", self.expansions.load(Ordering::Relaxed)),
            // ORDERING: Relaxed, statistics.
            ("buckets_moved", self.buckets_moved.load(Ordering::Relaxed)),
            ("is_expanding", u64::from(self.stage() == MOVING)),
            ("lock_waits", lock_waits),
        ])
    }
}

impl<L: Locking> Mercury<L> {
    /// Called once for each insert.
    #[inline(always)]
    pub(crate) fn expand_if_due<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        let expansion = &p.engine.expansion;
        let most = if expansion.stage() == IDLE { INSERTS_PER_CHECK } else { INSERTS_PER_STEP };
        p.local.inserts += 1;
        if u64::from(p.local.inserts) >= (expansion.len() / 16).clamp(1, most) {
            p.local.inserts = 0;
            Self::expand(p);
        }
    }

    #[cold]
    fn expand<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        let expansion = &p.engine.expansion;
        let is_idle = expansion.stage() == IDLE;
        let load = p.shared.items() as u64;
        if is_idle && (load <= expansion.len() || !p.shared.may_double()) {
            return;
        }
        if expansion.bell.is_attended() {
            if is_idle {
                expansion.bell.ring();
            }
            if load <= BEHIND * expansion.len() {
                return;
            }
        }
        if let Some(mut mover) = Mover::take(p.shared) {
            mover.step();
        }
    }
}

/// The holder of the phase lock. Only it changes the state.
pub(crate) struct Mover<'s, K: Kind, L: Locking> {
    shared: &'s Shared<K, Mercury<L>>,
    phase: SpinGuard<'s, Phase<L>>,
}

impl<'s, K: Kind, L: Locking> Mover<'s, K, L> {
    /// Takes the phase lock unless another session holds it. The caller must not be inside an
    /// operation.
    pub(crate) fn take(shared: &'s Shared<K, Mercury<L>>) -> Option<Self> {
        let phase = shared.engine.expansion.phase.try_lock()?;
        Some(Self { shared, phase })
    }

    /// The loop of a dedicated thread.
    pub(crate) fn run(shared: &'s Shared<K, Mercury<L>>, stop: impl Fn() -> bool) {
        let expansion = &shared.engine.expansion;
        if !expansion.has_thread {
            return;
        }
        let Some(attendance) = expansion.bell.attend() else { return };
        let mut spin = SpinWait::default();
        while !stop() {
            match Self::take(shared).map(|mut mover| mover.step()) {
                Some(true) => {}
                Some(false) => attendance.sleep(),
                // A session holds the phase lock.
                None => spin.wait(),
            }
        }
    }

    /// Does a bounded part of the work. False if nothing is left for now.
    pub(crate) fn step(&mut self) -> bool {
        match mem::take(&mut *self.phase) {
            Phase::Idle => self.is_due() && self.begin(),
            Phase::Moving { from } => self.move_some(from),
            Phase::Leaving { old, from } => self.leave(old, from),
        }
    }

    fn is_due(&self) -> bool {
        let expansion = &self.shared.engine.expansion;
        expansion.grows && self.shared.items() > expansion.len() as i64
    }

    fn set(&mut self, phase: Phase<L>) {
        let stage = match phase {
            Phase::Idle => IDLE,
            Phase::Moving { .. } => MOVING,
            Phase::Leaving { .. } => LEAVING,
        };
        *self.phase = phase;
        // ORDERING: Relaxed, advice.
        self.shared.engine.expansion.stage.store(stage, Ordering::Relaxed);
    }

    fn tables(&self) -> Tables<'s, L> {
        // SAFETY: only the holder of the phase changes the state.
        unsafe { self.shared.engine.tables_unchecked() }
    }

    /// Begins to double the table; true if it did. False without memory for the larger table, too.
    pub(crate) fn begin(&mut self) -> bool {
        let engine = &self.shared.engine;
        let len = self.tables().current.len() * 2;
        if !matches!(*self.phase, Phase::Idle) || len > engine.expansion.len_max {
            return false;
        }
        let Ok(next) = Table::new(len, self.shared.config.huge_pages) else { return false };
        // ORDERING: Relaxed, statistics.
        engine.expansion.bytes.fetch_add(next.bytes(), Ordering::Relaxed);
        self.change_state(|| {
            // ORDERING: Relaxed, ordered by the thread locks.
            engine.moved.0.store(0, Ordering::Relaxed);
            // ORDERING: Relaxed, as above.
            engine.state.next.store(Box::into_raw(next), Ordering::Relaxed);
        });
        sometimes!(ExpansionBegun);
        self.set(Phase::Moving { from: 0 });
        // The thread may sleep because there was nothing to do. While it exists, sessions leave the work to
        // it.
        engine.expansion.bell.ring();
        true
    }

    fn change_state(&self, change: impl FnOnce()) {
        if wrong!(self, NoThreadLocks) {
            return change();
        }
        self.shared.engine.workers.stop_all(change);
    }

    fn move_some(&mut self, from: u64) -> bool {
        let engine = &self.shared.engine;
        let Tables { current, next } = self.tables();
        let next = next.expect("it moves to another table");
        let to = (from + BUCKETS_PER_STEP).min(current.len());
        // ORDERING: Release as below; the fault is that the store comes before the moves.
        wrong!(self, CountEarly => engine.moved.0.store(to, Ordering::Release));
        for index in from..to {
            if index + PREFETCH_DISTANCE < current.len() {
                let address =
                    Next(current.bucket(index + PREFETCH_DISTANCE).peek()).link().address();
                prefetch_item::<K>(address);
            }
            drop(self.split(current, next, index));
        }
        // ORDERING: Release pairs with the Acquire in `hold`: a session that reads the count finds the
        // moved items in the larger table (M4).
        let order = if wrong!(self, CountRelaxed) { Ordering::Relaxed } else { Ordering::Release };
        // ORDERING: as above.
        engine.moved.0.store(to, order);
        // ORDERING: Relaxed, statistics.
        engine.expansion.buckets_moved.fetch_add(to - from, Ordering::Relaxed);
        if to < current.len() {
            self.set(Phase::Moving { from: to });
        } else {
            self.end();
        }
        true
    }

    /// Moves the items of a bucket to its two halves. The bucket is still locked.
    fn split<'t>(&self, current: &'t Table<L>, next: &Table<L>, index: u64) -> Held<'t, L> {
        let mut old = Held::lock(current.bucket(index), &self.shared.engine.lock_waits);
        let items = old.items();
        if wrong!(self, MovedEarly) {
            old.set_moved();
            drop(old);
            fill(&self.shared.kind, items, current.len(), index, next);
            return Held::lock(current.bucket(index), &self.shared.engine.lock_waits);
        }
        fill(&self.shared.kind, items, current.len(), index, next);
        old.set_moved();
        old
    }

    /// Ends the move, as all buckets have moved: the larger table becomes the only one.
    fn end(&mut self) {
        let engine = &self.shared.engine;
        let Tables { current, next } = self.tables();
        let (old, next) = (std::ptr::from_ref(current).cast_mut(), next.expect("it has moved"));
        self.change_state(|| {
            // ORDERING: Relaxed, ordered by the thread locks.
            engine.state.current.store(std::ptr::from_ref(next).cast_mut(), Ordering::Relaxed);
            // ORDERING: Relaxed, as above.
            engine.state.next.store(null_mut(), Ordering::Relaxed);
        });
        // ORDERING: Relaxed, a report.
        engine.expansion.len.store(next.len(), Ordering::Relaxed);
        // ORDERING: Relaxed, statistics.
        engine.expansion.expansions.fetch_add(1, Ordering::Relaxed);
        sometimes!(Expanded);
        // SAFETY: from `Box::into_raw`, and no longer in the state: no session is in it (M1).
        let old = unsafe { Box::from_raw(old) };
        self.set(Phase::Leaving { old, from: 0 });
    }

    fn leave(&mut self, old: Box<Table<L>>, from: u64) -> bool {
        let to = (from + BYTES_LEFT / size_of::<L>() as u64).min(old.len());
        old.give_back(from, to);
        if to < old.len() {
            self.set(Phase::Leaving { old, from: to });
            return true;
        }
        let expansion = &self.shared.engine.expansion;
        // ORDERING: Relaxed, statistics.
        expansion.bytes.fetch_sub(old.bytes(), Ordering::Relaxed);
        #[cfg(any(loom, shuttle))]
        expansion.graves.lock().expect("no panic").push(old);
        self.set(Phase::Idle);
        self.is_due()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl<'s, K: Kind, L: Locking> Mover<'s, K, L> {
    /// Moves the buckets before this one, and stops in the middle of it.
    pub(crate) fn stop_in(&mut self, bucket: u64) -> Held<'s, L> {
        let Tables { current, next } = self.tables();
        let next = next.expect("it moves to another table");
        (0..bucket).for_each(|before| drop(self.split(current, next, before)));
        // ORDERING: Release, as in `move_some`.
        self.shared.engine.moved.0.store(bucket, Ordering::Release);
        self.set(Phase::Moving { from: bucket + 1 });
        self.split(current, next, bucket)
    }
}

/// Distributes items over the two halves of their bucket.
fn fill<K: Kind, B: Bucket>(kind: &K, items: Items, bit: u64, index: u64, next: &Table<B>) {
    let mut halves = [Link::NONE; 2];
    for spot in items {
        let hit = spot.hit;
        let half = &mut halves[usize::from(kind.item_hash(hit.item) & bit != 0)];
        set_next(hit.item, hit.word.0, *half);
        *half = Link::item(hit.item.address());
    }
    // No other session reaches these buckets yet (M3).
    next.bucket(index).fill(halves[0].address());
    next.bucket(index + bit).fill(halves[1].address());
}

/// Lets sessions wake the dedicated thread.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    attended: TallyU64,
}

impl Bell {
    #[inline(always)]
    pub(crate) fn is_attended(&self) -> bool {
        // ORDERING: Relaxed, advice.
        self.attended.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn ring(&self) {
        *self.rung.lock().expect("no code panics under this lock") = true;
        self.changed.notify_one();
    }

    /// Registers the calling thread as the dedicated one; None if there is one already.
    fn attend(&self) -> Option<Attendance<'_>> {
        // ORDERING: Relaxed, chooses one; nothing is read through it.
        (self.attended.swap(1, Ordering::Relaxed) == 0).then_some(Attendance(self))
    }
}

/// A thread that the bell wakes.
struct Attendance<'b>(&'b Bell);

impl Attendance<'_> {
    /// Sleeps until another thread rings, or returns at once if one has rung since the last time.
    fn sleep(&self) {
        let mut rung = self.0.rung.lock().expect("no code panics under this lock");
        while !mem::take(&mut *rung) {
            rung = self.0.changed.wait(rung).expect("no code panics under this lock");
        }
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed, as in `attend`.
        self.0.attended.store(0, Ordering::Relaxed);
    }
}
