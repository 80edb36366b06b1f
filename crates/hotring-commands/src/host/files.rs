//! Atomic replacement of files: readers see the old contents or the new ones, even after a power cut.
//!
//! A regular file is written under a temporary name in the same folder and then renamed. Symbolic links are followed
//! first, so that a link stays a link. Any other path (a device, a FIFO, an open file behind `/proc/self/fd`) must
//! never be renamed over: the text is written into it, or the path is refused, as the caller decides.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// The maximum number of symbolic links that are followed, as in Linux.
const LINKS_MAX: usize = 40;

/// The treatment of an existing path that is not a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// The text is appended to it.
    WriteInto,
    /// The file is not opened.
    Refuse,
}

/// A file that gets its final name when it is complete.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// The temporary file; None if the target itself is written.
    unfinished: Option<Unfinished>,
}

/// A file being written, and its final name. The temporary file is removed unless it was renamed.
#[derive(Debug)]
struct Unfinished {
    path: PathBuf,
    end: PathBuf,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Fails if the file has been renamed, which is fine.
        let _ = fs::remove_file(&self.path);
    }
}

impl NewFile {
    /// Begins a file that will replace `path`. The new file gets the permissions and the owner of the old one; without
    /// an old file, only its owner may access it.
    ///
    /// # Errors
    /// `path` is a directory, or a special file that must be refused; there are too many symbolic links; a system call
    /// fails.
    pub fn create(path: &Path, special: Special) -> io::Result<NewFile> {
        match (destination(path)?, special) {
            (Destination::Special(path), Special::WriteInto) => {
                // Append, so that an open file behind a descriptor keeps its contents.
                let file = OpenOptions::new().append(true).open(path)?;
                Ok(NewFile { file, unfinished: None })
            }
            (Destination::Special(_), Special::Refuse) => {
                Err(io::Error::other("it is no regular file"))
            }
            (Destination::File(end, old), _) => NewFile::next_to(end, old.as_ref()),
        }
    }

    fn next_to(end: PathBuf, old: Option<&Metadata>) -> io::Result<NewFile> {
        let name = end.file_name().ok_or_else(|| io::Error::other("it is no name of a file"))?;
        let name = format!(".{}.{}.tmp", name.display(), std::process::id());
        let path = end.with_file_name(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // A process with the same ID has left this file, or an attacker has placed a link here.
            _ => {}
        }
        // No other user must be able to open the file before it has its permissions: it may hold secrets.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let unfinished = Unfinished { path, end };
        if let Some(old) = old {
            // Only root may change the owner. Otherwise the new file belongs to the writer.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        }
        Ok(NewFile { file, unfinished: Some(unfinished) })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The errors of the system, such as a full disk or a pipe without a reader.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Syncs the file and renames it to its final name, durably.
    ///
    /// # Errors
    /// The file cannot be synced or renamed; the old file stays.
    pub fn publish(self) -> io::Result<()> {
        let Some(unfinished) = &self.unfinished else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(&unfinished.path, &unfinished.end)?;
        File::open(folder_of(&unfinished.end))?.sync_all()
    }
}

/// Replaces the contents of the regular file at `path`, or creates the file.
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::publish`].
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path, Special::Refuse)?;
    file.write(text)?;
    file.publish()
}

/// The target of a path.
enum Destination {
    /// A regular file; None if it does not exist yet.
    File(PathBuf, Option<Metadata>),
    /// Any other kind of file, which a rename would destroy.
    Special(PathBuf),
}

/// Follows symbolic links to the file to write.
fn destination(path: &Path) -> io::Result<Destination> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Destination::File(path, None));
            }
            Err(error) => return Err(error),
        };
        if found.is_file() {
            return Ok(Destination::File(path, Some(found)));
        }
        if found.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A link in `/proc` stands for an open file, regardless of its text.
        let is_magic = || folder_of(&path).canonicalize().map(|folder| folder.starts_with("/proc"));
        if !found.is_symlink() || is_magic()? {
            return Ok(Destination::Special(path));
        }
        path = folder_of(&path).join(fs::read_link(&path)?);
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}
