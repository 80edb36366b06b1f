//! Recorded histories of the real index on real threads: few keys, in half of the runs such that
//! collide, while the table doubles and halves and many other keys come and go.
//!
//! `HOTRING_ROUNDS` is the number of rounds in each configuration. With `HOTRING_SECONDS`
//! the configurations are gone through again and again until the time is over, with other seeds and
//! a line on progress every 10 seconds. A failure prints the history and ends the process.
//!
//! Not covered: sessions whose clocks disagree, because time moves between rounds, for all at once. Keys
//! missed by a scan are not judged, only those that it meets.

use crate::history::{Event, Op, Outcome, State, is_linearizable};
use crate::shapes::{Family, every_engine, number, restless, strategies, with_engine};
use crate::target::{AsBytes, AsU64s, KEYS, Target, byte_keys, u64_keys};
use fastrand::Rng;
use hotring_index::{Bytes, Config, Engine, Index, Stats, U64};
use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// Operations of a thread in a round; with batches no key has more than 5 * 10.
const OPS: usize = 10;
/// Turns for which a thread waits for another to begin with: some 50 microseconds.
const WAIT: usize = 1_000;
pub const ROUNDS: u64 = if cfg!(debug_assertions) { 500 } else { 4_000 };
/// Rounds in which other keys become more, then as many in which they become fewer.
const WAVE: u64 = 200;
/// Other keys.
const OTHERS: u64 = 1_500;
const PROGRESS: Duration = Duration::from_secs(10);

/// The operation.
#[derive(Default)]
pub struct Totals {
    rounds: AtomicU64,
    operations: AtomicU64,
    /// Pairs of operations on one key that overlapped in time.
    overlaps: AtomicU64,
    pub doublings: AtomicU64,
    pub halvings: AtomicU64,
    removals: AtomicU64,
    slots_most: AtomicU64,
    limbo_most: AtomicU64,
}

impl Totals {
    fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub fn text(&self) -> String {
        let [rounds, operations, overlaps, doublings, halvings, removals, slots, limbo] = [
            &self.rounds,
            &self.operations,
            &self.overlaps,
            &self.doublings,
            &self.halvings,
            &self.removals,
            &self.slots_most,
            &self.limbo_most,
        ]
        .map(|counter| counter.load(Ordering::Relaxed));
        format!(
            "{rounds} rounds, {operations} operations on hot keys ({overlaps} pairs overlapped), \
             {doublings} doublings and {halvings} halvings by hand, {slots} slots at most, \
             {removals} other keys removed, {limbo} bytes in limbo at most"
        )
    }
}

/// The plan of one run.
pub struct Run<'r> {
    pub name: String,
    pub seed: u64,
    pub rounds: u64,
    /// Whether the index has expiries and versions.
    pub is_bytes: bool,
    pub totals: &'r Totals,
    pub stats: &'r (dyn Fn() -> Stats + Sync),
}

fn random_op(random: &mut Rng, is_bytes: bool, version: Option<u64>) -> Op {
    let v = random.u64(..3) + if random.u64(..4) == 0 { 1 << 63 } else { 0 };
    match random.u64(..if is_bytes { 20 } else { 15 }) {
        0..=3 => Op::Get,
        4 | 5 => Op::Put(v),
        6 => Op::Insert(v),
        7 => Op::Replace(v),
        8 | 9 => Op::Remove,
        10 => Op::Take,
        11 => Op::Add(1),
        12 => Op::Swap(random.u64(..3), v),
        13 => Op::RemoveIf(random.u64(..3)),
        14 => Op::Append(random.u64(..10)),
        15 => Op::Expire,
        16 if random.u64(..2) == 0 => Op::Lapse,
        16 => Op::PutLapsed(v),
        17 => Op::Version,
        _ => version.map_or(Op::Version, |version| Op::SwapVersion(version, v)),
    }
}

/// One thread's part of a round.
struct Hand<'h, T> {
    run: &'h Run<'h>,
    session: T,
    random: Rng,
    clock: &'h AtomicU64,
    versions: [Option<u64>; KEYS],
}

