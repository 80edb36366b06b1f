//! Requests that need a connection to a node of their own, or change the connection of the client: those that wait,
//! WATCH and its transaction, AUTH, HELLO, RESET, QUIT.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use hotring_cluster::Slot;
use hotring_commands::table::{CommandId, Flags, Spec, resolve};
use hotring_protocol::{ArgsView, KeptArgs, parse_i64};

use super::core::Core;
use super::transaction::Watch;
use super::{Client, Session};
use crate::link::{DialError, Link, Login, Protocol};
use crate::plan::{is_subscribing, sole_slot, write_request};
use crate::reply::{Form, Refusal, UNKNOWN, UNREACHABLE};
use crate::request::Target;
use crate::upstreams::lets_in;

/// Pause before a node is asked again.
const PAUSE: Duration = Duration::from_millis(10);

/// Time between two looks at whether a client is there that waits and has sent much behind its request.
const END_LOOK: Duration = Duration::from_millis(100);

/// Pause between two looks at what replicas have acknowledged.
const WAIT_PAUSE: Duration = Duration::from_millis(5);

impl Client {
    /// Serves a request for which the client's earlier ones have been answered.
    pub(super) async fn serve_alone(&mut self, request: &KeptArgs) -> io::Result<()> {
        let args = request.iter().next().expect("one was kept");
        let Ok(spec) = resolve(args) else { return Ok(()) };
        self.session.core.thread.shared.counters.requests.add(1);
        match spec.id {
            CommandId::Auth => self.authenticate(args).await,
            CommandId::Hello => self.greet(args).await,
            CommandId::Reset => self.session.reset(),
            CommandId::Quit => {
                self.session.answer(|writer| writer.ok());
                self.session.ends = true;
            }
            CommandId::Multi => self.try_transaction().await,
            CommandId::Watch => self.watch(args).await?,
            CommandId::Unwatch | CommandId::Discard => {
                (self.session.watch, self.session.transaction) = (None, None);
                self.session.answer(|writer| writer.ok());
            }
            CommandId::Exec => {
                self.execute_watched().await;
                self.session.drop_copies();
            }
            CommandId::Wait => self.wait_for_replicas(args).await?,
            CommandId::ClientTracking => self.track(args).await,
            CommandId::ClientTrackingInfo | CommandId::ClientGetRedir => {
                self.describe_tracking(args).await;
            }
            _ if is_subscribing(spec) => self.change_subscriptions(spec, args).await?,
            _ => {
                self.block(spec, args).await?;
                self.session.drop_copies();
            }
        }
        Ok(())
    }

    /// Tries an empty transaction, and begins one if the user may.
    async fn try_transaction(&mut self) {
        if self.session.core.thread.is_pool() {
            self.session.core.upstreams.allow_transactions();
            return self.session.begin_transaction();
        }
        let Some(node) = self.session.core.thread.node_for(Target::Any) else {
            return self.session.refuse(UNREACHABLE);
        };
        let Some(mut link) = self.dial(node).await else { return };
        let mut bytes = Vec::new();
        write_request([&b"MULTI"[..]].into_iter(), &mut bytes);
        write_request([&b"EXEC"[..]].into_iter(), &mut bytes);
        if link.send(&bytes).await.is_err() {
            return self.session.refuse(UNREACHABLE);
        }
        for _ in 0..2 {
            match link
                .next_within(Form::Resp, self.session.core.thread.shared.settings.node_timeout)
                .await
            {
                Ok(reply) if reply.starts_with(b"-") => {
                    return self.session.core.replies.answer(&reply);
                }
                Ok(_) => {}
                Err(_) => return self.session.refuse(UNREACHABLE),
            }
        }
        self.session.core.upstreams.allow_transactions();
        self.session.begin_transaction();
    }

    /// Connects to a node. Without a connection the client gets an error.
    pub(super) async fn dial(&mut self, node: usize) -> Option<Link> {
        let Session { core: Core { thread, replies, .. }, login, .. } = &self.session;
        match Link::dial(&thread.shared, &thread.address(node), login).await {
            Ok(link) => Some(link),
            Err(DialError::Refused(error)) => {
                replies.answer(&error);
                None
            }
            Err(DialError::Unreachable(_)) => {
                thread.shared.look_again();
                self.session.refuse(UNREACHABLE);
                None
            }
        }
    }

