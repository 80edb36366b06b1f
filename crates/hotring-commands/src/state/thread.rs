//! The state of one thread for running requests. The executors of both protocols share it.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use fastrand::Rng;
use hotring_log::Lsn;
use hotring_protocol::Limits;
use hotring_store::{Effects, HoldInfo, Origin, Session};

use crate::host::clock;
use crate::host::fiber;
use crate::host::threads;
use crate::settings::config::Config;
use crate::state::batching::{Notes, Sampler};
use crate::state::client::{Client, USERS_CHANGED};
use crate::state::context::ThreadLocals;
use crate::state::interpreter::NewInterpreter;
use crate::state::loading::LOADING;
use crate::state::long_values::LongValues;
use crate::state::routes::{GONE, Routes, UNANSWERED};
use crate::state::scripts::HOLDER;
use crate::state::server::Server;
use crate::state::thread_shared::ThreadShared;

/// The number of reclamation steps, about 1,000 items each, per call of [`Executor::collect`]. A step with nothing to
/// free is a comparison; all steps together take at most about a millisecond.
const COLLECT_STEPS: usize = 16;

/// What a thread knew of the settings and of copies at the beginning of a run.
pub(crate) struct Moment {
    version: u64,
    copies: u64,
    /// The publication of records by which requests are checked; 0 without a cluster.
    routes: u64,
}

/// The state of a thread that runs requests.
pub(crate) struct ThreadState {
    pub server: Arc<Server>,
    /// The index of this thread in [`Server::threads`].
    pub index: usize,
    pub store: Session,
    pub locals: ThreadLocals,
    /// The settings, as of the start of the current run.
    pub config: Arc<Config>,
    config_version: u64,
    /// The copies of a primary's data that had begun when the settings were read.
    copies: u64,
    /// The limits of authenticated RESP clients, as derived from the settings.
    pub limits: Limits,
    /// A script is slow: requests that need its keys wait outside the gate, or are refused.
    pub is_slow: bool,
    /// Each request must be checked before it runs, or observed afterwards.
    pub is_watched: bool,
    pub sampler: Sampler,
    pub notes: Notes,
    /// Each request of the rest of the current run is timed.
    pub is_timed: bool,
}

impl ThreadState {
    /// The state of thread `index`; `seed` seeds its random number generator.
    pub(crate) fn new(
        server: Arc<Server>,
        index: usize,
        seed: u64,
        new_interpreter: NewInterpreter,
    ) -> Self {
        // The version must be read first: the next comparison then sees a change in between.
        let config_version = server.settings.version();
        let copies = server.persist.loading.copies();
        let config = server.settings.config();
        let mut thread = ThreadState {
            index,
            store: server.store.session_named(&threads::io_name(index)),
            locals: ThreadLocals {
                random: Rng::with_seed(seed),
                interpreter: None,
                new_interpreter,
                routes: server.cluster.as_ref().map(|cluster| Box::new(Routes::new(cluster))),
                long_values: LongValues::default(),
                idle_queue: None,
            },
            config_version,
            copies,
            limits: limits(&config),
            config,
            is_slow: false,
            is_watched: false,
            sampler: Sampler::default(),
            notes: Notes::default(),
            is_timed: false,
            server,
        };
        thread.store.set_wait(Box::new(fiber::FiberWait));
        thread.store.rely_on(thread.locals.routes.as_ref().map_or(0, |routes| routes.grounds));
        thread.refresh_watched();
        thread
    }

    /// The part of this thread's state that other threads may read.
    #[inline]
    pub(crate) fn shared(&self) -> &ThreadShared {
        self.server.thread(self.index)
    }

    /// Frees a part of the memory that this thread's commands have removed, and sees new settings and records.
    pub(crate) fn collect(&mut self) {
        self.refresh_config();
        for _ in 0..COLLECT_STEPS {
            self.store.collect();
        }
    }

    /// Begins a run of requests of this client; false if the client has lost its user.
    #[inline(always)]
    pub(crate) fn begin_run(&mut self, client: &mut Client, now: u64) -> bool {
        // Must come after the input was read: requests that were sent after a change of users must see the change.
        if client.shared.signals() & USERS_CHANGED != 0 && !client.renew_access(&self.server.acl) {
            return false;
        }
        self.refresh_config();
        self.store.select(client.database);
        self.store.act(Origin {
            actor: client.shared.id,
            // ORDERING: Relaxed, only this thread changes it.
            marks_accesses: !client.shared.no_touch.load(Ordering::Relaxed),
            records_changes: self.config.notify.is_on(),
        });
        let is_flush_paused = self.flush_if_due(now);
        // No reply acknowledges the flush.
        self.take_logged();
        if self.server.persist.durability.is_full() || is_flush_paused {
            // Check each request: the flush must come before the first request that the pause does not hold back.
            self.is_watched = true;
        }
        self.is_timed = self.sampler.begin_run(&mut self.locals.random);
        self.notes.begin_run(&mut self.locals.random, now);
        true
    }

    /// The last log record of this thread's commands since the last call, if any.
    #[inline]
    pub(crate) fn take_logged(&mut self) -> Option<Lsn> {
        let Effects { logged, damage, changes } = self.store.take_effects();
        debug_assert!(changes.is_empty(), "each request has told of its changes: {changes:?}");
        if let Some(damaged) = damage {
            // No command has reported the damage.
            self.shared().counters.damaged_reads.add(1);
            let key = damaged.key.unwrap_or_default();
            self.server.observe.warnings.damage(&key, clock::unix_ms());
        }
        logged
    }

