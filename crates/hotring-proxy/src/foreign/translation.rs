//! Makes replies of one protocol those of the other.

use hotring_protocol::memcached::parse_u64;
use hotring_protocol::{Part, Version, Writer, parse_i64, read_part};

use crate::reply::Form;

/// How the reply to a translated request becomes its client's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// The form in which the client expects the reply.
    pub client: Form,
    pub version: Version,
    pub back: Back,
    /// The replies to all commands of the request but the last.
    pub before: Vec<u8>,
}

/// What a reply means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Back {
    /// The reply to a request in memcached's protocol.
    Memcached(Meaning),
    /// The reply to a request in Redis's protocol.
    Redis(Answer),
}

/// What a reply of memcached means to a client of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A value or nil.
    Value,
    /// The same, as the only element of an array.
    ValueInArray,
    /// OK, or nil if it was not stored.
    Stored,
    /// Whether it was done, as 1 or 0.
    Done,
    /// A number that was counted.
    Number,
    /// The remaining time; a second has this many units.
    Remaining { unit: i64 },
    /// A length.
    Length,
    /// Whether there is a value, as the name of its type.
    Type,
    /// The length after an append, an add for a key that was not there, and a look at the length.
    Appended,
}

/// What a reply of Redis means to a client of memcached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The values of these keys.
    Values(Vec<Vec<u8>>),
    /// Whether it was done.
    Line { yes: &'static str, no: &'static str },
    /// A number that was counted.
    Number,
}

/// A step of an append was done, and then the key was away.
const UNSURE: &str =
    "UNKNOWN the key came or went meanwhile: the value may or may not have been appended";

impl Translation {
    /// The client's reply.
    pub(crate) fn reply(&self, reply: &[u8]) -> Vec<u8> {
        match &self.back {
            Back::Memcached(meaning) => {
                let mut out = Vec::new();
                let writer = &mut Writer::new(&mut out, self.version);
                if write_meaning(*meaning, &self.before, reply, writer).is_none() {
                    write_error(first_line(reply), writer);
                }
                out
            }
            Back::Redis(_) if matches!(self.client, Form::Memcached { is_silent: true, .. }) => {
                Vec::new()
            }
            Back::Redis(answer) => answer_of(answer, reply),
        }
    }
}

fn first_line(reply: &[u8]) -> &[u8] {
    reply.split(|byte| *byte == b'\r').next().unwrap_or_default()
}

/// The first word of a reply, and the others of its first line.
fn words(reply: &[u8]) -> (&[u8], impl Iterator<Item = &[u8]>) {
    let mut words = first_line(reply).split(|byte| *byte == b' ');
    (words.next().unwrap_or_default(), words)
}

/// The value of a reply that begins with VA.
pub(super) fn value_of(reply: &[u8]) -> Option<&[u8]> {
    let line = first_line(reply);
    let (b"VA", mut rest) = words(reply) else { return None };
    let len = parse_u64(rest.next()?)? as usize;
    reply.get(line.len() + 2..)?.get(..len)
}

/// The number of a flag of a reply.
pub(super) fn flag_of(reply: &[u8], flag: u8) -> Option<i64> {
    let (_, mut rest) = words(reply);
    rest.find_map(|word| parse_i64(word.strip_prefix(&[flag])?))
}

/// None: the reply is an error, or another one.
fn write_meaning(
    meaning: Meaning,
    before: &[u8],
    reply: &[u8],
    writer: &mut Writer<'_>,
) -> Option<()> {
    let word = words(reply).0;
    let is_miss = matches!(word, b"EN" | b"NF" | b"NS");
    let is_done = matches!(word, b"HD" | b"OK" | b"VA");
    match meaning {
        Meaning::Appended => write_appended(before, reply, writer),
        _ if !is_miss && !is_done => return None,
        Meaning::Value | Meaning::ValueInArray => {
            if meaning == Meaning::ValueInArray {
                writer.array(1);
            }
            match is_miss {
                true => writer.null(),
                false => writer.bulk(value_of(reply)?),
            }
        }
        Meaning::Stored if is_miss => writer.null(),
        Meaning::Stored => writer.ok(),
        Meaning::Done => writer.int(is_done.into()),
        Meaning::Number => {
            let number = parse_u64(value_of(reply)?)?;
            match i64::try_from(number) {
                Ok(number) => writer.int(number),
                Err(_) => writer.error(format!(
                    "ERR the number was changed, and is {number} now: above 2^63 - 1, which is the most in Redis"
                )),
            }
        }
        Meaning::Remaining { .. } if is_miss => writer.int(-2),
        Meaning::Remaining { unit } => match flag_of(reply, b't')? {
            -1 => writer.int(-1),
            seconds => writer.int(seconds.saturating_mul(unit)),
        },
        Meaning::Length if is_miss => writer.int(0),
        Meaning::Length => writer.int(flag_of(reply, b's')?),
        Meaning::Type => writer.simple(if is_done { "string" } else { "none" }),
    }
    Some(())
}

