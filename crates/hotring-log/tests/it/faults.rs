//! Tests of disk faults: temporary ones are retried, permanent ones are never acknowledged nor
//! retried; and of the writer's syncs without a syncer.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use hotring_log::storage::memory::{Cut, Memory, Step};
use hotring_log::{AckWhen, Disk, Effect, Log, Options, Records, Recovered, Storage, Writer};

use crate::workload::{ID, Running, recovered};

fn running(memory: &Memory, when: AckWhen) -> Running {
    Running::new(memory, when, 4096, &Recovered::nothing(1))
}

/// Counts the steps of this kind.
fn counted(memory: &Memory, step: Step) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counts = count.clone();
    memory.before_each(move |_, taken| {
        // ORDERING: Relaxed, one thread.
        counts.fetch_add(usize::from(taken == step), Ordering::Relaxed);
    });
    count
}

/// Whether the record was refused permanently, or for now.
fn refused(log: &Log, lsn: u64) -> Option<bool> {
    match log.poll_reached(lsn, Waker::noop()) {
        Poll::Ready(Err(error)) => Some(!error.is_temporary),
        _ => None,
    }
}

#[test]
fn a_write_that_fails_is_for_good() {
    for (step, when) in [(Step::Write, AckWhen::Written), (Step::Create, AckWhen::Synced)] {
        let memory = Memory::new();
        let mut running = running(&memory, when);
        let mut order = vec![running.put(b"a", b"1")];
        if step == Step::Create {
            order.clear();
        } else {
            running.step();
        }
        memory.fail(step, 0, 1, ErrorKind::Other);
        let (lost, _) = running.put(b"b", &[2; 700]);
        running.step();
        assert_eq!(refused(&running.log, lost), Some(true));
        // The disk works again, and still nothing may be acknowledged.
        let (dropped, _) = running.put(b"c", b"3");
        running.step();
        assert_eq!(refused(&running.log, dropped), Some(true));
        assert_eq!(running.log.unwritten(), 0);
        running.close();
        assert_eq!(recovered(&memory.killed(), 1).unwrap().1, order);
    }
}

/// Regression test: the number that a sync reports was taken after it. A record written meanwhile
/// counted as synced, WAITAOF confirmed it, and segments that were still needed could be removed.
#[test]
fn writes_during_a_sync_are_not_synced_by_it() {
    let memory = Memory::new();
    let log = Arc::new(Log::new(0, AckWhen::Written, 1 << 20));
    let storage = Arc::new(memory.clone());
    let (mut writer, syncer) =
        Writer::new(log.clone(), storage, Options::new(ID), &Recovered::nothing(1));
    let put = |log: &Log, key: &[u8]| {
        let mut records = Records::new();
        records.push(&Effect::Put { key, form: 1, expire_at: None, value: b"value" });
        log.append(&mut records)
    };
    let first = put(&log, b"before");
    assert!(writer.step(Duration::ZERO));
    let (written, during) = std::sync::mpsc::channel();
    memory.within_next_sync({
        let log = log.clone();
        move || {
            let second = put(&log, b"meanwhile");
            assert!(writer.step(Duration::ZERO));
            assert_eq!(log.written(), second);
            written.send((second, writer)).expect("the test waits for it");
        }
    });
    syncer.step();
    let (second, _writer) = during.try_recv().expect("there was a sync");
    assert_eq!((log.synced(), log.written()), (first, second));
    let cut = Cut { kept: vec![false; memory.unsynced()], torn: None };
    assert_eq!(recovered(&memory.image(&cut), 1).unwrap().0.last, first);
    syncer.step();
    assert_eq!(log.synced(), second);
}

/// A batch of a group is written before the disk is full, and the group then goes to another
/// segment, requested by a snapshot. The truncation of the first segment must be on the disk before
/// the batch is acknowledged: otherwise a power cut leaves it in both.
#[test]
fn a_cut_off_end_does_not_come_back_before_a_new_segment() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Synced);
    let mut order = vec![running.put(b"a", b"1")];
    running.step();
    order.push(running.put(b"b", b"2"));
    let mut records = Records::new();
    let long: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(vec![3; 3000]);
    records.push_attached(b"c", 1, None, long);
    let last = running.log.append(&mut records);
    // The first piece has the first batch and the beginning of the second.
    memory.fail(Step::Write, 1, 1, ErrorKind::StorageFull);
    running.step();
    assert!(running.log.error().is_some_and(|error| error.is_temporary));
    running.log.begin_segment();
    running.now += Duration::from_secs(1);
    running.step();
    assert!(running.log.error().is_none());
    assert_eq!(running.log.synced(), last);
    for cut in memory.power_cuts(16, 1) {
        let (report, found) = recovered(&memory.image(&cut), 1).expect("a crash is no damage");
        assert_eq!(report.last, last, "{cut:?}");
        assert_eq!(found[..2], order[..], "{cut:?}");
    }
    running.close();
}

