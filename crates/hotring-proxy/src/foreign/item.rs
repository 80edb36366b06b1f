//! A key on its way from one server to another: how it is read, stored and removed, and what the servers' replies mean.

use hotring_protocol::memcached::MetaKey;
use hotring_protocol::{Part, parse_i64, read_part};

use super::server::Kind;
use super::to_memcached::{is_key, time};
use super::translation::{flag_of, value_of};
use crate::plan::write_request;

/// A key with its value, on its way.
pub(super) enum Item {
    /// As DUMP gives it; milliseconds to its end, 0 for never.
    Dump { payload: Vec<u8>, ttl: i64 },
    /// A string; milliseconds to its end, 0 for never.
    Text { value: Vec<u8>, flags: i64, ttl: i64 },
    /// There is no such key.
    Gone,
    /// A value that the new server cannot have.
    Unfit,
}

/// What became of a key.
pub(super) enum Fate {
    /// There was none.
    Nothing,
    /// The new server has it.
    There,
    /// It stays where it is.
    Unfit,
    /// The new server does not take it now.
    Refused,
}

/// The text of a failure: what the server does, and the beginning of its reply.
pub(super) fn refused(what: &str, reply: &[u8]) -> String {
    let reply = String::from_utf8_lossy(&reply[..reply.len().min(100)]);
    format!("{what}: {}", reply.trim_end())
}

/// A key as a word of meta commands, and the flag for that. None: memcached cannot have it.
pub(super) fn meta_key(key: &[u8]) -> Option<(Vec<u8>, &'static [u8])> {
    match is_key(key) {
        true => Some((key.to_vec(), b"")),
        false => Some((MetaKey::encode(key)?, b" b")),
    }
}

/// Writes a line of memcached's protocol.
pub(super) fn line(words: &[&[u8]], out: &mut Vec<u8>) {
    words.iter().for_each(|word| out.extend_from_slice(word));
    out.extend_from_slice(b"\r\n");
}

/// Of the reply to `mg` with the flags v, f and t.
pub(super) fn memcached_item(reply: &[u8]) -> Result<Item, String> {
    let Some(value) = value_of(reply) else {
        return match reply {
            b"EN\r\n" => Ok(Item::Gone),
            _ => Err(refused("it does not give a key away", reply)),
        };
    };
    let ttl = match flag_of(reply, b't') {
        None | Some(-1) => 0,
        Some(seconds) => seconds.saturating_mul(1_000).max(1),
    };
    // The flags of the line alone: the value may hold anything.
    Ok(Item::Text { value: value.to_vec(), flags: flag_of(reply, b'f').unwrap_or(0), ttl })
}

/// Of the replies to PTTL, and to DUMP or GET.
pub(super) fn redis_item(ttl: &[u8], value: &[u8], is_text: bool) -> Result<Item, String> {
    let ttl = ttl.strip_prefix(b":").and_then(|text| parse_i64(text.trim_ascii_end()));
    let ttl = match ttl {
        None => return Err(refused("it does not tell when a key expires", value)),
        Some(-1) => 0,
        Some(ms) => ms.max(1),
    };
    match read_part(&mut &value[..]) {
        Some(Part::Absent | Part::Null) => Ok(Item::Gone),
        Some(Part::Bulk(value)) if is_text => {
            Ok(Item::Text { value: value.to_vec(), flags: 0, ttl })
        }
        Some(Part::Bulk(payload)) => Ok(Item::Dump { payload: payload.to_vec(), ttl }),
        Some(Part::Error(error)) if error.starts_with(b"WRONGTYPE") => Ok(Item::Unfit),
        _ => Err(refused("it does not give a key away", value)),
    }
}

/// Writes the request that stores an item, over what is there. False: there is nothing that can be stored.
pub(super) fn write_store(target: Kind, key: &[u8], item: &Item, out: &mut Vec<u8>) -> bool {
    match (item, target) {
        (Item::Gone | Item::Unfit, _) => return false,
        (Item::Dump { payload, ttl }, Kind::Redis | Kind::Hotring) => {
            let ttl = ttl.to_string();
            let words: [&[u8]; 5] = [b"RESTORE", key, ttl.as_bytes(), payload, b"REPLACE"];
            write_request(words.into_iter(), out);
        }
        (Item::Dump { .. }, Kind::Memcached) => return false,
        (Item::Text { value, flags, ttl }, Kind::Memcached) => {
            let Some((key, flag)) = meta_key(key) else { return false };
            let ttl = if *ttl == 0 { 0 } else { time(*ttl) };
            let head = format!(" {} F{flags} T{ttl}", value.len());
            line(&[b"ms ", &key, head.as_bytes(), flag, b"\r\n", value], out);
        }
        // Redis keeps no flags.
        (Item::Text { flags: 1.., .. }, _) => return false,
        (Item::Text { value, ttl, .. }, _) => {
            let ttl = ttl.to_string();
            let words: [&[u8]; 5] = [b"SET", key, value, b"PX", ttl.as_bytes()];
            let n = if ttl == "0" { 3 } else { 5 };
            write_request(words[..n].iter().copied(), out);
        }
    }
    true
}

/// Of the reply to a request that stores an item.
pub(super) fn fate(reply: &[u8]) -> Result<Fate, String> {
    let begins = |texts: &[&str]| texts.iter().any(|text| reply.starts_with(text.as_bytes()));
    match reply {
        [b'+', ..] | [b'H', b'D', ..] => Ok(Fate::There),
        _ if begins(&[
            "-ERR DUMP payload",
            "-ERR Bad data format",
            "SERVER_ERROR object too large",
        ]) || begins(&["CLIENT_ERROR"]) =>
        {
            Ok(Fate::Unfit)
        }
        // These are about the server, and pass.
        _ if begins(&["-LOADING", "-BUSY", "-TRYAGAIN", "-MASTERDOWN", "-NOAUTH"]) => {
            Err(refused("the new server does not take a key", reply))
        }
        [b'-', ..] | [b'N', b'S', ..] => Ok(Fate::Refused),
        _ if begins(&["SERVER_ERROR"]) => Ok(Fate::Refused),
        _ => Err(refused("the new server does not take a key", reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error was once taken for a missing key, and the key settled.
    #[test]
    fn an_error_of_memcached_is_no_missing_key() {
        assert!(matches!(memcached_item(b"EN\r\n"), Ok(Item::Gone)));
        assert!(matches!(memcached_item(b"VA 1 f0 t-1\r\nv\r\n"), Ok(Item::Text { ttl: 0, .. })));
        let errors = ["SERVER_ERROR out of memory writing get response", "ERROR", "CLIENT_ERROR x"];
        for error in errors {
            assert!(memcached_item(format!("{error}\r\n").as_bytes()).is_err(), "{error}");
        }
    }
}
