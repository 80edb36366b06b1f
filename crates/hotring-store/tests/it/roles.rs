//! The role of a store: what a replica refuses, what expires, and the moment of a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Wake, Waker};

use hotring_log::storage::Memory;
use hotring_log::{Effect, NoRun, Records, Run};
use hotring_store::{
    Applier, ApplyError, BitOp, Changed, Content, End, EvictionOptions, EvictionPolicy,
    ExpireCondition, Fault, ItemAction, Metadata, Observer, Options, Origin, ReplyCapacity, Role,
    Session, SetExpiry, SetOperation, SetOptions, Store, StoreError, TailKeys, TtlChange,
    UnknownForm,
};

use super::logged::{Logged, NOW, read};
use super::replica::{apply, digest, follow, groups, stream};

fn until(at: u64) -> SetOptions<'static> {
    SetOptions { expiry: SetExpiry::At(at), ..SetOptions::default() }
}

/// Some of each type, of which some expire.
pub(super) fn fill(session: &mut Session) {
    session.set(b"s", b"12", SetOptions::default(), NOW).expect("room");
    session.set(b"until", b"text", until(NOW + 10), NOW).expect("room");
    session.hash_set(b"h", &[(b"f", b"1"), (b"g", b"2")], NOW).expect("room");
    session.hash_expire_at(b"h", NOW + 10, ExpireCondition::Always, &[b"f"], NOW).expect("room");
    session.hash_set(b"h2", &[(b"f", b"1")], NOW).expect("room");
    session.hash_expire_at(b"h2", NOW + 10, ExpireCondition::Always, &[b"f"], NOW).expect("room");
    session.list_push(b"l", End::Back, &[b"1", b"2"], false, NOW).expect("room");
    session.set_add(b"m", &[b"1", b"2"], NOW).expect("room");
    session.scored_add(b"z", &[(1.0, b"a")], Default::default(), NOW).expect("room");
    session.append(b"long", &[b'x'; 100_000], NOW).expect("room");
    session.append(b"long", b"y", NOW).expect("room");
    session.pin(&[b"s"], NOW).expect("room");
}

/// The stream of a store with these changes.
fn stream_of(change: impl FnOnce(&mut Session)) -> Vec<u8> {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut session = logged.store.session();
    session.follow(true);
    change(&mut session);
    drop(session);
    logged.end();
    stream(&storage)
}

/// A replica with what `fill` writes.
fn replica() -> Store {
    let store = Store::new(Options::default()).expect("it fits");
    follow(&store, 0, 0, |applier| apply(applier, &stream_of(fill), NOW, || 100));
    store
}