/// The disk fails in each way at each changing step, the first or the second time.
#[test]
fn a_disk_that_refuses_any_change_loses_nothing_that_was_acknowledged() {
    for (i, step) in Step::CHANGES.into_iter().chain([Step::SyncDirectory]).enumerate() {
        for kind in [ErrorKind::Other, ErrorKind::ReadOnlyFilesystem] {
            for (when, after) in [(AckWhen::Synced, 0), (AckWhen::Synced, 1), (AckWhen::Written, 1)]
            {
                let memory = Memory::new();
                let mut running = running(&memory, when);
                memory.fail(step, after, usize::MAX, kind);
                let (mut kept, mut order, mut failed) = (0, Vec::new(), false);
                for number in 0..12_u8 {
                    let (lsn, effect) = running.put(&[number], &[number; 1_500]);
                    order.push((lsn, effect));
                    running.step();
                    match running.log.poll_reached(lsn, Waker::noop()) {
                        Poll::Ready(Ok(())) => kept = order.len(),
                        Poll::Ready(Err(error)) => {
                            assert!(!error.is_temporary, "{error}");
                            assert_eq!(error.source.kind(), kind);
                            failed = true;
                        }
                        Poll::Pending => panic!("{step:?}: it is neither done nor refused"),
                    }
                    assert!(!failed || kept < order.len(), "{step:?}: written behind a failure");
                }
                // Nothing is removed while a log is written, and only the manifest is renamed.
                assert_eq!(failed, step != Step::Remove && kept < 12);
                running.close();
                let mut left = vec![memory.killed()];
                if when == AckWhen::Synced {
                    let cuts = memory.power_cuts(4, i as u64);
                    left.extend(cuts.iter().map(|cut| memory.image(cut)));
                }
                for left in left {
                    let (_, found) = recovered(&left, 1).expect("a failure is no damage");
                    assert!(found.len() >= kept, "{step:?} {kind:?} {when:?}: {}", found.len());
                    assert_eq!(found[..kept], order[..kept]);
                }
            }
        }
    }
}

/// A segment contains the last records of a snapshot: they are read, but must not count towards the
/// log's length.
#[test]
fn damage_before_the_first_needed_record_does_not_count() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Synced);
    let long = [1; 500];
    for number in 0..12_u8 {
        running.put(&[number], &long);
        running.step();
    }
    running.close();
    let needed = |from| recovered(&memory, from).unwrap().0.needed;
    assert_eq!(needed(1), recovered(&memory, 1).unwrap().0.bytes);
    assert!(recovered(&memory, 12).unwrap().0.bytes > 1_000, "others are in its segment");
    for from in 1..=12 {
        let count = 13 - from;
        assert!((count * 500..count * 600).contains(&needed(from)), "{from}: {}", needed(from));
    }
}

/// As after a remount: everything written before can be read and synced, and nothing can be added.
#[test]
fn a_disk_that_becomes_read_only_keeps_its_data() {
    for when in [AckWhen::Synced, AckWhen::Written] {
        let memory = Memory::new();
        let mut running = running(&memory, when);
        let order = vec![running.put(b"a", b"1")];
        running.step();
        memory.set_read_only();
        let before = memory.killed();
        let (lost, _) = running.put(b"b", b"2");
        running.step();
        assert_eq!(refused(&running.log, lost), Some(true));
        let error = running.log.error().expect("it failed");
        assert_eq!(error.source.kind(), ErrorKind::ReadOnlyFilesystem);
        running.close();
        assert_eq!(memory.list().unwrap(), before.list().unwrap());
        assert_eq!(recovered(&memory.killed(), 1).unwrap().1, order);
    }
}

#[test]
fn a_sync_that_fails_is_for_good_and_not_tried_again() {
    for when in [AckWhen::Synced, AckWhen::Written] {
        let memory = Memory::new();
        let mut running = running(&memory, when);
        running.put(b"a", b"1");
        running.step();
        running.syncer.step();
        assert_eq!(running.log.synced(), 1);
        memory.fail(Step::Sync, 0, 1, ErrorKind::Other);
        let syncs = counted(&memory, Step::Sync);
        let (lost, _) = running.put(b"b", b"2");
        running.step();
        running.syncer.step();
        // This much of the written data is valid.
        assert_eq!(running.log.has_reached(lost), when == AckWhen::Written);
        assert!(running.log.error().unwrap().to_string().contains("syncing the log"));
        for _ in 0..50 {
            let (dropped, _) = running.put(b"c", b"3");
            running.step();
            running.syncer.step();
            assert_eq!(refused(&running.log, dropped), Some(true));
        }
        running.log.set_when(AckWhen::Handed);
        let (dropped, _) = running.put(b"c", b"3");
        assert_eq!(refused(&running.log, dropped), Some(true));
        running.close();
        // ORDERING: Relaxed, one thread.
        assert_eq!(syncs.load(Ordering::Relaxed), 1);
        assert_eq!(running.log.synced(), 1);
    }
}

