//! Eviction: makes room when a write finds the memory limit reached.
//!
//! A policy chooses victims under its lock, from the index alone. The write then removes them, each as a write in the
//! gate. A session that holds keys may need the lock, so a session must not wait for keys while it has the lock.
//! Between choice and removal a victim may be pinned, which is checked in the gate, or removed, which does no harm.
//!
//! # Amount to evict
//! Every 16 KiB that a session writes, the index checks whether all memory is within the limit
//! (`hotring_index::Session::admit`). If not, the session evicts the excess and `RESERVE` more, so that the next
//! session need not. Removed memory that waits for readers does not count as excess. Then it frees all it can. The
//! write proceeds if
//! * that suffices;
//! * the rest only waits for readers and is little (`SLACK`, `CHUNK`): the write waits some milliseconds for it;
//! * it has evicted more than it will write: after the limit was lowered, one write must not wait for all evictions.
//!
//! Otherwise the write is refused, as it is if nothing may be evicted.
//!
//! The excess may be free memory between items. By then the index has compacted the items; a write evicts twice the
//! bytes that sessions write until their next check, and proceeds.
//!
//! A session that holds keys must not evict: a multi-key operation must not see its own keys disappear, and another
//! session may hold the victim. Memory must be freed before the hold; within it a write may exceed the limit only a
//! little.

use std::collections::HashSet;
use std::thread;

use hotring_index::{AnySession, Entry, Full, Marked, Refused};

use crate::evict::heat::{Items, Judged, Marks, Verdict};
use crate::evict::sampled::Draw;
use crate::evict::{Eviction, EvictionPolicy as Policy, SPARED, Spared, Victim, YOUNG};
use crate::session::Session;

/// Bytes evicted in addition to the excess: as many as a session writes until its next check.
const RESERVE: u64 = 16 << 10;
/// Maximum bytes that one write evicts in addition to its own size.
const BATCH: u64 = 8 * RESERVE;
/// Removed memory that may wait for readers above the limit: this fraction of the limit, and a chunk of memory.
const SLACK: u64 = 128;
const CHUNK: u64 = 2 << 20;
/// Number of times that a write yields to other threads while more memory than that waits: the session that prevents
/// its release may have been interrupted.
const WAITS: u32 = 4096;
/// Number of times that a write checks for room.
const ROUNDS: usize = 8;
/// Maximum calls of `heat` that evict nothing: entries of removed keys, or an empty part of the table.
const VAIN_MAX: usize = 256;
/// Pinned or hidden keys that `heat` may choose before the search ends, because hardly any other keys seem to exist.
const PINNED_MAX: usize = 1024;
/// Number of new keys that a session reports to the policy together.
const ENTERED: usize = 64;

/// The result of an eviction.
#[derive(Default)]
struct Evicted {
    /// Number of victims, including those that were not removed.
    chosen: usize,
    /// Bytes of the removed items.
    bytes: u64,
}

