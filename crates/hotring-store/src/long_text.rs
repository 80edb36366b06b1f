//! Long strings that are modified in part: a [`Type`] of container, whose packed form is the plain string.
//!
//! A string is plain ([`crate::value`]) until an operation changes a part of it while it is longer than
//! [`ContainerOptions::text_plain_max`]. Then it becomes an object with [`Chunks`] over the original block, which is
//! not copied. An operation that stores the entire string makes it plain again.
//!
//! The log has the written bytes and their positions. The first change of a plain string has number 1; the plain string
//! itself is earlier in the log, or in the snapshot. The encoding of the entire object omits runs of zeros:
//! ```text
//!   number of changes | length | zeros before a run, length of the run, its bytes | ...
//! ```
//! with numbers as in [`crate::container::packed`].
//!
//! Strings with flags ([`crate::metadata`]) stay plain, and so do all strings while earlier values are kept
//! ([`crate::history`]), because each earlier value is stored in full.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use hotring_containers::{Piece, Text};
use hotring_index::{Block, BlockRef, Entry, Value};

use crate::container::packed::{Head, push, push_number, split, split_number};
use crate::container::{ContainerOptions, Contents, Parts, Type, Weight, large};
use crate::error::StoreError;
use crate::metadata::Metadata;
use crate::value::{KIND_STRING, ValueRef, view};

/// The contents of a long string.
pub(crate) type Chunks = Text<Block>;

/// A string, in one piece or in chunks, borrowed for the length of a closure.
#[derive(Clone, Copy)]
pub struct TextRef<'a>(Form<'a>);

#[derive(Clone, Copy)]
enum Form<'a> {
    Plain(&'a [u8]),
    Chunks(&'a Chunks),
}

/// Bytes to write at a position. A gap between the end of the string and the position is filled with zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch<'c> {
    pub(crate) at: usize,
    pub(crate) bytes: Cow<'c, [u8]>,
}

/// The type.
pub(crate) enum LongText {}

/// Maximum overhead of a patch in the log, in bytes: two numbers below 2^32.
const NUMBERS_MAX: usize = 10;

/// Hashes of keys whose strings were long when the session last changed them: such a string is not tried as a plain one
/// first. Only a hint, as other sessions may replace it meanwhile.
#[derive(Debug, Default)]
pub(crate) struct LongTexts([u64; LongTexts::SLOTS]);

impl LongTexts {
    const SLOTS: usize = 16;

    pub(crate) fn has(&self, hash: u64) -> bool {
        self.0[LongTexts::slot(hash)] == hash
    }

    pub(crate) fn set(&mut self, hash: u64, is_long: bool) {
        self.0[LongTexts::slot(hash)] = if is_long { hash } else { 0 };
    }

    fn slot(hash: u64) -> usize {
        hash as usize % LongTexts::SLOTS
    }
}

