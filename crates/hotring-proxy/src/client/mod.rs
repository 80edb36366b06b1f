//! One client: reads requests, has them sent to nodes, and writes the replies in order.

mod alone;
mod core;
mod dispatch;
mod here;
pub(crate) mod memcached;
mod pool;
mod subscribe;
mod tracking;
mod transaction;
mod wire;

use std::io;
use std::rc::Rc;

use hotring_commands::table::called;
use hotring_protocol::{Args, Decoded, Decoder, KeptArgs, Limits, Version, Writer};

use crate::link::{Connection, Link, Login, Protocol};
use crate::thread::Thread;

use core::{Core, Flow};
use memcached::is_http;
use subscribe::Subscriptions;
use tracking::Asked;
use transaction::{Transaction, Watch};
use wire::Wire;

/// A client of Redis's protocol.
pub(crate) struct Client {
    wire: Wire,
    decoder: Decoder,
    args: Args,
    session: Session,
}

/// The state of a client that its requests see and change.
pub(crate) struct Session {
    core: Core,
    login: Login,
    id: u64,
    peer: String,
    name: Vec<u8>,
    transaction: Option<Transaction>,
    watch: Option<Watch>,
    subscriptions: Subscriptions,
    tracking: Option<Asked>,
    /// A connection to a node for requests that wait.
    own: Option<(usize, Link)>,
    /// After QUIT.
    ends: bool,
}

/// What a client does next.
enum Step {
    /// Waits for more input.
    Receive,
    /// Waits until its requests have been answered so far that it may send more.
    Wait,
    /// Serves a request by itself, once all before it have their replies.
    Alone(KeptArgs),
    /// Ends.
    End,
}

impl Client {
    pub(crate) fn new(
        stream: Box<dyn Connection>,
        thread: Rc<Thread>,
        id: u64,
        peer: String,
    ) -> Self {
        let login = Login::default();
        let session = Session {
            core: Core::new(thread, &login),
            login,
            id,
            peer,
            name: Vec::new(),
            transaction: None,
            watch: None,
            subscriptions: Subscriptions::default(),
            tracking: None,
            own: None,
            ends: false,
        };
        let wire = Wire::new(stream);
        Client { wire, decoder: Decoder::new(), args: Args::new(), session }
    }

    /// Serves the client until it ends.
    pub(crate) async fn serve(mut self) -> io::Result<()> {
        loop {
            let core = &self.session.core;
            core.thread.renew();
            // Until a node has told it, what a client may do before its login is bounded.
            if !core.upstreams.is_known() && !self.wire.input.bytes().is_empty() {
                core.upstreams.learn(&core.thread).await;
            }
            match self.step() {
                Step::Receive if self.receive().await? => {}
                Step::Receive | Step::End => return self.wire.drain(&self.session.core).await,
                Step::Wait => self.wire.wait_for_room(&mut self.session.core).await?,
                Step::Alone(request) => {
                    self.wire.drain(&self.session.core).await?;
                    self.serve_alone(&request).await?;
                }
            }
        }
    }

    /// Waits for input. False: the client sends nothing more.
    async fn receive(&mut self) -> io::Result<bool> {
        let Client { wire, decoder, session, .. } = self;
        let Session { core, subscriptions, .. } = session;
        let wanted = decoder.input_len_wanted();
        wire.receive(core, wanted, |cx| subscriptions.poll_messages(&core.replies, cx)).await
    }

    /// Takes the requests that have arrived.
    fn step(&mut self) -> Step {
        let Client { wire, decoder, args, session } = self;
        let input = &mut wire.input;
        let thread = session.core.thread.clone();
        let limits = match session.core.upstreams.is_open() {
            true => {
                Limits { bulk_len_max: thread.shared.settings.request_len_max, ..Limits::default() }
            }
            false => Limits::UNAUTHENTICATED,
        };
        loop {
            if session.ends {
                return Step::End;
            }
            if !session.core.may_take() {
                return Step::Wait;
            }
            let decoded = {
                let mut prefixes = thread.prefixes.borrow_mut();
                prefixes.decode(decoder, input.bytes(), &limits, args, called)
            };
            let (consumed, spec) = match decoded {
                Ok((Decoded::Request { consumed }, spec)) => (consumed, spec),
                Ok((Decoded::Incomplete, _)) => return Step::Receive,
                Err(error) => {
                    session.answer(|writer| writer.error_fmt(format_args!("ERR {error}")));
                    return Step::End;
                }
            };
            if is_http(input.bytes()) {
                return Step::End;
            }
            let request = args.view(input.bytes());
            match session.take(spec, request, &input.bytes()[..consumed]) {
                Flow::Done => input.consume(consumed),
                Flow::Full => return Step::Wait,
                Flow::Alone => {
                    let mut kept = KeptArgs::default();
                    kept.push(request);
                    input.consume(consumed);
                    return Step::Alone(kept);
                }
            }
        }
    }
}

impl Session {
    fn is_resp3(&self) -> bool {
        self.login.protocol == Protocol::Resp3
    }

    fn protocol(&self) -> Version {
        match self.login.protocol {
            Protocol::Resp3 => Version::Resp3,
            Protocol::Resp2 | Protocol::Memcached | Protocol::PlainMemcached => Version::Resp2,
        }
    }

    /// Adds a reply of the proxy's own.
    fn answer(&self, write: impl FnOnce(&mut Writer<'_>)) {
        let mut reply = Vec::new();
        write(&mut Writer::new(&mut reply, self.protocol()));
        self.core.replies.answer(&reply);
    }
}
