//! A digest of all data of a store, by which a replica is compared with its primary.
//!
//! The digest covers, for each database by its number, every key with its type, value, expiry, flags and earlier
//! values, the expiry of each field, and the pins. It does not depend on how a value is held, nor on the order of keys,
//! of the members of sets or of the fields of hashes: those are summed up. Notes of accesses and numbers for
//! compare-and-swap are not part of it, because they are not replicated.
//!
//! The walk reads in steps while writers continue, so only the digests of stores at rest can be compared.

use hotring_index::{Damaged, Entry, Value};
use twox_hash::XxHash3_128;

use crate::container::large::LongValue;
use crate::history::History;
use crate::metadata::Metadata;
use crate::session::Session;
use crate::value::{ValueRef, view};
use hotring_containers::Piece;

/// Number of items or pins of a step.
const STEP_ITEMS: usize = 256;

/// The progress of a digest through the store.
pub struct DigestWalk {
    now: u64,
    /// IDs of the remaining databases; None before the first step.
    database_ids: Option<std::vec::IntoIter<u8>>,
    database_id: u8,
    stage: Stage,
    sum: u128,
    mixer: Mixer,
}

enum Stage {
    /// Pins after this key.
    Pins(Option<Box<[u8]>>),
    /// Items from this cursor on.
    Items(u64),
}

/// The parts of an item besides its value.
#[derive(Clone)]
struct Head {
    key: Box<[u8]>,
    expire_at: Option<u64>,
    kind: u8,
}

impl DigestWalk {
    /// A digest of all that has not expired at `now`, in Unix milliseconds. Nothing has expired at time 0.
    pub fn new(now: u64) -> DigestWalk {
        let (sum, mixer) = (0, Mixer::default());
        DigestWalk { now, database_ids: None, database_id: 0, stage: Stage::Pins(None), sum, mixer }
    }

    /// Reads the next part of the store. False once everything has been read.
    ///
    /// # Errors
    /// An item is damaged in memory.
    pub fn step(&mut self, session: &mut Session) -> Result<bool, Damaged> {
        if self.database_ids.is_none() {
            self.database_ids = Some(session.database_ids().into_iter());
            if !self.next_database() {
                return Ok(false);
            }
        }
        let number = session.number_of_database(self.database_id);
        let goes_on =
            session.within(self.database_id, |session| self.step_here(session, number))?;
        Ok(goes_on || self.next_database())
    }

    /// The digest of everything read so far.
    pub fn digest(&self) -> u128 {
        self.sum
    }

    fn next_database(&mut self) -> bool {
        let next = self.database_ids.as_mut().and_then(Iterator::next);
        (self.database_id, self.stage) = (next.unwrap_or(self.database_id), Stage::Pins(None));
        next.is_some()
    }

    /// Reads a part of the current database; false at its end.
    fn step_here(&mut self, session: &mut Session, number: u8) -> Result<bool, Damaged> {
        let DigestWalk { now, stage, sum, mixer, .. } = self;
        match stage {
            Stage::Pins(after) => {
                let pins = session.pinned_keys(after.as_deref(), STEP_ITEMS);
                for key in &pins {
                    *sum = sum.wrapping_add(mixer.pin(number, key));
                }
                self.stage = match pins.into_iter().last() {
                    Some(last) => Stage::Pins(Some(last)),
                    None => Stage::Items(0),
                };
                Ok(true)
            }
            Stage::Items(cursor) => {
                let mut longs = Vec::new();
                let next =
                    session.scan_index(*cursor, STEP_ITEMS, *now, |entry| match long_of(&entry) {
                        Some(long) => longs.push(long),
                        None => {
                            let digest = mixer.short(number, &entry, *now);
                            *sum = sum.wrapping_add(digest);
                        }
                    });
                if let Some(damaged) = session.take_damage() {
                    return Err(damaged);
                }
                for (head, long) in longs {
                    session.gate.waiting.rest();
                    *sum = sum.wrapping_add(mixer.long(number, &head, &long, *now));
                }
                self.stage = Stage::Items(next);
                Ok(next != 0)
            }
        }
    }
}

fn long_of(entry: &Entry<'_>) -> Option<(Head, LongValue)> {
    let block = entry.block()?;
    let Value::Bytes { kind, .. } = entry.value else { return None };
    let head = Head { key: entry.key.into(), expire_at: entry.expire_at, kind };
    Some((head, LongValue::of(block)))
}

/// Computes digests of items.
#[derive(Default)]
struct Mixer {
    /// Buffer for the parts of an item.
    parts: Vec<u8>,
}

impl Mixer {
    fn pin(&mut self, number: u8, key: &[u8]) -> u128 {
        self.parts.clear();
        self.parts.extend_from_slice(&[b'p', number]);
        self.parts.extend_from_slice(key);
        XxHash3_128::oneshot(&self.parts)
    }

