//! A client of memcached's protocol. Its requests go to nodes as they are, over connections that speak memcached's
//! protocol after a login in Redis's, and to a pool's servers as the proxy writes them.
//!
//! A request that asks not to be answered is followed by a `mn`, whose reply shows where its own would end.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Instant;

use hotring_cluster::{Slot, slot_of};
use hotring_protocol::memcached::{
    Command, Data, Decoded, Decoder, Limits, MetaFlags, MetaKey, ReplyForm, Request as Parsed,
    is_quiet,
};
use hotring_protocol::{ArgsView, Version};

use super::core::{Core, Flow};
use super::pool::FLUSH_LATER;
use super::wire::Wire;
use crate::combine::Combine;
use crate::info;
use crate::link::{Connection, Login, Protocol};
use crate::reply::{Form, MARK};
use crate::request::{Request, Target};
use crate::thread::Thread;

/// The byte that each request of memcached's binary protocol begins with.
const BINARY: u8 = 0x80;

/// A client of memcached's protocol.
pub(crate) struct Client {
    wire: Wire,
    decoder: Decoder,
    parsed: Parsed,
    core: Core,
    ends: bool,
}

/// What a client does next.
enum Step {
    Receive,
    Wait,
    End,
}

impl Client {
    pub(crate) fn new(stream: Box<dyn Connection>, thread: Rc<Thread>) -> Self {
        let user = thread.shared.settings.memcached_login.clone();
        let user = user.map(|(name, password)| (name.into_bytes(), password.into_bytes()));
        let core = Core::new(thread, &Login { user, protocol: Protocol::Memcached });
        let (decoder, parsed) = (Decoder::new(), Parsed::default());
        Client { wire: Wire::new(stream), decoder, parsed, core, ends: false }
    }

    /// Serves the client until it ends.
    pub(crate) async fn serve(mut self) -> io::Result<()> {
        loop {
            self.core.thread.renew();
            match self.step() {
                Step::Receive if self.receive().await? => {}
                Step::Receive | Step::End => return self.wire.drain(&self.core).await,
                Step::Wait => self.wire.wait_for_room(&mut self.core).await?,
            }
        }
    }

    /// Waits for input. False: the client sends nothing more.
    async fn receive(&mut self) -> io::Result<bool> {
        let wanted = self.decoder.input_len_wanted();
        self.wire.receive(&self.core, wanted, |_| std::task::Poll::Pending).await
    }

    /// Takes the requests that have arrived.
    fn step(&mut self) -> Step {
        let max = self.core.thread.shared.settings.memcached_item_len_max;
        let limits = Limits { data_len_max: max, ..Limits::default() };
        let Client { wire, decoder, parsed, core, ends } = self;
        loop {
            let bytes = wire.input.bytes();
            if *ends || bytes.first() == Some(&BINARY) || is_http(bytes) {
                return Step::End;
            }
            if !core.may_take() {
                return Step::Wait;
            }
            let consumed = match decoder.decode(wire.input.bytes(), &limits, parsed) {
                Ok(Decoded::Request { consumed }) => consumed,
                Ok(Decoded::Passed { consumed }) => {
                    wire.input.consume(consumed);
                    continue;
                }
                Ok(Decoded::Incomplete) => return Step::Receive,
                Err(_) => {
                    core.replies.answer(b"CLIENT_ERROR line too long\r\n");
                    return Step::End;
                }
            };
            let bytes = &wire.input.bytes()[..consumed];
            *ends = parsed.command == Some(Command::Quit);
            if !*ends && core.take_memcached(parsed, bytes) == Flow::Full {
                return Step::Wait;
            }
            wire.input.consume(consumed);
        }
    }
}

