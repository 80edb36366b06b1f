//! Hash maps behind locks, as servers in many languages have them: one mutex, one reader-writer lock, and one
//! reader-writer lock per segment.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::hash::DefaultHasher;
use std::sync::{Mutex, PoisonError, RwLock};

use crate::targets::{Engine, Session, Target, named};
use crate::workload::mix::mix;

type Map = HashMap<u64, u64, BuildHasherDefault<DefaultHasher>>;

/// Segments of the finest map. The paper does not state its number.
const SEGMENTS: usize = 64;

/// All three maps, empty.
pub fn all() -> [Box<dyn Target>; 3] {
    [one_lock(), readers_lock(), named("segment locks", Segments::default())]
}

/// A map in one mutex.
pub fn one_lock() -> Box<dyn Target> {
    named("one mutex", OneLock::default())
}

fn readers_lock() -> Box<dyn Target> {
    named("readers-writer lock", ReadersLock::default())
}

/// A map guarded by a lock.
trait Locked: Send + Sync {
    fn read<R>(&self, key: u64, see: impl FnOnce(&Map) -> R) -> R;
    fn write<R>(&self, key: u64, change: impl FnOnce(&mut Map) -> R) -> R;
}

#[derive(Default)]
struct OneLock(Mutex<Map>);

#[derive(Default)]
struct ReadersLock(RwLock<Map>);

struct Segments(Vec<ReadersLock>);

impl Default for Segments {
    fn default() -> Self {
        Segments((0..SEGMENTS).map(|_| ReadersLock::default()).collect())
    }
}

impl Segments {
    fn of(&self, key: u64) -> &ReadersLock {
        &self.0[mix(key) as usize % SEGMENTS]
    }
}

// No lock is held while code may panic, so none is ever poisoned.
impl Locked for OneLock {
    fn read<R>(&self, _: u64, see: impl FnOnce(&Map) -> R) -> R {
        see(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, _: u64, change: impl FnOnce(&mut Map) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Locked for ReadersLock {
    fn read<R>(&self, _: u64, see: impl FnOnce(&Map) -> R) -> R {
        see(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<R>(&self, _: u64, change: impl FnOnce(&mut Map) -> R) -> R {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Locked for Segments {
    fn read<R>(&self, key: u64, see: impl FnOnce(&Map) -> R) -> R {
        self.of(key).read(key, see)
    }

    fn write<R>(&self, key: u64, change: impl FnOnce(&mut Map) -> R) -> R {
        self.of(key).write(key, change)
    }
}

/// A session of a shared map, which is a reference to the map.
struct Locking<'l, L>(&'l L);

macro_rules! engine {
    ($($locked:ty),*) => { $(
        impl Engine for $locked {
            type Session<'a> = Locking<'a, Self>;

            fn session(&self) -> Self::Session<'_> {
                Locking(self)
            }
        }
    )* };
}

engine!(OneLock, ReadersLock, Segments);

impl<L: Locked> Session for Locking<'_, L> {
    fn get(&mut self, key: u64) -> Option<u64> {
        self.0.read(key, |map| map.get(&key).copied())
    }

    fn put(&mut self, key: u64, value: u64) {
        self.0.write(key, |map| map.insert(key, value));
    }

    fn remove(&mut self, key: u64) {
        self.0.write(key, |map| map.remove(&key));
    }

    fn add(&mut self, key: u64, by: u64) {
        self.0.write(key, |map| {
            if let Some(value) = map.get_mut(&key) {
                *value = value.wrapping_add(by);
            }
        });
    }
}
