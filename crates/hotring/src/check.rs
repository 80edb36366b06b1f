//! `hotring check`: verifies the newest snapshot and the log of a folder without changing them, and
//! saves the readable part of damaged ones.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Command, value_parser};
use hotring_log::{
    ALL, Checked, Disk, Effect, Id, Lsn, Snapshot, SnapshotError, SnapshotWriter, Storage,
    first_record, repair,
};

const NOTES: &str = "\
The server that uses the folder must have stopped. Nothing in DIR is changed. A log that ends within a write, as after a \
crash, is intact: the server removes that end at its start.

--repair keeps each readable block of the snapshot, and the part of the log after the snapshot and before the first damage. \
Keys of lost blocks are missing. Records after damage to the log are dropped, because their meaning may depend on lost ones.

Exit codes: 0 if the log is intact, 1 if it is damaged, 2 if it could not be read or the copy could not be written";

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let folder =
        |name: &'static str| Arg::new(name).value_name(name).value_parser(value_parser!(PathBuf));
    Command::new("check")
        .about(
            "Check the log and the snapshot in a folder, and repair damaged ones into a copy",
        )
        .after_help(NOTES)
        .arg(folder("DIR").required(true).help("The folder: the server's setting data"))
        .arg(
            folder("NEWDIR")
                .long("repair")
                .help("Copy the readable part of the snapshot, and the log up to its first damage, to this new folder"),
        )
}

/// Runs the check and prints the result.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    let folder = flags.get_one::<PathBuf>("DIR").expect("it is required");
    let new = flags.get_one::<PathBuf>("NEWDIR");
    match check(folder, new.map(PathBuf::as_path)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("hotring check: {why}");
            ExitCode::from(2)
        }
    }
}

