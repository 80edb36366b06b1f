//! The marks of a replica's directory.
//!
//! One says that a full copy is not finished: until it is removed, the directory has only a part of a primary's data,
//! and the next start must drop it. The other says that the data came by another replica: it may lack what was
//! acknowledged.

use std::io;

use crate::names::{BY_A_REPLICA, UNFINISHED_COPY};
use crate::storage::Storage;
use crate::writer::remove_all;

/// Marks that a copy is unfinished, and waits until no power cut undoes that.
pub fn mark_copy(storage: &dyn Storage) -> io::Result<()> {
    mark(storage, UNFINISHED_COPY)
}

/// Removes that mark, if it is there: all data is complete and on the disk.
pub fn unmark_copy(storage: &dyn Storage) -> io::Result<()> {
    unmark(storage, UNFINISHED_COPY)
}

/// Marks whether the data came by another replica, or is about to, and waits until no power cut undoes that.
pub fn mark_source(storage: &dyn Storage, is_replica: bool) -> io::Result<()> {
    match is_replica {
        true => mark(storage, BY_A_REPLICA),
        // Mostly it is not there, and nothing need be synced.
        false if !is_by_a_replica(storage)? => Ok(()),
        false => unmark(storage, BY_A_REPLICA),
    }
}

/// Whether the data came by another replica.
pub fn is_by_a_replica(storage: &dyn Storage) -> io::Result<bool> {
    is_there(storage, BY_A_REPLICA)
}

fn mark(storage: &dyn Storage, name: &str) -> io::Result<()> {
    match storage.create(name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    storage.sync()
}

fn unmark(storage: &dyn Storage, name: &str) -> io::Result<()> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    storage.sync()
}

fn is_there(storage: &dyn Storage, name: &str) -> io::Result<bool> {
    Ok(storage.list()?.iter().any(|found| found == name))
}

/// Removes the data of an unfinished copy, and then its mark. False if there is no mark.
pub fn drop_unfinished_copy(storage: &dyn Storage) -> io::Result<bool> {
    let is_marked = is_there(storage, UNFINISHED_COPY)?;
    if is_marked {
        remove_all(storage)?;
        unmark_copy(storage)?;
    }
    Ok(is_marked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Memory;

    #[test]
    fn only_the_data_of_an_unfinished_copy_is_dropped() {
        let memory = Memory::new();
        let storage: &dyn Storage = &memory;
        let data = [
            crate::names::MANIFEST.to_string(),
            crate::names::segment(1),
            crate::names::snapshot(7),
        ];
        for name in data.iter().map(String::as_str).chain(["other"]) {
            storage.create(name).unwrap();
        }
        assert!(!drop_unfinished_copy(storage).unwrap());
        mark_copy(storage).unwrap();
        mark_copy(storage).unwrap();
        unmark_copy(storage).unwrap();
        unmark_copy(storage).unwrap();
        assert!(!drop_unfinished_copy(storage).unwrap());
        assert_eq!(storage.list().unwrap().len(), 4);
        mark_copy(storage).unwrap();
        assert!(drop_unfinished_copy(storage).unwrap());
        assert_eq!(storage.list().unwrap(), ["other"]);
    }
    #[test]
    fn the_source_of_the_data_is_kept() {
        let memory = Memory::new();
        let storage: &dyn Storage = &memory;
        for is_replica in [false, true, true, false, false] {
            mark_source(storage, is_replica).unwrap();
            assert_eq!(is_by_a_replica(&memory.killed()).unwrap(), is_replica);
        }
        assert_eq!(storage.list().unwrap(), [""; 0]);
    }
}
