//! The gate makes operations on several keys atomic to every observer, while operations on one key stay lock-free and
//! write no shared memory. It identifies keys by their hashes, whose first bits select one of 64 *stripes*
//! ([`crate::stripe`]). Sessions hold keys, not stripes; a stripe's bit only tells quickly that none of its keys is
//! held. Alternatives: `docs/decisions/0003`.
//!
//! # Picture
//! ```text
//!   shared, one word                       one record a session, written by that session only
//!   +--------------------------------+     +---------------------------------------------+
//!   | held    bit s: some session    |     | reading   stripes of the read in flight, or 0|
//!   |         holds a key of stripe s|     | writes[s] odd: a write of stripe s in flight |
//!   +--------------------------------+     |           even: none   (64 counters)         |
//!   | holds   the keys held, those   |     +---------------------------------------------+
//!   |         wanted, sleepers;      |           ^ read by holders and by snapshots
//!   |         under a mutex          |
//!   +--------------------------------+
//! ```
//! *Single-key write*: make the own counter odd; light barrier; load `held`; if the bit is set, check under the mutex
//! whether the key is held; if it is, reset the counter, wait, and repeat; write; set the counter to the next even
//! number.
//! *Single-key read*: set the own `reading`; light barrier; check `held` and the keys likewise; read; reset to 0.
//! *Holder*: under the mutex, once none of its keys is held, enter all of them (all or nothing, so holders cannot
//! deadlock) and set their bits; heavy barrier; wait until no other session has a write of these stripes in flight;
//! make the own counters odd; work; make them even; under the mutex, remove the keys and clear the bits of stripes
//! without other held keys.
//! *Snapshot*: wait until none of the keys is held; collect all counters of their stripes, none of them odd; read;
//! collect again; equal numbers mean that nothing was written in between.
//!
//! # Invariants
//! * **G1** Each change of `held` is made under the mutex: a bit is set exactly while a key of its stripe is in the
//!   list.
//! * **G2** While a session holds a key and has drained its stripe, no other session changes that
//!   key. (Reads may reclaim expired keys; see Expiry.)
//! * **G3** A change of a key in stripe `s` happens while its session's `writes[s]` is odd, and
//!   that counter never takes a number again under which a change happened.
//! * **G4** A session that is not in the list that a holder or a snapshot uses has changed nothing since its
//!   validation.
//!
//! # Why a writer and a holder cannot miss each other (G2)
//! The writer stores its counter and then loads `held`; the holder stores `held` and then loads the counter. With a
//! full fence between the two steps on both sides at least one sees the other. The writer's fence is on the hot path,
//! so it is *light*: a compiler fence, paid for by the holder's *heavy* one, which makes every thread of the process
//! pass a full fence (`membarrier`). On systems without it both are real fences; `hotring_index::barrier` decides. If
//! the writer came first, the holder waits for its counter, an Acquire that pairs with the writer's Release, so the
//! holder also sees that writer's changes.
//!
//! If the writer finds the bit set, another key's hold may have set it, so the writer looks under the mutex, with its
//! counter still odd. If a holder of its key entered before that look, the writer sees the hold, and waits. If a holder
//! enters after the look, the writer's odd counter happens before the holder's drain, through the mutex, and the holder
//! waits.
//!
//! The counters of a session that holds other keys of the stripe are odd for the entire hold. A drain does not wait for
//! them: while a session is in the list, the hold is its only operation, and everything before is visible through the
//! mutex. A drain waits only for single operations, and never for waiting ones, because these withdraw their
//! announcement.
//!
//! # Why readers need not be waited for when each key changes at most once
//! A reader that looked at `held` before the bit was set may read while the holder works, so it may see the holder's
//! change of one key before the holder is done. Let the holder's operation M take effect at the moment P when it has
//! drained the writers, before its first change.
//! - A reader that sees the old value of a key held by M has looked before M entered its keys, so
//!   before P, and sees the value that the key had at P: it is ordered just before P.
//! - A reader that sees the new value sees the final one, as M changes the key once: it is ordered after P. An
//!   operation that begins after that reader has returned sees the bit, and the key: the change happens after the bit
//!   was set, and reading it orders the reader's later operations, and those of sessions that it informs, after it
//!   too. They wait, and see all of M.
//! - No operation sees the new value, returns, and is followed by one that sees an old value: the later one would have
//!   begun after the bit was visible.
//!
//! This fails if a key may change twice (with `INCR k` twice in one closure, the first result never exists for any
//! other session). So [`Hold::Exclusive`] waits for the readers in flight as well: the writers' argument again, with
//! `reading` in place of the counter.
//!
//! # Why equal collections make a snapshot
//! A change within the reads has its counter odd before it, and the collection before the reads saw no odd one (G3).
//! If the reads saw it, or anything that came after it, the second collection sees its counter too: the writer's
//! Release fence between counter and change, and the snapshot's Acquire fence between reads and collection. A change
//! that was complete at the first collection is seen by the reads: the even number was stored with Release, collected
//! with Acquire. So the reads show the one state between the two collections. Comparing the values read, without
//! counters, would not do: a key that was absent, present and absent again looks unchanged, as does a word that was
//! changed and changed back (ABA). Counters have 64 bits, so they do not wrap around.
//! A write that finds a hold resets its counter to the number from before, and ends later with the next even number,
//! under which the change is seen for the first time. If the counter had that number already while the write waits, a
//! snapshot could collect it before the change and again after it.
//!
//! Holders that write also make their counters odd. They change nothing between setting the bits and making the
//! counters odd, and a snapshot that overlaps the rest of the hold fails.
//!
//! # Sessions that come and go (G4)
//! The list of records is behind a short mutex, with a count of its changes; holders and snapshots keep a copy and
//! refresh it when the count differs. A new session is in the list, and the count raised, before its first operation.
//! - Holder: it reads the count after its heavy barrier. The newcomer raises the count, then in its first operation
//!   passes a light barrier and loads `held`: the same two-sided argument, one of them sees the other. If the newcomer
//!   sees the bit it waits.
//! - Snapshot: it reads the count again at the end. If its reads saw a newcomer's change, that happens after the count
//!   was raised, and the snapshot fails.
//!
//! A session leaves when none of its operations is in flight, all its counters even.
//!
//! # Waiting and fairness
//! A session that waits for a held key checks again for some microseconds, and then sleeps: it enters its waker into
//! the list under the mutex, under which it has seen the hold, and every change of the list wakes all sleepers.
//! Sessions choose their way of sleeping ([`Wait`]): the thread may do other work. A stalled holder blocks only its own
//! keys. A drain waits for the middle of one operation: it spins, yields, and then sleeps briefly.
//!
//! Holders, and reads of all keys, take turns in the order of their requests: a session queues behind any earlier one
//! that waits for one of its keys. Single-key operations do not queue; they may lose to a long run of holders of one
//! key, if each of these is faster.
//!
//! # Expiry
//! Removing an expired key ([`crate::Session::expire_due`]) is a write of the key, so that an exclusive closure with a
//! fixed time of its own does not lose a key in the middle. Finding the key by its hash is not even a read, because the
//! write checks again. An observer whose time has reached the expiry sees the key as absent before and after, so a read
//! may remove expired keys, too. An observer with a slower clock may miss a key slightly early; callers must
//! synchronize their clocks.
//!
//! # Memory orders
//! Each operation below names its partner. `held` and the counters never carry data themselves;
//! they order the index's data, so the index may use any orders.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::Waker;