/// A write that returns an error if it is refused.
type Try = fn(&mut Session, u64) -> Result<(), StoreError>;
/// All kinds of them, with the keys of [`fill`].
pub(super) const FALLIBLE: [Try; 27] = [
    |s, now| s.set(b"s", b"1", SetOptions::default(), now).map(drop),
    |s, now| s.set(b"until", b"1", SetOptions::default(), now).map(drop),
    |s, now| s.set(b"new", b"1", SetOptions::if_absent(), now).map(drop),
    |s, now| s.get_del(b"s", now).map(drop),
    |s, now| s.incr_by(&b"s"[..], 1, now).map(drop),
    |s, now| s.append(b"s", b"1", now).map(drop),
    |s, now| s.append(b"long", b"1", now).map(drop),
    |s, now| s.set_range(b"long", 5, b"1", now).map(drop),
    |s, now| s.mset(&[(b"s", b"1")], now),
    |s, now| s.mset(&[(b"s", b"1"), (b"t", b"2")], now),
    |s, now| s.rename(b"s", b"t", now),
    |s, now| s.copy(b"s", b"t", true, now).map(drop),
    |s, now| s.move_to(b"s", 3, now).map(drop),
    |s, now| s.expire_at(b"s", now + 9, ExpireCondition::Always, now).map(drop),
    |s, now| s.get_ex(b"s", TtlChange::At(now + 9), now, |_, _| ()).map(drop),
    |s, now| s.hash_set(b"h", &[(b"f", b"9")], now).map(drop),
    |s, now| s.hash_set(b"h2", &[(b"f", b"9")], now).map(drop),
    |s, now| s.hash_persist(b"h", &[b"g"], now).map(drop),
    |s, now| s.list_pop(b"l", End::Back, (1, ReplyCapacity::UNLIMITED), now).map(drop),
    |s, now| s.list_move(b"l", b"l", (End::Back, End::Front), now).map(drop),
    |s, now| s.set_move(b"m", b"m2", b"1", now).map(drop),
    |s, now| s.set_store(SetOperation::Union, b"m2", &[b"m"], now).map(drop),
    |s, now| s.bit_op(BitOp::Or, b"b", &[b"s"], now).map(drop),
    |s, now| s.scored_remove(b"z", &[b"a"], now).map(drop),
    |s, now| s.pin(&[b"l"], now).map(drop),
    |s, now| {
        let content = Content::Set([b"x".to_vec().into()].into());
        s.put_content(b"m", content, None, true, now).map(drop)
    },
    |s, now| {
        let put = ItemAction::Put {
            value: b"1"[..].into(),
            metadata: Metadata::default(),
            expiry: SetExpiry::Clear,
        };
        s.update_item(b"s", now, |_| (put.clone(), ()))
    },
];
/// Those that return none.
pub(super) const OTHERS: [fn(&mut Session, u64); 6] = [
    |s, now| assert!(!s.remove(b"s", now)),
    |s, now| assert_eq!(s.remove_many(&[b"s", b"l"], now), 0),
    |s, _| s.clear(),
    |s, _| s.clear_all(),
    |s, _| s.swap_databases(0, 1),
    |s, _| assert_eq!(s.unpin(&[b"s"]), 0),
];

#[test]
fn a_replica_refuses_every_write_and_changes_nothing() {
    let store = replica();
    let mut session = store.session();
    let before = digest(&store, 0);
    // Before and after some keys and fields have expired.
    for now in [NOW, NOW + 1_000] {
        for (n, write) in FALLIBLE.iter().enumerate() {
            assert_eq!(write(&mut session, now), Err(StoreError::ReadOnly), "{n}");
            assert_eq!(session.take_refused(), Ok(()), "{n}: its error says so");
        }
        for (n, write) in OTHERS.iter().enumerate() {
            write(&mut session, now);
            assert_eq!(session.take_refused(), Err(StoreError::ReadOnly), "{n}");
        }
        assert_eq!(digest(&store, 0), before);
        // A write of nothing is not refused, and reads go on.
        assert!(!session.remove(b"absent", now));
        assert_eq!(session.get(b"s", now, |value| value.to_vec()), Some(b"12".to_vec()));
        assert!(session.version(b"l", now).expect("it can be read").is_some());
        session.expire_due(now, 1_000, |_, _| panic!("it is not the replica's to remove"));
        session.random_key(3, now).expect("there are keys");
        assert_eq!((session.take_refused(), digest(&store, 0)), (Ok(()), before));
    }
    for key in [&b"until"[..], b"h2"] {
        assert!(session.exists(key, NOW + 9) && !session.exists(key, NOW + 10));
        assert_eq!(session.version(key, NOW + 10), Ok(None));
    }
    assert_eq!(session.hash(b"h", NOW + 10, |hash| hash.get(b"f").is_some()), Ok(Some(false)));
    // Once it is a primary, all of it goes.
    session.switch_role(Role::Primary, NOW + 20);
    let mut gone = Vec::new();
    for later in 0..100 {
        session.expire_due(NOW + 30 + later, 1_000, |key, _| gone.push(key.to_vec()));
    }
    assert_eq!(gone, [b"until"]);
    assert_eq!(session.len().0, 6, "the hash without a field has gone, too");
    assert_eq!(digest(&store, 0), digest(&store, NOW + 30));
    session.set(b"s", b"1", SetOptions::default(), NOW).expect("it is a primary");
}

