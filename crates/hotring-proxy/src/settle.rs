//! Decides what becomes of a request once its node has answered, or cannot.

use std::rc::Rc;
use std::time::Instant;

use crate::reply::{BREAKS, Refusal, UNKNOWN, UNREACHABLE};
use crate::request::Request;
use crate::thread::Thread;
use crate::upstreams::Upstreams;

/// Redirects after which a request waits before the next one: two nodes that name each other will agree soon.
const REDIRECTS_AT_ONCE: u32 = 2;

/// Connections that may end at one request.
const LOSSES_MAX: u32 = 2;

/// Passes the last reply to a request on, or sends the request elsewhere if the node refuses it for now.
pub(crate) fn settle(
    thread: &Rc<Thread>,
    upstreams: &Rc<Upstreams>,
    node: usize,
    mut request: Request,
    bytes: Vec<u8>,
    reply: &[u8],
    now: Instant,
) {
    let error = request.error.take();
    let decisive = match &error {
        Some(error) if reply.starts_with(b"-") => error,
        _ => reply,
    };
    let is_pool = thread.is_pool();
    // Servers of a pool know nothing of each other: what they say of others is not followed.
    let counts = |refusal: &Refusal<'_>| !is_pool || *refusal == Refusal::Later;
    let may_go_on = now < request.until && !request.is_torn();
    match Refusal::read(decisive).filter(|refusal| may_go_on && counts(refusal)) {
        _ if request.translation.is_some() && request.n_replies > 1 => request.finish(reply),
        // The text may be the script's own. What other nodes say decides.
        Some(Refusal::Moved(..)) if request.is_script => {
            request.refused_by = Some((node, reply.to_vec()));
            thread.retry(upstreams, request, bytes);
        }
        Some(_) if request.is_script => request.finish(reply),
        // A slot that moves here and there within one round trip can reorder requests for it; else the nodes' replies
        // come in the order of the requests, and so these are sent on in it.
        Some(Refusal::Moved(slot, address)) => {
            let node = thread.moved(slot, address);
            redirect(thread, upstreams, node, request, bytes, now);
        }
        Some(Refusal::Ask(address)) => {
            let node = thread.number_of(address);
            request.asks();
            redirect(thread, upstreams, node, request, [b"ASKING\r\n", &bytes[..]].concat(), now);
        }
        // What the client has sent behind it may be executed first.
        Some(Refusal::Later) if request.is_last() => thread.retry(upstreams, request, bytes),
        _ => match error {
            Some(error) if request.errors == request.n_replies => request.finish(&error),
            Some(_) if request.is_torn() => {
                thread.shared.counters.unknown.add(1);
                request.refuse(UNKNOWN);
            }
            Some(error) if reply.starts_with(b"-") => {
                let reason = String::from_utf8_lossy(&error[1..]).into_owned();
                let reason = reason.trim_end();
                request.refuse(&format!("EXECABORT Transaction discarded because of: {reason}"));
            }
            _ => request.finish(reply),
        },
    }
}

fn redirect(
    thread: &Rc<Thread>,
    upstreams: &Rc<Upstreams>,
    node: usize,
    mut request: Request,
    bytes: Vec<u8>,
    now: Instant,
) {
    thread.shared.counters.redirected.add(1);
    request.redirects += 1;
    match request.redirects <= REDIRECTS_AT_ONCE {
        true => thread.send(upstreams, node, &bytes, request, now),
        false => thread.retry(upstreams, request, bytes),
    }
}

/// Takes a request back whose connection has ended.
pub(crate) fn undo(
    thread: &Rc<Thread>,
    upstreams: &Rc<Upstreams>,
    request: Request,
    bytes: Vec<u8>,
    was_sent: bool,
    now: Instant,
) {
    if was_sent && request.writes {
        thread.shared.counters.unknown.add(1);
        return request.refuse(UNKNOWN);
    }
    if request.losses >= LOSSES_MAX {
        return request.refuse(BREAKS);
    }
    // A read that was sent must not be executed behind writes of the same client that were sent after it.
    let is_behind = || request.tickets().any(|ticket| ticket.replies.awaits_write());
    match now < request.until && !(was_sent && is_behind()) {
        true => thread.retry(upstreams, request, bytes),
        false => request.refuse(UNREACHABLE),
    }
}

/// Ends a request that could not be sent in time.
pub(crate) fn give_up(mut request: Request) {
    match request.refused_by.take() {
        Some((_, error)) => request.finish(&error),
        None => request.refuse(UNREACHABLE),
    }
}
