//! Several sorted sets at one moment: ZUNION, ZINTER, ZDIFF and their kin.

use std::borrow::Cow;
use std::collections::HashMap;

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{Content, OwnedScored, Scored, Session, StoreError};

use super::counted_keys;
use super::score::{begin_members, parse, reply_member};
use crate::state::context::Context;
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

/// What a request says behind its keys.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            // The sum of both infinities is 0, as in Redis.
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

/// Calls `f` with the members that a key brings in: those of a sorted set, or those of a set with the score 1.
fn input(
    store: &mut Session,
    key: &[u8],
    now: u64,
    f: &mut dyn FnMut(Scored<'_>),
) -> Result<(), StoreError> {
    match store.scored_walk(key, now, |scored| scored.each_of_all(&mut *f)) {
        Err(StoreError::WrongType) => store.set_walk(key, now, |set| {
            let one =
                |member: &[u8], f: &mut dyn FnMut(Scored<'_>)| f(Scored { score: 1.0, member });
            set.iter().for_each(|member| member.with_bytes(|member| one(member, f)));
        }),
        found => found,
    }
    .map(|_| ())
}

/// All inputs, which have one moment.
fn inputs(
    store: &mut Session,
    keys: &[&[u8]],
    now: u64,
) -> Result<Vec<Vec<OwnedScored>>, StoreError> {
    let read = |key: &&[u8]| {
        let mut members = Vec::new();
        input(store, key, now, &mut |entry| members.push((entry.member.to_vec(), entry.score)))?;
        Ok(members)
    };
    keys.iter().map(read).collect()
}

/// The result in order.
fn combined(
    operation: Operation,
    inputs: Vec<Vec<OwnedScored>>,
    options: &Options,
) -> Vec<OwnedScored> {
    let mut inputs = inputs.into_iter().zip(&options.weights);
    let weighed = |(members, weight): (Vec<OwnedScored>, &f64)| {
        let weight = *weight;
        members.into_iter().map(move |(member, score)| (member, number(score * weight)))
    };
    let mut result: HashMap<Vec<u8>, f64> =
        inputs.next().map(weighed).into_iter().flatten().collect();
    for other in inputs {
        match operation {
            Operation::Union => {
                for (member, score) in weighed(other) {
                    result
                        .entry(member)
                        .and_modify(|old| *old = options.aggregate.of(*old, score))
                        .or_insert(score);
                }
            }
            Operation::Inter => {
                let both = weighed(other).filter_map(|(member, score)| {
                    let old = *result.get(&member)?;
                    Some((member, options.aggregate.of(old, score)))
                });
                result = both.collect();
            }
            Operation::Diff => other.0.iter().for_each(|(member, _)| _ = result.remove(member)),
        }
    }
    let mut members: Vec<_> = result.into_iter().collect();
    members.sort_by(|(a, x), (b, y)| x.partial_cmp(y).expect("no score is NaN").then(a.cmp(b)));
    members
}

fn too_few(name: &str) -> Failure {
    Failure::from(format!("ERR at least 1 input key is needed for '{name}' command"))
}

/// The keys behind their number, and what is behind them.
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
    let now = c.now;
    let inputs = c.store.exclusive(&keys, |store| inputs(store, &keys, now))?;
    let options = options?;
    let members = combined(operation, inputs, &options);
    let version = c.reply.version();
    begin_members(&mut c.reply, version, members.len(), options.with_scores);
    for (member, score) in &members {
        let entry = Scored { score: *score, member };
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
        let inputs = inputs(store, &keys, now)?;
        let members = combined(operation, inputs, &options?);
        let n = members.len();
        let members = members.into_iter().map(|(member, score)| (Cow::Owned(member), score));
        let content = Content::Scored(members.collect());
        store.put_content(to, content, None, true, now)?;
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
    let now = c.now;
    let inputs = c.store.exclusive(&keys, |store| inputs(store, &keys, now))?;
    let limit = limit?;
    let options = options(ArgsView::default(), keys.len(), Operation::Inter, false)?;
    let n = combined(Operation::Inter, inputs, &options).len();
    c.reply.count(if limit == 0 { n } else { n.min(limit) });
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
