//! The thread that removes expired keys and publishes their expiry.
//!
//! It sleeps until the next key expires, but at most for `SLEEP_MAX`. A write that sets an earlier
//! expiry time wakes it. Connections wait for it only at the gate of the one key that it removes.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use hotring_store::{ExpiryStep, Origin, Role, Session};

use hotring_commands::host::clock;
use hotring_commands::observe::latency;
use hotring_commands::state::notify;
use hotring_commands::state::server::Server;

/// The name of the thread and of its session.
pub(crate) const THREAD: &str = "hotring-expire";

/// Steps between two checks of the clock: some 200 µs if each removes a key.
const STEPS: usize = 256;

/// While there is a backlog of expired keys, the thread works for `WORK_MAX` and then sleeps for
/// `REST`, so that it takes at most four fifths of a core.
const WORK_MAX: Duration = Duration::from_millis(4);
const REST: Duration = Duration::from_millis(1);

/// The longest sleep: the system's clock may be set.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The longest sleep while keys must not be removed: no wake-up comes when they may.
const HELD_BACK_MAX: Duration = Duration::from_millis(100);

/// Wakes the thread.
struct Bell(Thread);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs until the server stops.
pub(crate) fn run(server: &Server) {
    let thread = std::thread::current();
    let is_first = server.store.set_expiry_waker(Waker::from(Arc::new(Bell(thread.clone()))));
    debug_assert!(is_first, "a store belongs to one server");
    let _ = server.tasks.expirer.thread.set(thread);
    let mut store = server.store.session_named(THREAD);
    while !server.process.is_stopping() {
        let begun = clock::monotonic();
        let next = expire(server, &mut store, begun + WORK_MAX);
        server.observe.latency.note(latency::EXPIRE_CYCLE, begun.elapsed(), clock::unix_ms());
        let longest = if is_held_back(server) { HELD_BACK_MAX } else { SLEEP_MAX };
        // A wake-up since the last sleep ends this one at once.
        std::thread::park_timeout(rest(next, clock::until(next.unwrap_or(u64::MAX))).min(longest));
    }
}

/// Whether the server is in a state in which its expired keys may have to stay. Clients cannot see them.
fn is_held_back(server: &Server) -> bool {
    server.persist.loading.is_on()
        || server.replication.is_replica()
        || server.clients.pause.lasts(clock::unix_ms()).is_some()
}

/// The time to sleep until the next key expires.
fn rest(next: Option<u64>, until: Duration) -> Duration {
    match next {
        Some(_) if until.is_zero() => REST,
        Some(_) => until.min(SLEEP_MAX),
        None => SLEEP_MAX,
    }
}

/// Removes expired keys until the deadline. Returns the Unix millisecond of the next expiry, or
/// of the end of a client pause; None if neither is known.
fn expire(server: &Server, store: &mut Session, deadline: Instant) -> Option<u64> {
    let config = server.settings.config();
    loop {
        let now = clock::unix_ms();
        // The part of the log that is not loaded yet may give a key more time.
        if server.persist.loading.is_on() {
            return None;
        }
        // The primary's removals come by the stream. Of a store that has this role, a step only keeps the wheels small.
        if server.replication.is_replica() && store.role() == Role::Primary {
            return None;
        }
        // Nothing may change during a client pause.
        if let Some((until, _)) = server.clients.pause.lasts(now) {
            return Some(until);
        }
        let records_changes = notify::is_wanted(&config);
        store.act(Origin { records_changes, ..Origin::default() });
        let mut due = ExpiryStep::default();
        for database_id in store.database_ids() {
            let step = store.within(database_id, |store| {
                let number = store.number_of_database(database_id);
                store.expire_due(now, STEPS, |key, late| {
                    notify::expired((number, key), &server.push.pubsub, &config);
                    server.tasks.expirer.note(clock::since(now - late));
                })
            });
            due.removed += step.removed;
            due.next = due.next.into_iter().chain(step.next).min();
        }
        notify::expired_fields(store, &server.push.pubsub, &config);
        server.observe.background.expired_keys.add(due.removed as u64);
        if let Some(damaged) = store.take_damage() {
            server.observe.background.damaged_reads.add(1);
            server.observe.warnings.damage(&damaged.key.unwrap_or_default(), now);
        }
        let is_behind = due.next.is_some_and(|next| next <= now);
        if !is_behind || clock::monotonic() >= deadline {
            return due.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use hotring_store::{Options, SetExpiry, SetOptions};

    use super::*;
    use hotring_commands::settings::config::Config;
    use hotring_commands::state::pause::Paused;
    use hotring_commands::state::server::Parts;

    #[test]
    fn nothing_expires_during_a_pause() {
        let server = Server::new(Parts::unconnected(Options::default(), Config::default()));
        let mut store = server.store.session();
        // Expired in 1970.
        let options = SetOptions { expiry: SetExpiry::At(1), ..SetOptions::default() };
        store.set(b"k", b"v", options, 0).unwrap();
        let mut expire_all = || {
            let next = expire(&server, &mut store, clock::monotonic() + Duration::from_secs(60));
            (next, server.store.stats().index.expiring)
        };
        let end = u64::MAX >> 2;
        server.clients.pause.begin(end, Paused::Writes, 0);
        assert_eq!(expire_all(), (Some(end), 1));
        server.clients.pause.end();
        assert_eq!(expire_all(), (None, 0));
        let mut lags = hotring_commands::observe::histogram::Distribution::default();
        lags.add(&server.tasks.expirer.lag);
        assert_eq!(lags.count(), 1);
        assert!(server.tasks.expirer.lag_max() > Duration::from_secs(1_000_000_000));
    }

    #[test]
    fn it_sleeps_until_a_key_expires_and_never_long() {
        let ms = Duration::from_millis;
        assert_eq!(rest(None, ms(1)), SLEEP_MAX);
        assert_eq!(rest(Some(9), ms(3)), ms(3));
        assert_eq!(rest(Some(9), ms(3_000)), SLEEP_MAX);
        assert_eq!(rest(Some(9), ms(0)), REST);
    }
}
