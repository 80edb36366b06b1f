//! The target's side of one move.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hotring_cluster::Revision;
use hotring_cluster::directory::{MoveId, Wanted};
use hotring_cluster::moves::{Attempt, Incoming, IncomingAct as Act, Outcome, ToSource, ToTarget};
use hotring_commands::host::clock;
use hotring_commands::state::moves::{Arrival, Arrived, codec};
use hotring_log::Lsn;
use hotring_log::wire::Kind;
use hotring_store::{Importer, Session};
use tokio::sync::mpsc::{self, Receiver, UnboundedReceiver, UnboundedSender};

use super::steps::{self, Step};
use super::{Reign, Shown, THREAD, ask_for};

/// Time between two looks at what nothing announces.
const TICK: Duration = Duration::from_millis(5);

/// Links that are served at the same time. A source that begins another one has given up those before.
const LINKS_MAX: usize = 4;

/// Longest message. It is held in memory until it is complete.
const MESSAGE_MAX: usize = 4 << 30;

/// How long the slots may be this shard's any moment, once the source holds writes. It steps back within a fraction of
/// that, and if it cannot, it lets its clients wait.
const EXPECTED_MAX: Duration = Duration::from_secs(1);

/// What became of a request.
type Answer = (u64, Outcome, Shown);

/// Takes slots over as often as their source gives them, until nothing is under way any more.
pub(super) async fn take(
    reign: Rc<Reign>,
    id: MoveId,
    wanted: Wanted,
    arrivals: Receiver<Arrival>,
) {
    Taker::new(reign, id, wanted, arrivals).run().await;
}

/// A connection of the source.
struct Link {
    arrival: Arrival,
    /// The attempt that it has opened last.
    attempt: Option<Attempt>,
    /// The message under way, of which some frames have come.
    message: Vec<u8>,
}

struct Taker {
    reign: Rc<Reign>,
    id: MoveId,
    wanted: Wanted,
    machine: Incoming,
    session: Session,
    arrivals: Receiver<Arrival>,
    links: Vec<Link>,
    answers: (UnboundedSender<Answer>, UnboundedReceiver<Answer>),
    /// Requests to the coordinator whose answers have not come.
    asking: usize,
    importer: Option<Importer>,
    /// A part of the walk has come.
    has_keys: bool,
    /// The last own record of the import.
    last: Lsn,
    /// The import of this attempt begins once the keys of an earlier one are gone.
    opening: Option<Attempt>,
    /// The log must have synced this record before the source hears that.
    sync: Option<(Attempt, Lsn)>,
    /// The in-sync replicas must have this record before the source hears of the mark.
    mark: Option<(Lsn, Lsn)>,
    expected_until: Option<Instant>,
    /// The slots are this shard's, and their keys are shown once the table that this node knows says so.
    shows: bool,
    /// The revision of the table that the machine knows of.
    table: Revision,
}

/// The slots are no longer coming once the task ends. After a panic it is unknown whether they are this shard's.
impl Drop for Taker {
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.reign.is_doubtful.get() {
            self.close();
        }
    }
}

enum Happened {
    Arrived(Arrival),
    /// A frame of this link, or its end.
    Frame(usize, Option<Arrived>),
    Answered(Answer),
    /// The log has synced what the source wants, or never will.
    Synced(bool),
    /// The in-sync replicas have what the mark wants.
    Reached,
}

impl Taker {
    fn new(reign: Rc<Reign>, id: MoveId, wanted: Wanted, arrivals: Receiver<Arrival>) -> Taker {
        let session = reign.server().store.session_named(THREAD);
        let machine = Incoming::new(reign.epoch, None);
        let table = reign.cluster().directory().slots_revision;
        Taker {
            reign,
            id,
            wanted,
            machine,
            session,
            arrivals,
            links: Vec::new(),
            answers: mpsc::unbounded_channel(),
            asking: 0,
            importer: None,
            has_keys: false,
            last: 0,
            opening: None,
            sync: None,
            mark: None,
            expected_until: None,
            shows: false,
            table,
        }
    }

