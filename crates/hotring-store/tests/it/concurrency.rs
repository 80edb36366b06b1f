//! Several threads on one store, each test with one invariant that any observer may check.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use hotring_store::index::Config;
use hotring_store::{
    ExpireCondition, Options, Session, SetCondition, SetExpiry, SetOptions, Store, ValueRef,
};

use crate::random::Random;

const NOW: u64 = 1_000_000;

/// A store whose table grows from one slot while the test runs.
fn open() -> Store {
    let index = Config { slots_initial: 1, ..Config::default() };
    Store::new(Options { index, ..Options::default() }).unwrap()
}

fn int(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Int(n) => n,
        ValueRef::Hash(_) | ValueRef::List(_) | ValueRef::Set(_) | ValueRef::Scored(_) => {
            panic!("no container was stored")
        }
        ValueRef::Text(text) => panic!("{text:?} is not held as an integer"),
        ValueRef::Bytes(bytes) => panic!("{bytes:?} is not held as an integer"),
    }
}

fn get_int(session: &mut Session, key: &[u8]) -> i64 {
    session.get(key, NOW, int).unwrap()
}

fn set(session: &mut Session, key: &[u8], value: &[u8]) {
    session.set(key, value, SetOptions::default(), NOW).unwrap();
}

/// Runs `workers` while `observer` is called again and again; returns how often it was.
fn observe(workers: &[&(dyn Fn() + Sync)], mut observer: impl FnMut() + Send) -> u64 {
    /// Also stops the others when one panics.
    struct Done<'a>(&'a AtomicU64);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let done = AtomicU64::new(0);
    let mut observations = 0;
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                let _done = Done(&done);
                worker();
            });
        }
        while done.load(Relaxed) < workers.len() as u64 {
            observer();
            observations += 1;
            // It must not keep a processor from the workers.
            std::thread::yield_now();
        }
    });
    observations
}

#[test]
fn value_and_history_change_as_one() {
    let store = Store::new(Options { history: 4, ..Options::default() }).unwrap();
    let count = || {
        let mut session = store.session();
        for _ in 0..10_000 {
            session.incr_by(b"k", 1, NOW).unwrap();
        }
    };
    let expire = || {
        let mut session = store.session();
        for at in NOW + 1..NOW + 5_000 {
            session.expire_at(b"k", at, ExpireCondition::Always, NOW).unwrap();
        }
    };
    // The count begins with 1 at version 1, so that the two stay equal.
    let look = |session: &mut Session| {
        session.history(b"k", NOW, |history| {
            let earlier: Vec<_> = history.earlier().collect();
            for (i, earlier) in earlier.iter().enumerate() {
                assert_eq!(earlier.version, history.version() - 1 - i as u64);
                assert_eq!(earlier.value, earlier.version.to_string().as_bytes());
            }
            assert_eq!(earlier.len() as u64, (history.version() - 1).min(4));
            history.version()
        })
    };
    let (mut session, mut last) = (store.session(), 0);
    observe(&[&count, &count, &expire], || {
        let version = look(&mut session).unwrap_or(0);
        assert!(version >= last);
        last = version;
    });
    assert_eq!(look(&mut session), Some(20_000));
    assert_eq!(get_int(&mut session, b"k"), 20_000);
}

#[test]
fn increments_are_not_lost() {
    let store = open();
    let count = || {
        let mut session = store.session();
        for i in 0..30_000 {
            session.incr_by(if i % 2 == 0 { b"hot" } else { b"too" }, 1, NOW).unwrap();
        }
    };
    let mut session = store.session();
    let mut last = 0;
    observe(&[&count, &count, &count], || {
        let seen = session.get(b"hot", NOW, int).unwrap_or(0);
        assert!(seen >= last);
        last = seen;
    });
    assert_eq!(get_int(&mut session, b"hot") + get_int(&mut session, b"too"), 90_000);
}

