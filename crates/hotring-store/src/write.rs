//! One write of one key: what [`Session::change`](crate::Session) hands to an operation in place of the
//! index, with all that a write does besides, so that no operation can forget it.
//!
//! That is keeping the value that is replaced ([`crate::history`]) and telling those who wait for the
//! key ([`crate::watch`]). While the history is off and nobody waits, a write goes straight to the index.

use hotring_index::{Action, Entry, Expiry, NewValue, Value};

use crate::history::Kept;
use crate::session::Index;
use crate::sync::Arc;
use crate::value::{as_value, is_hash, reborrow, view_string};
use crate::watch::{Event, Watchers};

/// The one call of the index that may change the key.
pub(crate) struct Write<'a> {
    pub(crate) index: &'a mut Index,
    pub(crate) key: &'a [u8],
    pub(crate) stripe: u32,
    /// None if there is nothing to do besides.
    pub(crate) besides: Option<&'a Besides>,
}

/// What the store's writes do besides.
#[derive(Clone)]
pub(crate) struct Besides {
    pub(crate) kept: Kept,
    pub(crate) watchers: Arc<Watchers>,
}

/// What a value that is stored means to the key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Puts {
    /// A new value: the old one becomes an earlier one.
    Value,
    /// Another key's item, earlier values included.
    Item,
    /// The value that was there, with another expiry.
    Same,
}

/// What a decision will have done to the key.
enum Done {
    Nothing,
    /// With the string, if it is one.
    Stored(Option<Vec<u8>>),
    Removed,
    Expiry,
}

impl Write<'_> {
    /// Stores a new value, whatever was there.
    #[inline(always)]
    pub(crate) fn put(self, value: NewValue<'_>, expiry: Expiry, now: u64) {
        self.put_as(Puts::Value, value, expiry, now);
    }

    /// Stores a copy of another key's item, earlier values included, in place of all that was here.
    pub(crate) fn put_item(self, value: NewValue<'_>, expiry: Expiry, now: u64) {
        self.put_as(Puts::Item, value, expiry, now);
    }

    #[inline(always)]
    fn put_as(self, puts: Puts, value: NewValue<'_>, expiry: Expiry, now: u64) {
        if self.besides.is_none() {
            self.index.put(self.key, value, expiry, now);
        } else {
            self.put_noted(puts, value, expiry, now);
        }
    }

    #[cold]
    fn put_noted(self, puts: Puts, value: NewValue<'_>, expiry: Expiry, now: u64) {
        let Write { index, key, stripe, besides } = self;
        let damages = index.damages();
        let write = Write { index: &mut *index, key, stripe, besides };
        write.run(puts, now, |_| (Action::Put { value: reborrow(&value), expiry }, ()));
        if index.damages() != damages {
            // What would have been kept is damaged: this write is the repair, without it.
            index.take_damage();
            index.put(key, reborrow(&value), expiry, now);
            if let Some(besides) = besides {
                let text = string(as_value(&value));
                besides.watchers.tell(stripe, key, &Event::Stored(text.as_deref()));
            }
        }
    }

    /// Reads, decides, and acts as one atomic step. `decide` may be called several times, each time
    /// with a newer entry; the result of the call whose decision took effect is returned.
    #[inline(always)]
    pub(crate) fn update<'x, R>(
        self,
        now: u64,
        decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        self.run(Puts::Value, now, decide)
    }

    /// As [`update`](Self::update), where a stored value is the one that was there: only the expiry
    /// changes.
    pub(crate) fn update_expiry<'x, R>(
        self,
        now: u64,
        decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        self.run(Puts::Same, now, decide)
    }

    #[inline(always)]
    fn run<'x, R>(
        self,
        puts: Puts,
        now: u64,
        mut decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        let Write { index, key, stripe, besides } = self;
        let mut notes = besides.map(|besides| Notes::begin(besides, index, puts, stripe, key));
        let result = index.update(key, now, |entry| {
            let mut decided = decide(entry);
            if let Some(notes) = &mut notes {
                notes.decided(entry.map(|entry| entry.value), &mut decided.0, now);
            }
            decided
        });
        if let Some(notes) = notes {
            notes.tell(index, stripe, key);
        }
        result
    }

    /// Removes the key; true if it was present.
    pub(crate) fn remove(self, now: u64) -> bool {
        let removed = self.index.remove(self.key, now);
        if let Some(besides) = self.besides
            && removed
        {
            besides.watchers.tell(self.stripe, self.key, &Event::Removed);
        }
        removed
    }

    /// The version of the key's entry in the index, given to it now if it has none.
    pub(crate) fn version(self, now: u64) -> Option<u64> {
        self.index.version(self.key, now)
    }
}

impl Besides {
    /// Whether a write of this key has something to do besides. Asked within its gate.
    #[inline(always)]
    pub(crate) fn is_due(&self, stripe: u32, key: &[u8]) -> bool {
        !self.kept.is_off() || self.watchers.is_watched(stripe, key)
    }
}

/// A copy of a string; None of another type, which no one waits for by its value.
fn string(value: Value<'_>) -> Option<Vec<u8>> {
    view_string(value, |value| value.to_vec()).ok()
}

/// What one write notes, to be told when it has taken effect.
struct Notes<'a> {
    besides: &'a Besides,
    is_watched: bool,
    puts: Puts,
    done: Done,
    /// Damaged items that had been met before.
    damages: u64,
}

impl<'a> Notes<'a> {
    #[cold]
    fn begin(
        besides: &'a Besides,
        index: &mut Index,
        puts: Puts,
        stripe: u32,
        key: &[u8],
    ) -> Notes<'a> {
        let is_watched = besides.watchers.is_watched(stripe, key);
        Notes { besides, is_watched, puts, done: Done::Nothing, damages: index.damages() }
    }

    /// Has the value that is to be stored keep the one that it replaces, and notes what there is to
    /// tell once the decision has taken effect.
    #[cold]
    fn decided(&mut self, old: Option<Value<'_>>, action: &mut Action<'_>, now: u64) {
        self.done = match action {
            Action::Put { value, .. } => {
                let done = match self.puts {
                    Puts::Same => Done::Expiry,
                    _ if !self.is_watched => Done::Nothing,
                    _ => Done::Stored(string(as_value(value))),
                };
                let kept = self.besides.kept;
                let keeps = |old| !kept.is_off() && !is_hash(old) && !is_hash(as_value(value));
                if let (Puts::Value, Some(old)) = (self.puts, old.filter(|old| keeps(*old))) {
                    *value = kept.keep(old, as_value(value), now);
                }
                done
            }
            Action::Remove if old.is_some() => Done::Removed,
            Action::Expire(_) => Done::Expiry,
            Action::Keep | Action::Remove => Done::Nothing,
        };
    }

    #[cold]
    fn tell(self, index: &mut Index, stripe: u32, key: &[u8]) {
        // What was decided on a damaged item is left undone.
        if !self.is_watched || index.damages() != self.damages {
            return;
        }
        let event = match &self.done {
            Done::Nothing => return,
            Done::Stored(value) => Event::Stored(value.as_deref()),
            Done::Removed => Event::Removed,
            Done::Expiry => Event::Expiry,
        };
        self.besides.watchers.tell(stripe, key, &event);
    }
}
