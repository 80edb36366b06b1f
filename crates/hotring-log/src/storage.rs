//! What the log needs of files: a directory and the files in it. [`Disk`] is the one that touches a disk, [`Memory`]
//! tells tests what a crash may leave.
//!
//! What was written is safe from a power cut once the file was synced, and found again once the directory was.

mod disk;
pub mod memory;

use std::io;
use std::sync::Arc;

pub use disk::Disk;
pub use memory::Memory;

/// A directory.
pub trait Storage: Send + Sync {
    /// What a person calls it.
    fn place(&self) -> String;

    /// The names of the files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a file. It must not be there yet.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// A file that is there, to be read only.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// A file that is there, to be changed.
    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name, in place of the file that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes a file away.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Waits until no power cut undoes what was created, renamed and removed.
    fn sync(&self) -> io::Result<()>;
}

/// A file.
pub trait File: Send + Sync {
    /// Bytes in it.
    fn size(&self) -> io::Result<u64>;

    /// Reads what is at `at`; fewer bytes than there is room for are no sign of the end, none are.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// From where on there may be other bytes than zeros, at `at` or behind: the size if there are none. Whoever cannot
    /// tell says `at`.
    fn data_from(&self, at: u64) -> io::Result<u64> {
        Ok(at)
    }

    /// Writes all of it. If that fails, some of it may be there.
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Cuts the file, or fills it up with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Waits until no power cut takes what was written.
    fn sync(&self) -> io::Result<()>;

    /// Takes room for so many bytes, so that writing them changes no more than their content. They are zeros.
    fn preallocate(&self, len: u64) -> io::Result<()>;
}

/// Reads all that there is room for.
pub(crate) fn read_all_at(file: &dyn File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
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
