//! Eviction: the choice of victims when memory is short. Policies know the hashes and a few bits of each item; they own
//! neither items nor memory. There are [`heat`] and the sampling policies of `sampled`, which compare a few keys.
//! `ops/evict.rs` frees memory with them; `pins.rs` has the keys that are never evicted.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_index::{Entry, Noting};

use crate::grounds::{Grounds, Standing};
use crate::idle::IdleClock;
use crate::pins::Pins;
use heat::Heat;
use sampled::Sampled;

mod ghosts;
pub mod heat;
mod queue;
pub(crate) mod sampled;

/// The eviction policy, which chooses victims when a write finds the memory limit reached
/// ([`Store::set_memory_max`](crate::Store::set_memory_max)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum EvictionPolicy {
    /// Nothing is evicted: the write is refused.
    #[default]
    NoEviction,
    /// First items that are not visited again soon, then the items not visited for longest; a policy of the S3-FIFO
    /// class.
    Heat,
    /// The least recently used of a few sampled keys.
    AllKeysLru,
    /// The least frequently used of a few sampled keys.
    AllKeysLfu,
    /// A random key.
    AllKeysRandom,
    /// Like `AllKeysLru`, among keys with an expiry.
    ExpiringLru,
    /// Like `AllKeysLfu`, among keys with an expiry.
    ExpiringLfu,
    /// A random key with an expiry.
    ExpiringRandom,
    /// The one of a few sampled keys that expires first.
    ExpiringTtl,
}

use EvictionPolicy as Policy;

impl EvictionPolicy {
    /// All policies.
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

    /// Whether the policy evicts only keys with an expiry.
    pub fn takes_expiring_only(self) -> bool {
        matches!(
            self,
            Self::ExpiringLru | Self::ExpiringLfu | Self::ExpiringRandom | Self::ExpiringTtl
        )
    }

    /// Whether the policy goes by the time of the last access.
    pub fn is_lru(self) -> bool {
        matches!(self, Self::AllKeysLru | Self::ExpiringLru)
    }

    /// Whether the policy goes by the frequency of accesses.
    pub fn is_lfu(self) -> bool {
        matches!(self, Self::AllKeysLfu | Self::ExpiringLfu)
    }
}

/// A key chosen for eviction.
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

/// The keys that must not be evicted: the pinned ones, and those that are not the clients' at present.
#[derive(Clone, Copy)]
pub(crate) struct Spared<'a> {
    pub(crate) pins: &'a Pins,
    pub(crate) grounds: Option<&'a Grounds>,
}

impl Spared<'_> {
    pub(crate) fn has(self, key: &[u8]) -> bool {
        self.pins.has(key)
            || self.grounds.is_some_and(|grounds| grounds.standing(key) != Standing::Open)
    }
}

/// Settings of the eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionOptions {
    /// The policy that chooses victims.
    pub policy: EvictionPolicy,
    /// Keys that a sampling policy compares for each eviction: 1 to 64.
    pub samples: usize,
    /// Slows the growth of an access count with its value: the higher the factor, the more accesses an increment takes.
    pub frequency_log_factor: u16,
}

impl Default for EvictionOptions {
    fn default() -> Self {
        EvictionOptions { policy: Policy::NoEviction, samples: 5, frequency_log_factor: 10 }
    }
}

/// The limit assumed for counting ticks if there is no memory limit.
const UNLIMITED: u64 = 64 << 30;

