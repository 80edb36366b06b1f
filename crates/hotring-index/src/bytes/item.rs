//! The layout of byte-string items: header fields, key and value inline in one allocation.
//!
//! ```text
//! next 8 | meta 8 | [check 8] | [expiry 8] | [version 8] | [word 8] | [value length 4] | [key length 4] | key | value
//!
//! meta    63 .. 16   15 .. 8      7 .. 4  3         2        1       0
//!         hash       key length   kind    CHECKSUM  VERSION  EXPIRY  WORD
//! expiry  63    62      61 .. 0
//!         DEAD  FROZEN  Unix milliseconds, 0 for never
//! ```
//!
//! A word (an 8-byte value that is updated in place) has no value length. A key length of 255 in `meta` means
//! that a 4-byte key length follows. A value length of all ones means that the value is in a block
//! (`block.rs`), and the item holds a reference to the block instead. `meta` and `check` (`check.rs`) never
//! change. Bit 63 of the word is FROZEN; the value's own bit 63 is SIGN in `next`.

use crate::bytes::check;
use crate::bytes::marks::Marks;
use crate::bytes::sip::{self, Vectors};
use crate::bytes::value::{Content, Value};
use crate::core::block::{BlockRef, STORED};
use crate::core::config::{Checksum, Config, ConfigError};
use crate::core::item::{Header, Item, Kind, sealed};
use crate::core::sync::{AtomicU64, Ordering, TallyU64};
use crate::core::word::{FROZEN, MADE_WITH, Next, SIGN};
use siphasher::sip::SipHasher13;
use std::cmp;
use std::ptr::NonNull;

/// The item kind with byte-string keys and values.
pub struct Bytes {
    hasher: SipHasher13,
    vectors: Vectors,
    pub(crate) checksum: Checksum,
    /// The number of times a search has passed a damaged item that may have the key searched for.
    pub(crate) suspects: TallyU64,
    /// The mode of recording accesses.
    pub(crate) marks: Marks,
}

const WORD: u64 = 1;
const EXPIRY: u64 = 1 << 1;
const VERSION: u64 = 1 << 2;
pub(crate) const CHECKSUM: u64 = 1 << 3;
const KIND_SHIFT: u32 = 4;
const KEY_LEN_SHIFT: u32 = 8;
pub(crate) const KEY_LEN_LONG: u64 = 255;
/// The value length of an item with its value in a block.
const ELSEWHERE: usize = u32::MAX as usize;
const HASH_SHIFT: u32 = 16;
const HASH_MASK: u64 = (1 << 48) - 1;
pub(crate) const META: usize = size_of::<Header>();
const FIELDS: usize = META + 8;
/// The offset of the check. The same in every item that has one.
pub(crate) const CHECK: usize = FIELDS;

/// Bit 63 of an expiry: the item has expired and is being removed.
pub(crate) const DEAD: u64 = 1 << 63;
/// Bit 62 of an expiry: it must not change, because it is being copied.
pub(crate) const EXPIRY_FROZEN: u64 = 1 << 62;
/// The latest expiry, in Unix milliseconds.
pub(crate) const EXPIRY_MAX: u64 = EXPIRY_FROZEN - 1;

impl sealed::Sealed for Bytes {}

impl Bytes {
    /// The hashes of the keys `key(0)`, `key(1)` and so on.
    #[inline]
    pub(crate) fn hash_all<'k>(&self, key: impl Fn(usize) -> &'k [u8], hashes: &mut [u64]) {
        sip::hash_all(&self.hasher, self.vectors, key, hashes);
        hashes.iter_mut().for_each(|hash| *hash &= HASH_MASK);
    }
}

impl Kind for Bytes {
    type Key = [u8];
    const HASH_BITS: u32 = HASH_MASK.count_ones();
    const LOOKED_AT: usize = 48;

    fn new(config: &Config) -> Result<Self, ConfigError> {
        let [a, b] = config.seed;
        Ok(Self {
            hasher: SipHasher13::new_with_keys(a, b),
            vectors: Vectors::of_processor(),
            checksum: config.checksum,
            suspects: TallyU64::new(0),
            marks: Marks::new(),
        })
    }

