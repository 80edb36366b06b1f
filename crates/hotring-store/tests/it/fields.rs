//! Fields of hashes that expire: as maps with times, removed by the wheel, and read from the log.

use std::collections::BTreeMap;

use hotring_engines::EngineChoice;
use hotring_log::storage::Memory;
use hotring_store::index::Checksum;
use hotring_store::{
    Changed, ExpireCondition, Fault, FieldExpiry, FieldsChanged, FieldsCondition, Options, Origin,
    ReplyCapacity, Session, SetFieldExpiry, Store, TtlChange,
};

use super::logged::{Logged, read};
use super::random::Random;

const NOW: u64 = 1_700_000_000_000;
const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

type Fields = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

fn options(packed: usize, checksum: Checksum) -> Options {
    let mut options = Options { hash_packed_fields_max: packed, ..Options::default() };
    options.index.checksum = checksum;
    options
}

/// The hash as readers see it, by every way to read.
fn seen(session: &mut Session, key: &[u8], now: u64) -> Fields {
    let walk = session.hash_walk(key, now, |hash| {
        let all: Fields =
            hash.iter_with_expiry().map(|(f, v, at)| (f.to_vec(), (v.to_vec(), at))).collect();
        assert_eq!(
            (hash.len(), hash.count(), hash.iter().count()),
            (all.len(), all.len(), all.len())
        );
        let (mut cursor, mut scanned) = (0, BTreeMap::new());
        loop {
            cursor = hash.scan(cursor, 1, |f, v| _ = scanned.insert(f.to_vec(), v.to_vec()));
            if cursor == 0 {
                break;
            }
        }
        assert!(
            scanned
                .iter()
                .eq(all.iter().map(|(field, (value, _))| (field, value)).collect::<Vec<_>>())
        );
        all
    });
    let all = walk.expect("a hash").unwrap_or_default();
    assert_eq!(session.exists(key, now), !all.is_empty(), "{now}");
    assert_eq!(session.peek_value(key, now, |_| ()).is_some(), !all.is_empty());
    all
}

fn step(session: &mut Session, model: &mut Fields, key: &[u8], random: &mut Random, now: u64) {
    model.retain(|_, (_, at)| at.is_none_or(|at| at > now));
    let names: Vec<Vec<u8>> = (0..2).map(|_| format!("f{}", random.below(12)).into()).collect();
    let fields: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let value = random.below(100).to_string().into_bytes();
    // Some are over already.
    let at = now - 2 + random.below(40);
    let pair = [(fields[0], &value[..])];
    let one = &names[0];
    match random.below(12) {
        0..3 => {
            let added = session.hash_set(key, &pair, now).unwrap();
            assert_eq!(added == 1, model.insert(one.clone(), (value, None)).is_none());
        }
        3 => {
            let sum = session.hash_incr_by(key, one, 5, now);
            let (old, at) = model.get(one).cloned().unwrap_or((b"0".to_vec(), None));
            let old: i64 = String::from_utf8(old).unwrap().parse().unwrap();
            assert_eq!(sum, Ok(old + 5));
            model.insert(one.clone(), ((old + 5).to_string().into(), at));
        }
        4 => {
            let removed = session.hash_remove(key, &fields, now).unwrap();
            assert_eq!(removed, names.iter().filter(|name| model.remove(*name).is_some()).count());
        }
        5..8 => expire(session, model, (key, &names), random, at, now),
        8 => {
            let answers = session.hash_persist(key, &fields, now).unwrap();
            for (name, answer) in names.iter().zip(answers) {
                let found = model.get_mut(name).map(|(_, at)| at.take());
                let expected = match found {
                    None => FieldExpiry::Absent,
                    Some(None) => FieldExpiry::None,
                    Some(Some(_)) => FieldExpiry::Changed,
                };
                assert_eq!(answer, expected);
            }
        }
        9 => {
            let values = session
                .hash_get_ex(key, (&fields, ReplyCapacity::UNLIMITED), TtlChange::At(at), now)
                .unwrap();
            for (name, value) in names.iter().zip(values) {
                assert_eq!(value, model.get(name).map(|(value, _)| value.clone()));
                if at <= now {
                    model.remove(name);
                } else if let Some((_, old)) = model.get_mut(name) {
                    *old = Some(at);
                }
            }
        }
        10 => {
            let values =
                session.hash_get_del(key, (&fields, ReplyCapacity::UNLIMITED), now).unwrap();
            for (name, value) in names.iter().zip(values) {
                assert_eq!(value, model.remove(name).map(|(value, _)| value));
            }
        }
        _ => {
            let condition = random.pick(&[FieldsCondition::IfNone, FieldsCondition::IfAll]);
            let expiry = random.pick(&[SetFieldExpiry::Keep, SetFieldExpiry::At(at)]);
            let holds = model.contains_key(one) == (condition == FieldsCondition::IfAll);
            assert_eq!(session.hash_set_ex(key, &pair, condition, expiry, now), Ok(holds));
            let kept = model.get(one).and_then(|(_, at)| *at);
            let new = if expiry == SetFieldExpiry::Keep { kept } else { Some(at) };
            if holds && new.is_some_and(|at| at <= now) {
                model.remove(one);
            } else if holds {
                model.insert(one.clone(), (value, new));
            }
        }
    }
}