#[test]
fn transfers_keep_the_sum() {
    const ACCOUNTS: usize = 5;
    let store = open();
    let names: Vec<String> = (0..ACCOUNTS).map(|i| format!("account {i}")).collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let mut session = store.session();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (*key, &b"100"[..])).collect();
    session.mset(&pairs, NOW).unwrap();
    let transfer = |seed: u64| {
        let mut session = store.session();
        let mut random = Random::new(seed);
        for _ in 0..12_000 {
            let (from, to) = (random.pick(&keys), random.pick(&keys));
            let amount = random.below(20) as i64;
            session.exclusive(&[from, to], |session| {
                session.incr_by(from, -amount, NOW).unwrap();
                session.incr_by(to, amount, NOW).unwrap();
            });
        }
    };
    observe(&[&|| transfer(1), &|| transfer(2)], || {
        let mut sum = 0;
        session.mget(&keys, NOW, |_, value| sum += int(value.unwrap()));
        assert_eq!(sum, 100 * ACCOUNTS as i64);
    });
}

/// Single-key reads see only the states before and after an exclusive closure.
#[test]
fn single_reads_never_see_the_middle_of_an_exclusive_closure() {
    let store = open();
    let mut session = store.session();
    set(&mut session, b"even", b"0");
    let work = || {
        let mut session = store.session();
        for _ in 0..10_000 {
            session.exclusive(&[b"even"], |session| {
                session.incr_by(b"even", 1, NOW).unwrap();
                session.incr_by(b"even", 1, NOW).unwrap();
            });
        }
    };
    observe(&[&work, &work], || assert_eq!(get_int(&mut session, b"even") % 2, 0));
    assert_eq!(get_int(&mut session, b"even"), 40_000);
}

#[test]
fn a_renamed_key_is_always_under_one_name() {
    let store = open();
    let mut session = store.session();
    for value in [&b"7"[..], b"a value of more than a word"] {
        set(&mut session, b"here", value);
        let work = || {
            let mut session = store.session();
            for _ in 0..6_000 {
                // Either may have been renamed by the other thread meanwhile.
                let _ = session.rename(b"here", b"there", NOW);
                let _ = session.rename(b"there", b"here", NOW);
            }
        };
        observe(&[&work, &work], || {
            assert_eq!(session.exists_many(&[b"here", b"there"], NOW), 1);
            let mut seen = Vec::new();
            session.mget(&[b"here", b"there"], NOW, |_, v| seen.extend(v.map(|v| v.to_vec())));
            assert_eq!(seen, [value]);
        });
        session.remove_many(&[b"here", b"there"], NOW);
    }
}

#[test]
fn mset_and_clear_are_all_or_nothing() {
    let store = open();
    let names: Vec<String> = (0..20).map(|i| format!("key {i}")).collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let fill = |value: &'static str| {
        let mut session = store.session();
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (*key, value.as_bytes())).collect();
        for round in 0..2_000 {
            match round % 3 {
                0 => session.mset(&pairs, NOW).unwrap(),
                1 => drop(session.mset_nx(&pairs, NOW)),
                _ if round % 30 == 2 => session.clear(),
                _ => drop(session.remove_many(&keys, NOW)),
            }
        }
    };
    let mut session = store.session();
    observe(&[&|| fill("1"), &|| fill("a value of more than a word")], || {
        let mut seen = Vec::new();
        session.mget(&keys, NOW, |_, value| seen.push(value.map(|value| value.to_vec())));
        assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?}");
        let count = session.exists_many(&keys, NOW);
        assert!(count == 0 || count == keys.len(), "{count}");
    });
}

#[test]
fn mset_nx_lets_one_in() {
    let store = open();
    let inside = AtomicU64::new(0);
    let entered = AtomicU64::new(0);
    let compete = || {
        let mut session = store.session();
        for _ in 0..4_000 {
            if session.mset_nx(&[(b"lock 1", b"me"), (b"lock 2", b"me")], NOW).unwrap() {
                assert_eq!(inside.fetch_add(1, Relaxed), 0, "two at once");
                entered.fetch_add(1, Relaxed);
                inside.fetch_sub(1, Relaxed);
                assert_eq!(session.remove_many(&[b"lock 1", b"lock 2"], NOW), 2);
            }
        }
    };
    observe(&[&compete, &compete, &compete], std::thread::yield_now);
    assert!(entered.load(Relaxed) > 0);
}

