//! Keys that move from one store to another while clients use them, and the grounds that say who may write which key.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hotring_log::storage::Memory;
use hotring_log::{Effect, Lsn, Records, Selection, pack};
use hotring_store::{
    EvictionOptions, EvictionPolicy, ExpireCondition, Fault, Grounds, ImportError, Importer,
    ItemAction, Metadata, Options, Role, Session, SetExpiry, SetOptions, SnapshotWalk, Standing,
    Store, StoreError, WalkSink,
};

use super::logged::{
    Logged, NOW, change_hash, change_list, change_scored, change_set, read, state,
};
use super::long_text::change_text;
use super::random::Random;
use super::replica::{apply, digest, follow, other_options, stream};
use super::roles::{FALLIBLE, OTHERS, fill};

const GROUPS: u16 = 4;

fn group(key: &[u8]) -> u16 {
    key.iter().fold(0, |sum: u16, byte| sum.wrapping_add(u16::from(*byte))) % GROUPS
}

/// Whether the key is of the groups that move.
pub fn moves(key: &[u8]) -> bool {
    (1..3).contains(&group(key))
}

/// Changes the standing of the groups that move, and of the others. Returns the version and the last record.
pub fn set_grounds(store: &Store, moving: Standing, others: Standing) -> (u64, Option<Lsn>) {
    let mut version = 0;
    let last = store.session().change_grounds(|next| {
        version = next;
        Arc::new(Grounds::new(group, Box::new([others, moving, moving, others])))
    });
    (version, last)
}

/// Removes the hidden keys; returns their number.
pub fn forget_all(store: &Store) -> usize {
    let (mut session, mut cursor, mut removed) = (store.session(), 0, 0);
    loop {
        let forgotten = session.forget_some(cursor, 7, |_| false);
        (cursor, removed) = (forgotten.next, removed + forgotten.removed);
        if cursor == 0 {
            return removed;
        }
    }
}

/// The digest of the keys that move; the others are removed.
fn digest_of_moving(store: &Store) -> u128 {
    set_grounds(store, Standing::Open, Standing::Hidden);
    forget_all(store);
    digest(store, 0)
}

/// A change of whatever type, but none of all keys.
fn change(session: &mut Session, random: &mut Random, now: u64) {
    let key = format!("key {}", random.below(60)).into_bytes();
    let (number, at) = (random.next().to_string(), now + 1 + random.below(300));
    match random.below(40) {
        0..5 => {
            let expiry = random.pick(&[SetExpiry::Clear, SetExpiry::Keep, SetExpiry::At(at)]);
            let options = SetOptions { expiry, ..SetOptions::default() };
            let value = number.repeat(1 + random.below(4) as usize);
            _ = session.set(&key[..], value.as_bytes(), options, now);
        }
        5..8 => _ = session.incr_by(&key, 1, now),
        8 => _ = session.append(&key, number.as_bytes(), now),
        9 => _ = session.remove(&key, now),
        10 => _ = session.expire_at(&key, at, ExpireCondition::Always, now),
        11 => _ = session.persist(&key, now),
        12 => _ = session.rename(&key, b"key 0", now),
        13 => _ = session.copy(&key, b"key 1", true, now),
        14 => _ = session.pin(&[&key], now),
        15 => _ = session.unpin(&[&key]),
        16 => {
            let metadata = Metadata { flags: random.below(9) as u32, ..Metadata::default() };
            let value = number.as_bytes().into();
            let put = ItemAction::Put { value, metadata, expiry: SetExpiry::At(at) };
            _ = session.update_item(&key, now, |_| (put.clone(), ()));
        }
        17..19 => {
            let twins = [&b"twin a"[..], b"twin b", b"twin c"];
            session.exclusive(&twins, |session| {
                twins.iter().for_each(|twin| _ = session.append(twin, number.as_bytes(), now));
                _ = session.expire_at(twins[0], at, ExpireCondition::Always, now);
            });
        }
        19..24 => change_hash(session, random, now),
        24..28 => change_list(session, random, now),
        28..32 => change_set(session, random, now),
        32..36 => change_text(session, random, now),
        _ => change_scored(session, random, now),
    }
}

/// Collects parts of a walk, each with the last record from before it was read.
#[derive(Default)]
struct Parts {
    upto: Lsn,
    block: Vec<u8>,
    scratch: Records,
    full: VecDeque<(Lsn, Vec<u8>)>,
}