mod acquire;

pub use crate::holds::Fault;
pub(crate) use crate::holds::Hold;
use crate::holds::{HoldInfo, Holds, Keys};
pub(crate) use crate::in_flight::{Reading, Writing};
use crate::sync::{
    Arc, AtomicU64, Mutex, MutexGuard, SLEEPS_AFTER, STRIPES, ThreadWait, barrier, fence, pause,
};
use crate::wait::Wait;

const NOT_GIVEN: &str =
    "an exclusive closure touched a key that it was not given, or the whole store";

/// The mask of all stripes.
pub(crate) const STRIPES_ALL: u64 = !0;

/// The stripe of a key, by its hash.
#[inline]
pub(crate) fn stripe_of(hash: u64) -> usize {
    (hash >> (u64::BITS - STRIPES.trailing_zeros())) as usize
}

/// Aligns the contents to two cache lines, so that no neighbour shares a line. Two, because processors prefetch lines
/// in pairs.
#[repr(align(128))]
pub(crate) struct Lines<T>(pub(crate) T);

/// The words of one session, written by that session only.
struct Record {
    /// The number of the session, unique in the life of the gate.
    session: u64,
    reading: Lines<AtomicU64>,
    writes: Lines<[AtomicU64; STRIPES]>,
}

/// The state of the gate that all sessions share.
pub(crate) struct Gate {
    held: Lines<AtomicU64>,
    holds: Mutex<Holds>,
    exclusions: AtomicU64,
    /// Number of changes of `records`; incremented under its mutex.
    registrations: AtomicU64,
    records: Mutex<Vec<Arc<Record>>>,
    fault: Fault,
}

