//! The subscriptions of one connection.

use std::collections::BTreeSet;

use crate::acl::ChannelKind;
use crate::table::CommandId;

/// The names of channels and shard channels, and the patterns, that a connection has subscribed to.
#[derive(Debug, Default)]
pub struct Subscriptions {
    channels: BTreeSet<Box<[u8]>>,
    patterns: BTreeSet<Box<[u8]>>,
    shards: BTreeSet<Box<[u8]>>,
    /// Bytes of all names.
    names_len: usize,
}

impl Subscriptions {
    /// The names of this kind.
    pub(crate) fn of(&self, kind: ChannelKind) -> &BTreeSet<Box<[u8]>> {
        match kind {
            ChannelKind::Channel => &self.channels,
            ChannelKind::Pattern => &self.patterns,
            ChannelKind::Shard => &self.shards,
        }
    }

    /// All names, each with its kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChannelKind, &[u8])> {
        let of = |kind| self.of(kind).iter().map(move |name| (kind, &**name));
        ChannelKind::ALL.into_iter().flat_map(of)
    }

    /// The number of all names.
    pub(crate) fn len(&self) -> usize {
        ChannelKind::ALL.into_iter().map(|kind| self.of(kind).len()).sum()
    }

    /// The number in the confirmation of a change of this kind: channels and patterns are counted together.
    pub(crate) fn confirmed(&self, kind: ChannelKind) -> usize {
        match kind {
            ChannelKind::Channel | ChannelKind::Pattern => {
                self.channels.len() + self.patterns.len()
            }
            ChannelKind::Shard => self.shards.len(),
        }
    }

    /// Bytes of all names.
    pub(crate) fn names_len(&self) -> usize {
        self.names_len
    }

    /// Adds a name; false if it was there already.
    pub(crate) fn insert(&mut self, kind: ChannelKind, name: &[u8]) -> bool {
        let is_new = self.of_mut(kind).insert(name.into());
        self.names_len += if is_new { name.len() } else { 0 };
        is_new
    }

    /// Removes a name; false if it was not there.
    pub(crate) fn remove(&mut self, kind: ChannelKind, name: &[u8]) -> bool {
        let was_there = self.of_mut(kind).remove(name);
        self.names_len -= if was_there { name.len() } else { 0 };
        was_there
    }

    fn of_mut(&mut self, kind: ChannelKind) -> &mut BTreeSet<Box<[u8]>> {
        match kind {
            ChannelKind::Channel => &mut self.channels,
            ChannelKind::Pattern => &mut self.patterns,
            ChannelKind::Shard => &mut self.shards,
        }
    }
}

/// Whether a command is answered by messages that confirm subscriptions, and not by a reply.
pub(crate) fn is_confirmed(id: CommandId) -> bool {
    use CommandId as Id;
    matches!(
        id,
        Id::Subscribe
            | Id::Unsubscribe
            | Id::PSubscribe
            | Id::PUnsubscribe
            | Id::SSubscribe
            | Id::SUnsubscribe
    )
}

/// Whether a RESP2 connection with subscriptions may send this command. Most commands must be refused, because RESP2
/// has no separate type for messages: they look like replies.
pub(crate) fn is_allowed_while_listening(id: CommandId) -> bool {
    use CommandId as Id;
    is_confirmed(id) || matches!(id, Id::Ping | Id::Quit | Id::Reset)
}