    /// Sends a request with keys of one slot over a connection of its own, and passes the reply on.
    async fn block(&mut self, spec: &Spec, args: ArgsView<'_>) -> io::Result<()> {
        let begun = Instant::now();
        let bytes = || with_time_left(spec, args, begun.elapsed());
        let Some(Ok(slot)) = sole_slot(spec, args) else { return Ok(()) };
        let is_write = spec.flags.contains(Flags::WRITE);
        let limit = Limit::Wait(time_to_wait(spec, args));
        if let Some(reply) = self.ask_own(slot, bytes, is_write, limit).await? {
            self.session.core.replies.answer(&reply);
        }
        Ok(())
    }

    /// Sends a request over a connection of its own to the node that has its slot, which may change meanwhile. None:
    /// the client has got an error.
    async fn ask_own(
        &mut self,
        slot: Slot,
        bytes: impl Fn() -> Vec<u8>,
        is_write: bool,
        limit: Limit,
    ) -> io::Result<Option<Vec<u8>>> {
        let begun = Instant::now();
        let mut until = begun + self.session.core.thread.shared.settings.retry_for;
        loop {
            let tried = match self.own_link(slot).await {
                Err(tried) => tried,
                Ok((node, link)) => {
                    let asked = Instant::now();
                    let tried = self.try_own(node, link, &bytes(), limit).await?;
                    if let Limit::Wait(_) = limit {
                        // The time in which it waits at a node does not count.
                        until += asked.elapsed();
                    }
                    tried
                }
            };
            let is_over = Instant::now() >= until;
            match tried {
                Tried::Answered(reply) => match Refusal::read(&reply) {
                    Some(Refusal::Moved(slot, address)) if !is_over => {
                        self.session.core.thread.moved(slot, address);
                    }
                    Some(Refusal::Later) if !is_over => {}
                    _ => return Ok(Some(reply)),
                },
                Tried::Lost if is_write => {
                    self.session.admit_unknown_fate();
                    return Ok(None);
                }
                Tried::Lost | Tried::Unsent if is_over || limit.has_passed(begun) => {
                    self.session.refuse(UNREACHABLE);
                    return Ok(None);
                }
                Tried::Lost | Tried::Unsent => {}
            }
            self.beside(tokio::time::sleep(PAUSE)).await?;
            self.session.core.thread.renew();
        }
    }

    /// The connection of the client's own to the node that has a slot.
    async fn own_link(&mut self, slot: Slot) -> Result<(usize, Link), Tried> {
        let Session { core: Core { thread, .. }, login, own, .. } = &mut self.session;
        let node = thread.node_for(Target::Slot(slot)).ok_or(Tried::Unsent)?;
        if let Some(kept) = own.take().filter(|(known, _)| *known == node) {
            return Ok(kept);
        }
        match Link::dial(&thread.shared, &thread.address(node), login).await {
            Ok(link) => Ok((node, link)),
            Err(DialError::Refused(error)) => Err(Tried::Answered(error)),
            Err(DialError::Unreachable(_)) => {
                thread.shared.look_again();
                Err(Tried::Unsent)
            }
        }
    }

    /// Tries a request once. Errors are those of the client's connection.
    async fn try_own(
        &mut self,
        node: usize,
        mut link: Link,
        bytes: &[u8],
        limit: Limit,
    ) -> io::Result<Tried> {
        let node_timeout = self.session.core.thread.shared.settings.node_timeout;
        let asked = async {
            link.send(bytes).await?;
            match limit {
                Limit::Reply(time) => link.next_within(Form::Resp, time).await,
                Limit::Wait(Some(time)) => {
                    link.next_within(Form::Resp, time.saturating_add(node_timeout)).await
                }
                Limit::Wait(None) => link.next().await,
            }
        };
        Ok(match self.beside(asked).await? {
            Ok(reply) => {
                self.session.own = Some((node, link));
                Tried::Answered(reply)
            }
            Err(_) => Tried::Lost,
        })
    }

