//! A snapshot taken while everybody writes, and the log behind it, are the store: at the end of the log, and where it
//! ends earlier; and whatever a crash leaves of a snapshot that is being published.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotring_log::storage::Memory;
use hotring_log::{
    ALL, AckWhen, Effect, File, Finished, HOTTEST, Lsn, Snapshot, SnapshotWriter, Storage, clean,
    recover, recover_behind,
};
use hotring_store::{
    AddOptions, End, ExpireCondition, Fault, KeyFates, Options, Session, SetExpiry, SetOptions,
    SnapshotWalk, Store, WalkSink,
};

use super::logged::{
    ENGINES, ID, Logged, NOW, State, change_hash, change_list, change_scored, change_set, state,
};
use super::long_text::change_text;
use super::random::Random;

const KEYS: u64 = 300;
const TWINS: [&[u8]; 2] = [b"twin 1", b"twin 2"];

fn key(random: &mut Random) -> Vec<u8> {
    format!("key {}", random.below(KEYS)).into_bytes()
}

fn write(session: &mut Session, random: &mut Random) {
    if random.one_in(6) {
        return change_scored(session, random, NOW);
    }
    if random.one_in(3) {
        return match random.one_in(2) {
            true => change_hash(session, random, NOW),
            false => change_set(session, random, NOW),
        };
    }
    if random.one_in(4) {
        return change_text(session, random, NOW);
    }
    if random.one_in(3) {
        return change_list(session, random, NOW);
    }
    let (key, number) = (&key(random)[..], random.next().to_string());
    match random.below(200) {
        0..60 => {
            let long = number.repeat(random.below(20) as usize);
            session.set(key, long.as_bytes(), SetOptions::default(), NOW).expect("room");
        }
        60..80 => {
            let expiry = SetExpiry::At(NOW + random.below(9) * 1000);
            let options = SetOptions { expiry, ..SetOptions::default() };
            session.set(key, number.as_bytes(), options, NOW).expect("room");
        }
        80..120 => _ = session.incr_by(key, 1, NOW),
        120..140 => _ = session.append(key, b"x", NOW),
        140..160 => _ = session.remove(key, NOW),
        160..170 => {
            let at = NOW + random.below(1000);
            session.expire_at(key, at, ExpireCondition::Always, NOW).expect("room");
        }
        170..175 => _ = session.persist(key, NOW),
        175..180 => _ = session.rename(key, &self::key(random), NOW),
        180..185 => _ = session.pin(&[key], NOW),
        185..188 => _ = session.unpin(&[key]),
        188..199 => {
            let pairs = TWINS.map(|twin| (twin, number.as_bytes()));
            session.mset(&pairs, NOW).expect("room");
        }
        _ if random.one_in(100) => session.clear(),
        _ => {}
    }
}

/// Writes a snapshot, `slowly` so that others do much meanwhile.
fn take(store: &Store, storage: &Arc<dyn Storage>, slowly: bool) -> Finished {
    let mut session = store.session();
    let after = session.log_position().expect("there is a log");
    let mut writer = SnapshotWriter::create(storage.clone(), ID, after).expect("a file");
    let mut walk = SnapshotWalk::new(vec![b"key 1"[..].into(), b"twin 2"[..].into()]);
    while walk.step(&mut session, &mut writer).expect("whole items") {
        if slowly {
            std::thread::sleep(Duration::from_millis(1));
            writer.write_block().expect("room");
        }
    }
    let end = session.log_end().expect("there is a log");
    writer.finish(end).expect("room")
}

type Pins = Vec<Box<[u8]>>;

fn whole(store: &Store) -> (State, Pins) {
    (state(store), store.session().pinned_keys(None, usize::MAX))
}

/// The content of the storage: the newest snapshot, if there is one, and the log behind it up to `last`. Read in that
/// order, and with the hottest part of the snapshot first, which is the same.
fn restored(storage: &Memory, last: Lsn) -> (State, Pins) {
    let restored = restored_in_order(storage, last);
    for parts in [1, 3] {
        assert!(restored_hottest_first(storage, last, parts) == restored, "{parts} parts");
    }
    restored
}

