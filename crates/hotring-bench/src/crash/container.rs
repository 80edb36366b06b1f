//! A model of a container that one connection changes, and its comparison with the contents on a server.
//!
//! Each number is pushed to a list once, and scores and counts rise by 1. So a change that is applied twice or
//! out of order leads to contents that the model never had.

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;

use crate::resp::{Client, Reply};
use crate::workload::mix::mix;

/// The number of names. Members and fields are numbers below it.
const NAMES: u64 = 60;
/// Changes after which a growing container begins to shrink, or a shrinking one to grow.
const PHASE: u64 = 400;
/// The earliest expiry of a field, in Unix milliseconds: in 2096, so that no field expires during a run.
const EXPIRY: u64 = 4_000_000_000_000;

/// Settings of the server with short packed containers, so that containers exceed them at times.
pub const SETTINGS: [(&str, &str); 5] = [
    ("hash-max-listpack-entries", "20"),
    ("list-max-listpack-size", "20"),
    ("set-max-intset-entries", "20"),
    ("zset-max-listpack-entries", "20"),
    ("set-max-listpack-entries", "20"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    List,
    Set,
    Scored,
    Hash,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::List, Kind::Set, Kind::Scored, Kind::Hash];
}

/// A list's element; a set's member; a sorted set's member and score; or a hash's field, value and expiry (0: none).
/// Unused numbers are 0.
type Part = [u64; 3];

pub struct Container {
    pub kind: Kind,
    /// A list's parts in its order; the parts of all other kinds sorted by name.
    parts: Vec<Part>,
    changes: u64,
}

/// The reply that a change must get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Integer(u64),
    Text(Option<u64>),
}

impl Answer {
    pub fn is(&self, reply: &Reply<'_>) -> bool {
        match (self, reply) {
            (Answer::Integer(number), Reply::Integer(answer)) => *number as i64 == *answer,
            (Answer::Text(None), Reply::Bulk(text)) => text.is_none(),
            (Answer::Text(Some(number)), Reply::Bulk(Some(text))) => {
                number.to_string().as_bytes() == *text
            }
            _ => false,
        }
    }
}

impl Container {
    pub fn new(kind: Kind) -> Container {
        Container { kind, parts: Vec::new(), changes: 0 }
    }

    /// A digest of all parts; None for an empty container.
    pub fn state(&self) -> Option<u64> {
        let add = |sum: u64, part: &Part| part.iter().fold(sum, |sum, number| mix(sum ^ number));
        (!self.parts.is_empty()).then(|| self.parts.iter().fold(self.parts.len() as u64, add))
    }

    /// Adds a change to the client's next flush, and returns the reply that it must get. Each change must have a unique
    /// `number`.
    pub fn change(
        &mut self,
        client: &mut Client,
        key: &[u8],
        number: u64,
        random: &mut Rng,
    ) -> Answer {
        self.changes += 1;
        let grows = random.u64(..10) < if (self.changes / PHASE).is_multiple_of(2) { 7 } else { 3 };
        let name = random.u64(..NAMES);
        match self.kind {
            Kind::List => self.change_list(client, key, number, grows, random.bool()),
            Kind::Set => self.change_set(client, key, name, grows),
            Kind::Scored => self.change_scored(client, key, (name, number), grows, random.u64(..4)),
            Kind::Hash => self.change_hash(client, key, (name, number), grows, random.u64(..4)),
        }
    }

    fn change_list(
        &mut self,
        client: &mut Client,
        key: &[u8],
        number: u64,
        grows: bool,
        at_front: bool,
    ) -> Answer {
        if grows {
            let command: &[u8] = if at_front { b"LPUSH" } else { b"RPUSH" };
            client.push(&[command, key, number.to_string().as_bytes()]);
            let at = if at_front { 0 } else { self.parts.len() };
            self.parts.insert(at, [number, 0, 0]);
            return Answer::Integer(self.parts.len() as u64);
        }
        client.push(&[if at_front { b"LPOP" } else { b"RPOP" }, key]);
        let popped = match at_front {
            true if !self.parts.is_empty() => Some(self.parts.remove(0)),
            true => None,
            false => self.parts.pop(),
        };
        Answer::Text(popped.map(|[element, ..]| element))
    }

    fn position(&self, name: u64) -> Result<usize, usize> {
        self.parts.binary_search_by_key(&name, |[other, ..]| *other)
    }

    /// Adds or replaces the part of a name. Gives true for a new name.
    fn put(&mut self, part: Part) -> bool {
        match self.position(part[0]) {
            Ok(at) => self.parts[at] = part,
            Err(at) => {
                self.parts.insert(at, part);
                return true;
            }
        }
        false
    }

    fn take(&mut self, name: u64) -> Answer {
        let at = self.position(name);
        Answer::Integer(u64::from(at.map(|at| self.parts.remove(at)).is_ok()))
    }

