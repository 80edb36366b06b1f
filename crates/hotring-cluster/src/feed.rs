//! The replicas that follow a node: what each one needs, how far it is, how far it lags, and the beats.
//!
//! A primary has one, and so has a replica, for the replicas of its own (`relay.rs`). A feed decides nothing about the
//! in-sync set.

use std::collections::VecDeque;
use std::time::Duration;

use crate::history::History;
use crate::ids::{Identity, Incarnation, Lsn, Moment, NodeId, StoreId};
use crate::message::{Ack, Answer, Beat, Course, Hello, Positions, Stamp, Told};

/// Most beats whose sending time is known; an answer to an older one is no promise.
const BEATS_MAX: usize = 64;

/// Most points in time at which the end of the stream is known. A replica that is behind all of them lags by
/// at least the oldest one.
const MARKS_MAX: usize = 64;

/// The stream that the replicas get.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The node.
    pub node: Identity,
    /// The data.
    pub store: StoreId,
    /// The epochs.
    pub history: &'a History,
    /// The last record.
    pub last: Lsn,
    /// The oldest record that could be sent.
    pub oldest: Lsn,
    /// Whether the node is the primary.
    pub leads: bool,
    /// The starts of the nodes that it follows.
    pub above: &'a [Incarnation],
}

impl Source<'_> {
    /// How a replica gets what it lacks.
    pub fn course(&self, hello: &Hello) -> Course {
        if !hello.whole || hello.store != self.store {
            return Course::FullCopy;
        }
        match self.history.common(self.last, &hello.history, hello.last) {
            Some(common) if common + 1 < self.oldest => Course::FullCopy,
            Some(common) if common >= hello.last => Course::Continue(common),
            Some(common) if common >= hello.floor => Course::Repair(common),
            _ => Course::FullCopy,
        }
    }
}

/// A replica on its connection.
#[derive(Clone, Debug)]
pub struct Follower {
    /// The replica.
    pub id: Identity,
    /// Its connection.
    pub stamp: Stamp,
    /// How far it is; nothing before its first acknowledgement.
    pub positions: Positions,
    /// Whether it has all data up to there.
    pub whole: bool,
    /// Whether it has acknowledged anything on this connection.
    pub has_acked: bool,
    /// Whether its log cannot write, so that it can serve no writes.
    pub is_full: bool,
    /// The last beat that it answered.
    pub answered: u64,
    /// When that beat was sent.
    pub promised: Option<Moment>,
    /// The first of the beats since which all have said that it has caught up.
    told: Option<u64>,
    /// Whether it is about to be in the in-sync set, and nothing more is acknowledged without it.
    pub joins: bool,
}

impl Follower {
    /// Whether it has heard that it has all that may have been acknowledged: only then it can be promoted.
    pub fn knows(&self) -> bool {
        self.told.is_some_and(|told| self.answered >= told)
    }
}

/// How far a replica is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Bytes of the stream that it has not applied, about.
    pub bytes: u64,
    /// The age of the oldest of them, and rather too much than too little. At least eight seconds are told apart.
    pub time: Duration,
}

/// What a beat tells all replicas.
#[derive(Clone, Copy, Debug)]
pub struct News {
    /// How long an answer binds the replica.
    pub lease: Duration,
    /// The last record that may have been acknowledged.
    pub committed: Lsn,
    /// The primary's clocks and counters.
    pub told: Told,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Moment,
    last: Lsn,
    bytes: u64,
}

/// The replicas of a node.
#[derive(Debug)]
pub struct Feed {
    followers: Vec<Follower>,
    sessions: u64,
    beats: u64,
    sent: VecDeque<(u64, Moment)>,
    marks: VecDeque<Mark>,
    /// The present end of the stream.
    end: Option<Mark>,
}

impl Feed {
    /// No replicas yet. Connections are numbered from the time on, so that a later feed of the same start gives none of
    /// these numbers again.
    pub fn new(now: Moment) -> Self {
        Feed {
            followers: Vec::new(),
            sessions: now.as_micros() as u64,
            beats: 0,
            sent: VecDeque::new(),
            marks: VecDeque::new(),
            end: None,
        }
    }

    /// All connections end: what the node has becomes another stream, or the same one in another epoch.
    pub(crate) fn end_all(&mut self) {
        self.followers.clear();
        self.marks.clear();
        self.end = None;
    }

    /// The replicas.
    pub fn followers(&self) -> &[Follower] {
        &self.followers
    }

    /// A replica, if it is attached.
    pub fn follower(&self, node: NodeId) -> Option<&Follower> {
        self.followers.iter().find(|follower| follower.id.node == node)
    }

    /// Attaches a replica in the place of its earlier connection, and answers its hello.
    pub fn hello(&mut self, hello: &Hello, source: Source) -> Answer {
        self.sessions += 1;
        let stamp = Stamp {
            epoch: source.history.epoch(),
            start: source.node.incarnation,
            session: self.sessions,
        };
        let course = source.course(hello);
        self.forget(hello.from.node);
        self.followers.push(Follower {
            id: hello.from,
            stamp,
            positions: Positions::default(),
            whole: false,
            has_acked: false,
            is_full: false,
            answered: 0,
            promised: None,
            told: None,
            joins: false,
        });
        Answer {
            to: hello.from.incarnation,
            attempt: hello.attempt,
            from: source.node.node,
            stamp,
            store: source.store,
            history: source.history.clone(),
            leads: source.leads,
            above: source.above.to_vec(),
            course,
        }
    }

