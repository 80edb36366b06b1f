//! A session that stays pinned: the memory that waits for it is bounded for sessions that ask, it is named,
//! and everything proceeds when it does. One thread is enough: the other sessions work in its callback.

use hotring_index::{
    Bytes, Config, Expiry, HotRing, HotRingSession, NewValue, Refused, Stalled, U64,
};

const LIMIT: u64 = 2 << 20;
const KEYS: u64 = 64;
/// Bytes that one session may retire before it looks: see `limbo.rs`.
const SLACK: u64 = 256 << 10;
/// Bytes of an item here, header and key included; two of them are more than an operation takes.
const ITEM: u64 = 136;

fn index() -> HotRing<Bytes> {
    let config = Config { limbo_max: LIMIT, slots_max: 1 << 16, ..Config::default() };
    HotRing::new(config).expect("a valid configuration")
}

fn put(session: &mut HotRingSession<Bytes>, key: u64) -> Result<(), Box<Stalled>> {
    session.admit().map_err(|refused| match refused {
        Refused::Stalled(stalled) => stalled,
        Refused::Full(full) => panic!("there is no limit of memory: {full}"),
    })?;
    let value = NewValue::Bytes { kind: 0, bytes: (&[7; 100]).into() };
    session.put(&(key % KEYS).to_le_bytes(), value, Expiry::Never, 1);
    Ok(())
}

/// Overwrites until that is refused; returns how often it was not, and why it was.
fn put_until_refused(session: &mut HotRingSession<Bytes>) -> (u64, Box<Stalled>) {
    // Far more than any limit here lets through.
    for i in 0..1_000_000 {
        if let Err(stalled) = put(session, i) {
            return (i, stalled);
        }
    }
    panic!("never refused");
}

#[test]
fn writes_are_refused_at_the_limit_and_admitted_when_the_reader_ends() {
    let index = index();
    let mut reader = index.session_named("slow reader");
    let mut writer = index.session_named("writer");
    (0..KEYS).for_each(|key| put(&mut writer, key).expect("nobody is stalled"));
    let live = index.stats().bytes;
    let ran = reader.get(&0u64.to_le_bytes(), 1, |_| {
        assert_eq!(index.stalled(), None, "it has only just begun");
        let (_, stalled) = put_until_refused(&mut writer);
        assert_eq!((stalled.session.as_str(), stalled.limbo_max), ("slow reader", LIMIT));
        assert!(stalled.limbo_bytes > LIMIT && stalled.held_bytes > LIMIT / 2, "{stalled:?}");
        let said = stalled.to_string();
        assert!(said.contains("'slow reader'") && said.contains("limit 2097152"), "{said}");
        let full = index.stats();
        assert!(full.limbo_bytes <= LIMIT + SLACK + 2 * ITEM, "{full:?}");
        assert!(full.bytes <= live + LIMIT + SLACK + 2 * ITEM, "{full:?}");
        for i in 0..10_000 {
            assert!(put(&mut writer, i).is_err(), "refused once and then admitted");
        }
        assert_eq!(index.stats().bytes, full.bytes, "refused writes take nothing");
        assert!(index.stalled().is_some_and(|now| now.refused_advances >= 10_000));
        // The rest goes on, and moves memory from one side to the other only.
        assert!(writer.get(&1u64.to_le_bytes(), 1, |entry| entry.key.len()).is_some());
        (0..KEYS).for_each(|key| assert!(writer.remove(&key.to_le_bytes(), 1)));
        assert_eq!((index.len(), index.stats().bytes), (0, full.bytes));
    });
    assert!(ran.is_some());
    assert_eq!(index.stalled(), None);
    for i in 0..100_000 {
        assert_eq!(put(&mut writer, i), Ok(()), "write {i} after the reader's end");
    }
    let after = index.stats();
    assert!(after.limbo_bytes <= 4 * SLACK, "{after:?}");
}

#[test]
fn short_sessions_do_not_slip_through() {
    let index = index();
    let mut reader = index.session_named("slow reader");
    put(&mut index.session(), 0).expect("nobody is stalled");
    let mut written = 0;
    reader.get(&0u64.to_le_bytes(), 1, |_| {
        let mut refused = 0;
        while refused < 100 {
            // So little in each that none of them would look for itself.
            let mut session = index.session();
            for i in 0..50 {
                written += 1;
                assert!(written < 1_000_000, "never refused");
                refused += u64::from(put(&mut session, i).is_err());
            }
        }
        let stats = index.stats();
        assert!(stats.limbo_bytes <= LIMIT + SLACK, "{stats:?}");
    });
    let mut session = index.session();
    (0..20_000).for_each(|i| put(&mut session, i).expect("nobody is stalled any more"));
    assert!(index.stats().limbo_bytes <= LIMIT / 2 + SLACK, "{:?}", index.stats());
}

#[test]
fn no_session_waits_for_an_idle_one() {
    let index = index();
    let mut reader = index.session_named("slow reader");
    let (mut first, mut second) = (index.session(), index.session());
    (0..KEYS).for_each(|key| put(&mut first, key).expect("nobody is stalled"));
    reader.get(&0u64.to_le_bytes(), 1, |_| {
        put_until_refused(&mut first);
        assert!(put(&mut second, 0).is_err(), "the limit is everybody's");
    });
    // `first` stays open and does nothing more.
    (0..20_000).for_each(|i| put(&mut second, i).expect("the second one frees it all"));
    assert!(index.stats().limbo_bytes <= LIMIT / 2 + 2 * SLACK, "{:?}", index.stats());
    drop(first);
}