impl Session {
    /// Makes room for this many bytes by eviction, if the policy allows.
    ///
    /// # Errors
    /// The reason why there is no room.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<(), Refused> {
        let mut refused = match self.try_admit(bytes) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        if self.gate.holds_any() {
            return if is_little(&refused) { Ok(()) } else { Err(refused) };
        }
        // Bytes, once an eviction was tried.
        let mut evicted = None;
        for _ in 0..ROUNDS {
            let Refused::Full(full) = &refused else { return Err(refused) };
            if bytes as u64 > full.max {
                return Err(refused);
            }
            if evicted > Some(0) && is_waste(full) {
                return Ok(());
            }
            let wanted = (live(full) + RESERVE).saturating_sub(full.max);
            if wanted > 0 {
                // Evictions shrink the free memory between items only gradually.
                let most = if is_waste(full) { 2 * RESERVE } else { bytes as u64 + BATCH };
                let round = self.evict(wanted.min(most), full.max);
                evicted = Some(evicted.unwrap_or(0) + round.bytes);
                if round.chosen == 0 && live(full) > full.max {
                    break;
                }
            }
            match self.try_admit(bytes) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
            if evicted >= Some(bytes as u64 + BATCH) {
                return Ok(());
            }
        }
        self.wait_for_readers(bytes, refused, evicted)
    }

    /// Checks whether this many bytes fit, after freeing all memory that can be freed at once, in all databases.
    fn try_admit(&mut self, bytes: usize) -> Result<(), Refused> {
        match self.index.try_admit_bytes(bytes) {
            Err(Refused::Full(full)) if full.limbo_bytes > 0 && self.collect_kin() => {
                self.index.try_admit_bytes(bytes)
            }
            admitted => admitted,
        }
    }

    /// Like [`try_admit`](Self::try_admit), if nothing is evicted: if only removed memory that waits for readers is in
    /// the way, it frees that in several steps rather than refuse the write.
    pub(crate) fn admit_unevicted(&mut self, bytes: usize) -> Result<(), Refused> {
        let mut admitted = self.index.admit_bytes(bytes);
        for _ in 0..ROUNDS {
            match &admitted {
                Err(Refused::Full(full)) if full.limbo_bytes > 0 && self.collect_kin() => {
                    admitted = self.index.admit_bytes(bytes);
                }
                _ => break,
            }
        }
        admitted
    }

    /// Waits until evicted memory is free, or so little of it is left that the write may proceed.
    fn wait_for_readers(
        &mut self,
        bytes: usize,
        mut refused: Refused,
        mut evicted: Option<u64>,
    ) -> Result<(), Refused> {
        for _ in 0..WAITS {
            match &refused {
                Refused::Stalled(_) => break,
                Refused::Full(full) if evicted == Some(0) && live(full) > full.max => break,
                Refused::Full(full) if evicted.is_none() && live(full) > full.max => {
                    // So far only readers were in the way. Now that memory is free, and another writer has used it.
                    let wanted = (live(full) + RESERVE - full.max).min(bytes as u64 + BATCH);
                    evicted = Some(self.evict(wanted, full.max).bytes);
                }
                // Another writer may have used the room; that writer makes room in turn.
                refused if is_little(refused) => return Ok(()),
                Refused::Full(_) => thread::yield_now(),
            }
            match self.try_admit(bytes) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
        }
        // Enough was evicted: an operation of a session that is interrupted must not make others fail. The memory that
        // may wait for such a session has its own limit (`Refused::Stalled`).
        match refused {
            Refused::Full(full) if evicted > Some(0) && live(&full) <= full.max => Ok(()),
            refused => Err(refused),
        }
    }

    /// Evicts a bounded amount if memory is above the limit: for a background thread. True if there may be more to do.
    pub fn evict_some(&mut self) -> bool {
        // A replica evicts what its primary evicts.
        let is_replica = self.logged.modes.get().is_replica();
        if is_replica || self.eviction.policy() == Policy::NoEviction {
            return false;
        }
        match self.try_admit(0) {
            Err(Refused::Full(full)) if is_waste(&full) => false,
            Err(Refused::Full(full)) if live(&full) > full.max => {
                self.evict(BATCH, full.max).bytes > 0
            }
            _ => false,
        }
    }

    /// Clears the access bits of about `count` keys from `cursor` on: for a walk over all keys after
    /// [`Store::notings`](crate::Store::notings) has changed, because the bits are meaningless to another policy.
    /// Returns the next cursor, 0 at the end.
    pub fn forget_accesses(&mut self, cursor: u64, count: usize) -> u64 {
        self.index.review(cursor, count, |_, _| (0, true))
    }

    /// Decrements the frequencies of about `count` keys from `cursor` on, so that they decay with time. Returns the
    /// next cursor, 0 at the end or if the policy does not use frequencies.
    pub fn decay_some(&mut self, cursor: u64, count: usize) -> u64 {
        if !self.eviction.policy().is_lfu() {
            return 0;
        }
        self.index.review(cursor, count, |_, marked| (marked.bits.saturating_sub(1), true))
    }

    /// Reports this session's new keys to the policy if there are enough: before each write that takes memory.
    #[inline(always)]
    pub(crate) fn enter_new(&mut self) {
        if self.index.entered() >= ENTERED {
            self.enter_all();
        }
    }

    #[cold]
    fn enter_all(&mut self) {
        let eviction = self.eviction.clone();
        let mut known = Vec::new();
        let mut heat = eviction.heat();
        self.index.take_entered(|hash| {
            if !heat.entered(hash) {
                known.push(hash);
            }
        });
        eviction.note_bytes(&heat);
        drop(heat);
        for hash in known {
            self.index.review(hash.reverse_bits(), 1, |_, marked| {
                let bits = if marked.hash == hash { marked.bits & !YOUNG } else { marked.bits };
                (bits, true)
            });
        }
    }

    /// Evicts items of at least this many bytes in total, if possible, in any database. It begins with a random one,
    /// weighted by size, so that a large database gives more.
    fn evict(&mut self, wanted: u64, memory_max: u64) -> Evicted {
        let sizes: Vec<_> = self
            .databases
            .present()
            .map(|(database_id, database)| (database_id, database.index.own_bytes().used))
            .collect();
        if sizes.len() == 1 {
            return self.evict_here(wanted, memory_max);
        }
        let total = sizes.iter().map(|(_, bytes)| bytes).sum::<u64>().max(1);
        let mut at = self.databases.draw() % total;
        let begins = sizes.iter().position(|(_, bytes)| {
            let is_here = at < *bytes;
            at = at.saturating_sub(*bytes);
            is_here
        });
        let begins = begins.unwrap_or(0);
        let mut all = Evicted::default();
        for (database_id, _) in sizes[begins..].iter().chain(&sizes[..begins]) {
            if all.bytes < wanted {
                let left = wanted - all.bytes;
                let here =
                    self.within(*database_id, |session| session.evict_here(left, memory_max));
                all.chosen += here.chosen;
                all.bytes += here.bytes;
            }
        }
        all
    }

    /// Evicts in the current database: chooses a batch, removes it, and so on, so that no session waits long for the
    /// policy's lock.
    fn evict_here(&mut self, wanted: u64, memory_max: u64) -> Evicted {
        let eviction = self.eviction.clone();
        let policy = eviction.policy();
        let (mut round, mut claimed) = (Evicted::default(), 0);
        while claimed < wanted && policy != Policy::NoEviction {
            let batch = (wanted - claimed).min(BATCH);
            let victims = if policy == Policy::Heat {
                self.enter_all();
                self.choose_by_heat(&eviction, batch)
            } else {
                self.choose_by_sample(&eviction, batch, memory_max)
            };
            if victims.is_empty() {
                break;
            }
            round.chosen += victims.len();
            for victim in victims {
                claimed += victim.footprint;
                round.bytes += self.evict_key(&eviction, policy, &victim.key);
            }
        }
        round
    }

    fn choose_by_heat(&mut self, eviction: &Eviction, wanted: u64) -> Vec<Victim> {
        let count = self.index_len();
        let grounds = self.logged.grounds.get();
        let spared = Spared { pins: &eviction.pins, grounds: grounds.as_deref() };
        let index = &mut self.index;
        let mut view = View { index, spared, count, victims: Vec::new(), bytes: 0, pinned: 0 };
        let mut vain = 0;
        let mut heat = eviction.heat();
        while view.bytes < wanted && vain < VAIN_MAX && view.pinned < PINNED_MAX && view.count() > 0
        {
            vain += usize::from(!heat.evict(&mut view));
        }
        eviction.note_bytes(&heat);
        view.victims
    }

    fn choose_by_sample(
        &mut self,
        eviction: &Eviction,
        wanted: u64,
        memory_max: u64,
    ) -> Vec<Victim> {
        let (policy, tick, items) = (eviction.policy(), self.tick(), self.index_len());
        let (mut victims, mut chosen, mut bytes) = (Vec::new(), HashSet::new(), 0);
        let grounds = self.logged.grounds.get();
        let spared = Spared { pins: &eviction.pins, grounds: grounds.as_deref() };
        let mut sampled = eviction.sampled();
        while bytes < wanted {
            let samples = eviction.samples();
            let draw = Draw { policy, samples, tick, spared, chosen: &chosen };
            let Some(victim) = sampled.choose(&mut self.index, draw) else { break };
            bytes += victim.footprint;
            chosen.insert(victim.hash);
            victims.push(victim);
        }
        if policy.is_lru() {
            sampled.age(&mut self.index, tick, (wanted, memory_max), items);
        }
        victims
    }

    /// Removes a victim, unless it is pinned or another session holds it. Returns the size of its item in bytes.
    fn evict_key(&mut self, eviction: &Eviction, policy: Policy, key: &[u8]) -> u64 {
        let freed = self.change_unless_held(key, |write| {
            // Checked within the gate, because a pinning session waits for the sessions within it.
            if eviction.pins.has(key) { 0 } else { write.evict(policy.takes_expiring_only()) }
        });
        // A session that makes room must not wait for a session that holds the key.
        let freed = freed.unwrap_or(0);
        eviction.count_evicted(freed > 0);
        freed as u64
    }
}

