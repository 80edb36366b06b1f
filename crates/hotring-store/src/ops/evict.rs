//! Evicting: how a write that finds the limit of all memory reached makes room.
//!
//! A policy chooses victims under its lock, from the index alone. The write then removes them, each as a write in the
//! gate. A session that holds keys may ask for the lock, so the lock's owner must not wait for keys. Between choice and
//! removal a victim may be pinned, which is checked in the gate, or removed, which does no harm.
//!
//! # How much is evicted
//! Every 16 KiB that a session writes, the index says whether all memory is within the limit
//! (`hotring_index::Session::admit`). If not, the session evicts the excess and `RESERVE` more, so that the next
//! session need not; memory that only waits for readers is no excess. Then it frees all it can. The write goes on if
//! * that suffices;
//! * the rest only waits for readers and is little (`SLACK`, `CHUNK`): the write waits some milliseconds for it;
//! * it has evicted more than it will write: after the limit was lowered, one write must not wait for all evictions.
//!
//! Otherwise it is refused, as it is if nothing may be evicted.
//!
//! Memory that lies free between items may be the excess, too. The index has compacted items by then; a write evicts
//! twice the bytes that sessions write until they look again, and goes on.
//!
//! A session that holds keys must not evict: a multi-key operation must not see its own keys disappear, and the victim
//! may be held by another session. Room is made before the hold; within it only a little beyond the limit is let
//! through.

use std::collections::HashSet;
use std::thread;

use hotring_index::{AnySession, Entry, Full, Marked, Refused};

use crate::evict::heat::{Items, Judged, Marks, Verdict};
use crate::evict::sampled::Draw;
use crate::evict::{Eviction, EvictionPolicy as Policy, SPARED, Victim, YOUNG};
use crate::pins::Pins;
use crate::session::Session;

/// Bytes evicted beyond the excess: as many as a session writes until it looks again.
const RESERVE: u64 = 16 << 10;
/// Bytes that one write evicts at most besides its own size.
const BATCH: u64 = 8 * RESERVE;
/// Memory that may wait for readers above the limit: one part in this many of it, and a chunk of memory.
const SLACK: u64 = 128;
const CHUNK: u64 = 2 << 20;
/// Times that a write lets others go on when more than that waits: who is in the way may have been interrupted.
const WAITS: u32 = 4096;
/// Times that a write looks whether there is room now.
const ROUNDS: usize = 8;
/// Calls of `heat` that may find nothing to evict: entries of keys that are gone, or an empty part of the table.
const VAIN_MAX: usize = 256;
/// Pinned keys that `heat` may choose before it is taken for granted that hardly anything else is there.
const PINNED_MAX: usize = 1024;
/// New keys of a session that the policy is told of together.
const ENTERED: usize = 64;

/// The result of an eviction.
#[derive(Default)]
struct Evicted {
    /// Victims, also those that were not removed.
    chosen: usize,
    /// Bytes of the removed items.
    bytes: u64,
}

