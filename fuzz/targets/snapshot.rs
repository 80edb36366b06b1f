//! Fuzzes reading and repairing snapshots of arbitrary bytes: nothing panics, no length is trusted beyond the end of
//! the file, and the repaired copy of a damaged snapshot is intact.
//!
//! The first byte has options. With bit 0 clear, a valid header precedes the input. With bits 0 and 1 clear, the
//! checksums are made valid, too, as no fuzzer finds them.
#![no_main]

use std::sync::Arc;

use hotring_log::storage::Memory;
use hotring_log::{ALL, Effect, HOTTEST, Snapshot, SnapshotError, Storage};
use libfuzzer_sys::fuzz_target;

const ID: [u8; 16] = *b"the id of a test";
const NAME: &str = "snapshot-00000000000000000040.hrs";
const HEAD_LEN: usize = 28;
const FOOTER_LEN: usize = 36;

fn header() -> Vec<u8> {
    let mut bytes = b"hotr-snp\x01\0\0\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(&ID);
    bytes.extend_from_slice(&40u64.to_le_bytes());
    bytes.resize(60, 0);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Sets the number and the checksums of each block up to the first one that is cut short, and the fields of the footer.
fn mend(bytes: &mut [u8], seed: u32) {
    let Some(end) = bytes.len().checked_sub(FOOTER_LEN) else { return };
    let (blocks, footer) = bytes.split_at_mut(end);
    let (mut at, mut number, mut items) = (0, 0u64, 0u64);
    while let Some(head) = blocks.get(at..at + HEAD_LEN) {
        let len = u64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
        let Some(end) = usize::try_from(len).ok().and_then(|len| (at + HEAD_LEN).checked_add(len))
        else {
            break;
        };
        let Some(block) = blocks.get_mut(at..end) else { break };
        let crc = crc32c::crc32c_append(seed, &block[HEAD_LEN..]);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        block[12..16].copy_from_slice(&(number as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &block[..24]);
        block[24..28].copy_from_slice(&crc.to_le_bytes());
        items += u64::from(u32::from_le_bytes(block[16..20].try_into().expect("four bytes")));
        (at, number) = (end, number + 1);
    }
    footer[..8].copy_from_slice(b"hotr-end");
    footer[8..16].copy_from_slice(&number.to_le_bytes());
    footer[16..24].copy_from_slice(&items.to_le_bytes());
    let crc = crc32c::crc32c_append(seed, &footer[..FOOTER_LEN - 4]);
    footer[FOOTER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
}

/// All items, hottest first as a server reads them.
fn read_all(snapshot: &Snapshot) -> Result<Vec<String>, SnapshotError> {
    let (mut items, mut buffer) = (Vec::new(), Vec::new());
    for class in [HOTTEST, ALL] {
        let mut note = |effects: &[Effect<'_>]| {
            items.extend(effects.iter().map(|effect| format!("{effect:?}")));
        };
        while snapshot.read_block(class, &mut buffer, &mut note)?.is_some() {}
    }
    Ok(items)
}

fuzz_target!(|input: &[u8]| {
    let [how, rest @ ..] = input else { return };
    let mut bytes = if how & 1 == 0 { header() } else { Vec::new() };
    let start = bytes.len();
    bytes.extend_from_slice(rest);
    if how & 3 == 0 {
        let seed = u32::from_le_bytes(bytes[60..64].try_into().expect("four bytes"));
        mend(&mut bytes[start..], seed);
    }
    let memory = Memory::new();
    memory.set_content(NAME, &bytes);
    let whole = match Snapshot::newest(&memory) {
        Ok(snapshot) => {
            let snapshot = snapshot.expect("it has its name");
            read_all(&snapshot).ok().inspect(|items| {
                assert_eq!(items.len() as u64, snapshot.items());
            })
        }
        Err(_) => None,
    };
    let Ok(salvaged) = Snapshot::salvage(&memory, Some(ID)) else { return };
    let (snapshot, fault) = salvaged.expect("it has its name");
    let copy: Arc<dyn Storage> = Arc::new(Memory::new());
    let lost = snapshot.repair(&copy, 50).expect("memory can be written");
    let copied = Snapshot::newest(&*copy).expect("it is whole").expect("it is there");
    let copied = read_all(&copied).expect("it is whole");
    if let Some(whole) = whole {
        assert!(fault.is_none() && lost.is_empty());
        // Blocks may be out of the order of their classes, which reading tolerates.
        let sorted = |mut items: Vec<String>| {
            items.sort();
            items
        };
        assert_eq!(sorted(copied), sorted(whole));
    }
});
