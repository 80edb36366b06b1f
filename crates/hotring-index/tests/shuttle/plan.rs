//! Plans of runs: a shape weighs the possible operations, and a plan is drawn from it.

use crate::history::Op;
use crate::notes;
use fastrand::Rng;
use hotring_engines::{Atomicity, GCuckooConfig};
use hotring_index::checks::{Fault, Reclaim};
use hotring_index::{Config, Growth, Noting, RcuCounts, Strategy};

/// Most keys of a run.
pub const KEYS_MAX: usize = 4;
/// Slots of the largest table.
pub const SLOTS_MAX: usize = 8;
/// Of the hash: keys with equal hashes are known for it.
const SEED: [u64; 2] = [3, 4];

/// Random numbers whose seed is one of the checker's own.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n)
    }

    pub fn within(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.below(high - low + 1)
    }

    fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }

    pub fn of<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        &some[self.below(some.len() as u64) as usize]
    }
}

/// Where the keys of a run lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Anywhere.
    Any,
    /// In one slot, however large the table.
    Crowd,
    /// In one slot, two and two with equal tags.
    Twins,
    /// Two and two with equal hashes, if the kind has such keys; else as `Twins`.
    Equal,
    /// In two slots that are one in a table of half the size.
    Halves,
}

/// The possible operations of a thread; a shape weighs each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    Get,
    Put,
    Insert,
    Replace,
    Remove,
    Take,
    Add,
    Swap,
    Append,
    RemoveIf,
    /// Operations on expiries and versions.
    Timed,
    SwapVersion,
    ExpireStep,
    GetMany,
    Scan,
    Clear,
    Grow,
    Shrink,
    Collect,
    Complete,
    Advance,
    NewSession,
    /// Moves items to other memory.
    Compact,
    /// Reads the access bits of a key, reviews all keys, or changes the mode.
    Look,
    Review,
    SetNoting,
}

/// One thing that a thread does.
#[derive(Clone, Debug)]
pub enum Action {
    /// An operation; whether its first access may move a hint; and a style (see `Target`).
    Op(usize, Op, bool, u64),
    /// Asks for the version, and stores the value if that still is the version.
    SwapVersion(usize, u64, u64),
    ExpireStep,
    GetMany(Vec<usize>),
    /// A scan of everything, this many at a time.
    Scan(usize),
    Clear,
    Grow,
    Shrink,
    Collect,
    Complete(usize),
    Advance,
    NewSession,
    /// A step that moves about this many items.
    Compact(usize),
    /// Reads the access bits of a key.
    Look(usize),
    /// A review of everything, this many at a time.
    Review(usize),
    SetNoting(bool),
    /// Wakes waiters, in scripts.
    Signal,
    /// Waits for this many signals.
    Await(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    U64,
    Bytes,
}

/// An engine, and its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// HotRing with this many hints a slot.
    Hints(usize),
    Chains,
    Mercury,
    MercuryMutex,
    /// G-Cuckoo with one slot a bucket, and with four.
    GCuckoo1,
    GCuckoo4,
}

/// Common to runs of one sort.
#[derive(Clone, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub items: Items,
    pub form: Form,
    pub strategy: Strategy,
    pub complete_lines: bool,
    pub reclaim: Reclaim,
    pub rcu_counts: RcuCounts,
    pub fault: Fault,
    /// Whether the index at rest is looked at.
    pub at_rest: bool,
    pub threads: (u64, u64),
    pub actions: (u64, u64),
    pub keys: (u64, u64),
    pub places: &'static [Place],
    pub weights: &'static [(Pick, u64)],
    /// Accesses, in percent, that may move a hint.
    pub heat: u64,
    /// Keys, in percent, that are there at the start.
    pub prefill: u64,
    /// Doublings at the start.
    pub grows: (u64, u64),
    /// Halvings, in percent, that are under way at the start.
    pub shrinking: u64,
    /// Steps of the lines towards complete before the start; the fourth is the last.
    pub completions: (u64, u64),
    /// In the place of random values and actions.
    pub script: Option<fn() -> Script>,
}

/// Parts of a plan that are random elsewhere: the values of the keys, and the threads' operations.
pub struct Script {
    pub prefill: Vec<Option<u64>>,
    pub threads: Vec<Vec<Action>>,
}

