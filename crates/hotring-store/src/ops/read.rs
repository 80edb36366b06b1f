//! Single-key reads of strings and of keys of any type.

use hotring_index::{BlockRef, Entry, Key};

use crate::container::{Type, is_present};
use crate::error::StoreError;
use crate::long_text::{self, LongText, TextRef, view_text};
use crate::session::Session;
use crate::value::{ValueRef, view_entry_at, view_string};

/// The record of accesses to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accesses {
    /// Accesses are not recorded.
    Unknown,
    /// A logarithmic count of accesses.
    Frequency(u8),
    /// A lower bound of the idle time in milliseconds ([`Store::date_accesses`](crate::Store::date_accesses)).
    Idle(u64),
    /// The time since the last access, in 128ths of the time in which as many bytes are written as the memory limit
    /// allows.
    Age(u8),
}

impl Session {
    /// Calls `f` with the value. None if the key is absent.
    pub fn get<R>(&mut self, key: &[u8], now: u64, f: impl FnOnce(ValueRef<'_>) -> R) -> Option<R> {
        self.read(key, now, |entry| view_entry_at(&entry, now, f)).flatten()
    }

    /// Like [`get`](Self::get), for strings only.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    #[inline]
    pub fn get_string<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let key = key.into();
        let found = self.read(key, now, |entry| view_string(&entry, f));
        self.unless_emptied(key.bytes(), now, found)
    }

    /// Like [`get_string`](Self::get_string), with the block that contains the value if it is long: a caller that needs
    /// the value after this call can keep the block ([`BlockRef::to_block`],
    /// [`Block::part`](hotring_index::Block::part)) instead of a copy. For a string in chunks it is the block of the
    /// object ([`TextRef::to_block`]).
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    #[inline]
    pub fn get_shared<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(ValueRef<'_>, Option<BlockRef<'_>>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let key = key.into();
        let found =
            self.read(key, now, |entry| view_string(&entry, |value| f(value, entry.block())));
        self.unless_emptied(key.bytes(), now, found)
    }

