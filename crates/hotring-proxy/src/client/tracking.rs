//! CLIENT TRACKING and its kin.

use std::rc::Rc;

use hotring_protocol::ArgsView;

use super::{Client, Session};
use crate::plan::write_request;
use crate::reply::UNREACHABLE;
use crate::request::Target;
use crate::tracking::{Tracking, ask_all};
use crate::upstreams::Upstreams;

/// Limit of the bytes of all that was asked: prefixes add up.
const ASKED_MAX: usize = 64 << 10;

/// What a client that keeps copies has asked for.
pub(super) struct Asked {
    /// Its requests, as many as still count.
    requests: Vec<u8>,
    n: usize,
    /// The word that CLIENT CACHING takes, if it takes one.
    caching: Option<&'static [u8]>,
    tracking: Rc<Tracking>,
}

/// A request to begin.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted<'a> {
    /// Its words without OPTIN and OPTOUT: nodes note everything that the client reads. They would have to be told in
    /// front of each request otherwise.
    words: Vec<&'a [u8]>,
    is_broadcast: bool,
    redirects: bool,
    caching: Option<&'static [u8]>,
}

impl<'a> Wanted<'a> {
    fn read(args: ArgsView<'a>) -> Self {
        let mut wanted = Wanted { words: args.iter().take(3).collect(), ..Wanted::default() };
        let mut words = args.tail(3.min(args.len())).iter();
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"optin" => wanted.caching = Some(b"yes"),
                b"optout" => wanted.caching = Some(b"no"),
                b"prefix" => wanted.words.extend([word].into_iter().chain(words.next())),
                option => {
                    wanted.is_broadcast |= option == b"bcast";
                    wanted.redirects |= option == b"redirect";
                    wanted.words.push(word);
                }
            }
        }
        wanted
    }
}

impl Client {
    /// CLIENT TRACKING.
    pub(super) async fn track(&mut self, args: ArgsView<'_>) {
        if args.at(2).eq_ignore_ascii_case(b"off") {
            if self.session.tracking.is_some() {
                self.session.use_login(self.session.login.clone());
            }
            return self.session.answer(|writer| writer.ok());
        }
        let wanted = Wanted::read(args);
        if !self.session.is_resp3() || wanted.redirects {
            return self.session.refuse("ERR a proxy sends messages about changed keys on the connection of the client itself: use RESP3 (HELLO 3), without REDIRECT");
        }
        let (mut requests, mut setup, mut n) = (Vec::new(), Vec::new(), 1);
        if let Some(before) = &self.session.tracking {
            requests.extend_from_slice(&before.requests);
            setup.extend_from_slice(&before.tracking.setup);
            n += before.n;
        }
        write_request(args.iter(), &mut requests);
        write_request(wanted.words.iter().copied(), &mut setup);
        if requests.len() > ASKED_MAX {
            return self.session.refuse("ERR too many prefixes for a proxy");
        }
        // A node knows what goes together, and whether the user may.
        let Some(reply) = self.ask_apart(&requests, n).await else { return };
        if reply.starts_with(b"-") {
            return self.session.core.replies.answer(&reply);
        }
        if !wanted.is_broadcast {
            // Only prefixes add up.
            (requests, setup, n) = (Vec::new(), Vec::new(), 1);
            write_request(args.iter(), &mut requests);
            write_request(wanted.words.iter().copied(), &mut setup);
        }
        let replies = self.session.core.replies.clone();
        let tracking = Tracking::new(setup, n, wanted.is_broadcast, replies);
        let asked = Asked { requests, n, caching: wanted.caching, tracking };
        self.session.begin_tracking(asked).await;
    }

    /// CLIENT TRACKINGINFO and CLIENT GETREDIR: what a node answers that is asked for the same.
    pub(super) async fn describe_tracking(&mut self, args: ArgsView<'_>) {
        let (mut requests, mut n) = (Vec::new(), 1);
        if let Some(asked) = &self.session.tracking {
            requests.extend_from_slice(&asked.requests);
            n += asked.n;
        }
        write_request(args.iter(), &mut requests);
        if let Some(reply) = self.ask_apart(&requests, n).await {
            self.session.core.replies.answer(&reply);
        }
    }

