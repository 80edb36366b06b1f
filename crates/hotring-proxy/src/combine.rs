//! Makes one reply of the replies of several nodes.

use hotring_cluster::Slot;
use hotring_protocol::{Part, Version, Writer, read_part};

/// How the replies of several nodes become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    /// The first one, if all succeeded.
    AllSucceeded,
    /// The first one that is no error.
    OneSucceeded,
    /// The sum of numbers.
    Sum,
    /// Each element is 1 where it is 1 in all arrays.
    And,
    /// All elements of all arrays.
    Concatenate,
    /// Elements of arrays, each at its place: for each part the places of its elements.
    Interleave(Vec<Vec<u32>>),
    /// One of those that are not nil.
    Some,
    /// Values of memcached's protocol, with one END.
    Values,
    /// No reply.
    Nothing,
    /// The page of a walk over all keys, of the shard with this slot; a number for the next one.
    Page {
        /// The slot that stood in the cursor.
        slot: Slot,
        /// The lowest slot of the next shard.
        next: Option<Slot>,
    },
}

/// Bits of a cursor that name a slot.
const SLOT_BITS: u32 = 14;

/// The slot and the node's own cursor in a cursor of the proxy; None if that is not one.
pub(crate) fn split_cursor(text: &[u8]) -> Option<(Slot, u64)> {
    let number: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(((number & ((1 << SLOT_BITS) - 1)) as Slot, number >> SLOT_BITS))
}

/// The cursor of the proxy. A node's cursor that is too large for clients, which read it as a signed number, is None.
fn join_cursor(slot: Slot, cursor: u64) -> Option<u64> {
    (cursor < 1 << (63 - SLOT_BITS)).then(|| cursor << SLOT_BITS | u64::from(slot))
}

/// Makes one reply of these, which are complete and in the order of their requests.
pub(crate) fn combine(how: &Combine, parts: &[Vec<u8>], version: Version) -> Vec<u8> {
    let is_error = |reply: &&Vec<u8>| {
        let of_memcached: [&[u8]; 2] = [b"SERVER_ERROR ", b"CLIENT_ERROR "];
        matches!(reply.first(), Some(b'-' | b'!'))
            || of_memcached.iter().any(|error| reply.starts_with(error))
    };
    let error = parts.iter().find(is_error);
    let first = || parts.first().cloned().unwrap_or_default();
    if *how == Combine::OneSucceeded {
        return parts.iter().find(|reply| !is_error(reply)).cloned().unwrap_or_else(first);
    }
    if let Some(error) = error {
        return error.clone();
    }
    let combined = match how {
        Combine::AllSucceeded | Combine::OneSucceeded => Some(first()),
        Combine::Sum => sum(parts, version),
        Combine::And => and(parts, version),
        Combine::Concatenate => concatenate(parts, version),
        Combine::Interleave(places) => interleave(parts, places, version),
        Combine::Some => {
            let is_nil = |reply: &&Vec<u8>| reply.starts_with(b"$-1") || reply.starts_with(b"_");
            Some(parts.iter().find(|reply| !is_nil(reply)).cloned().unwrap_or_else(first))
        }
        Combine::Values => values(parts),
        Combine::Nothing => Some(Vec::new()),
        Combine::Page { slot, next } => page(parts, *slot, *next, version),
    };
    combined
        .unwrap_or_else(|| b"-ERR the nodes of the cluster answer in different ways\r\n".to_vec())
}

fn written(version: Version, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut Writer::new(&mut out, version));
    out
}

fn int(mut reply: &[u8]) -> Option<i64> {
    match read_part(&mut reply)? {
        Part::Int(number) => Some(number),
        _ => None,
    }
}

/// The number of elements of an array, and the bytes of all of them.
fn elements(mut reply: &[u8]) -> Option<(usize, &[u8])> {
    match read_part(&mut reply)? {
        Part::Array(n) | Part::Set(n) => Some((n, reply)),
        _ => None,
    }
}

fn sum(parts: &[Vec<u8>], version: Version) -> Option<Vec<u8>> {
    let sum = parts.iter().try_fold(0i64, |sum, part| sum.checked_add(int(part)?))?;
    Some(written(version, |writer| writer.int(sum)))
}

fn and(parts: &[Vec<u8>], version: Version) -> Option<Vec<u8>> {
    let ints = |part: &Vec<u8>| -> Option<Vec<i64>> {
        let (n, mut rest) = elements(part)?;
        let mut next = || match read_part(&mut rest)? {
            Part::Int(number) => Some(number),
            _ => None,
        };
        (0..n).map(|_| next()).collect()
    };
    let all: Vec<_> = parts.iter().map(ints).collect::<Option<_>>()?;
    let len = all.first()?.len();
    let has_all = |i: usize| all.iter().all(|ints| ints.get(i) == Some(&1));
    Some(written(version, |writer| {
        writer.array(len);
        (0..len).for_each(|i| writer.int(has_all(i).into()));
    }))
}

fn concatenate(parts: &[Vec<u8>], version: Version) -> Option<Vec<u8>> {
    let all: Vec<_> = parts.iter().map(|part| elements(part)).collect::<Option<_>>()?;
    Some(written(version, |writer| {
        writer.array(all.iter().map(|(n, _)| n).sum());
        all.iter().for_each(|(_, bytes)| writer.buffer().extend_from_slice(bytes));
    }))
}

