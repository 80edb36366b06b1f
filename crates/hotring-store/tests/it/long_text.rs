//! Long strings that are changed in part: as vectors of bytes on both sides of the limit, in the log, under threads,
//! and by what else holds for values.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Waker;

use hotring_log::storage::Memory;
use hotring_log::{Effect, recover};
use hotring_store::index::{Checksum, Config};
use hotring_store::{
    BitOp, BitRange, Content, EvictionOptions, EvictionPolicy, Fault, ItemAction, LONG_LEN,
    Metadata, Options, Session, SetCondition, SetExpiry, SetOptions, Store, StoreError, ValueRef,
    digest,
};

use super::logged::{ID, Logged, state};
use super::random::Random;

const NOW: u64 = 1_700_000_000_000;
const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
type Model = BTreeMap<&'static [u8], Vec<u8>>;

/// Strings are objects from 201 bytes on.
fn options() -> Options {
    Options { text_plain_max: 200, ..Options::default() }
}

fn store() -> Store {
    Store::new(options()).expect("it fits")
}

fn is_object(session: &mut Session, key: &[u8]) -> bool {
    session.get(key, NOW, |value| matches!(value, ValueRef::Text(_))) == Some(true)
}

fn write_at(text: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    text.resize(text.len().max(at + bytes.len()), 0);
    text[at..at + bytes.len()].copy_from_slice(bytes);
}

/// One change of a string, and of its model. Returns whether something was written.
fn change(session: &mut Session, models: &mut Model, random: &mut Random) -> bool {
    let key = random.pick(&KEYS);
    let was_there = models.contains_key(key);
    let text = models.entry(key).or_default();
    let bytes = vec![b'a' + random.below(26) as u8; random.below(60) as usize];
    let at = match random.below(20) {
        0 => random.below(100_000) as usize,
        _ => random.below(text.len() as u64 + 50) as usize,
    };
    let done = match random.below(10) {
        0..4 => {
            text.extend_from_slice(&bytes);
            assert_eq!(session.append(key, &bytes, NOW), Ok(text.len()));
            true
        }
        4..6 if !bytes.is_empty() => {
            write_at(text, at, &bytes);
            assert_eq!(session.set_range(key, at, &bytes, NOW), Ok(text.len()));
            true
        }
        6..9 => {
            let (bit, mask) = (random.one_in(2), 0x80 >> (at % 8));
            let byte = text.get(at).copied();
            let old = byte.unwrap_or(0) & mask != 0;
            let is_same = byte.is_some() && old == bit;
            let after = byte.unwrap_or(0) & !mask | if bit { mask } else { 0 };
            write_at(text, at, &[after]);
            assert_eq!(session.set_bit(key, 8 * at as u64 + at as u64 % 8, bit, NOW), Ok(old));
            !is_same
        }
        _ if random.one_in(3) => {
            *text = bytes;
            session.set(key, text, SetOptions::default(), NOW).expect("room");
            assert!(!is_object(session, key), "a string that is stored as a whole is plain");
            true
        }
        _ => return !was_there && models.remove(key).is_none(),
    };
    assert!(done || was_there);
    done
}

fn bit_at(text: &[u8], at: usize) -> bool {
    text.get(at / 8).is_some_and(|byte| byte & 0x80 >> (at % 8) != 0)
}

/// A change of one of some keys, most of them strings that are objects from 61 bytes on by then.
pub(super) fn change_text(session: &mut Session, random: &mut Random, now: u64) {
    let key = format!("text {}", random.below(12)).into_bytes();
    let bytes = vec![b'a' + random.below(26) as u8; 1 + random.below(30) as usize];
    let far = if random.one_in(20) { 90_000 } else { 200 };
    _ = match random.below(30) {
        0..10 => session.append(&key, &bytes, now).map(|_| ()),
        10..18 => session.set_range(&key, random.below(far) as usize, &bytes, now).map(|_| ()),
        18..25 => session.set_bit(&key, 8 * random.below(far), random.one_in(2), now).map(|_| ()),
        25..27 => session.set(&key[..], &bytes, SetOptions::default(), now).map(|_| ()),
        27 => session.hash_set(&key, &[(b"f", &bytes)], now).map(|_| ()),
        28 => session.copy(&key, b"text copy", true, now).map(|_| ()),
        _ => Ok(_ = session.remove(&key, now)),
    };
}

