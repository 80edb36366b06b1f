//! Access traces: reads a file, plain or xz, into keys and the sequence of accesses to them.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use fastrand::Rng;
use liblzma::read::XzDecoder;

use super::mix::mix;
use super::scramble::Scramble;
use super::zipf::Zipf;

/// The format of a trace file. It cannot be detected from the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One key per line, any bytes; empty lines are skipped
    Lines,
    /// 32-bit numbers, little endian
    U32le,
    /// 32-bit numbers, big endian
    U32be,
    /// 64-bit numbers, big endian
    U64be,
}

/// The first bytes of an .xz file.
const XZ_MAGIC: &[u8] = b"\xFD7zXZ\0";

/// A trace in memory. Each key is stored once, and accesses are numbers of keys. A binary number in the file
/// becomes its decimal text as a key.
#[derive(Debug, Default)]
pub struct Trace {
    accesses: Vec<u32>,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Trace {
    /// Reads at most `limit` accesses of the file.
    pub fn read(path: &Path, format: Format, limit: u64) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut plain = BufReader::with_capacity(1 << 16, file);
        let packed = plain.fill_buf()?.starts_with(XZ_MAGIC);
        let parsed = if packed {
            let unpacked = XzDecoder::new_multi_decoder(plain);
            Self::parse(BufReader::with_capacity(1 << 16, unpacked), format, limit)
        } else {
            Self::parse(plain, format, limit)
        };
        parsed.with_context(|| format!("cannot read {}", path.display()))
    }

    /// Reads at most `limit` accesses of unpacked input.
    pub fn parse(mut input: impl BufRead, format: Format, limit: u64) -> Result<Self> {
        if format != Format::Lines && is_text(input.fill_buf()?) {
            bail!("the file is text, but --format says numbers: use --format lines");
        }
        let mut trace = Trace::default();
        let mut numbers = HashMap::new();
        let mut record = Vec::new();
        while (trace.accesses.len() as u64) < limit && next_record(&mut input, format, &mut record)?
        {
            let next = u32::try_from(numbers.len()).context("more than 2^32 distinct keys")?;
            let number = match numbers.get(&record) {
                Some(&number) => number,
                None => {
                    trace.text.extend_from_slice(&record);
                    trace.ends.push(trace.text.len());
                    numbers.insert(record.clone(), next);
                    next
                }
            };
            trace.accesses.push(number);
        }
        Ok(trace)
    }

    /// The accesses in order, each the number of its key.
    pub fn accesses(&self) -> &[u32] {
        &self.accesses
    }

    /// The number of distinct keys.
    pub fn distinct(&self) -> usize {
        self.ends.len()
    }

    /// Whether all keys are text, which binary numbers read as lines hardly ever are.
    pub fn key_is_text(&self) -> bool {
        self.text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
    }

    /// The key of a number, below [`Trace::distinct`].
    pub fn key(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text[start..self.ends[number]]
    }
}

/// Whether the start of a file looks like lines of text. Binary numbers do not: numbers of four printable bytes
/// are above 500 million, and one of them would have to end each line.
fn is_text(start: &[u8]) -> bool {
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n' | 0x80..);
    start.contains(&b'\n')
        && start.iter().all(is_printable)
        && start.iter().any(|byte| *byte < 0x80)
}

/// Reads one key into `record`. Returns false at the end of the file.
fn next_record(input: &mut impl BufRead, format: Format, record: &mut Vec<u8>) -> Result<bool> {
    record.clear();
    if format == Format::Lines {
        return next_line(input, record);
    }
    let mut word = [0_u8; 8];
    let word = &mut word[..if format == Format::U64be { 8 } else { 4 }];
    let mut filled = 0;
    while filled < word.len() {
        match input.read(&mut word[filled..])? {
            0 if filled == 0 => return Ok(false),
            0 => bail!("the file ends within a number: is --format right?"),
            read => filled += read,
        }
    }
    let little = |word: &[u8]| word.iter().rev().fold(0_u64, |sum, &b| (sum << 8) | u64::from(b));
    let big = |word: &[u8]| word.iter().fold(0_u64, |sum, &b| (sum << 8) | u64::from(b));
    let number = if format == Format::U32le { little(word) } else { big(word) };
    write!(record, "{number}")?;
    Ok(true)
}

