//! Tests of snapshots: they are read as written, damage is noticed, and replaced files are removed.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::log::{AckWhen, Log};
use crate::record::{Effect, Records};
use crate::recover::{Recovered, recover};
use crate::storage::memory::Step;
use crate::storage::{Memory, Storage};
use crate::writer::{Options, Writer};

const ID: Id = [3; 16];

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Effect<'a> {
    Effect::Put { key, form: 2, expire_at: Some(7), value }
}

/// A snapshot of three blocks in two classes.
fn written(storage: &Memory) -> Finished {
    let mut writer = SnapshotWriter::create(Arc::new(storage.clone()), ID, 40).unwrap();
    writer.push(&put(b"hot", b"1"));
    writer.set_class(ALL).unwrap();
    writer.push(&put(b"hot", b"2"));
    writer.push(&Effect::Pin { key: b"hot" });
    writer.write_block().unwrap();
    writer.push(&Effect::Put { key: b"", form: 0x80, expire_at: None, value: b"12345678" });
    writer.finish(45).unwrap()
}

type Item = (Vec<u8>, String);

fn all(snapshot: &Snapshot) -> Result<Vec<Item>, SnapshotError> {
    let (mut items, mut buffer) = (Vec::new(), Vec::new());
    let mut note = |effects: &[Effect<'_>]| {
        for effect in effects {
            let key = match effect {
                Effect::Put { key, .. } | Effect::Pin { key } => key.to_vec(),
                _ => Vec::new(),
            };
            items.push((key, format!("{effect:?}")));
        }
    };
    while snapshot.read_block(ALL, &mut buffer, &mut note)?.is_some() {}
    Ok(items)
}

#[test]
fn a_snapshot_is_read_as_written() {
    let storage = Memory::new();
    let finished = written(&storage);
    assert!(Snapshot::newest(&storage).unwrap().is_none(), "it does not count yet");
    assert_eq!((finished.end(), finished.items()), (45, 4));
    let len = finished.len();
    finished.publish(45).unwrap();
    assert_eq!(storage.list().unwrap(), [names::snapshot(40)]);
    let snapshot = Snapshot::newest(&storage).unwrap().unwrap();
    assert_eq!((snapshot.id(), snapshot.after(), snapshot.end()), (ID, 40, 45));
    assert_eq!((snapshot.items(), snapshot.len()), (4, len));
    let items = all(&snapshot).unwrap();
    let keys: Vec<&[u8]> = items.iter().map(|(key, _)| &key[..]).collect();
    assert_eq!(keys, [&b"hot"[..], b"hot", b"hot", b""]);
    assert_eq!(items[0].1, format!("{:?}", put(b"hot", b"1")));
}

#[test]
fn each_changed_bit_and_each_cut_is_noticed() {
    let storage = Memory::new();
    written(&storage).publish(45).unwrap();
    let bytes = storage.content(&names::snapshot(40)).unwrap();
    let fails = |content: &[u8]| {
        let changed = Memory::new();
        changed.set_content(&names::snapshot(40), content);
        match Snapshot::newest(&changed) {
            Err(_) => true,
            Ok(snapshot) => all(&snapshot.unwrap()).is_err(),
        }
    };
    assert!(!fails(&bytes));
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(fails(&changed), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(fails(&bytes[..len]), "{len} bytes");
    }
    let longer = [&bytes[..], b"\0"].concat();
    assert!(fails(&longer));
}

#[test]
fn a_later_format_differs_from_damage() {
    let storage = Memory::new();
    written(&storage).publish(45).unwrap();
    let mut bytes = storage.content(&names::snapshot(40)).unwrap();
    bytes[8] = 9;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    storage.set_content(&names::snapshot(40), &bytes);
    let error = Snapshot::newest(&storage).err().unwrap();
    assert!(matches!(error, SnapshotError::Format { format: 9, .. }), "{error}");
}

#[test]
fn an_unfinished_snapshot_is_removed() {
    let storage = Memory::new();
    drop(SnapshotWriter::create(Arc::new(storage.clone()), ID, 1).unwrap());
    drop(written(&storage));
    assert!(storage.list().unwrap().is_empty());
    // After a crash.
    storage.set_content(&names::unfinished_snapshot(9), b"x");
    storage.set_content("other.tmp", b"x");
    assert_eq!(clean(&storage).unwrap(), 1);
    assert_eq!(storage.list().unwrap(), ["other.tmp"]);
}

#[test]
#[should_panic = "needs the log up to 45"]
fn the_log_comes_first() {
    let _ = written(&Memory::new()).publish(44);
}

