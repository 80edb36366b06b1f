//! Access bits: eight bits of an item's `next` word that record accesses for the eviction policy. The
//! sampling strategy uses the same bits. The index records; the caller of [`Session::review`] decides what
//! is evicted.
//!
//! A read has already loaded the word. If the bits already say "recently used", the common case, the read
//! returns without writing. Otherwise it tries once to change the bits. A reader must not wait, and an access
//! lost in a race does no harm.
//!
//! A write copies the bits to the new item and counts as an access. An engine that replaces the entire word
//! with one compare-exchange (the ring, chains) loses no earlier bit, except in a chain's split, which copies
//! under readers. Mercury, G-Cuckoo and lines store the new item elsewhere, so a concurrent access may be
//! lost.

use crate::bytes::item::Bytes;
use crate::bytes::seen::Seen;
use crate::bytes::value::Entry;
use crate::core::config::{ConfigError, Strategy};
use crate::core::hooks::wrong;
use crate::core::item::{Item, Kind};
use crate::core::sync::{Ordering, TallyU64};
use crate::core::word::{COUNTER, MARK, Next};
use crate::engine::{Engine, Hit};
use crate::index::Index;
use crate::session::{Pinned, Session};

/// The method of recording accesses, chosen for an eviction policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Noting {
    /// Accesses are not recorded.
    #[default]
    Off,
    /// Bit 0: the item was accessed since the bits were cleared. Bit 1: it was accessed more than once. The
    /// other bits belong to the policy and survive writes of the key.
    Visits {
        /// The bits of a new key. If bits 0 and 1 are set, the key counts as accessed.
        fresh: u8,
    },
    /// The tick of the last access, modulo 256. Ticks count written bytes, not time: of two idle keys, the key
    /// that has outlived more writes is the better victim.
    Ticks {
        /// Bytes written to items per tick.
        every: u64,
    },
    /// An approximate logarithm of the number of accesses, as in Redis's LFU: starts at 5, grows with
    /// probability 1 / ((count - 5) * factor + 1), stops at 255.
    Frequency {
        /// The factor.
        log_factor: u16,
    },
}

/// The initial count of [`Noting::Frequency`].
pub const FREQUENCY_NEW: u8 = 5;

/// The maximum number of hashes of new keys that a session keeps.
const ENTERED_MAX: usize = 1024;

const BITS_SHIFT: u32 = COUNTER.trailing_zeros();
/// The distance from the bits of an up-to-date item to the mask of significant bits.
const MASK_SHIFT: u32 = 8;
const FRESH_SHIFT: u32 = 40;
const FACTOR_SHIFT: u32 = 8;
const MODE: u64 = 3;
/// The mode of stamps; if the entire word is 0, nothing is recorded.
const STAMP: u64 = 0;
const VISITS: u64 = 1;
const TICKS: u64 = 2;
const FREQUENCY: u64 = 3;
const VISIT_BITS: u64 = 0b11;

/// [`Noting`], packed into one word:
/// ```text
/// 63 .. 56                  55 .. 48          47 .. 40           23 .. 8  1 0
/// bits of up-to-date items  significant bits  bits of new items  factor   mode
/// ```
#[derive(Clone, Copy)]
pub(crate) struct PackedNoting(u64);

impl PackedNoting {
    fn of(noting: Noting, now: u8) -> Self {
        match noting {
            Noting::Off => Self(0),
            Noting::Visits { fresh } => Self::new(VISITS, VISIT_BITS, VISIT_BITS, fresh),
            Noting::Ticks { .. } => Self::ticks(now),
            Noting::Frequency { log_factor } => {
                let noting = Self::new(FREQUENCY, 0xff, 0xff, FREQUENCY_NEW);
                Self(noting.0 | u64::from(log_factor) << FACTOR_SHIFT)
            }
        }
    }

    fn ticks(now: u8) -> Self {
        Self::new(TICKS, now.into(), 0xff, now)
    }

    fn new(mode: u64, done: u64, mask: u64, fresh: u8) -> Self {
        let bits = done << BITS_SHIFT | mask << (BITS_SHIFT - MASK_SHIFT);
        Self(bits | u64::from(fresh) << FRESH_SHIFT | mode)
    }

    /// Whether an access to an item with this word must be recorded.
    #[inline(always)]
    pub(crate) fn wants(self, word: Next) -> bool {
        (word.0 ^ self.0) & self.0 << MASK_SHIFT & COUNTER != 0
    }

    fn is_off(self) -> bool {
        self.0 == 0
    }

    fn stamp(self) -> Option<u8> {
        (self.0 & MODE == STAMP && !self.is_off()).then(|| self.fresh())
    }

    fn fresh(self) -> u8 {
        (self.0 >> FRESH_SHIFT) as u8
    }