/// The reply to an append, an add for a key that was not there, and a look at the length.
fn write_appended(before: &[u8], reply: &[u8], writer: &mut Writer<'_>) {
    let (appended, rest) = before.split_at(before.len().min(first_line(before).len() + 2));
    let added = first_line(rest);
    let length = flag_of(reply, b's').filter(|_| words(reply).0 == b"HD");
    match (first_line(appended), added, length) {
        (b"HD", b"HD", _) => writer.error(UNSURE),
        // An add that fails for want of memory removes the key.
        (b"HD", _, Some(length)) | (b"NS", b"HD", Some(length)) => writer.int(length),
        (b"HD", ..) | (_, b"HD", _) => writer.error(UNSURE),
        (b"NS", b"NS", _) => writer.error(
            "ERR nothing was appended: memcached cannot hold so long a value, or the key came meanwhile; then try again",
        ),
        (b"NS", error, _) | (error, ..) => write_error(error, writer),
    }
}

/// An error of memcached, or what the proxy does not expect.
fn write_error(line: &[u8], writer: &mut Writer<'_>) {
    let line = String::from_utf8_lossy(line);
    let text = line.strip_prefix("CLIENT_ERROR ").or_else(|| line.strip_prefix("SERVER_ERROR "));
    match text.unwrap_or(&line) {
        "cannot increment or decrement non-numeric value" => {
            writer.error("ERR value is not an integer or out of range");
        }
        text => writer.error(format!("ERR memcached: {text}")),
    }
}

fn answer_of(answer: &Answer, reply: &[u8]) -> Vec<u8> {
    let mut rest = reply;
    let part = read_part(&mut rest);
    if let Some(Part::Error(error)) = part {
        let error = String::from_utf8_lossy(error);
        return format!("SERVER_ERROR {error}\r\n").into_bytes();
    }
    let line = |text: &str| Some(format!("{text}\r\n").into_bytes());
    let answered = match (answer, part) {
        (Answer::Values(keys), Some(part)) => values(keys, part, rest),
        (Answer::Line { no, .. }, Some(Part::Absent | Part::Null | Part::Int(0))) => line(no),
        (Answer::Line { yes, .. }, Some(_)) => line(yes),
        (Answer::Number, Some(Part::Absent | Part::Null)) => line("NOT_FOUND"),
        // The script's word for a value that is none.
        (Answer::Number, Some(Part::Int(0))) => {
            line("CLIENT_ERROR cannot increment or decrement non-numeric value")
        }
        (Answer::Number, Some(Part::Bulk(number))) => Some([number, b"\r\n"].concat()),
        _ => None,
    };
    answered.unwrap_or_else(|| b"SERVER_ERROR the server gives an unexpected reply\r\n".to_vec())
}

fn values(keys: &[Vec<u8>], first: Part<&[u8]>, mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut add = |key: &[u8], part: Part<&[u8]>| {
        if let Part::Bulk(value) = part {
            out.extend_from_slice(b"VALUE ");
            out.extend_from_slice(key);
            out.extend_from_slice(format!(" 0 {}\r\n", value.len()).as_bytes());
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    };
    match (keys, first) {
        ([key], first @ (Part::Bulk(_) | Part::Absent | Part::Null)) => add(key, first),
        (keys, Part::Array(n)) if n == keys.len() => {
            for key in keys {
                add(key, read_part(&mut rest)?);
            }
        }
        _ => return None,
    }
    out.extend_from_slice(b"END\r\n");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_is_never_said_to_have_failed_once_it_is_done() {
        const FULL: &str = "SERVER_ERROR out of memory storing object\r\n";
        for (before, last, expected) in [
            ("HD\r\nNS\r\n", "HD s5\r\n", ":5"),
            ("NS\r\nHD\r\n", "HD s5\r\n", ":5"),
            (&format!("HD\r\n{FULL}"), "HD s5\r\n", ":5"),
            (&format!("HD\r\n{FULL}"), "EN\r\n", "-UNKNOWN "),
            (&format!("{FULL}HD\r\n"), "HD s5\r\n", "-UNKNOWN "),
            ("HD\r\nHD\r\n", "HD s5\r\n", "-UNKNOWN "),
            ("HD\r\nNS\r\n", "EN\r\n", "-UNKNOWN "),
            ("HD\r\nNS\r\n", FULL, "-UNKNOWN "),
            ("NS\r\nNS\r\n", "HD s5\r\n", "-ERR nothing was appended"),
            (&format!("{FULL}NS\r\n"), "HD s5\r\n", "-ERR memcached: out of memory"),
            (&format!("NS\r\n{FULL}"), "EN\r\n", "-ERR memcached: out of memory"),
        ] {
            let translation = Translation {
                client: Form::Resp,
                version: Version::Resp2,
                back: Back::Memcached(Meaning::Appended),
                before: before.as_bytes().to_vec(),
            };
            let reply = String::from_utf8(translation.reply(last.as_bytes())).unwrap();
            assert!(reply.starts_with(expected), "{before:?} {last:?}: {reply}");
        }
    }
}
