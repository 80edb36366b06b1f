//! Items as RESP commands, which `redis-cli --pipe` sends to any server.
//!
//! ```text
//!  string      SET key value [PXAT milliseconds]
//!  hash        HSET key field value ...; HPEXPIREAT key milliseconds FIELDS 1 field for each field that expires
//!  list        RPUSH key element ...
//!  set         SADD key member ...
//!  sorted set  ZADD key score member ...
//!  expiry      PEXPIREAT key milliseconds, for all types but strings
//!  pin         PIN key
//!  database    SELECT number, before the items of another database than 0
//! ```
//! Large containers take several commands. The reader accepts only these commands; those of a key must follow each
//! other.

use std::io::Read;

use hotring_protocol::{Args, Decoded, Decoder, Limits, parse_i64};

use hotring_commands::rdb::zset::score_of;

use super::{Item, ReadError, Value, each_once, hash, shown};
use crate::client::push_request;

/// Limits of one command: bytes of fields or elements, and their number, as servers limit the arguments.
const COMMAND_LEN: usize = 4 << 20;
const COMMAND_PARTS: usize = 100_000;
/// Most members of a sorted set in one command.
const COMMAND_MEMBERS: usize = 1_000;

/// Bytes per read.
const READ_LEN: usize = 256 << 10;

/// Appends the commands that create an item.
pub(crate) fn push_item(out: &mut Vec<u8>, item: &Item) {
    let key = &item.key[..];
    let time = item.expire_at.map(|at| at.to_string());
    match &item.value {
        Value::String(text) => {
            let words: [&[u8]; 3] = [b"SET", key, text];
            match &time {
                Some(at) => push_request(out, &[&words[..], &[b"PXAT", at.as_bytes()]].concat()),
                None => push_request(out, &words),
            }
        }
        Value::Set(members) => push_elements(out, b"SADD", key, members),
        Value::Hash(fields) => {
            push_fields(out, key, fields.iter().map(|(field, value)| (field, value)));
        }
        Value::HashUntil(fields) => {
            push_fields(out, key, fields.iter().map(|((field, value), _)| (field, value)));
            for ((field, _), at) in fields.iter().filter_map(|(pair, at)| Some((pair, (*at)?))) {
                let at = at.to_string();
                push_request(out, &[b"HPEXPIREAT", key, at.as_bytes(), b"FIELDS", b"1", field]);
            }
        }
        Value::List(elements) => push_elements(out, b"RPUSH", key, elements),
        Value::Scored(members) => {
            for some in members.chunks(COMMAND_MEMBERS) {
                let scores: Vec<_> = some.iter().map(|(_, score)| score.to_string()).collect();
                let pairs = scores.iter().zip(some);
                let pairs = pairs.flat_map(|(score, (member, _))| [score.as_bytes(), &member[..]]);
                push_request(out, &[b"ZADD", key].into_iter().chain(pairs).collect::<Vec<_>>());
            }
        }
    }
    if let (false, Some(at)) = (matches!(item.value, Value::String(_)), &time) {
        push_request(out, &[b"PEXPIREAT", key, at.as_bytes()]);
    }
    if item.is_pinned {
        push_request(out, &[b"PIN", key]);
    }
}

/// An item of database 0.
fn new_item(key: &[u8], value: Value, expire_at: Option<u64>) -> Item {
    Item { database: 0, key: key.to_vec(), value, expire_at, is_pinned: false }
}

/// Appends the command that selects the database of the items after it.
pub(crate) fn push_database(out: &mut Vec<u8>, number: u8) {
    push_request(out, &[b"SELECT", number.to_string().as_bytes()]);
}

/// Appends the commands that add elements, each with as many elements as fit.
fn push_elements(out: &mut Vec<u8>, command: &[u8], key: &[u8], elements: &[Vec<u8>]) {
    let mut rest = elements;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(count_fitting(rest));
        let words = [command, key].into_iter().chain(chunk.iter().map(Vec::as_slice));
        push_request(out, &words.collect::<Vec<_>>());
        rest = after;
    }
}

/// The number of elements that fit into one command, at least one.
fn count_fitting(elements: &[Vec<u8>]) -> usize {
    let mut len = 0;
    let fits = |element: &&Vec<u8>| {
        len += element.len();
        len <= COMMAND_LEN
    };
    elements.iter().take(COMMAND_PARTS).take_while(fits).count().max(1)
}

