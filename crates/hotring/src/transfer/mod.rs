//! Shared parts of `export` and `import`: items, file formats, and progress reports.
//!
//! Each format is written to bytes and read from a stream. Input is not trusted: no length may be
//! believed before its bytes have arrived, and an error must name the byte.

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

/// The longest key, field or value.
const LEN_MAX: u64 = 512 << 20;
/// Failures that are reported one by one, and bytes of a key that are shown.
const REPORTED_MAX: u64 = 10;
const SHOWN_MAX: usize = 100;

/// A key with its value, expiry time and pin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    /// The number of its database.
    pub(crate) database: u8,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Value,
    /// In Unix milliseconds.
    pub(crate) expire_at: Option<u64>,
    pub(crate) is_pinned: bool,
}

/// A value of a supported type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    String(Vec<u8>),
    /// Fields and their values, in order.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// Elements, in order.
    List(Vec<Vec<u8>>),
    /// The members of a set, each once.
    Set(Vec<Vec<u8>>),
    /// Fields and their values, in order, of which some expire.
    HashUntil(Vec<FieldUntil>),
    /// Members and their scores, none of them NaN, in order.
    Scored(Vec<(Vec<u8>, f64)>),
}

/// A field, its value, and its expiry time in Unix milliseconds, if any.
pub(crate) type FieldUntil = ((Vec<u8>, Vec<u8>), Option<u64>);

impl Item {
    /// Bytes of the key and the value.
    pub(crate) fn len(&self) -> usize {
        let value = match &self.value {
            Value::String(text) => text.len(),
            Value::Hash(fields) => fields.iter().map(|(f, v)| f.len() + v.len()).sum(),
            Value::List(elements) => elements.iter().map(Vec::len).sum(),
            Value::Set(members) => members.iter().map(Vec::len).sum(),
            Value::HashUntil(fields) => {
                fields.iter().map(|((f, v), _)| f.len() + v.len() + 8).sum()
            }
            Value::Scored(members) => members.iter().map(|(member, _)| member.len() + 8).sum(),
        };
        self.key.len() + value
    }
}

/// Why a file was not read to its end.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    /// The input is invalid at this byte.
    Bad {
        at: u64,
        problem: String,
    },
}

impl ReadError {
    pub(crate) fn bad(at: u64, problem: impl Into<String>) -> ReadError {
        ReadError::Bad { at, problem: problem.into() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => error.fmt(f),
            ReadError::Bad { at, problem } => write!(f, "byte {at}: {problem}"),
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// A hash of these fields. Of repeated fields the last one counts.
fn hash(fields: Vec<FieldUntil>) -> Value {
    let fields = keep_last(fields);
    match fields.iter().any(|(_, at)| at.is_some()) {
        true => Value::HashUntil(fields),
        false => Value::Hash(fields.into_iter().map(|(field, _)| field).collect()),
    }
}

/// Removes repeated fields of a hash; the last one counts.
fn keep_last(mut fields: Vec<FieldUntil>) -> Vec<FieldUntil> {
    let mut seen = HashSet::new();
    let is_last: Vec<bool> =
        fields.iter().rev().map(|((field, _), _)| seen.insert(field)).collect();
    let mut is_last = is_last.into_iter().rev();
    fields.retain(|_| is_last.next().unwrap_or(true));
    fields
}

/// Removes repeated members of a set; the order of the others stays.
fn each_once(mut members: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    let is_new: Vec<bool> = members.iter().map(|member| seen.insert(member)).collect();
    let mut is_new = is_new.into_iter();
    members.retain(|_| is_new.next().unwrap_or(true));
    members
}

/// Bytes in readable form, shortened.
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
