//! The messages of the link to an embedded coordinator of another node, and their frames.
//! `docs/design/coordinator.md` has the bytes.
//!
//! The frames are those of replication (`hotring_log::wire`), all of them of the kind for messages; a message longer
//! than a frame goes on in the next one. The peer is not trusted: a message longer than the limit, or of another form,
//! ends the connection.

use std::io;
use std::time::Duration;

use hotring_cluster::coded::{Coded, read_all};
use hotring_cluster::keeper::BYTES_MAX;
use hotring_cluster::kept::{NAME_MAX, OPERATIONS_MAX, TRANSACTION_BYTES_MAX};
use hotring_log::wire::{BODY_MAX, FrameReader, FrameWriter, Kind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::{Changed, Failure, Lease, LeaseId, Outcome, Revision, Snapshot, Transaction};

/// The version of the protocol, which `HOTRING.COORDINATE` names.
pub const PROTOCOL_VERSION: u32 = 1;

/// The number by which the answers to a request name it.
pub(crate) type Id = u64;

/// The longest request: a transaction with the most names and numbers.
pub(crate) const REQUEST_MAX: usize = TRANSACTION_BYTES_MAX + 64 * OPERATIONS_MAX + NAME_MAX;

/// The longest answer: all records.
pub(crate) const ANSWER_MAX: usize = 4 * BYTES_MAX;

/// After this time without a request, the client sends a ping, which the server answers.
pub(crate) const IDLE: Duration = Duration::from_secs(2);

/// After this time without a message of the peer, or in which it takes none, the connection is dead.
pub(crate) const SILENCE: Duration = Duration::from_secs(8);

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Read,
    Transact(Transaction),
    Grant(Duration),
    KeepAlive(LeaseId),
    Revoke(LeaseId),
    Watch(Revision),
    /// The end of the watch that has this number. No answer.
    EndWatch,
    /// A sign of life.
    Ping,
}

/// What the server tells about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Snapshot(Snapshot),
    Outcome(Outcome),
    Lease(Lease),
    /// The lease lives, or is revoked; the watch begins; the answer to a ping.
    Done,
    /// The watch saw this.
    Changed(Changed),
    /// The watch is over.
    WatchEnded,
    Failed(Failure),
}

impl Coded for Ask {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Ask::Read => 1u8.write(out),
            Ask::Transact(transaction) => {
                2u8.write(out);
                transaction.write(out);
            }
            Ask::Grant(ttl) => (3u8, *ttl).write(out),
            Ask::KeepAlive(lease) => (4u8, *lease).write(out),
            Ask::Revoke(lease) => (5u8, *lease).write(out),
            Ask::Watch(after) => (6u8, *after).write(out),
            Ask::EndWatch => 7u8.write(out),
            Ask::Ping => 8u8.write(out),
        }
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        match u8::read(input)? {
            1 => Some(Ask::Read),
            2 => Transaction::read(input).map(Ask::Transact),
            3 => Duration::read(input).map(Ask::Grant),
            4 => LeaseId::read(input).map(Ask::KeepAlive),
            5 => LeaseId::read(input).map(Ask::Revoke),
            6 => Revision::read(input).map(Ask::Watch),
            7 => Some(Ask::EndWatch),
            8 => Some(Ask::Ping),
            _ => None,
        }
    }
}

impl Coded for Tell {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Tell::Snapshot(snapshot) => {
                1u8.write(out);
                snapshot.write(out);
            }
            Tell::Outcome(outcome) => (2u8, *outcome).write(out),
            Tell::Lease(lease) => (3u8, *lease).write(out),
            Tell::Done => 4u8.write(out),
            Tell::Changed(changed) => {
                5u8.write(out);
                changed.write(out);
            }
            Tell::WatchEnded => 6u8.write(out),
            Tell::Failed(Failure::Unknown(why)) => {
                7u8.write(out);
                why.write(out);
            }
            Tell::Failed(Failure::Refused(why)) => {
                8u8.write(out);
                why.write(out);
            }
        }
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        match u8::read(input)? {
            1 => Snapshot::read(input).map(Tell::Snapshot),
            2 => Outcome::read(input).map(Tell::Outcome),
            3 => Lease::read(input).map(Tell::Lease),
            4 => Some(Tell::Done),
            5 => Changed::read(input).map(Tell::Changed),
            6 => Some(Tell::WatchEnded),
            7 => String::read(input).map(|why| Tell::Failed(Failure::Unknown(why))),
            8 => String::read(input).map(|why| Tell::Failed(Failure::Refused(why))),
            _ => None,
        }
    }
}

