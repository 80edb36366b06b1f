//! Replaying the log gives the store, whichever sessions raced: values, expiries, pins. Changes made
//! together are replayed together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hotring_engines::EngineChoice;
use hotring_log::storage::Memory;
use hotring_log::{
    AckWhen, Effect, Log, Lsn, Options as LogOptions, Recovered, Storage, Writer, recover,
};
use hotring_store::index::{Checksum, Config};
use hotring_store::{
    AddOptions, Content, End, ExpireCondition, Fault, FieldsCondition, Interval, Options,
    ReplyCapacity, Session, SetExpiry, SetFieldExpiry, SetOperation, SetOptions, Store, ValueRef,
};

use super::random::Random;

pub(super) const NOW: u64 = 1_700_000_000_000;
pub(super) const ID: [u8; 16] = [7; 16];
/// Keys that all threads write.
const KEYS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"a longer name of a key"];
/// Of the same value at any moment.
const TWINS: [&[u8]; 2] = [b"twin 1", b"twin 2"];

/// A store whose writes are in a log on this storage, and the thread that writes the log.
pub(super) struct Logged {
    pub(super) store: Store,
    pub(super) log: Arc<Log>,
    writer: std::thread::JoinHandle<()>,
}

impl Logged {
    pub(super) fn new(options: Options, fault: Fault, storage: &Memory) -> Logged {
        Self::on(EngineChoice::HotRing, options, fault, storage)
    }

    pub(super) fn on(
        engine: EngineChoice,
        options: Options,
        fault: Fault,
        storage: &Memory,
    ) -> Logged {
        let open = move |config| engine.open(config);
        let store = Store::with_fault(options, open, fault).expect("it fits");
        let log = Arc::new(Log::new(0, AckWhen::Written, 1 << 20));
        let options = LogOptions { id: ID, segment_len: 64 << 10 };
        let storage: Arc<dyn Storage> = Arc::new(storage.clone());
        let (mut writer, _) = Writer::new(log.clone(), storage, options, &Recovered::nothing(1));
        assert!(store.set_log(log.clone()) && store.session().switch_log(true));
        let writer = std::thread::spawn(move || {
            while writer.step(Duration::ZERO) {
                writer.wait();
            }
        });
        Logged { store, log, writer }
    }

    /// Ends the log; the store stays.
    pub(super) fn end(self) -> Store {
        self.log.close();
        self.writer.join().expect("it ends");
        self.store
    }
}

fn some_writes(session: &mut Session, random: &mut Random, count: usize) {
    for _ in 0..count {
        let key = random.pick(&KEYS);
        let number = random.next().to_string();
        match random.below(14) {
            0..3 => {
                let long = number.repeat(random.below(20) as usize);
                session.set(key, long.as_bytes(), SetOptions::default(), NOW).expect("room");
            }
            3 => {
                let at = SetExpiry::At(NOW + random.below(9) * 1000);
                let expiry = random.pick(&[SetExpiry::Keep, at]);
                let options = SetOptions { expiry, ..SetOptions::if_present() };
                session.set(key, number.as_bytes(), options, NOW).expect("room");
            }
            4..7 => _ = session.incr_by(key, 1, NOW),
            7 => _ = session.append(key, b"x", NOW),
            8 => _ = session.remove(key, NOW),
            9 => {
                let at = NOW + random.below(1000);
                session.expire_at(key, at, ExpireCondition::Always, NOW).expect("room");
            }
            10 => _ = session.persist(key, NOW),
            11 => _ = session.rename(key, random.pick(&KEYS), NOW),
            12 => {
                let pairs = TWINS.map(|twin| (twin, number.as_bytes()));
                session.mset(&pairs, NOW).expect("room");
            }
            _ => session.exclusive(&TWINS, |session| {
                TWINS.iter().for_each(|twin| _ = session.append(twin, b".", NOW));
                session.get_del(TWINS[0], NOW).expect("a string");
                session.copy(TWINS[1], TWINS[0], true, NOW).expect("room");
            }),
        }
    }
}

