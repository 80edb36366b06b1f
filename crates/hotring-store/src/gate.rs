//! The gate: what makes operations on several keys atomic to every observer, while operations on
//! one key stay lock-free and write no shared memory. It knows nothing of keys, only of 64
//! *stripes*; [`crate::stripe`] gives each key one. The other ways that there were are in
//! `docs/decisions/0003-multi-key-atomicity.md`.
//!
//! # Picture
//! ```text
//!   shared, one word                       one record a session, written by that session only
//!   +--------------------------------+     +---------------------------------------------+
//!   | held    bit s: stripe s is     |     | reading   stripes of the read in flight, or 0|
//!   |         held by some session   |     | writes[s] odd: a write of stripe s in flight |
//!   +--------------------------------+     |           even: none   (64 counters)         |
//!         ^ read by every operation        +---------------------------------------------+
//!         ' changed by holders only              ^ read by holders and by snapshots
//! ```
//! *Single-key write*: own counter odd; light barrier; look at `held`; if the stripe is held,
//! counter back, wait, again; write; counter to the next even number.
//! *Single-key read*: own `reading`; light barrier; look at `held`, wait likewise; read; 0.
//! *Holder*: take all bits at once by compare-and-swap when none of them is taken (all or
//! nothing, so holders cannot deadlock); heavy barrier; wait until no other session has a write
//! of these stripes in flight; own counters odd; work; own counters even; give the bits back.
//! *Snapshot*: wait until none of the stripes is held; collect all counters of the stripes, none
//! odd; read; collect again; the same numbers mean that nothing was written in between.
//!
//! # Invariants
//! * **G1** A bit of `held` is set by one session and cleared by the same one.
//! * **G2** While a session holds a stripe and has drained it, no other session changes a key of
//!   that stripe. (Reads may reclaim expired keys; see Expiry.)
//! * **G3** A change of a key in stripe `s` happens while its session's `writes[s]` is odd, and
//!   that counter never takes a number again under which a change happened.
//! * **G4** A session that is not in the list that a holder or a snapshot uses has made no change
//!   since that list was validated.
//!
//! # Why a writer and a holder cannot miss each other (G2)
//! The writer stores its counter and then loads `held`; the holder stores `held` and then loads
//! the counter. With a full fence between the two steps on both sides at least one sees the
//! other. The writer's fence is on the hot path, so it is *light*: a compiler fence, paid for by
//! the holder's *heavy* one, which makes every thread of the process pass a full fence
//! (`membarrier`). Where that is missing both are real fences; `hotring_index::barrier` decides.
//! If the writer came first, the holder waits for its counter, an Acquire that pairs with the
//! writer's Release, so the holder also sees what it wrote.
//!
//! # Why readers need not be waited for when each key changes at most once
//! A reader that looked at `held` before the bit was set may read while the holder works, so it
//! may see the holder's change of one key before the holder is done. Say the holder's operation M
//! takes effect at the moment P when it has drained the writers, before its first change.
//! - A reader that sees the old value, in stripes held by M, began before the bit was set, so
//!   before P, and sees the value that the key had at P: it is ordered just before P.
//! - A reader that sees the new value sees the final one, as M changes the key once: it is
//!   ordered after P. Whoever begins an operation after that reader has returned sees the bit:
//!   the change happens after the bit was set, reading it makes the reader's later operations
//!   (and those of whom it tells) happen after it too. They wait, and see all of M.
//! - No operation sees the new value, returns, and is followed by one that sees an old one: the
//!   latter would have begun after the bit was visible.
//!
//! This fails if a key may change twice (`INCR k` twice in one closure: the first result never
//! existed for anyone else), so [`Hold::Exclusive`] waits for the readers in flight as well: the
//! writers' argument again, with `reading` in place of the counter.
//!
//! # Why equal collections make a snapshot
//! A change within the reads has its counter odd before it, and the collection before the reads
//! saw no odd one (G3). If the reads saw it, or anything that came after it, the second collection
//! sees its counter too: the writer's Release fence between counter and change, and the
//! snapshot's Acquire fence between reads and collection. A change that was complete at the first
//! collection is seen by the reads: the even number was stored with Release, collected with
//! Acquire. So the reads show the one state between the two collections. Comparing the values
//! read, without counters, would not do: a key that was absent, present and absent again looks
//! unchanged, as does a word that was changed and changed back (ABA). Counters have 64 bits, so
//! they do not come round.
//! Holders that write also make their counters odd. They change nothing between setting the bits
//! and that, and a snapshot that overlaps the rest fails.
//!
//! # Sessions that come and go (G4)
//! The list of records is behind a short mutex, with a count of its changes; holders and
//! snapshots keep a copy and refresh it when the count differs. A new session is in the list, and
//! the count raised, before its first operation.
//! - Holder: it reads the count after its heavy barrier. The newcomer raises the count, then in
//!   its first operation passes a light barrier and loads `held`: the same two-sided argument, one
//!   of them sees the other. If the newcomer sees the bit it waits.
//! - Snapshot: it reads the count again at the end. If its reads saw a newcomer's change, that
//!   happens after the count was raised, and the snapshot fails.
//!
//! A session leaves when none of its operations is in flight, all its counters even.
//!
//! # Waiting and fairness
//! Waiting is spinning for a moment, then yielding the processor. A stalled holder blocks its
//! stripes only. A holder, or a read of all stripes, that has been unlucky for
//! [`TRIES_BEFORE_RESERVING`] rounds reserves its stripes: further holders of them queue behind
//! it, so it comes to its turn as soon as the present ones are done. Single-key operations do not
//! reserve; they may lose to a long run of holders of one stripe, each time one of them is faster
//! to take it than they are to look.
//!
//! # Expiry
//! Whoever reclaims what is due ([`crate::Session::expire_due`]) does it as a write of the key, so that an
//! exclusive closure that runs on its own fixed time does not lose a key in the middle. Finding it by its
//! hash is not even a read: the write looks again. For every observer whose time has reached the
//! expiry the key was absent before and is absent after, so that a read may reclaim what it meets, too. An
//! observer whose clock is behind that of whoever reclaims may miss a key a little early; to keep
//! clocks together is up to the callers, from whom the time comes.
//!
//! # Memory orders
//! Each operation below names its partner. `held` and the counters never carry data themselves;
//! they order the index's data, so the index may use what orders it likes.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::{
    Arc, AtomicU64, Mutex, MutexGuard, STRIPES, TRIES_BEFORE_RESERVING, barrier, fence, pause,
};

