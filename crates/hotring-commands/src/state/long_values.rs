//! Long values that move between a connection's buffers and the store without a copy: the store may keep the buffer in
//! which a request has arrived, and a reply may be sent from the blocks of the store.
//!
//! A thread has one of these. The socket puts the buffer of a request in before the request runs, and takes the values
//! that belong to the reply out afterwards. Callers that do neither (tests, scripts) get all values copied.

use std::sync::Arc;

use hotring_protocol::Writer;
use hotring_store::{Block, BlockRef, Buffer, ValueRef};

/// Shorter parts of long values are copied: a write of their own would cost more.
const SENT_MIN: usize = 64 << 10;

/// A long value that is sent between the bytes of a reply.
#[derive(Debug)]
pub struct Attached {
    /// Its position in the bytes of the reply.
    pub at: usize,
    /// The value.
    pub block: Block,
}

/// The long values of the request that runs.
#[derive(Debug, Default)]
pub(crate) struct LongValues {
    /// The buffer in which the request has arrived, if it is memory of the store.
    pub buffer: Option<Arc<Buffer>>,
    /// The values that belong to the reply, in their order; None if they must be copied into it.
    pub attached: Option<Vec<Attached>>,
    /// Bytes of these values.
    pub len: usize,
}

impl LongValues {
    /// Writes a value as a bulk string. A long value in a block is attached if it may be: only the bytes around it are
    /// written.
    #[inline]
    pub(crate) fn reply(
        &mut self,
        reply: &mut Writer<'_>,
        value: ValueRef<'_>,
        block: Option<BlockRef<'_>>,
    ) {
        match (block, value) {
            (Some(block), ValueRef::Bytes(bytes)) => self.reply_long(reply, bytes, block),
            _ => bulk(reply, value),
        }
    }

    /// As [`reply`](Self::reply), for bytes in a block.
    #[cold]
    pub(crate) fn reply_long(&mut self, reply: &mut Writer<'_>, bytes: &[u8], block: BlockRef<'_>) {
        let attached = self.attached.as_mut().filter(|_| bytes.len() >= SENT_MIN);
        let part = attached.and_then(|all| Some((all, block.to_block().part(bytes)?)));
        // A short part would keep the memory of the whole block.
        let is_most = |(_, part): &(_, Block)| part.footprint() / 2 <= bytes.len();
        let Some((all, block)) = part.filter(is_most) else { return reply.bulk(bytes) };
        self.len += bytes.len();
        reply.bulk_around(bytes.len(), |at| all.push(Attached { at, block }));
    }

    /// Drops the values behind the first `len` bytes of the reply: the rest of the reply was taken back.
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
