//! The reply to a request, and the messages that must be sent before the reply.

use std::sync::atomic::Ordering;

use hotring_protocol::Version;

use super::shared::MESSAGES;
use super::{Client, MUTES};
use crate::acl::Acl;
use crate::state::subscriptions::is_confirmed;
use crate::table::{CommandId, Spec};

/// Messages to send before the reply of a transaction.
#[derive(Debug)]
pub(super) struct Before {
    messages: Vec<u8>,
    /// The connection had subscriptions when the transaction began.
    listened: bool,
    /// The protocol version at that time, which is also the version of the reply.
    version: Version,
}

/// The mode of CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    All,
    None,
    /// Drop the reply to the next request.
    AllButNext,
    /// Drop the reply to this request.
    AllButThis,
}

impl Client {
    /// Sets the mode of CLIENT REPLY.
    pub(crate) fn want_replies(&mut self, replies: Replies) {
        self.mark(MUTES, replies != Replies::All);
        self.replies = replies;
    }

    /// The mode of CLIENT REPLY.
    pub(crate) fn replies(&self) -> Replies {
        self.replies
    }

    /// Begins a request.
    pub(crate) fn begin_request(&mut self) {
        self.before_len = 0;
        self.has_waited_for_script = false;
        if self.replies == Replies::AllButNext {
            self.replies = Replies::AllButThis;
        }
    }

    /// Ends a request, unless it waits; `spec` is None for an invalid request and at the end of a wait. The reply is in
    /// `out[start..]`, after any messages. CLIENT REPLY may drop the reply; messages and confirmations of subscriptions
    /// stay.
    pub(crate) fn end_request(&mut self, spec: Option<&Spec>, start: usize, out: &mut Vec<u8>) {
        if self.wait.is_some() {
            return;
        }
        self.end_caching(spec);
        let start = start + self.before_len;
        let is_confirmed = spec.is_some_and(|spec| is_confirmed(spec.id));
        // Otherwise the reply is an error or QUEUED.
        let comes_anyway = is_confirmed && matches!(out.get(start), Some(b'>' | b'*'));
        if self.replies != Replies::All && !comes_anyway {
            out.truncate(start);
        }
        if self.replies == Replies::AllButThis {
            self.want_replies(Replies::All);
        }
    }

    /// Ends the effect of CLIENT CACHING, which applies to one request or one entire transaction.
    fn end_caching(&mut self, spec: Option<&Spec>) {
        let is_about_connection = spec.is_some_and(|spec| spec.parent == Some(CommandId::Client));
        if let Some(tracking) = &mut self.tracking
            && !is_about_connection
            && !self.transaction.is_open()
        {
            tracking.caching = false;
        }
    }

    /// Appends the messages that have arrived; true if they show that keys were written.
    pub(crate) fn fetch_messages(&self, out: &mut Vec<u8>) -> bool {
        // A connection that is being closed may have lost the right to the messages.
        self.shared.signals() & MESSAGES != 0 && self.closing.is_none() && self.shared.fetch(out)
    }

    /// Moves the messages that have arrived to before the reply, which must not have begun. Called when a subscription
    /// or tracking has ended: none of its messages may follow the reply. Must be called before the subscriptions are
    /// removed from the client, because users may have changed and the check of their rights needs the subscriptions.
    pub(crate) fn end_messages(&mut self, listens: bool, acl: &Acl, out: &mut Vec<u8>) {
        let mut messages = Vec::new();
        while !self.shared.end_messages(listens, &mut messages) {
            if !self.renew_access(acl) {
                return;
            }
        }
        self.put_before(&messages, out);
    }

    /// Puts messages before the reply, which must not have begun, or before the reply of the entire transaction.
    fn put_before(&mut self, messages: &[u8], out: &mut Vec<u8>) {
        match &mut self.before {
            // The client does not know yet of its subscription or of the new version: it would take a message for a
            // reply.
            Some(before) if before.version != self.version => {}
            Some(before) if self.version == Version::Resp2 && !before.listened => {}
            Some(before) => before.messages.extend_from_slice(messages),
            None => {
                out.extend_from_slice(messages);
                self.before_len += messages.len();
            }
        }
    }

    /// Begins the run of a transaction (EXEC).
    pub(crate) fn begin_exec(&mut self) {
        let listened = self.subscriptions.len() > 0;
        self.before = Some(Before { messages: Vec::new(), listened, version: self.version });
    }

    /// Limits the messages before a transaction's reply to `len_max` bytes. If they are longer, drops them and returns
    /// false.
    pub(crate) fn check_before(&mut self, len_max: usize) -> bool {
        let Some(before) = &mut self.before else { return true };
        let fits = before.messages.len() <= len_max;
        if !fits {
            before.messages = Vec::new();
        }
        fits
    }

    /// Ends the run of a transaction, whose reply is `out[start..]`.
    pub(crate) fn end_exec(&mut self, start: usize, out: &mut Vec<u8>) {
        let messages = self.before.take().map(|before| before.messages).unwrap_or_default();
        self.before_len += messages.len();
        drop(out.splice(start..start, messages));
    }

    /// Sets the protocol version. Messages that have arrived are encoded in the previous version and go before the
    /// reply.
    pub(crate) fn speak(&mut self, version: Version, acl: &Acl, out: &mut Vec<u8>) {
        if version != self.version {
            let mut messages = Vec::new();
            while !self.shared.change_version(version, &mut messages) {
                if !self.renew_access(acl) {
                    return;
                }
            }
            self.put_before(&messages, out);
        }
        self.version = version;
        let number = if version == Version::Resp3 { 3 } else { 2 };
        // ORDERING: Relaxed here and for every other figure of `ClientShared`: each is only displayed, and none
        // guards other memory.
        self.shared.protocol.store(number, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{ClientShared, Closing};
    use super::*;

    /// The messages that each UNSUBSCRIBE of a transaction takes out of the inbox were once bounded by nothing.
    #[test]
    fn messages_before_the_reply_of_a_transaction_are_bounded() {
        let acl = Acl::new(&Default::default());
        let shared = Arc::new(ClientShared::new(1, String::new(), String::new(), 0, 0));
        let mut client = Client::new(shared.clone(), &acl);
        let mut out = Vec::new();
        client.speak(Version::Resp3, &acl, &mut out);
        let end = |client: &mut Client, out: &mut Vec<u8>| {
            shared.deliver(0, |message| message.simple("news"));
            client.end_messages(false, &acl, out);
        };
        client.begin_exec();
        end(&mut client, &mut out);
        assert!(client.check_before(7) && !client.check_before(6));
        end(&mut client, &mut out);
        client.speak(Version::Resp2, &acl, &mut out);
        end(&mut client, &mut out);
        client.end_exec(0, &mut out);
        assert_eq!(
            out, b"+news\r\n",
            "what was too much is forgotten, and what is in another version"
        );
        // A connection that is being closed may have lost the right to the messages.
        shared.deliver(0, |message| message.simple("news"));
        client.closing = Some(Closing::Killed);
        client.fetch_messages(&mut out);
        assert_eq!(out, b"+news\r\n");
    }
}