impl WalkSink for Parts {
    fn push(&mut self, effect: &Effect<'_>) {
        assert!(effect.key().is_some_and(moves), "{effect:?} is not wanted");
        pack(effect, &mut self.scratch, &mut self.block);
    }

    fn is_full(&self) -> bool {
        self.block.len() > 2000
    }

    fn write_block(&mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.full.push_back((self.upto, std::mem::take(&mut self.block)));
        }
        Ok(())
    }

    fn set_class(&mut self, _: u8) -> io::Result<()> {
        Ok(())
    }

    fn set_database(&mut self, _: u8) -> io::Result<()> {
        Ok(())
    }
}

/// What a store sends of the keys that move: where the records begin, parts, and all its records.
pub struct Sent {
    pub after: Lsn,
    pub parts: VecDeque<(Lsn, Vec<u8>)>,
    pub stream: Vec<u8>,
    /// The time in the end.
    pub now: u64,
}

/// Has a store written by several threads while keys expire, and walks over it meanwhile.
pub fn send(options: &Options, seed: u64, count: usize) -> (Store, Sent) {
    let storage = Memory::new();
    let logged = Logged::new(options.clone(), Fault::None, &storage);
    let (store, clock, ends) = (&logged.store, AtomicU64::new(0), AtomicBool::new(false));
    store.session().follow(true);
    let time = || NOW + clock.fetch_add(1, Relaxed) / 2;
    let (after, parts) = std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for thread in 0..3 {
            writers.push(scope.spawn(move || {
                let (mut session, mut random) = (store.session(), Random::new(seed * 8 + thread));
                (0..count).for_each(|_| change(&mut session, &mut random, time()));
            }));
        }
        scope.spawn(|| {
            let mut session = store.session();
            while !ends.load(Relaxed) {
                session.expire_due(NOW + clock.load(Relaxed) / 2, 64, |_, _| ());
                std::thread::yield_now();
            }
        });
        let (mut session, mut random) = (store.session(), Random::new(seed));
        while clock.load(Relaxed) < random.below(2 * count as u64) {
            std::thread::yield_now();
        }
        let after = session.log_position().expect("there is a log");
        let hottest = [&b"key 1"[..], b"key 2", b"key 3"].map(Box::from).into();
        let (mut walk, mut parts) = (SnapshotWalk::of_some(hottest, moves), Parts::default());
        loop {
            if parts.block.is_empty() {
                parts.upto = session.log_position().expect("there is a log");
            }
            let goes_on = walk.step(&mut session, &mut parts).expect("nothing is damaged");
            if !goes_on || random.one_in(3) {
                parts.write_block().expect("it is memory");
                std::thread::yield_now();
            }
            if !goes_on {
                break;
            }
        }
        writers.into_iter().for_each(|writer| writer.join().expect("it does not panic"));
        ends.store(true, Relaxed);
        (after, parts.full)
    });
    let now = NOW + clock.load(Relaxed) / 2;
    (logged.end(), Sent { after, parts, stream: stream(&storage), now })
}

/// The length of the records up to this one.
fn len_upto(stream: &[u8], upto: Lsn) -> usize {
    let mut at = 0;
    while at < stream.len() {
        let found = hotring_log::read(&stream[at..]).expect("it is whole");
        if found.lsn > upto {
            break;
        }
        at += found.len;
    }
    at
}

/// The right way to send, and a wrong one.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Right,
    /// All parts come first, and only the records that are later than the last one.
    PartsFirst,
}

/// Sends everything to an importer, with a look at the target between the messages.
fn deliver(sent: &Sent, way: Way, seed: u64, importer: &mut Importer, mut look: impl FnMut()) {
    let mut random = Random::new(seed);
    let last = sent.parts.back().map_or(sent.after, |(upto, _)| *upto);
    let after = if way == Way::PartsFirst { last } else { sent.after };
    let (mut selection, mut at) = (Selection::new(after), len_upto(&sent.stream, after));
    let ends = sent.parts.iter().map(|(upto, part)| (len_upto(&sent.stream, *upto), Some(part)));
    for (end, part) in ends.chain([(sent.stream.len(), None)]) {
        while at < end {
            let next = (at + 1 + random.below(700) as usize).min(end);
            selection.take(&sent.stream[at..next], moves).expect("it is the stream");
            at = next;
            importer.take_records(&selection.drain(), sent.now).expect("it is taken");
            look();
        }
        if let Some(part) = part {
            importer.take_part(part, sent.now).expect("it is taken");
            look();
        }
    }
}

