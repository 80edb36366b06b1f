//! The handle of an item: the value that a lane holds for it, which is the item's address. Under loom a lane has only
//! 32 bits for it, so there the handle is a number.

use crate::core::item::Item;

/// The handle of an item.
#[cfg(not(loom))]
#[inline(always)]
pub(super) fn of(item: Item) -> u64 {
    item.address()
}

/// The item of a handle.
///
/// # Safety
/// The handle is from `of`, and P holds for the item.
#[cfg(not(loom))]
#[inline(always)]
pub(super) unsafe fn item(handle: u64) -> Item {
    // SAFETY: the caller's promise.
    unsafe { Item::at(handle) }
}

/// All addresses that have a number. The mutex is a real one, so that it adds no memory order to
/// the model.
#[cfg(loom)]
static ADDRESSES: std::sync::Mutex<(Vec<u64>, std::collections::BTreeMap<u64, u64>)> =
    std::sync::Mutex::new((Vec::new(), std::collections::BTreeMap::new()));

/// As above.
#[cfg(loom)]
pub(super) fn of(item: Item) -> u64 {
    let mut all = ADDRESSES.lock().expect("no code under this lock panics");
    let (addresses, numbers) = &mut *all;
    *numbers.entry(item.address()).or_insert_with(|| {
        addresses.push(item.address());
        addresses.len() as u64
    })
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(loom)]
pub(super) unsafe fn item(handle: u64) -> Item {
    let address = ADDRESSES.lock().expect("no code under this lock panics").0[handle as usize - 1];
    // SAFETY: the caller's promise.
    unsafe { Item::at(address) }
}
