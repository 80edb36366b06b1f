//! Repair: makes a new log from the readable part of a damaged one.

use std::sync::Arc;
use std::time::Duration;

use crate::log::{AckWhen, Log, LogError};
use crate::record::Lsn;
use crate::record::{Effect, Records};
use crate::recover::{Checked, RecoverError, Recovered, check};
use crate::storage::Storage;
use crate::writer::{Options, Writer};

/// Why the repair failed.
#[derive(Debug)]
pub enum RepairError {
    /// The damaged log cannot be read.
    Read(RecoverError),
    /// The new log cannot be written.
    Write(LogError),
}

impl std::fmt::Display for RepairError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RepairError::Read(error) => error.fmt(f),
            RepairError::Write(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RepairError {}

/// Copies everything before the damage to another directory, with the same numbers, and leaves the
/// damaged log as it is. Nothing behind the damage is copied: the missing records could have
/// changed its meaning.
pub fn repair(
    damaged: &dyn Storage,
    from: Lsn,
    to: &Arc<dyn Storage>,
) -> Result<Checked, RepairError> {
    let id = check(damaged, None, from, &mut |_, _| {}).map_err(RepairError::Read)?.id;
    let mut copy: Option<Copy> = None;
    let mut take = |last: Lsn, effects: &[Effect<'_>]| {
        let id = id.expect("a record was found, hence a header");
        let first = last + 1 - effects.len() as u64;
        let copy = copy.get_or_insert_with(|| Copy::new(Options::new(id), to.clone(), first));
        copy.add(effects);
    };
    let checked = check(damaged, id, from, &mut take).map_err(RepairError::Read)?;
    copy.map_or(Ok(()), Copy::finish).map_err(RepairError::Write)?;
    Ok(checked)
}

/// The log that is written.
struct Copy {
    log: Arc<Log>,
    writer: Writer,
    records: Records,
}

impl Copy {
    /// Bytes written at once.
    const GROUP: u64 = 1 << 20;

    fn new(options: Options, to: Arc<dyn Storage>, first: Lsn) -> Copy {
        let log = Arc::new(Log::new(first - 1, AckWhen::Handed, Copy::GROUP));
        let (writer, _) = Writer::new(log.clone(), to, options, &Recovered::nothing(first));
        Copy { log, writer, records: Records::new() }
    }

    fn add(&mut self, effects: &[Effect<'_>]) {
        // Reported at the end.
        if self.log.error().is_some() {
            return;
        }
        effects.iter().for_each(|effect| self.records.push(effect));
        self.log.append(&mut self.records);
        if self.log.is_full() {
            self.writer.step(Duration::ZERO);
        }
    }

    fn finish(mut self) -> Result<(), LogError> {
        self.log.close();
        self.writer.step(Duration::ZERO);
        self.log.error().map_or(Ok(()), Err)
    }
}
