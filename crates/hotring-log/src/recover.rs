//! Recovery: reads the log, hands out its effects, and cuts off records that a crash left unfinished.
//!
//! The rule for damage: durable records and headers claim that the log was synced up to some
//! record, and such a claim is true wherever it is found. Up to the highest claim every record must
//! be intact; otherwise recovery fails, and the operator must decide. Behind it, an unreadable
//! record is the trace of a crash: recovery cuts it off together with everything that follows,
//! because records must never have a gap.
//!
//! Afterwards the log continues in a new segment whose header claims that the kept records are
//! synced; recovery syncs them first.

use std::fmt;
use std::io;
use std::ops::ControlFlow;

use crate::manifest::Manifest;
use crate::names;
use crate::record::Effect;
use crate::record::Lsn;
use crate::segment::{self, BadHeader, HEADER_LEN, Header, Id, mark};
use crate::storage::Storage;
use crate::walk::{Apply, Broken, Damage, Part, Reading, Refused, Take, Window};

/// The result of recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// The store's id, if there is a segment.
    pub id: Option<Id>,
    /// Records that were read.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the records that were needed, without earlier records in the same segments.
    pub needed: u64,
    /// Bytes of unfinished writes that were cut off.
    pub cut: u64,
    /// The number of the last record.
    pub last: Lsn,
    /// Segments that remain.
    pub segments: usize,
    /// Whether records were synced but there is no manifest, so that a loss of the last segments
    /// cannot be noticed.
    pub unguarded: bool,
    /// The last record's checksum.
    pub(crate) chain: u32,
}

impl Recovered {
    /// For a log whose first record will be `first`.
    pub fn nothing(first: Lsn) -> Recovered {
        Recovered { last: first - 1, ..Recovered::default() }
    }
}

/// Why the log was not recovered. Nothing was changed.
#[derive(Debug)]
pub enum RecoverError {
    /// A file cannot be read or truncated.
    Io {
        /// The file, or the directory.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// Synced records are damaged.
    Damaged {
        /// The directory.
        location: String,
        /// The segment.
        segment: String,
        /// The byte offset.
        at: u64,
        /// The kind of damage.
        damage: Damage,
        /// The first record that is lost.
        lost: Lsn,
        /// The last record that is known to have been synced.
        synced: Lsn,
    },
    /// The manifest cannot be read, so missing segments would go unnoticed.
    Manifest {
        /// The directory.
        location: String,
        /// The file.
        name: String,
    },
    /// A segment has a later version of the format.
    Format {
        /// The segment, or the manifest.
        segment: String,
        /// Its version.
        format: u32,
    },
    /// An intact record is of a kind that this version does not know.
    Unknown {
        /// The segment.
        segment: String,
        /// The byte offset.
        at: u64,
    },
    /// A segment belongs to another store.
    Foreign {
        /// The segment, or the manifest.
        segment: String,
    },
    /// The receiver of the effects stopped the recovery.
    Stopped,
}

/// Names the command that repairs the damage.
pub(crate) fn repair_hint(location: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+:@%".contains(&b);
    let location = match location.bytes().all(is_plain) {
        true => location.to_string(),
        false => format!("'{}'", location.replace('\'', r"'\''")),
    };
    format!(
        "`hotring check {location} --repair NEWDIR` copies what can be read to a new folder NEWDIR"
    )
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::Io { name, error } => write!(f, "{name}: {error}"),
            RecoverError::Damaged {
                location,
                segment,
                damage: Damage::Missing,
                lost,
                synced,
                ..
            } => {
                write!(
                    f,
                    "{location}/{segment} is missing, or is not where record {lost} belongs. Records {lost} to {synced} had \
                     been synced and are lost at least in part. {}",
                    repair_hint(location)
                )
            }
            RecoverError::Manifest { location, name } => write!(
                f,
                "{location}/{name} is damaged; without it, missing segments cannot be noticed. {}",
                repair_hint(location)
            ),
            RecoverError::Damaged { location, segment, at, damage, lost, synced } => write!(
                f,
                "{location}/{segment} is damaged at byte {at}: {damage}. Records {lost} to {synced} had been synced and \
                 are lost at least in part. {}",
                repair_hint(location)
            ),
            RecoverError::Format { segment, format } => {
                write!(
                    f,
                    "{segment} has format {format}: it was written by a later version of hotring and needs that version"
                )
            }
            RecoverError::Unknown { segment, at } => write!(
                f,
                "{segment} has a record of an unknown kind at byte {at}: a later version of hotring wrote it, and is \
                 needed to read it"
            ),
            RecoverError::Foreign { segment } => {
                write!(f, "{segment} belongs to another store: it has another id")
            }
            RecoverError::Stopped => f.write_str("reading the log was stopped"),
        }
    }
}

