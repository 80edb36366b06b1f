//! The manifest: a file that records outside of the segments how far the log was synced, so that the loss of whole
//! segments is noticed. Without it, the loss of the last segment would go unnoticed.
//!
//! ```text
//!  manifest.hrm
//!
//!  magic 8 | format u32 | zero u32 | store's id 16 | synced u64 | zero 20 | CRC-32C u32
//! ```
//! `synced`: all records up to this one were synced. The manifest is written once per segment, with the first sync of
//! a record in that segment and before that sync counts. So no segment with a synced record is newer than the
//! manifest. The file gets its name once its content is on the disk; the names of the segments must be on the disk
//! before.

use std::io;

use crate::names::{MANIFEST, UNFINISHED_MANIFEST};
use crate::record::Lsn;
use crate::segment::{BadHeader, Id, check_header};
use crate::storage::{Storage, read_all_at};

const LEN: usize = 64;
const MAGIC: &[u8; 8] = b"hotr-man";

/// The version that is written; readers accept it and all earlier versions.
const FORMAT: u32 = 1;

/// The content of the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) id: Id,
    pub(crate) synced: Lsn,
}

impl Manifest {
    fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id);
        bytes[32..40].copy_from_slice(&self.synced.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8; LEN]) -> Result<Manifest, BadHeader> {
        let id = check_header(bytes, MAGIC, FORMAT)?;
        let synced = u64::from_le_bytes(bytes[32..40].try_into().expect("8 bytes"));
        Ok(Manifest { id, synced })
    }

    /// Reads the manifest. Logs of earlier versions have none.
    pub(crate) fn read(storage: &dyn Storage) -> io::Result<Option<Result<Manifest, BadHeader>>> {
        let file = match storage.open(MANIFEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = [0; LEN];
        if file.size()? != LEN as u64 {
            return Ok(Some(Err(BadHeader::Damaged)));
        }
        read_all_at(&*file, &mut bytes, 0)?;
        Ok(Some(Manifest::of(&bytes)))
    }

    /// Replaces the manifest, and waits until no power cut undoes that. The names of the segments
    /// must be synced.
    pub(crate) fn write(self, storage: &dyn Storage) -> io::Result<()> {
        let file = match storage.create(UNFINISHED_MANIFEST) {
            // Left by a crash or by a failed attempt. The file is overwritten, not removed: after a
            // removal, a power cut could leave the old bytes under the new name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                storage.open_to_write(UNFINISHED_MANIFEST)?
            }
            created => created?,
        };
        file.write_all_at(&self.to_bytes(), 0)?;
        file.sync()?;
        storage.rename(UNFINISHED_MANIFEST, MANIFEST)?;
        storage.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;

    #[test]
    fn a_manifest_is_read_as_written_and_not_otherwise() {
        let storage = Memory::new();
        assert_eq!(Manifest::read(&storage).unwrap(), None);
        for synced in [7, 9] {
            let manifest = Manifest { id: [3; 16], synced };
            manifest.write(&storage).unwrap();
            assert_eq!(Manifest::read(&storage).unwrap(), Some(Ok(manifest)));
        }
        let bytes = storage.content(MANIFEST).unwrap();
        let read = |bytes: &[u8]| {
            storage.set_content(MANIFEST, bytes);
            Manifest::read(&storage).unwrap().unwrap()
        };
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&changed), Err(BadHeader::Damaged), "bit {bit}");
        }
        assert_eq!(read(&bytes[..LEN - 1]), Err(BadHeader::Damaged));
        let mut later = bytes;
        later[8] = 2;
        let crc = crc32c::crc32c(&later[..60]);
        later[60..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(read(&later), Err(BadHeader::Format(2)));
    }
}
