//! The log records of writes, and the locks that put the records of a key in the order of its writes.
//!
//! # The order
//! The index has no lock that could order records: two racing writers of a key are ordered by one CAS each, and may
//! reach the log in the other order. So while there is a log, a write of a key holds the key's *order lock*, one of
//! [`LOCKS`], from before it reads the key until its record is in the log's queue. Readers never take these locks, and
//! writers of different keys rarely share one. A session that holds stripes exclusively ([`crate::gate`]) excludes all
//! writers of its keys, so it takes no order lock; it must hand its records over together, as one batch, before it
//! releases the stripes.
//!
//! Hence the records of a key are in the log in the order of its writes, and every value that a logged value was
//! computed from precedes it in the log. (The alternative is a version in each item, compared during replay, without
//! locks. Then another process that reads the log would see no order, each item would take 8 bytes more, and a lost
//! batch could be half visible in later counts.)
//!
//! Writers of a container ([`crate::container`]) take its order lock even without a log: they change the value in
//! place, one after the other.
//!
//! # Switching the log on and off
//! Logging is switched on and off while no other session is within the gate (`Session::switch_log`), so each write is
//! entirely before or entirely after that moment. A record gets its position in the log after its write was applied: a
//! scan of the store that begins later sees its effect, or a later one.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hotring_index::{Action, AnyIndex, Block, Entry, Expiry, NewValue, Value};
use hotring_log::{Attached, Effect, Log, Lsn, Records};

use crate::container::large::{self, Large};
use crate::container::packed::Head;
use crate::container::{ContainerOptions, Contents, Type, packed_kind, unpack};
use crate::gate::Fault;
use crate::grounds::SharedGrounds;
use crate::hash::{Hash, from_format_1};
use crate::long_text::{LongText, from_packed};
use crate::marks::Marks;
use crate::mode::Modes;
use crate::sync::Arc;
use crate::value::{KIND_HASH_1, encode_owned};

/// Number of order locks. Large enough that two threads rarely want the same lock at the same time.
const LOCKS: usize = 1 << LOCK_BITS;
const LOCK_BITS: u32 = 10;

/// The bit in a record's form that marks a value held as a word; the other bits are its kind.
const FORM_WORD: u8 = 0x80;
const KIND_MAX: u8 = 15;

/// The state of logging that all sessions share.
pub(crate) struct Logged {
    pub(crate) modes: Modes,
    pub(crate) marks: Marks,
    pub(crate) grounds: SharedGrounds,
    pub(crate) parts: OnceLock<Parts>,
    /// The order locks, without padding: they stay in the cache of a writing thread, and two threads rarely want the
    /// same cache line at the same time.
    locks: Box<[Mutex<()>]>,
    seed: u64,
    fault: Fault,
}

pub(crate) struct Parts {
    log: Arc<Log>,
}

/// The records of one session.
#[derive(Default)]
pub(crate) struct Logging {
    /// Collected records that have not been handed to the log.
    pub(crate) records: Records,
    /// The database of the last collected record, and the number of records that only name a database.
    database_id: u8,
    databases_named: u64,
    /// The position of the last record handed over since the caller last took it.
    pub(crate) last: Option<Lsn>,
}

impl Logged {
    pub(crate) fn new(seed: u64, fault: Fault) -> Logged {
        let locks = (0..LOCKS).map(|_| Mutex::default()).collect();
        Logged {
            modes: Modes::new(),
            marks: Marks::new(fault),
            grounds: SharedGrounds::default(),
            parts: OnceLock::new(),
            locks,
            seed,
            fault,
        }
    }

    pub(crate) fn set_log(&self, log: Arc<Log>) -> bool {
        self.parts.set(Parts { log }).is_ok()
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        Some(&self.parts.get()?.log)
    }

    /// Whether writes are logged. The caller must be within the gate.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.modes.get().is_logged()
    }

    /// Locks out other writers of the key with this gate hash.
    #[inline]
    pub(crate) fn order(&self, hash: u64) -> Option<MutexGuard<'_, ()>> {
        if self.fault == Fault::NoOrder {
            return None;
        }
        let lock = (hash >> (u64::BITS - LOCK_BITS)) as usize;
        let lock = &self.locks[lock];
        // The lock protects no data, so a panic leaves nothing half-changed.
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Logging {
    /// The buffer for records of the database with this ID.
    #[inline]
    pub(crate) fn of_database(&mut self, database_id: u8) -> &mut Records {
        if database_id != self.database_id {
            self.name_database(database_id);
        }
        &mut self.records
    }

    #[cold]
    fn name_database(&mut self, database_id: u8) {
        self.records.push(&Effect::Database { number: database_id });
        self.databases_named += 1;
        self.database_id = database_id;
    }

    /// Hands the collected records to the log, and returns the number of the last. The caller must be within the gate.
    #[inline]
    pub(crate) fn hand_over(&mut self, logged: &Logged) -> Option<Lsn> {
        if self.records.is_empty() {
            return None;
        }
        let had_no_effect = self.records.count() == self.databases_named;
        (self.database_id, self.databases_named) = (0, 0);
        if had_no_effect {
            self.records.reset();
            return None;
        }
        let Some(parts) = logged.parts.get() else {
            self.records.reset();
            return None;
        };
        self.last = Some(parts.log.append(&mut self.records));
        self.last
    }
}

