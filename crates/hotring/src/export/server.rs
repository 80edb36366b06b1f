//! Reads all keys of a running server: SCAN, then the value and the expiry time of each key in one
//! transaction.

use std::collections::HashSet;
use std::io;

use hotring_protocol::Reply;

use super::{Output, Wanted};
use crate::client::{Client, push_request};
use crate::transfer::{Item, Value, value};

/// Keys per SCAN step, and pinned keys per request.
const COUNT: &[u8] = b"1000";
/// Bytes of requests sent before their replies are read. They must fit into the system's socket
/// buffers, so that they can be sent while the server waits for its replies to be read.
const REQUESTS_LEN: usize = 16 << 10;
/// An upper bound on the length of a key's requests, apart from the two copies of the key in them.
const WORDS_LEN: usize = 128;
/// Replies per key: to MULTI, DUMP, PEXPIRETIME, EXEC.
const REPLIES: usize = 4;

/// Hands out all keys.
pub(super) fn export(
    client: &mut Client,
    wanted: &Wanted<'_>,
    output: &mut Output<'_>,
) -> Result<(), String> {
    // The export must not make keys hotter. Redis before 7.2 does not know this command.
    let _ = request(client, &[b"CLIENT", b"NO-TOUCH", b"ON"])?;
    for number in databases(client)? {
        ask(client, &[b"SELECT", number.to_string().as_bytes()])?;
        export_database(client, wanted, output, number)?;
    }
    Ok(())
}

/// The databases that have keys.
fn databases(client: &mut Client) -> Result<Vec<u8>, String> {
    let text = match request(client, &[b"INFO", b"keyspace"])? {
        Reply::Bulk(text) => text,
        // The server denies INFO or replies in another form: assume a single database.
        _ => return Ok(vec![0]),
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let number = |line: &str| line.strip_prefix("db")?.split_once(':')?.0.parse().ok();
    Ok(text.lines().filter_map(number).collect())
}

/// Hands out all keys of the selected database.
fn export_database(
    client: &mut Client,
    wanted: &Wanted<'_>,
    output: &mut Output<'_>,
    database: u8,
) -> Result<(), String> {
    let pins = if wanted.pins { pins(client)? } else { HashSet::new() };
    let mut cursor = b"0".to_vec();
    loop {
        let mut words: Vec<&[u8]> = vec![b"SCAN", &cursor, b"COUNT", COUNT];
        if let Some(pattern) = wanted.pattern {
            words.extend([&b"MATCH"[..], pattern.as_bytes()]);
        }
        let Reply::Array(parts) = ask(client, &words)? else { return Err(strange()) };
        let Ok([Reply::Bulk(next), Reply::Array(keys)]) = <[Reply; 2]>::try_from(parts) else {
            return Err(strange());
        };
        let keys = keys.into_iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
        values(client, (database, keys), &pins, output)?;
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

/// The pinned keys.
fn pins(client: &mut Client) -> Result<HashSet<Vec<u8>>, String> {
    let mut pins = HashSet::new();
    let mut last: Option<Vec<u8>> = None;
    loop {
        let mut words: Vec<&[u8]> = vec![b"PINNED", b"COUNT", COUNT];
        if let Some(last) = &last {
            words.extend([&b"AFTER"[..], last]);
        }
        let Reply::Array(keys) = ask(client, &words)? else { return Err(strange()) };
        if keys.is_empty() {
            return Ok(pins);
        }
        for key in keys {
            last = Some(bytes(key)?);
            pins.extend(last.clone());
        }
    }
}

/// Requests the values of keys and hands them out in order.
fn values(
    client: &mut Client,
    (database, keys): (u8, Vec<Vec<u8>>),
    pins: &HashSet<Vec<u8>>,
    output: &mut Output<'_>,
) -> Result<(), String> {
    let (mut requests, mut first) = (Vec::new(), 0);
    for (i, key) in keys.iter().enumerate() {
        push_request(&mut requests, &[b"MULTI"]);
        push_request(&mut requests, &[b"DUMP", key]);
        push_request(&mut requests, &[b"PEXPIRETIME", key]);
        push_request(&mut requests, &[b"EXEC"]);
        let next_len = keys.get(i + 1).map_or(REQUESTS_LEN, |key| WORDS_LEN + 2 * key.len());
        if requests.len() + next_len <= REQUESTS_LEN {
            continue;
        }
        client.send(&requests).map_err(text)?;
        requests.clear();
        for key in &keys[first..=i] {
            match value_of(client)? {
                Ok(None) => {}
                Ok(Some((value, expire_at))) => {
                    let (key, is_pinned) = (key.clone(), pins.contains(key));
                    output.add(&Item { database, key, value, expire_at, is_pinned })?;
                }
                Err(why) => output.fail(key, &why),
            }
        }
        first = i + 1;
    }
    Ok(())
}

/// A value and its expiry time; None if the key is gone.
type Found = Option<(Value, Option<u64>)>;

/// Reads the replies for one key: its value, or the reason why the server refuses to dump it.
fn value_of(client: &mut Client) -> Result<Result<Found, String>, String> {
    let mut refused = None;
    for reply in 1..=REPLIES {
        match client.reply().map_err(text)? {
            Reply::Error(text) => _ = refused.get_or_insert(text),
            Reply::Array(parts) if reply == REPLIES => return read(parts),
            _ => {}
        }
    }
    refused.map(Err).ok_or_else(strange)
}

fn read(parts: Vec<Reply>) -> Result<Result<Found, String>, String> {
    let Ok([dumped, time]) = <[Reply; 2]>::try_from(parts) else { return Err(strange()) };
    let expire_at = match time {
        // The key was removed after SCAN had returned it.
        Reply::Int(-2) => return Ok(Ok(None)),
        Reply::Int(-1) => None,
        Reply::Int(at) => u64::try_from(at).ok(),
        Reply::Error(text) => return Ok(Err(text)),
        _ => return Err(strange()),
    };
    Ok(match dumped {
        Reply::Null => Ok(None),
        Reply::Error(text) => Err(text),
        Reply::Bulk(payload) => match value::payload(&payload) {
            Ok(Ok(value)) => Ok(Some((value, expire_at))),
            Ok(Err(name)) => Err(format!("its type, {name}, cannot be exported")),
            Err(error) => Err(error.to_string()),
        },
        _ => return Err(strange()),
    })
}

fn ask(client: &mut Client, words: &[&[u8]]) -> Result<Reply, String> {
    match request(client, words)? {
        Reply::Error(text) => Err(format!("the server replied: {text}")),
        reply => Ok(reply),
    }
}

fn request(client: &mut Client, words: &[&[u8]]) -> Result<Reply, String> {
    let mut request = Vec::new();
    push_request(&mut request, words);
    client.send(&request).map_err(text)?;
    client.reply().map_err(text)
}

fn bytes(reply: Reply) -> Result<Vec<u8>, String> {
    if let Reply::Bulk(bytes) = reply { Ok(bytes) } else { Err(strange()) }
}

fn text(error: io::Error) -> String {
    error.to_string()
}

fn strange() -> String {
    "the server's reply is not one that Redis would send".into()
}
