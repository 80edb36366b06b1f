//! The upper side of a link, at a primary or at a replica that has replicas of its own: sends the stream, after a full
//! copy if the replica needs one, and takes the replica's acknowledgements. It runs as the task of the connection on
//! which the replica asked for the stream.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use hotring_cluster::{Course, Hello, NodeId, Stamp, Tenure, ToPrimary, ToReplica};
use hotring_commands::host::clock;
use hotring_commands::state::client::ClientShared;
use hotring_commands::state::cluster::Cluster;
use hotring_commands::state::replication::attached::{Attached, Progress, Stage};
use hotring_commands::state::replication::codec;
use hotring_commands::state::server::Server;
use hotring_log::wire::{Frame, Kind};
use hotring_log::{Backlog, Log, Lsn, first_record};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::watch;

use super::LinkError;
use super::copy::{self, Item};
use super::frames::{Receiver, Sender};
use super::stream::{self, Stream};

/// Most bytes by which a replica names keys: a replica that needs more copies everything.
const NAMES_MAX: usize = 64 << 20;

/// Limit of the time to say hello.
const HELLO_MAX: Duration = Duration::from_secs(10);

/// Serves a replica until its link ends.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    server: &Arc<Server>,
    client: &ClientShared,
    port: u16,
) {
    let (reader, writer) = tokio::io::split(stream);
    let work = feed(Receiver::new(reader), Sender::new(writer), server, client, port);
    if let Some(Err(why)) = super::unless(server.process.stopping(), work).await {
        tracing::warn!(peer = %client.peer, "the link to a replica is down: {why}");
    }
}

async fn feed<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    mut receiver: Receiver<R>,
    mut sender: Sender<W>,
    server: &Arc<Server>,
    client: &ClientShared,
    port: u16,
) -> Result<(), LinkError> {
    let hello = tokio::time::timeout(HELLO_MAX, hello(&mut receiver)).await;
    let mut hello = hello.map_err(|_| LinkError::Peer("it does not say hello".to_string()))??;
    let (log, backlog) = open_stream(server).await?;
    let (messages, mut inbox) = mpsc::unbounded_channel();
    let progress = Arc::new(Progress::default());
    let (asked, names) = mpsc::channel(1);
    let ip = client.peer.rsplit_once(':').map_or(client.peer.as_ref(), |(ip, _)| ip).to_string();
    let node = server.name_of_replica(hello.from.node, &ip, port);
    hello.from.node = node;
    let stamp = Stamp::default();
    let attached = Attached { node, stamp, ip, port, messages, progress: progress.clone() };
    let oldest = oldest(server, &backlog);
    let Some(stamp) = server.replication.attach(&hello, oldest, &log, attached) else {
        if let Ok(message) = inbox.try_recv() {
            let bytes = codec::to_replica_bytes(&message);
            sender.send(Kind::Message, [&bytes[..]]).await?;
            sender.flush().await?;
        }
        return Err(LinkError::Peer("this server serves no replicas now".to_string()));
    };
    let _detaches = Detaches { server, stamp };
    tracing::info!(peer = %client.peer, %node, last = hello.last, "a replica asks for the stream");
    let mut tenure = server.cluster.as_ref().map(Cluster::tenure);
    if let Some(tenure) = &mut tenure {
        tenure.mark_changed();
    }
    let sending = Feeder {
        server,
        sender,
        stream: Stream::new(server.clone(), log.clone(), backlog),
        inbox,
        names,
        progress,
        copy: None,
        tenure,
    };
    let receiving = Inlet { receiver, server, node, asked, names: Vec::new() };
    let (mut sending, mut receiving) =
        (pin!(sending.run(client)), pin!(receiving.run(client, &log)));
    poll_fn(|cx| match receiving.as_mut().poll(cx) {
        Poll::Pending => sending.as_mut().poll(cx),
        ended => ended,
    })
    .await
}

/// Detaches a replica at the end of its link.
struct Detaches<'a> {
    server: &'a Server,
    stamp: Stamp,
}

impl Drop for Detaches<'_> {
    fn drop(&mut self) {
        self.server.replication.detach(self.stamp);
    }
}

/// The replica's first message.
async fn hello<R: AsyncRead + Unpin>(receiver: &mut Receiver<R>) -> Result<Hello, LinkError> {
    loop {
        if let Some(frame) = receiver.next()? {
            return match codec::to_primary_of(frame.body).filter(|_| frame.kind == Kind::Message) {
                Some(ToPrimary::Hello(hello)) => Ok(hello),
                _ => Err(LinkError::Peer("its first message is no hello".to_string())),
            };
        }
        receiver.fill().await?;
    }
}

