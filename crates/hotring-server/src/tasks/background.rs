//! Periodic upkeep on the accepting thread: the rest of a flush, the walk of SCRUB, the search for big keys, aging of
//! access data, compaction of item memory, trimming of the tracking table, closing of silent connections, the rate of
//! commands, and warnings about stalled threads.
//!
//! Expiry and the memory limit have their own threads ([`super::expire`], [`super::bound`]). The accepting thread
//! has little else to do. Open connections never wait for a tick. A new connection waits for one tick at most:
//! `TICK_MAX` and one step of each job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hotring_store::Session;

use hotring_commands::host::clock;
use hotring_commands::state::scrub::Walk;
use hotring_commands::state::server::Server;
use hotring_commands::state::tracking;

/// The name of the accepting thread and of its session.
pub(crate) const THREAD: &str = "hotring-accept";

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(100);

/// Most keys per tick that are evicted from the tracking table, and most pinned keys that are measured.
const STEP_ITEMS: usize = 512;

/// Time limit of a tick's walks, so that they take at most a quarter of a core.
const TICK_MAX: Duration = Duration::from_millis(25);

/// Time limit of compaction in a tick: a tenth of a core.
const COMPACT_MAX: Duration = Duration::from_millis(10);

/// Items that compaction visits between two checks of the clock.
const COMPACT_ITEMS: usize = 256;

/// Bytes of an unfinished request that give it one more second.
const REQUEST_SECOND_BYTES: usize = 64 << 10;

/// Ticks in a second: idle connections are closed, and rates measured, once a second.
const SECOND_TICKS: u64 = 10;

/// Ticks in which the access times of all items are visited once.
const AGE_ROUND_TICKS: usize = (Session::AGE_ROUND_MS / TICK.as_millis() as u64) as usize;

/// Runs until the server stops.
pub(crate) async fn run(server: Arc<Server>) {
    let mut store = server.store.session_named(THREAD);
    let mut walk = Walk::new();
    let mut tracking_walk = tracking::Walk::default();
    let mut timer = tokio::time::interval(TICK);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ticks = 0u64;
    let mut upkeep: BTreeMap<u8, Upkeep> = BTreeMap::new();
    let mut turn = 0;
    loop {
        timer.tick().await;
        ticks += 1;
        let deadline = clock::monotonic() + TICK_MAX;
        server.memcached.flush_if_due(&mut store, &server.clients.pause, clock::unix_ms());
        while store.clear_some() && clock::monotonic() < deadline {}
        // This thread accepts connections: no walk may wait for a script that holds a key.
        if !store.walk_must_wait() {
            server.observe.big_keys.step(&mut store, clock::unix_ms());
            while server.tasks.scrubber.step(&mut walk, &mut store, clock::unix_ms())
                && clock::monotonic() < deadline
            {}
        }
        let database_ids = store.database_ids();
        for database_id in database_ids.iter().copied() {
            store.within(database_id, |store| {
                upkeep.entry(database_id).or_default().run(&server, store);
                store.collect();
            });
        }
        turn = (turn + 1) % database_ids.len();
        store.within(database_ids[turn], |store| compact(store, clock::monotonic() + COMPACT_MAX));
        server.push.tracking.evict_excess(STEP_ITEMS);
        while server.push.tracking.drop_left(&mut tracking_walk) && clock::monotonic() < deadline {}
        if server.clients.pause.end_if_over(clock::unix_ms()) {
            server.settings.renew();
        }
        if store.is_observed() && !server.push.tracking.any() {
            // `observe` asks again while no other session is in the store: a client may have begun tracking.
            store.observe(|| server.push.tracking.any());
        }
        if ticks.is_multiple_of(SECOND_TICKS) {
            close_silent(&server);
            if let Some(stalled) = server.store.stalled() {
                server.observe.warnings.stalled(&stalled, &server.settings, clock::unix_ms());
            }
            server.observe.rates.note(clock::monotonic(), &server.totals_since_start());
        }
    }
}

