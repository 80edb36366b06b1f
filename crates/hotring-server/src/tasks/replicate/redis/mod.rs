//! Follows a Redis or Valkey primary as one of its replicas, so that people can move over without downtime.
//!
//! ```text
//!   connect, log in | PSYNC | full copy, if the primary has not kept what is missing | commands, until the link is cut
//!                      ^                                                                  |
//!                      +--------------- again, later each time that nothing came ---------+
//! ```
//! [`hotring_commands::exec::follow`] applies the commands; this module has the connection, on a thread of its own.

mod copy;
mod queue;
#[cfg(test)]
mod tests;
mod wire;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use hotring_commands::exec::follow::Follower;
use hotring_commands::host::clock;
use hotring_commands::host::threads::spawn;
use hotring_commands::settings::config::{Source, Unknown};
use hotring_commands::state::replication::link::LinkStage;
use hotring_commands::state::server::Server;
use hotring_commands::state::tls;
use tokio::sync::oneshot;

use super::LinkError;
use wire::{Ended, Manners, Wire};

/// The name of the thread.
const THREAD: &str = "hotring-redis";
/// The shortest and the longest pause before the next attempt.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The time between two looks at whether the link must end.
const LOOK: Duration = Duration::from_millis(20);
/// The time between two reports of the position to the primary.
const REPORT: Duration = Duration::from_secs(1);
/// The time before a command that must wait is tried again.
const HELD_PAUSE: Duration = Duration::from_millis(1);

/// Follows the Redis at this address until the future is dropped: the thread of the link ends before that.
pub(super) async fn follow(server: &Arc<Server>, source: &Source) -> Result<Infallible, LinkError> {
    let ends = Arc::new(AtomicBool::new(false));
    let (link, source, asked) = (server.clone(), source.clone(), ends.clone());
    let seed = clock::unix_ms();
    let (alive, ended) = oneshot::channel::<Infallible>();
    let thread = spawn(THREAD, move || {
        let _alive = alive;
        // ORDERING: Relaxed, only tells the thread to end.
        follow_until(&link, &source, seed, &|| asked.load(Relaxed) || link.process.is_stopping());
    });
    let thread = thread.map_err(|error| LinkError::Peer(error.to_string()))?;
    let _thread = Thread { ends, thread: Some(thread) };
    // It ends by itself only with the server, or by a panic.
    let _ = ended.await;
    Err(LinkError::Peer("the thread of the link has ended".to_string()))
}

/// The thread of a link, which ends when this is dropped.
struct Thread {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        // ORDERING: Relaxed, see `follow`.
        self.ends.store(true, Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the link to the primary panicked");
        }
    }
}

/// Follows the primary until `stops` is true. `seed` seeds the random numbers of commands.
fn follow_until(
    server: &Arc<Server>,
    source: &Source,
    seed: u64,
    stops: &(dyn Fn() -> bool + Sync),
) {
    let seconds = server.settings.config().replication.timeout_s;
    let manners = Manners { stops, silence: Duration::from_secs(seconds) };
    let follower = Follower::new(server, seed);
    let mut link = Link { server, source, manners: &manners, follower, id: None };
    server.replication.redis.begin();
    let mut pause = PAUSE_MIN;
    while !stops() {
        let ended = match link.run(&mut pause) {
            Ok(never) => match never {},
            Err(ended) => ended,
        };
        link.follower.cut();
        match ended {
            Ended::Asked => break,
            Ended::Lost(why) => link.lose(&why, &mut pause),
            Ended::Refused(refused) => {
                if refused.is_torn {
                    link.id = None;
                }
                match refused.is_lasting && !link.skips() {
                    true => link.stop(&refused.what),
                    false => link.lose(&refused.what, &mut pause),
                }
            }
        }
    }
    server.replication.redis.end();
    if server.persist.loading.is_unfinished_copy() && !server.replication.is_replica() {
        tracing::warn!("an unfinished copy is kept as it is: REPLICAOF NO ONE FORCE");
        if let Err(ended) = copy::finish(server, &mut || Ok(())) {
            tracing::error!("the unfinished copy stays unserved: {ended:?}");
        }
    }
}

/// A link and what it has agreed on with the primary.
struct Link<'a> {
    server: &'a Arc<Server>,
    source: &'a Source,
    manners: &'a Manners<'a>,
    follower: Follower,
    /// The id of the primary's stream, once there is a full copy.
    id: Option<String>,
}