    /// Notes which replicas are about to be in the in-sync set.
    pub fn join(&mut self, nodes: &[NodeId]) {
        for follower in &mut self.followers {
            follower.joins = nodes.contains(&follower.id.node);
        }
    }

    /// The connection of a node counts no more.
    pub fn forget(&mut self, node: NodeId) {
        self.followers.retain(|follower| follower.id.node != node);
    }

    /// A connection has ended. Returns whose it was, unless that node has another one.
    pub fn detach(&mut self, stamp: Stamp) -> Option<NodeId> {
        let at = self.followers.iter().position(|follower| follower.stamp == stamp)?;
        Some(self.followers.remove(at).id.node)
    }

    /// Counts an acknowledgement. Returns the replica, unless the message belongs to another connection.
    pub fn ack(&mut self, from: NodeId, ack: &Ack) -> Option<&Follower> {
        let follower = self.followers.iter_mut().find(|follower| follower.id.node == from)?;
        let is_now = follower.stamp == ack.stamp
            || (wrong!(AnySession) && follower.stamp.epoch == ack.stamp.epoch);
        if !is_now {
            return None;
        }
        let (old, new) = (follower.positions, ack.positions);
        follower.positions = Positions {
            applied: old.applied.max(new.applied),
            written: old.written.max(new.written),
            synced: old.synced.max(new.synced),
        };
        // A copy or repair ends once in a connection.
        follower.whole |= ack.whole;
        follower.has_acked = true;
        follower.is_full = ack.is_full;
        if ack.beat > follower.answered {
            follower.answered = ack.beat;
            let sent = self.sent.iter().find(|(number, _)| *number == ack.beat);
            follower.promised = sent.map(|(_, at)| *at).or(follower.promised);
        }
        Some(follower)
    }

    /// The number of the last beat.
    pub fn last_beat(&self) -> u64 {
        self.beats
    }

    /// A beat for each replica that has said anything on its connection; before that nothing is known of it.
    /// `judge` says whether a replica is in the in-sync set, and whether it has caught up: neither is a
    /// replica of a replica.
    pub fn beats(
        &mut self,
        now: Moment,
        news: News,
        judge: impl Fn(&Follower) -> (bool, bool),
    ) -> Vec<(NodeId, Beat)> {
        self.beats += 1;
        if self.sent.len() == BEATS_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((self.beats, now));
        let News { lease, committed, told } = news;
        let number = self.beats;
        let heard = self.followers.iter_mut().filter(|follower| follower.has_acked);
        let beat = |follower: &mut Follower| {
            let (member, caught_up) = judge(follower);
            let stamp = follower.stamp;
            follower.told = caught_up.then(|| follower.told.unwrap_or(number));
            let beat = Beat { stamp, number, lease, committed, member, caught_up, told };
            (follower.id.node, beat)
        };
        heard.map(beat).collect()
    }

    /// The stream has grown to this record, and has this many bytes since the node's start.
    pub fn appended(&mut self, now: Moment, last: Lsn, bytes: u64, step: Duration) {
        let due = self.marks.back().is_none_or(|mark| now >= mark.at + step);
        if let Some(end) = self.end.filter(|_| due) {
            if self.marks.len() == MARKS_MAX {
                self.marks.pop_front();
            }
            // What was the end until now: all later records are younger than now.
            self.marks.push_back(Mark { at: now, ..end });
        }
        self.end = Some(Mark { at: now, last, bytes });
    }

    /// How far a replica is behind.
    pub fn lag(&self, now: Moment, follower: &Follower) -> Lag {
        let Some(end) = self.end else { return Lag { bytes: 0, time: Duration::ZERO } };
        let applied = follower.positions.applied;
        if applied >= end.last {
            return Lag { bytes: 0, time: Duration::ZERO };
        }
        let passed = self.marks.iter().rev().find(|mark| mark.last <= applied);
        let mark = passed.or(self.marks.front()).unwrap_or(&end);
        let bytes = end.bytes - passed.map_or(0, |mark| mark.bytes).min(end.bytes);
        Lag { bytes, time: now.saturating_sub(mark.at) }
    }

    /// The number of replicas that have applied a record.
    pub fn applied_by(&self, lsn: Lsn) -> usize {
        self.count(|positions| positions.applied >= lsn)
    }

    /// The number of replicas that have synced a record.
    pub fn synced_by(&self, lsn: Lsn) -> usize {
        self.count(|positions| positions.synced >= lsn)
    }

    fn count(&self, has: impl Fn(&Positions) -> bool) -> usize {
        let whole = self.followers.iter().filter(|follower| follower.whole);
        whole.filter(|follower| has(&follower.positions)).count()
    }
}
