//! Encodes requests and checks replies in a server's own protocol.
//!
//! Only one reply to a request is right, so replies are compared with its bytes and not parsed: the measuring
//! client must cost little compared with the server.

use anyhow::{Result, anyhow};

use super::content::Content;
use crate::address::Protocol;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads a present key.
    Get,
    /// Reads an absent key.
    Miss,
    /// Writes a key.
    Set,
    /// Removes a present key.
    Delete,
}

/// A request in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step(u64);

const KEY_BITS: u32 = 48;

impl Step {
    /// A request for an action on a key, whose number must be below 2^48.
    pub fn new(action: Action, key: u64) -> Self {
        debug_assert!(key < 1 << KEY_BITS);
        Step((action as u64) << KEY_BITS | key)
    }

    /// The kind of the request.
    pub fn action(self) -> Action {
        match self.0 >> KEY_BITS {
            0 => Action::Get,
            1 => Action::Miss,
            2 => Action::Set,
            _ => Action::Delete,
        }
    }

    /// The number of the key.
    pub fn key(self) -> u64 {
        self.0 & ((1 << KEY_BITS) - 1)
    }
}

/// The letter that fills a null server's values.
pub const NULL_VALUE: u8 = b'x';

/// The fixed parts of requests and replies. A request is a head, the key and a tail; a write has the value before
/// the tail.
struct Words {
    get: String,
    set: String,
    /// The bytes between a written key and its value.
    set_middle: String,
    delete: String,
    /// The bytes before a found value (in memcached after its key), then those after it.
    hit_head: String,
    hit_tail: &'static str,
    stored: &'static str,
    missed: &'static str,
    deleted: &'static str,
}

/// One protocol, with keys and values of fixed lengths.
pub struct Dialect {
    protocol: Protocol,
    content: Content,
    words: Words,
}

impl Dialect {
    /// The dialect of a protocol for keys and values of the form of `content`.
    pub fn new(protocol: Protocol, content: Content) -> Self {
        let (key, value) = (content.key_len(), content.value_len());
        let words = match protocol {
            Protocol::Resp | Protocol::Null => Words {
                get: format!("*2\r\n$3\r\nGET\r\n${key}\r\n"),
                set: format!("*3\r\n$3\r\nSET\r\n${key}\r\n"),
                set_middle: format!("\r\n${value}\r\n"),
                delete: format!("*2\r\n$3\r\nDEL\r\n${key}\r\n"),
                hit_head: format!("${value}\r\n"),
                hit_tail: "\r\n",
                stored: "+OK\r\n",
                missed: "$-1\r\n",
                deleted: ":1\r\n",
            },
            Protocol::Memcached => Words {
                get: "get ".into(),
                set: "set ".into(),
                set_middle: format!(" 0 0 {value}\r\n"),
                delete: "delete ".into(),
                hit_head: format!(" 0 {value}\r\n"),
                hit_tail: "\r\nEND\r\n",
                stored: "STORED\r\n",
                missed: "END\r\n",
                deleted: "DELETED\r\n",
            },
        };
        Dialect { protocol, content, words }
    }

    /// The length of the longest right reply, in bytes.
    pub fn reply_len_max(&self) -> usize {
        // The longest one is memcached's VALUE line with its numbers, key and value, and END.
        self.content.key_len() + self.content.value_len() + 64
    }

