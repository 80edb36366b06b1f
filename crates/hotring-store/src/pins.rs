//! Pinned keys, which are never evicted. A pin belongs to the key's name, whether or not the key exists, and stays
//! until it is removed or all keys are removed. (The report that proposed PIN says only that a key is not evicted until
//! it is unpinned.) Pins do not affect expiry and removal.
//!
//! Pinned keys may take only a share of the memory limit, so that eviction always finds a victim. Their size is
//! measured when they are pinned and at intervals (`Session::measure_pinned`). A value that grows beyond the share
//! stays pinned, but then no more keys can be pinned.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::error::StoreError;

/// Memory of an entry in the list in addition to the name itself, in bytes.
const NAME_BYTES: usize = 48;

/// The pinned names with the last measured bytes of each item, and the sums.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) items: BTreeMap<Box<[u8]>, usize>,
    list_bytes: usize,
    item_bytes: usize,
}

impl Names {
    /// Adds a name, or updates its measured size.
    pub(crate) fn set(&mut self, key: &[u8], bytes: usize) {
        match self.items.get_mut(key) {
            Some(known) => self.item_bytes -= std::mem::replace(known, bytes),
            None => {
                self.list_bytes += key.len() + NAME_BYTES;
                self.items.insert(key.into(), bytes);
            }
        }
        self.item_bytes += bytes;
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let Some(bytes) = self.items.remove(key) else { return false };
        self.list_bytes -= key.len() + NAME_BYTES;
        self.item_bytes -= bytes;
        true
    }
}

/// The pinned keys.
pub(crate) struct Pins {
    names: RwLock<Names>,
    /// Number of pinned keys. Evicting sessions read it first, so that they take no lock while nothing is pinned.
    count: AtomicUsize,
    /// Bytes of the list, and bytes of the items when last measured.
    list_bytes: AtomicUsize,
    item_bytes: AtomicUsize,
    bytes_max: AtomicUsize,
}

/// The size of the pinned keys and their limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Number of pinned keys.
    pub keys: usize,
    /// Bytes of their items when last measured, and of their names in the list.
    pub bytes: usize,
    /// Maximum of `bytes`.
    pub bytes_max: usize,
}

impl Pins {
    pub(crate) fn new() -> Self {
        Pins {
            names: RwLock::new(Names::default()),
            count: AtomicUsize::new(0),
            list_bytes: AtomicUsize::new(0),
            item_bytes: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(usize::MAX),
        }
    }

    pub(crate) fn names(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the list, and then publishes the sums.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut Names) -> R) -> R {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut names);
        // ORDERING: Relaxed, plain figures; a pinning session holds the key in the gate (`Session::pin`), which orders
        // the change before an evicting session's read. The same holds for the other atomics of this type.
        self.list_bytes.store(names.list_bytes, Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        self.item_bytes.store(names.item_bytes, Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        self.count.store(names.items.len(), Ordering::Relaxed);
        result
    }

    /// Whether the key is pinned. The answer is exact only within the gate of a write of the key.
    #[inline]
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        // ORDERING: Relaxed, as in `change`.
        self.count.load(Ordering::Relaxed) > 0 && self.names().items.contains_key(key)
    }

    pub(crate) fn set_bytes_max(&self, bytes: usize) {
        // ORDERING: Relaxed, a setting.
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Memory of the list, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        // ORDERING: Relaxed, as in `change`.
        self.list_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn pinned(&self) -> Pinned {
        // ORDERING: Relaxed, as in `change`. So for those below.
        let keys = self.count.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        let bytes = self.bytes() + self.item_bytes.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        Pinned { keys, bytes, bytes_max: self.bytes_max.load(Ordering::Relaxed) }
    }

    /// Pins these keys, given with the sizes of their items: all of them or, if they do not fit, none. Returns the
    /// number of newly pinned keys.
    pub(crate) fn pin(&self, keys: &[(&[u8], usize)]) -> Result<usize, StoreError> {
        self.change(|names| {
            let Pinned { bytes, bytes_max, .. } = self.pinned();
            let new: BTreeMap<&[u8], usize> =
                keys.iter().copied().filter(|(key, _)| !names.items.contains_key(*key)).collect();
            let wanted: usize = new.iter().map(|(key, item)| key.len() + NAME_BYTES + item).sum();
            if wanted > 0 && bytes.saturating_add(wanted) > bytes_max {
                return Err(StoreError::PinnedFull { bytes, wanted, bytes_max });
            }
            keys.iter().for_each(|(key, item)| names.set(key, *item));
            Ok(new.len())
        })
    }

    pub(crate) fn unpin(&self, keys: &[&[u8]]) -> usize {
        self.change(|names| keys.iter().filter(|key| names.remove(key)).count())
    }

    /// Removes all pins and returns them for dropping; called when all keys are removed.
    #[must_use]
    pub(crate) fn clear(&self) -> impl Sized + use<> {
        self.change(std::mem::take)
    }
}