/// Bytes in use without removed memory that waits for readers.
fn live(full: &Full) -> u64 {
    full.used_bytes.saturating_sub(full.limbo_bytes)
}

/// Whether the excess is only free memory between items.
fn is_waste(full: &Full) -> bool {
    live(full).saturating_sub(full.waste_bytes) <= full.max
}

/// Whether the excess is small, and only removed memory that waits for readers, or free memory between items. A session
/// can reduce neither at once.
fn is_little(refused: &Refused) -> bool {
    let Refused::Full(full) = refused else { return false };
    // With a limit below a chunk's size, a chunk is not little.
    let slack = full.max / SLACK + CHUNK.min(full.max);
    full.used_bytes.saturating_sub(full.waste_bytes) <= full.max + slack
}

/// The items as `heat` sees them.
struct View<'a> {
    index: &'a mut AnySession,
    spared: Spared<'a>,
    count: usize,
    victims: Vec<Victim>,
    /// Total size of the victims in bytes.
    bytes: u64,
    /// Number of spared keys that the policy has chosen.
    pinned: usize,
}

impl View<'_> {
    /// Asks for the verdict on an item. Returns its new bits, and the victim if it is one.
    fn judged(
        (spared_keys, pinned): (Spared<'_>, &mut usize),
        (entry, marked): (&Entry<'_>, Marked),
        verdict: impl FnOnce(Marks) -> Verdict,
    ) -> (u8, Option<Victim>) {
        let visits = (marked.bits & 0b11).count_ones() as u8;
        // A hot item, which reads reach first, counts once as visited although it was not.
        let spared = visits == 0 && marked.is_hot && marked.bits & (YOUNG | SPARED) == 0;
        let shown = Marks { visits: visits + u8::from(spared), young: marked.bits & YOUNG != 0 };
        let mark = if spared { SPARED } else { marked.bits & SPARED };
        match verdict(shown) {
            Verdict::Keep(marks) => (bits_of(marks) | mark, None),
            Verdict::Evict if spared_keys.has(entry.key) => {
                *pinned += 1;
                (bits_of(Marks { visits: 0, young: false }) | mark, None)
            }
            Verdict::Evict => (marked.bits, Some(Victim::of(entry, marked.hash))),
        }
    }

    fn take(&mut self, victim: Victim) {
        self.bytes += victim.footprint;
        self.victims.push(victim);
    }
}

fn bits_of(marks: Marks) -> u8 {
    let visits = [0b00, 0b01, 0b11][usize::from(marks.visits.min(2))];
    visits | if marks.young { YOUNG } else { 0 }
}

impl Items for View<'_> {
    fn count(&self) -> usize {
        self.count - self.victims.len().min(self.count)
    }

    fn judge(&mut self, hash: u64, mut verdict: impl FnMut(Marks) -> Verdict) -> Judged {
        let (mut judged, mut chosen, spared) = (Judged::Absent, None, self.spared);
        let pinned = &mut self.pinned;
        self.index.review(hash.reverse_bits(), 1, |entry, marked| {
            if marked.hash != hash || judged != Judged::Absent {
                return (marked.bits, true);
            }
            let (bits, victim) = Self::judged((spared, pinned), (&entry, marked), &mut verdict);
            judged = if victim.is_some() { Judged::Evicted } else { Judged::Kept };
            chosen = victim;
            (bits, true)
        });
        if let Some(victim) = chosen {
            self.take(victim);
        }
        judged
    }

    fn judge_next(
        &mut self,
        hand: u64,
        steps: usize,
        mut verdict: impl FnMut(u64, Marks) -> Verdict,
    ) -> (u64, Judged) {
        let (mut chosen, spared, pinned) = (None, self.spared, &mut self.pinned);
        let hand = self.index.review(hand, steps, |entry, marked| {
            let (bits, victim) = Self::judged((spared, pinned), (&entry, marked), |marks| {
                verdict(marked.hash, marks)
            });
            chosen = victim;
            (bits, chosen.is_none())
        });
        match chosen {
            Some(victim) => {
                self.take(victim);
                (hand, Judged::Evicted)
            }
            None => (hand, Judged::Kept),
        }
    }
}
