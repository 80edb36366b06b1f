//! Removes the keys that the table does not give to this shard: what was given away, and what came in vain.
//!
//! Nothing may make these slots the shard's meanwhile. The table that this node knows is from its epoch, and from there
//! on a transaction gives it slots only if it has opened an import of them in this epoch. Keys of open imports are not
//! touched ([`hotring_store::Standing::Importing`]), and the machine of an import closes it only after it has read that
//! the slots are not the shard's.

use std::rc::Rc;
use std::time::Duration;

use hotring_cluster::slot_of;
use hotring_commands::host::clock;

use super::steps::{self, Step};
use super::{Reign, THREAD};

/// Keys that are looked at before the clock is.
const STEP: usize = 64;

/// How long requests may take that were checked before keys were hidden, and are answered all the same.
const GRACE: Duration = Duration::from_millis(100);

/// How long keys are removed at a time, and the pause after that.
const TURN: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(2);

/// Removes keys whenever there are, or may be, some.
pub(super) async fn keep(reign: Rc<Reign>) {
    let server = reign.server();
    let mut session = reign.server().store.session_named(THREAD);
    loop {
        if !reign.is_clean() {
            let number = reign.soiled.get();
            // The table may be newer than what the store hides.
            server.renew_grounds(&mut session);
            // A table that lacks slots is no reason to remove anything.
            let directory = reign.cluster().directory();
            let is_kept = |key: &[u8]| directory.owners.of(slot_of(key)).is_none();
            let hidden = server.begin_to_forget(&session);
            steps::take_for_all(Step::Forgets);
            tokio::time::sleep(GRACE).await;
            let (mut cursor, mut removed) = (0, 0);
            loop {
                let began = clock::monotonic();
                while began.elapsed() < TURN {
                    let forgotten =
                        server.forget_some(&mut session, &hidden, (cursor, STEP), is_kept);
                    if removed == 0 && forgotten.removed > 0 {
                        steps::take_for_all(Step::HasForgottenSome);
                    }
                    removed += forgotten.removed;
                    cursor = forgotten.next;
                    if cursor == 0 {
                        break;
                    }
                }
                session.collect();
                let _ = session.take_effects();
                if cursor == 0 {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
            if removed > 0 {
                tracing::info!(removed, "keys of slots that are not this shard's are removed");
            }
            reign.cleaned.set(number);
            continue;
        }
        reign.forgets.notified().await;
    }
}