/// A change of a hash, which is packed or large by then.
pub(super) fn change_hash(session: &mut Session, random: &mut Random, now: u64) {
    let key = format!("hash {}", random.below(6)).into_bytes();
    let fields: [[u8; 2]; 4] = std::array::from_fn(|_| [b'f', b'a' + random.below(12) as u8]);
    let number = random.next().to_string();
    let n = 1 + random.below(4) as usize;
    let at = now + 1 + random.below(4000);
    match random.below(14) {
        10..12 => {
            let fields = fields.each_ref().map(|field| &field[..]);
            _ = session.hash_expire_at(&key, at, ExpireCondition::Always, &fields[..n], now);
        }
        12 => _ = session.hash_persist(&key, &[&fields[0]], now),
        13 => {
            let pairs = [(&fields[0][..], number.as_bytes())];
            let (condition, expiry) = (FieldsCondition::Always, SetFieldExpiry::At(at));
            _ = session.hash_set_ex(&key, &pairs, condition, expiry, now);
        }
        0..5 => {
            let pairs = fields.each_ref().map(|field| (&field[..], number.as_bytes()));
            _ = session.hash_set(&key, &pairs[..n], now);
        }
        5..8 => _ = session.hash_remove(&key, &fields.each_ref().map(|field| &field[..])[..n], now),
        8 => _ = session.hash_incr_by(&key, b"count", 1, now),
        9 if random.one_in(2) => {
            let all: Vec<[u8; 2]> = (b'a'..b'a' + 12).map(|letter| [b'f', letter]).collect();
            let all: Vec<&[u8]> =
                all.iter().map(|field| &field[..]).chain([&b"count"[..]]).collect();
            _ = session.hash_remove(&key, &all, now);
        }
        _ => _ = session.hash_set_nx(&key, &fields[0], number.as_bytes(), now),
    }
}

/// A change of a list, which is packed or large by then; some move from one to another.
pub(super) fn change_list(session: &mut Session, random: &mut Random, now: u64) {
    let key = |random: &mut Random| format!("list {}", random.below(5)).into_bytes();
    let (from, to) = (key(random), key(random));
    let ends = [random.one_in(2), random.one_in(2)];
    let ends = ends.map(|is_front| if is_front { End::Front } else { End::Back });
    let number = random.next().to_string();
    let index = random.below(20) as i64 - 10;
    match random.below(12) {
        0..4 => {
            let elements = [number.as_bytes(), b"same"];
            _ = session.list_push(&from, ends[0], &elements, random.one_in(3), now);
        }
        4..6 => _ = session.list_pop(&from, ends[0], (2, ReplyCapacity::UNLIMITED), now),
        6..8 => _ = session.list_move(&from, &to, (ends[0], ends[1]), now),
        8 => _ = session.list_set(&from, index, number.as_bytes(), now),
        9 => _ = session.list_insert(&from, random.one_in(2), b"same", number.as_bytes(), now),
        10 => _ = session.list_remove(&from, index / 4, b"same", now),
        _ => _ = session.list_trim(&from, index, -2, now),
    }
}

/// A change of a set, as of a hash.
pub(super) fn change_set(session: &mut Session, random: &mut Random, now: u64) {
    let key = |random: &mut Random| format!("set {}", random.below(4)).into_bytes();
    let member = |random: &mut Random| {
        let letter = if random.one_in(4) { "m" } else { "" };
        format!("{letter}{}", random.below(12)).into_bytes()
    };
    let (at, to) = (key(random), key(random));
    let (one, two) = (member(random), member(random));
    match random.below(10) {
        0..4 => _ = session.set_add(&at, &[&one, &two], now),
        4..7 => _ = session.set_remove(&at, &[&one, &two], now),
        7 => {
            _ = session.set_pop(
                &at,
                (2, ReplyCapacity::UNLIMITED),
                |below| random.below(below as u64) as usize,
                now,
            )
        }
        8 => _ = session.set_move(&at, &to, &one, now),
        _ => _ = session.set_store(SetOperation::Union, &at, &[&to, &at], now),
    }
}

/// A change of a sorted set, which is packed or large by then.
pub(super) fn change_scored(session: &mut Session, random: &mut Random, now: u64) {
    let key = format!("scored {}", random.below(4)).into_bytes();
    let members: [[u8; 2]; 3] = std::array::from_fn(|_| [b'm', b'a' + random.below(12) as u8]);
    let score = random.below(8) as f64 - 3.5;
    let options = AddOptions::default();
    match random.below(12) {
        0..6 => {
            let pairs = members.each_ref().map(|member| (score, &member[..]));
            _ = session.scored_add(&key, &pairs, options, now);
        }
        6..8 => _ = session.scored_remove(&key, &members.each_ref().map(|m| &m[..]), now),
        8 => _ = session.scored_incr(&key, score, &members[0], options, now),
        9 => _ = session.scored_pop(&key, (2, ReplyCapacity::UNLIMITED), random.one_in(2), now),
        10 => _ = session.scored_remove_interval(&key, &Interval::Ranks(1, 3), now),
        _ if random.one_in(2) => {
            _ = session.scored_remove_interval(&key, &Interval::Ranks(0, -1), now);
        }
        _ => {
            let members = members.map(|member| (member.to_vec().into(), score)).into();
            _ = session.put_content(&key, Content::Scored(members), None, true, now);
        }
    }
}

