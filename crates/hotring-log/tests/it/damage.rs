//! Tests of damage: any changed byte of the synced part must be an error that names its place, or
//! lose nothing; behind that, it may lose only what follows. No bytes may cause a panic.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use hotring_log::storage::memory::{Cut, Memory, Step};
use hotring_log::{
    AckWhen, Damage, Effect, Log, Lsn, Options, Records, RecoverError, Recovered, RepairError,
    Storage, Writer, check, recover, remove_before, repair,
};

use crate::workload::{Batch, ID, Running, draw, recovered};

const SEGMENT_LEN: u64 = 1024;

/// A log of several segments, and its batches.
fn written(when: AckWhen, closes: bool, seed: u64) -> (Memory, Vec<Batch>) {
    let memory = Memory::new();
    let mut running = Running::new(&memory, when, SEGMENT_LEN, &Recovered::nothing(1));
    let (mut random, mut order) = (Rng::with_seed(seed), Vec::new());
    while order.len() < 12 {
        let (mut records, bytes) = draw(&mut random, 1);
        if records.len() < 900 {
            order.push((running.log.append(&mut records), bytes));
            running.step();
        }
    }
    if closes {
        running.close();
    }
    (memory, order)
}

fn segments(memory: &Memory) -> Vec<String> {
    memory.list().unwrap().into_iter().filter(|name| name.starts_with("log-")).collect()
}

/// The same directory with another content of this file.
fn with(memory: &Memory, name: &str, content: &[u8]) -> Memory {
    let copy = memory.killed();
    copy.set_content(name, content);
    copy
}

fn position(memory: &Memory, segment: &str) -> usize {
    segments(memory).iter().position(|name| name == segment).expect("the error names a segment")
}

#[test]
fn each_changed_byte_of_the_synced_part_is_noticed() {
    let (memory, order) = written(AckWhen::Synced, true, 5);
    let names = segments(&memory);
    assert!(names.len() > 2, "{names:?}");
    let (mut errors, mut harmless) = (0, 0);
    for (index, name) in names.iter().enumerate() {
        let content = memory.content(name).unwrap();
        for at in 0..content.len() {
            let mut changed = content.clone();
            changed[at] ^= 1 << (at % 8);
            let changed = with(&memory, name, &changed);
            match recovered(&changed, 1) {
                Err(error @ RecoverError::Damaged { .. }) => {
                    let RecoverError::Damaged { segment, at: told, .. } = &error else { continue };
                    let found = (position(&memory, segment), *told);
                    assert!(found <= (index, at as u64), "{name}, byte {at}: {error}");
                    assert!(index - found.0 <= 1, "{name}, byte {at}: {error}");
                    assert!(
                        error.to_string().contains("hotring check memory --repair NEWDIR"),
                        "{error}"
                    );
                    // Nothing was changed.
                    assert_eq!(changed.unsynced(), 0);
                    errors += 1;
                }
                Err(error) => panic!("{name}, byte {at}: {error}"),
                Ok((_, batches)) => {
                    assert_eq!(batches, order, "{name}, byte {at}");
                    harmless += 1;
                }
            }
        }
    }
    // That is the last claim of a sync; nothing else is lost with it.
    assert_eq!(harmless, 25);
    assert!(errors > 1_000);
}

#[test]
fn each_changed_byte_after_the_synced_part_costs_the_rest() {
    let (memory, order) = written(AckWhen::Written, false, 6);
    for name in segments(&memory) {
        let content = memory.content(&name).unwrap();
        for at in 0..content.len() {
            let mut changed = content.clone();
            changed[at] ^= 0x10;
            let changed = with(&memory, &name, &changed);
            let checked = check(&changed, Some(ID), 1, &mut |_, _| {}).unwrap();
            let (report, batches) = recovered(&changed, 1).unwrap();
            assert_eq!(batches, order[..batches.len()], "{name}, byte {at}");
            assert_eq!(checked.last, report.last);
            assert!(checked.error.is_none());
            assert_eq!(report.cut == 0, checked.torn.is_none(), "{name}, byte {at}");
            // The bytes that were cut off are gone.
            let (again, same) = recovered(&changed, 1).unwrap();
            assert_eq!((again.cut, same), (0, batches));
        }
    }
}

#[test]
fn a_file_that_is_too_short_is_noticed_or_cut() {
    let (memory, order) = written(AckWhen::Synced, true, 7);
    let names = segments(&memory);
    let last = names.last().unwrap();
    let first: Lsn = last["log-".len()..last.len() - ".hrl".len()].parse().unwrap();
    let n_before = order.iter().filter(|(lsn, _)| *lsn < first).count();
    for name in &names {
        let content = memory.content(name).unwrap();
        for len in 0..content.len() {
            let cut = with(&memory, name, &content[..len]);
            match recovered(&cut, 1) {
                Ok((_, batches)) => {
                    assert_eq!(batches, order[..batches.len()]);
                    // That the groups of the last segment are synced is said only in that segment.
                    let n_sure = if name == last { n_before } else { order.len() };
                    assert!(batches.len() >= n_sure, "{name} of {len} bytes");
                }
                Err(RecoverError::Damaged { .. }) => {}
                Err(error) => panic!("{name} of {len} bytes: {error}"),
            }
        }
    }
}

