//! The embedded coordinator without I/O: records with revisions, transactions, leases that end by time, and the last
//! changes for watches. It follows etcd: each transaction that changes anything, and each end of a lease with records,
//! raises the revision by one.
//!
//! Its owner passes the time, and logs a [`Step`] for each change before anyone learns of it. The same steps give the
//! same keeper, except for the ends of leases: a lease that is read from bytes or redone lives for its whole length.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::coded::{Coded, read_list, write_list};
use crate::ids::Moment;
use crate::kept::{
    Change, Changed, Lease, LeaseId, Outcome, Record, Snapshot, TTL_MAX, Transaction,
};
use crate::records::Revision;

/// The shortest lease; a shorter wish gets this one.
pub const TTL_MIN: Duration = Duration::from_millis(100);

/// Most bytes of all names and values.
pub const BYTES_MAX: usize = 16 << 20;

/// Most leases.
pub const LEASES_MAX: usize = 16_384;

/// Most revisions whose changes are kept for watches. A cluster makes a few changes a minute.
pub const HISTORY_MAX: usize = 1_024;

/// Most bytes of these changes.
const HISTORY_BYTES_MAX: usize = 4 << 20;

/// The version of the bytes of a keeper.
const FORMAT: u32 = 1;

/// A change of the keeper, as its owner logs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A transaction that is through.
    Transact(Transaction),
    /// A lease was granted for this time.
    Grant(Duration),
    /// A lease was revoked or over.
    End(LeaseId),
}

/// A request that the keeper refuses; the text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Changes that a watch needs are no longer kept, or never were: the revision is of another life of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted;

#[derive(Clone, Debug)]
struct Kept {
    revision: Revision,
    value: Vec<u8>,
    lease: Option<LeaseId>,
}

#[derive(Clone, Debug)]
struct Held {
    ttl: Duration,
    until: Moment,
    names: BTreeSet<String>,
}

/// The records, the leases, and the last changes.
///
/// 1. A record under a lease is among the names of that lease, and of no other.
/// 2. The history holds each change after `compacted`, in the order of the revisions and without a gap.
#[derive(Clone, Debug)]
pub struct Keeper {
    revision: Revision,
    records: BTreeMap<String, Kept>,
    /// Bytes of all names and values.
    bytes: usize,
    leases: BTreeMap<LeaseId, Held>,
    next_lease: LeaseId,
    history: VecDeque<Changed>,
    history_bytes: usize,
    compacted: Revision,
}

impl Keeper {
    /// Without records. The first lease has this number: a keeper that forgets at its end must not grant the numbers
    /// of an earlier life again, as their owners may still keep them alive.
    pub fn new(first_lease: LeaseId) -> Self {
        Keeper {
            revision: 0,
            records: BTreeMap::new(),
            bytes: 0,
            leases: BTreeMap::new(),
            next_lease: first_lease,
            history: VecDeque::new(),
            history_bytes: 0,
            compacted: 0,
        }
    }

    /// The revision of the last change.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// All records.
    pub fn read(&self) -> Snapshot {
        let record = |(name, kept): (&String, &Kept)| Record {
            name: name.clone(),
            revision: kept.revision,
            value: kept.value.clone(),
        };
        Snapshot { revision: self.revision, records: self.records.iter().map(record).collect() }
    }

    /// Makes changes if the records are as expected.
    pub fn transact(&mut self, transaction: &Transaction) -> Result<Outcome, Refused> {
        transaction.check().map_err(Refused)?;
        let now = |name: &String| self.records.get(name).map_or(0, |kept| kept.revision);
        let is_met = transaction.expect.iter().all(|(name, revision)| now(name) == *revision);
        if !is_met && !wrong!(IgnoreExpected) {
            return Ok(Outcome::Conflict);
        }
        let mut more = 0;
        for change in &transaction.changes {
            let Change::Put { name, value, lease } = change else { continue };
            if let Some(lease) = lease.filter(|lease| !self.leases.contains_key(lease)) {
                return Err(Refused(unknown_lease(lease)));
            }
            more += name.len() + value.len();
        }
        if self.bytes + more > BYTES_MAX {
            return Err(Refused(format!(
                "its records would have more than {BYTES_MAX} bytes: remove nodes or use etcd"
            )));
        }
        Ok(Outcome::Done(self.apply(transaction.changes.iter().cloned())))
    }