impl Session {
    /// Makes room for this many bytes, if the policy has anything go.
    ///
    /// # Errors
    /// The obstacle.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<(), Refused> {
        let mut refused = match self.try_admit(bytes) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        if self.gate.holds_any() {
            return if is_little(&refused) { Ok(()) } else { Err(refused) };
        }
        let mut evicted = 0;
        for _ in 0..ROUNDS {
            let Refused::Full(full) = &refused else { return Err(refused) };
            if bytes as u64 > full.max {
                return Err(refused);
            }
            if evicted > 0 && is_waste(full) {
                return Ok(());
            }
            let wanted = (live(full) + RESERVE).saturating_sub(full.max);
            if wanted > 0 {
                // Evictions do not shrink the free space between items at once: that follows by and by.
                let most = if is_waste(full) { 2 * RESERVE } else { bytes as u64 + BATCH };
                let round = self.evict(wanted.min(most), full.max);
                evicted += round.bytes;
                if round.chosen == 0 && live(full) > full.max {
                    break;
                }
            }
            match self.try_admit(bytes) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
            if evicted >= bytes as u64 + BATCH {
                return Ok(());
            }
        }
        self.wait_for_readers(bytes, refused, evicted > 0)
    }

    /// Whether this many bytes fit, once all memory that can be freed at once is free, in all databases.
    fn try_admit(&mut self, bytes: usize) -> Result<(), Refused> {
        match self.index.try_admit_bytes(bytes) {
            Err(Refused::Full(full)) if full.limbo_bytes > 0 && self.collect_kin() => {
                self.index.try_admit_bytes(bytes)
            }
            admitted => admitted,
        }
    }

    /// As [`try_admit`](Self::try_admit), where nothing is evicted: if only memory that waits
    /// for readers is in the way, it frees that in several steps rather than refuse the write.
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

    /// Waits until evicted memory is free, or little enough of it is left for the write to go on.
    fn wait_for_readers(
        &mut self,
        bytes: usize,
        mut refused: Refused,
        has_evicted: bool,
    ) -> Result<(), Refused> {
        for _ in 0..WAITS {
            match &refused {
                Refused::Stalled(_) => break,
                Refused::Full(full) if !has_evicted && live(full) > full.max => break,
                // Another writer may have taken the room: it makes some in turn.
                refused if is_little(refused) => return Ok(()),
                Refused::Full(_) => thread::yield_now(),
            }
            match self.try_admit(bytes) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
        }
        // Enough was evicted: a session that is interrupted in an operation is no reason to refuse others theirs. How
        // much may wait for it has a limit of its own (`Refused::Stalled`).
        match refused {
            Refused::Full(full) if has_evicted && live(&full) <= full.max => Ok(()),
            refused => Err(refused),
        }
    }

    /// Evicts while memory is above the limit, a bounded part of it: for a thread with time. True if there may be
    /// more to do.
    pub fn evict_some(&mut self) -> bool {
        if self.eviction.policy() == Policy::NoEviction {
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

    /// Clears the marks of the accesses to about `count` keys from `cursor` on, which mean nothing to another
    /// policy: a walk over all keys when [`Store::notings`](crate::Store::notings) has changed. Returns where to go on,
    /// 0 at the end.
    pub fn forget_accesses(&mut self, cursor: u64, count: usize) -> u64 {
        self.index.review(cursor, count, |_, _| (0, true))
    }

    /// Takes one from the frequencies of about `count` keys from `cursor` on, so that they come down with time.
    /// Returns where to go on, 0 at the end, or where the policy does not go by frequencies.
    pub fn decay_some(&mut self, cursor: u64, count: usize) -> u64 {
        if !self.eviction.policy().is_lfu() {
            return 0;
        }
        self.index.review(cursor, count, |_, marked| (marked.bits.saturating_sub(1), true))
    }

    /// Tells the policy of this session's new keys when there are some: before each write that takes memory.
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

    /// Evicts items of at least this many bytes, if there are, of any database: where it begins is drawn, so that a
    /// large one gives more.
    fn evict(&mut self, wanted: u64, memory_max: u64) -> Evicted {
        let sizes: Vec<_> = self
            .databases
            .present()
            .map(|(place, database)| (place, database.index.own_bytes().used))
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
        for (place, _) in sizes[begins..].iter().chain(&sizes[..begins]) {
            if all.bytes < wanted {
                let left = wanted - all.bytes;
                let here = self.within(*place, |session| session.evict_here(left, memory_max));
                all.chosen += here.chosen;
                all.bytes += here.bytes;
            }
        }
        all
    }

    /// The same of the database in which operations are: a batch is chosen, then removed, and so on, so that
    /// no session waits long for the policy's lock.
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
        let (index, pins) = (&mut self.index, &eviction.pins);
        let mut view = View { index, pins, count, victims: Vec::new(), bytes: 0, pinned: 0 };
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
        let mut sampled = eviction.sampled();
        while bytes < wanted {
            let (samples, pins) = (eviction.samples(), &eviction.pins);
            let draw = Draw { policy, samples, tick, pins, chosen: &chosen };
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

    /// Removes a key that was chosen, unless it has been pinned or another session holds it. Returns the bytes that
    /// were its item's.
    fn evict_key(&mut self, eviction: &Eviction, policy: Policy, key: &[u8]) -> u64 {
        let freed = self.change_unless_held(key, |write| {
            // Within the gate: who pins waits for those that are in it.
            if eviction.pins.has(key) { 0 } else { write.evict(policy.takes_expiring_only()) }
        });
        // A session that makes room must not wait for one that holds the key.
        let freed = freed.unwrap_or(0);
        eviction.count_evicted(freed > 0);
        freed as u64
    }
}

/// Bytes that are used and do not only wait for readers.
fn live(full: &Full) -> u64 {
    full.used_bytes.saturating_sub(full.limbo_bytes)
}

/// Whether all that is too much lies free between items.
fn is_waste(full: &Full) -> bool {
    live(full).saturating_sub(full.waste_bytes) <= full.max
}

/// Whether the excess only waits for readers, or lies free between items, and is small. Nothing that a session
/// could do at once makes free memory between items less.
fn is_little(refused: &Refused) -> bool {
    let Refused::Full(full) = refused else { return false };
    // Below a chunk's memory a chunk is much.
    let slack = full.max / SLACK + CHUNK.min(full.max);
    full.used_bytes.saturating_sub(full.waste_bytes) <= full.max + slack
}

/// The items as `heat` sees them.
struct View<'a> {
    index: &'a mut AnySession,
    pins: &'a Pins,
    count: usize,
    victims: Vec<Victim>,
    /// Bytes of all that was chosen.
    bytes: u64,
    /// Pinned keys that were to go.
    pinned: usize,
}

impl View<'_> {
    /// The verdict on an item, and its new bits.
    fn judged(
        (pins, pinned): (&Pins, &mut usize),
        (entry, marked): (&Entry<'_>, Marked),
        verdict: impl FnOnce(Marks) -> Verdict,
    ) -> (u8, Option<Victim>) {
        let visits = (marked.bits & 0b11).count_ones() as u8;
        // Once, an item that reads come to first counts as visited although it was not.
        let spared = visits == 0 && marked.is_hot && marked.bits & (YOUNG | SPARED) == 0;
        let shown = Marks { visits: visits + u8::from(spared), young: marked.bits & YOUNG != 0 };
        let mark = if spared { SPARED } else { marked.bits & SPARED };
        match verdict(shown) {
            Verdict::Keep(marks) => (bits_of(marks) | mark, None),
            Verdict::Evict if pins.has(entry.key) => {
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
        let (mut judged, mut chosen, pins) = (Judged::Absent, None, self.pins);
        let pinned = &mut self.pinned;
        self.index.review(hash.reverse_bits(), 1, |entry, marked| {
            if marked.hash != hash || judged != Judged::Absent {
                return (marked.bits, true);
            }
            let (bits, victim) = Self::judged((pins, pinned), (&entry, marked), &mut verdict);
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
        looks: usize,
        mut verdict: impl FnMut(u64, Marks) -> Verdict,
    ) -> (u64, Judged) {
        let (mut chosen, pins, pinned) = (None, self.pins, &mut self.pinned);
        let hand = self.index.review(hand, looks, |entry, marked| {
            let (bits, victim) =
                Self::judged((pins, pinned), (&entry, marked), |marks| verdict(marked.hash, marks));
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
