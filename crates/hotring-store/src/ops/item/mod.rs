//! Items: a value with its metadata ([`crate::metadata`]) and its expiry, read and updated atomically. A single-key
//! read and a single-key write.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hotring_index::{Action, Entry, Expiry};

use crate::error::StoreError;
use crate::logged::PutKind;
use crate::long_text;
use crate::metadata::{self, Metadata};
use crate::ops::set::SetExpiry;
use crate::session::Limits;
use crate::session::Session;
use crate::value::{ValueRef, is_string, view, view_large};

/// A value and the data stored with it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The value. A hash has no metadata.
    pub value: ValueRef<'a>,
    /// The metadata stored with the value.
    pub metadata: Metadata,
    /// The expiry in Unix milliseconds.
    pub expire_at: Option<u64>,
    /// Memory of the item, in bytes.
    pub memory: usize,
}

/// The action of [`Session::update_item`] on a key.
#[derive(Clone, Debug)]
pub enum ItemAction<'a> {
    /// Nothing.
    Keep,
    /// Stores a string.
    Put {
        /// The string.
        value: Cow<'a, [u8]>,
        /// Its metadata.
        metadata: Metadata,
        /// The new expiry.
        expiry: SetExpiry,
    },
    /// Keeps the value, and changes its metadata and its expiry. Does nothing if the key is absent. A hash only gets
    /// the expiry.
    Amend {
        /// The metadata.
        metadata: Metadata,
        /// The new expiry.
        expiry: SetExpiry,
    },
    /// Removes the key.
    Remove,
}

/// The source of unique numbers for values: each is greater than all before it in the life of the store, and than
/// [`Options::unique_base`](crate::Options::unique_base).
#[derive(Clone, Debug)]
pub struct UniqueNumbers(Arc<AtomicU64>);

impl UniqueNumbers {
    /// The next number. If it is drawn within the decision of [`Session::update_item`], later values of a key have
    /// greater numbers.
    pub fn next(&self) -> u64 {
        // ORDERING: Relaxed, the number publishes no other memory.
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Like [`next`](Self::next), and greater than the value's old number, which a caller may have chosen.
    pub fn next_after(&self, old: Option<u64>) -> u64 {
        self.next().max(old.map_or(0, |old| old.saturating_add(1)))
    }

    /// The last number that was given.
    pub fn last(&self) -> u64 {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed)
    }

    /// Makes all later numbers greater than this one.
    pub fn begin_above(&self, number: u64) {
        // ORDERING: Relaxed, as above.
        self.0.fetch_max(number, Ordering::Relaxed);
    }

    /// Whether a number may have been given already: it is not greater than the last one.
    pub fn is_given(&self, number: u64) -> bool {
        // ORDERING: Relaxed, as above.
        number <= self.0.load(Ordering::Relaxed)
    }
}

impl Session {
    /// The source of the numbers of [`Metadata::unique`].
    pub fn unique_numbers(&self) -> UniqueNumbers {
        UniqueNumbers(self.last_unique.clone())
    }

