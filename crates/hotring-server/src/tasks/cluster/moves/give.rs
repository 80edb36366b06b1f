//! The source's side of one move.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_cluster::Identity;
use hotring_cluster::directory::{Directory, MoveId, Wanted};
use hotring_cluster::mirrors::Closing;
use hotring_cluster::moves::{
    Ask, Attempt, GivenUp, Outcome, Outgoing, OutgoingAct as Act, Pace, ToSource, ToTarget,
};
use hotring_commands::host::clock;
use hotring_commands::state::cluster::Held;
use hotring_commands::state::moves::Progress;
use hotring_log::Lsn;
use hotring_store::Session;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::link::{self, Left, News, Order};
use super::steps::{self, Step};
use super::{Reign, Shown, THREAD, ask_for};

/// Time between two looks at the clock, and at what is left to send.
const TICK: Duration = Duration::from_millis(5);

/// What became of a request.
type Answer = (u64, Outcome, Shown);

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The slots are the target's, or the move was cancelled.
    Over,
    /// The records that were read do not allow the move.
    Hopeless,
    /// An attempt was in vain.
    Vain {
        /// The target has spoken.
        was_heard: bool,
    },
}

/// Makes one attempt to give slots away.
pub(super) async fn give(reign: Rc<Reign>, id: MoveId, wanted: Wanted) -> Ended {
    steps::take(id, Step::SourceBegins);
    reign.given.borrow_mut().insert(id, wanted.slots.clone());
    let giver = Giver::new(reign, id, wanted);
    giver.run().await
}

struct Giver {
    reign: Rc<Reign>,
    id: MoveId,
    wanted: Wanted,
    machine: Outgoing,
    session: Session,
    answers: (UnboundedSender<Answer>, UnboundedReceiver<Answer>),
    link: Option<Link>,
    progress: Arc<Progress>,
    /// What the last reading has shown.
    shown: Shown,
    /// Since when writes wait.
    held: Option<Instant>,
    /// The slots have no mirrors any more, or these are about to end.
    has_closed: bool,
    /// How many requests to remove all keys had waited before.
    flushes: u64,
    /// The target has spoken.
    was_heard: bool,
    end: Option<End>,
}

/// A connection to the target, which may be under way.
struct Link {
    orders: UnboundedSender<Order>,
    news: UnboundedReceiver<News>,
    left: Left,
    /// The primary that the target had when the link began.
    primary: Option<Identity>,
}

enum End {
    Moved,
    GivenUp(GivenUp),
}

/// Once the task ends the slots are served here, or sent elsewhere. After a panic it is unknown which of both.
impl Drop for Giver {
    fn drop(&mut self) {
        self.reign.cluster().moves.note_attempt(self.machine.attempt().number);
        self.reign.cluster().moves.end_attempt(self.id);
        if std::thread::panicking() || self.reign.is_doubtful.get() {
            return;
        }
        self.reign.given.borrow_mut().remove(&self.id);
        self.release();
        self.reign.cluster().mirrors.open(Closing::Move(self.id));
    }
}

impl Giver {
    fn new(reign: Rc<Reign>, id: MoveId, wanted: Wanted) -> Giver {
        let before = Attempt { epoch: reign.epoch, number: reign.cluster().moves.attempts() };
        let session = reign.server().store.session_named(THREAD);
        let (machine, answers) =
            (Outgoing::new(before, Pace::default()), mpsc::unbounded_channel());
        let progress = reign.cluster().moves.begin_attempt(id);
        let (link, shown, held, has_closed, flushes, was_heard, end) = Default::default();
        Giver {
            reign,
            id,
            wanted,
            machine,
            session,
            answers,
            link,
            progress,
            shown,
            held,
            has_closed,
            flushes,
            was_heard,
            end,
        }
    }