    fn short(&mut self, number: u8, entry: &Entry<'_>, now: u64) -> u128 {
        self.stored(number, (entry.key, entry.expire_at), entry.value, now)
    }

    fn long(&mut self, number: u8, head: &Head, long: &LongValue, now: u64) -> u128 {
        let (key, expire_at) = (&head.key[..], head.expire_at);
        match long {
            LongValue::Block(block) => {
                let value = Value::Bytes { kind: head.kind, bytes: block };
                self.stored(number, (key, expire_at), value, now)
            }
            LongValue::Container(contents) => contents
                .parts
                .view(|value| self.item(number, (key, expire_at), digest_of(value, now), &[])),
        }
    }

    /// The digest of a value in its stored form.
    fn stored(
        &mut self,
        number: u8,
        head: (&[u8], Option<u64>),
        value: Value<'_>,
        now: u64,
    ) -> u128 {
        let Metadata { flags, stale, claimed, .. } = Metadata::of(value);
        let mut more = Vec::new();
        if flags != 0 || stale || claimed {
            more.extend_from_slice(&flags.to_le_bytes());
            more.extend_from_slice(&[u8::from(stale), u8::from(claimed)]);
        }
        let history = History::of(value);
        if history.version() > 1 {
            more.extend_from_slice(&history.version().to_le_bytes());
            for earlier in history.earlier() {
                more.extend_from_slice(&earlier.replaced_at.to_le_bytes());
                more.extend_from_slice(&XxHash3_128::oneshot(earlier.value).to_le_bytes());
            }
        }
        let digest = view(value, |value| digest_of(value, now));
        self.item(number, head, digest, &more)
    }

    /// The digest of an item; 0 if all parts of its value have expired.
    fn item(
        &mut self,
        number: u8,
        (key, expire_at): (&[u8], Option<u64>),
        value: Option<(u8, u128)>,
        more: &[u8],
    ) -> u128 {
        let Some((kind, digest)) = value else { return 0 };
        self.parts.clear();
        self.parts.extend_from_slice(&[kind, number]);
        self.parts.extend_from_slice(&expire_at.unwrap_or(0).to_le_bytes());
        self.parts.extend_from_slice(&digest.to_le_bytes());
        self.parts.extend_from_slice(&(more.len() as u64).to_le_bytes());
        self.parts.extend_from_slice(more);
        self.parts.extend_from_slice(key);
        XxHash3_128::oneshot(&self.parts)
    }
}

/// The digest of a value without the parts that have expired, with a letter for its type. None if no part is left.
fn digest_of(value: ValueRef<'_>, now: u64) -> Option<(u8, u128)> {
    Some(match value {
        ValueRef::Int(_) | ValueRef::Bytes(_) => (b's', value.with_bytes(XxHash3_128::oneshot)),
        ValueRef::Text(text) => {
            let mut hasher = XxHash3_128::new();
            for piece in text.pieces(0..usize::MAX) {
                match piece {
                    Piece::Bytes(bytes) => hasher.write(bytes),
                    Piece::Zeros(len) => write_zeros(&mut hasher, len),
                }
            }
            (b's', hasher.finish_128())
        }
        ValueRef::List(list) => {
            (b'l', list.iter().fold(0, |sum, element| chain(sum, element, &[])))
        }
        ValueRef::Set(set) => {
            let digests = set.iter().map(|member| member.with_bytes(XxHash3_128::oneshot));
            (b'm', digests.fold(0, u128::wrapping_add))
        }
        ValueRef::Scored(scored) => {
            let mut sum = 0;
            // Equal scores are equal numbers: there is one zero.
            scored.each_of_all(|entry| {
                sum = chain(sum, entry.member, &(entry.score + 0.0).to_bits().to_le_bytes());
            });
            (b'z', sum)
        }
        ValueRef::Hash(hash) => {
            let hash = hash.at(now);
            if hash.is_empty() {
                return None;
            }
            let fields = hash.iter_with_expiry().map(|(field, value, at)| {
                let field = chain(0, field, &at.unwrap_or(0).to_le_bytes());
                chain(field, value, &[])
            });
            (b'h', fields.fold(0, u128::wrapping_add))
        }
    })
}

/// The digest of a part behind others.
fn chain(before: u128, part: &[u8], number: &[u8]) -> u128 {
    let mut parts = [0; 40];
    parts[..16].copy_from_slice(&before.to_le_bytes());
    parts[16..32].copy_from_slice(&XxHash3_128::oneshot(part).to_le_bytes());
    parts[32..32 + number.len()].copy_from_slice(number);
    XxHash3_128::oneshot(&parts[..32 + number.len()])
}

fn write_zeros(hasher: &mut XxHash3_128, mut len: usize) {
    const ZEROS: [u8; 4096] = [0; 4096];
    while len > 0 {
        let step = len.min(ZEROS.len());
        hasher.write(&ZEROS[..step]);
        len -= step;
    }
}