    /// Makes changes at a revision of their own, if there are any.
    fn apply(&mut self, changes: impl Iterator<Item = Change>) -> Revision {
        let revision = self.revision + 1;
        let mut records = Vec::new();
        for change in changes {
            match change {
                Change::Put { name, value, lease } => {
                    self.remove(&name);
                    self.insert(name.clone(), Kept { revision, value: value.clone(), lease });
                    records.push((name, Some(value)));
                }
                Change::Delete { name } => {
                    if self.remove(&name) {
                        records.push((name, None));
                    }
                }
            }
        }
        if !records.is_empty() {
            wrong!(SameRevision => return self.revision);
            self.revision = revision;
            self.remember(Changed { revision, records });
        }
        self.revision
    }

    fn insert(&mut self, name: String, kept: Kept) {
        self.bytes += name.len() + kept.value.len();
        if let Some(held) = kept.lease.and_then(|lease| self.leases.get_mut(&lease)) {
            held.names.insert(name.clone());
        }
        self.records.insert(name, kept);
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(kept) = self.records.remove(name) else { return false };
        self.bytes -= name.len() + kept.value.len();
        if let Some(held) = kept.lease.and_then(|lease| self.leases.get_mut(&lease)) {
            held.names.remove(name);
        }
        true
    }

    /// Grants a lease of at least this length.
    pub fn grant(&mut self, now: Moment, ttl: Duration) -> Result<Lease, Refused> {
        if ttl > TTL_MAX {
            return Err(Refused(format!("a lease of {ttl:?}; at most {TTL_MAX:?} are allowed")));
        }
        if self.leases.len() >= LEASES_MAX {
            return Err(Refused(format!("it has {LEASES_MAX} leases: end some nodes")));
        }
        // Whole milliseconds, as its bytes have them.
        let ttl = Duration::from_millis(ttl.max(TTL_MIN).as_nanos().div_ceil(1_000_000) as u64);
        let id = self.next_lease;
        self.next_lease += 1;
        self.leases.insert(id, Held { ttl, until: now + ttl, names: BTreeSet::new() });
        Ok(Lease { id, ttl })
    }

    /// Keeps a lease alive.
    pub fn keep_alive(&mut self, now: Moment, lease: LeaseId) -> Result<(), Refused> {
        let held = self.leases.get_mut(&lease).ok_or_else(|| Refused(unknown_lease(lease)))?;
        held.until = now + held.ttl;
        Ok(())
    }

    /// Lets each lease live for its whole length again.
    pub fn renew(&mut self, now: Moment) {
        self.leases.values_mut().for_each(|held| held.until = now + held.ttl);
    }

    /// Ends a lease and removes the records under it.
    pub fn revoke(&mut self, lease: LeaseId) -> Result<(), Refused> {
        let held = self.leases.remove(&lease).ok_or_else(|| Refused(unknown_lease(lease)))?;
        wrong!(KeepLeased => return Ok(()));
        self.apply(held.names.into_iter().map(|name| Change::Delete { name }));
        Ok(())
    }

    /// When the next lease ends unless it is kept alive.
    pub fn next_end(&self) -> Option<Moment> {
        self.leases.values().map(|held| held.until).min()
    }

    /// Ends a lease that is over, and tells which. The owner must answer requests that came before `now` first, since
    /// they may keep leases alive.
    pub fn expire(&mut self, now: Moment) -> Option<LeaseId> {
        let lease = self.leases.iter().find(|(_, held)| held.until <= now).map(|(id, _)| *id)?;
        self.revoke(lease).ok().map(|()| lease)
    }

