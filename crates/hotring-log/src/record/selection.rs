//! The records of some keys out of a stream: what a primary sends of its own records while these keys move to another
//! store.
//!
//! The stream comes in pieces that end anywhere. Of a record that is not wanted only the beginning is looked at, up to
//! its key; of one that is wanted the body is copied once. What comes out are *selected batches*: the records of each
//! batch as packed effects, each with 0x80 in its type if the next one takes effect together with it. They have no
//! numbers, which would have gaps.

use std::fmt;

use super::read::{effect, read_leb128};
use super::{
    CHANGE, CLEAR, DATABASE, DURABLE, EPOCHS, EXPIRE, Effect, HEAD_LEN, Lsn, MORE, ORDER, PIN, PUT,
    PUT_EXPIRING, REMOVE, UNPIN, word,
};

/// Picks the records of some keys out of a stream.
pub struct Selection {
    /// The last record that was taken to its end, and the last one behind which a batch ended.
    last: Lsn,
    passed: Lsn,
    /// The beginning of a record whose key has not come yet.
    begun: Vec<u8>,
    /// The record whose key is known and whose rest is still to come.
    record: Option<Rest>,
    /// The database of the next record.
    database_id: u8,
    /// What was selected, and where its last complete batch ends.
    selected: Vec<u8>,
    complete: usize,
    /// Where the last selected record of the present batch begins.
    latest: Option<usize>,
    cleared: Option<Lsn>,
}

/// The rest of a record.
struct Rest {
    len: usize,
    more: bool,
    /// For a record that is wanted: its checksum so far, and in the end.
    checksums: Option<(u32, u32)>,
}

/// Why bytes do not continue a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadStream {
    /// A record has another number than the expected one.
    Gap {
        /// The expected number.
        expected: Lsn,
        /// The number found.
        found: Lsn,
    },
    /// This record cannot be read.
    Damaged(Lsn),
}

impl fmt::Display for BadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadStream::Gap { expected, found } => {
                write!(f, "record {found} is where record {expected} is expected")
            }
            BadStream::Damaged(lsn) => write!(f, "record {lsn} cannot be read"),
        }
    }
}

impl std::error::Error for BadStream {}

impl Selection {
    /// Begins behind this record, which must be the last of its batch.
    pub fn new(after: Lsn) -> Selection {
        Selection {
            last: after,
            passed: after,
            begun: Vec::new(),
            record: None,
            database_id: 0,
            selected: Vec::new(),
            complete: 0,
            latest: None,
            cleared: None,
        }
    }

