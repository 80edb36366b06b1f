//! The server's side of a link to the embedded coordinator.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::protocol::{Ask, Id, Messages, REQUEST_MAX, SILENCE, Tell, write};
use crate::wait::{First, first};
use crate::{Coordinator, Embedded, Failure};

/// Most requests of a link that are worked on; further ones wait in the socket.
const REQUESTS_MAX: usize = 64;

/// Most watches of a link.
const WATCHES_MAX: usize = 64;

/// Answers the requests of another node until its connection ends or it breaks the protocol.
///
/// The peer must have shown before that it may change the records of the cluster.
pub async fn serve<S>(stream: S, coordinator: &Embedded) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite,
{
    let (from, to) = split(stream);
    let (answers, answered) = mpsc::channel(REQUESTS_MAX);
    let link = Link { coordinator, answers, requests: JoinSet::new(), watches: Watches::default() };
    let reading = link.run(Messages::new(from, REQUEST_MAX));
    match first(reading, write(to, answered)).await {
        First::A(ended) | First::B(ended) => ended,
    }
}

struct Link<'a> {
    coordinator: &'a Embedded,
    answers: mpsc::Sender<(Id, Tell)>,
    /// What is worked on. It ends with the link.
    requests: JoinSet<()>,
    watches: Watches,
}

#[derive(Default)]
struct Watches {
    tasks: JoinSet<()>,
    ends: HashMap<Id, AbortHandle>,
}

impl Link<'_> {
    async fn run(mut self, mut messages: Messages<impl AsyncRead + Unpin>) -> io::Result<()> {
        loop {
            let next = timeout(SILENCE, messages.next()).await;
            let (id, ask) = next.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
            match ask {
                Ask::Watch(after) => self.watch(id, after).await,
                Ask::EndWatch => {
                    if let Some(task) = self.watches.ends.remove(&id) {
                        task.abort();
                    }
                }
                ask => {
                    if self.requests.len() >= REQUESTS_MAX {
                        self.requests.join_next().await;
                    }
                    while self.requests.try_join_next().is_some() {}
                    let (coordinator, answers) = (self.coordinator.clone(), self.answers.clone());
                    self.requests.spawn(async move {
                        let answer = answer(&coordinator, ask).await;
                        // It fails only if the link has ended.
                        let _ = answers.send((id, answer)).await;
                    });
                }
            }
        }
    }

    async fn watch(&mut self, id: Id, after: u64) {
        let watches = &mut self.watches;
        while watches.tasks.try_join_next().is_some() {}
        watches.ends.retain(|_, task| !task.is_finished());
        if watches.ends.len() >= WATCHES_MAX || watches.ends.contains_key(&id) {
            let why = format!("a connection may have {WATCHES_MAX} watches");
            let _ = self.answers.send((id, Tell::Failed(Failure::Refused(why)))).await;
            return;
        }
        let (coordinator, answers) = (self.coordinator.clone(), self.answers.clone());
        let task = watches.tasks.spawn(async move {
            let mut watch = match coordinator.watch(after).await {
                Ok(watch) => watch,
                Err(failure) => {
                    let _ = answers.send((id, Tell::Failed(failure))).await;
                    return;
                }
            };
            let mut tell = Tell::Done;
            loop {
                let ended = tell == Tell::WatchEnded;
                if answers.send((id, tell)).await.is_err() || ended {
                    return;
                }
                tell = watch.recv().await.map_or(Tell::WatchEnded, Tell::Changed);
            }
        });
        watches.ends.insert(id, task);
    }
}

async fn answer(coordinator: &Embedded, ask: Ask) -> Tell {
    let told = match ask {
        Ask::Read => coordinator.read().await.map(Tell::Snapshot),
        Ask::Transact(transaction) => coordinator.transact(&transaction).await.map(Tell::Outcome),
        Ask::Grant(ttl) => coordinator.grant(ttl).await.map(Tell::Lease),
        Ask::KeepAlive(lease) => coordinator.keep_alive(lease).await.map(|()| Tell::Done),
        Ask::Revoke(lease) => coordinator.revoke(lease).await.map(|()| Tell::Done),
        Ask::Ping | Ask::Watch(_) | Ask::EndWatch => Ok(Tell::Done),
    };
    told.unwrap_or_else(Tell::Failed)
}
