//! The destination of an export: standard output, a file that gets its name once it is complete, or
//! a device or FIFO.

use std::io::{self, Stdout, Write};
use std::path::Path;

use hotring_server::{NewFile, Special};

pub(super) enum Target {
    Stdout(Stdout),
    File(NewFile),
}

impl Target {
    pub(super) fn open(path: &Path) -> io::Result<Target> {
        if path == Path::new("-") {
            return Ok(Target::Stdout(io::stdout()));
        }
        NewFile::create(path, Special::WriteInto).map(Target::File)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Target::Stdout(stdout) => stdout.write_all(bytes),
            Target::File(file) => file.write(bytes),
        }
    }

    /// Completes the output.
    pub(super) fn publish(self) -> io::Result<()> {
        match self {
            Target::Stdout(mut stdout) => stdout.flush(),
            Target::File(file) => file.publish(),
        }
    }
}