/// Recovery must refuse because this segment is missing, and change nothing; repair must copy
/// everything before it.
fn is_missed(damaged: &Memory, name: &str) {
    let before = damaged.list().unwrap();
    let error = recovered(damaged, 1).unwrap_err();
    let RecoverError::Damaged { segment, damage: Damage::Missing, lost, .. } = &error else {
        panic!("without {name}: {error}")
    };
    assert_eq!(segment, name, "{error}");
    for part in [name, "is missing", "hotring check memory --repair NEWDIR"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!((damaged.unsynced(), damaged.list().unwrap()), (0, before));
    let checked = check(damaged, None, 1, &mut |_, _| {}).unwrap();
    assert_eq!(checked.error.unwrap().to_string(), error.to_string());
    let new = Memory::new();
    let to: Arc<dyn Storage> = Arc::new(new.clone());
    repair(damaged, 1, &to).unwrap();
    assert_eq!(recovered(&new, 1).unwrap().0.last, lost - 1);
}

/// Regression test: missing files were noticed only if others followed: of 400 writes that `sync`
/// had acknowledged, 98 were lost silently with the newest files.
#[test]
fn segments_that_are_missing_at_the_end_are_noticed() {
    for (when, closes) in
        [(AckWhen::Synced, true), (AckWhen::Synced, false), (AckWhen::Written, true)]
    {
        let (memory, _) = written(when, closes, 8);
        let names = segments(&memory);
        for (index, name) in names.iter().enumerate() {
            let without = memory.killed();
            names[index..].iter().for_each(|name| without.remove(name).unwrap());
            // Lost records stay lost.
            let without = without.killed();
            is_missed(&without, name);
        }
    }
}

#[test]
fn they_are_noticed_after_a_power_cut() {
    let (memory, _) = written(AckWhen::Synced, false, 8);
    let cut = memory.image(&Cut { kept: vec![false; memory.unsynced()], torn: None });
    let last = segments(&cut).pop().unwrap();
    cut.remove(&last).unwrap();
    is_missed(&cut.killed(), &last);
}

/// As for a snapshot: the segment exists, and is synced, before its first record.
#[test]
fn a_segment_that_was_empty_at_first_is_missed() {
    let memory = Memory::new();
    let mut running = Running::new(&memory, AckWhen::Synced, 1 << 20, &Recovered::nothing(1));
    running.put(b"key", b"value");
    running.step();
    running.log.begin_segment();
    running.step();
    // An empty one may be missing.
    let last = segments(&memory).pop().unwrap();
    let without = memory.killed();
    without.remove(&last).unwrap();
    assert_eq!(recovered(&without, 1).unwrap().0.last, 1);
    running.put(b"key", b"value");
    running.step();
    memory.remove(&last).unwrap();
    is_missed(&memory.killed(), &last);
}

#[test]
fn a_log_without_a_manifest_is_an_earlier_version_s() {
    let (memory, order) = written(AckWhen::Synced, true, 8);
    let guarded = check(&memory, None, 1, &mut |_, _| {}).unwrap();
    assert!(!guarded.unguarded && !recovered(&memory.killed(), 1).unwrap().0.unguarded);
    memory.remove("manifest.hrm").unwrap();
    assert!(check(&memory, None, 1, &mut |_, _| {}).unwrap().unguarded);
    let (report, batches) = recovered(&memory, 1).unwrap();
    assert_eq!(batches, order);
    assert!(report.unguarded, "segments may have been lost with the manifest");
    // Before the first sync there is none.
    assert!(!recovered(&Memory::new(), 1).unwrap().0.unguarded);
    // It gets one when it continues.
    let mut running = Running::new(&memory, AckWhen::Synced, SEGMENT_LEN, &report);
    running.put(b"key", b"value");
    running.step();
    assert!(memory.list().unwrap().contains(&"manifest.hrm".to_string()));
}

#[test]
fn a_manifest_that_cannot_be_read_is_an_error() {
    let (memory, order) = written(AckWhen::Synced, true, 8);
    let name = "manifest.hrm";
    let mut content = memory.content(name).unwrap();
    content[35] ^= 1;
    let damaged = with(&memory, name, &content);
    let error = recovered(&damaged, 1).unwrap_err().to_string();
    assert!(error.contains(name) && error.contains("--repair"), "{error}");
    assert_eq!(check(&damaged, None, 1, &mut |_, _| {}).unwrap().error.unwrap().to_string(), error);
    let new = Memory::new();
    let to: Arc<dyn Storage> = Arc::new(new.clone());
    repair(&damaged, 1, &to).unwrap();
    assert_eq!(recovered(&new, 1).unwrap().1, order);
    // Of another store.
    let other = Memory::new();
    let mut running = Running::new(&other, AckWhen::Synced, SEGMENT_LEN, &Recovered::nothing(1));
    running.put(b"key", b"value");
    running.step();
    let mut content = other.content(name).unwrap();
    content[16..32].copy_from_slice(b"another store's.");
    let crc = crc32c::crc32c(&content[..60]);
    content[60..].copy_from_slice(&crc.to_le_bytes());
    let error = recovered(&with(&memory, name, &content), 1).unwrap_err();
    assert!(matches!(error, RecoverError::Foreign { .. }), "{error}");
}

#[test]
fn a_missing_segment_is_an_error_unless_it_is_not_needed() {
    let (memory, order) = written(AckWhen::Synced, true, 8);
    let names = segments(&memory);
    let first_of = |name: &str| name[4..24].parse::<Lsn>().unwrap();
    for name in &names {
        let without = memory.killed();
        without.remove(name).unwrap();
        is_missed(&without.killed(), name);
    }
    let without = memory.killed();
    without.remove(&names[0]).unwrap();
    let from = first_of(&names[1]);
    let (report, batches) = recovered(&without, from).unwrap();
    assert_eq!(
        batches,
        order.iter().filter(|(last, _)| *last >= from).cloned().collect::<Vec<_>>()
    );
    assert_eq!(report.segments, names.len() - 1);
    // Also once they are removed.
    let shorter = memory.killed();
    let count = names.iter().filter(|name| first_of(name) < from).count();
    assert_eq!(remove_before(&shorter, from).unwrap(), count);
    assert_eq!(recovered(&shorter, from).unwrap().1, batches);
    assert_eq!(remove_before(&shorter, Lsn::MAX).unwrap(), names.len() - count - 1);
    // Files that are not needed must not be read.
    without.set_content(&names[1], b"anything");
    let from = first_of(&names[2]);
    assert_eq!(recovered(&without, from).unwrap().1.last(), order.last());
}

/// The first segment with its content changed and its checksums renewed.
fn forged(memory: &Memory, change: impl FnOnce(&mut Vec<u8>)) -> Memory {
    let name = &segments(memory)[0];
    let mut content = memory.content(name).unwrap();
    change(&mut content);
    let crc = crc32c::crc32c(&content[..60]);
    content[60..64].copy_from_slice(&crc.to_le_bytes());
    let len = u32::from_le_bytes(content[64..68].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c(&content[72..80 + len]);
    content[68..72].copy_from_slice(&crc.to_le_bytes());
    with(memory, name, &content)
}

#[test]
fn data_of_a_later_version_or_another_store_is_refused() {
    let (memory, _) = written(AckWhen::Written, false, 9);
    let later = forged(&memory, |content| content[8] = 3);
    let error = recovered(&later, 1).unwrap_err();
    assert!(matches!(error, RecoverError::Format { format: 3, .. }), "{error}");
    let unknown = forged(&memory, |content| content[80] = 0x70);
    let error = recovered(&unknown, 1).unwrap_err();
    assert!(matches!(error, RecoverError::Unknown { at: 64, .. }), "{error}");
    let error = recover(&memory, Some(*b"another store's."), 1, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, RecoverError::Foreign { .. }), "{error}");
    // Any of the segments gives the id.
    let mixed = forged(&memory, |content| content[16] ^= 1);
    let error = recover(&mixed, None, 1, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, RecoverError::Foreign { .. }), "{error}");
    let report = recover(&memory, None, 1, &mut |_, _| {}).unwrap();
    assert_eq!(report.id, Some(ID));
}

