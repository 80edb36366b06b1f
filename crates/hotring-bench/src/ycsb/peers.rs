//! Concurrent hash maps from crates.io, all with one fast hasher, so that maps are compared and not
//! the hashers that they come with.

use std::hash::{BuildHasher, Hasher};

use super::target::{Engine, Named, Session, Target};

/// Hashes a `u64` by one wide multiplication, folded: about what hotring's `u64` items pay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fold(u64);

impl BuildHasher for Fold {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        let wide = u128::from(self.0 ^ key ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// papaya's lock-free map.
pub fn papaya() -> Box<dyn Target> {
    Box::new(Named {
        name: "papaya".into(),
        engine: papaya::HashMap::<u64, u64, Fold>::with_hasher(Fold::default()),
    })
}

/// dashmap: shards behind locks.
pub fn dashmap() -> Box<dyn Target> {
    Box::new(Named {
        name: "dashmap".into(),
        engine: dashmap::DashMap::<u64, u64, Fold>::with_hasher(Fold::default()),
    })
}

/// scc: buckets behind locks.
pub fn scc() -> Box<dyn Target> {
    Box::new(Named {
        name: "scc".into(),
        engine: scc::HashMap::<u64, u64, Fold>::with_hasher(Fold::default()),
    })
}

impl Engine for papaya::HashMap<u64, u64, Fold> {
    // A pin that is held over the run, which is papaya's fastest way of use.
    type Session<'a> = papaya::HashMapRef<'a, u64, u64, Fold, papaya::LocalGuard<'a>>;

    fn session(&self) -> Self::Session<'_> {
        self.pin()
    }
}

impl Session for papaya::HashMapRef<'_, u64, u64, Fold, papaya::LocalGuard<'_>> {
    fn get(&mut self, key: u64) -> Option<u64> {
        papaya::HashMapRef::get(self, &key).copied()
    }

    fn put(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn remove(&mut self, key: u64) {
        papaya::HashMapRef::remove(self, &key);
    }

    fn add(&mut self, key: u64, by: u64) {
        self.update(key, |value| value.wrapping_add(by));
    }
}

impl Engine for dashmap::DashMap<u64, u64, Fold> {
    type Session<'a> = &'a dashmap::DashMap<u64, u64, Fold>;

    fn session(&self) -> Self::Session<'_> {
        self
    }
}

impl Session for &dashmap::DashMap<u64, u64, Fold> {
    fn get(&mut self, key: u64) -> Option<u64> {
        dashmap::DashMap::get(self, &key).map(|entry| *entry)
    }

    fn put(&mut self, key: u64, value: u64) {
        self.insert(key, value);
    }

    fn remove(&mut self, key: u64) {
        dashmap::DashMap::remove(self, &key);
    }

    fn add(&mut self, key: u64, by: u64) {
        if let Some(mut entry) = self.get_mut(&key) {
            *entry = entry.wrapping_add(by);
        }
    }
}

impl Engine for scc::HashMap<u64, u64, Fold> {
    type Session<'a> = &'a scc::HashMap<u64, u64, Fold>;

    fn session(&self) -> Self::Session<'_> {
        self
    }
}

impl Session for &scc::HashMap<u64, u64, Fold> {
    fn get(&mut self, key: u64) -> Option<u64> {
        self.read_sync(&key, |_, value| *value)
    }

    fn put(&mut self, key: u64, value: u64) {
        self.upsert_sync(key, value);
    }

    fn remove(&mut self, key: u64) {
        self.remove_sync(&key);
    }

    fn add(&mut self, key: u64, by: u64) {
        self.update_sync(&key, |_, value| *value = value.wrapping_add(by));
    }
}
