//! What a replica passes on: replicas of its own follow it, and get the same stream under the same numbers.
//!
//! 1. It feeds them only while all its data is of the stream: never during a copy or a repair, nor while an operator
//!    has told it to follow a primary that has not answered yet.
//! 2. Their connections end before its data is cut or replaced, and when its stream begins an epoch: each message
//!    carries the epoch in which its connection began.
//! 3. They count nowhere: no reply waits for them, and none is told that it is in sync.
//! 4. Each is told which nodes are above it, so that no circle lasts.

use std::time::Duration;

use crate::feed::{Feed, News, Source};
use crate::ids::{Incarnation, Lsn, Moment, NodeId};
use crate::message::{Ack, Answer, Beat, Hello, Stamp, ToReplica};
use crate::replica::Replica;

/// Most nodes above one that feeds others.
pub const ABOVE_MAX: usize = 32;

/// The replicas of a replica, and what is above it.
#[derive(Debug)]
pub(crate) struct Relay {
    feed: Feed,
    /// The starts of the nodes that it follows, from the primary down, as far as they are known.
    above: Vec<Incarnation>,
    /// Whether the node that it follows is the primary itself.
    leads: bool,
    /// The last record that may have been acknowledged when that primary first spoke on this connection.
    goal: Option<Lsn>,
    next_beat: Moment,
}

impl Relay {
    pub(crate) fn new(now: Moment) -> Self {
        let (leads, goal) = (false, None);
        Relay { feed: Feed::new(now), above: Vec::new(), leads, goal, next_beat: now }
    }

    /// All connections end.
    pub(crate) fn end_all(&mut self) {
        self.feed.end_all();
    }

    /// The node that sent this answer is followed now.
    pub(crate) fn follow(&mut self, answer: &Answer) {
        let mut above = answer.above.clone();
        above.push(answer.stamp.start);
        if above != self.above {
            // What is attached was told of other nodes.
            self.end_all();
            self.above = above;
        }
        (self.leads, self.goal) = (answer.leads, None);
    }

    /// Whether the node that is followed is the primary itself.
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// The node that is followed says which record may have been acknowledged. Its first word counts: later records
    /// are acknowledged only with this replica, if it is in the set.
    pub(crate) fn aim(&mut self, last: Lsn) {
        if self.leads {
            self.goal.get_or_insert(last);
        }
    }
}

impl Replica {
    /// The replicas of this replica.
    pub fn feed(&self) -> &Feed {
        &self.relay.feed
    }

    /// Whether the data came by another replica: then it may lack acknowledged writes, until all is there that the
    /// primary itself had when it was first heard.
    pub fn is_indirect(&self) -> bool {
        self.copy.indirect
    }

    /// Whether the data came by another replica, or is about to. The owner must note that durably before any of it
    /// arrives.
    pub fn is_below(&self) -> bool {
        self.copy.indirect || (self.is_linked() && !self.relay.leads())
    }

    /// The data counts as the primary's own once it has come far enough.
    pub(crate) fn arrive(&mut self) {
        self.copy.indirect &= self.relay.goal.is_none_or(|goal| self.copy.last < goal);
    }

    /// Whether replicas may follow this one now.
    fn feeds(&self) -> bool {
        let has_stream = !self.copy.history.starts().is_empty() && !self.copy.adopt;
        has_stream
            && self.is_whole()
            && self.promotion.is_none()
            && self.relay.above.len() < ABOVE_MAX
    }

    /// A replica of this replica introduces itself. `oldest` is the first record that could be sent.
    pub fn hello_below(&mut self, hello: &Hello, oldest: Lsn) -> ToReplica {
        let (history, last) = (&self.copy.history, self.copy.last);
        // It has more of this stream, and would have to give up what is about to arrive here.
        let is_ahead = hello.store == self.copy.store
            && hello.last > last
            && history.common(last, &hello.history, hello.last) == Some(last);
        if !self.feeds() || is_ahead {
            self.relay.feed.forget(hello.from.node);
            return ToReplica::NotReady(self.me.incarnation);
        }
        let (store, Relay { feed, above, .. }) = (self.copy.store, &mut self.relay);
        let (node, leads) = (self.me, false);
        ToReplica::Answer(
            feed.hello(hello, Source { node, store, history, last, oldest, leads, above }),
        )
    }

    /// An acknowledgement of a replica of this replica. It is a figure for people.
    pub fn ack_below(&mut self, from: NodeId, ack: &Ack) {
        self.relay.feed.ack(from, ack);
    }

    /// The connection of a replica of this replica has ended.
    pub fn detach_below(&mut self, stamp: Stamp) {
        self.relay.feed.detach(stamp);
    }

    /// Returns the beats for the replicas of this replica, if they are due. The stream has had this many bytes since
    /// the node's start.
    pub fn beats_below(&mut self, now: Moment, bytes: u64) -> Vec<(NodeId, Beat)> {
        let Relay { feed, next_beat, .. } = &mut self.relay;
        feed.appended(now, self.copy.last, bytes, self.rules.in_sync_lag / 8);
        if now < *next_beat {
            return Vec::new();
        }
        *next_beat = now + self.rules.beat();
        // Without a promise: no primary relies on it.
        let news = News { lease: Duration::ZERO, committed: self.committed, told: self.told };
        feed.beats(now, news, |follower| {
            let has_all = wrong!(SyncBelow) && follower.whole;
            (has_all, has_all)
        })
    }
}
