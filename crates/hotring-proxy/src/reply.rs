//! The forms of replies, and what a node says by its errors.

use hotring_cluster::{SLOTS, Slot};
use hotring_protocol::memcached::ReplyForm;

/// Tells a client of RESP3 to drop all copies.
pub(crate) const DROP_ALL: &[u8] = b">2\r\n$10\r\ninvalidate\r\n_\r\n";

/// The error of a write whose fate is unknown.
pub(crate) const UNKNOWN: &str = "UNKNOWN The connection to the node ended before its reply: this write may or may not have been done";

/// The error of a request that no node could be asked about in time.
pub(crate) const UNREACHABLE: &str =
    "CLUSTERDOWN The node that has this key cannot be reached, or no node has it";

/// A request of memcached's protocol that goes behind one that asks not to be answered. Its reply shows where that of
/// the other would end.
pub(crate) const MARK: &[u8] = b"mn\r\n";

/// The error of a request at which connections have broken.
pub(crate) const BREAKS: &str =
    "ERR the node ends the connection at this request: it, or its reply, is too long";

/// The form of the reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Resp,
    /// Of memcached's protocol.
    Memcached {
        form: ReplyForm,
        /// The client expects no reply, not even an error.
        is_silent: bool,
    },
}

impl Form {
    /// An error of the proxy in this form.
    pub(crate) fn error(self, text: &str) -> Vec<u8> {
        match self {
            Form::Resp => format!("-{text}\r\n").into_bytes(),
            Form::Memcached { is_silent: true, .. } => Vec::new(),
            Form::Memcached { .. } => format!("SERVER_ERROR {text}\r\n").into_bytes(),
        }
    }

    /// The bytes at the end of a request without which a node executes it all the same.
    pub(crate) fn tail(self) -> usize {
        match self {
            Form::Memcached { form: ReplyForm::Marked, .. } => MARK.len(),
            _ => 0,
        }
    }

    /// Whether a reply is an error.
    pub(crate) fn is_error(self, reply: &[u8]) -> bool {
        match self {
            Form::Resp => reply.starts_with(b"-"),
            Form::Memcached { .. } => reply.starts_with(b"SERVER_ERROR "),
        }
    }

    /// The part of a node's reply that is the client's.
    pub(crate) fn of_client(self, reply: &[u8]) -> &[u8] {
        match self {
            Form::Memcached { form: ReplyForm::Marked, .. } => {
                reply.strip_suffix(b"MN\r\n").unwrap_or(reply)
            }
            _ => reply,
        }
    }
}

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
    /// Reads the first line of a reply.
    pub(crate) fn read(reply: &'a [u8]) -> Option<Self> {
        let line = reply.split(|byte| *byte == b'\r').next()?;
        let text = line.strip_prefix(b"-").or_else(|| line.strip_prefix(b"SERVER_ERROR "))?;
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        match words.next()? {
            kind @ ("MOVED" | "ASK") => {
                let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
                let address = words.next().filter(|address| address.contains(':'))?;
                Some(match kind {
                    "ASK" => Refusal::Ask(address),
                    _ => Refusal::Moved(slot, address),
                })
            }
            "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" => Some(Refusal::Later),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_from_other_errors() {
        let read = |text: &'static str| Refusal::read(text.as_bytes());
        assert_eq!(read("-MOVED 7 a:1\r\n"), Some(Refusal::Moved(7, "a:1")));
        assert_eq!(read("SERVER_ERROR MOVED 7 a:1\r\nMN\r\n"), Some(Refusal::Moved(7, "a:1")));
        assert_eq!(read("-ASK 7 ::1:1\r\n"), Some(Refusal::Ask("::1:1")));
        assert_eq!(read("-TRYAGAIN soon\r\n"), Some(Refusal::Later));
        assert_eq!(read("-CLUSTERDOWN Hash slot not served\r\n"), Some(Refusal::Later));
        for other in [
            "-ERR MOVED 7 a:1\r\n",
            "-MOVED 16384 a:1\r\n",
            "-MOVED 7\r\n",
            "-MOVED 7 a\r\n",
            "+MOVED 7 a:1\r\n",
            "VALUE SERVER_ERROR 0 1\r\n",
            "-NOREPLICAS no\r\n",
            "-WRONGTYPE no\r\n",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_mark_is_not_the_clients() {
        let form = Form::Memcached { form: ReplyForm::Marked, is_silent: true };
        assert_eq!(form.of_client(b"HD\r\nMN\r\n"), b"HD\r\n");
        assert_eq!(form.of_client(b"MN\r\n"), b"");
        assert_eq!(form.error(UNKNOWN), b"");
    }
}