/// Checks the folder, and copies its readable part to the folder `new`, if there is one. True if the folder is intact.
fn check(folder: &Path, new: Option<&Path>) -> Result<bool, String> {
    let disk = open(folder)?;
    let (snapshot, damage) = newest_snapshot(&disk, new.is_some())?.unzip();
    // Without a snapshot, the part that can be saved begins with the log.
    let first = first_record(&disk).map_err(text)?.filter(|_| new.is_some());
    let log_start = first.filter(|first| snapshot.is_none() && *first > 1);
    let without_snapshot = || (log_start.map_or(0, |first| first - 1), 0);
    let (after, end) = snapshot.as_ref().map_or_else(without_snapshot, |s| (s.after(), s.end()));
    let (mut counts, mut damages) = (Counts::default(), Vec::new());
    let checked = match new {
        None => {
            let id = snapshot.as_ref().map(Snapshot::id);
            hotring_log::check(&disk, id, after + 1, &mut |_, effects| counts.add(effects))
                .map_err(text)?
        }
        Some(new) => {
            let checked;
            (checked, damages) = save(&disk, new, snapshot.as_ref(), after, log_start.is_some())?;
            checked
        }
    };
    damages.extend(damage.flatten());
    if let Some(snapshot) = &snapshot {
        println!("{}: {} items, {} bytes", snapshot.name(), snapshot.items(), snapshot.len());
        if new.is_none() {
            damages.extend(read(snapshot).err());
        }
    }
    print!("{}", report(&checked, after));
    if new.is_none() {
        print!("{}", counts.text());
    }
    let faults = faults(&damages, &checked, end, log_start);
    faults.iter().for_each(|fault| println!("{fault}"));
    Ok(faults.is_empty())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn open(folder: &Path) -> Result<Disk, String> {
    if !folder.is_dir() {
        return Err(format!("there is no folder {}", folder.display()));
    }
    if !Disk::holds_data(folder).map_err(text)? {
        return Err(format!("{} holds neither a log nor a snapshot", folder.display()));
    }
    Disk::open_to_read(folder).map_err(text)
}

/// The newest snapshot of the folder. If `despite_damage` is true, a damaged one is returned with its damage.
fn newest_snapshot(
    disk: &Disk,
    despite_damage: bool,
) -> Result<Option<(Snapshot, Option<SnapshotError>)>, String> {
    if despite_damage {
        let checked = hotring_log::check(disk, None, 1, &mut |_, _| {});
        return Snapshot::salvage(disk, checked.ok().and_then(|checked| checked.id)).map_err(text);
    }
    let snapshot = Snapshot::newest(disk).map_err(text)?;
    Ok(snapshot.map(|snapshot| (snapshot, None)))
}

/// Copies the readable part of the log and of the snapshot to a new folder. Returns the state of the log, and the
/// damage of the snapshot's blocks. If the log `lacks_start`, an empty snapshot stands for its missing records.
fn save(
    disk: &Disk,
    new: &Path,
    snapshot: Option<&Snapshot>,
    after: Lsn,
    lacks_start: bool,
) -> Result<(Checked, Vec<SnapshotError>), String> {
    let is_empty = new.read_dir().map_or(true, |mut entries| entries.next().is_none());
    if !is_empty {
        return Err(format!("{} is not empty: a repaired log goes to a new folder", new.display()));
    }
    let copy: Arc<dyn Storage> = Arc::new(Disk::open(new).map_err(text)?);
    let checked = repair(disk, after + 1, &copy).map_err(text)?;
    let mut damages = Vec::new();
    if let Some(snapshot) = snapshot {
        damages = snapshot.repair(&copy, checked.last).map_err(text)?;
    } else if let (true, Some(id)) = (lacks_start, checked.id) {
        write_empty_snapshot(&copy, id, after)
            .map_err(|error| format!("{}: {error}", copy.location()))?;
    }
    println!("copied {} to {}", records(checked.last - after), new.display());
    Ok((checked, damages))
}

/// Writes an empty snapshot in place of the records before the log.
fn write_empty_snapshot(copy: &Arc<dyn Storage>, id: Id, after: Lsn) -> io::Result<()> {
    SnapshotWriter::create(copy.clone(), id, after)?.finish(after)?.publish(after).map(drop)
}

/// The text of each fault. The snapshot needs the log up to record `end`; `log_start` is the first record of a log
/// that lacks its beginning.
fn faults(
    damages: &[SnapshotError],
    checked: &Checked,
    end: Lsn,
    log_start: Option<Lsn>,
) -> Vec<String> {
    let mut faults: Vec<String> = damages.iter().map(text).collect();
    if checked.error.is_none() && checked.last < end {
        faults.push(format!(
            "the log ends at record {}, the snapshot needs it up to {end}",
            checked.last
        ));
    }
    faults.extend(log_start.map(|first| {
        format!(
            "there is no snapshot, and the log begins with record {first}: earlier data is lost"
        )
    }));
    faults.extend(checked.error.as_ref().map(text));
    faults
}

/// Reads all blocks.
fn read(snapshot: &Snapshot) -> Result<(), SnapshotError> {
    let mut buffer = Vec::new();
    while snapshot.read_block(ALL, &mut buffer, &mut |_| {})?.is_some() {}
    Ok(())
}

fn records(count: u64) -> String {
    if count == 1 { "1 record".into() } else { format!("{count} records") }
}

/// Describes the log, segment by segment.
fn report(checked: &Checked, after: u64) -> String {
    let mut text = String::new();
    for part in &checked.parts {
        let last = part.first + part.records;
        text += &format!(
            "{}: records {} to {}, {} bytes of {}\n",
            part.name,
            part.first,
            last.saturating_sub(1),
            part.end,
            part.len
        );
    }
    if let Some((segment, at, damage)) = &checked.torn {
        text += &format!(
            "{segment} ends at byte {at}, within a write ({damage}): the server will remove that end\n"
        );
    }
    if checked.unguarded {
        text += "manifest.hrm is missing: if the newest segments were lost with it, this check cannot notice\n";
    }
    text += &format!("{} in all\n", records(checked.last - after));
    text
}

/// Counts records by their effect.
#[derive(Default)]
struct Counts {
    puts: u64,
    removals: u64,
    others: u64,
}

impl Counts {
    fn add(&mut self, effects: &[Effect<'_>]) {
        for effect in effects {
            match effect {
                Effect::Put { .. } => self.puts += 1,
                Effect::Remove { .. } => self.removals += 1,
                _ => self.others += 1,
            }
        }
    }

    fn text(&self) -> String {
        let Counts { puts, removals, others } = self;
        format!("{puts} set a value, {removals} remove one, {others} do something else\n")
    }
}