impl EvictionOptions {
    /// The recording of accesses that the policy needs under this memory limit.
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

/// Bit of a young item under [`Policy::Heat`], above the two bits of its visits.
pub(crate) const YOUNG: u8 = 1 << 2;
/// Bit of an item that was spared once because it is hot: reads reach it first.
pub(crate) const SPARED: u8 = 1 << 3;

/// Ticks of [`Noting::Ticks`] in which as many bytes are written as the memory limit allows: a turn.
const TICKS_A_TURN: u64 = 128;

/// The eviction state of a database, shared by all sessions.
pub(crate) struct Eviction {
    policy: AtomicU8,
    samples: AtomicU64,
    frequency_log_factor: AtomicU64,
    /// The memory limit in bytes, from which the length of a tick follows.
    memory_max: AtomicU64,
    heat: Mutex<Heat>,
    sampled: Mutex<Sampled>,
    pub(crate) pins: Pins,
    pub(crate) idle_clock: IdleClock,
    evicted: AtomicU64,
    /// Memory of `heat` in bytes, as of its last use.
    heat_bytes: AtomicUsize,
    /// Changes of the meaning of the access bits.
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
            idle_clock: IdleClock::default(),
            evicted: AtomicU64::new(0),
            heat_bytes: AtomicUsize::new(0),
            marking_changes: AtomicU64::new(0),
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        // ORDERING: Relaxed, a setting that publishes no other memory. The same holds for all numbers of this type.
        Policy::ALL[usize::from(self.policy.load(Ordering::Relaxed))]
    }

    fn options(&self) -> EvictionOptions {
        // ORDERING: Relaxed, as in `policy`.
        let frequency_log_factor = self.frequency_log_factor.load(Ordering::Relaxed) as u16;
        EvictionOptions { policy: self.policy(), samples: self.samples(), frequency_log_factor }
    }

    /// Sets the options. Returns the recording of accesses that they need.
    pub(crate) fn set(&self, options: EvictionOptions) -> Noting {
        let before = self.marking();
        // ORDERING: Relaxed, as in `policy`.
        self.samples.store(options.samples.clamp(1, 64) as u64, Ordering::Relaxed);
        // ORDERING: Relaxed, as in `policy`.
        self.frequency_log_factor.store(options.frequency_log_factor.into(), Ordering::Relaxed);
        if self.policy() != options.policy {
            // The state of a policy is meaningless to another one.
            drop(self.empty_heat());
            self.sampled().clear();
        }
        // ORDERING: Relaxed, as in `policy`.
        self.policy.store(options.policy as u8, Ordering::Relaxed);
        self.changed_marking(before)
    }

    /// Sets the memory limit. Returns the recording of accesses that it needs.
    pub(crate) fn set_memory_max(&self, bytes: u64) -> Noting {
        let before = self.marking();
        // ORDERING: Relaxed, as in `policy`.
        self.memory_max.store(bytes, Ordering::Relaxed);
        self.changed_marking(before)
    }

    /// The recording of accesses from now on; counts a change of its kind.
    fn changed_marking(&self, before: Noting) -> Noting {
        let marking = self.marking();
        if std::mem::discriminant(&marking) != std::mem::discriminant(&before) {
            // ORDERING: Relaxed, as in `policy`.
            self.marking_changes.fetch_add(1, Ordering::Relaxed);
        }
        marking
    }

    /// The recording of accesses that the present settings need. Without a limit nothing is evicted, but queries for a
    /// key's accesses must still be answered.
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

    /// Counts a victim, if it was removed.
    pub(crate) fn count_evicted(&self, went: bool) {
        // ORDERING: Relaxed, a count.
        self.evicted.fetch_add(went.into(), Ordering::Relaxed);
    }

    /// Number of evicted keys.
    pub(crate) fn evicted(&self) -> u64 {
        // ORDERING: Relaxed, a count.
        self.evicted.load(Ordering::Relaxed)
    }

    /// Memory of the policy and the pins, in bytes.
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

    /// Resets the state after all keys were removed. The caller must drop the result while no client waits.
    #[must_use]
    pub(crate) fn cleared(&self) -> impl Sized + use<> {
        self.sampled().clear();
        (self.empty_heat(), self.pins.clear())
    }

    /// Takes the state of `heat` out and leaves an empty one.
    fn empty_heat(&self) -> Heat {
        let mut heat = self.heat();
        let before = std::mem::take(&mut *heat);
        self.note_bytes(&heat);
        before
    }

    pub(crate) fn heat(&self) -> MutexGuard<'_, Heat> {
        // A panic leaves the policy usable, so a poisoned lock is, too.
        self.heat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sampled(&self) -> MutexGuard<'_, Sampled> {
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