    /// Appends a request. `version` distinguishes the values that are written to one key.
    pub fn request(&self, step: Step, version: u64, out: &mut Vec<u8>) {
        let head = match step.action() {
            Action::Get | Action::Miss => &self.words.get,
            Action::Set => &self.words.set,
            Action::Delete => &self.words.delete,
        };
        out.extend_from_slice(head.as_bytes());
        self.content.key(step.key(), out);
        if step.action() == Action::Set {
            out.extend_from_slice(self.words.set_middle.as_bytes());
            self.content.value(step.key(), version, out);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The length of the reply at the start of `input`, or None if the reply is incomplete. Gives an error for
    /// any reply other than the right one.
    pub fn reply(&self, step: Step, input: &[u8]) -> Result<Option<usize>> {
        let mut reader = Reader { rest: input };
        match self.read(step, &mut reader) {
            Ok(()) => Ok(Some(input.len() - reader.rest.len())),
            Err(Halt::Unfinished) => Ok(None),
            Err(Halt::Wrong) => Err(self.wrong(step, input)),
        }
    }

    fn read(&self, step: Step, reader: &mut Reader<'_>) -> Result<(), Halt> {
        match step.action() {
            Action::Miss if self.protocol != Protocol::Null => reader.literal(self.words.missed),
            Action::Get | Action::Miss => self.read_hit(step.key(), reader),
            Action::Set => reader.literal(self.words.stored),
            Action::Delete => reader.literal(self.words.deleted),
        }
    }

    fn read_hit(&self, key: u64, reader: &mut Reader<'_>) -> Result<(), Halt> {
        if self.protocol == Protocol::Memcached {
            reader.literal("VALUE ")?;
            let named = reader.take(self.content.key_len())?;
            right(self.content.is_key(key, named))?;
        }
        reader.literal(&self.words.hit_head)?;
        let value = reader.take(self.content.value_len())?;
        right(self.is_right(key, value))?;
        reader.literal(self.words.hit_tail)
    }

    fn is_right(&self, key: u64, value: &[u8]) -> bool {
        match self.protocol {
            Protocol::Null => value.iter().all(|&byte| byte == NULL_VALUE),
            _ => self.content.is_value_of(key, value),
        }
    }

    #[cold]
    fn wrong(&self, step: Step, input: &[u8]) -> anyhow::Error {
        let mut key = Vec::new();
        self.content.key(step.key(), &mut key);
        let shown = &input[..input.len().min(80)];
        let (action, key) = (step.action(), String::from_utf8_lossy(&key).into_owned());
        anyhow!("wrong answer to {action:?} of key {key}: \"{}\"", shown.escape_ascii())
    }
}

/// The reason to stop reading a reply.
enum Halt {
    /// The reply is incomplete.
    Unfinished,
    /// The reply is not the right one.
    Wrong,
}

fn right(is_right: bool) -> Result<(), Halt> {
    if is_right { Ok(()) } else { Err(Halt::Wrong) }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn literal(&mut self, wanted: &str) -> Result<(), Halt> {
        let wanted = wanted.as_bytes();
        if let Some(rest) = self.rest.strip_prefix(wanted) {
            self.rest = rest;
            return Ok(());
        }
        Err(if wanted.starts_with(self.rest) { Halt::Unfinished } else { Halt::Wrong })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Halt> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Halt::Unfinished)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(protocol: Protocol) -> Dialect {
        Dialect::new(protocol, Content::new(8, 10))
    }

    /// Key and value of key 5, as text.
    fn five() -> (String, String) {
        let content = Content::new(8, 10);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        content.key(5, &mut key);
        content.value(5, 9, &mut value);
        (String::from_utf8(key).unwrap(), String::from_utf8(value).unwrap())
    }

    #[test]
    fn requests_are_those_of_the_protocols() {
        let (key, value) = five();
        let all = |protocol| {
            let mut out = Vec::new();
            for action in [Action::Get, Action::Set, Action::Delete] {
                dialect(protocol).request(Step::new(action, 5), 9, &mut out);
            }
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            all(Protocol::Resp),
            format!(
                "*2\r\n$3\r\nGET\r\n$8\r\n{key}\r\n\
                 *3\r\n$3\r\nSET\r\n$8\r\n{key}\r\n$10\r\n{value}\r\n\
                 *2\r\n$3\r\nDEL\r\n$8\r\n{key}\r\n"
            )
        );
        assert_eq!(
            all(Protocol::Memcached),
            format!("get {key}\r\nset {key} 0 0 10\r\n{value}\r\ndelete {key}\r\n")
        );
    }

    #[test]
    fn right_replies_are_taken_once_they_are_there_in_full() {
        let (key, value) = five();
        let hit = |before: &str, after: &str| format!("{before}{value}{after}");
        for (protocol, action, reply) in [
            (Protocol::Resp, Action::Get, hit("$10\r\n", "\r\n")),
            (Protocol::Resp, Action::Miss, "$-1\r\n".into()),
            (Protocol::Resp, Action::Set, "+OK\r\n".into()),
            (Protocol::Resp, Action::Delete, ":1\r\n".into()),
            (
                Protocol::Memcached,
                Action::Get,
                hit(&format!("VALUE {key} 0 10\r\n"), "\r\nEND\r\n"),
            ),
            (Protocol::Memcached, Action::Miss, "END\r\n".into()),
            (Protocol::Memcached, Action::Set, "STORED\r\n".into()),
            (Protocol::Memcached, Action::Delete, "DELETED\r\n".into()),
            (Protocol::Null, Action::Get, "$10\r\nxxxxxxxxxx\r\n".into()),
        ] {
            let step = Step::new(action, 5);
            for end in 0..reply.len() {
                let part = dialect(protocol).reply(step, &reply.as_bytes()[..end]).unwrap();
                assert_eq!(part, None, "{protocol:?} {action:?}");
            }
            let more = format!("{reply}and more");
            let whole = dialect(protocol).reply(step, more.as_bytes()).unwrap();
            assert_eq!(whole, Some(reply.len()), "{protocol:?} {action:?}");
        }
    }

    #[test]
    fn wrong_replies_are_distinguished_from_right_ones() {
        let (_, value) = five();
        let hit = format!("$10\r\n{value}\r\n");
        for (protocol, action, key, reply) in [
            (Protocol::Resp, Action::Get, 5, "$-1\r\n"),
            (Protocol::Resp, Action::Get, 5, "-ERR no\r\n"),
            (Protocol::Resp, Action::Get, 5, "$11\r\n"),
            (Protocol::Resp, Action::Get, 6, &hit),
            (Protocol::Resp, Action::Miss, 5, &hit),
            (Protocol::Resp, Action::Set, 5, "-OOM\r\n"),
            (Protocol::Resp, Action::Delete, 5, ":0\r\n"),
            (Protocol::Memcached, Action::Get, 5, "END\r\n"),
            (Protocol::Memcached, Action::Get, 5, "VALUE wrongkey 0 10\r\n"),
            (Protocol::Memcached, Action::Set, 5, "SERVER_ERROR out of memory\r\n"),
            (Protocol::Null, Action::Get, 5, "$10\r\nxxxxyxxxxx\r\n"),
        ] {
            let error = dialect(protocol).reply(Step::new(action, key), reply.as_bytes());
            let error = error.expect_err(reply).to_string();
            assert!(error.contains("wrong answer to"), "{error}");
        }
    }
}
