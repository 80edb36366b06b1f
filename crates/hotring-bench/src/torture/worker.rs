//! One thread of a torture run: its operations, and its checks of the answers.
//!
//! * **Owned keys**: only their owner changes them and knows their exact state, so every result of the owner's
//!   operations is checked. All threads read them, and check the values against the [`Ledger`].
//! * **Registers**: all threads overwrite them. A value must be one that its writer announced, and a reader must
//!   never see a writer's older value after a newer one.
//! * **Counters**: all threads add 1. Values must never fall; at the end the sum must equal the additions.
//! * **Tokens**: all threads insert and take them. At the end exactly the tokens that were not taken must be
//!   present, compared by a digest of their values.
//! * **Scans**: a thread that changes nothing while it scans must meet each of its own present keys exactly once,
//!   with its value, while other threads write and the table grows.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;

use super::ledger::{Ledger, REGISTERS, Stamp, State};
use super::subject::Session;
use crate::workload::mix::mix;
use crate::workload::zipf::Zipf;

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw(pub String);

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fails with the message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(Flaw(format!($($message)+)));
        }
    };
}

const COUNTERS: usize = 8;
const TOKENS: usize = 8;
/// Keys per batched read.
const BATCH: usize = 16;
/// Removals of one thread that make the subject reclaim waiting memory: enough for many batches.
const REMOVALS_PER_RECLAIM: u32 = 20_000;
/// Operations between two checks whether another thread failed.
const STRIDE: u64 = 256;

/// One thread's knowledge, and its random choices.
pub struct Worker {
    thread: u64,
    threads: u64,
    /// The number of owned keys over all threads. The shared keys have the numbers from here on.
    total: u64,
    random: Rng,
    skew: Zipf,
    /// The states of the owned keys.
    owned: Vec<State>,
    /// The newest number that this thread has seen, by register and writer.
    seen: Vec<u32>,
    /// Additions by this thread, and the highest value that it has seen.
    counters: [(u64, u64); COUNTERS],
    /// Tokens inserted minus tokens taken, and the digest of both.
    tokens: [(i64, u64); TOKENS],
    tokens_made: u32,
    operations: u64,
}

impl Worker {
    /// Worker `thread` of `threads`, the owner of `keys` keys.
    pub fn new(thread: usize, threads: usize, keys: u64, seed: u64) -> Self {
        let total = threads as u64 * keys;
        Worker {
            thread: thread as u64,
            threads: threads as u64,
            total,
            random: Rng::with_seed(mix(seed).wrapping_add(thread as u64)),
            skew: Zipf::new(total, 0.99),
            owned: vec![State { sequence: 0, present: false }; keys as usize],
            seen: vec![0; REGISTERS * threads],
            counters: [(0, 0); COUNTERS],
            tokens: [(0, 0); TOKENS],
            tokens_made: 0,
            operations: 0,
        }
    }

    /// The number of operations so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Puts every owned key, with other operations in between, so that the table grows under load.
    pub fn fill<S: Session>(
        &mut self,
        s: &mut S,
        l: &Ledger,
        stop: &AtomicBool,
    ) -> Result<(), Flaw> {
        for at in 0..self.owned.len() {
            if !self.owned[at].present {
                self.put(s, l, at)?;
            }
            self.run_one(s, l)?;
            if self.stopped(stop) {
                break;
            }
        }
        Ok(())
    }

    /// Runs mixed operations, four per owned key, and scans.
    pub fn churn<S: Session>(
        &mut self,
        s: &mut S,
        l: &Ledger,
        stop: &AtomicBool,
    ) -> Result<(), Flaw> {
        for _ in 0..2 {
            for _ in 0..2 * self.owned.len() {
                self.run_one(s, l)?;
                if self.stopped(stop) {
                    return Ok(());
                }
            }
            self.scan(s)?;
        }
        Ok(())
    }

    /// Checks every owned key while no thread writes.
    pub fn verify<S: Session>(
        &mut self,
        s: &mut S,
        _: &Ledger,
        _: &AtomicBool,
    ) -> Result<(), Flaw> {
        for at in 0..self.owned.len() {
            let (got, expected) = (s.get(self.key(at))?, self.value(at));
            ensure!(got == expected, "key {} holds {got:?}, not {expected:?}", self.key(at));
        }
        self.scan(s)
    }