/// While the log is followed, each removal of what has expired is in it, whoever meets it first.
#[test]
fn what_expires_is_removed_in_a_followed_log() {
    let late = NOW + 50;
    type Meet = fn(&mut Session, u64);
    let meets: [Meet; 12] = [
        |_, _| (),
        |s, now| assert!(!s.remove(b"until", now)),
        |s, now| _ = s.set(b"until", b"again", SetOptions::default(), now),
        |s, now| {
            let options = SetOptions { expiry: SetExpiry::Keep, ..SetOptions::default() };
            assert!(s.set(b"until", b"again", options, now).expect("room").stored);
        },
        |s, now| _ = s.set(b"until", b"new", SetOptions::if_present(), now),
        |s, now| _ = s.incr_by(&b"until"[..], 1, now).expect("it counts from nothing"),
        |s, now| _ = s.list_push(b"until", End::Back, &[b"1"], false, now).expect("it is gone"),
        |s, now| assert_eq!(s.get_del(b"until", now).expect("it is gone"), None),
        |s, now| {
            assert!(!s.expire_at(b"until", now + 99, ExpireCondition::Always, now).expect("room"))
        },
        |s, now| assert_eq!(s.version(b"until", now), Ok(None)),
        |s, now| _ = s.hash_set(b"h2", &[(b"new", b"1")], now).expect("it is absent"),
        |s, now| {
            assert_eq!(s.hash_remove(b"h", &[b"f"], now), Ok(0));
            s.random_key(7, now).expect("there are keys");
            s.rename(b"until", b"other", now).expect_err("it is gone");
        },
    ];
    for (n, meet) in meets.iter().enumerate() {
        for told in [false, true] {
            let storage = Memory::new();
            let logged = Logged::new(Options::default(), Fault::None, &storage);
            let mut session = logged.store.session();
            session.follow(true);
            session.act(Origin { records_changes: told, ..Origin::default() });
            fill(&mut session);
            meet(&mut session, late);
            let mut expired = session.take_effects().changes;
            expired.retain(|change| change.kind == Changed::Expired);
            let mut all = expired.len();
            for _ in 0..3 {
                session.expire_due(late, 1_000, |_, _| all += 1);
            }
            if told || n == 0 {
                assert_eq!(all, 1, "{n}: its expiry is told once");
            }
            drop(session);
            let primary = logged.end();
            assert_eq!(digest(&primary, 0), digest(&primary, late), "{n}: nothing is left over");
            let replica = Store::new(Options::default()).expect("it fits");
            follow(&replica, 0, 0, |applier| apply(applier, &stream(&storage), NOW, || 1));
            assert_eq!(digest(&replica, 0), digest(&primary, 0), "{n} {told}");
        }
    }
}

/// Without followers nothing of that is logged.
#[test]
fn expiries_are_not_logged_for_nobody() {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut session = logged.store.session();
    session.set(b"until", b"1", until(NOW + 10), NOW).expect("room");
    assert_eq!(session.expire_due(NOW + 20, 1_000, |_, _| ()).removed, 1);
    drop(session);
    logged.end();
    assert_eq!(read(&storage, |_, _| ()).last, 1);
}

/// A replica's records are in its log before they are applied, and a snapshot must not go by the log then.
#[test]
fn the_position_of_a_replica_is_what_it_has_applied() {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut session = logged.store.session();
    fill(&mut session);
    let own = logged.log.handed();
    assert_eq!(session.switch_role(Role::Replica, NOW), Some(own));
    assert_eq!((session.log_position(), logged.store.applied()), (Some(own), own));
    // One that takes records, and has none that applies them yet.
    let (mut applier, workers) = Applier::new(&logged.store, own, 1);
    let more = stream_of(|session| {
        fill(session);
        session.incr_by(&b"n"[..], 1, NOW).expect("room");
    });
    for group in groups(&more, || 1) {
        applier.apply(&group, NOW).expect("it follows");
    }
    assert_eq!((session.log_position(), session.log_end()), (Some(own), Some(own + 1)));
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || worker.run(|_| ()));
        }
        applier.settle().expect("all forms are known");
        assert_eq!(session.log_position(), Some(own + 1));
        drop(applier);
    });
    drop(session);
    logged.end();
}