fn replay_all(session: &mut Session, effects: &[Effect<'_>]) {
    effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
}

fn restored_hottest_first(storage: &Memory, last: Lsn, parts: usize) -> (State, Pins) {
    let store = Store::new(Options::default()).expect("it fits");
    let mut session = store.session();
    let snapshot = Snapshot::newest(storage).expect("it is whole");
    let mut buffer = Vec::new();
    let mut read = |class, put: &mut dyn FnMut(&[Effect<'_>])| {
        let Some(snapshot) = &snapshot else { return };
        while snapshot.read_block(class, &mut buffer, put).expect("it is whole").is_some() {}
    };
    read(HOTTEST, &mut |effects| replay_all(&mut session, effects));
    let mut fates: Vec<KeyFates> = (0..parts).map(|_| KeyFates::new(snapshot.is_some())).collect();
    let (after, end) = snapshot.as_ref().map_or((0, 0), |s| (s.after(), s.end()));
    let mut replay = |lsn, effects: &[Effect<'_>]| {
        for effect in effects.iter().filter(|_| lsn <= last) {
            let part = match effect {
                Effect::Put { key, .. }
                | Effect::Remove { key }
                | Effect::Expire { key, .. }
                | Effect::Change { key, .. } => session.part(key, parts),
                _ => 0,
            };
            let one = std::slice::from_ref(effect);
            session.replay_before_rest(one, NOW, &mut fates[part]).expect("a known form");
            if *effect == Effect::Clear {
                fates.iter_mut().for_each(|fates| fates.clear(0));
            }
        }
        ControlFlow::Continue(())
    };
    recover_behind(storage, Some(ID), (after + 1, end), &mut replay).expect("it is whole");
    read(ALL, &mut |effects| {
        session.replay_rest(effects, NOW, &fates).expect("a known form");
    });
    whole(&store)
}

fn restored_in_order(storage: &Memory, last: Lsn) -> (State, Pins) {
    let store = Store::new(Options::default()).expect("it fits");
    let mut session = store.session();
    clean(storage).expect("it works");
    let snapshot = Snapshot::newest(storage).expect("it is whole");
    let mut buffer = Vec::new();
    while let Some(snapshot) = &snapshot {
        let mut put = |effects: &[Effect<'_>]| replay_all(&mut session, effects);
        if snapshot.read_block(ALL, &mut buffer, &mut put).expect("it is whole").is_none() {
            break;
        }
    }
    let (after, end) = snapshot.map_or((0, 0), |snapshot| (snapshot.after(), snapshot.end()));
    assert!(end <= last);
    let recovered = recover_behind(storage, Some(ID), (after + 1, end), &mut |lsn, effects| {
        if lsn <= last {
            effects.iter().for_each(|effect| session.replay(effect, NOW).expect("a known form"));
        }
        if lsn >= end && lsn <= last {
            let [first, second] = TWINS.map(|twin| session.get(twin, NOW, |value| value.to_vec()));
            assert_eq!(first, second, "a batch is torn: {effects:?}");
        }
        ControlFlow::Continue(())
    });
    assert!(recovered.expect("it is whole").last >= end);
    whole(&store)
}

/// The name and the content of each file.
fn files(memory: &Memory) -> Vec<(String, Option<Vec<u8>>)> {
    let names = memory.list().expect("it works").into_iter();
    names.map(|name| (name.clone(), memory.content(&name))).collect()
}

/// Threads write until `f` is done with the store.
fn under_load<R>(logged: &Logged, seed: u64, f: impl FnOnce() -> R) -> R {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (mut session, stop) = (logged.store.session(), &stop);
            let mut random = Random::new(seed * 8 + thread);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    write(&mut session, &mut random);
                }
            });
        }
        let _stop = Stop(&stop);
        f()
    })
}