/// An endless walk over all items, one part per tick.
#[derive(Default)]
struct Round {
    cursor: u64,
    /// Remainder of an item that is carried over to the next tick.
    remainder: usize,
}

impl Round {
    /// Visits as many items as are needed to visit all within `ticks` ticks.
    fn step(&mut self, items: usize, ticks: usize, visit: impl FnOnce(u64, usize) -> u64) {
        self.remainder += items;
        let count = self.remainder / ticks;
        self.remainder %= ticks;
        if count > 0 {
            self.cursor = visit(self.cursor, count);
        }
    }
}

/// Items whose access bits are cleared in one tick after their meaning has changed.
const FORGOTTEN_ITEMS: usize = 64 << 10;

/// Clears the access bits of all items, a part per tick, after the meaning of the bits has changed.
#[derive(Default)]
struct Forgetting {
    /// The number of changes of meaning for which this is done or under way.
    notings: u64,
    cursor: Option<u64>,
}

impl Forgetting {
    fn step(&mut self, server: &Server, store: &mut Session) {
        // Changes before the start do not count: there were no items yet.
        let notings = server.store.notings() - server.observe.access_marks_at_start;
        if std::mem::replace(&mut self.notings, notings) != notings {
            self.cursor = Some(0);
        }
        if let Some(cursor) = self.cursor {
            let next = store.forget_accesses(cursor, FORGOTTEN_ITEMS);
            self.cursor = (next != 0).then_some(next);
        }
    }
}

/// Periodic work for eviction and for access times.
#[derive(Default)]
struct Upkeep {
    decay: Round,
    forgetting: Forgetting,
    aging: Round,
    measured_to: Option<Box<[u8]>>,
}

impl Upkeep {
    /// One tick's part of decaying access counts, dating accesses, and measuring pinned keys.
    fn run(&mut self, server: &Server, store: &mut Session) {
        let items = store.len().0 as usize;
        let (config, now) = (server.settings.config(), clock::unix_ms());
        server.observe.ages.note(|| server.store.tick(), now);
        server.store.date_accesses(now);
        self.aging.step(items, AGE_ROUND_TICKS, |cursor, count| store.age_some(cursor, count, now));
        self.forgetting.step(server, store);
        if config.lfu_decay_min > 0 {
            let ticks = config.lfu_decay_min as usize * 60 * SECOND_TICKS as usize;
            self.decay.step(items, ticks, |cursor, count| store.decay_some(cursor, count));
        }
        self.measured_to = store.measure_pinned(self.measured_to.as_deref(), STEP_ITEMS, now);
    }
}

/// Compacts item memory if much of it is held and little used.
pub(crate) fn compact(store: &mut Session, deadline: Instant) {
    while store.compact_step(COMPACT_ITEMS).visited > 0 && clock::monotonic() < deadline {}
}

