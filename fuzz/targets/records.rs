//! Fuzzes what reads the coordinator's records, its log and its link, and the messages of a move. Nothing panics, and
//! what is read is the same if it is written and read again.
//!
//! The first byte says what the rest is: 0 records, each a name, a zero, its value and a zero; 1 the bytes of a
//! keeper, and steps that are made again behind them; 2 one thing of the link; 3 one message of a move.
#![no_main]

use std::time::Duration;

use hotring_cluster::coded::{Coded, bytes_of, read_all};
use hotring_cluster::directory::{
    Directory, SLOT_TABLE, move_name, move_value, shard_name, shard_value, slots_value,
};
use hotring_cluster::keeper::{Keeper, Step};
use hotring_cluster::kept::{Changed, Lease, Outcome, Snapshot, Transaction};
use hotring_commands::state::moves::codec::{
    to_source_bytes, to_source_of, to_target_bytes, to_target_of,
};
use hotring_commands::state::replication::codec::{tenure_of, tenure_to_bytes};
use libfuzzer_sys::fuzz_target;

const NOW: Duration = Duration::from_secs(1000);

fuzz_target!(|input: &[u8]| {
    let Some((kind, input)) = input.split_first() else { return };
    match kind % 4 {
        0 => directory(input),
        1 => keeper(input),
        2 => link(input),
        _ => moves(input),
    }
});

fn directory(input: &[u8]) {
    let parts: Vec<&[u8]> = input.split(|byte| *byte == 0).collect();
    let named = |pair: &[&'_ [u8]]| pair.len() == 2 && std::str::from_utf8(pair[0]).is_ok();
    let records: Vec<_> = parts.chunks(2).filter(|pair| named(pair)).collect();
    let records = records.iter().map(|pair| (std::str::from_utf8(pair[0]).unwrap(), 1, pair[1]));
    let Ok(read) = Directory::read(records) else { return };
    let shards = read.shards.iter().map(|(id, (_, shard))| (shard_name(*id), shard_value(shard)));
    let moves = read.moves.iter().map(|(id, (_, wanted))| (move_name(*id), move_value(wanted)));
    let table = (SLOT_TABLE.to_string(), slots_value(&read.owners));
    let all: Vec<_> = shards.chain(moves).chain([table]).collect();
    let again = Directory::read(all.iter().map(|(name, value)| (&name[..], 1, &value[..])));
    let again = again.expect("what is written can be read");
    assert_eq!((&again.shards, &again.moves), (&read.shards, &read.moves));
    assert_eq!(again.owners, read.owners);
}

fn keeper(input: &[u8]) {
    let mut input = input;
    let Some(bytes) = Vec::<u8>::read(&mut input) else { return };
    let Some(mut keeper) = Keeper::from_bytes(NOW, &bytes) else { return };
    while let Some(step) = Step::read(&mut input) {
        let _ = keeper.redo(NOW, &step);
    }
    let bytes = keeper.to_bytes();
    let again = Keeper::from_bytes(NOW, &bytes).expect("what is written can be read");
    assert_eq!(again.to_bytes(), bytes);
    while let Some(end) = keeper.next_end() {
        keeper.expire(end);
    }
}

fn link(input: &[u8]) {
    fn same<T: Coded>(input: &[u8]) {
        if let Some(thing) = read_all::<T>(input) {
            assert_eq!(bytes_of(&thing), input);
        }
    }
    let Some((kind, input)) = input.split_first() else { return };
    match kind % 6 {
        0 => same::<Snapshot>(input),
        1 => same::<Changed>(input),
        2 => same::<Transaction>(input),
        3 => same::<Outcome>(input),
        4 => same::<Lease>(input),
        _ => same::<Step>(input),
    }
}

fn moves(input: &[u8]) {
    if let Some(message) = to_target_of(input) {
        assert_eq!(to_target_bytes(message), input);
    }
    if let Some(message) = to_source_of(input) {
        assert_eq!(to_source_bytes(message), input);
    }
    if let Some(tenure) = tenure_of(input) {
        assert_eq!(tenure_of(&tenure_to_bytes(&tenure)), Some(tenure));
    }
}
