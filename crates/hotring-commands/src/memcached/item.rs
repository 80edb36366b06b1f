//! Atomic operations on an item: store, count, remove. The classic and the meta command of the same name differ only in
//! syntax.

use hotring_store::{Access, Item, ItemAction, Metadata, SetExpiry, StoreError, UniqueNumbers};

use hotring_protocol::memcached::parse_u64;

use super::context::{Context, Refusal};
use crate::state::memcached::Count;
use crate::state::memcached::Done;

/// The condition for storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Always.
    Set,
    /// If the key is absent.
    Add,
    /// If the key is present.
    Replace,
    /// If the key is present: append to the old value. With an expiry, also create an absent item.
    Append(Option<SetExpiry>),
    /// As `Append`, but prepend.
    Prepend(Option<SetExpiry>),
    /// If the item has the given CAS number.
    Cas,
}

/// The item to store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Put<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Longest resulting value.
    pub len_max: usize,
    pub flags: u32,
    pub expiry: SetExpiry,
    pub mode: Mode,
    /// The CAS number that the item must have; 0 for no condition.
    pub cas: u64,
    /// The CAS number to assign, if the client chooses it.
    pub new_cas: Option<u64>,
    /// The reply contains the new CAS number.
    pub wants_cas: bool,
    /// If `cas` is that of an earlier value, store the new value and mark it as stale.
    pub takes_stale: bool,
}

/// The outcome of storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Stored, with this CAS number if it was requested, and this length.
    Yes {
        cas: u64,
        len: usize,
    },
    No,
    /// The item has another CAS number.
    Exists,
    /// There is no item to compare with.
    NotFound,
}

/// The comparison of the client's CAS number with the item's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    NotAsked,
    Same,
    /// The client's number belongs to an earlier value.
    Older,
    Other,
}

fn compare(given: u64, metadata: Metadata, numbers: Option<&UniqueNumbers>) -> Compared {
    match metadata.unique {
        _ if given == 0 => Compared::NotAsked,
        Some(cas) if cas == given => Compared::Same,
        Some(cas) if given < cas => Compared::Older,
        // The item has no number yet. Its number will be greater than all numbers given so far.
        None if numbers.is_some_and(|numbers| numbers.is_given(given)) => Compared::Older,
        _ => Compared::Other,
    }
}

impl Context<'_> {
    /// Stores a value if the condition holds.
    pub(super) fn put(&mut self, put: Put<'_>) -> Result<Stored, Refusal> {
        // All threads share the source of numbers, so a command that needs none must not touch it.
        let numbers = (put.wants_cas || put.cas != 0).then(|| self.store.unique_numbers());
        let access = self.stored();
        let prefixes_max = self.config.memcached.prefixes_max;
        self.server.memcached.detail.note(put.key, Done::Set, prefixes_max);
        self.count(Count::CmdSet);
        let mut stored = self.put_once(&put, numbers.as_ref(), access)?;
        // A set repairs a damaged item: the client did not ask for the old value.
        if put.mode == Mode::Set && self.store.take_damage().is_some() {
            self.store.remove(put.key, self.now);
            self.store.take_refused()?;
            // The removal may have read the damaged item again, for change notifications.
            self.store.take_damage();
            stored = self.put_once(&put, numbers.as_ref(), access)?;
        }
        self.count_stored(&put, stored);
        Ok(stored)
    }

    fn put_once(
        &mut self,
        put: &Put<'_>,
        numbers: Option<&UniqueNumbers>,
        access: Option<Access>,
    ) -> Result<Stored, StoreError> {
        let drawn = |old| numbers.filter(|_| put.wants_cas).map(|numbers| numbers.next_after(old));
        self.store.admit_bytes(put.value.len())?;
        self.store.update_item(put.key, self.now, |item| {
            let old = item.as_ref().and_then(|item| item.metadata.unique);
            let item = item.as_ref().map(|item| (item, compare(put.cas, item.metadata, numbers)));
            let cas = || put.new_cas.or_else(|| drawn(old));
            let metadata = Metadata { flags: put.flags, access, ..Metadata::default() };
            decide(put, item, metadata, cas)
        })?
    }

    fn count_stored(&self, put: &Put<'_>, stored: Stored) {
        match (stored, put.mode) {
            (Stored::Yes { .. }, mode) => {
                self.count(Count::TotalItems);
                if mode == Mode::Cas {
                    self.count(Count::CasHits);
                }
            }
            (Stored::Exists, Mode::Cas) => self.count(Count::CasBadval),
            (Stored::NotFound, Mode::Cas) => self.count(Count::CasMisses),
            _ => {}
        }
    }
}

type Decision<'x, T> = (ItemAction<'x>, Result<T, StoreError>);