impl Core {
    fn take_memcached(&mut self, parsed: &Parsed, bytes: &[u8]) -> Flow {
        let args = parsed.args(bytes);
        let Some(command) = parsed.command else {
            self.replies.answer(b"ERROR\r\n");
            return Flow::Done;
        };
        let is_quiet = is_quiet(command, args);
        let answer = match (parsed.data(bytes), command) {
            (Data::TooLong, _) => Some("SERVER_ERROR object too large for cache\r\n".to_string()),
            (Data::Unended, _) => Some("CLIENT_ERROR bad data chunk\r\n".to_string()),
            _ => self.known_answer(command, args),
        };
        self.thread.shared.counters.requests.add(1);
        if let Some(answer) = answer {
            self.replies.answer(if is_quiet { b"" } else { answer.as_bytes() });
            return Flow::Done;
        }
        let is_pool = self.thread.is_pool();
        if is_pool && self.awaits_keys_of(command, args) {
            return Flow::Full;
        }
        if command == Command::FlushAll && self.thread.copying().is_some() {
            let refusal = format!("SERVER_ERROR {FLUSH_LATER}\r\n");
            self.replies.answer(if is_quiet { b"" } else { refusal.as_bytes() });
            return Flow::Done;
        }
        if command == Command::FlushAll {
            return self.flush(bytes, is_quiet);
        }
        match slots_of(command, args)[..] {
            [] if is_pool => {
                self.replies.answer(if is_quiet { b"" } else { b"ERROR\r\n" });
                Flow::Done
            }
            [] => self.send_memcached(command, args, Target::Any, bytes, is_quiet),
            [(slot, _)] => self.send_memcached(command, args, Target::Slot(slot), bytes, is_quiet),
            ref slots => self.send_get(command, args, slots),
        }
    }

    fn awaits_keys_of(&mut self, command: Command, args: ArgsView<'_>) -> bool {
        match decoded_key(command, args) {
            Some(Some(key)) => self.awaits_keys(std::iter::once(key.bytes())),
            Some(None) => false,
            None => self.awaits_keys(command.keys(args).iter()),
        }
    }

    /// The reply to what the proxy knows by itself, or must not pass on.
    fn known_answer(&self, command: Command, args: ArgsView<'_>) -> Option<String> {
        Some(match command {
            Command::MetaNoop => "MN\r\n".to_string(),
            Command::Version if self.thread.is_pool() => {
                format!("VERSION {}\r\n", hotring_commands::memcached::VERSION)
            }
            Command::Verbosity if self.thread.is_pool() => "OK\r\n".to_string(),
            Command::Stats if args.len() == 1 => info::memcached_stats(&self.thread),
            // About the items of a node.
            Command::Stats
            | Command::CacheMemlimit
            | Command::Shutdown
            | Command::Watch
            | Command::LruCrawler
            | Command::Lru
            | Command::Slabs => "ERROR\r\n".to_string(),
            _ => return None,
        })
    }

    /// Sends a request with keys of one slot, or without any.
    fn send_memcached(
        &mut self,
        command: Command,
        args: ArgsView<'_>,
        target: Target,
        bytes: &[u8],
        is_quiet: bool,
    ) -> Flow {
        let upstream = match self.find_room(target) {
            Ok(upstream) => upstream,
            Err(flow) => return flow,
        };
        let now = Instant::now();
        let writes = writes(command, args);
        let form = form(command, is_quiet);
        match (upstream, target) {
            // A plain `mg` may claim the renewal of a stale item for its client alone.
            (Some(upstream), Target::Slot(slot))
                if matches!(command, Command::Get | Command::Gets) && !is_quiet =>
            {
                self.send_read(&upstream, slot, bytes, (form, None), now);
            }
            (upstream, _) => {
                let ticket = self.ticket(self.replies.expect(target.slot()), 0);
                let request = Request { form, ..self.request(target, ticket, writes, now) };
                let mut marked = std::mem::take(&mut self.scratch);
                marked.clear();
                marked.extend_from_slice(bytes);
                marked.extend_from_slice(if is_quiet { MARK } else { b"" });
                self.queue(upstream, &marked, request, now);
                self.scratch = marked;
            }
        }
        Flow::Done
    }

