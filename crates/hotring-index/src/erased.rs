//! An index whose engine is chosen at run time: one type for all of them.
//!
//! The store is generic over its callers' closures, so its code is compiled once per engine type. To avoid
//! these copies, all engines other than the ring share one, behind [`ErasedSession`]. Its price is a virtual
//! call for each operation and each entry.

use crate::bytes::{Action, Bytes, Entry, Expiry, Key, Marked, NewValue, Noting, Part, Scrub};
use crate::core::block::{Block, Buffer, Object};
use crate::core::config::ConfigError;
use crate::core::item::Damaged;
use crate::core::limbo::Stalled;
use crate::core::memory_limit::{PeerMemory, Refused, Taken};
use crate::core::stats::Stats;
use crate::engine::Engine;
use crate::index::Index;
use crate::session::Session;
use crate::session::compact::Compacted;

/// Passes the signatures of the index operations that need no type parameter to the macro `$define`.
macro_rules! index_operations {
    ($define:ident) => {
        $define! {
            fn stalled(self: &Self) -> Option<Stalled>;
            fn set_limbo_max(self: &Self, bytes: u64);
            fn set_memory_max(self: &Self, bytes: u64);
            /// # Errors
            /// As for the method of the same name.
            fn buffer(self: &Self, capacity: usize) -> std::io::Result<Buffer>;
            fn object(self: &Self, object: Box<dyn Object>, bytes: usize) -> Block;
            fn set_memory_spare(self: &Self, bytes: u64);
            fn set_external_memory(self: &Self, bytes: u64);
            fn set_peer_memory(self: &Self, peers: PeerMemory);
            fn own_bytes(self: &Self) -> Taken;
            /// # Errors
            /// As for the method of the same name.
            fn set_noting(self: &Self, noting: Noting) -> Result<(), ConfigError>;
            /// # Errors
            /// As for the method of the same name.
            fn can_note(self: &Self, noting: Noting) -> Result<(), ConfigError>;
            fn set_stamp(self: &Self, stamp: u8);
            fn stamp(self: &Self) -> Option<u8>;
            fn tick(self: &Self) -> u8;
            fn len(self: &Self) -> usize;
            fn stats(self: &Self) -> Stats;
        }
    };
}
pub(crate) use index_operations;

