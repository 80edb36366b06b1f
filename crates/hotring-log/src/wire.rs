//! The frames of the link between a primary and a replica. `docs/design/replication-wire.md` describes them.
//!
//! ```text
//!  length of the body u32 | kind u8 | more u8 | zero u16 | CRC-32C u32 | number u32 | body
//! ```
//! Integers are little-endian. The checksum covers everything else of the frame. Frames are numbered from 0 in each
//! direction. A message is one frame, or several of the same kind, all but the last marked with `more`. The peer is not
//! trusted: a length above [`BODY_MAX`], a wrong number, kind or checksum ends the connection.

use std::fmt;

/// Length of a frame's head.
pub const FRAME_HEAD_LEN: usize = 16;

/// The longest body of a frame.
pub const BODY_MAX: usize = 256 << 10;

/// The version of the protocol, which the replica's first command names. Whatever changes the bytes raises it.
pub const WIRE_VERSION: u32 = 5;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message of the machines that decide who follows whom (`hotring-cluster`).
    Message = 1,
    /// Sealed records, as in a segment. The frames are one stream: a record may begin in one frame and end in another.
    Records = 2,
    /// The beginning of a full copy: the number of the record behind which the stream goes on, and the expected number
    /// of keys, as u64. The replica drops its data.
    CopyBegin = 3,
    /// A part of a full copy: packed effects.
    Part = 4,
    /// The end of a full copy: the number of the record up to which the replica must apply the stream, as u64.
    CopyEnd = 5,
    /// From a replica: keys of which it needs the present state, because it has cut records of them off. Parts and
    /// their end follow, as in a full copy.
    Keys = 6,
    /// From a primary in a cluster: since which record its shard has each slot.
    Tenure = 7,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{CopyBegin, CopyEnd, Keys, Message, Part, Records, Tenure};
        let all = [Message, Records, CopyBegin, Part, CopyEnd, Keys, Tenure];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it holds.
    pub kind: Kind,
    /// More frames of the same message follow.
    pub more: bool,
    /// Its content.
    pub body: &'a [u8],
}

/// Bytes that are not the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame(pub &'static str);

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer sent a frame with a wrong {}", self.0)
    }
}

impl std::error::Error for BadFrame {}

/// Writes the frames of one direction.
#[derive(Debug, Default)]
pub struct FrameWriter {
    number: u32,
}

impl FrameWriter {
    /// Leaves space for a frame's head; the body must be appended behind it. Returns the place for [`end`](Self::end).
    pub fn begin(&self, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(&[0; FRAME_HEAD_LEN]);
        out.len() - FRAME_HEAD_LEN
    }

    /// Completes the frame that was begun at this place.
    ///
    /// # Panics
    /// The body is longer than [`BODY_MAX`].
    pub fn end(&mut self, out: &mut [u8], at: usize, kind: Kind, more: bool) {
        let frame = &mut out[at..];
        let body_len = frame.len() - FRAME_HEAD_LEN;
        assert!(body_len <= BODY_MAX, "a frame of {body_len} bytes");
        frame[..4].copy_from_slice(&(body_len as u32).to_le_bytes());
        (frame[4], frame[5]) = (kind as u8, more.into());
        frame[12..16].copy_from_slice(&self.number.to_le_bytes());
        let crc = checksum(frame);
        frame[8..12].copy_from_slice(&crc.to_le_bytes());
        self.number = self.number.wrapping_add(1);
    }

    /// Appends a message of one frame.
    pub fn message(&mut self, out: &mut Vec<u8>, kind: Kind, body: &[u8]) {
        let at = self.begin(out);
        out.extend_from_slice(body);
        self.end(out, at, kind, false);
    }
}

/// Reads the frames of one direction.
#[derive(Debug, Default)]
pub struct FrameReader {
    number: u32,
}

impl FrameReader {
    /// The frame at the start of `input`, and its length; None if it is incomplete.
    pub fn read<'a>(&mut self, input: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>, BadFrame> {
        let Some(head) = input.first_chunk::<FRAME_HEAD_LEN>() else { return Ok(None) };
        let body_len = word(head, 0) as usize;
        // The head is checked before the body has arrived: no reader may wait for a body that cannot be right.
        if body_len > BODY_MAX {
            return Err(BadFrame("length"));
        }
        let kind = Kind::of(head[4]).ok_or(BadFrame("kind"))?;
        if head[5] > 1 || head[6..8] != [0; 2] {
            return Err(BadFrame("head"));
        }
        if word(head, 12) != self.number {
            return Err(BadFrame("number"));
        }
        let len = FRAME_HEAD_LEN + body_len;
        let Some(frame) = input.get(..len) else { return Ok(None) };
        if checksum(frame) != word(head, 8) {
            return Err(BadFrame("checksum"));
        }
        self.number = self.number.wrapping_add(1);
        let frame = Frame { kind, more: head[5] == 1, body: &frame[FRAME_HEAD_LEN..] };
        Ok(Some((frame, len)))
    }
}

fn checksum(frame: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&frame[..8]), &frame[12..])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<u8> {
        let (mut writer, mut out) = (FrameWriter::default(), Vec::new());
        writer.message(&mut out, Kind::Message, b"hello");
        let at = writer.begin(&mut out);
        out.extend_from_slice(b"part");
        writer.end(&mut out, at, Kind::Part, true);
        writer.message(&mut out, Kind::Part, b"");
        out
    }

    #[test]
    fn frames_are_read_as_written_from_any_cut() {
        let bytes = frames();
        let (mut reader, mut at, mut found) = (FrameReader::default(), 0, Vec::new());
        for end in 0..=bytes.len() {
            while let Some((frame, len)) = reader.read(&bytes[at..end]).unwrap() {
                found.push((frame.kind, frame.more, frame.body.to_vec()));
                at += len;
            }
        }
        assert_eq!(at, bytes.len());
        assert_eq!(found[0], (Kind::Message, false, b"hello".to_vec()));
        assert_eq!(found[1], (Kind::Part, true, b"part".to_vec()));
        assert_eq!(found[2], (Kind::Part, false, Vec::new()));
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let bytes = frames();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let (mut reader, mut at, mut found) = (FrameReader::default(), 0, 0);
            let outcome = loop {
                match reader.read(&changed[at..]) {
                    Ok(Some((_, len))) => (at, found) = (at + len, found + 1),
                    // A longer length is noticed when the rest of the frame has arrived.
                    Ok(None) => break found < 3,
                    Err(_) => break true,
                }
            };
            assert!(outcome, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_that_is_repeated_left_out_or_too_long_is_refused() {
        let bytes = frames();
        let mut reader = FrameReader::default();
        let (_, len) = reader.read(&bytes).unwrap().unwrap();
        assert_eq!(reader.read(&bytes), Err(BadFrame("number")));
        let mut reader = FrameReader::default();
        assert_eq!(reader.read(&bytes[len..]), Err(BadFrame("number")));
        let mut long = bytes.clone();
        long[..4].copy_from_slice(&(BODY_MAX as u32 + 1).to_le_bytes());
        assert_eq!(FrameReader::default().read(&long[..FRAME_HEAD_LEN]), Err(BadFrame("length")));
    }
}
