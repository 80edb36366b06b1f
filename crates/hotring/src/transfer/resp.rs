//! Items as RESP commands, which `redis-cli --pipe` sends to any server.
//!
//! ```text
//!  a string   SET key value [PXAT milliseconds]
//!  a hash     HSET key field value ... , more of them if it is large, and PEXPIREAT key milliseconds
//!  a pin      PIN key
//! ```

use super::{Item, Value};
use crate::client::push_request;

/// Bytes of fields in one command, and fields at most, as the number of arguments has a limit. A hash is written anew
/// by each command, so that there are to be few.
const HSET_LEN: usize = 4 << 20;
const HSET_FIELDS: usize = 100_000;

/// Adds the commands that make an item.
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
        Value::Hash(fields) => {
            let mut rest = &fields[..];
            while !rest.is_empty() {
                let (some, behind) = rest.split_at(few(rest));
                let pairs = some.iter().flat_map(|(field, value)| [&field[..], &value[..]]);
                push_request(out, &[b"HSET", key].into_iter().chain(pairs).collect::<Vec<_>>());
                rest = behind;
            }
            if let Some(at) = &time {
                push_request(out, &[b"PEXPIREAT", key, at.as_bytes()]);
            }
        }
    }
    if item.is_pinned {
        push_request(out, &[b"PIN", key]);
    }
}

/// How many fields one command takes.
fn few(fields: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let mut len = 0;
    let fits = |(field, value): &&(Vec<u8>, Vec<u8>)| {
        len += field.len() + value.len();
        len <= HSET_LEN
    };
    fields.iter().take(HSET_FIELDS).take_while(fits).count().max(1)
}
