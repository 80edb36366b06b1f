//! The link of a move: a connection from the source's primary to the target's, which the source dials.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use hotring_cluster::directory::{MoveId, Wanted};
use hotring_cluster::moves::{ToSource, ToTarget};
use hotring_cluster::{ShardId, SlotSet, slot_of};
use hotring_commands::host::clock;
use hotring_commands::settings::config::Source;
use hotring_commands::state::client::ClientShared;
use hotring_commands::state::moves::{Arrival, Arrived, Progress, codec};
use hotring_commands::state::server::Server;
use hotring_log::wire::{Kind, WIRE_VERSION};
use hotring_log::{Lsn, Selection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::Reign;
use super::steps::{self, Step};
use crate::tasks::replicate::copy::{self, Item};
use crate::tasks::replicate::dial::dial;
use crate::tasks::replicate::frames::{Receiver, Sender};
use crate::tasks::replicate::greet::{ask, log_in, refused};
use crate::tasks::replicate::stream::{self, Stream};
use crate::tasks::replicate::{LinkError, unless};

/// Frames that wait for the thread of the moves.
const FRAMES: usize = 4;

/// What a link of the source is told.
pub(super) enum Order {
    /// Send this: a mark behind all changes up to its record, a wish to sync behind those that are written.
    Send(ToTarget),
    /// Send the keys, and their changes.
    Copy,
    /// Send no more of them.
    EndCopy,
}

/// What a link of the source tells.
pub(super) enum News {
    Heard(ToSource),
    Lost(LinkError),
}

/// How much a link has still to send, in bytes; the maximum while it sends keys.
#[derive(Clone, Default)]
pub(super) struct Left(Rc<Cell<Option<u64>>>);

impl Left {
    pub(super) fn get(&self) -> Option<u64> {
        self.0.get()
    }
}

/// Serves a source on the connection that it has dialled, until either end has enough.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    server: &Arc<Server>,
    client: &ClientShared,
    id: MoveId,
    from: ShardId,
) {
    let Some(cluster) = &server.cluster else { return };
    let (frames_in, frames) = mpsc::channel(FRAMES);
    let (answers, mut replies) = mpsc::unbounded_channel();
    let peer = client.peer.to_string();
    if !cluster.moves.arrive(Arrival { id, from, peer, frames, answers }) {
        return;
    }
    let (reader, writer) = tokio::io::split(stream);
    let (mut receiver, mut sender) = (Receiver::new(reader), Sender::new(writer));
    let receiving = async {
        loop {
            while let Some(frame) = receiver.next()? {
                // ORDERING: Relaxed, shown to people and compared with the idle timeout.
                client.active_at.store(clock::unix_ms(), Ordering::Relaxed);
                let body = frame.body.to_vec();
                let arrived = Arrived { kind: frame.kind, more: frame.more, body };
                if frames_in.send(arrived).await.is_err() {
                    return Ok(());
                }
            }
            receiver.fill().await?;
        }
    };
    let answering = async {
        while let Some(message) = replies.recv().await {
            sender.send(Kind::Message, [&codec::to_source_bytes(message)[..]]).await?;
            sender.flush().await?;
        }
        Ok(())
    };
    let work = first_of(receiving, answering);
    if let Some(Err::<(), LinkError>(why)) = unless(server.process.stopping(), work).await {
        tracing::info!(peer = %client.peer, id, "the link of a move has ended: {why}");
    }
}

/// The result of whichever ends first.
async fn first_of<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Pending => other.as_mut().poll(cx),
        ended => ended,
    })
    .await
}

/// A link of the source, from the dialling to its end. It ends once its orders do, and all of them are carried out.
pub(super) async fn connect(
    reign: Rc<Reign>,
    (id, wanted): (MoveId, Wanted),
    orders: UnboundedReceiver<Order>,
    news: UnboundedSender<News>,
    told: (Left, Arc<Progress>),
) {
    let Err(why) = follow_orders(&reign, (id, wanted), orders, &news, told).await else { return };
    let _ = news.send(News::Lost(why));
}

