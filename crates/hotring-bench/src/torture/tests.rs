//! The torture run must find the faults of subjects that are wrong on purpose.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use hotring_engines::EngineChoice;

use super::ledger::Stamp;
use super::subject::{Session, Subject, Usage};
use super::worker::Flaw;
use super::{Life, Record, TortureArgs};

/// The occasional fault of a subject.
const SOUND: u8 = 0;
const LOSES_A_PUT: u8 = 1;
const READS_THE_VALUE_BEFORE: u8 = 2;
const HIDES_A_KEY_FROM_READS: u8 = 3;
const LOSES_AN_ADDITION: u8 = 4;
const TAKES_AND_LEAVES: u8 = 5;
const SCANS_A_KEY_TWICE: u8 = 6;
const KEEPS_AN_ITEM: u8 = 7;
const ANSWERS_WITH_A_NEIGHBOUR: u8 = 8;

#[derive(Default)]
struct Content {
    words: BTreeMap<u64, u64>,
    before: BTreeMap<u64, u64>,
}

/// A locked map with one fault.
#[derive(Clone, Default)]
struct Faulty<const FAULT: u8> {
    content: Arc<Mutex<Content>>,
    calls: Arc<AtomicU64>,
}

impl<const FAULT: u8> Faulty<FAULT> {
    /// Whether to do this wrong: one call in two hundred, if this is the fault.
    fn errs(&self, fault: u8) -> bool {
        FAULT == fault && self.calls.fetch_add(1, Ordering::Relaxed) % 200 == 199
    }

    fn with<R>(&self, work: impl FnOnce(&mut Content) -> R) -> R {
        work(&mut self.content.lock().unwrap())
    }
}

impl<const FAULT: u8> Subject for Faulty<FAULT> {
    type Session = Self;

    fn fresh(_: EngineChoice, _: u64) -> Result<Self> {
        Ok(Self::default())
    }

    fn session(&self) -> Self {
        self.clone()
    }

    fn usage(&self) -> Usage {
        let kept = u64::from(FAULT == KEEPS_AN_ITEM);
        let items = self.with(|content| content.words.len() as u64) + kept;
        Usage { items, ..Usage::default() }
    }
}

impl<const FAULT: u8> Session for Faulty<FAULT> {
    fn get(&mut self, key: u64) -> Result<Option<Stamp>, Flaw> {
        let (hides, stale) = (self.errs(HIDES_A_KEY_FROM_READS), self.errs(READS_THE_VALUE_BEFORE));
        let neighbour = self.errs(ANSWERS_WITH_A_NEIGHBOUR);
        let word = self.with(|content| match content.words.get(&key) {
            Some(_) if hides => None,
            Some(_) if neighbour => content.words.range(key + 1..).next().map(|(_, word)| *word),
            Some(word) if stale => Some(*content.before.get(&key).unwrap_or(word)),
            word => word.copied(),
        });
        Ok(word.map(Stamp::of))
    }

    fn get_many(&mut self, keys: &[u64]) -> Result<Vec<Option<Stamp>>, Flaw> {
        keys.iter().map(|&key| self.get(key)).collect()
    }

    fn put(&mut self, stamp: Stamp) -> Result<bool, Flaw> {
        let loses = self.errs(LOSES_A_PUT);
        Ok(self.with(|content| {
            let old = content.words.get(&stamp.key).copied();
            if !loses {
                content.words.insert(stamp.key, stamp.word());
            }
            old.map(|old| content.before.insert(stamp.key, old)).is_some()
        }))
    }

    fn insert(&mut self, stamp: Stamp) -> Result<bool, Flaw> {
        Ok(self.with(|content| {
            let absent = !content.words.contains_key(&stamp.key);
            content.words.entry(stamp.key).or_insert(stamp.word());
            absent
        }))
    }

    fn replace(&mut self, old: Stamp, new: Stamp) -> Result<bool, Flaw> {
        Ok(self.with(|content| match content.words.get_mut(&old.key) {
            Some(word) if *word == old.word() => {
                *word = new.word();
                true
            }
            _ => false,
        }))
    }