#[test]
fn compare_and_set_by_version_loses_nothing() {
    let store = open();
    let mut session = store.session();
    set(&mut session, b"count", b"0");
    let count = || {
        let mut session = store.session();
        let mut wins = 0;
        while wins < 5_000 {
            let version = session.version(b"count", NOW).unwrap().unwrap();
            let next = (get_int(&mut session, b"count") + 1).to_string();
            let condition = SetCondition::IfVersion(version);
            let options = SetOptions { condition, ..SetOptions::default() };
            wins += u32::from(session.set(b"count", next.as_bytes(), options, NOW).unwrap().stored);
        }
    };
    observe(&[&count, &count], std::thread::yield_now);
    assert_eq!(get_int(&mut session, b"count"), 10_000);
}

#[test]
fn appends_are_all_there_in_each_threads_order() {
    let store = open();
    let append = |name: u8| {
        let mut session = store.session();
        for i in 0..400u32 {
            let piece = [name, b'0' + (i % 10) as u8];
            session.append(b"log", &piece, NOW).unwrap();
        }
    };
    let mut session = store.session();
    let mut last = Vec::new();
    observe(&[&|| append(b'a'), &|| append(b'b')], || {
        let log = session.get(b"log", NOW, |value| value.to_vec()).unwrap_or_default();
        assert!(log.starts_with(&last), "what was read stays");
        last = log;
    });
    let log = session.get(b"log", NOW, |value| value.to_vec()).unwrap();
    assert_eq!(log.len(), 1_600);
    for name in [b'a', b'b'] {
        let own: Vec<u8> = log.chunks(2).filter(|p| p[0] == name).map(|p| p[1]).collect();
        assert!(own.iter().zip(b"0123456789".iter().cycle()).all(|(got, want)| got == want));
        assert_eq!(own.len(), 400);
    }
}

#[test]
fn scan_visits_all_permanent_keys() {
    let store = open();
    let mut session = store.session();
    for i in 0..500 {
        set(&mut session, format!("stays {i}").as_bytes(), b"1");
    }
    let churn = |name: &str| {
        let mut session = store.session();
        for i in 0..60_000 {
            let key = format!("{name} {}", i % 3_000);
            match i / 3_000 % 2 {
                0 => set(&mut session, key.as_bytes(), b"v"),
                _ => drop(session.remove(key.as_bytes(), NOW)),
            }
        }
    };
    observe(&[&|| churn("x"), &|| churn("y")], || {
        let (mut stays, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = session.scan(cursor, 20, NOW, |key, _| {
                if key.starts_with(b"stays") {
                    stays.push(key.to_vec());
                }
            });
            if cursor == 0 {
                break;
            }
        }
        let visits = stays.len();
        stays.sort();
        stays.dedup();
        assert_eq!((stays.len(), visits), (500, 500));
    });
}

#[test]
fn expired_keys_are_never_seen_and_are_reclaimed() {
    let store = open();
    let clock = AtomicU64::new(NOW);
    let write = |seed: u64| {
        let mut session = store.session();
        let mut random = Random::new(seed);
        for _ in 0..20_000 {
            let now = clock.load(Relaxed);
            let key = random.below(50).to_string();
            let at = now + random.below(20);
            // The value says when the key must be gone.
            let options = SetOptions { expiry: SetExpiry::At(at), ..SetOptions::default() };
            session.set(key.as_bytes(), at.to_string().as_bytes(), options, now).unwrap();
            session.expire_at(b"other", at, ExpireCondition::IfLater, now).unwrap();
        }
    };
    let reclaim = || {
        let mut session = store.session();
        for _ in 0..20_000 {
            session.expire_due(clock.fetch_add(1, Relaxed), 16, |_, _| {});
        }
    };
    let mut session = store.session();
    let mut random = Random::new(3);
    observe(&[&|| write(1), &|| write(2), &reclaim], || {
        let now = clock.load(Relaxed);
        let key = random.below(50).to_string();
        let at = session.get(key.as_bytes(), now, int);
        assert!(at.is_none_or(|at| at > now as i64), "expired at {at:?}, now {now}");
    });
    let end = clock.load(Relaxed) + 100;
    while session.expire_due(end, 1_000, |_, _| {}).next.is_some() {}
    assert_eq!(store.len(), 0);
}

