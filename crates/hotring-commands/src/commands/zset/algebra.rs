//! Atomic operations on several sorted sets: ZUNION, ZINTER, ZDIFF and their relatives.

use std::borrow::Cow;

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{Content, ScoreLookup, Scored, ScoredInput};

use super::counted_keys;
use super::score::{begin_members, parse, reply_member};
use crate::host::fiber;
use crate::state::context::{Context, bulk_len};
use crate::state::failure::{Failure, Outcome};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

#[derive(Clone, Copy, Default)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

/// The options after the keys.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            // As in Redis, the sum of positive and negative infinity is 0.
            Aggregate::Sum => number(a + b),
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

fn options(
    args: ArgsView<'_>,
    n_keys: usize,
    operation: Operation,
    takes_scores: bool,
) -> Result<Options, Failure> {
    let mut options =
        Options { weights: vec![1.0; n_keys], aggregate: Aggregate::Sum, with_scores: false };
    let mut i = 0;
    while let Some(option) = args.get(i) {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        let left = args.len() - i;
        if operation != Operation::Diff && is(b"weights") && left > n_keys {
            for (k, weight) in options.weights.iter_mut().enumerate() {
                let text = args.at(i + 1 + k);
                *weight = parse(text).ok_or(Failure::text("ERR weight value is not a float"))?;
            }
            i += n_keys + 1;
        } else if operation != Operation::Diff && is(b"aggregate") && left > 1 {
            options.aggregate = match args.at(i + 1).to_ascii_lowercase().as_slice() {
                b"sum" => Aggregate::Sum,
                b"min" => Aggregate::Min,
                b"max" => Aggregate::Max,
                _ => return Err(Failure::Syntax),
            };
            i += 2;
        } else if takes_scores && is(b"withscores") {
            options.with_scores = true;
            i += 1;
        } else {
            return Err(Failure::Syntax);
        }
    }
    Ok(options)
}

/// Calls `f` with each member of the result and its score, until `f` returns false. As in Redis, the smallest input
/// comes first; only a difference keeps the order of its inputs.
fn each(
    operation: Operation,
    inputs: &[ScoredInput],
    options: &Options,
    mut f: impl FnMut(&[u8], f64) -> bool,
) {
    let mut order: Vec<_> = inputs.iter().zip(options.weights.iter().copied()).collect();
    if operation != Operation::Diff {
        order.sort_by_key(|(input, _)| input.len());
    }
    let needs_all = operation != Operation::Union;
    if needs_all && order.first().is_none_or(|(first, _)| first.is_empty()) {
        return;
    }
    let asked: Vec<_> = order.iter().map(|(input, weight)| (input.asked(), *weight)).collect();
    for (i, (input, weight)) in order.iter().enumerate() {
        let (before, behind) = (&asked[..i], &asked[i + 1..]);
        let goes_on = input.each(|Scored { score, member }| {
            fiber::rest();
            if before.iter().any(|(before, _)| before.score(member).is_some()) {
                return true;
            }
            let score = number(score * weight);
            match aggregated(operation, options.aggregate, (member, score), behind) {
                Some(score) => f(member, score),
                None => true,
            }
        });
        if !goes_on || operation != Operation::Union {
            return;
        }
    }
}

/// The score of a member of an input in the result; None if the result does not contain the member. `behind` are the
/// later inputs.
fn aggregated(
    operation: Operation,
    aggregate: Aggregate,
    (member, score): (&[u8], f64),
    behind: &[(ScoreLookup<'_>, f64)],
) -> Option<f64> {
    let mut score = score;
    for (other, weight) in behind {
        match (operation, other.score(member)) {
            (Operation::Diff, None) | (Operation::Union, None) => {}
            (Operation::Diff, Some(_)) | (Operation::Inter, None) => return None,
            (_, Some(found)) => score = aggregate.of(score, number(found * weight)),
        }
    }
    Some(score)
}

/// The members of a result, in one buffer.
#[derive(Default)]
struct Members {
    bytes: Vec<u8>,
    /// The end of each member in `bytes`, and its score.
    ends: Vec<(usize, f64)>,
}

impl Members {
    fn push(&mut self, member: &[u8], score: f64) {
        self.bytes.extend_from_slice(member);
        self.ends.push((self.bytes.len(), score));
    }

    /// All members, unordered.
    fn iter(&self) -> impl Iterator<Item = Scored<'_>> {
        let mut start = 0;
        self.ends.iter().map(move |(end, score)| {
            let member = &self.bytes[start..*end];
            start = *end;
            Scored { score: *score, member }
        })
    }

    fn in_order(&self) -> Vec<Scored<'_>> {
        let mut members: Vec<_> = self.iter().collect();
        members.sort_by(|a, b| {
            fiber::rest();
            let scores = a.score.partial_cmp(&b.score).expect("no score is NaN");
            scores.then(a.member.cmp(b.member))
        });
        members
    }
}