    /// SipHash-1-3: keys may come from the network, and a client without the seed must not be able to
    /// choose colliding keys.
    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key) & HASH_MASK
    }

    #[inline(always)]
    fn item_hash(&self, item: Item) -> u64 {
        meta(item) >> HASH_SHIFT
    }

    #[inline(always)]
    fn is(&self, item: Item, hash: u64, key: &[u8]) -> bool {
        let meta = meta(item);
        meta >> HASH_SHIFT == hash
            && ((self.is_bounded(item) && key_of(item, meta) == key) || self.is_other(item))
    }

    #[inline]
    fn key_cmp(&self, item: Item, key: &[u8]) -> cmp::Ordering {
        if !self.is_bounded(item) {
            // Skip the damaged item, wherever it is in the order.
            self.is_other(item);
            return cmp::Ordering::Less;
        }
        let order = key_of(item, meta(item)).cmp(key);
        if order.is_ne() {
            self.is_other(item);
        }
        order
    }

    fn key<'a>(item: Item) -> &'a [u8] {
        key_of(item, meta(item))
    }

    fn size(&self, item: Item) -> usize {
        if self.checksum == Checksum::Off { size(item) } else { check::size(item) }
    }

    #[inline(always)]
    fn extent(&self, item: Item) -> (usize, bool) {
        if self.checksum != Checksum::Off {
            return (check::size(item), false);
        }
        let layout = layout_of(item, meta(item));
        (layout.end(), layout.value_len == ELSEWHERE)
    }

    #[cold]
    fn elsewhere(item: Item) -> usize {
        block_of(item).map_or(0, BlockRef::sole)
    }

    #[cold]
    fn release(item: Item) {
        if let Some(position) = block_position(item) {
            // SAFETY: P: only the last user frees the item, once, here.
            unsafe { BlockRef::take(position) };
        }
    }

    fn expires(item: Item) -> bool {
        meta(item) & EXPIRY != 0
    }

    fn wrote(&self, bytes: u64) {
        self.marks.wrote(bytes);
    }

    fn freeze(&self, item: Item) {
        if self.size(item) == 0 {
            // The positions of the item's words are unknown.
            return;
        }
        if let Some(word) = word_of(item) {
            // ORDERING: AcqRel: earlier in-place writes are copied, later ones fail.
            word.fetch_or(FROZEN, Ordering::AcqRel);
        }
        if let Some(expiry) = expiry_of(item) {
            // ORDERING: AcqRel, likewise.
            expiry.fetch_or(EXPIRY_FROZEN, Ordering::AcqRel);
        }
    }

    fn copy_of(&self, item: Item, alloc: impl FnOnce(usize) -> NonNull<u8>) -> Item {
        let size = self.size(item);
        if size == 0 {
            return copy_damaged(item, alloc(DAMAGED));
        }
        let block = alloc(size);
        let rest = FIELDS + fields(meta(item), WORD | EXPIRY | VERSION | CHECKSUM);
        // ORDERING: Relaxed, SIGN is constant; access bits set later may be lost.
        let made = item.next().load(Ordering::Relaxed) & MADE_WITH;
        // SAFETY: the block is fresh, 8-aligned and as large as the item: meta, this many words, then bytes
        // that never change.
        unsafe {
            block.cast::<Header>().write(Header::new(made));
            block.add(META).cast::<u64>().write(meta(item));
            for at in (FIELDS..rest).step_by(8) {
                // ORDERING: Acquire, as for readers. An expiry may still get DEAD.
                let word = item.word(at).load(Ordering::Acquire);
                block.add(at).cast::<AtomicU64>().write(AtomicU64::new(word));
            }
            block.add(rest).copy_from_nonoverlapping(item.start().add(rest), size - rest);
            if let Some(position) = block_position(item) {
                // Replaces the copied representation with the copy's own reference.
                BlockRef::at(position).store(block.add(size - STORED));
            }
        }
        // SAFETY: just initialised, and private (P).
        let copy = unsafe { Item::new(block) };
        if let Some(word) = word_of(copy) {
            // ORDERING: Relaxed, private.
            word.fetch_and(!FROZEN, Ordering::Relaxed);
        }
        if let Some(expiry) = expiry_of(copy) {
            // ORDERING: Relaxed, private.
            expiry.fetch_and(!EXPIRY_FROZEN, Ordering::Relaxed);
        }
        copy
    }
}

impl Bytes {
    /// Whether the position of the item's key is intact, according to its checksum.
    #[inline(always)]
    fn is_bounded(&self, item: Item) -> bool {
        self.checksum == Checksum::Off || self.size(item) != 0
    }
}

/// Bytes that `copy_damaged` writes.
const DAMAGED: usize = FIELDS + 16;