impl std::error::Error for RecoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecoverError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

fn io_error(name: &str) -> impl FnOnce(io::Error) -> RecoverError + '_ {
    move |error| RecoverError::Io { name: name.into(), error }
}

/// Reads the log and hands over the effects of each batch in order, with the number of its last
/// record. Unfinished writes of a crash are cut off. Records before `from` are not handed over, and
/// their segments may be missing. If the store's id is given, only its segments are accepted.
pub fn recover(
    storage: &dyn Storage,
    id: Option<Id>,
    from: Lsn,
    apply: &mut Apply<'_>,
) -> Result<Recovered, RecoverError> {
    recover_behind(storage, id, (from, 0), &mut to_the_end(apply))
}

/// Never stops the recovery.
fn to_the_end(apply: &mut Apply<'_>) -> impl FnMut(Lsn, &[Effect<'_>]) -> ControlFlow<()> {
    |last, effects| {
        apply(last, effects);
        ControlFlow::Continue(())
    }
}

/// Like [`recover`], for a caller that knows from another source that all records up to `synced`
/// were synced. If `take` breaks, recovery ends with [`RecoverError::Stopped`] and changes nothing.
pub fn recover_behind(
    storage: &dyn Storage,
    id: Option<Id>,
    (from, synced): (Lsn, Lsn),
    take: &mut Take<'_>,
) -> Result<Recovered, RecoverError> {
    let mut walk = Walk::new(storage, id, from)?;
    walk.claim = walk.claim.max(synced);
    if let Some(fault) = walk.fault.take() {
        return Err(fault);
    }
    let broken = walk.run(take)?;
    walk.ends_well(broken.as_ref())?;
    let claim = match &broken {
        None => walk.claim,
        Some(broken) => walk.judge(broken)?,
    };
    let cut = walk.cut(broken.as_ref())?;
    walk.settle(claim)?;
    let unguarded = walk.is_unguarded();
    let Walk { id, next, chain, parts, skipped, .. } = walk;
    let bytes = parts.iter().map(|part| part.end - HEADER_LEN).sum();
    Ok(Recovered {
        id,
        records: parts.iter().map(|part| part.records).sum(),
        bytes,
        needed: bytes - skipped,
        cut,
        last: next.max(from) - 1,
        segments: parts.len(),
        unguarded,
        chain,
    })
}

/// The result of [`check`].
#[derive(Debug)]
pub struct Checked {
    /// The store's id, if a header could be read.
    pub id: Option<Id>,
    /// The readable parts, by segment.
    pub parts: Vec<Part>,
    /// The number of the last record.
    pub last: Lsn,
    /// Where reading ended before the end of the log, if recovery would cut it off: the segment,
    /// the byte, and the damage.
    pub torn: Option<(String, u64, Damage)>,
    /// As [`Recovered::unguarded`].
    pub unguarded: bool,
    /// Why recovery would fail.
    pub error: Option<RecoverError>,
}

/// Reports the result that [`recover`] would have, without changing anything.
pub fn check(
    storage: &dyn Storage,
    id: Option<Id>,
    from: Lsn,
    apply: &mut Apply<'_>,
) -> Result<Checked, RecoverError> {
    let mut walk = Walk::new(storage, id, from)?;
    let (mut torn, mut error) = (None, None);
    match walk.run(&mut to_the_end(apply)) {
        Err(refused) => error = Some(refused),
        Ok(None) => error = walk.ends_well(None).err(),
        Ok(Some(broken)) => {
            match walk.ends_well(Some(&broken)).and_then(|()| walk.judge(&broken)) {
                Ok(_) => {
                    torn = Some((walk.segments[broken.index].1.clone(), broken.at, broken.damage));
                }
                Err(damaged) => error = Some(damaged),
            }
        }
    }
    let (unguarded, last) = (walk.is_unguarded(), walk.next.max(from) - 1);
    let error = error.or(walk.fault);
    Ok(Checked { id: walk.id, parts: walk.parts, last, torn, unguarded, error })
}

/// A walk through the segments.
struct Walk<'a> {
    storage: &'a dyn Storage,
    segments: Vec<(Lsn, String)>,
    id: Option<Id>,
    from: Lsn,
    /// The next record.
    next: Lsn,
    /// The last record's checksum.
    chain: u32,
    /// The last record that is known to have been synced.
    claim: Lsn,
    /// The store of the manifest, if there is one.
    owner: Option<Id>,
    /// The fault of the manifest.
    fault: Option<RecoverError>,
    parts: Vec<Part>,
    /// Bytes before `from`.
    skipped: u64,
}