    /// Does something while the client waits. An error if its connection ends first: what it waits for must not be
    /// taken from others.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        let mut work = pin!(work);
        let mut look = pin!(tokio::time::sleep(END_LOOK));
        let Client { wire, session, .. } = self;
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            while look.as_mut().poll(cx).is_ready() {
                look.as_mut().reset(tokio::time::Instant::now() + END_LOOK);
            }
            match wire.poll_ahead(&session.core, cx) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            }
        })
        .await
    }

    async fn watch(&mut self, args: ArgsView<'_>) -> io::Result<()> {
        let spec = resolve(args).expect("it was resolved before");
        let slot = match sole_slot(spec, args) {
            Some(Ok(slot)) => slot,
            Some(Err(refusal)) => {
                self.session.answer(|writer| writer.error_fmt(format_args!("{refusal}")));
                return Ok(());
            }
            None => return Ok(()),
        };
        if self.session.watch.as_ref().is_some_and(|watch| watch.slot != slot) {
            self.session.refuse("CROSSSLOT the keys that a transaction watches must have one slot");
            return Ok(());
        }
        let mut bytes = Vec::new();
        write_request(args.iter(), &mut bytes);
        let time = self.session.core.thread.shared.settings.node_timeout;
        if let Some(watch) = &mut self.session.watch {
            match watch.link.ask_within(&bytes, time).await {
                Ok(reply) => self.session.core.replies.answer(&reply),
                // EXEC finds the connection ended, and fails as after a change.
                Err(_) => self.session.answer(|writer| writer.ok()),
            }
            return Ok(());
        }
        if let Some(reply) = self.ask_own(slot, || bytes.clone(), false, Limit::Reply(time)).await?
        {
            let own = self.session.own.take().filter(|_| reply.starts_with(b"+"));
            self.session.watch = own.map(|(_, link)| Watch { slot, link });
            self.session.core.replies.answer(&reply);
        }
        Ok(())
    }

    /// Sends the transaction over the connection that watches. If that has ended, or the slot has moved, it is unknown
    /// whether the keys have changed: the transaction fails as if they had.
    async fn execute_watched(&mut self) {
        let slot = self.session.transaction_slot();
        let Some(Watch { slot: watched, mut link }) = self.session.watch.take() else { return };
        let Some((bytes, n)) = self.session.end_transaction() else { return };
        if slot.is_some_and(|slot| slot != watched) {
            return self.session.answer(|writer| {
                writer.error("CROSSSLOT the keys of a transaction and those that it watches must have one slot");
            });
        }
        let mut error = None;
        if link.send(&bytes).await.is_err() {
            return self.session.admit_unknown_fate();
        }
        let mut begins = true;
        for left in (0..n).rev() {
            let time = self.session.core.thread.shared.settings.node_timeout;
            let Ok(reply) = link.next_within(Form::Resp, time).await else {
                return self.session.admit_unknown_fate();
            };
            if left > 0 {
                let is_error = reply.starts_with(b"-");
                if !is_error && !begins {
                    // The node has refused MULTI, and has done this.
                    return self.session.admit_unknown_fate();
                }
                begins &= left < n - 1 || !is_error;
                error = error.or(is_error.then_some(reply));
                continue;
            }
            let decisive = error.as_ref().filter(|_| reply.starts_with(b"-")).unwrap_or(&reply);
            match Refusal::read(decisive) {
                Some(_) => self.session.answer(|writer| writer.null_array()),
                None if !begins => self.session.core.replies.answer(decisive),
                None => self.session.core.replies.answer(&reply),
            }
        }
    }

    async fn authenticate(&mut self, args: ArgsView<'_>) {
        let (user, password) = match args.len() {
            2 if self.session.core.thread.upstreams(&self.session.without_login()).is_open() => {
                return self.session.answer(|writer| {
                    writer.error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?");
                });
            }
            2 => (&b"default"[..], args.at(1)),
            3 => (args.at(1), args.at(2)),
            _ => return self.session.answer(|writer| writer.error("ERR syntax error")),
        };
        let login = Login { user: Some((user.to_vec(), password.to_vec())), ..self.session.login };
        if self.log_in(login).await {
            self.session.answer(|writer| writer.ok());
        }
    }

    /// Has a node check a login, and uses it from then on. Otherwise the client has got the error.
    async fn log_in(&mut self, mut login: Login) -> bool {
        let Session { watch, subscriptions, tracking, .. } = &self.session;
        if watch.is_some() || subscriptions.is_any() || tracking.is_some() {
            // Their connections act as the earlier user, and speak as before.
            self.session.refuse(
                "ERR end WATCH, CLIENT TRACKING and all subscriptions before AUTH and HELLO",
            );
            return false;
        }
        let open = Login { user: None, ..login.clone() };
        let is_default = login.user.as_ref().is_some_and(|(name, _)| name == b"default");
        if is_default && self.session.core.thread.upstreams(&open).is_open() {
            // Any password would do.
            login = open;
        }
        if !self.session.core.thread.may_add_user(&login) {
            self.session.refuse("ERR too many users use this proxy at once");
            return false;
        }
        if self.session.core.thread.is_pool() {
            let lets_in = lets_in(&self.session.core.thread.shared, &login);
            match lets_in {
                true => {
                    self.session.use_login(login);
                    self.session.core.upstreams.open();
                }
                false => {
                    self.session
                        .refuse("WRONGPASS invalid username-password pair or user is disabled.");
                }
            }
            return lets_in;
        }
        let Some(node) = self.session.core.thread.node_for(Target::Any) else {
            self.session.refuse(UNREACHABLE);
            return false;
        };
        let before = std::mem::replace(&mut self.session.login, login.clone());
        if self.dial(node).await.is_none() {
            self.session.login = before;
            return false;
        }
        self.session.use_login(login);
        self.session.core.upstreams.open();
        true
    }

    async fn greet(&mut self, args: ArgsView<'_>) {
        let mut login = self.session.login.clone();
        if let Some(version) = args.get(1) {
            match parse_i64(version) {
                Some(2) => login.protocol = Protocol::Resp2,
                Some(3) => login.protocol = Protocol::Resp3,
                Some(_) => {
                    return self
                        .session
                        .answer(|w| w.error("NOPROTO unsupported protocol version"));
                }
                None => {
                    return self.session.answer(|writer| {
                        writer.error("ERR Protocol version is not an integer or out of range");
                    });
                }
            }
        }
        let mut name = None;
        let mut at = 2;
        while let Some(option) = args.get(at) {
            match (option.to_ascii_lowercase().as_slice(), args.get(at + 1), args.get(at + 2)) {
                (b"auth", Some(user), Some(password)) => {
                    login.user = Some((user.to_vec(), password.to_vec()));
                    at += 3;
                }
                (b"setname", Some(given), _) => {
                    name = Some(given.to_vec());
                    at += 2;
                }
                _ => {
                    return self.session.answer(|writer| {
                        writer.error("ERR Syntax error in HELLO option");
                    });
                }
            }
        }
        match login == self.session.login {
            // The nodes' answer to those who have not logged in.
            true if !self.session.core.upstreams.is_open() => {
                let error = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
                return self.session.refuse(error);
            }
            true => {}
            false if self.log_in(login).await => {}
            false => return,
        }
        if let Some(name) = name {
            self.session.name = name;
        }
        let id = self.session.id as i64;
        self.session.answer(|writer| {
            writer.map(7);
            writer.bulk(b"server");
            writer.bulk(b"redis");
            writer.bulk(b"version");
            writer.bulk(crate::info::REDIS_VERSION.as_bytes());
            writer.bulk(b"proto");
            let is_resp3 = writer.version() == hotring_protocol::Version::Resp3;
            writer.int(if is_resp3 { 3 } else { 2 });
            writer.bulk(b"id");
            writer.int(id);
            writer.bulk(b"mode");
            writer.bulk(b"standalone");
            writer.bulk(b"role");
            writer.bulk(b"master");
            writer.bulk(b"modules");
            writer.array(0);
        });
    }

    /// WAIT: the smallest number of replicas, over all nodes to which the client has written.
    async fn wait_for_replicas(&mut self, args: ArgsView<'_>) -> io::Result<()> {
        let (Some(n @ 0..), Some(timeout @ 0..)) = (parse_i64(args.at(1)), parse_i64(args.at(2)))
        else {
            let error = "ERR value is not an integer or out of range";
            self.session.answer(|writer| writer.error(error));
            return Ok(());
        };
        let begun = Instant::now();
        loop {
            let least = self.session.replicas().await;
            let is_over = timeout > 0 && begun.elapsed().as_millis() >= timeout as u128;
            if least >= n || is_over || self.session.core.replies.written().is_empty() {
                self.session.answer(|writer| writer.int(least));
                return Ok(());
            }
            self.beside(tokio::time::sleep(WAIT_PAUSE)).await?;
        }
    }
}

