//! What `export` and `import` share: a key with all that belongs to it, the formats of files, and what is told meanwhile.
//!
//! A format is written to bytes and read from a stream. What is read comes from strangers: no length is believed before
//! its bytes are there, and an error names the byte.

pub(crate) mod json;
pub(crate) mod rdb;
pub(crate) mod resp;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// The longest string: a key, a field, a value.
const LEN_MAX: u64 = 512 << 20;
/// Failures that are told one by one, and bytes of a key that are shown.
const TOLD_MAX: u64 = 10;
const SHOWN_MAX: usize = 100;

/// A key with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Value,
    /// In Unix milliseconds.
    pub(crate) expire_at: Option<u64>,
    pub(crate) is_pinned: bool,
}

/// A value of either type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    String(Vec<u8>),
    /// Fields and their values, in their order.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Item {
    /// Bytes of the key and the value.
    pub(crate) fn len(&self) -> usize {
        let value = match &self.value {
            Value::String(text) => text.len(),
            Value::Hash(fields) => fields.iter().map(|(f, v)| f.len() + v.len()).sum(),
        };
        self.key.len() + value
    }
}

/// Why a file was not read to its end.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    /// It is not what it should be at this byte.
    Bad {
        at: u64,
        what: String,
    },
}

impl ReadError {
    pub(crate) fn bad(at: u64, what: impl Into<String>) -> ReadError {
        ReadError::Bad { at, what: what.into() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::Bad { at, what } => write!(f, "byte {at}: {what}"),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// The fields of a hash, each once: of those that are there more than once the last one counts.
fn keep_last(mut fields: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = HashSet::new();
    let is_last: Vec<bool> = fields.iter().rev().map(|(field, _)| seen.insert(field)).collect();
    let mut is_last = is_last.into_iter().rev();
    fields.retain(|_| is_last.next().unwrap_or(true));
    fields
}

/// Bytes as people can read them, and not too many.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN_MAX) {
        Some(start) if bytes.len() > SHOWN_MAX => format!("{}...", start.escape_ascii()),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// The time in Unix milliseconds.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How far it has come, on standard error: at work if that is a terminal, failures and the end always.
pub(crate) struct Progress {
    command: &'static str,
    bar: ProgressBar,
    started: Instant,
    keys: u64,
    bytes: u64,
    failed: u64,
    left: u64,
}

impl Progress {
    pub(crate) fn new(command: &'static str) -> Progress {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg}");
        bar.set_style(style.expect("the template is one of indicatif's language"));
        Progress { command, bar, started: Instant::now(), keys: 0, bytes: 0, failed: 0, left: 0 }
    }

    /// A key is done.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.keys += 1;
        self.bytes += bytes as u64;
        if self.keys.is_multiple_of(1024) && !self.bar.is_hidden() {
            self.bar.set_message(self.text());
            self.bar.tick();
        }
    }

    /// A key is not. The first few are named.
    pub(crate) fn fail(&mut self, key: &[u8], why: &str) {
        self.failed += 1;
        if self.failed <= TOLD_MAX {
            self.tell(&format!("{}: {why}", shown(key)));
        }
    }

    /// A key is left out, as was asked for. The first few are named.
    pub(crate) fn leave(&mut self, key: &[u8], why: &str) {
        self.left += 1;
        if self.left <= TOLD_MAX {
            self.tell(&format!("{}: {why}", shown(key)));
        }
    }

    /// Says something.
    pub(crate) fn tell(&self, text: &str) {
        self.bar.suspend(|| eprintln!("hotring {}: {text}", self.command));
    }

    /// Keys that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Keys that were left out, as was asked for.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Says how it ended; `rest` is about what was not done.
    pub(crate) fn finish(&self, rest: &[String]) {
        if self.failed > TOLD_MAX {
            self.tell(&format!("and {} more keys failed", self.failed - TOLD_MAX));
        }
        let rest: String = rest.iter().map(|text| format!("; {text}")).collect();
        self.tell(&format!("{}{rest}", self.text()));
    }

    fn text(&self) -> String {
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
