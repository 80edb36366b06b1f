//! Which items go when memory is short. Policies know hashes and a few bits of each item, and own neither
//! items nor memory: [`heat`], and those of `sampled`, which compare a few keys. `ops/evict.rs` makes room with
//! them; keys that never go are in `pins.rs`.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_index::{Entry, Noting};

use crate::idle::Dated;
use crate::pins::Pins;
use heat::Heat;
use sampled::Sampled;

mod ghosts;
pub mod heat;
mod queue;
pub(crate) mod sampled;

/// The choice of victims for a write at the limit of all memory
/// ([`Store::set_memory_max`](crate::Store::set_memory_max)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum EvictionPolicy {
    /// Nothing: the write is refused.
    #[default]
    NoEviction,
    /// First items not visited again soon, then those not visited for longest: of the class of S3-FIFO.
    Heat,
    /// The one of a few keys that was not accessed for longest.
    AllKeysLru,
    /// The one of a few keys that was accessed least often.
    AllKeysLfu,
    /// Any key.
    AllKeysRandom,
    /// As `AllKeysLru`, of keys with an expiry.
    ExpiringLru,
    /// As `AllKeysLfu`, of keys with an expiry.
    ExpiringLfu,
    /// Any key with an expiry.
    ExpiringRandom,
    /// The one of a few keys that expires first.
    ExpiringTtl,
}

use EvictionPolicy as Policy;

impl EvictionPolicy {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::NoEviction,
        Self::Heat,
        Self::AllKeysLru,
        Self::AllKeysLfu,
        Self::AllKeysRandom,
        Self::ExpiringLru,
        Self::ExpiringLfu,
        Self::ExpiringRandom,
        Self::ExpiringTtl,
    ];

    /// Whether only keys with an expiry go.
    pub fn takes_expiring_only(self) -> bool {
        matches!(
            self,
            Self::ExpiringLru | Self::ExpiringLfu | Self::ExpiringRandom | Self::ExpiringTtl
        )
    }

    /// Whether it goes by the last accesses.
    pub fn is_lru(self) -> bool {
        matches!(self, Self::AllKeysLru | Self::ExpiringLru)
    }

    /// Whether it goes by how often keys are accessed.
    pub fn is_lfu(self) -> bool {
        matches!(self, Self::AllKeysLfu | Self::ExpiringLfu)
    }
}

/// A key that is to go.
pub(crate) struct Victim {
    pub(crate) key: Box<[u8]>,
    pub(crate) hash: u64,
    pub(crate) footprint: u64,
}

impl Victim {
    pub(crate) fn of(entry: &Entry<'_>, hash: u64) -> Self {
        Victim { key: entry.key.into(), hash, footprint: entry.footprint as u64 }
    }
}

/// How the store evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionOptions {
    /// The choice of victims.
    pub policy: EvictionPolicy,
    /// Keys that the policies compare that draw samples, for each that goes: 1 to 64.
    pub samples: usize,
    /// How much slower a count of accesses grows the greater it is.
    pub frequency_log_factor: u16,
}

impl Default for EvictionOptions {
    fn default() -> Self {
        EvictionOptions { policy: Policy::NoEviction, samples: 5, frequency_log_factor: 10 }
    }
}

/// The memory for which ticks are counted where there is no limit.
const UNLIMITED: u64 = 64 << 30;

impl EvictionOptions {
    /// How accesses must be marked under this limit of memory.
    pub(crate) fn marking(self, memory_max: u64) -> Noting {
        match self.policy {
            Policy::Heat => Noting::Visits { fresh: YOUNG },
            policy if policy.is_lru() => Noting::Ticks { every: memory_max / TICKS_A_TURN },
            policy if policy.is_lfu() => {
                Noting::Frequency { log_factor: self.frequency_log_factor }
            }
            _ => Noting::Off,
        }
    }
}

/// Bits of an item under [`Policy::Heat`], above the two of its visits.
pub(crate) const YOUNG: u8 = 1 << 2;
/// It was spared once because reads come to it first.
pub(crate) const SPARED: u8 = 1 << 3;

/// Ticks of [`Noting::Ticks`] in which all of the memory is written once.
const TICKS_A_TURN: u64 = 128;

/// The eviction state shared by all sessions of a store.
pub(crate) struct Eviction {
    policy: AtomicU8,
    samples: AtomicU64,
    frequency_log_factor: AtomicU64,
    /// Of the memory for which ticks are counted.
    memory_max: AtomicU64,
    heat: Mutex<Heat>,
    sampled: Mutex<Sampled>,
    pub(crate) pins: Pins,
    pub(crate) dated: Dated,
    evicted: AtomicU64,
    /// Memory of `heat`, as it was when it was last used.
    heat_bytes: AtomicUsize,
    /// Changes of how accesses are marked.
    marking_changes: AtomicU64,
}

