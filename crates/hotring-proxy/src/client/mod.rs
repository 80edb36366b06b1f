//! One client: reads requests, has them sent to nodes, and writes the replies in order.
//!
//! A client that does not fetch its replies, or whose nodes do not answer, is not read: the kernel's buffers fill up,
//! and the client has to wait.

mod alone;
mod dispatch;
mod here;
mod subscribe;
mod transaction;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use hotring_commands::table::called;
use hotring_protocol::{Args, Decoded, Decoder, KeptArgs, Limits, Version, Writer};
use tokio::io::AsyncWrite;

use crate::input::Input;
use crate::link::{Connection, Link, Login};
use crate::pool::Pool;
use crate::replies::Replies;
use crate::thread::Thread;
use crate::upstream::Upstream;

use dispatch::Flow;
use subscribe::Subscriptions;
use transaction::{Transaction, Watch};

/// Bytes of unsent replies above which a client is not read.
const OUTPUT_SOFT_MAX: usize = 1 << 20;

/// A client.
pub(crate) struct Client {
    stream: Box<dyn Connection>,
    input: Input,
    decoder: Decoder,
    args: Args,
    /// Replies that the kernel has not taken, from `sent` on.
    output: Vec<u8>,
    sent: usize,
    session: Session,
}

/// The state of a client that its requests see and change.
pub(crate) struct Session {
    thread: Rc<Thread>,
    replies: Rc<Replies>,
    login: Login,
    pool: Rc<Pool>,
    id: u64,
    peer: String,
    name: Vec<u8>,
    /// The routes by which its unanswered requests were sent.
    version: u64,
    transaction: Option<Transaction>,
    watch: Option<Watch>,
    subscriptions: Subscriptions,
    /// A connection to a node for requests that wait.
    own: Option<(usize, Link)>,
    /// The connection that has no room for the next request.
    full: Option<Rc<Upstream>>,
    /// The nodes to which the client has written.
    written: BTreeSet<usize>,
    /// After QUIT.
    ends: bool,
    /// A request that the proxy writes.
    scratch: Vec<u8>,
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
        let pool = thread.pool(&login);
        let session = Session {
            replies: Rc::default(),
            version: thread.version(),
            thread,
            login,
            pool,
            id,
            peer,
            name: Vec::new(),
            transaction: None,
            watch: None,
            subscriptions: Subscriptions::default(),
            own: None,
            full: None,
            written: BTreeSet::new(),
            ends: false,
            scratch: Vec::new(),
        };
        Client {
            stream,
            input: Input::default(),
            decoder: Decoder::new(),
            args: Args::new(),
            output: Vec::new(),
            sent: 0,
            session,
        }
    }

    /// Serves the client until it ends.
    pub(crate) async fn serve(mut self) -> io::Result<()> {
        self.session.pool.learn(&self.session.thread).await;
        loop {
            self.session.thread.renew();
            match self.step() {
                Step::Receive => {
                    if !self.receive().await? {
                        self.drain().await?;
                        return Ok(());
                    }
                }
                Step::Wait => poll_fn(|cx| self.poll_room(cx)).await?,
                Step::Alone(request) => {
                    self.drain().await?;
                    self.serve_alone(&request).await?;
                }
                Step::End => {
                    self.drain().await?;
                    return Ok(());
                }
            }
        }
    }

    /// Takes the requests that have arrived.
    fn step(&mut self) -> Step {
        let Client { input, decoder, args, session, .. } = self;
        let thread = session.thread.clone();
        let limits = match session.pool.is_open() {
            true => {
                Limits { bulk_len_max: thread.shared.settings.request_len_max, ..Limits::default() }
            }
            false => Limits::UNAUTHENTICATED,
        };
        loop {
            if session.ends {
                return Step::End;
            }
            if !session.may_take() {
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

    /// Waits for input, and writes replies meanwhile. False: the client sends nothing more.
    async fn receive(&mut self) -> io::Result<bool> {
        let max = self.session.thread.shared.settings.request_len_max;
        if self.input.bytes().len() > max.saturating_add(OUTPUT_SOFT_MAX) {
            return Err(io::Error::other("a request is longer than the limit"));
        }
        let thread = self.session.thread.clone();
        let mut ending = pin!(thread.ending.notified());
        poll_fn(|cx| {
            self.session.replies.wake_later(cx);
            self.poll_write(cx)?;
            if self.session.poll_messages(cx)?.is_ready() {
                self.poll_write(cx)?;
            }
            if self.output_len() > OUTPUT_SOFT_MAX {
                return Poll::Pending;
            }
            let wanted = self.decoder.input_len_wanted();
            match self.input.poll_read(&mut self.stream, wanted, cx)? {
                Poll::Ready(n) => Poll::Ready(Ok(n > 0)),
                // What has arrived is answered before the client ends.
                Poll::Pending if thread.shared.is_stopping() => Poll::Ready(Ok(false)),
                Poll::Pending => {
                    _ = ending.as_mut().poll(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Writes replies until the client may send more.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.replies.wake_later(cx);
        self.poll_write(cx)?;
        let may_take = self.output_len() <= OUTPUT_SOFT_MAX && self.session.may_take();
        match may_take && self.session.has_room(cx) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Waits until all requests have their replies, and these are sent.
    async fn drain(&mut self) -> io::Result<()> {
        poll_fn(|cx| {
            self.session.replies.wake_later(cx);
            self.poll_write(cx)?;
            match self.session.replies.waiting() == 0 && self.output_len() == 0 {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Bytes of replies that may be sent.
    fn output_len(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Writes replies that are ready, as far as the kernel takes them.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            if self.sent == self.output.len() {
                self.output.clear();
                self.output.shrink_to(OUTPUT_SOFT_MAX);
                self.sent = 0;
                self.session.replies.take_ready(&mut self.output);
                if self.output.is_empty() {
                    break;
                }
            }
            match Pin::new(&mut self.stream).poll_write(cx, &self.output[self.sent..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => self.sent += n,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(Err(error)) = Pin::new(&mut self.stream).poll_flush(cx) {
            return Err(error);
        }
        let max = self.session.thread.shared.settings.output_max;
        match self.output_len() + self.session.replies.bytes() > max {
            true => Err(io::Error::other("the client does not fetch its replies")),
            false => Ok(()),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.session.replies.close();
    }
}

impl Session {
    fn protocol(&self) -> Version {
        self.login.version()
    }

    /// Adds a reply of the proxy's own.
    fn answer(&self, write: impl FnOnce(&mut Writer<'_>)) {
        let mut reply = Vec::new();
        write(&mut Writer::new(&mut reply, self.protocol()));
        self.replies.answer(&reply);
    }
}