/// The limit of memory is the primary's business.
#[test]
fn a_replica_evicts_nothing_and_takes_more_than_its_limit() {
    let store = Store::new(Options::default()).expect("it fits");
    let policy = EvictionOptions { policy: EvictionPolicy::AllKeysLru, ..Default::default() };
    store.set_eviction(policy).expect("the index can note that");
    store.set_memory_max(store.stats().index.used_bytes() + (64 << 10));
    let stream = stream_of(|session| {
        for n in 0..2_000 {
            let key = format!("key {n}");
            session.set(key.as_bytes(), &[7; 200], SetOptions::default(), NOW).expect("room");
        }
    });
    follow(&store, 0, 0, |applier| apply(applier, &stream, NOW, || 9_000));
    let mut session = store.session();
    assert!(!session.evict_some());
    let refused = session.set(b"key 1", &[8; 20_000], SetOptions::default(), NOW);
    assert_eq!((refused, store.len()), (Err(StoreError::ReadOnly), 2_000));
    session.switch_role(Role::Primary, NOW);
    session.set(b"key 1", b"1", SetOptions::default(), NOW).expect("it makes room");
    assert!(session.evict_some() || store.len() < 2_000);
}

/// A write that began before the change of role is in the log up to the position that the change returns; one
/// afterwards is refused.
#[test]
fn no_write_slips_past_a_change_of_role() {
    for round in 0..30 {
        let storage = Memory::new();
        let logged = Logged::new(Options::default(), Fault::None, &storage);
        let ends = AtomicBool::new(false);
        let (positions, last) = std::thread::scope(|scope| {
            let write = |thread: u64| {
                let mut session = logged.store.session();
                let ends = &ends;
                move || {
                    let mut last = 0;
                    while !ends.load(Relaxed) {
                        let key = [b"a", b"b", b"c"][(thread % 3) as usize];
                        let done = match thread {
                            0 => session.incr_by(&key[..], 1, NOW).map(drop),
                            1 => {
                                session.set(&key[..], b"text", SetOptions::default(), NOW).map(drop)
                            }
                            _ => session.mset(&[(b"c", b"1"), (b"d", b"2")], NOW),
                        };
                        let effects = session.take_effects();
                        match done {
                            Ok(()) => last = effects.logged.expect("it is logged"),
                            Err(error) => {
                                assert_eq!((error, effects.logged), (StoreError::ReadOnly, None));
                            }
                        }
                    }
                    last
                }
            };
            let writers: Vec<_> = (0..3).map(|thread| scope.spawn(write(thread))).collect();
            std::thread::sleep(std::time::Duration::from_micros(300 * round));
            let mut session = logged.store.session();
            let position = session.switch_role(Role::Replica, NOW).expect("there is a log");
            let digest = digest(&logged.store, 0);
            std::thread::sleep(std::time::Duration::from_millis(1));
            assert_eq!(digest, self::digest(&logged.store, 0));
            ends.store(true, Relaxed);
            let last = writers.into_iter().map(|writer| writer.join().expect("no panic"));
            (position, last.max().unwrap_or(0))
        });
        assert_eq!((positions, last), (positions, positions), "the last write is the last record");
        assert_eq!(logged.log.handed(), positions);
        logged.end();
    }
}