#[test]
fn a_sync_of_the_directory_that_fails_is_for_good() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Synced);
    memory.fail(Step::SyncDirectory, 0, 1, ErrorKind::StorageFull);
    let (lost, _) = running.put(b"a", b"1");
    running.step();
    assert_eq!(refused(&running.log, lost), Some(true));
}

#[test]
fn a_full_disk_may_pass() {
    for step in [Step::Write, Step::Create, Step::Preallocate] {
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            let memory = Memory::new();
            let mut running = running(&memory, AckWhen::Synced);
            let mut order = vec![running.put(b"a", b"1")];
            running.step();
            // Long enough to need its own segment.
            order.push(running.put(b"b", &[2; 4000]));
            memory.fail(step, 0, 2, kind);
            let tries = counted(&memory, step);
            running.step();
            assert_eq!(refused(&running.log, 2), Some(false), "{step:?}");
            order.push(running.put(b"c", b"3"));
            // It must not be retried before a second has passed.
            running.steps(8);
            // ORDERING: Relaxed, one thread; also below.
            assert_eq!(tries.load(Ordering::Relaxed), 1);
            // A crash meanwhile loses records that were not acknowledged.
            assert_eq!(recovered(&memory.killed(), 1).unwrap().1, order[..1]);
            running.steps(30);
            assert!(running.log.error().is_none());
            assert_eq!(running.log.synced(), 3);
            assert_eq!(running.log.unwritten(), 0);
            assert_eq!(recovered(&memory.killed(), 1).unwrap().1, order);
        }
    }
}

#[test]
fn a_group_of_which_a_part_was_written_is_written_once() {
    // Its pieces: two heads and two values, and the rest.
    for piece in 0..5 {
        let memory = Memory::new();
        let mut running = running(&memory, AckWhen::Synced);
        let mut order = vec![running.put(b"a", b"1")];
        running.step();
        let value = vec![7; 600];
        for key in [b"b", b"c"] {
            let mut records = Records::new();
            records.push_attached(key, 1, None, Arc::new(value.clone()));
            let put = Effect::Put { key, form: 1, expire_at: None, value: &value };
            order.push((running.log.append(&mut records), crate::workload::as_bytes(&[put])));
        }
        order.push(running.put(b"d", b"2"));
        memory.fail(Step::Write, piece, 1, ErrorKind::StorageFull);
        running.step();
        assert_eq!(refused(&running.log, 4), Some(false), "{piece}");
        running.steps(11);
        assert_eq!(running.log.synced(), 4);
        let (report, batches) = recovered(&memory.killed(), 1).unwrap();
        assert_eq!((report.cut, batches), (0, order), "{piece}");
    }
}

#[test]
fn a_full_disk_does_not_hide_a_permanent_failure() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Written);
    running.put(b"a", b"1");
    running.step();
    // Until the sync is overdue.
    memory.fail(Step::Write, 0, 3, ErrorKind::StorageFull);
    memory.fail(Step::Sync, 0, 1, ErrorKind::Other);
    let (lost, _) = running.put(b"b", b"2");
    running.steps(40);
    assert_eq!(refused(&running.log, lost), Some(true));
}

#[test]
fn records_recovered_after_a_kill_outlive_a_power_cut() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Written);
    let mut order = Vec::new();
    for i in 0..20 {
        // The second half is only written.
        running.log.set_when(if i < 10 { AckWhen::Synced } else { AckWhen::Written });
        order.push(running.put(b"a", &[i; 900]));
        running.step();
    }
    assert_eq!(running.log.synced(), 10);
    let cut = || memory.image(&Cut { kept: vec![false; memory.unsynced()], torn: None });
    assert_eq!(recovered(&cut(), 1).unwrap().1, order[..10]);
    drop(running);
    let report = recovered(&memory, 1).unwrap().0;
    assert_eq!(recovered(&cut(), 1).unwrap().1, order);
    let mut next = Running::new(&memory, AckWhen::Synced, 4096, &report);
    let new = next.put(b"b", b"new");
    next.step();
    assert_eq!(recovered(&cut(), 1).unwrap().1, [order, vec![new]].concat());
}

#[test]
fn an_end_that_cannot_be_cut_off_is_permanent() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Written);
    let order = vec![running.put(b"a", b"1")];
    running.step();
    memory.fail(Step::Write, 0, 1, ErrorKind::StorageFull);
    memory.fail(Step::SetLen, 0, 1, ErrorKind::Other);
    let (lost, _) = running.put(b"b", &[2; 1000]);
    running.step();
    assert_eq!(refused(&running.log, lost), Some(true));
    let (report, batches) = recovered(&memory.killed(), 1).unwrap();
    assert_eq!(batches, order);
    assert!(report.cut > 500, "{report:?}");
}