/// An import of a walk and of the stream, taken at random moments beside writers, gives the keys as they are: of every
/// type, long and short, with expiries, pins, flags, fields that expire and earlier values.
#[test]
fn what_moves_is_the_same_in_the_end() {
    let mut differs = false;
    for seed in 0..6 {
        let earlier = Options { history: 2, ..Options::default() };
        let options = [Options::default(), other_options(&Options::default()), earlier];
        let options = &options[seed as usize % 3];
        let (source, sent) = send(options, seed, 2_000);
        let expected = digest_of_moving(&source);
        assert!(source.len() > 20, "something moves");
        for (way, options) in [
            (Way::Right, options.clone()),
            (Way::Right, other_options(options)),
            (Way::PartsFirst, options.clone()),
        ] {
            let storage = Memory::new();
            let target = Logged::new(options.clone(), Fault::None, &storage);
            let store = &target.store;
            let mut session = store.session();
            session.follow(true);
            let (version, _) = set_grounds(store, Standing::Importing, Standing::Open);
            session.rely_on(version);
            let mut importer = Importer::new(store);
            let mut n = 0_u64;
            deliver(&sent, way, seed, &mut importer, || {
                // The target's own clients go on, its clock is ahead, and now and then it is emptied.
                n += 1;
                let own = format!("own {n}");
                if !moves(own.as_bytes()) {
                    let expiry = SetExpiry::At(sent.now + 5);
                    let options = SetOptions { expiry, ..SetOptions::default() };
                    session.set(own.as_bytes(), b"1", options, NOW).expect("room");
                }
                session.expire_due(sent.now + 10_000, 64, |key, _| assert!(!moves(key)));
                if n % 100 == 50 {
                    session.clear();
                }
                if let Some(key) = session.random_key(n << 40, NOW) {
                    assert!(!moves(&key), "a hidden key is shown");
                }
            });
            drop((session, importer));
            let found = digest_of_moving(store);
            let what = format!("seed {seed}, {:?}", options.hash_packed_fields_max);
            match way {
                Way::Right => assert_eq!(found, expected, "{what}"),
                Way::PartsFirst => differs |= found != expected,
            }
            // Its log has all of it, for its replicas.
            target.end();
            let replica = Store::new(other_options(&options)).expect("it fits");
            follow(&replica, 0, 2, |applier| apply(applier, &stream(&storage), NOW, || 999));
            assert_eq!(digest(&replica, 0), found, "a replica of the target, {what}");
        }
    }
    assert!(differs, "records from between the parts make no difference");
}

/// Keys that come make room for themselves as those of clients do, at the cost of keys that clients see.
#[test]
fn an_import_stays_within_the_memory_limit() {
    for policy in [EvictionPolicy::NoEviction, EvictionPolicy::AllKeysRandom] {
        let store = Store::new(Options::default()).expect("it fits");
        let eviction = EvictionOptions { policy, ..EvictionOptions::default() };
        store.set_eviction(eviction).expect("the index can note that");
        set_grounds(&store, Standing::Importing, Standing::Open);
        let mut session = store.session();
        for n in (0..20_000).map(|n| format!("key {n}")).filter(|key| !moves(key.as_bytes())) {
            session.set(n.as_bytes(), &[b'v'; 500], SetOptions::default(), NOW).expect("room");
        }
        let max = store.stats().index.used_bytes() + (1 << 20);
        store.set_memory_max(max);
        let (mut importer, mut scratch, mut outcome) =
            (Importer::new(&store), Records::new(), Ok(None));
        let moving = (0..10_000).map(|n| format!("new {n}"));
        for key in moving.filter(|key| moves(key.as_bytes())) {
            let (key, mut packed) = (key.as_bytes(), Vec::new());
            let put = Effect::Put { key, form: 0, expire_at: None, value: &[b'v'; 500] };
            pack(&put, &mut scratch, &mut packed);
            outcome = importer.take_part(&packed, NOW);
            if outcome.is_err() {
                break;
            }
        }
        match policy {
            EvictionPolicy::NoEviction => {
                let is_full =
                    matches!(outcome, Err(ImportError::Store(StoreError::OutOfMemory(_))));
                assert!(is_full, "{outcome:?}");
            }
            _ => {
                assert_eq!(outcome, Ok(None));
                assert!(store.stats().evicted > 1_000, "{}", store.stats().evicted);
                set_grounds(&store, Standing::Open, Standing::Hidden);
                forget_all(&store);
                let came = (0..10_000).filter(|n| moves(format!("new {n}").as_bytes())).count();
                assert_eq!(store.len(), came, "all that came is there");
            }
        }
    }
}