/// Appends the commands that set fields, each with as many fields as fit.
fn push_fields<'f>(
    out: &mut Vec<u8>,
    key: &[u8],
    fields: impl Iterator<Item = (&'f Vec<u8>, &'f Vec<u8>)>,
) {
    let mut fields = fields.peekable();
    while fields.peek().is_some() {
        let (mut words, mut len) = (vec![&b"HSET"[..], key], 0);
        let mut fits = |(field, value): &(&Vec<u8>, &Vec<u8>)| {
            let is_first = len == 0;
            len += field.len() + value.len() + 1;
            is_first || len <= COMMAND_LEN
        };
        while words.len() < 2 * COMMAND_PARTS
            && let Some((field, value)) = fields.next_if(&mut fits)
        {
            words.extend([&field[..], &value[..]]);
        }
        push_request(out, &words);
    }
}

/// Reads a file of commands, item by item.
pub(crate) struct Reader<R> {
    input: R,
    buffer: Vec<u8>,
    /// The offset of the next command in `buffer` and in the file.
    start: usize,
    at: u64,
    is_at_end: bool,
    decoder: Decoder,
    args: Args,
    /// The item whose commands are being read.
    item: Option<Item>,
    /// The database of the next item.
    database: u8,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(input: R) -> Reader<R> {
        let (decoder, args) = (Decoder::new(), Args::new());
        let buffer = Vec::new();
        Reader {
            input,
            buffer,
            start: 0,
            at: 0,
            is_at_end: false,
            decoder,
            args,
            item: None,
            database: 0,
        }
    }

    /// The next item; None at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Item>, ReadError> {
        loop {
            let at = self.at;
            let Some(len) = self.command()? else { return Ok(self.item.take().map(whole)) };
            let args = self.args.view(&self.buffer[self.start..]);
            let words: Vec<&[u8]> = args.iter().collect();
            if let [name, number] = words[..]
                && name.eq_ignore_ascii_case(b"select")
            {
                let number = parse_i64(number).and_then(|number| u8::try_from(number).ok());
                let bad = || ReadError::bad(at, "there is no such database");
                self.database = number.ok_or_else(bad)?;
                self.start += len;
                self.at += len as u64;
                match self.item.take() {
                    Some(item) => return Ok(Some(whole(item))),
                    None => continue,
                }
            }
            let joined =
                join(&mut self.item, &words).map_err(|problem| ReadError::bad(at, problem));
            self.start += len;
            self.at += len as u64;
            let ended = joined?;
            if let Some(item) = &mut self.item {
                item.database = self.database;
            }
            if let Some(item) = ended {
                return Ok(Some(whole(item)));
            }
        }
    }

    /// Finds the next command: its length, None at the end.
    fn command(&mut self) -> Result<Option<usize>, ReadError> {
        loop {
            let input = &self.buffer[self.start..];
            let decoded = self.decoder.decode(input, &Limits::default(), &mut self.args);
            match decoded.map_err(|error| ReadError::bad(self.at, error.to_string()))? {
                Decoded::Request { consumed } => return Ok(Some(consumed)),
                Decoded::Incomplete if self.is_at_end && input.is_empty() => return Ok(None),
                Decoded::Incomplete if self.is_at_end => {
                    let problem = "the file ends within this command";
                    return Err(ReadError::bad(self.at, problem));
                }
                Decoded::Incomplete => self.read_on()?,
            }
        }
    }

    fn read_on(&mut self) -> Result<(), ReadError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let wanted = self.decoder.input_len_wanted().saturating_sub(self.buffer.len());
        // Memory must grow only with the bytes that arrive.
        let mut input = self.input.by_ref().take(wanted.max(READ_LEN) as u64);
        self.is_at_end = input.read_to_end(&mut self.buffer)? == 0;
        Ok(())
    }
}