    /// A script's hold on this key, or on any key.
    pub(crate) fn held_by_script(&self, key: Option<&[u8]>) -> Option<HoldInfo> {
        match key {
            Some(key) => self.store.held_by(key).filter(|info| info.label == HOLDER),
            None => self.store.any_held_with(HOLDER),
        }
    }

    /// Whether a script has held its keys longer than `busy-reply-threshold`.
    pub(crate) fn is_long(&self, info: HoldInfo, now: u64) -> bool {
        let threshold = self.config.busy_reply_ms;
        threshold > 0 && now.saturating_sub(info.since_ms) >= threshold
    }

    /// The maximum length of the replies of a run: the hard limit minus the unsent replies.
    #[inline]
    pub(crate) fn reply_len_max(&self, client: &Client) -> usize {
        // ORDERING: Relaxed, written by this thread.
        let unsent = client.shared.unsent_len.load(Ordering::Relaxed);
        match self.config.output_hard_max {
            0 => usize::MAX,
            max => max.saturating_sub(unsent),
        }
    }

    /// Empties the store if a delayed flush is due; true if something holds the flush back. Mirrors end then.
    #[inline]
    pub(crate) fn flush_if_due(&mut self, now: u64) -> bool {
        let Server { memcached, clients, .. } = &*self.server;
        let is_held_back = memcached.flush_if_due(&mut self.store, &clients.pause, now);
        if let Some(routes) = self.locals.routes.as_ref().filter(|_| is_held_back) {
            routes.want_all();
        }
        is_held_back
    }

    /// Updates this thread's copies of the settings and of the table of slots, and whether a script is slow.
    #[inline]
    pub(crate) fn refresh_config(&mut self) {
        let version = self.server.settings.version();
        if self.locals.routes.is_some() {
            self.renew_routes();
        }
        if self.server.scripts.slow.any() != self.is_slow {
            self.is_slow = !self.is_slow;
            self.refresh_watched();
        }
        if version != self.config_version {
            self.config_version = version;
            // Before the look whether data is loading: a copy that is counted is seen there.
            self.copies = self.server.persist.loading.copies();
            self.config = self.server.settings.config();
            self.limits = limits(&self.config);
            self.refresh_watched();
        }
    }

    /// Not inlined, so that servers without a cluster pay a branch.
    #[inline(never)]
    fn renew_routes(&mut self) {
        let (Some(routes), Some(cluster)) = (&mut self.locals.routes, &self.server.cluster) else {
            return;
        };
        let replication = &self.server.replication;
        let is_new = routes.renew(cluster);
        self.store.rely_on(routes.grounds);
        routes.follows = replication.is_replica() || !replication.leads_in(routes.epoch());
        routes.answers = replication.may_answer();
        if is_new {
            self.server.push.pubsub.close_misplaced(|channel| routes.serves_channel(channel));
        }
    }

    /// The moment at which a run begins, for [`loss`](Self::loss).
    #[inline]
    pub(crate) fn moment(&self) -> Moment {
        let routes = self.locals.routes.as_ref().map_or(0, |routes| routes.version());
        Moment { version: self.config_version, copies: self.copies, routes }
    }

    /// The error of what has read keys since then, if they must not be shown: a primary's data began to replace the
    /// own, or this node of a cluster has lost the right to answer, or keys were forgotten that are another shard's.
    /// A request that begins later is refused.
    #[inline]
    pub(crate) fn loss(&self, since: &Moment) -> Option<&'static str> {
        if self.locals.routes.as_ref().is_some_and(|routes| routes.answers)
            && !self.server.replication.may_answer()
        {
            return Some(UNANSWERED);
        }
        // ORDERING: Acquire keeps the reads of keys before those below; if they have seen something of the copy, these
        // see that it began.
        fence(Ordering::Acquire);
        if self.server.cluster.as_ref().is_some_and(|cluster| cluster.forgotten() > since.routes) {
            return Some(GONE);
        }
        let has_begun = self.server.settings.version() != since.version
            && self.server.persist.loading.copies() != since.copies;
        has_begun.then_some(LOADING)
    }

    /// Drops the replies from `start` on.
    #[cold]
    pub(crate) fn drop_replies(&mut self, start: usize, out: &mut Vec<u8>) {
        out.truncate(start);
        let attached = self.locals.long_values.attached.iter_mut();
        attached.for_each(|attached| attached.retain(|value| value.at < start));
    }

    #[cold]
    fn refresh_watched(&mut self) {
        let notifies = self.config.notify.is_on();
        self.store.act(Origin { records_changes: notifies, ..self.store.origin() });
        let may_wait = self.is_slow
            || self.server.clients.pause.is_set()
            || self.server.persist.loading.is_on()
            || self.server.replication.refuses_writes().is_some()
            || self.server.persist.durability.is_held_up(&self.config.log);
        self.is_watched = notifies || self.server.push.monitors.any() || may_wait;
    }
}

fn limits(config: &Config) -> Limits {
    Limits {
        args_max: config.args_max,
        bulk_len_max: config.bulk_len_max,
        inline_len_max: config.inline_len_max,
        authenticated: true,
    }
}