#[test]
fn sessions_may_come_and_go_and_move() {
    let store = open();
    let mut moved = store.session();
    set(&mut moved, b"a", b"0");
    set(&mut moved, b"b", b"0");
    let short_lived = || {
        for _ in 0..3_000 {
            let mut session = store.session();
            session.exclusive(&[b"a", b"b"], |session| {
                session.incr_by(b"a", 1, NOW).unwrap();
                session.incr_by(b"b", 1, NOW).unwrap();
            });
        }
    };
    let mut moved = Some(moved);
    observe(&[&short_lived, &short_lived], || {
        let mut session = moved.take().unwrap();
        let thread = std::thread::spawn(move || {
            let mut seen = [0; 2];
            session.mget(&[b"a", b"b"], NOW, |i, value| seen[i] = int(value.unwrap()));
            assert_eq!(seen[0], seen[1]);
            session
        });
        moved = Some(thread.join().unwrap());
    });
    assert_eq!(get_int(&mut moved.unwrap(), b"a"), 6_000);
    assert_eq!(store.stats().sessions, 0);
}

/// A reader of all stripes waited for a reservation with its own word still set; an exclusive holder
/// waited for that word, and the one with the reservation for the holder: everything stood still.
#[test]
fn readers_of_everything_exclusive_holders_and_unlucky_writers_all_get_on() {
    let store = Store::new(Options::default()).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(3);
    let (done, finished) = std::sync::mpsc::channel();
    for worker in 0..6usize {
        let (mut session, done) = (store.session(), done.clone());
        // Not scoped: if they stand still the test must still end.
        std::thread::spawn(move || {
            let keys: Vec<String> = (0..100).map(|i| format!("key:{i}")).collect();
            let pairs: Vec<(&[u8], &[u8])> =
                keys.iter().map(|key| (key.as_bytes(), &b"v"[..])).collect();
            while std::time::Instant::now() < deadline {
                match worker % 3 {
                    0 => session.exclusive(&[b"key:1"], |session| {
                        session.remove(b"key:1", NOW);
                    }),
                    1 => {
                        session.scan(0, 10, NOW, |_, _| {});
                    }
                    _ => session.mset(&pairs, NOW).unwrap(),
                }
            }
            done.send(worker).unwrap();
        });
    }
    for _ in 0..6 {
        let patience = std::time::Duration::from_secs(60);
        finished.recv_timeout(patience).expect("no thread stands still");
    }
}

/// While one key is held, reads of all others go on, also of those of its stripe, and who waits for it takes next to no
/// processor time. Whole stripes were held, and threads that met one spun.
#[test]
fn a_held_key_blocks_only_operations_on_it() {
    const HELD_FOR: Duration = Duration::from_millis(300);
    const KEYS: usize = 1_000;
    let store = Store::new(Options::default()).unwrap();
    let mut session = store.session();
    let keys: Vec<String> = (0..KEYS).map(|i| format!("other:{i}")).collect();
    for key in &keys {
        session.set(key.as_bytes(), b"v", SetOptions::default(), 1).unwrap();
    }
    let is_held = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut waiter = store.session();
        let is_held = &is_held;
        session
            .exclusive(&[b"held"], |session| {
                is_held.store(true, Relaxed);
                let waiting = scope.spawn(move || {
                    let before = cpu_time();
                    waiter.exists(b"held", 1);
                    (!is_held.load(Relaxed), cpu_time() - before)
                });
                let readers: Vec<_> = (0..2)
                    .map(|_| {
                        let (mut session, keys) = (store.session(), &keys);
                        scope.spawn(move || {
                            let mut reads = 0;
                            while is_held.load(Relaxed) {
                                session.exists(keys[reads % KEYS].as_bytes(), 1);
                                reads += 1;
                            }
                            reads
                        })
                    })
                    .collect();
                std::thread::sleep(HELD_FOR);
                session.set(b"held", b"v", SetOptions::default(), 1).unwrap();
                is_held.store(false, Relaxed);
                for reader in readers {
                    // It has met all stripes, many times.
                    assert!(reader.join().unwrap() > 5 * KEYS);
                }
                waiting
            })
            .join()
            .map(|(came_after, took)| {
                assert!(came_after, "it has not waited");
                assert!(took < HELD_FOR / 10, "{took:?} of processor time");
            })
            .unwrap();
    });
}

/// Of this thread.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}
