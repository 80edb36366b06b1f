//! What differs for clients of a pool: commands that need servers which know of each other, and `POOL RELOAD`.

use std::net::SocketAddr;

use hotring_commands::table::{CommandId, Flags, Group, Spec};
use hotring_protocol::ArgsView;

use super::Session;
use super::core::Flow;
use crate::plan::is_subscribing;

/// Why nothing is flushed now.
pub(super) const FLUSH_LATER: &str =
    "keys are being copied: flush the pool once INFO shows that the copy has ended";

impl Session {
    /// Why a command does not work for this client of a pool.
    pub(super) fn pool_error(&self, spec: &Spec) -> Option<String> {
        use CommandId::{Auth, Hello, Quit, Reset};
        if let Some(error) = self.access_error()
            && !matches!(spec.id, Auth | Hello | Quit | Reset)
        {
            return Some(error.to_string());
        }
        let is_copying = || self.core.thread.copying().is_some();
        let why = match spec.id {
            // Keys on their way would come back.
            CommandId::FlushAll | CommandId::FlushDb if is_copying() => {
                return Some(format!("ERR {FLUSH_LATER}"));
            }
            _ if spec.group == Group::PubSub || is_subscribing(spec) => {
                "its servers pass no messages on to each other"
            }
            CommandId::Watch | CommandId::Wait | CommandId::WaitAof => {
                "its keys may go to another server meanwhile"
            }
            _ if spec.flags.contains(Flags::BLOCKING) => {
                "its keys may go to another server meanwhile"
            }
            CommandId::Scan if self.core.thread.has_memcached() => {
                "memcached does not list its keys page by page"
            }
            _ => return None,
        };
        Some(format!("ERR {} does not work over this pool: {why}", spec.name))
    }

    /// `POOL RELOAD [COPY]`: reads the pool's file again, and copies the keys of moved slots.
    pub(super) fn read_pool_again(&mut self, args: ArgsView<'_>) -> Flow {
        let is =
            |at: usize, word: &[u8]| args.get(at).is_some_and(|it| it.eq_ignore_ascii_case(word));
        let is_local = |peer: SocketAddr| peer.ip().to_canonical().is_loopback();
        let copies = is(2, b"COPY");
        let thread = self.core.thread.clone();
        let error = match (self.access_error(), &thread.shared.foreign) {
            (Some(error), _) => Err(error.to_string()),
            _ if !is(1, b"RELOAD") || args.len() > 2 + usize::from(copies) => {
                Err("ERR write POOL RELOAD or POOL RELOAD COPY; INFO pool shows the servers"
                    .to_string())
            }
            _ if !self.peer.parse().is_ok_and(is_local) => {
                Err("NOPERM POOL RELOAD is for clients on the proxy's own machine".to_string())
            }
            (None, Some(pool)) => {
                let (shared, may_use_tls) = (&thread.shared, thread.shared.tls.is_some());
                let read = pool.reload(copies, may_use_tls, |layout| shared.publish(layout));
                read.map_err(|why| format!("ERR nothing is changed: {why}"))
            }
            (None, None) => Ok(()),
        };
        self.answer(|writer| match error {
            Ok(()) => writer.ok(),
            Err(error) => writer.error(error.replace(['\r', '\n'], " ")),
        });
        Flow::Done
    }
}
