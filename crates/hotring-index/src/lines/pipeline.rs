//! Batches: many lookups in flight, so that the lines they wait for are fetched in parallel.
//!
//! A lookup prefetches its home line and pauses. When its turn comes again it looks at the line: it ends, or it
//! prefetches the next line of its home's sequence and goes to the back of the queue. Rare cases (a home that has
//! moved on, the stash, a miss in a home with further lines) fall back to the plain lookup, whose lines are then in the
//! cache.
//!
//! The keys of a batch are all known in advance; `queue.rs` has the queue that callers fill one by one. Writes of a
//! batch take effect one after the other, in order; the lines of later writes are prefetched.

use super::bits::{ACTIVE, PROBE, PROBE_MAX, probe, probe_of, reach_of};
use super::lane::{Form, Search, by_form};
use super::lookup::{is_plain, is_plain_still, look_up};
use super::relocate;
use super::session::{LinesSession, NOTED_EVERY};
use super::stash::Decision;
use super::table::Shape;
use crate::core::prefetch::{prefetch, prefetch_to_write};

/// Lookups in flight: more than a core can have cache misses outstanding, so that each line has arrived when its turn
/// comes.
pub(super) const IN_FLIGHT_MAX: usize = 64;

/// The number of later writes whose home lines are prefetched.
const AHEAD: usize = 32;
/// The number of later writes whose home lines have arrived.
const NEAR: usize = 12;

/// A lookup in flight, or a write whose line is being fetched, in one table. Aligned, so that an array of lookups is
/// indexed by a shift and none of them lies in two cache lines.
#[derive(Clone, Copy)]
#[repr(align(32))]
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

/// How a lookup goes on after a look in vain.
pub(super) enum Step {
    /// The key is absent.
    Miss,
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

    /// Looks at the line, which has been prefetched: the value, or else the control word from before the search.
    #[inline(always)]
    pub(super) fn look<S: Search>(&self, shape: &Shape) -> Result<u64, u64> {
        let line = shape.line(self.index);
        let control = shape.first_look(line);
        shape.find_in::<S>(line, self.want).map(|found| found.pair.value).ok_or(control)
    }

    /// Decides how to continue after a look in vain. If the line is not the home, `control` says nothing about the
    /// home.
    #[inline(always)]
    pub(super) fn next_line(&mut self, shape: &Shape, control: u64) -> Step {
        if self.want & PROBE == 0 {
            let line = shape.line(self.index);
            if is_plain(control) && is_plain_still(line) {
                return Step::Miss;
            }
            if control & ACTIVE == 0 {
                return Step::Fallback;
            }
            self.reach = reach_of(control) as u32;
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
        let mut until_noted = self.until_noted;
        by_form!(self.form, S => run_all::<S>(self, keys, &mut until_noted, &mut f));
        self.until_noted = until_noted;
        // Those that were in flight at the end.
        self.note_reads(&keys[keys.len().saturating_sub(IN_FLIGHT_MAX)..]);
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
            |session, hash, pair| _ = session.put_hash(hash, pair.1),
        );
    }

    /// Inserts those pairs whose keys are absent, in order; returns how many were.
    pub fn insert_many(&mut self, pairs: &[(u64, u64)]) -> usize {
        let mut inserted = 0;
        self.run_with_prefetch(
            pairs,
            |pair| pair.0,
            |session, hash, pair| inserted += usize::from(session.insert_hash(hash, pair.1)),
        );
        inserted
    }

    /// Removes keys, in order; returns how many were present.
    pub fn remove_many(&mut self, keys: &[u64]) -> usize {
        let mut removed = 0;
        self.run_with_prefetch(
            keys,
            |key| *key,
            |session, hash, _| {
                removed += usize::from(session.remove_hash(hash, |_| Decision::Remove).is_some());
            },
        );
        removed
    }

    /// Calls `f` with each element and the hash of its key, in order, while lines of later ones are fetched: first the
    /// home line, and once that has arrived the second line of those that may need it.
    fn run_with_prefetch<T>(
        &mut self,
        all: &[T],
        key: impl Fn(&T) -> u64,
        mut f: impl FnMut(&mut Self, u64, &T),
    ) {
        let mut hashes = [0; AHEAD];
        for time in 0..all.len() + AHEAD {
            if let Some(done) = time.checked_sub(AHEAD) {
                f(self, hashes[done % AHEAD], &all[done]);
            }
            if let Some(later) = all.get(time) {
                hashes[time % AHEAD] = self.hash(key(later));
                self.prefetch_home(hashes[time % AHEAD]);
            }
            if let Some(near) = time.checked_sub(AHEAD - NEAR).filter(|near| *near < all.len()) {
                self.prefetch_further(hashes[near % AHEAD]);
            }
        }
    }

