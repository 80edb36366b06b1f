//! Runs of numbered records: what a primary sends to its replicas, and what a replica adds to its own log.

use std::fmt;

use super::{Bad, Effect, Found, Lsn, Records, read};
use crate::record::read::read_sound;

/// Whole batches of records whose numbers have no gap. Their checksums have been verified.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    /// The record before the first.
    before: Lsn,
    count: u64,
}

/// Why bytes are no run that follows the last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRun {
    /// A record cannot be read.
    Bad(Bad),
    /// A record has another number than the expected one.
    Gap {
        /// The expected number.
        expected: Lsn,
        /// The number found.
        found: Lsn,
    },
    /// The bytes end within a batch, or the last record is in the middle of one.
    Torn,
    /// A record of the log itself, which is never sent.
    Durable,
}

impl fmt::Display for NoRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRun::Bad(Bad::Short { .. } | Bad::Zero) => f.write_str("the records are cut off"),
            NoRun::Bad(Bad::Checksum) => f.write_str("a checksum is wrong"),
            NoRun::Bad(Bad::Unknown) => {
                f.write_str("a record is of a kind that this version does not know")
            }
            NoRun::Gap { expected, found } => {
                write!(f, "record {found} is where record {expected} is expected")
            }
            NoRun::Torn => f.write_str("a batch is incomplete"),
            NoRun::Durable => f.write_str("a record belongs to a log and not to a stream"),
        }
    }
}

impl std::error::Error for NoRun {}

impl<'a> Run<'a> {
    /// Verifies records that are expected to follow record `last`. Batches up to `last` may come again and are left
    /// out.
    ///
    /// # Errors
    /// The bytes are not whole batches of intact records, or leave a gap behind `last`.
    pub fn behind(last: Lsn, bytes: &'a [u8]) -> Result<Run<'a>, NoRun> {
        let (mut at, mut start, mut count, mut expected) = (0, 0, 0, None);
        let mut more = false;
        while at < bytes.len() {
            let found = read(&bytes[at..]).map_err(NoRun::Bad)?;
            if matches!(found.effect, Effect::Durable { .. }) {
                return Err(NoRun::Durable);
            }
            // A run may begin with a batch that is known, but must not begin behind the next one.
            let next = expected.unwrap_or(found.lsn.min(last + 1));
            if found.lsn != next {
                return Err(NoRun::Gap { expected: next, found: found.lsn });
            }
            expected = Some(next + 1);
            (at, more) = (at + found.len, found.more);
            if found.lsn > last {
                count += 1;
            } else if !more {
                start = at;
            } else if found.lsn == last {
                return Err(NoRun::Torn);
            }
        }
        if more {
            Err(NoRun::Torn)
        } else {
            Ok(Run { bytes: &bytes[start..], before: last, count })
        }
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of the last record; without records, of the one before.
    pub fn last(&self) -> Lsn {
        self.before + self.count
    }

    /// The records.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Calls `f` with each batch, and its effects.
    pub fn batches(&self, mut f: impl FnMut(Batch, &[Effect<'a>])) {
        let (mut at, mut lsn) = (0, self.before);
        let mut effects = Vec::new();
        while at < self.bytes.len() {
            let first = at;
            effects.clear();
            loop {
                let found = sound(self.bytes, at);
                effects.push(found.effect);
                let last = at;
                (at, lsn) = (at + found.len, lsn + 1);
                if !found.more {
                    f(Batch { first, last, lsn }, &effects);
                    break;
                }
            }
        }
    }
}

/// A batch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The offset of its first record in [`Run::bytes`].
    pub first: usize,
    /// The offset of its last record.
    pub last: usize,
    /// The number of its last record.
    pub lsn: Lsn,
}

/// The effects of the batch that begins at an offset of a run's bytes.
pub fn batch_at(bytes: &[u8], mut at: usize) -> Vec<Effect<'_>> {
    let mut effects = Vec::new();
    loop {
        let found = sound(bytes, at);
        effects.push(found.effect);
        at += found.len;
        if !found.more {
            return effects;
        }
    }
}

/// The effect of the record at an offset of a run's bytes.
pub fn effect_at(bytes: &[u8], at: usize) -> Effect<'_> {
    sound(bytes, at).effect
}

fn sound(bytes: &[u8], at: usize) -> Found<'_> {
    read_sound(&bytes[at..]).expect("the run was verified")
}

