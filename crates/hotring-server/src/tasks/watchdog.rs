//! Notices a thread that does not come back from what it does: a disk, a bug, a command without an end.
//!
//! Each thread that serves connections says every [`BEAT`] that it still goes round, from a timer of its event
//! loop: also one that has nothing to do, and one that is busy all the time. The time since is what others look at.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_commands::host::threads;
use hotring_commands::observe::beats::BEAT;
use hotring_commands::state::server::Server;

/// What the thread is called that looks at them.
pub(crate) const THREAD: &str = "hotring-watch";

/// What of the server stands still for longer than `watchdog-period`, in words; None if nothing does.
pub(crate) fn stuck(server: &Server) -> Option<String> {
    let ages = stuck_threads(server).map(|(index, age)| {
        format!(
            "the thread {} has been stuck for {:.1} s",
            threads::io_name(index),
            age.as_secs_f64()
        )
    });
    Some(ages.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
}

fn stuck_threads(server: &Server) -> impl Iterator<Item = (usize, Duration)> {
    let period = Duration::from_millis(server.config().watchdog_ms);
    let age = |thread: usize| (thread, server.threads[thread].beats.age(server.started));
    let is_stuck = move |(_, age): &(usize, Duration)| !period.is_zero() && *age >= period;
    (0..server.threads.len()).map(age).filter(is_stuck)
}

/// The thread that was seen longest ago, and how long ago, if that is more than some beats.
pub(crate) fn slowest(server: &Server) -> Option<(usize, Duration)> {
    let ages = (0..server.threads.len()).map(|i| (i, server.threads[i].beats.age(server.started)));
    ages.max_by_key(|(_, age)| *age).filter(|(_, age)| *age > 10 * BEAT)
}

/// Says in the log which thread is stuck, once each time, until the server stops. On a thread that waits for nobody.
pub(crate) fn watch(server: &Server) {
    let _ = server.watcher.set(std::thread::current());
    while !server.is_stopping() {
        // The server's stop ends it at once.
        std::thread::park_timeout(BEAT);
        for (index, thread) in server.threads.iter().enumerate() {
            let stuck = stuck_threads(server).find(|(stuck, _)| *stuck == index);
            // ORDERING: Relaxed, only this task looks at it.
            let was_told = thread.beats.is_told.swap(stuck.is_some(), Ordering::Relaxed);
            let name = threads::io_name(index);
            match stuck {
                Some((_, age)) if !was_told => tracing::error!(
                    thread = name,
                    seconds = age.as_secs_f64(),
                    "a thread is stuck: it serves none of its connections (watchdog-period)"
                ),
                None if was_told => tracing::warn!(thread = name, "the thread goes on"),
                _ => {}
            }
        }
    }
}