/// Writes a placeholder for a damaged item, with a check that does not match and a word that is never returned.
/// Searches for its hash report the placeholder as damaged, too.
fn copy_damaged(item: Item, block: NonNull<u8>) -> Item {
    let meta = meta(item) & HASH_MASK << HASH_SHIFT | CHECKSUM | WORD;
    // SAFETY: the block is fresh, 8-aligned and holds this many bytes.
    unsafe {
        block.cast::<Header>().write(Header::new(0));
        block.add(META).cast::<u64>().write(meta);
        block.add(CHECK).cast::<u64>().write(!check::sum_of(meta));
        block.add(CHECK + 8).cast::<AtomicU64>().write(AtomicU64::new(0));
    }
    // SAFETY: just initialised, and private (P).
    unsafe { Item::new(block) }
}

impl Bytes {
    /// The item's expiry field. None if the item has lost its checksum flag: the other fields are then at other
    /// offsets, and no other check would detect this.
    #[inline(always)]
    pub(crate) fn expiry<'a>(&self, item: Item) -> Option<&'a AtomicU64> {
        let may_lack = self.checksum == Checksum::Off;
        expiry_of(item).filter(|_| may_lack || meta(item) & CHECKSUM != 0)
    }

    /// Counts an item that has the hash searched for but another key: with 48 bits this is more likely damage than
    /// a collision. Always returns false, because the item does not match.
    #[cold]
    fn is_other(&self, item: Item) -> bool {
        if self.checksum == Checksum::Verify && check::state(item) != check::State::Sound {
            // ORDERING: Relaxed, a count that only its own thread reads.
            self.suspects.fetch_add(1, Ordering::Relaxed);
        }
        false
    }
}

#[inline(always)]
pub(crate) fn meta(item: Item) -> u64 {
    // SAFETY: P, and every item of a Bytes ring has this word, written before publication and never
    // changed.
    unsafe { item.start().add(META).cast::<u64>().read() }
}

/// Offsets of the parts of an item.
pub(crate) struct Layout {
    pub(crate) key: usize,
    pub(crate) key_len: usize,
    value: usize,
    pub(crate) value_len: usize,
}

impl Layout {
    /// The end of the item.
    pub(crate) fn end(&self) -> usize {
        self.value + if self.value_len == ELSEWHERE { STORED } else { self.value_len }
    }
}

/// Bytes of an undamaged item.
pub(crate) fn size(item: Item) -> usize {
    layout_of(item, meta(item)).end()
}

/// Bytes of the fields in the set `which` that the item has.
#[inline(always)]
fn fields(meta: u64, which: u64) -> usize {
    /// A table of sizes with four bits per combination of four flags, because not every x86-64 processor has an
    /// instruction that counts bits.
    const SIZES: u64 = 0x4332_3221_3221_2110;
    8 * (SIZES >> (4 * (meta & which)) & 7) as usize
}

#[inline(always)]
pub(crate) fn layout_of(item: Item, meta: u64) -> Layout {
    let mut at = FIELDS + fields(meta, WORD | EXPIRY | VERSION | CHECKSUM);
    let mut value_len = 0;
    if meta & WORD == 0 {
        value_len = read_u32(item, at);
        at += 4;
    }
    let mut key_len = (meta >> KEY_LEN_SHIFT & KEY_LEN_LONG) as usize;
    if key_len == KEY_LEN_LONG as usize {
        key_len = read_u32(item, at);
        at += 4;
    }
    Layout { key: at, key_len, value: at + key_len, value_len }
}

fn read_u32(item: Item, at: usize) -> usize {
    // SAFETY: P, and `meta` says that a length lies here; all offsets before the key are multiples of 4.
    unsafe { item.start().add(at).cast::<u32>().read() as usize }
}

/// # Safety
/// `at` and `len` must come from the item's `Layout`.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(item: Item, at: usize, len: usize) -> &'a [u8] {
    // SAFETY: P and the caller's promise: the bytes were written before publication and never change. The
    // caller must not use the slice after the pin ends.
    unsafe { std::slice::from_raw_parts(item.start().add(at).as_ptr(), len) }
}

#[inline(always)]
fn key_of<'a>(item: Item, meta: u64) -> &'a [u8] {
    let layout = layout_of(item, meta);
    // SAFETY: from the layout.
    unsafe { bytes(item, layout.key, layout.key_len) }
}

/// Whether the item's value is in a block.
#[inline(always)]
pub(crate) fn is_long(item: Item) -> bool {
    block_position(item).is_some()
}

