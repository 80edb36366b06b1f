//! A folder for the files of a server that was started, and the file system that it lies on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// A folder, which is removed in the end.
pub struct Folder(PathBuf);

impl Folder {
    /// A new one in `parent`, with this word in its name.
    pub fn new(parent: &Path, word: &str) -> Result<Folder> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // ORDERING: Relaxed, only that each number comes once.
        let (id, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(format!("hotring-bench-{id}-{number}-{word}"));
        fs::create_dir(&path).with_context(|| format!("no {}", path.display()))?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where a copy is that stays: the files as they are.
    pub fn keep(&self) -> PathBuf {
        let kept = self.0.with_extension("kept");
        // If it cannot be had, the name alone is told, which is not there then.
        let _ = fs::rename(&self.0, &kept);
        kept
    }

    /// Bytes of the files in it, and in folders in it, whose name has this in it.
    pub fn bytes(&self, word: &str) -> u64 {
        bytes(&self.0, word)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may have been kept under another name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Files that are gone before they are looked at count as nothing: a server is at work.
fn bytes(folder: &Path, word: &str) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(known) if known.is_dir() => bytes(&entry.path(), word),
        Ok(known) if entry.file_name().to_string_lossy().contains(word) => known.len(),
        _ => 0,
    };
    entries.map(of).sum()
}

/// The kind of file system that a folder lies on, and its device, as the kernel lists them.
pub fn file_system(folder: &Path) -> String {
    let place = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, at, kind) = (words.next()?, words.next()?, words.next()?);
        place.starts_with(at).then(|| (at.len(), format!("{kind} on {device}")))
    });
    // Of two at the same place, the later one hides the other.
    found.max_by_key(|(length, _)| *length).map_or_else(|| "unknown".into(), |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_go_with_the_folder() {
        let folder = Folder::new(&std::env::temp_dir(), "test").unwrap();
        let path = folder.path().to_owned();
        fs::create_dir(path.join("inner")).unwrap();
        fs::write(path.join("inner/log-1"), [0; 10]).unwrap();
        fs::write(path.join("snapshot-2"), [0; 5]).unwrap();
        assert_eq!((folder.bytes(""), folder.bytes("snapshot"), folder.bytes("log")), (15, 5, 10));
        assert_eq!(file_system(Path::new("/proc/self")), "proc on proc");
        drop(folder);
        assert!(!path.exists());
    }
}