#[test]
fn only_unneeded_segments_are_removed() {
    let storage = Memory::new();
    let log = |first| names::segment(first);
    for first in [1, 20, 41, 60] {
        storage.set_content(&log(first), b"x");
    }
    storage.set_content(&names::snapshot(10), b"x");
    storage.set_content(&names::snapshot(50), b"x");
    // Record 40 is the last one of the second.
    assert_eq!(written(&storage).publish(45).unwrap(), 3);
    assert_eq!(
        storage.list().unwrap(),
        [log(41), log(60), names::snapshot(40), names::snapshot(50)]
    );
    // Record 60 may be in any segment.
    assert_eq!(prune(&storage, 50).unwrap(), 1);
    assert_eq!(storage.list().unwrap(), [log(41), log(60), names::snapshot(50)]);
}

#[test]
fn the_blocks_of_another_snapshot_are_none_of_this() {
    let storage = Memory::new();
    written(&storage).publish(45).unwrap();
    let mut bytes = storage.content(&names::snapshot(40)).unwrap();
    let other = Header { id: ID, after: 41 }.to_bytes();
    bytes[..HEADER_LEN].copy_from_slice(&other);
    storage.set_content(&names::snapshot(41), &bytes);
    assert!(Snapshot::newest(&storage).is_err());
}

#[test]
fn the_other_blocks_of_a_damaged_snapshot_are_copied() {
    let storage = Memory::new();
    written(&storage).publish(45).unwrap();
    let bytes = storage.content(&names::snapshot(40)).unwrap();
    let repaired = |at: usize, id: Id| {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let damaged = Memory::new();
        damaged.set_content(&names::snapshot(40), &changed);
        let (damaged, fault) = Snapshot::salvage(&damaged, Some(id)).unwrap().unwrap();
        let to = Memory::new();
        let copy: Arc<dyn Storage> = Arc::new(to.clone());
        let lost = damaged.repair(&copy, 43).unwrap();
        let copy = Snapshot::newest(&to).unwrap().unwrap();
        assert_eq!((copy.id(), copy.after()), (ID, 40));
        assert!(matches!(copy.end(), 40 | 43));
        (lost.len() + usize::from(fault.is_some()), all(&copy).unwrap().len())
    };
    // In the items of the first block, in its number, and in the length of the last.
    assert_eq!(repaired(HEADER_LEN + HEAD_LEN, ID), (1, 3));
    assert_eq!(repaired(HEADER_LEN + 12, ID), (1, 0));
    let last = bytes.len() - FOOTER_LEN - HEAD_LEN - (4 + 3 + 8);
    assert_eq!(repaired(last + 7, ID), (1, 3));
    // In the header, its checksum, and the footer.
    for at in [0, 20, HEADER_LEN - 1, bytes.len() - 1, bytes.len() - FOOTER_LEN] {
        assert_eq!(repaired(at, ID), (1, 4), "{at}");
    }
}

/// Regression test: a truncated snapshot without header and footer kept all data from being copied.
#[test]
fn whole_blocks_of_a_snapshot_of_any_length_are_copied() {
    let storage = Memory::new();
    written(&storage).publish(45).unwrap();
    let bytes = storage.content(&names::snapshot(40)).unwrap();
    // Where blocks end, and the number of items up to there.
    let mut ends = vec![(HEADER_LEN, 0)];
    while ends.len() < 4 {
        let (at, items) = ends[ends.len() - 1];
        let len = u64_at(&bytes, at) as usize;
        ends.push((at + HEAD_LEN + len, items + u32_at(&bytes, at + 16) as usize));
    }
    assert_eq!(ends[3], (bytes.len() - FOOTER_LEN, 4));
    for len in 0..bytes.len() {
        let cut = Memory::new();
        cut.set_content(&names::snapshot(40), &bytes[..len]);
        let (cut, fault) = Snapshot::salvage(&cut, Some(ID)).unwrap().unwrap();
        assert!(fault.is_some(), "{len} bytes");
        let to = Memory::new();
        let copy: Arc<dyn Storage> = Arc::new(to.clone());
        cut.repair(&copy, 50).unwrap();
        let copy = Snapshot::newest(&to).unwrap().unwrap();
        assert_eq!((copy.id(), copy.after()), (ID, 40), "{len} bytes");
        let expected = ends.iter().rfind(|(end, _)| *end <= len).map_or(0, |(_, items)| *items);
        assert_eq!(all(&copy).unwrap().len(), expected, "{len} bytes");
    }
    // The rest does not say which store it belongs to.
    let cut = Memory::new();
    cut.set_content(&names::snapshot(40), &bytes[..40]);
    assert!(Snapshot::salvage(&cut, None).is_err());
}

