//! The writer: takes queued records and writes them, a group at a time, in order.
//!
//! A new segment begins before a group that would make the present one too long, never within a
//! group and hence never within a batch. The first segment is created with the first record, or on
//! request.
//!
//! **Faults.** If a group cannot be written, the file is cut back to the group before. On a full
//! disk the group is kept and retried once a second, and so is a requested restart or cut, before
//! which nothing more is written. Any other failure, and every failed sync, is permanent: the
//! file's content is in doubt, and nothing may be written or acknowledged afterwards.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::backlog::Backlog;
use crate::cut::cut_behind;
use crate::log::{AckWhen, Log, LogError};
use crate::names;
use crate::record::{Chunk, Group, Lsn};
use crate::recover::Recovered;
use crate::segment::{self, Header, Id, Segment};
use crate::storage::Storage;
use crate::syncer::{Syncer, Unsynced};

/// Options of the writer.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store's id, which is in every segment.
    pub id: Id,
    /// Length in bytes at which a segment is full and the next one begins.
    pub segment_len: u64,
}

impl Options {
    /// Long enough that segments begin rarely, short enough that space comes back soon after their
    /// removal.
    pub const SEGMENT_LEN: u64 = 64 << 20;

    /// The defaults, for the store of this id.
    pub fn new(id: Id) -> Options {
        Options { id, segment_len: Options::SEGMENT_LEN }
    }
}

/// Writes the log. Runs on a thread of the owner: `while writer.step(now) { writer.wait() }`.
pub struct Writer {
    log: Arc<Log>,
    storage: Arc<dyn Storage>,
    unsynced: Arc<Unsynced>,
    options: Options,
    /// Where written groups stay for replicas.
    backlog: Option<Arc<Backlog>>,
    /// Records taken but not written yet, and the number of the first.
    group: Group,
    first: Lsn,
    segment: Option<Segment>,
    /// The checksum of the last record.
    chain: u32,
    /// The last record that the written log itself claims to be synced.
    claimed: Lsn,
    /// When the failed operation is retried.
    retry_at: Option<Duration>,
    /// Consecutive steps without records.
    idle: u32,
}

impl Writer {
    /// Bytes that a buffer may keep from one group to the next.
    const KEPT_MAX: usize = 1 << 20;

    /// Time between two attempts to write to a full disk.
    const RETRY: Duration = Duration::from_secs(1);

    /// Steps without records before the writer sleeps until the next record.
    const IDLE_MIN: u32 = 10;

    /// Longest such sleep.
    const IDLE: Duration = Duration::from_secs(1);

    /// Continues the recovered log; `log` must be new and begin at the same record.
    pub fn new(
        log: Arc<Log>,
        storage: Arc<dyn Storage>,
        options: Options,
        recovered: &Recovered,
    ) -> (Writer, Syncer) {
        assert_eq!(log.written(), recovered.last, "the log goes on where it ended");
        let unsynced = Arc::new(Unsynced::new(log.clone(), storage.clone(), options.id));
        let syncer = Syncer { unsynced: unsynced.clone() };
        let (first, chain) = (recovered.last + 1, recovered.chain);
        let (group, segment, retry_at) = (Group::default(), None, None);
        let writer = Writer {
            log,
            storage,
            unsynced,
            options,
            backlog: None,
            group,
            first,
            segment,
            chain,
            claimed: 0,
            retry_at,
            idle: 0,
        };
        (writer, syncer)
    }

    /// Keeps written groups in this backlog, while it is on.
    pub fn feed(&mut self, backlog: Arc<Backlog>) {
        self.backlog = Some(backlog);
    }

    /// Waits until there is something to do, a second at most.
    ///
    /// While records come, waiters wake the writer, or it wakes on its own. Only after a quiet time
    /// does the first record wake it, so that it is not woken twice per group.
    pub fn wait(&self) {
        if self.retry_at.is_some() {
            return self.log.wait_to_retry(Self::RETRY);
        }
        if self.idle >= Self::IDLE_MIN {
            self.log.wait(Self::IDLE, false);
        }
        self.log.wait(Log::LINGER, true);
    }