/// The state of one session at the gate.
pub(crate) struct GateSession {
    gate: Arc<Gate>,
    record: Arc<Record>,
    /// The present hold of this session.
    held: Option<Keys>,
    /// The public description of its holds.
    info: HoldInfo,
    /// The session's way of waiting.
    pub(crate) waiting: Box<dyn Wait>,
    /// Whether the counters of `held` are odd.
    counted: bool,
    /// The other sessions' records as of `peers_at` registrations.
    peers: Vec<Arc<Record>>,
    peers_at: u64,
    /// The first collection of a snapshot.
    collected: Vec<u64>,
}

impl Gate {
    pub(crate) fn new(fault: Fault) -> Gate {
        Gate {
            held: Lines(AtomicU64::new(0)),
            holds: Mutex::new(Holds::default()),
            exclusions: AtomicU64::new(0),
            registrations: AtomicU64::new(0),
            records: Mutex::new(Vec::new()),
            fault,
        }
    }

    pub(crate) fn register(gate: &Arc<Gate>) -> GateSession {
        let mut records = gate.records();
        let record = Arc::new(Record {
            // ORDERING: Relaxed, it is incremented under the mutex that is held here.
            session: gate.registrations.load(Relaxed),
            reading: Lines(AtomicU64::new(0)),
            writes: Lines(std::array::from_fn(|_| AtomicU64::new(0))),
        });
        records.push(Arc::clone(&record));
        // ORDERING: Release pairs with the Acquire in `refresh_peers` and with the fence in
        // `snapshot_end`; a holder that misses it is seen in `held` (G4).
        gate.registrations.fetch_add(1, Release);
        drop(records);
        GateSession {
            gate: Arc::clone(gate),
            record,
            held: None,
            info: HoldInfo::default(),
            waiting: Box::new(ThreadWait),
            counted: false,
            peers: Vec::new(),
            peers_at: 0,
            collected: Vec::new(),
        }
    }

    pub(crate) fn exclusions(&self) -> u64 {
        // ORDERING: Relaxed, a statistic.
        self.exclusions.load(Relaxed)
    }

    pub(crate) fn sessions(&self) -> usize {
        self.records().len()
    }

    fn records(&self) -> MutexGuard<'_, Vec<Arc<Record>>> {
        // A panic in a push or a removal leaves a complete list.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_held(&self, mask: u64) -> bool {
        // ORDERING: Acquire pairs with the Release in `publish`: a session that finds the stripe free sees everything
        // that the last holder did.
        self.held.0.load(Acquire) & mask != 0
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn has_sleepers(&self) -> bool {
        !self.holds().sleepers.is_empty()
    }

