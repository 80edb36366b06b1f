//! Warnings in the server's own log. Each is logged at most once in an interval, regardless of how many threads meet
//! its cause.

#[cfg(any(test, feature = "testing"))]
use std::sync::Mutex;

use hotring_store::index::{Full, Stalled};

use crate::acl::{Acl, Reason};
use crate::observe::throttle::Throttle;
use crate::settings::policy_name;
use crate::state::client::ClientShared;
use crate::state::settings::Settings;
use crate::table::quoted;

/// Must be held by each test that has a stalled thread. If a thread without a log subscriber is the first to reach a
/// log line, `tracing` may drop that line for all threads afterwards, including the test that looks for it.
#[cfg(any(test, feature = "testing"))]
pub static STALLING: Mutex<()> = Mutex::new(());

/// The rate limit of each warning.
#[derive(Debug, Default)]
pub struct Warnings {
    stalled: Throttle,
    maxmemory: Throttle,
    damage: Throttle,
    login: Throttle,
}

impl Warnings {
    /// Warns that a thread does not leave its command.
    #[cold]
    pub fn stalled(&self, stalled: &Stalled, settings: &Settings, now: u64) {
        if !self.stalled.allows(now) {
            return;
        }
        tracing::warn!(
            thread = stalled.session,
            removed_meanwhile = stalled.held_bytes,
            unreclaimed = stalled.limbo_bytes,
            limit = settings.config().unreclaimed_max,
            "a thread does not leave its command: what others remove or overwrite meanwhile cannot \
             be freed; while that is more than unreclaimed-limit, writes are refused"
        );
    }

    /// Warns that writes are refused because `maxmemory` is reached.
    #[cold]
    pub(crate) fn maxmemory(&self, full: &Full, settings: &Settings, now: u64) {
        if self.maxmemory.allows(now) {
            tracing::warn!(
                used = full.used_bytes,
                unreclaimed = full.limbo_bytes,
                limit = full.max,
                policy = policy_name(settings.config().eviction.policy),
                "maxmemory is reached, and nothing may be evicted to make room: writes are refused"
            );
        }
    }

    /// Warns that a client gives wrong passwords. The user name must not be logged: it may be a misplaced password.
    #[cold]
    pub(crate) fn login(&self, client: &ClientShared, acl: &Acl, now: u64) {
        if self.login.allows(now) {
            tracing::warn!(
                client = client.id,
                peer = %client.peer,
                refused_so_far = acl.log.count(Reason::Auth),
                "a client gave a wrong user name or password; ACL LOG has the last of them"
            );
        }
    }

    /// Warns that a command has met a damaged item.
    #[cold]
    pub fn damage(&self, key: &[u8], now: u64) {
        if self.damage.allows(now) {
            tracing::error!(
                key = %quoted(key).to_string().escape_debug(),
                "an item fails its checksum: its memory has changed since it was written; SCRUB finds \
                 all such items"
            );
        }
    }
}
