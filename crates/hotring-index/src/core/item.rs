//! The engine's view of an item: its `next` word, and its hash and key through [`Kind`].

use crate::core::config::{Config, ConfigError};
use crate::core::lifetime::Lifetime;
use crate::core::sync::AtomicU64;
use std::cmp::Ordering;
use std::ptr::NonNull;

/// The first word of every item.
#[repr(C)]
pub struct Header {
    pub next: AtomicU64,
    lifetime: Lifetime,
}

impl Header {
    pub fn new(next: u64) -> Self {
        Self { next: AtomicU64::new(next), lifetime: Lifetime::new() }
    }
}

/// A reference to an item that is private to its maker, or that was found under a pin.
///
/// Invariant **P**, cited by SAFETY comments: every `Item` is obtained in one of these two ways and must be
/// used only until the pin ends or the maker gives the item up. Until then the item's memory is
/// initialised and not freed. Each engine proves this; for the ring see P3 and P4 in `ring`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Item(NonNull<Header>);

impl Item {
    /// # Safety
    /// `at` is an initialised item, for which P holds.
    #[inline(always)]
    pub unsafe fn new(at: NonNull<u8>) -> Self {
        Self(at.cast())
    }

    /// # Safety
    /// `address` is the nonzero address of an item for which P holds.
    #[inline(always)]
    pub unsafe fn at(address: u64) -> Self {
        let at = std::ptr::with_exposed_provenance_mut::<Header>(address as usize);
        if cfg!(any(debug_assertions, loom, shuttle)) {
            assert!(!at.is_null(), "a link or hint without an address is no item");
        }
        // SAFETY: the caller vouches for a nonzero address.
        Self(unsafe { NonNull::new_unchecked(at) })
    }

    /// The item's address.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// The item's address, as a pointer.
    #[inline(always)]
    pub fn start(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// The item's `next` word. The caller must not use the reference after the pin ends.
    #[inline(always)]
    pub fn next<'a>(self) -> &'a AtomicU64 {
        // SAFETY: P.
        unsafe { &(*self.0.as_ptr()).next }
    }

    /// The checks of the item's lifetime.
    #[inline(always)]
    pub fn lifetime<'a>(self) -> &'a Lifetime {
        // SAFETY: P.
        unsafe { &(*self.0.as_ptr()).lifetime }
    }

    /// The word `offset` bytes into the item.
    ///
    /// # Safety
    /// The item's layout has an atomic word there.
    #[inline(always)]
    pub unsafe fn word<'a>(self, offset: usize) -> &'a AtomicU64 {
        // SAFETY: P, and the caller vouches for the layout; items are 8-aligned.
        unsafe { self.start().add(offset).cast::<AtomicU64>().as_ref() }
    }
}

/// A kind of item: `u64` to `u64` ([`crate::U64`]) or bytes to bytes ([`crate::Bytes`]).
///
/// Engines are written once, for any kind. Sealed: an implementation vouches for raw layouts.
pub trait Kind: sealed::Sealed + Send + Sync + Sized + 'static {
    /// The key type by which items are found.
    type Key: ?Sized;
    /// Hashes have at most this many bits.
    #[doc(hidden)]
    const HASH_BITS: u32 = 64;
    /// Bytes at the start of a small item that a lookup reads.
    #[doc(hidden)]
    const LOOKED_AT: usize;
    /// Makes the kind, or refuses settings that have no meaning for it.
    #[doc(hidden)]
    fn new(config: &Config) -> Result<Self, ConfigError>;
    /// Seeded hash; its low bits choose the bucket.
    #[doc(hidden)]
    fn hash(&self, key: &Self::Key) -> u64;
    #[doc(hidden)]
    fn item_hash(&self, item: Item) -> u64;
    /// Whether the item has this key, whose hash is `hash`.
    #[doc(hidden)]
    fn is(&self, item: Item, hash: u64, key: &Self::Key) -> bool;
    /// Compares the item's key with `key`. Both must have the same hash.
    #[doc(hidden)]
    fn key_cmp(&self, item: Item, key: &Self::Key) -> Ordering;
    /// The item's key. The caller must not use the reference after the pin ends.
    #[doc(hidden)]
    fn key<'a>(item: Item) -> &'a Self::Key;
    /// The number of bytes allocated for the item; 0 if damage makes it unknown.
    #[doc(hidden)]
    fn size(&self, item: Item) -> usize;
    /// The item's `size`, and whether the item owns memory outside itself.
    #[doc(hidden)]
    #[inline(always)]
    fn extent(&self, item: Item) -> (usize, bool) {
        (self.size(item), false)
    }
    /// Bytes outside the item that become free with it.
    #[doc(hidden)]
    fn elsewhere(_item: Item) -> usize {
        0
    }
    /// Releases memory outside the item. Called once, by the thread that frees the item.
    #[doc(hidden)]
    fn release(_item: Item) {}
    /// Whether the item has an expiry field (for the count of expiring items).
    #[doc(hidden)]
    fn expires(item: Item) -> bool;
    /// Counts this number of bytes written to items.
    #[doc(hidden)]
    fn wrote(&self, _bytes: u64) {}
    /// Permanently stops in-place changes of the item's value and expiry.
    #[doc(hidden)]
    fn freeze(&self, item: Item);
    /// A private copy of a frozen item. The copy is not frozen and has no successor. If damage makes the item's
    /// size unknown, the copy keeps only the hash and the fact that the item is damaged. `alloc` must return
    /// unused memory of the given number of bytes, 8-aligned.
    #[doc(hidden)]
    fn copy_of(&self, item: Item, alloc: impl FnOnce(usize) -> NonNull<u8>) -> Item;
}

/// A damaged item: its memory differs from the bytes that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The item's key, or the key of the read that met the item. A walk cannot find the key if the item's flags
    /// or lengths are damaged; otherwise it reports the stored key, which may itself be damaged.
    pub key: Option<Box<[u8]>>,
}

pub mod sealed {
    pub trait Sealed {}
}
