//! The embedded coordinator's own log: one file with the state at its beginning and the changes since.
//!
//! ```text
//!  coordinator-00000000000000000001.hrc
//!
//!  head:   magic 8 | format u32 | zero u32 | id 16 | number of the file u64 | zero 20 | CRC-32C u32
//!  frames: length of the body u32 | CRC-32C u32 | number u64, from 0 | body
//! ```
//! Numbers are little endian. Frame 0 holds the whole state, each later one a batch of steps that were synced
//! together. The checksum covers the file's id, the rest of the frame's head and the body; the id is random, so that
//! no value of a record passes for a frame.
//!
//! 1. A batch must be on the disk before anyone learns of its changes.
//! 2. A file must be on the disk as a whole before it gets its name, and its name before an earlier file is removed.
//! 3. A frame is written once all earlier ones are on the disk. So bytes that are no frame are the torn end of a batch
//!    without an answer if no later frame follows, and damage otherwise.
//! 4. Opening writes a new file. So nothing depends on bytes whose sync failed.

use std::fmt;
use std::io;
use std::sync::Arc;

use hotring_cluster::Moment;
use hotring_cluster::coded::Coded;
use hotring_cluster::keeper::{Keeper, Step};
use hotring_log::storage::{File, Storage, read_all_at};

const MAGIC: &[u8; 8] = b"hotr-crd";
const FORMAT: u32 = 1;
const HEAD_LEN: usize = 64;
const FRAME_HEAD_LEN: usize = 16;

/// The name of a file that has no name of its own yet.
const UNFINISHED: &str = "coordinator.tmp";

/// A file is replaced when it is longer than this, and than four times its state.
const LONG: u64 = 1 << 20;

type Id = [u8; 16];

/// Why a coordinator's folder cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The disk failed, or another process uses the folder.
    Disk(String),
    /// A file is damaged before changes that may have been acknowledged.
    Damaged {
        /// The file.
        file: String,
        /// The offset of the first byte that cannot be read.
        at: usize,
    },
    /// A later version wrote the file.
    Format {
        /// The file.
        file: String,
        /// The version of its format.
        version: u32,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Disk(why) => write!(f, "the coordinator's log: {why}"),
            OpenError::Damaged { file, at } => write!(
                f,
                "the coordinator's log {file} is damaged at byte {at}, before changes that were acknowledged. Restore \
                 its folder from a backup. Without one, move the file away: the coordinator then starts without records"
            ),
            OpenError::Format { file, version } => write!(
                f,
                "the coordinator's log {file} has format {version}, this version reads up to {FORMAT}: start the \
                 version that wrote it"
            ),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        OpenError::Disk(error.to_string())
    }
}

/// The log, open for writing. After a failure it must be opened again.
pub(crate) struct Log {
    storage: Arc<dyn Storage>,
    file: Arc<dyn File>,
    id: Id,
    /// The number of the file.
    number: u64,
    len: u64,
    /// The length of the state at the beginning.
    state_len: u64,
    /// The number of the next frame.
    next: u64,
}

impl Log {
    /// Reads the last file, and replaces it by a new one with this id. Without a file, the keeper is `fresh`.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        now: Moment,
        fresh: Keeper,
        id: Id,
    ) -> Result<(Log, Keeper), OpenError> {
        let last = storage.list()?.iter().filter_map(|name| number_of(name)).max();
        let keeper = match last {
            Some(number) => read(&*storage, number, now)?,
            None => fresh,
        };
        let log = Log::create(storage, last.unwrap_or(0) + 1, id, &keeper.to_bytes())?;
        Ok((log, keeper))
    }

    /// Whether much of the file is no longer needed.
    pub(crate) fn is_long(&self) -> bool {
        self.len > LONG && self.len > 4 * self.state_len
    }

    /// Adds a batch of steps, and waits until no power cut loses it.
    pub(crate) fn append(&mut self, steps: &[u8]) -> io::Result<()> {
        let frame = frame(&self.id, self.next, steps);
        self.file.write_all_at(&frame, self.len)?;
        self.file.sync()?;
        self.len += frame.len() as u64;
        self.next += 1;
        Ok(())
    }

    /// Goes on in a new file that begins with this state, and waits until no power cut loses that.
    pub(crate) fn replace(self, state: &[u8]) -> io::Result<Log> {
        Log::create(self.storage, self.number + 1, self.id, state)
    }

    fn create(storage: Arc<dyn Storage>, number: u64, id: Id, state: &[u8]) -> io::Result<Log> {
        let mut bytes = head(id, number).to_vec();
        bytes.extend_from_slice(&frame(&id, 0, state));
        let file = match storage.create(UNFINISHED) {
            // Left by a crash or by a failed attempt. The file is overwritten, not removed: after a removal, a power
            // cut could leave the old bytes under the new name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                storage.open_to_write(UNFINISHED)?
            }
            created => created?,
        };
        file.set_len(0)?;
        file.write_all_at(&bytes, 0)?;
        file.sync()?;
        storage.rename(UNFINISHED, &name_of(number))?;
        storage.sync()?;
        // A file that stays does no harm, and the next one removes it.
        let names = storage.list().unwrap_or_default();
        for name in names.iter().filter(|name| number_of(name).is_some_and(|n| n < number)) {
            let _ = storage.remove(name);
        }
        let len = bytes.len() as u64;
        Ok(Log { storage, file, id, number, len, state_len: len, next: 1 })
    }
}

