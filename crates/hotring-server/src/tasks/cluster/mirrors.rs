//! The thread that drives the mirrors of this node's hot keys ([`hotring_commands::state::mirrors`]): chooses keys, and
//! has the store guard them, or guard them no more as soon as a write waits.

use std::sync::Arc;
use std::time::Duration;

use hotring_commands::state::mirroring::Driver;
use hotring_commands::state::server::Server;

use super::PAUSE;
use crate::tasks::replicate::unless;
use crate::tasks::{run_again, run_on_event_loop};

/// The name of the thread, and of its session.
pub(crate) const THREAD: &str = "hotring-mirrors";

/// Time between two looks at the clock while some key is mirrored. A holder that is silent delays a write by this
/// in addition.
const TICK: Duration = Duration::from_millis(5);

/// The same while none is.
const IDLE: Duration = Duration::from_millis(200);

/// Drives the mirrors until the server stops.
pub(crate) fn run(server: &Arc<Server>) {
    run_again("the mirrors", PAUSE, || {
        run_on_event_loop(server, async {
            _ = unless(server.process.stopping(), drive(server)).await;
        });
    });
}

async fn drive(server: &Arc<Server>) {
    let Some(cluster) = &server.cluster else { return };
    let (mut session, mut driver) = (server.store.session_named(THREAD), Driver::default());
    loop {
        server.drive_mirrors(&mut session, &mut driver);
        let pause = if cluster.mirrors.is_any() { TICK } else { IDLE };
        _ = tokio::time::timeout(pause, cluster.mirrors.worked()).await;
    }
}
