//! Keys with their values as files and links hold them, and the error of reading them.
//!
//! Input is not trusted: no length may be believed before its bytes have arrived, and an error must name the byte.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io;

use hotring_store::{Content, Elements};

/// The longest key, field or value.
pub(super) const LEN_MAX: u64 = 512 << 20;
/// Bytes of a key that are shown.
const SHOWN_MAX: usize = 100;

/// A key with its value, expiry time and pin.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The number of its database.
    pub database: u8,
    pub key: Vec<u8>,
    pub value: Value,
    /// In Unix milliseconds.
    pub expire_at: Option<u64>,
    pub is_pinned: bool,
}

/// A value of a supported type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
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
pub type FieldUntil = ((Vec<u8>, Vec<u8>), Option<u64>);

impl Item {
    /// Bytes of the key and the value.
    pub fn len(&self) -> usize {
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

impl Value {
    /// The value in the store's form. Only the elements of lists are copied.
    pub fn into_content(self) -> Content<'static> {
        let field = |(name, value)| (Cow::Owned(name), Cow::Owned(value));
        match self {
            Value::String(text) => Content::String(Cow::Owned(text)),
            Value::Hash(fields) => Content::Hash(fields.into_iter().map(field).collect()),
            Value::HashUntil(fields) => {
                Content::HashUntil(fields.into_iter().map(|(pair, at)| (field(pair), at)).collect())
            }
            Value::List(list) => {
                let mut elements = Elements::default();
                list.iter().for_each(|element| elements.add(element));
                Content::List(elements)
            }
            Value::Set(members) => Content::Set(members.into_iter().map(Cow::Owned).collect()),
            Value::Scored(members) => {
                let owned = |(member, score)| (Cow::Owned(member), score);
                Content::Scored(members.into_iter().map(owned).collect())
            }
        }
    }
}

/// The reason why an input was not read to its end.
#[derive(Debug)]
pub enum ReadError {
    Io(io::Error),
    /// The input is invalid at this byte.
    Bad {
        at: u64,
        problem: String,
    },
}

impl ReadError {
    pub fn bad(at: u64, problem: impl Into<String>) -> ReadError {
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
pub fn hash(fields: Vec<FieldUntil>) -> Value {
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
pub fn each_once(mut members: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    let is_new: Vec<bool> = members.iter().map(|member| seen.insert(member)).collect();
    let mut is_new = is_new.into_iter();
    members.retain(|_| is_new.next().unwrap_or(true));
    members
}

/// Bytes in readable form, shortened.
pub fn shown(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN_MAX) {
        Some(start) if bytes.len() > SHOWN_MAX => format!("{}...", start.escape_ascii()),
        _ => bytes.escape_ascii().to_string(),
    }
}
