//! Long values: shared instead of copied, kept while any session has them, and gone afterwards.

use hotring_engines::{ChainingHash, GCuckooHash, MercuryHash};
use hotring_index::{
    Action, Block, BlockRef, Buffer, Bytes, Checksum, Config, Engine, Expiry, HotRing, Index,
    LONG_LEN, NewValue, Session, Value,
};
use std::sync::Arc;
use std::thread;

const LEN: usize = LONG_LEN + 1;
const COLLECTS: usize = 100;

fn long(n: u8) -> Vec<u8> {
    (0..LEN).map(|i| (i as u8).wrapping_add(n)).collect()
}

fn put<E: Engine>(session: &mut Session<Bytes, E>, key: &[u8], bytes: &[u8]) {
    session.put(key, NewValue::Bytes { kind: 3, bytes: bytes.into() }, Expiry::Never, 1);
}

fn block<E: Engine>(session: &mut Session<Bytes, E>, key: &[u8]) -> Block {
    let block = session.get(key, 1, |entry| {
        assert_eq!(
            entry.value,
            Value::Bytes { kind: 3, bytes: entry.block().expect("a block").bytes() }
        );
        entry.block().map(BlockRef::to_block)
    });
    block.flatten().expect("a long value")
}

fn collect<E: Engine>(session: &mut Session<Bytes, E>) {
    (0..COLLECTS).for_each(|_| session.collect());
}

fn buffer_of<E: Engine>(index: &Index<Bytes, E>, parts: &[&[u8]]) -> Arc<Buffer> {
    let mut buffer = index.buffer(1).expect("there is memory");
    parts.iter().for_each(|part| buffer.extend(part).expect("there is memory"));
    Arc::new(buffer)
}

/// Everything that makes an item of an item: no copy of the value, nothing left at the end.
fn lives<E: Engine>(index: Index<Bytes, E>) {
    let mut session = index.session();
    let value = long(0);
    put(&mut session, b"key", &value);
    let stats = index.stats();
    let told =
        |session: &mut Session<Bytes, E>| session.get(b"key", 1, |entry| entry.footprint as u64);
    let footprint = told(&mut session).expect("present");
    assert_eq!(stats.bytes, footprint);
    let mine = block(&mut session, b"key");
    assert_eq!(*mine, *value);
    assert!(
        told(&mut session).expect("present") < footprint / 2 + 100,
        "it is shared with a reader"
    );
    assert!((LEN as u64..LEN as u64 + 8192).contains(&footprint), "{stats:?}");

    let is_mine = |other: &Block| other.as_ptr() == mine.as_ptr() && **other == *value;
    session.update(b"key", 1, |_| (Action::Expire(Expiry::At(1000)), ()));
    assert!(is_mine(&block(&mut session, b"key")), "with an expiry");
    session.update(b"key", 1, |_| (Action::Expire(Expiry::Never), ()));
    assert!(is_mine(&block(&mut session, b"key")), "without one");
    session.version(b"key", 1).expect("present");
    assert!(is_mine(&block(&mut session, b"key")), "with a version");
    let again = NewValue::Block { kind: 3, block: mine.clone() };
    session.put(b"other", again, Expiry::At(1000), 1);
    assert!(is_mine(&block(&mut session, b"other")), "under another key");
    collect(&mut session);
    assert!(index.stats().block_bytes < LEN as u64 + 8192, "there is one: {:?}", index.stats());

    assert!(session.remove(b"key", 1) && session.remove(b"other", 1));
    collect(&mut session);
    assert_eq!(*mine, *value, "whoever has it keeps it");
    assert_eq!(index.stats().bytes, index.stats().block_bytes, "but the items are gone");
    drop(mine);
    assert_eq!(index.stats().bytes, 0);

    // The contents when the index is dropped.
    put(&mut session, b"key", &value);
    put(&mut session, b"key", &long(1));
    put(&mut session, b"other", &value);
    session.remove(b"other", 1);
    let mine = block(&mut session, b"key");
    drop((session, index));
    assert_eq!(*mine, *long(1), "beyond the index, too");
}

#[test]
fn long_values_live_as_long_as_anybody_has_them() {
    lives(HotRing::<Bytes>::new(Config::default()).expect("a valid configuration"));
    lives(ChainingHash::<Bytes>::new(Config::default()).expect("a valid configuration"));
    lives(MercuryHash::<Bytes>::new(Config::default()).expect("a valid configuration"));
    lives(GCuckooHash::<Bytes>::new(Config::default()).expect("a valid configuration"));
}

