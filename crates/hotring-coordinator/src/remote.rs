//! The client's side of a link to the embedded coordinator of another node.
//!
//! A task owns the connection. It dials when there is a request and no connection, and waits longer after each attempt
//! that fails. A request is sent at most once: one that was given up is not sent any more, and one that was sent has
//! an unknown outcome if its connection ends.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::heard::check_heard;
use crate::protocol::{ANSWER_MAX, Ask, IDLE, Id, Messages, SILENCE, Tell, write};
use crate::wait::{First, first};
use crate::{
    Changed, Coordinator, Failure, Lease, LeaseId, Outcome, Reply, Revision, Snapshot, Transaction,
    Watch,
};

/// Most requests that wait for the task.
const QUEUE: usize = 64;

/// Most requests and watches without an end.
const WAITING_MAX: usize = 256;

/// Most changes that a watch may be behind before it ends.
const WATCH_QUEUE: usize = 1_024;

/// The pause after an attempt to connect that failed: the first one, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The number of pings, which no request has.
const PING: Id = 0;

/// A connection to another node.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The embedded coordinator of another node.
#[derive(Clone, Debug)]
pub struct Remote {
    calls: mpsc::Sender<Call>,
    limit: Duration,
}

#[derive(Debug)]
struct Call {
    ask: Ask,
    answer: oneshot::Sender<Result<Tell, Failure>>,
    /// Where the changes go, if it is a watch.
    changes: Option<mpsc::Sender<Changed>>,
}

impl Remote {
    /// Reaches it through connections that `dial` opens: authenticated, and after the other node has answered the
    /// command behind which the connection speaks frames. Each request ends within `limit`. Must be called within a
    /// runtime, which drives it.
    pub fn new<D, F>(dial: D, limit: Duration) -> Remote
    where
        D: Fn() -> F + Send + 'static,
        F: Future<Output = Result<Box<dyn Stream>, Failure>> + Send + 'static,
    {
        let (calls, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(run(dial, waiting, limit));
        Remote { calls, limit }
    }

    async fn call(
        &self,
        ask: Ask,
        changes: Option<mpsc::Sender<Changed>>,
    ) -> Result<Tell, Failure> {
        let (answer, answered) = oneshot::channel();
        let gone = || Failure::Unknown("the connection to it has ended".to_owned());
        let told = async {
            let call = Call { ask, answer, changes };
            self.calls.send(call).await.map_err(|_| gone())?;
            answered.await.map_err(|_| gone())?
        };
        let late = || Failure::Unknown(format!("no answer within {:?}", self.limit));
        match timeout(self.limit, told).await.map_err(|_| late())?? {
            Tell::Failed(failure) => Err(failure),
            tell => Ok(tell),
        }
    }
}

/// The answer of this kind; another one is no answer.
macro_rules! told {
    ($call:expr, $($pattern:pat => $value:expr)?) => {
        match $call.await? {
            $($pattern => Ok($value),)?
            _ => Err(Failure::Unknown("it gave an answer to another question".to_owned())),
        }
    };
}

impl Coordinator for Remote {
    fn read(&self) -> Reply<'_, Snapshot> {
        Box::pin(async { told!(self.call(Ask::Read, None), Tell::Snapshot(snapshot) => snapshot) })
    }

    fn transact<'a>(&'a self, transaction: &'a Transaction) -> Reply<'a, Outcome> {
        Box::pin(async {
            // One that is too long for a message must not end the connection.
            transaction.check().map_err(Failure::Refused)?;
            let ask = Ask::Transact(transaction.clone());
            told!(self.call(ask, None), Tell::Outcome(outcome) => outcome)
        })
    }

    fn grant(&self, ttl: Duration) -> Reply<'_, Lease> {
        Box::pin(
            async move { told!(self.call(Ask::Grant(ttl), None), Tell::Lease(lease) => lease) },
        )
    }

    fn keep_alive(&self, lease: LeaseId) -> Reply<'_, ()> {
        Box::pin(async move {
            let began = Instant::now();
            told!(self.call(Ask::Ping, None), Tell::Done => ())?;
            check_heard(began, self.limit)?;
            told!(self.call(Ask::KeepAlive(lease), None), Tell::Done => ())
        })
    }

    fn revoke(&self, lease: LeaseId) -> Reply<'_, ()> {
        Box::pin(async move { told!(self.call(Ask::Revoke(lease), None), Tell::Done => ()) })
    }

    fn watch(&self, after: Revision) -> Reply<'_, Watch> {
        Box::pin(async move {
            let (changes, watch) = mpsc::channel(WATCH_QUEUE);
            told!(self.call(Ask::Watch(after), Some(changes)), Tell::Done => watch)
        })
    }
}