    /// Calls `f` with the key's item. None if the key is absent.
    #[inline]
    pub fn item<R>(&mut self, key: &[u8], now: u64, f: impl FnOnce(Item<'_>) -> R) -> Option<R> {
        self.read(key, now, |entry| show(&entry, f))
    }

    /// Reads, decides, and acts as one atomic step. `decide` may be called several times, each time with the key's
    /// current item. Returns the result of the call whose decision took effect.
    ///
    /// # Errors
    /// Those of every write that takes memory; a removal takes none.
    pub fn update_item<'x, R>(
        &mut self,
        key: &[u8],
        now: u64,
        mut decide: impl FnMut(Option<Item<'_>>) -> (ItemAction<'x>, R),
    ) -> Result<R, StoreError> {
        self.check_key(key)?;
        self.enter_new();
        // Only a write that takes memory must be admitted, and only the decision tells whether it does.
        let mut admitted = (!self.index.is_refusing()).then_some(Ok(()));
        let limits = self.limits;
        loop {
            // Under the order lock: a long string may change in place, which no compare-and-swap notices.
            let decided = self.try_change_in_order(key.into(), |key, _| {
                key.run(now, |entry| {
                    let (action, result) = match &entry {
                        Some(entry) => show(entry, |item| decide(Some(item))),
                        None => decide(None),
                    };
                    let (put_kind, action) = match act(action, entry.as_ref(), limits, now) {
                        Ok(acted) => acted,
                        Err(error) => return (PutKind::Metadata, Action::Keep, Some(Err(error))),
                    };
                    let takes_memory = matches!(action, Action::Put { .. } | Action::Expire(_));
                    match &admitted {
                        None if takes_memory => (PutKind::Metadata, Action::Keep, None),
                        Some(Err(error)) if takes_memory => {
                            (PutKind::Metadata, Action::Keep, Some(Err(StoreError::clone(error))))
                        }
                        _ => (put_kind, action, Some(Ok(result))),
                    }
                })
            })?;
            match decided {
                Some(result) => return result,
                None => admitted = Some(self.admit()),
            }
        }
    }
}

#[inline(always)]
fn show<R>(entry: &Entry<'_>, f: impl FnOnce(Item<'_>) -> R) -> R {
    let item = |value: ValueRef<'_>| {
        let metadata = Metadata::of(entry.value);
        f(Item { value, metadata, expire_at: entry.expire_at, memory: entry.footprint })
    };
    view(entry.value, |value| match value {
        ValueRef::Text(_) => view_large(entry.value, entry.block(), item),
        value => item(value),
    })
}

/// The change of the item, and its meaning for history, observers and log.
fn act<'x>(
    action: ItemAction<'x>,
    entry: Option<&Entry<'_>>,
    limits: Limits,
    now: u64,
) -> Result<(PutKind, Action<'x>), StoreError> {
    Ok(match action {
        ItemAction::Keep => (PutKind::Metadata, Action::Keep),
        ItemAction::Remove => (PutKind::Metadata, Action::Remove),
        ItemAction::Put { value, metadata, expiry } => {
            limits.check_value(value.len())?;
            if !metadata::fits(value.len()) {
                let len_max = limits.value_len_max;
                return Err(StoreError::ValueTooLong { len: value.len(), len_max });
            }
            let put = |expiry| Action::Put { value: metadata.encode(value), expiry };
            (PutKind::Value, expiry.of_item(now).map_or(Action::Remove, put))
        }
        ItemAction::Amend { metadata, expiry } => {
            let Some(entry) = entry else { return Ok((PutKind::Metadata, Action::Keep)) };
            let Some(expiry) = expiry.of_item(now) else {
                return Ok((PutKind::Metadata, Action::Remove));
            };
            let stays = expiry == Expiry::Keep || expiry == expiry_of(entry);
            let old = Metadata::of(entry.value);
            let accessed =
                Metadata { access: metadata.access, unique: old.unique.or(metadata.unique), ..old };
            let put_kind = match stays {
                true if metadata == accessed => PutKind::Access,
                true => PutKind::Metadata,
                false => PutKind::Same,
            };
            match old == metadata {
                true if stays => (put_kind, Action::Keep),
                // A hash has no metadata.
                false if !is_string(entry.value) => match stays {
                    true => (put_kind, Action::Keep),
                    false => (put_kind, Action::Expire(expiry)),
                },
                true => (put_kind, Action::Expire(expiry)),
                false => {
                    let value = match long_text::snapshot(entry) {
                        Some(text) => metadata.encode(text.copy(0..text.len()).into()),
                        None => metadata.amend(entry.value),
                    };
                    (put_kind, Action::Put { value, expiry })
                }
            }
        }
    })
}

fn expiry_of(entry: &Entry<'_>) -> Expiry {
    entry.expire_at.map_or(Expiry::Never, Expiry::At)
}

#[cfg(test)]
mod tests;