#[test]
fn watches_observers_and_versions_notice_what_the_stream_changes() {
    #[derive(Default)]
    struct Seen(AtomicU64);
    impl Observer for Seen {
        fn changed(&self, _: &[u8], _: u64) {
            self.0.fetch_add(1, Relaxed);
        }
        fn cleared(&self, _: u64) {
            self.0.fetch_add(1_000, Relaxed);
        }
    }
    struct Idle;
    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }
    let long: Vec<Vec<u8>> = (0..2_000).map(|n: u32| n.to_string().into_bytes()).collect();
    type Step = (&'static [u8], fn(&mut Session));
    let steps: [Step; 9] = [
        (b"s", |s| _ = s.set(b"s", b"13", SetOptions::default(), NOW)),
        (b"s", |s| _ = s.incr_by(&b"s"[..], 1, NOW)),
        (b"h", |s| _ = s.hash_set(b"h", &[(b"k", b"v")], NOW)),
        (b"big", |s| _ = s.set_add(b"big", &[b"one more"], NOW)),
        (b"long", |s| _ = s.append(b"long", b"more", NOW)),
        (b"until", |s| _ = s.expire_at(b"until", NOW + 99, ExpireCondition::Always, NOW)),
        (b"l", |s| _ = s.remove(b"l", NOW)),
        (b"m", |s| _ = s.mset(&[(b"m", b"1"), (b"x", b"2")], NOW)),
        (b"z", |s| s.clear()),
    ];
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut session = logged.store.session();
    fill(&mut session);
    let members: Vec<&[u8]> = long.iter().map(|member| &member[..]).collect();
    session.set_add(b"big", &members, NOW).expect("room");
    session.take_effects().logged.expect("it is logged");
    let mut marks = vec![logged.log.handed()];
    for (_, step) in steps {
        step(&mut session);
        marks.push(logged.log.handed());
    }
    drop(session);
    logged.end();
    let stream = stream(&storage);
    let store = Store::new(Options::default()).expect("it fits");
    let seen = Arc::new(Seen::default());
    assert!(store.set_observer(seen.clone()));
    let (mut reader, singles) = (store.session(), groups(&stream, || 1));
    store.session().switch_role(Role::Replica, NOW);
    let (mut applier, _) = Applier::new(&store, 0, 0);
    applier.session().act(Origin { records_changes: true, ..Origin::default() });
    let mut singles = singles.into_iter();
    let mut go_to = |applier: &mut Applier, mark| {
        while applier.taken() < mark {
            applier.apply(&singles.next().expect("there is more"), NOW).expect("it follows");
        }
    };
    go_to(&mut applier, marks[0]);
    reader.observe(|| true);
    for ((key, _), mark) in steps.iter().zip(&marks[1..]) {
        let name = key.escape_ascii();
        let watch = reader.watch(key, None, Waker::from(Arc::new(Idle)), NOW).expect("room");
        let version = reader.version(key, NOW).expect("it can be read");
        drop(applier.session().take_effects());
        let before = seen.0.load(Relaxed);
        go_to(&mut applier, *mark);
        let changes = applier.session().take_effects().changes;
        assert!(seen.0.load(Relaxed) > before, "{name}: the observer");
        let is_clear = *key == b"z";
        assert!(is_clear || changes.iter().any(|change| change.key[..] == **key), "{name}");
        // A change of the expiry is no change of the value.
        let is_expiry = *key == b"until";
        assert_eq!(watch.has_fired(), !is_expiry, "{name}: the watch");
        if !is_expiry {
            assert_ne!(reader.version(key, NOW).expect("it can be read"), version, "{name}");
        }
    }
}

#[test]
fn gaps_and_damage_apply_nothing() {
    let stream = stream_of(fill);
    let all = groups(&stream, || 1);
    let store = Store::new(Options::default()).expect("it fits");
    store.session().switch_role(Role::Replica, NOW);
    let (mut applier, _) = Applier::new(&store, 0, 0);
    applier.apply(&all[0], NOW).expect("it is the first");
    applier.apply(&all[0], NOW).expect("it came before");
    let before = digest(&store, 0);
    assert!(matches!(applier.apply(&all[2], NOW), Err(ApplyError::Stream(NoRun::Gap { .. }))));
    let mut damaged = [&all[1][..], &all[2][..]].concat();
    *damaged.last_mut().expect("it has bytes") ^= 1;
    assert!(matches!(
        applier.apply(&Arc::new(damaged), NOW),
        Err(ApplyError::Stream(NoRun::Bad(_)))
    ));
    assert_eq!((digest(&store, 0), applier.taken(), store.applied()), (before, 1, 1));
    for group in &all {
        applier.apply(group, NOW).expect("it follows, or came before");
    }
}

