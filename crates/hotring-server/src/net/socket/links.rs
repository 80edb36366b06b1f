//! Connections that serve another node instead of a client.

use std::future::poll_fn;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Socket, Thread};
use crate::tasks::cluster::connect::serve_coordinator;
use crate::tasks::cluster::moves;
use crate::tasks::replicate::{feed, unless};
use hotring_commands::state::client::{Client, Closing, KILLED, USERS_CHANGED};
use hotring_commands::state::server::Server;

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Serves another node instead of a client, if that has asked for it.
    pub(super) async fn become_link(&mut self) {
        let client = &mut self.conversation.client;
        let (shared, becomes) = (client.shared.clone(), client.closing);
        if !matches!(
            becomes,
            Some(
                Closing::BecomesLink(_)
                    | Closing::BecomesCoordination
                    | Closing::BecomesImport { .. }
            )
        ) {
            return;
        }
        let Thread { server, embedded, .. } = &*self.thread;
        let stream = &mut self.stream;
        let serve = async {
            match (becomes, embedded) {
                (Some(Closing::BecomesLink(port)), _) => {
                    feed::serve(stream, server, &shared, port).await;
                }
                (Some(Closing::BecomesImport { id, from }), _) => {
                    moves::serve(stream, server, &shared, id, from).await;
                }
                (Some(Closing::BecomesCoordination), Some(embedded)) => {
                    serve_coordinator(stream, server, &shared, embedded).await;
                }
                _ => {}
            }
        };
        if unless(loses_rights(client, server), serve).await.is_none() {
            tracing::info!(peer = %shared.peer, "a link to another node ends: it was killed, or its user lost the right");
        }
    }
}

/// Waits until the connection of a link is killed, or its user is gone or may no longer begin such a link.
async fn loses_rights(client: &mut Client, server: &Server) {
    poll_fn(|cx| {
        // Set before the check, so that a later signal wakes this task.
        client.shared.set_waker(cx.waker());
        let signals = client.shared.signals();
        let is_killed = signals & KILLED != 0;
        match is_killed || (signals & USERS_CHANGED != 0 && !client.may_stay_link(&server.acl)) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}
