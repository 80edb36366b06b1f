//! Takes elements from a key that has some, as the non-blocking commands do.

use hotring_protocol::Version;
use hotring_store::{End, ReplyCapacity};

use crate::commands::list::reply_elements;
use crate::commands::zset::{reply_capacity, reply_members};
use crate::state::blocked::Want;
use crate::state::context::Context;
use crate::state::failure::Outcome;

/// Takes the requested elements from the key, and writes the reply. The caller must hold the key and must have found an
/// element.
pub(super) fn take(c: &mut Context<'_>, want: &Want, key: &[u8]) -> Outcome {
    match want {
        Want::Element(end) => {
            let popped = c
                .store
                .list_pop(key, *end, (1, ReplyCapacity::UNLIMITED), c.now)?
                .unwrap_or_default();
            c.reply.array(2);
            c.reply.bulk(key);
            c.reply.bulk(popped.first().unwrap_or_default());
        }
        Want::Elements(end, count) => {
            let limits = (*count, c.reply_capacity(key));
            let popped = c.store.list_pop(key, *end, limits, c.now)?.unwrap_or_default();
            c.reply.array(2);
            c.reply.bulk(key);
            reply_elements(c, &popped);
        }
        Want::Move { from, to, destination } => {
            // The caller has freed memory if the move is immediate. A client that had to wait is served without that.
            let ends = (*from, *to);
            match c.admitted(0, |c| c.store.list_move(key, destination, ends, c.now))? {
                Some(element) => c.reply.bulk(element.first().unwrap_or_default()),
                None => c.reply.null(),
            }
        }
        Want::Member(end) => {
            let popped =
                c.store.scored_pop(key, (1, ReplyCapacity::UNLIMITED), *end == End::Back, c.now)?;
            c.reply.array(3);
            c.reply.bulk(key);
            let (member, score) = popped.first().map_or((&b""[..], 0.0), |(m, s)| (m, *s));
            c.reply.bulk(member);
            c.reply.double(score);
        }
        Want::Members(end, count) => {
            let limits = (*count, reply_capacity(c, key));
            let popped = c.store.scored_pop(key, limits, *end == End::Back, c.now)?;
            c.reply.array(2);
            c.reply.bulk(key);
            // In RESP2, too, each pair is an array of its own.
            reply_members(c, Version::Resp3, &popped);
        }
    }
    Ok(())
}