/// All ways to read a string say the same as its model.
fn check(session: &mut Session, key: &[u8], text: Option<&Vec<u8>>, random: &mut Random) {
    let whole = session.get(key, NOW, |value| value.to_vec());
    assert_eq!(whole.as_ref(), text);
    assert_eq!(session.strlen(key, NOW), Ok(text.map_or(0, Vec::len)));
    let Some(text) = text else { return };
    let (from, to) = (random.below(text.len() as u64 + 9), random.below(text.len() as u64 + 9));
    let (from, to) = (from as usize, to as usize);
    let part = text.get(from..text.len().min(to + 1)).unwrap_or_default();
    let range = session.get_range(key, from as i64, to as i64, NOW, |part, _| part.to_vec());
    assert_eq!(range.as_deref(), Ok(part));
    assert_eq!(session.bit(key, from as u64, NOW), Ok(bit_at(text, from)));
    let bits = BitRange { start: from as i64, end: Some(to as i64), in_bits: true };
    let places = from..(to + 1).min(8 * text.len());
    let ones = places.clone().filter(|at| bit_at(text, *at)).count() as u64;
    assert_eq!(session.bit_count(key, bits, NOW), Ok(ones));
    for bit in [false, true] {
        let found = places.clone().find(|at| bit_at(text, *at) == bit).map(|at| at as u64);
        assert_eq!(session.bit_pos(key, bit, bits, NOW), Ok(found));
    }
    let ones: u32 = text.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(session.bit_count(key, BitRange::ALL, NOW), Ok(ones.into()));
    let shared = session.get_shared(key, NOW, |value, block| match value {
        ValueRef::Text(text) => {
            let copy = text.to_block(block.expect("one stands for it"));
            assert_eq!(copy.is_some(), text.len() > LONG_LEN);
            copy.map_or_else(|| value.to_vec(), |copy| copy.to_vec())
        }
        value => value.to_vec(),
    });
    assert_eq!(shared.as_ref(), Ok(&Some(text.clone())));
    session.mget(&[key], NOW, |_, value| assert_eq!(&value.expect("it is there").to_vec(), text));
    assert_eq!(session.item(key, NOW, |item| item.value.to_vec()).as_ref(), Some(text));
    let mut scanned = None;
    let mut cursor = 0;
    loop {
        cursor = session.scan(cursor, 100, NOW, |other, value| {
            if other == key {
                scanned = Some((value.is_string(), value.to_vec()));
            }
        });
        if cursor == 0 {
            break;
        }
    }
    assert!(scanned == Some((true, text.clone())));
}

#[test]
fn a_string_is_as_a_vector_on_both_sides_of_the_limit() {
    let store = store();
    let mut session = store.session();
    let mut random = Random::new(1);
    let (mut models, mut objects) = (Model::new(), 0);
    for round in 0..6_000 {
        let states = KEYS.map(|key| session.key_state(key, NOW).expect("room"));
        let before = models.clone();
        let changes = change(&mut session, &mut models, &mut random);
        let unchanged = states.iter().filter(|state| session.is_unchanged(state, NOW)).count();
        assert_eq!(unchanged, 3 - usize::from(changes), "{round}");
        assert!(changes || before == models);
        if random.one_in(30) {
            let (from, to) = (random.pick(&KEYS), random.pick(&KEYS));
            if let Some(text) = models.get(from).cloned().filter(|_| from != to) {
                match random.one_in(2) {
                    true => assert_eq!(session.copy(from, to, true, NOW), Ok(true)),
                    false => {
                        assert_eq!(session.rename(from, to, NOW), Ok(()));
                        models.remove(from);
                    }
                }
                models.insert(to, text);
            }
        }
        let key = random.pick(&KEYS);
        check(&mut session, key, models.get(key), &mut random);
        objects += usize::from(is_object(&mut session, key));
    }
    assert!((1_000..5_500).contains(&objects), "{objects}");
}

