//! Pub/Sub: the subscriptions, and the delivery of messages.
//!
//! ```text
//!   PUBLISH --> Channels, under one lock --> inbox of each subscriber --> its task sends it
//! ```
//! The lock must be held until the message is in all inboxes, so that all subscribers get all messages in the same
//! order, as in Redis. A publisher never waits for a subscriber's network. An inbox is bounded: a subscriber that does
//! not read its messages is disconnected ([`crate::state::client::ClientShared::deliver`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotring_protocol::{Writer, glob_match};

use crate::acl::ChannelKind;
use crate::state::client::ClientShared;

/// The subscribers of one channel or pattern, by ID.
type Listeners = BTreeMap<u64, Arc<ClientShared>>;

/// All subscriptions.
#[derive(Default)]
pub struct PubSub {
    channels: Mutex<Channels>,
    /// The number of names in `channels`. If it is 0, publishers need not take the lock.
    len: AtomicUsize,
}

#[derive(Default)]
struct Channels {
    named: HashMap<Box<[u8]>, Listeners>,
    patterns: BTreeMap<Box<[u8]>, Listeners>,
    shards: HashMap<Box<[u8]>, Listeners>,
}

impl Channels {
    /// The plain channels, or the shard channels.
    fn of(&self, is_shard: bool) -> &HashMap<Box<[u8]>, Listeners> {
        if is_shard { &self.shards } else { &self.named }
    }
}

/// Numbers of names that have subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Plain channels.
    pub channels: usize,
    /// Patterns of plain channels.
    pub patterns: usize,
    /// Shard channels.
    pub shards: usize,
}

impl PubSub {
    /// Adds a subscriber.
    pub(crate) fn enter(&self, kind: ChannelKind, name: &[u8], client: &Arc<ClientShared>) {
        let mut channels = self.lock();
        let listeners = match kind {
            ChannelKind::Channel => channels.named.entry(name.into()).or_default(),
            ChannelKind::Pattern => channels.patterns.entry(name.into()).or_default(),
            ChannelKind::Shard => channels.shards.entry(name.into()).or_default(),
        };
        listeners.insert(client.id, client.clone());
        self.publish_len(&channels);
    }

    /// Removes a subscriber.
    pub(crate) fn leave(&self, kind: ChannelKind, name: &[u8], client: &ClientShared) {
        let mut channels = self.lock();
        let listeners = match kind {
            ChannelKind::Channel => channels.named.get_mut(name),
            ChannelKind::Pattern => channels.patterns.get_mut(name),
            ChannelKind::Shard => channels.shards.get_mut(name),
        };
        let Some(listeners) = listeners else { return };
        listeners.remove(&client.id);
        if listeners.is_empty() {
            match kind {
                ChannelKind::Channel => drop(channels.named.remove(name)),
                ChannelKind::Pattern => drop(channels.patterns.remove(name)),
                ChannelKind::Shard => drop(channels.shards.remove(name)),
            }
        }
        self.publish_len(&channels);
    }

    /// Puts a message into the inboxes of all subscribers, which may hold `inbox_max` bytes each; returns the number of
    /// deliveries.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8], inbox_max: usize) -> usize {
        if self.is_empty() {
            return 0;
        }
        let channels = self.lock();
        let listeners = channels.named.get(channel);
        let mut delivered = deliver(listeners, inbox_max, &[b"message", channel, message]);
        for (pattern, listeners) in &channels.patterns {
            if !glob_match(pattern, channel) {
                continue;
            }
            let parts: &[&[u8]] = &[b"pmessage", pattern, channel, message];
            delivered += deliver(Some(listeners), inbox_max, parts);
        }
        delivered
    }

    /// As [`publish`](Self::publish), for the subscribers of a shard channel.
    pub(crate) fn publish_to_shard(
        &self,
        channel: &[u8],
        message: &[u8],
        inbox_max: usize,
    ) -> usize {
        if self.is_empty() {
            return 0;
        }
        let channels = self.lock();
        deliver(channels.shards.get(channel), inbox_max, &[b"smessage", channel, message])
    }

    /// Closes the connections that listen to shard channels whose messages do not come here any more. Their clients
    /// then look for the node at which they do.
    #[cold]
    pub(crate) fn close_misplaced(&self, serves: impl Fn(&[u8]) -> bool) {
        let channels = self.lock();
        let misplaced = channels.shards.iter().filter(|(name, _)| !serves(name));
        misplaced.flat_map(|(_, listeners)| listeners.values()).for_each(|client| client.kill());
    }

    /// The names of the plain channels, or of the shard channels, that have subscribers and match the pattern.
    pub(crate) fn channels(&self, is_shard: bool, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob_match(pattern, name));
        self.lock().of(is_shard).keys().filter(|name| fits(name)).cloned().collect()
    }

    /// Number of subscribers of a plain channel or a shard channel, not counting subscribers of patterns.
    pub(crate) fn listeners(&self, is_shard: bool, channel: &[u8]) -> usize {
        self.lock().of(is_shard).get(channel).map_or(0, Listeners::len)
    }

    /// The numbers of channels and patterns that have subscribers.
    pub fn counts(&self) -> Counts {
        let channels = self.lock();
        Counts {
            channels: channels.named.len(),
            patterns: channels.patterns.len(),
            shards: channels.shards.len(),
        }
    }

    /// Whether there are no subscribers.
    fn is_empty(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `publish_len`: a thread that knows of a subscriber also sees the
        // length that includes it.
        self.len.load(Ordering::Acquire) == 0
    }

    fn publish_len(&self, channels: &Channels) {
        let len = channels.named.len() + channels.patterns.len() + channels.shards.len();
        // ORDERING: Release pairs with the Acquire in `is_empty`.
        self.len.store(len, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        // A panic during a change leaves the maps consistent.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a message into the inboxes of these subscribers; returns their number.
fn deliver(listeners: Option<&Listeners>, inbox_max: usize, parts: &[&[u8]]) -> usize {
    let listeners = listeners.into_iter().flat_map(Listeners::values);
    listeners.map(|listener| listener.deliver(inbox_max, |w| push(w, parts))).count()
}

fn push(writer: &mut Writer<'_>, parts: &[&[u8]]) {
    writer.push(parts.len());
    parts.iter().for_each(|part| writer.bulk(part));
}
