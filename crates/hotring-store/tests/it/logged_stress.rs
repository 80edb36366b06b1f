//! Everything that changes keys at once, by sessions whose clocks differ and jump: writes, expiry, eviction at a small
//! limit, FLUSHALL, compaction of memory, snapshots after which segments go. What the storage holds at the end is the
//! store, item by item, but for items whose time is over.
//!
//! 2 seconds; `HOTRING_SECONDS` for longer. Prints its seed; `HOTRING_SEED` takes it back.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hotring_log::storage::Memory;
use hotring_log::{ALL, AckWhen, Snapshot, SnapshotWriter, Storage, clean, recover_behind};
use hotring_store::{
    EvictionOptions, EvictionPolicy, ExpireCondition, Fault, ItemAction, Metadata, Options,
    Session, SetExpiry, SetOptions, SnapshotWalk, Store,
};

use super::logged::{
    ENGINES, ID, Logged, NOW, change_hash, change_list, change_scored, change_set, shown,
};
use super::long_text::change_text;
use super::random::Random;

const WRITERS: u64 = 3;
const KEYS: u64 = 3_000;
/// Less than the keys take.
const MEMORY: u64 = 50 << 10;
/// A time at which nothing has expired.
const BEFORE: u64 = 1;
/// A round, after which the storage is compared. Short, because later writes of a key hide earlier errors.
const ROUND: Duration = Duration::from_millis(60);

/// A session's clock: seconds off, never still, and now and then set.
struct Clock(u64);

impl Clock {
    fn new(random: &mut Random) -> Clock {
        Clock(NOW + random.below(20_000))
    }

    fn now(&mut self, random: &mut Random) -> u64 {
        self.0 += random.below(4);
        if random.one_in(500) {
            self.0 = (self.0 + random.below(12_000)).saturating_sub(6_000);
        }
        self.0
    }
}

/// A key, few of them often.
fn key(random: &mut Random) -> Vec<u8> {
    let keys = if random.one_in(2) { KEYS } else { 20 };
    let what = if random.one_in(4) { "hash" } else { "key" };
    format!("{what} {}", random.below(keys)).into_bytes()
}

/// One operation. A refused one changes nothing: memory is short, or the key has another type.
fn operate(session: &mut Session, random: &mut Random, now: u64, met: &Met) {
    let (key, other) = (&key(random)[..], &key(random)[..]);
    let number = random.next().to_string();
    let at = (now + random.below(8_000)).saturating_sub(1_000);
    match random.below(1_000) {
        0..300 => {
            let value = number.repeat(random.below(20) as usize);
            let expiry = random.pick(&[SetExpiry::Clear, SetExpiry::Keep, SetExpiry::At(at)]);
            let options = SetOptions { expiry, ..SetOptions::default() };
            _ = session.set(key, value.as_bytes(), options, now);
        }
        300..400 => _ = session.incr_by(key, 1, now),
        400..480 => _ = session.append(key, b"tail", now),
        480..560 => _ = session.remove(key, now),
        560..640 => _ = session.expire_at(key, at, ExpireCondition::Always, now),
        640..670 => _ = session.persist(key, now),
        670..700 => _ = session.rename(key, other, now),
        700..730 => _ = session.copy(key, other, true, now),
        730..780 => _ = session.mset(&[(key, number.as_bytes()), (other, b"2")], now),
        780..810 => _ = session.hash_set(key, &[(b"f", number.as_bytes())], now),
        810..830 => {
            session.exclusive(&[key, other], |session| {
                _ = session.append(key, b".", now);
                _ = session.get_del(other, now);
                _ = session.set(key, b"7", SetOptions::default(), now);
            });
        }
        830..850 => {
            _ = session.update_item(key, now, |item| match item {
                Some(item) if item.metadata.flags == 3 => (ItemAction::Remove, ()),
                Some(item) => {
                    let metadata =
                        Metadata { flags: item.metadata.flags + 1, stale: true, ..item.metadata };
                    (ItemAction::Amend { metadata, expiry: SetExpiry::At(at) }, ())
                }
                None => {
                    let (value, expiry) = (b"noted"[..].into(), SetExpiry::Clear);
                    let metadata = Metadata { flags: 1, unique: Some(at), ..Metadata::default() };
                    (ItemAction::Put { value, metadata, expiry }, ())
                }
            });
        }
        850..900 => _ = session.get(key, now, |_| ()),
        900..920 => (0..8).for_each(|_| change_hash(session, random, now)),
        920..930 => (0..8).for_each(|_| change_set(session, random, now)),
        930..940 => (0..8).for_each(|_| change_list(session, random, now)),
        940..950 => (0..8).for_each(|_| change_text(session, random, now)),
        950..960 => (0..8).for_each(|_| change_scored(session, random, now)),
        960..970 => {
            let due = session.expire_due(now, 50, |_, _| ());
            met.expired.fetch_add(due.removed as u64, Relaxed);
        }
        970..985 => _ = session.evict_some(),
        985..995 => _ = session.compact_step(100),
        _ if random.one_in(10) => session.clear(),
        _ => session.collect(),
    }
}