async fn follow_orders(
    reign: &Rc<Reign>,
    (id, wanted): (MoveId, Wanted),
    orders: UnboundedReceiver<Order>,
    news: &UnboundedSender<News>,
    (left, progress): (Left, Arc<Progress>),
) -> Result<(), LinkError> {
    let server = reign.server();
    let config = server.settings.config();
    let mut connection = dial(&config, &address_of(reign, wanted.to)?).await?;
    log_in(&mut connection, &config).await?;
    let words = [WIRE_VERSION.to_string(), id.to_string(), wanted.from.to_string()];
    let words = ["HOTRING.IMPORT", &words[0], &words[1], &words[2]];
    ask(&mut connection, &words).await?.map_err(refused)?;
    let durability = &server.persist.durability;
    let (Some(log), Some(backlog)) = (durability.stream(), durability.backlog()) else {
        return Err(LinkError::Peer("this server is still loading".to_string()));
    };
    let (reader, writer) = tokio::io::split(connection);
    let giving = Giving {
        reign,
        id,
        sender: Sender::new(writer),
        orders,
        stream: Stream::new(server.clone(), log.clone(), backlog.clone()),
        selection: None,
        copy: None,
        slots: wanted.slots,
        left,
        progress,
        lengths: VecDeque::new(),
        passed_len: 0,
    };
    first_of(hear(Receiver::new(reader), news), giving.run()).await
}

/// The address of the primary of a shard.
fn address_of(reign: &Reign, shard: ShardId) -> Result<Source, LinkError> {
    let directory = reign.cluster().directory();
    let found = directory.shards.get(&shard).map(|(_, shard)| shard);
    let found = found.ok_or_else(|| LinkError::Peer("the target has no record".to_string()))?;
    let source = reign.server().source_of(found, &directory);
    source.map_err(|why| LinkError::Peer(why.to_string()))
}

/// Passes the target's messages on.
async fn hear<R: AsyncRead + Unpin>(
    mut receiver: Receiver<R>,
    news: &UnboundedSender<News>,
) -> Result<(), LinkError> {
    loop {
        while let Some(frame) = receiver.next()? {
            let is_message = frame.kind == Kind::Message && !frame.more;
            let message = codec::to_source_of(frame.body).filter(|_| is_message);
            let message =
                message.ok_or_else(|| LinkError::Peer("the target sends nonsense".to_string()))?;
            let _ = news.send(News::Heard(message));
        }
        receiver.fill().await?;
    }
}

/// The sending part of a link of the source.
struct Giving<'a, W> {
    reign: &'a Reign,
    id: MoveId,
    sender: Sender<W>,
    orders: UnboundedReceiver<Order>,
    stream: Stream,
    /// Picks the changes of the slots, from the beginning of the copy on.
    selection: Option<Selection>,
    copy: Option<mpsc::Receiver<Item>>,
    slots: SlotSet,
    left: Left,
    progress: Arc<Progress>,
    /// Records with the bytes of the stream up to each of them, ahead of what is sent, and the last of these behind it.
    lengths: VecDeque<(Lsn, u64)>,
    passed_len: u64,
}

enum Next {
    Order(Option<Order>),
    Item(Item),
    Stream(stream::Next),
}

