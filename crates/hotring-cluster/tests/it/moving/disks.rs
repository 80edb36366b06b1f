//! The disks of both shards, and power cuts: what is not synced is gone.

use super::parts::Entry;
use super::world::{KEYS, Values, World};
use crate::faults::{self, Fault};

/// A number for each key: that of a write.
pub(super) type Numbers = [u64; KEYS as usize];

/// What a shard has synced.
#[derive(Debug, Default)]
pub(super) struct Disk {
    values: Values,
    left_behind: bool,
    /// The length of the stream of imports.
    pub(super) entries: usize,
}

/// The writes that a power cut must not take.
#[derive(Debug, Default)]
pub(super) struct Floors {
    /// The last write of each key.
    pub(super) last: Numbers,
    /// The last one that removed it.
    removed: Numbers,
    /// The last one that its owner has synced.
    synced: Numbers,
}

impl Floors {
    pub(super) fn wrote(&mut self, key: u8, number: u64, removes: bool) {
        self.last[usize::from(key)] = number;
        if removes {
            self.removed[usize::from(key)] = number;
        }
    }

    /// The keys have another owner, which had synced these when it was asked. What is later may be lost, as the last
    /// writes of any shard may.
    pub(super) fn lower(&mut self, asked: Numbers) {
        for (synced, asked) in self.synced.iter_mut().zip(asked) {
            *synced = (*synced).min(asked);
        }
    }

    /// A key is as a power cut has left it.
    fn recovered(&mut self, key: u8, value: Option<u64>) -> Result<(), String> {
        let at = usize::from(key);
        let number = value.unwrap_or(self.removed[at]);
        if number < self.synced[at] {
            let synced = self.synced[at];
            return Err(format!("write {synced} of key {key} was synced, and {value:?} is left"));
        }
        self.last[at] = number;
        Ok(())
    }
}

impl World {
    /// A shard syncs all that it has.
    pub(super) fn sync(&mut self, at: usize) {
        let serves = self.serves(at) && self.records.owner == at;
        let shard = &mut self.shards[at];
        let incoming = shard.incoming.as_mut().expect("each shard has one");
        for entry in &shard.stream[shard.disk.entries..] {
            if let Entry::Sync(attempt) = *entry {
                incoming.synced(attempt);
            }
        }
        if !faults::is(Fault::SyncedEarly) || self.rng.u32(..20) == 0 {
            shard.disk = Disk {
                values: shard.values.clone(),
                left_behind: shard.left_behind,
                entries: shard.stream.len(),
            };
            if serves {
                self.floors.synced = self.floors.last;
            }
        }
        self.take_over(at);
    }

    /// The power of a shard goes, and comes again.
    pub(super) fn cut_power(&mut self, at: usize) -> Result<(), String> {
        self.stats.cuts += 1;
        let shard = &mut self.shards[at];
        shard.values = shard.disk.values.clone();
        shard.left_behind = shard.disk.left_behind;
        shard.stream.truncate(shard.disk.entries);
        shard.in_sync = shard.stream.len();
        self.forget_mirrors(at);
        self.fail_over(at);
        let is_owner = self.records.owner == at;
        let shard = &mut self.shards[at];
        if !is_owner {
            // It may have removed them, and not synced that.
            shard.left_behind |= !shard.values.is_empty();
            return Ok(());
        }
        let left = match shard.owns {
            true => shard.values.clone(),
            false => shard.import(&Values::new()).1,
        };
        for key in 0..KEYS {
            self.floors.recovered(key, left.get(&key).copied())?;
        }
        self.truth = left;
        Ok(())
    }
}
