//! A long string of bytes that is overwritten and appended to in place.
//!
//! ```text
//!   Inner   children  c0   none   c2        a chunk or an inner node each, by the bits of the position
//!                     |           |
//!                   chunk       chunk       up to CHUNK bytes; behind its end there are zeros
//! ```
//! A missing chunk reads as the same bytes of the *base*, the contiguous string that the text was created from, and as
//! zeros behind the base's end. So creating a text over a base is O(1), and holes take no memory. A write that copies
//! a chunk out of the base also copies a second one: once half of the chunks have been written, the base is not needed
//! and is dropped.
//!
//! # Invariants
//! * A node changes only while it is not shared, as in `tree.rs`.
//! * No byte of a present chunk is read from the base.
//! * No chunk is longer than [`CHUNK`], none reaches behind the end of the text, and neither does the base.

use std::ops::{Deref, Range};

use triomphe::Arc;

use crate::tree::{Dismantle, Remains};

/// Bytes of a chunk.
const CHUNK: usize = 16 << 10;
const BITS: u32 = 5;
/// Children of an inner node.
const CHILDREN: usize = 1 << BITS;
/// The least capacity of a chunk that a write has grown, in bytes.
const ROOM_MIN: usize = 64;

/// A string of bytes that changes in place, on top of an immutable base. Read, write: O(log n) plus the bytes read or
/// written. Clone: O(1).
#[derive(Clone)]
pub struct Text<B> {
    root: Option<Node>,
    /// Levels of inner nodes.
    height: u32,
    len: usize,
    base: Option<B>,
    /// All chunks before this one are present: none of them is read from the base.
    moved: usize,
    /// Bytes of all nodes.
    heap: usize,
}

/// A contiguous part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// This many zeros, which take no memory.
    Zeros(usize),
}

#[derive(Clone)]
enum Node {
    Inner(Arc<Inner>),
    Chunk(Arc<Chunk>),
}

type Inner = [Option<Node>; CHILDREN];

/// The bytes of a chunk, with spare capacity for appends.
struct Chunk(Vec<u8>);

impl Clone for Chunk {
    /// Keeps the spare capacity.
    fn clone(&self) -> Chunk {
        let mut data = Vec::with_capacity(self.0.capacity());
        data.extend_from_slice(&self.0);
        Chunk(data)
    }
}

impl Chunk {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let (data, end) = (&mut self.0, at + bytes.len());
        if end > data.capacity() {
            let capacity = (2 * data.capacity()).clamp(ROOM_MIN, CHUNK).max(end);
            data.reserve_exact(capacity - data.len());
        }
        if end > data.len() {
            data.resize(end, 0);
        }
        data[at..end].copy_from_slice(bytes);
    }
}

impl Node {
    fn own_bytes(&self) -> usize {
        match self {
            Node::Inner(_) => INNER_BYTES,
            Node::Chunk(chunk) => CHUNK_HEAD + chunk.0.capacity(),
        }
    }
}

const COUNT: usize = size_of::<usize>();
const INNER_BYTES: usize = COUNT + size_of::<Inner>();
const CHUNK_HEAD: usize = COUNT + size_of::<Chunk>();

impl<B> Default for Text<B> {
    fn default() -> Self {
        Text { root: None, height: 0, len: 0, base: None, moved: 0, heap: 0 }
    }
}

impl<B: Deref<Target = [u8]>> Text<B> {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// A text with the bytes of `base`. O(1).
    pub fn over(base: B) -> Self {
        Text { len: base.len(), base: Some(base), ..Self::default() }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory in use, without the base.
    pub fn footprint(&self) -> usize {
        self.heap
    }

    /// The string that the text was created from, while any byte is read from it.
    pub fn base(&self) -> Option<&B> {
        self.base.as_ref()
    }

    /// The byte at a position; None behind the end.
    pub fn byte(&self, at: usize) -> Option<u8> {
        let is_inside = at < self.len;
        is_inside.then(|| self.present(at / CHUNK).get(at % CHUNK).copied().unwrap_or(0))
    }

    /// The bytes of these positions, piece by piece. Positions behind the end are left out.
    pub fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = Piece<'_>> {
        let (mut at, end) = (range.start, range.end.min(self.len));
        std::iter::from_fn(move || {
            let piece = self.piece(at, end)?;
            at += match piece {
                Piece::Bytes(bytes) => bytes.len(),
                Piece::Zeros(len) => len,
            };
            Some(piece)
        })
    }

