//! Names of shared memory, and what killed processes left of it.
//!
//! A name has our prefix and the process. Its owner keeps the file locked, which tells more than the number of the
//! process: another container may share the memory, but not the numbers.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where the system keeps shared memory.
pub const FOLDER: &str = "/dev/shm";

const PREFIX: &str = "hotring-";

/// A new name.
pub fn new_name() -> io::Result<String> {
    let random = getrandom::u64().map_err(io::Error::other)?;
    Ok(format!("{PREFIX}{}-{random:016x}", std::process::id()))
}

/// Keeps shared memory from being taken for a dead process's, as long as the file is open.
pub fn keep(name: &str) -> io::Result<File> {
    let file = File::open(Path::new(FOLDER).join(name))?;
    file.lock_shared()?;
    Ok(file)
}

/// Removes what dead processes left.
pub fn sweep(folder: &Path) {
    // Without the folder there is nothing to remove.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| is_left(path)).for_each(|path| {
        // Whoever may not remove it did not leave it.
        let _ = fs::remove_file(path);
    });
}

fn is_left(path: &Path) -> bool {
    let is_dead = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(process)
        .is_some_and(|process| !PathBuf::from(format!("/proc/{process}")).exists());
    is_dead && File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// The process in a name of ours.
fn process(name: &str) -> Option<u32> {
    let (process, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    process.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_processes_left_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        // Beyond the largest number of a process.
        let dead = u32::MAX;
        let names = [
            format!("{PREFIX}{dead}-a"),
            format!("{PREFIX}{dead}-locked"),
            format!("{PREFIX}{}-a", std::process::id()),
            format!("{PREFIX}{dead}"),
            format!("other-{dead}-a"),
        ];
        for name in &names {
            fs::write(folder.path().join(name), "").expect("a file");
        }
        let locked = File::open(folder.path().join(&names[1])).expect("it was written");
        locked.lock_shared().expect("nobody has it");
        sweep(folder.path());
        let is_there = names.map(|name| folder.path().join(name).exists());
        assert_eq!(is_there, [false, true, true, true, true]);
    }
}
