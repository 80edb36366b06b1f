//! Waiting for an element of a key, and serving those who wait ([`crate::watch`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use hotring_log::Lsn;

use crate::session::Session;
use crate::watch::{Place, Taker, Turn, Watchers};

impl Session {
    /// Has the taker wait for elements of keys, behind all who wait for the same already, until it is claimed or the
    /// place is dropped. It may be claimed from now on.
    ///
    /// * `held`: the caller must hold these ([`Session::exclusive`]), and have found no element.
    /// * `others` need not be held. None if one of them has no line; otherwise the caller must look at them afterwards,
    ///   outside of holds, and serve those with elements.
    pub fn line_up(
        &mut self,
        held: &[&[u8]],
        others: &[&[u8]],
        taker: &Arc<dyn Taker>,
    ) -> Option<Place> {
        let at = |key: &&'_ [u8]| self.stripe(key);
        let held = held.iter().map(|key| (at(key), *key));
        let others = others.iter().map(|key| (at(key), *key));
        Watchers::line_up(&self.hooks.watchers, held, others, taker)
    }

    /// Whether the key has a line.
    pub fn has_line(&self, key: &[u8]) -> bool {
        self.hooks.watchers.has_line(self.stripe(key), key)
    }

    /// Claims the first taker in the key's line whose turn it is, as `turn` says of each. Who gets one must take an
    /// element for it. The caller must hold the key, and have found an element. `turn` must not use the store.
    pub fn claim_first(
        &mut self,
        key: &[u8],
        turn: impl FnMut(&Arc<dyn Taker>) -> Turn,
    ) -> Option<Arc<dyn Taker>> {
        self.hooks.watchers.claim_first(self.stripe(key), key, turn)
    }

    /// Shows those in the key's line to `f`, in order, until it breaks. `f` must not use the store.
    pub fn walk_line(
        &self,
        key: &[u8],
        f: impl FnMut(&Arc<dyn Taker>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.hooks.watchers.walk_line(self.stripe(key), key, f)
    }

    /// Whether writes of this session have stored values under keys that have a line. Whoever uses lines must serve
    /// them at the end of an operation, outside of holds.
    #[inline(always)]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The first of the keys that this session has to serve, with the place of its database.
    pub fn next_ready(&mut self) -> Option<(u8, Box<[u8]>)> {
        (!self.ready.is_empty()).then(|| self.ready.remove(0))
    }

    /// The last record of the log that this session's writes have made since the effects were taken.
    pub fn last_logged(&self) -> Option<Lsn> {
        self.logging.last
    }

    /// Counts a record of another session among this one's: what this session does next acknowledges it.
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

    fn line_up(s: &mut Session, keys: &[&[u8]], taker: &Arc<dyn Taker>) -> Place {
        s.exclusive(keys, |s| s.line_up(keys, &[], taker)).unwrap()
    }

    fn claim(s: &mut Session, key: &[u8]) -> Option<u32> {
        s.exclusive(&[key], |s| s.claim_first(key, |_| Turn::Takes)).map(|taker| number(&taker))
    }

    #[test]
    fn who_came_first_is_claimed_first_and_once() {
        let store = Store::new(Options::default()).unwrap();
        let s = &mut store.session();
        let takers: Vec<_> = (0..5).map(taker).collect();
        let both: [&[u8]; 2] = [b"a", b"b"];
        let mut places: Vec<_> = takers.iter().map(|taker| line_up(s, &both, taker)).collect();
        drop(places.remove(1));
        assert!(takers[3].claim(), "it ends for another reason");
        assert_eq!([claim(s, b"a"), claim(s, b"b"), claim(s, b"a")], [Some(0), Some(2), Some(4)]);
        assert_eq!([claim(s, b"a"), claim(s, b"b"), claim(s, b"none")], [None; 3]);
    }

    #[test]
    fn who_has_no_turn_keeps_its_place() {
        let store = Store::new(Options::default()).unwrap();
        let s = &mut store.session();
        let takers: Vec<_> = (0..4).map(taker).collect();
        let places: Vec<_> = takers.iter().map(|taker| line_up(s, &[b"k"], taker)).collect();
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
        drop(places);
        assert!(!s.hooks.watchers.is_watched(s.stripe(b"k"), b"k"), "none waits");
    }

    #[test]
    fn a_key_with_a_line_is_ready_once_a_value_is_stored() {
        let store = Store::new(Options::default()).unwrap();
        let s = &mut store.session();
        let keys: [&[u8]; 4] = [b"hash", b"text", b"renamed", b"copied"];
        let place = line_up(s, &keys, &taker(0));
        let set = |s: &mut Session, key: &[u8]| {
            s.set(key, b"v", SetOptions::default(), NOW).unwrap();
        };
        set(s, b"other");
        assert!(!s.has_ready(), "none waits for it");
        s.remove(b"other", NOW);
        s.remove(b"text", NOW);
        s.expire_at(b"text", NOW + 5, crate::ExpireCondition::Always, NOW).unwrap();
        assert!(!s.has_ready(), "no value is stored");
        s.hash_set(b"from", &[(b"f", b"v")], NOW).unwrap();
        s.copy(b"from", b"copied", true, NOW).unwrap();
        s.rename(b"from", b"renamed", NOW).unwrap();
        s.hash_set(b"hash", &[(b"f", b"v")], NOW).unwrap();
        set(s, b"text");
        s.hash_set(b"hash", &[(b"g", b"v")], NOW).unwrap();
        let ready: Vec<_> = std::iter::from_fn(|| s.next_ready()).collect();
        let ready: Vec<_> = ready.into_iter().map(|(_, key)| key).collect();
        assert_eq!(ready, [&b"copied"[..], b"renamed", b"hash", b"text"].map(Box::from));
        drop(place);
        set(s, b"text");
        assert!(!s.has_ready(), "none waits any more");
    }
}