/// Puts elements at their places. They must not be aggregates.
fn interleave(parts: &[Vec<u8>], places: &[Vec<u32>], version: Version) -> Option<Vec<u8>> {
    let len = places.iter().map(Vec::len).sum();
    let mut whole: Vec<&[u8]> = vec![&[]; len];
    for (part, places) in parts.iter().zip(places) {
        let (n, mut rest) = elements(part)?;
        if n != places.len() {
            return None;
        }
        for place in places {
            let before = rest;
            read_part(&mut rest)?;
            *whole.get_mut(*place as usize)? = &before[..before.len() - rest.len()];
        }
    }
    Some(written(version, |writer| {
        writer.array(len);
        whole.iter().for_each(|element| writer.buffer().extend_from_slice(element));
    }))
}

fn values(parts: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for part in parts {
        out.extend_from_slice(part.strip_suffix(b"END\r\n")?);
    }
    out.extend_from_slice(b"END\r\n");
    Some(out)
}

fn page(parts: &[Vec<u8>], slot: Slot, next: Option<Slot>, version: Version) -> Option<Vec<u8>> {
    let (2, mut rest) = elements(parts.first()?)? else { return None };
    let Part::Bulk(cursor) = read_part(&mut rest)? else { return None };
    let cursor = match (std::str::from_utf8(cursor).ok()?.parse().ok()?, next) {
        (0u64, None) => 0,
        (0, Some(next)) => join_cursor(next, 0)?,
        (cursor, _) => join_cursor(slot, cursor)?,
    };
    Some(written(version, |writer| {
        writer.array(2);
        writer.bulk_fmt(format_args!("{cursor}"));
        writer.buffer().extend_from_slice(rest);
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(how: Combine, parts: &[&str]) -> String {
        let parts: Vec<_> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
        String::from_utf8(combine(&how, &parts, Version::Resp2)).unwrap()
    }

    #[test]
    fn replies_of_several_nodes_become_one() {
        assert_eq!(combined(Combine::Sum, &[":1\r\n", ":0\r\n", ":5\r\n"]), ":6\r\n");
        assert_eq!(combined(Combine::AllSucceeded, &["+OK\r\n", "+OK\r\n"]), "+OK\r\n");
        assert_eq!(combined(Combine::AllSucceeded, &["+OK\r\n", "-ERR no\r\n"]), "-ERR no\r\n");
        assert_eq!(combined(Combine::OneSucceeded, &["-NOTBUSY\r\n", "+OK\r\n"]), "+OK\r\n");
        assert_eq!(combined(Combine::OneSucceeded, &["-A\r\n", "-B\r\n"]), "-A\r\n");
        assert_eq!(combined(Combine::Some, &["$-1\r\n", "$1\r\na\r\n"]), "$1\r\na\r\n");
        assert_eq!(combined(Combine::Some, &["$-1\r\n", "$-1\r\n"]), "$-1\r\n");
        let ones = ["*2\r\n:1\r\n:1\r\n", "*2\r\n:0\r\n:1\r\n"];
        assert_eq!(combined(Combine::And, &ones), "*2\r\n:0\r\n:1\r\n");
        let lists = ["*1\r\n$1\r\na\r\n", "*0\r\n", "*2\r\n$1\r\nb\r\n*1\r\n:1\r\n"];
        let whole = "*3\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n:1\r\n";
        assert_eq!(combined(Combine::Concatenate, &lists), whole);
    }

    #[test]
    fn values_have_one_end() {
        let parts = ["VALUE a 0 1\r\nx\r\nEND\r\n", "END\r\n", "VALUE b 0 0\r\n\r\nEND\r\n"];
        let whole = "VALUE a 0 1\r\nx\r\nVALUE b 0 0\r\n\r\nEND\r\n";
        assert_eq!(combined(Combine::Values, &parts), whole);
        assert_eq!(
            combined(Combine::Values, &[parts[0], "SERVER_ERROR x\r\n"]),
            "SERVER_ERROR x\r\n"
        );
        assert_eq!(combined(Combine::Nothing, &["OK\r\n", "OK\r\n"]), "");
    }

    #[test]
    fn elements_go_to_their_places() {
        let places = vec![vec![2, 0], vec![1]];
        let parts = ["*2\r\n$1\r\nc\r\n$-1\r\n", "*1\r\n$1\r\nb\r\n"];
        let whole = "*3\r\n$-1\r\n$1\r\nb\r\n$1\r\nc\r\n";
        assert_eq!(combined(Combine::Interleave(places.clone()), &parts), whole);
        let short = ["*1\r\n$1\r\nc\r\n", "*1\r\n$1\r\nb\r\n"];
        assert!(combined(Combine::Interleave(places), &short).starts_with("-ERR"));
    }

    #[test]
    fn a_walk_goes_from_shard_to_shard() {
        let page = |slot, next, cursor: &str| {
            let reply = format!("*2\r\n${}\r\n{cursor}\r\n*1\r\n$1\r\nk\r\n", cursor.len());
            combined(Combine::Page { slot, next }, &[&reply])
        };
        let cursor = |reply: String| reply.split("\r\n").nth(2).unwrap().to_string();
        let within = cursor(page(5, Some(9), "77"));
        assert_eq!(split_cursor(within.as_bytes()), Some((5, 77)));
        let next = cursor(page(5, Some(9), "0"));
        assert_eq!(split_cursor(next.as_bytes()), Some((9, 0)));
        assert_eq!(cursor(page(9, None, "0")), "0");
        assert!(page(9, None, "18446744073709551615").starts_with("-ERR"));
        assert_eq!(split_cursor(b"-1"), None);
    }
}
