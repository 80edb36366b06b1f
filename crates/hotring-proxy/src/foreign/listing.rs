//! The keys of a server, as it lists them itself.

use std::io;

use hotring_protocol::memcached::ReplyForm;
use hotring_protocol::{Part, read_part};

use super::item::refused;
use crate::link::Link;
use crate::reply::Form;

/// Lines of a list that are read at once.
const LINES: usize = 256;

const LINE: Form = Form::Memcached { form: ReplyForm::Line, is_silent: false };

/// Of a page of SCAN: its keys, and the next cursor.
pub(super) fn page(reply: &[u8]) -> Result<(Vec<Vec<u8>>, Vec<u8>), String> {
    let read = || {
        let mut rest = reply;
        let Some(Part::Array(2)) = read_part(&mut rest) else { return None };
        let Some(Part::Bulk(cursor)) = read_part(&mut rest) else { return None };
        let Some(Part::Array(n)) = read_part(&mut rest) else { return None };
        let mut key = || match read_part(&mut rest)? {
            Part::Bulk(key) => Some(key.to_vec()),
            _ => None,
        };
        Some(((0..n).map(|_| key()).collect::<Option<Vec<_>>>()?, cursor.to_vec()))
    };
    read().ok_or_else(|| refused("it does not list its keys", reply))
}

/// The next keys that a memcached lists. True: these are the last ones.
pub(super) async fn listed(listing: &mut Link) -> io::Result<(Vec<Vec<u8>>, bool)> {
    let mut keys = Vec::new();
    for _ in 0..LINES {
        let line = listing.next_of(LINE).await?;
        let line = line.trim_ascii_end();
        if line == b"END" {
            return Ok((keys, true));
        }
        let word = line.strip_prefix(b"key=").and_then(|rest| rest.split(|b| *b == b' ').next());
        let key = word.and_then(decoded);
        keys.push(key.ok_or_else(|| io::Error::other(refused("it lists no keys", line)))?);
    }
    Ok((keys, false))
}

/// A key as memcached lists it, with bytes as %41.
fn decoded(word: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            key.push(*byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        key.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(key)
}
