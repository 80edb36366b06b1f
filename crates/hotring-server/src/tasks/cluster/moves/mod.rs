//! Moves of slots: a thread that gives away what the records want moved, and takes what other shards give.
//!
//! ```text
//!   records --> Keeper --> give (a task for each move)  --> machine, holds, link --> the target's primary
//!                  |                                                          dial, HOTRING.IMPORT
//!   links that ----+-----> take (a task for each move)  --> machine, import, answers
//!   have come              forget (a task for each epoch) --> removes keys that no shard's table gives to this one
//! ```
//! Everything belongs to one epoch in which this node is primary. When that ends all tasks end, and whoever is primary
//! then begins by reading the records.

mod forget;
mod give;
mod link;
mod steps;
mod take;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_cluster::directory::{Directory, MoveId, Node, Wanted, move_name, move_value};
use hotring_cluster::moves::{Ask, Outcome, commit, view};
use hotring_cluster::{Epoch, Moment, Revision, SLOTS, ShardId, Slot, SlotSet};
use hotring_commands::host::clock;
use hotring_commands::state::cluster::Cluster;
use hotring_commands::state::moves::Arrival;
use hotring_commands::state::server::Server;
use hotring_coordinator::{self as coordinator, Coordinator, Failure};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinHandle;

use super::{Member, PAUSE};
use crate::tasks::replicate::unless;
use give::Ended;
pub(crate) use link::serve;
use steps::Step;

use crate::tasks::{run_again, run_on_event_loop};

/// The name of the thread, and of its sessions.
pub(crate) const THREAD: &str = "hotring-moves";

/// Moves that this node gives at the same time. Each walks over all keys.
const GIVEN_MAX: usize = 4;

/// Pause between two attempts at a move, and the longest if the target does not answer.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(8);

/// Time between two looks at what nothing announces.
const LOOK: Duration = Duration::from_millis(50);

/// Pause before a request to the coordinator that had no answer is repeated. Clients may be waiting.
const ASK_PAUSE: Duration = Duration::from_millis(50);

/// Records that one transaction writes again.
const REWRITTEN_MAX: usize = 50;

/// Links to one move that wait for its task.
const LINKS_MAX: usize = 4;

/// Moves slots until the server stops.
pub(crate) fn run(server: &Arc<Server>, coordinator: &Arc<dyn Coordinator>, node: &Node) {
    let mut runs = 0;
    run_again("the moves of slots", PAUSE, || {
        runs += 1;
        run_once(server, coordinator.clone(), node.clone(), runs > 1);
    });
}

fn run_once(
    server: &Arc<Server>,
    coordinator: Arc<dyn Coordinator>,
    node: Node,
    has_panicked: bool,
) {
    let Some(cluster) = &server.cluster else { return };
    let member = Rc::new(Member { server: server.clone(), coordinator, node });
    run_on_event_loop(server, async {
        let work = pin!(Keeper::new(member, has_panicked).run(cluster));
        _ = unless(server.process.stopping(), work).await;
    });
}

/// What belongs to one epoch.
pub(super) struct Reign {
    member: Rc<Member>,
    epoch: Epoch,
    shard: ShardId,
    /// When it began.
    began: Instant,
    /// The slots that are being given away, by their moves.
    given: RefCell<BTreeMap<MoveId, SlotSet>>,
    /// How often keys of slots that are not the shard's have come about, and how often they had when the last walk that
    /// removed them began.
    soiled: Cell<u64>,
    cleaned: Cell<u64>,
    /// There may be such keys.
    forgets: Notify,
    /// A task has panicked: what waits and what comes must stay so until no transaction can take effect any more.
    is_doubtful: Cell<bool>,
}

impl Reign {
    /// The time as the machines take it.
    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    fn server(&self) -> &Arc<Server> {
        &self.member.server
    }

    fn cluster(&self) -> &Cluster {
        self.member.server.cluster.as_ref().expect("the thread runs at nodes of clusters only")
    }

    /// Whether it lasts.
    fn lasts(&self) -> bool {
        self.server().replication.led_epoch() == Some(self.epoch)
    }

    /// Keys of slots that are not the shard's may be there from now on.
    fn soil(&self) {
        self.soiled.set(self.soiled.get() + 1);
        self.forgets.notify_one();
    }

    /// Whether there are no keys of slots that are not the shard's, but those of open imports.
    fn is_clean(&self) -> bool {
        self.soiled.get() == self.cleaned.get()
    }

    /// Whether one of these slots is being given away.
    fn gives(&self, slots: &SlotSet) -> bool {
        self.given.borrow().values().any(|given| given.meets(slots))
    }
}

