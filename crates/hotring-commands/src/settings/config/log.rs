//! The settings of the write-ahead log and of snapshots.

use std::path::PathBuf;

use hotring_log::AckWhen;

/// The settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Whether the server writes a log.
    pub is_on: bool,
    /// The state of a write at which it is acknowledged.
    pub when: AckWhen,
    /// The folder of the log and the snapshots.
    pub data: PathBuf,
    /// The length of a log file in bytes at which the next file begins.
    pub segment_len: usize,
    /// The number of unwritten bytes above which writes have to wait.
    pub queue_max: usize,
    /// The treatment of writes while the log fails.
    pub on_error: OnError,
    /// The settings of snapshots.
    pub snapshots: SnapshotSettings,
}

/// The treatment of writes while the log fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Writes are refused.
    Stop,
    /// Writes continue, and are lost when the server ends.
    Continue,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            is_on: false,
            when: AckWhen::Written,
            data: PathBuf::from("hotring-data"),
            segment_len: 64 << 20,
            queue_max: 64 << 20,
            on_error: OnError::Stop,
            snapshots: SnapshotSettings::default(),
        }
    }
}

impl LogSettings {
    /// The value of the setting `log`.
    pub fn name(&self) -> &'static str {
        match self.when {
            _ if !self.is_on => "off",
            AckWhen::Handed => "async",
            AckWhen::Written => "everysec",
            AckWhen::Synced => "sync",
        }
    }

    /// Checks whether these settings may replace `old` while the server runs.
    pub(crate) fn check_after(&self, old: &LogSettings) -> Result<(), String> {
        if old.is_on != self.is_on {
            return Err("a log can be begun or ended at the start of the server only".to_string());
        }
        self.check()
    }

    /// Checks whether the settings are consistent.
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
    /// The maximum number of bytes written per second; 0 for no limit.
    pub rate: usize,
    /// The save points, each of which makes a snapshot due.
    pub points: Vec<SavePoint>,
    /// A snapshot is also due if the log since the last snapshot exceeds this percentage of that snapshot; 0 for never.
    pub log_percent: u64,
    /// The minimum bytes of the log that make a snapshot due by `log_percent`.
    pub log_min: usize,
}

/// A save point: a snapshot is due this long after the last one, if there have been this many changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds since the last snapshot.
    pub seconds: u64,
    /// The minimum number of changes since the last snapshot.
    pub changes: u64,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        let (rate, log_min) = (256 << 20, 64 << 20);
        SnapshotSettings { rate, points: Vec::new(), log_percent: 100, log_min }
    }
}