    /// Writes the queued records, and syncs them if that is the writer's task. `now` is the time
    /// since any fixed moment. False once the log is closed and nothing is left to do.
    pub fn step(&mut self, now: Duration) -> bool {
        // Read first: records queued before the close are taken below.
        let closed = self.log.is_closed();
        // Taken first, too: records queued before the request are written below.
        let is_sync_requested = self.log.take_sync_request();
        self.idle += 1;
        if let Some((last, keeps)) = self.log.restart_wish()
            && (closed || self.may_try(now))
        {
            self.begin_over(last, keeps, now);
        }
        while self.has_work() {
            self.idle = 0;
            // Nothing may be written before a restart or a cut that was requested.
            if self.log.is_restarting() || !closed && !self.may_try(now) {
                // The error is reported already.
                self.log.end_segment_request();
                break;
            }
            if self.unsynced.is_overdue(now) {
                self.unsynced.sync();
            }
            self.write_or_tell(now);
            if self.retry_at.is_some() || !closed {
                break;
            }
        }
        if closed {
            self.finish(now);
            return false;
        }
        if self.log.when() == AckWhen::Synced || self.unsynced.is_overdue(now) {
            self.unsynced.sync();
        } else if is_sync_requested {
            self.unsynced.wish();
        }
        true
    }

    /// Whether there is anything to write, or to try again.
    fn has_work(&mut self) -> bool {
        let has_records = self.has_records();
        !self.log.is_lost() && (has_records || self.log.wants_segment() || self.retry_at.is_some())
    }

    /// Takes queued records if none are left. After a permanent failure they are dropped.
    fn has_records(&mut self) -> bool {
        if self.group.is_empty() {
            self.first = self.log.take(&mut self.group);
        }
        if self.log.is_lost() {
            self.log.count_dropped(self.group.len() as u64);
            self.group.reset(0);
            self.log.end_segment_request();
            return false;
        }
        !self.group.is_empty()
    }

    fn write_or_tell(&mut self, now: Duration) {
        let is_asked = self.log.wants_segment();
        match self.write(is_asked, now) {
            Ok(()) => {
                if self.retry_at.take().is_some() {
                    self.log.set_error(None);
                }
            }
            Err(error) => {
                self.retry_at = error.is_temporary.then_some(now + Self::RETRY);
                self.log.set_error(Some(error));
            }
        }
        if is_asked {
            self.log.end_segment_request();
        }
    }

    /// Writes the group, to a new segment if necessary or requested, and wakes the waiters.
    fn write(&mut self, is_asked: bool, now: Duration) -> Result<(), LogError> {
        let len = self.group.len() as u64;
        let is_full = |max| self.segment.as_ref().is_none_or(|s| s.is_full(len, max));
        let is_due = is_full(self.options.segment_len);
        if is_due || (is_asked && is_full(0)) {
            self.begin_segment(is_due)?;
        }
        if self.group.is_empty() {
            return Ok(());
        }
        let last = self.first - 1 + self.group.count();
        self.put_down(last, now)?;
        if let Some(backlog) = self.backlog.as_ref().filter(|backlog| backlog.is_on()) {
            // Before the position is published: whoever sees it finds the records.
            backlog.push(Chunk::of(&mut self.group, self.first));
        }
        self.group.reset(Self::KEPT_MAX);
        // A sync may have failed meanwhile.
        match self.log.is_lost() {
            false => self.log.set_written(last, len),
            true => self.log.count_dropped(len),
        }
        Ok(())
    }

    /// Writes the group to the segment, preceded by a durable record if the log has been synced
    /// further.
    fn put_down(&mut self, last: Lsn, now: Duration) -> Result<(), LogError> {
        let synced = self.log.synced();
        let durable = (synced > self.claimed).then(|| (synced, segment::mark(&self.options.id)));
        let crc = self.group.seal(self.first, durable);
        let segment = self.segment.as_mut().expect("a segment was begun");
        if let Err(error) = segment.write(self.group.pieces()) {
            // The group may go to another segment, so the bytes cut off here must not reappear as a
            // second copy.
            let cut = segment.end();
            self.unsynced.touched(&segment.file);
            cut.map_err(LogError::during("cutting off what could not be written to the log"))?;
            return Err(LogError::during("writing the log")(error));
        }
        self.unsynced.wrote(&segment.file, last, now);
        self.claimed = synced;
        self.chain = crc.unwrap_or(self.chain);
        Ok(())
    }

    /// Begins a segment. If the disk has no space for one that is only requested, the log continues
    /// in the present one, which has preallocated space.
    fn begin_segment(&mut self, is_due: bool) -> Result<(), LogError> {
        if is_due {
            self.end_segment()?;
        }
        let Options { id, segment_len } = self.options;
        let synced = self.log.synced();
        let header = Header { id, first: self.first, synced, chain: self.chain };
        // The preallocated length does not grow for a long group, which may be the only one.
        let is_again = self.retry_at.is_some();
        let begun = Segment::create(&*self.storage, header, segment_len, is_again);
        self.unsynced.directory_changed();
        let begun = begun.map_err(LogError::during("beginning a segment of the log"));
        let goes_on = |error: &LogError| error.is_temporary && !self.has_begun();
        if self.segment.is_some() && begun.as_ref().is_err_and(goes_on) {
            return Ok(());
        }
        self.end_segment()?;
        self.segment = Some(begun?);
        self.unsynced.begun(self.first);
        self.claimed = synced;
        Ok(())
    }