/// A bit of everything.
pub const EVERYTHING: &[(Pick, u64)] = &[
    (Pick::Get, 8),
    (Pick::Put, 5),
    (Pick::Insert, 4),
    (Pick::Replace, 2),
    (Pick::Remove, 5),
    (Pick::Take, 2),
    (Pick::Add, 2),
    (Pick::Swap, 2),
    (Pick::Append, 1),
    (Pick::RemoveIf, 1),
    (Pick::Timed, 2),
    (Pick::SwapVersion, 1),
    (Pick::ExpireStep, 1),
    (Pick::GetMany, 1),
    (Pick::Scan, 1),
    (Pick::Clear, 1),
    (Pick::Grow, 2),
    (Pick::Shrink, 2),
    (Pick::Collect, 3),
    (Pick::Complete, 2),
    (Pick::Advance, 2),
    (Pick::NewSession, 1),
    (Pick::Compact, 1),
    (Pick::Look, 3),
    (Pick::Review, 1),
    (Pick::SetNoting, 1),
];

impl Shape {
    /// A bit of everything, for items that have their hints by vote.
    pub fn new(name: &'static str, items: Items, hints: usize, strategy: Strategy) -> Self {
        Self {
            name,
            items,
            form: Form::Hints(hints),
            strategy,
            complete_lines: false,
            reclaim: Reclaim::Epochs,
            rcu_counts: RcuCounts::Item,
            fault: Fault::None,
            at_rest: true,
            threads: (2, 4),
            actions: (3, 8),
            keys: (1, KEYS_MAX as u64),
            places: &[Place::Any, Place::Crowd, Place::Twins, Place::Equal, Place::Halves],
            weights: EVERYTHING,
            heat: 50,
            prefill: 60,
            grows: (0, 3),
            shrinking: 20,
            completions: (0, 0),
            script: None,
        }
    }

    /// A bit of everything, for another engine than HotRing.
    pub fn of(name: &'static str, items: Items, form: Form) -> Self {
        Self { form, ..Self::new(name, items, 0, Strategy::default()) }
    }

    pub fn complete(self) -> Self {
        self.complete_after((0, 7))
    }

    /// With complete lines, which at the start have gone this many steps towards it.
    pub fn complete_after(self, completions: (u64, u64)) -> Self {
        Self { complete_lines: true, completions, ..self }
    }

    /// Under the oracle grace periods do not exist, so nothing that needs one can be done.
    pub fn oracle(self) -> Self {
        assert!(!self.complete_lines, "a line becomes complete after a grace period");
        Self { reclaim: Reclaim::Oracle, shrinking: 0, ..self }
    }

    /// Whether accesses can be noted.
    pub fn notes(&self) -> bool {
        self.items == Items::Bytes && self.strategy != Strategy::Sampling
    }

    pub fn config(&self, random: &mut Random) -> Config {
        let config = self.config_of_all(random);
        match self.form {
            Form::Hints(_) => Config {
                strategy: self.strategy,
                period: *random.of(&[Some(1), Some(1), Some(5)]),
                backoff: random.percent(30),
                rcu_counts: self.rcu_counts,
                complete_lines: Some(self.complete_lines),
                ..config
            },
            Form::Chains | Form::Mercury | Form::MercuryMutex => config,
            Form::GCuckoo1 | Form::GCuckoo4 => Config {
                slots_max: 4 * SLOTS_MAX,
                engine: GCuckooConfig {
                    atomicity: *random.of(&[Atomicity::Optimistic, Atomicity::Lock]),
                    cache_entries: *random.of(&[0, 2]),
                    page_buckets: *random.of(&[1, 2]),
                    ..GCuckooConfig::default()
                }
                .into(),
                ..config
            },
        }
    }