fn name_of(number: u64) -> String {
    format!("coordinator-{number:020}.hrc")
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("coordinator-")?.strip_suffix(".hrc")?;
    digits.parse().ok().filter(|number| name_of(*number) == name)
}

fn head(id: Id, number: u64) -> [u8; HEAD_LEN] {
    let mut head = [0; HEAD_LEN];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    head[16..32].copy_from_slice(&id);
    head[32..40].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c::crc32c(&head[..60]);
    head[60..].copy_from_slice(&crc.to_le_bytes());
    head
}

fn frame(id: &Id, number: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_HEAD_LEN + body.len());
    (body.len() as u32).write(&mut frame);
    0u32.write(&mut frame);
    number.write(&mut frame);
    frame.extend_from_slice(body);
    let crc = checksum(id, &frame);
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    frame
}

fn checksum(id: &Id, frame: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(id), &frame[..4]);
    crc32c::crc32c_append(crc, &frame[8..])
}

/// The number and the body of the frame at the start of the bytes, if one is there.
fn frame_at<'a>(id: &Id, bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let mut input = bytes;
    let (len, crc) = <(u32, u32)>::read(&mut input)?;
    let number = u64::read(&mut input)?;
    let frame = bytes.get(..FRAME_HEAD_LEN + len as usize)?;
    (checksum(id, frame) == crc).then_some((number, &frame[FRAME_HEAD_LEN..]))
}

/// Whether a later frame than `number` begins anywhere in the bytes.
fn has_later(id: &Id, bytes: &[u8], number: u64) -> bool {
    // Only bytes that name a number which may be here are worth a checksum.
    let most = number + (bytes.len() / FRAME_HEAD_LEN) as u64;
    let may_be = |head: &[u8]| {
        let mut number_field = &head[8..];
        u64::read(&mut number_field).is_some_and(|n| n > number && n <= most)
    };
    let mut heads = bytes.windows(FRAME_HEAD_LEN).enumerate();
    heads.any(|(at, head)| may_be(head) && frame_at(id, &bytes[at..]).is_some())
}

fn read(storage: &dyn Storage, number: u64, now: Moment) -> Result<Keeper, OpenError> {
    let name = name_of(number);
    let bytes = content(storage, &name)?;
    let file = format!("{}/{name}", storage.location());
    let damaged = |at: usize| OpenError::Damaged { file: file.clone(), at };
    let id = id_of(&bytes, number).map_err(|version| match version {
        Some(version) => OpenError::Format { file: file.clone(), version },
        None => damaged(0),
    })?;
    let (_, state) = frame_at(&id, &bytes[HEAD_LEN..])
        .filter(|(number, _)| *number == 0)
        .ok_or_else(|| damaged(HEAD_LEN))?;
    let mut keeper = Keeper::from_bytes(now, state).ok_or_else(|| damaged(HEAD_LEN))?;
    let mut at = HEAD_LEN + FRAME_HEAD_LEN + state.len();
    for number in 1.. {
        let rest = &bytes[at..];
        match frame_at(&id, rest) {
            Some((found, steps)) if found == number => {
                redo(&mut keeper, now, steps).ok_or_else(|| damaged(at))?;
                at += FRAME_HEAD_LEN + steps.len();
            }
            // The end, or a batch that no request was told of.
            None if !has_later(&id, rest, number) => return Ok(keeper),
            _ => return Err(damaged(at)),
        }
    }
    unreachable!("a file ends before the numbers do")
}

fn redo(keeper: &mut Keeper, now: Moment, mut steps: &[u8]) -> Option<()> {
    while !steps.is_empty() {
        let step = Step::read(&mut steps)?;
        keeper.redo(now, &step).ok()?;
    }
    Some(())
}

/// The id of a file; the version of its format if that is a later one, None if the head is damaged.
fn id_of(bytes: &[u8], number: u64) -> Result<Id, Option<u32>> {
    let found: &[u8; HEAD_LEN] = bytes.first_chunk().ok_or(None)?;
    let crc = crc32c::crc32c(&found[..60]).to_le_bytes();
    if found[..8] != *MAGIC || found[60..] != crc {
        return Err(None);
    }
    let version = u32::from_le_bytes(found[8..12].try_into().expect("four bytes"));
    if version > FORMAT {
        return Err(Some(version));
    }
    let id: Id = found[16..32].try_into().expect("16 bytes");
    if *found == head(id, number) { Ok(id) } else { Err(None) }
}

