//! Long values between a connection's buffers and the store, which are never copied: where a request has arrived,
//! of which the store may keep a value as it lies there, and which values a reply is to be sent with from where
//! they lie.
//!
//! A thread has one of these. Its owner, the socket, lends the buffer of a request before that is run, and takes
//! the values with the reply. Who does neither (a test, a script) has all values copied, into the reply and out
//! of the request.

use std::sync::Arc;

use hotring_protocol::Writer;
use hotring_store::{Block, BlockRef, Buffer, ValueRef};

/// Parts of long values that are shorter are copied: to send them by themselves costs more.
const SENT_MIN: usize = 64 << 10;

/// A value that belongs into a reply.
#[derive(Debug)]
pub struct Attached {
    /// Where in the reply's bytes.
    pub at: usize,
    /// What.
    pub block: Block,
}

/// What is lent from and to one request.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    /// What the request has arrived in, if that is memory of the store.
    pub buffer: Option<Arc<Buffer>>,
    /// Values that are to be sent with the reply, in their order; None if they are to be copied into it.
    pub attached: Option<Vec<Attached>>,
    /// Bytes of these.
    pub len: usize,
}

impl Lent {
    /// Writes a value as a bulk string. Of one that lies in a block only what is around it, if it may be sent
    /// from there.
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

    /// As [`reply`](Self::reply), of bytes that lie in a block.
    #[cold]
    pub(crate) fn reply_long(&mut self, reply: &mut Writer<'_>, bytes: &[u8], block: BlockRef<'_>) {
        let attached = self.attached.as_mut().filter(|_| bytes.len() >= SENT_MIN);
        let part = attached.and_then(|all| Some((all, block.to_block().part(bytes)?)));
        // A short part would keep the memory of the whole.
        let is_most = |(_, part): &(_, Block)| part.footprint() / 2 <= bytes.len();
        let Some((all, block)) = part.filter(is_most) else { return reply.bulk(bytes) };
        self.len += bytes.len();
        reply.bulk_around(bytes.len(), |at| all.push(Attached { at, block }));
    }

    /// Drops what belongs behind this many bytes of a reply: they were taken back.
    #[inline]
    pub(crate) fn cut(&mut self, len: usize) {
        if let Some(all) = &mut self.attached {
            while let Some(taken) = all.pop_if(|last| last.at > len) {
                self.len -= taken.block.len();
            }
        }
    }
}

/// Writes a value as the bulk string that it is to clients.
#[inline]
fn bulk(reply: &mut Writer<'_>, value: ValueRef<'_>) {
    match value {
        ValueRef::Int(number) => reply.bulk_int(number),
        ValueRef::Bytes(bytes) => reply.bulk(bytes),
        ValueRef::Hash(_) => unreachable!("operations on strings show strings only"),
    }
}
