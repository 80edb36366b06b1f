//! Who a client of messages is.

use std::sync::Arc;

use crate::acl::{Access, Origin, Reason};
use crate::commands::answer::note_denial;
use crate::host::clock;
use crate::state::client::{Client, ClientShared};
use crate::state::server::Server;

/// The client of a new connection, if user and password are right. An empty name is that of the default user, which may
/// need no password.
pub fn log_in(
    server: &Server,
    shared: &Arc<ClientShared>,
    name: &[u8],
    password: &[u8],
) -> Option<Client> {
    let mut client = Client::new(shared.clone(), &server.acl);
    let name = if name.is_empty() { b"default" } else { name };
    let needs_none = name == b"default" && password.is_empty() && !client.access().is_locked();
    let user = match needs_none {
        true => Some(server.acl.default_user()),
        false => server.acl.authenticate(name, password),
    };
    match user {
        Some(user) => {
            client.become_user(Access::authenticated(user));
            Some(client)
        }
        None => {
            note_denial(&client, server, Origin::Client, Reason::Auth, b"hello", name);
            server.observe.warnings.login(shared, &server.acl, clock::unix_ms());
            None
        }
    }
}
