//! Operations on the bytes of packed entries: encoding lengths, and replacing bytes in the middle.
//!
//! A length takes 7 bits a byte, lowest first, with the highest bit set on all but the last byte.

/// Buffers grow to a multiple of this many bytes.
const STEP: usize = 64;
/// A buffer with more unused bytes than this is shrunk.
const SLACK_MAX: usize = 256;

/// Bytes that an encoded length takes.
pub(crate) fn len_of_len(len: usize) -> usize {
    let bits = usize::BITS - len.leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

/// Writes a length at the start of `out`, and returns the bytes that it took.
pub(crate) fn write_len(out: &mut [u8], mut len: usize) -> usize {
    let mut at = 0;
    while len >= 0x80 {
        out[at] = len as u8 | 0x80;
        len >>= 7;
        at += 1;
    }
    out[at] = len as u8;
    at + 1
}

/// Reads a length, and returns it with the offset behind it.
#[inline]
pub(crate) fn read_len(data: &[u8], at: usize) -> (usize, usize) {
    let first = data[at];
    if first < 0x80 {
        return (usize::from(first), at + 1);
    }
    read_long_len(data, at)
}

#[cold]
fn read_long_len(data: &[u8], mut at: usize) -> (usize, usize) {
    let (mut len, mut shift) = (0, 0);
    loop {
        let byte = data[at];
        len |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        at += 1;
        if byte < 0x80 {
            return (len, at);
        }
    }
}

/// Replaces `from..to` by a gap of `gap` bytes and returns it. O(bytes behind it).
pub(crate) fn open(data: &mut Vec<u8>, from: usize, to: usize, gap: usize) -> &mut [u8] {
    let (old, behind) = (data.len(), from + gap);
    let len = old - (to - from) + gap;
    if len > data.capacity() {
        // In small steps: doubling would leave a quarter of all memory unused.
        data.reserve_exact(len.next_multiple_of(STEP) - old);
    }
    if len > old {
        data.resize(len, 0);
        data.copy_within(to..old, behind);
    } else {
        data.copy_within(to..old, behind);
        data.truncate(len);
        if data.capacity() - len > SLACK_MAX {
            data.shrink_to(len.next_multiple_of(STEP));
        }
    }
    &mut data[from..behind]
}

/// Moves the bytes behind `at` into a buffer of their own.
pub(crate) fn split_off(data: &mut Vec<u8>, at: usize) -> Vec<u8> {
    let right = data[at..].to_vec();
    data.truncate(at);
    data.shrink_to(at.next_multiple_of(STEP));
    right
}

/// Appends the bytes of another buffer.
pub(crate) fn append(data: &mut Vec<u8>, right: &[u8]) {
    let at = data.len();
    open(data, at, at, right.len()).copy_from_slice(right);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_back() {
        let mut out = [0; 10];
        for len in [0, 1, 127, 128, 16_383, 16_384, 1 << 21, usize::MAX] {
            let written = write_len(&mut out, len);
            assert_eq!(written, len_of_len(len), "{len}");
            assert_eq!(read_len(&out, 0), (len, written), "{len}");
        }
    }

    #[test]
    fn a_gap_opens_and_closes() {
        let mut data = b"abcdef".to_vec();
        open(&mut data, 2, 4, 3).copy_from_slice(b"123");
        assert_eq!(data, b"ab123ef");
        assert!(open(&mut data, 2, 5, 0).is_empty());
        assert_eq!(data, b"abef");
        let mut long = vec![7; 10_000];
        open(&mut long, 10, 9_990, 0);
        assert!(long.capacity() <= 256 + 64, "{}", long.capacity());
    }
}
