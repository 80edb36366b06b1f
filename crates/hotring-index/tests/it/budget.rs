//! The limit of all memory: it holds, it names the reason, and removals lift it.

use hotring_engines::EngineChoice;
use hotring_index::{AnyIndex, AnySession, Config, Expiry, NewValue, Refused};

const MAX: u64 = 4 << 20;
/// The permitted excess of one session: the bytes between two checks, and one operation.
const SLACK: u64 = (16 << 10) + 1_000;

fn index(engine: EngineChoice) -> AnyIndex {
    let index = engine.open(Config { slots_max: 1 << 18, ..Config::default() });
    let index = index.expect("a valid configuration");
    index.set_memory_max(MAX);
    index
}

fn put(session: &mut AnySession, key: u64) -> Result<(), Refused> {
    session.admit()?;
    let value = NewValue::Bytes { kind: 0, bytes: (&[7; 100]).into() };
    session.put(&key.to_le_bytes(), value, Expiry::Never, 1);
    Ok(())
}

/// Puts keys from `from` on until that is refused; how many it was.
fn fill(session: &mut AnySession, from: u64) -> u64 {
    let n = (from..from + 1_000_000).position(|key| put(session, key).is_err());
    n.expect("never refused") as u64
}

#[test]
fn commands_that_take_memory_are_refused_at_the_limit() {
    for &engine in EngineChoice::ALL {
        let index = index(engine);
        let mut session = index.try_session(None).expect("the first session");
        let n = fill(&mut session, 0);
        let full = index.stats();
        let used = full.used_bytes();
        assert!(MAX < used && used <= MAX + SLACK, "{engine:?}: {used} bytes are used");
        assert_eq!((full.items, full.memory_max), (n, MAX));
        for key in 0..1_000 {
            let refused = put(&mut session, key).expect_err("it was refused before");
            let Refused::Full(said) = refused else { panic!("{engine:?}: {refused}") };
            assert_eq!((said.used_bytes, said.max), (used, MAX));
        }
        assert_eq!(index.stats(), full, "refused writes take nothing");
        assert!((0..n).all(|key| session.get(&key.to_le_bytes(), 1, |_| ()).is_some()));
        // A removal admits as much again, at once.
        (0..1_000u64).for_each(|key| assert!(session.remove(&key.to_le_bytes(), 1)));
        let again = fill(&mut session, 2_000_000);
        assert!((800..=1_200).contains(&again), "{engine:?}: {again} after 1,000 removals");
        // And a higher limit.
        index.set_memory_max(MAX + (1 << 20));
        // Of which a table that doubles at this moment takes a part.
        assert!(fill(&mut session, 3_000_000) > 1_000, "{engine:?}");
        index.set_memory_max(u64::MAX);
        (4_000_000..4_100_000).for_each(|key| put(&mut session, key).expect("there is no limit"));
    }
}

/// Overwritten memory becomes free in time, with every engine.
#[test]
fn overwriting_at_the_limit_goes_on() {
    const KEYS: u64 = 5_000;
    for &engine in EngineChoice::ALL {
        let index = index(engine);
        let mut session = index.try_session(None).expect("the first session");
        (0..KEYS).for_each(|key| put(&mut session, key).expect("there is room"));
        // Half as much again as they take.
        index.set_memory_max(index.stats().used_bytes() + KEYS * 70);
        for i in 0..200_000 {
            let written = put(&mut session, i * 7_919 % KEYS);
            assert_eq!(written, Ok(()), "{engine:?}: the overwriting {i}");
        }
        assert!(index.stats().used_bytes() <= index.stats().memory_max + SLACK, "{engine:?}");
    }
}

#[test]
fn external_memory_counts() {
    let index = index(EngineChoice::default());
    let mut session = index.try_session(None).expect("the first session");
    let alone = fill(&mut session, 0);
    (0..alone).for_each(|key| assert!(session.remove(&key.to_le_bytes(), 1)));
    index.set_external_memory(MAX / 2);
    let beside = fill(&mut session, 0);
    assert!(beside < alone * 6 / 10, "{beside} of {alone}");
    let used = index.stats().used_bytes();
    assert!(MAX < used && used <= MAX + SLACK, "{used} bytes are used");
}

#[test]
fn a_long_value_is_refused_before_it_takes_anything() {
    let index = index(EngineChoice::default());
    let mut session = index.try_session(None).expect("the first session");
    assert_eq!(session.admit_bytes(MAX as usize / 2), Ok(()));
    let refused = session.admit_bytes(MAX as usize).expect_err("more than there is");
    assert!(refused.to_string().ends_with("the limit is 4194304"), "{refused}");
    assert_eq!(session.admit(), Ok(()), "others are not refused for it");
}

#[test]
fn sessions_that_write_at_once_stay_near_the_limit() {
    const SESSIONS: u64 = 4;
    let index = index(EngineChoice::default());
    std::thread::scope(|scope| {
        for i in 0..SESSIONS {
            let mut session = index.try_session(None).expect("as many as one wants");
            scope.spawn(move || fill(&mut session, i << 32));
        }
    });
    let used = index.stats().used_bytes();
    assert!(MAX < used && used <= MAX + SESSIONS * SLACK, "{used} bytes are used");
}

/// After random removals, items of another length took new memory beside the free blocks.
#[test]
fn free_memory_between_items_counts_above_its_allowance() {
    const MAX: u64 = 32 << 20;
    const SPARE: u64 = 2 << 20;
    const CHUNK: u64 = 2 << 20;
    let index = index(EngineChoice::HotRing);
    index.set_memory_max(MAX);
    index.set_memory_spare(SPARE);
    let mut session = index.try_session(None).expect("the first session");
    for (round, len) in [100, 300, 1_000, 3_000, 9_000].into_iter().enumerate() {
        let key = |n: u64| ((round as u64) << 32 | n).to_le_bytes();
        let bytes = vec![7; len];
        let mut puts = 0..;
        let n = puts
            .find(|&n| {
                let value = NewValue::Bytes { kind: 0, bytes: (&bytes[..]).into() };
                session.admit().map(|()| session.put(&key(n), value, Expiry::Never, 1)).is_err()
            })
            .expect("never refused");
        let stats = index.stats();
        let held = stats.held_bytes + stats.table_bytes;
        assert!(held <= MAX + SPARE + 2 * CHUNK, "values of {len} bytes: {stats:?}");
        assert!(stats.used_bytes() > MAX / 2, "values of {len} bytes: {stats:?}");
        (0..n).filter(|n| n % 10 != 0).for_each(|n| assert!(session.remove(&key(n), 1)));
        session.collect();
    }
}