/// Closes connections that are silent for longer than `timeout`, do not finish a request within
/// `request-timeout`, do not authenticate in time, or do not read their pending replies. Connections that
/// wait for a key are exempt.
fn close_silent(server: &Server) {
    let config = server.settings.config();
    let timeout_ms = config.timeout_s.saturating_mul(1000);
    let request_timeout_ms = config.request_timeout_s.saturating_mul(1000);
    let handshake_timeout_ms = config.handshake_timeout_s.saturating_mul(1000);
    let fetch_timeout_ms = config.output_soft_s.saturating_mul(1000);
    let now = clock::unix_ms();
    for client in server.clients.all() {
        if client.is_waiting() {
            continue;
        }
        // ORDERING: Relaxed throughout, one tick earlier or later does not matter.
        let active_at = client.active_at.load(Relaxed);
        let channels = client.channels.load(Relaxed) + client.patterns.load(Relaxed);
        let listens = channels > 0 || client.monitors.load(Relaxed);
        if timeout_ms > 0 && !listens && now.saturating_sub(active_at) > timeout_ms {
            tracing::debug!(client = client.id, "closing an idle connection");
            client.kill();
        }
        let unsent = client.unsent_len.load(Relaxed);
        // No input is read while this much is unsent, so the last activity was a read of replies.
        if fetch_timeout_ms > 0
            && unsent > config.output_soft_max
            && now.saturating_sub(active_at) > fetch_timeout_ms
        {
            tracing::warn!(client = client.id, peer = %client.peer, unsent, "closing a connection that does not read its replies");
            server.observe.background.output_limit_closed.add(1);
            client.kill();
        }
        let since = client.locked_since.load(Relaxed);
        if handshake_timeout_ms > 0 && since > 0 && now.saturating_sub(since) > handshake_timeout_ms
        {
            tracing::debug!(client = client.id, "closing a connection that does not authenticate");
            client.kill();
        }
        let since = client.request_since.load(Relaxed);
        let earned_ms = (client.input_len.load(Relaxed) / REQUEST_SECOND_BYTES) as u64 * 1000;
        let allowed_ms = request_timeout_ms.saturating_add(earned_ms);
        if request_timeout_ms > 0 && since > 0 && now.saturating_sub(since) > allowed_ms {
            tracing::debug!(client = client.id, "closing a connection with an unfinished request");
            client.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use hotring_store::{Options, SetOptions};

    use super::*;
    use hotring_commands::settings::config::Config;
    use hotring_commands::state::client::{Client, KILLED, Wait};
    use hotring_commands::state::server::Parts;

    #[test]
    fn a_waiting_connection_is_neither_idle_nor_unfinished() {
        let server = Server::new(Parts::unconnected(
            Options::default(),
            Config { timeout_s: 1000, request_timeout_s: 1000, ..Config::default() },
        ));
        let shared = server.clients.enter("peer".into(), "local".into(), 0);
        let mut client = Client::new(shared.clone(), &server.acl);
        let watch = server.store.session().watch(b"k", None, Waker::noop().clone(), 0).unwrap();
        client.begin_wait(Wait::Key { watch, limit: None });
        // 1970.
        shared.active_at.store(1, Relaxed);
        shared.request_since.store(1, Relaxed);
        close_silent(&server);
        assert_eq!(shared.signals(), 0, "it waits");
        client.end_wait(clock::unix_ms());
        shared.request_since.store(0, Relaxed);
        close_silent(&server);
        assert_eq!(shared.signals(), 0, "its time counts from the end of the wait");
        shared.active_at.store(1, Relaxed);
        close_silent(&server);
        assert_eq!(shared.signals(), KILLED);
        let listener = server.clients.enter("peer".into(), "local".into(), 0);
        listener.channels.store(1, Relaxed);
        listener.active_at.store(1, Relaxed);
        close_silent(&server);
        assert_eq!(listener.signals(), 0, "it listens");
    }

    #[test]
    fn memory_goes_back_after_a_mass_removal() {
        const KEYS: u32 = 200_000;
        let server = Server::new(Parts::unconnected(Options::default(), Config::default()));
        let mut store = server.store.session();
        for key in 0..KEYS {
            store.set(&key.to_le_bytes(), &[7; 150], SetOptions::default(), 0).unwrap();
        }
        for key in (0..KEYS).filter(|key| key.wrapping_mul(2_654_435_761) >> 28 != 0) {
            store.remove(&key.to_le_bytes(), 0);
        }
        (0..200).for_each(|_| store.collect());
        let held = || server.store.stats().index.held_bytes;
        let sparse = held();
        // The ticks of a minute.
        for _ in 0..600 {
            compact(&mut store, clock::monotonic() + COMPACT_MAX);
            store.collect();
        }
        assert!(held() < sparse / 2, "{} of {sparse} bytes are held", held());
    }
}
