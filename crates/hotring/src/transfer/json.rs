//! Items as lines of JSON, one object per line, for people and their tools.
//!
//! ```text
//!  {"key":"greeting","type":"string","value":"hello"}
//!  {"key":"user:1","type":"hash","value":{"name":"Ada"},"expires_at_ms":1790000000000,"pinned":true}
//! ```
//! A list or a set is an array, and a sorted set an array of pairs, each with its score as text.
//! A hash with fields that expire is an array of pairs; a field that expires has its time in Unix milliseconds as a
//! third part. A string that is not UTF-8 is written as `{"base64":"AAE="}`. If that is a field name of a hash, the
//! hash is an array of pairs: `[["name","Ada"],[{"base64":"AAE="},"x"]]`.

use std::io::{BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value as Json};

use hotring_commands::rdb::zset::score_of;

use super::{FieldUntil, Item, ReadError, Value, hash};

/// The longest line. Memory must grow only with the bytes that arrive.
const LINE_LEN_MAX: u64 = 2 << 30;

/// Appends an item's line.
pub(crate) fn push_item(out: &mut Vec<u8>, item: &Item) {
    out.extend_from_slice(b"{\"key\":");
    push_text(out, &item.key);
    push_value(out, &item.value);
    if let Some(at) = item.expire_at {
        out.extend_from_slice(format!(",\"expires_at_ms\":{at}").as_bytes());
    }
    if item.database > 0 {
        out.extend_from_slice(format!(",\"db\":{}", item.database).as_bytes());
    }
    if item.is_pinned {
        out.extend_from_slice(b",\"pinned\":true");
    }
    out.extend_from_slice(b"}\n");
}

/// Appends the members `type` and `value`.
fn push_value(out: &mut Vec<u8>, value: &Value) {
    let name = match value {
        Value::String(_) => "string",
        Value::Hash(_) | Value::HashUntil(_) => "hash",
        Value::List(_) => "list",
        Value::Set(_) => "set",
        Value::Scored(_) => "zset",
    };
    out.extend_from_slice(format!(",\"type\":\"{name}\",\"value\":").as_bytes());
    match value {
        Value::String(text) => push_text(out, text),
        Value::List(parts) | Value::Set(parts) => {
            push_array(out, parts, |out, part| push_text(out, part))
        }
        Value::Hash(fields) if fields.iter().all(|(field, _)| is_text(field)) => {
            push_parts(out, *b"{}", fields, |out, (field, value)| {
                push_text(out, field);
                out.push(b':');
                push_text(out, value);
            });
        }
        Value::Hash(fields) => push_array(out, fields, |out, field| push_field(out, field, None)),
        Value::HashUntil(fields) => {
            push_array(out, fields, |out, (field, at)| push_field(out, field, *at));
        }
        Value::Scored(members) => push_array(out, members, |out, (member, score)| {
            out.push(b'[');
            push_text(out, member);
            // As text: JSON has no infinity.
            out.extend_from_slice(format!(",\"{score}\"]").as_bytes());
        }),
    }
}

/// Appends a field and its value as a pair, followed by the expiry of the field if it has one.
fn push_field(out: &mut Vec<u8>, (field, value): &(Vec<u8>, Vec<u8>), expire_at: Option<u64>) {
    out.push(b'[');
    push_text(out, field);
    out.push(b',');
    push_text(out, value);
    if let Some(at) = expire_at {
        out.extend_from_slice(format!(",{at}").as_bytes());
    }
    out.push(b']');
}

fn push_array<P>(out: &mut Vec<u8>, parts: &[P], push: impl Fn(&mut Vec<u8>, &P)) {
    push_parts(out, *b"[]", parts, push);
}

/// Appends parts between brackets, separated by commas.
fn push_parts<P>(
    out: &mut Vec<u8>,
    [open, close]: [u8; 2],
    parts: &[P],
    push: impl Fn(&mut Vec<u8>, &P),
) {
    out.push(open);
    for (i, part) in parts.iter().enumerate() {
        out.extend((i > 0).then_some(b','));
        push(out, part);
    }
    out.push(close);
}

fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok()
}

fn push_text(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::to_writer(out, text).expect("a Vec takes all of a string"),
        Err(_) => {
            out.extend_from_slice(b"{\"base64\":\"");
            out.extend_from_slice(BASE64.encode(bytes).as_bytes());
            out.extend_from_slice(b"\"}");
        }
    }
}

/// Reads a file of lines, item by item.
pub(crate) struct Reader<R> {
    input: R,
    line: Vec<u8>,
    /// The offset of the next line in the file.
    at: u64,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(input: R) -> Reader<R> {
        Reader { input, line: Vec::new(), at: 0 }
    }

