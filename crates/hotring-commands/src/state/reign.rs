//! The note on the disk by which a node of a cluster knows after a restart that it lost nothing of what it acknowledged
//! as primary.
//!
//! 1. There is a note only while the node's last epoch is its own: it is written once that has begun, and removed
//!    before the node takes anything from another primary. What it takes it acknowledges before its log has it.
//! 2. The note says how safe each reply was, at its weakest, and in which boot of the machine. After a power cut it
//!    holds only if each reply was synced.
//! 3. A note of a log that was closed holds once: the next start writes what holds from then on.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use hotring_log::AckWhen;

use crate::host::files::replace;

/// The name of the file.
const NAME: &str = "reign";

/// How the log of this start ends in place of a boot: in order.
const CLOSED: &str = "closed";

/// The note of a node.
#[derive(Debug, Default)]
pub struct Reign {
    /// The folder of the log; None if nothing is kept.
    folder: Option<PathBuf>,
    /// Which boot of the machine this is.
    boot: String,
    was_kept: bool,
}

impl Reign {
    /// The note of a node whose log is in this folder. `boot` differs after each boot of the machine, `when` says when
    /// replies leave from now on.
    ///
    /// # Errors
    /// The note cannot be replaced.
    pub fn open(folder: Option<&Path>, boot: String, when: AckWhen) -> io::Result<Reign> {
        let mut reign = Reign { folder: folder.map(Path::to_path_buf), boot, was_kept: false };
        if let Some((boot, kept)) = reign.read() {
            reign.was_kept = boot == CLOSED
                || kept == name_of(AckWhen::Synced)
                || kept == name_of(AckWhen::Written) && boot == reign.boot;
            if boot == CLOSED {
                reign.begin(when)?;
            }
        }
        Ok(reign)
    }

    /// Whether the node has lost nothing that it acknowledged as primary, as far as this start found out.
    pub fn was_kept(&self) -> bool {
        self.was_kept
    }

    /// An epoch of this node has begun.
    ///
    /// # Errors
    /// The note cannot be written: after a restart the node is not primary by itself.
    pub fn begin(&self, when: AckWhen) -> io::Result<()> {
        self.write(&self.boot, name_of(when))
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
        match self.read() {
            Some((boot, kept)) => {
                self.write(&boot, name_of(weakest(&kept).unwrap_or(AckWhen::Handed)))
            }
            None => Ok(()),
        }
    }

    /// The node is about to take records of another primary, or its log has lost records.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn end(&self) -> io::Result<()> {
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
        match self.read() {
            Some((_, kept)) => self.write(CLOSED, &kept),
            None => Ok(()),
        }
    }

    fn read(&self) -> Option<(String, String)> {
        let text = fs::read_to_string(self.folder.as_ref()?.join(NAME)).ok()?;
        let (boot, kept) = text.trim_end().split_once(' ')?;
        Some((boot.to_string(), kept.to_string()))
    }

    fn write(&self, boot: &str, kept: &str) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        replace(&folder.join(NAME), format!("{boot} {kept}\n").as_bytes())
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
        assert!(!folder.open("a", AckWhen::Synced).was_kept(), "it was never primary");
        for (when, same_boot, other_boot) in [
            (AckWhen::Handed, false, false),
            (AckWhen::Written, true, false),
            (AckWhen::Synced, true, true),
        ] {
            folder.open("a", when).begin(when).unwrap();
            assert_eq!(folder.open("a", when).was_kept(), same_boot, "{when:?}");
            assert_eq!(folder.open("b", when).was_kept(), other_boot, "{when:?}");
        }
    }

    #[test]
    fn the_weakest_mode_of_a_reign_counts() {
        let folder = Folder::new("change");
        let reign = folder.open("a", AckWhen::Synced);
        reign.begin(AckWhen::Synced).unwrap();
        reign.change(AckWhen::Written).unwrap();
        reign.change(AckWhen::Synced).unwrap();
        assert!(folder.open("a", AckWhen::Synced).was_kept());
        assert!(!folder.open("b", AckWhen::Synced).was_kept());
    }

    #[test]
    fn a_node_that_followed_another_since_is_suspect() {
        let folder = Folder::new("end");
        let reign = folder.open("a", AckWhen::Synced);
        reign.begin(AckWhen::Synced).unwrap();
        reign.end().unwrap();
        reign.end().unwrap();
        reign.close().unwrap();
        assert!(!folder.open("a", AckWhen::Synced).was_kept());
    }

    /// The log may be written again after the start that found it closed.
    #[test]
    fn a_closed_log_counts_for_one_start() {
        let folder = Folder::new("closed");
        let reign = folder.open("a", AckWhen::Written);
        reign.begin(AckWhen::Written).unwrap();
        reign.close().unwrap();
        assert!(folder.open("b", AckWhen::Written).was_kept());
        assert!(!folder.open("c", AckWhen::Written).was_kept());
        assert!(!Reign::open(None, "a".into(), AckWhen::Synced).unwrap().was_kept());
    }
}