    /// Removes every owned key, with reads in between.
    pub fn drain<S: Session>(
        &mut self,
        s: &mut S,
        l: &Ledger,
        stop: &AtomicBool,
    ) -> Result<(), Flaw> {
        for at in 0..self.owned.len() {
            self.remove(s, l, at)?;
            self.read(s, l)?;
            if self.stopped(stop) {
                break;
            }
        }
        Ok(())
    }

    fn stopped(&self, stop: &AtomicBool) -> bool {
        self.operations.is_multiple_of(STRIDE) && stop.load(Ordering::Relaxed)
    }

    /// Runs one random operation.
    fn run_one<S: Session>(&mut self, s: &mut S, l: &Ledger) -> Result<(), Flaw> {
        self.operations += 1;
        match self.random.u64(..100) {
            0..45 => self.read(s, l),
            45..48 => self.read_many(s, l),
            48..85 => self.write(s, l),
            85..90 => self.register(s, l),
            90..95 => self.token(s),
            _ => self.counter(s),
        }
    }

    /// The key with index `at` among the owned ones. Key numbers alternate between owners, so that all owners
    /// have hot keys.
    fn key(&self, at: usize) -> u64 {
        at as u64 * self.threads + self.thread
    }

    /// The value that an owned key must have.
    fn value(&self, at: usize) -> Option<Stamp> {
        self.owned[at].present.then(|| self.stamp(at, self.owned[at].sequence))
    }

    fn stamp(&self, at: usize, sequence: u32) -> Stamp {
        Stamp { key: self.key(at), writer: self.thread as u8, sequence }
    }

    fn read<S: Session>(&mut self, s: &mut S, l: &Ledger) -> Result<(), Flaw> {
        let key = self.skew.sample(&mut self.random);
        let before = l.confirmed(key);
        let got = s.get(key)?;
        self.judge(key, before, got, l)
    }

    fn read_many<S: Session>(&mut self, s: &mut S, l: &Ledger) -> Result<(), Flaw> {
        let keys: [u64; BATCH] = std::array::from_fn(|_| self.skew.sample(&mut self.random));
        let before = keys.map(|key| l.confirmed(key));
        let got = s.get_many(&keys)?;
        ensure!(got.len() == BATCH, "{} answers to {BATCH} keys", got.len());
        let each = keys.into_iter().zip(before).zip(got);
        each.into_iter().try_for_each(|((key, before), got)| self.judge(key, before, got, l))
    }

    /// Checks that a read is possible, given the confirmed state before it and the announced number after it.
    fn judge(&self, key: u64, before: State, got: Option<Stamp>, l: &Ledger) -> Result<(), Flaw> {
        let after = l.announced(key);
        if let Some(stamp) = got {
            let owner = key % self.threads;
            let own = stamp.key == key && u64::from(stamp.writer) == owner;
            let when = before.sequence..=after;
            ensure!(own, "key {key} holds {stamp:?}");
            ensure!(when.contains(&stamp.sequence), "key {key} holds {stamp:?}, of {when:?}");
        }
        let still = before.sequence == after;
        let found = got.is_some();
        ensure!(!still || found == before.present, "key {key} at rest as {before:?} gives {got:?}");
        Ok(())
    }

    fn write<S: Session>(&mut self, s: &mut S, l: &Ledger) -> Result<(), Flaw> {
        // Half of the writes go to hot keys.
        let at = match self.random.u64(..2) {
            0 => self.random.u64(..self.owned.len() as u64),
            _ => self.skew.sample(&mut self.random) / self.threads,
        } as usize;
        match self.random.u64(..100) {
            0..35 => self.put(s, l, at),
            35..55 => self.insert(s, l, at),
            55..75 => self.replace(s, l, at),
            75..88 => self.remove(s, l, at),
            _ => self.take(s, l, at),
        }
    }

    /// Announces the next change of an owned key.
    fn announce(&mut self, l: &Ledger, at: usize) -> Stamp {
        let stamp = self.stamp(at, self.owned[at].sequence + 1);
        l.announce(stamp.key, stamp.sequence);
        stamp
    }

    fn confirm(&mut self, l: &Ledger, at: usize, sequence: u32, present: bool) {
        self.owned[at] = State { sequence, present };
        l.confirm(self.key(at), self.owned[at]);
    }