/// A value as bytes: a string, the fields of a hash in order, or the members of a sorted set with their scores.
pub(super) fn shown(value: ValueRef<'_>) -> Vec<u8> {
    if let ValueRef::List(list) = value {
        return format!("{:?}", list.iter().collect::<Vec<_>>()).into_bytes();
    }
    if let ValueRef::Set(set) = value {
        let mut members: Vec<_> = set.iter().map(|member| member.to_vec()).collect();
        members.sort_unstable();
        return format!("{members:?}").into_bytes();
    }
    if let ValueRef::Scored(scored) = value {
        let mut members = Vec::new();
        scored.each_of_all(|entry| members.push((entry.member.to_vec(), entry.score)));
        return format!("{members:?}").into_bytes();
    }
    let ValueRef::Hash(hash) = value else { return value.to_vec() };
    let mut pairs: Vec<_> = hash.iter_with_expiry().collect();
    pairs.sort_unstable();
    format!("{pairs:?}").into_bytes()
}

/// All values with their expiries.
pub(super) type State = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

pub(super) fn state(store: &Store) -> State {
    let mut session = store.session();
    let (mut cursor, mut keys) = (0, Vec::new());
    loop {
        cursor = session.scan(cursor, 100, NOW, |key, _| keys.push(key.to_vec()));
        if cursor == 0 {
            break;
        }
    }
    let mut entry = |key: &Vec<u8>| {
        let value = session.get(key, NOW, shown)?;
        Some((value, session.expiry(key, NOW)?))
    };
    keys.iter().filter_map(|key| Some((key.clone(), entry(key)?))).collect()
}

/// The contents of the log, by batches.
pub(super) fn read(storage: &Memory, mut apply: impl FnMut(Lsn, &[Effect<'_>])) -> Recovered {
    recover(storage, Some(ID), 1, &mut apply).expect("it is whole")
}

/// Runs threads; returns the final store and the contents of its log.
fn race(engine: EngineChoice, options: &Options, seed: u64, count: usize) -> (State, State) {
    let storage = Memory::new();
    let logged = Logged::on(engine, options.clone(), Fault::None, &storage);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mut session = logged.store.session();
            scope.spawn(move || {
                some_writes(&mut session, &mut Random::new(seed * 8 + thread), count);
            });
        }
    });
    let store = logged.end();
    let reopened =
        Store::open_with(options.clone(), move |config| engine.open(config)).expect("it fits");
    let mut session = reopened.session();
    read(&storage, |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
        let [first, second] = TWINS.map(|twin| session.get(twin, NOW, |value| value.to_vec()));
        assert_eq!(first, second, "a batch is torn: {effects:?}");
    });
    (state(&store), state(&reopened))
}

/// One of each kind that this processor has.
pub(crate) const ENGINES: &[&str] = &[
    "hotring",
    "chaining",
    "mercury",
    "gcuckoo",
    #[cfg(target_arch = "x86_64")]
    "lines",
];

#[test]
fn the_log_has_the_order_of_racing_writers() {
    for (seed, name) in ENGINES.iter().enumerate() {
        let engine: EngineChoice = name.parse().expect("its name");
        let (was, is) = race(engine, &Options::default(), seed as u64, 3_000);
        assert_eq!(was, is, "{name}");
        assert!(!was.is_empty());
    }
    let options = Options { history: 2, ..Options::default() };
    let (was, is) = race(EngineChoice::HotRing, &options, 9, 3_000);
    assert_eq!(was, is, "with earlier values");
}

/// How many records of a counter that all threads count up come after one with a higher number.
fn inversions(fault: Fault, count: usize) -> usize {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), fault, &storage);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut session = logged.store.session();
            scope.spawn(move || {
                (0..count).for_each(|_| _ = session.incr_by(&b"n"[..], 1, NOW).expect("room"));
            });
        }
    });
    logged.end();
    let (mut last, mut inversions) = (0, 0);
    let reopened = Store::new(Options::default()).expect("it fits");
    let mut session = reopened.session();
    read(&storage, |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
        let number = session.incr_by(&b"n"[..], 0, NOW).expect("room");
        inversions += usize::from(number != last + 1);
        last = number;
    });
    inversions
}

#[test]
fn a_counter_is_logged_in_its_order() {
    assert_eq!(inversions(Fault::None, 10_000), 0);
    // Without the locks that see to it.
    let found = (0..50).any(|_| inversions(Fault::NoOrder, 10_000) > 0);
    assert!(found, "no order, and nobody noticed");
}

