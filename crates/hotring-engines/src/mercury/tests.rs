//! Tests with a view inside: a bucket that stays locked, a mover that stops in the middle of one, and
//! changes of state that wait. Nothing depends on time: waits that must happen are observed, and waits that
//! must not happen would hang the test.

use super::chain::Held;
use super::expand::Mover;
use super::*;
use hotring_index::toolkit::{Shared, Stats};
use hotring_index::{Index, U64};
use std::sync::atomic::AtomicBool as Flag;
use std::sync::atomic::Ordering::SeqCst;

const BUCKETS: u64 = 16;
const KEYS: u64 = 256;

fn index<L: Locking>() -> Index<U64, Mercury<L>> {
    let growth = Some(Growth::Fixed);
    let slots_initial = BUCKETS as usize;
    Index::new(Config { growth, slots_initial, ..Config::default() })
        .expect("a valid configuration")
}

/// The same with keys in it.
fn filled<L: Locking>() -> Index<U64, Mercury<L>> {
    let index = index();
    let mut session = index.session();
    (0..KEYS).for_each(|key| assert!(session.insert(key, key)));
    index
}

fn shared<L: Locking>(index: &Index<U64, Mercury<L>>) -> &Shared<U64, Mercury<L>> {
    &index.shared
}

fn lock_waits(stats: &Stats) -> u64 {
    stats.engine.get("lock_waits").expect("it is Mercury")
}

/// The bucket of the table in use that a key hashes to.
fn bucket_of<L: Locking>(index: &Index<U64, Mercury<L>>, key: u64) -> u64 {
    use hotring_index::toolkit::Kind;
    shared(index).kind.hash(&key) & (BUCKETS - 1)
}

fn hold<L: Locking>(index: &Index<U64, Mercury<L>>, bucket: u64) -> Held<'_, L> {
    let engine = &shared(index).engine;
    // SAFETY: the tests change the state in no other thread while they hold a bucket.
    let current = unsafe { engine.tables_unchecked() }.current;
    Held::lock(current.bucket(bucket), &engine.lock_waits)
}

/// Everything that can be done with keys of other buckets than the one that is held.
fn others_go_on<L: Locking>(index: &Index<U64, Mercury<L>>, held: u64) {
    let mut session = index.session();
    let mut others = 0;
    for key in (0..KEYS).filter(|&key| bucket_of(index, key) != held) {
        assert_eq!(session.get(key), Some(key));
        assert!(session.remove(key) && session.insert(key, 7), "a writer goes on");
        assert_eq!(session.replace(key, 1 << 63 | key), Some(7));
        assert_eq!(session.replace(key, key), Some(1 << 63 | key));
        others += 1;
    }
    assert!(others > KEYS / 2, "there are others");
    // And a scan up to that bucket, and from behind it.
    let position = held.reverse_bits();
    let end = position.wrapping_add(1 << 60);
    let (mut cursor, mut seen) = (0, 0);
    while cursor < position {
        cursor = session.scan(cursor, 1, |_, _| seen += 1);
    }
    cursor = end;
    while cursor != 0 {
        cursor = session.scan(cursor, 1, |_, _| seen += 1);
    }
    assert_eq!(seen, others, "a scan goes on");
}

/// A reader of the bucket that is held waits, and has its answer when the bucket is free.
fn its_reader_waits<L: Locking>(index: &Index<U64, Mercury<L>>, held: Held<'_, L>, bucket: u64) {
    let key = (0..KEYS).find(|&key| bucket_of(index, key) == bucket).expect("16 keys a bucket");
    let (before, done) = (lock_waits(&index.stats()), Flag::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(index.session().get(key), Some(key));
            done.store(true, SeqCst);
        });
        while lock_waits(&index.stats()) == before {
            std::thread::yield_now();
        }
        assert!(!done.load(SeqCst), "the lock locks");
        drop(held);
    });
    assert!(done.load(SeqCst));
}