#[test]
fn a_form_of_a_later_version_stops_all() {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut records = Records::new();
    for n in 0..200 {
        let (key, form) = (format!("key {n}"), if n == 100 { 0x70 } else { 0 });
        let key = key.as_bytes();
        records.push(&Effect::Put { key, form, expire_at: None, value: b"a string" });
        logged.log.append(&mut records);
    }
    logged.end();
    let stream = Arc::new(stream(&storage));
    for workers in [0, 2] {
        let store = Store::new(Options::default()).expect("it fits");
        store.session().switch_role(Role::Replica, NOW);
        let (mut applier, workers) = Applier::new(&store, 0, workers);
        std::thread::scope(|scope| {
            for worker in workers {
                scope.spawn(move || worker.run(|_| ()));
            }
            let done = applier.apply(&stream, NOW).map(drop).and_then(|()| applier.settle());
            assert_eq!(done, Err(ApplyError::Form(UnknownForm { form: 0x70 })));
            drop(applier);
        });
        assert!(store.applied() < 101, "{} are acknowledged", store.applied());
    }
}

fn keys_of(run: &Run<'_>) -> TailKeys {
    let mut keys = TailKeys::default();
    run.batches(|_, effects| keys.add(effects));
    keys
}

/// A store with records that its primary does not have gets the present state of their keys.
#[test]
fn the_keys_of_other_records_are_repaired() {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let mut primary = logged.store.session();
    let fill = |session: &mut Session| {
        fill(session);
        let elements: Vec<Vec<u8>> = (0..300).map(|n| vec![n as u8; 100]).collect();
        let elements: Vec<&[u8]> = elements.iter().map(|element| &element[..]).collect();
        session.list_push(b"big", End::Back, &elements, false, NOW).expect("room");
    };
    fill(&mut primary);
    let common = logged.log.handed();
    let start = logged.store.clone();
    let fork = stream_of(|session| {
        fill(session);
        session.set(b"s", b"other", SetOptions::default(), NOW).expect("room");
        session.set(b"extra", b"1", SetOptions::default(), NOW).expect("room");
        session.hash_set(b"h", &[(b"f", b"9"), (b"x", b"9")], NOW).expect("room");
        session.append(b"long", b"fork", NOW).expect("room");
        session.remove_many(&[b"l", b"m"], NOW);
        session.list_trim(b"big", 0, 10, NOW).expect("it is a list");
        session.unpin(&[b"s"]);
        session.select(2);
        session.set_add(b"there", &[b"1"], NOW).expect("room");
    });
    // The primary goes on, with some of these keys.
    primary.append(b"s", b"3", NOW).expect("room");
    primary.list_push(b"l", End::Front, &[b"0"], false, NOW).expect("room");
    primary.remove(b"z", NOW);
    // Changes of parts that the fork has removed.
    for index in [250, 290] {
        primary.list_set(b"big", index, b"new", NOW).expect("room");
    }
    let replica = Store::new(Options::default()).expect("it fits");
    follow(&replica, 0, 0, |applier| {
        apply(applier, &fork, NOW, || 100);
        let forked = replica.len();
        let tail = Run::behind(common, &fork).expect("it has all of it");
        let keys = keys_of(&tail);
        let names: Vec<_> = keys.iter().collect();
        assert!(!keys.needs_copy());
        let zero = [&b"big"[..], b"extra", b"h", b"l", b"long", b"m", b"s"].map(|key| (0, key));
        assert_eq!(names, [&zero[..], &[(2, b"there")]].concat());
        let position = primary.log_position().expect("there is a log");
        let packed = primary.export(keys.iter()).expect("nothing is damaged");
        primary.append(b"s", b"4", NOW).expect("room");
        applier.begin_at(common).expect("all is applied");
        applier.forget(&keys);
        assert_eq!((replica.len(), keys.iter().count()), (forked - 6, 8));
        let ours = {
            logged.log.sync_soon();
            while logged.log.written() < logged.log.handed() {
                std::thread::yield_now();
            }
            stream(&storage)
        };
        let (behind, later) = (
            Run::behind(common, &ours).expect("whole"),
            Run::behind(position, &ours).expect("whole"),
        );
        let until = behind.bytes().len() - later.bytes().len();
        apply(applier, &behind.bytes()[..until], NOW, || 50);
        applier.copy(&packed, NOW).expect("forms are known");
        apply(applier, later.bytes(), NOW, || 50);
    });
    assert_eq!(digest(&replica, 0), digest(&start, 0));
    let cleared = stream_of(|session| session.clear());
    assert!(keys_of(&Run::behind(0, &cleared).expect("whole")).needs_copy());
    // A copy costs less.
    let mut many = TailKeys::default();
    for n in 0..400_000u32 {
        many.add(&[Effect::Remove { key: &n.to_le_bytes() }]);
    }
    assert!(!many.needs_copy());
    for n in 400_000..1_000_000u32 {
        many.add(&[Effect::Remove { key: &n.to_le_bytes() }]);
    }
    assert!(many.needs_copy() && many.iter().count() < 500_000);
    drop(primary);
    logged.end();
}