    /// Whether the key is held. For a session that has found the stripe's bit set; its announcement must be in place.
    fn is_key_held(&self, hash: u64) -> bool {
        self.fault != Fault::NoLook && self.holds().of_key(hash).is_some()
    }

    /// The description of the key's hold. Costs one load if no key of its stripe is held.
    #[inline]
    pub(crate) fn held_by(&self, hash: u64) -> Option<HoldInfo> {
        if !self.is_held(1 << stripe_of(hash)) {
            return None;
        }
        self.holds().of_key(hash)
    }

    /// The first hold with this label.
    fn labelled(&self, label: u32) -> Option<HoldInfo> {
        if self.is_held(STRIPES_ALL) { self.holds().labelled(label) } else { None }
    }

    /// Publishes a change of the holds, and wakes all waiters.
    fn publish(&self, mut holds: MutexGuard<'_, Holds>, clears: u64) {
        let mut mask = holds.mask();
        if self.fault == Fault::ClearsAll {
            mask &= !clears;
        }
        // ORDERING: Release pairs with the Acquire in `is_held`.
        self.held.0.store(mask, Release);
        let sleepers = holds.take_sleepers();
        drop(holds);
        if self.fault != Fault::NoWake {
            sleepers.into_iter().for_each(Waker::wake);
        }
    }
}

pub(crate) fn stripes_of(mask: u64) -> impl Iterator<Item = usize> {
    (0..STRIPES).filter(move |stripe| mask >> stripe & 1 == 1)
}

