//! Zero-copy transfer of long values between a connection's buffers and the store: the store may keep the buffer in
//! which a request has arrived, and a reply may be sent from the blocks of the store.
//!
//! Each thread has one `LongValues`. The socket sets the buffer of a request before the request runs, and takes out
//! the values that belong to the reply afterwards. Callers that do neither (tests, scripts) get all values copied.

use std::sync::Arc;

use hotring_protocol::Writer;
use hotring_store::{Block, BlockRef, Buffer, TextRef, ValueRef};

/// The minimum length in bytes of a value that is sent without a copy. For shorter values a separate write to the
/// socket would cost more than the copy.
const SENT_MIN: usize = 64 << 10;

/// A long value that is sent from the store's memory, between the bytes of a reply.
#[derive(Debug)]
pub struct Attached {
    /// The position of the value in the bytes of the reply.
    pub at: usize,
    /// The value.
    pub block: Block,
}

/// The long values of the running request.
#[derive(Debug, Default)]
pub(crate) struct LongValues {
    /// The buffer in which the request has arrived, if it is memory of the store.
    pub buffer: Option<Arc<Buffer>>,
    /// The values that belong to the reply, in its order; None if values must be copied into the reply.
    pub attached: Option<Vec<Attached>>,
    /// Total bytes of the attached values.
    pub len: usize,
}

impl LongValues {
    /// Writes a value as a bulk string. A long value in a block is attached if possible: then only the bytes around the
    /// value are written.
    #[inline]
    pub(crate) fn reply(
        &mut self,
        reply: &mut Writer<'_>,
        value: ValueRef<'_>,
        block: Option<BlockRef<'_>>,
    ) {
        match (block, value) {
            (Some(block), ValueRef::Bytes(bytes)) => self.reply_long(reply, bytes, block),
            (Some(block), ValueRef::Text(text)) => self.reply_text(reply, text, block),
            _ => bulk(reply, value),
        }
    }

    /// As [`reply`](Self::reply), for bytes in a block.
    #[cold]
    pub(crate) fn reply_long(&mut self, reply: &mut Writer<'_>, bytes: &[u8], block: BlockRef<'_>) {
        let attached = self.attached.as_mut().filter(|_| bytes.len() >= SENT_MIN);
        let part = attached.and_then(|all| Some((all, block.to_block().part(bytes)?)));
        // A short part would keep the memory of the entire block alive.
        let is_most = |(_, part): &(_, Block)| part.footprint() / 2 <= bytes.len();
        let Some((all, block)) = part.filter(is_most) else { return reply.bulk(bytes) };
        self.len += bytes.len();
        reply.bulk_around(bytes.len(), |at| all.push(Attached { at, block }));
    }

    /// As [`reply`](Self::reply), for a string that is stored in chunks: it is copied once, into a contiguous block.
    #[cold]
    fn reply_text(&mut self, reply: &mut Writer<'_>, text: TextRef<'_>, block: BlockRef<'_>) {
        match text.to_block(block) {
            Some(block) => self.reply_long(reply, &block, block.lend()),
            None => reply.bulk(&text.whole()),
        }
    }

    /// Drops the values after the first `len` bytes of the reply, because the caller has taken back the rest of the
    /// reply.
    #[inline]
    pub(crate) fn cut(&mut self, len: usize) {
        if let Some(all) = &mut self.attached {
            while let Some(taken) = all.pop_if(|last| last.at > len) {
                self.len -= taken.block.len();
            }
        }
    }
}

/// Writes a value as a bulk string.
#[inline]
fn bulk(reply: &mut Writer<'_>, value: ValueRef<'_>) {
    match value {
        ValueRef::Int(number) => reply.bulk_int(number),
        ValueRef::Bytes(bytes) => reply.bulk(bytes),
        ValueRef::Text(text) => reply.bulk(&text.whole()),
        _ => unreachable!("operations on strings show strings only"),
    }
}