/// A value in the log has a form that is unknown to this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownForm {
    /// The type of the record.
    pub form: u8,
}

impl std::fmt::Display for UnknownForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a value of form {} is unknown to this version", self.form)
    }
}

impl std::error::Error for UnknownForm {}

/// The meaning of a put for history, observers and log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PutKind {
    /// A new value: the old one becomes an earlier one.
    Value,
    /// Another key's item, earlier values included.
    Item,
    /// The value that was there, with another expiry.
    Same,
    /// The value that was there, with other metadata: observers are not told.
    Metadata,
    /// The value that was there, with metadata that is not logged: the last access, or a unique number on request.
    Access,
    /// A new value that has already expired: the key is removed.
    Expired,
}

/// Adds the record of a write's decision.
pub(crate) fn decided(
    records: &mut Records,
    key: &[u8],
    put_kind: PutKind,
    old: Option<&Entry<'_>>,
    action: &Action<'_>,
) {
    let kept = old.and_then(|entry| entry.expire_at);
    let end = |expiry: &Expiry| match expiry {
        Expiry::Never => None,
        Expiry::Keep => kept,
        Expiry::At(at) => Some(*at),
    };
    match action {
        Action::Put { value, expiry } if put_kind != PutKind::Access => {
            push_put(records, key, value, end(expiry));
        }
        Action::Expire(expiry) if old.is_some() => {
            records.push(&Effect::Expire { key, expire_at: end(expiry) });
        }
        Action::Remove if old.is_some() => records.push(&Effect::Remove { key }),
        Action::Keep | Action::Put { .. } | Action::Expire(_) | Action::Remove => {}
    }
}

/// Adds a record that stores this value under the key.
pub(crate) fn push_put(
    records: &mut Records,
    key: &[u8],
    value: &NewValue<'_>,
    expire_at: Option<u64>,
) {
    let value = match value {
        NewValue::Block { block, .. } if let Some(large) = Large::of(block.lend()) => {
            let (form, value) =
                large.read(|contents| (contents.parts.kind(), contents.to_packed()));
            return records.push(&Effect::Put { key, form, expire_at, value: &value });
        }
        NewValue::Block { kind, block } => {
            let block: Attached = Arc::new(Long(block.clone()));
            return records.push_attached(key, *kind, expire_at, block);
        }
        value => value.as_value(),
    };
    with_form(value, |form, value| records.push(&Effect::Put { key, form, expire_at, value }));
}

/// Calls `f` with the form and the bytes of a value.
pub(crate) fn with_form<R>(value: Value<'_>, f: impl FnOnce(u8, &[u8]) -> R) -> R {
    match value {
        Value::Word { kind, word } => f(FORM_WORD | kind, &word.to_le_bytes()),
        Value::Bytes { kind, bytes } => f(kind, bytes),
    }
}

/// Decodes a value from its form and bytes, for this index. None if the form is unknown or the bytes do not fit it.
pub(crate) fn from_form<'a>(
    form: u8,
    bytes: &'a [u8],
    options: &ContainerOptions,
    index: &AnyIndex,
) -> Option<NewValue<'a>> {
    if form == KIND_HASH_1 {
        return Some(NewValue::Bytes { kind: Hash::KIND, bytes: from_format_1(bytes).into() });
    }
    if form == LongText::KIND_LARGE {
        let contents = from_packed(bytes)?;
        let is_object = options.text_plain_max() < usize::MAX;
        return match LongText::of_parts(&contents.parts)? {
            // This store keeps strings plain.
            chunks if !is_object => Some(encode_owned(chunks.copy(0..chunks.len()))),
            _ => Some(large::new_value(contents, index)),
        };
    }
    if let Some(kind) = packed_kind(form) {
        // This store keeps containers packed.
        if !options.takes_objects {
            return Some(NewValue::Bytes { kind, bytes: bytes.into() });
        }
        let parts = unpack(kind, bytes, options)?;
        let contents = Contents { number: Head::split(bytes).0.number, parts };
        return Some(large::new_value(contents, index));
    }
    let kind = form & !FORM_WORD;
    if kind > KIND_MAX {
        return None;
    }
    Some(match form & FORM_WORD {
        0 => NewValue::Bytes { kind, bytes: bytes.into() },
        _ => NewValue::Word { kind, word: u64::from_le_bytes(bytes.try_into().ok()?) },
    })
}

/// A long value in the log's queue, shared with the store.
struct Long(Block);

impl AsRef<[u8]> for Long {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