    fn put<S: Session>(&mut self, s: &mut S, l: &Ledger, at: usize) -> Result<(), Flaw> {
        let stamp = self.announce(l, at);
        let (replaced, present) = (s.put(stamp)?, self.owned[at].present);
        ensure!(replaced == present, "put of {stamp:?}: replaced {replaced}, present {present}");
        self.confirm(l, at, stamp.sequence, true);
        Ok(())
    }

    fn insert<S: Session>(&mut self, s: &mut S, l: &Ledger, at: usize) -> Result<(), Flaw> {
        if let Some(old) = self.value(at) {
            // This change is not announced: if it were stored despite that, readers would detect it too.
            let stored = s.insert(Stamp { sequence: old.sequence + 1, ..old })?;
            ensure!(!stored, "insert over {old:?} was stored");
            return Ok(());
        }
        let stamp = self.announce(l, at);
        ensure!(s.insert(stamp)?, "insert of {stamp:?} was not stored");
        self.confirm(l, at, stamp.sequence, true);
        Ok(())
    }

    fn replace<S: Session>(&mut self, s: &mut S, l: &Ledger, at: usize) -> Result<(), Flaw> {
        let sequence = self.owned[at].sequence;
        let Some(old) = self.value(at) else {
            let absent = self.stamp(at, sequence);
            let stored = s.replace(absent, self.stamp(at, sequence + 1))?;
            ensure!(!stored, "replace of the absent {absent:?} was stored");
            return Ok(());
        };
        let wrong = Stamp { sequence: sequence.wrapping_sub(1), ..old };
        let stored = s.replace(wrong, self.stamp(at, sequence + 1))?;
        ensure!(!stored, "replace of {wrong:?}, where {old:?} is, was stored");
        let stamp = self.announce(l, at);
        ensure!(s.replace(old, stamp)?, "replace of {old:?} by {stamp:?} was not stored");
        self.confirm(l, at, stamp.sequence, true);
        Ok(())
    }

    fn remove<S: Session>(&mut self, s: &mut S, l: &Ledger, at: usize) -> Result<(), Flaw> {
        let stamp = self.announce(l, at);
        let (removed, present) = (s.remove(stamp.key), self.owned[at].present);
        ensure!(removed == present, "remove of {}: {removed}, present {present}", stamp.key);
        self.confirm(l, at, stamp.sequence, false);
        Ok(())
    }

    fn take<S: Session>(&mut self, s: &mut S, l: &Ledger, at: usize) -> Result<(), Flaw> {
        let stamp = self.announce(l, at);
        let (taken, expected) = (s.take(stamp.key)?, self.value(at));
        ensure!(taken == expected, "take of {}: {taken:?}, not {expected:?}", stamp.key);
        self.confirm(l, at, stamp.sequence, false);
        Ok(())
    }

    fn register<S: Session>(&mut self, s: &mut S, l: &Ledger) -> Result<(), Flaw> {
        let register = self.random.usize(..REGISTERS);
        let key = self.total + register as u64;
        if self.random.u64(..3) == 0 {
            let sequence = l.announce_shared(register, self.thread as usize);
            s.put(Stamp { key, writer: self.thread as u8, sequence })?;
        }
        let Some(stamp) = s.get(key)? else {
            let written =
                (0..self.threads as usize).any(|w| self.seen[self.index_of(register, w)] > 0);
            ensure!(!written, "register {register} is gone");
            return Ok(());
        };
        let writer = usize::from(stamp.writer);
        let announced = l.announced_shared(register, writer);
        ensure!(stamp.key == key, "register {register} holds {stamp:?}");
        ensure!(stamp.sequence <= announced, "register {register} holds {stamp:?}, never written");
        let index = self.index_of(register, writer);
        let seen = self.seen[index];
        ensure!(stamp.sequence >= seen, "register {register} went back from {seen} to {stamp:?}");
        self.seen[index] = stamp.sequence;
        Ok(())
    }

    fn index_of(&self, register: usize, writer: usize) -> usize {
        register * self.threads as usize + writer
    }

