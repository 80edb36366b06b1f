//! Damaged items under every operation of the store: nothing wrong is handed out, nothing is with_flags_of
//! out because of it, and writing or removing the key repairs.

use std::task::Waker;

use hotring_engines::EngineChoice;
use hotring_log::Effect;
use hotring_log::storage::Memory;
use hotring_store::index::{Checksum, Config, Damaged, Part, Scrub};
use hotring_store::{
    BitOp, End, ExpireCondition, Fault, Options, Session, SetCondition, SetExpiry, SetOperation,
    SetOptions, Store, TtlChange, Watched,
};

use super::logged::{Logged, read};

const NOW: u64 = 1_000;

fn open(engine: EngineChoice, history: usize) -> Store {
    let index = Config { checksum: Checksum::Verify, ..Config::default() };
    let options = Options { history, index, ..Options::default() };
    Store::open_with(options, move |config| engine.open(config)).unwrap()
}

/// A value with a bit that can be flipped.
const KEYS: [(&[u8], &[u8], Part); 3] = [
    (b"n", b"41", Part::Word),
    (b"short", b"abc", Part::Word),
    (b"text", b"a long value", Part::Value),
];

/// Runs `f` for each engine, with and without a history, and for each key while it is damaged. Once
/// `f` is done the key is as before, unless `f` wrote it.
fn each(mut f: impl FnMut(&mut Session, &[u8])) {
    for &engine in EngineChoice::ALL {
        for history in [0, 2] {
            for (key, value, part) in KEYS {
                let store = open(engine, history);
                let (mut damager, mut s) = (store.session(), store.session());
                for (key, value, _) in KEYS {
                    s.set(key, value, SetOptions::default(), NOW).unwrap();
                }
                damager.with_damage(key, part, 2, || f(&mut s, key)).expect("the key is there");
                assert_eq!(s.take_damage(), None, "every note was taken");
                if let Some(now) = s.get(key, NOW, |value| value.to_vec()) {
                    assert!(now == value || now == b"new", "{}", now.escape_ascii());
                }
            }
        }
    }
}

#[track_caller]
fn noted(s: &mut Session, key: &[u8]) {
    assert_eq!(s.take_effects().damage, Some(Damaged { key: Some(key.into()) }));
    assert_eq!(s.take_damage(), None, "one note for one key");
}

/// The key's item is still the damaged one.
#[track_caller]
fn untouched(s: &mut Session, key: &[u8]) {
    noted(s, key);
    assert!(!s.exists(key, NOW));
    noted(s, key);
}

fn never<R>() -> R {
    panic!("a damaged value was handed out")
}

