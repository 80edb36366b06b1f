//! Subscriptions. They take connections of their own: one for channels and patterns, which reach all nodes, and one for
//! the shard channels of each node.
//!
//! If such a connection ends, messages may be lost, so the client's connection ends as well: clients then subscribe
//! again.

use std::io;
use std::task::{Context, Poll};

use hotring_cluster::slot_of;
use hotring_commands::table::{CommandId, Spec};
use hotring_protocol::{ArgsView, Part, Version, Writer, read_part};

use super::core::Flow;
use super::wire::OUTPUT_SOFT_MAX;
use super::{Client, Session};
use crate::link::Link;
use crate::plan::{is_subscribing, write_request};
use crate::replies::Replies;
use crate::reply::{Form, Refusal, UNREACHABLE};
use crate::request::Target;

/// What a node is asked to repeat behind a request, which shows that all replies to that have arrived.
const MARK: &[u8] = b"hotring-proxy-mark";

/// How often shard channels are asked for elsewhere.
const TRIES: usize = 5;

/// The subscriptions of a client.
#[derive(Default)]
pub(super) struct Subscriptions(Vec<Source>);

/// A connection from which messages come.
struct Source {
    link: Link,
    /// The node whose shard channels it has; None: channels and patterns.
    node: Option<usize>,
    /// Subscriptions as the node counts them.
    n: i64,
}

impl Subscriptions {
    /// Whether the client is subscribed to anything.
    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Ends all subscriptions.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Subscriptions {
    /// Takes the messages that have arrived, unless the client is slow to fetch them. Ready: there are some.
    pub(super) fn poll_messages(
        &mut self,
        replies: &Replies,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut result = Poll::Pending;
        for source in &mut self.0 {
            while replies.bytes() <= OUTPUT_SOFT_MAX {
                // Some may have come with the reply to a request.
                while let Some(message) = source.take_message()? {
                    replies.push(&message);
                    result = Poll::Ready(Ok(()));
                }
                let Link { stream, input, .. } = &mut source.link;
                match input.poll_read(stream, 0, cx) {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                    }
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => break,
                }
            }
        }
        self.0.retain(|source| source.n > 0);
        result
    }
}

impl Session {
    /// Refuses what a subscribed client of RESP2 must not send, as Redis does.
    pub(super) fn check_subscribed(&mut self, spec: &Spec) -> Option<Flow> {
        let is_allowed = matches!(spec.id, CommandId::Ping | CommandId::Quit | CommandId::Reset);
        if self.is_resp3() || !self.subscriptions.is_any() || is_allowed || is_subscribing(spec) {
            return None;
        }
        let name = spec.name;
        self.answer(|writer| writer.error_fmt(format_args!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )));
        Some(Flow::Done)
    }
}

impl Client {
    /// Begins or ends subscriptions.
    pub(super) async fn change_subscriptions(
        &mut self,
        spec: &Spec,
        args: ArgsView<'_>,
    ) -> io::Result<()> {
        let is_sharded = matches!(spec.id, CommandId::SSubscribe | CommandId::SUnsubscribe);
        let mut request = Vec::new();
        write_request(args.iter(), &mut request);
        if is_sharded && args.len() == 1 {
            return self.end_shard_channels(&request).await;
        }
        let mut slots = args.tail(1).iter().map(slot_of);
        let slot = slots.next().unwrap_or_default();
        if is_sharded && slots.any(|other| other != slot) {
            self.session.answer(|writer| {
                writer.error("CROSSSLOT Keys in request don't hash to the same slot");
            });
            return Ok(());
        }
        let target = if is_sharded { Target::Slot(slot) } else { Target::Any };
        for _ in 0..TRIES {
            let Some(at) = self.source(target, is_sharded).await else { return Ok(()) };
            let moved = self.ask_source(at, &request, is_sharded).await?;
            self.session.subscriptions.0.retain(|source| source.n > 0);
            if !moved {
                return Ok(());
            }
        }
        self.session.answer(|writer| writer.error(UNREACHABLE));
        Ok(())
    }

    /// The position of the connection for messages of this target. Without one the client gets an error.
    async fn source(&mut self, target: Target, is_sharded: bool) -> Option<usize> {
        let Some(found) = self.session.core.thread.node_for(target) else {
            self.session.answer(|writer| writer.error(UNREACHABLE));
            return None;
        };
        let node = is_sharded.then_some(found);
        let known = self.session.subscriptions.0.iter().position(|source| source.node == node);
        if known.is_some() {
            return known;
        }
        let link = self.dial(found).await?;
        self.session.subscriptions.0.push(Source { link, node, n: 0 });
        Some(self.session.subscriptions.0.len() - 1)
    }

    async fn end_shard_channels(&mut self, request: &[u8]) -> io::Result<()> {
        for at in 0..self.session.subscriptions.0.len() {
            if self.session.subscriptions.0[at].node.is_some() {
                self.ask_source(at, request, false).await?;
            }
        }
        self.session.subscriptions.0.retain(|source| source.n > 0);
        Ok(())
    }

    /// Sends a request about subscriptions, and passes on all that the node says until it has answered. True: another
    /// node has the channels, which is known from now on.
    async fn ask_source(&mut self, at: usize, request: &[u8], follows: bool) -> io::Result<bool> {
        let Session { core, subscriptions, .. } = &mut self.session;
        let source = &mut subscriptions.0[at];
        let mut bytes = request.to_vec();
        write_request([&b"PING"[..], MARK].into_iter(), &mut bytes);
        source.link.send(&bytes).await?;
        let mut moved = false;
        loop {
            let reply = source
                .link
                .next_within(Form::Resp, core.thread.shared.settings.node_timeout)
                .await?;
            match Refusal::read(&reply) {
                _ if is_mark(&reply) => return Ok(moved),
                Some(Refusal::Moved(slot, address)) if follows => {
                    core.thread.moved(slot, address);
                    moved = true;
                }
                _ => {
                    source.count(&reply);
                    core.replies.push(&reply);
                }
            }
        }
    }
}

/// Whether a reply is that to PING with the mark: a message of a subscriber of RESP2, a text otherwise.
fn is_mark(reply: &[u8]) -> bool {
    let mut text = Vec::new();
    Writer::new(&mut text, Version::Resp2).bulk(MARK);
    reply == text || reply.strip_prefix(b"*2\r\n$4\r\npong\r\n").is_some_and(|rest| rest == text)
}

impl Source {
    /// The next message that has arrived.
    fn take_message(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(len) = self.link.find_end(Form::Resp)? else { return Ok(None) };
        let message = self.link.input.bytes()[..len].to_vec();
        self.link.input.consume(len);
        self.count(&message);
        Ok(Some(message))
    }

    /// Notes how many subscriptions there are, if the message tells it.
    fn count(&mut self, mut message: &[u8]) {
        let Some(Part::Array(3) | Part::Push(3)) = read_part(&mut message) else { return };
        let Some(Part::Bulk(kind)) = read_part(&mut message) else { return };
        _ = read_part(&mut message);
        if kind.ends_with(b"subscribe")
            && let Some(Part::Int(n)) = read_part(&mut message)
        {
            self.n = n;
        }
    }
}