fn decide<'x>(
    put: &Put<'x>,
    item: Option<(&Item<'_>, Compared)>,
    metadata: Metadata,
    cas: impl Fn() -> Option<u64>,
) -> Decision<'x, Stored> {
    let leave = |stored| (ItemAction::Keep, Ok(stored));
    let store = |metadata: Metadata, expiry| {
        let metadata = Metadata { unique: cas(), ..metadata };
        let stored = Stored::Yes { cas: metadata.unique.unwrap_or(0), len: put.value.len() };
        (ItemAction::Put { value: put.value.into(), metadata, expiry }, Ok(stored))
    };
    let Some((item, compared)) = item else {
        return match put.mode {
            Mode::Set | Mode::Add => store(metadata, put.expiry),
            Mode::Append(Some(expiry)) | Mode::Prepend(Some(expiry)) => store(metadata, expiry),
            Mode::Cas => leave(Stored::NotFound),
            Mode::Replace | Mode::Append(None) | Mode::Prepend(None) => leave(Stored::No),
        };
    };
    match put.mode {
        Mode::Add => leave(Stored::No),
        Mode::Set | Mode::Replace => store(metadata, put.expiry),
        Mode::Cas if compared == Compared::Same => store(metadata, put.expiry),
        Mode::Cas if compared == Compared::Older && put.takes_stale => store(
            Metadata { stale: true, claimed: item.metadata.claimed, ..metadata },
            SetExpiry::Keep,
        ),
        Mode::Cas => leave(Stored::Exists),
        Mode::Append(_) | Mode::Prepend(_) => {
            if matches!(compared, Compared::Older | Compared::Other) {
                return leave(Stored::Exists);
            }
            if !item.value.is_string() {
                return (ItemAction::Keep, Err(StoreError::WrongType));
            }
            // The length is checked before the values are copied. As in memcached, this is no error.
            if item.value.len().saturating_add(put.value.len()) > put.len_max {
                return leave(Stored::No);
            }
            let value = item.value.with_bytes(|old| match put.mode {
                Mode::Append(_) => [old, put.value].concat(),
                _ => [put.value, old].concat(),
            });
            let metadata = Metadata { unique: cas(), flags: item.metadata.flags, ..metadata };
            let stored = Stored::Yes { cas: metadata.unique.unwrap_or(0), len: value.len() };
            (ItemAction::Put { value: value.into(), metadata, expiry: SetExpiry::Keep }, Ok(stored))
        }
    }
}

/// The amount to add or subtract.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub key: &'a [u8],
    pub subtracts: bool,
    pub delta: u64,
    /// The initial number and the expiry of an absent item.
    pub vivify: Option<(u64, SetExpiry)>,
    /// The new expiry of a present item.
    pub expiry: SetExpiry,
    /// The CAS number that the item must have; 0 for no condition.
    pub cas: u64,
    /// The CAS number to assign, if the client chooses it.
    pub new_cas: Option<u64>,
    /// The reply contains the new CAS number.
    pub wants_cas: bool,
}

/// The outcome of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The new number.
    To {
        number: u64,
        cas: u64,
        /// The expiry before the change.
        expire_at: Option<u64>,
        /// The item was absent.
        is_new: bool,
    },
    NotFound,
    /// The item has another CAS number.
    Exists,
    /// The value is not a number.
    NotANumber,
}

impl Context<'_> {
    /// Adds or subtracts. Stops at 0 and wraps at 64 bits.
    pub(super) fn change(&mut self, change: Change<'_>) -> Result<Changed, Refusal> {
        let numbers = change.wants_cas.then(|| self.store.unique_numbers());
        let drawn = |old| numbers.as_ref().map(|numbers| numbers.next_after(old));
        let access = self.stored();
        let value_len_max = self.config.memcached.value_len_max;
        let changed = self.store.update_item(change.key, self.now, |item| {
            let old = item.as_ref().and_then(|item| item.metadata.unique);
            let cas = || change.new_cas.or_else(|| drawn(old));
            let Some(item) = item else {
                let Some((number, expiry)) = change.vivify else {
                    return (ItemAction::Keep, Changed::NotFound);
                };
                let metadata = Metadata { unique: cas(), access, ..Metadata::default() };
                return store_number(number, metadata, expiry, None, true);
            };
            if change.cas != 0 && item.metadata.unique != Some(change.cas) {
                return (ItemAction::Keep, Changed::Exists);
            }
            let old = match item.value {
                value if !value.is_string() || value.len() > value_len_max => None,
                value => value.with_bytes(parse_u64),
            };
            let Some(old) = old else { return (ItemAction::Keep, Changed::NotANumber) };
            let number = match change.subtracts {
                true => old.saturating_sub(change.delta),
                false => old.wrapping_add(change.delta),
            };
            let metadata = Metadata { unique: cas(), ..item.metadata };
            store_number(number, metadata, change.expiry, item.expire_at, false)
        })?;
        if let Changed::To { is_new: true, .. } = changed {
            self.count(Count::TotalItems);
        }
        Ok(changed)
    }
}

fn store_number(
    number: u64,
    metadata: Metadata,
    expiry: SetExpiry,
    expire_at: Option<u64>,
    is_new: bool,
) -> (ItemAction<'static>, Changed) {
    let cas = metadata.unique.unwrap_or(0);
    let value = number.to_string().into_bytes().into();
    (ItemAction::Put { value, metadata, expiry }, Changed::To { number, cas, expire_at, is_new })
}
