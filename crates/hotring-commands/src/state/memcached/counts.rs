//! One thread's counters of memcached's protocol, with memcached's names.

use hotring_protocol::memcached::NAMES as COMMANDS;

use crate::observe::by_command::ByCommand;
use crate::observe::counters::Counter;

/// Makes [`Count`] and the names from the list.
macro_rules! counts {
    ($($id:ident = $name:literal,)*) => {
        /// The counters, each with memcached's meaning of its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Count {
            $($id,)*
        }

        /// memcached's names, in the order of [`Count`].
        pub(crate) const COUNT_NAMES: [&str; LEN] = [$($name,)*];

        const LEN: usize = [$(Count::$id),*].len();
    };
}

counts! {
    CmdGet = "cmd_get",
    CmdSet = "cmd_set",
    CmdFlush = "cmd_flush",
    CmdTouch = "cmd_touch",
    CmdMeta = "cmd_meta",
    GetHits = "get_hits",
    GetMisses = "get_misses",
    DeleteMisses = "delete_misses",
    DeleteHits = "delete_hits",
    IncrMisses = "incr_misses",
    IncrHits = "incr_hits",
    DecrMisses = "decr_misses",
    DecrHits = "decr_hits",
    CasMisses = "cas_misses",
    CasHits = "cas_hits",
    CasBadval = "cas_badval",
    TouchHits = "touch_hits",
    TouchMisses = "touch_misses",
    StoreTooLarge = "store_too_large",
    AuthCmds = "auth_cmds",
    AuthErrors = "auth_errors",
    TotalItems = "total_items",
}

/// The counters of one thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    counts: [Counter; LEN],
    /// The counters of each command, by its number.
    pub by_command: ByCommand<{ COMMANDS.len() }>,
}

/// The sums of all threads' counters.
pub(crate) type Sums = [u64; LEN];

impl Counts {
    /// Adds one. Only the owning thread calls this.
    #[inline]
    pub(crate) fn add(&self, count: Count) {
        self.counts[count as usize].add(1);
    }

    /// Adds these counters to sums.
    pub(crate) fn add_to(&self, sums: &mut Sums) {
        sums.iter_mut().zip(&self.counts).for_each(|(sum, counter)| *sum += counter.value());
    }
}
