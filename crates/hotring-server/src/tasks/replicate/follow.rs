//! The replica's side of a link: says hello, and follows what the primary sends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_cluster::{AnswerRefused, Course, Held, NodeId, ToPrimary, ToReplica};
use hotring_commands::host::clock;
use hotring_commands::state::replication::codec;
use hotring_commands::state::replication::link::LinkStage;
use hotring_commands::state::server::Server;
use hotring_log::mark_source;
use hotring_log::wire::{Frame, Kind};
use tokio::io::{AsyncRead, AsyncWrite};

use super::LinkError;
use super::apply::Follower;
use super::dial::Stream;
use super::frames::{Receiver, Sender};
use super::repair;

/// Time between two looks whether there is something to say.
const TICK: Duration = Duration::from_millis(100);

/// Limit of the time to answer the hello.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Follows the primary on this connection, which has agreed to be a link.
pub(super) async fn follow(
    stream: Box<dyn Stream>,
    server: &Arc<Server>,
) -> Result<Infallible, LinkError> {
    let (reader, writer) = tokio::io::split(stream);
    let (mut receiver, mut sender) = (Receiver::new(reader), Sender::new(writer));
    let floor = repair::floor(server);
    let Some(hello) = server.replication.hello(floor) else { return Err(gone()) };
    let own = ToReplica::NotReady(hello.from.incarnation);
    send(&mut sender, &[ToPrimary::Hello(hello)]).await?;
    let answered = tokio::time::timeout(ANSWER_MAX, next_message(&mut receiver)).await;
    let answered =
        answered.map_err(|_| LinkError::Peer("the primary does not answer".to_string()))??;
    let answer = match answered {
        ToReplica::Answer(answer) => answer,
        answered if answered == own => return Err(refused(server, AnswerRefused::Circle)),
        other => {
            let node = NodeId::default();
            server.replication.with_replica(|replica, now| replica.receive(now, node, &other));
            return Err(LinkError::Peer("the primary is not ready".to_string()));
        }
    };
    if !server.may_follow(answer.from, answer.leads) {
        return Err(LinkError::Peer(
            "what answers at the address of this shard's primary is another node, or does not lead now"
                .to_string(),
        ));
    }
    let (stamp, primary) = (answer.stamp, answer.from);
    let epochs = codec::epochs_to_bytes(answer.store, &answer.history);
    let accepted = server.replication.with_replica(|replica, now| replica.answer(now, answer));
    let Some(accepted) = accepted else { return Err(gone()) };
    let course = match accepted {
        Ok(course) => course,
        Err(why) => {
            speak(&mut sender, server).await?;
            return Err(refused(server, why));
        }
    };
    let log = server.persist.durability.stream().ok_or_else(gone)?.clone();
    if let Course::Repair(after) = course {
        repair::begin(server, &log, stamp, after).await?;
    }
    let held = server.replication.with_replica(|replica, _| replica.held().clone());
    let Held { last, repairing, .. } = held.ok_or_else(gone)?;
    // A copy brings the keys of an unfinished repair, too.
    let repairing = repairing && course != Course::FullCopy;
    if repairing {
        repair::cut(server, &log, last).await?;
    }
    let mut link = Link {
        server,
        receiver,
        sender,
        follower: Follower::new(server, log, stamp, last, course),
        primary,
        epochs,
        heard: clock::monotonic(),
        noted: None,
    };
    link.note_source()?;
    if repairing {
        link.ask_for_keys().await?;
    } else if let Course::Continue(after) = course {
        server.replication.tail.end();
        server
            .replication
            .end_marks(&mut server.store.session(), &server.replication.lock_applying());
        server.replication.update_link(|link| link.enter(LinkStage::Connected));
        tracing::info!(after, "following the primary's stream");
    }
    let ended = link.run().await;
    server.replication.with_replica(|replica, _| replica.disconnected());
    ended
}

fn gone() -> LinkError {
    LinkError::Peer("this server is no replica any more".to_string())
}

/// Why the replica does not follow the primary that answers.
fn refused(server: &Server, why: AnswerRefused) -> LinkError {
    if matches!(why, AnswerRefused::Foreign | AnswerRefused::LowerEpoch(_)) {
        server.replication.update_link(|link| link.await_order());
    }
    LinkError::Peer(match why {
        AnswerRefused::Foreign => {
            "the primary has other data, perhaps none: this replica keeps its own. To give it up for the primary's, say \
             REPLICAOF again"
                .to_string()
        }
        AnswerRefused::LowerEpoch(epoch) => {
            format!(
                "there was a later primary of this data, in epoch {}: this replica keeps that one's. To give it up, \
                 say REPLICAOF again",
                epoch.0
            )
        }
        AnswerRefused::Circle => {
            "it follows this server, itself or through others: a circle has no primary".to_string()
        }
        AnswerRefused::Late | AnswerRefused::Garbled => {
            "the primary's answer does not fit the question".to_string()
        }
    })
}