fn next_line(input: &mut impl BufRead, record: &mut Vec<u8>) -> Result<bool> {
    loop {
        record.clear();
        if input.read_until(b'\n', record)? == 0 {
            return Ok(false);
        }
        while record.ends_with(b"\n") || record.ends_with(b"\r") {
            record.pop();
        }
        if !record.is_empty() {
            return Ok(true);
        }
    }
}

/// The parameters of a trace drawn by our own Zipf generator.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// The number of keys to choose from.
    pub keys: u64,
    /// The Zipf exponent.
    pub theta: f64,
    /// The number of accesses to draw.
    pub accesses: u64,
    /// Equal seeds give equal traces.
    pub seed: u64,
}

impl Recipe {
    /// Writes the trace to `output`.
    pub fn write(&self, format: Format, output: impl Write) -> Result<()> {
        let mut output = BufWriter::new(output);
        let zipf = Zipf::new(self.keys, self.theta);
        let scramble = Scramble::new(self.keys, mix(self.seed));
        let mut random = Rng::with_seed(self.seed);
        for _ in 0..self.accesses {
            let key = scramble.key(zipf.sample(&mut random));
            let short = || u32::try_from(key).context("more keys than the format can number");
            match format {
                Format::Lines => writeln!(output, "{key}")?,
                Format::U32le => output.write_all(&short()?.to_le_bytes())?,
                Format::U32be => output.write_all(&short()?.to_be_bytes())?,
                Format::U64be => output.write_all(&key.to_be_bytes())?,
            }
        }
        output.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(trace: &Trace) -> Vec<String> {
        let text = |&number: &u32| String::from_utf8_lossy(trace.key(number)).into_owned();
        trace.accesses().iter().map(text).collect()
    }

    #[test]
    fn every_format_gives_its_keys_in_order() {
        let words = [7_u32, 1 << 31, 7, 0];
        let expected = ["7", "2147483648", "7", "0"];
        let cases: [(Format, Vec<u8>); 4] = [
            (Format::Lines, b"7\n2147483648\r\n\n7\n0".to_vec()),
            (Format::U32le, words.iter().flat_map(|w| w.to_le_bytes()).collect()),
            (Format::U32be, words.iter().flat_map(|w| w.to_be_bytes()).collect()),
            (Format::U64be, words.iter().flat_map(|w| u64::from(*w).to_be_bytes()).collect()),
        ];
        for (format, input) in cases {
            let trace = Trace::parse(input.as_slice(), format, u64::MAX).unwrap();
            assert_eq!(keys(&trace), expected, "{format:?}");
            assert_eq!(trace.distinct(), 3, "{format:?}");
        }
    }

    #[test]
    fn a_limit_stops_early_and_half_a_number_is_refused() {
        let trace = Trace::parse([1, 0, 0, 0, 2].as_slice(), Format::U32le, 1).unwrap();
        assert_eq!(keys(&trace), ["1"]);
        let error = Trace::parse([1, 0, 0, 0, 2].as_slice(), Format::U32le, 9).unwrap_err();
        assert!(error.to_string().contains("ends within a number"), "{error}");
    }

    /// A file of words was once two accesses to two numbers.
    #[test]
    fn text_is_not_a_trace_of_numbers() {
        for format in [Format::U32le, Format::U32be, Format::U64be] {
            let error =
                Trace::parse(b"user:1\nuser:22\n\xc3\xa4".as_slice(), format, 9).unwrap_err();
            assert!(error.to_string().contains("use --format lines"), "{error}");
        }
        // A line feed is a part of many a number.
        let numbers: Vec<u8> = [10_u32, 0x2020_2020].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(keys(&Trace::parse(numbers.as_slice(), Format::U32le, 9).unwrap())[0], "10");
    }

    #[test]
    fn a_recipe_reads_back_in_every_format() {
        let recipe = Recipe { keys: 50, theta: 0.99, accesses: 300, seed: 9 };
        let mut seen = Vec::new();
        for format in [Format::Lines, Format::U32le, Format::U32be, Format::U64be] {
            let mut file = Vec::new();
            recipe.write(format, &mut file).unwrap();
            seen.push(keys(&Trace::parse(file.as_slice(), format, u64::MAX).unwrap()));
        }
        assert_eq!(seen[0].len(), 300);
        assert!(seen.iter().all(|accesses| *accesses == seen[0]));
    }
}