#[test]
fn a_snapshot_under_load_and_the_log_are_the_store() {
    for (seed, engine) in ENGINES.iter().enumerate() {
        let memory = Memory::new();
        let choice = engine.parse().expect("its name");
        let options = Options {
            hash_packed_fields_max: 3,
            text_plain_max: 60,
            list_packed_bytes_max: 60,
            set_packed_ints_max: 3,
            scored_packed_members_max: 3,
            ..Options::default()
        };
        let logged = Logged::on(choice, options, Fault::None, &memory);
        let storage: Arc<dyn Storage> = Arc::new(memory.clone());
        let has_come_to = |lsn| {
            while logged.log.handed() < lsn {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let finished = under_load(&logged, seed as u64, || {
            has_come_to(100);
            let finished = take(&logged.store, &storage, true);
            has_come_to(finished.end() + 100);
            finished
        });
        let log = logged.log.clone();
        let was = whole(&logged.end());
        let (end, last) = (finished.end(), log.handed());
        assert!(end < last, "{engine}");
        // The whole log, without the snapshot.
        let alone = memory.killed();
        assert!(restored(&alone, last) == was, "{engine}");
        finished.publish(log.synced()).expect("room");
        assert!(restored(&memory, last) == was, "{engine}");
        // It begins behind the first record, or it shows nothing.
        let after = Snapshot::newest(&memory).expect("it is whole").expect("it is there").after();
        assert!(0 < after && after < end, "{engine}: {after}");
        for cut in [end, (end + last) / 2] {
            assert!(restored(&memory, cut) == restored(&alone, cut), "{engine}, {cut}");
        }
    }
}

/// A sink that takes a giant value only once others have written beside it.
struct Waiting {
    writer: SnapshotWriter,
    /// Asks for writes, and says that they are done.
    turns: (Sender<()>, Receiver<()>),
    giants: usize,
}

impl WalkSink for Waiting {
    fn push(&mut self, effect: &Effect<'_>) {
        if matches!(effect, Effect::Put { value, .. } if value.len() > 10_000) {
            self.giants += 1;
            self.turns.0.send(()).expect("the writer runs");
            let done = self.turns.1.recv_timeout(Duration::from_secs(20));
            done.expect("a writer waits for the snapshot of a giant value");
        }
        self.writer.push(effect);
    }

    fn is_full(&self) -> bool {
        self.writer.is_full()
    }

    fn write_block(&mut self) -> io::Result<()> {
        self.writer.write_block()
    }

    fn set_class(&mut self, class: u8) -> io::Result<()> {
        self.writer.set_class(class)
    }

    fn set_database(&mut self, number: u8) -> io::Result<()> {
        self.writer.set_database(number)
    }
}

/// A writer waits at most for a step of small items, however long a value is.
#[test]
fn a_snapshot_of_giants_holds_up_no_writer() {
    const GIANTS: [&[u8]; 5] = [b"hash", b"list", b"set", b"scored", b"text"];
    let memory = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &memory);
    let mut session = logged.store.session();
    let members: Vec<String> = (0..20_000).map(|n| format!("member {n}")).collect();
    let members: Vec<&[u8]> = members.iter().map(String::as_bytes).collect();
    let change = |session: &mut Session, members: &[&[u8]]| {
        let pairs: Vec<_> = members.iter().map(|member| (*member, &b"value"[..])).collect();
        session.hash_set(GIANTS[0], &pairs, NOW).expect("room");
        session.list_push(GIANTS[1], End::Back, members, false, NOW).expect("room");
        session.set_add(GIANTS[2], members, NOW).expect("room");
        let pairs: Vec<_> = members.iter().map(|member| (1.0, *member)).collect();
        session.scored_add(GIANTS[3], &pairs, AddOptions::default(), NOW).expect("room");
        session.append(GIANTS[4], &members.concat(), NOW).expect("room");
    };
    change(&mut session, &members);
    let ((ask, asked), (report, done)) = (channel(), channel());
    let after = session.log_position().expect("there is a log");
    let writer = SnapshotWriter::create(Arc::new(memory.clone()), ID, after).expect("a file");
    let mut sink = Waiting { writer, turns: (ask, done), giants: 0 };
    std::thread::scope(|scope| {
        let mut other = logged.store.session();
        scope.spawn(move || {
            for () in asked {
                change(&mut other, &[b"another"]);
                // Excludes all reads, as a transaction does.
                other.log_end().expect("there is a log");
                if report.send(()).is_err() {
                    break;
                }
            }
        });
        let mut walk = SnapshotWalk::new(vec![GIANTS[0].into()]);
        while walk.step(&mut session, &mut sink).expect("whole items") {}
        // Those of all keys, and the one that was named.
        assert_eq!(sink.giants, GIANTS.len() + 1);
        drop(sink);
    });
}

/// A snapshot whose log is said to go on later than it does: the check above would notice.
#[test]
fn a_wrong_pairing_would_be_noticed() {
    let memory = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &memory);
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let mut session = logged.store.session();
    let mut random = Random::new(77);
    (0..1_000).for_each(|_| write(&mut session, &mut random));
    let after = session.log_position().expect("there is a log") + 20;
    let mut writer = SnapshotWriter::create(storage, ID, after).expect("a file");
    let mut walk = SnapshotWalk::new(Vec::new());
    while walk.step(&mut session, &mut writer).expect("whole items") {}
    while session.log_end() < Some(after) {
        write(&mut session, &mut random);
    }
    let finished = writer.finish(session.log_end().expect("there is a log")).expect("room");
    drop(session);
    let log = logged.log.clone();
    let was = whole(&logged.end());
    finished.publish(log.synced()).expect("room");
    assert!(restored(&memory, log.handed()) != was);
}

/// Calls a function before each change of names and each sync of them.
struct Watched<F> {
    memory: Memory,
    before: F,
}