impl<T: Target> Hand<'_, T> {
    fn play(&mut self, round: u64) -> Vec<Event> {
        let keys = (round % KEYS as u64) as usize + 1;
        let mut events = Vec::with_capacity(OPS);
        for _ in 0..OPS {
            for _ in 0..self.random.u64(..40) {
                std::hint::spin_loop();
            }
            let start = events.len();
            let call = self.clock.fetch_add(1, Ordering::SeqCst);
            self.act(keys, &mut events);
            let end = self.clock.fetch_add(1, Ordering::SeqCst);
            for event in &mut events[start..] {
                (event.call, event.end) = (call, end);
            }
            self.disturb(round);
        }
        events
    }

    fn act(&mut self, keys: usize, events: &mut Vec<Event>) {
        let event = |key, op, outcome| Event { key, op, outcome, call: 0, end: 0 };
        match self.random.u64(..160) {
            0 => {
                let met = self.session.scan();
                let get = |(key, value)| event(key, Op::Get, Outcome::Value(Some(value)));
                events.extend(met.into_iter().map(get));
            }
            1..=16 => {
                let values = self.session.get_many(keys);
                let get = |(key, value)| event(key, Op::Get, Outcome::Value(value));
                events.extend(values.into_iter().enumerate().map(get));
            }
            _ => {
                let key = self.random.u64(..keys as u64) as usize;
                let op = random_op(&mut self.random, self.run.is_bytes, self.versions[key]);
                let outcome = self.session.run(key, op);
                if let Outcome::Version(version) = outcome {
                    self.versions[key] = version;
                }
                events.push(event(key, op, outcome));
            }
        }
    }

    /// The work of other threads on the index meanwhile.
    fn disturb(&mut self, round: u64) {
        let totals = self.run.totals;
        let other = self.random.u64(..OTHERS);
        match self.random.u64(..64) {
            0 => Totals::add(&totals.doublings, self.session.grow().into()),
            1 => Totals::add(&totals.halvings, self.session.shrink().into()),
            2..=7 => self.session.collect(),
            8..=39 => {
                let put = (round / WAVE).is_multiple_of(2) ^ self.random.u64(..8).eq(&0);
                let changed = self.session.fill(other, put);
                Totals::add(&totals.removals, (changed && !put).into());
            }
            _ => {}
        }
    }
}

/// Runs rounds of concurrent operations and judges each.
pub fn check<T: Target>(run: &Run<'_>, sessions: Vec<T>) {
    let clock = AtomicU64::new(0);
    let arrived = AtomicU64::new(0);
    let (threads, barrier) = (sessions.len() as u64, Barrier::new(sessions.len()));
    let histories: Vec<Mutex<Vec<Event>>> = sessions.iter().map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        for (thread, session) in sessions.into_iter().enumerate() {
            let (clock, arrived, barrier, histories) = (&clock, &arrived, &barrier, &histories);
            scope.spawn(move || {
                let random = Rng::with_seed(run.seed * 31 + thread as u64 + 1);
                let versions = [None; KEYS];
                let mut hand = Hand { run, session, random, clock, versions };
                let mut judge = Judge {
                    run,
                    states: [State::default(); KEYS],
                    given: [(); KEYS].map(|()| HashSet::new()),
                };
                for round in 0..run.rounds {
                    barrier.wait();
                    meet(arrived, round, threads);
                    *histories[thread].lock().expect("no panic") = hand.play(round);
                    barrier.wait();
                    // The others wait at the next round's start: the index is at rest.
                    if thread == 0 {
                        judge.judge(round, &mut hand.session, histories);
                    }
                    hand.session.tick();
                }
            });
        }
    });
}

/// Lets threads begin a round in twos where there is a processor for both: a barrier wakes one after
/// the other, and the first would be done before the second comes.
fn meet(arrived: &AtomicU64, round: u64, threads: u64) {
    let number = arrived.fetch_add(1, Ordering::SeqCst) - round * threads;
    let partner = round * threads + (number + 1).next_multiple_of(2).min(threads);
    for _ in 0..WAIT {
        if arrived.load(Ordering::SeqCst) >= partner {
            return;
        }
        std::hint::spin_loop();
    }
}

struct Judge<'j> {
    run: &'j Run<'j>,
    /// The value of each key at the beginning of the round.
    states: [State; KEYS],
    /// All versions that each key was given.
    given: [HashSet<u64>; KEYS],
}