fn content(storage: &dyn Storage, name: &str) -> io::Result<Vec<u8>> {
    let file = storage.open(name)?;
    let mut bytes = vec![0; file.size()? as usize];
    read_all_at(&*file, &mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hotring_cluster::coded::bytes_of;
    use hotring_cluster::kept::{Change, Transaction};
    use hotring_log::storage::Memory;

    use super::*;

    fn open(storage: &Memory) -> Result<(Log, Keeper), OpenError> {
        Log::open(Arc::new(storage.clone()), Duration::ZERO, Keeper::new(1), [7; 16])
    }

    fn step(value: u64) -> Step {
        let change = Change::Put { name: "n".into(), value: bytes_of(&value), lease: None };
        Step::Transact(Transaction { expect: vec![], changes: vec![change] })
    }

    /// A log with these batches, each of two steps.
    fn log(batches: u64) -> (Memory, Log, Keeper) {
        let storage = Memory::new();
        let (mut log, mut keeper) = open(&storage).unwrap();
        for n in 1..=batches {
            let steps = [step(100 * n), step(n)];
            steps.iter().for_each(|step| keeper.redo(Duration::ZERO, step).unwrap());
            log.append(&steps.iter().flat_map(bytes_of).collect::<Vec<u8>>()).unwrap();
        }
        (storage, log, keeper)
    }

    /// The revision of the log in a file with these bytes.
    fn revision(bytes: &[u8]) -> Result<u64, OpenError> {
        let storage = Memory::new();
        storage.set_content(&name_of(1), bytes);
        open(&storage).map(|(_, keeper)| keeper.revision())
    }

    #[test]
    fn a_log_is_read_as_written_and_replaced() {
        let (storage, log, keeper) = log(3);
        let (again, found) = open(&storage).unwrap();
        assert_eq!((found.read(), found.revision()), (keeper.read(), 6));
        assert_eq!((log.number, again.number), (1, 2));
        assert_eq!(storage.list().unwrap(), [name_of(2)]);
        let mut third = again.replace(&found.to_bytes()).unwrap();
        third.append(&bytes_of(&step(9))).unwrap();
        assert_eq!(storage.list().unwrap(), [name_of(3)]);
        assert_eq!(open(&storage).unwrap().1.revision(), 7);
    }

    #[test]
    fn a_torn_end_is_cut_off() {
        let (storage, log, _) = log(3);
        let bytes = storage.content(&name_of(1)).unwrap();
        let last = FRAME_HEAD_LEN + bytes_of(&step(1)).len() * 2;
        assert_eq!(log.len, bytes.len() as u64);
        for end in bytes.len() - last..bytes.len() {
            assert_eq!(revision(&bytes[..end]), Ok(4), "the first {end} bytes");
            // Space that was taken for bytes that never came.
            let zeros = vec![0; bytes.len() - end];
            let found = revision(&[&bytes[..end], &zeros].concat());
            assert!(found == Ok(4) || zeros == bytes[end..], "zeros from {end} on: {found:?}");
        }
        // The new file has the end no more, so a batch behind it is found.
        storage.set_content(&name_of(1), &bytes[..bytes.len() - 1]);
        let (mut log, _) = open(&storage).unwrap();
        log.append(&bytes_of(&step(9))).unwrap();
        assert_eq!(open(&storage).unwrap().1.revision(), 5);
    }

    #[test]
    fn damage_before_acknowledged_changes_is_refused() {
        let (storage, _, _) = log(3);
        let bytes = storage.content(&name_of(1)).unwrap();
        let last = bytes.len() - FRAME_HEAD_LEN - bytes_of(&step(1)).len() * 2;
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            match revision(&changed) {
                // Nothing tells the last batch from one that no request was told of.
                Ok(4) if bit / 8 >= last => {}
                Err(OpenError::Damaged { file, at }) if bit / 8 < last => {
                    assert!(file.ends_with(&name_of(1)) && at <= bit / 8, "bit {bit}: {at}");
                }
                other => panic!("bit {bit}: {other:?}"),
            }
        }
        let frame = bytes.len() - last;
        let left_out = [&bytes[..last - frame], &bytes[last..]].concat();
        assert!(matches!(revision(&left_out), Err(OpenError::Damaged { .. })));
        let twice = [&bytes[..], &bytes[last..]].concat();
        assert!(matches!(revision(&twice), Err(OpenError::Damaged { .. })));
        let why = revision(&left_out).unwrap_err().to_string();
        assert!(why.contains("from a backup"), "{why}");
    }

    #[test]
    fn a_file_of_a_later_version_is_refused() {
        let (storage, _, _) = log(0);
        let mut bytes = storage.content(&name_of(1)).unwrap();
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        let why = revision(&bytes).unwrap_err().to_string();
        assert!(why.contains("has format 2"), "{why}");
    }

    /// A value that holds a later frame of another file must not make a torn end look like damage.
    #[test]
    fn a_value_does_not_pass_for_a_frame() {
        let (storage, mut log, _) = log(1);
        let foreign = frame(&[8; 16], 3, b"body");
        let change = Change::Put { name: "n".into(), value: foreign, lease: None };
        let transaction = Transaction { expect: vec![], changes: vec![change] };
        log.append(&bytes_of(&Step::Transact(transaction))).unwrap();
        let bytes = storage.content(&name_of(1)).unwrap();
        assert_eq!(revision(&bytes[..bytes.len() - 1]), Ok(2));
    }
}