#[test]
fn a_value_is_stored_where_it_arrived() {
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let mut session = index.session();
    let value = long(0);
    let buffer = buffer_of(&index, &[b"before", &value, b"after"]);
    assert_eq!(index.stats().block_bytes, buffer.footprint() as u64);
    let block_of = |from, to| buffer.share(&buffer[from..to]);
    let stored = block_of(6, 6 + LEN).expect("most of it");
    assert_eq!(stored.as_ptr(), buffer[6..].as_ptr());
    session.put(b"key", NewValue::Block { kind: 3, block: stored }, Expiry::Never, 1);
    assert!(block_of(0, LEN / 2).is_none(), "a short part");
    assert!(buffer.share(&value).is_none(), "somebody else's bytes");
    drop(buffer);
    assert_eq!(*block(&mut session, b"key"), *value);
    let part = block(&mut session, b"key");
    assert_eq!(*part.part(&part[10..20]).expect("a part of it"), value[10..20]);
    assert!(part.part(&value[..1]).is_none());

    // A long part, but of a much longer whole.
    let buffer = buffer_of(&index, &[&value, &value]);
    assert!(buffer.share(&buffer[..LEN]).is_none());
}

#[test]
fn a_buffer_grows_with_the_input() {
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let mut buffer = index.buffer(1 << 30).expect("address space");
    assert_eq!(index.stats().bytes, 0, "room is no memory");
    buffer.extend(b"begin").expect("there is room");
    let page = index.stats().bytes;
    assert!((1..=64 << 10).contains(&page), "{page}");
    let mut expected = b"begin".to_vec();
    for n in 0..200u8 {
        let part = vec![n; usize::from(n) * 97];
        buffer.extend(&part).expect("there is memory");
        expected.extend_from_slice(&part);
    }
    assert_eq!(*buffer, *expected);
    assert_eq!(index.stats().bytes as usize, buffer.footprint());
    assert!(buffer.spare(usize::MAX).is_err());
    drop(buffer);
    let mut session = index.session();
    collect(&mut session);
    assert_eq!(index.stats().bytes, 0);
}

#[test]
fn values_with_checksums_stay_inside_of_their_items() {
    let config = Config { checksum: Checksum::Verify, ..Config::default() };
    let index = HotRing::<Bytes>::new(config).expect("a valid configuration");
    let mut session = index.session();
    let value = long(0);
    let buffer = buffer_of(&index, &[&value]);
    let stored = buffer.share(&buffer).expect("all of it");
    session.put(b"key", NewValue::Block { kind: 3, block: stored }, Expiry::Never, 1);
    let found = session.get(b"key", 1, |entry| {
        assert!(entry.block().is_none());
        entry.value == Value::Bytes { kind: 3, bytes: &value }
    });
    assert_eq!(found, Some(true));
}

#[test]
fn the_limit_counts_input_and_no_dead_value_twice() {
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let mut session = index.session();
    index.set_memory_max(index.stats().table_bytes + 2 * LEN as u64);
    let value = long(0);
    put(&mut session, b"key", &value);
    session.admit_bytes(0).expect("one fits");
    let held = block(&mut session, b"key");
    session.remove(b"key", 1);
    put(&mut session, b"key", &value);
    session.admit_bytes(0).expect_err("two do not, though one is somebody's only");
    drop(held);
    session.admit_bytes(0).expect("it is free at once");
    let buffer = buffer_of(&index, &[&value]);
    session.admit_bytes(0).expect_err("a buffer counts");
    drop(buffer);
    session.admit_bytes(0).expect("until it goes");
    session.remove(b"key", 1);
    (0..4).for_each(|_| session.collect());
    index.set_memory_max(index.stats().table_bytes + 20 * LEN as u64);
    put(&mut session, b"key", &vec![1; 15 * LEN]);
    session.remove(b"key", 1);
    session.admit_bytes(15 * LEN).expect("what is free is not in the way, however long it was");
}

/// Readers that keep blocks, and writers that replace, expire and remove: each reader sees one complete
/// value.
#[test]
fn blocks_are_consistent_under_writes() {
    const THREADS: u64 = 3;
    const STEPS: u64 = 300;
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let index = &index;
            scope.spawn(move || {
                let mut session = index.session();
                let mut kept = Vec::new();
                for step in 0..STEPS {
                    let key = &[(step * (thread + 1) % 3) as u8];
                    match (step + thread) % 5 {
                        0 => put(&mut session, key, &vec![step as u8; LEN]),
                        1 => session.update(key, 1, |_| (Action::Expire(Expiry::At(1 << 40)), ())),
                        2 if step % 4 == 0 => _ = session.remove(key, 1),
                        _ => kept.extend(
                            session
                                .get(key, 1, |entry| entry.block().map(BlockRef::to_block))
                                .flatten(),
                        ),
                    }
                    if kept.len() > 4 {
                        let block = kept.remove(0);
                        assert!(block.len() == LEN && block.iter().all(|byte| *byte == block[0]));
                    }
                }
            });
        }
    });
    let mut session = index.session();
    (0..3).for_each(|key| _ = session.remove(&[key], 1));
    collect(&mut session);
    assert_eq!(index.stats().bytes, 0);
}
