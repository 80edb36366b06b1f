//! Several databases in one store: each has an index, waiters, an eviction policy and a timing wheel of its own, so
//! that a walk over one, its size and its removal cost nothing for the others. They share the gate, the log and the
//! limit of all memory. A session has one of them selected, and its parts in place: operations pay nothing for the
//! others.
//!
//! A database has a *place*, which the log knows it by, and a *number*, by which callers select it. Swapping two of
//! them changes which place each number stands for. Clients that wait for elements stay with the number: their lines
//! move to the other place.

use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak};

use hotring_index::{AnyIndex, AnySession, Taken};

use crate::evict::Eviction;
use crate::gate::stripe_of;
use crate::stripe::spread;
use crate::watch::{Home, StripeOf, Watchers};
use crate::wheel::Wheels;

/// Databases that there may be.
pub const DATABASES_MAX: usize = 256;

/// The parts of a database.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) index: AnyIndex,
    pub(crate) eviction: Arc<Eviction>,
    pub(crate) wheels: Arc<Wheels>,
    pub(crate) watchers: crate::sync::Arc<Watchers>,
    /// Of the stripes.
    pub(crate) seed: u64,
}

impl Database {
    /// Where the gate has a key of this database.
    fn stripe(&self, key: &[u8]) -> u32 {
        stripe_of(spread(self.seed, key)) as u32
    }
}

/// For each of two places, the keys of the lines that have come to it.
pub(crate) type Moved = [(u8, Vec<Box<[u8]>>); 2];

/// Where the lines of the database with this number are.
pub(crate) struct Numbered {
    pub(crate) databases: Arc<Databases>,
    pub(crate) number: u8,
}

impl Home for Numbered {
    fn visit(&self, f: &mut dyn FnMut(&Watchers, StripeOf<'_>)) {
        let _kept = self.databases.keep_lines();
        let database = self.databases.at(self.databases.place(self.number));
        f(&database.watchers, &|key| database.stripe(key));
    }
}

/// A session's way into a database that is not selected.
pub(crate) struct Parked {
    pub(crate) index: AnySession,
    pub(crate) database: Database,
}

/// A setting of every database.
type Set = Box<dyn Fn(&Database) + Send + Sync>;

/// All databases of a store.
pub(crate) struct Databases {
    places: Box<[OnceLock<Database>]>,
    /// Of each number its place, in the lowest byte, and above how often that has changed.
    order: Box<[AtomicU64]>,
    /// Numbers drawn.
    draws: AtomicU64,
    /// Changes of `order`.
    swaps: AtomicU64,
    /// Read while a client enters or leaves lines, written while lines move from one place to another.
    moves: RwLock<()>,
    /// The last of each setting, for databases that come later.
    settings: Mutex<BTreeMap<&'static str, Set>>,
    open: Box<dyn Fn(u8) -> Database + Send + Sync>,
}

impl Databases {
    /// With the one of place 0; `open` makes those of other places.
    pub(crate) fn new(
        first: Database,
        open: impl Fn(u8) -> Database + Send + Sync + 'static,
    ) -> Databases {
        let places: Box<[OnceLock<Database>]> =
            (0..DATABASES_MAX).map(|_| OnceLock::new()).collect();
        let _ = places[0].set(first);
        Databases {
            places,
            order: (0..DATABASES_MAX as u64).map(AtomicU64::new).collect(),
            draws: AtomicU64::new(0),
            swaps: AtomicU64::new(0),
            moves: RwLock::default(),
            settings: Mutex::default(),
            open: Box::new(open),
        }
    }

    /// The one of this place, which is made now if there is none.
    pub(crate) fn at(self: &Arc<Self>, place: u8) -> &Database {
        if let Some(database) = self.places[usize::from(place)].get() {
            return database;
        }
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        self.places[usize::from(place)].get_or_init(|| {
            let database = (self.open)(place);
            settings.values().for_each(|set| set(&database));
            self.count_together(place, &database);
            // The first has no kin until there is a second.
            if let Some(first) = self.places[0].get() {
                self.count_together(0, first);
            }
            database
        })
    }

    /// Has the limit of memory be that of all databases.
    fn count_together(self: &Arc<Self>, place: u8, database: &Database) {
        let all: Weak<Databases> = Arc::downgrade(self);
        database.index.set_memory_kin(Box::new(move || {
            let Some(all) = all.upgrade() else { return Taken::default() };
            let others = all.present().filter(|(other, _)| *other != place);
            others.map(|(_, other)| other.index.own_bytes()).fold(Taken::default(), Taken::add)
        }));
    }