fn expire(
    session: &mut Session,
    model: &mut Fields,
    (key, names): (&[u8], &[Vec<u8>]),
    random: &mut Random,
    at: u64,
    now: u64,
) {
    use ExpireCondition::{Always, IfEarlier, IfLater, IfNone, IfSome};
    let condition = random.pick(&[Always, IfEarlier, IfLater, IfNone, IfSome]);
    let fields: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let answers = session.hash_expire_at(key, at, condition, &fields, now).unwrap();
    for (name, answer) in names.iter().zip(answers) {
        let holds = |old: Option<u64>| match condition {
            IfEarlier => at < old.unwrap_or(u64::MAX),
            IfLater => at > old.unwrap_or(u64::MAX),
            IfNone => old.is_none(),
            IfSome => old.is_some(),
            _ => true,
        };
        let expected = match model.get_mut(name) {
            None => FieldExpiry::Absent,
            Some((_, old)) if !holds(*old) => FieldExpiry::Unmet,
            Some(_) if at <= now => {
                model.remove(name);
                FieldExpiry::Removed
            }
            Some((_, old)) => {
                *old = Some(at);
                FieldExpiry::Changed
            }
        };
        assert_eq!(answer, expected, "{condition:?}");
    }
}

#[test]
fn hashes_are_maps_whose_fields_expire() {
    let cases = [(512, Checksum::Off), (4, Checksum::Off), (4, Checksum::Verify)];
    for (seed, (packed, checksum)) in cases.into_iter().enumerate() {
        let store = Store::new(options(packed, checksum)).expect("it fits");
        let (mut session, mut random) = (store.session(), Random::new(seed as u64 + 1));
        let mut models: [Fields; 3] = Default::default();
        let mut now = NOW;
        for _ in 0..20_000 {
            now += random.below(3);
            let i = random.below(3) as usize;
            // Before a write has removed expired fields.
            models[i].retain(|_, (_, at)| at.is_none_or(|at| at > now));
            assert_eq!(seen(&mut session, KEYS[i], now), models[i], "{now}");
            step(&mut session, &mut models[i], KEYS[i], &mut random, now);
            let is = seen(&mut session, KEYS[i], now);
            assert_eq!(is, models[i], "{now}");
            if random.one_in(10) {
                session.expire_due(now, 1_000, |_, _| panic!("no key has a time"));
            }
        }
        // The wheel leaves nothing, and looks at no hash that has no field which expires.
        let (mut at, mut calls) = (now, 0);
        while let Some(next) = session.expire_due(at, 1_000, |_, _| ()).next {
            at = at.max(next) + u64::from(next <= at);
            calls += 1;
        }
        assert!(calls < 300, "{calls}");
        for model in &mut models {
            model.retain(|_, (_, at)| at.is_none());
        }
        assert_eq!(store.len(), models.iter().filter(|model| !model.is_empty()).count());
        for (key, model) in KEYS.iter().zip(&models) {
            assert_eq!(seen(&mut session, key, 0), *model, "none is left that is only hidden");
        }
    }
}

