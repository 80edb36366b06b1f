//! One run: the checker's threads carry out a plan, and conditions are checked.
//!
//! The history of each key must be linearizable, the index at rest must be consistent, and what
//! was retired must be freed once all sessions but one have ended.

use crate::history::{Event, Op, Outcome, State, is_linearizable};
use crate::notes::{self, Sight};
use crate::plan::{Action, Form, Items, KEYS_MAX, Place, Plan, Random, SLOTS_MAX, Shape};
use crate::target::Target;
use hotring_engines::{Chaining, GCuckoo, Mercury, OsMutex, TestAndSet};
use hotring_index::checks::Checked;
use hotring_index::{Bytes, Index, Noting, Ring, Session, U64};
use shuttle::rand::RngCore;
use shuttle::sync::{Condvar, Mutex};
use std::any::TypeId;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// The reports of this thread's run. All threads of a run are the checker's, on one real thread.
#[derive(Default)]
pub struct Record {
    pub plan: String,
    pub history: Vec<Event>,
    /// The access bits that were seen, and the times of reviews.
    pub sights: Vec<Sight>,
    pub reviews: Vec<(u64, u64)>,
    pub clock: u64,
}

thread_local! {
    pub static RECORD: RefCell<Record> = RefCell::default();
}

pub fn tick() -> u64 {
    RECORD.with_borrow_mut(|record| {
        record.clock += 1;
        record.clock
    })
}

pub fn note(key: usize, op: Op, outcome: Outcome, call: u64) {
    let end = tick();
    RECORD.with_borrow_mut(|r| r.history.push(Event { key, op, outcome, call, end }));
}

/// By which scripts order their threads, so that fewer schedules are not the ones meant.
#[derive(Default)]
struct Signals {
    sent: Mutex<u32>,
    changed: Condvar,
}

impl Signals {
    fn send(&self) {
        *self.sent.lock().expect("no panic") += 1;
        self.changed.notify_all();
    }

    fn wait(&self, n: u32) {
        let mut sent = self.sent.lock().expect("no panic");
        while *sent < n {
            sent = self.changed.wait(sent).expect("no panic");
        }
    }
}

/// Carries out a plan that is drawn from the shape.
pub fn run(shape: &Shape) {
    match shape.items {
        Items::U64 => run_on::<U64>(shape),
        Items::Bytes => run_on::<Bytes>(shape),
    }
}

fn run_on<K: Target>(shape: &Shape) {
    match shape.form {
        Form::Hints(1) => run_as::<K, Ring<1>>(shape),
        Form::Hints(2) => run_as::<K, Ring<2>>(shape),
        Form::Hints(3) => run_as::<K, Ring<3>>(shape),
        Form::Hints(4) => run_as::<K, Ring<4>>(shape),
        Form::Hints(_) => run_as::<K, Ring<7>>(shape),
        Form::Chains => run_as::<K, Chaining>(shape),
        Form::Mercury => run_as::<K, Mercury<TestAndSet>>(shape),
        Form::MercuryMutex => run_as::<K, Mercury<OsMutex>>(shape),
        Form::GCuckoo1 => run_as::<K, GCuckoo<1>>(shape),
        Form::GCuckoo4 => run_as::<K, GCuckoo<4>>(shape),
    }
}

/// Keys that lie at a place.
fn keys_at<K: Target, E: Checked>(session: &Session<K, E>, place: Place) -> Vec<K::Name> {
    if let (Place::Equal, Some(names)) = (place, K::equal()) {
        return names;
    }
    // Found once, as it takes a while.
    type Numbers = HashMap<(TypeId, Place), Vec<u64>>;
    static FOUND: OnceLock<std::sync::Mutex<Numbers>> = OnceLock::new();
    let mut found = FOUND.get_or_init(Default::default).lock().expect("no panic");
    let numbers = found.entry((TypeId::of::<K>(), place)).or_insert_with(|| {
        let hash = |n: u64| session.hash_of(K::name(n).borrow());
        find(place, &hash)
    });
    numbers.iter().map(|&n| K::name(n)).collect()
}

