//! Runs batches of requests on fibers, so that a batch can stop in the middle: starts, resumes and
//! finishes them.

use std::any::Any;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

use super::input::Input;
use super::{READ_LEN, REPLY_KEPT_MAX, Runner, Socket, yield_turn};
use hotring_commands::exec::{Conversation, Executor, WaitEnd};
use hotring_commands::host::fiber::{Batch, Fiber, Step};
use hotring_commands::state::batching::Fed;
use hotring_commands::state::long_values::Attached;
use hotring_commands::state::server::Server;

/// Everything that one batch needs; the fiber owns it while the batch runs.
pub(super) struct Work {
    pub(super) executor: Executor,
    pub(super) read: Box<[u8]>,
    pub(super) replies: Vec<u8>,
    /// Long values that are sent between the bytes of the replies.
    pub(super) attached: Vec<Attached>,
    pub(super) conversation: Option<Box<Conversation>>,
    pub(super) job: Job,
    pub(super) now: u64,
    pub(super) fed: Fed,
}

/// The input of a batch.
pub(super) enum Job {
    Nothing,
    /// Requests at the start of the thread's buffer.
    ThreadBuffer {
        len: usize,
    },
    /// Requests of the connection's own input.
    Input(Input),
    /// The end of a wait.
    EndWait(WaitEnd),
    /// Messages of other threads, which show writes.
    Messages,
}

impl Work {
    pub(super) fn new(server: &Arc<Server>, index: usize, seed: u64) -> Box<Work> {
        Box::new(Work {
            executor: Executor::new(server.clone(), index, seed),
            read: vec![0; READ_LEN].into_boxed_slice(),
            replies: Vec::new(),
            attached: Vec::new(),
            conversation: None,
            job: Job::Nothing,
            now: 0,
            fed: Fed { consumed: 0, stalled: false },
        })
    }

    /// Empties the reply buffer; a large one is freed.
    pub(super) fn give_back_replies(&mut self) {
        self.replies.clear();
        self.attached.clear();
        if self.replies.capacity() > REPLY_KEPT_MAX {
            self.replies = Vec::new();
        }
    }
}

impl Batch for Work {
    fn run(&mut self) {
        let Work { executor, read, replies, attached, conversation, job, now, fed } = self;
        let Some(conversation) = conversation else { return };
        let input = match job {
            Job::ThreadBuffer { len } => (&read[..*len], None),
            Job::Input(input) => (input.bytes(), input.buffer()),
            Job::EndWait(end) => return executor.end_wait(conversation, *end, *now, replies),
            Job::Messages => return executor.fetch_messages(conversation, replies),
            Job::Nothing => return,
        };
        *fed = executor.feed_zero_copy(conversation, input, *now, (replies, attached));
    }
}

/// A value of the socket that a batch takes while it runs.
pub(super) struct Away<T>(Option<Box<T>>);

impl<T> Away<T> {
    pub(super) fn new(it: T) -> Self {
        Away(Some(Box::new(it)))
    }

    pub(super) fn is_away(&self) -> bool {
        self.0.is_none()
    }
}

impl<T> Deref for Away<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("a socket must not use it while its batch runs")
    }
}

impl<T> DerefMut for Away<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("as above")
    }
}

/// The fiber of a batch that has stopped in the middle.
pub(super) struct Stopped {
    fiber: Fiber,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Runs the batch; pending if it stops in the middle, and then
    /// [`poll_stopped`](Self::poll_stopped) resumes it.
    pub(super) fn run(&mut self, runner: Runner, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Runner { mut fiber, mut work } = runner;
        work.conversation = self.conversation.0.take();
        match fiber.start(work) {
            Step::Done(work) => Poll::Ready(self.end_batch(fiber, downcast(work), cx)),
            step => {
                self.thread.stopped.set(self.thread.stopped.get() + 1);
                self.resume(fiber, step, cx)
            }
        }
    }

    /// Resumes the batch that has stopped.
    pub(super) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(Stopped { mut fiber }) = self.stopped.take() else { return Poll::Ready(Ok(())) };
        let step = fiber.resume();
        self.resume(fiber, step, cx)
    }

    #[cold]
    fn resume(
        &mut self,
        mut fiber: Fiber,
        mut step: Step,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match step {
                Step::Done(work) => {
                    self.thread.stopped.set(self.thread.stopped.get() - 1);
                    return Poll::Ready(self.end_batch(fiber, downcast(work), cx));
                }
                Step::Asks => step = fiber.give_waker(cx.waker().clone()),
                Step::Turn => {
                    yield_turn(cx);
                    break;
                }
                Step::Waits => break,
            }
        }
        self.stopped = Some(Stopped { fiber });
        Poll::Pending
    }

    /// Takes back the batch's state and sends its replies.
    fn end_batch(
        &mut self,
        fiber: Fiber,
        mut work: Box<Work>,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        self.conversation.0 = work.conversation.take();
        let (fed, now) = (work.fed, work.now);
        let (mut waits_for_request, mut is_of_messages) = (true, false);
        match std::mem::replace(&mut work.job, Job::Nothing) {
            Job::ThreadBuffer { len } => {
                self.stalled = fed.stalled;
                let left = &work.read[fed.consumed..len];
                waits_for_request = !(left.is_empty() && self.input.is_empty());
                if waits_for_request {
                    self.keep_input(left);
                }
            }
            Job::Input(input) => {
                self.input = input;
                self.stalled = fed.stalled;
                let rest_waits = self.stalled || self.conversation.client.wait().is_some();
                self.input.drop_ran(fed.consumed, rest_waits);
                self.publish_lengths();
            }
            Job::Messages => (waits_for_request, is_of_messages) = (false, true),
            // Requests that arrived meanwhile run next.
            Job::EndWait(_) | Job::Nothing => {
                self.stalled = true;
                waits_for_request = false;
            }
        }
        let sent = self.send_replies(cx, &mut work);
        self.thread.give_back(Runner { fiber, work });
        sent?;
        if let Some(wait) = &mut self.logged {
            wait.is_of_messages = is_of_messages;
        }
        if waits_for_request {
            self.wait_for_request(now, fed.consumed > 0);
        }
        Ok(())
    }
}

/// Downcasts to the socket's own type.
fn downcast(work: Box<dyn Batch>) -> Box<Work> {
    let any: Box<dyn Any> = work;
    any.downcast().expect("a socket's fibers run sockets' work only")
}