#[test]
fn reads_see_nothing_and_note_it() {
    each(|s, key| {
        assert!(s.get(key, NOW, |_| never::<()>()).is_none());
        noted(s, key);
        assert_eq!(s.strlen(key, NOW).unwrap(), 0);
        noted(s, key);
        s.get_range(key, 0, -1, NOW, |bytes, _| assert!(bytes.is_empty())).unwrap();
        noted(s, key);
        assert!(s.expiry(key, NOW).is_none());
        noted(s, key);
        assert!(s.memory(key, NOW).is_none());
        noted(s, key);
        assert!(s.history(key, NOW, |_| never::<()>()).is_none());
        noted(s, key);
        assert_eq!(s.version(key, NOW), Ok(None));
        noted(s, key);
        s.mget(&[b"absent", key], NOW, |_, value| assert!(value.is_none()));
        noted(s, key);
        assert_eq!(s.exists_many(&[key, b"absent"], NOW), 0);
        noted(s, key);
        let (mut keys, mut cursor) = (0, 0);
        loop {
            // A sparse table takes more than one step, however few keys there are.
            cursor = s.scan(cursor, 100, NOW, |met, value| {
                keys += 1;
                assert!(met != key || value.is_empty());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(keys, KEYS.len(), "its key is listed");
        noted(s, key);
        for random in 0..16u64 {
            let random_key = s.random_key(random << 60, NOW).expect("others are there");
            assert_ne!(random_key, key);
        }
        assert_eq!(s.expire_due(NOW, 1_000, |_, _| {}).removed, 0);
    });
}

/// A note of a read was once taken away by the expiry step behind it.
#[test]
fn expiring_keys_takes_no_note_away() {
    each(|s, key| {
        assert!(!s.exists(key, NOW));
        s.expire_due(NOW, 1_000, |_, _| {});
        noted(s, key);
    });
}

#[test]
fn a_write_that_reads_a_damaged_value_changes_nothing() {
    each(|s, key| {
        let set = |condition| SetOptions { condition, ..SetOptions::default() };
        assert_eq!(s.incr_by(key, 1, NOW), Ok(1), "as an absent key would, but not stored");
        untouched(s, key);
        s.incr_by_float(key, b"0.5", NOW).unwrap();
        untouched(s, key);
        assert_eq!(s.append(key, b"xyz", NOW), Ok(3));
        untouched(s, key);
        assert_eq!(s.set_range(key, 1, b"xyz", NOW), Ok(4));
        untouched(s, key);
        s.set(key, b"new", SetOptions::if_absent(), NOW).unwrap();
        untouched(s, key);
        s.set(key, b"new", SetOptions::if_present(), NOW).unwrap();
        untouched(s, key);
        s.set(key, b"new", set(SetCondition::IfEqual(b"x")), NOW).unwrap();
        untouched(s, key);
        s.set(key, b"new", set(SetCondition::IfVersion(1)), NOW).unwrap();
        untouched(s, key);
        assert_eq!(s.get_set(key, b"new", NOW), Ok(None));
        untouched(s, key);
        let keep = SetOptions { expiry: SetExpiry::Keep, ..SetOptions::default() };
        s.set(key, b"new", keep, NOW).unwrap();
        untouched(s, key);
        assert_eq!(s.get_del(key, NOW).unwrap(), None);
        untouched(s, key);
        assert_eq!(s.get_ex(key, TtlChange::At(NOW + 9), NOW, |_, _| never::<()>()), Ok(None));
        untouched(s, key);
        assert_eq!(s.expire_at(key, NOW + 9, ExpireCondition::Always, NOW), Ok(false));
        untouched(s, key);
        assert_eq!(s.persist(key, NOW), Ok(false));
        untouched(s, key);
    });
}

#[test]
fn operations_on_several_keys_change_none() {
    each(|s, key| {
        assert_eq!(s.mset_nx(&[(b"a", b"new"), (key, b"new")], NOW), Ok(false));
        untouched(s, key);
        assert!(s.rename(key, b"b", NOW).is_err());
        untouched(s, key);
        s.set(b"c", b"new", SetOptions::default(), NOW).unwrap();
        assert_eq!(s.rename_nx(b"c", key, NOW), Ok(false));
        untouched(s, key);
        assert_eq!(s.copy(b"c", key, false, NOW), Ok(false));
        untouched(s, key);
        assert_eq!(s.copy(key, b"d", true, NOW), Ok(false));
        untouched(s, key);
        assert_eq!(s.exists_many(&[b"a", b"b", b"d"], NOW), 0);
        assert!(s.exists(b"c", NOW));
    });
}

#[test]
fn writing_or_removing_the_key_repairs() {
    each(|s, key| {
        s.set(key, b"new", SetOptions::default(), NOW).unwrap();
        assert_eq!(s.get(key, NOW, |value| value.to_vec()), Some(b"new".to_vec()));
    });
    each(|s, key| {
        let expiring = SetOptions { expiry: SetExpiry::At(NOW + 5), ..SetOptions::default() };
        s.set(key, b"new", expiring, NOW).unwrap();
        assert_eq!(s.expiry(key, NOW), Some(Some(NOW + 5)));
    });
    each(|s, key| {
        s.mset(&[(b"other", b"1"), (key, b"new")], NOW).unwrap();
        assert_eq!(s.strlen(key, NOW).unwrap(), 3);
    });
    each(|s, key| {
        s.set(b"c", b"new", SetOptions::default(), NOW).unwrap();
        s.rename(b"c", key, NOW).unwrap();
        assert_eq!(s.strlen(key, NOW).unwrap(), 3);
    });
    each(|s, key| {
        assert!(s.remove(key, NOW));
        assert!(!s.exists(key, NOW));
    });
    each(|s, key| {
        assert_eq!(s.remove_many(&[b"absent", key], NOW), 1);
        assert!(!s.exists(key, NOW));
    });
    each(|s, _| s.clear());
}

#[test]
fn a_walk_finds_every_damaged_key() {
    for &engine in EngineChoice::ALL {
        let store = open(engine, 0);
        let (mut damager, mut s) = (store.session(), store.session());
        for i in 0..1_000 {
            s.set(format!("key:{i}").as_bytes(), b"some value", SetOptions::default(), NOW)
                .unwrap();
        }
        let walk = |s: &mut Session| {
            let mut scrub = Scrub::new(10);
            while !scrub.is_done() {
                s.scrub_step(&mut scrub, 64);
            }
            scrub
        };
        assert_eq!((walk(&mut s).counts.items, walk(&mut s).counts.damaged), (1_000, 0));
        let found = damager.with_damage(b"key:77", Part::Value, 5, || walk(&mut s)).unwrap();
        assert_eq!((found.counts.items, found.counts.damaged), (1_000, 1));
        assert_eq!(found.first, [Damaged { key: Some(b"key:77"[..].into()) }]);
        assert_eq!(s.take_damage(), None, "the walk's findings are its own");
    }
}

#[test]
fn a_waiter_sees_the_repair_and_not_the_damage() {
    for &engine in EngineChoice::ALL {
        for history in [0, 2] {
            for (key, value, part) in KEYS {
                let store = open(engine, history);
                let (mut damager, mut s) = (store.session(), store.session());
                s.set(key, value, SetOptions::default(), NOW).unwrap();
                let mut watch = |expected| s.watch(key, expected, Waker::noop().clone(), NOW);
                let (any, new) = (watch(None).unwrap(), watch(Some(b"new")).unwrap());
                damager.with_damage(key, part, 2, || {
                    assert_eq!(s.poll_watch(&any, NOW), Watched::Waiting { until: None });
                    assert_eq!(s.take_damage(), None, "a look is nobody's read");
                    s.append(key, b"x", NOW).unwrap();
                    noted(&mut s, key);
                    assert!(s.get_del(key, NOW).unwrap().is_none());
                    noted(&mut s, key);
                    assert!(!any.has_fired(), "all that was left undone");
                    s.set(key, b"new", SetOptions::default(), NOW).unwrap();
                    assert!(any.has_fired() && new.has_fired());
                    assert_eq!(s.take_damage(), None);
                });
            }
        }
    }
}

/// MOVE once overwrote a damaged key of the other database, which it took for absent.
#[test]
fn a_damaged_key_is_not_overwritten_from_another_database() {
    let store = open(EngineChoice::ALL[0], 0);
    let (mut damager, mut s) = (store.session(), store.session());
    let set = |s: &mut Session, value: &[u8]| {
        s.set(b"text", value, SetOptions::default(), NOW).unwrap();
    };
    set(&mut s, b"here, and whole");
    damager.select(1);
    set(&mut damager, b"there, and damaged");
    damager.with_damage(b"text", Part::Value, 2, || {
        assert_eq!(s.move_to(b"text", 1, NOW), Ok(false));
        assert_eq!(s.copy_to(b"text", (1, b"text"), false, NOW), Ok(false));
    });
    assert!(s.exists(b"text", NOW), "it stays");
    let value = damager.get(b"text", NOW, |value| value.to_vec());
    assert_eq!(value.as_deref(), Some(&b"there, and damaged"[..]));
}

/// An element, or a member, was once taken away although the key that it was to come to is damaged; and a result
/// without one of its sources, which is damaged, took the place of what the destination had.
#[test]
fn nothing_is_lost_to_a_damaged_source_or_destination() {
    let store = open(EngineChoice::ALL[0], 0);
    let (mut damager, mut s) = (store.session(), store.session());
    let push = |s: &mut Session, key: &[u8]| {
        s.list_push(key, End::Back, &[b"element"], false, NOW).unwrap();
    };
    push(&mut s, b"list");
    push(&mut s, b"to");
    damager.with_damage(b"to", Part::Value, 2, || {
        let moved = s.list_move(b"list", b"to", (End::Front, End::Front), NOW).unwrap();
        assert!(moved.is_none());
        assert!(s.take_damage().is_some());
        assert!(s.exists(b"list", NOW));
    });
    s.remove_many(&[b"list", b"to"], NOW);
    for key in [&b"one"[..], b"two", b"to"] {
        s.set_add(key, &[key, b"both"], NOW).unwrap();
    }
    damager.with_damage(b"to", Part::Value, 2, || {
        assert_eq!(s.set_move(b"one", b"to", b"one", NOW), Ok(false));
        assert!(s.take_damage().is_some());
        assert_eq!(s.set_members(b"one", NOW, |set| set.contains(b"one")), Ok(Some(true)));
    });
    damager.with_damage(b"two", Part::Value, 2, || {
        let keys: [&[u8]; 2] = [b"one", b"two"];
        for operation in [SetOperation::Union, SetOperation::Intersection] {
            s.set_store(operation, b"to", &keys, NOW).unwrap();
            assert!(s.take_damage().is_some());
        }
        assert_eq!(s.set_members(b"to", NOW, |set| set.contains(b"to")), Ok(Some(true)));
    });
    for key in [&b"x"[..], b"y", b"z"] {
        s.set(key, b"a long value", SetOptions::default(), NOW).unwrap();
    }
    s.set(b"z", b"what it has", SetOptions::default(), NOW).unwrap();
    damager.with_damage(b"y", Part::Value, 2, || {
        s.bit_op(BitOp::Xor, b"z", &[b"x", b"y"], NOW).unwrap();
        assert!(s.take_damage().is_some());
        assert_eq!(s.get(b"z", NOW, |value| value.to_vec()).unwrap(), b"what it has");
    });
}

/// Changes of damaged containers are left undone, and the log has nothing of them.
#[test]
fn the_log_has_no_change_of_a_damaged_container() {
    let index = Config { checksum: Checksum::Verify, ..Config::default() };
    let storage = Memory::new();
    let logged = Logged::new(Options { index, ..Options::default() }, Fault::None, &storage);
    let (mut damager, mut s) = (logged.store.session(), logged.store.session());
    s.set_add(b"k", &[b"a member"], NOW).unwrap();
    damager
        .with_damage(b"k", Part::Value, 70, || {
            s.set_add(b"k", &[b"another"], NOW).unwrap();
            noted(&mut s, b"k");
            s.set_remove(b"k", &[b"a member"], NOW).unwrap();
            noted(&mut s, b"k");
        })
        .expect("the key is there");
    assert_eq!(s.set_members(b"k", NOW, |set| set.len()), Ok(Some(1)));
    drop((damager, s));
    logged.end();
    let mut n_changes = 0;
    read(&storage, |_, effects| {
        n_changes += effects.iter().filter(|effect| is_change_of_key(effect)).count();
    });
    assert_eq!(n_changes, 1, "that which created it");
}

fn is_change_of_key(effect: &Effect<'_>) -> bool {
    matches!(effect, Effect::Put { .. } | Effect::Change { .. } | Effect::Remove { .. })
}