    /// The next item; None at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Item>, ReadError> {
        loop {
            self.line.clear();
            let at = self.at;
            let len = self.input.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut self.line)?;
            self.at += len as u64;
            if len == 0 {
                return Ok(None);
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let json: Json = serde_json::from_slice(&self.line).map_err(|error| {
                let column = error.column().saturating_sub(1) as u64;
                ReadError::bad(at + column, format!("not a line of JSON: {error}"))
            })?;
            return item(json).map(Some).map_err(|problem| ReadError::bad(at, problem));
        }
    }
}

const NO_LIST: &str = "value is not a list: it must be an array of strings";

/// Converts an object to an item.
fn item(json: Json) -> Result<Item, String> {
    let Json::Object(mut members) = json else { return Err("a line must be an object".into()) };
    let mut take = |name: &str| members.remove(name);
    let key = bytes(take("key").ok_or("the object has no key")?).ok_or("key is not a string")?;
    let value = take("value").ok_or("the object has no value")?;
    let value = match take("type").as_ref().and_then(Json::as_str) {
        Some("string") => Value::String(bytes(value).ok_or("value is not a string")?),
        Some("hash") => {
            let fields = fields(value).filter(|fields| !fields.is_empty());
            hash(fields.ok_or(
                "value is not a hash: it must be an object of strings, or an array of pairs",
            )?)
        }
        Some("list") => {
            let Json::Array(elements) = value else { return Err(NO_LIST.into()) };
            let elements: Option<Vec<_>> = elements.into_iter().map(bytes).collect();
            Value::List(elements.filter(|elements| !elements.is_empty()).ok_or(NO_LIST)?)
        }
        Some("set") => {
            let members = members_of(value).filter(|members| !members.is_empty());
            Value::Set(members.ok_or("value is not a set: it must be an array of strings")?)
        }
        Some("zset") => {
            let members = scored_of(value).filter(|members| !members.is_empty());
            Value::Scored(members.ok_or(
                "value is not a sorted set: it must be an array of pairs of a member and a score",
            )?)
        }
        _ => return Err("type is none of string, hash, list, set and zset".into()),
    };
    let expire_at = match take("expires_at_ms") {
        None | Some(Json::Null) => None,
        Some(at) => Some(at.as_u64().ok_or("expires_at_ms is not a time in milliseconds")?),
    };
    let database = match take("db") {
        None | Some(Json::Null) => 0,
        Some(number) => {
            let number = number.as_u64().and_then(|number| u8::try_from(number).ok());
            number.ok_or("db is not the number of a database")?
        }
    };
    let is_pinned = match take("pinned") {
        None => false,
        Some(is_pinned) => is_pinned.as_bool().ok_or("pinned is neither true nor false")?,
    };
    match members.keys().next() {
        None => Ok(Item { database, key, value, expire_at, is_pinned }),
        Some(name) => Err(format!("unknown member {name:?}")),
    }
}

/// The members of a set; equal ones count once.
fn members_of(json: Json) -> Option<Vec<Vec<u8>>> {
    let Json::Array(members) = json else { return None };
    members.into_iter().map(bytes).collect::<Option<_>>().map(super::each_once)
}

fn bytes(json: Json) -> Option<Vec<u8>> {
    match json {
        Json::String(text) => Some(text.into_bytes()),
        Json::Object(members) => base64(members),
        _ => None,
    }
}

fn base64(members: Map<String, Json>) -> Option<Vec<u8>> {
    let text = members.get("base64").filter(|_| members.len() == 1)?;
    BASE64.decode(text.as_str()?).ok()
}

fn fields(json: Json) -> Option<Vec<FieldUntil>> {
    match json {
        Json::Object(members) => {
            let field =
                |(field, value): (String, Json)| Some(((field.into_bytes(), bytes(value)?), None));
            members.into_iter().map(field).collect()
        }
        Json::Array(parts) => parts.into_iter().map(field_until).collect(),
        _ => None,
    }
}

/// A field and its value, followed by its expiry time if it has one.
fn field_until(json: Json) -> Option<FieldUntil> {
    let Json::Array(parts) = json else { return None };
    let mut parts = parts.into_iter();
    let field = (bytes(parts.next()?)?, bytes(parts.next()?)?);
    let at = match parts.next() {
        Some(at) => Some(at.as_u64()?),
        None => None,
    };
    parts.next().is_none().then_some((field, at))
}

