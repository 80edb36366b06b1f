//! List commands: LPUSH and its relatives.

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{Elements, End, ListRef};

use super::multi::with_keys;
use crate::host::fiber::rest;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Ranges of LRANGE up to this many elements are read while writers wait; longer ones are read from a snapshot.
const SHORT_RANGE: usize = 512;

const NOT_POSITIVE: Failure = Failure::text("ERR value is out of range, must be positive");
const LEAST: Failure = Failure::text(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

pub(crate) fn lpush(c: &mut Context<'_>) -> Outcome {
    push(c, End::Front, false)
}

pub(crate) fn rpush(c: &mut Context<'_>) -> Outcome {
    push(c, End::Back, false)
}

pub(crate) fn lpushx(c: &mut Context<'_>) -> Outcome {
    push(c, End::Front, true)
}

pub(crate) fn rpushx(c: &mut Context<'_>) -> Outcome {
    push(c, End::Back, true)
}

fn push(c: &mut Context<'_>, end: End, must_exist: bool) -> Outcome {
    let key = c.key();
    let push = |elements: &[&[u8]]| c.store.list_push(key, end, elements, must_exist, c.now);
    let len = with_keys(c.args.tail(2), push)?;
    c.reply.count(len);
    Ok(())
}

pub(crate) fn lpop(c: &mut Context<'_>) -> Outcome {
    pop(c, End::Front, "lpop")
}

pub(crate) fn rpop(c: &mut Context<'_>) -> Outcome {
    pop(c, End::Back, "rpop")
}

fn pop(c: &mut Context<'_>, end: End, name: &'static str) -> Outcome {
    if c.args.len() > 3 {
        return Err(Failure::Arity(name.into()));
    }
    let count = match c.args.get(2) {
        Some(count) => Some(number_from(count, 0, NOT_POSITIVE)?),
        None => None,
    };
    let limits = (count.unwrap_or(1), c.reply_capacity(b""));
    let taken = c.store.list_pop(c.key(), end, limits, c.now)?;
    is_found(c, taken.is_some());
    match (taken, count) {
        (Some(taken), Some(_)) => reply_elements(c, &taken),
        (Some(taken), None) => c.reply.bulk(taken.first().unwrap_or_default()),
        (None, Some(_)) => c.reply.null_array(),
        (None, None) => c.reply.null(),
    }
    Ok(())
}

pub(super) fn reply_elements(c: &mut Context<'_>, elements: &Elements) {
    c.reply.array(elements.len());
    elements.iter().for_each(|element| c.reply.bulk(element));
}

/// Counts the lookup of the key.
fn is_found(c: &Context<'_>, found: bool) {
    if found { c.hit() } else { c.miss() }
}

pub(crate) fn llen(c: &mut Context<'_>) -> Outcome {
    let len = c.store.list(c.key(), c.now, |list| list.len())?;
    is_found(c, len.is_some());
    c.reply.count(len.unwrap_or(0));
    Ok(())
}

pub(crate) fn lindex(c: &mut Context<'_>) -> Outcome {
    // As in Redis, the index is checked only if the list exists.
    let found = c.store.list(c.key(), c.now, |list| {
        let index = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
        match list.position(index).and_then(|at| list.get(at)) {
            Some(element) => c.reply.bulk(element),
            None => c.reply.null(),
        }
        Ok::<(), Failure>(())
    })?;
    is_found(c, found.is_some());
    match found {
        Some(replied) => replied,
        None => {
            c.reply.null();
            Ok(())
        }
    }
}

pub(crate) fn lrange(c: &mut Context<'_>) -> Outcome {
    let (start, stop) = range(c)?;
    let (key, len_max) = (c.key(), c.reply_len_max);
    let reply = &mut c.reply;
    let mut show = |list: ListRef<'_>| {
        let range = list.range(start, stop);
        reply.array(range.len());
        // The walk over a packed list is an operation in flight in the store, so it must not `rest`.
        let is_long = !list.is_packed() && range.len() > SHORT_RANGE;
        for element in list.iter_from(range.start).take(range.len()) {
            if is_long {
                rest();
            }
            // A reply beyond the limit is refused below.
            if reply.written() > len_max {
                break;
            }
            reply.bulk(element);
        }
    };
    let found = c.store.list(key, c.now, |list| {
        let is_short = list.is_packed() || list.range(start, stop).len() <= SHORT_RANGE;
        if is_short {
            show(list);
        }
        is_short
    })?;
    let found = match found {
        Some(false) => c.store.list_walk(key, c.now, &mut show)?,
        found => found.map(|_| ()),
    };
    is_found(c, found.is_some());
    if found.is_none() {
        c.reply.array(0);
    }
    c.check_reply_len()
}