/// Adds a command to the item. If it begins another item, the completed one is returned.
fn join(item: &mut Option<Item>, words: &[&[u8]]) -> Result<Option<Item>, String> {
    let Some((name, args)) = words.split_first() else { return Ok(None) };
    let name = name.to_ascii_uppercase();
    let is_pairs = |args: &[&[u8]]| !args.is_empty() && args.len().is_multiple_of(2);
    let bytes = |parts: &[&[u8]]| parts.iter().map(|part| part.to_vec()).collect();
    match (&name[..], args) {
        (b"SET", [key, value, options @ ..]) => {
            let expire_at = match options {
                [] => None,
                [option, at] if option.eq_ignore_ascii_case(b"PXAT") => Some(time(at)?),
                _ => return Err("the only supported option of SET is PXAT".into()),
            };
            Ok(item.replace(new_item(key, Value::String(value.to_vec()), expire_at)))
        }
        (b"HSET", [key, pairs @ ..]) if is_pairs(pairs) => {
            let fields = pairs.chunks(2).map(|pair| (pair[0].to_vec(), pair[1].to_vec()));
            Ok(add(item, key, Value::Hash(fields.collect())))
        }
        (b"SADD", [key, members @ ..]) if !members.is_empty() => {
            Ok(add(item, key, Value::Set(bytes(members))))
        }
        (b"RPUSH", [key, elements @ ..]) if !elements.is_empty() => {
            Ok(add(item, key, Value::List(bytes(elements))))
        }
        (b"ZADD", [key, pairs @ ..]) if is_pairs(pairs) => {
            let members = pairs.chunks(2).map(|pair| Ok((pair[1].to_vec(), score(pair[0])?)));
            Ok(add(item, key, Value::Scored(members.collect::<Result<_, String>>()?)))
        }
        (b"HPEXPIREAT", [key, at, word, b"1", field]) if word.eq_ignore_ascii_case(b"FIELDS") => {
            expire_field(current(item, &name, key)?, field, time(at)?);
            Ok(None)
        }
        (b"PEXPIREAT", [key, at]) => {
            current(item, &name, key)?.expire_at = Some(time(at)?);
            Ok(None)
        }
        (b"PIN", [key]) => {
            current(item, &name, key)?.is_pinned = true;
            Ok(None)
        }
        _ => Err(format!(
            "{} with {} arguments is not one of the commands of an export (SET, HSET, HPEXPIREAT, RPUSH, SADD, \
             ZADD, PEXPIREAT, PIN); `redis-cli --pipe` sends any command",
            shown(&name),
            args.len()
        )),
    }
}

/// Adds parts to the item if it has this key and type, and begins a new item otherwise. Returns a completed item.
fn add(item: &mut Option<Item>, key: &[u8], parts: Value) -> Option<Item> {
    let current = item.as_mut().filter(|item| item.key == key);
    match (current.map(|item| &mut item.value), parts) {
        (Some(Value::Hash(all)), Value::Hash(more)) => all.extend(more),
        (Some(Value::Set(all)), Value::Set(more)) => all.extend(more),
        (Some(Value::List(all)), Value::List(more)) => all.extend(more),
        (Some(Value::Scored(all)), Value::Scored(more)) => all.extend(more),
        (_, parts) => return item.replace(new_item(key, parts, None)),
    }
    None
}

/// The item, which must have this key.
fn current<'i>(
    item: &'i mut Option<Item>,
    command: &[u8],
    key: &[u8],
) -> Result<&'i mut Item, String> {
    item.as_mut().filter(|item| item.key == key).ok_or_else(|| {
        format!("{} is not for the key of the previous command", command.escape_ascii())
    })
}

fn score(text: &[u8]) -> Result<f64, String> {
    score_of(text).ok_or_else(|| format!("{} is not a score", shown(text)))
}

fn time(text: &[u8]) -> Result<u64, String> {
    let at = parse_i64(text).ok_or_else(|| format!("{} is not a time", shown(text)))?;
    // A time before 1970 has passed, too.
    Ok(u64::try_from(at).unwrap_or(0))
}

/// Sets the expiry time of a field of a hash, in Unix milliseconds.
fn expire_field(item: &mut Item, field: &[u8], at: u64) {
    if let Value::Hash(fields) = &mut item.value {
        let fields = std::mem::take(fields).into_iter().map(|field| (field, None));
        item.value = Value::HashUntil(fields.collect());
    }
    if let Value::Set(members) = &mut item.value {
        *members = each_once(std::mem::take(members));
    }
    if let Value::HashUntil(fields) = &mut item.value {
        let same = fields.iter_mut().rev().find(|((other, _), _)| *other == field);
        same.into_iter().for_each(|(_, old)| *old = Some(at));
    }
}

