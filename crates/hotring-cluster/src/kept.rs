//! What a coordinator keeps: named records with revisions, changes of them, and leases. The words of each of them,
//! and the limits that all coordinators share.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::records::Revision;

/// The number of a lease.
pub type LeaseId = i64;

/// The longest name of a record in bytes.
pub const NAME_MAX: usize = 512;

/// Most comparisons of a transaction, and most changes: what etcd allows unless told otherwise.
pub const OPERATIONS_MAX: usize = 128;

/// Most bytes of names and values in a transaction. etcd takes requests of 1.5 MiB.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// The longest lease.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A record with the revision of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name, without the cluster's prefix.
    pub name: String,
    /// The revision of its last change.
    pub revision: Revision,
    /// The value.
    pub value: Vec<u8>,
}

/// All records of a cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision of the moment.
    pub revision: Revision,
    /// The records in the order of their names.
    pub records: Vec<Record>,
}

/// A change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes a record, which ends with the lease if there is one.
    Put {
        /// The name.
        name: String,
        /// The value.
        value: Vec<u8>,
        /// The lease under which it exists.
        lease: Option<LeaseId>,
    },
    /// Removes a record.
    Delete {
        /// The name.
        name: String,
    },
}

/// If all these records have these revisions, all these changes are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Names with the revisions that they must have; 0 if there must be no such record.
    pub expect: Vec<(String, Revision)>,
    /// The changes.
    pub changes: Vec<Change>,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is through, at this revision.
    Done(Revision),
    /// A record had another revision: it did not take effect and never will.
    Conflict,
}

/// A lease as the coordinator granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// How long it lives without being kept alive; perhaps longer than asked for.
    pub ttl: Duration,
}

/// What a watch saw of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The revision.
    pub revision: Revision,
    /// The names with their new values; none for a record that is gone.
    pub records: Vec<(String, Option<Vec<u8>>)>,
}

impl Change {
    /// The name of the record.
    pub fn name(&self) -> &str {
        match self {
            Change::Put { name, .. } | Change::Delete { name } => name,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Change::Put { value, .. } => value.len(),
            Change::Delete { .. } => 0,
        }
    }
}

impl Transaction {
    /// Why no coordinator takes this transaction, if so: it is too large, or changes a record twice.
    pub fn check(&self) -> Result<(), String> {
        let (compared, changed) = (self.expect.len(), self.changes.len());
        if compared.max(changed) > OPERATIONS_MAX {
            return Err(format!(
                "a transaction of {compared} comparisons and {changed} changes; {OPERATIONS_MAX} are allowed"
            ));
        }
        let names = || {
            let compared = self.expect.iter().map(|(name, _)| &name[..]);
            compared.chain(self.changes.iter().map(Change::name))
        };
        if let Some(name) = names().find(|name| name.is_empty() || name.len() > NAME_MAX) {
            return Err(format!("a name of {} bytes; 1 to {NAME_MAX} are allowed", name.len()));
        }
        let values: usize = self.changes.iter().map(Change::value_len).sum();
        let bytes = names().map(str::len).sum::<usize>() + values;
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(format!(
                "a transaction of {bytes} bytes; {TRANSACTION_BYTES_MAX} are allowed"
            ));
        }
        let mut seen = BTreeSet::new();
        match self.changes.iter().map(Change::name).find(|name| !seen.insert(*name)) {
            Some(name) => Err(format!("a transaction changes the record '{name}' twice")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(name: &str, len: usize) -> Change {
        Change::Put { name: name.into(), value: vec![b'v'; len], lease: None }
    }

    #[test]
    fn a_transaction_beyond_a_limit_is_named() {
        let changes = |changes: Vec<Change>| Transaction { expect: vec![], changes };
        let many = |n: usize| (0..n).map(|i| put(&i.to_string(), 1)).collect::<Vec<_>>();
        assert_eq!(changes(many(OPERATIONS_MAX)).check(), Ok(()));
        let bad = [
            (changes(many(OPERATIONS_MAX + 1)), "129 changes"),
            (changes(vec![put("", 1)]), "a name of 0 bytes"),
            (changes(vec![put(&"n".repeat(NAME_MAX + 1), 1)]), "a name of 513 bytes"),
            (changes(vec![put("a", TRANSACTION_BYTES_MAX)]), "1048577 bytes"),
            (changes(vec![put("a", 1), Change::Delete { name: "a".into() }]), "'a' twice"),
            (Transaction { expect: vec![("".into(), 1)], changes: vec![] }, "a name of 0 bytes"),
        ];
        for (transaction, why) in bad {
            let error = transaction.check().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
