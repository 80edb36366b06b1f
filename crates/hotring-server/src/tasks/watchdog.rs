//! Detects an I/O thread that does not return to its event loop: a stuck disk, a bug, an endless
//! command.
//!
//! A timer of each event loop beats every [`BEAT`] while the thread is busy. A thread that sleeps until there is work
//! has no beats. The watchdog checks the time since the last beat.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_commands::host::threads;
use hotring_commands::observe::beats::BEAT;
use hotring_commands::state::server::Server;

/// The name of the watchdog's thread.
pub(crate) const THREAD: &str = "hotring-watch";

/// The threads that are stuck for longer than `watchdog-period`, in words; None if there is none.
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
    let period = Duration::from_millis(server.settings.config().watchdog_ms);
    let age = |thread: usize| (thread, server.threads[thread].beats.age(server.process.started));
    let is_stuck = move |(_, age): &(usize, Duration)| !period.is_zero() && *age >= period;
    (0..server.threads.len()).map(age).filter(is_stuck)
}

/// The thread with the oldest beat, and its age, if that is more than a few beats.
pub(crate) fn slowest(server: &Server) -> Option<(usize, Duration)> {
    let ages =
        (0..server.threads.len()).map(|i| (i, server.threads[i].beats.age(server.process.started)));
    ages.max_by_key(|(_, age)| *age).filter(|(_, age)| *age > 10 * BEAT)
}

/// The watchdog looks this many times in `watchdog-period`, but not more often than threads beat.
const LOOKS: u32 = 10;

/// The longest time between two looks: `watchdog-period` may have been changed.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// The time to the next look.
fn look_after(period: Duration) -> Duration {
    if period.is_zero() { LOOK_MAX } else { (period / LOOKS).clamp(BEAT, LOOK_MAX) }
}

/// Logs each time a thread becomes stuck, once, until the server stops. Runs on a thread that waits
/// for no other.
pub(crate) fn watch(server: &Server) {
    let _ = server.tasks.watchdog.set(std::thread::current());
    while !server.process.is_stopping() {
        // Stopping the server ends the wait at once.
        let period = Duration::from_millis(server.settings.config().watchdog_ms);
        std::thread::park_timeout(look_after(period));
        for (index, thread) in server.threads.iter().enumerate() {
            let stuck = stuck_threads(server).find(|(stuck, _)| *stuck == index);
            // ORDERING: Relaxed, only this thread uses it.
            let was_told = thread.beats.is_told.swap(stuck.is_some(), Ordering::Relaxed);
            let name = threads::io_name(index);
            match stuck {
                Some((_, age)) if !was_told => tracing::error!(
                    thread = name,
                    seconds = age.as_secs_f64(),
                    "the thread is stuck and serves none of its connections (watchdog-period)"
                ),
                None if was_told => tracing::warn!(thread = name, "the thread is no longer stuck"),
                _ => {}
            }
        }
    }
}