/// An object of 70 kB, with a byte in the middle that was written alone.
fn long(session: &mut Session, key: &[u8]) -> Vec<u8> {
    let mut text = vec![b'.'; 70_000];
    session.set(key, &text, SetOptions::default(), NOW).expect("room");
    text[30_000] = b'!';
    session.set_range(key, 30_000, b"!", NOW).expect("room");
    assert!(is_object(session, key));
    text
}

#[test]
fn operations_on_whole_strings_see_written_parts() {
    let store = store();
    let mut s = store.session();
    let text = long(&mut s, b"k");
    let set_if = |s: &mut Session, condition, value: &[u8]| {
        let options = SetOptions { condition, ..SetOptions::default() };
        s.set(b"k", value, options, NOW).expect("a string").stored
    };
    assert!(!set_if(&mut s, SetCondition::IfEqual(b"x"), b"y"));
    assert!(!set_if(&mut s, SetCondition::IfNotDigest(digest(&text)), b"y"));
    assert!(set_if(&mut s, SetCondition::IfEqual(&text), b"whole"));
    assert!(!is_object(&mut s, b"k"));
    long(&mut s, b"k");
    assert!(set_if(&mut s, SetCondition::IfDigest(digest(&text)), b"whole"));
    long(&mut s, b"k");
    assert_eq!(s.get_set(b"k", b"7", NOW).unwrap().unwrap().into_vec(), text);
    assert_eq!(s.incr_by(b"k", 1, NOW), Ok(8));
    long(&mut s, b"k");
    assert!(matches!(s.incr_by(b"k", 1, NOW), Err(StoreError::NotANumber(_))));
    assert!(matches!(s.incr_by_float(b"k", b"1", NOW), Err(StoreError::NotANumber(_))));
    assert_eq!(s.hash_set(b"k", &[(b"f", b"v")], NOW), Err(StoreError::WrongType));
    assert_eq!(s.remove_if(b"k", SetCondition::IfEqual(b"x"), NOW), Ok(false));
    assert_eq!(s.get_del(b"k", NOW).unwrap().unwrap().into_vec(), text);
    // A hash stays one.
    s.hash_set(b"h", &[(b"f", b"v")], NOW).expect("room");
    assert_eq!(s.append(b"h", b"x", NOW), Err(StoreError::WrongType));
    assert_eq!(s.set_range(b"h", 900, b"x", NOW), Err(StoreError::WrongType));
    assert_eq!(s.set_bit(b"h", 9_000, true, NOW), Err(StoreError::WrongType));
    assert_eq!(s.bit(b"h", 1, NOW), Err(StoreError::WrongType));
    assert_eq!(s.strlen(b"h", NOW), Err(StoreError::WrongType));
    // BITOP takes it as a source.
    long(&mut s, b"k");
    s.set(b"zeros", b"\0", SetOptions::default(), NOW).expect("room");
    assert_eq!(s.bit_op(BitOp::Or, b"to", &[b"zeros", b"k"], NOW), Ok(text.len()));
    assert_eq!(s.get(b"to", NOW, |value| value.to_vec()).as_ref(), Some(&text));
    // A reply can be sent from a copy, if that is long.
    s.set_range(b"k", 3 << 20, b"far", NOW).expect("room");
    let whole = s.get(b"k", NOW, |value| value.to_vec()).expect("it is there");
    let copy = s.get_shared(b"k", NOW, |value, block| match value {
        ValueRef::Text(text) => text.to_block(block.expect("one stands for it")),
        other => panic!("{other:?}"),
    });
    assert!(copy.expect("a string").flatten().expect("it is long")[..] == whole[..]);
    // Content, as a restored one has it, is whole.
    let content = Content::String(b"restored"[..].into());
    assert_eq!(s.put_content(b"k", content, None, true, NOW), Ok(true));
    assert!(!is_object(&mut s, b"k"));
}