    /// The changes after a revision, in their order.
    pub fn since(&self, after: Revision) -> Result<impl Iterator<Item = &Changed>, Compacted> {
        if after < self.compacted || after > self.revision {
            return Err(Compacted);
        }
        let seen = self.history.partition_point(|changed| changed.revision <= after);
        Ok(self.history.iter().skip(seen + usize::from(wrong!(SkipChange))))
    }

    fn remember(&mut self, changed: Changed) {
        self.history_bytes += len_of(&changed);
        self.history.push_back(changed);
        while self.history.len() > HISTORY_MAX || self.history_bytes > HISTORY_BYTES_MAX {
            let Some(oldest) = self.history.pop_front() else { return };
            self.history_bytes -= len_of(&oldest);
            self.compacted = oldest.revision;
        }
    }

    /// Makes a change again that was logged behind the bytes of this keeper.
    pub fn redo(&mut self, now: Moment, step: &Step) -> Result<(), Refused> {
        match step {
            Step::Transact(transaction) => match self.transact(transaction)? {
                Outcome::Done(_) => Ok(()),
                Outcome::Conflict => Err(Refused("a transaction does not fit".to_owned())),
            },
            Step::Grant(ttl) => self.grant(now, *ttl).map(drop),
            Step::End(lease) => self.revoke(*lease),
        }
    }

    /// All of it but the history: watches begin again behind the bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes + 32 * self.records.len());
        FORMAT.write(&mut out);
        self.revision.write(&mut out);
        self.next_lease.write(&mut out);
        let leases: Vec<(LeaseId, Duration)> =
            self.leases.iter().map(|(id, held)| (*id, held.ttl)).collect();
        write_list(&leases, &mut out);
        (self.records.len() as u32).write(&mut out);
        for (name, kept) in &self.records {
            name.write(&mut out);
            kept.revision.write(&mut out);
            kept.value.write(&mut out);
            kept.lease.write(&mut out);
        }
        out
    }

    /// The keeper of these bytes. Each lease lives for its whole length from `now` on: its owner may have kept it
    /// alive until just before the end of the last keeper.
    pub fn from_bytes(now: Moment, mut input: &[u8]) -> Option<Keeper> {
        let input = &mut input;
        u32::read(input).filter(|format| *format == FORMAT)?;
        let (revision, next_lease) = (u64::read(input)?, i64::read(input)?);
        // No keeper comes so far: behind it there are no more numbers.
        if revision > u64::MAX / 2 || next_lease > i64::MAX / 4 * 3 {
            return None;
        }
        let mut keeper = Keeper::new(next_lease);
        (keeper.revision, keeper.compacted) = (revision, revision);
        for (id, ttl) in read_list(input)? {
            if id >= keeper.next_lease {
                return None;
            }
            keeper.leases.insert(id, Held { ttl, until: now + ttl, names: BTreeSet::new() });
        }
        for _ in 0..u32::read(input)? {
            let (name, revision): (String, Revision) = Coded::read(input)?;
            let (value, lease) = (Vec::read(input)?, Option::read(input)?);
            let is_held = lease.is_none_or(|lease| keeper.leases.contains_key(&lease));
            if revision > keeper.revision || !is_held || keeper.records.contains_key(&name) {
                return None;
            }
            keeper.insert(name, Kept { revision, value, lease });
        }
        input.is_empty().then_some(keeper)
    }
}

impl Coded for Step {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Step::Transact(transaction) => {
                1u8.write(out);
                transaction.write(out);
            }
            Step::Grant(ttl) => {
                2u8.write(out);
                ttl.write(out);
            }
            Step::End(lease) => {
                3u8.write(out);
                lease.write(out);
            }
        }
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        match u8::read(input)? {
            1 => Transaction::read(input).map(Step::Transact),
            2 => Duration::read(input).map(Step::Grant),
            3 => LeaseId::read(input).map(Step::End),
            _ => None,
        }
    }
}

fn unknown_lease(lease: LeaseId) -> String {
    format!("there is no lease {lease}: it is over")
}

fn len_of(changed: &Changed) -> usize {
    let lens =
        changed.records.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len));
    lens.sum::<usize>() + size_of::<Changed>()
}
