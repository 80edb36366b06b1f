//! Replies that the kernel has not taken yet: bytes, and long values sent without a copy.

use std::collections::VecDeque;

use hotring_commands::state::long_values::Attached;

/// Most bytes of a long value per write: the kernel copies them while other connections wait.
const PART_LEN: usize = 256 << 10;

/// The unsent output of a connection.
#[derive(Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// Rarely present.
    attached: Option<Box<Attachments>>,
}

/// Values between the bytes.
#[derive(Default)]
struct Attachments {
    all: VecDeque<Attached>,
    /// Bytes of the first value that have been sent.
    sent: usize,
    /// Unsent bytes of all values.
    len: usize,
}

impl Output {
    /// Unsent bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.attached_len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Unsent bytes of values; the store counts their memory.
    pub(super) fn attached_len(&self) -> usize {
        self.attached.as_ref().map_or(0, |values| values.len)
    }

    /// Bytes of memory that the store does not count.
    pub(super) fn own_memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// This connection's share of the memory of the values.
    pub(super) fn shared_memory(&self) -> usize {
        let values = self.attached.as_ref();
        values.map_or(0, |values| values.all.iter().map(|value| value.block.fair_share()).sum())
    }

    /// The byte buffer, for appending.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        self.drop_sent();
        &mut self.bytes
    }

    /// Drops sent bytes once they are more than half: the buffer of a connection that always has
    /// something unsent would grow without end.
    fn drop_sent(&mut self) {
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.bytes.shrink_to(2 * self.bytes.len());
            let all = self.attached.iter_mut().flat_map(|values| &mut values.all);
            all.for_each(|value| value.at -= self.sent);
            self.sent = 0;
        }
    }

    /// Appends replies of which `sent` bytes have been sent, and their values.
    pub(super) fn extend(&mut self, replies: &[u8], sent: usize, attached: &mut Vec<Attached>) {
        self.drop_sent();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&replies[sent..]);
        if attached.is_empty() {
            return;
        }
        let values = self.attached.get_or_insert_default();
        for Attached { at, block } in attached.drain(..) {
            values.len += block.len();
            values.all.push_back(Attached { at: start + at - sent, block });
        }
    }

    /// Like [`extend`](Self::extend) on an empty output, without a copy.
    pub(super) fn take(&mut self, replies: Vec<u8>, sent: usize) {
        debug_assert!(self.bytes.is_empty(), "nothing is before it");
        (self.bytes, self.sent) = (replies, sent);
    }

    /// The next bytes to send.
    pub(super) fn next(&self) -> Option<&[u8]> {
        let end =
            match self.attached.as_ref().and_then(|values| Some((values, values.all.front()?))) {
                Some((values, first)) if first.at == self.sent => {
                    let rest = &first.block[values.sent..];
                    return Some(&rest[..rest.len().min(PART_LEN)]);
                }
                Some((_, first)) => first.at,
                None => self.bytes.len(),
            };
        (self.sent < end).then(|| &self.bytes[self.sent..end])
    }

    /// Records that `n` bytes of `next` have been sent.
    pub(super) fn advance(&mut self, n: usize) {
        let at = self.sent;
        let values = self
            .attached
            .as_mut()
            .filter(|values| values.all.front().is_some_and(|first| first.at == at));
        let Some(values) = values else {
            self.sent += n;
            return;
        };
        values.sent += n;
        values.len -= n;
        if values.all.front().is_some_and(|first| first.block.len() == values.sent) {
            values.sent = 0;
            // Frees its memory: writers may be waiting for it.
            values.all.pop_front();
            if values.all.is_empty() {
                self.attached = None;
            }
        }
    }

    /// Frees the buffers once everything is sent; false if there were none.
    pub(super) fn end(&mut self) -> bool {
        let was_any = !self.bytes.is_empty();
        if was_any {
            *self = Output::default();
        }
        was_any
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hotring_store::{Block, Options, Store};

    use super::*;

    fn block(len: usize, byte: u8) -> Block {
        let store = Store::new(Options::default()).expect("the settings are good");
        let mut buffer = store.buffer(len).expect("there is memory");
        buffer.extend(&vec![byte; len]).expect("there is memory");
        let buffer = Arc::new(buffer);
        buffer.share(&buffer).expect("all of it")
    }

    #[test]
    fn values_are_sent_where_they_belong() {
        const LEN: usize = 300 << 10;
        let mut output = Output::default();
        let at = |at, byte| Attached { at, block: block(LEN, byte) };
        output.extend(b"+OK\r\n[][]", 2, &mut vec![at(6, b'a'), at(8, b'b')]);
        let mut sent = output.next().expect("bytes before the value").to_vec();
        output.advance(sent.len());
        output.extend(b"<>", 0, &mut vec![at(0, b'c')]);
        assert_eq!((output.len(), output.attached_len()), (5 + 3 * LEN, 3 * LEN));
        assert!(output.bytes.len() <= 5, "what was sent is dropped");
        while let Some(next) = output.next() {
            // Odd steps, as a kernel takes them.
            let n = next.len().min(100_003);
            sent.extend_from_slice(&next[..n]);
            output.advance(n);
        }
        assert!(output.is_empty() && output.end() && !output.end());
        let value = |byte: u8| String::from_utf8(vec![byte; LEN]).expect("letters");
        let expected = format!("K\r\n[{}][{}]{}<>", value(b'a'), value(b'b'), value(b'c'));
        assert!(sent == expected.as_bytes());
    }
}