    fn counter<S: Session>(&mut self, s: &mut S) -> Result<(), Flaw> {
        let counter = self.random.usize(..COUNTERS);
        let key = self.total + (REGISTERS + counter) as u64;
        let (added, highest) = &mut self.counters[counter];
        let adds = self.random.u64(..2) == 0;
        let value = if adds { Some(s.count(key)?) } else { s.counted(key)? };
        *added += u64::from(adds);
        // An addition must raise the counter; a read may find it unchanged.
        let least = *highest + u64::from(adds);
        let value = value.unwrap_or(0);
        ensure!(value >= least, "counter {counter} is {value} after {highest}");
        *highest = value;
        Ok(())
    }

    fn token<S: Session>(&mut self, s: &mut S) -> Result<(), Flaw> {
        let token = self.random.usize(..TOKENS);
        let key = token_key(self.total, token);
        let (count, digest) = &mut self.tokens[token];
        if self.random.u64(..2) == 0 {
            self.tokens_made += 1;
            let writer = self.thread as u8;
            let stamp = Stamp { key, writer, sequence: self.tokens_made };
            if s.insert(stamp)? {
                *count += 1;
                *digest ^= mix(stamp.word());
            }
        } else if let Some(stamp) = s.take(key)? {
            ensure!(stamp.key == key, "token {token} is {stamp:?}");
            *count -= 1;
            *digest ^= mix(stamp.word());
        }
        Ok(())
    }

    fn scan<S: Session>(&mut self, s: &mut S) -> Result<(), Flaw> {
        let mut met = vec![0_u8; self.owned.len()];
        let mut flaw = None;
        s.scan(|key, stamp| {
            if key >= self.total || key % self.threads != self.thread {
                return;
            }
            let at = (key / self.threads) as usize;
            met[at] = met[at].saturating_add(1);
            if stamp != self.value(at) {
                let expected = self.value(at);
                flaw = Some(Flaw(format!("a scan meets {key} as {stamp:?}, not {expected:?}")));
            }
        });
        flaw.map_or(Ok(()), Err)?;
        for (at, &met) in met.iter().enumerate() {
            let present = self.owned[at].present;
            let key = self.key(at);
            ensure!(met == u8::from(present), "a scan meets {key} {met} times, present {present}");
        }
        Ok(())
    }
}

fn token_key(total: u64, token: usize) -> u64 {
    total + (REGISTERS + COUNTERS + token) as u64
}

/// Checks counters and tokens while no thread writes.
pub fn check_shared<S: Session>(workers: &[Worker], s: &mut S) -> Result<(), Flaw> {
    let total = workers[0].total;
    for counter in 0..COUNTERS {
        let added: u64 = workers.iter().map(|worker| worker.counters[counter].0).sum();
        let value = s.counted(total + (REGISTERS + counter) as u64)?.unwrap_or(0);
        ensure!(value == added, "counter {counter} is {value} after {added} additions");
    }
    for token in 0..TOKENS {
        let count: i64 = workers.iter().map(|worker| worker.tokens[token].0).sum();
        let digest = workers.iter().fold(0, |sum, worker| sum ^ worker.tokens[token].1);
        let there = s.get(token_key(total, token))?;
        let expected = there.map_or((0, 0), |stamp| (1, mix(stamp.word())));
        ensure!((count, digest) == expected, "token {token}: {there:?}, but {count} were put in");
    }
    Ok(())
}

/// Puts and removes a key until memory that other threads removed must have been reclaimed.
pub fn stir<S: Session>(workers: &[Worker], s: &mut S) -> Result<(), Flaw> {
    let key = token_key(workers[0].total, TOKENS);
    for sequence in 0..REMOVALS_PER_RECLAIM {
        s.put(Stamp { key, writer: 0, sequence })?;
        ensure!(s.remove(key), "key {key} was not there to remove");
    }
    Ok(())
}

/// Removes the keys that no thread owns.
pub fn remove_shared<S: Session>(workers: &mut [Worker], s: &mut S) -> Result<(), Flaw> {
    let total = workers[0].total;
    for key in total..total + (REGISTERS + COUNTERS + TOKENS) as u64 {
        s.remove(key);
        ensure!(s.counted(key)?.is_none(), "key {key} is there after its removal");
    }
    for worker in workers {
        worker.seen.fill(0);
        worker.counters = Default::default();
        worker.tokens = Default::default();
    }
    Ok(())
}
