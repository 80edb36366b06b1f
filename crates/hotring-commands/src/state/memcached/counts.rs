//! What one thread counts of this protocol, by memcached's names.

use hotring_protocol::memcached::NAMES as COMMANDS;

use crate::observe::counters::{ByCommand, Counter};

/// Names one count. Each is what memcached calls by that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    CmdGet,
    CmdSet,
    CmdFlush,
    CmdTouch,
    CmdMeta,
    GetHits,
    GetMisses,
    DeleteMisses,
    DeleteHits,
    IncrMisses,
    IncrHits,
    DecrMisses,
    DecrHits,
    CasMisses,
    CasHits,
    CasBadval,
    TouchHits,
    TouchMisses,
    StoreTooLarge,
    AuthCmds,
    AuthErrors,
    TotalItems,
}

/// memcached's names, in the order of [`Count`].
pub(crate) const COUNT_NAMES: [&str; LEN] = [
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "cmd_meta",
    "get_hits",
    "get_misses",
    "delete_misses",
    "delete_hits",
    "incr_misses",
    "incr_hits",
    "decr_misses",
    "decr_hits",
    "cas_misses",
    "cas_hits",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "store_too_large",
    "auth_cmds",
    "auth_errors",
    "total_items",
];

const LEN: usize = Count::TotalItems as usize + 1;

/// The counts of one thread, or what several add up to.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    counts: [Counter; LEN],
    /// What is counted of each command, by its number.
    pub by_command: ByCommand<{ COMMANDS.len() }>,
}

/// What the counts of all threads add up to.
pub(crate) type Sums = [u64; LEN];

impl Counts {
    /// Adds one. Only the owning thread calls this.
    #[inline]
    pub(crate) fn add(&self, count: Count) {
        self.counts[count as usize].add(1);
    }

    /// Adds these counts to sums.
    pub(crate) fn add_to(&self, sums: &mut Sums) {
        sums.iter_mut().zip(&self.counts).for_each(|(sum, counter)| *sum += counter.value());
    }
}
