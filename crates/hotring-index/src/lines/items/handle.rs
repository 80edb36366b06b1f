//! What a lane has for an item: the item's address. Under loom a lane has 32 bits for it, so it is a number there.

use crate::core::item::Item;

/// What a lane has for an item.
#[cfg(not(loom))]
#[inline(always)]
pub(super) fn of(item: Item) -> u64 {
    item.address()
}

/// The item that a lane has.
///
/// # Safety
/// It is from `of`, and P holds for the item.
#[cfg(not(loom))]
#[inline(always)]
pub(super) unsafe fn item(handle: u64) -> Item {
    // SAFETY: the caller's promise.
    unsafe { Item::at(handle) }
}

/// All addresses that were asked for, by number. Real, as nothing is ordered by it.
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
