//! Changes of packed lists.

use super::change::{Change, LEN_MAX, Tally, tally};
use crate::container::packed::{Head, push, split};

/// The elements from a position on.
pub(super) fn from(held: &[u8], from: usize) -> impl Iterator<Item = &[u8]> {
    let (_, mut rest) = Head::split(held);
    for _ in 0..from {
        match split(rest) {
            Some((_, tail)) => rest = tail,
            None => break,
        }
    }
    std::iter::from_fn(move || {
        let (element, tail) = split(rest)?;
        rest = tail;
        Some(element)
    })
}

/// Splits the bytes of the first `n` elements from the rest.
fn split_at(entries: &[u8], n: usize) -> (&[u8], &[u8]) {
    let mut rest = entries;
    for _ in 0..n {
        let Some((_, tail)) = split(rest) else { break };
        rest = tail;
    }
    entries.split_at(entries.len() - rest.len())
}

/// The packed form after these changes in their order; None if no element is left.
pub(super) fn changed(held: &[u8], changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
    let (head, entries) = Head::split(held);
    let number = head.number + 1;
    let mut tally = Tally { len: head.count, done: 0 };
    let mut after: Option<Vec<u8>> = None;
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let (run, tail) = rest.split_at(run_len(first, rest));
        // Most writes make one change: they decode one header, and nothing of their own result.
        let entries = after.as_deref().map_or(entries, |after| Head::split(after).1);
        if let Some((effect, next)) = step(tally.len, entries, number, run) {
            tally = Tally { len: effect.len, done: tally.done + effect.done };
            after = Some(next);
        }
        rest = tail;
    }
    (tally, (tally.len > 0).then(|| after.unwrap_or_else(|| held.to_vec())))
}

/// Number of leading changes that one pass can apply.
fn run_len(first: &Change<'_>, changes: &[Change<'_>]) -> usize {
    let alike =
        |other: &&Change<'_>| std::mem::discriminant(*other) == std::mem::discriminant(first);
    match (first, changes) {
        (_, [_]) | (Change::Insert(..) | Change::Set(..), _) => 1,
        (Change::Remove(_), _) => removals(changes),
        _ => changes.iter().take_while(alike).count(),
    }
}

/// Number of leading removals that one pass can apply: each must be before the previous one.
fn removals(changes: &[Change<'_>]) -> usize {
    let mut end = usize::MAX;
    let goes_on = |change: &&Change<'_>| match change {
        Change::Remove(range) if range.end <= end => {
            end = range.start;
            true
        }
        _ => false,
    };
    // The first removal always counts.
    changes.iter().take_while(goes_on).count().max(1)
}

/// Applies changes of one kind in one pass to a list of `count` elements. Returns their effect and the packed form.
/// None if they change nothing.
fn step(count: usize, entries: &[u8], number: u64, run: &[Change<'_>]) -> Option<(Tally, Vec<u8>)> {
    let more: usize = run.iter().map(|change| change.element().len() + LEN_MAX).sum();
    let effect = match run {
        [change] => change.effect(count)?,
        [Change::Remove(_), ..] => tally(count, run),
        run => Tally { len: count + run.len(), done: run.len() },
    };
    let mut after = Head { number, count: effect.len }.begin(entries.len() + more);
    match &run[0] {
        Change::Front(_) => {
            run.iter().rev().for_each(|change| push(&mut after, change.element()));
            after.extend_from_slice(entries);
        }
        Change::Back(_) => {
            after.extend_from_slice(entries);
            run.iter().for_each(|change| push(&mut after, change.element()));
        }
        Change::Insert(at, element) | Change::Set(at, element) => {
            let goes = usize::from(matches!(run[0], Change::Set(..)));
            let (before, rest) = split_at(entries, *at);
            after.extend_from_slice(before);
            push(&mut after, element);
            after.extend_from_slice(split_at(rest, goes).1);
        }
        Change::Remove(_) => remove(&mut after, entries, count, run),
    }
    Some((effect, after))
}

/// Appends the elements that the removals leave; the last removal is the first in the list.
fn remove(after: &mut Vec<u8>, entries: &[u8], count: usize, run: &[Change<'_>]) {
    let (mut rest, mut at) = (entries, 0);
    for change in run.iter().rev() {
        let Change::Remove(range) = change else { continue };
        if range.start >= count || range.start < at {
            continue;
        }
        let (kept, tail) = split_at(rest, range.start - at);
        after.extend_from_slice(kept);
        let end = range.end.min(count);
        // Everything after it is removed, so there is no need to walk over it.
        rest = if end == count { &[] } else { split_at(tail, end - range.start).1 };
        at = end;
    }
    after.extend_from_slice(rest);
}
