//! The steps of a move, as lines of the log at level debug.
//!
//! A build with debug assertions can also die at one: `cargo xtask prove nemesis` names a file in the variable
//! `NEMESIS_STEPS`, and writes a step into it. The first node that comes to that step removes the file and kills
//! itself. No setting and no client can cause this, and a release build never looks.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use hotring_cluster::directory::MoveId;
use rustix::process::{Signal, getpid, kill_process};

/// Where the deadly step is written, if anywhere.
const VARIABLE: &str = "NEMESIS_STEPS";

/// What a node does for a move, in the order of a move that nothing disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The source begins, and will read the records.
    SourceBegins,
    /// It has read that the move may be made, and dials the target.
    SourceOpens,
    /// The target has been asked to take the slots.
    TargetIsAsked,
    /// Its import is open. It has not said so.
    TargetOpens,
    /// The source knows that, and begins to walk over its keys.
    SourceWalks,
    /// The first keys have come.
    TargetReceives,
    /// All keys are sent, and the source goes on with their changes.
    SourceFollows,
    /// The target has been asked to sync what it has.
    TargetSyncs,
    /// Writes wait. The target has not heard of it.
    SourceHoldsWrites,
    /// It has, and has all changes, but perhaps not its replicas.
    TargetHasAll,
    /// They have. The source has not heard of it.
    TargetAnswers,
    /// The source has, and will read the records again.
    SourceHearsThat,
    /// Reads wait, too.
    SourceHoldsReads,
    /// The transaction is being sent.
    SourceCommits,
    /// It is through, and the source alone knows.
    SourceHasCommitted,
    /// The source waits until its own table says so.
    SourceRedirects,
    /// The target hears that the transaction is through, and will read the records.
    TargetHearsThat,
    /// It has read that the slots are its own.
    TargetShows,
    /// Clients see the keys at the target.
    TargetHasShown,
    /// Clients are sent to the target, and the keys are to be removed.
    SourceIsThrough,
    /// The source will remove keys of slots that are not its own.
    Forgets,
    /// Some of them are removed.
    HasForgottenSome,
    /// The target gives an import up: only in moves that are disturbed.
    TargetDrops,
}

/// Tells that a step is taken.
pub(super) fn take(id: MoveId, step: Step) {
    tracing::debug!(id, ?step, "a step of a move");
    die_at(step);
}

/// As [`take`], for a step that belongs to no single move.
pub(super) fn take_for_all(step: Step) {
    tracing::debug!(?step, "a step of moves");
    die_at(step);
}

fn die_at(step: Step) {
    if !cfg!(debug_assertions) {
        return;
    }
    static ORDER: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    let Some(after) = ORDER.as_ref().and_then(|file| claim(file, step)) else { return };
    let die = move || {
        std::thread::sleep(after);
        let _ = kill_process(getpid(), Signal::KILL);
    };
    match after.is_zero() {
        true => die(),
        // What is sent at this step may be on its way, or answered, by then.
        false => drop(std::thread::spawn(die)),
    }
}

/// Takes the order to die at this step, if the file has it: after which time. One process alone gets it.
fn claim(file: &Path, step: Step) -> Option<Duration> {
    let order = std::fs::read_to_string(file).ok()?;
    let (name, microseconds) = order.trim().split_once(' ')?;
    let after = Duration::from_micros(microseconds.parse().ok()?);
    (name == format!("{step:?}") && std::fs::remove_file(file).is_ok()).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_for_one_step_and_one_process() {
        let file = std::env::temp_dir().join(format!("hotring-steps-{}", std::process::id()));
        assert_eq!(claim(&file, Step::TargetShows), None, "there is no order");
        std::fs::write(&file, "TargetShows 1500").unwrap();
        assert_eq!(claim(&file, Step::TargetHasShown), None, "another step");
        assert_eq!(claim(&file, Step::TargetShows), Some(Duration::from_micros(1_500)));
        assert_eq!(claim(&file, Step::TargetShows), None, "it is taken");
    }
}