/// Each key's value with whether it is a hash, its metadata and its expiry, including keys that have expired but are
/// still there.
type State = BTreeMap<Vec<u8>, (Option<(bool, Vec<u8>)>, Option<Metadata>, Option<u64>)>;

fn state(store: &Store) -> State {
    let mut session = store.session();
    let (mut cursor, mut keys) = (0, Vec::new());
    loop {
        cursor = session.scan(cursor, 100, BEFORE, |key, _| keys.push(key.to_vec()));
        if cursor == 0 {
            break;
        }
    }
    let mut entry = |key: &Vec<u8>| {
        let metadata = session.item(key, BEFORE, |item| item.metadata);
        let value = session.get(key, BEFORE, |value| (!value.is_string(), shown(value)));
        (value, metadata, session.expiry(key, BEFORE).flatten())
    };
    keys.iter().map(|key| (key.clone(), entry(key))).collect()
}

/// The contents of the storage: the newest snapshot, and the log behind it.
fn restored(storage: &Memory) -> State {
    let store = Store::new(Options::default()).expect("it fits");
    let mut session = store.session();
    clean(storage).expect("it works");
    let snapshot = Snapshot::newest(storage).expect("it is whole");
    let mut buffer = Vec::new();
    while let Some(snapshot) = &snapshot {
        let mut put = |effects: &[hotring_log::Effect<'_>]| {
            effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
        };
        if snapshot.read_block(ALL, &mut buffer, &mut put).expect("it is whole").is_none() {
            break;
        }
    }
    let (after, end) = snapshot.map_or((0, 0), |snapshot| (snapshot.after(), snapshot.end()));
    recover_behind(storage, Some(ID), (after + 1, end), &mut |_, effects| {
        effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
        ControlFlow::Continue(())
    })
    .expect("it is whole");
    state(&store)
}

/// A snapshot, behind which older segments go. Returns how many files that were.
fn snapshot(logged: &Logged, storage: &Arc<dyn Storage>) -> usize {
    let mut session = logged.store.session();
    logged.log.begin_segment();
    let after = session.log_position().expect("there is a log");
    let mut writer = SnapshotWriter::create(storage.clone(), ID, after).expect("a file");
    let mut walk = SnapshotWalk::new(Vec::new());
    while walk.step(&mut session, &mut writer).expect("whole items") {
        std::thread::yield_now();
    }
    let end = session.log_end().expect("there is a log");
    let finished = writer.finish(end).expect("room");
    while logged.log.synced() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    finished.publish(logged.log.synced()).expect("room")
}