async fn send<W: AsyncWrite + Unpin>(
    sender: &mut Sender<W>,
    messages: &[ToPrimary],
) -> Result<(), LinkError> {
    for message in messages {
        sender.send(Kind::Message, [&codec::to_primary_bytes(message)[..]]).await?;
    }
    Ok(sender.flush().await?)
}

/// Sends what the machine wants to say. True if the link must end.
async fn speak<W: AsyncWrite + Unpin>(
    sender: &mut Sender<W>,
    server: &Server,
) -> Result<bool, LinkError> {
    if server.replication.applied().is_none() {
        return Ok(true);
    }
    let mut work = server.replication.link_work();
    let messages = &mut work.messages;
    // Each acknowledgement includes those before it.
    let last_ack = messages.iter().rposition(|message| matches!(message, ToPrimary::Ack(_)));
    let mut at = 0;
    messages.retain(|message| {
        at += 1;
        !matches!(message, ToPrimary::Ack(_)) || Some(at - 1) == last_ack
    });
    send(sender, messages).await?;
    if let Some(from) = work.take_over {
        server.take_over(*from, &mut server.store.session());
        return Ok(true);
    }
    Ok(work.ends)
}

async fn next_message<R: AsyncRead + Unpin>(
    receiver: &mut Receiver<R>,
) -> Result<ToReplica, LinkError> {
    loop {
        if let Some(frame) = receiver.next()? {
            let message = codec::to_replica_of(frame.body)
                .filter(|_| frame.kind == Kind::Message && !frame.more);
            return message
                .ok_or_else(|| LinkError::Peer("the primary sends nonsense".to_string()));
        }
        receiver.fill().await?;
    }
}

struct Link<'a, R, W> {
    server: &'a Arc<Server>,
    receiver: Receiver<R>,
    sender: Sender<W>,
    follower: Follower<'a>,
    primary: NodeId,
    /// The primary's epochs, for the snapshot of a full copy.
    epochs: Vec<u8>,
    heard: Instant,
    /// Whether the log's folder says that the data came by another replica. None: that is to be written.
    noted: Option<bool>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Link<'_, R, W> {
    /// Asks for the values of the keys that a divergent tail has changed.
    async fn ask_for_keys(&mut self) -> Result<(), LinkError> {
        let keys = self.follower.begin_repair();
        self.sender.send(Kind::Keys, [&keys[..]]).await?;
        Ok(self.sender.flush().await?)
    }

    /// Notes in the log's folder whether the data comes by another replica: a restart must not forget that.
    fn note_source(&mut self) -> Result<(), LinkError> {
        let below = self.server.replication.with_replica(|replica, _| replica.is_below());
        if below != self.noted
            && let (Some(below), Some(files)) = (below, self.server.persist.durability.snapshots())
        {
            mark_source(&*files.storage, below)?;
        }
        self.noted = below;
        Ok(())
    }

    async fn run(&mut self) -> Result<Infallible, LinkError> {
        loop {
            while let Some(frame) = self.receiver.next()? {
                let Frame { kind, more, body } = frame;
                match kind {
                    Kind::Message => {
                        let message = codec::to_replica_of(body).filter(|_| !more);
                        let message = message.ok_or_else(|| {
                            LinkError::Peer("the primary sends nonsense".to_string())
                        })?;
                        let from = self.primary;
                        self.server
                            .replication
                            .with_replica(|replica, now| replica.receive(now, from, &message));
                    }
                    Kind::Records => self.follower.take_records(body).await?,
                    Kind::CopyBegin => self.follower.begin_copy(body, &self.epochs).await?,
                    Kind::Part => self.follower.take_part(body, more)?,
                    Kind::CopyEnd => self.follower.take_copy_end(body)?,
                    Kind::Tenure => self.follower.take_tenure(body, more).await?,
                    Kind::Keys => {
                        return Err(LinkError::Peer("the primary sends nonsense".to_string()));
                    }
                }
            }
            self.follower.finish_copy().await?;
            self.note_source()?;
            if speak(&mut self.sender, self.server).await? {
                return Err(LinkError::Peer("the primary does not know this link".to_string()));
            }
            match tokio::time::timeout(TICK, self.receiver.fill()).await {
                Ok(filled) => {
                    filled?;
                    self.heard = clock::monotonic();
                    self.server.replication.update_link(|link| link.hear());
                }
                Err(_) => self.follower.tell(),
            }
            let limit = Duration::from_secs(self.server.settings.config().replication.timeout_s);
            if self.heard.elapsed() > limit {
                return Err(LinkError::Peer("the primary is silent (repl-timeout)".to_string()));
            }
        }
    }
}
