//! The stream as a link sends it: from the backlog, and from the log's files as long as the backlog does not reach back
//! so far.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use hotring_commands::state::server::Server;
use hotring_log::{Backlog, Chunk, Log, Lsn, Tail, TailError};

use super::LinkError;

/// What follows the last record that was sent.
pub(in crate::tasks) enum Next {
    Chunk(Arc<Chunk>),
    /// The backlog does not have the next records.
    Older,
}

/// The place of one link in the stream.
pub(in crate::tasks) struct Stream {
    server: Arc<Server>,
    pub(in crate::tasks) log: Arc<Log>,
    backlog: Arc<Backlog>,
    /// The last record that was sent.
    pub(in crate::tasks) sent: Lsn,
    /// The place in the log's files while the backlog does not reach back so far.
    older: Option<Tail>,
}

impl Stream {
    /// Nothing is sent yet.
    pub(in crate::tasks) fn new(server: Arc<Server>, log: Arc<Log>, backlog: Arc<Backlog>) -> Self {
        Stream { server, log, backlog, sent: 0, older: None }
    }

    /// Ready with what follows the last record that was sent.
    pub(in crate::tasks) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if self.older.as_ref().is_some_and(Tail::is_within) {
            return Poll::Ready(Next::Older);
        }
        let chunk = self.backlog.poll_after(self.sent, cx.waker());
        chunk.map(|chunk| chunk.map_or(Next::Older, Next::Chunk))
    }

    /// What follows the last record that was sent, of which the records up to this one are wanted now.
    pub(in crate::tasks) async fn next(&mut self, upto: Lsn) -> Next {
        if self.log.written() < upto {
            self.log.wake_for_waiter();
        }
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Takes what follows, up to this record, to be sent now. `check` fails once the stream is another node's: what was
    /// read then, or an error, means nothing.
    pub(in crate::tasks) async fn take(
        &mut self,
        next: Next,
        upto: Lsn,
        check: impl Fn() -> Result<(), LinkError>,
    ) -> Result<Taken, LinkError> {
        match next {
            Next::Chunk(chunk) => {
                check()?;
                let (after, last) = (self.sent, chunk.last().min(upto));
                (self.sent, self.older) = (last, None);
                Ok(Taken::Chunk { chunk, after, last })
            }
            Next::Older => {
                let read = self.read_older(upto).await?;
                // A file that is being cut is no damage: the cut has ended the connection.
                check()?;
                self.take_older(read).map(Taken::Older)
            }
        }
    }

    /// Reads a piece of the stream from the log's files, up to this record. The files may be cut meanwhile.
    async fn read_older(&mut self, upto: Lsn) -> Result<Read, LinkError> {
        let gone = || LinkError::Peer("the next records are no longer in the backlog".to_string());
        let files = self.server.persist.durability.snapshots().ok_or_else(gone)?;
        let (storage, sent) = (files.storage.clone(), self.sent);
        let upto = upto.min(self.log.written());
        let older = self.older.take().filter(|older| older.last() == sent);
        let read = tokio::task::spawn_blocking(move || {
            let mut older = older.map_or_else(|| Tail::behind(storage, sent), Ok)?;
            older.read(upto).map(|bytes| (older, bytes))
        });
        read.await.map_err(|_| LinkError::Peer("reading the log panicked".to_string()))
    }

    fn take_older(&mut self, read: Read) -> Result<Vec<u8>, LinkError> {
        let (older, bytes) = read.map_err(|why| {
            if !matches!(why, TailError::Gone) {
                tracing::error!("records for another node cannot be read from the log: {why}");
                self.server.replication.note_unreadable(self.sent + 1);
            }
            LinkError::Peer(why.to_string())
        })?;
        self.sent = older.last();
        self.older = Some(older);
        Ok(bytes)
    }
}

/// What was read from the log's files.
type Read = Result<(Tail, Vec<u8>), TailError>;

/// A piece of the stream.
pub(in crate::tasks) enum Taken {
    /// The records of a chunk behind `after`, up to `last`.
    Chunk {
        chunk: Arc<Chunk>,
        after: Lsn,
        last: Lsn,
    },
    Older(Vec<u8>),
}

impl Taken {
    /// Its bytes.
    pub(in crate::tasks) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let (chunk, older) = match self {
            Taken::Chunk { chunk, after, last } => (Some(chunk.pieces(*after, *last)), None),
            Taken::Older(bytes) => (None, Some(&bytes[..])),
        };
        let pieces = chunk.into_iter().flatten().chain(older);
        pieces.filter(|piece| !piece.is_empty())
    }
}
