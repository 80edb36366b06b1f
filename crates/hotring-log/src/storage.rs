//! Storage of the log: a directory and its files. [`Disk`] uses a real disk; [`Memory`] simulates crashes
//! for tests.
//!
//! Written bytes survive a power cut once the file was synced; created, renamed and removed names
//! once the directory was.

mod disk;
pub mod memory;

use std::io;
use std::sync::Arc;

pub use disk::Disk;
pub use memory::Memory;

/// A directory.
pub trait Storage: Send + Sync {
    /// The name of the directory, for messages.
    fn location(&self) -> String;

    /// The names of the files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Creates a file, which must not exist.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for reading.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file for writing.
    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Renames a file, replacing one with the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Waits until no power cut undoes creations, renames and removals.
    fn sync(&self) -> io::Result<()>;
}

/// A file.
pub trait File: Send + Sync {
    /// The length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads at `at`. Fewer bytes than the buffer holds do not mean the end; 0 bytes do.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// The start of the next bytes at or behind `at` that may not be zeros; the size if there are
    /// none. `at` if that is unknown.
    fn data_from(&self, at: u64) -> io::Result<u64> {
        Ok(at)
    }

    /// Writes all bytes. After a failure, some may have been written.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Waits until no power cut loses the written bytes.
    fn sync(&self) -> io::Result<()>;

    /// Allocates space of zeros, so that writing there changes nothing but the content.
    fn preallocate(&self, len: u64) -> io::Result<()>;
}

/// Fills the buffer with the bytes at `at`. An error if the file ends before.
pub fn read_all_at(file: &dyn File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => (bytes, at) = (&mut bytes[len..], at + len as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
