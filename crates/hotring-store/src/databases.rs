//! The databases of a store. Each has its own index, waiters, eviction policy and timing wheel, so that scanning,
//! counting and clearing one database costs the others nothing. They share the gate, the log and the memory limit. A
//! session has one database selected and keeps its parts at hand, so operations do not pay for the other databases.
//!
//! A database has an *ID*, by which the log identifies it, and a *number*, by which callers select it. Swapping two
//! databases exchanges their numbers. Clients that wait for elements stay with the number: their
//! lines move to the other database.

use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak};

use hotring_index::{AnyIndex, AnySession, Taken};

use crate::clearing::Clearing;
use crate::evict::Eviction;
use crate::gate::stripe_of;
use crate::stripe::spread;
use crate::watch::{Home, StripeOf, Watchers};
use crate::wheel::Wheels;

/// Maximum number of databases.
pub const DATABASES_MAX: usize = 256;

/// The parts of a database.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) index: AnyIndex,
    pub(crate) eviction: Arc<Eviction>,
    pub(crate) wheels: Arc<Wheels>,
    pub(crate) clearing: Arc<Clearing>,
    pub(crate) watchers: crate::sync::Arc<Watchers>,
    /// Seed of the hash that selects a key's stripe.
    pub(crate) seed: u64,
}

impl Database {
    /// The numbers of keys and of keys with an expiry.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.clearing.present(|| {
            let stats = self.index.stats();
            (stats.items, stats.expiring)
        })
    }

    /// The gate's stripe for a key of this database.
    fn stripe(&self, key: &[u8]) -> u32 {
        stripe_of(spread(self.seed, key)) as u32
    }
}

/// For each of the two swapped databases, its ID and the keys of the lines that moved to it.
pub(crate) type Moved = [(u8, Vec<Box<[u8]>>); 2];

/// Finds the lines of the database with this number, also after a swap.
pub(crate) struct Numbered {
    pub(crate) databases: Arc<Databases>,
    pub(crate) number: u8,
}

impl Home for Numbered {
    fn visit(&self, f: &mut dyn FnMut(&Watchers, StripeOf<'_>)) {
        let _kept = self.databases.keep_lines();
        let database = self.databases.at(self.databases.id_of(self.number));
        f(&database.watchers, &|key| database.stripe(key));
    }
}

/// A session's access to a database that is not selected at present.
pub(crate) struct Parked {
    pub(crate) index: AnySession,
    pub(crate) database: Database,
}

/// A setting of every database.
type Set = Box<dyn Fn(&Database) + Send + Sync>;

/// All databases of a store.
pub(crate) struct Databases {
    by_id: Box<[OnceLock<Database>]>,
    /// For each number: the ID of its database in the lowest byte, and the count of its changes in the bits above.
    order: Box<[AtomicU64]>,
    /// Numbers that `draw` has returned.
    draws: AtomicU64,
    /// Number of changes of `order`.
    swaps: AtomicU64,
    /// Read while a client enters or leaves lines, written while lines move from one database to another.
    moves: RwLock<()>,
    /// The last value of each setting, applied to databases that are created later.
    settings: Mutex<BTreeMap<&'static str, Set>>,
    open: Box<dyn Fn(u8) -> Database + Send + Sync>,
}

impl Databases {
    /// `first` is the database with ID 0; `open` creates the others on first use.
    pub(crate) fn new(
        first: Database,
        open: impl Fn(u8) -> Database + Send + Sync + 'static,
    ) -> Databases {
        let by_id: Box<[OnceLock<Database>]> =
            (0..DATABASES_MAX).map(|_| OnceLock::new()).collect();
        let _ = by_id[0].set(first);
        Databases {
            by_id,
            order: (0..DATABASES_MAX as u64).map(AtomicU64::new).collect(),
            draws: AtomicU64::new(0),
            swaps: AtomicU64::new(0),
            moves: RwLock::default(),
            settings: Mutex::default(),
            open: Box::new(open),
        }
    }

    /// The database with this ID, created now if there is none.
    pub(crate) fn at(self: &Arc<Self>, id: u8) -> &Database {
        if let Some(database) = self.by_id[usize::from(id)].get() {
            return database;
        }
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        self.by_id[usize::from(id)].get_or_init(|| {
            let database = (self.open)(id);
            settings.values().for_each(|set| set(&database));
            self.count_together(id, &database);
            // The first database counts other databases only from the creation of the second on.
            if let Some(first) = self.by_id[0].get() {
                self.count_together(0, first);
            }
            database
        })
    }

