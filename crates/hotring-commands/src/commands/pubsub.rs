//! Publish/subscribe: PUBLISH, SUBSCRIBE, UNSUBSCRIBE, PSUBSCRIBE, PUNSUBSCRIBE, PUBSUB. SPUBLISH, SSUBSCRIBE and
//! SUNSUBSCRIBE have a separate set of channels, which in a Redis cluster stay within a shard.

use std::collections::BTreeSet;

use hotring_protocol::ArgsView;

use crate::acl::ChannelKind;
use crate::state::client::Client;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::server::Server;
use crate::state::subscriptions::Subscriptions;

pub(crate) fn publish(c: &mut Context<'_>) -> Outcome {
    publish_to_all_nodes(c, false);
    Ok(())
}

pub(crate) fn spublish(c: &mut Context<'_>) -> Outcome {
    publish_to_all_nodes(c, true);
    Ok(())
}

/// Sends a message to the clients of this node, and in a cluster to those of all others, or of the others of the shard.
/// As in Redis the reply counts those of this node.
fn publish_to_all_nodes(c: &mut Context<'_>, is_shard: bool) {
    let (args, max) = (c.args, c.server.settings.config().subscriber_output_max);
    if let Some(cluster) = &c.server.cluster {
        cluster.forwarding.send(is_shard, &args[1], &args[2], max);
    }
    deliver(c, is_shard, (&args[1], &args[2]), max);
}

fn deliver(c: &mut Context<'_>, is_shard: bool, (channel, message): (&[u8], &[u8]), max: usize) {
    let pubsub = &c.server.push.pubsub;
    let delivered = match is_shard {
        true => pubsub.publish_to_shard(channel, message, max),
        false => pubsub.publish(channel, message, max),
    };
    c.reply.count(delivered);
}

/// A message from another node of the cluster, for the clients of this one. Without arguments, answers that this node
/// takes them.
pub(crate) fn hotring_deliver(c: &mut Context<'_>) -> Outcome {
    if c.server.cluster.is_none() {
        return Err(Failure::text("ERR This instance has cluster support disabled"));
    }
    let is_shard = match (c.args.len(), c.args.get(1)) {
        (1, _) => {
            c.reply.ok();
            return Ok(());
        }
        (4, Some(word)) if word.eq_ignore_ascii_case(b"all") => false,
        (4, Some(word)) if word.eq_ignore_ascii_case(b"shard") => true,
        _ => return Err(Failure::Syntax),
    };
    let (args, max) = (c.args, c.server.settings.config().subscriber_output_max);
    deliver(c, is_shard, (&args[2], &args[3]), max);
    Ok(())
}

pub(crate) fn subscribe(c: &mut Context<'_>) -> Outcome {
    subscribe_to(c, ChannelKind::Channel)
}

pub(crate) fn psubscribe(c: &mut Context<'_>) -> Outcome {
    subscribe_to(c, ChannelKind::Pattern)
}

pub(crate) fn ssubscribe(c: &mut Context<'_>) -> Outcome {
    // A transaction expects one reply per command. SUBSCRIBE and PSUBSCRIBE are allowed there only for old clients.
    if !c.client.may_wait() {
        return Err(Failure::text("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    subscribe_to(c, ChannelKind::Shard)?;
    // Other records may have been published since the request was checked, and all threads may have looked at the
    // subscriptions before this one was there.
    if let (Some(routes), Some(cluster)) = (&mut c.locals.routes, &c.server.cluster)
        && routes.renew(cluster)
    {
        c.server.push.pubsub.close_misplaced(|channel| routes.serves_channel(channel));
    }
    Ok(())
}

fn subscribe_to(c: &mut Context<'_>, kind: ChannelKind) -> Outcome {
    let names = c.args.tail(1);
    check_limits(c, names)?;
    for name in names.iter() {
        if c.client.subscriptions.insert(kind, name) {
            c.server.push.pubsub.enter(kind, name, &c.client.shared);
        }
        confirm(c, kind, "subscribe", Some(name));
    }
    c.client.publish_subscriptions();
    Ok(())
}

/// Checks the limits. Must run before any subscription is added, so that a request takes effect entirely or not at all.
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

pub(crate) fn sunsubscribe(c: &mut Context<'_>) -> Outcome {
    unsubscribe_from(c, ChannelKind::Shard)
}

fn unsubscribe_from(c: &mut Context<'_>, kind: ChannelKind) -> Outcome {
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
        confirm(c, kind, "unsubscribe", Some(name));
    }
    if names.is_empty() {
        confirm(c, kind, "unsubscribe", None);
    }
    c.client.publish_subscriptions();
    c.check_reply_len()
}

/// Ends subscriptions to these names. Messages that have arrived are sent before the reply.
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

fn confirm(c: &mut Context<'_>, kind: ChannelKind, word: &str, name: Option<&[u8]>) {
    let prefix = match kind {
        ChannelKind::Channel => "",
        ChannelKind::Pattern => "p",
        ChannelKind::Shard => "s",
    };
    c.reply.push(3);
    c.reply.bulk_fmt(format_args!("{prefix}{word}"));
    match name {
        Some(name) => c.reply.bulk(name),
        None => c.reply.null(),
    }
    c.reply.count(c.client.subscriptions.confirmed(kind));
}

/// Ends all subscriptions, tracking and MONITOR without replies, for RESET and the end of a connection. Messages that
/// have arrived are appended to `out`.
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
    list_channels(c, false)
}

pub(crate) fn shardchannels(c: &mut Context<'_>) -> Outcome {
    list_channels(c, true)
}

fn list_channels(c: &mut Context<'_>, is_shard: bool) -> Outcome {
    if c.args.len() > 3 {
        return Err(wrong_subcommand(&c.args[1]));
    }
    let channels = c.server.push.pubsub.channels(is_shard, c.args.get(2));
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
    count_listeners(c, false)
}

pub(crate) fn shardnumsub(c: &mut Context<'_>) -> Outcome {
    count_listeners(c, true)
}

fn count_listeners(c: &mut Context<'_>, is_shard: bool) -> Outcome {
    let named = c.args.tail(2);
    c.reply.array(2 * named.len());
    for channel in named.iter() {
        c.reply.bulk(channel);
        c.reply.count(c.server.push.pubsub.listeners(is_shard, channel));
        c.check_reply_len()?;
    }
    Ok(())
}

pub(crate) fn numpat(c: &mut Context<'_>) -> Outcome {
    c.reply.count(c.server.push.pubsub.counts().patterns);
    Ok(())
}