/// The events of all rounds, to show that the test covers them.
#[derive(Debug, Default)]
struct Met {
    evicted: AtomicU64,
    expired: AtomicU64,
    files_gone: AtomicU64,
    /// The time of the clock that is furthest ahead.
    latest: AtomicU64,
    operations: AtomicU64,
}

fn round(seed: u64, met: &Met) {
    let storage = Memory::new();
    let mut random = Random::new(seed);
    let engine = random.pick(ENGINES);
    let choice = engine.parse().expect("its name");
    let hash_packed_fields_max = random.pick(&[2, 512]);
    let text_plain_max = random.pick(&[60, 64 << 10]);
    let list_packed_bytes_max = random.pick(&[60, 8 << 10]);
    let scored_packed_members_max = random.pick(&[2, 128]);
    let options = Options {
        hash_packed_fields_max,
        text_plain_max,
        list_packed_bytes_max,
        scored_packed_members_max,
        ..Options::default()
    };
    let logged = Logged::on(choice, options, Fault::None, &storage);
    logged.log.set_when(AckWhen::Synced);
    let policies = [EvictionPolicy::AllKeysLru, EvictionPolicy::Heat, EvictionPolicy::ExpiringTtl];
    let eviction = EvictionOptions { policy: random.pick(&policies), ..EvictionOptions::default() };
    logged.store.set_eviction(eviction).expect("every engine knows them");
    logged.store.set_memory_max(logged.store.stats().index.used_bytes() + MEMORY);
    let end = Instant::now() + ROUND;
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            let (mut session, mut random) = (logged.store.session(), Random::new(random.next()));
            scope.spawn(move || {
                let mut clock = Clock::new(&mut random);
                while Instant::now() < end {
                    for _ in 0..100 {
                        let now = clock.now(&mut random);
                        met.latest.fetch_max(now, Relaxed);
                        operate(&mut session, &mut random, now, met);
                    }
                    met.operations.fetch_add(100, Relaxed);
                }
            });
        }
        let mut session = logged.store.session();
        // KeyFates of most, so that it removes keys that others still see.
        let mut clock = Clock(NOW + 20_000);
        let as_storage: Arc<dyn Storage> = Arc::new(storage.clone());
        while Instant::now() < end {
            let now = clock.now(&mut random);
            met.latest.fetch_max(now, Relaxed);
            let due = session.expire_due(now, 500, |_, _| ());
            met.expired.fetch_add(due.removed as u64, Relaxed);
            met.files_gone.fetch_add(snapshot(&logged, &as_storage) as u64, Relaxed);
        }
    });
    met.evicted.fetch_add(logged.store.stats().evicted, Relaxed);
    let is = state(&logged.end());
    let mut was = restored(&storage);
    // That a key is removed as its time is over is not logged: its expiry is.
    let latest = met.latest.load(Relaxed);
    was.retain(|key, (.., expiry)| is.contains_key(key) || expiry.is_none_or(|at| at > latest));
    if is != was {
        let differ = is.iter().filter(|(key, entry)| was.get(*key) != Some(*entry));
        let first: Vec<_> = differ.take(3).map(|(key, is)| (key, is, was.get(key))).collect();
        let more: Vec<_> = was.keys().filter(|key| !is.contains_key(*key)).take(3).collect();
        panic!(
            "HOTRING_SEED={seed}, {engine}: in the store and the log {first:?}; only the log has {more:?}"
        );
    }
}

#[test]
fn the_log_equals_the_store_under_concurrency() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seed = number("HOTRING_SEED").unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(number("HOTRING_SECONDS").unwrap_or(2));
    let met = Met::default();
    for seed in seed.. {
        println!("HOTRING_SEED={seed}");
        round(seed, &met);
        if Instant::now() >= end {
            break;
        }
    }
    println!("{met:?}");
    for figure in [&met.evicted, &met.expired, &met.files_gone, &met.operations] {
        assert!(figure.load(Relaxed) > 0, "{met:?}");
    }
}
