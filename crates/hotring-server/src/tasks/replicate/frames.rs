//! Frames over a stream: sends and receives the messages of a link.

use std::io;

use hotring_log::wire::{BODY_MAX, FRAME_HEAD_LEN, Frame, FrameReader, FrameWriter, Kind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::LinkError;

/// Bytes that are read at once.
const READ_LEN: usize = BODY_MAX + FRAME_HEAD_LEN;

/// The sending side of a link.
pub(in crate::tasks) struct Sender<W> {
    stream: W,
    frames: FrameWriter,
    buffer: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> Sender<W> {
    pub(in crate::tasks) fn new(stream: W) -> Self {
        Sender { stream, frames: FrameWriter::default(), buffer: Vec::new() }
    }

    /// Sends a message of these bytes, in as many frames as it needs.
    pub(in crate::tasks) async fn send<'b>(
        &mut self,
        kind: Kind,
        pieces: impl IntoIterator<Item = &'b [u8]>,
    ) -> io::Result<()> {
        let mut pieces = pieces.into_iter();
        let mut piece: &[u8] = pieces.next().unwrap_or_default();
        loop {
            self.buffer.clear();
            let at = self.frames.begin(&mut self.buffer);
            let more = loop {
                let room = BODY_MAX + FRAME_HEAD_LEN - self.buffer.len();
                let (head, rest) = piece.split_at(room.min(piece.len()));
                self.buffer.extend_from_slice(head);
                piece = rest;
                if piece.is_empty() {
                    match pieces.next() {
                        Some(next) => piece = next,
                        None => break false,
                    }
                } else {
                    break true;
                }
            };
            self.frames.end(&mut self.buffer, at, kind, more);
            self.stream.write_all(&self.buffer).await?;
            if !more {
                return Ok(());
            }
        }
    }

    pub(in crate::tasks) async fn flush(&mut self) -> io::Result<()> {
        self.stream.flush().await
    }
}

/// The receiving side of a link. It holds one frame at most, and grows only by bytes that have arrived.
pub(in crate::tasks) struct Receiver<R> {
    stream: R,
    frames: FrameReader,
    buffer: Vec<u8>,
    /// The offset of the first byte that was not handed out.
    at: usize,
}

impl<R: AsyncRead + Unpin> Receiver<R> {
    pub(in crate::tasks) fn new(stream: R) -> Self {
        Receiver { stream, frames: FrameReader::default(), buffer: Vec::new(), at: 0 }
    }

    /// The next frame that has arrived completely, if there is one.
    pub(in crate::tasks) fn next(&mut self) -> Result<Option<Frame<'_>>, LinkError> {
        let bad = |error: hotring_log::wire::BadFrame| LinkError::Peer(error.to_string());
        let found = self.frames.read(&self.buffer[self.at..]).map_err(bad)?;
        Ok(found.map(|(frame, len)| {
            self.at += len;
            frame
        }))
    }

    /// Waits for more bytes. May be dropped at any time without losing some.
    pub(in crate::tasks) async fn fill(&mut self) -> Result<(), LinkError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        if self.buffer.capacity() - self.buffer.len() < READ_LEN / 2 {
            self.buffer.reserve(READ_LEN);
        }
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(LinkError::Peer("the peer closed the link".to_string())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotring_commands::host::threads::event_loop;

    #[test]
    fn messages_of_every_length_arrive() {
        event_loop().unwrap().block_on(async {
            let (near, far) = tokio::io::duplex(10_000);
            let lens = [0, 1, BODY_MAX - 1, BODY_MAX, BODY_MAX + 1, 3 * BODY_MAX + 7];
            let bytes: Vec<u8> = (0..lens[5]).map(|i| (i / 7) as u8).collect();
            let sent = bytes.clone();
            tokio::task::spawn_local(async move {
                let mut sender = Sender::new(near);
                for len in lens {
                    let (one, other) = sent[..len].split_at(len / 3);
                    sender.send(Kind::Part, [one, &[], other]).await.unwrap();
                }
                sender.flush().await.unwrap();
            });
            let mut receiver = Receiver::new(far);
            for len in lens {
                let mut message = Vec::new();
                loop {
                    match receiver.next().unwrap() {
                        Some(frame) => {
                            message.extend_from_slice(frame.body);
                            if !frame.more {
                                break;
                            }
                        }
                        None => receiver.fill().await.unwrap(),
                    }
                }
                assert!(message == bytes[..len], "{len}");
            }
        });
    }
}