/// memcached's numbers and flags: they make a string whole again, and one with flags stays so.
#[test]
fn a_string_with_metadata_is_whole() {
    let store = store();
    let mut s = store.session();
    let text = long(&mut s, b"k");
    let give = |s: &mut Session, metadata: Metadata| {
        s.update_item(b"k", NOW, |_| (ItemAction::Amend { metadata, expiry: SetExpiry::Keep }, ()))
            .expect("room");
    };
    give(&mut s, Metadata { unique: Some(5), ..Metadata::default() });
    let item = |s: &mut Session| s.item(b"k", NOW, |item| (item.value.to_vec(), item.metadata));
    let (value, metadata) = item(&mut s).expect("it is there");
    assert_eq!((value == text, metadata.unique), (true, Some(5)));
    // The number is dropped by a change, and the string needs to be whole no longer.
    s.set_bit(b"k", 0, true, NOW).expect("room");
    assert!(is_object(&mut s, b"k"));
    assert_eq!(item(&mut s).expect("it is there").1, Metadata::default());
    give(&mut s, Metadata { flags: 9, ..Metadata::default() });
    assert_eq!(s.append(b"k", b"x", NOW), Ok(text.len() + 1));
    let (value, metadata) = item(&mut s).expect("it is there");
    assert!(!is_object(&mut s, b"k"));
    assert_eq!((value.len(), metadata.flags), (text.len() + 1, 9));
    assert_eq!((value[0], value[30_000]), (b'.' | 0x80, b'!'));
}

#[test]
fn it_keeps_its_expiry_and_is_waited_for_by_value() {
    let store = store();
    let mut s = store.session();
    let mut text = long(&mut s, b"k");
    s.expire_at(b"k", NOW + 5, hotring_store::ExpireCondition::Always, NOW).expect("room");
    text.extend_from_slice(b"tail");
    let watch = s.watch(b"k", Some(&text), Waker::noop().clone(), NOW).expect("room");
    s.set_bit(b"k", 1, true, NOW).expect("room");
    s.set_bit(b"k", 1, false, NOW).expect("room");
    assert!(!watch.has_fired());
    s.append(b"k", b"tail", NOW).expect("room");
    assert!(watch.has_fired(), "it has the value that is waited for");
    let watch = s.watch(b"k", Some(&text), Waker::noop().clone(), NOW).expect("room");
    assert!(watch.has_fired(), "it has it already");
    assert_eq!(s.expiry(b"k", NOW), Some(Some(NOW + 5)));
    // That which makes the object is a change, too.
    let watch = s.watch(b"new", Some(&[0; 300]), Waker::noop().clone(), NOW).expect("room");
    s.set_bit(b"new", 2_399, false, NOW).expect("room");
    assert!(watch.has_fired());
    assert_eq!(s.get(b"k", NOW + 5, |_| ()), None);
    assert_eq!(s.append(b"k", b"x", NOW + 5), Ok(1));
}

#[test]
fn a_change_of_a_part_logs_the_part_and_replay_is_exact() {
    let storage = Memory::new();
    let logged = Logged::new(options(), Fault::None, &storage);
    let mut s = logged.store.session();
    let len = 8 << 20;
    s.set(b"k", &vec![b'x'; len], SetOptions::default(), NOW).expect("room");
    let before = logged.log.handed();
    for i in 0..1_000 {
        s.set_bit(b"k", i * 67_000, true, NOW).expect("room");
        s.append(b"k", b"!", NOW).expect("room");
    }
    // Of one that is not there, in which nothing but the last byte is something.
    s.set_bit(b"far", (500 << 20) * 8, true, NOW).expect("room");
    s.set_bit(b"far", 77, true, NOW).expect("room");
    drop(s);
    let was = logged.store.session().get(b"k", NOW, |value| value.to_vec());
    let store = logged.end();
    let (mut bytes, mut records) = (0, 0);
    let reopened = Store::new(options()).expect("it fits");
    let mut session = reopened.session();
    recover(&storage, Some(ID), 1, &mut |lsn, effects: &[Effect<'_>]| {
        for effect in effects {
            if lsn > before {
                records += 1;
                bytes += match effect {
                    Effect::Put { key, value, .. } => key.len() + value.len(),
                    Effect::Change { key, change, .. } => key.len() + change.len(),
                    other => panic!("{other:?}"),
                };
            }
            session.replay(effect, NOW).expect("a known form");
        }
    })
    .expect("it is whole");
    assert_eq!(records, 2_002);
    assert!(bytes < 2_002 * 10, "{bytes} bytes for {records} changes");
    assert!(session.get(b"k", NOW, |value| value.to_vec()) == was);
    let far = |session: &mut Session| {
        assert_eq!(session.strlen(b"far", NOW), Ok((500 << 20) + 1));
        assert_eq!(session.bit_count(b"far", BitRange::ALL, NOW), Ok(2));
        assert_eq!(session.bit_pos(b"far", true, BitRange::ALL, NOW), Ok(Some(77)));
        assert!(session.memory(b"far", NOW).expect("it is there") < 100_000);
    };
    far(&mut session);
    far(&mut store.session());
}