/// The position of the block's reference, if the value is in a block.
#[inline(always)]
fn block_position(item: Item) -> Option<NonNull<u8>> {
    let meta = meta(item);
    if meta & (WORD | CHECKSUM) != 0 {
        return None;
    }
    let layout = layout_of(item, meta);
    // SAFETY: inside the item, from the layout.
    (layout.value_len == ELSEWHERE).then(|| unsafe { item.start().add(layout.value) })
}

/// The item's block, if its value is in one.
pub(crate) fn block_of<'a>(item: Item) -> Option<BlockRef<'a>> {
    // SAFETY: P: the item holds a reference until it is freed. The caller must not use the result after the pin
    // ends.
    block_position(item).map(|position| unsafe { BlockRef::at(position) })
}

/// The item's expiry field. None if the item's flags are damaged: the item must not look expired, and no write
/// must go to a wrong offset.
#[inline(always)]
pub(crate) fn expiry_of<'a>(item: Item) -> Option<&'a AtomicU64> {
    let meta = meta(item);
    if meta & EXPIRY == 0 || !check::flags_hold(item, meta) {
        return None;
    }
    // SAFETY: the flag says that the word is there; only the check lies before it.
    Some(unsafe { item.word(FIELDS + (meta & CHECKSUM) as usize) })
}

/// The item's version, if it has one.
pub(crate) fn version_of(item: Item) -> Option<u64> {
    let meta = meta(item);
    let at = FIELDS + fields(meta, EXPIRY | CHECKSUM);
    // SAFETY: P, and the flag says that the word is there; it never changes.
    (meta & VERSION != 0).then(|| unsafe { item.start().add(at).cast::<u64>().read() })
}

/// Whether the item has a field that an in-place change of the value would invalidate.
pub(crate) fn is_fixed(item: Item) -> bool {
    meta(item) & (VERSION | CHECKSUM) != 0
}

/// The item's value word.
#[inline(always)]
pub(crate) fn word_of<'a>(item: Item) -> Option<&'a AtomicU64> {
    let meta = meta(item);
    let at = FIELDS + fields(meta, EXPIRY | VERSION | CHECKSUM);
    // SAFETY: the flag says that the word is there, after the other fields.
    (meta & WORD != 0).then(|| unsafe { item.word(at) })
}

pub(crate) fn kind_of(item: Item) -> u8 {
    (meta(item) >> KIND_SHIFT & 0xf) as u8
}

/// A value word with the value's own bit 63, which is SIGN in `next`.
pub(crate) fn join(word: u64, next: Next) -> u64 {
    word & !FROZEN | if next.is(SIGN) { FROZEN } else { 0 }
}

/// The value of an item that contains it; `word` is the item's word, if it has one.
#[inline(always)]
pub(crate) fn value<'a>(item: Item, next: Next, word: Option<u64>) -> Value<'a> {
    let meta = meta(item);
    let kind = (meta >> KIND_SHIFT & 0xf) as u8;
    match word {
        Some(word) => Value::Word { kind, word: join(word, next) },
        None => {
            let layout = layout_of(item, meta);
            // SAFETY: from the layout.
            let bytes = unsafe { bytes(item, layout.value, layout.value_len) };
            Value::Bytes { kind, bytes }
        }
    }
}

/// The parts of a new item.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) hash: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: Content<'a>,
    pub(crate) expire_at: Option<u64>,
    pub(crate) version: Option<u64>,
    pub(crate) checksum: bool,
}

