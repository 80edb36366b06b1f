//! Threads whose work no client waits for.

pub(crate) mod background;
pub(crate) mod bound;
pub(crate) mod cluster;
pub(crate) mod deadline;
pub(crate) mod expire;
pub(crate) mod load;
pub(crate) mod messages;
pub(crate) mod replicate;
pub(crate) mod watchdog;
pub(crate) mod write_log;
pub(crate) mod write_snapshots;
