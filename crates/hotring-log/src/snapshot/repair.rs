//! Repair: makes a new snapshot from the readable blocks of a damaged one.

use std::io;
use std::sync::Arc;

use super::{ALL, HOTTEST, Snapshot, SnapshotError, SnapshotWriter};
use crate::record::Effect;
use crate::record::Lsn;
use crate::storage::Storage;

impl Snapshot {
    /// Copies the readable blocks to another directory whose log ends with the record `last`. If
    /// that log ends before [`end`](Self::end), keys that were read late are newer than the others.
    /// Returns the errors of the damaged blocks.
    pub fn repair(
        &self,
        to: &Arc<dyn Storage>,
        last: Lsn,
    ) -> Result<Vec<SnapshotError>, SnapshotError> {
        let failed = |error: io::Error| SnapshotError::Io { name: to.location(), error };
        let mut copy =
            SnapshotWriter::create(to.clone(), self.id(), self.after()).map_err(failed)?;
        let (mut buffer, mut lost) = (Vec::new(), Vec::new());
        'classes: for class in [HOTTEST, ALL] {
            copy.set_class(class).map_err(failed)?;
            loop {
                let at = self.next_at();
                let mut push = |effects: &[Effect<'_>]| effects.iter().for_each(|e| copy.push(e));
                match self.read_block(class, &mut buffer, &mut push) {
                    Ok(None) => break,
                    Ok(Some(_)) => copy.write_block().map_err(failed)?,
                    Err(error @ SnapshotError::Damaged { .. }) => {
                        lost.push(error);
                        if self.next_at() == at {
                            // The start of the next block is lost, too.
                            break 'classes;
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let end = self.end().min(last);
        copy.finish(end).and_then(|finished| finished.publish(end)).map_err(failed)?;
        Ok(lost)
    }
}