/// How often a reader that has seen a value gets a position before the value's record.
fn early(fault: Fault, by_hold: bool) -> u64 {
    const WRITES: u64 = 60_000;
    let logged = Logged::new(Options::default(), fault, &Memory::new());
    let first = logged.store.session().mark_writes(true).expect("there is a log") + 1;
    let (early, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (mut session, ends) = (logged.store.session(), &ends);
        scope.spawn(move || {
            for n in 0..WRITES {
                let text = n.to_string();
                match by_hold {
                    // One record each, in a hold of several keys.
                    true => session.exclusive(&[b"key", b"other"], |session| {
                        session
                            .set(b"key", text.as_bytes(), SetOptions::default(), NOW)
                            .expect("room");
                    }),
                    false => _ = session.incr_by(&b"key"[..], 1, NOW).expect("room"),
                }
            }
            ends.store(true, Relaxed);
        });
        for _ in 0..2 {
            let (mut session, early) = (logged.store.session(), &early);
            scope.spawn(move || {
                while !ends.load(Relaxed) {
                    let value = session.get(b"key", NOW, |value| value.to_vec());
                    let position = session.last_records([&b"key"[..]]);
                    let Some(value) = value else { continue };
                    let number: u64 = String::from_utf8_lossy(&value).parse().expect("a number");
                    let record = first + number - u64::from(!by_hold);
                    early.fetch_add(u64::from(position < record), Relaxed);
                }
            });
        }
    });
    logged.end();
    early.load(Relaxed)
}

/// A reply must not show a write before its record is where it must be: also one that is not in the log yet.
#[test]
fn who_sees_a_value_learns_its_record() {
    for by_hold in [false, true] {
        assert_eq!(early(Fault::None, by_hold), 0, "by hold: {by_hold}");
    }
    let found = (0..20).any(|_| early(Fault::LateMark, false) > 0);
    assert!(found, "the reader does not notice a write that is marked too late");
}

#[test]
fn each_kind_of_write_is_marked() {
    let logged = Logged::new(Options::default(), Fault::None, &Memory::new());
    let mut session = logged.store.session();
    session.follow(true);
    fill(&mut session);
    let before = session.mark_writes(true).expect("there is a log");
    assert_eq!(session.last_records([&b"s"[..], b"l"]), before, "what was before is of all keys");
    assert_eq!(session.last_records([]), 0, "a reply that shows no key");
    type Write = (&'static [u8], fn(&mut Session));
    let writes: [Write; 7] = [
        (b"s", |s| _ = s.set(b"s", b"1", SetOptions::default(), NOW)),
        (b"l", |s| _ = s.list_push(b"l", End::Back, &[b"3"], false, NOW)),
        (b"z", |s| _ = s.rename(b"m", b"z", NOW)),
        (b"m", |s| _ = s.mset(&[(b"m", b"1"), (b"n", b"2")], NOW)),
        (b"h2", |s| _ = s.remove(b"h2", NOW)),
        (b"until", |s| _ = s.expire_due(NOW + 99, 1_000, |_, _| ())),
        (b"anything", |s| s.clear()),
    ];
    let mut last = before;
    for (key, write) in writes {
        write(&mut session);
        let position = session.last_records([key]);
        assert!(position > last, "{}", key.escape_ascii());
        assert!(session.last_record_of_all() >= position);
        last = position;
    }
    drop(session);
    logged.end();
}