/// Where a request names its time to wait.
fn time_at(spec: &Spec, args: ArgsView<'_>) -> usize {
    match spec.id {
        CommandId::BLMPop | CommandId::BZMPop => 1,
        CommandId::WaitKey => 2,
        _ => args.len() - 1,
    }
}

/// How long a request may wait at its node, if not for ever.
fn time_to_wait(spec: &Spec, args: ArgsView<'_>) -> Option<Duration> {
    let time: f64 = std::str::from_utf8(args.at(time_at(spec, args))).ok()?.parse().ok()?;
    let secs = if spec.id == CommandId::WaitKey { time / 1000.0 } else { time };
    Duration::try_from_secs_f64(secs).ok().filter(|time| !time.is_zero())
}

/// The request with what is left of its time to wait.
fn with_time_left(spec: &Spec, args: ArgsView<'_>, passed: Duration) -> Vec<u8> {
    let at = time_at(spec, args);
    let left = time_to_wait(spec, args).map(|time| time.saturating_sub(passed));
    let left = left.map(|left| match spec.id {
        CommandId::WaitKey => format!("{}", left.as_millis().max(1)),
        _ => format!("{:.3}", left.as_secs_f64().max(0.001)),
    });
    let left = left.filter(|_| passed.as_millis() > 0);
    let mut words: Vec<&[u8]> = args.iter().collect();
    if let Some(left) = &left {
        words[at] = left.as_bytes();
    }
    let mut bytes = Vec::new();
    write_request(words.into_iter(), &mut bytes);
    bytes
}