/// Writes messages, each with the number of its request, until there are no more.
pub(crate) async fn write<M: Coded>(
    mut to: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<(Id, M)>,
) -> io::Result<()> {
    let (mut frames, mut out) = (FrameWriter::default(), Vec::new());
    while let Some((id, message)) = messages.recv().await {
        frame(&mut frames, id, &message, &mut out);
        // What waits goes along.
        while out.len() < BODY_MAX {
            let Ok((id, message)) = messages.try_recv() else { break };
            frame(&mut frames, id, &message, &mut out);
        }
        let written = async {
            to.write_all(&out).await?;
            to.flush().await
        };
        timeout(SILENCE, written).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        out.clear();
    }
    Ok(())
}

/// Appends the frames of a message.
fn frame(frames: &mut FrameWriter, id: Id, message: &impl Coded, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    id.write(&mut body);
    message.write(&mut body);
    let mut rest = &body[..];
    while let Some((part, behind)) = rest.split_at_checked(BODY_MAX).filter(|(_, b)| !b.is_empty())
    {
        let at = frames.begin(out);
        out.extend_from_slice(part);
        frames.end(out, at, Kind::Message, true);
        rest = behind;
    }
    frames.message(out, Kind::Message, rest);
}

/// Reads messages. A call that is dropped loses nothing.
pub(crate) struct Messages<R> {
    from: R,
    frames: FrameReader,
    /// Bytes that were read, and how many of them have been taken.
    buffer: Vec<u8>,
    taken: usize,
    /// The parts of a message of several frames.
    message: Vec<u8>,
    len_max: usize,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    pub(crate) fn new(from: R, len_max: usize) -> Self {
        // A read fills the room that is there: little at first would mean many reads.
        let (buffer, message) = (Vec::with_capacity(8 << 10), Vec::new());
        Messages { from, frames: FrameReader::default(), buffer, taken: 0, message, len_max }
    }