#[test]
fn each_kind_of_value_comes_back() {
    let storage = Memory::new();
    let options = || Options { history: 1, index: Config::default(), ..Options::default() };
    let logged = Logged::new(options(), Fault::None, &storage);
    let mut session = logged.store.session();
    let long = vec![b'l'; 700_000];
    session.set(b"gone", b"1", SetOptions::default(), NOW).expect("room");
    session.clear();
    for (key, value) in [(&b"word"[..], &b"12345678"[..]), (b"number", b"-7"), (b"long", &long)] {
        session.set(key, value, SetOptions::default(), NOW).expect("room");
    }
    session.set(b"word", b"again", SetOptions::default(), NOW).expect("room");
    session.hash_set(b"hash", &[(b"f", b"v"), (b"g", b"w")], NOW).expect("room");
    session.pin(&[b"word", b"long"], NOW).expect("there is no limit");
    session.unpin(&[b"long"]);
    let last = session.take_effects().logged.expect("there were writes");
    drop(session);
    let log = logged.log.clone();
    let was = state(&logged.end());
    assert_eq!((log.written(), log.synced()), (last, last), "all of it, at the end");
    let reopened = Store::new(options()).expect("it fits");
    let mut session = reopened.session();
    let recovered = read(&storage, |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
    });
    assert_eq!(recovered.last, last);
    assert_eq!(state(&reopened), was);
    assert_eq!(was[&b"long"[..]].0, long);
    assert_eq!(session.pinned_keys(None, 9), [Box::from(&b"word"[..])]);
    let earlier = session.history(b"word", NOW, |history| {
        history.earlier().map(|earlier| earlier.value.to_vec()).collect::<Vec<_>>()
    });
    assert_eq!(earlier, Some(vec![b"12345678".to_vec()]));
}

/// An expiry that was put off in time, before the log is read at a time after the first one.
#[test]
fn a_key_that_a_later_record_keeps_is_not_dropped() {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut session = logged.store.session();
    for key in [b"later", b"never", b"ended"] {
        let options = SetOptions { expiry: SetExpiry::At(NOW + 10), ..SetOptions::default() };
        session.set(&key[..], b"v", options, NOW).expect("room");
    }
    session.expire_at(b"later", NOW + 5_000, ExpireCondition::Always, NOW).expect("room");
    session.persist(b"never", NOW).expect("room");
    drop(session);
    logged.end();
    let reopened = Store::new(Options::default()).expect("it fits");
    let mut session = reopened.session();
    read(&storage, |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, NOW + 100).expect("a known form"));
    });
    let mut there = |key: &[u8], now| session.get(key, now, |_| ()).is_some();
    assert!(there(b"later", NOW + 4_999) && there(b"never", NOW + 4_999));
    assert!(!there(b"ended", NOW + 100) && !there(b"later", NOW + 5_000));
}

/// How each write of [`a_record_has_its_place_after_its_write`] is made.
#[derive(Clone, Copy, Debug)]
enum By {
    Set,
    SetUntil,
    Incr,
    Exclusive,
    /// A `set`, and its removal as the next write.
    SetAndRemove,
}

/// The write with this number, the first is 1.
fn nth_write(session: &mut Session, by: By, n: u64) {
    let set = |session: &mut Session, value: u64, expiry| {
        let options = SetOptions { expiry, ..SetOptions::default() };
        session.set(b"key", value.to_string().as_bytes(), options, NOW).expect("room");
    };
    match by {
        By::Set => set(session, n, SetExpiry::Clear),
        By::SetUntil => set(session, n, SetExpiry::At(NOW + 1000 + n % 7)),
        By::Incr => _ = session.incr_by(b"key", 1, NOW),
        By::Exclusive => session.exclusive(&[b"key"], |session| set(session, n, SetExpiry::Clear)),
        By::SetAndRemove if n % 2 == 1 => set(session, n, SetExpiry::Clear),
        By::SetAndRemove => _ = session.remove(b"key", NOW),
    }
}

