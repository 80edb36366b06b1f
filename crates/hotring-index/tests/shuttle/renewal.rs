//! The one scenario in which time goes on: an entry is renewed in time by one, and too late for
//! another. Either it is renewed and stays, or it is gone and was not.

use crate::plan::Random;
use crate::run::RECORD;
use hotring_index::checks::{Checked, Fault};
use hotring_index::{
    Action, Bytes, Config, Engine, Entry, Expiry, Index, NewValue, Session, Value,
};
use shuttle::rand::RngCore;
use shuttle::thread::spawn;
use std::borrow::Cow;

const KEY: &[u8] = b"key";
/// Before and after the entry's time is over.
const EARLY: u64 = 4;
const OVER: u64 = 5;
const LATE: u64 = 6;
const FAR: Expiry = Expiry::At(1 << 40);

#[derive(Clone, Copy, Debug)]
enum Late {
    Get,
    Insert,
    ExpireStep,
    Sample,
}

/// The latecomer's finding: whether the entry was there, or that it put a new one.
#[derive(Debug, PartialEq, Eq)]
enum Learned {
    Nothing,
    OldIsThere,
    NewWasPut,
}

fn value(word: u64, as_word: bool) -> NewValue<'static> {
    if as_word {
        return NewValue::Word { kind: 0, word };
    }
    NewValue::Bytes { kind: 0, bytes: Cow::Owned(word.to_le_bytes().to_vec()) }
}

fn is_old(entry: Entry<'_>) -> bool {
    match entry.value {
        Value::Word { word, .. } => word == 1,
        Value::Bytes { bytes, .. } => bytes == 1u64.to_le_bytes(),
    }
}

fn come_late<E: Engine>(session: &mut Session<Bytes, E>, late: Late) -> Learned {
    let old_is_there = |there: bool| if there { Learned::OldIsThere } else { Learned::Nothing };
    match late {
        Late::Get => old_is_there(session.get(KEY, LATE, is_old).is_some_and(|is_old| is_old)),
        Late::Sample => old_is_there(session.sample(0, LATE, is_old).is_some_and(|is_old| is_old)),
        Late::ExpireStep => {
            session.expire_step(4, LATE);
            Learned::Nothing
        }
        Late::Insert => session.update(KEY, LATE, |old| match old {
            Some(entry) => (Action::Keep, old_is_there(is_old(entry))),
            None => {
                let put = Action::Put { value: value(2, false), expiry: Expiry::Never };
                (put, Learned::NewWasPut)
            }
        }),
    }
}

/// One run; the entry is renewed in place if its value is no word, else by a copy.
pub fn renewal<E: Checked>(fault: Fault) {
    let mut random = Random::new(shuttle::rand::thread_rng().next_u64());
    let late = [Late::Get, Late::Insert, Late::ExpireStep, Late::Sample];
    let late: Vec<Late> = (0..1 + random.below(3)).map(|_| *random.of(&late)).collect();
    let as_word = random.below(3) == 0;
    RECORD.with_borrow_mut(|record| {
        record.history.clear();
        record.plan = format!("{late:?}, a word: {as_word}");
    });
    let config = Config { slots_initial: 1, slots_max: 2, fault, ..Config::default() };
    let index = Index::<Bytes, E>::new(config).expect("a valid configuration");
    let mut session = index.session();
    session.put(KEY, value(1, as_word), Expiry::At(OVER), 1);
    let late: Vec<_> = late
        .into_iter()
        .map(|late| {
            let mut session = index.session();
            spawn(move || come_late(&mut session, late))
        })
        .collect();
    let renewed = session.update(KEY, EARLY, |old| {
        let old = old.is_some_and(is_old);
        (if old { Action::Expire(FAR) } else { Action::Keep }, old)
    });
    let learned: Vec<Learned> =
        late.into_iter().map(|thread| thread.join().expect("a panic ends the run")).collect();
    let puts = learned.iter().filter(|learned| **learned == Learned::NewWasPut).count();
    let last = session.get(KEY, LATE, is_old);
    if renewed {
        assert!(puts == 0 && last == Some(true), "a renewed entry is gone: {learned:?}");
    } else {
        assert!(!learned.contains(&Learned::OldIsThere), "an entry outlives its time");
        assert!(puts <= 1, "two entries were put where there was none");
        assert_eq!(last, (puts == 1).then_some(false), "what was put is there, and else nothing");
    }
    E::check_at_rest(&mut session, &index);
}