impl Parts<'_> {
    fn is_word(&self) -> bool {
        matches!(self.value, Content::Word { .. })
    }

    fn has_long_key(&self) -> bool {
        self.key.len() >= KEY_LEN_LONG as usize
    }

    /// Bytes that the item needs.
    pub(crate) fn size(&self) -> usize {
        let words = usize::from(self.expire_at.is_some())
            + usize::from(self.version.is_some())
            + usize::from(self.checksum)
            + usize::from(self.is_word());
        let lens = usize::from(!self.is_word()) + usize::from(self.has_long_key());
        let value_len = match self.value {
            Content::Word { .. } => 0,
            Content::Bytes { bytes, .. } => bytes.len(),
            Content::Block { .. } => STORED,
        };
        FIELDS + 8 * words + 4 * lens + self.key.len() + value_len
    }

    fn meta(&self) -> u64 {
        let kind = u64::from(self.value.kind());
        let mut meta = self.hash << HASH_SHIFT
            | (self.key.len() as u64).min(KEY_LEN_LONG) << KEY_LEN_SHIFT
            | kind << KIND_SHIFT;
        if self.is_word() {
            meta |= WORD;
        }
        if self.expire_at.is_some() {
            meta |= EXPIRY;
        }
        if self.version.is_some() {
            meta |= VERSION;
        }
        meta | (u64::from(self.checksum) * CHECKSUM)
    }

    /// Refuses parts that no item can hold, before memory is allocated.
    pub(crate) fn check(&self) {
        assert!(self.value.kind() < 16, "a value kind has 4 bits");
        let value_len = match self.value {
            Content::Word { .. } => 0,
            Content::Bytes { bytes, .. } => bytes.len(),
            Content::Block { block, .. } => block.bytes().len(),
        };
        assert!(value_len < ELSEWHERE, "a value is shorter than 4 GiB");
        assert!(u32::try_from(self.key.len()).is_ok(), "a key is shorter than 4 GiB");
    }

    /// Writes the item into `block`.
    ///
    /// # Safety
    /// `block` must be unused, 8-aligned, and hold `size()` bytes.
    pub(crate) unsafe fn write(&self, block: NonNull<u8>) -> Item {
        let sign = match self.value {
            Content::Word { word, .. } if word & FROZEN != 0 => SIGN,
            _ => 0,
        };
        // SAFETY: lengths fit (`check`); all writes stay below `size()`, which adds up the same parts; the
        // cursor is a multiple of 8 before words and of 4 before lengths.
        unsafe {
            block.cast::<Header>().write(Header::new(sign));
            block.add(META).cast::<u64>().write(self.meta());
            let mut at = block.add(FIELDS + 8 * usize::from(self.checksum));
            if let Some(expire_at) = self.expire_at {
                at.cast::<AtomicU64>().write(AtomicU64::new(expire_at.min(EXPIRY_MAX)));
                at = at.add(8);
            }
            if let Some(version) = self.version {
                at.cast::<u64>().write(version);
                at = at.add(8);
            }
            let mut value_bytes: &[u8] = &[];
            match self.value {
                Content::Word { word, .. } => {
                    at.cast::<AtomicU64>().write(AtomicU64::new(word & !FROZEN));
                    at = at.add(8);
                }
                Content::Bytes { bytes, .. } => {
                    value_bytes = bytes;
                    at.cast::<u32>().write(bytes.len() as u32);
                    at = at.add(4);
                }
                Content::Block { .. } => {
                    at.cast::<u32>().write(ELSEWHERE as u32);
                    at = at.add(4);
                }
            }
            if self.has_long_key() {
                at.cast::<u32>().write(self.key.len() as u32);
                at = at.add(4);
            }
            at.copy_from_nonoverlapping(NonNull::from(self.key).cast(), self.key.len());
            at = at.add(self.key.len());
            at.copy_from_nonoverlapping(NonNull::from(value_bytes).cast(), value_bytes.len());
            if let Content::Block { block, .. } = self.value {
                block.store(at);
            }
            let item = Item::new(block);
            if self.checksum {
                check::seal(item);
            }
            item
        }
    }
}

/// Whether the item has expired at `now`, or another session has marked it as expired.
#[inline(always)]
pub(crate) fn is_expired(kind: &Bytes, item: Item, now: u64) -> bool {
    // ORDERING: Acquire pairs with the AcqRel of changes of the expiry.
    kind.expiry(item).is_some_and(|expiry| is_past(expiry.load(Ordering::Acquire), now))
}

/// Whether an item with this expiry word has expired at `now`.
pub(crate) fn is_past(expiry: u64, now: u64) -> bool {
    let at = expiry & EXPIRY_MAX;
    expiry & DEAD != 0 || (at != 0 && at <= now)
}

/// The time in an expiry word, if any.
pub(crate) fn expiry_time(expiry: u64) -> Option<u64> {
    let at = expiry & EXPIRY_MAX;
    (at != 0).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::word::Next;

    #[test]
    fn an_expiry_word_knows_its_states() {
        assert!(!is_past(0, u64::MAX >> 2), "0 is never");
        assert!(is_past(5, 5) && !is_past(6, 5));
        assert!(is_past(6 | DEAD, 5), "doomed is gone whatever the time");
        assert!(is_past(5 | EXPIRY_FROZEN, 5));
        assert_eq!(expiry_time(7 | EXPIRY_FROZEN), Some(7));
        assert_eq!(join(3 | FROZEN, Next(0)), 3);
    }
}