/// What a reading has shown, for the transaction that may follow.
type Shown = Option<Rc<Directory>>;

/// Asks the coordinator what a machine wants to know. The commit is of what `shown` has.
async fn ask(
    member: &Member,
    (id, wanted): (MoveId, &Wanted),
    ask: Ask,
    shown: Shown,
) -> (Outcome, Shown) {
    let answered = match ask {
        Ask::Read(_) => read(member, id, wanted).await,
        Ask::Commit(..) => transact(member, id, shown).await,
    };
    match answered {
        Ok(answered) => answered,
        Err(why) => {
            tracing::debug!("a request for a move has no answer: {why}");
            tokio::time::sleep(ASK_PAUSE).await;
            (Outcome::Unknown, None)
        }
    }
}

async fn read_directory(member: &Member) -> Result<Directory, Failure> {
    let snapshot = member.ask(member.coordinator.read()).await?;
    let records = snapshot.records.iter();
    let records = records.map(|record| (&record.name[..], record.revision, &record.value[..]));
    Directory::read(records).map_err(|why| Failure::Refused(why.to_string()))
}

async fn read(member: &Member, id: MoveId, wanted: &Wanted) -> Result<(Outcome, Shown), Failure> {
    let directory = read_directory(member).await?;
    let shown = view(&directory, id, wanted);
    Ok((Outcome::Read(shown), Some(Rc::new(directory))))
}

async fn transact(member: &Member, id: MoveId, shown: Shown) -> Result<(Outcome, Shown), Failure> {
    let Some(transaction) = shown.and_then(|directory| commit(&directory, id)) else {
        return Ok((Outcome::Conflict, None));
    };
    steps::take(id, Step::SourceCommits);
    let done = member.ask(member.coordinator.transact(&transaction)).await?;
    Ok(match done {
        coordinator::Outcome::Done(_) => {
            steps::take(id, Step::SourceHasCommitted);
            (Outcome::Committed, None)
        }
        coordinator::Outcome::Conflict => (Outcome::Conflict, None),
    })
}

/// The task of a move that brings slots here.
struct Taking {
    slots: SlotSet,
    /// Where its links go.
    links: mpsc::Sender<Arrival>,
    task: JoinHandle<()>,
}

/// The last attempt at a move that this node gives.
struct Tried {
    /// Its number among all.
    turn: u64,
    began: Seen,
    /// How it ended, and when; None while it lasts.
    ended: Option<(Ended, Instant)>,
    pause: Duration,
}

/// The revisions of records on which an attempt depends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    wanted: Revision,
    table: Revision,
    target: Option<Revision>,
}

impl Seen {
    fn of(directory: &Directory, (wanted, to): (Revision, ShardId)) -> Seen {
        let target = directory.shards.get(&to).map(|(revision, _)| *revision);
        Seen { wanted, table: directory.slots_revision, target }
    }
}

impl Tried {
    /// Whether the next attempt may begin by these records.
    fn is_over(&self, now: Seen) -> bool {
        match self.ended {
            None => false,
            Some((Ended::Over, _)) => true,
            Some((Ended::Hopeless, _)) => {
                (self.began.wanted, self.began.table) != (now.wanted, now.table)
            }
            Some((Ended::Vain { .. }, at)) => {
                self.began.target != now.target || at.elapsed() >= self.pause
            }
        }
    }

    /// The attempt has ended. A target that does not answer is asked more and more seldom.
    fn end(&mut self, ended: Ended) {
        self.pause = match ended {
            Ended::Vain { was_heard: false } => (2 * self.pause).clamp(RETRY, RETRY_MAX),
            _ => RETRY,
        };
        self.ended = Some((ended, clock::monotonic()));
    }
}

/// Begins and ends the tasks.
struct Keeper {
    member: Rc<Member>,
    reign: Option<Rc<Reign>>,
    giving: BTreeMap<MoveId, JoinHandle<Ended>>,
    taking: BTreeMap<MoveId, Taking>,
    /// The revision of the table that was looked at last, and the slots that it gives to other shards.
    table: Revision,
    foreign: SlotSet,
    forgetting: Option<JoinHandle<()>>,
    /// The moves to give that were tried, so that each has its turn, and how often any was.
    tried: BTreeMap<MoveId, Tried>,
    turns: u64,
    /// A task that has panicked, or an earlier run of this thread, may have a transaction on its way.
    is_doubtful: bool,
}

impl Keeper {
    fn new(member: Rc<Member>, is_doubtful: bool) -> Keeper {
        Keeper {
            member,
            reign: None,
            giving: BTreeMap::new(),
            taking: BTreeMap::new(),
            table: 0,
            foreign: SlotSet::default(),
            forgetting: None,
            tried: BTreeMap::new(),
            turns: 0,
            is_doubtful,
        }
    }

