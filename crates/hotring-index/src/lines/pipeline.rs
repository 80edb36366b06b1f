//! Batches: many lookups in flight, so that the lines they wait for are fetched in parallel.
//!
//! A lookup prefetches its home line and pauses. When its turn comes again it looks at the line: it ends, or it
//! prefetches the next line of its home's sequence and goes to the back of the queue. A hit takes one search of 64
//! bytes and one load of 16; word 0 is read only where the search finds nothing. Rare cases (a home that has moved on,
//! the stash, a miss in a home with further lines) fall back to the plain lookup, whose lines are then in the cache.
//!
//! The keys of a batch are all known in advance; `queue.rs` has the queue that callers fill one by one. Writes of a
//! batch take effect one after the other, in order; the lines of later writes are prefetched.

use super::bits::{ACTIVE, PROBE, PROBE_MAX, probe, probe_of, reach_of};
use super::lane::{Form, Search, by_form};
use super::lookup::{AtHome, look_up};
use super::session::LinesSession;
use super::table::{Shape, Table};
use crate::core::prefetch::{prefetch, prefetch_to_write};

/// Lookups in flight: more than a core can have cache misses outstanding, so that each line has arrived when its turn
/// comes.
pub(super) const IN_FLIGHT_MAX: usize = 64;

/// The number of later writes whose lines are prefetched.
const AHEAD: usize = 24;

/// A lookup in flight, or a write whose line is being fetched, in one table.
#[derive(Clone, Copy)]
pub(super) struct Pending<W> {
    /// The word to look for, with the number of the line in its PROBE bits.
    want: u64,
    /// The line.
    index: u64,
    /// The REACH of the home; 0 until the home line has been seen.
    reach: u32,
    /// The caller's token.
    pub(super) payload: W,
}

/// The result of a look at a line.
pub(super) enum Step {
    /// The lookup has ended with this value.
    Done(Option<u64>),
    /// The lookup waits for its next line.
    Continue,
    /// The plain lookup must answer.
    Fallback,
}

impl<W> Pending<W> {
    /// Prefetches the home line of a hash.
    #[inline(always)]
    pub(super) fn start(shape: &Shape, hash: u64, payload: W) -> Self {
        let home = shape.home(hash);
        prefetch(std::ptr::from_ref(shape.line(home.index)).cast());
        Self { want: home.want, index: home.index, reach: 0, payload }
    }

    /// Like `start`, for a write: takes the line away from other cores.
    #[inline(always)]
    pub(super) fn start_write(shape: &Shape, hash: u64, payload: W) -> Self {
        let home = shape.home(hash);
        prefetch_to_write(std::ptr::from_ref(shape.line(home.index)).cast());
        Self { want: home.want, index: home.index, reach: 0, payload }
    }

    /// The value, if the item is in the line.
    #[inline(always)]
    pub(super) fn hit<S: Search>(&self, shape: &Shape) -> Option<u64> {
        let found = shape.find_in::<S>(shape.line(self.index), self.want)?;
        Some(found.pair.value)
    }

    /// Decides how to continue after the line was searched without a hit.
    #[inline(always)]
    pub(super) fn next_line<S: Search>(&mut self, shape: &Shape) -> Step {
        if self.want & PROBE == 0 {
            match shape.look_again_at_home::<S>(shape.line(self.index), self.want) {
                AtHome::Hit(value) => return Step::Done(Some(value)),
                AtHome::Miss => return Step::Done(None),
                AtHome::Further(control) if control & ACTIVE == 0 => return Step::Fallback,
                AtHome::Further(control) => self.reach = reach_of(control) as u32,
            }
        }
        if probe_of(self.want) >= u64::from(self.reach).min(PROBE_MAX) {
            return Step::Fallback;
        }
        self.want += probe(1);
        self.index += shape.step(self.want);
        prefetch(std::ptr::from_ref(shape.line(self.index)).cast());
        Step::Continue
    }
}

impl LinesSession {
    /// Calls `f` with the number of each key and its value, in any order: the fast way for more than a few keys. Each
    /// lookup is linearizable by itself; the batch is not one step.
    ///
    /// # Panics
    /// If there are 2^32 keys or more.
    pub fn for_each_many(&mut self, keys: &[u64], mut f: impl FnMut(usize, Option<u64>)) {
        assert!(u32::try_from(keys.len()).is_ok(), "fewer than 2^32 keys");
        self.switch_table_if_left();
        let (table, hash) = (self.table(), |key| self.hash(key));
        by_form!(self.form, S => run_all::<S>(table, keys, hash, &mut f));
        self.note_reads(keys);
    }

