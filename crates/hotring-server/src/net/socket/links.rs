//! Connections that serve another node instead of a client.

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Socket, Thread};
use crate::tasks::cluster::connect::serve_coordinator;
use crate::tasks::replicate::feed;
use hotring_commands::state::client::Closing;

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Serves another node instead of a client, if that has asked for it.
    pub(super) async fn become_link(&mut self) {
        let client = &self.conversation.client.shared;
        let Thread { server, embedded, .. } = &*self.thread;
        match (self.conversation.client.closing, embedded) {
            (Some(Closing::BecomesLink(port)), _) => {
                feed::serve(&mut self.stream, server, client, port).await;
            }
            (Some(Closing::BecomesCoordination), Some(embedded)) => {
                serve_coordinator(&mut self.stream, server, client, embedded).await;
            }
            _ => {}
        }
    }
}