fn range(c: &Context<'_>) -> Result<(i64, i64), Failure> {
    let index = |i: usize| parse_i64(&c.args[i]).ok_or(Failure::NotAnInteger);
    Ok((index(2)?, index(3)?))
}

pub(crate) fn lset(c: &mut Context<'_>) -> Outcome {
    let set = match parse_i64(&c.args[2]) {
        Some(index) => c.store.list_set(&c.args[1], index, &c.args[3], c.now)?,
        // As in Redis, errors of the key precede a bad index.
        None => match c.store.list(c.key(), c.now, |_| ())? {
            Some(()) => return Err(Failure::NotAnInteger),
            None => None,
        },
    };
    match set {
        Some(true) => c.reply.ok(),
        Some(false) => return Err(Failure::text("ERR index out of range")),
        None => return Err(Failure::text("ERR no such key")),
    }
    Ok(())
}

pub(crate) fn linsert(c: &mut Context<'_>) -> Outcome {
    let is_before = match &c.args[2] {
        position if position.eq_ignore_ascii_case(b"before") => true,
        position if position.eq_ignore_ascii_case(b"after") => false,
        _ => return Err(Failure::Syntax),
    };
    let len = c.store.list_insert(&c.args[1], is_before, &c.args[3], &c.args[4], c.now)?;
    match len {
        Some(0) => c.reply.int(-1),
        len => c.reply.count(len.unwrap_or(0)),
    }
    Ok(())
}

pub(crate) fn lrem(c: &mut Context<'_>) -> Outcome {
    let count = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    let removed = c.store.list_remove(&c.args[1], count, &c.args[3], c.now)?;
    c.reply.count(removed);
    Ok(())
}

pub(crate) fn ltrim(c: &mut Context<'_>) -> Outcome {
    let (start, stop) = range(c)?;
    c.store.list_trim(&c.args[1], start, stop, c.now)?;
    c.reply.ok();
    Ok(())
}

/// Parses a number other than `i64::MIN`, which cannot be negated.
fn signed(text: &[u8]) -> Result<i64, Failure> {
    match parse_i64(text).ok_or(Failure::NotAnInteger)? {
        i64::MIN => Err(LEAST),
        number => Ok(number),
    }
}

fn number_from(text: &[u8], least: i64, failure: Failure) -> Result<usize, Failure> {
    match parse_i64(text) {
        Some(number) if number >= least => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        _ => Err(failure),
    }
}

/// The parsed options of LPOS.
struct Wanted {
    /// Number of the first match to return: counted from the front, or from the back if negative.
    rank: i64,
    /// Number of matches to return; 0 for all. None for one match, which is not returned as an array.
    count: Option<usize>,
    /// Most elements to compare; 0 for all.
    len_max: usize,
}

pub(crate) fn lpos(c: &mut Context<'_>) -> Outcome {
    let wanted = wanted(c.args.tail(3))?;
    let element = c.args.at(2);
    let found = c.store.list_walk(c.key(), c.now, |list| positions(list, element, &wanted))?;
    is_found(c, found.is_some());
    let found = found.unwrap_or_default();
    match wanted.count {
        Some(_) => {
            c.reply.array(found.len());
            found.iter().for_each(|position| c.reply.count(*position));
        }
        None => match found.first() {
            Some(position) => c.reply.count(*position),
            None => c.reply.null(),
        },
    }
    c.check_reply_len()
}