impl<W: AsyncWrite + Unpin> Giving<'_, W> {
    async fn run(mut self) -> Result<(), LinkError> {
        loop {
            match poll_fn(|cx| self.poll_next(cx)).await {
                Next::Order(None) => return Ok(()),
                Next::Order(Some(order)) => self.obey(order).await?,
                Next::Item(item) => self.send_item(item).await?,
                Next::Stream(next) => self.send_next(next, Lsn::MAX).await?,
            }
            self.sender.flush().await?;
            self.note_left();
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if let Poll::Ready(order) = self.orders.poll_recv(cx) {
            return Poll::Ready(Next::Order(order));
        }
        if let Some(copy) = &mut self.copy {
            match copy.poll_recv(cx) {
                Poll::Ready(Some(item)) => return Poll::Ready(Next::Item(item)),
                Poll::Ready(None) => self.copy = None,
                // A part that is being read may be older than records that are there already: they come behind it.
                Poll::Pending => return Poll::Pending,
            }
        }
        match self.selection {
            Some(_) => self.stream.poll(cx).map(Next::Stream),
            None => Poll::Pending,
        }
    }

    async fn obey(&mut self, order: Order) -> Result<(), LinkError> {
        match order {
            Order::Send(message) => {
                match message {
                    ToTarget::Mark(_, last) => self.send_stream(last).await?,
                    ToTarget::Sync(_) => self.send_stream(self.stream.log.written()).await?,
                    _ => {}
                }
                let bytes = codec::to_target_bytes(message);
                self.sender.send(Kind::Message, [&bytes[..]]).await?;
            }
            Order::Copy => {
                let (slots, progress) = (self.slots.clone(), self.progress.clone());
                let is_wanted = Arc::new(move |key: &[u8]| slots.contains(slot_of(key)));
                let some = Some(copy::Wanted { is_wanted, progress });
                self.copy = Some(copy::start(self.reign.server(), some)?);
            }
            Order::EndCopy => (self.copy, self.selection) = (None, None),
        }
        Ok(())
    }

    async fn send_item(&mut self, item: Item) -> Result<(), LinkError> {
        match item {
            Item::Begin(after, keys) => {
                self.progress.begin_walk(keys);
                self.stream.sent = after;
                self.selection = Some(Selection::new(after));
            }
            Item::Part(upto, part) => {
                self.send_stream(upto).await?;
                self.send(Kind::Part, &part).await?;
            }
            Item::End(end) => {
                self.send_stream(end).await?;
                self.copy = None;
                steps::take(self.id, Step::SourceFollows);
            }
            Item::Failed(why) => return Err(LinkError::Peer(format!("the walk failed: {why}"))),
        }
        Ok(())
    }

    /// Sends the changes up to this record, and no later ones.
    async fn send_stream(&mut self, upto: Lsn) -> Result<(), LinkError> {
        while self.stream.sent < upto {
            let next = self.stream.next(upto).await;
            self.send_next(next, upto).await?;
        }
        Ok(())
    }

    /// Sends the changes of the slots in what follows, up to this record.
    async fn send_next(&mut self, next: stream::Next, upto: Lsn) -> Result<(), LinkError> {
        let Some(selection) = &mut self.selection else { return Ok(()) };
        let slots = &self.slots;
        let is_wanted = |key: &[u8]| slots.contains(slot_of(key));
        let bad = |why: hotring_log::BadStream| LinkError::Peer(why.to_string());
        let taken = self.stream.take(next, upto, || check_reign(self.reign)).await?;
        for piece in taken.pieces() {
            selection.take(piece, is_wanted).map_err(bad)?;
        }
        if selection.cleared().is_some() {
            return Err(LinkError::Peer("all keys were removed meanwhile".to_string()));
        }
        let selected = selection.drain();
        if !selected.is_empty() {
            self.send(Kind::Records, &selected).await?;
        }
        Ok(())
    }

    async fn send(&mut self, kind: Kind, bytes: &[u8]) -> Result<(), LinkError> {
        self.reign.cluster().moves.note_sent(bytes.len());
        self.progress.note_sent(bytes.len());
        Ok(self.sender.send(kind, [bytes]).await?)
    }

    /// Publishes how much is left.
    fn note_left(&mut self) {
        let log = &self.stream.log;
        let (last, len) = (log.written(), log.length());
        if self.lengths.back().is_none_or(|(known, _)| *known < last) {
            self.lengths.push_back((last, len));
        }
        while let Some((_, len)) = self.lengths.pop_front_if(|(lsn, _)| *lsn <= self.stream.sent) {
            self.passed_len = len;
        }
        let left = len.saturating_sub(self.passed_len) + log.unwritten();
        let is_following = self.selection.is_some();
        self.left.0.set(is_following.then_some(if self.copy.is_some() { u64::MAX } else { left }));
    }
}

/// Fails once this node is no longer primary in the epoch of the move: what its log has then may be another stream.
fn check_reign(reign: &Reign) -> Result<(), LinkError> {
    match reign.lasts() {
        true => Ok(()),
        false => Err(LinkError::Peer("this node is not the primary any more".to_string())),
    }
}