    /// Asks any node over a connection of its own. Without a reply the client gets an error.
    async fn ask_apart(&mut self, requests: &[u8], n: usize) -> Option<Vec<u8>> {
        if let Some(error) = self.session.access_error() {
            self.session.refuse(error);
            return None;
        }
        let Some(node) = self.session.core.thread.node_for(Target::Any) else {
            self.session.refuse(UNREACHABLE);
            return None;
        };
        let mut link = self.dial(node).await?;
        let time = self.session.core.thread.shared.settings.node_timeout;
        match tokio::time::timeout(time, ask_all(&mut link, requests, n)).await {
            Ok(Ok(reply)) => Some(reply),
            _ => {
                self.session.refuse(UNREACHABLE);
                None
            }
        }
    }
}

impl Session {
    /// Gives the client connections of its own.
    async fn begin_tracking(&mut self, asked: Asked) {
        let thread = self.core.thread.clone();
        if self.tracking.is_none() && !thread.trackers.has_room() {
            return self.refuse("ERR too many clients of this proxy keep copies at once");
        }
        let tracking = asked.tracking.clone();
        let upstreams = Upstreams::tracking(&self.core.upstreams, tracking.clone());
        // First, so that a node that falls silent now is given up.
        thread.trackers.add(&upstreams);
        if tracking.is_broadcast {
            let pings: Vec<_> = thread
                .primaries()
                .into_iter()
                .map(|node| thread.ask(&upstreams, node, b"PING\r\n"))
                .collect();
            for ping in pings {
                if ping.first().await.starts_with(b"-") {
                    return self.refuse(UNREACHABLE);
                }
            }
        }
        self.core.use_upstreams(upstreams);
        let tracked = self.end_tracking();
        self.tracking = Some(asked);
        tracking.is_on.set(true);
        self.answer(|writer| writer.ok());
        if tracked {
            // The connections over which they were read end.
            tracking.drop_all();
        }
    }

    /// Sends no more messages. True: it was on.
    pub(super) fn end_tracking(&mut self) -> bool {
        let ended = self.tracking.take();
        ended.inspect(|asked| asked.tracking.is_on.set(false)).is_some()
    }

    /// CLIENT CACHING. The next request needs no exception, as nodes note more than is asked for.
    pub(super) fn allow_copy(&self, args: ArgsView<'_>) {
        let caching = self.tracking.as_ref().and_then(|asked| asked.caching);
        match caching.is_some_and(|word| args.at(2).eq_ignore_ascii_case(word)) {
            true => self.answer(|writer| writer.ok()),
            false => self.refuse("ERR CLIENT CACHING YES is for clients that track with OPTIN, and CLIENT CACHING NO for those with OPTOUT"),
        }
    }

    /// Has the client drop all copies, after it has read something over another connection than those that are tracked.
    pub(super) fn drop_copies(&self) {
        if let Some(asked) = &self.tracking {
            asked.tracking.drop_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use hotring_protocol::{Args, Decoder, Limits};

    use super::*;

    #[test]
    fn words_of_a_request_are_told_from_prefixes() {
        for (line, words, is_broadcast, redirects, caching) in [
            (
                "CLIENT TRACKING ON OPTIN NOLOOP",
                "CLIENT TRACKING ON NOLOOP",
                false,
                false,
                Some("yes"),
            ),
            ("CLIENT TRACKING on optout", "CLIENT TRACKING on", false, false, Some("no")),
            (
                "CLIENT TRACKING ON PREFIX optin BCAST PREFIX redirect",
                "CLIENT TRACKING ON PREFIX optin BCAST PREFIX redirect",
                true,
                false,
                None,
            ),
            ("CLIENT TRACKING ON REDIRECT 5", "CLIENT TRACKING ON REDIRECT 5", false, true, None),
            ("CLIENT TRACKING ON PREFIX", "CLIENT TRACKING ON PREFIX", false, false, None),
        ] {
            let input = format!("{line}\r\n").into_bytes();
            let (mut decoder, mut args) = (Decoder::new(), Args::new());
            decoder.decode(&input, &Limits::default(), &mut args).unwrap();
            let wanted = Wanted::read(args.view(&input));
            assert_eq!(wanted.words.join(&b" "[..]), words.as_bytes(), "{line}");
            let caching = caching.map(str::as_bytes);
            assert_eq!(
                (wanted.is_broadcast, wanted.redirects),
                (is_broadcast, redirects),
                "{line}"
            );
            assert_eq!(wanted.caching, caching, "{line}");
        }
    }
}
