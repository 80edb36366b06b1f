//! An item as an engine sees it: its `next` word, and its hash and key through [`Kind`].

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
/// Every `Item` in this crate is obtained in one of those two ways and used only until the pin
/// ends or the maker gives the item up. That is the invariant **P** that SAFETY comments cite: the
/// item's memory is initialised and not freed (each engine says why; for the ring, P3 and P4 in
/// `ring`).
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

    /// Where the item is.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// Where the item is, as a pointer.
    #[inline(always)]
    pub fn start(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// The item's `next` word. The lifetime is that of the pin, which the caller keeps to.
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
    /// Bytes at the start of an item that a lookup of a small one reads.
    #[doc(hidden)]
    const LOOKED_AT: usize;
    /// Refuses settings that this kind has no use for.
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
    /// The order of the item's key and `key`, which hash to the same value.
    #[doc(hidden)]
    fn key_cmp(&self, item: Item, key: &Self::Key) -> Ordering;
    /// The item's key. The lifetime is that of the pin.
    #[doc(hidden)]
    fn key<'a>(item: Item) -> &'a Self::Key;
    /// Bytes that were allocated for the item; 0 if it is damaged so that they are not known.
    #[doc(hidden)]
    fn size(&self, item: Item) -> usize;
    /// As `size`, and whether the item has memory elsewhere.
    #[doc(hidden)]
    #[inline(always)]
    fn extent(&self, item: Item) -> (usize, bool) {
        (self.size(item), false)
    }
    /// Bytes outside of the item that become free with it.
    #[doc(hidden)]
    fn elsewhere(_item: Item) -> usize {
        0
    }
    /// Releases memory outside of the item. Called once, by the thread that frees the item.
    #[doc(hidden)]
    fn release(_item: Item) {}
    /// Whether the item has an expiry field (for the count of expiring items).
    #[doc(hidden)]
    fn expires(item: Item) -> bool;
    /// Counts this number of bytes written to items.
    #[doc(hidden)]
    fn wrote(&self, _bytes: u64) {}
    /// Stops changes of the item's value and expiry in place, for good.
    #[doc(hidden)]
    fn freeze(&self, item: Item);
    /// A private copy of a frozen item, in which nothing is frozen and no successor is set. Of an item
    /// that is damaged so that its size is not known the copy keeps the hash, and that it is damaged.
    /// `alloc` gives unused memory for this many bytes, 8-aligned.
    #[doc(hidden)]
    fn copy_of(&self, item: Item, alloc: impl FnOnce(usize) -> NonNull<u8>) -> Item;
}

/// An item that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Its key, or that of the read that met it. A walk cannot find the key if the item's flags or lengths
    /// are damaged; otherwise it reports the stored key, which may itself be damaged.
    pub key: Option<Box<[u8]>>,
}

pub mod sealed {
    pub trait Sealed {}
}