    async fn run(mut self, cluster: &Cluster) {
        loop {
            self.look(cluster).await;
            let looked = tokio::time::sleep(LOOK);
            let woken = unless(cluster.published(), cluster.moves.arrived());
            _ = unless(async { _ = woken.await }, looked).await;
        }
    }

    async fn look(&mut self, cluster: &Cluster) {
        let directory = cluster.directory();
        let led = self.member.server.replication.led_epoch();
        let mine = directory.shard_of_node(cluster.me);
        let led = led.zip(mine).filter(|(epoch, (_, shard))| shard.epoch == *epoch);
        let is_same = |reign: &Rc<Reign>| led.is_some_and(|(epoch, _)| epoch == reign.epoch);
        if self.reign.as_ref().is_some_and(|reign| !is_same(reign)) {
            self.end().await;
        }
        let Some((epoch, (shard, _))) = led else {
            drop(cluster.moves.take_arrivals());
            return;
        };
        if self.is_doubtful && !self.settle(&directory, shard).await {
            return;
        }
        let reign = self.reign.get_or_insert_with(|| {
            let member = self.member.clone();
            let (given, cleaned, forgets, is_doubtful) = Default::default();
            // What an earlier primary left is there.
            let soiled = Cell::new(1);
            let began = clock::monotonic();
            Rc::new(Reign {
                member,
                epoch,
                shard,
                began,
                given,
                soiled,
                cleaned,
                forgets,
                is_doubtful,
            })
        });
        let reign = reign.clone();
        if self.reap().await {
            // It is unknown what became of its last transaction, and the others end in the middle of theirs. A new
            // reign begins by settling that.
            self.is_doubtful = true;
            reign.is_doubtful.set(true);
            return self.end().await;
        }
        if self.forgetting.as_ref().is_none_or(JoinHandle::is_finished) {
            self.forgetting = Some(tokio::task::spawn_local(forget::keep(reign.clone())));
        }
        if directory.slots_revision != self.table {
            self.table = directory.slots_revision;
            let is_foreign =
                |slot: &Slot| directory.owners.of(*slot).is_some_and(|owner| owner != shard);
            let foreign: SlotSet = (0..SLOTS).filter(is_foreign).collect();
            if foreign.iter().any(|slot| !self.foreign.contains(slot)) {
                reign.soil();
            }
            self.foreign = foreign;
        }
        self.begin_giving(&reign, &directory);
        for arrival in cluster.moves.take_arrivals() {
            self.take(&reign, &directory, arrival);
        }
    }

    /// Removes the tasks that have ended; whether one of them has panicked.
    async fn reap(&mut self) -> bool {
        let given: Vec<_> = self.giving.extract_if(.., |_, task| task.is_finished()).collect();
        let taken = self.taking.extract_if(.., |_, taking| taking.task.is_finished());
        let taken: Vec<_> = taken.map(|(id, taking)| (id, taking.task)).collect();
        let mut panicked = Vec::new();
        for (id, task) in given {
            match (task.await, self.tried.get_mut(&id)) {
                (Ok(ended), Some(tried)) => tried.end(ended),
                (Ok(_), None) => {}
                (Err(why), _) => panicked.extend(why.is_panic().then_some(id)),
            }
        }
        for (id, task) in taken {
            let has_panicked = task.await.is_err_and(|why| why.is_panic());
            panicked.extend(has_panicked.then_some(id));
        }
        for id in &panicked {
            tracing::error!(id, "the task of a move of slots panicked");
        }
        !panicked.is_empty()
    }

    /// Ends everything of an epoch that is over. Nothing of the next one must begin before.
    async fn end(&mut self) {
        for task in std::mem::take(&mut self.giving).into_values() {
            task.abort();
            _ = task.await;
        }
        let taking = std::mem::take(&mut self.taking).into_values().map(|taking| taking.task);
        for task in taking.chain(self.forgetting.take()) {
            task.abort();
            _ = task.await;
        }
        self.reign = None;
        // The records may have forbidden a move to the epoch that is over only.
        self.tried.clear();
    }

