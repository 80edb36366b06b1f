//! The context of a running command, and the reasons for refusing it.

use hotring_protocol::ArgsView;
use hotring_protocol::memcached::{Data, KEY_LEN_MAX, Writer};
use hotring_store::{Session, SetExpiry, StoreError};

use crate::observe::counters::Counters;
use crate::settings::config::Config;
use crate::state::client::{Client, Closing};
use crate::state::failure::text_of;
use crate::state::loading::LOADING;
use crate::state::memcached::{Count, Counts};
use crate::state::server::Server;

/// Longest relative time in seconds, 30 days; a greater number is a Unix time.
const RELATIVE_MAX: i32 = 60 * 60 * 24 * 30;

/// Everything that one command may read and change while it runs.
pub(super) struct Context<'a> {
    /// The words of the line; the command's name comes first.
    pub args: ArgsView<'a>,
    /// The data block after the line.
    pub data: Data<'a>,
    /// Where the reply goes.
    pub reply: Writer<'a>,
    /// Limit on the total length of the pending replies.
    pub reply_len_max: usize,
    /// Unix milliseconds, read once for the whole batch of requests.
    pub now: u64,
    /// This thread's session of the store.
    pub store: &'a mut Session,
    /// This thread's counters.
    pub counters: &'a Counters,
    /// This thread's counters of memcached's figures.
    pub counts: &'a Counts,
    /// The state that all threads share.
    pub server: &'a Server,
    /// The settings.
    pub config: &'a Config,
    /// The connection that sent the request.
    pub client: &'a mut Client,
}

/// The reason for refusing a command.
#[derive(Debug)]
pub(super) enum Refusal {
    /// An error with this text.
    Text(&'static str),
    /// The data is longer than the limit.
    TooLong,
    /// The store refused.
    Store(StoreError),
    /// The pending replies exceed their limit: the connection ends.
    ReplyTooLong,
    /// The item of the key is damaged.
    Damaged,
    /// The data has not been loaded yet.
    Loading,
    /// Writes are refused because they cannot be logged.
    NotLogged(String),
    /// A key of the request belongs to another shard of the cluster.
    Misplaced(String),
}

impl Refusal {
    pub(super) const ERROR: Refusal = Refusal::Text("ERROR");
    pub(super) const BAD_LINE: Refusal = Refusal::Text("CLIENT_ERROR bad command line format");
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Refusal::Store(error)
    }
}

impl From<&'static str> for Refusal {
    fn from(text: &'static str) -> Self {
        Refusal::Text(text)
    }
}

/// The result of a command.
pub(super) type Outcome = Result<(), Refusal>;

impl Context<'_> {
    /// Increments a count.
    #[inline]
    pub(super) fn count(&self, count: Count) {
        self.counts.add(count);
    }

    /// Unix seconds.
    pub(super) fn second(&self) -> u32 {
        u32::try_from(self.now / 1000).unwrap_or(u32::MAX)
    }

    /// Converts a time of the protocol: 0 means never, a negative time has already passed.
    pub(super) fn expiry(&self, time: i32) -> SetExpiry {
        match u64::try_from(time) {
            Ok(0) => SetExpiry::Clear,
            Ok(seconds) if time <= RELATIVE_MAX => SetExpiry::At(self.now + seconds * 1000),
            Ok(seconds) => SetExpiry::At(seconds * 1000),
            Err(_) => SetExpiry::At(0),
        }
    }

    /// Fails if the pending replies exceed their limit.
    pub(super) fn check_reply_len(&self) -> Outcome {
        let fits = self.reply.written() <= self.reply_len_max;
        if fits { Ok(()) } else { Err(Refusal::ReplyTooLong) }
    }

    /// Takes the report of a damaged item that the command has met. The command has treated the key as absent.
    pub(super) fn damage(&mut self) -> Option<Refusal> {
        let damaged = self.store.take_damage()?;
        self.counters.damaged_reads.add(1);
        self.server.observe.warnings.damage(&damaged.key.unwrap_or_default(), self.now);
        Some(Refusal::Damaged)
    }

    /// Replaces the reply since `start` by an error.
    #[cold]
    pub(super) fn refuse(&mut self, start: usize, refusal: Refusal) {
        self.counters.errors.add(1);
        self.reply.forget(start);
        match refusal {
            Refusal::Text(text) => self.reply.line(text),
            Refusal::TooLong => self.reply.line(TOO_LARGE),
            Refusal::Loading => self.reply.line(format!("SERVER_ERROR {LOADING}")),
            Refusal::NotLogged(why) | Refusal::Misplaced(why) => {
                self.reply.line(format!("SERVER_ERROR {why}"))
            }
            Refusal::Damaged => self.reply.line("SERVER_ERROR the item fails its checksum"),
            Refusal::Store(StoreError::ValueTooLong { .. }) => self.reply.line(TOO_LARGE),
            Refusal::Store(StoreError::KeyTooLong { .. }) => {
                self.reply.line("CLIENT_ERROR bad command line format");
            }
            Refusal::Store(StoreError::Stalled(stalled)) => {
                self.counters.rejected_stalled.add(1);
                self.server.observe.warnings.stalled(&stalled, &self.server.settings, self.now);
                self.reply.line("SERVER_ERROR out of memory storing object");
            }
            Refusal::Store(StoreError::OutOfMemory(full)) => {
                self.counters.rejected_maxmemory.add(1);
                self.server.observe.warnings.maxmemory(&full, &self.server.settings, self.now);
                self.reply.line("SERVER_ERROR out of memory storing object");
            }
            Refusal::Store(error) => self.reply.line(format!("SERVER_ERROR {}", text_of(&error))),
            Refusal::ReplyTooLong => self.client.closing = Some(Closing::OutputLimit),
        }
    }
}

const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

/// Checks the length of a key.
pub(super) fn check_key(key: &[u8]) -> Result<&[u8], Refusal> {
    if key.len() <= KEY_LEN_MAX { Ok(key) } else { Err(Refusal::BAD_LINE) }
}