    async fn run(mut self) -> Ended {
        loop {
            self.carry_out();
            self.progress.set_phase(self.machine.phase());
            if let Some(end) = self.end.take() {
                return self.end(end).await;
            }
            // Other moves have their turn before the next attempt.
            if self.machine.is_waiting() {
                return Ended::Vain { was_heard: self.was_heard };
            }
            self.hear().await;
            self.machine.tick(self.reign.now());
            if self.held.is_some() && self.reign.cluster().moves.flushes() != self.flushes {
                self.machine.flushed(self.reign.now());
            }
            if let Some(left) = self.link.as_ref().and_then(|link| link.left.get())
                && self.has_no_mirrors(left)
            {
                self.machine.left(self.reign.now(), left);
            }
        }
    }

    /// Waits for something to happen, and tells the machine.
    async fn hear(&mut self) {
        let (link, answers) = (&mut self.link, &mut self.answers.1);
        let mut heard = None;
        let mut answered = None;
        let news = async {
            match link {
                Some(link) => heard = Some(link.news.recv().await),
                None => std::future::pending().await,
            }
        };
        let work = crate::tasks::replicate::unless(news, async {
            answered = answers.recv().await;
        });
        _ = tokio::time::timeout(TICK, work).await;
        if let Some((number, outcome, shown)) = answered {
            if shown.is_some() {
                self.shown = shown;
            }
            self.machine.outcome(self.reign.now(), number, outcome);
        }
        match heard {
            Some(Some(News::Heard(message))) => {
                if matches!(message, ToSource::Has(..)) {
                    steps::take(self.id, Step::SourceHearsThat);
                }
                self.was_heard = true;
                self.machine.receive(self.reign.now(), message);
            }
            Some(Some(News::Lost(why))) => self.lose_link(&why.to_string()),
            Some(None) => self.lose_link("its task has ended"),
            None => self.look(),
        }
    }

    /// Looks whether the link still leads to the target's primary, and whether the move is still wanted.
    fn look(&mut self) {
        let directory = self.reign.cluster().directory();
        let primary = directory.shards.get(&self.wanted.to).map(|(_, shard)| shard.primary);
        let found = directory.moves.get(&self.id).map(|(_, wanted)| wanted);
        let Some(link) = &self.link else { return };
        if link.primary != primary {
            self.lose_link("the target has another primary");
        } else if found != Some(&self.wanted) {
            // The transaction that gives the slots away takes the move's record with it.
            let is_through = !self.is_named_owner();
            let why = if is_through { "the move is through" } else { "the move was cancelled" };
            self.lose_link(why);
        } else if self.machine.awaits_target() && !has_primary(&directory, &self.wanted) {
            self.lose_link("the target's primary is dead");
        }
    }

    fn lose_link(&mut self, why: &str) {
        tracing::info!(id = self.id, "the link of a move ends: {why}");
        self.link = None;
        self.machine.link_lost(self.reign.now());
    }