    /// Whether what failed may be tried again.
    fn may_try(&self, now: Duration) -> bool {
        self.retry_at.is_none_or(|at| now >= at)
    }

    /// Goes on in a new segment behind this record: `keeps` those before it, or none. On a full disk the request stays.
    fn begin_over(&mut self, last: Lsn, keeps: bool, now: Duration) {
        let is_again = self.retry_at.is_some();
        if keeps {
            // What is tried again may be the writing: a segment that it could not begin may have left its file.
            if !self.write_queue(now) {
                return;
            }
            self.unsynced.sync();
            if self.log.is_lost() {
                return self.log.has_restarted(last);
            }
        } else {
            self.log.count_dropped(self.group.len() as u64);
            self.group.reset(0);
        }
        // Its file may be gone or cut, even if a later step fails.
        (self.segment, self.retry_at) = (None, None);
        let (storage, id) = (&*self.storage, self.options.id);
        let chain = self.unsynced.restart(last, || match keeps {
            true => cut_behind(storage, id, last).map_err(LogError::during("cutting the log")),
            false => {
                remove_all(storage).map(|()| 0).map_err(LogError::during("starting the log over"))
            }
        });
        match chain {
            Ok(chain) => {
                self.chain = chain;
                if is_again {
                    self.log.set_error(None);
                }
            }
            Err(error) => {
                let is_temporary = error.is_temporary;
                self.log.set_error(Some(error));
                if is_temporary {
                    self.retry_at = Some(now + Self::RETRY);
                    return;
                }
            }
        }
        if let Some(backlog) = &self.backlog {
            backlog.restart(last);
        }
        (self.claimed, self.first) = (last, last + 1);
        self.log.has_restarted(last);
    }

    /// Writes all that is queued. False if the disk is full.
    fn write_queue(&mut self, now: Duration) -> bool {
        while self.has_records() {
            self.write_or_tell(now);
            if self.retry_at.is_some() {
                return false;
            }
        }
        true
    }

    /// Frees the preallocated space behind the last record.
    fn end_segment(&mut self) -> Result<(), LogError> {
        // The truncation need not survive a power cut: zeros are not records.
        let ended = self.segment.take().map_or(Ok(()), |segment| segment.end());
        ended.map_err(LogError::during("ending a segment of the log"))
    }

    /// Whether a part of the next segment, which could not be begun, remains. No record may be
    /// written before it is removed.
    fn has_begun(&self) -> bool {
        let is_next = |(first, _): &(Lsn, String)| *first == self.first;
        segment::list(&*self.storage).map_or(true, |found| found.iter().any(is_next))
    }

    /// Syncs everything, records that at the end of the log, and syncs again.
    fn finish(&mut self, now: Duration) {
        self.unsynced.sync();
        if self.segment.is_some() && self.group.is_empty() && !self.log.is_lost() {
            match self.say_the_last(now) {
                Ok(()) => self.unsynced.sync(),
                Err(error) => self.log.set_error(Some(error)),
            }
        }
        self.unsynced.close();
    }

    /// Ends the log with a durable record, and frees the space behind it.
    fn say_the_last(&mut self, now: Duration) -> Result<(), LogError> {
        self.put_down(self.log.written(), now)?;
        let segment = self.segment.as_ref().expect("it was written to");
        segment.end().map_err(LogError::during("ending the log"))
    }
}

/// Removes the segments, snapshots and the manifest.
pub fn remove_all(storage: &dyn Storage) -> io::Result<()> {
    let mut names = storage.list()?;
    names.retain(|name| names::is_data(name));
    names.iter().try_for_each(|name| storage.remove(name))?;
    storage.sync()
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.unsynced.close();
        // A panic of the writer's thread must not leave waiters asleep.
        self.log.end_segment_request();
        if !self.log.is_closed() {
            let error = io::Error::other("its writer has ended");
            let error = LogError {
                operation: "writing the log",
                source: Arc::new(error),
                is_temporary: false,
                of_replicas: false,
            };
            self.log.set_error(Some(error));
        }
    }
}
