//! Writing a file as a whole: readers see the old text or the new one, also after a power cut.
//!
//! A regular file is written beside its place and renamed over it. Symbolic links are followed first, so that a link
//! stays one. Anything else (a device, a FIFO, an open file behind `/proc/self/fd`) must never be renamed over: it is
//! written into, or refused, as the caller decides.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Links that are followed before they count as a circle, as in Linux.
const LINKS_MAX: usize = 40;

/// The treatment of an existing path that is no regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// The text is written into it.
    WriteInto,
    /// The file is not opened.
    Refuse,
}

/// A file that gets its name when it is whole.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// The temporary name; None if the target itself is written.
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
        // It is gone if it has got its final name.
        let _ = fs::remove_file(&self.path);
    }
}

impl NewFile {
    /// Begins a file that will stand at `path`. It has the rights and the owner of the one that it replaces, or is for
    /// its owner only.
    ///
    /// # Errors
    /// `path` is a directory, or special and to be refused; links form a circle; the system refuses a step.
    pub fn create(path: &Path, special: Special) -> io::Result<NewFile> {
        match (place(path)?, special) {
            (Place::Special(path), Special::WriteInto) => {
                // An open file behind a descriptor keeps its contents.
                let file = OpenOptions::new().append(true).open(path)?;
                Ok(NewFile { file, unfinished: None })
            }
            (Place::Special(_), Special::Refuse) => Err(io::Error::other("it is no regular file")),
            (Place::File(end, old), _) => NewFile::beside(end, old.as_ref()),
        }
    }

    fn beside(end: PathBuf, old: Option<&Metadata>) -> io::Result<NewFile> {
        let name = end.file_name().ok_or_else(|| io::Error::other("it is no name of a file"))?;
        let name = format!(".{}.{}.tmp", name.display(), std::process::id());
        let path = end.with_file_name(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Left by a process with the same number, or a link planted to another file.
            _ => {}
        }
        // No other user may open it before it has its rights: it may hold secrets.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let unfinished = Unfinished { path, end };
        if let Some(old) = old {
            // Only root may give a file away; another owner's file becomes the writer's.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        }
        Ok(NewFile { file, unfinished: Some(unfinished) })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// As the system has them: a full disk, a pipe without a reader.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Puts the file in its place, on the disk.
    ///
    /// # Errors
    /// It cannot be synced or renamed; the old file stays.
    pub fn publish(self) -> io::Result<()> {
        let Some(unfinished) = &self.unfinished else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(&unfinished.path, &unfinished.end)?;
        File::open(folder_of(&unfinished.end))?.sync_all()
    }
}

/// Replaces the regular file at `path`, or makes one, with this text.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = NewFile::create(path, Special::Refuse)?;
    file.write(text)?;
    file.publish()
}

/// The target of a path.
enum Place {
    /// A regular file, if there is one yet.
    File(PathBuf, Option<Metadata>),
    /// Anything that a rename would destroy.
    Special(PathBuf),
}

/// Follows links to the file to write.
fn place(path: &Path) -> io::Result<Place> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Place::File(path, None));
            }
            Err(error) => return Err(error),
        };
        if found.is_file() {
            return Ok(Place::File(path, Some(found)));
        }
        if found.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A link there stands for an open file, whatever its text says.
        let is_magic = || folder_of(&path).canonicalize().map(|folder| folder.starts_with("/proc"));
        if !found.is_symlink() || is_magic()? {
            return Ok(Place::Special(path));
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
