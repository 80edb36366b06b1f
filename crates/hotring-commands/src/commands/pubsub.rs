//! Messages between clients: PUBLISH, SUBSCRIBE, UNSUBSCRIBE, PSUBSCRIBE, PUNSUBSCRIBE, PUBSUB.

use std::collections::BTreeSet;

use hotring_protocol::ArgsView;

use crate::acl::ChannelKind;
use crate::state::client::Client;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::server::Server;
use crate::state::subscriptions::Subscriptions;

pub(crate) fn publish(c: &mut Context<'_>) -> Outcome {
    let inbox_max = c.server.settings.config().subscriber_output_max;
    let delivered = c.server.push.pubsub.publish(&c.args[1], &c.args[2], inbox_max);
    c.reply.count(delivered);
    Ok(())
}

pub(crate) fn subscribe(c: &mut Context<'_>) -> Outcome {
    subscribe_to(c, ChannelKind::Channel)
}

pub(crate) fn psubscribe(c: &mut Context<'_>) -> Outcome {
    subscribe_to(c, ChannelKind::Pattern)
}

fn subscribe_to(c: &mut Context<'_>, kind: ChannelKind) -> Outcome {
    let names = c.args.tail(1);
    check_limits(c, names)?;
    for name in names.iter() {
        if c.client.subscriptions.insert(kind, name) {
            c.server.push.pubsub.enter(kind, name, &c.client.shared);
        }
        let word = if kind == ChannelKind::Channel { "subscribe" } else { "psubscribe" };
        confirm(c, word, Some(name));
    }
    c.client.publish_subscriptions();
    Ok(())
}

/// Before anything changes: a request takes place as a whole or not.
fn check_limits(c: &Context<'_>, names: ArgsView<'_>) -> Outcome {
    let config = c.server.settings.config();
    let subscriptions = &c.client.subscriptions;
    if subscriptions.len() + names.len() > config.subscriptions_max {
        let max = config.subscriptions_max;
        return Err(format!("ERR more than {max} subscriptions (max-subscriptions)").into());
    }
    let len = names.iter().map(<[u8]>::len).sum::<usize>() + subscriptions.names_len();
    if len > config.query_buffer_max {
        return Err(Failure::text(
            "ERR the names of all subscriptions are longer than client-query-buffer-limit",
        ));
    }
    Ok(())
}

pub(crate) fn unsubscribe(c: &mut Context<'_>) -> Outcome {
    unsubscribe_from(c, ChannelKind::Channel)
}

pub(crate) fn punsubscribe(c: &mut Context<'_>) -> Outcome {
    unsubscribe_from(c, ChannelKind::Pattern)
}

fn unsubscribe_from(c: &mut Context<'_>, kind: ChannelKind) -> Outcome {
    let word = if kind == ChannelKind::Channel { "unsubscribe" } else { "punsubscribe" };
    let named = c.args.tail(1);
    let all: Vec<Box<[u8]>>;
    let names: Vec<&[u8]> = if named.is_empty() {
        all = c.client.subscriptions.of(kind).iter().cloned().collect();
        all.iter().map(|name| &**name).collect()
    } else {
        named.iter().collect()
    };
    leave(&names, kind, c);
    for name in &names {
        c.client.subscriptions.remove(kind, name);
        confirm(c, word, Some(name));
    }
    if names.is_empty() {
        confirm(c, word, None);
    }
    c.client.publish_subscriptions();
    c.check_reply_len()
}

/// Ends subscriptions to these names. Messages that have arrived go before the reply.
fn leave(names: &[&[u8]], kind: ChannelKind, c: &mut Context<'_>) {
    let Context { client, server, reply, .. } = c;
    let listened = client.subscriptions.of(kind);
    let left: BTreeSet<&[u8]> =
        names.iter().copied().filter(|name| listened.contains(*name)).collect();
    if left.is_empty() {
        return;
    }
    left.iter().for_each(|name| server.push.pubsub.leave(kind, name, &client.shared));
    let listens = client.subscriptions.len() > left.len();
    client.end_messages(listens, &server.acl, reply.buffer());
}

fn confirm(c: &mut Context<'_>, word: &str, name: Option<&[u8]>) {
    c.reply.push(3);
    c.reply.bulk(word.as_bytes());
    match name {
        Some(name) => c.reply.bulk(name),
        None => c.reply.null(),
    }
    c.reply.count(c.client.subscriptions.len());
}

/// Ends all subscriptions, tracking and MONITOR without replies: for RESET and the end of a connection. Messages that
/// have arrived go to `out`.
pub fn leave_all(client: &mut Client, server: &Server, out: &mut Vec<u8>) {
    super::monitor::leave(client, server);
    super::tracking::leave(client, &server.push.tracking);
    for (kind, name) in client.subscriptions.iter() {
        server.push.pubsub.leave(kind, name, &client.shared);
    }
    client.end_messages(false, &server.acl, out);
    client.subscriptions = Subscriptions::default();
    client.publish_subscriptions();
}

pub(crate) fn channels(c: &mut Context<'_>) -> Outcome {
    if c.args.len() > 3 {
        return Err(wrong_subcommand(&c.args[1]));
    }
    let channels = c.server.push.pubsub.channels(c.args.get(2));
    c.reply.array(channels.len());
    for channel in &channels {
        c.reply.bulk(channel);
        c.check_reply_len()?;
    }
    Ok(())
}

fn wrong_subcommand(name: &[u8]) -> Failure {
    let name = crate::table::quoted(name);
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP.")
        .into()
}

pub(crate) fn numsub(c: &mut Context<'_>) -> Outcome {
    let named = c.args.tail(2);
    c.reply.array(2 * named.len());
    for channel in named.iter() {
        c.reply.bulk(channel);
        c.reply.count(c.server.push.pubsub.listeners(channel));
        c.check_reply_len()?;
    }
    Ok(())
}

pub(crate) fn numpat(c: &mut Context<'_>) -> Outcome {
    c.reply.count(c.server.push.pubsub.counts().1);
    Ok(())
}