    /// The first piece of these positions.
    fn piece(&self, at: usize, end: usize) -> Option<Piece<'_>> {
        if at >= end {
            return None;
        }
        let bytes = self.present(at / CHUNK).get(at % CHUNK..).unwrap_or_default();
        if !bytes.is_empty() {
            return Some(Piece::Bytes(&bytes[..bytes.len().min(end - at)]));
        }
        let mut next = at / CHUNK + 1;
        while next * CHUNK < end && self.present(next).is_empty() {
            // Skips all chunks below the missing node.
            let missing = self.find(next).err().map_or(0, |height| BITS * height);
            next = ((next >> missing) + 1) << missing;
        }
        Some(Piece::Zeros((next * CHUNK).min(end) - at))
    }

    /// A copy of the bytes of these positions. Positions behind the end are left out.
    pub fn copy(&self, range: Range<usize>) -> Vec<u8> {
        let len = range.end.min(self.len).saturating_sub(range.start);
        let mut copy = Vec::with_capacity(len);
        for piece in self.pieces(range) {
            match piece {
                Piece::Bytes(bytes) => copy.extend_from_slice(bytes),
                Piece::Zeros(len) => copy.resize(copy.len() + len, 0),
            }
        }
        copy
    }

    /// Writes bytes from a position on. A gap between the end and the position is filled with
    /// zeros.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let (mut at, mut bytes) = (at, bytes);
        self.grow(at + bytes.len());
        while !bytes.is_empty() {
            let within = at % CHUNK;
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - within));
            if self.write_chunk(at / CHUNK, within, now) {
                self.move_one();
            }
            at += now.len();
            bytes = later;
        }
    }

    /// Appends zeros up to this length.
    pub fn grow(&mut self, len: usize) {
        self.len = self.len.max(len);
        // The tree must be high enough for the last chunk.
        while self.len.div_ceil(CHUNK) > 1 << (BITS * self.height) {
            if let Some(root) = self.root.take() {
                let mut inner = Inner::default();
                inner[0] = Some(root);
                self.root = Some(Node::Inner(Arc::new(inner)));
                self.heap += INNER_BYTES;
            }
            self.height += 1;
        }
    }

    /// Writes within one chunk. True if the chunk's bytes were copied out of the base.
    fn write_chunk(&mut self, i: usize, at: usize, bytes: &[u8]) -> bool {
        let Text { root, height, base, heap, .. } = self;
        let slot = slot(root, *height, i, heap);
        let below = if slot.is_none() { base_part(base.as_ref(), i) } else { &[] };
        let node = slot.get_or_insert_with(|| {
            *heap += CHUNK_HEAD;
            Node::Chunk(Arc::new(Chunk(Vec::new())))
        });
        let Node::Chunk(chunk) = node else { unreachable!("chunks are at the lowest level") };
        let before = chunk.0.capacity();
        let chunk = Arc::make_mut(chunk);
        if !below.is_empty() {
            chunk.0.reserve_exact(below.len().max(at + bytes.len()));
            chunk.0.extend_from_slice(below);
        }
        chunk.write(at, bytes);
        *heap = *heap - before + chunk.0.capacity();
        !below.is_empty()
    }

    /// Copies one more chunk out of the base; drops the base once no chunk is left there.
    fn move_one(&mut self) {
        let Some(base) = &self.base else { return };
        let chunks = base.len().div_ceil(CHUNK);
        let next = (self.moved..chunks).find(|i| self.chunk(*i).is_none()).unwrap_or(chunks);
        if next < chunks {
            self.write_chunk(next, 0, &[]);
        }
        let is_present = |i: &usize| self.chunk(*i).is_some();
        self.moved = next + (next..chunks).take_while(is_present).count();
        if self.moved == chunks {
            self.base = None;
        }
    }

    /// The stored bytes of a chunk; the rest of the chunk is zeros.
    fn present(&self, i: usize) -> &[u8] {
        self.chunk(i).map_or_else(|| base_part(self.base.as_ref(), i), |chunk| &chunk.0)
    }

    fn chunk(&self, i: usize) -> Option<&Chunk> {
        self.find(i).ok()
    }

    /// A chunk; if a node on the path to it is missing, the number of levels below that node.
    fn find(&self, i: usize) -> Result<&Chunk, u32> {
        let mut height = self.height;
        let mut node = self.root.as_ref().ok_or(height)?;
        loop {
            match node {
                Node::Chunk(chunk) => return Ok(chunk),
                Node::Inner(inner) => {
                    height -= 1;
                    node = inner[child(i, height)].as_ref().ok_or(height)?;
                }
            }
        }
    }

    /// Dismantles the text, to be freed in steps.
    pub fn into_remains(self) -> Remains {
        Remains::new(self.root.into_iter().collect::<Vec<Node>>())
    }

    /// Checks all invariants.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        fn bytes(node: &Node, height: u32) -> usize {
            node.own_bytes()
                + match node {
                    Node::Inner(inner) => {
                        inner.iter().flatten().map(|node| bytes(node, height - 1)).sum::<usize>()
                    }
                    Node::Chunk(chunk) => {
                        assert_eq!(height, 0);
                        assert!(chunk.0.len() <= CHUNK && chunk.0.capacity() <= CHUNK);
                        0
                    }
                }
        }
        assert_eq!(self.root.as_ref().map_or(0, |root| bytes(root, self.height)), self.heap);
        let chunks = self.base.as_ref().map_or(0, |base| base.len().div_ceil(CHUNK));
        assert!(self.base.is_none() || self.moved < chunks);
        assert!((0..self.moved).all(|i| self.base.is_none() || self.chunk(i).is_some()));
        assert!(self.base.as_ref().is_none_or(|base| base.len() <= self.len));
    }
}