/// A session that asks for the log position, and then reads, sees the effects of all records up to there.
/// Otherwise a snapshot would miss them, because replay begins there.
#[test]
fn a_record_has_its_place_after_its_write() {
    const WRITES: u64 = 100_000;
    for by in [By::Set, By::SetUntil, By::Incr, By::Exclusive, By::SetAndRemove] {
        let logged = Logged::new(Options::default(), Fault::None, &Memory::new());
        let first = logged.log.handed() + 1;
        std::thread::scope(|scope| {
            let mut session = logged.store.session();
            let writer = scope.spawn(move || {
                for n in 1..=WRITES {
                    nth_write(&mut session, by, n);
                    let at = session.take_effects().logged.expect("it has a record");
                    assert_eq!(at, first + n - 1, "each has one");
                }
            });
            let mut session = logged.store.session();
            while !writer.is_finished() {
                let handed = (logged.log.handed() + 1).saturating_sub(first);
                let value = session.get(b"key", NOW, |value| value.to_vec());
                let Some(value) = value else { continue };
                let done: u64 = String::from_utf8_lossy(&value).parse().expect("a number");
                assert!(done >= handed, "{by:?}: {handed} records, and {done} writes");
            }
        });
        logged.end();
    }
}

/// The log names the members that were chosen at random; replay meets each change once.
#[test]
fn changes_of_sets_are_replayed() {
    for (checksum, reopened) in [
        (Checksum::Off, Checksum::Off),
        (Checksum::Off, Checksum::Verify),
        (Checksum::Verify, Checksum::Off),
    ] {
        let storage = Memory::new();
        let options = |checksum| Options {
            set_packed_ints_max: 4,
            set_packed_members_max: 2,
            index: Config { checksum, ..Config::default() },
            ..Options::default()
        };
        let logged = Logged::new(options(checksum), Fault::None, &storage);
        let mut session = logged.store.session();
        let mut random = Random::new(4);
        (0..5_000).for_each(|_| change_set(&mut session, &mut random, NOW));
        drop(session);
        let was = state(&logged.end());
        assert!(was.len() > 1, "{}", was.len());
        let reopened = Store::new(options(reopened)).expect("it fits");
        let mut session = reopened.session();
        read(&storage, |_, effects| {
            effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
        });
        assert_eq!(state(&reopened), was);
    }
}

/// Items with checksums have no objects: a log of changes in place is read into containers of one value.
#[test]
fn changes_of_large_containers_are_read_where_items_have_checksums() {
    let storage = Memory::new();
    let options = Options {
        hash_packed_fields_max: 2,
        list_packed_bytes_max: 60,
        scored_packed_members_max: 2,
        ..Options::default()
    };
    let logged = Logged::new(options, Fault::None, &storage);
    let mut session = logged.store.session();
    let mut random = Random::new(3);
    for _ in 0..2_000 {
        change_hash(&mut session, &mut random, NOW);
        change_list(&mut session, &mut random, NOW);
        change_scored(&mut session, &mut random, NOW);
    }
    drop(session);
    let was = state(&logged.end());
    assert!(was.len() > 3, "{}", was.len());
    let index = Config { checksum: Checksum::Verify, ..Config::default() };
    let reopened = Store::new(Options { index, ..Options::default() }).expect("it fits");
    let mut session = reopened.session();
    read(&storage, |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
    });
    assert_eq!(state(&reopened), was);
}

/// With its last parts a large container goes, and the log says so.
#[test]
fn a_large_container_that_is_emptied_is_gone_from_the_log() {
    let storage = Memory::new();
    let options = || Options {
        hash_packed_fields_max: 2,
        list_packed_bytes_max: 20,
        set_packed_ints_max: 2,
        scored_packed_members_max: 2,
        ..Options::default()
    };
    let logged = Logged::new(options(), Fault::None, &storage);
    let mut session = logged.store.session();
    let parts: [&[u8]; 4] = [b"1000001", b"1000002", b"1000003", b"1000004"];
    session.hash_set(b"h", &parts.map(|part| (part, part)), NOW).unwrap();
    session.list_push(b"l", End::Back, &parts, false, NOW).unwrap();
    session.set_add(b"s", &parts, NOW).unwrap();
    session.scored_add(b"z", &parts.map(|part| (1.0, part)), AddOptions::default(), NOW).unwrap();
    assert_eq!(session.hash_remove(b"h", &parts, NOW), Ok(4));
    let taken = session.list_pop(b"l", End::Front, (4, ReplyCapacity::UNLIMITED), NOW).unwrap();
    assert_eq!(taken.map(|taken| taken.len()), Some(4));
    assert_eq!(session.set_remove(b"s", &parts, NOW), Ok(4));
    assert_eq!(session.scored_remove(b"z", &parts, NOW), Ok(4));
    drop(session);
    assert!(state(&logged.end()).is_empty());
    let reopened = Store::new(options()).expect("it fits");
    let mut session = reopened.session();
    read(&storage, |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
    });
    assert!(state(&reopened).is_empty(), "{:?}", state(&reopened));
}
