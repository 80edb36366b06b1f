//! Bindings to hash maps written in C++ with which `hotring-bench` compares the index: libcuckoo's cuckoohash_map
//! and oneTBB's concurrent_hash_map, each for words and for byte strings.
//!
//! A map is available if the feature `link` is on and its headers were found when this crate was built;
//! `cpp/maps.h` declares the other side of the tables below.
//!
//! The calls are sound for three reasons. A table's functions must get only a map that the same table made and
//! has not dropped (M1). The maps themselves allow calls from several threads at a time (M2). A slice is passed
//! as its address and length, and the C++ side uses it only until the call returns (M3).
#![allow(unsafe_code)]

mod flush;

pub use flush::flush;

use std::ffi::c_void;
use std::ptr::NonNull;

/// Functions of a map of words.
#[repr(C)]
struct WordCalls {
    make: unsafe extern "C" fn() -> *mut c_void,
    drop: unsafe extern "C" fn(*mut c_void),
    get: unsafe extern "C" fn(*mut c_void, u64, *mut u64) -> bool,
    put: unsafe extern "C" fn(*mut c_void, u64, u64),
    remove: unsafe extern "C" fn(*mut c_void, u64),
    add: unsafe extern "C" fn(*mut c_void, u64, u64),
}

/// A callback that receives its context, and a value as address and length.
type See = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// Functions of a map of byte strings.
#[repr(C)]
struct StringCalls {
    make: unsafe extern "C" fn() -> *mut c_void,
    drop: unsafe extern "C" fn(*mut c_void),
    get: unsafe extern "C" fn(*mut c_void, *const u8, usize, See, *mut c_void) -> bool,
    put: unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize),
    remove: unsafe extern "C" fn(*mut c_void, *const u8, usize),
}

#[cfg(has_libcuckoo)]
// SAFETY: cpp/libcuckoo.cc defines them with the types of cpp/maps.h, which are those above, and they
// never change.
unsafe extern "C" {
    safe static hotring_libcuckoo_words: WordCalls;
    safe static hotring_libcuckoo_strings: StringCalls;
}

#[cfg(has_tbb)]
// SAFETY: as above, for cpp/tbb.cc.
unsafe extern "C" {
    safe static hotring_tbb_words: WordCalls;
    safe static hotring_tbb_strings: StringCalls;
}

/// A C++ library with a concurrent hash map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// libcuckoo.
    Libcuckoo,
    /// oneTBB.
    Tbb,
}

impl Library {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Libcuckoo, Self::Tbb];

    /// The command that installs the compiler and the library's headers.
    pub fn install(self) -> &'static str {
        match self {
            Self::Libcuckoo => "apt-get install g++ libcuckoo-dev",
            Self::Tbb => "apt-get install g++ libtbb-dev",
        }
    }

    fn words(self) -> Option<&'static WordCalls> {
        match self {
            #[cfg(has_libcuckoo)]
            Self::Libcuckoo => Some(&hotring_libcuckoo_words),
            #[cfg(has_tbb)]
            Self::Tbb => Some(&hotring_tbb_words),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }

    fn strings(self) -> Option<&'static StringCalls> {
        match self {
            #[cfg(has_libcuckoo)]
            Self::Libcuckoo => Some(&hotring_libcuckoo_strings),
            #[cfg(has_tbb)]
            Self::Tbb => Some(&hotring_tbb_strings),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }
}

/// A map from u64 to u64.
pub struct WordMap {
    calls: &'static WordCalls,
    map: NonNull<c_void>,
}

// SAFETY: M2.
unsafe impl Send for WordMap {}
// SAFETY: M2.
unsafe impl Sync for WordMap {}

impl WordMap {
    /// An empty map; None if the library was missing when this crate was built.
    pub fn new(library: Library) -> Option<Self> {
        let calls = library.words()?;
        // SAFETY: `make` has no preconditions.
        let map = NonNull::new(unsafe { (calls.make)() })?;
        Some(WordMap { calls, map })
    }

    /// The value of a key.
    pub fn get(&self, key: u64) -> Option<u64> {
        let mut value = 0;
        // SAFETY: M1, M2; the value is written to before the call returns.
        let found = unsafe { (self.calls.get)(self.map.as_ptr(), key, &raw mut value) };
        found.then_some(value)
    }

    /// Stores a value.
    pub fn put(&self, key: u64, value: u64) {
        // SAFETY: M1, M2.
        unsafe { (self.calls.put)(self.map.as_ptr(), key, value) }
    }

    /// Removes a key.
    pub fn remove(&self, key: u64) {
        // SAFETY: M1, M2.
        unsafe { (self.calls.remove)(self.map.as_ptr(), key) }
    }