    /// Takes the next bytes of the stream. `is_wanted` says which keys of database 0 are selected.
    ///
    /// # Errors
    /// The selection is of no use afterwards.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<(), BadStream> {
        while !bytes.is_empty() {
            bytes = match self.record {
                Some(_) => self.go_on(bytes)?,
                None => self.begin(bytes, &is_wanted)?,
            };
        }
        Ok(())
    }

    /// The last record behind which a batch ended: all up to it were taken, wanted or not.
    pub fn passed(&self) -> Lsn {
        self.passed
    }

    /// The last record that removed all keys, or moved them to another database, if there was one.
    pub fn cleared(&self) -> Option<Lsn> {
        self.cleared
    }

    /// Bytes of complete batches that were not handed out yet.
    pub fn selected_len(&self) -> usize {
        self.complete
    }

    /// Hands out the selected batches that are complete. [`selected_batches`] reads them.
    pub fn drain(&mut self) -> Vec<u8> {
        let begun = self.selected.split_off(self.complete);
        self.latest = self.latest.map(|at| at - self.complete);
        self.complete = 0;
        std::mem::replace(&mut self.selected, begun)
    }

    /// Looks at the beginning of a record. Returns the bytes behind.
    fn begin<'b>(
        &mut self,
        bytes: &'b [u8],
        is_wanted: &impl Fn(&[u8]) -> bool,
    ) -> Result<&'b [u8], BadStream> {
        if self.begun.is_empty() {
            return match Front::of(bytes) {
                Ok(front) => {
                    self.decide(&bytes[..front.len], &front, is_wanted)?;
                    Ok(&bytes[front.len..])
                }
                Err(_) => {
                    self.begun.extend_from_slice(bytes);
                    Ok(&[])
                }
            };
        }
        // No more than is needed, as the rest of a record is copied directly.
        let needed = Front::of(&self.begun).map_or_else(|needed| needed, |front| front.len);
        let (next, behind) = bytes.split_at((needed - self.begun.len()).min(bytes.len()));
        self.begun.extend_from_slice(next);
        if let Ok(front) = Front::of(&self.begun) {
            let begun = std::mem::take(&mut self.begun);
            self.decide(&begun, &front, is_wanted)?;
        }
        Ok(behind)
    }

    /// Decides on a record, whose beginning this is.
    fn decide(
        &mut self,
        bytes: &[u8],
        front: &Front,
        is_wanted: &impl Fn(&[u8]) -> bool,
    ) -> Result<(), BadStream> {
        let lsn = u64::from_le_bytes(bytes[8..HEAD_LEN].try_into().expect("eight bytes"));
        let expected = self.last + 1;
        if lsn != expected {
            return Err(BadStream::Gap { expected, found: lsn });
        }
        match front.kind {
            // The log's own records are never sent.
            kind if kind == DURABLE || !(PUT..=EPOCHS).contains(&kind) => {
                return Err(BadStream::Damaged(lsn));
            }
            CLEAR if self.database_id == 0 => self.cleared = Some(lsn),
            ORDER => self.cleared = Some(lsn),
            DATABASE => self.database_id = bytes[front.len - 1],
            _ => {}
        }
        let key = front.key_at.map(|at| &bytes[at..front.len]);
        let is_selected = self.database_id == 0 && key.is_some_and(is_wanted);
        if is_selected {
            self.latest = Some(self.selected.len());
            let body_len = (front.record_len - HEAD_LEN) as u32;
            self.selected.extend_from_slice(&body_len.to_le_bytes());
            self.selected.push(front.kind | MORE);
            self.selected.extend_from_slice(&bytes[HEAD_LEN + 1..]);
        }
        let checksum = u32::from_le_bytes(word(&bytes[4..]));
        self.record = Some(Rest {
            len: front.record_len - front.len,
            more: bytes[HEAD_LEN] & MORE != 0,
            checksums: is_selected.then(|| (crc32c::crc32c(&bytes[8..]), checksum)),
        });
        self.go_on(&[]).map(|_| ())
    }

    /// Takes bytes of the present record. Returns those behind it.
    fn go_on<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], BadStream> {
        let Some(rest) = &mut self.record else { return Ok(bytes) };
        let (taken, behind) = bytes.split_at(rest.len.min(bytes.len()));
        rest.len -= taken.len();
        if let Some((crc, _)) = &mut rest.checksums {
            *crc = crc32c::crc32c_append(*crc, taken);
            self.selected.extend_from_slice(taken);
        }
        if rest.len > 0 {
            return Ok(behind);
        }
        let (more, checksums) = (rest.more, rest.checksums);
        self.record = None;
        self.last += 1;
        if checksums.is_some_and(|(crc, expected)| crc != expected) {
            return Err(BadStream::Damaged(self.last));
        }
        if !more {
            self.end_batch();
        }
        Ok(behind)
    }

    fn end_batch(&mut self) {
        if let Some(at) = self.latest.take() {
            self.selected[at + 4] &= !MORE;
        }
        (self.passed, self.database_id, self.complete) = (self.last, 0, self.selected.len());
    }
}

/// The beginning of a record, up to the end of its key.
struct Front {
    len: usize,
    kind: u8,
    /// Where the key begins, if the record has one.
    key_at: Option<usize>,
    record_len: usize,
}

impl Front {
    /// Fails with the number of bytes that are needed at least.
    fn of(bytes: &[u8]) -> Result<Front, usize> {
        const BODY_AT: usize = HEAD_LEN + 1;
        let head: &[u8; BODY_AT] = bytes.first_chunk().ok_or(BODY_AT)?;
        let record_len = HEAD_LEN + u32::from_le_bytes(word(head)) as usize;
        let kind = if record_len < BODY_AT { 0 } else { head[HEAD_LEN] & !MORE };
        let record_len = record_len.max(BODY_AT);
        let (lens_at, numbers, fixed) = match kind {
            PUT => (BODY_AT + 1, 1, 0),
            PUT_EXPIRING => (BODY_AT + 1, 1, 8),
            CHANGE => (BODY_AT, 2, 0),
            _ => {
                // Nothing follows the key.
                bytes.get(..record_len).ok_or(record_len)?;
                let key_at = match kind {
                    REMOVE | PIN | UNPIN => Some(BODY_AT),
                    EXPIRE => Some(BODY_AT + 8),
                    _ => None,
                };
                let key_at = key_at.map(|at| at.min(record_len));
                return Ok(Front { len: record_len, kind, key_at, record_len });
            }
        };
        let (mut at, mut key_len) = (lens_at, 0);
        for number in 0..numbers {
            let from = bytes.get(at..bytes.len().min(record_len)).unwrap_or_default();
            let Some((value, behind)) = read_leb128(from) else {
                // A damaged record may end within the number.
                return match bytes.len() < record_len {
                    true => Err((bytes.len().max(at) + 1).min(record_len)),
                    false => Ok(Front { len: record_len, kind, key_at: None, record_len }),
                };
            };
            if number == 0 {
                key_len = value as usize;
            }
            at += from.len() - behind.len();
        }
        let key_at = at + fixed;
        // A damaged length must not ask for more than the record.
        let len = key_at.saturating_add(key_len).min(record_len);
        bytes.get(..len).ok_or(len)?;
        Ok(Front { len, kind, key_at: Some(key_at.min(len)), record_len })
    }
}