    /// Does what the machine asks for.
    fn carry_out(&mut self) {
        loop {
            let acts = self.machine.acts();
            if acts.is_empty() {
                return;
            }
            for act in acts {
                self.act(act);
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Send(message) => {
                if matches!(message, ToTarget::Open(_)) {
                    steps::take(self.id, Step::SourceOpens);
                    self.begin_link();
                }
                self.order(Order::Send(message));
            }
            Act::Copy(_) => {
                steps::take(self.id, Step::SourceWalks);
                self.order(Order::Copy);
            }
            Act::EndCopy(_) => self.order(Order::EndCopy),
            Act::HoldWrites => {
                let last = self.hold(false);
                steps::take(self.id, Step::SourceHoldsWrites);
                if let Some(last) = last {
                    self.machine.held(last);
                }
            }
            Act::HoldReads => {
                self.hold(true);
                steps::take(self.id, Step::SourceHoldsReads);
            }
            Act::Resume => self.release(),
            Act::Ask(ask) => {
                let about = (self.id, self.wanted.clone());
                let answers = self.answers.0.clone();
                let shown = match ask {
                    Ask::Commit(..) => self.shown.take(),
                    Ask::Read(_) => None,
                };
                ask_for(&self.reign, about, ask, shown, answers, |number, outcome, shown| {
                    (number, outcome, shown)
                });
            }
            Act::Redirect => self.end = Some(End::Moved),
            Act::GiveUp(why) => self.end = Some(End::GivenUp(why)),
        }
    }

    /// Whether writes of the slots may wait as soon as little is left: no mirror answers. Mirrors go on while keys are
    /// sent, which may take long, and end then.
    fn has_no_mirrors(&mut self, left: u64) -> bool {
        let (mirrors, closing) = (&self.reign.cluster().mirrors, Closing::Move(self.id));
        if left < u64::MAX && !self.has_closed {
            self.has_closed = true;
            mirrors.close(closing, self.wanted.slots.clone());
        }
        self.has_closed && mirrors.is_clear(closing)
    }

    /// Lets writes of the slots wait, or reads as well. Returns the last change.
    fn hold(&mut self, reads: bool) -> Option<Lsn> {
        let held = Held { slots: self.wanted.slots.clone(), reads };
        if self.held.is_none() {
            self.held = Some(clock::monotonic());
            self.flushes = self.reign.cluster().moves.flushes();
        }
        self.reign.server().hold_slots(self.id, Some(held), &mut self.session)
    }

    /// Lets them go on.
    fn release(&mut self) {
        self.held = None;
        self.reign.server().hold_slots(self.id, None, &mut self.session);
    }

    /// Begins another link. Messages that the one before has not sent yet are of no use.
    fn begin_link(&mut self) {
        let (orders, orders_in) = mpsc::unbounded_channel();
        let (news_out, news) = mpsc::unbounded_channel();
        let left = Left::default();
        let directory = self.reign.cluster().directory();
        let primary = directory.shards.get(&self.wanted.to).map(|(_, shard)| shard.primary);
        let about = (self.id, self.wanted.clone());
        let told = (left.clone(), self.progress.clone());
        let link = link::connect(self.reign.clone(), about, orders_in, news_out, told);
        tokio::task::spawn_local(link);
        self.link = Some(Link { orders, news, left, primary });
    }

    fn order(&self, order: Order) {
        if let Some(link) = &self.link {
            // The machine hears of the end of a link as of any other news.
            let _ = link.orders.send(order);
        }
    }

    /// The move is over.
    async fn end(mut self, end: End) -> Ended {
        self.link = None;
        match end {
            End::GivenUp(why) => {
                tracing::info!(id = self.id, ?why, "a move of slots has ended without effect");
                match why {
                    GivenUp::Cancelled => Ended::Over,
                    GivenUp::NotOwner => Ended::Hopeless,
                }
            }
            End::Moved => {
                steps::take(self.id, Step::SourceRedirects);
                // What waits goes on only once it is sent elsewhere.
                while self.is_named_owner() {
                    _ = tokio::time::timeout(TICK, std::future::pending::<()>()).await;
                }
                let waited = self.held.map(|since| since.elapsed()).unwrap_or_default();
                let (id, to) = (self.id, self.wanted.to);
                tracing::info!(id, to, ?waited, "a move of slots is complete");
                steps::take(id, Step::SourceIsThrough);
                self.reign.soil();
                Ended::Over
            }
        }
    }

    /// Whether the table that this node knows still gives some of the slots to its shard.
    fn is_named_owner(&self) -> bool {
        let directory = self.reign.cluster().directory();
        let mine = Some(self.reign.shard);
        self.wanted.slots.iter().any(|slot| directory.owners.of(slot) == mine)
    }
}

/// Whether the target of a move has a primary that lives, as far as the records know.
pub(super) fn has_primary(directory: &Directory, wanted: &Wanted) -> bool {
    let shard = directory.shards.get(&wanted.to);
    shard.is_some_and(|(_, shard)| directory.is_alive(shard.primary.node))
}
