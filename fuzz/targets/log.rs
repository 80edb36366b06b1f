//! Fuzzes recovery of the log from arbitrary segments: nothing panics, a second recovery finds the same records, and
//! the log can be continued from there.
//!
//! The first byte has options: bit 0 makes the checksums valid, as no fuzzer finds them; bit 1 adds a second segment.
//! Its first record is 1 plus bits 2 and 3, the synced position in its header is bits 4 to 7. The second byte is the
//! length of the first segment's records, in units of 8 bytes.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use hotring_log::storage::Memory;
use hotring_log::{Effect, Log, Options, Records, AckWhen, Writer, check, recover};
use libfuzzer_sys::fuzz_target;

const ID: [u8; 16] = *b"the id of a test";

/// The header of a segment that begins with record `first`.
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

/// Sets the checksum of each record up to the first one that is empty or cut short; returns the last checksum.
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
    let log = Arc::new(Log::new(last, AckWhen::Synced, 1 << 20));
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
