//! Random batches for the log, and their recovery.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use hotring_log::storage::memory::Memory;
use hotring_log::{
    Effect, Id, Log, Lsn, Options, Records, RecoverError, Recovered, Storage, Syncer, When, Writer,
    recover,
};

pub const ID: Id = *b"the id of a test";

/// The number of a batch's last record, and its effects as bytes.
pub type Batch = (Lsn, Vec<u8>);

fn put_down(bytes: &mut Vec<u8>, effect: &Effect<'_>) {
    let (what, key) = match effect {
        Effect::Put { key, .. } => (1, *key),
        Effect::Remove { key } => (2, *key),
        Effect::Clear => (3, b"".as_slice()),
        Effect::Pin { key } => (4, *key),
        Effect::Unpin { key } => (5, *key),
        Effect::Expire { key, .. } => (6, *key),
        Effect::Change { key, .. } => (7, *key),
        Effect::Database { number } => (8, std::slice::from_ref(number)),
        Effect::Order { order } => (9, &order[..]),
        Effect::Epochs { history } => (10, *history),
        Effect::Durable { .. } => panic!("the log's own records are not handed over"),
    };
    bytes.push(what);
    bytes.extend_from_slice(key);
    if let Effect::Put { form, expire_at, value, .. } = effect {
        bytes.push(*form);
        bytes.extend_from_slice(&expire_at.unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    if let Effect::Expire { expire_at, .. } = effect {
        bytes.extend_from_slice(&expire_at.unwrap_or(0).to_le_bytes());
    }
}

pub fn as_bytes(effects: &[Effect<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    effects.iter().for_each(|effect| put_down(&mut bytes, effect));
    bytes
}

/// Draws a batch: its records, and its effects as bytes.
pub fn draw(random: &mut Rng, thread: usize) -> (Records, Vec<u8>) {
    let (mut records, mut bytes) = (Records::new(), Vec::new());
    for _ in 0..[1, 1, 1, 2, 4][random.usize(..5)] {
        let key = format!("{thread}:{}", random.usize(..20)).into_bytes();
        let expire_at = (random.usize(..3) == 0).then(|| random.usize(..1 << 40) as u64);
        let len = [0, 8, 100, 700, 3_000][random.usize(..5)];
        let value = vec![b'a' + random.usize(..26) as u8; len];
        let effect = match random.usize(..10) {
            0 => Effect::Remove { key: &key },
            1 => Effect::Pin { key: &key },
            2 => Effect::Unpin { key: &key },
            3 => Effect::Clear,
            form => Effect::Put { key: &key, form: form as u8, expire_at, value: &value },
        };
        put_down(&mut bytes, &effect);
        match effect {
            Effect::Put { key, form, .. } if len > 500 => {
                records.push_attached(key, form, expire_at, Arc::new(value.clone()));
            }
            effect => records.push(&effect),
        }
    }
    (records, bytes)
}

/// The batches in the log, according to recovery.
pub fn recovered(
    storage: &dyn Storage,
    from: Lsn,
) -> Result<(Recovered, Vec<Batch>), RecoverError> {
    let mut batches = Vec::new();
    let report = recover(storage, Some(ID), from, &mut |lsn, effects| {
        batches.push((lsn, as_bytes(effects)));
    })?;
    Ok((report, batches))
}

/// A log on a storage, with writer, syncer and clock.
pub struct Running {
    pub log: Arc<Log>,
    pub writer: Writer,
    pub syncer: Syncer,
    pub now: Duration,
    /// How far the clock moves with each step.
    pub pace: Duration,
    records: Records,
}

impl Running {
    pub fn new(memory: &Memory, when: When, segment_len: u64, recovered: &Recovered) -> Running {
        let log = Arc::new(Log::new(recovered.last, when, 1 << 20));
        let options = Options { segment_len, ..Options::new(ID) };
        let storage = Arc::new(memory.clone());
        let (writer, syncer) = Writer::new(log.clone(), storage, options, recovered);
        let (now, pace, records) = (Duration::ZERO, Duration::from_millis(100), Records::new());
        Running { log, writer, syncer, now, pace, records }
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Batch {
        let effect = Effect::Put { key, form: 1, expire_at: None, value };
        self.records.push(&effect);
        (self.log.append(&mut self.records), as_bytes(&[effect]))
    }

    pub fn step(&mut self) -> bool {
        self.now += self.pace;
        self.writer.step(self.now)
    }

    pub fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| assert!(self.step()));
    }

    pub fn close(&mut self) {
        self.log.close();
        assert!(!self.step(), "it has ended");
    }
}
