//! An in-memory key-value store to embed: byte-string keys and values with the semantics of
//! Redis strings and hashes, expiry in milliseconds, versions for compare-and-swap, and operations on
//! several keys that are atomic to every observer. It sits on the `hotring-index` hash index,
//! which keeps hot keys a step from the table.
//!
//! The store owns the encoding of values (`value`), the semantics of each operation (`ops`),
//! the gate that makes multi-key operations atomic (`gate`), and when which key expires (`wheel`). It reads no clock,
//! draws no randomness, starts no thread and opens no file: the time comes in as an argument, and expired
//! keys are reclaimed by whoever calls [`Session::expire_due`].
//!
//! Removed memory becomes free once every session has left the operation that it was in. A session that
//! stays in one, most likely in the closure of [`Session::get`], keeps it: removed memory grows up to a
//! limit (`Options::index.limbo_max`). Above it writes fail with [`StoreError::Stalled`], which names that
//! session, until it proceeds.
//!
//! ```
//! use hotring_store::{ExpireCondition, Options, SetExpiry, SetOptions, Store};
//!
//! let store = Store::new(Options::default())?;
//! let mut session = store.session(); // one for each thread
//! let now = 1_700_000_000_000; // Unix milliseconds, from your clock
//!
//! session.set(b"greeting", b"hello", SetOptions::default(), now)?;
//! assert_eq!(session.get(b"greeting", now, |value| value.to_vec()), Some(b"hello".to_vec()));
//!
//! // Integers are updated in place.
//! assert_eq!(session.incr_by(b"visits", 1, now)?, 1);
//! assert_eq!(session.incr_by(b"visits", 41, now)?, 42);
//!
//! // A lock that lets go after a second.
//! let lock = SetOptions { expiry: SetExpiry::At(now + 1_000), ..SetOptions::if_absent() };
//! assert!(session.set(b"lock", b"me", lock, now)?.stored);
//! assert!(!session.set(b"lock", b"you", lock, now + 999)?.stored);
//! assert!(session.expire_at(b"lock", now + 9_000, ExpireCondition::IfLater, now + 999)?);
//! assert!(session.exists(b"lock", now + 8_999));
//! assert!(!session.exists(b"lock", now + 9_000));
//!
//! // Both or neither, whoever looks.
//! session.mset(&[(b"from", b"90"), (b"to", b"10")], now)?;
//! session.mget(&[b"from", b"to"], now, |i, value| {
//!     assert_eq!(value.map(|v| v.to_vec()), Some([b"90", b"10"][i].to_vec()));
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod changes;
mod container;
mod databases;
mod decimal;
mod error;
#[doc(hidden)]
pub mod evict;
mod expired;
mod gate;
#[cfg(test)]
#[path = "gate/tests.rs"]
mod gate_tests;
mod gathered;
mod hash;
mod history;
mod holds;
mod idle;
mod in_flight;
mod list;
mod logged;
mod long_text;
mod metadata;
mod ops;
mod pins;
mod restore;
mod scored;
mod session;
mod set;
mod snapshot;
mod store;
mod stripe;
mod sync;
mod value;
mod wait;
mod watch;
mod wheel;
mod write;

pub use changes::{Change, Changed, Effects, FieldsChanged, Origin, Step};
pub use databases::DATABASES_MAX;
pub use error::{NumberKind, StoreError};
pub use evict::{EvictionOptions, EvictionPolicy};
#[doc(hidden)]
pub use gate::Fault;
pub use hash::{ByRank, HashRef};
pub use history::{Earlier, History};
pub use holds::HoldInfo;
/// Part of a string.
pub use hotring_containers::Piece;
pub use hotring_containers::Scored;
/// The index, whose settings are part of [`Options`].
pub use hotring_index as index;
/// Long values, which are never copied.
pub use hotring_index::{Block, BlockRef, Buffer, LONG_LEN};
/// A key, which may know its hash.
pub use hotring_index::{Key, KeyHash};
pub use list::{End, ListRef};
pub use logged::UnknownForm;
pub use long_text::TextRef;
pub use metadata::{Access, Metadata};
pub use ops::bit_fields::{BitField, FieldAction, FieldOp, Overflow};
pub use ops::bits::{BitOp, BitRange};
pub use ops::content::{Content, Field};
pub use ops::counter::{Counted, CounterExpiry, CounterOptions, Decimal};
pub use ops::expire::{ExpireCondition, TtlChange};
pub use ops::expire_due::ExpiryStep;
pub use ops::fields::{FieldExpiry, FieldsCondition, SetFieldExpiry};
pub use ops::item::{Item, ItemAction, UniqueNumbers};
pub use ops::key_state::KeyState;
pub use ops::list::Elements;
pub use ops::read::Accesses;
pub use ops::room::Room;
pub use ops::scored::{AddOptions, Added, OwnedScored};
pub use ops::scored_inputs::{ScoredAsked, ScoredInput};
pub use ops::set::{SetCondition, SetExpiry, SetOptions, SetOutcome, digest};
pub use ops::sets::{SetOperation, SetSnapshot};
pub use ops::several::MSetCondition;
pub use ops::watch::Watched;
pub use pins::Pinned;
pub use restore::KeyFates;
pub use scored::ScoredRef;
pub use scored::interval::{Interval, MemberEnd, ScoreEnd};
pub use session::Session;
pub use set::{Member, SetForm, SetRef};
pub use snapshot::{SnapshotFailed, SnapshotWalk};
pub use store::{OpenError, Options, Stats, Store};
pub use value::{Text, ValueRef};
pub use wait::Wait;
pub use watch::{Observer, Place, Taker, Turn, Watch};