/// A log of changes in place is read into plain strings where nothing else can be, and one of plain strings changed by
/// patches into objects.
#[test]
fn changes_are_read_where_strings_are_plain() {
    let storage = Memory::new();
    let logged = Logged::new(options(), Fault::None, &storage);
    let (mut s, mut random, mut models) = (logged.store.session(), Random::new(3), Model::new());
    for _ in 0..2_000 {
        change(&mut s, &mut models, &mut random);
        if random.one_in(40) {
            _ = s.rename(random.pick(&KEYS), random.pick(&KEYS), NOW);
            models.clear();
            for key in KEYS {
                if let Some(text) = s.get(key, NOW, |value| value.to_vec()) {
                    models.insert(key, text);
                }
            }
        }
        if random.one_in(100) {
            let key = random.pick(&KEYS);
            s.remove(key, NOW);
            s.hash_set(key, &[(b"f", b"v")], NOW).expect("room");
            s.remove(key, NOW);
            models.remove(key);
        }
    }
    drop(s);
    let was = state(&logged.end());
    let index = Config { checksum: Checksum::Verify, ..Config::default() };
    let plain = Options { index, ..Options::default() };
    for options in [plain, Options { history: 2, ..options() }, Options::default(), options()] {
        let reopened = Store::new(options).expect("it fits");
        let mut session = reopened.session();
        recover(&storage, Some(ID), 1, &mut |_, effects: &[Effect<'_>]| {
            effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
        })
        .expect("it is whole");
        assert_eq!(state(&reopened), was);
    }
}

/// A snapshot may have a younger value of another type than a record of the log is for.
#[test]
fn a_change_that_meets_another_type_is_passed_over() {
    let options = Options { hash_packed_fields_max: 2, ..options() };
    let storage = Memory::new();
    let logged = Logged::new(options.clone(), Fault::None, &storage);
    let mut s = logged.store.session();
    long(&mut s, b"k");
    s.append(b"k", b"\x01\x01f\x02v", NOW).expect("room");
    s.remove(b"k", NOW);
    let pairs: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")];
    s.hash_set(b"k", &pairs, NOW).expect("room");
    s.hash_set(b"k", &pairs[..1], NOW).expect("room");
    drop(s);
    logged.end();
    let mut changes = Vec::new();
    recover(&storage, Some(ID), 1, &mut |_, effects: &[Effect<'_>]| {
        for effect in effects {
            if let Effect::Change { number, change, .. } = effect {
                changes.push((*number, change.to_vec()));
            }
        }
    })
    .expect("it is whole");
    assert_eq!(changes.len(), 3);
    let store = Store::new(options).expect("it fits");
    let mut s = store.session();
    let text = long(&mut s, b"text");
    s.set(b"plain", b"text", SetOptions::default(), NOW).expect("room");
    s.hash_set(b"large", &pairs, NOW).expect("room");
    s.hash_set(b"packed", &pairs[..2], NOW).expect("room");
    let was = state(&store);
    for (i, (number, change)) in changes.iter().enumerate() {
        // Texts first, then a hash.
        let others: [&[u8]; 2] = if i < 2 { [b"large", b"packed"] } else { [b"text", b"plain"] };
        for key in others {
            let effect = Effect::Change { key, number: number + 100, change };
            s.replay(&effect, NOW).expect("a known form");
        }
    }
    assert_eq!(state(&store), was);
    assert_eq!(s.get(b"text", NOW, |value| value.to_vec()), Some(text));
    let nothing = Effect::Change { key: b"text", number: 9, change: b"" };
    assert!(s.replay(&nothing, NOW).is_err(), "a change has a kind");
}

