//! The choice of SRANDMEMBER, HRANDFIELD and ZRANDMEMBER.

use std::collections::HashSet;

use fastrand::Rng;
use hotring_protocol::{ArgsView, parse_i64};

use crate::state::context::bulk_len;
use crate::state::failure::Failure;

/// The number of random elements, and whether they may repeat.
#[derive(Clone, Copy)]
pub(super) enum Chosen {
    One,
    /// Up to this number, each once.
    Distinct(usize),
    /// This number, one by one.
    Repeated(usize),
}

impl Chosen {
    /// The choice of `command key [count [option]]`, and whether the option is there.
    pub(super) fn read(args: ArgsView<'_>, option: &[u8]) -> Result<(Chosen, bool), Failure> {
        let Some(count) = args.get(2) else { return Ok((Chosen::One, false)) };
        let chosen = Chosen::counted(count)?;
        match (args.get(3), args.len()) {
            (None, _) => Ok((chosen, false)),
            // The reply has two elements for each.
            (Some(word), 4) if word.eq_ignore_ascii_case(option) => {
                match chosen.is_below(i64::MAX / 2) {
                    true => Ok((chosen, true)),
                    false => Err(Failure::text("ERR value is out of range")),
                }
            }
            _ => Err(Failure::Syntax),
        }
    }

    /// The choice of a count: one below 0 lets elements repeat.
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

    /// The ranks of the chosen ones among `len`, for a reply with `room` for this many bytes.
    ///
    /// # Errors
    /// [`Failure::ReplyTooLong`] if there is none for as many elements, however short they are: to draw them until that
    /// shows may take minutes.
    pub(super) fn ranks(
        self,
        len: usize,
        random: &mut Rng,
        room: usize,
    ) -> Result<Ranks<'_>, Failure> {
        let (n, distinct) = match self {
            _ if len == 0 => (0, None),
            Chosen::One => (1, None),
            Chosen::Repeated(n) if n > room / bulk_len(b"") => return Err(Failure::ReplyTooLong),
            Chosen::Repeated(n) => (n, None),
            Chosen::Distinct(n) => (n.min(len), Some(distinct(n.min(len), len, random))),
        };
        Ok(Ranks { left: n, len, distinct: distinct.map(Vec::into_iter), random })
    }
}

/// Ranks of elements, one after the other.
pub(super) struct Ranks<'a> {
    left: usize,
    len: usize,
    /// They, if each is to come at most once.
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

/// `n` of the numbers below `len`, each at most once.
fn distinct(n: usize, len: usize, random: &mut Rng) -> Vec<usize> {
    if n == len {
        return (0..len).collect();
    }
    // Floyd: the next place is drawn among all so far, or is the last of them.
    let (mut seen, mut ranks) = (HashSet::with_capacity(n), Vec::with_capacity(n));
    for last in len - n..len {
        let drawn = random.usize(..=last);
        let rank = if seen.insert(drawn) { drawn } else { last };
        seen.insert(rank);
        ranks.push(rank);
    }
    ranks
}