fn scored_of(json: Json) -> Option<Vec<(Vec<u8>, f64)>> {
    let Json::Array(pairs) = json else { return None };
    let pair = |pair: Json| {
        let Json::Array(pair) = pair else { return None };
        let [member, score] = <[Json; 2]>::try_from(pair).ok()?;
        Some((bytes(member)?, score_of(score.as_str()?.as_bytes())?))
    };
    pairs.into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Item>, ReadError> {
        let mut reader = Reader::new(bytes);
        std::iter::from_fn(|| reader.next().transpose()).collect()
    }

    fn items() -> Vec<Item> {
        let pairs = |fields: &[(&[u8], &[u8])]| {
            Value::Hash(fields.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect())
        };
        let item = |key: &[u8], value, expire_at, is_pinned| {
            let key = key.to_vec();
            Item { database: 0, key, value, expire_at, is_pinned }
        };
        vec![
            item(b"", Value::String(Vec::new()), None, false),
            item(b"a\"\\\n\0", Value::String("ä\u{2028}".into()), Some(u64::MAX), true),
            item(b"\xff", Value::String(vec![0xc3]), Some(0), false),
            item(b"l", Value::List(vec![b"a".to_vec(), vec![0xff], vec![]]), Some(5), false),
            item(b"h", pairs(&[(b"", b"\xff"), (b"f", b"v")]), None, true),
            item(
                b"z",
                Value::Scored(vec![(b"\xff".to_vec(), -0.5), (b"m".to_vec(), f64::INFINITY)]),
                None,
                false,
            ),
            item(b"i", pairs(&[(b"\xff\0", b"1"), (b"f", b"{")]), None, false),
        ]
    }

    fn lines() -> Vec<u8> {
        let mut bytes = Vec::new();
        items().iter().for_each(|item| push_item(&mut bytes, item));
        bytes
    }

    #[test]
    fn written_replies_are_read_back() {
        let lines = lines();
        assert_eq!(read(&lines).unwrap(), items());
        let text = String::from_utf8(lines).unwrap();
        let second = r#"{"key":"a\"\\\n\u0000","type":"string","value":"ä"#;
        assert!(text.lines().nth(1).unwrap().starts_with(second), "{text}");
        let last = r#"{"key":"i","type":"hash","value":[[{"base64":"/wA="},"1"],["f","{"]]}"#;
        assert_eq!(text.lines().last().unwrap(), last);
    }

    #[test]
    fn every_truncation_and_every_damage_is_reported() {
        let lines = lines();
        for end in 0..lines.len() {
            let is_whole = end == 0 || lines[end - 1] == b'\n' || lines[end] == b'\n';
            assert_eq!(read(&lines[..end]).is_ok(), is_whole, "{end}");
            for bit in 0..8 {
                let mut damaged = lines.clone();
                damaged[end] ^= 1 << bit;
                let _ = read(&damaged);
            }
        }
    }

    #[test]
    fn other_files_than_exports_are_refused() {
        let cases = [
            ("{\"key\":\"a\"}", "byte 0: the object has no value"),
            ("\n{\"value\":\"a\"}", "byte 1: the object has no key"),
            ("{\"key\":1,\"type\":\"string\",\"value\":\"\"}", "byte 0: key is not a string"),
            ("{\"key\":\"a\",\"type\":\"bag\",\"value\":[]}", "byte 0: type is none"),
            ("{\"key\":\"a\",\"type\":\"list\",\"value\":[]}", "byte 0: value is not a list"),
            ("{\"key\":\"a\",\"type\":\"list\",\"value\":[1]}", "byte 0: value is not a list"),
            ("{\"key\":\"a\",\"type\":\"hash\",\"value\":{}}", "byte 0: value is not a hash"),
            (
                "{\"key\":\"a\",\"type\":\"hash\",\"value\":[[\"f\"]]}",
                "byte 0: value is not a hash",
            ),
            (
                "{\"key\":\"a\",\"type\":\"string\",\"value\":{\"base64\":\"?\"}}",
                "byte 0: value is not a string",
            ),
            (
                "{\"key\":\"a\",\"type\":\"string\",\"value\":\"\",\"expires_at_ms\":-1}",
                "byte 0: expires_at_ms",
            ),
            (
                "{\"key\":\"a\",\"type\":\"string\",\"value\":\"\",\"ttl\":1}",
                "byte 0: unknown member \"ttl\"",
            ),
            ("[1]", "byte 0: a line must be an object"),
            ("{\"key\":x", "byte 7: not a line of JSON"),
        ];
        for (line, expected) in cases {
            let error = read(line.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
        let twice = br#"{"key":"h","type":"hash","value":[["f","1"],["f","2"]]}"#;
        let Value::Hash(fields) = read(twice).unwrap().remove(0).value else { panic!("no hash") };
        assert_eq!(fields, [(b"f".to_vec(), b"2".to_vec())]);
        let deep = "[".repeat(100_000);
        assert!(read(deep.as_bytes()).is_err());
    }
}