/// The mask of the whole store.
pub(crate) const STRIPES_ALL: u64 = !0;
/// Which faults to plant. Only the tests of the tests use another than `None`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: the gate works.
    None,
    /// Stripes are never held.
    NoHold,
    /// Holders do not wait for writes in flight.
    NoDrain,
    /// Exclusive holders do not wait for reads in flight.
    NoReaderDrain,
    /// Snapshots are not checked.
    NoRecheck,
    /// Writes of a key come to the log in any order.
    NoOrder,
}

/// What the holder of stripes is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Only read.
    Read,
    /// Change each key at most once.
    WriteOnce,
    /// Anything.
    Exclusive,
}

/// Keeps what is inside off its neighbours' cache lines; two lines, because processors fetch
/// them in pairs.
#[repr(align(128))]
pub(crate) struct Lines<T>(pub(crate) T);

/// A session's own words.
struct Record {
    reading: Lines<AtomicU64>,
    writes: Lines<[AtomicU64; STRIPES]>,
}

/// The shared half.
pub(crate) struct Gate {
    held: Lines<AtomicU64>,
    /// Stripes that an unlucky waiter has reserved, 0 for none.
    reserved: Lines<AtomicU64>,
    exclusions: AtomicU64,
    /// Changes of `records` so far; raised under its mutex.
    registrations: AtomicU64,
    records: Mutex<Vec<Arc<Record>>>,
    fault: Fault,
}

/// A session's half.
pub(crate) struct GateSession {
    gate: Arc<Gate>,
    record: Arc<Record>,
    /// Stripes that this session holds.
    held: u64,
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
            reserved: Lines(AtomicU64::new(0)),
            exclusions: AtomicU64::new(0),
            registrations: AtomicU64::new(0),
            records: Mutex::new(Vec::new()),
            fault,
        }
    }

    pub(crate) fn register(gate: &Arc<Gate>) -> GateSession {
        let record = Arc::new(Record {
            reading: Lines(AtomicU64::new(0)),
            writes: Lines(std::array::from_fn(|_| AtomicU64::new(0))),
        });
        let mut records = gate.records();
        records.push(Arc::clone(&record));
        // ORDERING: Release pairs with the Acquire in `refresh_peers` and with the fence in
        // `snapshot_end`; a holder that misses it is seen in `held` (G4).
        gate.registrations.fetch_add(1, Release);
        drop(records);
        GateSession {
            gate: Arc::clone(gate),
            record,
            held: 0,
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
        // A push or a removal that panicked has left a whole list.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_held(&self, mask: u64) -> bool {
        // ORDERING: Acquire pairs with the Release in `GateSession::release`: who finds the
        // stripe free sees all that its last holder did.
        self.held.0.load(Acquire) & mask != 0
    }

    /// Sets the bits of `mask` if none of them is set.
    fn try_take(&self, mask: u64) -> bool {
        // ORDERING: Acquire pairs with the Release in `release`, as in `is_held`. The store needs
        // no order of its own: the heavy barrier in `acquire` follows.
        let take = |held| (held & mask == 0).then_some(held | mask);
        self.held.0.fetch_update(Acquire, Relaxed, take).is_ok()
    }

    /// Repeats `attempt` until it succeeds; after some failures with `mask` reserved.
    fn insist(&self, mask: u64, mut attempt: impl FnMut() -> bool) {
        let (mut reserved, mut round) = (false, 0u32);
        loop {
            // Whoever waits here shows nothing that others wait for: see `try_read`.
            // ORDERING: Relaxed, a courtesy: nothing breaks if a reservation is missed.
            let others = if reserved { 0 } else { self.reserved.0.load(Relaxed) };
            if others & mask == 0 && attempt() {
                break;
            }
            if round >= TRIES_BEFORE_RESERVING && others == 0 && !reserved {
                // ORDERING: Relaxed, as above; the exchange only makes it one waiter's.
                reserved = self.reserved.0.compare_exchange(0, mask, Relaxed, Relaxed).is_ok();
            }
            pause(round);
            round = round.saturating_add(1);
        }
        if reserved {
            // ORDERING: Relaxed, as above.
            self.reserved.0.store(0, Relaxed);
        }
    }
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let mut round = 0;
    while !done() {
        pause(round);
        round = round.saturating_add(1);
    }
}

