//! Commands that the proxy answers by itself: those about the connection, and about the proxy.

use hotring_cluster::slot_of;
use hotring_commands::table::{CommandId, Spec};
use hotring_protocol::{ArgsView, parse_i64};

use super::Session;
use super::core::Flow;
use crate::info;
use crate::reply::UNREACHABLE;

impl Session {
    pub(super) fn answer_here(&mut self, spec: &Spec, args: ArgsView<'_>) -> Flow {
        if let Some(error) = self.access_error() {
            self.answer(|writer| writer.error(error));
            return Flow::Done;
        }
        match spec.id {
            // Without these rights its commands would be executed one by one.
            CommandId::Multi if !self.core.upstreams.may_transact() => return Flow::Alone,
            CommandId::Multi => self.begin_transaction(),
            CommandId::Exec => self.answer(|writer| writer.error("ERR EXEC without MULTI")),
            CommandId::Discard => self.answer(|writer| writer.error("ERR DISCARD without MULTI")),
            CommandId::Ping => self.ping(args),
            CommandId::Echo => self.answer(|writer| writer.bulk(args.at(1))),
            CommandId::Select => match parse_i64(args.at(1)) {
                Some(0) => self.answer(|writer| writer.ok()),
                Some(_) => self.answer(|writer| {
                    writer.error("ERR DB index is out of range: a cluster has database 0 alone");
                }),
                None => self
                    .answer(|writer| writer.error("ERR value is not an integer or out of range")),
            },
            CommandId::ClientId => self.answer(|writer| writer.int(self.id as i64)),
            CommandId::ClientGetName if self.name.is_empty() => self.answer(|writer| writer.null()),
            CommandId::ClientGetName => self.answer(|writer| writer.bulk(&self.name)),
            CommandId::ClientSetName => self.set_name(args.at(2)),
            CommandId::ClientInfo | CommandId::ClientList => {
                let line = self.describe();
                self.answer(|writer| writer.verbatim("txt", &line));
            }
            CommandId::ClientCaching => self.allow_copy(args),
            CommandId::ClientReply if !args.at(2).eq_ignore_ascii_case(b"on") => {
                self.answer(|writer| {
                    writer.error("ERR CLIENT REPLY OFF and SKIP do not work through a proxy");
                })
            }
            CommandId::Info => {
                let text = info::text(&self.core.thread);
                self.answer(|writer| writer.verbatim("txt", &text));
            }
            CommandId::AclWhoAmI => self.answer(|writer| writer.bulk(b"default")),
            // A pool has no settings of its own that Redis's clients know.
            CommandId::ConfigGet => self.answer(|writer| writer.map(0)),
            CommandId::Role => self.answer(|writer| {
                writer.array(3);
                writer.bulk(b"master");
                writer.int(0);
                writer.array(0);
            }),
            _ => self.answer(|writer| writer.ok()),
        }
        Flow::Done
    }

    /// Why the proxy itself answers this client nothing, as a node would not.
    pub(super) fn access_error(&self) -> Option<&'static str> {
        match (self.core.upstreams.is_open(), self.core.upstreams.is_known()) {
            (true, _) => None,
            (false, true) => Some("NOAUTH Authentication required."),
            (false, false) => Some(UNREACHABLE),
        }
    }

    fn ping(&self, args: ArgsView<'_>) {
        let message = args.get(1);
        self.answer(|writer| match message {
            // RESP2 has messages alone while a client is subscribed.
            _ if self.subscriptions.is_any() && !self.is_resp3() => {
                writer.array(2);
                writer.bulk(b"pong");
                writer.bulk(message.unwrap_or_default());
            }
            Some(message) => writer.bulk(message),
            None => writer.simple("PONG"),
        });
    }

    pub(super) fn set_name(&mut self, name: &[u8]) {
        if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
            self.name = name.to_vec();
            self.answer(|writer| writer.ok());
        } else {
            self.answer(|writer| {
                writer.error(
                    "ERR Client names cannot contain spaces, newlines or special characters.",
                );
            });
        }
    }

    fn describe(&self) -> String {
        let Session { id, peer, name, .. } = self;
        let user = self.login.user.as_ref().map_or(&b"default"[..], |(name, _)| name);
        format!(
            "id={id} addr={peer} name={} db=0 user={} resp={}\n",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(user),
            if self.is_resp3() { 3 } else { 2 },
        )
    }

    /// `ROUTE key`: the slot of a key, and the addresses of the primary and the replicas that have it.
    pub(super) fn route(&mut self, args: ArgsView<'_>) -> Flow {
        if let Some(error) = self.access_error() {
            self.answer(|writer| writer.error(error));
            return Flow::Done;
        }
        if args.len() != 2 {
            self.answer(|writer| writer.error("ERR wrong number of arguments for 'route' command"));
            return Flow::Done;
        }
        let slot = slot_of(args.at(1));
        let layout = self.core.thread.layout();
        self.answer(|writer| match layout.shard_of(slot) {
            Some(shard) => {
                writer.array(2 + shard.replicas.len());
                writer.int(slot.into());
                writer.bulk(shard.primary.as_bytes());
                shard.replicas.iter().for_each(|replica| writer.bulk(replica.as_bytes()));
            }
            None => writer.error("CLUSTERDOWN Hash slot not served"),
        });
        Flow::Done
    }
}
