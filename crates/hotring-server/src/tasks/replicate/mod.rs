//! The link of a replica: the thread that dials the primary, follows it, and tries again after every failure.
//!
//! ```text
//!   wait for a primary -> dial -> greet -> follow
//!          ^                |       |        |
//!          +---- pause <----+-------+--------+
//! ```
//! The state that others see is in `hotring_commands::state::replication`.

mod apply;
pub(in crate::tasks) mod copy;
pub(crate) mod dial;
pub(crate) mod feed;
mod follow;
pub(in crate::tasks) mod frames;
pub(crate) mod greet;
mod redis;
mod repair;
mod seed;
pub(in crate::tasks) mod stream;

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hotring_cluster::Told;
use hotring_commands::host::clock;
use hotring_commands::settings::config::Source;
use hotring_commands::state::replication::link::LinkStage;
use hotring_commands::state::server::Server;

use dial::dial;
use greet::{Peer, greet};
pub(crate) use seed::seed_of_primary;

use super::run_on_event_loop;

/// The name of the thread.
pub(crate) const THREAD: &str = "hotring-replica";

/// The session that changes the store's role.
const ROLE_SESSION: &str = "hotring-role";

/// The pause before the next attempt after a failure, which doubles up to the longest one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Time between two ticks of the role's machine.
const TICK: Duration = Duration::from_millis(100);

/// Time between two looks whether the server's own data is loaded.
const LOADING_PAUSE: Duration = Duration::from_millis(5);

/// Why a link ended.
#[derive(Debug)]
pub(crate) enum LinkError {
    Io(io::Error),
    /// The peer refused, or sent something that cannot be right.
    Peer(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Io(error) => error.fmt(f),
            LinkError::Peer(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        LinkError::Io(error)
    }
}

/// Follows whatever primary there is, until the server stops.
pub(crate) fn run(server: &Arc<Server>) {
    run_again(server, || run_once(server));
}

/// Runs `work` again whenever it panics, which the state of the link tells.
fn run_again(server: &Server, mut work: impl FnMut()) {
    // The state that others see has locks of its own, and each link begins with what that says.
    while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
        tracing::error!("the thread of the link to the primary panicked; it begins again");
        let why = "the thread of the link panicked".to_string();
        server.replication.update_link(|link| link.fail(why));
        std::thread::sleep(PAUSE_MIN);
    }
}

fn run_once(server: &Arc<Server>) {
    run_on_event_loop(server, async {
        let links = unless(tick(server), run_links(server));
        _ = unless(server.process.stopping(), links).await;
    });
}

/// Passes the time to the machine of the role.
async fn tick(server: &Server) {
    let mut timer = tokio::time::interval(TICK);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut session = server.store.session_named(ROLE_SESSION);
    let numbers = session.unique_numbers();
    loop {
        // The machine may have something to do between two ticks.
        let due = async { _ = timer.tick().await };
        _ = unless(server.replication.worked(), due).await;
        let Some(log) = server.persist.durability.stream() else { continue };
        let told = Told { wall: clock::unix_ms(), cas: numbers.last() };
        server.replication.mark_writes(&mut session);
        let (tasks, has_changed) = server.replication.tick(told, log);
        if has_changed {
            server.settings.renew();
        }
        tasks.into_iter().for_each(|task| server.work_for_role(task, &mut session));
    }
}

/// Runs a link to each primary in turn.
async fn run_links(server: &Arc<Server>) {
    let mut sources = server.replication.watch_source();
    loop {
        let source = sources.borrow_and_update().clone();
        // The server owns the sender, so waiting for a change cannot fail.
        let change = async { drop(sources.changed().await) };
        match source {
            None => change.await,
            Some(source) => _ = unless(change, keep_up(server, &source)).await,
        }
    }
}

/// The result of `work`, or None if `end` comes first.
pub(crate) async fn unless<T>(
    end: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut end, mut work) = (pin!(end), pin!(work));
    poll_fn(|cx| {
        if end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Links to the primary again and again.
async fn keep_up(server: &Arc<Server>, source: &Source) {
    // An unfinished copy of a former primary is replaced.
    let loading = &server.persist.loading;
    while loading.is_on() && !loading.is_unfinished_copy() {
        tokio::time::sleep(LOADING_PAUSE).await;
    }
    let (mut pause, mut told) = (PAUSE_MIN, None);
    loop {
        let Err(error) = follow(server, source).await;
        let was_up = server.replication.link_status().stage == LinkStage::Connected;
        let why = error.to_string();
        if was_up || told.as_ref() != Some(&why) {
            tracing::warn!(primary = %source, "the link to the primary is down: {why}");
            told = Some(why.clone());
        }
        server.replication.update_link(|link| link.fail(why));
        pause = if was_up { PAUSE_MIN } else { (2 * pause).min(PAUSE_MAX) };
        tokio::time::sleep(pause).await;
    }
}

/// One link, from the dialling to its end.
async fn follow(
    server: &Arc<Server>,
    source: &Source,
) -> Result<std::convert::Infallible, LinkError> {
    server.replication.update_link(|link| link.enter(LinkStage::Connecting));
    let mut stream = dial(&server.settings.config(), source).await?;
    match greet(&mut stream, server).await? {
        Peer::Hotring => follow::follow(stream, server).await,
        // Its data would replace that of a shard, which only the records' primary may do.
        Peer::Redis if server.cluster.is_some() => Err(LinkError::Peer(
            "a Redis listens at the address of this shard's primary: has the address changed hands?".to_string(),
        )),
        Peer::Redis => {
            drop(stream);
            redis::follow(server, source).await
        }
    }
}

#[cfg(test)]
mod tests {
    use hotring_commands::settings::config::Config;
    use hotring_commands::state::server::Parts;

    use super::*;

    #[test]
    fn a_link_whose_thread_panics_begins_again_and_says_so() {
        let server = Server::new(Parts::unconnected(Default::default(), Config::default()));
        let mut runs = 0;
        run_again(&server, || {
            runs += 1;
            assert!(runs > 1, "a panic on purpose");
        });
        assert_eq!(runs, 2);
        let failure = server.replication.link_status().failure;
        assert_eq!(failure.as_deref(), Some("the thread of the link panicked"));
    }
}
