//! The file that an export becomes: written under another name beside it, synced, and renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(super) enum Target {
    Stdout(Stdout),
    File(Unfinished),
}

/// A file that goes away if it is not finished.
pub(super) struct Unfinished {
    file: File,
    /// What it is called now, and at the end.
    path: PathBuf,
    end: PathBuf,
}

impl Target {
    pub(super) fn open(path: &Path) -> io::Result<Target> {
        if path == Path::new("-") {
            return Ok(Target::Stdout(io::stdout()));
        }
        let name = path.file_name().ok_or_else(|| io::Error::other("it is no name of a file"))?;
        let name = format!(".{}.{}.tmp", name.display(), std::process::id());
        let unfinished = path.with_file_name(name);
        // Values are nobody else's business.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        Ok(Target::File(Unfinished { file, path: unfinished, end: path.to_path_buf() }))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Target::Stdout(stdout) => stdout.write_all(bytes),
            Target::File(unfinished) => unfinished.file.write_all(bytes),
        }
    }

    /// All is written: the file gets its name.
    pub(super) fn publish(self) -> io::Result<()> {
        match self {
            Target::Stdout(mut stdout) => stdout.flush(),
            Target::File(unfinished) => {
                unfinished.file.sync_all()?;
                fs::rename(&unfinished.path, &unfinished.end)?;
                let folder = unfinished.end.parent().filter(|path| *path != Path::new(""));
                File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
            }
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It is not there any more if it has got its name.
        let _ = fs::remove_file(&self.path);
    }
}
