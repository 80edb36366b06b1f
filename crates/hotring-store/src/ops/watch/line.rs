//! Waiting for elements of keys, and serving the waiting clients ([`crate::watch`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use hotring_log::Lsn;

use crate::databases::Numbered;
use crate::session::Session;
use crate::watch::{LineEntry, Taker, Turn};

impl Session {
    /// Enters the taker into the lines of keys of the selected database, behind all takers already there, until it is
    /// claimed or the entry is dropped. It may be claimed at once. It stays with the number of the database if the
    /// number [gets another id_of](Session::swap_databases).
    ///
    /// * `held`: the caller must hold these ([`Session::exclusive_in_selected`]), and have found no element.
    /// * `others` need not be held. None if one of them has no line, or the number has another database; otherwise the
    ///   caller must look at them afterwards, outside of holds, and serve those with elements.
    pub fn line_up(
        &mut self,
        held: &[&[u8]],
        others: &[&[u8]],
        taker: &Arc<dyn Taker>,
    ) -> Option<LineEntry> {
        let at = |key: &&'_ [u8]| self.stripe(key);
        let held = held.iter().map(|key| (at(key), *key));
        let others = others.iter().map(|key| (at(key), *key));
        let (databases, number) = (Arc::clone(&self.databases), self.selected);
        let home = Box::new(Numbered { databases, number });
        let kept = self.databases.keep_lines();
        let is_present = self.databases.id_of(number) == self.database_id;
        let entry = is_present.then(|| self.hooks.watchers.line_up(home, held, others, taker));
        // Dropping an entry calls `keep_lines`, too.
        drop(kept);
        entry?.ok()
    }

    /// Whether the key has a line.
    pub fn has_line(&self, key: &[u8]) -> bool {
        self.hooks.watchers.has_line(self.stripe(key), key)
    }

    /// Claims the first taker in the key's line whose turn it is, as `turn` decides for each. The caller must hold the
    /// key and have found an element, and must remove an element for the claimed taker. `turn` must not use the store.
    pub fn claim_first(
        &mut self,
        key: &[u8],
        turn: impl FnMut(&Arc<dyn Taker>) -> Turn,
    ) -> Option<Arc<dyn Taker>> {
        self.hooks.watchers.claim_first(self.stripe(key), key, turn)
    }

