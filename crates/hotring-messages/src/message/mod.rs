//! The bytes of messages. Numbers are little endian. A reader gets bytes that any peer may have made: nothing is
//! allocated for what a length claims, and what is read has exactly one form.
//!
//! ```text
//!  version u8 | kind u8 | parts u16 | CRC-32C u32 | id u64 | session u64 | incarnation u64 | epoch u64 | content
//! ```
//!
//! The checksum covers all bytes but its own. `parts.rs` has the contents of requests and replies.

mod parts;

use hotring_cluster::{Epoch, Incarnation};

pub use parts::{Answer, Answers, Operation, Operations, Status};
use parts::{take, take_bytes};

/// The version of the format.
pub const VERSION: u8 = 1;

/// The length of what every message begins with, in bytes.
pub const HEAD_LEN: usize = 40;

/// Most operations of a request, as many as a batch of the other protocols has.
pub const PARTS_MAX: usize = 64;

/// Where the checksum is.
const CRC: std::ops::Range<usize> = 4..8;

/// One start of the server and its epoch. After a change of either, no request of before may be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// The server's start.
    pub incarnation: Incarnation,
    /// The server's epoch.
    pub epoch: Epoch,
}

/// What every message begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The client's number for the request or the greeting, which its answer repeats. Never used twice by a client.
    pub id: u64,
    /// The session that the request belongs to; 0 in a greeting and in its refusal.
    pub session: u64,
    /// The term of the session; in a refusal, the server's present one.
    pub term: Term,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A client's first message, on a reliable endpoint.
    Hello(Head, Hello<'a>),
    /// The answer: the head has the client's session.
    Welcome(Head, Welcome),
    /// Operations, which run in order.
    Request(Head, Request<'a>),
    /// One answer to each operation.
    Reply(Head, Answers<'a>),
    /// A request or greeting that the server did not run.
    Refusal(Head, Refusal),
}

/// A greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The client's random number, which it keeps over connections and tells to its server only.
    pub client: u64,
    /// The longest message that the client reads, in bytes.
    pub message_len_max: u32,
    /// The user's name; empty for the default user.
    pub user: &'a [u8],
    /// The password; empty for none.
    pub password: &'a [u8],
    /// Where replies go that may be datagrams; empty if none may. The endpoints know its form.
    pub address: &'a [u8],
}

/// What a client must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// A write's id must be less than this above the floor.
    pub window: u32,
    /// The longest message that the server reads, in bytes.
    pub message_len_max: u32,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The client waits for no write with an id below this. The server forgets their replies, and runs none of them.
    pub floor: u64,
    /// Whether the answer may come as a datagram, and so be lost. Never for waits.
    pub by_datagram: bool,
    /// The operations.
    pub operations: Operations<'a>,
}

/// Why a message was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The session is not, or no longer, one of this server in this term. Greet again.
    SessionOver = 1,
    /// User or password are wrong.
    Denied = 2,
    /// The server has as many clients as it may have. Greet again later.
    Full = 3,
    /// The request was run, but its reply was too long to be kept.
    ReplyGone = 4,
    /// The request breaks a rule of the format or the window.
    Misused = 5,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The other side speaks another version of the format.
    Version(u8),
    /// The bytes were changed or cut on their way.
    Checksum,
    /// The checksum is right, but not the content: the other side has a fault.
    Content,
}

impl std::fmt::Display for MessageError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Version(version) => write!(
                f,
                "the message has version {version}, this side reads {VERSION}: update the older side"
            ),
            Self::Checksum => f.write_str("the message is damaged: it is asked for again"),
            Self::Content => {
                f.write_str("the message breaks the format: report the sender's fault")
            }
        }
    }
}

impl std::error::Error for MessageError {}

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REQUEST: u8 = 3;
const REPLY: u8 = 4;
const REFUSAL: u8 = 5;
const REQUEST_BY_DATAGRAM: u8 = 6;

