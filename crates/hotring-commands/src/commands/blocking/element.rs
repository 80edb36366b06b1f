//! Taking elements from a key that has some, as the commands without the B do.

use hotring_store::Scored;

use crate::commands::list::reply_all;
use crate::commands::scored::reply_pair;
use crate::state::blocked::Want;
use crate::state::context::Context;
use crate::state::failure::Outcome;

/// Takes what is wanted from the key, and writes the reply. The caller holds the key, and has found an element.
pub(super) fn take(c: &mut Context<'_>, want: &Want, key: &[u8]) -> Outcome {
    match want {
        Want::Element(end) => {
            let popped = c.store.list_pop(key, *end, 1, c.now)?.unwrap_or_default();
            c.reply.array(2);
            c.reply.bulk(key);
            c.reply.bulk(popped.first().map_or(b"", Vec::as_slice));
        }
        Want::Elements(end, count) => {
            let popped = c.store.list_pop(key, *end, *count, c.now)?.unwrap_or_default();
            c.reply.array(2);
            c.reply.bulk(key);
            reply_all(c, &popped);
        }
        Want::Move { from, to, destination } => {
            match c.store.list_move((key, *from), (destination, *to), c.now)? {
                Some(element) => c.reply.bulk(&element),
                None => c.reply.null(),
            }
        }
        Want::Member(end) => {
            let popped = c.store.scored_pop(key, *end, 1, c.now)?.unwrap_or_default();
            c.reply.array(3);
            c.reply.bulk(key);
            let (score, member) = popped.first().map_or((0.0, &b""[..]), |(s, m)| (*s, m));
            reply_pair(c, Scored { score, member }, false);
        }
        Want::Members(end, count) => {
            let popped = c.store.scored_pop(key, *end, *count, c.now)?.unwrap_or_default();
            c.reply.array(2);
            c.reply.bulk(key);
            c.reply.array(popped.len());
            for (score, member) in &popped {
                reply_pair(c, Scored { score: *score, member }, true);
            }
        }
    }
    c.check_reply_len()
}
