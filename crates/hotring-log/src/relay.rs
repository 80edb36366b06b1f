//! The writer of a log without files: it numbers the records and passes them to the backlog, for replicas.

use std::sync::Arc;
use std::time::Duration;

use crate::backlog::Backlog;
use crate::log::Log;
use crate::record::{Chunk, Group};

/// Passes a log's records to the backlog. Runs on a thread of the owner: `while relay.step() { relay.wait() }`.
pub struct Relay {
    log: Arc<Log>,
    backlog: Arc<Backlog>,
    group: Group,
    /// Consecutive steps without records.
    idle: u32,
}

impl Relay {
    /// Bytes that a buffer may keep from one group to the next.
    const KEPT_MAX: usize = 1 << 20;

    /// Steps without records before the relay sleeps until the next record, so that it is not woken for each one
    /// while records come.
    const IDLE_MIN: u32 = 10;

    /// Longest such sleep.
    const IDLE: Duration = Duration::from_secs(60);

    /// Passes the records of this log to this backlog.
    pub fn new(log: Arc<Log>, backlog: Arc<Backlog>) -> Relay {
        Relay { log, backlog, group: Group::default(), idle: 0 }
    }

    /// Waits until there is something to do.
    pub fn wait(&self) {
        if self.idle >= Self::IDLE_MIN {
            self.log.wait(Self::IDLE, false);
        }
        self.log.wait(Log::LINGER, true);
    }

    /// Passes the queued records on. False once the log is closed and nothing is left.
    pub fn step(&mut self) -> bool {
        // Read first: records queued before the close are taken below.
        let closed = self.log.is_closed();
        if let Some((last, _)) = self.log.restart_wish() {
            self.backlog.restart(last);
            self.log.has_restarted(last);
        }
        let first = self.log.take(&mut self.group);
        self.idle += 1;
        if !self.group.is_empty() {
            self.idle = 0;
            let (last, len) = (first - 1 + self.group.count(), self.group.len() as u64);
            if self.backlog.is_on() {
                self.group.seal(first, None);
                self.backlog.push(Chunk::of(&mut self.group, first));
            }
            self.group.reset(Self::KEPT_MAX);
            self.log.set_written(last, len);
        }
        !closed
    }
}