    /// The bits after an access.
    fn after(self, bits: u8, random: impl FnOnce() -> u64) -> u8 {
        match self.0 & MODE {
            VISITS => bits | if bits & 1 == 0 { 1 } else { 2 },
            TICKS | STAMP => (self.0 >> BITS_SHIFT) as u8,
            FREQUENCY => {
                let above = u64::from(bits.saturating_sub(FREQUENCY_NEW));
                let factor = self.0 >> FACTOR_SHIFT & u64::from(u16::MAX);
                bits.saturating_add(random().is_multiple_of(above * factor + 1).into())
            }
            _ => unreachable!("MODE has two bits"),
        }
    }
}

/// The current mode, shared by all sessions.
pub(crate) struct Marks {
    noting: TallyU64,
    /// Bytes written to items so far, and bytes per tick.
    written: TallyU64,
    every: TallyU64,
}

impl Marks {
    pub(crate) fn new() -> Self {
        Self { noting: TallyU64::new(0), written: TallyU64::new(0), every: TallyU64::new(u64::MAX) }
    }

    #[inline(always)]
    fn noting(&self) -> PackedNoting {
        // ORDERING: Relaxed, a setting; nothing is read through it. The same holds for all below.
        PackedNoting(self.noting.load(Ordering::Relaxed))
    }

    fn set(&self, noting: Noting) {
        if let Noting::Ticks { every } = noting {
            let every = every.max(1);
            // The tick continues from its current value.
            let now = u64::from(self.tick());
            // ORDERING: Relaxed, as in `noting`.
            if self.every.swap(every, Ordering::Relaxed) != every {
                // ORDERING: Relaxed, as in `noting`.
                self.written.store(now * every, Ordering::Relaxed);
            }
        }
        // ORDERING: Relaxed, as in `noting`.
        self.noting.store(PackedNoting::of(noting, self.tick()).0, Ordering::Relaxed);
    }