    /// Those that there are, with their places.
    pub(crate) fn present(&self) -> impl Iterator<Item = (u8, &Database)> {
        let places = (0..=u8::MAX).zip(&self.places);
        places.filter_map(|(place, database)| Some((place, database.get()?)))
    }

    /// Does this to every database, also to those that come later, until it is done again under this name.
    pub(crate) fn set(&self, name: &'static str, set: impl Fn(&Database) + Send + Sync + 'static) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        self.present().for_each(|(_, database)| set(database));
        settings.insert(name, Box::new(set));
    }

    /// A number that looks random.
    pub(crate) fn draw(&self) -> u64 {
        // ORDERING: Relaxed, any number will do.
        let turn = self.draws.fetch_add(1, Ordering::Relaxed);
        spread(turn, &turn.to_le_bytes())
    }

    /// The place of a number.
    pub(crate) fn place(&self, number: u8) -> u8 {
        // ORDERING: Relaxed; who has seen the number of swaps sees the places by its Acquire.
        self.order[usize::from(number)].load(Ordering::Relaxed) as u8
    }

    /// A mark that changes whenever the number comes to stand for another place.
    pub(crate) fn stamp(&self, number: u8) -> u64 {
        // ORDERING: Relaxed; it changes while its changer holds all keys, and is asked for a key within the gate.
        self.order[usize::from(number)].load(Ordering::Relaxed)
    }

    /// The places of all numbers.
    pub(crate) fn order(&self) -> [u8; DATABASES_MAX] {
        std::array::from_fn(|number| self.place(number as u8))
    }

    /// Changes the places of all numbers. The caller holds all keys, or is alone.
    pub(crate) fn set_order(&self, order: &[u8; DATABASES_MAX]) {
        for (number, place) in self.order.iter().zip(order) {
            // ORDERING: Relaxed, one thread at a time changes it, and the addition below publishes it.
            let before = number.load(Ordering::Relaxed);
            if before as u8 != *place {
                let changes = (before >> 8) + 1;
                // ORDERING: Relaxed, as above.
                number.store(changes << 8 | u64::from(*place), Ordering::Relaxed);
            }
        }
        // ORDERING: Release pairs with the Acquire in `swaps`.
        self.swaps.fetch_add(1, Ordering::Release);
    }

    /// Gives two databases each other's numbers, and their lines with them. Returns the order from now on, and for each
    /// of their places the keys of the lines that have come to it. The caller holds all keys.
    pub(crate) fn swap(self: &Arc<Self>, one: u8, other: u8) -> ([u8; DATABASES_MAX], Moved) {
        let _moving = self.moves.write().unwrap_or_else(PoisonError::into_inner);
        let (mut order, places) = (self.order(), [one, other].map(|number| self.place(number)));
        order.swap(usize::from(one), usize::from(other));
        self.set_order(&order);
        let [a, b] = places.map(|place| self.at(place));
        let [to_a, to_b] =
            a.watchers.swap_lines(|key| a.stripe(key), &b.watchers, |key| b.stripe(key));
        (order, [(places[0], to_a), (places[1], to_b)])
    }

    /// While this is kept, lines stay in the places where they are.
    pub(crate) fn keep_lines(&self) -> RwLockReadGuard<'_, ()> {
        self.moves.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes of the places so far.
    #[inline]
    pub(crate) fn swaps(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `set_order`.
        self.swaps.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Options, Store, Taker};

    struct Client;

    impl Taker for Client {
        fn claim(&self) -> bool {
            true
        }
    }

    /// A client that left while its line was on its way to another place would stay in it.
    #[test]
    fn who_enters_or_leaves_a_line_waits_while_lines_move() {
        let store = Store::new(Options::default()).unwrap();
        let mut session = store.session();
        let taker: std::sync::Arc<dyn Taker> = std::sync::Arc::new(Client);
        let key: [&[u8]; 1] = [b"k"];
        let place = session.exclusive_in_selected(&key, |s| s.line_up(&key, &[], &taker)).unwrap();
        let databases = session.databases.clone();
        std::thread::scope(|scope| {
            let moving = databases.moves.write().unwrap();
            let leaving = scope.spawn(move || drop(place));
            let entering = scope.spawn(|| drop(session.line_up(&[], &key, &taker)));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!leaving.is_finished() && !entering.is_finished());
            drop(moving);
        });
        assert!(!store.session().has_line(b"k"));
    }
}
