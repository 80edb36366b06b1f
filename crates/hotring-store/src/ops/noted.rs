//! What memcached's commands need: a string with its note ([`crate::note`]) and its expiry, looked at and
//! decided on as one. A single-key read and a single-key write.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hotring_index::{Action, Entry, Expiry};

use crate::error::StoreError;
use crate::logged::Puts;
use crate::note::{self, Note};
use crate::ops::set::SetExpiry;
use crate::session::Limits;
use crate::session::Session;
use crate::value::{ValueRef, view};

/// What a key has.
#[derive(Clone, Copy, Debug)]
pub struct Noted<'a> {
    /// The value. A hash has no note.
    pub value: ValueRef<'a>,
    /// What is kept with it.
    pub note: Note,
    /// When it expires, in Unix milliseconds.
    pub expire_at: Option<u64>,
    /// Bytes of memory that the item takes.
    pub memory: usize,
}

/// What [`Session::update_noted`] does to a key.
#[derive(Clone, Debug)]
pub enum NotedAction<'a> {
    /// Nothing.
    Keep,
    /// Stores a string.
    Put {
        /// The string.
        value: Cow<'a, [u8]>,
        /// Its note.
        note: Note,
        /// What becomes of the expiry.
        expiry: SetExpiry,
    },
    /// Leaves the value, and gives it another note and expiry. Nothing if the key is absent. A hash gets
    /// the expiry alone.
    Amend {
        /// The note.
        note: Note,
        /// What becomes of the expiry.
        expiry: SetExpiry,
    },
    /// Removes the key.
    Remove,
}

/// Numbers for compare-and-swap: each is greater than all before it, in the life of a store, and than
/// [`Options::cas_base`](crate::Options::cas_base).
#[derive(Clone, Debug)]
pub struct CasNumbers(Arc<AtomicU64>);

impl CasNumbers {
    /// The next number. Drawn within a decision of [`Session::update_noted`], a later value of a key
    /// has a greater one.
    pub fn next(&self) -> u64 {
        // ORDERING: Relaxed, nothing else is read through the number.
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// As [`next`](Self::next), and greater than the number that the value had before: a client may have
    /// chosen that.
    pub fn next_after(&self, old: Option<u64>) -> u64 {
        self.next().max(old.map_or(0, |old| old.saturating_add(1)))
    }

    /// Whether a number can have been given before now: it is not greater than the last one.
    pub fn is_given(&self, number: u64) -> bool {
        // ORDERING: Relaxed, as above.
        number <= self.0.load(Ordering::Relaxed)
    }
}

impl Session {
    /// Where the numbers of [`Note::cas`] come from. Only values whose number a client asks for need one.
    pub fn cas_numbers(&self) -> CasNumbers {
        CasNumbers(self.cas.clone())
    }

    /// Hands what the key has to `f`. None if it is absent.
    #[inline]
    pub fn noted<R>(&mut self, key: &[u8], now: u64, f: impl FnOnce(Noted<'_>) -> R) -> Option<R> {
        self.read(key, now, |entry| show(&entry, f))
    }

    /// Reads, decides, and acts as one atomic step. `decide` may be called several times, each time
    /// with what the key has then; the result of the call whose decision took effect is returned.
    ///
    /// # Errors
    /// Those of every write that takes memory; a removal takes none.
    pub fn update_noted<'x, R>(
        &mut self,
        key: &[u8],
        now: u64,
        mut decide: impl FnMut(Option<Noted<'_>>) -> (NotedAction<'x>, R),
    ) -> Result<R, StoreError> {
        self.check_key(key)?;
        self.enter_new();
        // Room is made only for what takes memory, which is known when it is decided.
        let mut admitted = (!self.index.is_refusing()).then_some(Ok(()));
        let limits = self.limits;
        loop {
            let decided = self.change(key, |key| {
                key.run(now, |entry| {
                    let (action, result) = match &entry {
                        Some(entry) => show(entry, |noted| decide(Some(noted))),
                        None => decide(None),
                    };
                    let (puts, action) = match act(action, entry.as_ref(), limits, now) {
                        Ok(acted) => acted,
                        Err(error) => return (Puts::Note, Action::Keep, Some(Err(error))),
                    };
                    let takes_memory = matches!(action, Action::Put { .. } | Action::Expire(_));
                    match &admitted {
                        None if takes_memory => (Puts::Note, Action::Keep, None),
                        Some(Err(error)) if takes_memory => {
                            (Puts::Note, Action::Keep, Some(Err(StoreError::clone(error))))
                        }
                        _ => (puts, action, Some(Ok(result))),
                    }
                })
            });
            match decided {
                Some(result) => return result,
                None => admitted = Some(self.admit()),
            }
        }
    }
}

#[inline(always)]
fn show<R>(entry: &Entry<'_>, f: impl FnOnce(Noted<'_>) -> R) -> R {
    view(entry.value, |value| {
        let note = Note::of(entry.value);
        f(Noted { value, note, expire_at: entry.expire_at, memory: entry.footprint })
    })
}

/// What is done to the item, and what that means to the key.
fn act<'x>(
    action: NotedAction<'x>,
    entry: Option<&Entry<'_>>,
    limits: Limits,
    now: u64,
) -> Result<(Puts, Action<'x>), StoreError> {
    Ok(match action {
        NotedAction::Keep => (Puts::Note, Action::Keep),
        NotedAction::Remove => (Puts::Note, Action::Remove),
        NotedAction::Put { value, note, expiry } => {
            limits.check_value(value.len())?;
            if !note::fits(value.len()) {
                let len_max = limits.value_len_max;
                return Err(StoreError::ValueTooLong { len: value.len(), len_max });
            }
            let put = |expiry| Action::Put { value: note.encode(value), expiry };
            (Puts::Value, expiry.of_item(now).map_or(Action::Remove, put))
        }
        NotedAction::Amend { note, expiry } => {
            let Some(entry) = entry else { return Ok((Puts::Note, Action::Keep)) };
            let Some(expiry) = expiry.of_item(now) else {
                return Ok((Puts::Note, Action::Remove));
            };
            let stays = expiry == Expiry::Keep || expiry == expiry_of(entry);
            let old = Note::of(entry.value);
            let accessed = Note { access: note.access, cas: old.cas.or(note.cas), ..old };
            let puts = match stays {
                true if note == accessed => Puts::Access,
                true => Puts::Note,
                false => Puts::Same,
            };
            match old == note {
                true if stays => (puts, Action::Keep),
                true => (puts, Action::Expire(expiry)),
                false => (puts, Action::Put { value: note.amend(entry.value), expiry }),
            }
        }
    })
}

fn expiry_of(entry: &Entry<'_>) -> Expiry {
    entry.expire_at.map_or(Expiry::Never, Expiry::At)
}

#[cfg(test)]
mod tests;
