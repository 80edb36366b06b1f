//! Range commands of sorted sets: ZRANGE, ZCOUNT, ZREMRANGEBYRANK and their relatives.

use std::borrow::Cow;
use std::ops::Range;

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{Content, Interval};

use super::score::{begin_members, member_end, reply_member, score_end};
use super::{count, note_lookup};
use crate::host::fiber::rest;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// The unit in which a range's ends are given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// The parsed range of a request.
struct RangeRequest<'a> {
    interval: Interval<'a>,
    reversed: bool,
    with_scores: bool,
    offset: i64,
    /// Maximum number of members in the result; None for all.
    limit: Option<usize>,
}

/// The kind of range that a command's name implies.
#[derive(Clone, Copy)]
struct Form {
    /// None if options give the kind and the direction.
    by: Option<By>,
    reversed: bool,
    takes_scores: bool,
}

fn interval<'a>(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Interval<'a>, Failure> {
    let rank = |text| parse_i64(text).ok_or(Failure::NotAnInteger);
    Ok(match by {
        By::Rank => Interval::Ranks(rank(min)?, rank(max)?),
        By::Score => Interval::Scores(score_end(min)?, score_end(max)?),
        By::Member => Interval::Members(member_end(min)?, member_end(max)?),
    })
}

/// Parses a range; `args` begin with its two ends.
fn request(args: ArgsView<'_>, form: Form) -> Result<RangeRequest<'_>, Failure> {
    let Form { by, mut reversed, takes_scores } = form;
    let mut chosen = by;
    let (mut with_scores, mut offset, mut limit) = (false, 0, -1);
    let mut i = 2;
    while let Some(option) = args.get(i) {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        if takes_scores && is(b"withscores") {
            with_scores = true;
        } else if is(b"limit") && args.len() > i + 2 {
            offset = parse_i64(args.at(i + 1)).ok_or(Failure::NotAnInteger)?;
            limit = parse_i64(args.at(i + 2)).ok_or(Failure::NotAnInteger)?;
            i += 2;
        } else if by.is_none() && is(b"rev") {
            reversed = true;
        } else if by.is_none() && is(b"bylex") {
            chosen = Some(By::Member);
        } else if by.is_none() && is(b"byscore") {
            chosen = Some(By::Score);
        } else {
            return Err(Failure::Syntax);
        }
        i += 1;
    }
    let by = chosen.unwrap_or(By::Rank);
    if limit != -1 && by == By::Rank {
        return Err(Failure::text(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        ));
    }
    if with_scores && by == By::Member {
        return Err(Failure::text(
            "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
        ));
    }
    let swapped = reversed && by != By::Rank;
    let (min, max) = if swapped { (1, 0) } else { (0, 1) };
    let interval = interval(by, args.at(min), args.at(max))?;
    Ok(RangeRequest { interval, reversed, with_scores, offset, limit: usize::try_from(limit).ok() })
}

impl RangeRequest<'_> {
    /// The part of `ranks` that LIMIT selects.
    fn limited(&self, ranks: Range<usize>) -> Range<usize> {
        // For ranks, only a LIMIT without a count (-1) is accepted, and it has no effect.
        if matches!(self.interval, Interval::Ranks(..)) {
            return ranks;
        }
        // As in Redis, a negative offset yields no members.
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX).min(ranks.len());
        let left = (ranks.len() - skipped).min(self.limit.unwrap_or(usize::MAX));
        if self.reversed {
            let end = ranks.end - skipped;
            end - left..end
        } else {
            let start = ranks.start + skipped;
            start..start + left
        }
    }
}

fn range(c: &mut Context<'_>, form: Form) -> Outcome {
    let request = request(c.args.tail(2), form)?;
    let (version, len_max) = (c.reply.version(), c.reply_len_max);
    let RangeRequest { reversed, with_scores, .. } = request;
    let found = c.store.scored_walk(c.key(), c.now, |scored| {
        let ranks = request.limited(scored.ranks(&request.interval, reversed));
        begin_members(&mut c.reply, version, ranks.len(), with_scores);
        let is_long = !scored.is_packed();
        scored.each(ranks, reversed, |entry| {
            if is_long {
                rest();
            }
            if c.reply.written() <= len_max {
                reply_member(&mut c.reply, version, entry, with_scores);
            }
        });
    })?;
    note_lookup(c, found.is_some());
    if found.is_none() {
        c.reply.array(0);
    }
    c.check_reply_len()
}

pub(crate) fn zrange(c: &mut Context<'_>) -> Outcome {
    range(c, Form { by: None, reversed: false, takes_scores: true })
}

pub(crate) fn zrevrange(c: &mut Context<'_>) -> Outcome {
    range(c, Form { by: Some(By::Rank), reversed: true, takes_scores: true })
}

pub(crate) fn zrangebyscore(c: &mut Context<'_>) -> Outcome {
    range(c, Form { by: Some(By::Score), reversed: false, takes_scores: true })
}

pub(crate) fn zrevrangebyscore(c: &mut Context<'_>) -> Outcome {
    range(c, Form { by: Some(By::Score), reversed: true, takes_scores: true })
}

pub(crate) fn zrangebylex(c: &mut Context<'_>) -> Outcome {
    range(c, Form { by: Some(By::Member), reversed: false, takes_scores: true })
}

pub(crate) fn zrevrangebylex(c: &mut Context<'_>) -> Outcome {
    range(c, Form { by: Some(By::Member), reversed: true, takes_scores: true })
}

pub(crate) fn zrangestore(c: &mut Context<'_>) -> Outcome {
    let form = Form { by: None, reversed: false, takes_scores: false };
    let request = request(c.args.tail(3), form)?;
    let (to, from, now) = (c.args.at(1), c.args.at(2), c.now);
    let stored = c.store.exclusive(&[to, from], |store| {
        let (mut members, damages) = (Vec::new(), store.damages());
        store.scored_walk(from, now, |scored| {
            let ranks = request.limited(scored.ranks(&request.interval, request.reversed));
            scored.each(ranks, false, |entry| {
                members.push((Cow::Owned(entry.member.to_vec()), entry.score));
            });
        })?;
        if store.damages() != damages {
            // An empty result of a damaged set must not replace the value of `to`.
            return Ok(0);
        }
        let n = members.len();
        store.put_content(to, Content::Scored(members), None, true, now).map(|_| n)
    })?;
    c.reply.count(stored);
    Ok(())
}

pub(crate) fn zcount(c: &mut Context<'_>) -> Outcome {
    count_of(c, By::Score)
}

pub(crate) fn zlexcount(c: &mut Context<'_>) -> Outcome {
    count_of(c, By::Member)
}

fn count_of(c: &mut Context<'_>, by: By) -> Outcome {
    let interval = interval(by, c.args.at(2), c.args.at(3))?;
    count(c, |scored| scored.ranks(&interval, false).len())
}

pub(crate) fn zremrangebyrank(c: &mut Context<'_>) -> Outcome {
    remove(c, By::Rank)
}

pub(crate) fn zremrangebyscore(c: &mut Context<'_>) -> Outcome {
    remove(c, By::Score)
}

pub(crate) fn zremrangebylex(c: &mut Context<'_>) -> Outcome {
    remove(c, By::Member)
}

fn remove(c: &mut Context<'_>, by: By) -> Outcome {
    let interval = interval(by, c.args.at(2), c.args.at(3))?;
    let removed = c.store.scored_remove_interval(&c.args[1], &interval, c.now)?;
    c.reply.count(removed);
    Ok(())
}