    /// Writes the records of this shard's moves again, so that no transaction of an earlier run can still take effect,
    /// nor one for an import that this run does not know. True once that is done.
    async fn settle(&mut self, directory: &Directory, shard: ShardId) -> bool {
        let moves = directory.moves.iter();
        let own = moves.filter(|(_, (_, wanted))| wanted.from == shard || wanted.to == shard);
        let rewritten: Vec<_> = own
            .map(|(id, (revision, wanted))| {
                let (name, value) = (move_name(*id), move_value(wanted));
                let put = coordinator::Change::Put { name: name.clone(), value, lease: None };
                ((name, *revision), put)
            })
            .collect();
        for some in rewritten.chunks(REWRITTEN_MAX) {
            let (expect, changes) = some.iter().cloned().unzip();
            let transaction = coordinator::Transaction { expect, changes };
            let done = self.member.ask(self.member.coordinator.transact(&transaction)).await;
            if !matches!(done, Ok(coordinator::Outcome::Done(_))) {
                return false;
            }
        }
        let server = &self.member.server;
        // Tasks that have ended so, or those of an earlier run, may have left slots held, coming or closed.
        server.end_moves(&mut server.store.session_named(THREAD));
        self.is_doubtful = false;
        true
    }

    /// Begins the moves that the records want, as far as there is room: those first that were tried longest ago.
    fn begin_giving(&mut self, reign: &Rc<Reign>, directory: &Directory) {
        self.tried.retain(|id, _| directory.moves.contains_key(id) || self.giving.contains_key(id));
        let turn = |id| self.tried.get(id).map_or(0, |tried| tried.turn);
        let mut moves: Vec<_> = directory.moves.iter().collect();
        moves.sort_by_key(|(id, _)| turn(id));
        for (&id, (revision, wanted)) in moves {
            if self.giving.len() >= GIVEN_MAX {
                return;
            }
            let seen = Seen::of(directory, (*revision, wanted.to));
            let tried = self.tried.get(&id);
            let is_due = tried.is_none_or(|tried| tried.is_over(seen));
            if !is_due || !self.may_give(reign, directory, wanted) {
                continue;
            }
            if tried.is_none() {
                let Wanted { to, slots, .. } = wanted;
                tracing::info!(id, to, %slots, "a move of slots to another shard begins");
            }
            self.turns += 1;
            let pause = tried.map_or(Duration::ZERO, |tried| tried.pause);
            let tried = Tried { turn: self.turns, began: seen, ended: None, pause };
            self.tried.insert(id, tried);
            let giving = give::give(reign.clone(), id, wanted.clone());
            self.giving.insert(id, tokio::task::spawn_local(giving));
        }
    }

    /// Whether these slots are this shard's to give, and the target has a primary to take them.
    fn may_give(&self, reign: &Reign, directory: &Directory, wanted: &Wanted) -> bool {
        let is_mine = |slot| directory.owners.of(slot) == Some(reign.shard);
        wanted.from == reign.shard
            && wanted.slots.iter().all(is_mine)
            && !reign.gives(&wanted.slots)
            && !self.takes(&wanted.slots)
            && give::has_primary(directory, wanted)
    }

    /// Whether some of these slots are still coming.
    fn takes(&self, slots: &SlotSet) -> bool {
        self.taking.values().any(|taking| taking.slots.meets(slots))
    }

    /// Hands a link to the task of its move.
    fn take(&mut self, reign: &Rc<Reign>, directory: &Directory, arrival: Arrival) {
        let id = arrival.id;
        let wanted = directory.moves.get(&id).map(|(_, wanted)| wanted);
        let Some(wanted) =
            wanted.filter(|wanted| wanted.from == arrival.from && wanted.to == reign.shard)
        else {
            return;
        };
        let begin = || {
            let (links, come) = mpsc::channel(LINKS_MAX);
            let task = take::take(reign.clone(), id, wanted.clone(), come);
            let (slots, task) = (wanted.slots.clone(), tokio::task::spawn_local(task));
            Taking { slots, links, task }
        };
        let taking = self.taking.entry(id).or_insert_with(begin);
        // A source with more links than that has ended most of them itself.
        let _ = taking.links.try_send(arrival);
    }
}

/// Sends the outcome of a request to the task that asked. After a panic on the way it is unknown.
fn ask_for<E: 'static>(
    reign: &Rc<Reign>,
    about: (MoveId, Wanted),
    asked: Ask,
    shown: Shown,
    events: UnboundedSender<E>,
    event: impl FnOnce(u64, Outcome, Shown) -> E + 'static,
) {
    let (Ask::Read(number) | Ask::Commit(number, _)) = asked;
    let member = reign.member.clone();
    let asking = async move { ask(&member, (about.0, &about.1), asked, shown).await };
    let asking = tokio::task::spawn_local(asking);
    tokio::task::spawn_local(async move {
        let (outcome, shown) = match asking.await {
            Ok(answered) => answered,
            Err(_) => {
                tokio::time::sleep(ASK_PAUSE).await;
                (Outcome::Unknown, None)
            }
        };
        // The task may have ended with its epoch.
        let _ = events.send(event(number, outcome, shown));
    });
}