    /// As [`LinesSession::for_each_many`]: `out[i]` becomes the value of `keys[i]`.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many(&mut self, keys: &[u64], out: &mut [Option<u64>]) {
        assert_eq!(keys.len(), out.len(), "one result per key");
        self.for_each_many(keys, |i, value| out[i] = value);
    }

    /// Stores pairs, in order.
    pub fn put_many(&mut self, pairs: &[(u64, u64)]) {
        self.run_with_prefetch(
            pairs,
            |pair| pair.0,
            |session, &(key, value)| _ = session.put(key, value),
        );
    }

    /// Inserts those pairs whose keys are absent, in order; returns how many were.
    pub fn insert_many(&mut self, pairs: &[(u64, u64)]) -> usize {
        let mut inserted = 0;
        self.run_with_prefetch(
            pairs,
            |pair| pair.0,
            |session, &(key, value)| {
                inserted += usize::from(session.insert(key, value));
            },
        );
        inserted
    }

    /// Removes keys, in order; returns how many were present.
    pub fn remove_many(&mut self, keys: &[u64]) -> usize {
        let mut removed = 0;
        self.run_with_prefetch(
            keys,
            |key| *key,
            |session, key| removed += usize::from(session.remove(*key)),
        );
        removed
    }

    fn run_with_prefetch<T>(
        &mut self,
        all: &[T],
        key: impl Fn(&T) -> u64,
        mut f: impl FnMut(&mut Self, &T),
    ) {
        for one in &all[..all.len().min(AHEAD)] {
            self.prefetch_home(key(one));
        }
        for (i, one) in all.iter().enumerate() {
            if let Some(later) = all.get(i + AHEAD) {
                self.prefetch_home(key(later));
            }
            f(self, one);
        }
    }

    /// Prefetches the home line of a key that will be written.
    #[inline(always)]
    fn prefetch_home(&self, key: u64) {
        let home = self.shape.home(self.hash(key));
        prefetch_to_write(std::ptr::from_ref(self.shape.line(home.index)).cast());
    }
}

#[inline(always)]
fn run_all<S: Search>(
    table: &Table,
    keys: &[u64],
    hash: impl Fn(u64) -> u64,
    done: &mut impl FnMut(usize, Option<u64>),
) {
    let shape = table.shape;
    let start = |key: usize| Pending::start(&shape, hash(keys[key]), key as u32);
    let settle = |key: u32| look_up::<S>(table, hash(keys[key as usize]));
    let mut in_flight = keys.len().min(IN_FLIGHT_MAX);
    let mut pending = [Pending { want: 0, index: 0, reach: 0, payload: 0 }; IN_FLIGHT_MAX];
    for (key, lookup) in pending[..in_flight].iter_mut().enumerate() {
        *lookup = start(key);
    }
    // While there are keys to start, all slots are taken.
    let (mut started, mut turn) = (in_flight, 0);
    'full: while started < keys.len() {
        for (at, lookup) in pending.iter_mut().enumerate() {
            if started == keys.len() {
                turn = at;
                break 'full;
            }
            let value = match lookup.hit::<S>(&shape) {
                Some(value) => Some(value),
                None => match lookup.next_line::<S>(&shape) {
                    Step::Done(value) => value,
                    Step::Continue => continue,
                    Step::Fallback => settle(lookup.payload),
                },
            };
            done(lookup.payload as usize, value);
            *lookup = start(started);
            started += 1;
        }
    }
    // The remaining lookups end in order, from the slot whose turn it is; those that continue
    // keep their order.
    pending[..in_flight].rotate_left(turn);
    while in_flight > 0 {
        let mut left = 0;
        for at in 0..in_flight {
            let lookup = &mut pending[at];
            let value = match lookup.hit::<S>(&shape) {
                Some(value) => Some(value),
                None => match lookup.next_line::<S>(&shape) {
                    Step::Done(value) => value,
                    Step::Continue => {
                        pending[left] = pending[at];
                        left += 1;
                        continue;
                    }
                    Step::Fallback => settle(lookup.payload),
                },
            };
            done(pending[at].payload as usize, value);
        }
        in_flight = left;
    }
}
