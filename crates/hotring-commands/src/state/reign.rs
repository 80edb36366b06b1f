//! The note on the disk by which a node of a cluster knows after a restart that it lost nothing of what it acknowledged
//! as primary.
//!
//! 1. There is a note only while the node's last epoch is its own: it is written once that has begun, and removed
//!    before the node takes anything from another primary. What it takes it acknowledges before its log has it.
//!    It names that epoch: a log that does not have its beginning may lack anything before it, too.
//! 2. The note says how safe each reply was, at its weakest, and in which boot of the machine. After a power cut it
//!    holds only if each reply was synced.
//! 3. A note of a log that was closed holds once: the next start writes what holds from then on.
//! 4. A log that has lost records has no note until the next start, nor has one whose note no longer holds.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_cluster::Epoch;
use hotring_log::AckWhen;

use crate::host::files::replace;

/// The name of the file.
const NAME: &str = "reign";

/// How the log of this start ends in place of a boot: in order.
const CLOSED: &str = "closed";

/// What the file says.
struct Note {
    /// The boot of the machine, or [`CLOSED`].
    boot: String,
    /// How safe each reply was, as a value of the setting `log`.
    safety: String,
    /// The node's last epoch.
    epoch: Epoch,
}

/// The note of a node.
#[derive(Debug, Default)]
pub struct Reign {
    /// The folder of the log; None if nothing is kept.
    folder: Option<PathBuf>,
    /// Which boot of the machine this is.
    boot: String,
    kept: Option<Epoch>,
    /// Whether the log has lost records. Held while the note changes.
    has_lost: Mutex<bool>,
}

impl Reign {
    /// The note of a node whose log is in this folder. `boot` differs after each boot of the machine, `when` says when
    /// replies leave from now on.
    ///
    /// # Errors
    /// The note cannot be replaced.
    pub fn open(folder: Option<&Path>, boot: String, when: AckWhen) -> io::Result<Reign> {
        let folder = folder.map(Path::to_path_buf);
        let mut reign = Reign { folder, boot, kept: None, has_lost: Mutex::new(false) };
        if let Some(Note { boot, safety, epoch }) = reign.read() {
            let is_kept = boot == CLOSED
                || safety == name_of(AckWhen::Synced)
                || safety == name_of(AckWhen::Written) && boot == reign.boot;
            reign.kept = is_kept.then_some(epoch);
            match is_kept {
                // The orderly end of this start must not make it the note of a log that was closed.
                false => reign.remove()?,
                true if boot == CLOSED => reign.begin(epoch, when)?,
                true => {}
            }
        }
        Ok(reign)
    }

    /// The epoch of this node since whose beginning it has lost nothing that it acknowledged as primary, as far as
    /// this start found out: if its log has that beginning.
    pub fn kept(&self) -> Option<Epoch> {
        self.kept
    }

    /// This epoch of this node has begun.
    ///
    /// # Errors
    /// The note cannot be written: after a restart the node is not primary by itself.
    pub fn begin(&self, epoch: Epoch, when: AckWhen) -> io::Result<()> {
        match *self.lock() {
            true => Ok(()),
            false => self.write(&self.boot, name_of(when), epoch),
        }
    }