impl Judge<'_> {
    fn judge(&mut self, round: u64, session: &mut impl Target, histories: &[Mutex<Vec<Event>>]) {
        let all: Vec<Vec<Event>> =
            histories.iter().map(|h| h.lock().expect("no panic").clone()).collect();
        for key in 0..KEYS {
            let (last, next) = session.state(key);
            let first = std::mem::replace(&mut self.states[key], next);
            let events: Vec<Event> =
                all.iter().flatten().filter(|e| e.key == key).copied().collect();
            if !is_linearizable(&events, first, last) || !self.versions_are_new(first, &events) {
                // Bypasses the harness, which loses a test's output when the process ends.
                let _ = writeln!(
                    std::io::stderr(),
                    "{} round {round} key {key}, from {first:?} to {last:?}: {events:#?}",
                    self.run.name
                );
                std::process::abort();
            }
            let mut overlaps = 0;
            for (i, a) in events.iter().enumerate() {
                overlaps += events[..i].iter().filter(|b| a.call < b.end && b.call < a.end).count();
            }
            Totals::add(&self.run.totals.overlaps, overlaps as u64);
        }
        let totals = self.run.totals;
        Totals::add(&totals.rounds, 1);
        Totals::add(&totals.operations, all.iter().map(Vec::len).sum::<usize>() as u64);
        if round.is_multiple_of(16) {
            let stats = (self.run.stats)();
            totals.slots_most.fetch_max(stats.slots, Ordering::Relaxed);
            totals.limbo_most.fetch_max(stats.limbo_bytes, Ordering::Relaxed);
        }
    }

    /// The history shows that no version of a round is given out twice; this, that none is of an
    /// earlier round.
    fn versions_are_new(&mut self, first: State, events: &[Event]) -> bool {
        let given: HashSet<u64> = events
            .iter()
            .filter_map(|event| match event.outcome {
                Outcome::Version(version) => version.filter(|_| version != first.version),
                _ => None,
            })
            .collect();
        given.into_iter().all(|version| {
            // Nor is it that of another key.
            self.given.iter().all(|other| !other.contains(&version))
                && self.given[events[0].key].insert(version)
        })
    }
}

fn u64s<E: Engine>(config: Config, job: &Job, totals: &Totals) {
    let name = format!("u64 {} {job:?} {config:?}", E::NAME);
    let index = Index::<U64, E>::new(config).expect("a valid configuration");
    let keys = u64_keys(job.collide);
    let sessions = (0..job.threads).map(|_| AsU64s(index.session(), keys)).collect();
    let stats = || index.stats();
    let Job { seed, rounds, .. } = *job;
    check(&Run { name, seed, rounds, is_bytes: false, totals, stats: &stats }, sessions);
}

fn bytes<E: Engine>(config: Config, job: &Job, totals: &Totals) {
    let name = format!("bytes {} {job:?} {config:?}", E::NAME);
    let index = Index::<Bytes, E>::new(config).expect("a valid configuration");
    let keys = byte_keys(job.collide);
    let session =
        |i: u64| AsBytes::new(index.session(), Rng::with_seed(job.seed * 37 + i + 1), keys.clone());
    let stats = || index.stats();
    let Job { seed, rounds, .. } = *job;
    let sessions = (0..job.threads).map(session).collect();
    check(&Run { name, seed, rounds, is_bytes: true, totals, stats: &stats }, sessions);
}

#[derive(Debug)]
struct Job {
    seed: u64,
    rounds: u64,
    threads: u64,
    collide: bool,
}

/// All configurations once, each with other numbers of threads and other keys in the next cycle.
fn cycle(family: Family, cycle: u64, rounds: u64, totals: &Totals) {
    for (i, (shape, config)) in strategies(family).iter().enumerate() {
        let turn = cycle + i as u64;
        let seed = number("HOTRING_SEED", 401) + 1000 * cycle + i as u64;
        let (collide, config) = (turn % 2 == 1, restless(*shape, config));
        let job = |turn: u64| Job { seed, rounds, threads: 2 + turn / 2 % 4, collide };
        with_engine!(*shape, u64s(config.clone(), &job(turn), totals));
        with_engine!(*shape, bytes(config.clone(), &job(turn + 3), totals));
    }
}

every_engine!(histories_are_linearizable, |family| {
    let totals = Totals::default();
    let seconds = number("HOTRING_SECONDS", 0);
    if seconds == 0 {
        cycle(family, 0, number("HOTRING_ROUNDS", ROUNDS), &totals);
    } else {
        for_some_time(family, Duration::from_secs(seconds), &totals);
    }
    println!("{}", totals.text());
    let doublings = totals.doublings.load(Ordering::Relaxed);
    let halvings = totals.halvings.load(Ordering::Relaxed);
    let rounds = totals.rounds.load(Ordering::Relaxed);
    let resized = doublings > 0 && (halvings > 0 || family != Family::HotRing);
    assert!(rounds < 1000 || resized, "{}", totals.text());
});

fn for_some_time(family: Family, time: Duration, totals: &Totals) {
    let start = Instant::now();
    // Bypasses the harness, which captures a test's output.
    let say = |what: String| _ = writeln!(std::io::stderr(), "{:?}: {what}", start.elapsed());
    let done = Mutex::new(false);
    let ended = std::sync::Condvar::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut done = done.lock().expect("no panic");
            while !*done {
                (done, _) = ended.wait_timeout(done, PROGRESS).expect("no panic");
                say(totals.text());
            }
        });
        let rounds = number("HOTRING_ROUNDS", ROUNDS / 10);
        for n in 0.. {
            cycle(family, n, rounds, totals);
            if start.elapsed() >= time {
                break;
            }
        }
        *done.lock().expect("no panic") = true;
        ended.notify_all();
    });
}