#[test]
fn unneeded_records_are_not_handed_over() {
    let (memory, order) = written(AckWhen::Synced, true, 8);
    for (index, (last, _)) in order.iter().enumerate() {
        let (report, batches) = recovered(&memory.killed(), last + 1).unwrap();
        assert_eq!(batches, order[index + 1..]);
        assert_eq!(report.last, order.last().unwrap().0);
    }
}

#[test]
fn a_record_with_another_number_is_not_taken() {
    let (memory, _) = written(AckWhen::Written, false, 9);
    let skipped = forged(&memory, |content| content[72] = 2);
    let checked = check(&skipped, Some(ID), 1, &mut |_, _| {}).unwrap();
    assert_eq!(checked.torn.unwrap().1, 64);
    assert_eq!(recovered(&skipped, 1).unwrap().1, []);
}

#[test]
fn the_synced_position_is_found_wherever_it_is() {
    // The scan behind the damage reads pieces of a megabyte.
    for less in (0..60).step_by(7) {
        let memory = Memory::new();
        let mut running = Running::new(&memory, AckWhen::Synced, 2 << 20, &Recovered::nothing(1));
        for value in [&vec![b'x'; (1 << 20) - less], &vec![b'y'; 10]] {
            running.put(b"key", value);
            running.step();
        }
        let name = &segments(&memory)[0];
        let mut content = memory.content(name).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        content.truncate(end);
        content[500] ^= 1;
        let error = recovered(&with(&memory, name, &content), 1).unwrap_err();
        let RecoverError::Damaged { at, lost, synced, .. } = error else { panic!("{error}") };
        assert_eq!((at, lost, synced), (64, 1, 1), "{less}");
    }
}