impl Eviction {
    pub(crate) fn new(seed: u64) -> Self {
        let options = EvictionOptions::default();
        Eviction {
            policy: AtomicU8::new(options.policy as u8),
            samples: AtomicU64::new(options.samples as u64),
            frequency_log_factor: AtomicU64::new(options.frequency_log_factor.into()),
            memory_max: AtomicU64::new(u64::MAX),
            heat: Mutex::new(Heat::new()),
            sampled: Mutex::new(Sampled::new(seed)),
            pins: Pins::new(),
            dated: Dated::default(),
            evicted: AtomicU64::new(0),
            heat_bytes: AtomicUsize::new(0),
            marking_changes: AtomicU64::new(0),
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        // ORDERING: Relaxed, a setting; nothing is read through it. So for all numbers here.
        Policy::ALL[usize::from(self.policy.load(Ordering::Relaxed))]
    }

    fn options(&self) -> EvictionOptions {
        // ORDERING: Relaxed, as in `policy`.
        let frequency_log_factor = self.frequency_log_factor.load(Ordering::Relaxed) as u16;
        EvictionOptions { policy: self.policy(), samples: self.samples(), frequency_log_factor }
    }

    /// Takes the options and adapts the recording of accesses.
    pub(crate) fn set(&self, options: EvictionOptions) -> Noting {
        let before = self.marking();
        // ORDERING: Relaxed, as in `policy`.
        self.samples.store(options.samples.clamp(1, 64) as u64, Ordering::Relaxed);
        // ORDERING: Relaxed, as in `policy`.
        self.frequency_log_factor.store(options.frequency_log_factor.into(), Ordering::Relaxed);
        if self.policy() != options.policy {
            // The state of one policy means nothing to another.
            drop(self.empty_heat());
            self.sampled().clear();
        }
        // ORDERING: Relaxed, as in `policy`.
        self.policy.store(options.policy as u8, Ordering::Relaxed);
        self.changed_marking(before)
    }

    /// Takes the limit of all memory and adapts the recording of accesses.
    pub(crate) fn set_memory_max(&self, bytes: u64) -> Noting {
        let before = self.marking();
        // ORDERING: Relaxed, as in `policy`.
        self.memory_max.store(bytes, Ordering::Relaxed);
        self.changed_marking(before)
    }

    /// How accesses are marked from now on; counts a change.
    fn changed_marking(&self, before: Noting) -> Noting {
        let marking = self.marking();
        if std::mem::discriminant(&marking) != std::mem::discriminant(&before) {
            // ORDERING: Relaxed, as in `policy`.
            self.marking_changes.fetch_add(1, Ordering::Relaxed);
        }
        marking
    }

    /// Nothing is evicted without a limit, but requests for a key's accesses must still be answered.
    fn marking(&self) -> Noting {
        // ORDERING: Relaxed, as in `policy`.
        let max = self.memory_max.load(Ordering::Relaxed);
        match self.policy() {
            Policy::Heat if max == u64::MAX => Noting::Off,
            _ => self.options().marking(max.min(UNLIMITED)),
        }
    }

    pub(crate) fn samples(&self) -> usize {
        // ORDERING: Relaxed, as in `policy`.
        self.samples.load(Ordering::Relaxed) as usize
    }

    /// Counts a key that was chosen, if it went.
    pub(crate) fn count_evicted(&self, went: bool) {
        // ORDERING: Relaxed, a count.
        self.evicted.fetch_add(went.into(), Ordering::Relaxed);
    }

    /// Keys that were evicted so far.
    pub(crate) fn evicted(&self) -> u64 {
        // ORDERING: Relaxed, a count.
        self.evicted.load(Ordering::Relaxed)
    }

    /// Memory that the policy and the pins take.
    pub(crate) fn bytes(&self) -> usize {
        // ORDERING: Relaxed, a figure.
        self.heat_bytes.load(Ordering::Relaxed) + self.pins.bytes()
    }

    /// See [`Store::notings`](crate::Store::notings).
    pub(crate) fn marking_changes(&self) -> u64 {
        // ORDERING: Relaxed, as in `policy`.
        self.marking_changes.load(Ordering::Relaxed)
    }

    pub(crate) fn note_bytes(&self, heat: &Heat) {
        // ORDERING: Relaxed, as in `bytes`.
        self.heat_bytes.store(heat.bytes(), Ordering::Relaxed);
    }

    /// All keys are gone. The caller must drop the result while no client waits.
    #[must_use]
    pub(crate) fn cleared(&self) -> impl Sized + use<> {
        self.sampled().clear();
        (self.empty_heat(), self.pins.clear())
    }

    /// Drops the state of heat.
    fn empty_heat(&self) -> Heat {
        let mut heat = self.heat();
        let before = std::mem::take(&mut *heat);
        self.note_bytes(&heat);
        before
    }

    pub(crate) fn heat(&self) -> MutexGuard<'_, Heat> {
        // Each call leaves it whole, whatever panicked.
        self.heat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sampled(&self) -> MutexGuard<'_, Sampled> {
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
