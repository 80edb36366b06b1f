//! Reading the stream from the segments: from anywhere, over any segments, beside the writer.

use std::sync::Arc;

use fastrand::Rng;
use hotring_log::storage::memory::Memory;
use hotring_log::{
    AckWhen, Lsn, PIECE_LEN, Records, Recovered, Run, Storage, Tail, TailError, remove_before,
};

use crate::workload::{Batch, Running, as_bytes, draw};

/// A log of these batches, in many segments. Some values are longer than a piece.
fn log(seed: u64) -> (Memory, Running, Vec<Batch>) {
    let (mut random, memory) = (Rng::with_seed(seed), Memory::new());
    let mut running = Running::new(&memory, AckWhen::Written, 4096, &Recovered::nothing(1));
    let mut order = Vec::new();
    for n in 0..60 {
        let (mut records, bytes) = match n % 20 {
            7 => {
                let (mut records, value) = (Records::new(), vec![n as u8; 2 * PIECE_LEN + n]);
                let effect =
                    hotring_log::Effect::Put { key: b"k", form: 1, expire_at: None, value: &value };
                records.push(&effect);
                (records, as_bytes(&[effect]))
            }
            _ => draw(&mut random, 1),
        };
        order.push((running.log.append(&mut records), bytes));
        if random.usize(..3) > 0 {
            running.step();
        }
        if random.usize(..4) == 0 {
            // Later groups begin with a durable record.
            running.syncer.step();
        }
    }
    running.step();
    (memory, running, order)
}

/// All that is read behind a record, up to another one.
fn read(memory: &Memory, after: Lsn, upto: Lsn) -> Result<Vec<u8>, TailError> {
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let (mut tail, mut bytes) = (Tail::behind(storage, after)?, Vec::new());
    while tail.last() < upto {
        let piece = tail.read(upto)?;
        assert!(piece.len() <= PIECE_LEN);
        bytes.extend(piece);
    }
    assert!(!tail.is_within() && tail.last() == upto);
    Ok(bytes)
}

#[test]
fn the_segments_give_every_record_behind_any_other() {
    let (memory, running, order) = log(1);
    let end = running.log.written();
    let ends: Vec<Lsn> = [0].into_iter().chain(order.iter().map(|(last, _)| *last)).collect();
    for (n, after) in ends.iter().enumerate() {
        for upto in [ends[n], ends[(n + 3).min(ends.len() - 1)], end] {
            let bytes = read(&memory, *after, upto).expect("it is there");
            let run = Run::behind(*after, &bytes).expect("these are whole batches");
            let mut found = Vec::new();
            run.batches(|batch, effects| found.push((batch.lsn, as_bytes(effects))));
            let expected: Vec<Batch> = order
                .iter()
                .filter(|(last, _)| (after + 1..=upto).contains(last))
                .cloned()
                .collect();
            assert!(found == expected, "behind {after} up to {upto}");
        }
    }
}

#[test]
fn what_is_gone_or_damaged_is_told() {
    let (memory, running, order) = log(2);
    let (end, middle) = (running.log.written(), order[30].0);
    remove_before(&memory, middle).expect("it is memory");
    assert!(matches!(read(&memory, 1, end), Err(TailError::Gone)));
    read(&memory, middle, end).expect("it is there");
    let mut names = memory.list().expect("it is memory");
    names.retain(|name| name.ends_with(".hrl"));
    names.sort_unstable();
    let name = &names[names.len() / 2];
    let mut content = memory.content(name).expect("it is listed");
    content[64 + 40] ^= 1;
    memory.set_content(name, &content);
    assert!(matches!(read(&memory, middle, end), Err(TailError::Damaged(_))));
    memory.remove(name).expect("it is memory");
    assert!(matches!(read(&memory, middle, end), Err(TailError::Gone)));
}