impl Link<'_> {
    /// Connects and follows until the link ends. Once commands arrive, the next pause is short again.
    fn run(&mut self, pause: &mut Duration) -> Result<Infallible, Ended> {
        self.reach(LinkStage::Connecting);
        let config = self.server.settings.config();
        let tls = config.replication.tls.then(|| tls::client(&config.tls)).transpose();
        let tls = tls.map_err(|why| Ended::Lost(format!("TLS: {why}")))?;
        let place = (&*self.source.host, self.source.port);
        let mut wire = Wire::dial(place, tls.as_ref(), self.manners)?;
        self.log_in(&mut wire)?;
        self.synchronize(&mut wire)?;
        let (replication, mut session) = (&self.server.replication, self.server.store.session());
        replication.end_marks(&mut session, &replication.lock_applying());
        self.reach(LinkStage::Connected);
        *pause = PAUSE_MIN;
        self.apply_all(&mut wire)
    }

    fn log_in(&self, wire: &mut Wire<'_>) -> Result<(), Ended> {
        let refused = |what: &str, reply: String| Ended::Lost(format!("{what}: {reply}"));
        let reply = wire.ask(&["PING"])?;
        let needs_password = reply.starts_with("-NOAUTH") || reply.starts_with("-NOPERM");
        if !reply.starts_with('+') && !needs_password {
            return Err(refused("the primary refuses", reply));
        }
        let config = self.server.settings.config();
        let (user, password) = (&*config.replication.user, config.replication.password.reveal());
        if !password.is_empty() {
            let words = [&["AUTH"][..], if user.is_empty() { &[] } else { &[user] }, &[password]];
            let reply = wire.ask(&words.concat())?;
            if !reply.starts_with('+') {
                return Err(refused("the primary refuses the password", reply));
            }
        }
        let port = self.server.process.addresses.first().map_or(0, |address| address.port());
        // A primary that does not know these works nevertheless.
        wire.ask(&["REPLCONF", "listening-port", &port.to_string()])?;
        wire.ask(&["REPLCONF", "capa", "eof", "capa", "psync2"])?;
        // A Valkey sends hashes with fields that expire only to a replica of this version or a later one.
        wire.ask(&["REPLCONF", "version", "9.0.0"])?;
        Ok(())
    }

    /// Agrees with the primary on the position where the stream goes on, and receives a full copy if that is needed.
    fn synchronize(&mut self, wire: &mut Wire<'_>) -> Result<(), Ended> {
        let (id, position) = match &self.id {
            Some(id) => (&**id, (self.follower.position() + 1).to_string()),
            None => ("?", "-1".to_string()),
        };
        wire.send(&["PSYNC", id, &position])?;
        self.reach(LinkStage::Copying);
        let reply = wire.line()?;
        let words: Vec<&str> = reply.split_ascii_whitespace().collect();
        let link = &self.server.replication.redis;
        match words[..] {
            ["+CONTINUE", ref id @ ..] if self.id.is_some() => {
                if let [id, ..] = id {
                    self.id = Some(id.to_string());
                }
                link.partial_copies.fetch_add(1, Relaxed);
                tracing::info!(
                    position = self.follower.position(),
                    "the primary goes on with its stream"
                );
                Ok(())
            }
            ["+FULLRESYNC", id, position] => {
                let malformed = |_| Ended::Lost(format!("not a position: {reply}"));
                let position: u64 = position.parse().map_err(malformed)?;
                // From here on the old position means nothing.
                self.id = None;
                link.full_copies.fetch_add(1, Relaxed);
                tracing::info!(id, position, "the primary sends a full copy");
                copy::copy(self.server, wire)?;
                self.follower.begin(position);
                self.id = Some(id.to_string());
                self.note_position();
                let mut reported = clock::monotonic();
                copy::finish(self.server, &mut || {
                    if reported.elapsed() >= REPORT {
                        reported = clock::monotonic();
                        wire.write(b"\n")?;
                    }
                    wire.check_asked()
                })
            }
            _ => Err(Ended::Lost(format!("the primary refuses PSYNC: {reply}"))),
        }
    }

    fn apply_all(&mut self, wire: &mut Wire<'_>) -> Result<Infallible, Ended> {
        let input_max = self.server.settings.config().query_buffer_max;
        self.report(wire)?;
        let mut reported = clock::monotonic();
        loop {
            let applied = self.follower.apply(wire.unread());
            self.note_position();
            let applied = applied.map_err(Ended::Refused)?;
            wire.consume(applied.consumed);
            if applied.wants_position || reported.elapsed() >= REPORT {
                reported = clock::monotonic();
                self.report(wire)?;
            }
            if applied.waits {
                wire.receive_while_waiting(HELD_PAUSE)?;
            } else if wire.unread().len() > input_max {
                let why = "the primary sends a command longer than client-query-buffer-limit";
                return Err(Ended::Lost(why.into()));
            } else if wire.receive()? {
                let received = self.follower.received(wire.unread().len());
                self.server.replication.update_link(|link| {
                    link.hear();
                    link.receive(received);
                });
            } else {
                self.follower.collect();
            }
        }
    }

    fn report(&self, wire: &mut Wire<'_>) -> Result<(), Ended> {
        wire.send(&["REPLCONF", "ACK", &self.follower.position().to_string()])
    }

    fn note_position(&self) {
        self.server.replication.redis.reach(self.follower.position());
    }

    fn reach(&self, stage: LinkStage) {
        self.server.replication.update_link(|link| link.enter(stage));
    }

    /// Waits before the next attempt, longer each time.
    fn lose(&self, why: &str, pause: &mut Duration) {
        let link = &self.server.replication;
        if link.link_status().failure.as_deref() != Some(why) {
            tracing::warn!(primary = %self.source, "the link to the primary is down: {why}");
        }
        link.update_link(|link| link.fail(why.to_string()));
        let until = clock::monotonic() + *pause;
        self.wait(|| clock::monotonic() >= until);
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    /// Waits until the setting lets what has stopped the link pass.
    fn stop(&self, what: &str) {
        let why =
            format!("the primary has {what}, which hotring has not: replicaof-unknown is stop");
        tracing::error!("{why}");
        self.server.replication.update_link(|link| link.fail(why));
        self.wait(|| self.skips());
    }

    /// Whether the setting says that what this server has not is passed over.
    fn skips(&self) -> bool {
        self.server.settings.config().replication.unknown == Unknown::Skip
    }

    fn wait(&self, until: impl Fn() -> bool) {
        while !until() && !(self.manners.stops)() {
            std::thread::sleep(LOOK);
        }
    }
}