    /// Sends a request for keys of several slots, one to each.
    fn send_get(
        &mut self,
        command: Command,
        args: ArgsView<'_>,
        slots: &[(Slot, Vec<usize>)],
    ) -> Flow {
        let words_before = args.len() - command.keys(args).len();
        let targets: Vec<Slot> = slots.iter().map(|(slot, _)| *slot).collect();
        let form = form(command, false);
        self.send_all_memcached(&targets, Combine::Values, form, writes(command, args), |i, out| {
            let keys = slots[i].1.iter().map(|at| args.at(*at));
            let words = (0..words_before).map(|at| args.at(at)).chain(keys);
            for word in words {
                out.extend_from_slice(word);
                out.push(b' ');
            }
            out.pop();
            out.extend_from_slice(b"\r\n");
        })
    }

    fn flush(&mut self, bytes: &[u8], is_quiet: bool) -> Flow {
        let combine = if is_quiet { Combine::Nothing } else { Combine::AllSucceeded };
        let form = form(Command::FlushAll, is_quiet);
        let targets = self.thread.slots_of_primaries();
        self.send_all_memcached(&targets, combine, form, true, |_, out| {
            out.extend_from_slice(bytes);
            out.extend_from_slice(if is_quiet { MARK } else { b"" });
        })
    }

    fn send_all_memcached(
        &mut self,
        slots: &[Slot],
        combine: Combine,
        form: Form,
        writes: bool,
        write: impl Fn(usize, &mut Vec<u8>),
    ) -> Flow {
        self.send_all(slots, (combine, Version::Resp2), write, |core, slot, ticket, now| Request {
            form,
            ..core.request(Target::Slot(slot), ticket, writes, now)
        })
    }
}

/// Whether these are the first bytes of a request of HTTP: a web page must not be able to use a proxy of its visitor's
/// machine.
pub(super) fn is_http(bytes: &[u8]) -> bool {
    let words: [&[u8]; 2] = [b"POST ", b"Host:"];
    words.iter().any(|word| bytes.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(word)))
}

fn form(command: Command, is_quiet: bool) -> Form {
    match is_quiet {
        // Errors of meta commands are never suppressed.
        true => Form::Memcached { form: ReplyForm::Marked, is_silent: !command.is_meta() },
        false => Form::Memcached { form: ReplyForm::of(Some(command)), is_silent: false },
    }
}

/// Whether the request may change something.
fn writes(command: Command, args: ArgsView<'_>) -> bool {
    match command {
        Command::Get | Command::Gets | Command::MetaDebug => false,
        Command::MetaGet => MetaFlags::parse(args.tail(2)).is_ok_and(|flags| flags.changes()),
        _ => true,
    }
}

/// The key of a request that has it in base64; `Some(None)` if it is none, as a node will say.
fn decoded_key(command: Command, args: ArgsView<'_>) -> Option<Option<MetaKey<'_>>> {
    let is_coded = command.is_meta() && args.tail(2).iter().any(|flag| flag.first() == Some(&b'b'));
    is_coded.then(|| args.get(1).and_then(|word| MetaKey::parse(word, true).ok()))
}

/// The slots of a request's keys, each with the positions of its keys among the words.
fn slots_of(command: Command, args: ArgsView<'_>) -> Vec<(Slot, Vec<usize>)> {
    let keys = command.keys(args);
    // Only a command whose last words are its keys has several.
    let first = args.len() - keys.len();
    if let Some(key) = decoded_key(command, args) {
        return key.map(|key| (slot_of(key.bytes()), vec![1])).into_iter().collect();
    }
    let mut places = HashMap::new();
    let mut slots: Vec<(Slot, Vec<usize>)> = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        let slot = slot_of(key);
        let at = *places.entry(slot).or_insert_with(|| {
            slots.push((slot, Vec::new()));
            slots.len() - 1
        });
        slots[at].1.push(first + n);
    }
    slots
}
