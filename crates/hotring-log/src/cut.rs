//! Cuts the log behind a record: a replica drops what its primary does not have.
//!
//! At each moment of a cut the directory has a log that can be recovered, which ends with the record or later: the
//! manifest claims no more before the first record goes, segments go from the last one on, and no step begins before
//! the one before it is on the disk.

use std::io;
use std::ops::ControlFlow;

use crate::manifest::Manifest;
use crate::record::Lsn;
use crate::segment::{self, HEADER_LEN, Header, Id};
use crate::storage::{Storage, read_all_at};
use crate::walk::{Reading, Refused, Window};

/// Removes the records behind this one, the last of its batch, from a log that is synced. Returns its checksum.
pub(crate) fn cut_behind(storage: &dyn Storage, id: Id, last: Lsn) -> io::Result<u32> {
    let claims_more = |manifest: &Manifest| manifest.synced > last;
    if Manifest::read(storage)?.and_then(Result::ok).as_ref().is_some_and(claims_more) {
        Manifest { id, synced: last }.write(storage)?;
    }
    let mut chain = None;
    for (first, name) in segment::list(storage)?.into_iter().rev() {
        if first <= last {
            chain = Some(cut_segment(storage, &name, last)?);
            break;
        }
        chain = (first == last + 1).then(|| chain_before(storage, &name)).transpose()?;
        storage.remove(&name)?;
        storage.sync()?;
    }
    // Without any records there is nothing to follow.
    Ok(chain.unwrap_or(0))
}

/// The checksum of the record before a segment.
fn chain_before(storage: &dyn Storage, name: &str) -> io::Result<u32> {
    let mut bytes = [0; HEADER_LEN as usize];
    read_all_at(&*storage.open(name)?, &mut bytes, 0)?;
    let header = Header::read(&bytes);
    Ok(header.map_err(|_| io::Error::other(format!("the header of {name} is damaged")))?.chain)
}

/// Removes the records behind this one from its segment. Returns its checksum.
fn cut_segment(storage: &dyn Storage, name: &str, last: Lsn) -> io::Result<u32> {
    let unreadable = || io::Error::other(format!("record {last} cannot be read in {name}"));
    let mut window = Window::open(storage, name)?;
    let header = window.header().ok().flatten().ok_or_else(unreadable)?;
    let mut stop = |_: Lsn, _: &[crate::Effect<'_>]| ControlFlow::Break(());
    let mut reading = Reading {
        next: header.first,
        chain: header.chain,
        window,
        header,
        from: last,
        apply: &mut stop,
        claim: 0,
        records: 0,
        end: HEADER_LEN,
        skipped: 0,
        batch: Vec::new(),
    };
    // The batch that ends with the record is the first to be handed over.
    match reading.run() {
        Err(Refused::Stopped) if reading.next == last + 1 => {}
        Err(Refused::Io(error)) => return Err(error),
        _ => return Err(unreadable()),
    }
    let file = storage.open_to_write(name)?;
    file.set_len(reading.end)?;
    file.sync()?;
    Ok(reading.chain)
}
