//! Sends keys to a server in batches, each key by one command, so that no client sees half a key.
//!
//! At most two batches are under way: the replies to one are read once the next has been sent. All
//! replies to a batch must fit into the system's socket buffers, so that the two sides never wait
//! for each other.

use std::io;

use hotring_commands::rdb::{
    TYPE_HASH, TYPE_HASH_EXPIRING, TYPE_LIST, TYPE_SET, TYPE_STRING, TYPE_ZSET_2, push_len,
    push_number, push_string, seal,
};
use hotring_protocol::Reply;

use crate::client::{Client, push_request};
use crate::transfer::{Item, Progress, Value};

/// Commands per batch, and bytes per batch unless a single command is longer.
const BATCH: usize = 256;
const BATCH_LEN: usize = 1 << 20;

/// The treatment of keys that the server already has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Overwrite,
    Keep,
    Fail,
}

pub(super) struct Sender {
    client: Client,
    existing: Existing,
    requests: Vec<u8>,
    /// Commands in `requests`, and commands that were sent and have no reply yet.
    batch: Vec<Sent>,
    sent: Vec<Sent>,
    kept: u64,
    /// The database that is selected.
    database: u8,
}

/// A command.
struct Sent {
    key: Vec<u8>,
    len: usize,
    is_pin: bool,
}

impl Sender {
    pub(super) fn new(client: Client, existing: Existing) -> Sender {
        let (requests, batch, sent) = (Vec::new(), Vec::new(), Vec::new());
        Sender { client, existing, requests, batch, sent, kept: 0, database: 0 }
    }

    /// Queues an item, and sends the batch if it is full.
    pub(super) fn push(&mut self, item: &Item, progress: &mut Progress) -> io::Result<()> {
        if item.database != self.database {
            self.select(item.database, progress)?;
        }
        push_item(&mut self.requests, item, self.existing);
        self.batch.push(Sent { key: item.key.clone(), len: item.len(), is_pin: false });
        if item.is_pinned {
            push_request(&mut self.requests, &[b"PIN", &item.key]);
            self.batch.push(Sent { key: item.key.clone(), len: 0, is_pin: true });
        }
        if self.batch.len() >= BATCH || self.requests.len() >= BATCH_LEN {
            self.turn(progress)?;
        }
        Ok(())
    }

    /// Selects the database of the next items, after all replies for the previous database have been read.
    fn select(&mut self, number: u8, progress: &mut Progress) -> io::Result<()> {
        self.finish(progress)?;
        let mut request = Vec::new();
        push_request(&mut request, &[b"SELECT", number.to_string().as_bytes()]);
        self.client.send(&request)?;
        if let Reply::Error(text) = self.client.reply()? {
            return Err(io::Error::other(format!("database {number}: {text}")));
        }
        self.database = number;
        Ok(())
    }

    /// Sends the rest and waits for all replies.
    pub(super) fn finish(&mut self, progress: &mut Progress) -> io::Result<()> {
        self.turn(progress)?;
        self.turn(progress)
    }

    /// Existing keys that were kept.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Sends the batch and reads the replies to the previous one.
    fn turn(&mut self, progress: &mut Progress) -> io::Result<()> {
        self.client.send(&self.requests)?;
        self.requests.clear();
        let before = std::mem::replace(&mut self.sent, std::mem::take(&mut self.batch));
        for sent in before {
            match self.client.reply()? {
                // The reply of SET NX and of RESTORE to an existing key.
                Reply::Null => self.exists(&sent, progress),
                Reply::Error(text) if text.starts_with("BUSYKEY ") => self.exists(&sent, progress),
                Reply::Error(text) => progress.fail(&sent.key, &text),
                _ if !sent.is_pin => progress.add(sent.len),
                _ => {}
            }
        }
        Ok(())
    }

    fn exists(&mut self, sent: &Sent, progress: &mut Progress) {
        match self.existing {
            Existing::Keep => self.kept += 1,
            _ => progress.fail(&sent.key, "the server has this key"),
        }
    }
}

/// Appends the command that creates the item atomically.
fn push_item(out: &mut Vec<u8>, item: &Item, existing: Existing) {
    let replaces = existing == Existing::Overwrite;
    let time = item.expire_at.unwrap_or(0).to_string();
    match &item.value {
        Value::String(text) => {
            let mut words: Vec<&[u8]> = vec![b"SET", &item.key, text];
            words.extend((!replaces).then_some(&b"NX"[..]));
            if item.expire_at.is_some() {
                words.extend([&b"PXAT"[..], time.as_bytes()]);
            }
            push_request(out, &words);
        }
        value => {
            let payload = payload(value);
            let mut words: Vec<&[u8]> =
                vec![b"RESTORE", &item.key, time.as_bytes(), &payload, b"ABSTTL"];
            words.extend(replaces.then_some(&b"REPLACE"[..]));
            push_request(out, &words);
        }
    }
}

/// The RESTORE payload of a value, in the plainest form.
fn payload(value: &Value) -> Vec<u8> {
    let mut payload = Vec::new();
    match value {
        Value::String(text) => {
            payload.push(TYPE_STRING);
            push_string(&mut payload, text);
        }
        Value::Hash(fields) => {
            payload.push(TYPE_HASH);
            push_len(&mut payload, fields.len());
            for (field, value) in fields {
                push_string(&mut payload, field);
                push_string(&mut payload, value);
            }
        }
        Value::HashUntil(fields) => {
            let first = fields.iter().filter_map(|(_, at)| *at).min().unwrap_or(0);
            payload.push(TYPE_HASH_EXPIRING);
            payload.extend_from_slice(&first.to_le_bytes());
            push_len(&mut payload, fields.len());
            for ((field, value), at) in fields {
                push_number(&mut payload, at.map_or(0, |at| at - first + 1));
                push_string(&mut payload, field);
                push_string(&mut payload, value);
            }
        }
        Value::List(elements) => {
            payload.push(TYPE_LIST);
            push_len(&mut payload, elements.len());
            elements.iter().for_each(|element| push_string(&mut payload, element));
        }
        Value::Set(members) => {
            payload.push(TYPE_SET);
            push_len(&mut payload, members.len());
            members.iter().for_each(|member| push_string(&mut payload, member));
        }
        Value::Scored(members) => {
            payload.push(TYPE_ZSET_2);
            push_len(&mut payload, members.len());
            for (member, score) in members {
                push_string(&mut payload, member);
                payload.extend_from_slice(&score.to_le_bytes());
            }
        }
    }
    seal(&mut payload);
    payload
}