    /// Length of the string, 0 if the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn strlen(&mut self, key: &[u8], now: u64) -> Result<usize, StoreError> {
        Ok(self.read_text(key, now, |text| text.len())?.unwrap_or(0))
    }

    /// Calls `f` with the bytes from `start` to `end`, both included, negative positions counted from the end, and with
    /// their block as [`get_shared`](Self::get_shared); with the empty string if there are none.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn get_range<R>(
        &mut self,
        key: &[u8],
        start: i64,
        end: i64,
        now: u64,
        f: impl FnOnce(&[u8], Option<BlockRef<'_>>) -> R,
    ) -> Result<R, StoreError> {
        // Any of the closures may be the one that consumes `f`.
        let mut f = Some(f);
        let mut call =
            |bytes: &[u8], block: Option<BlockRef<'_>>| f.take().map(|f| f(bytes, block));
        let found = self.read(key, now, |entry| match long_text::snapshot(&entry) {
            Some(text) => Ok(Err(text)),
            None => view_string(&entry, |value| {
                value.with_bytes(|bytes| {
                    let (start, end) = range(bytes.len(), start, end);
                    call(&bytes[start..end], entry.block())
                })
            })
            .map(Ok),
        });
        let found = match self.unless_emptied(key, now, found)? {
            // Copied here, where no session waits for this one.
            Some(Err(text)) => {
                let (start, end) = range(text.len(), start, end);
                call(&text.copy(start..end), None)
            }
            Some(Ok(result)) => result,
            None => call(b"", None),
        };
        Ok(found.expect("exactly one of the calls runs"))
    }

    /// Calls `f` with the string. Writers of a long string wait meanwhile, so `f` must be short. None if the key is
    /// absent.
    pub(crate) fn read_text<R>(
        &mut self,
        key: &[u8],
        now: u64,
        f: impl FnOnce(TextRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let found = self.read(key, now, |entry| view_text(&entry, f));
        self.unless_emptied(key, now, found)
    }

    /// Like [`read_text`](Self::read_text), for a walk over the entire string: neither writers of a long string nor the
    /// gate wait for `f`.
    pub(crate) fn walk_text<R>(
        &mut self,
        key: &[u8],
        now: u64,
        f: impl FnOnce(TextRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        // Either closure may be the one that consumes `f`.
        let mut f = Some(f);
        let mut call = |text: TextRef<'_>| f.take().map(|f| f(text));
        let found = self.read(key, now, |entry| match long_text::snapshot(&entry) {
            Some(text) => Ok(Err(text)),
            None => view_text(&entry, &mut call).map(Ok),
        });
        Ok(match self.unless_emptied(key, now, found)? {
            Some(Ok(result)) => result,
            Some(Err(text)) => call(LongText::large(&text)),
            None => None,
        })
    }

    /// Turns [`StoreError::WrongType`] into an absent key, if the key is a hash whose fields have all expired.
    #[inline(always)]
    pub(crate) fn unless_emptied<R>(
        &mut self,
        key: &[u8],
        now: u64,
        found: Option<Result<R, StoreError>>,
    ) -> Result<Option<R>, StoreError> {
        match found {
            Some(Ok(found)) => Ok(Some(found)),
            None => Ok(None),
            Some(Err(error)) => self.wrong_unless_emptied(key, now, error),
        }
    }

    #[cold]
    fn wrong_unless_emptied<R>(
        &mut self,
        key: &[u8],
        now: u64,
        error: StoreError,
    ) -> Result<Option<R>, StoreError> {
        if error == StoreError::WrongType && !self.exists(key, now) { Ok(None) } else { Err(error) }
    }

    /// True if the key is present.
    pub fn exists(&mut self, key: &[u8], now: u64) -> bool {
        self.peek(key, now, |entry| is_present(&entry, now)) == Some(true)
    }

    /// Like [`exists`](Self::exists), and counts as an access, whatever the [`Origin`](crate::Origin).
    pub fn touch(&mut self, key: &[u8], now: u64) -> bool {
        self.mark_accesses(|session| {
            session.read(key, now, |entry| is_present(&entry, now)) == Some(true)
        })
    }

    /// Like [`get`](Self::get), but does not count as an access.
    pub fn peek_value<R>(
        &mut self,
        key: &[u8],
        now: u64,
        f: impl FnOnce(ValueRef<'_>) -> R,
    ) -> Option<R> {
        self.peek(key, now, |entry| view_entry_at(&entry, now, f)).flatten()
    }

    /// The recorded accesses to the key, in the form of the eviction policy; None if the key is absent.
    pub fn accesses(&mut self, key: &[u8], now: u64) -> Option<Accesses> {
        let (policy, tick, dates) = (self.eviction.policy(), self.tick(), self.dates_accesses());
        let _reading = self.gate.read(self.gate_hash(key));
        self.clearing.settle(key.into(), &mut self.index);
        let found =
            self.index.peek_marked(key, now, |entry, bits| (is_present(&entry, now), bits))?;
        let (true, bits) = found else { return None };
        Some(match () {
            () if policy.is_lfu() => Accesses::Frequency(bits),
            () if policy.is_lru() => Accesses::Age(tick.wrapping_sub(bits)),
            () if dates => Accesses::Idle(self.eviction.idle_clock.idle_ms(bits, now)),
            () => Accesses::Unknown,
        })
    }

    /// The key's expiry: None if the key is absent, `Some(None)` if it never expires.
    pub fn expiry(&mut self, key: &[u8], now: u64) -> Option<Option<u64>> {
        self.peek(key, now, |entry| is_present(&entry, now).then_some(entry.expire_at)).flatten()
    }

    /// The key's version, which every later write of the key changes and which is never used twice in a store's life;
    /// None if the key is absent. For [`SetCondition::IfVersion`](crate::SetCondition::IfVersion).
    pub fn version(&mut self, key: &[u8], now: u64) -> Result<Option<u64>, StoreError> {
        // A write in the gate, because the item may get its first version.
        self.admit_little()?;
        Ok(self.change_in_order(key.into(), |key, _| key.version(now)))
    }

    /// Memory of the key's item, in bytes; None if the key is absent.
    pub fn memory(&mut self, key: &[u8], now: u64) -> Option<usize> {
        self.peek(key, now, |entry| is_present(&entry, now).then(|| memory_of(&entry))).flatten()
    }
}

/// The bytes of memory of a key and its value.
pub(super) fn memory_of(entry: &Entry<'_>) -> usize {
    entry.footprint + long_text::base_bytes(entry)
}

/// The begin and end of a part of a string of this length. Ends out of range are clamped; an inverted range is empty.
fn range(len: usize, start: i64, end: i64) -> (usize, usize) {
    let len = i64::try_from(len).expect("values are shorter than 4 GiB");
    if start < 0 && end < 0 && start > end {
        return (0, 0);
    }
    let from_end = |at: i64| if at < 0 { (at.saturating_add(len)).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end {
        return (0, 0);
    }
    // Both are in 0..len here: start >= 0 by from_end, start <= end <= len - 1.
    (start as usize, end as usize + 1)
}
