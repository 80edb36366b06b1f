//! Expiries that change while the expirer is at work: live keys stay, and expired ones go, without any
//! reader.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use hotring_engines::EngineChoice;
use hotring_store::{
    ExpireCondition, MSetCondition, Options, Session, SetExpiry, SetOptions, Store, TtlChange,
};

use crate::random::Random;

const NOW: u64 = 1_700_000_000_000;
/// More than all other times.
const END: u64 = NOW + 1_000_000;
const WRITERS: usize = 2;
const KEYS: u64 = 40;
const STEPS: u64 = 10_000;
/// Milliseconds by which one thread may be ahead of another.
const AHEAD_MAX: u64 = 20;

/// One key as its only writer knows it: whether it is there, and until when.
type Known = Option<Option<u64>>;

struct Writer<'a> {
    session: Session,
    random: Random,
    number: usize,
    known: Vec<Known>,
    /// One for each writer, and the expirer's, which is never ahead of them.
    clocks: &'a [AtomicU64; WRITERS + 1],
}

impl Writer<'_> {
    fn key(&self, key: u64) -> Vec<u8> {
        format!("key {key} of {}", self.number).into_bytes()
    }

    fn step(&mut self) {
        let number = self.random.below(KEYS);
        let key = self.key(number);
        let now = self.clocks[self.number].load(SeqCst);
        let known = self.known[number as usize].filter(|at| at.is_none_or(|at| at > now));
        let far = self.random.below(9);
        let at = now + 1 + self.random.below(1 << far);
        let s = &mut self.session;
        // The index at `now` equals the model, whichever session has removed expired keys.
        let next = match self.random.below(8) {
            0 => {
                let options = SetOptions { expiry: SetExpiry::At(at), ..SetOptions::default() };
                s.set(&key, b"12", options, now).unwrap();
                Some(Some(at))
            }
            1 => {
                s.set(&key, b"longer than a word", SetOptions::default(), now).unwrap();
                Some(None)
            }
            2 | 3 => {
                let done = s.expire_at(&key, at, ExpireCondition::Always, now).unwrap();
                assert_eq!(done, known.is_some(), "EXPIRE at {now} of {known:?}");
                known.map(|_| Some(at))
            }
            4 => {
                let done = s.persist(&key, now).unwrap();
                assert_eq!(done, known.flatten().is_some(), "PERSIST at {now} of {known:?}");
                known.map(|_| None)
            }
            5 => {
                let got = s.get_ex(&key, TtlChange::At(at), now, |_, _| ()).unwrap();
                assert_eq!(got, known.map(|_| ()), "GETEX at {now} of {known:?}");
                known.map(|_| Some(at))
            }
            6 => {
                let pairs = [(&key[..], &b"v"[..])];
                let expiry = SetExpiry::At(at);
                let set = s.mset_ex(&pairs, MSetCondition::IfNonePresent, expiry, now).unwrap();
                assert_eq!(set, known.is_none(), "MSETEX NX at {now} of {known:?}");
                if set { Some(Some(at)) } else { known }
            }
            _ => {
                assert_eq!(s.expiry(&key, now), known, "at {now}");
                known
            }
        };
        self.known[number as usize] = next;
    }
}

fn earliest(clocks: &[AtomicU64]) -> u64 {
    clocks.iter().map(|clock| clock.load(SeqCst)).min().expect("there are clocks")
}

fn race(engine: EngineChoice) {
    let store = Store::open_with(Options::default(), move |config| engine.open(config)).unwrap();
    let clocks: [AtomicU64; WRITERS + 1] = std::array::from_fn(|_| AtomicU64::new(NOW));
    let mut removed = 0;
    let known: Vec<Vec<Known>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (store, clocks) = (&store, &clocks);
                scope.spawn(move || {
                    let (session, random) = (store.session(), Random::new(number as u64));
                    let known = vec![None; KEYS as usize];
                    let mut writer = Writer { session, random, number, known, clocks };
                    for step in 0..STEPS {
                        writer.step();
                        if step % 16 == 0 {
                            let now = clocks[number].fetch_add(1, SeqCst);
                            // So that there is something for the expirer to do.
                            while earliest(clocks) + AHEAD_MAX < now {
                                std::thread::yield_now();
                            }
                        }
                    }
                    assert!(clocks[number].swap(END, SeqCst) < END);
                    writer.known
                })
            })
            .collect();
        let mut session = store.session();
        while !writers.iter().all(|writer| writer.is_finished()) {
            let now = earliest(&clocks[..WRITERS]);
            if now < END {
                removed += session.expire_due(now, 100, |_, _| {}).removed;
                clocks[WRITERS].store(now, SeqCst);
            }
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert!(removed > 20, "{engine:?}: {removed} were removed in the race");
    let mut session = store.session();
    while session.expire_due(END, 1_000, |_, _| {}).next.is_some() {}
    let stay = known.iter().flatten().filter(|known| **known == Some(None)).count();
    assert_eq!(store.len(), stay, "{engine:?}: what expires is gone, what does not is there");
    assert_eq!(store.stats().expiry_entries, 0);
}

#[test]
fn expiries_change_under_the_expirer() {
    for engine in EngineChoice::ALL {
        race(*engine);
    }
}
