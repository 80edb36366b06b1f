//! An index whose engine is chosen when it is built, not when the program is compiled.
//!
//! One predictable branch an operation is what it costs. A program that needs one engine only
//! names it in a type: [`HotRing`](crate::HotRing), for example.

use crate::budget::Refused;
use crate::bytes::{
    Action, Buffer, Bytes, Damaged, Entry, Expiry, Key, Marked, NewValue, Noting, Part, Scrub,
};
use crate::chaining::Chaining;
use crate::compact::Compacted;
use crate::config::{Checksum, Config, ConfigError};
use crate::gcuckoo::GCuckoo;
use crate::index::Index;
use crate::limit::Stalled;
use crate::mercury::{Mercury, OsMutex, TestAndSet};
use crate::ring::Ring;
use crate::session::Session;
use crate::stats::Stats;

/// Defines the choice, the index and the session from one list of engines, and `each!`, which runs
/// the same code for whichever it is.
macro_rules! engines {
    ($($(#[$doc:meta])* $name:ident: $engine:ty, $text:literal;)+) => {
        /// Which engine an [`AnyIndex`] has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        #[non_exhaustive]
        pub enum EngineChoice {
            $($(#[$doc])* $name,)+
        }

        impl EngineChoice {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// What it is called where one has to tell them all apart.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }

        impl std::str::FromStr for EngineChoice {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$name),)+
                    _ => Err(format!("an engine is one of {}", [$($text),+].join(", "))),
                }
            }
        }

        #[derive(Clone)]
        enum Indexes {
            $($name(Index<Bytes, $engine>),)+
        }

        enum Sessions {
            $($name(Session<Bytes, $engine>),)+
        }

        impl Indexes {
            fn new(choice: EngineChoice, config: Config) -> Result<Self, ConfigError> {
                Ok(match choice {
                    $(EngineChoice::$name => Self::$name(Index::new(config)?),)+
                })
            }

            fn try_session(&self, name: Option<&str>) -> Result<Sessions, ConfigError> {
                Ok(match self {
                    $(Self::$name(index) => Sessions::$name(index.try_session(name)?),)+
                })
            }
        }

        macro_rules! each_index {
            ($any:expr, $one:ident => $do:expr) => {
                match $any {
                    $(Indexes::$name($one) => $do,)+
                }
            };
        }

        macro_rules! each {
            ($any:expr, $one:ident => $do:expr) => {
                match $any {
                    $(Sessions::$name($one) => $do,)+
                }
            };
        }
    };
}

engines! {
    /// HotRing with lines of 7 hints.
    #[default]
    HotRing: Ring<7>, "hotring";
    /// HotRing with one movable head, as in the paper; what the strategies Random and Sampling need.
    HotRingOneHead: Ring<1>, "hotring-one-head";
    /// Mercury with test-and-set locks.
    Mercury: Mercury<TestAndSet>, "mercury";
    /// Mercury with mutexes of the operating system.
    MercuryMutex: Mercury<OsMutex>, "mercury-mutex";
    /// Lock-free chains, the baseline of HotRing's paper.
    Chaining: Chaining, "chaining";
    /// G-Cuckoo with four slots a bucket.
    GCuckoo: GCuckoo<4>, "gcuckoo";
    /// G-Cuckoo with one slot a bucket, as in the paper.
    GCuckooOneSlot: GCuckoo<1>, "gcuckoo-one-slot";
}

/// An index of byte strings with any of the engines. Cloning gives another handle to the same index.
#[derive(Clone)]
pub struct AnyIndex {
    choice: EngineChoice,
    verifies: bool,
    index: Indexes,
}

impl AnyIndex {
    /// An empty index.
    ///
    /// # Errors
    /// Settings that do not go together, or with this engine; or no address space for the table.
    pub fn new(choice: EngineChoice, config: Config) -> Result<Self, ConfigError> {
        let verifies = config.checksum == Checksum::Verify;
        Ok(Self { choice, verifies, index: Indexes::new(choice, config)? })
    }

    /// Which engine it has.
    pub fn choice(&self) -> EngineChoice {
        self.choice
    }

    /// As [`Index::try_session`].
    ///
    /// # Errors
    /// An engine without locks serves one session at a time, and there is one.
    pub fn try_session(&self, name: Option<&str>) -> Result<AnySession, ConfigError> {
        let sessions = self.index.try_session(name)?;
        Ok(AnySession { sessions, verifies: self.verifies })
    }

    /// As [`Index::stalled`].
    pub fn stalled(&self) -> Option<Stalled> {
        each_index!(&self.index, index => index.stalled())
    }

    /// As [`Index::maintain`].
    pub fn maintain(&self, stop: impl Fn() -> bool) {
        each_index!(&self.index, index => index.maintain(stop));
    }

    /// As [`Index::wake_maintenance`].
    pub fn wake_maintenance(&self) {
        each_index!(&self.index, index => index.wake_maintenance());
    }

    /// As [`Index::set_limbo_max`].
    pub fn set_limbo_max(&self, bytes: u64) {
        each_index!(&self.index, index => index.set_limbo_max(bytes));
    }

    /// As [`Index::set_memory_max`].
    pub fn set_memory_max(&self, bytes: u64) {
        each_index!(&self.index, index => index.set_memory_max(bytes));
    }

    /// As [`Index::buffer`].
    ///
    /// # Errors
    /// As there.
    pub fn buffer(&self, capacity: usize) -> std::io::Result<Buffer> {
        each_index!(&self.index, index => index.buffer(capacity))
    }

    /// As [`Index::set_memory_spare`].
    pub fn set_memory_spare(&self, bytes: u64) {
        each_index!(&self.index, index => index.set_memory_spare(bytes));
    }

    /// As [`Index::set_memory_beside`].
    pub fn set_memory_beside(&self, bytes: u64) {
        each_index!(&self.index, index => index.set_memory_beside(bytes));
    }

    /// As [`Index::set_noting`].
    ///
    /// # Errors
    /// As there.
    pub fn set_noting(&self, noting: Noting) -> Result<(), ConfigError> {
        each_index!(&self.index, index => index.set_noting(noting))
    }

    /// As [`Index::can_note`].
    ///
    /// # Errors
    /// As there.
    pub fn can_note(&self, noting: Noting) -> Result<(), ConfigError> {
        each_index!(&self.index, index => index.can_note(noting))
    }

    /// As [`Index::set_stamp`].
    pub fn set_stamp(&self, stamp: u8) {
        each_index!(&self.index, index => index.set_stamp(stamp));
    }

    /// As [`Index::stamp`].
    pub fn stamp(&self) -> Option<u8> {
        each_index!(&self.index, index => index.stamp())
    }

    /// As [`Index::tick`].
    pub fn tick(&self) -> u8 {
        each_index!(&self.index, index => index.tick())
    }

    /// As [`Index::len`].
    pub fn len(&self) -> usize {
        each_index!(&self.index, index => index.len())
    }

    /// As [`Index::is_empty`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As [`Index::stats`].
    pub fn stats(&self) -> Stats {
        each_index!(&self.index, index => index.stats())
    }
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
        each!(&mut self.sessions, session => session.get(key, now, f))
    }

    /// As [`Session::peek`].
    pub fn peek<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        each!(&mut self.sessions, session => session.peek(key, now, f))
    }

    /// As [`Session::peek_marked`].
    pub fn peek_marked<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>, u8) -> R,
    ) -> Option<R> {
        each!(&mut self.sessions, session => session.peek_marked(key, now, f))
    }

    /// As [`Session::review`].
    pub fn review(
        &mut self,
        cursor: u64,
        count: usize,
        f: impl FnMut(Entry<'_>, Marked) -> (u8, bool),
    ) -> u64 {
        each!(&mut self.sessions, session => session.review(cursor, count, f))
    }

    /// As [`Session::set_noted`].
    pub fn set_noted(&mut self, noted: bool) {
        each!(&mut self.sessions, session => session.set_noted(noted));
    }

    /// As [`Session::entered`].
    #[inline]
    pub fn entered(&mut self) -> usize {
        each!(&mut self.sessions, session => session.entered())
    }

    /// As [`Session::take_entered`].
    pub fn take_entered(&mut self, f: impl FnMut(u64)) {
        each!(&mut self.sessions, session => session.take_entered(f));
    }

    /// As [`Session::update`].
    #[inline(always)]
    pub fn update<'k, 'x, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        each!(&mut self.sessions, session => session.update(key, now, decide))
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
        each!(&mut self.sessions, session => session.put(key, value, expiry, now))
    }

    /// As [`Session::remove`].
    pub fn remove<'k>(&mut self, key: impl Into<Key<'k>>, now: u64) -> bool {
        each!(&mut self.sessions, session => session.remove(key, now))
    }

    /// As [`Session::version`].
    pub fn version<'k>(&mut self, key: impl Into<Key<'k>>, now: u64) -> Option<u64> {
        each!(&mut self.sessions, session => session.version(key, now))
    }

    /// As [`Session::scan`].
    pub fn scan(&mut self, cursor: u64, count: usize, now: u64, f: impl FnMut(Entry<'_>)) -> u64 {
        each!(&mut self.sessions, session => session.scan(cursor, count, now, f))
    }

    /// As [`Session::key_hash`].
    pub fn key_hash<'k>(&self, key: impl Into<Key<'k>>) -> u64 {
        each!(&self.sessions, session => session.key_hash(key))
    }

    /// As [`Session::counts`].
    pub fn counts(&self) -> (u64, u64) {
        each!(&self.sessions, session => session.counts())
    }

    /// As [`Session::with_hash`].
    pub fn with_hash(&mut self, hash: u64, f: impl FnMut(Entry<'_>)) {
        each!(&mut self.sessions, session => session.with_hash(hash, f));
    }

    /// As [`Session::scan_hashes`].
    pub fn scan_hashes(&mut self, cursor: u64, count: usize, f: impl FnMut(u64, Entry<'_>)) -> u64 {
        each!(&mut self.sessions, session => session.scan_hashes(cursor, count, f))
    }

    /// As [`Session::sample`].
    pub fn sample<R>(
        &mut self,
        random: u64,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        each!(&mut self.sessions, session => session.sample(random, now, f))
    }

    /// As [`Session::get_many`].
    pub fn get_many(&mut self, keys: &[&[u8]], now: u64, f: impl FnMut(usize, Option<Entry<'_>>)) {
        each!(&mut self.sessions, session => session.get_many(keys, now, f));
    }

    /// As [`Session::prefetch`].
    pub fn prefetch(&mut self, keys: &mut [Key<'_>]) {
        each!(&mut self.sessions, session => session.prefetch(keys));
    }

    /// As [`Session::clear`].
    pub fn clear(&mut self) {
        each!(&mut self.sessions, session => session.clear());
    }

    /// As [`Session::expire_step`].
    pub fn expire_step(&mut self, budget: usize, now: u64) -> (usize, usize) {
        each!(&mut self.sessions, session => session.expire_step(budget, now))
    }

    /// As [`Session::take_damage`].
    #[inline(always)]
    pub fn take_damage(&mut self) -> Option<Damaged> {
        // Asked after every operation, nearly always for nothing.
        if !self.verifies {
            return None;
        }
        each!(&mut self.sessions, session => session.take_damage())
    }

    /// As [`Session::damages`].
    pub fn damages(&mut self) -> u64 {
        each!(&mut self.sessions, session => session.damages())
    }

    /// As [`Session::scrub_step`].
    pub fn scrub_step(&mut self, scrub: &mut Scrub, budget: usize) {
        each!(&mut self.sessions, session => session.scrub_step(scrub, budget));
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
        each!(&mut self.sessions, session => session.with_damage(key, part, bit, f))
    }

    /// As [`Session::admit`].
    ///
    /// # Errors
    /// Who is in the way, and of how much.
    #[inline(always)]
    pub fn admit(&mut self) -> Result<(), Refused> {
        each!(&mut self.sessions, session => session.admit())
    }

    /// As [`Session::admit_bytes`].
    ///
    /// # Errors
    /// As [`Session::admit`].
    pub fn admit_bytes(&mut self, bytes: usize) -> Result<(), Refused> {
        each!(&mut self.sessions, session => session.admit_bytes(bytes))
    }

    /// As [`Session::is_refusing`].
    #[inline(always)]
    pub fn is_refusing(&self) -> bool {
        each!(&self.sessions, session => session.is_refusing())
    }

    /// As [`Session::look_for_room`].
    ///
    /// # Errors
    /// As [`Session::admit`].
    pub fn look_for_room(&mut self, bytes: usize) -> Result<(), Refused> {
        each!(&mut self.sessions, session => session.look_for_room(bytes))
    }

    /// As [`Session::compact_step`].
    pub fn compact_step(&mut self, budget: usize) -> Compacted {
        each!(&mut self.sessions, session => session.compact_step(budget))
    }

    /// As [`Session::collect`].
    pub fn collect(&mut self) {
        each!(&mut self.sessions, session => session.collect());
    }

    /// As [`Session::grow`].
    pub fn grow(&mut self) -> bool {
        each!(&mut self.sessions, session => session.grow())
    }

    /// As [`Session::is_small_for`].
    pub fn is_small_for(&mut self, items: u64) -> bool {
        each!(&mut self.sessions, session => session.is_small_for(items))
    }

    /// As [`Session::shrink`].
    pub fn shrink(&mut self) -> bool {
        each!(&mut self.sessions, session => session.shrink())
    }
}