/// The numbers of keys whose hashes lie at a place.
fn find(place: Place, hash: &dyn Fn(u64) -> u64) -> Vec<u64> {
    let in_slot = |slot: usize| (0..).filter(move |&n| hash(n) as usize % SLOTS_MAX == slot);
    match place {
        Place::Any => (0..KEYS_MAX as u64).collect(),
        Place::Crowd => in_slot(5).take(KEYS_MAX).collect(),
        Place::Twins | Place::Equal => {
            let mut first = HashMap::new();
            let tag = |n: u64| hash(n) >> 32 & 0xffff;
            let pairs = in_slot(5).filter_map(|n| first.insert(tag(n), n).map(|twin| [twin, n]));
            pairs.take(KEYS_MAX / 2).flatten().collect()
        }
        // One of each by turns, so that two keys are enough.
        Place::Halves => {
            in_slot(1).zip(in_slot(5)).flat_map(|(low, high)| [low, high]).take(KEYS_MAX).collect()
        }
    }
}

fn run_as<K: Target, E: Checked>(shape: &Shape) {
    let mut random = Random::new(shuttle::rand::thread_rng().next_u64());
    let config = shape.config(&mut random);
    let plan = Plan::draw(shape, &mut random);
    let sessions_early = random.below(2) == 0;
    RECORD.set(Record { plan: format!("{plan:?}\n{config:?}"), ..Record::default() });

    let index = Index::<K, E>::new(config).expect("a valid configuration");
    // A session's own random numbers go by its number.
    for _ in 0..random.below(8) {
        drop(index.session());
    }
    K::note(&index, Some(plan.noting));
    let mut session = index.session();
    let mut names = keys_at(&session, plan.place);
    names.truncate(plan.prefill.len());
    let names: Arc<[K::Name]> = names.into();
    prepare(&plan, &mut session, &names);
    let early: Vec<_> =
        plan.threads.iter().map(|_| sessions_early.then(|| index.session())).collect();
    let signals = Arc::new(Signals::default());
    let threads: Vec<_> = early
        .into_iter()
        .zip(plan.threads.iter().cloned())
        .map(|(early, actions)| {
            let (index, names, signals) = (index.clone(), names.clone(), signals.clone());
            let noting = plan.noting;
            shuttle::thread::spawn(move || {
                let mut session = early.unwrap_or_else(|| index.session());
                for action in actions {
                    match action {
                        Action::Signal => signals.send(),
                        Action::Await(n) => signals.wait(n),
                        action => act(&index, &mut session, &names, noting, action),
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a panic ends the run");
    }
    conclude(shape, &plan, &index, &mut session, &names);
}

fn prepare<K: Target, E: Checked>(plan: &Plan, session: &mut Session<K, E>, names: &[K::Name]) {
    for _ in 0..plan.grows {
        if session.grow() && E::GROWS_IN_STEPS {
            (0..plan.steps).for_each(|_| session.collect());
        }
    }
    for (key, name) in names.iter().enumerate() {
        if let Some(value) = plan.prefill[key] {
            K::run(session, name, Op::Put(value), plan.style >> key);
            if plan.warm {
                session.heat_next();
                K::run(session, name, Op::Get, 0);
            }
        }
    }
    for _ in 0..plan.completions {
        for name in names {
            E::complete(session, session.hash_of(name.borrow()));
        }
        session.advance();
    }
    if plan.shrinking && session.shrink() {
        for _ in 0..plan.steps {
            session.collect();
        }
    }
}

fn act<K: Target, E: Checked>(
    index: &Index<K, E>,
    session: &mut Session<K, E>,
    names: &[K::Name],
    noting: Noting,
    action: Action,
) {
    let call = tick();
    match action {
        Action::Op(key, op, hot, style) => {
            if hot {
                session.heat_next();
            }
            let outcome = K::run(session, &names[key], op, style);
            note(key, op, outcome, call);
        }
        Action::SwapVersion(key, value, style) => {
            let outcome = K::run(session, &names[key], Op::Version, 0);
            note(key, Op::Version, outcome, call);
            if let Outcome::Version(Some(version)) = outcome {
                let (op, call) = (Op::SwapVersion(version, value), tick());
                let outcome = K::run(session, &names[key], op, style);
                note(key, op, outcome, call);
            }
        }
        Action::ExpireStep => K::expire_step(session),
        Action::GetMany(keys) => {
            let some: Vec<K::Name> = keys.iter().map(|&key| names[key].clone()).collect();
            for (key, value) in keys.into_iter().zip(K::get_many(session, &some)) {
                note(key, Op::Get, Outcome::Value(value), call);
            }
        }
        Action::Scan(count) => scan(session, names, count, call),
        Action::Clear => {
            K::clear(session);
            for key in 0..names.len() {
                // Whether it removed the key is not said: `judge` tries both.
                note(key, CLEARED, Outcome::Flag(true), call);
            }
        }
        Action::Grow => drop(session.grow()),
        Action::Shrink => drop(session.shrink()),
        Action::Collect => session.collect(),
        Action::Complete(key) => E::complete(session, session.hash_of(names[key].borrow())),
        Action::Advance => session.advance(),
        Action::NewSession => *session = index.session(),
        Action::Compact(count) => drop(session.compact_step(count)),
        Action::Look(key) => look(session, key, &names[key]),
        Action::Review(count) => {
            K::review(session, count, |name, bits| {
                let key = names.iter().position(|n| *n == name);
                notes::sight(key.expect("a review shows only what was put"), bits, call);
                notes::aged(noting, bits)
            });
            notes::reviewed(call);
        }
        Action::SetNoting(on) => drop(K::note(index, Some(if on { noting } else { Noting::Off }))),
        Action::Signal | Action::Await(_) => unreachable!("not for sessions"),
    }
}

fn look<K: Target, E: Checked>(session: &mut Session<K, E>, key: usize, name: &K::Name) {
    let call = tick();
    if let Some(bits) = K::look(session, name) {
        notes::sight(key, bits, call);
    }
}

/// Stands for the part of a `clear` that is about one key. No other swap is like it.
pub const CLEARED: Op = Op::Swap(u64::MAX, u64::MAX);

/// A whole scan is a get of each key.
fn scan<K: Target, E: Checked>(
    session: &mut Session<K, E>,
    names: &[K::Name],
    count: usize,
    call: u64,
) {
    let mut values = vec![None; names.len()];
    let mut cursor = 0;
    loop {
        let (seen, next) = K::scan(session, cursor, count);
        for (name, value) in seen {
            let key = names.iter().position(|n| *n == name);
            let key = key.expect("a scan visits only what was put");
            assert!(values[key].replace(value).is_none(), "a scan visits key {key} twice");
        }
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    for (key, value) in values.into_iter().enumerate() {
        note(key, Op::Get, Outcome::Value(value), call);
    }
}

fn conclude<K: Target, E: Checked>(
    shape: &Shape,
    plan: &Plan,
    index: &Index<K, E>,
    session: &mut Session<K, E>,
    names: &[K::Name],
) {
    if shape.at_rest {
        E::check_at_rest(session, index);
    }
    names.iter().enumerate().for_each(|(key, name)| look(session, key, name));
    notes::judge(shape, plan, K::note(index, None));
    let last: Vec<State> = names.iter().map(|name| K::state(session, name)).collect();
    for (key, &last) in last.iter().enumerate() {
        judge(key, State::of(plan.prefill[key]), last);
    }
    let visited = std::iter::successors(Some(K::scan(session, 0, 9)), |(_, next)| {
        (*next != 0).then(|| K::scan(session, *next, 9))
    });
    let visited: usize = visited.map(|(seen, _)| seen.len()).sum();
    let present = last.iter().filter(|state| state.value.is_some()).count();
    assert_eq!(visited, present, "what a scan finds at rest");
    // More than the halvings of a whole table and the grace periods of the memory that they free.
    for _ in 0..60 {
        session.collect();
    }
    assert_eq!(index.stats().limbo_bytes, 0, "memory is not freed when nobody can see it");
    if shape.at_rest {
        E::check_at_rest(session, index);
    }
    for (name, &last) in names.iter().zip(&last) {
        assert_eq!(K::state(session, name), last, "a key changes while the table shrinks");
    }
}

/// Whether the events of a key can be explained.
pub fn judge(key: usize, first: State, last: State) {
    let mut events: Vec<Event> = RECORD
        .with_borrow(|r| r.history.iter().filter(|event| event.key == key).copied().collect());
    let clears: Vec<usize> = (0..events.len()).filter(|&i| events[i].op == CLEARED).collect();
    let explained = (0..1u32 << clears.len()).any(|choice| {
        for (n, &i) in clears.iter().enumerate() {
            events[i].op = Op::Remove;
            events[i].outcome = Outcome::Flag(choice >> n & 1 == 1);
        }
        is_linearizable(&events, first, last)
    });
    assert!(explained, "the history of key {key} from {first:?} to {last:?} has no explanation");
}