#[test]
fn readers_alone_free_waiting_memory() {
    let index = index();
    let mut reader = index.session();
    let mut writer = index.session();
    (0..KEYS).for_each(|key| put(&mut writer, key).expect("nobody is stalled"));
    reader.get(&0u64.to_le_bytes(), 1, |_| drop(put_until_refused(&mut writer)));
    for _ in 0..100_000 {
        reader.get(&0u64.to_le_bytes(), 1, |_| ());
    }
    assert!(index.stats().limbo_bytes <= LIMIT / 2, "{:?}", index.stats());
}

#[test]
fn a_backlog_is_not_blamed_on_a_short_pin() {
    let index = index();
    let (mut reader, mut writer) = (index.session(), index.session());
    let many = 20 * LIMIT / ITEM;
    let value = || NewValue::Bytes { kind: 0, bytes: (&[7; 100]).into() };
    for key in 0..many {
        writer.put(&key.to_le_bytes(), value(), Expiry::Never, 1);
    }
    // One epoch for all of it, so that all of it is waiting at once.
    reader.get(&0u64.to_le_bytes(), 1, |_| {
        (1..many).for_each(|key| assert!(writer.remove(&key.to_le_bytes(), 1)));
        assert!(writer.admit().is_err(), "here somebody is to blame");
    });
    assert_eq!(writer.admit(), Ok(()));
    let mut pins = 0;
    while index.stats().limbo_bytes > LIMIT {
        pins += 1;
        assert!(pins < many, "the backlog does not get smaller");
        let admitted = reader.get(&0u64.to_le_bytes(), 1, |_| put(&mut writer, 0));
        assert_eq!(admitted, Some(Ok(())), "refused for pin {pins}");
    }
    assert!(pins > 1, "there was no backlog");
}

#[test]
fn the_limit_can_be_changed_and_lifted() {
    let index = index();
    index.set_limbo_max(u64::MAX);
    assert_eq!(index.stats().limbo_max, u64::MAX);
    let mut reader = index.session();
    let mut writer = index.session();
    (0..KEYS).for_each(|key| put(&mut writer, key).expect("nobody is stalled"));
    reader.get(&0u64.to_le_bytes(), 1, |_| {
        for i in 0..10 * LIMIT / ITEM {
            assert_eq!(put(&mut writer, i), Ok(()), "there is no limit");
        }
        index.set_limbo_max(LIMIT);
        let (more, stalled) = put_until_refused(&mut writer);
        assert!(more <= 256 + 1, "{more} writes until the new limit was seen");
        assert_eq!(stalled.session, "session 0", "an unnamed one goes by its number");
        index.set_limbo_max(20 * LIMIT);
        assert_eq!(put(&mut writer, 0), Ok(()));
    });
}

#[test]
fn words_are_bounded_as_well() {
    let config = Config { limbo_max: 1 << 20, ..Config::default() };
    let index: HotRing<U64> = HotRing::new(config).expect("a valid configuration");
    let mut reader = index.session();
    let mut writer = index.session();
    writer.insert(KEYS, 1);
    let mut refused = false;
    // The only callback that a u64 session has.
    reader.scan(0, 1, |_, _| {
        for i in 0..1_000_000 {
            refused = writer.admit().is_err();
            if refused {
                break;
            }
            writer.insert(i % KEYS, i);
            writer.remove(i % KEYS);
        }
        let stats = index.stats();
        assert!(stats.limbo_bytes <= (1 << 20) + SLACK, "{stats:?}");
    });
    assert!(refused);
    assert_eq!(writer.admit(), Ok(()));
}

/// The blame once compared limbo with its size when the epoch last moved. A backlog of that moment, freed
/// under the pin, allowed as much growth again.
#[test]
fn a_backlog_that_is_freed_under_a_pin_makes_no_room() {
    let index = index();
    let (mut reader, mut writer) = (index.session_named("slow reader"), index.session());
    let many = 20 * LIMIT / ITEM;
    for key in 0..many {
        let value = NewValue::Bytes { kind: 0, bytes: (&[7; 100]).into() };
        writer.put(&key.to_le_bytes(), value, Expiry::Never, 1);
    }
    reader.get(&0u64.to_le_bytes(), 1, |_| {
        (KEYS..many).for_each(|key| assert!(writer.remove(&key.to_le_bytes(), 1)));
    });
    // Three epochs later all of it may go, and little has.
    (0..3).for_each(|_| writer.collect());
    let backlog = index.stats().limbo_bytes;
    assert!(backlog > 10 * LIMIT, "{backlog} bytes are no backlog");
    reader.get(&0u64.to_le_bytes(), 1, |_| {
        let (writes, stalled) = put_until_refused(&mut writer);
        assert!(writes > 1000, "{writes} writes while there was room");
        assert!(stalled.limbo_bytes <= LIMIT + SLACK + 2 * ITEM, "{stalled:?}");
    });
}