#[test]
fn memory_is_counted_and_comes_back() {
    let store = store();
    let mut s = store.session();
    let before = store.stats().index.used_bytes();
    let taken = |store: &Store| store.stats().index.used_bytes().saturating_sub(before) as usize;
    let len = 16 << 20;
    s.set(b"k", &vec![b'x'; len], SetOptions::default(), NOW).expect("room");
    let plain = taken(&store);
    s.set_bit(b"k", 8_000_000, true, NOW).expect("room");
    // The block stays, and a chunk or two are beside it.
    assert!((plain..plain + (64 << 10)).contains(&taken(&store)), "{}", taken(&store));
    // Until the item that had it is freed, the block is shared with that.
    (0..20).for_each(|_| s.collect());
    let memory = s.memory(b"k", NOW).expect("it is there");
    assert!((len..len + (128 << 10)).contains(&memory), "{memory}");
    // Once all of it has been written, the block is gone.
    for at in (0..len).step_by(10_000) {
        s.set_range(b"k", at, b"y", NOW).expect("room");
    }
    (0..200).for_each(|_| s.collect());
    assert!((len..len + len / 8).contains(&taken(&store)), "{}", taken(&store));
    // A copy shares all of it, and goes alone.
    s.copy(b"k", b"c", true, NOW).expect("room");
    s.remove(b"k", NOW);
    (0..200).for_each(|_| s.collect());
    assert_eq!(s.strlen(b"c", NOW), Ok(len));
    s.remove(b"c", NOW);
    (0..200).for_each(|_| s.collect());
    assert!(taken(&store) < 20_000, "{}", taken(&store));
    // Positions far behind the end take no memory; the limit of memory concerns written bytes.
    store.set_memory_max(before + (4 << 20));
    s.set_bit(b"far", (400 << 20) * 8, true, NOW).expect("zeros are no memory");
    // At the end of every fourth chunk.
    let bit = |i: u64| 8 * ((64 << 10) * i + 16_383);
    let stops = (0..1_000).find(|i| s.set_bit(b"far", bit(*i), true, NOW).is_err());
    assert!(stops.is_some(), "it grows for ever");
    assert!(taken(&store) < 6 << 20, "{}", taken(&store));
    // Such a one is evicted.
    let eviction =
        EvictionOptions { policy: EvictionPolicy::AllKeysLru, ..EvictionOptions::default() };
    store.set_eviction(eviction).expect("every engine knows it");
    for i in 0..40_000 {
        let key = format!("key {i}").into_bytes();
        s.set(&key[..], &[b'v'; 100], SetOptions::default(), NOW).expect("room is made");
    }
    assert!(!s.exists(b"far", NOW));
}

/// Readers of two places that always change together, beside writers that take turns.
#[test]
fn threads_change_a_long_string_one_after_the_other() {
    /// Readers end also when a writer panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    const ROUNDS: usize = 2_000;
    let store = store();
    long(&mut store.session(), b"k");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u8)
            .map(|thread| {
                let mut s = store.session();
                scope.spawn(move || {
                    for i in 0..ROUNDS {
                        s.append(b"k", &[thread], NOW).expect("room");
                        let twins = vec![b'a' + (i % 20) as u8; 20_000];
                        s.set_range(b"k", 10_000, &twins, NOW).expect("room");
                        // Becomes an object and a plain string again all the time.
                        s.append(b"short", &[b'.'; 90], NOW).expect("room");
                        if i % 7 == 0 {
                            s.set(b"short", b"", SetOptions::default(), NOW).expect("room");
                        }
                    }
                })
            })
            .collect();
        for walks in [false, true] {
            let (mut s, stop) = (store.session(), &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    let is_one = |part: &[u8]| assert!(part.iter().all(|byte| *byte == part[0]));
                    match walks {
                        true => {
                            s.get(b"k", NOW, |value| is_one(&value.to_vec()[10_000..30_000]));
                        }
                        false => s
                            .get_range(b"k", 10_000, 29_999, NOW, |part, _| is_one(part))
                            .expect("a string"),
                    }
                }
            });
        }
        let _stop = Stop(&stop);
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    });
    let text = store.session().get(b"k", NOW, |value| value.to_vec()).expect("it is there");
    assert_eq!(text.len(), 70_000 + 3 * ROUNDS);
    for thread in 0..3 {
        let own = text[70_000..].iter().filter(|byte| **byte == thread).count();
        assert_eq!(own, ROUNDS);
    }
}
