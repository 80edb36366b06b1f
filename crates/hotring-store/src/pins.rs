//! Keys that are never evicted, by name: a pin is on the key, whether or not it is there, and stays until it
//! is taken away or all keys are removed. (The report that proposed PIN says no more than that a key is not
//! evicted until it is unpinned.) Expiry and removal go on as ever.
//!
//! Pinned keys may take only a share of all memory, so that something can always be evicted. Their size is
//! measured when they are pinned and at intervals ([`Session::measure_pinned`]); a value that grows beyond
//! the share stays, and no more keys can be pinned.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::error::StoreError;

/// Memory of a name in the list, besides its length.
const NAME_BYTES: usize = 48;

/// The names, with the bytes of each item when it was last measured, and sums.
#[derive(Default)]
pub(crate) struct Names {
    pub(crate) items: BTreeMap<Box<[u8]>, usize>,
    list_bytes: usize,
    item_bytes: usize,
}

impl Names {
    /// Enters a name, or re-measures it.
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
    /// Their number, so that an evicting session need not look while there are none.
    count: AtomicUsize,
    /// Bytes of the list and of the items, as last measured.
    list_bytes: AtomicUsize,
    item_bytes: AtomicUsize,
    bytes_max: AtomicUsize,
}

/// How much is pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Keys.
    pub keys: usize,
    /// Bytes of their items when they were measured last, and of their names in the list.
    pub bytes: usize,
    /// The most that may be.
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

    /// Changes the list, and then the sums.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut Names) -> R) -> R {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut names);
        // ORDERING: Relaxed, numbers; a pinning session holds the gate of the key (`Session::pin`), which
        // orders it for the evicting session. So for all here.
        self.list_bytes.store(names.list_bytes, Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        self.item_bytes.store(names.item_bytes, Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        self.count.store(names.items.len(), Ordering::Relaxed);
        result
    }

    /// Whether the key is pinned. Certain within the gate of a write of the key.
    #[inline]
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        // ORDERING: Relaxed, as in `change`.
        self.count.load(Ordering::Relaxed) > 0 && self.names().items.contains_key(key)
    }

    pub(crate) fn set_bytes_max(&self, bytes: usize) {
        // ORDERING: Relaxed, a setting.
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Memory of the list.
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

    /// Pins these keys, whose items have this size, if all of them fit. Returns the number of new ones.
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

    /// All keys are gone, and with them their pins, which are returned.
    #[must_use]
    pub(crate) fn clear(&self) -> impl Sized + use<> {
        self.change(std::mem::take)
    }
}
