//! Pub/Sub: the subscriptions, and the delivery of messages.
//!
//! ```text
//!   PUBLISH --> Channels, under one lock --> inbox of each subscriber --> its task sends it
//! ```
//! The lock is held until the message is in all inboxes: all subscribers get all messages in the same order, as from
//! Redis. A publisher never waits for a subscriber's network. An inbox is bounded: a subscriber that does not read its
//! messages is disconnected ([`crate::state::client::ClientShared::deliver`]).

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
    /// Names in `channels`: without any, no lookup is needed.
    len: AtomicUsize,
}

#[derive(Default)]
struct Channels {
    named: HashMap<Box<[u8]>, Listeners>,
    patterns: BTreeMap<Box<[u8]>, Listeners>,
}

impl PubSub {
    /// Adds a subscriber.
    pub(crate) fn enter(&self, kind: ChannelKind, name: &[u8], client: &Arc<ClientShared>) {
        let mut channels = self.lock();
        let listeners = match kind {
            ChannelKind::Channel => channels.named.entry(name.into()).or_default(),
            ChannelKind::Pattern => channels.patterns.entry(name.into()).or_default(),
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
        };
        let Some(listeners) = listeners else { return };
        listeners.remove(&client.id);
        if listeners.is_empty() {
            match kind {
                ChannelKind::Channel => drop(channels.named.remove(name)),
                ChannelKind::Pattern => drop(channels.patterns.remove(name)),
            }
        }
        self.publish_len(&channels);
    }

    /// Puts a message into the inboxes of all subscribers, which may hold `inbox_max` bytes each; returns the number of
    /// deliveries.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8], inbox_max: usize) -> usize {
        // ORDERING: Acquire pairs with the Release in `publish_len`: a thread that was told of a subscriber
        // finds it so here.
        if self.len.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let channels = self.lock();
        let mut delivered = 0;
        for listener in channels.named.get(channel).into_iter().flat_map(Listeners::values) {
            listener.deliver(inbox_max, |w| push(w, &[b"message", channel, message]));
            delivered += 1;
        }
        for (pattern, listeners) in &channels.patterns {
            if !glob_match(pattern, channel) {
                continue;
            }
            for listener in listeners.values() {
                listener.deliver(inbox_max, |w| push(w, &[b"pmessage", pattern, channel, message]));
                delivered += 1;
            }
        }
        delivered
    }

    /// The channels with subscribers whose names match.
    pub(crate) fn channels(&self, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let fits = |name: &[u8]| pattern.is_none_or(|pattern| glob_match(pattern, name));
        self.lock().named.keys().filter(|name| fits(name)).cloned().collect()
    }

    /// Number of subscribers of a channel, without those of patterns.
    pub(crate) fn listeners(&self, channel: &[u8]) -> usize {
        self.lock().named.get(channel).map_or(0, Listeners::len)
    }

    /// Numbers of channels and of patterns with subscribers.
    pub fn counts(&self) -> (usize, usize) {
        let channels = self.lock();
        (channels.named.len(), channels.patterns.len())
    }

    fn publish_len(&self, channels: &Channels) {
        // ORDERING: Release pairs with the Acquire in `publish`.
        self.len.store(channels.named.len() + channels.patterns.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Channels> {
        // A change that panicked has left whole maps.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push(writer: &mut Writer<'_>, parts: &[&[u8]]) {
    writer.push(parts.len());
    parts.iter().for_each(|part| writer.bulk(part));
}