#[test]
fn the_wheel_removes_fields_in_time_and_tells() {
    for packed in [512, 2] {
        let store = Store::new(options(packed, Checksum::Off)).expect("it fits");
        let mut session = store.session();
        session.act(Origin { records_changes: true, ..Origin::default() });
        let names: Vec<String> = (0..1_000).map(|i| format!("field {i}")).collect();
        let always = ExpireCondition::Always;
        for (i, name) in names.iter().enumerate() {
            session.hash_set(b"h", &[(name.as_bytes(), b"v")], NOW).unwrap();
            let at = NOW + 10 * (i as u64 % 10 + 1);
            session.hash_expire_at(b"h", at, always, &[name.as_bytes()], NOW).unwrap();
        }
        session.take_changes();
        for round in 1..=10 {
            let now = NOW + 10 * round;
            while session.expire_due(now, 100, |_, _| ()).next.is_some_and(|next| next <= now) {}
            // One of more than it takes in a step goes on at the next millisecond.
            session.expire_due(now + 1, 100, |_, _| ());
            let left = session.hash(b"h", 0, |hash| hash.len()).unwrap();
            assert_eq!(left, Some(1_000 - 100 * round as usize).filter(|left| *left > 0));
            let kind: Vec<_> = session.take_changes().into_iter().map(|c| c.kind).collect();
            let last = if round < 10 { FieldsChanged::Expired } else { FieldsChanged::LastExpired };
            assert_eq!(kind.last(), Some(&Changed::Fields(last)), "{round}");
        }
        assert!(store.is_empty());
        assert_eq!(session.expire_due(NOW + 200, 100, |_, _| ()).next, None);
    }
}

/// A hash that is large before it has an expiry, and one whose first expiry comes to be earlier.
#[test]
fn the_wheel_knows_of_expiries_that_a_large_hash_gets() {
    let store = Store::new(options(2, Checksum::Off)).expect("it fits");
    let mut session = store.session();
    let fields: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    session.hash_set(b"h", &fields.map(|field| (field, field)), NOW).unwrap();
    let mut expire = |field: &[u8], at| {
        session.hash_expire_at(b"h", at, ExpireCondition::Always, &[field], NOW).unwrap();
    };
    expire(b"a", NOW + 50_000);
    expire(b"b", NOW + 20);
    for (now, left) in [(NOW + 30, 3), (NOW + 50_010, 2)] {
        while session.expire_due(now, 100, |_, _| ()).next.is_some_and(|next| next <= now) {}
        // At time 0 nothing that is held is hidden.
        assert_eq!(session.hash(b"h", 0, |hash| hash.len()).unwrap(), Some(left));
    }
}

#[test]
fn expiries_come_back_from_the_log_and_go_with_copies() {
    let storage = Memory::new();
    let engine = EngineChoice::HotRing;
    let logged = Logged::on(engine, options(4, Checksum::Off), Fault::None, &storage);
    let mut session = logged.store.session();
    let mut random = Random::new(3);
    let (mut now, mut models) = (NOW, <[Fields; 3]>::default());
    for _ in 0..3_000 {
        now += random.below(3);
        let i = random.below(3) as usize;
        step(&mut session, &mut models[i], KEYS[i], &mut random, now);
        session.expire_due(now, 100, |_, _| ());
    }
    for key in KEYS {
        let (always, expiry) = (FieldsCondition::Always, SetFieldExpiry::At(now + 50));
        session.hash_set_ex(key, &[(b"last", b"1")], always, expiry, now).unwrap();
    }
    session.copy(b"a", b"copy", true, now).unwrap();
    session.rename(b"b", b"renamed", now).unwrap();
    let is = [&b"copy"[..], b"renamed", b"c"].map(|key| seen(&mut session, key, now));
    assert!(is.iter().all(|hash| hash.values().any(|(_, at)| at.is_some())), "{is:?}");
    drop(session);
    logged.end();
    let store = Store::new(options(4, Checksum::Off)).expect("it fits");
    let mut session = store.session();
    read(&storage, |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, now).expect("a known form"));
    });
    let was = [&b"copy"[..], b"renamed", b"c"].map(|key| seen(&mut session, key, now));
    assert_eq!(was, is);
    // The wheel knows of them.
    let later = now + 100;
    for at in [later, later + 1] {
        while session.expire_due(at, 100, |_, _| ()).next.is_some_and(|next| next <= at) {}
    }
    for (key, mut fields) in [&b"copy"[..], b"renamed", b"c"].into_iter().zip(is) {
        fields.retain(|_, (_, at)| at.is_none());
        assert_eq!(seen(&mut session, key, 0), fields);
    }
}
