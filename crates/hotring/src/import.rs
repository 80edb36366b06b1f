//! `hotring import`: reads a file of keys and sends them to a running server.

mod sender;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::client::{connect, place};
use crate::transfer::{Item, Progress, ReadError, json, now, resp};
use sender::{Existing, Sender};

/// Bytes that are read of a file at one time.
const READ_LEN: usize = 256 << 10;

const NOTES: &str = "\
FILE is what `hotring export` has written. Which format it has is seen by how it begins. Keys whose time is over are left \
out. Of a file that turns out to be damaged or cut off, the keys before that are imported.

With a password in the variable REDISCLI_AUTH it logs in. The user needs SET and RESTORE, and PIN for pinned keys. A Redis \
from 7.0 on is a server, too.

Exit codes: 0 if all keys are there, 1 if some were refused, the first of which are named, 2 if it did not come to the end";

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let existing = Arg::new("on-existing")
        .long("on-existing")
        .value_name("WHAT")
        .value_parser(["overwrite", "keep", "fail"])
        .default_value("overwrite")
        .help("What becomes of keys that the server has: theirs goes; theirs stays; theirs stays and that is an error");
    let file = Arg::new("FILE")
        .value_name("FILE|-")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("Where they come from; - is standard input");
    Command::new("import")
        .about("Send all keys of a file to a running server")
        .after_help(NOTES)
        .args(place())
        .args([existing, file])
}

/// Sends all of it.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    let file = flags.get_one::<PathBuf>("FILE").expect("it is required");
    let existing = match flags.get_one::<String>("on-existing").map(String::as_str) {
        Some("keep") => Existing::Keep,
        Some("fail") => Existing::Fail,
        _ => Existing::Overwrite,
    };
    let mut progress = Progress::new("import");
    let mut left = Left::default();
    let end = import(flags, file, existing, &mut progress, &mut left);
    progress.finish(&left.told(progress.failed()));
    match end {
        Ok(()) if progress.failed() == 0 => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(why) => {
            progress.tell(&why);
            ExitCode::from(2)
        }
    }
}

/// Keys that were not sent, or not taken for a good reason.
#[derive(Default)]
struct Left {
    expired: u64,
    kept: u64,
}

impl Left {
    fn told(&self, failed: u64) -> Vec<String> {
        let counts =
            [(self.kept, "stayed as they were"), (self.expired, "had expired"), (failed, "failed")];
        let told = counts.into_iter().filter(|(count, _)| *count > 0);
        told.map(|(count, what)| format!("{count} {what}")).collect()
    }
}

fn import(
    flags: &ArgMatches,
    file: &Path,
    existing: Existing,
    progress: &mut Progress,
    left: &mut Left,
) -> Result<(), String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let mut reader = Reader::open(file).map_err(|error| named(&error))?;
    let client = connect(flags).map_err(|error| error.to_string())?;
    let mut sender = Sender::new(client, existing);
    let ended = loop {
        let item = match reader.next() {
            Ok(None) => break Ok(()),
            Ok(Some(item)) => item,
            Err(error) => break Err(named(&error)),
        };
        if item.expire_at.is_some_and(|at| at <= now()) {
            left.expired += 1;
            continue;
        }
        sender.push(&item, progress).map_err(|error| format!("the server: {error}"))?;
    };
    // What was read before the damage is to be counted as what it is.
    sender.finish(progress).map_err(|error| format!("the server: {error}"))?;
    left.kept = sender.kept();
    ended
}

/// A file of any format.
enum Reader {
    Empty,
    Resp(Box<resp::Reader<Input>>),
    Json(json::Reader<Input>),
}

type Input = BufReader<Box<dyn Read>>;

impl Reader {
    fn open(path: &Path) -> Result<Reader, ReadError> {
        let input: Box<dyn Read> = match path == Path::new("-") {
            true => Box::new(io::stdin()),
            false => Box::new(File::open(path)?),
        };
        let mut input = BufReader::with_capacity(READ_LEN, input);
        match input.fill_buf()?.first() {
            None => Ok(Reader::Empty),
            Some(b'*') => Ok(Reader::Resp(Box::new(resp::Reader::new(input)))),
            Some(b'{') => Ok(Reader::Json(json::Reader::new(input))),
            Some(_) => Err(ReadError::bad(0, "no format that is known begins so")),
        }
    }

    fn next(&mut self) -> Result<Option<Item>, ReadError> {
        match self {
            Reader::Empty => Ok(None),
            Reader::Resp(reader) => reader.next(),
            Reader::Json(reader) => reader.next(),
        }
    }
}
