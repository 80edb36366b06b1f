//! One write of one key: what [`Session::change`](crate::Session) hands to an operation in place of the
//! index, with all that a write does besides, so that no operation can forget it.
//!
//! That is keeping the value that is replaced ([`crate::history`]). While the history is off, a write
//! goes straight to the index.

use hotring_index::{Action, Entry, Expiry, NewValue, Value};

use crate::history::Kept;
use crate::session::Index;
use crate::value::{as_value, reborrow};

/// The one call of the index that may change the key.
pub(crate) struct Write<'a> {
    pub(crate) index: &'a mut Index,
    pub(crate) key: &'a [u8],
    pub(crate) kept: Kept,
}

impl Write<'_> {
    /// Stores a new value, whatever was there.
    #[inline(always)]
    pub(crate) fn put(self, value: NewValue<'_>, expiry: Expiry, now: u64) {
        if self.kept.is_off() {
            self.index.put(self.key, value, expiry, now);
        } else {
            self.put_noted(value, expiry, now);
        }
    }

    #[cold]
    fn put_noted(self, value: NewValue<'_>, expiry: Expiry, now: u64) {
        let Write { index, key, kept } = self;
        let damages = index.damages();
        let write = Write { index: &mut *index, key, kept };
        write.update(now, |_| (Action::Put { value: reborrow(&value), expiry }, ()));
        if index.damages() != damages {
            // What would have been kept is damaged: this write is the repair, without it.
            index.take_damage();
            index.put(key, value, expiry, now);
        }
    }

    /// Stores a copy of another key's item, earlier values included, in place of all that was here.
    pub(crate) fn put_item(self, value: NewValue<'_>, expiry: Expiry, now: u64) {
        self.index.put(self.key, value, expiry, now);
    }

    /// Reads, decides, and acts as one atomic step. `decide` may be called several times, each time
    /// with a newer entry; the result of the call whose decision took effect is returned.
    #[inline(always)]
    pub(crate) fn update<'x, R>(
        self,
        now: u64,
        mut decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        let kept = self.kept;
        self.index.update(self.key, now, |entry| {
            let old = entry.map(|entry| entry.value);
            let mut decided = decide(entry);
            if !kept.is_off() {
                keep(kept, old, &mut decided.0, now);
            }
            decided
        })
    }

    /// As [`update`](Self::update), where a stored value is the one that was there: only the expiry
    /// changes.
    pub(crate) fn update_expiry<'x, R>(
        self,
        now: u64,
        decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        self.index.update(self.key, now, decide)
    }

    /// Removes the key; true if it was present.
    pub(crate) fn remove(self, now: u64) -> bool {
        self.index.remove(self.key, now)
    }

    /// The version of the key's entry in the index, given to it now if it has none.
    pub(crate) fn version(self, now: u64) -> Option<u64> {
        self.index.version(self.key, now)
    }
}

/// Has the value that is to be stored keep the one that it replaces.
#[cold]
fn keep(kept: Kept, old: Option<Value<'_>>, action: &mut Action<'_>, now: u64) {
    if let (Some(old), Action::Put { value, .. }) = (old, action) {
        *value = kept.keep(old, as_value(value), now);
    }
}
