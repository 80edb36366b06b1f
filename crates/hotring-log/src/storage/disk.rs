//! Files on the disk. No other code in the crate may use the file system.

use std::fs::{self, DirBuilder, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{File, Storage};
use crate::names;

/// The file whose lock marks the directory as in use.
const LOCK: &str = "lock";

/// A directory on the disk that no other process uses as its log.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    directory: fs::File,
    /// Held until drop. None for a directory that is only read and that no server has used.
    lock: Option<fs::File>,
    is_writable: bool,
}

impl Disk {
    /// Opens or creates the directory, and locks it.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Disk> {
        let path = path.into();
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let missing: Vec<_> = path.ancestors().take_while(|path| !path.exists()).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(named)?;
        // Otherwise a power cut may lose the entire directory.
        for made in missing.iter().filter_map(|path| path.parent()) {
            let made = if made.as_os_str().is_empty() { Path::new(".") } else { made };
            fs::File::open(made).and_then(|parent| parent.sync_all()).map_err(named)?;
        }
        let directory = fs::File::open(&path).map_err(named)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.join(LOCK)).map_err(named)?;
        lock_result(&path, lock.try_lock())?;
        Ok(Disk { path, directory, lock: Some(lock), is_writable: true })
    }

    /// Opens an existing directory for reading: other readers are allowed, a server is not. Needs
    /// no write permission, and changes nothing.
    pub fn open_to_read(path: impl Into<PathBuf>) -> io::Result<Disk> {
        let path = path.into();
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let directory = fs::File::open(&path).map_err(named)?;
        let lock = match fs::File::open(path.join(LOCK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(named)?),
        };
        lock.as_ref().map_or(Ok(()), |lock| lock_result(&path, lock.try_lock_shared()))?;
        Ok(Disk { path, directory, lock, is_writable: false })
    }

    /// Whether a folder holds a log or a snapshot. Changes nothing there and needs no lock.
    ///
    /// # Errors
    ///
    /// The folder exists but cannot be listed.
    pub fn holds_data(path: &Path) -> io::Result<bool> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            if name.to_str().is_some_and(names::is_data) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn open_file(&self, options: &OpenOptions, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(DiskFile(options.open(self.path.join(name))?)))
    }

    /// Refuses changes if opened for reading.
    fn check_writable(&self) -> io::Result<()> {
        if self.is_writable { Ok(()) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) }
    }
}

/// Turns the result of locking into an error message.
fn lock_result(path: &Path, lock: Result<(), TryLockError>) -> io::Result<()> {
    lock.map_err(|error| match error {
        TryLockError::WouldBlock => {
            let text = format!("{} is in use by another server", path.display());
            io::Error::new(io::ErrorKind::ResourceBusy, text)
        }
        TryLockError::Error(error) => {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        }
    })
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Closing the file is not enough: a freshly forked child process shares the lock until it
        // calls exec.
        if let Some(lock) = &self.lock {
            let _ = lock.unlock();
        }
    }
}

impl Storage for Disk {
    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not UTF-8 cannot be one of the log's.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.check_writable()?;
        self.open_file(OpenOptions::new().read(true).write(true).create_new(true).mode(0o600), name)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.open_file(OpenOptions::new().read(true), name)
    }

    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.check_writable()?;
        self.open_file(OpenOptions::new().read(true).write(true), name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.directory.sync_all()
    }
}

struct DiskFile(fs::File);