    /// Replies leave at another moment from now on.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn change(&self, when: AckWhen) -> io::Result<()> {
        let weakest = |kept: &str| {
            [AckWhen::Handed, AckWhen::Written, AckWhen::Synced]
                .into_iter()
                .find(|at| name_of(*at) == kept || *at == when)
        };
        let _changing = self.lock();
        let Some(Note { boot, safety, epoch }) = self.read() else { return Ok(()) };
        self.write(&boot, name_of(weakest(&safety).unwrap_or(AckWhen::Handed)), epoch)
    }

    /// The node is about to take records of another primary.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn end(&self) -> io::Result<()> {
        let _changing = self.lock();
        self.remove()
    }

    /// The log has lost records: until the next start there is no note, whatever epochs begin.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn abandon(&self) -> io::Result<()> {
        let mut has_lost = self.lock();
        *has_lost = true;
        self.remove()
    }

    fn remove(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        match fs::remove_file(folder.join(NAME)) {
            Ok(()) => File::open(folder)?.sync_all(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The log was closed in order, with all that this node has.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn close(&self) -> io::Result<()> {
        let _changing = self.lock();
        match self.read() {
            Some(Note { safety, epoch, .. }) => self.write(CLOSED, &safety, epoch),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        // The note is replaced as a whole.
        self.has_lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> Option<Note> {
        let text = fs::read_to_string(self.folder.as_ref()?.join(NAME)).ok()?;
        let mut words = text.split_whitespace().map(str::to_string);
        let (boot, safety) = (words.next()?, words.next()?);
        let epoch = Epoch(words.next()?.parse().ok()?);
        Some(Note { boot, safety, epoch })
    }

    fn write(&self, boot: &str, safety: &str, epoch: Epoch) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        replace(&folder.join(NAME), format!("{boot} {safety} {}\n", epoch.0).as_bytes())
    }
}

/// The setting `log` at which replies leave at this moment.
fn name_of(when: AckWhen) -> &'static str {
    match when {
        AckWhen::Handed => "async",
        AckWhen::Written => "everysec",
        AckWhen::Synced => "sync",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("hotring-reign-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn open(&self, boot: &str, when: AckWhen) -> Reign {
            Reign::open(Some(&self.0), boot.into(), when).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_log_that_is_not_synced_outlives_a_kill_but_no_power_cut() {
        let folder = Folder::new("modes");
        assert!(folder.open("a", AckWhen::Synced).kept().is_none(), "it was never primary");
        for (when, same_boot, other_boot) in [
            (AckWhen::Handed, false, false),
            (AckWhen::Written, true, false),
            (AckWhen::Synced, true, true),
        ] {
            folder.open("a", when).begin(Epoch(3), when).unwrap();
            assert_eq!(folder.open("a", when).kept().is_some(), same_boot, "{when:?}");
            assert_eq!(folder.open("b", when).kept().is_some(), other_boot, "{when:?}");
        }
    }

    /// A node that was refused after a power cut, and ended in order, counted as one that had lost nothing.
    #[test]
    fn an_orderly_end_makes_no_log_whole() {
        let folder = Folder::new("cut");
        folder.open("a", AckWhen::Written).begin(Epoch(3), AckWhen::Written).unwrap();
        let reign = folder.open("b", AckWhen::Written);
        assert_eq!(reign.kept(), None);
        reign.close().unwrap();
        assert_eq!(folder.open("b", AckWhen::Written).kept(), None);
    }

    #[test]
    fn the_weakest_mode_of_a_reign_counts() {
        let folder = Folder::new("change");
        let reign = folder.open("a", AckWhen::Synced);
        reign.begin(Epoch(3), AckWhen::Synced).unwrap();
        reign.change(AckWhen::Written).unwrap();
        reign.change(AckWhen::Synced).unwrap();
        assert!(folder.open("a", AckWhen::Synced).kept().is_some());
        assert!(folder.open("b", AckWhen::Synced).kept().is_none());
    }

    #[test]
    fn a_node_that_followed_another_since_is_suspect() {
        let folder = Folder::new("end");
        let reign = folder.open("a", AckWhen::Synced);
        reign.begin(Epoch(3), AckWhen::Synced).unwrap();
        reign.end().unwrap();
        reign.end().unwrap();
        reign.close().unwrap();
        assert!(folder.open("a", AckWhen::Synced).kept().is_none());
    }

    /// An epoch that began after the log had been abandoned left a note: a restart took the log for a whole one.
    #[test]
    fn no_epoch_is_noted_once_the_log_has_lost_records() {
        let folder = Folder::new("lost");
        let reign = folder.open("a", AckWhen::Synced);
        reign.begin(Epoch(3), AckWhen::Synced).unwrap();
        reign.abandon().unwrap();
        reign.begin(Epoch(5), AckWhen::Synced).unwrap();
        reign.close().unwrap();
        assert_eq!(folder.open("a", AckWhen::Synced).kept(), None);
    }

    /// The log may be written again after the start that found it closed.
    #[test]
    fn a_closed_log_counts_for_one_start() {
        let folder = Folder::new("closed");
        let reign = folder.open("a", AckWhen::Written);
        reign.begin(Epoch(3), AckWhen::Written).unwrap();
        reign.close().unwrap();
        assert_eq!(folder.open("b", AckWhen::Written).kept(), Some(Epoch(3)));
        assert!(folder.open("c", AckWhen::Written).kept().is_none());
        assert!(Reign::open(None, "a".into(), AckWhen::Synced).unwrap().kept().is_none());
    }
}
