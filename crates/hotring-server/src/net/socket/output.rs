//! Replies that the kernel has not taken yet: bytes, and long values that are sent from where they lie.

use std::collections::VecDeque;

use hotring_commands::state::lent::Attached;

/// So much of a long value is handed over at one time: the kernel copies it, and others wait meanwhile.
const PART_LEN: usize = 256 << 10;

/// What is to be sent.
#[derive(Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// Rarely there.
    attached: Option<Box<Lying>>,
}

/// Values between the bytes.
#[derive(Default)]
struct Lying {
    all: VecDeque<Attached>,
    /// Bytes of the first that have been sent.
    sent: usize,
    /// Of all, bytes that have not.
    len: usize,
}

impl Output {
    /// How much is to be sent.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.lent()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Of that, bytes of values, whose memory the store counts.
    pub(super) fn lent(&self) -> usize {
        self.attached.as_ref().map_or(0, |lying| lying.len)
    }

    /// Bytes of memory that are its own.
    pub(super) fn own_memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Its part of the memory of values.
    pub(super) fn shared_memory(&self) -> usize {
        let lying = self.attached.as_ref();
        lying.map_or(0, |lying| lying.all.iter().map(|value| value.block.fair_share()).sum())
    }

    /// The bytes, to append some.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        self.drop_sent();
        &mut self.bytes
    }

    /// Drops what has been sent, once that is more than half: who always has something unsent would never end
    /// to grow.
    fn drop_sent(&mut self) {
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.bytes.shrink_to(2 * self.bytes.len());
            let all = self.attached.iter_mut().flat_map(|lying| &mut lying.all);
            all.for_each(|value| value.at -= self.sent);
            self.sent = 0;
        }
    }

    /// Appends replies of which so many bytes have been sent, and their values.
    pub(super) fn extend(&mut self, replies: &[u8], sent: usize, attached: &mut Vec<Attached>) {
        self.drop_sent();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&replies[sent..]);
        if attached.is_empty() {
            return;
        }
        let lying = self.attached.get_or_insert_default();
        for Attached { at, block } in attached.drain(..) {
            lying.len += block.len();
            lying.all.push_back(Attached { at: start + at - sent, block });
        }
    }

    /// As [`extend`](Self::extend) of an empty one, without a copy.
    pub(super) fn take(&mut self, replies: Vec<u8>, sent: usize) {
        debug_assert!(self.bytes.is_empty(), "nothing is before it");
        (self.bytes, self.sent) = (replies, sent);
    }

    /// What is to be sent next, or a part of it.
    pub(super) fn next(&self) -> Option<&[u8]> {
        let end = match self.attached.as_ref().and_then(|lying| Some((lying, lying.all.front()?))) {
            Some((lying, first)) if first.at == self.sent => {
                let rest = &first.block[lying.sent..];
                return Some(&rest[..rest.len().min(PART_LEN)]);
            }
            Some((_, first)) => first.at,
            None => self.bytes.len(),
        };
        (self.sent < end).then(|| &self.bytes[self.sent..end])
    }

    /// Notes that `n` bytes of what was next have been sent.
    pub(super) fn advance(&mut self, n: usize) {
        let at = self.sent;
        let lying = self
            .attached
            .as_mut()
            .filter(|lying| lying.all.front().is_some_and(|first| first.at == at));
        let Some(lying) = lying else {
            self.sent += n;
            return;
        };
        lying.sent += n;
        lying.len -= n;
        if lying.all.front().is_some_and(|first| first.block.len() == lying.sent) {
            lying.sent = 0;
            // Others may have waited for its memory.
            lying.all.pop_front();
            if lying.all.is_empty() {
                self.attached = None;
            }
        }
    }

    /// Gives the memory back of what has been sent, if that is all; false if there was none.
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
        assert_eq!((output.len(), output.lent()), (5 + 3 * LEN, 3 * LEN));
        assert!(output.bytes.len() <= 5, "what was sent is dropped");
        while let Some(next) = output.next() {
            // By odd steps, as a kernel takes them.
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