impl fmt::Debug for TextRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextRef").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<'a> TextRef<'a> {
    pub(crate) fn plain(bytes: &'a [u8]) -> Self {
        TextRef(Form::Plain(bytes))
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match self.0 {
            Form::Plain(bytes) => bytes.len(),
            Form::Chunks(chunks) => chunks.len(),
        }
    }

    /// Whether the string is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The byte at a position; None past the end.
    pub fn byte(&self, at: usize) -> Option<u8> {
        match self.0 {
            Form::Plain(bytes) => bytes.get(at).copied(),
            Form::Chunks(chunks) => chunks.byte(at),
        }
    }

    /// The bytes in this range, cut at the end of the string, piece by piece.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Piece<'a>> + use<'a> {
        let (plain, chunks) = match self.0 {
            Form::Plain(bytes) => {
                let end = range.end.min(bytes.len());
                (Some(&bytes[range.start.min(end)..end]), None)
            }
            Form::Chunks(chunks) => (None, Some(chunks.pieces(range))),
        };
        let plain = plain.filter(|bytes| !bytes.is_empty()).map(Piece::Bytes);
        plain.into_iter().chain(chunks.into_iter().flatten())
    }

    /// The bytes in this range, cut at the end of the string, in one piece.
    pub fn bytes(&self, range: Range<usize>) -> Cow<'a, [u8]> {
        match self.0 {
            Form::Plain(bytes) => {
                let end = range.end.min(bytes.len());
                bytes[range.start.min(end)..end].into()
            }
            Form::Chunks(chunks) => chunks.copy(range).into(),
        }
    }

    /// Appends all bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len());
        for piece in self.pieces(0..usize::MAX) {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Zeros(len) => out.resize(out.len() + len, 0),
            }
        }
    }

    /// All bytes in one piece.
    pub fn whole(&self) -> Cow<'a, [u8]> {
        self.bytes(0..self.len())
    }

    /// A copy in one block of the index's memory, which can be kept. `object` is the block of the text's object. None
    /// if the text is too short for a block, or the system has no address space left.
    pub fn to_block(&self, object: BlockRef<'_>) -> Option<Block> {
        let mut buffer = object.buffer_in_same_index(self.len()).ok()?;
        for piece in self.pieces(0..self.len()) {
            match piece {
                Piece::Bytes(bytes) => buffer.extend(bytes).ok()?,
                Piece::Zeros(len) => {
                    // Spare memory is zeroed already.
                    buffer.spare(len).ok()?;
                    buffer.advance(len);
                }
            }
        }
        let buffer = Arc::new(buffer);
        buffer.share(&buffer)
    }

    /// The length of the string after these patches.
    pub(crate) fn len_after(&self, patches: &[Patch<'_>]) -> usize {
        patches.iter().map(Patch::end).fold(self.len(), usize::max)
    }
}

impl Patch<'_> {
    fn end(&self) -> usize {
        self.at.saturating_add(self.bytes.len())
    }
}

impl Type for LongText {
    type Ref<'a> = TextRef<'a>;
    type Parts = Chunks;
    type Change<'c> = Patch<'c>;
    /// The number of patches written.
    type Tally = usize;

    const KIND: u8 = KIND_STRING;
    const KIND_LARGE: u8 = 15;