impl GateSession {
    /// Starts a read of a key, once no other session holds it.
    #[inline]
    pub(crate) fn read(&mut self, hash: u64) -> Reading<'_> {
        if self.held.is_some() {
            self.assert_held(hash);
            return Reading(None);
        }
        if !self.announce_read(1 << stripe_of(hash)) {
            self.wait_to_read(hash);
        }
        Reading(Some(&self.record.reading.0))
    }

    /// Starts a read of a key, for a thread that must not wait; None if another session holds the key.
    pub(crate) fn read_unless_held(&mut self, hash: u64) -> Option<Reading<'_>> {
        if self.held.is_some() {
            return Some(self.read(hash));
        }
        // The announcement must be in place during this look.
        if !self.announce_read(1 << stripe_of(hash)) && self.gate.is_key_held(hash) {
            self.withdraw_read();
            return None;
        }
        Some(Reading(Some(&self.record.reading.0)))
    }

    /// Starts a read of any keys, once no other session holds any key.
    pub(crate) fn read_all(&mut self) -> Reading<'_> {
        if self.held.is_some() {
            assert!(self.holds_all(), "{NOT_GIVEN}");
            return Reading(None);
        }
        if !self.announce_read(STRIPES_ALL) {
            self.wait_to_read_all();
        }
        Reading(Some(&self.record.reading.0))
    }

    /// Announces a read. True if no key of the stripes is held; then every later holder sees this read.
    #[inline]
    fn announce_read(&self, mask: u64) -> bool {
        // ORDERING: Relaxed; the light barrier orders it before the load of `held`, against the
        // heavy barrier in `acquire`.
        self.record.reading.0.store(mask, Relaxed);
        barrier::light();
        !self.gate.is_held(mask)
    }

    /// Withdraws a read's announcement: no holder may wait for a read that waits itself.
    fn withdraw_read(&self) {
        // ORDERING: Relaxed; no read took place, there is nothing to order.
        self.record.reading.0.store(0, Relaxed);
    }

    #[cold]
    fn wait_to_read(&mut self, hash: u64) {
        let mut round = 0;
        // The announcement must be in place during this look.
        while self.gate.is_key_held(hash) {
            self.withdraw_read();
            self.pause(&mut round, |holds| holds.of_key(hash).is_some());
            if self.announce_read(1 << stripe_of(hash)) {
                break;
            }
        }
    }

    #[cold]
    fn wait_to_read_all(&mut self) {
        // The moments without any hold may be rare: while this waits in the queue, later holders queue behind it.
        let ticket = self.gate.holds().queue(&Keys::All);
        let mut round = 0;
        while self.gate.holds().are_wanted(&Keys::All, Some(ticket)) {
            self.withdraw_read();
            self.pause(&mut round, |holds| holds.are_wanted(&Keys::All, Some(ticket)));
            self.announce_read(STRIPES_ALL);
        }
        let mut holds = self.gate.holds();
        holds.leave_queue(ticket);
        self.gate.publish(holds, 0);
    }

    /// One round of a wait that lasts while `waits` returns true; sleeps after some rounds.
    fn pause(&mut self, round: &mut u32, waits: impl Fn(&Holds) -> bool) {
        *round = round.saturating_add(1);
        if *round <= SLEEPS_AFTER && !self.waiting.releases_thread() {
            return pause(*round);
        }
        let waker = self.waiting.waker();
        let mut holds = self.gate.holds();
        if waits(&holds) {
            // Later changes of the list call the waker.
            holds.sleep(waker);
            drop(holds);
            self.waiting.wait();
        }
    }

    /// Starts a write of one key, once no other session holds it.
    #[inline]
    pub(crate) fn write(&mut self, hash: u64) -> Writing<'_> {
        if self.held.is_some() {
            self.assert_held(hash);
            return Writing(None);
        }
        let stripe = stripe_of(hash);
        // ORDERING: Relaxed, only this session writes it.
        let even = self.record.writes.0[stripe].load(Relaxed);
        if !self.announce_write(stripe, even) {
            self.wait_to_write(hash, even);
        }
        Writing(Some((&self.record.writes.0[stripe], even + 1)))
    }

    /// Starts a write of one key, for a thread that must not wait; None if another session holds the key.
    pub(crate) fn write_unless_held(&mut self, hash: u64) -> Option<Writing<'_>> {
        if self.held.is_some() {
            return Some(self.write(hash));
        }
        let stripe = stripe_of(hash);
        let counter = &self.record.writes.0[stripe];
        // ORDERING: Relaxed, only this session writes it.
        let even = counter.load(Relaxed);
        if !self.announce_write(stripe, even) && self.gate.is_key_held(hash) {
            // ORDERING: Relaxed, as in `wait_to_write`.
            counter.store(even, Relaxed);
            return None;
        }
        Some(Writing(Some((counter, even + 1))))
    }

    /// Announces a write. True if no key of the stripe is held; then every later holder sees this write.
    #[inline]
    fn announce_write(&self, stripe: usize, even: u64) -> bool {
        // ORDERING: Relaxed; the light barrier orders it before the load of `held`, against
        // the heavy barrier in `acquire`.
        self.record.writes.0[stripe].store(even + 1, Relaxed);
        // ORDERING: Release orders the counter before the change that follows, whatever
        // order the index makes it with; pairs with the Acquire fence in `snapshot_end`.
        fence(Release);
        barrier::light();
        !self.gate.is_held(1 << stripe)
    }

    #[cold]
    fn wait_to_write(&mut self, hash: u64, even: u64) {
        let (stripe, mut round) = (stripe_of(hash), 0);
        // The announcement must be in place during this look.
        while self.gate.is_key_held(hash) {
            // Back to the number from before, under which nothing has changed. With another even number, which the
            // write ends with, a snapshot that has collected that number would not see the write (G3).
            // ORDERING: Relaxed; nothing was changed, there is nothing to order.
            self.record.writes.0[stripe].store(even, Relaxed);
            self.pause(&mut round, |holds| holds.of_key(hash).is_some());
            if self.announce_write(stripe, even) {
                break;
            }
        }
    }

    /// Sets the public description of this session's holds, including the present one.
    pub(crate) fn set_info(&mut self, info: HoldInfo) {
        self.info = info;
        if self.held.is_some() {
            self.gate.holds().describe(self.record.session, info);
        }
    }

    /// Whether another session holds any key.
    pub(crate) fn is_any_held_by_others(&self) -> bool {
        self.held.is_none() && self.gate.is_held(STRIPES_ALL)
    }

    /// The description of the key's hold, if another session holds it.
    #[inline]
    pub(crate) fn held_by(&self, hash: u64) -> Option<HoldInfo> {
        if self.held.is_some() { None } else { self.gate.held_by(hash) }
    }

    /// The description of another session's hold with this label, if there is one.
    pub(crate) fn any_held_with(&self, label: u32) -> Option<HoldInfo> {
        if self.held.is_some() { None } else { self.gate.labelled(label) }
    }

    /// Whether this session holds any key.
    pub(crate) fn holds_any(&self) -> bool {
        self.held.is_some()
    }

    /// True if this session holds all keys.
    pub(crate) fn holds_all(&self) -> bool {
        matches!(self.held, Some(Keys::All))
    }

    fn assert_held(&self, hash: u64) {
        let has = self.held.as_ref().is_some_and(|held| held.has(hash));
        assert!(has, "{NOT_GIVEN}");
    }

    fn refresh_peers(&mut self) {
        // ORDERING: Acquire pairs with the Release in `register`.
        if self.gate.registrations.load(Acquire) == self.peers_at {
            return;
        }
        let records = self.gate.records();
        self.peers.clear();
        self.peers.extend(records.iter().filter(|r| !Arc::ptr_eq(r, &self.record)).cloned());
        // ORDERING: Relaxed, it is incremented under the mutex that is held here.
        self.peers_at = self.gate.registrations.load(Relaxed);
    }

    /// Starts a snapshot of keys, once no other session holds one of them. False if writes are in flight in their
    /// stripes, or other keys of these are held: the caller must try again.
    pub(crate) fn snapshot_begin(&mut self, keys: &Keys) -> bool {
        let mask = keys.mask();
        let mut round = 0;
        while self.gate.is_held(mask) && self.gate.holds().any_of(keys) {
            self.pause(&mut round, |holds| holds.any_of(keys));
        }
        self.refresh_peers();
        self.collected.clear();
        for peer in &self.peers {
            for stripe in stripes_of(mask) {
                // ORDERING: Acquire pairs with the Release in `Writing::drop` and `release`: the
                // reads that follow see every write that is counted here.
                let count = peer.writes.0[stripe].load(Acquire);
                if count % 2 == 1 {
                    return false;
                }
                self.collected.push(count);
            }
        }
        true
    }

    /// Ends a snapshot: true if the reads since `snapshot_begin` show the state of one moment.
    pub(crate) fn snapshot_end(&mut self, keys: &Keys) -> bool {
        let mask = keys.mask();
        // ORDERING: Acquire orders the reads before the second collection; pairs with the Release fences in
        // `announce_write` and `acquire`, and with the Release in `register`.
        fence(Acquire);
        let counters =
            self.peers.iter().flat_map(|peer| stripes_of(mask).map(|s| &peer.writes.0[s]));
        // ORDERING: Relaxed, after the fence.
        let same = counters.zip(&self.collected).all(|(now, then)| now.load(Relaxed) == *then);
        let same_peers = self.gate.registrations.load(Relaxed) == self.peers_at;
        same && same_peers || self.gate.fault == Fault::NoRecheck
    }
}

impl Drop for GateSession {
    fn drop(&mut self) {
        let mut records = self.gate.records();
        records.retain(|record| !Arc::ptr_eq(record, &self.record));
        // ORDERING: Release as in `register`. All counters are even: a session is not dropped in
        // the middle of its own operation.
        self.gate.registrations.fetch_add(1, Release);
    }
}