/// A store with some keys of each group, and its log.
fn filled() -> (Logged, Memory) {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut session = logged.store.session();
    session.follow(true);
    for n in 0..100 {
        let key = format!("key {n}");
        session.set(key.as_bytes(), b"1", SetOptions::default(), NOW).expect("room");
        session.pin(&[key.as_bytes()], NOW).expect("room");
    }
    (logged, storage)
}

#[test]
fn what_is_forgotten_is_gone_with_its_pins_and_a_restart_does_not_bring_it_back() {
    let (logged, storage) = filled();
    let store = &logged.store;
    let moving = (0..100).filter(|n| moves(format!("key {n}").as_bytes())).count();
    assert_eq!(forget_all(store), 0, "without grounds all keys are the store's own");
    set_grounds(store, Standing::Open, Standing::Open);
    assert_eq!(forget_all(store), 0);
    store.session().pin(&[b"only a pin"], NOW).expect("room");
    assert!(moves(b"only a pin"));
    for standing in [Standing::Held, Standing::Importing] {
        set_grounds(store, standing, Standing::Open);
        assert_eq!(forget_all(store), 0, "{standing:?}");
    }
    set_grounds(store, Standing::Hidden, Standing::Open);
    let kept = store.session().forget_some(0, 1_000, |_| true);
    assert_eq!((kept.next, kept.removed, kept.kept), (0, 0, moving));
    let before = store.stats().index.used_bytes();
    assert_eq!(forget_all(store), moving);
    assert_eq!((store.len(), forget_all(store)), (100 - moving, 0));
    let pins = store.session().pinned_keys(None, 1_000);
    assert_eq!(pins.len(), 100 - moving);
    assert!(!pins.iter().any(|key| moves(key)));
    let mut session = store.session();
    (0..1_000).for_each(|_| session.collect());
    assert!(store.stats().index.used_bytes() < before, "its memory is free");
    drop(session);
    let (expected, found) = (state(store), Store::new(Options::default()).expect("it fits"));
    logged.end();
    let mut session = found.session();
    read(&storage, |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
    });
    assert_eq!((state(&found), session.pinned_keys(None, 1_000)), (expected, pins));
}

/// Writes of hidden keys, or of held ones, are refused within the gate, whatever the operation.
#[test]
fn a_session_that_relies_on_earlier_grounds_writes_only_what_is_open() {
    let store = Store::new(Options::default()).expect("it fits");
    let mut session = store.session();
    let (version, _) = set_grounds(&store, Standing::Open, Standing::Open);
    session.rely_on(version);
    fill(&mut session);
    let before = digest(&store, 0);
    for standing in [Standing::Held, Standing::Hidden, Standing::Importing] {
        let (now_in_force, _) = set_grounds(&store, standing, standing);
        assert!(session.is_displaced() && session.grounds_version() == now_in_force);
        for (n, write) in FALLIBLE.iter().enumerate() {
            let outcome = write(&mut session, NOW);
            assert_eq!(outcome, Err(StoreError::Displaced), "{n}, {standing:?}");
            assert_eq!(session.take_refused(), Ok(()), "{n}: its error says so");
        }
        for (n, write) in OTHERS.iter().enumerate() {
            write(&mut session, NOW);
            assert_eq!(session.take_refused(), Err(StoreError::Displaced), "{n}, {standing:?}");
        }
        assert_eq!(digest(&store, 0), before, "{standing:?}");
        assert_eq!(session.get(b"s", NOW, |value| value.to_vec()), Some(b"12".to_vec()));
    }
    // What is open by the new grounds can be written key by key, and all of it with their version.
    let (version, _) = set_grounds(&store, Standing::Open, Standing::Open);
    assert_eq!(FALLIBLE[0](&mut session, NOW), Ok(()));
    let mset = session.mset(&[(b"s", b"1"), (b"t", b"2")], NOW);
    assert_eq!(mset, Err(StoreError::Displaced), "it was checked by other grounds");
    session.rely_on(version);
    assert!(!session.is_displaced());
    assert_eq!(session.mset(&[(b"s", b"1"), (b"t", b"2")], NOW), Ok(()));
    store.session().switch_role(Role::Replica, NOW);
    assert_eq!(FALLIBLE[0](&mut session, NOW), Err(StoreError::ReadOnly));
}