    /// Makes the memory limit cover all databases: the index of this one adds the bytes of the others to its own.
    fn count_together(self: &Arc<Self>, id: u8, database: &Database) {
        let all: Weak<Databases> = Arc::downgrade(self);
        database.index.set_peer_memory(Box::new(move || {
            let Some(all) = all.upgrade() else { return Taken::default() };
            let others = all.present().filter(|(other, _)| *other != id);
            others.map(|(_, other)| other.index.own_bytes()).fold(Taken::default(), Taken::add)
        }));
    }

    /// The databases that exist, with their IDs.
    pub(crate) fn present(&self) -> impl Iterator<Item = (u8, &Database)> {
        let by_id = (0..=u8::MAX).zip(&self.by_id);
        by_id.filter_map(|(id, database)| Some((id, database.get()?)))
    }

    /// Applies a setting to every database, including those created later. A later call with the same name replaces it.
    pub(crate) fn set(&self, name: &'static str, set: impl Fn(&Database) + Send + Sync + 'static) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        self.present().for_each(|(_, database)| set(database));
        settings.insert(name, Box::new(set));
    }

    /// A pseudo-random number.
    pub(crate) fn draw(&self) -> u64 {
        // ORDERING: Relaxed, any number will do.
        let turn = self.draws.fetch_add(1, Ordering::Relaxed);
        spread(turn, &turn.to_le_bytes())
    }

    /// The ID of the database with this number.
    pub(crate) fn id_of(&self, number: u8) -> u8 {
        // ORDERING: Relaxed; a session reads the number of swaps first, and the Acquire of that load makes the places
        // visible.
        self.order[usize::from(number)].load(Ordering::Relaxed) as u8
    }

    /// A stamp that changes whenever the number gets another database.
    pub(crate) fn stamp(&self, number: u8) -> u64 {
        // ORDERING: Relaxed; it changes only while the changing session holds all keys, and it is read for a key within
        // the gate.
        self.order[usize::from(number)].load(Ordering::Relaxed)
    }

    /// The database IDs of all numbers.
    pub(crate) fn order(&self) -> [u8; DATABASES_MAX] {
        std::array::from_fn(|number| self.id_of(number as u8))
    }

    /// Sets the database IDs of all numbers. The caller must hold all keys, or be the only session.
    pub(crate) fn set_order(&self, order: &[u8; DATABASES_MAX]) {
        for (number, id) in self.order.iter().zip(order) {
            // ORDERING: Relaxed, one thread at a time changes it, and the addition below publishes it.
            let before = number.load(Ordering::Relaxed);
            if before as u8 != *id {
                let changes = (before >> 8) + 1;
                // ORDERING: Relaxed, as above.
                number.store(changes << 8 | u64::from(*id), Ordering::Relaxed);
            }
        }
        // ORDERING: Release pairs with the Acquire in `swaps`.
        self.swaps.fetch_add(1, Ordering::Release);
    }

    /// Swaps the numbers of two databases, and moves their lines along. Returns the new order, and for each of the two
    /// places the keys of the lines that moved to it. The caller must hold all keys.
    pub(crate) fn swap_numbers(
        self: &Arc<Self>,
        one: u8,
        other: u8,
    ) -> ([u8; DATABASES_MAX], Moved) {
        let _moving = self.moves.write().unwrap_or_else(PoisonError::into_inner);
        let (mut order, by_id) = (self.order(), [one, other].map(|number| self.id_of(number)));
        order.swap(usize::from(one), usize::from(other));
        self.set_order(&order);
        let [a, b] = by_id.map(|id| self.at(id));
        let [to_a, to_b] =
            a.watchers.swap_lines(|key| a.stripe(key), &b.watchers, |key| b.stripe(key));
        (order, [(by_id[0], to_a), (by_id[1], to_b)])
    }

    /// While the guard lives, lines stay with their databases.
    pub(crate) fn keep_lines(&self) -> RwLockReadGuard<'_, ()> {
        self.moves.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of changes of the order so far.
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

    /// A client that left while its line was on its way to another database would stay in it.
    #[test]
    fn entering_or_leaving_a_line_waits_while_lines_move() {
        let store = Store::new(Options::default()).unwrap();
        let mut session = store.session();
        let taker: std::sync::Arc<dyn Taker> = std::sync::Arc::new(Client);
        let key: [&[u8]; 1] = [b"k"];
        let id = session.exclusive_in_selected(&key, |s| s.line_up(&key, &[], &taker)).unwrap();
        let databases = session.databases.clone();
        std::thread::scope(|scope| {
            let moving = databases.moves.write().unwrap();
            let leaving = scope.spawn(move || drop(id));
            let entering = scope.spawn(|| drop(session.line_up(&[], &key, &taker)));
            std::thread::sleep(Duration::from_millis(100));
            assert!(!leaving.is_finished() && !entering.is_finished());
            drop(moving);
        });
        assert!(!store.session().has_line(b"k"));
    }
}
