//! An embeddable in-memory key-value store: byte-string keys, values with the semantics of Redis types, expiry in
//! milliseconds, versions for compare-and-swap, and multi-key operations that are atomic to every observer. It is built
//! on the `hotring-index` hash index, whose reads reach frequently accessed keys in one step from the table.
//!
//! The store defines the encoding of values (`value`), the semantics of each operation (`ops`), the gate that makes
//! multi-key operations atomic (`gate`), and the expiry of keys (`wheel`). It reads no clock, draws no randomness,
//! starts no thread and opens no file: the caller passes the time as an argument, and must call [`Session::expire_due`]
//! to reclaim expired keys.
//!
//! Removed memory becomes free once every session has left the operation that it was in. A session that stays in one
//! operation, most likely in the closure of [`Session::get`], prevents that: removed memory accumulates up to a limit
//! (`Options::index.limbo_max`). Above the limit, writes fail with [`StoreError::Stalled`], which names the session,
//! until it proceeds.
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

mod apply;
mod changes;
mod clearing;
mod container;
mod databases;
mod decimal;
mod digest_walk;
mod error;
#[doc(hidden)]
pub mod evict;
mod expired;
mod gate;
#[cfg(test)]
#[path = "gate/tests.rs"]
mod gate_tests;
mod gathered;
mod grounds;
mod hash;
mod history;
mod holds;
mod idle;
mod import;
mod in_flight;
mod list;
mod logged;
mod long_text;
mod marks;
mod metadata;
mod mode;
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

pub use apply::{Applier, ApplyError, TailKeys, Worker};
pub use changes::{Change, Changed, Effects, FieldsChanged, Origin, Step};
pub use databases::DATABASES_MAX;
pub use digest_walk::DigestWalk;
pub use error::{NumberKind, StoreError};
pub use evict::{EvictionOptions, EvictionPolicy};
#[doc(hidden)]
pub use gate::Fault;
pub use grounds::{Grounds, Standing};
pub use hash::{ByRank, HashRef};
pub use history::{Earlier, History};
pub use holds::HoldInfo;
/// A piece of a string.
pub use hotring_containers::Piece;
pub use hotring_containers::Scored;
/// The index, whose settings are part of [`Options`].
pub use hotring_index as index;
/// Long values, which are shared instead of copied.
pub use hotring_index::{Block, BlockRef, Buffer, LONG_LEN};
/// A key, optionally with its precomputed hash.
pub use hotring_index::{Key, KeyHash};
pub use import::{ImportError, Importer};
pub use list::{End, ListRef};
pub use logged::UnknownForm;
pub use long_text::TextRef;
pub use metadata::{Access, Metadata};
pub use mode::Role;
pub use ops::bit_fields::{BitField, FieldAction, FieldOp, Overflow};
pub use ops::bits::{BitOp, BitRange};
pub use ops::content::{Content, Field};
pub use ops::counter::{Counted, CounterExpiry, CounterOptions, Decimal};
pub use ops::expire::{ExpireCondition, TtlChange};
pub use ops::expire_due::ExpiryStep;
pub use ops::fields::{FieldExpiry, FieldsCondition, SetFieldExpiry};
pub use ops::grounds::Forgotten;
pub use ops::item::{Item, ItemAction, UniqueNumbers};
pub use ops::key_state::KeyState;
pub use ops::list::Elements;
pub use ops::read::Accesses;
pub use ops::reply_capacity::ReplyCapacity;
pub use ops::scored::{AddOptions, Added, OwnedScored};
pub use ops::scored_inputs::{ScoreLookup, ScoredInput};
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
pub use snapshot::{SnapshotFailed, SnapshotWalk, WalkSink};
pub use store::{OpenError, Options, Stats, Store};
pub use value::{Text, ValueRef};
pub use wait::Wait;
pub use watch::{LineEntry, Observer, Taker, Turn, Watch};
