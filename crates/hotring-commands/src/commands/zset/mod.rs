//! Sorted set commands: ZADD and its relatives.

mod algebra;
mod range;
mod score;

use hotring_protocol::{ArgsView, Version, glob_match, parse_i64};
use hotring_store::{
    AddOptions, NumberKind, OwnedScored, ReplyCapacity, Scored, ScoredRef, StoreError,
};

use super::multi::with_keys;
use super::random::Chosen;
use super::scan;
use crate::host::fiber::rest;
use crate::state::context::{Context, bulk_len};
use crate::state::failure::{Failure, Outcome};
pub(crate) use algebra::*;
pub(crate) use range::*;
pub(super) use score::parse as parse_score;
use score::{LEN_MAX as SCORE_LEN_MAX, Text, begin_members, parse, reply_member, reply_score};

pub(super) const NOT_A_FLOAT: Failure = Failure::text("ERR value is not a valid float");

/// The options of ZADD.
#[derive(Default)]
struct ZAdd {
    options: AddOptions,
    /// Count members with a changed score, too (CH).
    counts_moved: bool,
    /// Add to the score instead of setting it (INCR).
    adds: bool,
}

impl ZAdd {
    /// Reads the options. Returns them and the index of the first score.
    fn read(args: ArgsView<'_>) -> (ZAdd, usize) {
        let (mut zadd, mut at) = (ZAdd::default(), 2);
        while let Some(option) = args.get(at) {
            match option.to_ascii_lowercase().as_slice() {
                b"nx" => zadd.options.if_absent = true,
                b"xx" => zadd.options.if_present = true,
                b"gt" => zadd.options.if_greater = true,
                b"lt" => zadd.options.if_less = true,
                b"ch" => zadd.counts_moved = true,
                b"incr" => zadd.adds = true,
                _ => break,
            }
            at += 1;
        }
        (zadd, at)
    }

    fn check(&self, n_args: usize) -> Outcome {
        let AddOptions { if_absent, if_present, if_greater, if_less } = self.options;
        Err(if n_args == 0 || !n_args.is_multiple_of(2) {
            Failure::Syntax
        } else if if_absent && if_present {
            Failure::text("ERR XX and NX options at the same time are not compatible")
        } else if (if_absent && (if_greater || if_less)) || (if_greater && if_less) {
            Failure::text("ERR GT, LT, and/or NX options at the same time are not compatible")
        } else if self.adds && n_args > 2 {
            Failure::text("ERR INCR option supports a single increment-element pair")
        } else {
            return Ok(());
        })
    }
}

pub(crate) fn zadd(c: &mut Context<'_>) -> Outcome {
    let (zadd, at) = ZAdd::read(c.args);
    let pairs = c.args.tail(at);
    zadd.check(pairs.len())?;
    if zadd.adds {
        return add_to_score(c, pairs.at(0), pairs.at(1), zadd.options);
    }
    let key = c.key();
    let added = with_scores(pairs, |pairs| c.store.scored_add(key, pairs, zadd.options, c.now))??;
    c.reply.count(added.added + if zadd.counts_moved { added.moved } else { 0 });
    Ok(())
}