    /// The operations of every engine.
    fn config_of_all(&self, random: &mut Random) -> Config {
        let fixed = random.percent(50);
        Config {
            seed: SEED,
            growth: fixed.then_some(Growth::Fixed),
            slots_initial: 1,
            slots_max: SLOTS_MAX,
            huge_pages: false,
            pipeline_depth: *random.of(&[1, 2, 4, 64]),
            fault: self.fault,
            reclaim: self.reclaim,
            ..Config::default()
        }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub place: Place,
    pub prefill: Vec<Option<u64>>,
    /// The mode of access bits.
    pub noting: Noting,
    /// Of the values at the start.
    pub style: u64,
    pub grows: u64,
    /// Whether the keys' items are looked up, so that they may have hints.
    pub warm: bool,
    pub completions: u64,
    pub shrinking: bool,
    /// Steps of the halving before it begins.
    pub steps: u64,
    pub threads: Vec<Vec<Action>>,
}

impl Plan {
    pub fn draw(shape: &Shape, random: &mut Random) -> Self {
        let Script { prefill, threads } =
            shape.script.map_or_else(|| script(shape, random), |script| script());
        Self {
            place: *random.of(shape.places),
            prefill,
            noting: if shape.notes() { notes::draw(random) } else { Noting::Off },
            style: random.next(),
            grows: random.within(shape.grows),
            warm: random.percent(shape.heat),
            completions: random.within(shape.completions),
            shrinking: random.percent(shape.shrinking),
            steps: random.below(8),
            threads,
        }
    }
}

fn script(shape: &Shape, random: &mut Random) -> Script {
    let keys = random.within(shape.keys) as usize;
    let mut values = Values { few: random.percent(50), drawn: vec![0] };
    let prefill =
        (0..keys).map(|_| random.percent(shape.prefill).then(|| values.draw(random))).collect();
    let threads = (0..random.within(shape.threads))
        .map(|_| {
            let actions = random.within(shape.actions);
            (0..actions).map(|_| action(shape, keys, &mut values, random)).collect()
        })
        .collect();
    Script { prefill, threads }
}

/// Values of a run: a few that meet often, or all different.
struct Values {
    few: bool,
    drawn: Vec<u64>,
}

impl Values {
    fn draw(&mut self, random: &mut Random) -> u64 {
        let low = if self.few { random.below(3) } else { self.drawn.len() as u64 };
        let v = low | if random.percent(25) { 1 << 63 } else { 0 };
        self.drawn.push(v);
        v
    }

    fn known(&self, random: &mut Random) -> u64 {
        *random.of(&self.drawn)
    }
}

fn action(shape: &Shape, keys: usize, values: &mut Values, random: &mut Random) -> Action {
    let key = random.below(keys as u64) as usize;
    let op = match pick(shape, random) {
        Pick::Get => Op::Get,
        Pick::Put => Op::Put(values.draw(random)),
        Pick::Insert => Op::Insert(values.draw(random)),
        Pick::Replace => Op::Replace(values.draw(random)),
        Pick::Remove => Op::Remove,
        Pick::Take => Op::Take,
        Pick::Add => Op::Add(*random.of(&[1, 1 << 63])),
        Pick::Swap => Op::Swap(values.known(random), values.draw(random)),
        Pick::Append => Op::Append(random.below(10)),
        Pick::RemoveIf => Op::RemoveIf(values.known(random)),
        Pick::Timed => {
            let lapsed = Op::PutLapsed(values.draw(random));
            *random.of(&[lapsed, Op::Lapse, Op::Expire, Op::Expire, Op::Version])
        }
        Pick::SwapVersion => {
            return Action::SwapVersion(key, values.draw(random), random.next());
        }
        Pick::ExpireStep => return Action::ExpireStep,
        Pick::GetMany => {
            let all = (0..keys).filter(|_| random.percent(70)).collect();
            return Action::GetMany(all);
        }
        Pick::Scan => return Action::Scan(random.within((1, 4)) as usize),
        Pick::Clear => return Action::Clear,
        Pick::Grow => return Action::Grow,
        Pick::Shrink => return Action::Shrink,
        Pick::Collect => return Action::Collect,
        Pick::Complete => return Action::Complete(key),
        Pick::Advance => return Action::Advance,
        Pick::NewSession => return Action::NewSession,
        Pick::Compact => return Action::Compact(random.within((1, 4)) as usize),
        Pick::Look => return Action::Look(key),
        Pick::Review => return Action::Review(random.within((1, 4)) as usize),
        Pick::SetNoting => return Action::SetNoting(random.percent(50)),
    };
    Action::Op(key, op, random.percent(shape.heat), random.next())
}

fn pick(shape: &Shape, random: &mut Random) -> Pick {
    let usable = |&&(pick, _): &&(Pick, u64)| match pick {
        Pick::Shrink => shape.reclaim == Reclaim::Epochs,
        Pick::Complete => shape.complete_lines,
        Pick::Timed | Pick::SwapVersion | Pick::ExpireStep => shape.items == Items::Bytes,
        Pick::Look | Pick::Review | Pick::SetNoting => shape.notes(),
        _ => true,
    };
    let all = || shape.weights.iter().filter(usable);
    let mut left = random.below(all().map(|(_, weight)| weight).sum());
    for &(pick, weight) in all() {
        if left < weight {
            return pick;
        }
        left -= weight;
    }
    unreachable!("the weights' sum is above what was drawn")
}