    /// The next message; an error at the end of the stream, too.
    pub(crate) async fn next<T: Coded>(&mut self) -> io::Result<(Id, T)> {
        loop {
            if let Some(message) = self.buffered()? {
                return Ok(message);
            }
            self.buffer.drain(..self.taken);
            self.taken = 0;
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The next message that has arrived as a whole.
    fn buffered<T: Coded>(&mut self) -> io::Result<Option<(Id, T)>> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        loop {
            let read = self.frames.read(&self.buffer[self.taken..]);
            let Some((frame, len)) = read.map_err(|error| bad(&error.to_string()))? else {
                return Ok(None);
            };
            if frame.kind != Kind::Message {
                return Err(bad("the peer sent a frame of another kind"));
            }
            if self.message.len() + frame.body.len() > self.len_max {
                return Err(bad("the peer sent a message that is too long"));
            }
            self.message.extend_from_slice(frame.body);
            self.taken += len;
            if !frame.more {
                let message = std::mem::take(&mut self.message);
                let message = read_all(&message);
                return message.map(Some).ok_or_else(|| bad("the peer sent an unknown message"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hotring_cluster::coded::bytes_of;

    use super::*;
    use crate::{Change, Record};

    /// The bytes with another one at this place.
    fn changes(bytes: &[u8], at: usize) -> impl Iterator<Item = Vec<u8>> {
        let bits = (0..8).map(|bit| 1 << bit).chain([0xff]);
        bits.map(move |bits: u8| {
            let mut changed = bytes.to_vec();
            changed[at] ^= bits;
            changed
        })
    }

    /// The most memory that this process has had, in bytes, whether it has touched it or not.
    fn memory_peak() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    fn kinds<M: Coded + PartialEq + std::fmt::Debug>(messages: Vec<M>) -> Vec<u8> {
        let kind = |message: M| {
            let bytes = bytes_of(&message);
            for end in 0..bytes.len() {
                assert_eq!(read_all::<M>(&bytes[..end]), None, "{end} bytes of {message:?}");
            }
            // Most changed bytes are other messages, and read as such.
            for changed in (0..bytes.len()).flat_map(|at| changes(&bytes, at)) {
                if let Some(other) = read_all::<M>(&changed) {
                    assert_eq!(bytes_of(&other), changed, "{message:?}");
                }
            }
            assert_eq!(read_all(&bytes), Some(message));
            bytes[0]
        };
        messages.into_iter().map(kind).collect()
    }

    fn asks() -> Vec<Ask> {
        let change = Change::Put { name: "a".into(), value: vec![1], lease: Some(7) };
        let transaction = Transaction { expect: vec![("a".into(), 1)], changes: vec![change] };
        vec![
            Ask::Read,
            Ask::Transact(transaction),
            Ask::Grant(Duration::from_secs(1)),
            Ask::KeepAlive(-1),
            Ask::Revoke(1),
            Ask::Watch(9),
            Ask::EndWatch,
            Ask::Ping,
        ]
    }

    fn tells() -> Vec<Tell> {
        let record = Record { name: "a".into(), revision: 1, value: vec![] };
        vec![
            Tell::Snapshot(Snapshot { revision: 1, records: vec![record] }),
            Tell::Outcome(Outcome::Conflict),
            Tell::Lease(Lease { id: 1, ttl: Duration::from_secs(1) }),
            Tell::Done,
            Tell::Changed(Changed { revision: 2, records: vec![("a".into(), None)] }),
            Tell::WatchEnded,
            Tell::Failed(Failure::Unknown("u".into())),
            Tell::Failed(Failure::Refused("r".into())),
        ]
    }

    #[test]
    fn messages_have_the_documented_kinds_and_are_read_as_written() {
        let before = memory_peak();
        assert_eq!(kinds(asks()), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(kinds(tells()), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(read_all::<Ask>(&[9]), None);
        assert_eq!(read_all::<Tell>(&[9]), None);
        // Some changed bytes claim parts of 2 GiB and more.
        assert!(memory_peak() - before < 1 << 30, "what a message claims takes memory");
    }

    /// What arrives of these bytes before the connection ends.
    fn arrives(bytes: &[u8]) -> (Vec<(Id, Ask)>, io::Error) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (mut messages, mut found) = (Messages::new(bytes, REQUEST_MAX), Vec::new());
        loop {
            match runtime.block_on(messages.next()) {
                Ok(message) => found.push(message),
                Err(error) => return (found, error),
            }
        }
    }

    #[test]
    fn of_frames_that_are_cut_short_or_changed_only_those_before_arrive() {
        let (mut frames, mut bytes, mut ends) = (FrameWriter::default(), Vec::new(), Vec::new());
        let long = Change::Put { name: "long".into(), value: vec![7; BODY_MAX], lease: None };
        let long = Ask::Transact(Transaction { expect: vec![], changes: vec![long] });
        let sent: Vec<(Id, Ask)> = (1..).zip(asks()).chain([(99, long)]).collect();
        for (id, ask) in &sent {
            frame(&mut frames, *id, ask, &mut bytes);
            ends.push(bytes.len());
        }
        let is_all_before = |bytes: &[u8], at: usize| {
            let (found, error) = arrives(bytes);
            let before = ends.iter().filter(|end| **end <= at).count();
            assert_eq!(found, sent[..before], "up to byte {at}");
            error.kind()
        };
        // The last message has two frames: of its content a few bytes will do.
        let places = (0..ends[ends.len() - 2] + 20).chain(bytes.len() - 20..bytes.len());
        for at in places {
            let kind = is_all_before(&bytes[..at], at);
            assert_eq!(kind, io::ErrorKind::UnexpectedEof, "the first {at} bytes");
            changes(&bytes, at).for_each(|changed| _ = is_all_before(&changed, at));
        }
        assert_eq!(arrives(&bytes).0, sent);
    }
}
