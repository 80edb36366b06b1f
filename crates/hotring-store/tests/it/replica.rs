//! A replica has what its primary has, whatever was written, and its readers see whole batches in order.
//!
//! `HOTRING_SOAK=n` makes the random writes n times as many sequences. Each failure names its seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hotring_engines::EngineChoice;
use hotring_log::storage::Memory;
use hotring_log::{Bad, Effect, Found, Lsn, Storage};
use hotring_store::index::{Checksum, Config};
use hotring_store::{
    Applier, DigestWalk, EvictionOptions, EvictionPolicy, ExpireCondition, Fault, ItemAction,
    Metadata, Options, Role, Session, SetExpiry, SetOptions, Store,
};

use super::logged::{ENGINES, Logged, NOW, change_hash, change_list, change_scored, change_set};
use super::random::Random;

/// Bytes before the records of a segment.
const SEGMENT_HEAD: usize = 64;
/// Of the same value at any moment.
pub(super) const TWINS: [&[u8]; 3] = [b"twin 1", b"twin 2", b"twin 3"];

/// The records of a log, as its primary sends them: without those of the log itself.
pub(super) fn stream(storage: &Memory) -> Vec<u8> {
    let mut names: Vec<String> = storage.list().expect("it is memory");
    names.retain(|name| name.ends_with(".hrl"));
    names.sort_unstable();
    let mut stream = Vec::new();
    for name in names {
        let content = storage.content(&name).expect("it is listed");
        let mut at = SEGMENT_HEAD;
        loop {
            match hotring_log::read(&content[at..]) {
                Ok(Found { effect, len, .. }) => {
                    if !matches!(effect, Effect::Durable { .. }) {
                        stream.extend_from_slice(&content[at..at + len]);
                    }
                    at += len;
                }
                Err(Bad::Zero | Bad::Short { .. }) => break,
                Err(bad) => panic!("{name} at {at}: {bad:?}"),
            }
        }
    }
    stream
}

/// Splits a stream into groups of whole batches.
pub(super) fn groups(stream: &[u8], mut len: impl FnMut() -> usize) -> Vec<Arc<Vec<u8>>> {
    let (mut groups, mut at) = (Vec::new(), 0);
    while at < stream.len() {
        let (from, wanted) = (at, len());
        let mut more = true;
        while more || at < (from + wanted).min(stream.len()) {
            let found = hotring_log::read(&stream[at..]).expect("it is whole");
            (at, more) = (at + found.len, found.more);
        }
        groups.push(Arc::new(stream[from..at].to_vec()));
    }
    groups
}

pub(super) fn digest(store: &Store, now: u64) -> u128 {
    let mut walk = DigestWalk::new(now);
    let mut session = store.session();
    while walk.step(&mut session).expect("nothing is damaged") {}
    walk.digest()
}

/// A store that follows the records behind `last`, with workers on threads of their own.
pub(super) fn follow<R>(
    store: &Store,
    last: Lsn,
    workers: usize,
    f: impl FnOnce(&mut Applier) -> R,
) -> R {
    store.session().switch_role(Role::Replica, NOW);
    let (mut applier, workers) = Applier::new(store, last, workers);
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || worker.run(|session| drop(session.take_effects())));
        }
        let result = f(&mut applier);
        applier.settle().expect("all forms are known");
        assert_eq!(store.applied(), applier.taken());
        drop(applier);
        result
    })
}

pub(super) fn apply(applier: &mut Applier, stream: &[u8], now: u64, len: impl FnMut() -> usize) {
    for group in groups(stream, len) {
        applier.apply(&group, now).expect("it follows");
    }
}

