//! Making room: how a write that finds the limit of all memory reached has others' items go.
//!
//! A policy chooses under its lock, from the index alone; what it has chosen is removed after that, as a
//! write in the gate. (A session that holds stripes may ask for the lock, so who has the lock must not wait for
//! stripes.) Between the two a key may have been pinned, which is asked in the gate, or removed, which does no harm.
//!
//! # How much goes, and what is kept to
//! The index says every 16 KiB that a session has written whether all memory is within the limit
//! (`hotring_index::Session::admit`). If it is not, the session that asks next evicts what is too much, without what
//! is removed and only waits for readers, and [`RESERVE`] more, so that the next one need not. Then it frees what it
//! can. It goes on if that suffices; or if the rest only waits for readers and is little ([`SLACK`], [`CHUNK`]), for
//! which it waits some milliseconds if need be; or if it has evicted more than it is about to write, as after the limit
//! was lowered, when no single write is to wait for all that is to go. Otherwise it is refused, as it is if nothing
//! may go.

use std::thread;
use std::time::Duration;

use hotring_index::{AnySession, Entry, Full, Marked, Refused};

use super::heat::{Items, Judged, Marks, Verdict};
use super::sampled::Draw;
use super::{Eviction, Policy, SPARED, YOUNG};
use crate::pins::Pins;
use crate::session::Session;

/// Bytes that are evicted beyond what is too much: what a session writes until it looks again.
const RESERVE: u64 = 16 << 10;
/// Bytes that one write evicts at most besides what it is about to write.
const BATCH: u64 = 8 * RESERVE;
/// What may wait for readers above the limit: one part in so many of it, and a chunk of memory.
const SLACK: u64 = 128;
const CHUNK: u64 = 2 << 20;
/// Times that a write lets others go on when more than that waits: who is in the way may have been interrupted.
const WAITS: u32 = 64;
const WAIT: Duration = Duration::from_micros(250);
/// Times that a write looks whether there is room now.
const ROUNDS: usize = 8;
/// Calls of `heat` that may find nothing to evict: entries of keys that are gone, or an empty part of the table.
const VAIN_MAX: usize = 256;
/// New keys of a session that the policy is told of together.
const ENTERED: usize = 64;

/// A key that is to go.
pub(super) struct Victim {
    pub(super) key: Box<[u8]>,
    footprint: u64,
}

impl Victim {
    pub(super) fn of(entry: &Entry<'_>) -> Self {
        Victim { key: entry.key.into(), footprint: entry.footprint as u64 }
    }
}

impl Session {
    /// Makes room for so many bytes, if the policy has anything go.
    ///
    /// # Errors
    /// What is in the way.
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<(), Refused> {
        let mut evicted = 0;
        let mut refused = match self.index.look_for_room(bytes) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        for _ in 0..ROUNDS {
            let Refused::Full(full) = &refused else { return Err(refused) };
            if bytes as u64 > full.max {
                return Err(refused);
            }
            let excess = live(full).saturating_sub(full.max);
            if excess > 0 || evicted == 0 {
                let freed = self.evict((excess + RESERVE).min(bytes as u64 + BATCH), full.max);
                evicted += freed;
                if freed == 0 && excess > 0 {
                    break;
                }
            }
            match self.index.look_for_room(bytes) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
            if evicted >= bytes as u64 + BATCH {
                return Ok(());
            }
        }
        self.wait_for_readers(bytes, refused)
    }