impl<'a> Walk<'a> {
    fn new(storage: &'a dyn Storage, id: Option<Id>, from: Lsn) -> Result<Self, RecoverError> {
        let mut segments = segment::list(storage).map_err(io_error(&storage.location()))?;
        // Segments before the one that has `from` are not needed.
        let needed = segments.iter().rposition(|(first, _)| *first <= from);
        segments.drain(..needed.unwrap_or(0));
        let name = names::MANIFEST;
        let (mut owner, mut claim, mut fault) = (None, 0, None);
        match Manifest::read(storage).map_err(io_error(name))? {
            None => {}
            Some(Ok(manifest)) => (owner, claim) = (Some(manifest.id), manifest.synced),
            Some(Err(BadHeader::Damaged)) => {
                let location = storage.location();
                fault = Some(RecoverError::Manifest { location, name: name.into() });
            }
            Some(Err(BadHeader::Format(format))) => {
                fault = Some(RecoverError::Format { segment: name.into(), format });
            }
        }
        let (next, parts) = (from, Vec::new());
        Ok(Walk {
            storage,
            segments,
            id,
            from,
            next,
            chain: 0,
            claim,
            owner,
            fault,
            parts,
            skipped: 0,
        })
    }

    /// Reads to the end, or to the first damage.
    fn run(&mut self, apply: &mut Take<'_>) -> Result<Option<Broken>, RecoverError> {
        // The damage at which the previous segment ended, if any. It is harmless if the next
        // segment follows the records read: then nothing is missing between the two.
        let mut before: Option<Broken> = None;
        for index in 0..self.segments.len() {
            let (first, name) = self.segments[index].clone();
            let mut window = Window::open(self.storage, &name).map_err(io_error(&name))?;
            let lost = self.next;
            let header = match self.enter(&mut window, first, &name)? {
                Ok(header) => header,
                Err(damage) => {
                    let here = Broken { index, at: 0, damage, lost };
                    return Ok(Some(before.unwrap_or(here)));
                }
            };
            before = self.read(index, window, header, apply)?;
        }
        Ok(before)
    }

    /// Whether this segment follows the records read.
    fn enter(
        &mut self,
        window: &mut Window,
        first: Lsn,
        name: &str,
    ) -> Result<Result<Header, Damage>, RecoverError> {
        let Some(header) = self.header(window, name)? else { return Ok(Err(Damage::Header)) };
        if header.first != first {
            return Ok(Err(Damage::Header));
        }
        if self.parts.is_empty() {
            if first > self.from {
                return Ok(Err(Damage::Missing));
            }
            (self.next, self.chain) = (first, header.chain);
        } else if first > self.next {
            return Ok(Err(Damage::Missing));
        } else if first != self.next {
            return Ok(Err(Damage::Number { found: first }));
        } else if header.chain != self.chain {
            return Ok(Err(Damage::Chain));
        }
        self.claim = self.claim.max(header.synced);
        Ok(Ok(header))
    }

    /// The header of a segment of this store; None if it is damaged.
    fn header(&mut self, window: &mut Window, name: &str) -> Result<Option<Header>, RecoverError> {
        let header = window.header().map_err(|refused| explain(name, refused))?;
        if let Some(header) = header
            && *self.id.get_or_insert(header.id) != header.id
        {
            return Err(RecoverError::Foreign { segment: name.into() });
        }
        Ok(header)
    }

    fn read(
        &mut self,
        index: usize,
        window: Window,
        header: Header,
        apply: &mut Take<'_>,
    ) -> Result<Option<Broken>, RecoverError> {
        let (first, name) = self.segments[index].clone();
        let Walk { from, next, chain, claim, .. } = *self;
        let mut reading = Reading {
            window,
            header,
            from,
            apply,
            next,
            chain,
            claim,
            records: 0,
            end: HEADER_LEN,
            skipped: 0,
            batch: Vec::new(),
        };
        let stopped = reading.run().map_err(|refused| explain(&name, refused))?;
        let (lost, len) = (reading.lost(), reading.window.len());
        let broken = stopped.map(|(at, damage)| Broken { index, at, damage, lost });
        self.parts.push(Part { name, first, records: reading.records, end: reading.end, len });
        self.skipped += reading.skipped;
        // An incomplete batch does not count.
        (self.next, self.chain, self.claim) = (lost, reading.chain, reading.claim);
        Ok(broken)
    }