/// Passes the signatures of the session operations that need no type parameter to the macro `$define`.
macro_rules! session_operations {
    ($define:ident) => {
        $define! {
            fn set_noted(self: &mut Self, noted: bool);
            fn entered(self: &mut Self) -> usize;
            fn counts(self: &Self) -> (u64, u64);
            fn prefetch(self: &mut Self, keys: &mut [Key<'_>]);
            fn clear(self: &mut Self);
            fn clear_range(self: &mut Self, from: u64, to: u64) -> (u64, u64);
            fn expire_step(self: &mut Self, budget: usize, now: u64) -> (usize, usize);
            fn damages(self: &mut Self) -> u64;
            fn scrub_step(self: &mut Self, scrub: &mut Scrub, budget: usize);
            /// # Errors
            /// The stalled session, and the memory that waits for it.
            fn admit(self: &mut Self) -> Result<(), Refused>;
            /// # Errors
            /// As `admit`.
            fn admit_bytes(self: &mut Self, bytes: usize) -> Result<(), Refused>;
            fn is_refusing(self: &Self) -> bool;
            /// # Errors
            /// As `admit`.
            fn try_admit_bytes(self: &mut Self, bytes: usize) -> Result<(), Refused>;
            fn compact_step(self: &mut Self, budget: usize) -> Compacted;
            fn collect(self: &mut Self);
            fn give_away(self: &mut Self);
            fn grew(self: &mut Self, bytes: usize);
            fn grow(self: &mut Self) -> bool;
            fn is_small_for(self: &mut Self, items: u64) -> bool;
            fn shrink(self: &mut Self) -> bool;
        }
    };
}
pub(crate) use session_operations;

macro_rules! declare {
    ($($(#[$doc:meta])* fn $name:ident($self:ident: $by:ty $(, $arg:ident: $ty:ty)*) $(-> $out:ty)?;)+) => {
        $(fn $name($self: $by $(, $arg: $ty)*) $(-> $out)?;)+
    };
}

macro_rules! forward {
    ($($(#[$doc:meta])* fn $name:ident($self:ident: $by:ty $(, $arg:ident: $ty:ty)*) $(-> $out:ty)?;)+) => {
        $(
            fn $name($self: $by $(, $arg: $ty)*) $(-> $out)? {
                $self.$name($($arg),*)
            }
        )+
    };
}

/// An index of byte strings with any engine: [`Index`] without its type parameters.
#[doc(hidden)]
#[allow(missing_docs, clippy::len_without_is_empty)]
pub trait ErasedIndex: Send + Sync {
    fn try_session(&self, name: Option<&str>) -> Result<Box<dyn ErasedSession>, ConfigError>;

    index_operations!(declare);
}

impl<E: Engine> ErasedIndex for Index<Bytes, E> {
    fn try_session(&self, name: Option<&str>) -> Result<Box<dyn ErasedSession>, ConfigError> {
        Ok(Box::new(self.try_session(name)?))
    }

    index_operations!(forward);
}

/// Background work of an engine, done on a thread that its owner provides.
pub trait Maintain: Send + Sync {
    /// Does the work on the calling thread until `stop` returns true. Sleeps while there is no work. Returns
    /// at once if another thread does it.
    fn run(&self, stop: &dyn Fn() -> bool);

    /// Wakes the thread in `run`, so that it calls `stop` again.
    fn wake(&self);
}

/// The caller's closure for an entry.
type Visit<'f> = &'f mut dyn FnMut(Entry<'_>);

/// A session of an [`ErasedIndex`]: the byte-string operations of [`Session`]. The methods here do not
/// return the closure's result as `Session` does; the closure must store it.
#[doc(hidden)]
#[allow(missing_docs)]
pub trait ErasedSession: Send {
    fn get(&mut self, key: Key<'_>, now: u64, f: Visit<'_>);
    fn peek(&mut self, key: Key<'_>, now: u64, f: Visit<'_>);
    fn peek_marked(&mut self, key: Key<'_>, now: u64, f: &mut dyn FnMut(Entry<'_>, u8));
    fn review(
        &mut self,
        cursor: u64,
        count: usize,
        f: &mut dyn FnMut(Entry<'_>, Marked) -> (u8, bool),
    ) -> u64;
    fn take_entered(&mut self, f: &mut dyn FnMut(u64));
    fn update<'x>(
        &mut self,
        key: Key<'_>,
        now: u64,
        decide: &mut dyn FnMut(Option<Entry<'_>>) -> Action<'x>,
    );
    fn put(&mut self, key: Key<'_>, value: NewValue<'_>, expiry: Expiry, now: u64) -> bool;
    fn remove(&mut self, key: Key<'_>, now: u64) -> bool;
    fn version(&mut self, key: Key<'_>, now: u64) -> Option<u64>;
    fn scan(&mut self, cursor: u64, count: usize, now: u64, f: Visit<'_>) -> u64;
    fn key_hash(&self, key: Key<'_>) -> u64;
    fn with_hash(&mut self, hash: u64, f: Visit<'_>);
    fn scan_hashes(&mut self, cursor: u64, count: usize, f: &mut dyn FnMut(u64, Entry<'_>)) -> u64;
    fn sample(&mut self, random: u64, now: u64, f: Visit<'_>);
    fn get_many(&mut self, keys: &[&[u8]], now: u64, f: &mut dyn FnMut(usize, Option<Entry<'_>>));
    fn take_damage(&mut self) -> Option<Damaged>;
    fn with_damage(&mut self, key: &[u8], part: Part, bit: usize, f: &mut dyn FnMut());

    session_operations!(declare);
}

impl<E: Engine> ErasedSession for Session<Bytes, E> {
    fn get(&mut self, key: Key<'_>, now: u64, f: Visit<'_>) {
        self.get(key, now, f);
    }

    fn peek(&mut self, key: Key<'_>, now: u64, f: Visit<'_>) {
        self.peek(key, now, f);
    }

    fn peek_marked(&mut self, key: Key<'_>, now: u64, f: &mut dyn FnMut(Entry<'_>, u8)) {
        self.peek_marked(key, now, f);
    }

    fn review(
        &mut self,
        cursor: u64,
        count: usize,
        f: &mut dyn FnMut(Entry<'_>, Marked) -> (u8, bool),
    ) -> u64 {
        self.review(cursor, count, f)
    }

    fn take_entered(&mut self, f: &mut dyn FnMut(u64)) {
        self.take_entered(f);
    }

    fn update<'x>(
        &mut self,
        key: Key<'_>,
        now: u64,
        decide: &mut dyn FnMut(Option<Entry<'_>>) -> Action<'x>,
    ) {
        self.update(key, now, |entry| (decide(entry), ()));
    }

    fn put(&mut self, key: Key<'_>, value: NewValue<'_>, expiry: Expiry, now: u64) -> bool {
        self.put(key, value, expiry, now)
    }

    fn remove(&mut self, key: Key<'_>, now: u64) -> bool {
        self.remove(key, now)
    }

    fn version(&mut self, key: Key<'_>, now: u64) -> Option<u64> {
        self.version(key, now)
    }

    fn scan(&mut self, cursor: u64, count: usize, now: u64, f: Visit<'_>) -> u64 {
        self.scan(cursor, count, now, f)
    }

    fn key_hash(&self, key: Key<'_>) -> u64 {
        self.key_hash(key)
    }

    fn with_hash(&mut self, hash: u64, f: Visit<'_>) {
        self.with_hash(hash, f);
    }

    fn scan_hashes(&mut self, cursor: u64, count: usize, f: &mut dyn FnMut(u64, Entry<'_>)) -> u64 {
        self.scan_hashes(cursor, count, f)
    }

    fn sample(&mut self, random: u64, now: u64, f: Visit<'_>) {
        self.sample(random, now, f);
    }

    fn get_many(&mut self, keys: &[&[u8]], now: u64, f: &mut dyn FnMut(usize, Option<Entry<'_>>)) {
        self.get_many(keys, now, f);
    }

    fn take_damage(&mut self) -> Option<Damaged> {
        self.take_damage()
    }

    fn with_damage(&mut self, key: &[u8], part: Part, bit: usize, f: &mut dyn FnMut()) {
        self.with_damage(key, part, bit, f);
    }

    session_operations!(forward);
}
