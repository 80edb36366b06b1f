//! Random choice of elements, for SRANDMEMBER, HRANDFIELD and ZRANDMEMBER.

use std::collections::HashSet;

use fastrand::Rng;
use hotring_protocol::{ArgsView, parse_i64};

use crate::state::context::bulk_len;
use crate::state::failure::Failure;

/// The number of random elements to return, and whether they may repeat.
#[derive(Clone, Copy)]
pub(super) enum Chosen {
    One,
    /// Up to this many distinct elements.
    Distinct(usize),
    /// Exactly this many independent draws, which may repeat.
    Repeated(usize),
}

impl Chosen {
    /// Parses `command key [count [option]]`. Returns the choice, and whether the option is present.
    pub(super) fn read(args: ArgsView<'_>, option: &[u8]) -> Result<(Chosen, bool), Failure> {
        let Some(count) = args.get(2) else { return Ok((Chosen::One, false)) };
        let chosen = Chosen::counted(count)?;
        match (args.get(3), args.len()) {
            (None, _) => Ok((chosen, false)),
            // Each element adds two entries to the reply, so the count may be at most half the maximum.
            (Some(word), 4) if word.eq_ignore_ascii_case(option) => {
                match chosen.is_below(i64::MAX / 2) {
                    true => Ok((chosen, true)),
                    false => Err(Failure::text("ERR value is out of range")),
                }
            }
            _ => Err(Failure::Syntax),
        }
    }

    /// Parses a count. A negative count allows elements to repeat.
    pub(super) fn counted(count: &[u8]) -> Result<Chosen, Failure> {
        let count = parse_i64(count).ok_or(Failure::NotAnInteger)?;
        let n = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        match count {
            i64::MIN => Err(Failure::text(
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            )),
            0.. => Ok(Chosen::Distinct(n)),
            _ => Ok(Chosen::Repeated(n)),
        }
    }

    fn is_below(self, max: i64) -> bool {
        let (Chosen::Distinct(n) | Chosen::Repeated(n)) = self else { return true };
        n as u64 <= max.unsigned_abs()
    }

    /// The ranks of the chosen elements among `len`. The reply can hold `reply_left` more bytes.
    ///
    /// # Errors
    /// [`Failure::ReplyTooLong`] if the reply cannot hold that many elements even if all are empty: drawing until the
    /// limit shows may take minutes.
    pub(super) fn ranks(
        self,
        len: usize,
        random: &mut Rng,
        reply_left: usize,
    ) -> Result<Ranks<'_>, Failure> {
        let (n, distinct) = match self {
            _ if len == 0 => (0, None),
            Chosen::One => (1, None),
            Chosen::Repeated(n) if n > reply_left / bulk_len(b"") => {
                return Err(Failure::ReplyTooLong);
            }
            Chosen::Repeated(n) => (n, None),
            Chosen::Distinct(n) => (n.min(len), Some(distinct(n.min(len), len, random))),
        };
        Ok(Ranks { left: n, len, distinct: distinct.map(Vec::into_iter), random })
    }
}

/// An iterator over the ranks of chosen elements.
pub(super) struct Ranks<'a> {
    left: usize,
    len: usize,
    /// The ranks, if they must be distinct; None to draw each rank independently.
    distinct: Option<std::vec::IntoIter<usize>>,
    random: &'a mut Rng,
}

impl Iterator for Ranks<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.distinct {
            Some(ranks) => ranks.next(),
            None => Some(self.random.usize(..self.len)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Ranks<'_> {}

/// Draws `n` distinct numbers below `len`.
fn distinct(n: usize, len: usize, random: &mut Rng) -> Vec<usize> {
    if n == len {
        return (0..len).collect();
    }
    // Floyd's algorithm: draw among the first `last + 1` numbers; if the draw was taken before, choose `last`.
    let (mut seen, mut ranks) = (HashSet::with_capacity(n), Vec::with_capacity(n));
    for last in len - n..len {
        let drawn = random.usize(..=last);
        let rank = if seen.insert(drawn) { drawn } else { last };
        seen.insert(rank);
        ranks.push(rank);
    }
    ranks
}