    /// Waits until what was evicted is free, or so little is not that the write may go on.
    fn wait_for_readers(&mut self, bytes: usize, mut refused: Refused) -> Result<(), Refused> {
        for _ in 0..WAITS {
            match &refused {
                Refused::Stalled(_) => break,
                Refused::Full(full) if live(full) > full.max => break,
                Refused::Full(full) if full.used_bytes <= full.max + full.max / SLACK + CHUNK => {
                    return Ok(());
                }
                Refused::Full(_) => thread::sleep(WAIT),
            }
            match self.index.look_for_room(bytes) {
                Ok(()) => return Ok(()),
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }

    /// Evicts while memory is above the limit, a bounded part of it: for who has time. True if there may be
    /// more to do.
    pub fn evict_some(&mut self) -> bool {
        if !self.index.is_refusing() || self.eviction.policy() == Policy::NoEviction {
            return false;
        }
        match self.index.look_for_room(0) {
            Err(Refused::Full(full)) if live(&full) > full.max => self.evict(BATCH, full.max) > 0,
            _ => false,
        }
    }

    /// Takes one from the frequencies of about `count` keys from `cursor` on, as Redis does with those that are
    /// idle for `lfu-decay-time`: a walk over all keys in that time does the same. Returns where to go on, 0 at the
    /// end, or where the policy does not go by frequencies.
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
        drop(heat);
        for hash in known {
            self.index.review(hash.reverse_bits(), 1, |_, marked| {
                let bits = if marked.hash == hash { marked.bits & !YOUNG } else { marked.bits };
                (bits, true)
            });
        }
    }

    /// Evicts items of at least so many bytes, if there are. Returns how many bytes went.
    fn evict(&mut self, wanted: u64, memory_max: u64) -> u64 {
        let eviction = self.eviction.clone();
        let policy = eviction.policy();
        if policy == Policy::NoEviction {
            return 0;
        }
        let mut victims = Vec::new();
        if policy == Policy::Heat {
            self.enter_all();
            self.choose_by_heat(&eviction, wanted, &mut victims);
        } else {
            self.choose_by_sample(&eviction, (wanted, memory_max), &mut victims);
        }
        let mut freed = 0;
        for victim in victims {
            freed += self.evict_key(&eviction, &victim.key);
        }
        freed
    }

    fn choose_by_heat(&mut self, eviction: &Eviction, wanted: u64, victims: &mut Vec<Victim>) {
        let count = self.index_len();
        let mut view =
            View { index: &mut self.index, pins: &eviction.pins, count, victims, bytes: 0 };
        let mut heat = eviction.heat();
        let mut vain = 0;
        while view.bytes < wanted && vain < VAIN_MAX && view.count() > 0 {
            vain += usize::from(!heat.evict(&mut view));
        }
    }

    fn choose_by_sample(
        &mut self,
        eviction: &Eviction,
        (wanted, memory_max): (u64, u64),
        victims: &mut Vec<Victim>,
    ) {
        let (policy, tick, items) = (eviction.policy(), self.tick(), self.index_len());
        let draw = Draw { policy, samples: eviction.samples(), tick, pins: &eviction.pins };
        let mut sampled = eviction.sampled();
        let mut bytes = 0;
        while bytes < wanted
            && let Some(victim) = sampled.choose(&mut self.index, draw)
        {
            bytes += victim.footprint;
            victims.push(victim);
        }
        if policy.is_lru() {
            sampled.age(&mut self.index, tick, (wanted, memory_max), items);
        }
    }

    /// Removes a key that was chosen, unless it has been pinned. Returns the bytes that were its item's.
    fn evict_key(&mut self, eviction: &Eviction, key: &[u8]) -> u64 {
        let freed = self.change(key, |write| {
            // Within the gate: who pins waits for those that are in it.
            if eviction.pins.has(key) { 0 } else { write.evict() }
        });
        eviction.count_evicted(freed > 0);
        freed as u64
    }
}

/// Bytes that are used and do not only wait for readers.
fn live(full: &Full) -> u64 {
    full.used_bytes.saturating_sub(full.limbo_bytes)
}

/// The items as `heat` sees them.
struct View<'a> {
    index: &'a mut AnySession,
    pins: &'a Pins,
    count: usize,
    victims: &'a mut Vec<Victim>,
    /// Bytes of all that was chosen.
    bytes: u64,
}

impl View<'_> {
    /// What becomes of an item's bits, and of the item.
    fn judged(
        pins: &Pins,
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
                (bits_of(Marks { visits: 0, young: false }) | mark, None)
            }
            Verdict::Evict => (marked.bits, Some(Victim::of(entry))),
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
        self.index.review(hash.reverse_bits(), 1, |entry, marked| {
            if marked.hash != hash || judged != Judged::Absent {
                return (marked.bits, true);
            }
            let (bits, victim) = Self::judged(pins, (&entry, marked), &mut verdict);
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
        let (mut chosen, pins) = (None, self.pins);
        let hand = self.index.review(hand, looks, |entry, marked| {
            let (bits, victim) =
                Self::judged(pins, (&entry, marked), |marks| verdict(marked.hash, marks));
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
