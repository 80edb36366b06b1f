//! The index of a store: HotRing, or an engine supplied by the caller.
//!
//! HotRing is compiled into the caller's code. Every other engine is behind one type ([`ErasedIndex`]), so
//! that another engine does not add a copy of the caller's code. The choice costs one predictable branch per
//! operation.

use crate::bytes::{Action, Bytes, Entry, Expiry, Key, Marked, NewValue, Noting, Part, Scrub};
use crate::core::block::{Block, Buffer, Object};
use crate::core::config::{Checksum, Config, ConfigError};
use crate::core::item::Damaged;
use crate::core::limbo::Stalled;
use crate::core::memory_limit::{PeerMemory, Refused, Taken};
use crate::core::stats::Stats;
use crate::core::sync::Arc;
use crate::engine::Engine;
use crate::erased::{ErasedIndex, ErasedSession, Maintain, index_operations, session_operations};
use crate::index::Index;
use crate::ring::Ring;
use crate::session::Session;
use crate::session::compact::Compacted;

#[derive(Clone)]
enum Indexes {
    HotRing(Index<Bytes, Ring<7>>),
    Erased(Arc<dyn ErasedIndex>),
}

// The large variant is the usual one, and a thread has only one session.
#[allow(clippy::large_enum_variant)]
enum Sessions {
    HotRing(Session<Bytes, Ring<7>>),
    Erased(Box<dyn ErasedSession>),
}

/// Evaluates the same expression for each variant.
macro_rules! each_index {
    ($any:expr, $one:ident => $do:expr) => {
        match $any {
            Indexes::HotRing($one) => $do,
            Indexes::Erased($one) => $do,
        }
    };
}

macro_rules! each {
    ($any:expr, $one:ident => $do:expr) => {
        match $any {
            Sessions::HotRing($one) => $do,
            Sessions::Erased($one) => $do,
        }
    };
}

