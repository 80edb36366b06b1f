//! Maps written in C++. Each operation is a call that is not inlined, which costs a nanosecond or two that C++
//! users of these maps do not pay.

use anyhow::{Context, Result};
use hotring_cpp_peers::{Library, StringMap, WordMap};

use super::{BytesEngine, BytesSession, Engine, Session};

/// A map of words.
///
/// # Errors
/// The library is not built in.
pub fn words(library: Library) -> Result<WordMap> {
    WordMap::new(library).with_context(|| absent(library))
}

/// A map of byte strings.
///
/// # Errors
/// The library is not built in.
pub fn strings(library: Library) -> Result<StringMap> {
    StringMap::new(library).with_context(|| absent(library))
}

fn absent(library: Library) -> String {
    format!("it is not built in: {}, then build again", library.install())
}

impl Engine for WordMap {
    type Session<'a> = &'a WordMap;

    fn session(&self) -> Self::Session<'_> {
        self
    }
}

impl Session for &WordMap {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        WordMap::get(self, key)
    }

    fn put(&mut self, key: u64, value: u64) {
        WordMap::put(self, key, value);
    }

    fn remove(&mut self, key: u64) {
        WordMap::remove(self, key);
    }

    fn add(&mut self, key: u64, by: u64) {
        WordMap::add(self, key, by);
    }
}

impl BytesEngine for StringMap {
    type Session<'a> = &'a StringMap;

    fn session(&self) -> Self::Session<'_> {
        self
    }
}

impl BytesSession for &StringMap {
    fn get<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Option<R> {
        StringMap::get(self, key, see)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        StringMap::put(self, key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        StringMap::remove(self, key);
    }
}
