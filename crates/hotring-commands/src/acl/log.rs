//! Recent denials, for ACL LOG.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A similar denial within this many milliseconds is counted in the earlier entry.
const GROUPED_MS: u64 = 60_000;

/// The number of latest entries that are searched for a similar one.
const SEARCHED: usize = 10;

/// The maximum number of kept bytes of a key, channel or name.
const TEXT_LEN_MAX: usize = 1024;

/// The reason of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Auth,
    Command,
    Key,
    Channel,
}

impl Reason {
    /// All reasons.
    pub(crate) const ALL: [Reason; 4] =
        [Reason::Auth, Reason::Command, Reason::Key, Reason::Channel];

    /// Redis's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Auth => "auth",
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
        }
    }
}

/// The source of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// From a client.
    Client,
    /// From a client's transaction.
    Transaction,
    /// From a client's script.
    Script,
}

impl Origin {
    /// Redis's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Origin::Client => "toplevel",
            Origin::Transaction => "multi",
            Origin::Script => "lua",
        }
    }
}

/// A denial and the denied client.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Counts from 0, over the life of the process.
    pub id: u64,
    /// The number of such denials.
    pub count: u64,
    pub reason: Reason,
    pub origin: Origin,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The name given to AUTH, or the user's.
    pub user: Vec<u8>,
    /// Unix milliseconds of the first denial.
    pub created_at: u64,
    /// Unix milliseconds of the last denial.
    pub updated_at: u64,
    /// The connection, as CLIENT LIST describes it.
    pub client: String,
}

/// The log, shared by all threads.
#[derive(Debug, Default)]
pub struct DenialLog {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    next_id: u64,
    /// From the latest to the oldest.
    entries: VecDeque<Entry>,
    /// The number of denials for each of [`Reason::ALL`], including those whose entries were dropped.
    counts: [u64; Reason::ALL.len()],
}

/// The contents of an entry.
pub(crate) struct Denial<'a> {
    pub reason: Reason,
    pub origin: Origin,
    pub object: &'a [u8],
    pub user: &'a [u8],
    /// Unix milliseconds.
    pub now: u64,
    /// The connection, as CLIENT LIST describes it.
    pub client: String,
}

impl DenialLog {
    /// Adds a denial; keeps at most `len_max` entries.
    pub(crate) fn add(&self, denial: Denial<'_>, len_max: usize) {
        let mut kept = self.kept();
        kept.counts[denial.reason as usize] += 1;
        let (object, user) = (shortened(denial.object), shortened(denial.user));
        let is_similar = |entry: &Entry| {
            entry.reason == denial.reason
                && entry.origin == denial.origin
                && entry.updated_at.abs_diff(denial.now) <= GROUPED_MS
                && entry.object == object
                && entry.user == user
        };
        let found = kept.entries.iter().take(SEARCHED).position(is_similar);
        let entry = match found.and_then(|position| kept.entries.remove(position)) {
            Some(mut entry) => {
                (entry.count, entry.updated_at) = (entry.count + 1, denial.now);
                entry.client = denial.client;
                entry
            }
            None => {
                let id = kept.next_id;
                kept.next_id += 1;
                Entry {
                    id,
                    count: 1,
                    reason: denial.reason,
                    origin: denial.origin,
                    object: object.to_vec(),
                    user: user.to_vec(),
                    created_at: denial.now,
                    updated_at: denial.now,
                    client: denial.client,
                }
            }
        };
        kept.entries.push_front(entry);
        kept.entries.truncate(len_max);
    }

    /// The latest entries, latest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<Entry> {
        self.kept().entries.iter().take(count).cloned().collect()
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        self.kept().entries.clear();
    }

    /// The number of denials for this reason.
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.kept().counts[reason as usize]
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shortened(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_LEN_MAX)]
}
