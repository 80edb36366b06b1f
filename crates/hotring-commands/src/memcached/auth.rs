//! Authentication: with the setting `memcached-auth-file`, a client must send its name and password as the data of a
//! `set` with any key. Until then it gets only errors.

use std::time::Duration;

use hotring_protocol::memcached::{Command, Data};

use super::context::{Context, Outcome};
use crate::state::memcached::Count;

/// Runs a request of a client that has not authenticated.
pub(super) fn run(
    command: Option<Command>,
    c: &mut Context<'_>,
    authenticated: &mut bool,
) -> Outcome {
    let (Some(Command::Set), Data::Block(block)) = (command, c.data) else {
        return Err(match (command, c.data) {
            (Some(Command::Set), Data::Unended) => {
                "CLIENT_ERROR bad command line termination".into()
            }
            _ => "CLIENT_ERROR unauthenticated".into(),
        });
    };
    let mut words = block.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (Some(name), Some(password)) = (words.next(), words.next()) else {
        return Err("CLIENT_ERROR bad authentication token format".into());
    };
    c.count(Count::AuthCmds);
    let users = c.server.memcached.users.as_ref();
    if !users.is_some_and(|users| users.has(name, password)) {
        c.count(Count::AuthErrors);
        c.client.penalty += Duration::from_millis(c.config.auth_failure_delay_ms);
        if c.server.memcached.login_log.allows(c.now) {
            let shared = &c.client.shared;
            tracing::warn!(client = shared.id, peer = %shared.peer, "memcached: authentication failure");
        }
        return Err("CLIENT_ERROR authentication failure".into());
    }
    *authenticated = true;
    c.client.show_locked(false);
    c.reply.line("STORED");
    Ok(())
}