impl Records {
    /// Adds the records of a run. They keep their numbers if the log that they are handed to has the record before
    /// them as its last.
    pub fn push_run(&mut self, run: &Run<'_>) {
        debug_assert!(self.is_empty(), "a run is handed over by itself");
        self.bytes.extend_from_slice(run.bytes);
        self.count += run.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Group;

    /// Numbers records as the log's writer does, from `first` on.
    fn numbered(records: &mut Records, first: Lsn) -> Vec<u8> {
        let mut group = Group::default();
        group.append(records);
        group.seal(first, None);
        group.pieces().flatten().copied().collect()
    }

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Effect<'a> {
        Effect::Put { key, form: 0, expire_at: None, value }
    }

    /// Records 5, 6 and 7 (one batch), 8.
    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut records = Records::new();
        for (first, batch) in [(5, &[b"a"][..]), (6, &[b"b", b"c"]), (8, &[b"d"])] {
            batch.iter().for_each(|key| records.push(&put(*key, b"value")));
            bytes.extend(numbered(&mut records, first));
        }
        bytes
    }

    fn keys(run: &Run<'_>) -> Vec<(Lsn, Vec<Vec<u8>>)> {
        let mut met = Vec::new();
        run.batches(|batch, effects| {
            assert_eq!(batch_at(run.bytes(), batch.first), effects);
            assert_eq!(effect_at(run.bytes(), batch.last), effects[effects.len() - 1]);
            let key = |effect: &Effect<'_>| match effect {
                Effect::Put { key, .. } => key.to_vec(),
                other => panic!("{other:?}"),
            };
            met.push((batch.lsn, effects.iter().map(key).collect()));
        });
        met
    }

    #[test]
    fn a_run_goes_on_where_the_last_ended_and_leaves_out_what_is_known() {
        let bytes = stream();
        let all = [
            (5, vec![b"a".to_vec()]),
            (7, vec![b"b".to_vec(), b"c".to_vec()]),
            (8, vec![b"d".to_vec()]),
        ];
        for (last, known) in [(4, 0), (5, 1), (7, 2), (8, 3)] {
            let run = Run::behind(last, &bytes).unwrap();
            assert_eq!((run.last(), run.is_empty()), (8, known == 3));
            assert_eq!(keys(&run), all[known..]);
        }
        assert_eq!(Run::behind(6, &bytes).unwrap_err(), NoRun::Torn, "in the middle of a batch");
        assert_eq!(Run::behind(3, &bytes).unwrap_err(), NoRun::Gap { expected: 4, found: 5 });
        assert_eq!(Run::behind(9, &[]).unwrap().last(), 9);
    }

    #[test]
    fn no_cut_and_no_flipped_bit_is_a_run_of_other_records() {
        let bytes = stream();
        let whole = keys(&Run::behind(4, &bytes).unwrap());
        for end in 0..bytes.len() {
            if let Ok(run) = Run::behind(4, &bytes[..end]) {
                assert_eq!(keys(&run), whole[..keys(&run).len()], "{end}");
            }
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Run::behind(4, &damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_log_gives_a_run_the_numbers_that_it_has() {
        let bytes = stream();
        let log = crate::Log::new(5, crate::When::Written, 1 << 20);
        let run = Run::behind(5, &bytes).unwrap();
        let mut records = Records::new();
        records.push_run(&run);
        assert_eq!(log.append(&mut records), 8);
        let mut group = Group::default();
        let first = log.take(&mut group);
        group.seal(first, None);
        let written: Vec<u8> = group.pieces().flatten().copied().collect();
        assert_eq!(written, run.bytes());
    }
}