fn a_held_bucket_blocks_no_other_bucket<L: Locking>() {
    let index = filled::<L>();
    for bucket in [0, 5, BUCKETS - 1] {
        let held = hold(&index, bucket);
        others_go_on(&index, bucket);
        its_reader_waits(&index, held, bucket);
    }
}

#[test]
fn a_held_bucket_blocks_no_other_bucket_with_test_and_set() {
    a_held_bucket_blocks_no_other_bucket::<TestAndSet>();
}

#[test]
fn a_held_bucket_blocks_no_other_bucket_with_a_mutex() {
    a_held_bucket_blocks_no_other_bucket::<OsMutex>();
}

/// The mover is stopped in the middle of a bucket: its items are on their way, the lock is taken.
fn a_moving_bucket_blocks_no_other_bucket<L: Locking>() {
    for bucket in [0, 5, BUCKETS - 1] {
        let index = filled::<L>();
        assert!(index.session().grow());
        let mut mover = Mover::take(shared(&index)).expect("nobody moves");
        let held = mover.stop_in(bucket);
        others_go_on(&index, bucket);
        its_reader_waits(&index, held, bucket);
        drop(mover);
        let mut session = index.session();
        while shared(&index).engine.expansion.waits_for_sessions() {
            session.collect();
        }
        let expansions = index.stats().engine.get("expansions").expect("it is Mercury");
        assert_eq!((expansions, index.stats().slots), (1, 2 * BUCKETS));
        (0..KEYS).for_each(|key| assert_eq!(session.get(key), Some(key)));
    }
}

#[test]
fn a_moving_bucket_blocks_no_other_bucket_with_test_and_set() {
    a_moving_bucket_blocks_no_other_bucket::<TestAndSet>();
}

#[test]
fn a_moving_bucket_blocks_no_other_bucket_with_a_mutex() {
    a_moving_bucket_blocks_no_other_bucket::<OsMutex>();
}

/// A session inside of an operation holds up a change of state, and that holds up sessions that begin one.
/// A scan in its caller's closure, a deciding update, and a session at rest do not.
#[test]
fn a_change_of_state_waits_for_operations_and_for_nothing_else() {
    let index = filled::<TestAndSet>();
    let mut scanning = index.session();
    let _at_rest = index.session();
    let mut grown = 0;
    scanning.scan(0, usize::MAX, |_, _| {
        let mut other = index.session();
        grown += u64::from(grown < 6 && other.grow());
        while shared(&index).engine.expansion.waits_for_sessions() {
            other.collect();
        }
    });
    assert_eq!(grown, 6, "the table doubles while a scan is under way");
    let workers = &shared(&index).engine.workers;
    let worker = workers.join::<TestAndSet>().expect("any number of them");
    let (inside, changed) = (worker.enter(), Flag::new(false));
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| workers.stop_all(|| changed.store(true, SeqCst)));
        while !workers.is_stopping() {
            std::thread::yield_now();
        }
        assert!(!changed.load(SeqCst), "it waits for who is inside");
        drop(inside);
        changing.join().expect("no panic");
    });
    assert!(changed.load(SeqCst));
}

/// Tables come and go at the same time as sessions, which must neither be missed by a change of state
/// nor stop it for ever.
#[test]
fn sessions_come_and_go_while_the_state_changes() {
    let index = index::<TestAndSet>();
    let done = Flag::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (index, done) = (&index, &done);
            scope.spawn(move || {
                let mut turn = 0;
                while turn < 400 || !done.load(SeqCst) {
                    let mut session = index.session();
                    let key = turn % 100 * 3 + thread;
                    assert_eq!(session.put(key, turn), turn >= 100, "key {key}, turn {turn}");
                    assert_eq!(session.get(key), Some(turn));
                    turn += 1;
                }
            });
        }
        let mut session = index.session();
        for _ in 0..12 {
            while !session.grow() {
                session.collect();
            }
        }
        done.store(true, SeqCst);
    });
    assert!(index.stats().slots >= BUCKETS << 11, "all but the last one are over");
    assert_eq!(index.len(), 300);
}
