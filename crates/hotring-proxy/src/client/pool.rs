//! What differs for clients of a pool: commands that need servers which know of each other, and `POOL`.

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

    /// `POOL RELOAD [COPY]` reads the pool's file again, and copies the keys of moved slots; `POOL COPY STOP` ends it.
    pub(super) fn change_pool(&mut self, args: ArgsView<'_>) -> Flow {
        let done = self.try_to_change_pool(args);
        self.answer(|writer| match done {
            Ok(()) => writer.ok(),
            Err(error) => writer.error(error.replace(['\r', '\n'], " ")),
        });
        Flow::Done
    }

    fn try_to_change_pool(&self, args: ArgsView<'_>) -> Result<(), String> {
        let shared = &self.core.thread.shared;
        let Some(pool) = &shared.foreign else { return Ok(()) };
        if let Some(error) = self.access_error() {
            return Err(error.to_string());
        }
        if !may_change(shared.settings.clients_password.is_some(), &self.peer) {
            return Err("NOPERM without --clients-password-file POOL is for clients on the proxy's own machine".to_string());
        }
        let words: Vec<_> = args.tail(1).iter().map(<[u8]>::to_ascii_uppercase).collect();
        let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
        match words[..] {
            [b"RELOAD"] | [b"RELOAD", b"COPY"] => {
                let (copies, may_use_tls) = (words.len() == 2, shared.tls.is_some());
                let read = pool.reload(copies, may_use_tls, |layout| shared.publish(layout));
                read.map_err(|why| format!("ERR nothing is changed: {why}"))
            }
            [b"COPY", b"STOP"] => match pool.copying() {
                Some(copying) => {
                    copying.stop();
                    Ok(())
                }
                None => Err("ERR no keys are being copied".to_string()),
            },
            _ => Err("ERR write POOL RELOAD, POOL RELOAD COPY or POOL COPY STOP; INFO shows the servers and the copy".to_string()),
        }
    }
}

/// Whether a client that the proxy has let in may change the pool: with a password from anywhere, as whatever else
/// clients may do, otherwise from the own machine.
fn may_change(has_password: bool, peer: &str) -> bool {
    let is_local = |peer: SocketAddr| peer.ip().to_canonical().is_loopback();
    has_password || peer.parse().is_ok_and(is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_decides_who_may_change_a_pool_or_else_the_machine() {
        for local in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.9]:1"] {
            assert!(may_change(false, local), "{local}");
        }
        for other in ["10.0.0.1:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1", ""] {
            assert!(may_change(true, other) && !may_change(false, other), "{other}");
        }
    }
}
