//! `hotring export`: writes all keys of a running server, or of the folder of a stopped one, to a
//! file for other programs.

mod folder;
mod server;
mod target;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::client::{address_args, connect};
use crate::transfer::{Item, Progress, json, resp};
use target::Target;

/// Bytes per write.
const WRITE_LEN: usize = 256 << 10;

const NOTES: &str = "\
Keys are read from a running server, or with --data from the snapshot and log of a stopped one, which are loaded into \
memory; nothing in DIR is changed.

FILE appears under its name once it is complete and synced to disk. It replaces an existing file, also the target of a \
link. A device, a FIFO or a descriptor such as /dev/stdout is written directly. Each key of a running server is exported \
together with its expiry, but different keys at different moments.

The variable REDISCLI_AUTH holds the password. The user needs SCAN, MULTI, EXEC, DUMP and PEXPIRETIME, PINNED for --pins, and CLIENT \
NO-TOUCH; without it the export counts as accesses. A Redis from 7.0 on can be exported, too.

Exit codes: 0 if all keys were written, 1 if some were not (they are named), 2 if no file was written";

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let data = Arg::new("data")
        .long("data")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .conflicts_with_all(["address", "unixsocket", "user"])
        .help(
            "Read this folder, the setting data of a stopped server, instead of a running server",
        );
    let pattern = Arg::new("match")
        .long("match")
        .value_name("PATTERN")
        .help("Only keys that match this pattern, as for SCAN: user:*");
    let format = Arg::new("format")
        .long("format")
        .value_name("FORMAT")
        .value_parser(["resp", "json"])
        .default_value("resp")
        .help("resp: Redis commands, for any server; json: a line of JSON for each key");
    let pins = Arg::new("pins")
        .long("pins")
        .action(ArgAction::SetTrue)
        .help("Also export pins, by PIN commands that Redis does not have");
    let file = Arg::new("FILE")
        .value_name("FILE|-")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("The file to write; - is standard output");
    Command::new("export")
        .about("Write all keys with values and expiry times to a file")
        .after_help(NOTES)
        .args(address_args())
        .args([data, format, pattern, pins, file])
}

/// Runs the export.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    let file = flags.get_one::<PathBuf>("FILE").expect("it is required");
    let mut progress = Progress::new("export");
    match export(flags, file, &mut progress) {
        Ok(()) if progress.failed() == 0 => {
            progress.finish(&[]);
            ExitCode::SUCCESS
        }
        Ok(()) => {
            progress.finish(&[format!("{} are missing", progress.failed())]);
            ExitCode::FAILURE
        }
        Err(why) => {
            progress.print(&why);
            ExitCode::from(2)
        }
    }
}

fn export(flags: &ArgMatches, file: &Path, progress: &mut Progress) -> Result<(), String> {
    let wanted = Wanted {
        pattern: flags.get_one::<String>("match").map(String::as_str),
        pins: flags.get_flag("pins"),
    };
    let target = Target::open(file).map_err(|error| cannot_write(file, &error))?;
    let (push_item, selects): (fn(&mut Vec<u8>, &Item), bool) =
        match flags.get_one::<String>("format").map(String::as_str) {
            Some("json") => (json::push_item, false),
            _ => (resp::push_item, true),
        };
    let mut output =
        Output { file, target, push_item, selects, database: 0, buffer: Vec::new(), progress };
    match flags.get_one::<PathBuf>("data") {
        Some(folder) => folder::export(folder, &wanted, &mut output)?,
        None => {
            let mut client = connect(flags).map_err(|error| error.to_string())?;
            server::export(&mut client, &wanted, &mut output)?;
        }
    }
    output.finish()
}

fn cannot_write(file: &Path, error: &io::Error) -> String {
    format!("{} cannot be written: {error}", file.display())
}

/// The keys to export.
struct Wanted<'a> {
    /// Only keys that match this pattern.
    pattern: Option<&'a str>,
    pins: bool,
}

/// The destination of items.
struct Output<'a> {
    file: &'a Path,
    target: Target,
    /// Appends an item in the chosen format.
    push_item: fn(&mut Vec<u8>, &Item),
    /// Whether the format has a command that selects the database of the items after it.
    selects: bool,
    database: u8,
    buffer: Vec<u8>,
    progress: &'a mut Progress,
}

impl Output<'_> {
    fn add(&mut self, item: &Item) -> Result<(), String> {
        if self.selects && item.database != self.database {
            self.database = item.database;
            resp::push_database(&mut self.buffer, item.database);
        }
        (self.push_item)(&mut self.buffer, item);
        self.progress.add(item.len());
        if self.buffer.len() >= WRITE_LEN {
            self.target.write(&self.buffer).map_err(|error| cannot_write(self.file, &error))?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn fail(&mut self, key: &[u8], why: &str) {
        self.progress.fail(key, why);
    }

    fn finish(mut self) -> Result<(), String> {
        let written = self.target.write(&self.buffer).and_then(|()| self.target.publish());
        written.map_err(|error| cannot_write(self.file, &error))
    }
}
