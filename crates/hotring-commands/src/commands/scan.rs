//! Iteration over all keys: SCAN, KEYS.

use hotring_protocol::{ArgsView, Writer, glob_match, parse_i64};
use hotring_store::{Session, ValueRef};

use super::key::type_name;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Number of keys that SCAN visits without COUNT.
const COUNT_DEFAULT: usize = 10;
/// Most keys that one SCAN visits, whatever its COUNT: the connection's thread is busy meanwhile (some 100 ms). COUNT
/// is only a hint, so clients continue with the cursor.
const COUNT_MAX: usize = 1 << 20;
/// A SCAN ends early once its reply exceeds this many bytes, whatever its COUNT.
const SCAN_REPLY_MAX: usize = 1 << 20;
/// Most keys copied out of the store at a time.
const STEP_KEYS: usize = 256;

/// Number of low bits of a store position that are always 0: a position is a hash of 48 bits, reversed.
const POSITION_ZEROS: u32 = 16;

/// Replies with one page of a walk over a container, and the cursor of the next page.
pub(super) fn reply_page(c: &mut Context<'_>, next: u64, found: &[Vec<u8>]) -> Outcome {
    c.reply.array(2);
    c.reply.bulk(next.to_string().as_bytes());
    c.reply.array(found.len());
    found.iter().for_each(|part| c.reply.bulk(part));
    c.check_reply_len()
}

struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    /// Only keys whose values have this type.
    value_type: Option<&'a [u8]>,
}

/// A copy of the keys of one step. The store's memory cannot be reclaimed during a walk, so the walk only copies, and
/// patterns are matched afterwards.
#[derive(Default)]
struct Step {
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`.
    ends: Vec<usize>,
}

impl Step {
    /// Visits about `count` keys from `cursor` on, and copies those whose values have the `value_type`, if there is
    /// one. Returns the next cursor, 0 at the end.
    fn take(
        &mut self,
        store: &mut Session,
        cursor: u64,
        count: usize,
        value_type: Option<&[u8]>,
        now: u64,
    ) -> u64 {
        self.bytes.clear();
        self.ends.clear();
        let is_asked_for = |value: ValueRef<'_>| {
            value_type.is_none_or(|name| name.eq_ignore_ascii_case(type_name(value).as_bytes()))
        };
        let grounds = store.grounds();
        let is_hidden = |key: &[u8]| grounds.as_ref().is_some_and(|grounds| grounds.hides(key));
        let next = store.scan(cursor, count, now, |key, value| {
            if is_asked_for(value) && !is_hidden(key) {
                self.bytes.extend_from_slice(key);
                self.ends.push(self.bytes.len());
            }
        });
        // A damaged item's key is listed, so that an operator can find it. The reply shows no value, so the damage is
        // no error here.
        store.take_damage();
        next
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    /// Writes the keys that match the pattern; returns their number.
    fn reply(&self, pattern: Option<&[u8]>, reply: &mut Writer<'_>) -> usize {
        let fitting = |key: &&[u8]| pattern.is_none_or(|pattern| glob_match(pattern, key));
        self.keys().filter(fitting).map(|key| reply.bulk(key)).count()
    }
}

pub(crate) fn scan(c: &mut Context<'_>) -> Outcome {
    // Clients parse a cursor as a signed number or a double, which a raw position would exceed.
    let mut cursor = cursor(&c.args[1])?.rotate_left(POSITION_ZEROS);
    let options = options(c.args.tail(2))?;
    let (store, now) = (&mut c.store, c.now);
    let written_max = c.reply.written().saturating_add(SCAN_REPLY_MAX);
    c.reply.body_first(
        |reply| {
            let (mut step, mut left, mut n_keys) = (Step::default(), options.count, 0);
            loop {
                let count = left.min(STEP_KEYS);
                cursor = step.take(store, cursor, count, options.value_type, now);
                left -= count;
                n_keys += step.reply(options.pattern, reply);
                if cursor == 0 || left == 0 || reply.written() > written_max {
                    return (cursor, n_keys);
                }
            }
        },
        |reply, (next, n_keys)| {
            reply.array(2);
            reply.bulk_fmt(format_args!("{}", next.rotate_right(POSITION_ZEROS)));
            reply.array(n_keys);
        },
    );
    Ok(())
}

/// Parses a cursor, an unsigned number of 64 bits. As in Redis, an empty text is the start.
pub(super) fn cursor(text: &[u8]) -> Result<u64, Failure> {
    if text.is_empty() {
        return Ok(0);
    }
    let digits = text.iter().all(u8::is_ascii_digit).then_some(text);
    digits
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .ok_or(Failure::text("ERR invalid cursor"))
}

fn options(args: ArgsView<'_>) -> Result<Options<'_>, Failure> {
    let mut options = Options { pattern: None, count: COUNT_DEFAULT, value_type: None };
    for i in (0..args.len()).step_by(2) {
        let value = args.get(i + 1).ok_or(Failure::Syntax)?;
        match args.at(i).to_ascii_lowercase().as_slice() {
            b"match" => options.pattern = Some(value),
            b"count" => {
                let count = parse_i64(value).ok_or(Failure::NotAnInteger)?;
                if count < 1 {
                    return Err(Failure::Syntax);
                }
                options.count = usize::try_from(count).map_or(COUNT_MAX, |n| n.min(COUNT_MAX));
            }
            b"type" => options.value_type = Some(value),
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(options)
}

pub(crate) fn keys(c: &mut Context<'_>) -> Outcome {
    let (store, now, pattern) = (&mut c.store, c.now, c.args.at(1));
    let reply_len_max = c.reply_len_max;
    c.reply.body_first(
        |reply| {
            let (mut step, mut cursor, mut n_keys) = (Step::default(), 0, 0);
            loop {
                cursor = step.take(store, cursor, STEP_KEYS, None, now);
                n_keys += step.reply(Some(pattern), reply);
                if cursor == 0 || reply.written() > reply_len_max {
                    return n_keys;
                }
            }
        },
        |reply, n_keys| reply.array(n_keys),
    );
    c.check_reply_len()
}