pub(crate) fn stripes_of(mask: u64) -> impl Iterator<Item = usize> {
    (0..STRIPES).filter(move |stripe| mask >> stripe & 1 == 1)
}

/// A read in flight; None inside a hold.
pub(crate) struct Reading<'a>(Option<&'a AtomicU64>);

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(reading) = self.0 else { return };
        // ORDERING: the Acquire fence makes this session's later look at `held` see the bit of a
        // holder whose change was just read, whatever order the index read it with; it pairs with
        // the Release fence in `acquire`.
        fence(Acquire);
        // ORDERING: Release pairs with the Acquire in `drain`: the read is over.
        reading.store(0, Release);
    }
}

/// A write in flight; None inside a hold.
pub(crate) struct Writing<'a>(Option<(&'a AtomicU64, u64)>);

impl Writing<'_> {
    /// Whether it is inside a hold.
    pub(crate) fn is_held(&self) -> bool {
        self.0.is_none()
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some((counter, odd)) = self.0 else { return };
        // ORDERING: Acquire fence as in `Reading`: a write too has looked at the old value.
        fence(Acquire);
        // ORDERING: Release pairs with the Acquire in `drain` and in `collect`: who sees the even
        // number sees the write.
        counter.store(odd + 1, Release);
    }
}

impl GateSession {
    /// Starts a read of keys in the stripes of `mask`, once no other session holds any of them.
    #[inline]
    pub(crate) fn read(&mut self, mask: u64) -> Reading<'_> {
        if self.held != 0 {
            self.assert_held(mask);
            return Reading(None);
        }
        if !self.try_read(mask) {
            self.wait_to_read(mask);
        }
        Reading(Some(&self.record.reading.0))
    }

    #[inline]
    fn try_read(&self, mask: u64) -> bool {
        // ORDERING: Relaxed; the light barrier orders it before the load of `held`, against the
        // heavy barrier in `acquire`.
        self.record.reading.0.store(mask, Relaxed);
        barrier::light();
        if self.gate.is_held(mask) {
            // Taken back at once: an exclusive holder may be waiting for it, while this session
            // waits for somebody's reservation, and that somebody for the holder.
            // ORDERING: Relaxed; no read took place, there is nothing to order.
            self.record.reading.0.store(0, Relaxed);
            return false;
        }
        true
    }

    #[cold]
    fn wait_to_read(&self, mask: u64) {
        let attempt = || !self.gate.is_held(mask) && self.try_read(mask);
        if mask == STRIPES_ALL {
            // All stripes may never be free at once by themselves.
            self.gate.insist(mask, attempt);
        } else {
            wait_until(attempt);
        }
    }

    /// Starts a write of one key in `stripe`, once no other session holds it.
    #[inline]
    pub(crate) fn write(&mut self, stripe: u32) -> Writing<'_> {
        let mask = 1 << stripe;
        if self.held != 0 {
            self.assert_held(mask);
            return Writing(None);
        }
        let counter = &self.record.writes.0[stripe as usize];
        // ORDERING: Relaxed, only this session writes it.
        let even = counter.load(Relaxed);
        let attempt = || {
            // ORDERING: Relaxed; the light barrier orders it before the load of `held`, against
            // the heavy barrier in `acquire`.
            counter.store(even + 1, Relaxed);
            // ORDERING: Release orders the counter before the change that follows, whatever
            // order the index makes it with; pairs with the Acquire fence in `snapshot_end`.
            fence(Release);
            barrier::light();
            !self.gate.is_held(mask)
        };
        if !attempt() {
            wait_until(|| {
                // Back to the number from before: under it nothing has changed (G3).
                // ORDERING: Relaxed, for the same reason.
                counter.store(even, Relaxed);
                !self.gate.is_held(mask) && attempt()
            });
        }
        Writing(Some((counter, even + 1)))
    }

    /// True if this session holds all stripes of `mask`.
    pub(crate) fn holds(&self, mask: u64) -> bool {
        if self.held != 0 {
            self.assert_held(mask);
        }
        self.held != 0
    }

    /// Whether another session holds one of these stripes at this moment.
    pub(crate) fn is_held_by_others(&self, mask: u64) -> bool {
        self.held & mask == 0 && self.gate.is_held(mask)
    }

    /// Whether this session holds any stripe.
    pub(crate) fn holds_any(&self) -> bool {
        self.held != 0
    }

    /// True if this session holds all stripes.
    pub(crate) fn holds_all(&self) -> bool {
        self.held == STRIPES_ALL
    }

    fn assert_held(&self, mask: u64) {
        assert!(
            mask & !self.held == 0,
            "an exclusive closure touched a key that it was not given, or the whole store"
        );
    }

    /// Holds the stripes of `mask`. Returns those that `release` must be called with, 0 if they
    /// are held already.
    pub(crate) fn acquire(&mut self, mask: u64, how: Hold) -> u64 {
        if self.holds(mask) || mask == 0 || self.gate.fault == Fault::NoHold {
            return 0;
        }
        self.gate.insist(mask, || self.gate.try_take(mask));
        // From here on a panic would leave the bits set; nothing below can.
        self.held = mask;
        // ORDERING: Relaxed, a statistic.
        self.gate.exclusions.fetch_add(1, Relaxed);
        barrier::heavy();
        self.refresh_peers();
        self.drain(mask, how);
        self.counted = how != Hold::Read;
        if self.counted {
            for stripe in stripes_of(mask) {
                let counter = &self.record.writes.0[stripe];
                // ORDERING: Relaxed; the fence below orders it, and the load is of an own word.
                counter.store(counter.load(Relaxed) + 1, Relaxed);
            }
        }
        // ORDERING: Release orders `held` and the counters before the changes that follow; pairs
        // with the Acquire fences in `snapshot_end`, `Reading` and `Writing`.
        fence(Release);
        mask
    }

    /// Waits until no other session is in the middle of what this hold excludes.
    fn drain(&self, mask: u64, how: Hold) {
        for peer in &self.peers {
            if self.gate.fault != Fault::NoDrain {
                for stripe in stripes_of(mask) {
                    // ORDERING: Acquire pairs with the Release in `Writing::drop`.
                    wait_until(|| peer.writes.0[stripe].load(Acquire) % 2 == 0);
                }
            }
            if how == Hold::Exclusive && self.gate.fault != Fault::NoReaderDrain {
                // ORDERING: Acquire pairs with the Release in `Reading::drop`.
                wait_until(|| peer.reading.0.load(Acquire) & mask == 0);
            }
        }
    }

    /// Gives stripes back that `acquire` returned.
    pub(crate) fn release(&mut self, taken: u64) {
        if taken == 0 {
            return;
        }
        if self.counted {
            for stripe in stripes_of(taken) {
                let counter = &self.record.writes.0[stripe];
                // ORDERING: Release pairs with the Acquire in `collect`: who sees the even number
                // sees the changes. The load is of an own word.
                counter.store(counter.load(Relaxed) + 1, Release);
            }
        }
        self.held = 0;
        self.counted = false;
        // ORDERING: Release pairs with the Acquire in `is_held` and `try_take`.
        self.gate.held.0.fetch_and(!taken, Release);
    }

    fn refresh_peers(&mut self) {
        // ORDERING: Acquire pairs with the Release in `register`.
        if self.gate.registrations.load(Acquire) == self.peers_at {
            return;
        }
        let records = self.gate.records();
        self.peers.clear();
        self.peers.extend(records.iter().filter(|r| !Arc::ptr_eq(r, &self.record)).cloned());
        // ORDERING: Relaxed, it is raised under the mutex that is held here.
        self.peers_at = self.gate.registrations.load(Relaxed);
    }

    /// Starts a snapshot of the stripes of `mask`. False if writes are in flight; try again.
    pub(crate) fn snapshot_begin(&mut self, mask: u64) -> bool {
        wait_until(|| !self.gate.is_held(mask));
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

    /// Ends it: true if the reads since `snapshot_begin` show one moment.
    pub(crate) fn snapshot_end(&mut self, mask: u64) -> bool {
        // ORDERING: Acquire orders the reads before the second collection; pairs with the Release
        // fences in `write` and `acquire`, and with the Release in `register`.
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