    fn set_stamp(&self, stamp: u8) {
        let (old, new) = (self.noting(), PackedNoting::new(STAMP, stamp.into(), 0xff, stamp));
        if old.0 & MODE == STAMP && old.0 != new.0 {
            // A concurrent setting wins.
            // ORDERING: Relaxed, as in `noting`.
            let _ =
                self.noting.compare_exchange(old.0, new.0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn tick(&self) -> u8 {
        // ORDERING: Relaxed, as in `noting`.
        let (written, every) =
            (self.written.load(Ordering::Relaxed), self.every.load(Ordering::Relaxed));
        (written / every) as u8
    }

    /// Counts bytes written to items.
    pub(crate) fn wrote(&self, bytes: u64) {
        let noting = self.noting();
        if noting.0 & MODE != TICKS {
            return;
        }
        // ORDERING: Relaxed, as in `noting`.
        self.written.fetch_add(bytes, Ordering::Relaxed);
        let now = PackedNoting::ticks(self.tick());
        if now.0 != noting.0 {
            // A concurrent setting wins.
            // ORDERING: Relaxed, as in `noting`.
            let _ =
                self.noting.compare_exchange(noting.0, now.0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl<E: Engine> Index<Bytes, E> {
    /// Sets the method of recording accesses. Items keep their old bits until the next access, so a caller that
    /// changes the mode must review all items once.
    ///
    /// # Errors
    /// The sampling strategy uses the access bits itself.
    pub fn set_noting(&self, noting: Noting) -> Result<(), ConfigError> {
        self.can_note(noting)?;
        self.shared.kind.marks.set(noting);
        Ok(())
    }

    /// Checks whether the mode is possible.
    ///
    /// # Errors
    /// As [`set_noting`](Self::set_noting).
    pub fn can_note(&self, noting: Noting) -> Result<(), ConfigError> {
        if noting != Noting::Off && self.shared.config.strategy == Strategy::Sampling {
            return Err(ConfigError::Unsupported(
                "the sampling strategy counts where accesses would be noted: use another strategy, or \
                 an eviction policy that needs no notes",
            ));
        }
        Ok(())
    }

    /// While nothing else is recorded ([`Noting::Off`]), makes each access leave this stamp in the item.
    /// The caller defines the meaning of stamps and sets a new one as time passes. Without effect in other
    /// modes and with the sampling strategy.
    pub fn set_stamp(&self, stamp: u8) {
        if self.shared.config.strategy != Strategy::Sampling {
            self.shared.kind.marks.set_stamp(stamp);
        }
    }

    /// The stamp that accesses leave, if any.
    pub fn stamp(&self) -> Option<u8> {
        self.shared.kind.marks.noting().stamp()
    }

    /// The current tick, in mode [`Noting::Ticks`].
    pub fn tick(&self) -> u8 {
        self.shared.kind.marks.tick()
    }
}

/// The properties of an item in [`Session::review`], in addition to its entry.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// The hash of the key.
    pub hash: u64,
    /// Its access bits.
    pub bits: u8,
    /// Whether readers reach the item first, because it was accessed often.
    pub is_hot: bool,
}

impl<E: Engine> Session<Bytes, E> {
    /// Calls `f` with about `count` items from the position `cursor` (a hash with its bits reversed), including
    /// expired items. `f` returns the item's new bits and whether to continue. Returns the next position, or 0 at
    /// the end. Damaged items are skipped.
    pub fn review(
        &mut self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(Entry<'_>, Marked) -> (u8, bool),
    ) -> u64 {
        let count = count.max(1);
        let (mut last, mut goes_on) = (cursor, true);
        let mut pinned = self.pin();
        let (next, _) = E::scan(&mut pinned, cursor, count, |pinned, hit| {
            let hash = pinned.kind().item_hash(hit.item);
            last = last.max(hash.reverse_bits());
            if !goes_on || pinned.damage_of(hit.item).is_some() {
                return 1;
            }
            // ORDERING: Relaxed, only the bits are used. The word of a scan may lack them (G-Cuckoo).
            let word = Next(hit.item.next().load(Ordering::Relaxed));
            let marked = Marked { hash, bits: word.count() as u8, is_hot: E::is_hot(pinned, hit) };
            let (bits, on) = f(Seen::of(hit).entry(), marked);
            pinned.set_bits(hit, word, bits);
            goes_on = on;
            if on { 1 } else { count }
        });
        crate::bytes::past(cursor, next, last)
    }

    /// Sets whether accesses of this session are recorded. Default: true.
    pub fn set_noted(&mut self, noted: bool) {
        self.local().noted = noted;
    }

    /// Takes the hashes of the keys added by this session in mode [`Noting::Visits`] since the last call: at most
    /// 1,024; further hashes are dropped.
    pub fn take_entered(&mut self, mut f: impl FnMut(u64)) {
        self.local().entered.drain(..).for_each(&mut f);
    }

    /// The number of hashes that [`take_entered`](Self::take_entered) would return.
    #[inline]
    pub fn entered(&mut self) -> usize {
        self.local().entered.len()
    }
}

impl<E: Engine> Pinned<'_, Bytes, E> {
    /// The mode as it applies to this session.
    #[inline(always)]
    pub(crate) fn noting(&self) -> PackedNoting {
        self.shared.kind.marks.noting()
    }

    /// Records an access if necessary.
    #[inline(always)]
    pub(crate) fn mark_access(&mut self, hit: Hit) {
        let noting = self.noting();
        if noting.wants(hit.word) {
            self.note_access(hit, noting);
        }
    }

    #[cold]
    fn note_access(&mut self, hit: Hit, noting: PackedNoting) {
        if !self.local.noted || hit.word.is(MARK) {
            return;
        }
        let bits = noting.after(hit.word.count() as u8, || self.local.random());
        let (word, new) = (hit.word.0, hit.word.with_bits(bits).0);
        // ORDERING: the fault.
        wrong!(self, NoteStored => return hit.item.next().store(new, Ordering::Relaxed););
        // ORDERING: Relaxed, as in `set_bits`. One try: see above.
        let _ = hit.item.next().compare_exchange(word, new, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Sets the bits of an item whose word was `word`, unless it is dead.
    fn set_bits(&self, hit: Hit, mut word: Next, bits: u8) {
        let next = hit.item.next();
        wrong!(self, NoteTorn => {
            // ORDERING: the fault.
            next.fetch_and(!COUNTER, Ordering::Relaxed);
            // ORDERING: the fault.
            next.fetch_or(Next(0).with_bits(bits).0, Ordering::Relaxed);
            return;
        });
        while !word.is(MARK) && word.count() != u64::from(bits) {
            let new = word.with_bits(bits).0;
            // ORDERING: Relaxed: a read-modify-write keeps the release sequence, so a reader of the
            // successor from this word still sees everything that its writer published; the bits themselves
            // guard no other memory.
            match next.compare_exchange_weak(word.0, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = Next(now),
            }
        }
    }

    /// Sets the access bits of a private item that is about to replace `old` or to be inserted.
    #[inline(always)]
    pub(crate) fn mark(&mut self, item: Item, old: Option<Hit>) {
        let noting = self.noting();
        if !noting.is_off() {
            self.mark_new(item, old, noting);
        }
    }

    #[cold]
    fn mark_new(&mut self, item: Item, old: Option<Hit>, noting: PackedNoting) {
        let bits = match old {
            None => noting.fresh(),
            Some(old) => {
                let bits = old.word.count() as u8;
                if self.local.noted { noting.after(bits, || self.local.random()) } else { bits }
            }
        };
        // ORDERING: Relaxed, the item is private.
        let next = Next(item.next().load(Ordering::Relaxed)).with_bits(bits);
        // ORDERING: Relaxed, as above.
        item.next().store(next.0, Ordering::Relaxed);
    }

    /// Records the hash of a new key if the policy needs it.
    #[inline(always)]
    pub(crate) fn note_entered(&mut self, hash: u64) {
        if self.noting().0 & MODE == VISITS {
            self.keep_entered(hash);
        }
    }

    #[cold]
    fn keep_entered(&mut self, hash: u64) {
        if self.local.entered.len() < ENTERED_MAX {
            self.local.entered.push(hash);
        }
    }
}
