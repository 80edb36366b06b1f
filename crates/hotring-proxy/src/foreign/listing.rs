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

/// Has a memcached list its keys by its hash table: in its lists of use an item may move past the walk.
pub(super) const LIST: &[u8] = b"lru_crawler metadump hash\r\n";

/// What a memcached says next when it lists its keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// Some keys.
    More(Vec<Vec<u8>>),
    /// The last keys.
    Last(Vec<Vec<u8>>),
    /// Its crawler works for another client, or for itself.
    Busy,
    /// It will never list them, and says so by this line.
    Never(String),
}

/// The next keys that a memcached lists.
pub(super) async fn listed(listing: &mut Link) -> io::Result<Listed> {
    let mut keys = Vec::new();
    for _ in 0..LINES {
        match Line::read(listing.next_of(LINE).await?.trim_ascii_end()) {
            Line::Key(key) => keys.push(key),
            Line::End => return Ok(Listed::Last(keys)),
            Line::Busy => return Ok(Listed::Busy),
            Line::Never(line) => return Ok(Listed::Never(line)),
            Line::Other(why) => return Err(io::Error::other(why)),
        }
    }
    Ok(Listed::More(keys))
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Key(Vec<u8>),
    End,
    Busy,
    Never(String),
    Other(String),
}

impl Line {
    fn read(line: &[u8]) -> Line {
        let text = || String::from_utf8_lossy(line).into_owned();
        let mut words = line.split(|byte| *byte == b' ');
        match words.next().unwrap_or_default() {
            // The second is what one without items may say.
            b"END" | b"NOTSTARTED" => Line::End,
            b"BUSY" => Line::Busy,
            // It does not know the word `hash`.
            b"BADCLASS" | b"CLIENT_ERROR" => Line::Never(text()),
            // Without more it knows no such command. Another reason passes, as too many connections do.
            b"ERROR" if matches!(line, b"ERROR" | b"ERROR lru crawler disabled") => {
                Line::Never(text())
            }
            word => match word.strip_prefix(b"key=").and_then(decoded) {
                Some(key) => Line::Key(key),
                None => Line::Other(refused("it lists no keys", line)),
            },
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A busy crawler once counted as a failure, and an old memcached was asked twenty times.
    #[test]
    fn lines_that_are_no_keys_are_told_apart() {
        let never = |line: &str| Line::Never(line.to_string());
        for (line, expected) in [
            ("key=a%20b exp=-1 la=1 cas=2 fetch=no cls=1 size=63", Line::Key(b"a b".to_vec())),
            ("END", Line::End),
            ("NOTSTARTED no items to crawl", Line::End),
            ("BUSY currently processing crawler request", Line::Busy),
            ("BADCLASS invalid class id", never("BADCLASS invalid class id")),
            ("ERROR lru crawler disabled", never("ERROR lru crawler disabled")),
            ("ERROR", never("ERROR")),
        ] {
            assert_eq!(Line::read(line.as_bytes()), expected, "{line}");
        }
        for line in ["key=a%2", "key=%zz", "VALUE a 0 1", "", "ERROR Too many open connections"] {
            assert!(matches!(Line::read(line.as_bytes()), Line::Other(_)), "{line}");
        }
    }
}
