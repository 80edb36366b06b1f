//! The settings of the write-ahead log and of snapshots.

use std::path::PathBuf;

use hotring_log::When;

/// The settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Whether there is one.
    pub is_on: bool,
    /// When a write is acknowledged.
    pub when: When,
    /// The folder of its files.
    pub data: PathBuf,
    /// Length of a file at which the next begins, in bytes.
    pub segment_len: usize,
    /// Bytes that may wait to be written, before writes have to wait.
    pub queue_max: usize,
    /// The treatment of writes while the log fails.
    pub on_error: OnError,
    /// How and when snapshots are written.
    pub snapshots: SnapshotSettings,
}

/// The treatment of writes while the log fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// They are refused.
    Stop,
    /// They go on, and are lost when the server ends.
    Continue,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            is_on: false,
            when: When::Written,
            data: PathBuf::from("hotring-data"),
            segment_len: 64 << 20,
            queue_max: 64 << 20,
            on_error: OnError::Stop,
            snapshots: SnapshotSettings::default(),
        }
    }
}

impl LogSettings {
    /// When writes are acknowledged, as the setting has it.
    pub fn name(&self) -> &'static str {
        match self.when {
            _ if !self.is_on => "off",
            When::Handed => "async",
            When::Written => "everysec",
            When::Synced => "sync",
        }
    }

    /// Whether they may come after these while the server runs.
    pub(crate) fn check_after(&self, old: &LogSettings) -> Result<(), String> {
        if old.is_on != self.is_on {
            return Err("a log can be begun or ended at the start of the server only".to_string());
        }
        self.check()
    }

    /// Whether they go together.
    pub fn check(&self) -> Result<(), String> {
        match self.is_on || self.snapshots.points.is_empty() {
            true => Ok(()),
            false => Err("save asks for snapshots, which need a log: set log everysec".to_string()),
        }
    }
}

/// The settings of snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Bytes written in a second, at most; 0 for no limit.
    pub rate: usize,
    /// When one is due; never if there is none.
    pub points: Vec<SavePoint>,
    /// One is due, too, if the log since the last one exceeds this percentage of it; never if this is 0.
    pub log_percent: u64,
    /// Bytes of the log below which it is not.
    pub log_min: usize,
}

/// A snapshot is due so long after the last one, if there have been this many changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// The time.
    pub seconds: u64,
    /// The changes.
    pub changes: u64,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        let (rate, log_min) = (256 << 20, 64 << 20);
        SnapshotSettings { rate, points: Vec::new(), log_percent: 100, log_min }
    }
}