macro_rules! forward_index {
    ($($(#[$doc:meta])* fn $name:ident($self:ident: $by:ty $(, $arg:ident: $ty:ty)*) $(-> $out:ty)?;)+) => {
        $(
            #[doc = concat!("As [`Index::", stringify!($name), "`].")]
            $(#[$doc])*
            pub fn $name($self: $by $(, $arg: $ty)*) $(-> $out)? {
                each_index!(&$self.index, index => index.$name($($arg),*))
            }
        )+
    };
}

macro_rules! forward_session {
    ($($(#[$doc:meta])* fn $name:ident($self:ident: $by:ty $(, $arg:ident: $ty:ty)*) $(-> $out:ty)?;)+) => {
        $(
            #[doc = concat!("As [`Session::", stringify!($name), "`].")]
            $(#[$doc])*
            #[inline(always)]
            pub fn $name($self: $by $(, $arg: $ty)*) $(-> $out)? {
                let Self { sessions, .. } = $self;
                each!(sessions, session => session.$name($($arg),*))
            }
        )+
    };
}

/// An index of byte strings with any of the engines. Cloning gives another handle to the same index.
#[derive(Clone)]
pub struct AnyIndex {
    name: &'static str,
    verifies: bool,
    index: Indexes,
    maintenance: Option<Arc<dyn Maintain>>,
}

impl AnyIndex {
    /// An empty HotRing with lines of 7 hints.
    ///
    /// # Errors
    /// Incompatible settings, or no address space for the table.
    pub fn hotring(config: Config) -> Result<Self, ConfigError> {
        let verifies = config.checksum == Checksum::Verify;
        let index = Indexes::HotRing(Index::new(config)?);
        Ok(Self { name: Ring::<7>::NAME, verifies, index, maintenance: None })
    }

    /// An index with an engine supplied by the caller; `name` is the name of the engine.
    pub fn erased<E: Engine>(name: &'static str, index: Index<Bytes, E>) -> Self {
        let verifies = index.shared.config.checksum == Checksum::Verify;
        Self { name, verifies, index: Indexes::Erased(Arc::new(index)), maintenance: None }
    }

    /// The same index with work for [`AnyIndex::maintain`].
    #[must_use]
    pub fn with_maintenance(self, maintenance: Arc<dyn Maintain>) -> Self {
        Self { maintenance: Some(maintenance), ..self }
    }

    /// Does background work of the engine on the calling thread until `stop` returns true. Sleeps while
    /// there is no work, so the caller must call [`AnyIndex::wake_maintenance`] after `stop`'s answer changes.
    /// Returns at once if the engine has no background work, or another thread does it.
    pub fn maintain(&self, stop: impl Fn() -> bool) {
        if let Some(maintenance) = &self.maintenance {
            maintenance.run(&stop);
        }
    }

    /// Wakes the thread in [`AnyIndex::maintain`], so that it calls `stop` again.
    pub fn wake_maintenance(&self) {
        if let Some(maintenance) = &self.maintenance {
            maintenance.wake();
        }
    }

    /// The name of the engine.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// As [`Index::try_session`].
    ///
    /// # Errors
    /// The engine serves one session at a time, and a session exists.
    pub fn try_session(&self, name: Option<&str>) -> Result<AnySession, ConfigError> {
        let sessions = match &self.index {
            Indexes::HotRing(index) => Sessions::HotRing(index.try_session(name)?),
            Indexes::Erased(index) => Sessions::Erased(index.try_session(name)?),
        };
        Ok(AnySession { sessions, verifies: self.verifies })
    }

    /// As [`Index::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    index_operations!(forward_index);
}

/// Passes `find` a closure that calls `f` once, and returns `f`'s result.
#[inline(always)]
fn once<R>(
    f: impl FnOnce(Entry<'_>) -> R,
    find: impl FnOnce(&mut dyn FnMut(Entry<'_>)),
) -> Option<R> {
    let (mut f, mut result) = (Some(f), None);
    find(&mut |entry| result = f.take().map(|f| f(entry)));
    result
}

/// A thread's access to an [`AnyIndex`]: the operations of [`Session`] on byte strings.
pub struct AnySession {
    sessions: Sessions,
    verifies: bool,
}

impl AnySession {
    /// As [`Session::get`].
    #[inline(always)]
    pub fn get<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.get(key, now, f),
            Sessions::Erased(session) => once(f, |f| session.get(key.into(), now, f)),
        }
    }

    /// As [`Session::peek`].
    pub fn peek<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.peek(key, now, f),
            Sessions::Erased(session) => once(f, |f| session.peek(key.into(), now, f)),
        }
    }

    /// As [`Session::peek_marked`].
    pub fn peek_marked<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>, u8) -> R,
    ) -> Option<R> {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.peek_marked(key, now, f),
            Sessions::Erased(session) => {
                let (mut f, mut result) = (Some(f), None);
                session.peek_marked(key.into(), now, &mut |entry, bits| {
                    result = f.take().map(|f| f(entry, bits));
                });
                result
            }
        }
    }

    /// As [`Session::review`].
    pub fn review(
        &mut self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(Entry<'_>, Marked) -> (u8, bool),
    ) -> u64 {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.review(cursor, count, f),
            Sessions::Erased(session) => session.review(cursor, count, &mut f),
        }
    }

    /// As [`Session::take_entered`].
    pub fn take_entered(&mut self, mut f: impl FnMut(u64)) {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.take_entered(f),
            Sessions::Erased(session) => session.take_entered(&mut f),
        }
    }

    /// As [`Session::update`].
    #[inline(always)]
    pub fn update<'k, 'x, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        mut decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.update(key, now, decide),
            Sessions::Erased(session) => {
                let mut result = None;
                session.update(key.into(), now, &mut |entry| {
                    let (action, decided) = decide(entry);
                    result = Some(decided);
                    action
                });
                result.expect("an update decides at least once")
            }
        }
    }

    /// As [`Session::put`].
    #[inline(always)]
    pub fn put<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        value: NewValue<'_>,
        expiry: Expiry,
        now: u64,
    ) -> bool {
        each!(&mut self.sessions, session => session.put(key.into(), value, expiry, now))
    }

    /// As [`Session::remove`].
    pub fn remove<'k>(&mut self, key: impl Into<Key<'k>>, now: u64) -> bool {
        each!(&mut self.sessions, session => session.remove(key.into(), now))
    }

    /// As [`Session::version`].
    pub fn version<'k>(&mut self, key: impl Into<Key<'k>>, now: u64) -> Option<u64> {
        each!(&mut self.sessions, session => session.version(key.into(), now))
    }

    /// As [`Session::scan`].
    pub fn scan(
        &mut self,
        cursor: u64,
        count: usize,
        now: u64,
        mut f: impl FnMut(Entry<'_>),
    ) -> u64 {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.scan(cursor, count, now, f),
            Sessions::Erased(session) => session.scan(cursor, count, now, &mut f),
        }
    }

    /// As [`Session::key_hash`].
    pub fn key_hash<'k>(&self, key: impl Into<Key<'k>>) -> u64 {
        each!(&self.sessions, session => session.key_hash(key.into()))
    }

    /// As [`Session::with_hash`].
    pub fn with_hash(&mut self, hash: u64, mut f: impl FnMut(Entry<'_>)) {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.with_hash(hash, f),
            Sessions::Erased(session) => session.with_hash(hash, &mut f),
        }
    }

    /// As [`Session::scan_hashes`].
    pub fn scan_hashes(
        &mut self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(u64, Entry<'_>),
    ) -> u64 {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.scan_hashes(cursor, count, f),
            Sessions::Erased(session) => session.scan_hashes(cursor, count, &mut f),
        }
    }

    /// As [`Session::sample`].
    pub fn sample<R>(
        &mut self,
        random: u64,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.sample(random, now, f),
            Sessions::Erased(session) => once(f, |f| session.sample(random, now, f)),
        }
    }

    /// As [`Session::get_many`].
    pub fn get_many(
        &mut self,
        keys: &[&[u8]],
        now: u64,
        mut f: impl FnMut(usize, Option<Entry<'_>>),
    ) {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.get_many(keys, now, f),
            Sessions::Erased(session) => session.get_many(keys, now, &mut f),
        }
    }

    /// As [`Session::take_damage`].
    #[inline(always)]
    pub fn take_damage(&mut self) -> Option<Damaged> {
        // Callers ask after every operation, so an index that verifies no checksums answers without a call.
        if !self.verifies {
            return None;
        }
        each!(&mut self.sessions, session => session.take_damage())
    }

    /// As [`Session::with_damage`].
    #[doc(hidden)]
    pub fn with_damage<R>(
        &mut self,
        key: &[u8],
        part: Part,
        bit: usize,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        match &mut self.sessions {
            Sessions::HotRing(session) => session.with_damage(key, part, bit, f),
            Sessions::Erased(session) => {
                let (mut f, mut result) = (Some(f), None);
                session.with_damage(key, part, bit, &mut || result = f.take().map(|f| f()));
                result
            }
        }
    }

    session_operations!(forward_session);
}