fn wanted(options: ArgsView<'_>) -> Result<Wanted, Failure> {
    let mut wanted = Wanted { rank: 1, count: None, len_max: 0 };
    for i in (0..options.len()).step_by(2) {
        let value = options.get(i + 1).ok_or(Failure::Syntax)?;
        match options.at(i).to_ascii_lowercase().as_slice() {
            b"rank" => {
                wanted.rank = signed(value)?;
                if wanted.rank == 0 {
                    return Err(Failure::text(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                         or use negative to start from the end of the list",
                    ));
                }
            }
            b"count" => {
                let failure = Failure::text("ERR COUNT can't be negative");
                wanted.count = Some(number_from(value, 0, failure)?);
            }
            b"maxlen" => {
                let failure = Failure::text("ERR MAXLEN can't be negative");
                wanted.len_max = number_from(value, 0, failure)?;
            }
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(wanted)
}

fn positions(list: ListRef<'_>, element: &[u8], wanted: &Wanted) -> Vec<usize> {
    let len = list.len();
    let all = |n: usize| if n == 0 { usize::MAX } else { n };
    let skipped = usize::try_from(wanted.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let most = all(wanted.count.unwrap_or(1));
    let is_it = |(i, other): (usize, &[u8])| (other == element).then_some(i);
    if wanted.rank > 0 {
        let elements = list.iter().take(all(wanted.len_max)).enumerate();
        return elements.filter_map(is_it).skip(skipped).take(most).collect();
    }
    let elements = list.iter_back_from(len).take(all(wanted.len_max)).enumerate();
    elements.filter_map(is_it).skip(skipped).take(most).map(|i| len - 1 - i).collect()
}

/// The end of a list that LEFT or RIGHT names.
pub(super) fn end(text: &[u8]) -> Result<End, Failure> {
    match text {
        text if text.eq_ignore_ascii_case(b"left") => Ok(End::Front),
        text if text.eq_ignore_ascii_case(b"right") => Ok(End::Back),
        _ => Err(Failure::Syntax),
    }
}

pub(crate) fn lmove(c: &mut Context<'_>) -> Outcome {
    let ends = (end(&c.args[3])?, end(&c.args[4])?);
    move_element(c, ends)
}

pub(crate) fn rpoplpush(c: &mut Context<'_>) -> Outcome {
    move_element(c, (End::Back, End::Front))
}

fn move_element(c: &mut Context<'_>, ends: (End, End)) -> Outcome {
    let moved = c.store.list_move(&c.args[1], &c.args[2], ends, c.now)?;
    is_found(c, moved.is_some());
    match moved.as_ref().and_then(Elements::first) {
        Some(element) => c.reply.bulk(element),
        None => c.reply.null(),
    }
    Ok(())
}

/// Parses `numkeys key [key ...] LEFT|RIGHT [COUNT count]` from `at` on, for LMPOP and BLMPOP.
pub(super) fn counted_pop(
    args: ArgsView<'_>,
    at: usize,
) -> Result<(ArgsView<'_>, End, usize), Failure> {
    let too_few = Failure::text("ERR numkeys should be greater than 0");
    let position = number_from(args.at(at), 1, too_few)?.saturating_add(at + 1);
    let end = end(args.get(position).ok_or(Failure::Syntax)?)?;
    let options = args.tail(position + 1);
    let count = match (options.len(), options.get(0)) {
        (0, _) => 1,
        (2, Some(option)) if option.eq_ignore_ascii_case(b"count") => {
            let failure = Failure::text("ERR count should be greater than 0");
            number_from(options.at(1), 1, failure)?
        }
        _ => return Err(Failure::Syntax),
    };
    Ok((args.slice(at + 1..position), end, count))
}

pub(crate) fn lmpop(c: &mut Context<'_>) -> Outcome {
    let (keys, end, count) = counted_pop(c.args, 1)?;
    let longest = keys.iter().max_by_key(|key| key.len()).unwrap_or_default();
    let limits = (count, c.reply_capacity(longest));
    let taken = with_keys(keys, |keys| c.store.list_pop_first(keys, end, limits, c.now))?;
    is_found(c, taken.is_some());
    match taken {
        Some((key, elements)) => {
            c.reply.array(2);
            c.reply.bulk(keys.at(key));
            reply_elements(c, &elements);
        }
        None => c.reply.null_array(),
    }
    Ok(())
}