fn too_few(name: &str) -> Failure {
    Failure::from(format!("ERR at least 1 input key is needed for '{name}' command"))
}

/// Parses `numkeys key [key ...]` from `at` on. Returns the keys and the remaining arguments.
fn keys_of<'a>(
    args: ArgsView<'a>,
    at: usize,
    name: &str,
) -> Result<(Vec<&'a [u8]>, ArgsView<'a>), Failure> {
    if parse_i64(args.at(at)).is_none() {
        return Err(Failure::NotAnInteger);
    }
    counted_keys(args, at, too_few(name))
}

fn show(c: &mut Context<'_>, operation: Operation, name: &str) -> Outcome {
    let (keys, rest) = keys_of(c.args, 1, name)?;
    let options = options(rest, keys.len(), operation, true);
    let inputs = c.store.scored_inputs(&keys, c.now)?;
    let options = options?;
    let (mut members, mut left) = (Members::default(), Some(c.reply_left()));
    each(operation, &inputs, &options, |member, score| {
        // Stop collecting once the result is too long for the reply.
        left = left.and_then(|left| left.checked_sub(bulk_len(member)));
        members.push(member, score);
        left.is_some()
    });
    if left.is_none() {
        return Err(Failure::ReplyTooLong);
    }
    let version = c.reply.version();
    begin_members(&mut c.reply, version, members.ends.len(), options.with_scores);
    for entry in members.in_order() {
        fiber::rest();
        reply_member(&mut c.reply, version, entry, options.with_scores);
    }
    c.check_reply_len()
}

fn store(c: &mut Context<'_>, operation: Operation, name: &str) -> Outcome {
    let (keys, rest) = keys_of(c.args, 2, name)?;
    let options = options(rest, keys.len(), operation, false);
    let (to, now) = (c.args.at(1), c.now);
    let mut held = keys.clone();
    held.push(to);
    let stored = c.store.exclusive(&held, |store| {
        let damages = store.damages();
        let inputs = store.scored_inputs(&keys, now)?;
        if store.damages() != damages {
            // A result that lacks a damaged set must not replace the value of `to`.
            return Ok(0);
        }
        let mut members = Members::default();
        each(operation, &inputs, &options?, |member, score| {
            members.push(member, score);
            true
        });
        // The memory must be admitted before the members are converted.
        store.admit_bytes(members.bytes.len())?;
        let scored = members.iter().map(|entry| (Cow::Borrowed(entry.member), entry.score));
        let n = members.ends.len();
        store.put_content(to, Content::Scored(scored.collect()), None, true, now)?;
        Ok::<_, Failure>(n)
    })?;
    c.reply.count(stored);
    Ok(())
}

pub(crate) fn zunion(c: &mut Context<'_>) -> Outcome {
    show(c, Operation::Union, "zunion")
}

pub(crate) fn zinter(c: &mut Context<'_>) -> Outcome {
    show(c, Operation::Inter, "zinter")
}

pub(crate) fn zdiff(c: &mut Context<'_>) -> Outcome {
    show(c, Operation::Diff, "zdiff")
}

pub(crate) fn zunionstore(c: &mut Context<'_>) -> Outcome {
    store(c, Operation::Union, "zunionstore")
}

pub(crate) fn zinterstore(c: &mut Context<'_>) -> Outcome {
    store(c, Operation::Inter, "zinterstore")
}

pub(crate) fn zdiffstore(c: &mut Context<'_>) -> Outcome {
    store(c, Operation::Diff, "zdiffstore")
}

pub(crate) fn zintercard(c: &mut Context<'_>) -> Outcome {
    let (keys, rest) = keys_of(c.args, 1, "zintercard")?;
    let limit = limit(rest);
    let inputs = c.store.scored_inputs(&keys, c.now)?;
    let limit = limit?;
    let options = options(ArgsView::default(), keys.len(), Operation::Inter, false)?;
    let mut n = 0;
    each(Operation::Inter, &inputs, &options, |_, _| {
        n += 1;
        n != limit
    });
    c.reply.count(n);
    Ok(())
}

fn limit(args: ArgsView<'_>) -> Result<usize, Failure> {
    let mut limit = 0;
    for i in (0..args.len()).step_by(2) {
        let n = args.get(i + 1).filter(|_| args.at(i).eq_ignore_ascii_case(b"limit"));
        let n = parse_i64(n.ok_or(Failure::Syntax)?).and_then(|n| usize::try_from(n).ok());
        limit = n.ok_or(Failure::text("ERR LIMIT can't be negative"))?;
    }
    Ok(limit)
}