    fn packed(held: &[u8]) -> TextRef<'_> {
        TextRef(Form::Plain(held))
    }

    fn large(chunks: &Chunks) -> TextRef<'_> {
        TextRef(Form::Chunks(chunks))
    }

    /// None for an integer, which has no stored text: [`view_text`] formats it.
    fn of_value(value: ValueRef<'_>) -> Option<TextRef<'_>> {
        match value {
            ValueRef::Bytes(bytes) => Some(TextRef::plain(bytes)),
            ValueRef::Text(text) => Some(text),
            _ => None,
        }
    }

    fn of_parts(parts: &Parts) -> Option<&Chunks> {
        match parts {
            Parts::Text(chunks) => Some(chunks),
            _ => None,
        }
    }

    fn of_parts_mut(parts: &mut Parts) -> Option<&mut Chunks> {
        match parts {
            Parts::Text(chunks) => Some(chunks),
            _ => None,
        }
    }

    fn packed_len_max(text: TextRef<'_>) -> usize {
        text.len()
    }

    fn weigh(patch: &Patch<'_>) -> Weight {
        Weight { longest: patch.end(), len: patch.bytes.len() + NUMBERS_MAX, grows: true }
    }

    fn changed(text: TextRef<'_>, patches: &[Patch<'_>]) -> (usize, Option<Vec<u8>>) {
        let mut after = Vec::with_capacity(text.len_after(patches));
        after.extend_from_slice(&text.whole());
        for patch in patches {
            if after.len() < patch.end() {
                after.resize(patch.end(), 0);
            }
            after[patch.at..patch.end()].copy_from_slice(&patch.bytes);
        }
        (patches.len(), Some(after))
    }

    fn packs(held: &[u8], _: &[Patch<'_>], options: &ContainerOptions) -> bool {
        held.len() <= options.text_plain_max()
    }

    fn unpack(held: &[u8], _: &ContainerOptions) -> Option<Parts> {
        let mut chunks = Chunks::new();
        chunks.write(0, held);
        Some(Parts::Text(chunks))
    }

    fn apply(chunks: &mut Chunks, patches: &[Patch<'_>]) -> usize {
        patches.iter().for_each(|patch| chunks.write(patch.at, &patch.bytes));
        patches.len()
    }

    /// Never: an empty string is a valid value.
    fn emptied_by(_: &Chunks, _: &[Patch<'_>]) -> Option<usize> {
        None
    }

    fn had_no_effect(written: usize) -> bool {
        written == 0
    }

    fn text(chunks: &Chunks) -> Option<Vec<u8>> {
        Some(chunks.copy(0..chunks.len()))
    }

    /// Position, length, bytes.
    fn changes_to_bytes(patches: &[Patch<'_>]) -> Vec<u8> {
        let len = patches.iter().map(|patch| LongText::weigh(patch).len).sum();
        let mut bytes = Vec::with_capacity(len);
        for patch in patches {
            push_number(&mut bytes, patch.at as u64);
            push(&mut bytes, &patch.bytes);
        }
        bytes
    }

    fn changes_from_bytes(mut bytes: &[u8]) -> Option<Vec<Patch<'_>>> {
        let mut patches = Vec::new();
        while !bytes.is_empty() {
            let (at, rest) = split_number(bytes)?;
            let (patch, rest) = split(rest)?;
            let patch = Patch { at: position(at)?, bytes: patch.into() };
            position(patch.end() as u64)?;
            patches.push(patch);
            bytes = rest;
        }
        Some(patches)
    }
}

/// Checks a position read from bytes that may be damaged: no string is longer than 4 GiB.
fn position(at: u64) -> Option<usize> {
    u32::try_from(at).ok().map(|at| at as usize)
}

/// Encodes the entire string for the log and snapshots.
pub(crate) fn to_packed(chunks: &Chunks, number: u64) -> Vec<u8> {
    let mut held = Head { number, count: chunks.len() }.begin(chunks.len() - zeros_of(chunks));
    let (mut at, mut zeros) = (0, 0);
    while at < chunks.len() {
        // Adjacent pieces form one run.
        let pieces = || chunks.pieces(at..usize::MAX);
        let run: usize = pieces().map_while(bytes_of).map(<[u8]>::len).sum();
        if run > 0 {
            push_number(&mut held, zeros);
            push_number(&mut held, run as u64);
            pieces().map_while(bytes_of).for_each(|bytes| held.extend_from_slice(bytes));
        }
        at += run;
        zeros = match chunks.pieces(at..usize::MAX).next() {
            Some(Piece::Zeros(len)) => len as u64,
            _ => 0,
        };
        at += zeros as usize;
    }
    held
}

fn bytes_of(piece: Piece<'_>) -> Option<&[u8]> {
    match piece {
        Piece::Bytes(bytes) => Some(bytes),
        Piece::Zeros(_) => None,
    }
}

/// Zeros that take no memory.
fn zeros_of(chunks: &Chunks) -> usize {
    let zeros = |piece| match piece {
        Piece::Bytes(_) => 0,
        Piece::Zeros(len) => len,
    };
    chunks.pieces(0..usize::MAX).map(zeros).sum()
}

/// Decodes the bytes of `to_packed`. None if they are invalid.
pub(crate) fn from_packed(held: &[u8]) -> Option<Contents> {
    let (head, mut rest) = Head::split(held);
    let (mut chunks, mut at) = (Chunks::new(), 0);
    while !rest.is_empty() {
        let (zeros, tail) = split_number(rest)?;
        let (run, tail) = split(tail)?;
        at = position((at as u64).checked_add(zeros)?)?;
        position((at + run.len()) as u64)?;
        chunks.write(at, run);
        at += run.len();
        rest = tail;
    }
    chunks.grow(position(head.count as u64)?);
    Some(Contents { number: head.number, parts: Parts::Text(chunks) })
}

/// Memory of the original block of a long string, in bytes, while the string still refers to the block.
pub(crate) fn base_bytes(entry: &Entry<'_>) -> usize {
    let of_contents =
        |contents: &Contents| LongText::of_parts(&contents.parts)?.base().map(Block::fair_share);
    large::of_entry(entry).and_then(|large| large.read(of_contents)).unwrap_or(0)
}

/// A snapshot of the chunks of a long string.
pub(crate) fn snapshot(entry: &Entry<'_>) -> Option<Chunks> {
    match large::of_entry(entry)?.snapshot().parts {
        Parts::Text(chunks) => Some(chunks),
        _ => None,
    }
}

/// Whether the value is a long string that has been modified in part.
pub(crate) fn is_object(entry: &Entry<'_>) -> bool {
    matches!(entry.value, Value::Bytes { kind: LongText::KIND_LARGE, .. })
}

/// Calls `f` with a string. Writers of a long string wait meanwhile, so `f` must be short.
///
/// # Errors
/// [`StoreError::WrongType`]
pub(crate) fn view_text<R>(
    entry: &Entry<'_>,
    f: impl FnOnce(TextRef<'_>) -> R,
) -> Result<R, StoreError> {
    if is_object(entry) {
        return crate::container::view_container::<LongText, R>(entry, f);
    }
    view(entry.value, |value| match value.is_string() {
        true => Ok(value.with_bytes(|bytes| f(TextRef::plain(bytes)))),
        false => Err(StoreError::WrongType),
    })
}

/// Whether a string of this length becomes an object when it results from a change of the key's value.
pub(crate) fn is_long(len: usize, old: Option<&Entry<'_>>, plain_max: usize) -> bool {
    let has_flags = || old.is_some_and(|entry| Metadata::of(entry.value).flags != 0);
    len > plain_max && !has_flags()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse() -> Chunks {
        let mut chunks = Chunks::new();
        chunks.write(0, b"begin");
        chunks.write(100_000, &[7; 40_000]);
        chunks.write(10 << 20, b"end");
        chunks.grow(11 << 20);
        chunks
    }

    #[test]
    fn the_form_for_the_log_has_no_zeros_and_comes_back() {
        let chunks = sparse();
        let held = to_packed(&chunks, 300);
        // Within a chunk zeros are bytes.
        assert!(held.len() < 64 << 10, "{}", held.len());
        let back = from_packed(&held).expect("it is such a form");
        let Parts::Text(text) = &back.parts else { panic!("a text") };
        assert_eq!((back.number, text.len()), (300, chunks.len()));
        assert!(text.copy(0..usize::MAX) == chunks.copy(0..usize::MAX));
        assert_eq!(to_packed(&Chunks::new(), 0).len(), 2);
        // A chunk is compact in memory, too.
        assert!(text.footprint() < 80 << 10, "{}", text.footprint());
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let mut chunks = Chunks::new();
        chunks.write(3, b"ab");
        chunks.write(200_000, b"cd");
        let patches = [Patch { at: 70_000, bytes: b"xyz"[..].into() }];
        for held in [to_packed(&chunks, 9), LongText::changes_to_bytes(&patches)] {
            for end in 0..held.len() {
                for bit in 0..8 * end {
                    let mut damaged = held[..end].to_vec();
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    from_packed(&damaged);
                    LongText::changes_from_bytes(&damaged);
                }
            }
        }
        let far = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(LongText::changes_from_bytes(&[&far[..], b"\x01a"].concat()).is_none());
        assert_eq!(
            LongText::changes_from_bytes(&LongText::changes_to_bytes(&patches)).unwrap(),
            patches
        );
    }
}