/// How many records of held keys come after the last record at the change. Each thread relies on the version that `of`
/// gives for the versions before and after the change.
fn late(of: fn(u64, u64) -> u64) -> usize {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let store = &logged.store;
    store.session().follow(true);
    let (before, _) = set_grounds(store, Standing::Open, Standing::Open);
    let (present, ends) = (AtomicU64::new(before), AtomicBool::new(false));
    let last = std::thread::scope(|scope| {
        for thread in 0..3 {
            let (present, ends) = (&present, &ends);
            scope.spawn(move || {
                let (mut session, mut random) = (store.session(), Random::new(thread));
                while !ends.load(Relaxed) {
                    session.rely_on(of(before, present.load(Relaxed)));
                    let keys = [0, 1].map(|_| format!("key {}", random.below(50)).into_bytes());
                    let moving: Vec<&[u8]> =
                        keys.iter().map(|key| &key[..]).filter(|key| moves(key)).collect();
                    match moving[..] {
                        [one, two] => _ = session.mset(&[(one, b"1"), (two, b"2")], NOW),
                        [one] => _ = session.incr_by(one, 1, NOW),
                        _ => {}
                    }
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (after, last) = set_grounds(store, Standing::Held, Standing::Open);
        present.store(after, Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(20));
        ends.store(true, Relaxed);
        last.expect("there is a log")
    });
    logged.end();
    let mut late = 0;
    read(&storage, |lsn, effects| {
        let is_moving = |effect: &Effect<'_>| effect.key().is_some_and(moves);
        late += usize::from(lsn > last && effects.iter().any(is_moving));
    });
    assert!(last > 100, "they have written before");
    late
}

/// Of an open group some keys may be held alone.
#[test]
fn a_guarded_key_is_read_and_not_written() {
    let store = Store::new(Options::default()).expect("it fits");
    let mut session = store.session();
    let guarded: Arc<BTreeSet<Box<[u8]>>> = Arc::new([b"s"[..].into()].into_iter().collect());
    let guard = |guarded: &Arc<BTreeSet<Box<[u8]>>>| {
        let open = Grounds::new(group, Box::new([Standing::Open; GROUPS as usize]));
        store.session().change_grounds(|_| Arc::new(open.guarding(guarded.clone())));
        store.grounds().expect("just set")
    };
    let open = guard(&Arc::default());
    session.rely_on(session.grounds_version());
    assert_eq!(session.append(b"s", b"1", NOW), Ok(1));
    let grounds = guard(&guarded);
    assert!(!grounds.is_like(&open) && grounds.is_holding() && !open.is_holding());
    assert_eq!(
        [&b"s"[..], b"t"].map(|key| grounds.standing(key)),
        [Standing::Held, Standing::Open]
    );
    assert_eq!(session.append(b"s", b"2", NOW), Err(StoreError::Displaced));
    assert!(!session.remove(b"s", NOW) && session.take_refused() == Err(StoreError::Displaced));
    assert_eq!(session.append(b"t", b"1", NOW), Ok(1));
    assert_eq!(session.get(b"s", NOW, |value| value.to_vec()), Some(b"1".to_vec()));
    guard(&Arc::default());
    assert_eq!(session.append(b"s", b"2", NOW), Ok(2));
}

#[test]
fn no_write_of_a_held_key_comes_after_the_change() {
    assert_eq!(late(|before, _| before), 0, "with the version from before");
    assert_eq!(late(|_, _| 0), 0, "without any");
    // A session that takes up the new version without a new check writes on.
    assert!(late(|_, present| present) > 0, "such a session would be noticed");
}

/// Hidden keys are not evicted, however short memory is, and do not keep others from being evicted.
#[test]
fn hidden_keys_are_not_evicted() {
    for policy in [EvictionPolicy::Heat, EvictionPolicy::AllKeysLru, EvictionPolicy::AllKeysRandom]
    {
        let store = Store::new(Options::default()).expect("it fits");
        let eviction = EvictionOptions { policy, ..EvictionOptions::default() };
        store.set_eviction(eviction).expect("the index can note that");
        let mut session = store.session();
        let mut write = |n: u32, is_moving: bool| {
            let key = format!("key {n}");
            if moves(key.as_bytes()) == is_moving {
                let value = &[b'v'; 1_000];
                session.set(key.as_bytes(), value, SetOptions::default(), NOW).expect("room");
            }
        };
        (0..2_000).for_each(|n| write(n, true));
        set_grounds(&store, Standing::Hidden, Standing::Open);
        let hidden = store.len();
        assert!(hidden > 500);
        store.set_memory_max(store.stats().index.used_bytes() + (1 << 20));
        (0..20_000).for_each(|n| write(n, false));
        let mut session = store.session();
        assert!(store.stats().evicted > 1_000, "{policy:?}");
        set_grounds(&store, Standing::Open, Standing::Hidden);
        forget_all(&store);
        assert_eq!(store.len(), hidden, "{policy:?}");
        session.collect();
    }
}

#[test]
fn hidden_keys_do_not_expire_until_they_are_shown() {
    let (logged, _) = filled();
    let store = &logged.store;
    let mut session = store.session();
    for n in 0..100 {
        let key = format!("key {n}");
        session.expire_at(key.as_bytes(), NOW + 10, ExpireCondition::Always, NOW).expect("room");
        let hash = format!("hash {n}");
        session.hash_set(hash.as_bytes(), &[(b"f", b"1"), (b"g", b"2")], NOW).expect("room");
        session
            .hash_expire_at(hash.as_bytes(), NOW + 10, ExpireCondition::Always, &[b"f"], NOW)
            .expect("room");
    }
    for (round, standing) in
        [Standing::Hidden, Standing::Held, Standing::Importing].iter().enumerate()
    {
        set_grounds(store, *standing, Standing::Open);
        let before = digest_of_all_but_others(store);
        for later in 0..50 {
            let now = NOW + 1_000 * (round as u64 + 1) + later;
            session.expire_due(now, 10_000, |key, _| assert!(!moves(key), "{standing:?}"));
        }
        assert_eq!(digest_of_all_but_others(store), before, "{standing:?}");
    }
    set_grounds(store, Standing::Open, Standing::Open);
    let mut gone = 0;
    for later in 0..1_000 {
        session.expire_due(NOW + 10_000 + later, 10_000, |_, _| gone += 1);
    }
    assert!(gone > 20);
    assert_eq!(store.len(), 100, "the hashes have a field left");
    let fields = session.hash(b"hash 1", 0, |hash| hash.len()).expect("a hash");
    assert_eq!(fields, Some(1));
}

/// What is there of the keys that move: names, and bytes at time 0.
fn digest_of_all_but_others(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut session, mut cursor, mut found) = (store.session(), 0, Vec::new());
    loop {
        cursor = session.scan(cursor, 100, 0, |key, value| {
            if moves(key) {
                found.push((key.to_vec(), super::logged::shown(value)));
            }
        });
        if cursor == 0 {
            found.sort();
            return found;
        }
    }
}

#[test]
fn an_importer_writes_nothing_but_what_is_importing() {
    let (logged, _) = filled();
    let store = &logged.store;
    let part = |key: &[u8]| {
        let (mut scratch, mut packed) = (Records::new(), Vec::new());
        let put = Effect::Put { key, form: 0, expire_at: None, value: b"new" };
        pack(&put, &mut scratch, &mut packed);
        packed
    };
    let (moving, other) = (part(b"key 1"), part(b"key 2"));
    assert!(!moves(b"key 1") && moves(b"key 2") || moves(b"key 1") && !moves(b"key 2"));
    let (moving, other) = if moves(b"key 1") { (moving, other) } else { (other, moving) };
    let mut importer = Importer::new(store);
    let displaced = Err(ImportError::Store(StoreError::Displaced));
    assert_eq!(importer.take_part(&moving, NOW), displaced, "without grounds");
    for standing in [Standing::Open, Standing::Held, Standing::Hidden] {
        set_grounds(store, standing, Standing::Open);
        assert_eq!(importer.take_part(&moving, NOW), displaced, "{standing:?}");
    }
    set_grounds(store, Standing::Importing, Standing::Open);
    let last = importer.take_part(&moving, NOW).expect("it is importing");
    assert_eq!(last, Some(logged.log.handed()));
    assert_eq!(importer.take_part(&other, NOW), displaced);
    for garbled in [&moving[..3], &[1, 0, 0, 0, 99], &[1, 0, 0, 0, 4]] {
        assert_eq!(importer.take_part(garbled, NOW), Err(ImportError::Garbled), "{garbled:?}");
    }
    store.session().switch_role(Role::Replica, NOW);
    let read_only = Err(ImportError::Store(StoreError::ReadOnly));
    assert_eq!(importer.take_part(&moving, NOW), read_only, "its role has changed");
    drop(importer);
    logged.end();
}