impl<'a> Message<'a> {
    /// Reads a message, which must be all of the bytes.
    pub fn read(bytes: &'a [u8]) -> Result<Message<'a>, MessageError> {
        let head = bytes.get(..HEAD_LEN).ok_or(MessageError::Checksum)?;
        let crc = u32::from_le_bytes(head[CRC].try_into().expect("four bytes"));
        if crc != checksum(bytes) && !wrong!(TrustMessages) {
            return Err(MessageError::Checksum);
        }
        if head[0] != VERSION {
            return Err(MessageError::Version(head[0]));
        }
        Self::content(head, &bytes[HEAD_LEN..]).ok_or(MessageError::Content)
    }

    fn content(mut head: &'a [u8], mut input: &'a [u8]) -> Option<Message<'a>> {
        let [_, kind, low, high, ..] = *head else { return None };
        let parts = u16::from_le_bytes([low, high]);
        head = &head[CRC.end..];
        let mut number = || take(&mut head).map(u64::from_le_bytes);
        let (id, session) = (number()?, number()?);
        let term = Term { incarnation: Incarnation(number()?), epoch: Epoch(number()?) };
        let head = Head { id, session, term };
        let message = match kind {
            HELLO => Message::Hello(head, Hello::read(&mut input)?),
            WELCOME => Message::Welcome(head, Welcome::read(&mut input)?),
            REQUEST | REQUEST_BY_DATAGRAM => {
                let floor = take(&mut input).map(u64::from_le_bytes)?;
                let operations = Operations::read(parts, std::mem::take(&mut input))?;
                // The reply to a wait comes when it is over: nothing else may have to wait for it.
                let waits = operations.iter().any(|operation| operation.wait_ms().is_some());
                let by_datagram = kind == REQUEST_BY_DATAGRAM;
                if operations.is_empty() || (waits && (operations.len() > 1 || by_datagram)) {
                    return None;
                }
                Message::Request(head, Request { floor, by_datagram, operations })
            }
            REPLY => Message::Reply(head, Answers::read(parts, std::mem::take(&mut input))?),
            REFUSAL => Message::Refusal(head, Refusal::of(take::<1>(&mut input)?[0])?),
            _ => return None,
        };
        let is_whole = input.is_empty()
            && (parts == 0 || matches!(kind, REQUEST | REPLY | REQUEST_BY_DATAGRAM));
        is_whole.then_some(message)
    }

    /// Writes the message over what `out` holds.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (kind, parts, head) = match self {
            Message::Hello(head, _) => (HELLO, 0, head),
            Message::Welcome(head, _) => (WELCOME, 0, head),
            Message::Request(head, request) => {
                let kind = if request.by_datagram { REQUEST_BY_DATAGRAM } else { REQUEST };
                (kind, request.operations.len(), head)
            }
            Message::Reply(head, answers) => (REPLY, answers.len(), head),
            Message::Refusal(head, _) => (REFUSAL, 0, head),
        };
        out.clear();
        out.extend_from_slice(&[VERSION, kind]);
        out.extend_from_slice(&(parts as u16).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let term = head.term;
        for number in [head.id, head.session, term.incarnation.0, term.epoch.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        match self {
            Message::Hello(_, hello) => hello.write(out),
            Message::Welcome(_, welcome) => welcome.write(out),
            Message::Request(_, request) => {
                out.extend_from_slice(&request.floor.to_le_bytes());
                out.extend_from_slice(request.operations.bytes());
            }
            Message::Reply(_, answers) => out.extend_from_slice(answers.bytes()),
            Message::Refusal(_, refusal) => out.push(*refusal as u8),
        }
        let crc = checksum(out);
        out[CRC].copy_from_slice(&crc.to_le_bytes());
    }
}

impl<'a> Hello<'a> {
    fn read(input: &mut &'a [u8]) -> Option<Self> {
        let client = take(input).map(u64::from_le_bytes)?;
        let message_len_max = take(input).map(u32::from_le_bytes)?;
        let mut lens = [0; 3];
        for len in &mut lens {
            *len = usize::from(u16::from_le_bytes(take(input)?));
        }
        let (user, password) = (take_bytes(input, lens[0])?, take_bytes(input, lens[1])?);
        let address = take_bytes(input, lens[2])?;
        Some(Hello { client, message_len_max, user, password, address })
    }

    /// Whether it can be written, and is a message that the client itself could read.
    pub fn fits(&self) -> bool {
        let texts = [self.user, self.password, self.address];
        let len = HEAD_LEN + 18 + texts.iter().map(|text| text.len()).sum::<usize>();
        let is_short = |text: &&[u8]| u16::try_from(text.len()).is_ok();
        texts.iter().all(is_short) && len <= self.message_len_max as usize
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.client.to_le_bytes());
        out.extend_from_slice(&self.message_len_max.to_le_bytes());
        let texts = [self.user, self.password, self.address];
        texts.iter().for_each(|text| out.extend_from_slice(&(text.len() as u16).to_le_bytes()));
        texts.iter().for_each(|text| out.extend_from_slice(text));
    }
}

impl Welcome {
    fn read(input: &mut &[u8]) -> Option<Self> {
        let mut number = || take(input).map(u32::from_le_bytes);
        Some(Welcome { window: number()?, message_len_max: number()? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.window.to_le_bytes());
        out.extend_from_slice(&self.message_len_max.to_le_bytes());
    }
}

impl Refusal {
    fn of(byte: u8) -> Option<Self> {
        let all = [Self::SessionOver, Self::Denied, Self::Full, Self::ReplyGone, Self::Misused];
        all.into_iter().find(|refusal| *refusal as u8 == byte)
    }
}

/// The checksum of a message.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..CRC.start]), &bytes[CRC.end..])
}

#[cfg(test)]
mod tests;