    async fn run(mut self) {
        loop {
            self.carry_out();
            self.look();
            let is_idle = self.links.is_empty() && self.asking == 0 && !self.shows;
            if is_idle && self.importer.is_none() && self.arrivals.is_empty() {
                return;
            }
            let happened = poll_fn(|cx| self.poll(cx));
            if let Ok(happened) = tokio::time::timeout(TICK, happened).await {
                self.hear(happened);
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Happened> {
        if let Poll::Ready(Some(arrival)) = self.arrivals.poll_recv(cx) {
            return Poll::Ready(Happened::Arrived(arrival));
        }
        if let Poll::Ready(Some(answer)) = self.answers.1.poll_recv(cx) {
            return Poll::Ready(Happened::Answered(answer));
        }
        if let Some((_, own)) = self.sync
            && let Some(is_synced) = self.is_synced(own)
        {
            return Poll::Ready(Happened::Synced(is_synced));
        }
        // With "ack local" the log waits for no replica, and the keys would be on fewer nodes than before.
        let replication = &self.reign.server().replication;
        if let Some((own, _)) = self.mark
            && let Some(log) = self.reign.server().persist.durability.stream()
            && replication.has_committed(own, log)
            && let Poll::Ready(Ok(())) = log.poll_reached(own, cx.waker())
        {
            return Poll::Ready(Happened::Reached);
        }
        // While keys of an earlier attempt are being removed, what follows must wait.
        if self.opening.is_none() {
            for (at, link) in self.links.iter_mut().enumerate() {
                if let Poll::Ready(frame) = link.arrival.frames.poll_recv(cx) {
                    return Poll::Ready(Happened::Frame(at, frame));
                }
            }
        }
        Poll::Pending
    }

    /// Whether a power cut cannot take this record any more. None if that is not known yet: the next look tells.
    fn is_synced(&self, own: Lsn) -> Option<bool> {
        // Without files a power cut takes everything, whichever shard has it.
        let Some(log) = self.reign.server().persist.durability.log() else { return Some(true) };
        let is_synced = log.synced() >= own;
        (is_synced || log.is_lost()).then_some(is_synced)
    }

    fn hear(&mut self, happened: Happened) {
        match happened {
            Happened::Arrived(arrival) => {
                tracing::info!(id = self.id, source = %arrival.peer, "a shard begins to give slots to this one");
                if self.links.len() >= LINKS_MAX {
                    self.links.remove(0);
                }
                self.links.push(Link { arrival, attempt: None, message: Vec::new() });
            }
            Happened::Frame(at, None) => drop(self.links.remove(at)),
            Happened::Frame(at, Some(frame)) => {
                if let Err(why) = self.take_frame(at, frame) {
                    let peer = &self.links[at].arrival.peer;
                    tracing::warn!(id = self.id, source = %peer, "the link of a move ends: {why}");
                    self.links.remove(at);
                }
            }
            Happened::Answered((number, outcome, _)) => {
                self.asking -= 1;
                self.machine.outcome(number, outcome);
            }
            Happened::Synced(is_synced) => {
                let Some((attempt, _)) = self.sync.take() else { return };
                if is_synced {
                    return self.machine.synced(attempt);
                }
                let source = self.wanted.from;
                tracing::warn!(
                    id = self.id,
                    source,
                    "slots cannot come to this shard: its log has failed"
                );
                self.machine.log_failed();
            }
            Happened::Reached => {
                if let Some((_, mark)) = self.mark.take() {
                    steps::take(self.id, Step::TargetAnswers);
                    self.machine.has(mark);
                }
            }
        }
    }

    fn take_frame(&mut self, at: usize, frame: Arrived) -> Result<(), String> {
        let nonsense = || "the source sends nonsense".to_string();
        let link = &mut self.links[at];
        if link.message.len() + frame.body.len() > MESSAGE_MAX {
            return Err("a message is too long".to_string());
        }
        link.message.extend_from_slice(&frame.body);
        if frame.more {
            return Ok(());
        }
        let message = std::mem::take(&mut link.message);
        let is_current = link.attempt.is_some() && link.attempt == self.machine.importing();
        match frame.kind {
            Kind::Message => {
                let message = codec::to_target_of(&message).ok_or_else(nonsense)?;
                self.take_message(at, message);
                Ok(())
            }
            Kind::Part | Kind::Records if !is_current => Ok(()),
            Kind::Part => {
                // The first byte is the class, of snapshots alone.
                let packed = message.get(1..).ok_or_else(nonsense)?;
                self.import(|importer, now| importer.take_part(packed, now))?;
                if !std::mem::replace(&mut self.has_keys, true) {
                    steps::take(self.id, Step::TargetReceives);
                }
                Ok(())
            }
            Kind::Records => self.import(|importer, now| importer.take_records(&message, now)),
            Kind::CopyBegin | Kind::CopyEnd | Kind::Keys | Kind::Tenure => Err(nonsense()),
        }
    }

    fn import(
        &mut self,
        take: impl FnOnce(&mut Importer, u64) -> Result<Option<Lsn>, hotring_store::ImportError>,
    ) -> Result<(), String> {
        // The source has gone on after a mark.
        self.expect_no_more();
        let importer = self.importer.as_mut().ok_or("no import is open")?;
        let last = take(importer, clock::unix_ms()).map_err(|why| why.to_string())?;
        self.last = last.unwrap_or(self.last);
        Ok(())
    }

    fn take_message(&mut self, at: usize, message: ToTarget) {
        match message {
            ToTarget::Open(attempt) => {
                steps::take(self.id, Step::TargetIsAsked);
                self.links[at].attempt = Some(attempt);
            }
            ToTarget::Sync(attempt) if self.machine.importing() == Some(attempt) => {
                steps::take(self.id, Step::TargetSyncs);
                self.sync = Some((attempt, self.last));
                if let Some(log) = self.reign.server().persist.durability.log() {
                    log.sync_soon();
                }
            }
            ToTarget::Mark(attempt, mark) if self.machine.importing() == Some(attempt) => {
                steps::take(self.id, Step::TargetHasAll);
                self.mark = Some((self.last, mark));
                self.expected_until = Some(clock::monotonic() + EXPECTED_MAX);
                self.expect();
            }
            ToTarget::Committed(_) => steps::take(self.id, Step::TargetHearsThat),
            _ => {}
        }
        // Keys of an import that is given up are removed before the next one begins.
        let has_own = self.importer.is_some();
        let is_clean = (self.reign.is_clean() || has_own) && !self.reign.gives(&self.wanted.slots);
        if !is_clean {
            self.reign.forgets.notify_one();
        }
        // A log that cannot write now would fail at the end of the import, and that would begin again and again.
        let can_write = !self.reign.server().persist.durability.is_failing();
        self.machine.receive(message, is_clean && can_write);
    }

    /// Looks at the records, the clock, and the keys of an earlier attempt.
    fn look(&mut self) {
        if self.expected_until.is_some_and(|until| clock::monotonic() >= until) {
            self.expect_no_more();
        }
        if self.opening.is_some() && self.reign.is_clean() {
            self.begin();
        }
        let directory = self.reign.cluster().directory();
        let owners = &directory.owners;
        if self.shows
            && self.wanted.slots.iter().all(|slot| owners.of(slot) == Some(self.reign.shard))
        {
            self.close();
            self.shows = false;
            tracing::info!(id = self.id, slots = %self.wanted.slots, "slots have come to this shard");
            steps::take(self.id, Step::TargetHasShown);
        }
        if directory.slots_revision != self.table {
            self.table = directory.slots_revision;
            self.machine.table_changed();
        }
        let found = directory.moves.get(&self.id).map(|(_, wanted)| wanted);
        if found != Some(&self.wanted) {
            self.machine.record_gone();
        }
    }

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
            Act::Send(message) => self.send(message),
            Act::Ask(ask) => {
                let about = (self.id, self.wanted.clone());
                let answers = self.answers.0.clone();
                self.asking += 1;
                ask_for(&self.reign, about, ask, None, answers, |number, outcome, shown| {
                    (number, outcome, shown)
                });
            }
            Act::Begin(attempt) => {
                self.opening = Some(attempt);
                if self.reign.is_clean() {
                    self.begin();
                } else {
                    self.reign.forgets.notify_one();
                }
            }
            Act::Drop(_) => {
                steps::take(self.id, Step::TargetDrops);
                self.opening = None;
                self.close();
                self.reign.soil();
            }
            Act::Show(_) => {
                steps::take(self.id, Step::TargetShows);
                self.shows = true;
                // Until this node knows the table that says so.
                self.expected_until = None;
                self.expect();
            }
        }
    }

    fn begin(&mut self) {
        let Some(attempt) = self.opening.take() else { return };
        let server = self.reign.server().clone();
        let slots = Some(self.wanted.slots.clone());
        // An import without any record waits for the removals of keys that were there before.
        let last = server.import_slots(self.id, slots, &mut self.session);
        self.importer = Some(Importer::new(&server.store));
        (self.last, self.has_keys) = (last.unwrap_or(0), false);
        (self.sync, self.mark) = (None, None);
        steps::take(self.id, Step::TargetOpens);
        self.machine.begun(attempt);
    }

    /// No key comes any more.
    fn close(&mut self) {
        (self.sync, self.mark) = (None, None);
        if self.importer.take().is_some() {
            let server = self.reign.server().clone();
            server.import_slots(self.id, None, &mut self.session);
        }
        // Not before: a FLUSHALL that waits for nothing leaves keys that are coming.
        self.expect_no_more();
    }

    fn expect(&self) {
        self.reign.cluster().moves.expect(self.id, self.wanted.slots.clone());
    }

    fn expect_no_more(&mut self) {
        if self.expected_until.take().is_some() || self.shows {
            self.reign.cluster().moves.expect_no_more(self.id);
        }
    }

    fn send(&self, message: ToSource) {
        let attempt = match message {
            ToSource::Opened(attempt, _)
            | ToSource::NotReady(attempt)
            | ToSource::Synced(attempt)
            | ToSource::Has(attempt, _) => attempt,
        };
        let link = self.links.iter().rfind(|link| link.attempt == Some(attempt));
        if let Some(link) = link {
            // Its end comes as any other frame does.
            let _ = link.arrival.answers.send(message);
        }
    }
}
