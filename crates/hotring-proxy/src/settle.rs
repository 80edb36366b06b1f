//! Decides what becomes of a request once its node has answered, or cannot.

use std::rc::Rc;
use std::time::Instant;

use hotring_cluster::{SLOTS, Slot};

use crate::pool::Pool;
use crate::request::Request;
use crate::thread::Thread;

/// Redirects after which a request waits before the next one: two nodes that name each other will agree soon.
const REDIRECTS_AT_ONCE: u32 = 2;

/// The error of a write whose fate is unknown.
pub(crate) const UNKNOWN: &[u8] = b"-UNKNOWN The connection to the node ended before its reply: this write may or may not have been done\r\n";

/// The error of a request that no node could be asked about in time.
pub(crate) const UNREACHABLE: &[u8] =
    b"-CLUSTERDOWN The node that has this key cannot be reached, or no node has it\r\n";

/// An error by which a node says that it has not executed the request, and who may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal<'a> {
    /// From now on the node at this address serves the slot.
    Moved(Slot, &'a str),
    /// This one time the node at this address serves it.
    Ask(&'a str),
    /// The same node, or another one, will serve it soon.
    Later,
}

impl<'a> Refusal<'a> {
    pub(crate) fn read(error: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(error).ok()?.strip_prefix('-')?.trim_end();
        let mut words = text.split(' ');
        match words.next()? {
            kind @ ("MOVED" | "ASK") => {
                let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
                let address = words.next().filter(|address| address.contains(':'))?;
                Some(if kind == "ASK" {
                    Refusal::Ask(address)
                } else {
                    Refusal::Moved(slot, address)
                })
            }
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" => Some(Refusal::Later),
            _ => None,
        }
    }
}

/// Passes the last reply to a request on, or sends the request elsewhere if the node refuses it for now.
pub(crate) fn settle(
    thread: &Rc<Thread>,
    pool: &Rc<Pool>,
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
    match Refusal::read(decisive).filter(|_| now < request.until && !request.is_script) {
        Some(Refusal::Moved(slot, address)) => {
            let node = thread.moved(slot, address);
            redirect(thread, pool, node, request, bytes, now);
        }
        Some(Refusal::Ask(address)) => {
            let node = thread.number_of(address);
            request.asks();
            redirect(thread, pool, node, request, [b"ASKING\r\n", &bytes[..]].concat(), now);
        }
        // What the client has sent behind it may be executed first.
        Some(Refusal::Later) if request.is_last() => thread.retry(pool, request, bytes),
        _ => match error {
            Some(error) if reply.starts_with(b"-") => {
                let reason = String::from_utf8_lossy(&error[1..]).into_owned();
                let reason = reason.trim_end();
                let text = format!("-EXECABORT Transaction discarded because of: {reason}\r\n");
                request.finish(text.as_bytes());
            }
            _ => request.finish(reply),
        },
    }
}

fn redirect(
    thread: &Rc<Thread>,
    pool: &Rc<Pool>,
    node: usize,
    mut request: Request,
    bytes: Vec<u8>,
    now: Instant,
) {
    thread.shared.counters.redirected.add(1);
    request.redirects += 1;
    match request.redirects <= REDIRECTS_AT_ONCE {
        true => thread.send(pool, node, &bytes, request, now),
        false => thread.retry(pool, request, bytes),
    }
}

/// Takes a request back whose connection has ended.
pub(crate) fn undo(
    thread: &Rc<Thread>,
    pool: &Rc<Pool>,
    request: Request,
    bytes: Vec<u8>,
    was_sent: bool,
    now: Instant,
) {
    if was_sent && request.writes {
        thread.shared.counters.unknown.add(1);
        return request.finish(UNKNOWN);
    }
    match now < request.until {
        true => thread.retry(pool, request, bytes),
        false => request.finish(UNREACHABLE),
    }
}

/// Ends a request that could not be sent in time.
pub(crate) fn give_up(request: Request) {
    request.finish(UNREACHABLE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_from_other_errors() {
        let read = |text: &'static str| Refusal::read(text.as_bytes());
        assert_eq!(read("-MOVED 7 a:1\r\n"), Some(Refusal::Moved(7, "a:1")));
        assert_eq!(read("-ASK 7 ::1:1\r\n"), Some(Refusal::Ask("::1:1")));
        assert_eq!(read("-TRYAGAIN soon\r\n"), Some(Refusal::Later));
        assert_eq!(read("-CLUSTERDOWN Hash slot not served\r\n"), Some(Refusal::Later));
        for other in [
            "-ERR MOVED 7 a:1\r\n",
            "-MOVED 16384 a:1\r\n",
            "-MOVED 7\r\n",
            "-MOVED 7 a\r\n",
            "+MOVED 7 a:1\r\n",
            "-NOREPLICAS no\r\n",
            "-WRONGTYPE no\r\n",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
