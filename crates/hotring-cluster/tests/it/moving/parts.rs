//! What the simulator of moves consists of: the records, two shards, the sources' machines, and their links.

use std::collections::{BTreeMap, VecDeque};

use super::disks::{Disk, Numbers};
use super::world::Values;
use crate::ids::{Epoch, Lsn, Moment};
use crate::mirrors::Owner as Mirrored;
use crate::moves::{Ask, Attempt, Incoming, Outcome, Outgoing, Owner, ToSource, ToTarget, View};
use crate::records::Revision;

/// What a target has in its stream of imports.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    Begin(Attempt),
    Value(u8, Option<u64>),
    /// The disk must have what is before.
    Sync(Attempt),
    Mark(Attempt, Lsn),
    Drop,
    Show,
}

#[derive(Debug)]
pub(super) enum Down {
    Message(ToTarget),
    Value(Attempt, u8, Option<u64>),
}

/// A connection from one primary of the source to one of the target.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) source: u64,
    pub(super) down: VecDeque<(Moment, Down)>,
    pub(super) up: VecDeque<(Moment, ToSource)>,
    pub(super) lost_at: Option<Moment>,
}

/// The source's side in one primary, which may have been replaced.
#[derive(Debug)]
pub(super) struct Giver {
    pub(super) id: u64,
    pub(super) shard: usize,
    pub(super) machine: Outgoing,
    /// The attempt and the keys that are still to be sent.
    pub(super) copy: Option<(Attempt, Vec<u8>)>,
    /// The writes of each key when the target was asked to sync.
    pub(super) asked: Option<Numbers>,
    pub(super) link: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) epoch: u64,
    pub(super) serves_at: Moment,
    pub(super) owns: bool,
    pub(super) holds_writes: bool,
    pub(super) holds_reads: bool,
    pub(super) lsn: Lsn,
    pub(super) values: Values,
    /// Keys that were given away and are not removed yet.
    pub(super) left_behind: bool,
    pub(super) stream: Vec<Entry>,
    pub(super) in_sync: usize,
    pub(super) disk: Disk,
    pub(super) incoming: Option<Incoming>,
    pub(super) giver: Option<u64>,
    pub(super) opened_on: BTreeMap<Attempt, usize>,
    pub(super) owner: Option<Mirrored>,
}

#[derive(Debug)]
pub(super) struct Records {
    pub(super) revision: Revision,
    pub(super) shards: [(Revision, u64); 2],
    pub(super) table: Revision,
    pub(super) owner: usize,
    /// The revision and the source of the move.
    pub(super) record: Option<(Revision, usize)>,
}

impl Records {
    pub(super) fn next(&mut self) -> Revision {
        self.revision += 1;
        self.revision
    }

    pub(super) fn view(&self, from: usize) -> View {
        let shard = |at: usize| (self.shards[at].0, Epoch(self.shards[at].1));
        View {
            source: shard(from),
            target: shard(1 - from),
            table: self.table,
            owner: if self.owner == from { Owner::Source } else { Owner::Target },
            record: self.record.filter(|(_, of)| *of == from).map(|(revision, _)| revision),
        }
    }

    pub(super) fn take(&mut self, from: usize, ask: Ask) -> Outcome {
        match ask {
            Ask::Read(_) => Outcome::Read(self.view(from)),
            Ask::Commit(_, expected) if expected != self.view(from) => Outcome::Conflict,
            Ask::Commit(..) => {
                self.table = self.next();
                self.owner = 1 - from;
                self.record = None;
                Outcome::Committed
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Asker {
    Giver(u64),
    /// The target's shard in this epoch.
    Taker(usize, u64),
}

#[derive(Debug, Default)]
pub(super) struct Stats {
    pub(super) moved: usize,
    pub(super) given_up: usize,
    pub(super) dropped: usize,
    pub(super) failovers: usize,
    pub(super) cuts: usize,
    pub(super) writes: usize,
    pub(super) reads: usize,
    pub(super) mirrored: usize,
    pub(super) revoked: usize,
}

pub(super) fn number(ask: Ask) -> u64 {
    match ask {
        Ask::Read(number) | Ask::Commit(number, _) => number,
    }
}

impl Shard {
    /// The import as the stream has it: its mark, and its keys.
    pub(super) fn import(&self, left_behind: &Values) -> (Option<Attempt>, Values) {
        let (mut marked, mut values) = (None, Values::new());
        for entry in &self.stream {
            match *entry {
                Entry::Begin(attempt) => {
                    marked = Some(attempt);
                    values.extend(left_behind.iter());
                }
                Entry::Value(key, Some(value)) => _ = values.insert(key, value),
                Entry::Value(key, None) => _ = values.remove(&key),
                Entry::Sync(_) | Entry::Mark(..) => {}
                Entry::Drop | Entry::Show => (marked, values) = (None, Values::new()),
            }
        }
        (marked, values)
    }
}