/// Completes an item: repeated fields of a hash are removed, the last one counts.
fn whole(mut item: Item) -> Item {
    item.value = match item.value {
        Value::Hash(fields) => hash(fields.into_iter().map(|field| (field, None)).collect()),
        Value::HashUntil(fields) => hash(fields),
        value => value,
    };
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Item>, ReadError> {
        let mut reader = Reader::new(bytes);
        std::iter::from_fn(|| reader.next().transpose()).collect()
    }

    fn string(key: &[u8], text: &[u8], expire_at: Option<u64>) -> Item {
        let value = Value::String(text.to_vec());
        new_item(key, value, expire_at)
    }

    fn hash(key: &[u8], fields: &[(&[u8], &[u8])], expire_at: Option<u64>) -> Item {
        let fields = fields.iter().map(|(field, value)| (field.to_vec(), value.to_vec()));
        let value = Value::Hash(fields.collect());
        new_item(key, value, expire_at)
    }

    fn items() -> Vec<Item> {
        let long = vec![b'l'; COMMAND_LEN / 2 + 1];
        vec![
            string(b"", b"", None),
            Item { is_pinned: true, ..string(b"a\r\n$", b"\0\xff", Some(1 << 61)) },
            hash(b"h", &[(b"f", b"v"), (b"", b"")], None),
            Item { is_pinned: true, ..hash(b"h2", &[(b"f", b"v")], Some(0)) },
            Item {
                value: Value::List(vec![vec![], b"\0e".to_vec()]),
                ..string(b"l", b"", Some(9))
            },
            Item {
                value: Value::List(vec![long.clone(), long.clone()]),
                ..string(b"l2", b"", None)
            },
            hash(b"long", &[(b"1", &long), (b"2", &long), (b"3", b"")], Some(7)),
        ]
    }

    #[test]
    fn written_replies_are_read_back() {
        let (mut bytes, items) = (Vec::new(), items());
        items.iter().for_each(|item| push_item(&mut bytes, item));
        assert_eq!(bytes.windows(11).filter(|part| *part == b"HSET\r\n$4\r\nl").count(), 2);
        assert!(read(&bytes).unwrap() == items);
        // Returns one byte per read.
        struct Bytewise<'a>(&'a [u8]);
        impl Read for Bytewise<'_> {
            fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                let len = out.len().min(1);
                self.0.read(&mut out[..len])
            }
        }
        let mut few = Vec::new();
        items[..5].iter().for_each(|item| push_item(&mut few, item));
        let mut reader = Reader::new(Bytewise(&few));
        items[..5].iter().for_each(|item| assert_eq!(reader.next().unwrap().as_ref(), Some(item)));
        assert!(reader.next().unwrap().is_none());
    }

    #[test]
    fn every_truncation_and_every_damage_is_reported() {
        let (mut bytes, mut starts) = (Vec::new(), vec![0]);
        for item in &items()[..5] {
            push_item(&mut bytes, item);
            starts.push(bytes.len());
        }
        let commands = bytes.windows(2).enumerate().filter(|(_, part)| part[0] == b'*');
        starts.extend(commands.filter(|(_, part)| (b'2'..b'9').contains(&part[1])).map(|(i, _)| i));
        for end in 0..bytes.len() {
            let whole = read(&bytes[..end]);
            assert_eq!(whole.is_ok(), starts.contains(&end), "{end}: {whole:?}");
            if let Err(ReadError::Bad { at, .. }) = whole {
                assert!(starts.contains(&(at as usize)) && at < end as u64, "{end}: {at}");
            }
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[end] ^= 1 << bit;
                let _ = read(&damaged);
            }
        }
    }

    #[test]
    fn other_files_than_exports_are_refused() {
        let cases: [(&[u8], &str); 8] = [
            (b"SET a b\r\nDEL a\r\n", "byte 9: DEL with 1 arguments is not one of"),
            (b"SET a b EX 5\r\n", "byte 0: the only supported option of SET is PXAT"),
            (
                b"SET a b\r\nPEXPIREAT b 5\r\n",
                "byte 9: PEXPIREAT is not for the key of the previous command",
            ),
            (b"PIN a\r\n", "byte 0: PIN is not for"),
            (b"SET a b PXAT x\r\n", "byte 0: x is not a time"),
            (b"HSET a b\r\n", "byte 0: HSET with 2 arguments"),
            (b"RPUSH a\r\n", "byte 0: RPUSH with 1 arguments"),
            (b"*1\r\n$999999999999\r\n", "byte 0: Protocol error: invalid bulk length"),
        ];
        for (bytes, expected) in cases {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let lines = read(b"set a b pxat -5\r\n\r\nhset h f 1 g 2 f 3\r\n").unwrap();
        assert_eq!(
            lines,
            [string(b"a", b"b", Some(0)), hash(b"h", &[(b"g", b"2"), (b"f", b"3")], None)]
        );
    }
}
