//! The mark of a full copy that is not finished: until it is removed, the directory has only a part of a primary's
//! data, and the next start must drop it.

use std::io;

use crate::names::UNFINISHED_COPY;
use crate::storage::Storage;
use crate::writer::remove_all;

/// Sets the mark, and waits until no power cut undoes that.
pub fn mark_copy(storage: &dyn Storage) -> io::Result<()> {
    match storage.create(UNFINISHED_COPY) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    storage.sync()
}

/// Removes the mark, if it is there: all data is complete and on the disk.
pub fn unmark_copy(storage: &dyn Storage) -> io::Result<()> {
    match storage.remove(UNFINISHED_COPY) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    storage.sync()
}

/// Removes the data of an unfinished copy, and then its mark. False if there is no mark.
pub fn drop_unfinished_copy(storage: &dyn Storage) -> io::Result<bool> {
    let is_marked = storage.list()?.iter().any(|name| name == UNFINISHED_COPY);
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
}