#[test]
fn a_value_that_looks_like_a_log_proves_nothing() {
    // The log of another store, which claims a far later sync.
    let other = Memory::new();
    let log = Arc::new(Log::new(999, AckWhen::Synced, 1 << 20));
    let (options, before) = (Options::new(*b"an id, not ours!"), Recovered::nothing(1_000));
    let (mut writer, _) = Writer::new(log.clone(), Arc::new(other.clone()), options, &before);
    for _ in 0..2 {
        let mut records = Records::new();
        records.push(&Effect::Clear);
        log.append(&mut records);
        writer.step(Duration::ZERO);
    }
    let lie = other.content(&segments(&other)[0]).unwrap()[64..124].to_vec();
    assert!(lie.contains(&7));

    let memory = Memory::new();
    let mut running = Running::new(&memory, AckWhen::Written, 64 << 10, &Recovered::nothing(1));
    let mut order = vec![running.put(b"a", b"kept")];
    running.step();
    order.push(running.put(b"b", b"torn"));
    running.put(b"c", &lie);
    running.step();
    let name = &segments(&memory)[0];
    let mut content = memory.content(name).unwrap();
    let torn = content.windows(4).position(|bytes| bytes == b"torn").unwrap();
    content[torn] = b'T';
    let (report, batches) = recovered(&with(&memory, name, &content), 1).unwrap();
    assert_eq!((report.last, batches), (1, order[..1].to_vec()));
    assert!(report.cut > lie.len() as u64);
}

#[test]
fn records_before_the_damage_are_copied() {
    let (memory, order) = written(AckWhen::Synced, true, 5);
    let name = &segments(&memory)[2];
    let mut content = memory.content(name).unwrap();
    content[100] ^= 1;
    let damaged = with(&memory, name, &content);
    let new = Memory::new();
    let to: Arc<dyn Storage> = Arc::new(new.clone());
    let checked = repair(&damaged, 1, &to).unwrap();
    assert!(matches!(checked.error, Some(RecoverError::Damaged { .. })));
    assert_eq!(damaged.unsynced(), 0);
    let (report, batches) = recovered(&new, 1).unwrap();
    assert_eq!((report.last, report.cut), (checked.last, 0));
    assert!(!batches.is_empty() && batches.len() < order.len());
    assert_eq!(batches, order[..batches.len()]);
    // Not even that could be copied.
    let full = Memory::new();
    full.fail(Step::Create, 0, 1, ErrorKind::StorageFull);
    let to: Arc<dyn Storage> = Arc::new(full);
    assert!(matches!(repair(&damaged, 1, &to), Err(RepairError::Write(_))));
    assert!(repair(&Memory::new(), 1, &to).unwrap().error.is_none());
}

#[test]
fn random_bytes_never_panic() {
    let (memory, order) = written(AckWhen::Written, true, 10);
    let names = segments(&memory);
    let mut random = Rng::with_seed(11);
    for round in 0..1_000 {
        let name = &names[random.usize(..names.len())];
        let mut content = memory.content(name).unwrap();
        for _ in 0..=random.usize(..4) {
            let at = random.usize(..content.len().max(1));
            let len = random.usize(..40).min(content.len() - at);
            let other = random.usize(..content.len() + 1 - len);
            match random.usize(..4) {
                0 => content[at..at + len].fill(random.usize(..256) as u8),
                1 => content.copy_within(other..other + len, at),
                2 => content.truncate(at.max(1)),
                _ => content.extend((0..len).map(|i| (i * round) as u8)),
            }
        }
        let changed = with(&memory, name, &content);
        let checked = check(&changed, None, 1, &mut |_, _| {}).unwrap();
        if let Ok((report, batches)) = recovered(&changed, 1) {
            assert_eq!(batches, order[..batches.len()]);
            assert!(checked.error.is_none() && checked.last == report.last);
        } else {
            assert!(checked.error.is_some());
        }
    }
}