    /// Adds to the value of an existing key.
    pub fn add(&self, key: u64, by: u64) {
        // SAFETY: M1, M2.
        unsafe { (self.calls.add)(self.map.as_ptr(), key, by) }
    }
}

impl Drop for WordMap {
    fn drop(&mut self) {
        // SAFETY: M1; the map is being dropped, so no other thread can use it.
        unsafe { (self.calls.drop)(self.map.as_ptr()) }
    }
}

/// A map of byte strings.
pub struct StringMap {
    calls: &'static StringCalls,
    map: NonNull<c_void>,
}

// SAFETY: M2.
unsafe impl Send for StringMap {}
// SAFETY: M2.
unsafe impl Sync for StringMap {}

impl StringMap {
    /// An empty map; None if the library was missing when this crate was built.
    pub fn new(library: Library) -> Option<Self> {
        let calls = library.strings()?;
        // SAFETY: `make` has no preconditions.
        let map = NonNull::new(unsafe { (calls.make)() })?;
        Some(StringMap { calls, map })
    }

    /// Calls `see` with the value of a key. `see` must not panic, nor use this map: the value is locked.
    pub fn get<R>(&self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.visit(key, Visit { see: Some(see), result: None })
    }

    fn visit<F: FnOnce(&[u8]) -> R, R>(&self, key: &[u8], mut visit: Visit<F, R>) -> Option<R> {
        let (map, by, context) = (self.map.as_ptr(), shown_to::<F, R>, (&raw mut visit).cast());
        // SAFETY: M1, M2, M3; the context is what `shown_to` for these types asks for.
        unsafe { (self.calls.get)(map, key.as_ptr(), key.len(), by, context) };
        visit.result
    }

    /// Stores a value.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        let (len, value_len) = (key.len(), value.len());
        // SAFETY: M1, M2, M3.
        unsafe {
            (self.calls.put)(self.map.as_ptr(), key.as_ptr(), len, value.as_ptr(), value_len);
        }
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) {
        // SAFETY: M1, M2, M3.
        unsafe { (self.calls.remove)(self.map.as_ptr(), key.as_ptr(), key.len()) }
    }
}

impl Drop for StringMap {
    fn drop(&mut self) {
        // SAFETY: M1; the map is being dropped, so no other thread can use it.
        unsafe { (self.calls.drop)(self.map.as_ptr()) }
    }
}

/// A closure that is passed through C++, and its result.
struct Visit<F, R> {
    see: Option<F>,
    result: Option<R>,
}

/// # Safety
/// `visit` points to a `Visit<F, R>` that no other thread uses, and `value` to `length` bytes that do not
/// change meanwhile.
unsafe extern "C" fn shown_to<F: FnOnce(&[u8]) -> R, R>(
    visit: *mut c_void,
    value: *const u8,
    length: usize,
) {
    // SAFETY: the caller's promise.
    let visit = unsafe { &mut *visit.cast::<Visit<F, R>>() };
    // SAFETY: the caller's promise.
    let value = unsafe { std::slice::from_raw_parts(value, length) };
    if let Some(see) = visit.see.take() {
        visit.result = Some(see(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_put_changed_and_removed() {
        for map in Library::ALL.into_iter().filter_map(WordMap::new) {
            (0..10_000).for_each(|key| map.put(key, key + 1));
            map.put(7, 70);
            map.add(7, 7);
            map.remove(8);
            map.add(8, 1);
            assert_eq!((map.get(7), map.get(8), map.get(9)), (Some(77), None, Some(10)));
        }
    }

    #[test]
    fn strings_of_any_length_are_put_changed_and_removed() {
        for map in Library::ALL.into_iter().filter_map(StringMap::new) {
            for length in 0..200 {
                map.put(&vec![b'k'; length], &vec![b'v'; 200 - length]);
            }
            map.put(b"kk", b"");
            map.remove(b"k");
            assert_eq!(map.get(b"kk", <[u8]>::len), Some(0));
            assert_eq!(map.get(b"k", <[u8]>::len), None);
            assert_eq!(map.get(b"", <[u8]>::to_vec), Some(vec![b'v'; 200]));
        }
    }

    #[test]
    fn threads_share_a_map() {
        for map in Library::ALL.into_iter().filter_map(WordMap::new) {
            map.put(1, 0);
            std::thread::scope(|scope| {
                (0..2).for_each(|_| {
                    scope.spawn(|| (0..1_000).for_each(|_| map.add(1, 1)));
                });
            });
            assert_eq!(map.get(1), Some(2_000));
        }
    }
}