    fn remove(&mut self, key: u64) -> bool {
        self.with(|content| content.words.remove(&key).is_some())
    }

    fn take(&mut self, key: u64) -> Result<Option<Stamp>, Flaw> {
        let leaves = self.errs(TAKES_AND_LEAVES);
        let word = self.with(|content| match content.words.get(&key) {
            Some(word) if leaves => Some(*word),
            _ => content.words.remove(&key),
        });
        Ok(word.map(Stamp::of))
    }

    fn count(&mut self, key: u64) -> Result<u64, Flaw> {
        let loses = self.errs(LOSES_AN_ADDITION);
        Ok(self.with(|content| {
            let value = content.words.entry(key).or_default();
            let sum = *value + 1;
            if !loses {
                *value = sum;
            }
            sum
        }))
    }

    fn counted(&mut self, key: u64) -> Result<Option<u64>, Flaw> {
        Ok(self.with(|content| content.words.get(&key).copied()))
    }

    fn scan(&mut self, mut visit: impl FnMut(u64, Option<Stamp>)) {
        let words: Vec<(u64, u64)> =
            self.with(|content| content.words.iter().map(|(key, word)| (*key, *word)).collect());
        for (key, word) in words {
            visit(key, Some(Stamp::of(word)));
            if self.errs(SCANS_A_KEY_TWICE) {
                visit(key, Some(Stamp::of(word)));
            }
        }
    }
}

/// One life, with few keys.
fn live<const FAULT: u8>() -> Result<(), Flaw> {
    let args = TortureArgs {
        seconds: 0,
        threads: 2,
        keys: 2000,
        on: Vec::new(),
        engine: EngineChoice::default(),
        seed: 1,
    };
    let hidden = indicatif::ProgressBar::hidden();
    let mut record = Record::default();
    let end = std::time::Instant::now();
    let life = Life::<Faulty<FAULT>>::new(&args, 0).unwrap();
    let result = life.live(end, &hidden, &mut record);
    assert!(result.is_err() || record.operations > 10_000, "only {} done", record.operations);
    result
}

fn found<const FAULT: u8>(about: &str) {
    let flaw = live::<FAULT>().expect_err("the fault was not found").0;
    assert!(flaw.contains(about), "{flaw}");
}

#[test]
fn a_sound_map_has_no_flaw() {
    live::<SOUND>().unwrap();
}

#[test]
fn a_lost_put_is_found() {
    found::<LOSES_A_PUT>("");
}

#[test]
fn an_old_value_is_found() {
    found::<READS_THE_VALUE_BEFORE>("");
}

#[test]
fn a_key_that_is_briefly_out_of_reach_is_found() {
    found::<HIDES_A_KEY_FROM_READS>("");
}

#[test]
fn a_lost_addition_is_found() {
    found::<LOSES_AN_ADDITION>("counter");
}

#[test]
fn a_token_that_is_taken_twice_is_found() {
    found::<TAKES_AND_LEAVES>("");
}

#[test]
fn a_key_that_a_scan_meets_twice_is_found() {
    found::<SCANS_A_KEY_TWICE>("2 times");
}

#[test]
fn an_item_that_outlives_its_removal_is_found() {
    found::<KEEPS_AN_ITEM>("after every key was removed");
}

#[test]
fn an_answer_for_another_key_is_found() {
    found::<ANSWERS_WITH_A_NEIGHBOUR>("");
}

#[test]
fn memory_that_grows_from_life_to_life_is_found() {
    let mib = |sizes: &[u64]| sizes.iter().map(|size| size << 20).collect();
    let steady = Record { resident: mib(&[100, 110, 105, 130, 108]), ..Record::default() };
    assert_eq!(steady.steady(), Ok(()));
    let leaking = Record { resident: mib(&[100, 110, 180, 250, 320]), ..Record::default() };
    assert!(leaking.steady().is_err());
}
