//! Lines as a target.

use hotring_index::{Lines, LinesSession};

use super::{Engine, Session};

impl Engine for Lines {
    type Session<'a> = LinesSession;

    fn session(&self) -> Self::Session<'_> {
        Lines::session(self)
    }

    fn index_bytes(&self) -> Option<u64> {
        Some(self.stats().table_bytes)
    }
}

impl Session for LinesSession {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        Self::get(self, key)
    }

    fn put(&mut self, key: u64, value: u64) {
        Self::put(self, key, value);
    }

    fn remove(&mut self, key: u64) {
        Self::remove(self, key);
    }

    fn add(&mut self, key: u64, by: u64) {
        self.fetch_add(key, by);
    }

    fn settle(&mut self) {
        while self.maintain() {}
    }

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        Self::get_many(self, keys, values);
    }
}
