//! The subscriptions of one connection.

use std::collections::BTreeSet;

use crate::acl::ChannelKind;
use crate::table::CommandId;

/// Names of channels, and patterns.
#[derive(Debug, Default)]
pub struct Subscriptions {
    channels: BTreeSet<Box<[u8]>>,
    patterns: BTreeSet<Box<[u8]>>,
    /// Bytes of all names.
    names_len: usize,
}

impl Subscriptions {
    /// Names of this kind.
    pub(crate) fn of(&self, kind: ChannelKind) -> &BTreeSet<Box<[u8]>> {
        match kind {
            ChannelKind::Channel => &self.channels,
            ChannelKind::Pattern => &self.patterns,
        }
    }

    /// All names, each with its kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChannelKind, &[u8])> {
        let of = |kind| self.of(kind).iter().map(move |name| (kind, &**name));
        of(ChannelKind::Channel).chain(of(ChannelKind::Pattern))
    }

    /// Number of channels and patterns.
    pub(crate) fn len(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Bytes of all names.
    pub(crate) fn names_len(&self) -> usize {
        self.names_len
    }

    /// Adds a name; false if it is there.
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
        }
    }
}

/// Whether a RESP2 connection with subscriptions may send this command. RESP2 has no type of its own for messages: they
/// look like replies.
pub(crate) fn is_allowed_while_listening(id: CommandId) -> bool {
    use CommandId as Id;
    matches!(
        id,
        Id::Subscribe
            | Id::Unsubscribe
            | Id::PSubscribe
            | Id::PUnsubscribe
            | Id::Ping
            | Id::Quit
            | Id::Reset
    )
}