#[test]
fn closing_on_a_full_disk_ends() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Written);
    let order = vec![running.put(b"a", b"1")];
    running.step();
    memory.fail(Step::Write, 0, 100, ErrorKind::StorageFull);
    running.put(b"b", b"2");
    running.step();
    running.close();
    assert!(running.log.error().is_some());
    assert_eq!(running.log.synced(), 1);
    assert_eq!(recovered(&memory.killed(), 1).unwrap().1, order);
}

#[test]
fn the_writer_syncs_if_a_sync_is_overdue() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Written);
    running.put(b"a", b"1");
    running.step();
    running.steps(29);
    assert_eq!(running.log.synced(), 0);
    running.step();
    assert_eq!(running.log.synced(), 1);
}

#[test]
fn a_stricter_setting_applies_to_earlier_writes() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Handed);
    let (last, _) = running.put(b"a", b"1");
    assert!(running.log.has_reached(last));
    running.step();
    running.log.set_when(AckWhen::Synced);
    assert!(!running.log.has_reached(last));
    running.step();
    assert!(running.log.has_reached(last));
}

#[test]
fn records_longer_than_a_segment_are_recovered() {
    let memory = Memory::new();
    let mut running = running(&memory, AckWhen::Written);
    let long = vec![7; 3 << 20];
    let mut order = vec![running.put(b"before", b"1")];
    order.push(running.put(b"long", &long));
    running.step();
    let mut batch = Records::new();
    for key in [b"x", b"y"] {
        batch.push_attached(key, 1, None, Arc::new(long.clone()));
    }
    let last = running.log.append(&mut batch);
    let put = |key| Effect::Put { key, form: 1, expire_at: None, value: &long };
    order.push((last, crate::workload::as_bytes(&[put(b"x"), put(b"y")])));
    order.push(running.put(b"after", b"2"));
    running.step();
    let (report, batches) = recovered(&memory.killed(), 1).unwrap();
    assert!(batches == order, "{report:?}");
    assert_eq!((report.cut, report.records, report.segments), (0, 5, 2));
}

#[test]
fn a_disk_keeps_a_log() {
    let folder = std::env::temp_dir().join(format!("hotring-log-{}-kept", std::process::id()));
    let mut expected = Vec::new();
    for round in 0..3 {
        let disk: Arc<dyn Storage> = Arc::new(Disk::open(&folder).unwrap());
        let (report, batches) = recovered(&*disk, 1).unwrap();
        assert_eq!(batches, expected, "round {round}");
        let log = Arc::new(Log::new(report.last, AckWhen::Synced, 1 << 20));
        let options = Options { segment_len: 2000, ..Options::new(ID) };
        let (mut writer, _syncer) = Writer::new(log.clone(), disk, options, &report);
        for i in 0..20u8 {
            let (mut records, value) = (Records::new(), vec![i; 300]);
            let effect = Effect::Put { key: &[round, i], form: 1, expire_at: None, value: &value };
            records.push(&effect);
            expected.push((log.append(&mut records), crate::workload::as_bytes(&[effect])));
            writer.step(Duration::ZERO);
            assert!(log.has_reached(expected.last().unwrap().0));
        }
        // Only when closed; otherwise it is dropped as by a kill.
        if round == 1 {
            log.close();
            writer.step(Duration::ZERO);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The manifest is an additional safeguard: a full disk must not refuse writes for it, and it is
/// written when there is space.
#[test]
fn a_manifest_that_has_no_room_waits_for_the_next_sync() {
    for step in [Step::Create, Step::Write, Step::Rename] {
        let memory = Memory::new();
        let mut running = Running::new(&memory, AckWhen::Synced, 1 << 20, &Recovered::nothing(1));
        // The first file and the first two writes are the segment's.
        let after = [(Step::Create, 1), (Step::Write, 2)].into_iter().find(|(s, _)| *s == step);
        memory.fail(step, after.map_or(0, |(_, after)| after), 1, ErrorKind::StorageFull);
        running.put(b"key", b"value");
        running.step();
        assert_eq!((running.log.synced(), running.log.error().is_none()), (1, true), "{step:?}");
        assert_eq!(memory.content("manifest.hrm"), None, "{step:?}");
        running.put(b"key", b"value");
        running.step();
        let without = memory.killed();
        without.remove("log-00000000000000000001.hrl").unwrap();
        let error = recovered(&without, 1).unwrap_err().to_string();
        assert!(error.contains("Records 1 to 2 had been synced"), "{step:?}: {error}");
    }
}