    /// Calls `f` with the takers in the key's line, in order, until it breaks. `f` must not use the store.
    pub fn walk_line(
        &self,
        key: &[u8],
        f: impl FnMut(&Arc<dyn Taker>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.hooks.watchers.walk_line(self.stripe(key), key, f)
    }

    /// Whether writes of this session have stored values under keys with a line. A session that uses lines must serve
    /// them at the end of an operation, outside of holds.
    #[inline(always)]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Removes and returns the first key that this session must serve, with the ID of its database.
    pub fn next_ready(&mut self) -> Option<(u8, Box<[u8]>)> {
        self.ready.pop_front()
    }

    /// The log position of the last record of this session's writes since the effects were taken.
    pub fn last_logged(&self) -> Option<Lsn> {
        self.logging.last
    }

    /// Treats a record of another session like one of this session: its next acknowledgement covers the record.
    pub fn note_logged(&mut self, lsn: Lsn) {
        self.logging.last = self.logging.last.max(Some(lsn));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::{Options, SetOptions, Store};

    const NOW: u64 = 1_700_000_000_000;

    struct Client {
        number: u32,
        claimed: AtomicBool,
    }

    impl Taker for Client {
        fn claim(&self) -> bool {
            !self.claimed.swap(true, Relaxed)
        }
    }

    fn taker(number: u32) -> Arc<dyn Taker> {
        Arc::new(Client { number, claimed: AtomicBool::new(false) })
    }

    fn number(taker: &Arc<dyn Taker>) -> u32 {
        let any: &dyn std::any::Any = &**taker;
        any.downcast_ref::<Client>().unwrap().number
    }

    fn line_up(s: &mut Session, keys: &[&[u8]], taker: &Arc<dyn Taker>) -> LineEntry {
        s.exclusive_in_selected(keys, |s| s.line_up(keys, &[], taker)).unwrap()
    }

    fn claim(s: &mut Session, key: &[u8]) -> Option<u32> {
        s.exclusive(&[key], |s| s.claim_first(key, |_| Turn::Takes)).map(|taker| number(&taker))
    }

    #[test]
    fn the_first_waiter_is_claimed_first_and_once() {
        let store = Store::new(Options::default()).unwrap();
        let s = &mut store.session();
        let takers: Vec<_> = (0..5).map(taker).collect();
        let both: [&[u8]; 2] = [b"a", b"b"];
        let mut entries: Vec<_> = takers.iter().map(|taker| line_up(s, &both, taker)).collect();
        drop(entries.remove(1));
        assert!(takers[3].claim(), "it ends for another reason");
        assert_eq!([claim(s, b"a"), claim(s, b"b"), claim(s, b"a")], [Some(0), Some(2), Some(4)]);
        assert_eq!([claim(s, b"a"), claim(s, b"b"), claim(s, b"none")], [None; 3]);
        assert!(!s.has_line(b"a") && !s.has_line(b"b"), "none is left");
    }

    #[test]
    fn a_skipped_taker_keeps_its_entry() {
        let store = Store::new(Options::default()).unwrap();
        let s = &mut store.session();
        let takers: Vec<_> = (0..4).map(taker).collect();
        let entries: Vec<_> = takers.iter().map(|taker| line_up(s, &[b"k"], taker)).collect();
        let mut claim_of = |turns: [Turn; 4]| {
            let turn = |taker: &Arc<dyn Taker>| turns[number(taker) as usize];
            s.exclusive(&[b"k"], |s| s.claim_first(b"k", turn)).map(|taker| number(&taker))
        };
        assert_eq!(claim_of([Turn::Passes, Turn::Stops, Turn::Takes, Turn::Takes]), None);
        assert_eq!(claim_of([Turn::Passes, Turn::Passes, Turn::Takes, Turn::Takes]), Some(2));
        assert_eq!(claim_of([Turn::Takes; 4]), Some(0));
        let mut line = Vec::new();
        let all = s.walk_line(b"k", |taker| {
            line.push(number(taker));
            ControlFlow::Continue(())
        });
        assert_eq!((line, all), (vec![1, 3], ControlFlow::Continue(())));
        drop(entries);
        assert!(!s.hooks.watchers.is_watched(s.stripe(b"k"), b"k"), "none waits");
    }

    fn push(s: &mut Session, key: &[u8]) {
        s.list_push(key, crate::End::Back, &[b"e"], false, NOW).unwrap();
    }

    fn ready(s: &mut Session) -> Vec<(u8, Box<[u8]>)> {
        std::iter::from_fn(|| s.next_ready()).collect()
    }

    /// Names of keys were once noted by all threads, also by those that store no lists and serve no lines.
    #[test]
    fn a_key_with_a_line_is_ready_once_a_value_with_elements_is_stored() {
        let store = Store::new(Options::default()).unwrap();
        let s = &mut store.session();
        let keys: [&[u8]; 6] = [b"hash", b"text", b"renamed", b"copied", b"list", b"scored"];
        let entry = line_up(s, &keys, &taker(0));
        let set = |s: &mut Session, key: &[u8]| {
            s.set(key, b"v", SetOptions::default(), NOW).unwrap();
        };
        set(s, b"other");
        push(s, b"others");
        set(s, b"text");
        s.expire_at(b"text", NOW + 5, crate::ExpireCondition::Always, NOW).unwrap();
        s.remove(b"text", NOW);
        let fields: Vec<_> = (0..1_000u32).map(|n| n.to_le_bytes()).collect();
        for field in &fields {
            s.hash_set(b"hash", &[(&field[..], b"v")], NOW).unwrap();
        }
        assert!(!s.has_ready(), "none may wait for elements of these");
        push(s, b"from");
        s.copy(b"from", b"copied", true, NOW).unwrap();
        s.rename(b"from", b"renamed", NOW).unwrap();
        push(s, b"list");
        (0..10_000).for_each(|_| push(s, b"list"));
        s.scored_add(b"scored", &[(1.0, b"m")], Default::default(), NOW).unwrap();
        let names: Vec<_> = ready(s).into_iter().map(|(_, key)| key).collect();
        assert_eq!(names, [&b"copied"[..], b"renamed", b"list", b"scored"].map(Box::from));
        push(s, b"list");
        assert!(s.next_ready().is_some() && !s.has_ready(), "a large list, too");
        drop(entry);
        push(s, b"list");
        assert!(!s.has_ready(), "none waits any more");
    }

    /// Clients once stayed with the keys, and came to another database by a swap.
    #[test]
    fn a_waiter_stays_with_the_number_of_the_database() {
        let store = Store::new(Options::default()).unwrap();
        let s = &mut store.session();
        let takers: Vec<_> = (0..5).map(taker).collect();
        let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
        let first = line_up(s, &keys, &takers[0]);
        let second = line_up(s, &keys, &takers[1]);
        s.select(1);
        push(s, b"a");
        // Of higher numbers than those before.
        let others: Vec<_> = (0..9).map(|_| line_up(s, &[b"x"], &taker(9))).collect();
        assert!(!s.has_ready());
        s.swap_databases(0, 1);
        let mut ready = ready(s);
        ready.sort();
        let of = |entry: u8, key: &[u8]| (entry, Box::from(key));
        assert_eq!(ready, [of(0, b"x"), of(1, b"a"), of(1, b"b"), of(1, b"c")]);
        assert_eq!(s.database_id(), 0, "the session has followed");
        let late = line_up(s, &[b"x"], &taker(4));
        (0..9)
            .for_each(|_| assert_eq!(claim(s, b"x"), Some(9), "who came before the swap is first"));
        assert_eq!((claim(s, b"x"), claim(s, b"a")), (Some(4), None));
        drop((others, late));
        assert!(!s.has_line(b"x") && !s.hooks.watchers.is_watched(s.stripe(b"x"), b"x"));
        s.select(0);
        let third = line_up(s, &[b"a"], &takers[2]);
        assert_eq!(claim(s, b"a"), Some(0), "who came first");
        drop(second);
        assert_eq!(claim(s, b"a"), Some(2), "who has left is passed over");
        s.swap_databases(0, 7);
        push(s, b"b");
        assert!(s.has_ready(), "the line is known in the new database");
        drop((first, third));
        for number in 0..8 {
            s.select(number);
            for key in keys {
                assert!(!s.has_line(key), "{number}");
                assert!(!s.hooks.watchers.is_watched(s.stripe(key), key), "{number}");
            }
        }
    }

    /// A client that came behind others without a hold once entered the line of another number.
    #[test]
    fn a_session_behind_a_swap_enters_no_line() {
        let store = Store::new(Options::default()).unwrap();
        let (s, other) = (&mut store.session(), &mut store.session());
        let _first = line_up(s, &[b"k"], &taker(0));
        other.select(1);
        let _second = line_up(other, &[b"k"], &taker(1));
        other.swap_databases(0, 1);
        assert!(s.line_up(&[], &[b"k"], &taker(2)).is_none());
        s.select(0);
        assert!(s.line_up(&[], &[b"k"], &taker(3)).is_some());
    }

    /// Clients come, go and are served while databases are swapped: none is served by the other number's element.
    #[test]
    fn places_are_left_whole_while_lines_move() {
        let store = Store::new(Options::default()).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut s = store.session();
                (0..2_000).for_each(|_| s.swap_databases(0, 1));
                done.store(true, Relaxed);
            });
            for number in [0, 1] {
                let (store, done) = (&store, &done);
                scope.spawn(move || {
                    let s = &mut store.session();
                    s.select(number);
                    while !done.load(Relaxed) {
                        let taker = taker(u32::from(number));
                        let entry = s.exclusive_in_selected(&[b"k"], |s| {
                            s.line_up(&[b"k"], &[], &taker).expect("it has followed")
                        });
                        let behind = s.line_up(&[], &[b"k"], &taker);
                        if let Some(claimed) = s.exclusive_in_selected(&[b"k"], |s| {
                            s.claim_first(b"k", |_| Turn::Takes)
                        }) {
                            assert_eq!(super::tests::number(&claimed), u32::from(number));
                        }
                        drop((entry, behind));
                    }
                });
            }
        });
        let s = &mut store.session();
        for number in [0, 1] {
            s.select(number);
            assert!(!s.has_line(b"k") && !s.hooks.watchers.is_watched(s.stripe(b"k"), b"k"));
        }
    }
}