/// A change of whatever type, in one of three databases.
fn change(session: &mut Session, random: &mut Random, now: u64) {
    session.select([0, 0, 0, 1, 5][random.below(5) as usize]);
    let key = format!("key {}", random.below(40)).into_bytes();
    let number = random.next().to_string();
    let at = now + 1 + random.below(300);
    match random.below(40) {
        0..6 => {
            let expiry = [SetExpiry::Clear, SetExpiry::Keep, SetExpiry::At(at)];
            let options = SetOptions { expiry: random.pick(&expiry), ..SetOptions::default() };
            let value = number.repeat(1 + random.below(4) as usize);
            _ = session.set(&key[..], value.as_bytes(), options, now);
        }
        6..9 => _ = session.incr_by(&b"count"[..], 1, now),
        9 => _ = session.set_range(&key, random.below(3_000) as usize, number.as_bytes(), now),
        10 => _ = session.append(&key, number.as_bytes(), now),
        11 => _ = session.remove(&key, now),
        12 => _ = session.expire_at(&key, at, ExpireCondition::Always, now),
        13 => _ = session.persist(&key, now),
        14 => _ = session.rename(&key, b"key 0", now),
        15 => _ = session.copy_to(&key, (random.pick(&[0, 1, 5]), b"key 1"), true, now),
        16 => _ = session.move_to(&key, random.pick(&[0, 1, 5]), now),
        17 => _ = session.get_del(&key, now),
        18..20 => {
            let pairs = TWINS.map(|twin| (twin, number.as_bytes()));
            _ = session.mset(&pairs, now);
        }
        20 => session.exclusive(&TWINS, |session| {
            TWINS.iter().for_each(|twin| _ = session.append(twin, b".", now));
            TWINS
                .iter()
                .for_each(|twin| _ = session.expire_at(twin, at, ExpireCondition::Always, now));
        }),
        21 => _ = session.pin(&[&key], now),
        22 => _ = session.unpin(&[&key]),
        23 => {
            let metadata = Metadata { flags: random.below(9) as u32, ..Metadata::default() };
            let value = number.as_bytes().into();
            let put = ItemAction::Put { value, metadata, expiry: SetExpiry::At(at) };
            _ = session.update_item(&key, now, |_| (put.clone(), ()));
        }
        24 if random.one_in(20) => session.clear(),
        24 if random.one_in(60) => session.clear_all(),
        24 if random.one_in(10) => session.swap_databases(0, 5),
        24..29 => change_hash(session, random, now),
        29..33 => change_list(session, random, now),
        33..37 => change_set(session, random, now),
        _ => change_scored(session, random, now),
    }
}