/// Makes this server a primary, unless it is a replica, and has its records kept in the backlog.
async fn open_stream(server: &Arc<Server>) -> Result<(Arc<Log>, Arc<Backlog>), LinkError> {
    let durability = &server.persist.durability;
    let (Some(log), Some(backlog)) = (durability.stream(), durability.backlog()) else {
        return Err(LinkError::Peer("its primary is still loading".to_string()));
    };
    let (becoming, of) = (server.clone(), log.clone());
    // Waits for every session within the gate, perhaps for one on this thread.
    let became = tokio::task::spawn_blocking(move || {
        let replication = &becoming.replication;
        replication.is_replica() || replication.become_primary(&mut becoming.store.session(), &of)
    });
    if !became.await.unwrap_or(false) {
        return Err(LinkError::Peer("this server is no primary".to_string()));
    }
    backlog.turn_on(log);
    Ok((log.clone(), backlog.clone()))
}

/// The first record that could be sent.
fn oldest(server: &Server, backlog: &Backlog) -> Lsn {
    let files = server.persist.durability.snapshots();
    let on_disk = files.and_then(|files| first_record(&*files.storage).ok().flatten());
    server.replication.oldest(backlog.status().start + 1, on_disk)
}

/// The receiving part of a link.
struct Inlet<'a, R> {
    receiver: Receiver<R>,
    server: &'a Server,
    node: NodeId,
    /// Where the names of keys go whose state the replica needs.
    asked: mpsc::Sender<Vec<u8>>,
    /// The names that have arrived.
    names: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Inlet<'_, R> {
    /// Takes the replica's messages.
    async fn run(mut self, client: &ClientShared, log: &Log) -> Result<(), LinkError> {
        let nonsense = || LinkError::Peer("it sends nonsense".to_string());
        loop {
            while let Some(Frame { kind, more, body }) = self.receiver.next()? {
                // ORDERING: Relaxed, shown to people and compared with the idle timeout.
                client.active_at.store(clock::unix_ms(), Ordering::Relaxed);
                match kind {
                    Kind::Message if !more => {
                        let message = codec::to_primary_of(body).ok_or_else(nonsense)?;
                        self.server.replication.receive(self.node, &message, log);
                    }
                    Kind::Keys if self.names.len() + body.len() <= NAMES_MAX => {
                        self.names.extend_from_slice(body);
                        if !more {
                            let names = std::mem::take(&mut self.names);
                            self.asked.try_send(names).map_err(|_| nonsense())?;
                        }
                    }
                    _ => return Err(nonsense()),
                }
            }
            let limit = self.server.settings.config().replication.timeout_s;
            let filled = self.receiver.fill();
            let filled = tokio::time::timeout(Duration::from_secs(limit), filled).await;
            filled.map_err(|_| LinkError::Peer("it is silent (repl-timeout)".to_string()))??;
        }
    }
}

/// The sending part of a link.
struct Feeder<'a, W> {
    server: &'a Arc<Server>,
    sender: Sender<W>,
    stream: Stream,
    inbox: UnboundedReceiver<ToReplica>,
    /// Names of keys whose state the replica needs.
    names: mpsc::Receiver<Vec<u8>>,
    progress: Arc<Progress>,
    copy: Option<mpsc::Receiver<Item>>,
    /// Which slots this shard has, at a node of a cluster.
    tenure: Option<watch::Receiver<Tenure>>,
}

/// What is sent next.
enum Next {
    Message(ToReplica),
    Item(Item),
    /// The replica has named keys.
    Keys(Vec<u8>),
    Stream(stream::Next),
}

