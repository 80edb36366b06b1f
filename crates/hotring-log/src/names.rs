//! The names of the files in a log's directory.

use crate::record::Lsn;

/// The manifest.
pub(crate) const MANIFEST: &str = "manifest.hrm";

/// The manifest until it is on the disk.
pub(crate) const UNFINISHED_MANIFEST: &str = "manifest.tmp";

/// The mark of a full copy that is not finished.
pub(crate) const UNFINISHED_COPY: &str = "copy-unfinished";

/// The mark of data that came by another replica.
pub(crate) const BY_A_REPLICA: &str = "by-a-replica";

/// The segment whose first record is `first`.
pub(crate) fn segment(first: Lsn) -> String {
    format!("log-{first:020}.hrl")
}

/// The first record of the segment with this name; None for other names.
pub(crate) fn segment_first(name: &str) -> Option<Lsn> {
    number(name, "log-", ".hrl")
}

/// The snapshot that covers all records up to `after`.
pub(crate) fn snapshot(after: Lsn) -> String {
    format!("snapshot-{after:020}.hrs")
}

/// The snapshot with this number while it is being written.
pub(crate) fn unfinished_snapshot(after: Lsn) -> String {
    format!("snapshot-{after:020}.tmp")
}

/// The number in the name of a finished snapshot.
pub(crate) fn snapshot_after(name: &str) -> Option<Lsn> {
    number(name, "snapshot-", ".hrs")
}

/// The number in the name of an unfinished snapshot.
pub(crate) fn unfinished_snapshot_after(name: &str) -> Option<Lsn> {
    number(name, "snapshot-", ".tmp")
}

/// Whether a file of this name holds data.
pub(crate) fn is_data(name: &str) -> bool {
    segment_first(name).is_some() || snapshot_after(name).is_some() || name == MANIFEST
}

fn number(name: &str, prefix: &str, suffix: &str) -> Option<Lsn> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    let is_number = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}
