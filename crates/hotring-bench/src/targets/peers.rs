//! Concurrent hash maps from crates.io, all with the same fast hasher, so that the comparison is between maps and
//! not their default hashers.

use std::hash::{BuildHasher, Hasher};

use super::{BytesEngine, BytesSession, Engine, Session};

/// Hashes a `u64` by one folded wide multiplication, which costs about as much as the hash of hotring's `u64`
/// items.
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
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    /// Ignores the length of a byte string, because all have the same.
    fn write_usize(&mut self, _length: usize) {}

    fn write_u64(&mut self, key: u64) {
        let wide = u128::from(self.0 ^ key ^ 0x243f_6a88_85a3_08d3) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A byte string in a map.
pub type Text = Box<[u8]>;

/// papaya's lock-free map.
pub type Papaya<K, V> = papaya::HashMap<K, V, Fold>;
/// dashmap: shards behind locks.
pub type Dashmap<K, V> = dashmap::DashMap<K, V, Fold>;
/// scc: buckets behind locks.
pub type Scc<K, V> = scc::HashMap<K, V, Fold>;

impl Engine for Papaya<u64, u64> {
    // A map with a pin that is held over the run, papaya's fastest way of use.
    type Session<'a> = papaya::HashMapRef<'a, u64, u64, Fold, papaya::LocalGuard<'a>>;

    fn session(&self) -> Self::Session<'_> {
        self.pin()
    }
}

impl Session for papaya::HashMapRef<'_, u64, u64, Fold, papaya::LocalGuard<'_>> {
    #[inline(always)]
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

impl Engine for Dashmap<u64, u64> {
    type Session<'a> = &'a Dashmap<u64, u64>;

    fn session(&self) -> Self::Session<'_> {
        self
    }
}

impl Session for &Dashmap<u64, u64> {
    #[inline(always)]
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

impl Engine for Scc<u64, u64> {
    type Session<'a> = &'a Scc<u64, u64>;

    fn session(&self) -> Self::Session<'_> {
        self
    }
}

impl Session for &Scc<u64, u64> {
    #[inline(always)]
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

impl BytesEngine for Papaya<Text, Text> {
    type Session<'a> = papaya::HashMapRef<'a, Text, Text, Fold, papaya::LocalGuard<'a>>;

    fn session(&self) -> Self::Session<'_> {
        self.pin()
    }
}

impl BytesSession for papaya::HashMapRef<'_, Text, Text, Fold, papaya::LocalGuard<'_>> {
    fn get<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Option<R> {
        papaya::HashMapRef::get(self, key).map(|value| see(value))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }

    fn remove(&mut self, key: &[u8]) {
        papaya::HashMapRef::remove(self, key);
    }
}

impl BytesEngine for Dashmap<Text, Text> {
    type Session<'a> = &'a Dashmap<Text, Text>;

    fn session(&self) -> Self::Session<'_> {
        self
    }
}

impl BytesSession for &Dashmap<Text, Text> {
    fn get<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Option<R> {
        dashmap::DashMap::get(self, key).map(|entry| see(&entry))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }

    fn remove(&mut self, key: &[u8]) {
        dashmap::DashMap::remove(self, key);
    }
}

impl BytesEngine for Scc<Text, Text> {
    type Session<'a> = &'a Scc<Text, Text>;

    fn session(&self) -> Self::Session<'_> {
        self
    }
}

impl BytesSession for &Scc<Text, Text> {
    fn get<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.read_sync(key, |_, value| see(value))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.upsert_sync(key.into(), value.into());
    }

    fn remove(&mut self, key: &[u8]) {
        self.remove_sync(key);
    }
}

/// A masstree of words, which its leaves hold.
pub type Masstree = masstree::MassTree<u64>;
/// A masstree of byte strings, each behind a pointer.
pub type MasstreeOfText = masstree::MassTree15<Text>;

/// A tree with its guard, which is held over the run as papaya's is.
pub struct Guarded<'a, T, G> {
    tree: &'a T,
    guard: G,
}

/// A number as a key, with the highest byte first, so that trees hold numbers in order.
fn key_of(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

impl Engine for Masstree {
    type Session<'a> = Guarded<'a, Masstree, seize::LocalGuard<'a>>;

    fn session(&self) -> Self::Session<'_> {
        Guarded { tree: self, guard: self.guard() }
    }
}

impl Session for Guarded<'_, Masstree, seize::LocalGuard<'_>> {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.tree.get_with_guard(&key_of(key), &self.guard)
    }

    fn put(&mut self, key: u64, value: u64) {
        self.tree.insert_with_guard(&key_of(key), value, &self.guard);
    }

    fn remove(&mut self, key: u64) {
        let removed = self.tree.remove_with_guard(&key_of(key), &self.guard);
        removed.expect("a tree gives up a key that it has");
    }
}

impl BytesEngine for MasstreeOfText {
    type Session<'a> = Guarded<'a, MasstreeOfText, seize::LocalGuard<'a>>;

    fn session(&self) -> Self::Session<'_> {
        Guarded { tree: self, guard: self.guard() }
    }
}

impl BytesSession for Guarded<'_, MasstreeOfText, seize::LocalGuard<'_>> {
    fn get<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.tree.get_ref(key, &self.guard).map(|value| see(&value))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.tree.insert_with_guard(key, value.into(), &self.guard);
    }

    fn remove(&mut self, key: &[u8]) {
        let removed = self.tree.remove_with_guard(key, &self.guard);
        removed.expect("a tree gives up a key that it has");
    }
}