    /// Refuses a manifest of another store, and a log that ends properly but before its synced end.
    fn ends_well(&self, broken: Option<&Broken>) -> Result<(), RecoverError> {
        if let (Some(id), Some(owner)) = (self.id, self.owner)
            && id != owner
        {
            return Err(RecoverError::Foreign { segment: names::MANIFEST.into() });
        }
        if broken.is_some() || self.next > self.claim {
            return Ok(());
        }
        // If only the last segment's end were lost, a part of a record or zeros would remain.
        Err(self.missing(self.claim))
    }

    /// Whether segments could have been lost together with the manifest. The first sync of a record
    /// writes one; only logs of earlier versions lack it.
    fn is_unguarded(&self) -> bool {
        self.owner.is_none() && self.fault.is_none() && self.claim > 0
    }

    /// The error for a segment missing behind the last record read.
    fn missing(&self, synced: Lsn) -> RecoverError {
        RecoverError::Damaged {
            location: self.storage.location(),
            segment: names::segment(self.next),
            at: 0,
            damage: Damage::Missing,
            lost: self.next,
            synced,
        }
    }

    /// Fails if any of the lost records had been synced; otherwise returns the last synced record.
    fn judge(&mut self, broken: &Broken) -> Result<Lsn, RecoverError> {
        let mut synced = self.claim;
        for index in broken.index..self.segments.len() {
            let name = self.segments[index].1.clone();
            let mut window = Window::open(self.storage, &name).map_err(io_error(&name))?;
            let header = self.header(&mut window, &name)?;
            synced = synced.max(header.map_or(0, |header| header.synced));
            let at = if index == broken.index { broken.at } else { 0 };
            let mark = self.id.as_ref().map(mark);
            synced = synced.max(window.remains(at, mark).map_err(io_error(&name))?.0);
        }
        if synced < broken.lost {
            return Ok(synced);
        }
        if broken.damage == Damage::Missing {
            return Err(self.missing(synced));
        }
        Err(RecoverError::Damaged {
            location: self.storage.location(),
            segment: self.segments[broken.index].1.clone(),
            at: broken.at,
            damage: broken.damage,
            lost: broken.lost,
            synced,
        })
    }

    /// Cuts off everything behind the last complete batch, and removes segments without one.
    /// Returns the number of bytes cut off, without preallocated space.
    fn cut(&mut self, broken: Option<&Broken>) -> Result<u64, RecoverError> {
        while self.parts.last().is_some_and(|part| part.records == 0) {
            self.parts.pop();
        }
        let mut cut = 0;
        let mut removed = false;
        // From the last one on, so that an interruption leaves no gap.
        for (_, name) in self.segments[self.parts.len()..].iter().rev() {
            if broken.is_some() {
                let mut window = Window::open(self.storage, name).map_err(io_error(name))?;
                cut += window.remains(0, None).map_err(io_error(name))?.1;
            }
            self.storage.remove(name).map_err(io_error(name))?;
            removed = true;
        }
        if let Some(Part { name, end, len, .. }) = self.parts.last().filter(|p| p.end < p.len) {
            let mut window = Window::open(self.storage, name).map_err(io_error(name))?;
            cut += window.remains(*end, None).map_err(io_error(name))?.1 - end;
            debug_assert!(end < len);
            let file = self.storage.open_to_write(name).map_err(io_error(name))?;
            file.set_len(*end).and_then(|()| file.sync()).map_err(io_error(name))?;
        }
        if removed || broken.is_some() {
            self.storage.sync().map_err(io_error(&self.storage.location()))?;
        }
        Ok(cut)
    }

    /// Syncs the kept records that are not known to be synced.
    fn settle(&self, claim: Lsn) -> Result<(), RecoverError> {
        let unsure = |part: &&Part| part.records > 0 && part.first + part.records - 1 > claim;
        for Part { name, .. } in self.parts.iter().filter(unsure) {
            let file = self.storage.open_to_write(name).map_err(io_error(name))?;
            file.sync().map_err(io_error(name))?;
        }
        self.storage.sync().map_err(io_error(&self.storage.location()))
    }
}

fn explain(name: &str, refused: Refused) -> RecoverError {
    let segment = name.into();
    match refused {
        Refused::Io(error) => RecoverError::Io { name: segment, error },
        Refused::Format(format) => RecoverError::Format { segment, format },
        Refused::Stopped => RecoverError::Stopped,
        Refused::Unknown(at) => RecoverError::Unknown { segment, at },
    }
}
