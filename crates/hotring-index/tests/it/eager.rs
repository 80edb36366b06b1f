//! Work that sessions do for a table ahead of its use.

use hotring_index::{Config, Engine, Growth, Index, Ring, Session, Stats, U64};

const KEYS: u64 = 3_000;
/// Before the doubling.
const SLOTS: usize = 512;

fn loaded<const H: usize>(period: Option<u32>) -> Index<U64, Ring<H>> {
    let growth = Some(Growth::Fixed);
    let config =
        Config { huge_pages: false, slots_initial: SLOTS, growth, period, ..Config::default() };
    let index = Index::new(config).expect("a valid configuration");
    let mut session = index.session();
    (0..KEYS).for_each(|key| assert!(session.insert(key, key)));
    // A doubling that only the following operations could have caused.
    session.grow();
    index
}

/// Slots whose buckets are there, and all.
fn slots(stats: &Stats) -> (u64, u64) {
    (stats.engine.get("slots_split").expect("a ring"), stats.slots)
}

fn read_one_key<E: Engine>(session: &mut Session<U64, E>, times: u64) {
    (0..times).for_each(|_| assert_eq!(session.get(1), Some(1)));
}

fn is_split_by_reads_of_one_key<const H: usize>() {
    let index = loaded::<H>(Some(32));
    let (split, all) = slots(&index.stats());
    assert!(split <= all / 2 + 1, "{split} of {all} slots after a doubling");
    let mut session = index.session();
    // Every 32nd access sees to two buckets; half of them are to come.
    read_one_key(&mut session, 32 * all / 2);
    assert_eq!(slots(&index.stats()), (all, all));
    (0..KEYS).for_each(|key| assert_eq!(session.get(key), Some(key)));
}

#[test]
fn a_doubled_table_is_split_ahead_of_its_use() {
    is_split_by_reads_of_one_key::<1>();
    is_split_by_reads_of_one_key::<3>();
    is_split_by_reads_of_one_key::<7>();
}

#[test]
fn inserts_alone_split_ahead_too() {
    let index = loaded::<7>(None);
    let (_, all) = slots(&index.stats());
    let mut session = index.session();
    // Two inserts for each bucket that is to come.
    (0..all).for_each(|key| assert!(session.insert(KEYS + key, key)));
    let (split, now) = slots(&index.stats());
    assert!(split >= all && now >= all, "{split} of {now} slots, {all} before");
}

#[test]
fn first_misses_are_answered_by_complete_lines() {
    // Every access counts, and sees to two buckets or lines.
    let index = loaded::<7>(Some(1));
    let (_, slots) = slots(&index.stats());
    let mut session = index.session();
    for _ in 0..slots {
        read_one_key(&mut session, 1);
        // Removed items move the epochs on.
        session.put(u64::MAX, 1);
        session.remove(u64::MAX);
    }
    let before = index.stats();
    for absent in KEYS..KEYS + slots {
        assert_eq!(session.get(absent), None);
    }
    let after = index.stats();
    assert_eq!(after.lookups_sampled - before.lookups_sampled, slots);
    let visits = after.visits_sampled - before.visits_sampled;
    // Without that each line's first miss walks, past two items on average.
    assert!(visits * 2 < slots, "{visits} items visited by {slots} misses");
}

#[test]
fn a_table_that_waits_for_keys_is_not_touched() {
    let config = Config { huge_pages: false, growth: Some(Growth::Fixed), ..Config::default() };
    let index: Index<U64, Ring<7>> = Index::new(config).expect("a valid configuration");
    let mut session = index.session();
    assert!(session.insert(1, 1));
    (0..10).for_each(|_| assert!(session.grow()));
    read_one_key(&mut session, 100_000);
    let (split, all) = slots(&index.stats());
    assert!(split < 40 && all > 1_000, "{split} of {all} slots for one key");
}
