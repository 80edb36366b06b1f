//! Many lookups in flight, so that the lines they wait for are fetched side by side.
//!
//! A lookup asks for its home line and gives way. When its turn comes again it looks at the line: it *lands*, or it
//! asks for the next line of its home's sequence and goes to the back of the queue. What is out of the ordinary (a
//! home that has moved on, the stash, a miss in a home with further lines) lands by the plain lookup: its lines are
//! in the cache.
//!
//! Writes take effect one after the other, in order; the lines of later ones are asked for ahead.

use super::bits::{ACTIVE, PROBE, probe, probe_of, reach_of};
use super::lane::{Form, Line, Search, by_form};
use super::lookup::{is_plain, is_plain_still, look_up};
use super::session::LinesSession;
use super::table::Table;
use crate::core::prefetch::{prefetch, prefetch_to_write};

/// Lookups in flight: more than a core has lines under way, so that each has arrived when its turn comes.
const FLIGHTS: usize = 64;

/// Writes for which lines are asked ahead.
const AHEAD: usize = 24;

#[derive(Clone, Copy)]
struct Flight<'t> {
    /// The word to look for, with the number of the line in its PROBE bits.
    want: u64,
    line: &'t Line,
    /// The REACH of the home; 0 until the home line has been seen.
    reach: u32,
    /// Which key of the batch.
    key: u32,
}

/// What a look at a line came to.
enum Step<'t> {
    Land(Option<u64>),
    Fly(Flight<'t>),
    /// The plain lookup must settle it.
    Divert,
}

impl LinesSession {
    /// Calls `f` with the number of each key and its value, in any order: the fast way for more than a few keys. Each
    /// lookup is linearizable by itself; the batch is not one step.
    ///
    /// # Panics
    /// If there are 2^32 keys or more.
    pub fn for_each_many(&mut self, keys: &[u64], mut f: impl FnMut(usize, Option<u64>)) {
        assert!(u32::try_from(keys.len()).is_ok(), "fewer than 2^32 keys");
        self.keep_up();
        let (table, hash) = (self.table(), |key| self.hash(key));
        by_form!(self.form, S => fly::<S>(table, keys, hash, &mut f));
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
        self.ahead(pairs, |pair| pair.0, |session, &(key, value)| _ = session.put(key, value));
    }

    /// Inserts those pairs whose keys are absent, in order; returns how many were.
    pub fn insert_many(&mut self, pairs: &[(u64, u64)]) -> usize {
        let mut inserted = 0;
        self.ahead(
            pairs,
            |pair| pair.0,
            |session, &(key, value)| {
                inserted += usize::from(session.insert(key, value));
            },
        );
        inserted
    }

    /// Removes keys, in order; returns how many were there.
    pub fn remove_many(&mut self, keys: &[u64]) -> usize {
        let mut removed = 0;
        self.ahead(keys, |key| *key, |session, key| removed += usize::from(session.remove(*key)));
        removed
    }

    fn ahead<T>(&mut self, all: &[T], key: impl Fn(&T) -> u64, mut f: impl FnMut(&mut Self, &T)) {
        for one in &all[..all.len().min(AHEAD)] {
            self.ask(key(one));
        }
        for (i, one) in all.iter().enumerate() {
            if let Some(later) = all.get(i + AHEAD) {
                self.ask(key(later));
            }
            f(self, one);
        }
    }

    /// Asks for the home line of a key that will be written.
    #[inline(always)]
    fn ask(&self, key: u64) {
        let home = self.shape.home(self.hash(key));
        prefetch_to_write(std::ptr::from_ref(self.shape.line(home.index)).cast());
    }
}

#[inline(always)]
fn fly<S: Search>(
    table: &Table,
    keys: &[u64],
    hash: impl Fn(u64) -> u64,
    land: &mut impl FnMut(usize, Option<u64>),
) {
    let shape = table.shape;
    let take_off = |key: usize| {
        let home = shape.home(hash(keys[key]));
        let line = table.shape.line(home.index);
        prefetch(std::ptr::from_ref(line).cast());
        Flight { want: home.want, line, reach: 0, key: key as u32 }
    };
    let settle = |key: u32| look_up::<S>(table, hash(keys[key as usize]));
    if keys.is_empty() {
        return;
    }
    let mut airborne = keys.len().min(FLIGHTS);
    let mut flights = [Flight { want: 0, line: table.shape.line(0), reach: 0, key: 0 }; FLIGHTS];
    for (key, flight) in flights[..airborne].iter_mut().enumerate() {
        *flight = take_off(key);
    }
    let (mut started, mut at) = (airborne, 0);
    // While there are keys to start, all places are taken.
    while started < keys.len() {
        let flight = &mut flights[at % FLIGHTS];
        at += 1;
        let value = match look::<S>(table, flight) {
            Step::Fly(on) => {
                *flight = on;
                continue;
            }
            Step::Land(value) => value,
            Step::Divert => settle(flight.key),
        };
        land(flight.key as usize, value);
        *flight = take_off(started);
        started += 1;
    }
    // The rest in their order, from the place whose turn it is; those that fly on keep that order.
    flights[..airborne].rotate_left(at % FLIGHTS);
    while airborne > 0 {
        let mut left = 0;
        for at in 0..airborne {
            let flight = flights[at];
            let value = match look::<S>(table, &flight) {
                Step::Fly(on) => {
                    flights[left] = on;
                    left += 1;
                    continue;
                }
                Step::Land(value) => value,
                Step::Divert => settle(flight.key),
            };
            land(flight.key as usize, value);
        }
        airborne = left;
    }
}

#[inline(always)]
fn look<'t, S: Search>(table: &'t Table, flight: &Flight<'t>) -> Step<'t> {
    let Flight { want, line, mut reach, key } = *flight;
    // As at home, but whether this is the home line is asked on a miss only.
    let control = line.control();
    if let Some(found) = table.shape.find_in::<S>(line, want) {
        return Step::Land(Some(found.pair.value));
    }
    if want & PROBE == 0 {
        if is_plain(control) && is_plain_still(line) {
            return Step::Land(None);
        }
        if control & ACTIVE == 0 {
            return Step::Divert;
        }
        reach = reach_of(control) as u32;
    }
    if probe_of(want) >= u64::from(reach) {
        return Step::Divert;
    }
    let line = table.shape.further(line, want);
    prefetch(std::ptr::from_ref(line).cast());
    Step::Fly(Flight { want: want + probe(1), line, reach, key })
}