/// Writes by several threads while keys expire and are evicted. Returns the primary, its stream, and the time.
fn written(
    options: &Options,
    engine: EngineChoice,
    seed: u64,
    count: usize,
) -> (Store, Vec<u8>, u64) {
    let storage = Memory::new();
    let logged = Logged::on(engine, options.clone(), Fault::None, &storage);
    let (store, clock, ends) = (&logged.store, AtomicU64::new(0), AtomicBool::new(false));
    store.session().follow(true);
    store.set_memory_max(store.stats().index.used_bytes() + (512 << 10));
    let policy =
        EvictionOptions { policy: EvictionPolicy::AllKeysRandom, ..EvictionOptions::default() };
    store.set_eviction(policy).expect("the index can note that");
    std::thread::scope(|scope| {
        let expirer = scope.spawn(|| {
            let mut session = store.session();
            while !ends.load(Relaxed) {
                for database_id in session.database_ids() {
                    session.within(database_id, |session| {
                        session.expire_due(NOW + clock.load(Relaxed) / 2, 64, |_, _| ());
                    });
                }
                session.evict_some();
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let clock = &clock;
                scope.spawn(move || {
                    let (mut session, mut random) =
                        (store.session(), Random::new(seed * 8 + thread));
                    for _ in 0..count {
                        change(&mut session, &mut random, NOW + clock.fetch_add(1, Relaxed) / 2);
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("it does not panic"));
        ends.store(true, Relaxed);
        expirer.join().expect("it does not panic");
    });
    let now = NOW + clock.load(Relaxed) / 2;
    (logged.end(), stream(&storage), now)
}

/// What is held as an object at the one side is one value at the other.
pub(super) fn other_options(options: &Options) -> Options {
    Options {
        seed: [3, 4],
        hash_packed_fields_max: 4,
        list_packed_elements_max: 3,
        set_packed_ints_max: 2,
        set_packed_members_max: 2,
        scored_packed_members_max: 3,
        text_plain_max: 100,
        ..options.clone()
    }
}

#[test]
fn a_replica_has_what_its_primary_has() {
    let checked = Config { checksum: Checksum::Verify, ..Config::default() };
    let checked = Options { index: checked, ..Options::default() };
    let earlier = Options { history: 2, ..Options::default() };
    let soak = std::env::var("HOTRING_SOAK").map_or(1, |n| n.parse().expect("a number"));
    for seed in 0..soak * ENGINES.len() {
        let name = ENGINES[seed % ENGINES.len()];
        let engine: EngineChoice = name.parse().expect("its name");
        let options = [Options::default(), earlier.clone(), checked.clone()][seed % 3].clone();
        let (primary, stream, now) = written(&options, engine, seed as u64, 4_000);
        assert!(!primary.is_empty());
        let (all, there) = (digest(&primary, 0), digest(&primary, now));
        for (workers, options) in [(0, options.clone()), (1, other_options(&options)), (3, options)]
        {
            let storage = Memory::new();
            let replica = Logged::new(options, Fault::None, &storage);
            let mut random = Random::new(seed as u64);
            let len = || random.below(3_000) as usize;
            follow(&replica.store, 0, workers, |applier| apply(applier, &stream, now, len));
            let what = format!("seed {seed}, {name}, {workers} workers");
            assert_eq!(digest(&replica.store, 0), all, "{what}");
            assert_eq!(digest(&replica.store, now), there, "{what}");
            replica.end();
            assert_eq!(self::stream(&storage), stream, "its own log has the same records: {what}");
        }
    }
}

/// Every kind of data counts for the digest, and nothing else does.
#[test]
fn the_digest_tells_data_apart() {
    let base = |session: &mut Session| {
        session.set(b"s", b"12", SetOptions::default(), NOW).expect("room");
        session.hash_set(b"h", &[(b"f", b"1"), (b"g", b"2")], NOW).expect("room");
        session.list_push(b"l", hotring_store::End::Back, &[b"1", b"2"], false, NOW).expect("room");
        session.set_add(b"m", &[b"1", b"2"], NOW).expect("room");
        session
            .scored_add(b"z", &[(1.0, b"a"), (1.0, b"b")], Default::default(), NOW)
            .expect("room");
    };
    type Step = fn(&mut Session);
    let steps: [Step; 14] = [
        |_| (),
        |s| _ = s.set(b"s", b"13", SetOptions::default(), NOW),
        |s| _ = s.remove(b"s", NOW),
        |s| _ = s.expire_at(b"s", NOW + 9, ExpireCondition::Always, NOW),
        |s| _ = s.expire_at(b"s", NOW + 10, ExpireCondition::Always, NOW),
        |s| _ = s.pin(&[b"s"], NOW),
        |s| _ = s.rename(b"s", b"t", NOW),
        |s| _ = s.move_to(b"s", 3, NOW),
        |s| _ = s.hash_set(b"h", &[(b"f", b"2"), (b"g", b"1")], NOW),
        |s| _ = s.hash_expire_at(b"h", NOW + 9, ExpireCondition::Always, &[b"f"], NOW),
        |s| _ = s.list_move(b"l", b"l", (hotring_store::End::Back, hotring_store::End::Front), NOW),
        |s| _ = s.set_remove(b"m", &[b"1"], NOW),
        |s| _ = s.scored_add(b"z", &[(2.0, b"a")], Default::default(), NOW),
        |s| {
            let metadata = Metadata { flags: 1, ..Metadata::default() };
            let (value, expiry) = (b"12"[..].into(), SetExpiry::Clear);
            let put = ItemAction::Put { value, metadata, expiry };
            _ = s.update_item(b"s", NOW, |_| (put.clone(), ()));
        },
    ];
    let mut digests = Vec::new();
    for step in steps {
        let store = Store::new(Options::default()).expect("it fits");
        let mut session = store.session();
        base(&mut session);
        step(&mut session);
        let before = digest(&store, NOW);
        _ = session.get(b"s", NOW, |_| ());
        _ = session.version(b"h", NOW);
        assert_eq!(digest(&store, NOW), before, "reads do not count");
        digests.push(before);
    }
    let len = digests.len();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), len, "two of them are alike");
    assert_eq!(digest(&Store::new(Options::default()).expect("it fits"), NOW), 0);
}

/// Batches that set keys to one value each, and counters.
fn batches(count: u64) -> Vec<u8> {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut session = logged.store.session();
    for n in 0..count {
        let number = n.to_string();
        match n % 3 {
            0 => session.mset(&TWINS.map(|twin| (twin, number.as_bytes())), NOW).expect("room"),
            _ => session.exclusive(&TWINS, |session| {
                // Each twice, so that there is a moment between.
                for text in [&b"-"[..], number.as_bytes()] {
                    for twin in TWINS {
                        session.set(twin, text, SetOptions::default(), NOW).expect("room");
                    }
                }
            }),
        }
        session.incr_by(&b"count"[..], 1, NOW).expect("room");
        session
            .list_push(b"list", hotring_store::End::Back, &[number.as_bytes()], false, NOW)
            .expect("room");
    }
    drop(session);
    logged.end();
    stream(&storage)
}

/// How often readers of a replica see twins that differ, or values that go back.
fn torn(fault: Fault, workers: usize, stream: &[u8]) -> u64 {
    let store =
        Store::with_fault(Options::default(), |config| EngineChoice::HotRing.open(config), fault)
            .expect("it fits");
    let (ends, torn) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = store.session();
                let (mut last, mut last_count, mut last_len) = (-1, 0, 0);
                while !ends.load(Relaxed) {
                    let mut seen = Vec::new();
                    session.mget(&TWINS, NOW, |_, value| seen.push(value.map(|v| v.to_vec())));
                    let alike = seen.windows(2).all(|pair| pair[0] == pair[1]);
                    let text = seen[0].as_deref().unwrap_or(b"-1").to_vec();
                    let number: i64 = String::from_utf8_lossy(&text).parse().unwrap_or(-2);
                    let one = session.get(TWINS[1], NOW, |value| value.to_vec());
                    let is_whole = one.is_none_or(|text| text != b"-");
                    let count = session.get(b"count", NOW, |value| value.to_vec());
                    let count = count.map_or(0, |text| {
                        String::from_utf8_lossy(&text).parse().expect("a number")
                    });
                    let len =
                        session.list(b"list", NOW, |list| list.len()).expect("a list").unwrap_or(0);
                    let goes_back = number < last || count < last_count || len < last_len;
                    torn.fetch_add(u64::from(!alike || !is_whole || goes_back), Relaxed);
                    (last, last_count, last_len) = (number, count, len);
                }
            });
        }
        let mut random = Random::new(7);
        follow(&store, 0, workers, |applier| {
            apply(applier, stream, NOW, || random.below(9_000) as usize);
        });
        ends.store(true, Relaxed);
    });
    torn.load(Relaxed)
}

#[test]
fn readers_of_a_replica_see_whole_batches_in_order() {
    let stream = batches(4_000);
    for workers in [0, 3] {
        assert_eq!(torn(Fault::None, workers, &stream), 0, "{workers} workers");
        let found = (0..20).any(|_| torn(Fault::NoHold, workers, &stream) > 0);
        assert!(found, "the reader cannot tell half a batch from a whole one: {workers} workers");
    }
}