/// How long a request on a connection of its own may take.
#[derive(Clone, Copy)]
enum Limit {
    /// Each reply must come within this time.
    Reply(Duration),
    /// The node waits for so long, or until something happens, and then replies as soon as to other requests.
    Wait(Option<Duration>),
}

impl Limit {
    /// Whether a client that waits has waited for long enough.
    fn has_passed(self, begun: Instant) -> bool {
        matches!(self, Limit::Wait(Some(time)) if begun.elapsed() >= time)
    }
}

/// What became of a request on a connection of its own.
enum Tried {
    Answered(Vec<u8>),
    /// The connection ended before the reply.
    Lost,
    /// There was no connection.
    Unsent,
}

impl Session {
    pub(super) fn refuse(&self, text: &str) {
        self.answer(|writer| writer.error(text));
    }

    /// Tells the client that the fate of its write is unknown.
    fn admit_unknown_fate(&self) {
        self.core.thread.shared.counters.unknown.add(1);
        self.refuse(UNKNOWN);
    }

    /// The login of the default user without a password, in the present version of the protocol.
    fn without_login(&self) -> Login {
        Login { user: None, ..self.login.clone() }
    }

    /// Has the client share the connections of a user.
    pub(super) fn use_login(&mut self, login: Login) {
        self.core.use_upstreams(self.core.thread.upstreams(&login));
        self.end_tracking();
        (self.login, self.own) = (login, None);
    }

    fn reset(&mut self) {
        (self.transaction, self.watch) = (None, None);
        self.subscriptions.clear();
        self.name.clear();
        self.use_login(Login::default());
        self.answer(|writer| writer.simple("RESET"));
    }

    /// The smallest number of replicas that have the client's writes; 0 if a connection of theirs has ended.
    async fn replicas(&self) -> i64 {
        let mut bytes = Vec::new();
        // Answers at once, as of the last write of the connection.
        write_request([&b"WAIT"[..], b"0", b"1"].into_iter(), &mut bytes);
        let mut least = None;
        for (node, connection) in self.core.replies.written() {
            let upstream = self.core.upstreams.upstream(&self.core.thread, node);
            let is_known = upstream.connection() == connection;
            let ask = || self.core.thread.ask(&self.core.upstreams, node, &bytes);
            let reply = if is_known { ask().first().await } else { Vec::new() };
            let number = reply.strip_prefix(b":").and_then(|line| parse_i64(line.trim_ascii()));
            let number = number.filter(|_| upstream.connection() == connection).unwrap_or(0);
            least = Some(least.map_or(number, |least: i64| least.min(number)));
        }
        least.unwrap_or(0)
    }
}
