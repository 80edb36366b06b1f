//! LCS: the longest common subsequence of two strings.

use hotring_protocol::{ArgsView, parse_i64};

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

#[derive(Default)]
struct Options {
    len: bool,
    ranges: bool,
    match_len_min: usize,
    with_match_len: bool,
}

/// A run of bytes common to both strings: where it ends in each string, and its length.
struct Match {
    ends: [usize; 2],
    len: usize,
}

/// The length of the longest common subsequence of each pair of prefixes of two strings. Takes time and memory
/// proportional to the product of their lengths.
struct Table {
    lens: Vec<u32>,
    width: usize,
}

impl Table {
    /// Computes the table; None if the memory cannot be allocated.
    fn new(a: &[u8], b: &[u8]) -> Option<Table> {
        let width = b.len() + 1;
        let mut lens = Vec::new();
        lens.try_reserve_exact(width * (a.len() + 1)).ok()?;
        lens.resize(width * (a.len() + 1), 0);
        let mut table = Table { lens, width };
        for i in 1..=a.len() {
            for j in 1..=b.len() {
                table.lens[i * width + j] = match a[i - 1] == b[j - 1] {
                    true => table.len(i - 1, j - 1) + 1,
                    false => table.len(i - 1, j).max(table.len(i, j - 1)),
                };
            }
        }
        Some(table)
    }

    fn len(&self, i: usize, j: usize) -> u32 {
        self.lens[i * self.width + j]
    }

    /// The matches that form the subsequence, last one first. Among subsequences of equal length, the choice is
    /// Redis's.
    fn matches(&self, a: &[u8], b: &[u8]) -> Vec<Match> {
        let (mut i, mut j, mut matches) = (a.len(), b.len(), Vec::new());
        let mut goes_on = false;
        while i > 0 && j > 0 {
            if a[i - 1] != b[j - 1] {
                if self.len(i - 1, j) > self.len(i, j - 1) {
                    i -= 1
                } else {
                    j -= 1
                }
                goes_on = false;
                continue;
            }
            match matches.last_mut() {
                Some(Match { len, .. }) if goes_on => *len += 1,
                _ => matches.push(Match { ends: [i, j], len: 1 }),
            }
            goes_on = true;
            (i, j) = (i - 1, j - 1);
        }
        matches
    }
}

pub(crate) fn lcs(c: &mut Context<'_>) -> Outcome {
    for key in [&c.args[1], &c.args[2]] {
        // As in Redis, the types of both keys are checked before the options.
        if c.store.get_string(key, c.now, |_| ()).is_err() {
            return Err(Failure::text("ERR The specified keys must contain string values"));
        }
    }
    let options = options(c.args.tail(3))?;
    let len_max = c.store.value_len_max();
    let mut texts = [Vec::new(), Vec::new()];
    c.store.mget_within(&[&c.args[1], &c.args[2]], 2 * len_max, c.now, |i, value, _| {
        if let Some(value) = value {
            value.with_bytes(|bytes| texts[i].extend_from_slice(bytes));
        }
    })?;
    let [a, b] = &texts;
    if (a.len() + 1) * (b.len() + 1) * size_of::<u32>() > len_max {
        return Err(Failure::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let table = Table::new(a, b).ok_or(Failure::text(
        "ERR Insufficient memory, failed allocating transient memory for LCS",
    ))?;
    let len = table.len(a.len(), b.len());
    if options.len {
        c.reply.int(len.into());
        return Ok(());
    }
    let matches = table.matches(a, b);
    if options.ranges {
        write_ranges(c, &options, &matches, len);
    } else {
        let parts = matches.iter().rev();
        let parts = parts.map(|found| &a[found.ends[0] - found.len..found.ends[0]]);
        c.reply.bulk(&parts.collect::<Vec<_>>().concat());
    }
    c.check_reply_len()
}

fn write_ranges(c: &mut Context<'_>, options: &Options, matches: &[Match], len: u32) {
    let is_long = |found: &&Match| found.len >= options.match_len_min;
    c.reply.map(2);
    c.reply.bulk(b"matches");
    c.reply.array(matches.iter().filter(is_long).count());
    for found in matches.iter().filter(is_long) {
        c.reply.array(2 + usize::from(options.with_match_len));
        for end in found.ends {
            c.reply.array(2);
            c.reply.count(end - found.len);
            c.reply.count(end - 1);
        }
        if options.with_match_len {
            c.reply.count(found.len);
        }
    }
    c.reply.bulk(b"len");
    c.reply.int(len.into());
}

fn options(args: ArgsView<'_>) -> Result<Options, Failure> {
    let (mut options, mut i) = (Options::default(), 0);
    while let Some(word) = args.get(i) {
        match word.to_ascii_lowercase().as_slice() {
            b"idx" => options.ranges = true,
            b"len" => options.len = true,
            b"withmatchlen" => options.with_match_len = true,
            b"minmatchlen" if args.len() > i + 1 => {
                i += 1;
                let min = parse_i64(args.at(i)).ok_or(Failure::NotAnInteger)?;
                options.match_len_min = usize::try_from(min).unwrap_or(0);
            }
            _ => return Err(Failure::Syntax),
        }
        i += 1;
    }
    if options.len && options.ranges {
        return Err(Failure::text(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    Ok(options)
}