/// The base's part of a chunk.
fn base_part<B: Deref<Target = [u8]>>(base: Option<&B>, i: usize) -> &[u8] {
    let rest = base.and_then(|base| base.get(i * CHUNK..)).unwrap_or_default();
    &rest[..rest.len().min(CHUNK)]
}

/// The index of the child that leads to chunk `i`, in an inner node with this many levels of inner
/// nodes below.
fn child(i: usize, height: u32) -> usize {
    (i >> (BITS * height)) % CHILDREN
}

/// The slot of a chunk. Creates the missing inner nodes on the path to it.
fn slot<'a>(
    root: &'a mut Option<Node>,
    height: u32,
    i: usize,
    heap: &mut usize,
) -> &'a mut Option<Node> {
    let mut slot = root;
    for height in (0..height).rev() {
        let node = slot.get_or_insert_with(|| {
            *heap += INNER_BYTES;
            Node::Inner(Arc::new(Inner::default()))
        });
        let Node::Inner(inner) = node else { unreachable!("chunks are at the lowest level") };
        slot = &mut Arc::make_mut(inner)[child(i, height)];
    }
    slot
}

impl Dismantle for Vec<Node> {
    fn free_one(&mut self) -> Option<usize> {
        let node = self.pop()?;
        let bytes = node.own_bytes();
        if let Node::Inner(inner) = node
            // A shared node lives on in a clone.
            && let Ok(inner) = Arc::try_unwrap(inner)
        {
            self.extend(inner.into_iter().flatten());
        }
        Some(bytes)
    }
}