impl<F: Fn(&Memory) + Send + Sync> Storage for Watched<F> {
    fn location(&self) -> String {
        self.memory.location()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        (self.before)(&self.memory);
        self.memory.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.memory.open(name)
    }

    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.memory.open_to_write(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (self.before)(&self.memory);
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        (self.before)(&self.memory);
        self.memory.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        (self.before)(&self.memory);
        self.memory.sync()
    }
}

#[test]
fn a_crash_while_a_snapshot_is_published_loses_nothing() {
    let memory = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &memory);
    logged.log.set_when(AckWhen::Synced);
    let mut session = logged.store.session();
    let mut random = Random::new(5);
    let images = Arc::new(Mutex::new(Vec::<Memory>::new()));
    let watches = images.clone();
    let seed = Mutex::new(0);
    let before = move |memory: &Memory| {
        let mut images = watches.lock().expect("nobody panics");
        images.push(memory.killed());
        let mut seed = seed.lock().expect("nobody panics");
        *seed += 1;
        images.extend(memory.power_cuts(6, *seed).iter().map(|cut| memory.image(cut)));
    };
    let storage: Arc<dyn Storage> = Arc::new(Watched { memory: memory.clone(), before });
    let mut met = BTreeMap::new();
    for round in 0..3 {
        (0..3_000).for_each(|_| write(&mut session, &mut random));
        session.set(b"round", round.to_string().as_bytes(), SetOptions::default(), NOW).expect("r");
        logged.log.begin_segment();
        let finished = take(&logged.store, &storage, false);
        while logged.log.synced() < logged.log.handed() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Until here nothing is promised.
        images.lock().expect("nobody panics").clear();
        let removed = finished.publish(logged.log.synced()).expect("room");
        assert!(round == 0 || removed > 1, "an older one, and segments");
        let was = whole(&logged.store);
        let images = std::mem::take(&mut *images.lock().expect("nobody panics"));
        assert!(images.len() > 20);
        let mut seen = BTreeSet::new();
        for (i, image) in images.iter().enumerate() {
            // Most cuts leave the same files, as few changes are not synced at a time.
            if !seen.insert(files(image)) {
                continue;
            }
            let names = image.list().expect("it works");
            let is_snapshot = Snapshot::newest(image).expect("it is whole").is_some();
            *met.entry((round, is_snapshot)).or_insert(0) += 1;
            assert!(restored(image, Lsn::MAX) == was, "round {round}, image {i}: {names:?}");
        }
        assert!(restored(&memory.killed(), Lsn::MAX) == was);
    }
    assert!(met[&(0, false)] > 0 && met[&(0, true)] > 0, "{met:?}");
    drop(session);
    logged.end();
}

#[test]
fn pins_and_the_keys_that_were_named_come_first() {
    let memory = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &memory);
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let mut session = logged.store.session();
    for number in 0..KEYS {
        let key = format!("key {number}");
        session.set(key.as_bytes(), b"v", SetOptions::default(), NOW).expect("room");
    }
    session.set(b"twin 2", b"v", SetOptions::default(), NOW).expect("room");
    session.pin(&[b"key 5"], NOW).expect("room");
    let finished = take(&logged.store, &storage, false);
    drop(session);
    logged.end();
    assert_eq!(finished.items(), KEYS + 1 + 1 + 2, "these are there twice");
    finished.publish(Lsn::MAX).expect("room");
    let snapshot = Snapshot::newest(&memory).expect("it is whole").expect("it is there");
    let mut first = Vec::new();
    let mut note = |effects: &[Effect<'_>]| {
        first.extend(effects.iter().map(|effect| match effect {
            Effect::Put { key, .. } | Effect::Pin { key } => key.to_vec(),
            _ => panic!("{effect:?}"),
        }));
    };
    snapshot.read_block(ALL, &mut Vec::new(), &mut note).expect("it is whole");
    assert_eq!(first, [&b"key 5"[..], b"key 1", b"twin 2"]);
}

#[test]
fn a_log_that_ends_before_the_snapshot_does_is_refused() {
    let memory = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &memory);
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let mut session = logged.store.session();
    session.set(b"k", b"v", SetOptions::default(), NOW).expect("room");
    let finished = take(&logged.store, &storage, false);
    drop(session);
    logged.end();
    finished.publish(1).expect("room");
    assert_eq!(recover(&memory, None, 2, &mut |_, _| {}).expect("it is whole").last, 1);
    let nothing = &mut |_, _: &[Effect<'_>]| ControlFlow::Continue(());
    let error = recover_behind(&memory, None, (2, 2), nothing).expect_err("record 2 is missing");
    assert!(error.to_string().contains("Records 2 to 2"), "{error}");
}