#[test]
fn the_writer_begins_a_segment_and_syncs_when_a_snapshot_asks() {
    let memory = Memory::new();
    let log = Arc::new(Log::new(0, AckWhen::Handed, 1 << 20));
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let (mut writer, syncer) =
        Writer::new(log.clone(), storage, Options::new(ID), &Recovered::nothing(1));
    let mut note = |expected: (usize, Lsn)| {
        let mut records = Records::new();
        records.push(&Effect::Clear);
        log.append(&mut records);
        assert!(writer.step(Duration::ZERO));
        if log.synced() < expected.1 {
            assert!(syncer.wait(), "at once");
            syncer.step();
        }
        let segments = crate::segment::list(&memory).unwrap().len();
        assert_eq!((segments, log.synced()), expected);
    };
    note((1, 0));
    log.begin_segment();
    note((2, 0));
    log.sync_soon();
    note((2, 3));
    // Each item was handed over once.
    note((2, 3));
}

#[test]
fn a_new_segment_on_request_lets_older_ones_go() {
    let memory = Memory::new();
    let disk: Arc<dyn Storage> = Arc::new(memory.clone());
    let log = Arc::new(Log::new(0, AckWhen::Synced, 1 << 20));
    let begun = Recovered::nothing(1);
    let (mut writer, _syncer) = Writer::new(log.clone(), disk, Options::new(ID), &begun);
    let note = |log: &Log| {
        let mut records = Records::new();
        records.push(&Effect::Clear);
        log.append(&mut records)
    };
    note(&log);
    writer.step(Duration::ZERO);
    for _ in 0..2 {
        log.begin_segment();
        assert!(log.wants_segment());
        writer.step(Duration::ZERO);
        assert!(!log.wants_segment());
        // An empty one is enough.
        assert_eq!(crate::segment::list(&memory).unwrap().len(), 2);
    }
    // As for a snapshot at the first record.
    assert_eq!(remove_before(&memory, 2).unwrap(), 1);
    for cut in memory.power_cuts(16, 1) {
        let image = memory.image(&cut);
        let recovered = recover(&image, None, 2, &mut |_, _| {}).unwrap();
        assert_eq!((recovered.last, recovered.records), (1, 0), "{cut:?}");
    }
    assert_eq!(note(&log), 2);
    writer.step(Duration::ZERO);
    let recovered = recover(&memory.killed(), None, 2, &mut |_, _| {}).unwrap();
    assert_eq!((recovered.last, recovered.segments), (2, 1));
}

#[test]
fn a_segment_that_is_asked_for_is_done_without_on_a_full_disk() {
    let full = io::ErrorKind::StorageFull;
    for (step, is_left) in [
        (Step::Create, false),
        (Step::Preallocate, false),
        (Step::Write, false),
        (Step::Write, true),
    ] {
        let memory = Memory::new();
        let disk: Arc<dyn Storage> = Arc::new(memory.clone());
        let log = Arc::new(Log::new(0, AckWhen::Synced, 1 << 20));
        let begun = Recovered::nothing(1);
        let (mut writer, _syncer) = Writer::new(log.clone(), disk, Options::new(ID), &begun);
        let note = |log: &Log| {
            let mut records = Records::new();
            records.push(&Effect::Clear);
            log.append(&mut records)
        };
        note(&log);
        writer.step(Duration::ZERO);
        memory.fail(step, 0, 1, full);
        if is_left {
            // A remaining older segment would make recovery look for its records.
            memory.fail(Step::Remove, 0, 1, full);
        }
        log.begin_segment();
        writer.step(Duration::ZERO);
        assert!(!log.wants_segment(), "{step:?}");
        assert_eq!(log.error().is_some(), is_left, "{step:?}");
        assert_eq!(note(&log), 2);
        log.begin_segment();
        writer.step(Duration::from_millis(1));
        assert!(!log.wants_segment(), "{step:?}");
        assert_eq!(log.synced(), if is_left { 1 } else { 2 }, "{step:?}");
        writer.step(Duration::from_secs(2));
        assert_eq!((log.synced(), log.error().is_none()), (2, true), "{step:?}");
        for image in [memory.killed(), memory.image(&memory.power_cuts(1, 1)[0])] {
            let recovered = recover(&image, None, 1, &mut |_, _| {}).unwrap();
            assert_eq!((recovered.last, recovered.segments), (2, 2), "{step:?}");
        }
    }
}
