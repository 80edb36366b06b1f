//! Recovery of the log from arbitrary segments: nothing panics, what is recovered once is recovered again, and the log
//! goes on from there. Checksums are made to hold, as no fuzzer finds them.
//!
//! The first byte says which of that is done, the second where a second segment begins.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use hotring_log::storage::Memory;
use hotring_log::{Effect, Log, Options, Records, When, Writer, check, recover};
use libfuzzer_sys::fuzz_target;

const ID: [u8; 16] = *b"the id of a test";

/// A segment's header for these records.
fn header(first: u64, synced: u64, chain: u32) -> Vec<u8> {
    let mut bytes = b"hotr-log\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(&ID);
    bytes.extend_from_slice(&first.to_le_bytes());
    bytes.extend_from_slice(&synced.to_le_bytes());
    bytes.extend_from_slice(&chain.to_le_bytes());
    bytes.resize(60, 0);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Makes the checksums hold of what has the length of a record, as far as that goes; returns the last one.
fn mend(bytes: &mut [u8]) -> u32 {
    let (mut at, mut last) = (0, 0);
    while let Some(head) = bytes.get(at..at + 16) {
        let len = u32::from_le_bytes(head[..4].try_into().expect("four bytes")) as usize;
        let Some(record) = bytes.get_mut(at..at + 16 + len).filter(|_| len > 0) else { break };
        last = crc32c::crc32c(&record[8..]);
        record[4..8].copy_from_slice(&last.to_le_bytes());
        at += 16 + len;
    }
    last
}

fn read_all(memory: &Memory) -> Option<(u64, Vec<String>)> {
    let mut batches = Vec::new();
    let report = recover(memory, Some(ID), 1, &mut |last, effects| {
        batches.push(format!("{last} {effects:?}"));
    });
    Some((report.ok()?.last, batches))
}

fuzz_target!(|input: &[u8]| {
    let [how, at, rest @ ..] = input else { return };
    let (first, second) = rest.split_at(rest.len().min(usize::from(*at) * 8));
    let (mut first, mut second) = (first.to_vec(), second.to_vec());
    let mut chain = 0;
    if how & 1 != 0 {
        chain = mend(&mut first);
        mend(&mut second);
    }
    let memory = Memory::new();
    let synced = u64::from(how >> 4);
    memory.set_content("log-00000000000000000001.hrl", &[header(1, 0, 0), first].concat());
    if how & 2 != 0 {
        let number = u64::from(how >> 2 & 3) + 1;
        let name = format!("log-{number:020}.hrl");
        memory.set_content(&name, &[header(number, synced, chain), second].concat());
    }
    let checked = check(&memory, Some(ID), 1, &mut |_, _| {}).expect("memory can be read");
    let Some((last, mut batches)) = read_all(&memory) else {
        assert!(checked.error.is_some());
        return;
    };
    assert_eq!((checked.error.is_some(), checked.last), (false, last));
    let again = recover(&memory, Some(ID), 1, &mut |_, _| {}).expect("it was mended");
    assert_eq!((again.last, again.cut), (last, 0));
    let log = Arc::new(Log::new(last, When::Synced, 1 << 20));
    let storage = Arc::new(memory.clone());
    let options = Options { segment_len: 4096, ..Options::new(ID) };
    let (mut writer, _) = Writer::new(log.clone(), storage, options, &again);
    let mut records = Records::new();
    records.push(&Effect::Remove { key: b"k" });
    log.append(&mut records);
    writer.step(Duration::ZERO);
    batches.push(format!("{} {:?}", last + 1, [Effect::Remove { key: b"k" }]));
    assert_eq!(read_all(&memory), Some((last + 1, batches)));
});