/// Calls `f` with the effects of each selected batch. None if the bytes are not selected batches.
pub fn selected_batches<'a>(mut bytes: &'a [u8], mut f: impl FnMut(&[Effect<'a>])) -> Option<()> {
    let mut effects = Vec::new();
    while !bytes.is_empty() {
        let (len, behind) = bytes.split_first_chunk()?;
        let (body, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        let (kind, rest) = body.split_first()?;
        effects.push(effect(kind & !MORE, rest)?);
        if kind & MORE == 0 {
            f(&effects);
            effects.clear();
        }
        bytes = behind;
    }
    effects.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::record::{Attached, Chunk, Group, Records};

    fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Effect<'a> {
        Effect::Put { key, form: 3, expire_at: None, value }
    }

    fn is_wanted(key: &[u8]) -> bool {
        key.first() == Some(&b'w')
    }

    /// Batches, of which each effect with a key that begins with `w` is wanted.
    fn batches() -> Vec<Vec<Effect<'static>>> {
        let long: &[u8] = &[7; 300];
        vec![
            vec![put(b"w1", b"one")],
            vec![put(b"other", long)],
            vec![put(b"w2", b""), put(b"other", b"2"), Effect::Remove { key: b"w3" }],
            vec![put(b"other", b"3"), Effect::Expire { key: b"w4", expire_at: Some(9) }],
            vec![Effect::Expire { key: b"w4", expire_at: None }, Effect::Pin { key: b"no" }],
            vec![Effect::Epochs { history: long }],
            vec![Effect::Database { number: 3 }, put(b"w elsewhere", b"no")],
            vec![Effect::Database { number: 3 }, Effect::Clear],
            vec![
                Effect::Change { key: b"w5", number: 1 << 20, change: long },
                Effect::Pin { key: b"w6" },
                Effect::Unpin { key: b"w7" },
            ],
            vec![Effect::Change { key: b"o", number: 1, change: long }],
            vec![Effect::Put { key: b"w8", form: 0x81, expire_at: Some(8), value: long }],
        ]
    }

    /// The records from number 6 on, the values of every other put attached.
    fn stream(batches: &[Vec<Effect<'static>>]) -> Chunk {
        let (mut group, mut records, mut n) = (Group::default(), Records::new(), 0);
        for batch in batches {
            for effect in batch {
                n += 1;
                match *effect {
                    Effect::Put { key, form, expire_at, value } if n % 2 == 0 => {
                        let value: Attached = Arc::new(value.to_vec());
                        records.push_attached(key, form, expire_at, value);
                    }
                    _ => records.push(effect),
                }
            }
            group.append(&mut records);
        }
        group.seal(6, None);
        Chunk::of(&mut group, 6)
    }

    fn bytes_of(chunk: &Chunk) -> Vec<u8> {
        chunk.pieces(0, Lsn::MAX).collect::<Vec<_>>().concat()
    }

    fn wanted() -> Vec<Vec<Effect<'static>>> {
        let of_batch = |batch: Vec<Effect<'static>>| match batch[0] {
            Effect::Database { .. } => Vec::new(),
            _ => batch.into_iter().filter(|e| e.key().is_some_and(is_wanted)).collect(),
        };
        batches().into_iter().map(of_batch).filter(|batch| !batch.is_empty()).collect()
    }

    /// Compares what was selected.
    fn check(selected: &[u8], what: &str) {
        let (mut found, expected) = (0, wanted());
        let read = selected_batches(selected, |effects| {
            assert_eq!(effects, expected[found], "{what}");
            found += 1;
        });
        assert_eq!((read, found), (Some(()), expected.len()), "{what}");
    }

    #[test]
    fn the_wanted_records_come_out_in_their_batches_from_any_cut() {
        let chunk = stream(&batches());
        let bytes = bytes_of(&chunk);
        for piece in [1, 2, 3, 16, 17, 18, 19, 25, 64, 333, bytes.len()] {
            let (mut selection, mut selected) = (Selection::new(5), Vec::new());
            for piece in bytes.chunks(piece) {
                selection.take(piece, is_wanted).unwrap();
                selected.extend(selection.drain());
            }
            check(&selected, &format!("pieces of {piece}"));
            assert_eq!((selection.passed(), selection.cleared()), (chunk.last(), None));
        }
        let mut selection = Selection::new(5);
        chunk.pieces(0, Lsn::MAX).for_each(|piece| selection.take(piece, is_wanted).unwrap());
        check(&selection.drain(), "the pieces of a chunk");
        assert_eq!((selection.drain(), selection.selected_len()), (Vec::new(), 0));
    }

    /// A value of any length that is not wanted takes no memory.
    #[test]
    fn nothing_is_copied_of_a_record_that_is_not_wanted() {
        let mut records = Records::new();
        records.push(&put(b"other", &[1; 100_000]));
        let mut group = Group::default();
        group.append(&mut records);
        group.seal(6, None);
        let bytes = bytes_of(&Chunk::of(&mut group, 6));
        let mut selection = Selection::new(5);
        for piece in bytes.chunks(1000) {
            selection.take(piece, is_wanted).unwrap();
        }
        assert_eq!(selection.passed(), 6);
        assert!(selection.selected.capacity() + selection.begun.capacity() < 100);
    }

    #[test]
    fn half_a_batch_is_not_handed_out() {
        let chunk = stream(&[vec![put(b"w1", b"1")], vec![put(b"w2", b"2"), put(b"w3", b"3")]]);
        let bytes = bytes_of(&chunk);
        for end in 0..bytes.len() {
            let mut selection = Selection::new(5);
            selection.take(&bytes[..end], is_wanted).unwrap();
            let mut found = Vec::new();
            let len = selection.selected_len();
            let first = selection.drain();
            assert_eq!(first.len(), len);
            assert_eq!(selected_batches(&first, |batch| found.push(batch.len())), Some(()));
            assert!(found.is_empty() || found == [1], "{end}");
            assert_eq!(selection.passed(), 5 + found.len() as u64, "{end}");
            selection.take(&bytes[end..], is_wanted).unwrap();
            let rest = selection.drain();
            assert_eq!(selected_batches(&rest, |batch| found.push(batch.len())), Some(()));
            assert_eq!(found, [1, 2], "{end}");
        }
    }

    #[test]
    fn a_clear_is_told_unless_it_is_of_another_database() {
        let chunk = stream(&[vec![put(b"w1", b"1")], vec![Effect::Clear], vec![put(b"o", b"")]]);
        let mut selection = Selection::new(5);
        selection.take(&bytes_of(&chunk), is_wanted).unwrap();
        assert_eq!((selection.cleared(), selection.passed()), (Some(7), 8));
        let chunk = stream(&[vec![Effect::Order { order: &[1; 256] }]]);
        let mut selection = Selection::new(5);
        selection.take(&bytes_of(&chunk), is_wanted).unwrap();
        assert_eq!(selection.cleared(), Some(6));
    }

    #[test]
    fn gaps_and_damaged_records_that_are_wanted_are_noticed() {
        let chunk = stream(&[vec![put(b"w1", b"a value")]]);
        let bytes = bytes_of(&chunk);
        assert_eq!(
            Selection::new(7).take(&bytes, is_wanted),
            Err(BadStream::Gap { expected: 8, found: 6 })
        );
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut selection = Selection::new(5);
            let taken = selection.take(&damaged, is_wanted);
            // A record that seems not to be wanted any more is passed over.
            let is_noticed = taken.is_err() || selection.selected_len() == 0;
            assert!(is_noticed, "bit {bit}: {taken:?}");
        }
    }

    #[test]
    fn other_bytes_are_no_selected_batches() {
        let mut selection = Selection::new(5);
        selection.take(&bytes_of(&stream(&batches())), is_wanted).unwrap();
        let selected = selection.drain();
        let (mut ends, mut at) = (vec![0], 0);
        while at < selected.len() {
            let len = u32::from_le_bytes(word(&selected[at..])) as usize;
            let more = selected[at + 4] & MORE != 0;
            at += 4 + len;
            if !more {
                ends.push(at);
            }
        }
        for end in 0..=selected.len() {
            let read = selected_batches(&selected[..end], |_| ());
            assert_eq!(read.is_some(), ends.contains(&end), "{end}");
        }
        assert_eq!(selected_batches(&[1, 0, 0, 0, 99], |_| ()), None, "of no known kind");
        assert_eq!(selected_batches(&[0; 4], |_| ()), None, "no body");
    }
}