    /// Prefetches the home line of a hash that will be written.
    #[inline(always)]
    fn prefetch_home(&self, hash: u64) {
        let home = self.shape.home(hash);
        prefetch_to_write(std::ptr::from_ref(self.shape.line(home.index)).cast());
    }

    /// Prefetches the second line of the sequence of a hash that will be written, if the write may need it.
    #[inline(always)]
    fn prefetch_further(&self, hash: u64) {
        let home = self.shape.home(hash);
        let line = self.shape.line(home.index);
        if reach_of(line.control()) != 0 || line.is_full() {
            let further = self.shape.line(home.index + self.shape.step(home.want));
            prefetch_to_write(std::ptr::from_ref(further).cast());
        }
    }
}

/// Looks keys up. `until_noted` counts down to the next read that is noted in its item.
#[inline(always)]
fn run_all<S: Search>(
    session: &LinesSession,
    keys: &[u64],
    until_noted: &mut u32,
    done: &mut impl FnMut(usize, Option<u64>),
) {
    let (table, permutation) = (session.table(), session.permutation());
    let shape = table.shape;
    let start = |number: usize, hash: u64| Pending::start(&shape, hash, number as u32);
    let settle = |number: u32| look_up::<S>(table, permutation.hash(keys[number as usize]));
    let none = Pending { want: 0, index: 0, reach: 0, payload: 0 };
    let (mut hashes, mut pending) = ([0; IN_FLIGHT_MAX], [none; IN_FLIGHT_MAX]);
    let (first, mut rest) = keys.split_at(keys.len().min(IN_FLIGHT_MAX));
    S::hash_all(permutation, first, &mut hashes);
    for (number, (lookup, hash)) in pending.iter_mut().zip(&hashes[..first.len()]).enumerate() {
        *lookup = start(number, *hash);
    }
    // While there are keys to start, all slots are taken.
    let (mut started, mut turn) = (first.len(), 0);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(*until_noted as usize).min(IN_FLIGHT_MAX));
        S::hash_all(permutation, now, &mut hashes);
        for hash in &hashes[..now.len()] {
            let lookup = loop {
                let lookup = &mut pending[turn % IN_FLIGHT_MAX];
                turn += 1;
                match lookup.look::<S>(&shape) {
                    Ok(value) => done(lookup.payload as usize, Some(value)),
                    Err(control) => {
                        let value = match lookup.next_line(&shape, control) {
                            Step::Miss => None,
                            Step::Continue => continue,
                            Step::Fallback => settle(lookup.payload),
                        };
                        done(lookup.payload as usize, value);
                    }
                }
                break lookup;
            };
            *lookup = start(started, *hash);
            started += 1;
        }
        *until_noted -= now.len() as u32;
        if *until_noted == 0 {
            *until_noted = NOTED_EVERY;
            // A key whose lookup has ended lately, so that its line is cached.
            relocate::warm_hash::<S>(table, permutation.hash(keys[started - 1 - IN_FLIGHT_MAX]));
        }
        rest = later;
    }
    let remaining = &mut pending[..first.len()];
    remaining.rotate_left(turn % IN_FLIGHT_MAX);
    end_all::<S>(&shape, remaining, settle, done);
}

/// Ends the remaining lookups, in order; those that need further lines keep their order.
#[inline(always)]
fn end_all<S: Search>(
    shape: &Shape,
    mut pending: &mut [Pending<u32>],
    settle: impl Fn(u32) -> Option<u64>,
    done: &mut impl FnMut(usize, Option<u64>),
) {
    while !pending.is_empty() {
        let mut left = 0;
        for at in 0..pending.len() {
            let lookup = &mut pending[at];
            let value = match lookup.look::<S>(shape) {
                Ok(value) => Some(value),
                Err(control) => match lookup.next_line(shape, control) {
                    Step::Miss => None,
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
        pending = &mut pending[..left];
    }
}
