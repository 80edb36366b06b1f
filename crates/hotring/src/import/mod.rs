//! `hotring import`: reads a file of keys and sends them to a running server.

mod sender;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::client::{address_args, connect};
use crate::transfer::rdb::Found;
use crate::transfer::{Progress, ReadError, json, now, rdb, resp, shown};
use sender::{Existing, Sender};

/// Bytes per read.
const READ_LEN: usize = 256 << 10;

const NOTES: &str = "\
FILE is a file of `hotring export`, or an RDB file of Redis up to version 8, from which strings, lists, sets, sorted sets \
and hashes are imported. The format is detected from the beginning of the file. Expired keys are skipped. If the file is \
damaged or cut off, the keys before that point are imported.

The variable REDISCLI_AUTH holds the password. The user needs SET and RESTORE, and PIN for pinned keys. The server may \
also be a Redis from 7.0 on.

Exit codes: 0 if all keys were imported, 1 if the server refused some (the first ones are named), 2 if the import was cut \
short";

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let existing = Arg::new("on-existing")
        .long("on-existing")
        .value_name("WHAT")
        .value_parser(["overwrite", "keep", "fail"])
        .default_value("overwrite")
        .help("Existing keys of the server: replace them, keep them, or keep them and count a failure");
    let skip = Arg::new("skip-unknown")
        .long("skip-unknown")
        .action(ArgAction::SetTrue)
        .help("Skip keys of an RDB file whose type hotring lacks; by default the first one ends the import");
    let db = Arg::new("db")
        .long("db")
        .value_name("N")
        .value_parser(value_parser!(u64))
        .help("Import only this database of an RDB file; required if the file has several");
    let file = Arg::new("FILE")
        .value_name("FILE|-")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The file to read; - is standard input");
    Command::new("import")
        .about("Send all keys of a file to a running server")
        .after_help(NOTES)
        .args(address_args())
        .args([existing, skip, db, file])
}

/// Runs the import.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    let mut progress = Progress::new("import");
    let mut left = Left::default();
    let end = import(flags, &mut progress, &mut left);
    progress.finish(&left.report(&progress));
    match end {
        Ok(()) if progress.failed() == 0 => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(why) => {
            progress.print(&why);
            ExitCode::from(2)
        }
    }
}

/// Keys that were left out, by reason.
#[derive(Default)]
struct Left {
    kept: u64,
    expired: u64,
    keys_skipped: u64,
    parts: u64,
}

impl Left {
    fn report(&self, progress: &Progress) -> Vec<String> {
        let counts = [
            (self.kept, "stayed as they were"),
            (self.expired, "had expired"),
            (progress.skipped(), "of other types left out"),
            (self.keys_skipped, "of other databases left out"),
            (self.parts, "functions or modules' data left out"),
            (progress.failed(), "failed"),
        ];
        let left_out = counts.into_iter().filter(|(count, _)| *count > 0);
        left_out.map(|(count, reason)| format!("{count} {reason}")).collect()
    }
}

fn import(flags: &ArgMatches, progress: &mut Progress, left: &mut Left) -> Result<(), String> {
    let file = flags.get_one::<PathBuf>("FILE").expect("it is required");
    let existing = match flags.get_one::<String>("on-existing").map(String::as_str) {
        Some("keep") => Existing::Keep,
        Some("fail") => Existing::Fail,
        _ => Existing::Overwrite,
    };
    let named = |error: &dyn Display| format!("{}: {error}", file.display());
    let lost = |error: io::Error| format!("the server: {error}");
    let database = flags.get_one::<u64>("db").copied();
    let mut reader = Reader::open(file, database).map_err(|error| named(&error))?;
    let client = connect(flags).map_err(|error| error.to_string())?;
    let mut sender = Sender::new(client, existing);
    let ended = loop {
        match reader.next() {
            Ok(None) => break Ok(()),
            Ok(Some(Found::Item(item))) if item.expire_at.is_some_and(|at| at <= now()) => {
                left.expired += 1;
            }
            Ok(Some(Found::Item(item))) => sender.push(&item, progress).map_err(lost)?,
            Ok(Some(Found::Unknown { key, name, .. })) if flags.get_flag("skip-unknown") => {
                progress.skip(&key, &format!("it is {name}: left out"));
            }
            Ok(Some(Found::Unknown { key, name, at })) => {
                let key = shown(&key);
                let problem = format!(
                    "the key {key} is {name}, which hotring does not have; --skip-unknown leaves such keys out"
                );
                break Err(named(&ReadError::bad(at, problem)));
            }
            Ok(Some(Found::Part(_))) => left.parts += 1,
            Err(error) => break Err(named(&error)),
        }
    };
    // Keys read before the damage must still be counted.
    sender.finish(progress).map_err(lost)?;
    left.kept = sender.kept();
    left.keys_skipped = reader.keys_skipped();
    ended
}

/// A reader for any supported format.
enum Reader {
    Empty,
    Resp(Box<resp::Reader<Input>>),
    Json(json::Reader<Input>),
    Rdb(rdb::Reader<Input>),
}

type Input = BufReader<Box<dyn Read>>;

impl Reader {
    fn open(path: &Path, database: Option<u64>) -> Result<Reader, ReadError> {
        let input: Box<dyn Read> = match path == Path::new("-") {
            true => Box::new(io::stdin()),
            false => Box::new(File::open(path)?),
        };
        let mut input = BufReader::with_capacity(READ_LEN, input);
        match input.fill_buf()?.first() {
            None => Ok(Reader::Empty),
            Some(b'*') => Ok(Reader::Resp(Box::new(resp::Reader::new(input)))),
            Some(b'{') => Ok(Reader::Json(json::Reader::new(input))),
            Some(b'R') => Ok(Reader::Rdb(rdb::Reader::new(input, database)?)),
            Some(_) => Err(ReadError::bad(0, "unknown file format")),
        }
    }

    fn next(&mut self) -> Result<Option<Found>, ReadError> {
        let item = match self {
            Reader::Empty => None,
            Reader::Resp(reader) => reader.next()?,
            Reader::Json(reader) => reader.next()?,
            Reader::Rdb(reader) => {
                let found = reader.read()?;
                if found.is_none() {
                    reader.check_end()?;
                }
                return Ok(found);
            }
        };
        Ok(item.map(Found::Item))
    }

    /// Skipped keys of other databases.
    fn keys_skipped(&self) -> u64 {
        match self {
            Reader::Rdb(reader) => reader.keys_skipped,
            _ => 0,
        }
    }
}