async fn run<D, F>(dial: D, mut calls: mpsc::Receiver<Call>, limit: Duration)
where
    D: Fn() -> F + Send,
    F: Future<Output = Result<Box<dyn Stream>, Failure>> + Send,
{
    let mut pause = PAUSE;
    while let Some(call) = calls.recv().await {
        if call.answer.is_closed() {
            continue;
        }
        let late = || Err(Failure::Unknown("connecting to it takes too long".to_owned()));
        match timeout(limit, dial()).await.unwrap_or_else(|_| late()) {
            Ok(stream) => {
                if talk(stream, call, &mut calls, limit).await {
                    pause = PAUSE;
                    continue;
                }
            }
            Err(failure) => {
                // Nothing of them was sent. Their callers learn why it cannot be reached.
                let _ = call.answer.send(Err(failure.clone()));
                while let Ok(call) = calls.try_recv() {
                    let _ = call.answer.send(Err(failure.clone()));
                }
            }
        }
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Speaks with the peer until the connection ends. Tells whether the peer answered anything.
async fn talk(
    stream: Box<dyn Stream>,
    call: Call,
    calls: &mut mpsc::Receiver<Call>,
    limit: Duration,
) -> bool {
    let (from, to) = split(stream);
    // Room for the end of each watch, too.
    let (asks, asked) = mpsc::channel(2 * WAITING_MAX + 1);
    let now = Instant::now();
    let mut talk = Talk {
        asks,
        waiting: HashMap::new(),
        last: PING,
        asked: now,
        heard: now,
        idle: IDLE.min(limit / 2),
        silence: SILENCE.min(2 * limit),
    };
    talk.ask(call);
    let speaking = talk.run(Messages::new(from, ANSWER_MAX), calls);
    let (First::A(ended) | First::B(ended)) = first(speaking, write(to, asked)).await;
    let why = ended.map_or_else(|error| error.to_string(), |()| "it was closed".to_owned());
    let unknown = Failure::Unknown(format!("the connection to it has ended: {why}"));
    let answers = talk.waiting.into_values().filter_map(|waiting| waiting.answer);
    answers.for_each(|answer| drop(answer.send(Err(unknown.clone()))));
    talk.heard > now
}

/// A connection.
struct Talk {
    asks: mpsc::Sender<(Id, Ask)>,
    waiting: HashMap<Id, Waiting>,
    /// The number of the last request.
    last: Id,
    /// When the last request was sent.
    asked: Instant,
    /// When the last message came, or the connection began.
    heard: Instant,
    /// After this time without a request a ping is sent.
    idle: Duration,
    /// After this time without a message the connection is dead.
    silence: Duration,
}

/// A request without an answer, or a watch without an end.
struct Waiting {
    answer: Option<oneshot::Sender<Result<Tell, Failure>>>,
    changes: Option<mpsc::Sender<Changed>>,
}

impl Talk {
    async fn run(
        &mut self,
        mut messages: Messages<impl AsyncRead + Unpin>,
        calls: &mut mpsc::Receiver<Call>,
    ) -> io::Result<()> {
        loop {
            let (is_full, now) = (self.waiting.len() >= WAITING_MAX, Instant::now());
            let dead = self.heard + self.silence;
            if now >= dead {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if now >= self.asked + self.idle {
                self.end_watches();
                self.send(PING, Ask::Ping);
            }
            let next_call =
                async { if is_full { std::future::pending().await } else { calls.recv().await } };
            let wake = sleep_until(dead.min(self.asked + self.idle));
            match first(messages.next(), first(next_call, wake)).await {
                First::A(message) => {
                    let (id, tell) = message?;
                    self.heard = Instant::now();
                    self.told(id, tell);
                }
                First::B(First::A(Some(call))) => self.ask(call),
                First::B(First::A(None)) => return Ok(()),
                First::B(First::B(())) => {}
            }
        }
    }

    fn ask(&mut self, call: Call) {
        if call.answer.is_closed() {
            return;
        }
        self.last += 1;
        let waiting = Waiting { answer: Some(call.answer), changes: call.changes };
        self.waiting.insert(self.last, waiting);
        self.send(self.last, call.ask);
    }

    fn send(&mut self, id: Id, ask: Ask) {
        self.asked = Instant::now();
        // Without room, or without a writer, the peer takes nothing: the connection is over soon.
        let _ = self.asks.try_send((id, ask));
    }

    fn told(&mut self, id: Id, tell: Tell) {
        // The answer to a ping, or a change for a watch that has been given up.
        let Some(waiting) = self.waiting.get_mut(&id) else { return };
        match tell {
            Tell::Changed(changed) => {
                let taken = waiting.changes.as_ref().map(|changes| changes.try_send(changed));
                if !matches!(taken, Some(Ok(()))) {
                    self.waiting.remove(&id);
                    self.send(id, Ask::EndWatch);
                }
            }
            Tell::WatchEnded => drop(self.waiting.remove(&id)),
            tell => {
                let begins = waiting.changes.is_some() && tell == Tell::Done;
                let answer = waiting.answer.take();
                if !begins {
                    self.waiting.remove(&id);
                }
                drop(answer.map(|answer| answer.send(Ok(tell))));
            }
        }
    }

    /// Ends the watches whose owners are gone.
    fn end_watches(&mut self) {
        let is_over = |waiting: &Waiting| {
            waiting.answer.is_none() && waiting.changes.as_ref().is_some_and(|to| to.is_closed())
        };
        let over: Vec<Id> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| is_over(waiting))
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            self.waiting.remove(&id);
            self.send(id, Ask::EndWatch);
        }
    }
}