    fn change_set(&mut self, client: &mut Client, key: &[u8], name: u64, grows: bool) -> Answer {
        let command: &[u8] = if grows { b"SADD" } else { b"SREM" };
        client.push(&[command, key, name.to_string().as_bytes()]);
        if grows { Answer::Integer(u64::from(self.put([name, 0, 0]))) } else { self.take(name) }
    }

    fn change_scored(
        &mut self,
        client: &mut Client,
        key: &[u8],
        (name, number): (u64, u64),
        grows: bool,
        which: u64,
    ) -> Answer {
        let member = name.to_string();
        let member = member.as_bytes();
        match (grows, which) {
            (true, 0) => {
                client.push(&[b"ZADD", key, number.to_string().as_bytes(), member]);
                Answer::Integer(u64::from(self.put([name, number, 0])))
            }
            (true, _) => {
                client.push(&[b"ZINCRBY", key, b"1", member]);
                let score = self.position(name).map_or(0, |at| self.parts[at][1]) + 1;
                self.put([name, score, 0]);
                Answer::Text(Some(score))
            }
            (false, _) => {
                client.push(&[b"ZREM", key, member]);
                self.take(name)
            }
        }
    }

    fn change_hash(
        &mut self,
        client: &mut Client,
        key: &[u8],
        (name, number): (u64, u64),
        grows: bool,
        which: u64,
    ) -> Answer {
        let (field, text) = (name.to_string(), number.to_string());
        let (field, text) = (field.as_bytes(), text.as_bytes());
        match (grows, which) {
            (true, 0) => {
                client.push(&[b"HSET", key, field, text]);
                Answer::Integer(u64::from(self.put([name, number, 0])))
            }
            (true, 1) => {
                let expiry = EXPIRY + number;
                let at = expiry.to_string();
                client.push(&[
                    b"HSETEX",
                    key,
                    b"PXAT",
                    at.as_bytes(),
                    b"FIELDS",
                    b"1",
                    field,
                    text,
                ]);
                self.put([name, number, expiry]);
                Answer::Integer(1)
            }
            (true, _) => {
                client.push(&[b"HINCRBY", key, field, b"1"]);
                let at = self.position(name);
                let [_, value, expiry] = at.map_or([name, 0, 0], |at| self.parts[at]);
                self.put([name, value + 1, expiry]);
                Answer::Integer(value + 1)
            }
            (false, _) => {
                client.push(&[b"HDEL", key, field]);
                self.take(name)
            }
        }
    }

    /// Replaces the model with the contents of the key on the server.
    pub fn read(&mut self, client: &mut Client, key: &[u8]) -> Result<()> {
        self.parts = match self.kind {
            Kind::List => names(numbers(client, &[b"LRANGE", key, b"0", b"-1"])?),
            Kind::Set => names(numbers(client, &[b"SMEMBERS", key])?),
            Kind::Scored => pairs(numbers(client, &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"])?),
            Kind::Hash => pairs(numbers(client, &[b"HGETALL", key])?),
        };
        if self.kind != Kind::List {
            self.parts.sort_unstable();
        }
        if self.kind == Kind::Hash && !self.parts.is_empty() {
            let fields: Vec<String> =
                self.parts.iter().map(|[name, ..]| name.to_string()).collect();
            let count = fields.len().to_string();
            let mut request: Vec<&[u8]> = vec![b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
            request.extend(fields.iter().map(String::as_bytes));
            let expiries = numbers(client, &request)?;
            ensure!(expiries.len() == fields.len(), "HPEXPIRETIME leaves out fields");
            for (part, expiry) in self.parts.iter_mut().zip(expiries) {
                part[2] = expiry;
            }
        }
        Ok(())
    }
}

fn names(numbers: Vec<u64>) -> Vec<Part> {
    numbers.into_iter().map(|number| [number, 0, 0]).collect()
}

fn pairs(numbers: Vec<u64>) -> Vec<Part> {
    numbers.chunks_exact(2).map(|pair| [pair[0], pair[1], 0]).collect()
}

/// Reads an array of numbers. Gives 0 for -1, the reply for a field that never expires.
fn numbers(client: &mut Client, request: &[&[u8]]) -> Result<Vec<u64>> {
    let len = match client.call(request)? {
        Reply::Array(len) => len,
        other => bail!("{} answers {other:?}", request[0].escape_ascii()),
    };
    let mut numbers = Vec::new();
    for _ in 0..len {
        numbers.push(match client.reply()? {
            Reply::Bulk(Some(text)) => {
                let text = std::str::from_utf8(text)?;
                text.parse().with_context(|| format!("{text:?} was never stored"))?
            }
            Reply::Integer(-1) => 0,
            Reply::Integer(number) => u64::try_from(number)?,
            other => bail!("{other:?} in an array"),
        });
    }
    Ok(numbers)
}
