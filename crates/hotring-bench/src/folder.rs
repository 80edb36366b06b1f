//! A temporary folder for the files of a server, and facts about its file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use rustix::fs::{SeekFrom, seek};

/// A folder that is removed when it is dropped.
pub struct Folder(PathBuf);

/// The folders that exist.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Sizes of files, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Their total length.
    pub length: u64,
    /// Bytes that the file system has allocated for them.
    pub allocated: u64,
    /// Written bytes, as far as the file system distinguishes them from preallocated space.
    pub written: u64,
}

impl Folder {
    /// Creates a new folder in `parent`, with `word` in its name.
    pub fn new(parent: &Path, word: &str) -> Result<Folder> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // ORDERING: Relaxed, each number need only be handed out once.
        let (id, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(format!("hotring-bench-{id}-{number}-{word}"));
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        fs::create_dir(&path).with_context(|| format!("no {}", path.display()))?;
        folders.push(path.clone());
        Ok(Folder(path))
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Keeps the folder under another name, and returns its new path.
    pub fn keep(&self) -> PathBuf {
        let kept = self.0.with_extension("kept");
        // If the rename fails, the returned path does not exist.
        let _ = fs::rename(&self.0, &kept);
        kept
    }

    /// Bytes of the files whose names contain `word`, in the folder and its subfolders.
    pub fn bytes(&self, word: &str) -> u64 {
        let mut length = 0;
        each(&self.0, &mut |entry, known| {
            let counts = entry.file_name().to_string_lossy().contains(word);
            length += if counts { known.len() } else { 0 };
        });
        length
    }

    /// Sizes of all files in the folder and its subfolders.
    pub fn sizes(&self) -> Sizes {
        /// The unit of `st_blocks`, which does not depend on the block size of the file system.
        const BLOCK: u64 = 512;
        let mut sizes = Sizes::default();
        each(&self.0, &mut |entry, known| {
            sizes.length += known.len();
            sizes.allocated += known.blocks() * BLOCK;
            sizes.written += written(&entry.path(), known.len());
        });
        sizes
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder may have been renamed by `keep`.
        let _ = fs::remove_dir_all(&self.0);
        FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// Removes all existing folders, because the process is about to end.
pub fn remove_all() {
    for folder in &*FOLDERS.lock().unwrap_or_else(PoisonError::into_inner) {
        // A folder that cannot be removed stays.
        let _ = fs::remove_dir_all(folder);
    }
}

/// Calls `visit` for each file. Ignores files that disappear meanwhile: a server is running.
fn each(folder: &Path, visit: &mut impl FnMut(&fs::DirEntry, &fs::Metadata)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(known) if known.is_dir() => each(&entry.path(), visit),
            Ok(known) => visit(&entry, &known),
            Err(_) => {}
        }
    }
}

/// Bytes of a file outside of holes. Most file systems show preallocated space as a hole, some show no hole at
/// all.
fn written(path: &Path, length: u64) -> u64 {
    let Ok(file) = fs::File::open(path) else { return 0 };
    let (mut sum, mut at) = (0, 0);
    // An error means that no more data follows.
    while let Ok(data) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(data)).unwrap_or(length);
        sum += at - data;
    }
    sum
}

/// The type and device of the file system of a folder, as the kernel lists them.
pub fn file_system(folder: &Path) -> String {
    let absolute = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, at, kind) = (words.next()?, words.next()?, words.next()?);
        absolute.starts_with(at).then(|| (at.len(), format!("{kind} on {device}")))
    });
    // A later mount at the same path hides the earlier one.
    found.max_by_key(|(length, _)| *length).map_or_else(|| "unknown".into(), |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

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

    #[test]
    fn room_that_was_set_aside_is_not_written() {
        let folder = Folder::new(&std::env::temp_dir(), "test").unwrap();
        let file = fs::File::create(folder.path().join("log")).unwrap();
        let (length, block) = (1 << 20, 1 << 16);
        let preallocated =
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length);
        file.write_all_at(&[1; 5000], 0).unwrap();
        let Sizes { length: seen, allocated, written } = folder.sizes();
        if preallocated.is_ok() {
            assert!(seen == length && allocated >= length, "{seen} {allocated}");
        }
        assert!((5000..=block).contains(&written), "{written}");
    }

    #[test]
    fn folders_are_listed_while_they_are_there() {
        let is_listed = |path: &Path| FOLDERS.lock().unwrap().iter().any(|one| one == path);
        let folder = Folder::new(&std::env::temp_dir(), "test").unwrap();
        let path = folder.path().to_owned();
        assert!(is_listed(&path));
        drop(folder);
        assert!(!is_listed(&path));
    }
}