impl<W: AsyncWrite + Unpin> Feeder<'_, W> {
    async fn run(mut self, client: &ClientShared) -> Result<(), LinkError> {
        self.begin().await?;
        loop {
            let next = poll_fn(|cx| self.poll_next(cx)).await?;
            self.tell_tenure().await?;
            match next {
                Next::Message(message) => self.send_message(&message).await?,
                Next::Item(item) => self.send_item(item, client).await?,
                Next::Keys(names) => {
                    self.progress.reach(Stage::Copying);
                    self.copy = Some(copy::start_keys(self.server, names)?);
                }
                Next::Stream(next) => self.send_next(next, Lsn::MAX).await?,
            }
            self.sender.flush().await?;
        }
    }

    /// Sends the answer to the hello, and begins what it announces.
    async fn begin(&mut self) -> Result<(), LinkError> {
        let gone =
            || LinkError::Peer("another link of the same replica took its place".to_string());
        let answer = self.inbox.recv().await.ok_or_else(gone)?;
        self.send_message(&answer).await?;
        self.sender.flush().await?;
        let ToReplica::Answer(answer) = answer else {
            return Err(LinkError::Peer("this server serves no replicas now".to_string()));
        };
        match answer.course {
            // The replica itself asks for what a repair needs.
            Course::Continue(after) | Course::Repair(after) => {
                self.stream.sent = after;
                self.progress.reach(Stage::Online);
                // ORDERING: Relaxed, a figure.
                self.server.replication.counts.partial.fetch_add(1, Ordering::Relaxed);
            }
            Course::FullCopy => {
                // ORDERING: Relaxed, a figure.
                self.server.replication.counts.full.fetch_add(1, Ordering::Relaxed);
                self.copy = Some(copy::start(self.server, None)?);
            }
        }
        Ok(())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Next, LinkError>> {
        match self.inbox.poll_recv(cx) {
            Poll::Ready(Some(message)) => return Poll::Ready(Ok(Next::Message(message))),
            Poll::Ready(None) => {
                let why = "this server is no longer its primary, or the replica has another link";
                return Poll::Ready(Err(LinkError::Peer(why.to_string())));
            }
            Poll::Pending => {}
        }
        if let Some(copy) = &mut self.copy {
            match copy.poll_recv(cx) {
                Poll::Ready(Some(item)) => return Poll::Ready(Ok(Next::Item(item))),
                Poll::Ready(None) => self.copy = None,
                // A part that is being read may be older than records that are there already: they come behind it.
                Poll::Pending => return Poll::Pending,
            }
        }
        if let Poll::Ready(Some(names)) = self.names.poll_recv(cx) {
            return Poll::Ready(Ok(Next::Keys(names)));
        }
        self.stream.poll(cx).map(|next| Ok(Next::Stream(next)))
    }

    async fn send_message(&mut self, message: &ToReplica) -> io::Result<()> {
        let bytes = codec::to_replica_bytes(message);
        self.sender.send(Kind::Message, [&bytes[..]]).await
    }

    /// Tells which slots this shard has if that is news. It must be done behind the taking of what is sent next: then
    /// no change of keys leaves before the reason for it.
    async fn tell_tenure(&mut self) -> io::Result<()> {
        let Some(tenure) = &mut self.tenure else { return Ok(()) };
        if !tenure.has_changed().unwrap_or(false) {
            return Ok(());
        }
        let bytes = codec::tenure_to_bytes(&tenure.borrow_and_update());
        self.sender.send(Kind::Tenure, [&bytes[..]]).await
    }

    async fn send_item(&mut self, item: Item, client: &ClientShared) -> Result<(), LinkError> {
        match item {
            Item::Begin(after, keys) => {
                // In vain if an epoch has ended the link meanwhile.
                check_attached(&self.inbox)?;
                self.stream.sent = after;
                let numbers = [after.to_le_bytes(), keys.to_le_bytes()].concat();
                self.sender.send(Kind::CopyBegin, [&numbers[..]]).await?;
            }
            Item::Part(upto, part) => {
                self.send_stream(upto).await?;
                self.sender.send(Kind::Part, [&part[..]]).await?;
                self.progress.copy(part.len());
            }
            Item::End(end) => {
                self.send_stream(end).await?;
                check_attached(&self.inbox)?;
                self.sender.send(Kind::CopyEnd, [&end.to_le_bytes()[..]]).await?;
                self.progress.reach(Stage::Online);
                tracing::info!(peer = %client.peer, end, "the replica has been sent all that it lacked");
            }
            Item::Failed(why) => {
                return Err(LinkError::Peer(format!("the full copy failed: {why}")));
            }
        }
        Ok(())
    }

    /// Sends the stream up to this record, and not further.
    async fn send_stream(&mut self, upto: Lsn) -> Result<(), LinkError> {
        while self.stream.sent < upto {
            let next = self.stream.next(upto).await;
            self.send_next(next, upto).await?;
        }
        Ok(())
    }

    /// Sends what follows, up to this record.
    async fn send_next(&mut self, next: stream::Next, upto: Lsn) -> Result<(), LinkError> {
        let check = || check_attached(&self.inbox);
        let taken = self.stream.take(next, upto, check).await?;
        self.tell_tenure().await?;
        let mut pieces = taken.pieces().peekable();
        if pieces.peek().is_some() {
            self.sender.send(Kind::Records, pieces).await?;
        }
        Ok(())
    }
}

/// Fails once this server serves the link no more: what its log has then may be another primary's stream. To be asked
/// after that was read.
fn check_attached(inbox: &UnboundedReceiver<ToReplica>) -> Result<(), LinkError> {
    match inbox.is_closed() {
        true => Err(LinkError::Peer("this server serves no replicas now".to_string())),
        false => Ok(()),
    }
}
