//! Shared parts of `export` and `import`: items, file formats, and progress reports.
//!
//! Each format is written to bytes and read from a stream. Input is not trusted: no length may be
//! believed before its bytes have arrived, and an error must name the byte.

pub(crate) mod json;
pub(crate) mod resp;
#[cfg(test)]
mod tests;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) use hotring_commands::rdb::{
    FieldUntil, Item, ReadError, Value, each_once, file as rdb, hash, shown, source as value,
};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// Failures that are reported one by one.
const REPORTED_MAX: u64 = 10;

/// The time in Unix milliseconds.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Reports on standard error: progress if that is a terminal, failures and the result always.
pub(crate) struct Progress {
    command: &'static str,
    bar: ProgressBar,
    started: Instant,
    keys: u64,
    bytes: u64,
    failed: u64,
    skipped: u64,
}

impl Progress {
    pub(crate) fn new(command: &'static str) -> Progress {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg}");
        bar.set_style(style.expect("the template is valid"));
        Progress { command, bar, started: Instant::now(), keys: 0, bytes: 0, failed: 0, skipped: 0 }
    }

    /// Counts a key that was transferred.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.keys += 1;
        self.bytes += bytes as u64;
        if self.keys.is_multiple_of(1024) && !self.bar.is_hidden() {
            self.bar.set_message(self.summary());
            self.bar.tick();
        }
    }

    /// Counts a key that failed. The first few are named.
    pub(crate) fn fail(&mut self, key: &[u8], why: &str) {
        self.failed += 1;
        if self.failed <= REPORTED_MAX {
            self.print(&format!("{}: {why}", shown(key)));
        }
    }

    /// Counts a key that was left out on request. The first few are named.
    pub(crate) fn skip(&mut self, key: &[u8], why: &str) {
        self.skipped += 1;
        if self.skipped <= REPORTED_MAX {
            self.print(&format!("{}: {why}", shown(key)));
        }
    }

    /// Prints a line.
    pub(crate) fn print(&self, text: &str) {
        self.bar.suspend(|| eprintln!("hotring {}: {text}", self.command));
    }

    /// Keys that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Keys that were left out on request.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Prints the result; `rest` describes the keys that were not transferred.
    pub(crate) fn finish(&self, rest: &[String]) {
        if self.failed > REPORTED_MAX {
            self.print(&format!("and {} more keys failed", self.failed - REPORTED_MAX));
        }
        let rest: String = rest.iter().map(|text| format!("; {text}")).collect();
        self.print(&format!("{}{rest}", self.summary()));
    }

    fn summary(&self) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = self.keys as f64 / seconds.max(0.001);
        let bytes = HumanBytes(self.bytes);
        format!("{} keys, {bytes}, in {seconds:.1} s: {rate:.0} keys/s", self.keys)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
