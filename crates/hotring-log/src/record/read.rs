//! Decodes log records.

use super::{
    CHANGE, CLEAR, DATABASE, DURABLE, DURABLE_LEN, EPOCHS, EXPIRE, Effect, HEAD_LEN, Lsn, MORE,
    ORDER, PIN, PUT, PUT_EXPIRING, REMOVE, UNPIN, word,
};

/// The highest sequence number that a durable record anywhere in `bytes` claims as synced. If the
/// store's mark is known, records with another mark are ignored.
pub(crate) fn highest_durable(bytes: &[u8], mark: Option<u64>) -> Option<Lsn> {
    let length = ((DURABLE_LEN - HEAD_LEN) as u32).to_le_bytes();
    let candidates =
        bytes.windows(DURABLE_LEN).filter(|w| w[..4] == length && w[HEAD_LEN] == DURABLE);
    let found = candidates.filter_map(|window| match read(window) {
        Ok(Found { lsn, effect: Effect::Durable { upto }, .. }) => {
            mark.is_none_or(|mark| mark == lsn).then_some(upto)
        }
        _ => None,
    });
    found.max()
}

/// The stored checksum of a record.
pub(crate) fn checksum(record: &[u8]) -> u32 {
    u32::from_le_bytes(word(&record[4..]))
}

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// Its number; for a durable record, the store's mark.
    pub lsn: Lsn,
    /// Its content.
    pub effect: Effect<'a>,
    /// The next record belongs to the same batch.
    pub more: bool,
    /// Its length.
    pub len: usize,
}

/// Why there is no valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The bytes end before the record does.
    Short {
        /// Length of the complete record, according to its head.
        needed: usize,
    },
    /// The length is 0: nothing has been written here.
    Zero,
    /// The checksum does not match.
    Checksum,
    /// The checksum matches, but the content is of a later version.
    Unknown,
}

/// The head of a record, whose content has not been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the record.
    pub lsn: Lsn,
    /// The next record belongs to the same batch.
    pub more: bool,
    /// The record states the epochs of the stream.
    pub is_epochs: bool,
    /// The length of the record.
    pub len: usize,
    /// The log wrote the record for itself.
    pub(crate) is_durable: bool,
    /// The stored checksum.
    pub(crate) crc: u32,
}

/// Looks at the head of the record at the beginning of `bytes`; None if the record is incomplete.
///
/// # Errors
/// The length is 0, so there is no record.
pub fn head(bytes: &[u8]) -> Result<Option<Head>, Bad> {
    Ok(front(bytes)?.filter(|head| bytes.len() >= head.len))
}

/// Like [`head`], of a record of which perhaps only the head is there.
pub(crate) fn front(bytes: &[u8]) -> Result<Option<Head>, Bad> {
    let Some(head) = bytes.first_chunk::<{ HEAD_LEN + 1 }>() else { return Ok(None) };
    let len = match u32::from_le_bytes(word(head)) {
        0 => return Err(Bad::Zero),
        len => HEAD_LEN + len as usize,
    };
    let lsn = u64::from_le_bytes(head[8..HEAD_LEN].try_into().expect("eight bytes"));
    let (more, kind) = (head[HEAD_LEN] & MORE != 0, head[HEAD_LEN] & !MORE);
    let (is_epochs, is_durable) = (kind == EPOCHS, kind == DURABLE);
    Ok(Some(Head { lsn, more, is_epochs, len, is_durable, crc: checksum(head) }))
}

/// Reads the record at the beginning of `bytes`.
pub fn read(bytes: &[u8]) -> Result<Found<'_>, Bad> {
    let record = record(bytes)?;
    if crc32c::crc32c(&record[8..]) != checksum(record) {
        return Err(Bad::Checksum);
    }
    content(record)
}

/// Like [`read`], for a record whose checksum has been verified.
pub(crate) fn read_sound(bytes: &[u8]) -> Result<Found<'_>, Bad> {
    content(record(bytes)?)
}

/// The bytes of the record at the beginning of `bytes`, according to its head.
fn record(bytes: &[u8]) -> Result<&[u8], Bad> {
    let Some(head) = bytes.first_chunk::<HEAD_LEN>() else {
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        return Err(if is_zero { Bad::Zero } else { Bad::Short { needed: HEAD_LEN + 1 } });
    };
    let len = match u32::from_le_bytes(word(head)) {
        0 => return Err(Bad::Zero),
        len => HEAD_LEN + len as usize,
    };
    bytes.get(..len).ok_or(Bad::Short { needed: len })
}

fn content(record: &[u8]) -> Result<Found<'_>, Bad> {
    let lsn = u64::from_le_bytes(record[8..HEAD_LEN].try_into().expect("eight bytes"));
    let (kind, rest) = record[HEAD_LEN..].split_first().expect("a body is not empty");
    let effect = effect(kind & !MORE, rest).ok_or(Bad::Unknown)?;
    Ok(Found { lsn, effect, more: kind & MORE != 0, len: record.len() })
}

/// Reads a body that stands alone.
pub(crate) fn read_body(body: &[u8]) -> Option<Effect<'_>> {
    let (kind, rest) = body.split_first()?;
    effect(*kind, rest)
}

pub(super) fn effect(kind: u8, rest: &[u8]) -> Option<Effect<'_>> {
    Some(match kind {
        PUT | PUT_EXPIRING => {
            let (form, rest) = rest.split_first()?;
            let (key_len, mut rest) = read_leb128(rest)?;
            let mut expire_at = None;
            if kind == PUT_EXPIRING {
                let (at, behind) = rest.split_first_chunk()?;
                (expire_at, rest) = (Some(u64::from_le_bytes(*at)), behind);
            }
            let (key, value) = rest.split_at_checked(usize::try_from(key_len).ok()?)?;
            Effect::Put { key, form: *form, expire_at, value }
        }
        REMOVE => Effect::Remove { key: rest },
        EXPIRE => {
            let (at, key) = rest.split_first_chunk()?;
            let at = u64::from_le_bytes(*at);
            Effect::Expire { key, expire_at: (at != 0).then_some(at) }
        }
        CHANGE => {
            let (key_len, rest) = read_leb128(rest)?;
            let (number, rest) = read_leb128(rest)?;
            let (key, change) = rest.split_at_checked(usize::try_from(key_len).ok()?)?;
            Effect::Change { key, number, change }
        }
        CLEAR if rest.is_empty() => Effect::Clear,
        DATABASE => match *rest {
            [number] => Effect::Database { number },
            _ => return None,
        },
        ORDER => Effect::Order { order: rest.try_into().ok()? },
        EPOCHS => Effect::Epochs { history: rest },
        PIN => Effect::Pin { key: rest },
        UNPIN => Effect::Unpin { key: rest },
        DURABLE => Effect::Durable { upto: u64::from_le_bytes(rest.try_into().ok()?) },
        _ => return None,
    })
}

pub(super) fn read_leb128(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (i, byte) in bytes.iter().enumerate().take(9) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[i + 1..]));
        }
    }
    None
}