impl File for DiskFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(buffer, at)
    }

    fn data_from(&self, at: u64) -> io::Result<u64> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{SeekFrom, seek};
            match seek(&self.0, SeekFrom::Data(at)) {
                Ok(data) => Ok(data.max(at)),
                Err(rustix::io::Errno::NXIO) => self.size(),
                // The file system does not support seeking to data.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(at),
                Err(error) => Err(error.into()),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            Ok(at)
        }
    }

    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{FallocateFlags, fallocate};
            let take_room = || fallocate(&self.0, FallocateFlags::empty(), 0, len);
            match rustix::io::retry_on_intr(take_room) {
                // Without preallocation, only syncing is slower.
                Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = len;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("hotring-log-{}-{name}", std::process::id()));
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_has_one_user() {
        let folder = Folder::new("lock");
        let first = Disk::open(&folder.0).unwrap();
        let error = Disk::open(&folder.0).unwrap_err();
        assert!(error.to_string().contains(folder.0.to_str().unwrap()), "{error}");
        drop(first);
        Disk::open(&folder.0).unwrap();
    }

    /// Regression test: a server that ended while another thread of its process started a program
    /// left its folder locked.
    #[test]
    fn a_forked_process_keeps_no_lock() {
        let folder = Folder::new("forked");
        let first = Disk::open(&folder.0).unwrap();
        let _of_child = first.lock.as_ref().unwrap().try_clone().unwrap();
        drop(first);
        Disk::open(&folder.0).unwrap();
    }

    #[test]
    fn a_directory_that_is_read_stays_as_it_is() {
        let folder = Folder::new("read");
        assert!(Disk::open_to_read(&folder.0).is_err());
        assert!(!folder.0.exists(), "it was made");
        fs::create_dir(&folder.0).unwrap();
        fs::write(folder.0.join("a"), "a").unwrap();
        let disk = Disk::open_to_read(&folder.0).unwrap();
        let changes = [
            disk.create("b").map(drop),
            disk.open_to_write("a").map(drop),
            disk.rename("a", "b"),
            disk.remove("a"),
        ];
        for change in changes {
            assert_eq!(change.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(disk.list().unwrap(), ["a"]);
        // A reader keeps a server out, and the other way round, but not other readers.
        drop(Disk::open(&folder.0).unwrap());
        let readers = [(); 2].map(|()| Disk::open_to_read(&folder.0).unwrap());
        assert!(Disk::open(&folder.0).is_err());
        drop(readers);
        let _server = Disk::open(&folder.0).unwrap();
        assert!(Disk::open_to_read(&folder.0).is_err());
    }

    /// Regression test: the name of a snapshot was not recognised, so a folder with nothing else
    /// seemed empty.
    #[test]
    fn a_folder_holds_data_if_it_has_any_of_the_logs_files() {
        let folder = Folder::new("holds-data");
        assert!(!Disk::holds_data(&folder.0).unwrap());
        fs::create_dir(&folder.0).unwrap();
        for (name, is_data) in [
            ("log-00000000000000000001.hrl", true),
            ("snapshot-00000000000000000040.hrs", true),
            ("manifest.hrm", true),
            ("snapshot-00000000000000000040.tmp", false),
            ("snapshot-40.hrs", false),
            ("log-00000000000000000001.txt", false),
            (LOCK, false),
        ] {
            let path = folder.0.join(name);
            fs::write(&path, "").unwrap();
            assert_eq!(Disk::holds_data(&folder.0).unwrap(), is_data, "{name}");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn no_byte_is_passed_over_as_a_zero() {
        let folder = Folder::new("data");
        let disk = Disk::open(&folder.0).unwrap();
        let file = disk.create("a").unwrap();
        file.preallocate(1 << 20).unwrap();
        let positions = [0, 5, 70_000, 600_000];
        positions.iter().for_each(|at| file.write_all_at(b"x", *at).unwrap());
        for at in (0..1 << 20).step_by(1000) {
            let next =
                positions.iter().copied().find(|position| *position >= at).unwrap_or(1 << 20);
            let data = file.data_from(at).unwrap();
            assert!((at..=next).contains(&data), "{data} from {at} on");
        }
        assert_eq!(file.data_from(1 << 20).unwrap(), 1 << 20);
    }

    #[test]
    fn files_hold_the_written_bytes() {
        let folder = Folder::new("files");
        let disk = Disk::open(&folder.0).unwrap();
        let file = disk.create("a").unwrap();
        assert_eq!(disk.create("a").err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        file.preallocate(10_000).unwrap();
        file.write_all_at(b"abc", 5).unwrap();
        file.sync().unwrap();
        file.set_len(7).unwrap();
        disk.rename("a", "b").unwrap();
        disk.sync().unwrap();
        let file = disk.open("b").unwrap();
        let mut buffer = [9; 10];
        assert_eq!((file.size().unwrap(), file.read_at(&mut buffer, 0).unwrap()), (7, 7));
        assert_eq!(&buffer[..7], b"\0\0\0\0\0ab");
        assert!(file.write_all_at(b"x", 0).is_err());
        disk.open_to_write("b").unwrap().write_all_at(b"x", 0).unwrap();
        disk.remove("b").unwrap();
        assert_eq!(disk.list().unwrap(), [LOCK]);
    }
}
