//! The threads of an applier: how much they keep waiting, and how they end; and what else may write a replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hotring_log::storage::Memory;
use hotring_store::{
    Applier, ApplyError, EvictionOptions, EvictionPolicy, Fault, Options, Role, SetOptions, Store,
    StoreError,
};

use super::logged::{Logged, NOW};
use super::replica::{groups, stream};

const VALUE_LEN: usize = 100_000;

/// Groups of one batch each, which sets keys of all lanes.
fn batches(count: usize) -> Vec<Arc<Vec<u8>>> {
    let storage = Memory::new();
    let logged = Logged::new(Options::default(), Fault::None, &storage);
    let (mut session, value) = (logged.store.session(), vec![7; VALUE_LEN]);
    for _ in 0..count {
        let keys: Vec<String> = (0..8).map(|n| format!("key {n}")).collect();
        let pairs: Vec<_> = keys.iter().map(|key| (key.as_bytes(), &value[..])).collect();
        session.mset(&pairs, NOW).expect("room");
    }
    drop(session);
    logged.end();
    groups(&stream(&storage), || 1)
}

/// Waits until a number stays the same for a while.
fn settled(count: &AtomicUsize) -> usize {
    let (mut last, mut since) = (count.load(Relaxed), Instant::now());
    while since.elapsed() < Duration::from_millis(300) {
        std::thread::sleep(Duration::from_millis(5));
        let now = count.load(Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

#[test]
fn batches_that_wait_for_all_lanes_are_limited_too() {
    let batches = batches(60);
    let store = Store::new(Options::default()).expect("it fits");
    store.session().switch_role(Role::Replica, NOW);
    let (mut applier, workers) = Applier::new(&store, 0, 3);
    let taken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (taken, batches) = (&taken, &batches);
        let applying = scope.spawn(move || {
            for batch in batches {
                applier.apply(batch, NOW).expect("it follows");
                taken.fetch_add(1, Relaxed);
            }
            applier.settle().expect("all forms are known");
        });
        // No worker has begun.
        let count = settled(taken);
        for worker in workers {
            scope.spawn(move || worker.run(|session| drop(session.take_effects())));
        }
        applying.join().expect("it does not panic");
        assert!(count * 8 * VALUE_LEN < 12 << 20, "{count} batches wait");
    });
    assert_eq!(store.applied(), 60 * 8);
}

/// The store may become a primary once there is no applier.
#[test]
fn an_applier_is_not_gone_before_all_is_applied() {
    let batches = batches(6);
    let store = Store::new(Options::default()).expect("it fits");
    store.session().switch_role(Role::Replica, NOW);
    let (mut applier, workers) = Applier::new(&store, 0, 2);
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || worker.run(|session| drop(session.take_effects())));
        }
        let gone = store.session().exclusive(&[b"key 1"], |_| {
            for batch in &batches {
                applier.apply(batch, NOW).expect("it follows");
            }
            let gone = scope.spawn(move || drop(applier));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!gone.is_finished(), "a key is held, so most is not applied");
            gone
        });
        gone.join().expect("it does not panic");
        assert_eq!(store.applied(), 6 * 8);
    });
}

#[test]
fn a_worker_that_ends_early_ends_the_applier() {
    let batches = batches(40);
    let store = Store::new(Options::default()).expect("it fits");
    store.session().switch_role(Role::Replica, NOW);
    let (mut applier, mut workers) = Applier::new(&store, 0, 3);
    std::thread::scope(|scope| {
        drop(workers.pop());
        for worker in workers {
            scope.spawn(move || worker.run(|session| drop(session.take_effects())));
        }
        let done = batches.iter().try_for_each(|batch| applier.apply(batch, NOW).map(drop));
        assert_eq!(done.and_then(|()| applier.settle()), Err(ApplyError::Worker));
        drop(applier);
    });
    assert_eq!(store.applied(), 0);
}

/// What a session stores for a primary of another kind counts, and nothing is evicted for it.
#[test]
fn a_session_that_follows_is_within_the_memory_limit() {
    let store = Store::new(Options::default()).expect("it fits");
    let policy =
        EvictionOptions { policy: EvictionPolicy::AllKeysRandom, ..EvictionOptions::default() };
    store.set_eviction(policy).expect("the index can note that");
    let mut session = store.session();
    session.set(b"first", b"1", SetOptions::default(), NOW).expect("room");
    session.switch_role(Role::Replica, NOW);
    session.follow_foreign();
    store.set_memory_max(store.stats().index.used_bytes() + (1 << 20));
    let value = vec![7; 10_000];
    let mut stored = 0;
    let refused = loop {
        let key = format!("key {stored}");
        match session.set(key.as_bytes(), &value, SetOptions::default(), 0) {
            Ok(_) if stored < 1_000 => stored += 1,
            other => break other,
        }
    };
    assert!(matches!(refused, Err(StoreError::OutOfMemory(_))), "{stored} stored: {refused:?}");
    assert_eq!(store.len(), stored + 1, "nothing was evicted");
}