/// Calls `f` with the parsed pairs of score and member.
fn with_scores<'a, R>(
    pairs: ArgsView<'a>,
    f: impl FnOnce(&[(f64, &'a [u8])]) -> R,
) -> Result<R, Failure> {
    let pair = |i| Ok::<_, Failure>((parse(pairs.at(i)).ok_or(NOT_A_FLOAT)?, pairs.at(i + 1)));
    if pairs.len() == 2 {
        return Ok(f(&[pair(0)?]));
    }
    let pairs: Result<Vec<_>, _> = (0..pairs.len()).step_by(2).map(pair).collect();
    Ok(f(&pairs?))
}

pub(crate) fn zincrby(c: &mut Context<'_>) -> Outcome {
    add_to_score(c, c.args.at(2), c.args.at(3), AddOptions::default())
}

fn add_to_score(c: &mut Context<'_>, delta: &[u8], member: &[u8], options: AddOptions) -> Outcome {
    let delta = parse(delta).ok_or(NOT_A_FLOAT)?;
    let sum = c.store.scored_incr(c.key(), delta, member, options, c.now);
    let sum = sum.map_err(|error| match error {
        StoreError::Overflow(NumberKind::Decimal) => {
            Failure::text("ERR resulting score is not a number (NaN)")
        }
        error => error.into(),
    })?;
    match sum {
        Some(sum) => reply_score(&mut c.reply, sum),
        None => c.reply.null(),
    }
    Ok(())
}

pub(crate) fn zrem(c: &mut Context<'_>) -> Outcome {
    let remove = |members: &[&[u8]]| c.store.scored_remove(&c.args[1], members, c.now);
    let removed = with_keys(c.args.tail(2), remove)?;
    c.reply.count(removed);
    Ok(())
}

/// Counts the lookup of the key.
pub(super) fn note_lookup(c: &Context<'_>, is_found: bool) {
    if is_found { c.hit() } else { c.miss() }
}

/// Replies with a number computed from the sorted set; 0 if the key is missing.
fn count(c: &mut Context<'_>, number: impl FnOnce(ScoredRef<'_>) -> usize) -> Outcome {
    let found = c.store.scored(c.key(), c.now, number)?;
    note_lookup(c, found.is_some());
    c.reply.count(found.unwrap_or(0));
    Ok(())
}

pub(crate) fn zcard(c: &mut Context<'_>) -> Outcome {
    count(c, |scored| scored.len())
}

pub(crate) fn zscore(c: &mut Context<'_>) -> Outcome {
    let found = c.store.scored(c.key(), c.now, |scored| scored.score(&c.args[2]))?;
    note_lookup(c, found.is_some());
    match found.flatten() {
        Some(score) => reply_score(&mut c.reply, score),
        None => c.reply.null(),
    }
    Ok(())
}

pub(crate) fn zmscore(c: &mut Context<'_>) -> Outcome {
    let members = c.args.tail(2);
    let scores: Vec<Option<f64>> = {
        let found = c.store.scored(c.key(), c.now, |scored| {
            members.iter().map(|member| scored.score(member)).collect()
        })?;
        note_lookup(c, found.is_some());
        found.unwrap_or_else(|| vec![None; members.len()])
    };
    c.reply.array(scores.len());
    for score in scores {
        match score {
            Some(score) => reply_score(&mut c.reply, score),
            None => c.reply.null(),
        }
    }
    c.check_reply_len()
}

pub(crate) fn zrank(c: &mut Context<'_>) -> Outcome {
    rank(c, false)
}

pub(crate) fn zrevrank(c: &mut Context<'_>) -> Outcome {
    rank(c, true)
}

fn rank(c: &mut Context<'_>, reversed: bool) -> Outcome {
    let with_score = match c.args.get(3) {
        None => false,
        Some(option) if c.args.len() == 4 && option.eq_ignore_ascii_case(b"withscore") => true,
        Some(_) => return Err(Failure::Syntax),
    };
    let found = c.store.scored(c.key(), c.now, |scored| {
        let (rank, score) = scored.rank(&c.args[2])?;
        Some((if reversed { scored.len() - 1 - rank } else { rank }, score))
    })?;
    note_lookup(c, found.is_some());
    match found.flatten() {
        Some((rank, score)) if with_score => {
            c.reply.array(2);
            c.reply.count(rank);
            reply_score(&mut c.reply, score);
        }
        Some((rank, _)) => c.reply.count(rank),
        None if with_score => c.reply.null_array(),
        None => c.reply.null(),
    }
    Ok(())
}

pub(crate) fn zpopmin(c: &mut Context<'_>) -> Outcome {
    pop(c, false)
}

pub(crate) fn zpopmax(c: &mut Context<'_>) -> Outcome {
    pop(c, true)
}

fn pop(c: &mut Context<'_>, is_max: bool) -> Outcome {
    let n = match (c.args.get(2), c.args.len()) {
        (_, 4..) => return Err(Failure::Syntax),
        (None, _) => 1,
        (Some(n), _) => parse_i64(n)
            .and_then(|n| usize::try_from(n).ok())
            .ok_or(Failure::text("ERR value is out of range, must be positive"))?,
    };
    let popped = c.store.scored_pop(&c.args[1], (n, reply_capacity(c, b"")), is_max, c.now)?;
    let version = if c.args.len() == 3 { c.reply.version() } else { Version::Resp2 };
    reply_members(c, version, &popped);
    Ok(())
}

/// The remaining capacity of a reply that holds `key`, for members with their scores.
pub(super) fn reply_capacity(c: &Context<'_>, key: &[u8]) -> ReplyCapacity {
    ReplyCapacity { cost: |member| bulk_len(member) + SCORE_LEN_MAX, ..c.reply_capacity(key) }
}

pub(super) fn reply_members(c: &mut Context<'_>, version: Version, members: &[OwnedScored]) {
    begin_members(&mut c.reply, version, members.len(), true);
    for (member, score) in members {
        reply_member(&mut c.reply, version, Scored { score: *score, member }, true);
    }
}

/// Parses `numkeys key [key ...]`, with at least one key. Returns the keys and the remaining arguments.
fn counted_keys(
    args: ArgsView<'_>,
    at: usize,
    too_few: Failure,
) -> Result<(Vec<&[u8]>, ArgsView<'_>), Failure> {
    let n = parse_i64(args.at(at)).and_then(|n| usize::try_from(n).ok());
    let n = n.filter(|n| *n > 0).ok_or(too_few)?;
    if n > args.len() - at - 1 {
        return Err(Failure::Syntax);
    }
    let end = at + 1 + n;
    Ok((args.slice(at + 1..end).iter().collect(), args.tail(end)))
}

pub(crate) fn zmpop(c: &mut Context<'_>) -> Outcome {
    let (keys, is_max, n) = counted_pop(c.args, 1)?;
    let longest = keys.iter().max_by_key(|key| key.len()).copied().unwrap_or_default();
    let (now, limits) = (c.now, (n, reply_capacity(c, longest)));
    let popped = c.store.exclusive(&keys, |store| {
        for key in &keys {
            let popped = store.scored_pop(key, limits, is_max, now)?;
            if !popped.is_empty() {
                return Ok(Some((*key, popped)));
            }
        }
        Ok::<_, StoreError>(None)
    })?;
    let Some((key, popped)) = popped else {
        c.reply.null_array();
        return Ok(());
    };
    c.reply.array(2);
    c.reply.bulk(key);
    // In RESP2, too, each pair is an array of its own.
    reply_members(c, Version::Resp3, &popped);
    Ok(())
}

/// Parses `numkeys key [key ...] MIN|MAX [COUNT count]` from `at` on, for ZMPOP and BZMPOP. Returns the keys, whether
/// to pop the highest scores, and the count.
pub(super) fn counted_pop(
    args: ArgsView<'_>,
    at: usize,
) -> Result<(Vec<&[u8]>, bool, usize), Failure> {
    let too_few = Failure::text("ERR numkeys should be greater than 0");
    let (keys, options) = counted_keys(args, at, too_few)?;
    let (is_max, n) = mpop_options(options)?;
    Ok((keys, is_max, n))
}

fn mpop_options(options: ArgsView<'_>) -> Result<(bool, usize), Failure> {
    let is_max = match options.get(0) {
        Some(end) if end.eq_ignore_ascii_case(b"max") => true,
        Some(end) if end.eq_ignore_ascii_case(b"min") => false,
        _ => return Err(Failure::Syntax),
    };
    match (options.get(1), options.get(2), options.len()) {
        (None, ..) => Ok((is_max, 1)),
        (Some(count), Some(n), 3) if count.eq_ignore_ascii_case(b"count") => {
            let n = parse_i64(n).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
            Ok((is_max, n.ok_or(Failure::text("ERR count should be greater than 0"))?))
        }
        _ => Err(Failure::Syntax),
    }
}

pub(crate) fn zrandmember(c: &mut Context<'_>) -> Outcome {
    let (chosen, with_scores) = Chosen::read(c.args, b"withscores")?;
    let (version, len_max, left) = (c.reply.version(), c.reply_len_max, c.reply_left());
    let found = c.store.scored_walk(c.key(), c.now, |scored| {
        let (random, len) = (&mut c.locals.random, scored.count());
        let ranks = chosen.ranks(len, random, left)?;
        if !matches!(chosen, Chosen::One) {
            begin_members(&mut c.reply, version, ranks.len(), with_scores);
        }
        let is_long = !scored.is_packed();
        for rank in ranks {
            if is_long {
                rest();
            }
            scored.each(rank..rank + 1, false, |entry| {
                reply_member(&mut c.reply, version, entry, with_scores);
            });
            if c.reply.written() > len_max {
                break;
            }
        }
        Ok::<_, Failure>(())
    })?;
    let found = found.transpose()?;
    note_lookup(c, found.is_some());
    match (found, chosen) {
        (Some(()), _) => {}
        (None, Chosen::One) => c.reply.null(),
        (None, _) => c.reply.array(0),
    }
    c.check_reply_len()
}

/// Number of members that ZSCAN visits in a large set without COUNT.
const COUNT_DEFAULT: usize = 10;
/// Most members that one ZSCAN visits in a large set, whatever its COUNT.
const COUNT_MAX: usize = 1 << 16;

/// Shows all members of a packed set in one call, as Redis does. A large set takes several calls.
pub(crate) fn zscan(c: &mut Context<'_>) -> Outcome {
    let cursor = scan::cursor(&c.args[2])?;
    let options = scan_options(c.args.tail(3));
    let mut found: Vec<OwnedScored> = Vec::new();
    let next = c.store.scored(c.key(), c.now, |scored| {
        let (pattern, count) = options?;
        Ok::<u64, Failure>(scored.scan(cursor, count, |entry| {
            if pattern.is_none_or(|pattern| glob_match(pattern, entry.member)) {
                found.push((entry.member.to_vec(), entry.score));
            }
        }))
    })?;
    // As in Redis, the options are not checked if the key is missing.
    let next = next.transpose()?;
    note_lookup(c, next.is_some());
    c.reply.array(2);
    c.reply.bulk(next.unwrap_or(0).to_string().as_bytes());
    c.reply.array(2 * found.len());
    for (member, score) in &found {
        c.reply.bulk(member);
        c.reply.bulk(Text::of(*score).as_bytes());
    }
    c.check_reply_len()
}

fn scan_options(options: ArgsView<'_>) -> Result<(Option<&[u8]>, usize), Failure> {
    let (mut pattern, mut count) = (None, COUNT_DEFAULT);
    for i in (0..options.len()).step_by(2) {
        let value = options.get(i + 1).ok_or(Failure::Syntax)?;
        match options.at(i).to_ascii_lowercase().as_slice() {
            b"match" => pattern = Some(value),
            b"count" => match parse_i64(value).ok_or(Failure::NotAnInteger)? {
                n if n < 1 => return Err(Failure::Syntax),
                n => count = usize::try_from(n).unwrap_or(COUNT_MAX).min(COUNT_MAX),
            },
            _ => return Err(Failure::Syntax),
        }
    }
    Ok((pattern, count))
}
