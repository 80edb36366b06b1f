//! A node: its disk, its clock, and the process on it, a primary or a replica.

use std::collections::{BTreeMap, VecDeque};

use crate::feed::Feed;
use crate::history::History;
use crate::ids::{Identity, Lsn, Moment, NodeId, StoreId};
use crate::message::{Answer, Course, Stamp, ToPrimary, ToReplica};
use crate::primary::Primary;
use crate::records::{Outcome, Records, Request};
use crate::replica::Replica;
use crate::sim::data::{Data, Record, Values};
use crate::sim::mirrors::Mirrored;
use crate::sim::plan::Log;

/// What nodes send each other.
#[derive(Clone, Debug)]
pub enum Message {
    ToReplica(ToReplica),
    ToPrimary(ToPrimary),
    /// Records from this one on.
    Records(Stamp, Lsn, Vec<Record>),
    /// Every second key, with the store and the end of the copy.
    Copy(Stamp, usize, Values, Lsn),
    /// The keys of a divergent tail, and the last record that the replica has.
    Keys(Stamp, Lsn, Vec<usize>),
    /// The records behind that one up to another, and the values of those keys there.
    Values(Stamp, Lsn, Vec<Record>, Vec<(usize, u64)>),
}

/// A reply that waits until every in-sync replica has a record.
#[derive(Clone, Debug)]
pub struct Reply {
    pub client: usize,
    pub request: u64,
    pub lsn: Lsn,
}

/// A replica's connection, as the primary sees it.
#[derive(Debug)]
pub struct Session {
    pub stamp: Stamp,
    pub sent: Option<Lsn>,
    pub copies: bool,
}

impl Session {
    /// The connection that this answer begins.
    pub fn of(answer: &Answer) -> Self {
        Session {
            stamp: answer.stamp,
            copies: answer.course == Course::FullCopy,
            sent: match answer.course {
                Course::Continue(after) | Course::Repair(after) => Some(after),
                Course::FullCopy => None,
            },
        }
    }
}

#[derive(Debug, Default)]
pub struct Serving {
    pub sessions: BTreeMap<NodeId, Session>,
    pub replies: Vec<Reply>,
    /// When its process was started, if that was as primary.
    pub restarted: Option<Moment>,
    pub mirrored: Option<Mirrored>,
}

#[derive(Debug, Default)]
pub struct Following {
    pub linked: Option<Stamp>,
    /// It does not accept the primary.
    pub refuses: bool,
    /// Records whose batch has not ended.
    pub held: Vec<Record>,
    /// One half of a copy.
    pub half: Option<(usize, Values, Lsn)>,
    /// The data that is copied, until it is all there: its store and epochs, and whether the own data is dropped.
    pub source: Option<(StoreId, History, bool)>,
    /// The replicas of this replica.
    pub below: Serving,
}

#[derive(Debug)]
pub enum Role {
    Primary(Box<Primary>, Serving),
    Replica(Box<Replica>, Following),
}

/// The requests of a process to the records, and their outcomes.
#[derive(Debug, Default)]
pub struct Desk {
    pub asked: Vec<Request>,
    pub outcomes: VecDeque<Outcome>,
}

impl Records for Desk {
    fn start(&mut self, request: Request) {
        self.asked.push(request);
    }

    fn outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }
}

#[derive(Debug)]
pub struct Process {
    pub me: Identity,
    pub role: Role,
    pub desk: Desk,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Closed,
    Killed,
    PowerCut,
}

#[derive(Debug)]
pub struct Node {
    pub id: NodeId,
    pub log: Log,
    pub data: Data,
    pub synced: Lsn,
    /// The last record that is surely in the log's file. A primary waits for that, a replica does not.
    pub logged: Lsn,
    /// A full copy was not finished.
    pub is_partial: bool,
    /// The keys of a divergent tail that was cut off. They have no values of the primary yet.
    pub pending: Option<Vec<usize>>,
    pub end: End,
    /// It may have lost something since it began its last epoch.
    pub is_suspect: bool,
    pub process: Option<Process>,
    pub paused_until: u64,
    /// What the operator has set: whom to follow, and the in-sync set.
    pub follows: Option<usize>,
    pub set: Vec<NodeId>,
    /// The operator has taken it out of the set, and must not promote it.
    pub is_barred: bool,
    rate: i64,
    clock: (u64, u64),
}

impl Node {
    pub fn new(n: usize, log: Log, rate: i64, data: Data) -> Self {
        Node {
            id: NodeId([n as u8 + 1; 20]),
            log,
            data,
            synced: 0,
            logged: 0,
            is_partial: false,
            pending: None,
            end: End::PowerCut,
            is_suspect: false,
            process: None,
            paused_until: 0,
            follows: None,
            set: Vec::new(),
            is_barred: false,
            rate,
            clock: (0, 50_000),
        }
    }

    /// The node's clock at this true time.
    pub fn clock(&self, now: u64) -> Moment {
        let passed = (now - self.clock.0) as i64;
        Moment::from_micros(self.clock.1 * 1000 + (passed * (1000 + self.rate)) as u64)
    }

    /// A clock that begins again, as after a power cut.
    pub fn reboot(&mut self, now: u64) {
        self.clock = (now, 1000);
    }

    /// Whether the log has lost nothing that was acknowledged.
    pub fn is_clean(&self, end: End) -> bool {
        if self.is_suspect {
            return false;
        }
        match self.log {
            Log::Off => false,
            Log::EverySecond => end != End::PowerCut,
            Log::Synced => true,
        }
    }

    pub fn primary(&self) -> Option<&Primary> {
        match &self.process.as_ref()?.role {
            Role::Primary(primary, _) => Some(primary),
            Role::Replica(..) => None,
        }
    }

    /// The connections of its replicas, as its machine knows them.
    pub fn feed(&self) -> Option<&Feed> {
        match &self.process.as_ref()?.role {
            Role::Primary(primary, _) => Some(primary.feed()),
            Role::Replica(replica, _) => Some(replica.feed()),
        }
    }

    pub fn replica(&self) -> Option<&Replica> {
        match &self.process.as_ref()?.role {
            Role::Replica(replica, _) => Some(replica),
            Role::Primary(..) => None,
        }
    }

    /// Whether it would answer a client at this true time.
    pub fn answers(&self, now: u64) -> bool {
        let until = self.primary().and_then(Primary::answers_until);
        until.is_some_and(|until| self.clock(now) < until)
    }

    /// The last record that arrived, applied or not.
    pub fn received(&self) -> Lsn {
        let held = match self.process.as_ref().map(|process| &process.role) {
            Some(Role::Replica(_, following)) => following.held.len(),
            _ => 0,
        };
        self.data.last() + held as Lsn
    }
}
