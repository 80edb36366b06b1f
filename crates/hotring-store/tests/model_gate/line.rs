//! `src/watch/line.rs`: an element and one that waits for it do not stay beside each other, and each element is taken
//! once. A key's value is its number of elements.

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use watch::{Home, LineEntry, StripeOf, Taker, Turn};

const NAMES: [&[u8]; 2] = [b"key", b"other"];

/// One that waits. Its mark is not one of loom's: it is to order nothing, and a claim is one step.
#[derive(Default)]
struct Client(AtomicBool);

impl Client {
    fn is_claimed(&self) -> bool {
        self.0.load(Relaxed)
    }
}

impl Taker for Client {
    fn claim(&self) -> bool {
        self.0.compare_exchange(false, true, Relaxed, Relaxed).is_ok()
    }
}

/// Lines that do not move.
struct Here(Arc<Watchers>);

impl Home for Here {
    fn visit(&self, f: &mut dyn FnMut(&Watchers, StripeOf<'_>)) {
        f(&self.0, &|key| u32::from(key == NAMES[1]));
    }
}

/// The work of the serving session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serving {
    /// Looks at the key, and claims then.
    Right,
    /// Claims, looks, and gives the claim back if there is no element.
    ClaimsFirst,
}

impl World {
    /// The waiting client, and its place unless it has found an element.
    fn take(&self, session: &mut GateSession, mask: u64) -> (StdArc<Client>, Option<LineEntry>) {
        let client = StdArc::new(Client::default());
        session.acquire(&keys(mask), Hold::Exclusive);
        let of = |key: &usize| mask >> key & 1 == 1;
        let entry = match (0..2).filter(of).find(|key| self.keys[*key].load(Relaxed) > 0) {
            Some(key) => {
                self.pop(key);
                client.claim();
                None
            }
            None => {
                let lines = (0..2).filter(of).map(|key| (key as u32, NAMES[key]));
                let taker: StdArc<dyn Taker> = client.clone();
                self.line_up(lines, std::iter::empty(), &taker)
            }
        };
        session.release();
        (client, entry)
    }

    fn line_up<'k>(
        &self,
        held: impl Iterator<Item = (u32, &'k [u8])>,
        others: impl Iterator<Item = (u32, &'k [u8])>,
        taker: &StdArc<dyn Taker>,
    ) -> Option<LineEntry> {
        let home = Box::new(Here(Arc::clone(&self.watchers)));
        self.watchers.line_up(home, held, others, taker).ok()
    }

    fn pop(&self, key: usize) {
        self.keys[key].store(self.keys[key].load(Relaxed) - 1, Relaxed);
    }

    /// As a command that pushes.
    fn push(&self, session: &mut GateSession, key: usize) {
        let writing = session.write(hash(key));
        let watched = self.watchers.is_watched(key as u32, NAMES[key]);
        self.add(key);
        let stored = Event::Stored(None);
        let is_ready = watched && self.watchers.notify(key as u32, NAMES[key], &stored);
        drop(writing);
        if is_ready {
            self.serve(session, key);
        }
    }

    fn serve(&self, session: &mut GateSession, key: usize) {
        session.acquire(&keys(1 << key), Hold::Exclusive);
        let claim = || self.watchers.claim_first(key as u32, NAMES[key], |_| Turn::Takes);
        while self.keys[key].load(Relaxed) > 0 && claim().is_some() {
            self.pop(key);
        }
        session.release();
    }

    fn has(&self, key: usize) -> bool {
        self.keys[key].load(Relaxed) > 0
    }
}

fn wait_and_push(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut other = world.session();
        let pusher = spawn(world, move |world| world.push(&mut other, 0));
        let (client, _entry) = world.take(&mut session, 0b01);
        pusher.join().unwrap();
        assert!(client.is_claimed(), "an element and its taker stay");
        assert!(!world.has(0), "an element was taken and is there");
    });
}

/// Two wait for key 1, the first of them for key 0 as well.
fn push_and_push(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut other = world.session();
        let (first, _first) = world.take(&mut session, BOTH);
        let (second, _second) = world.take(&mut session, 0b10);
        let pusher = spawn(world, move |world| world.push(&mut other, 0));
        world.push(&mut session, 1);
        pusher.join().unwrap();
        assert!(first.is_claimed(), "who came first stays");
        assert_eq!(world.has(0), !second.is_claimed(), "an element is taken twice or lost");
        assert!(!world.has(1), "an element and its taker stay");
    });
}

/// One waits for both keys. A push to key 0 is to be served, whose element another one has taken already.
fn serve_and_push(serving: Serving) {
    explore(LeftOut::Nothing, move |world| {
        let mut session = world.session();
        let mut other = world.session();
        let (client, _entry) = world.take(&mut session, BOTH);
        let pusher = spawn(world, move |world| world.push(&mut other, 1));
        if serving == Serving::ClaimsFirst {
            session.acquire(&keys(0b01), Hold::Exclusive);
            if client.claim() {
                let is_present = world.has(0);
                loom::thread::yield_now();
                client.0.store(is_present, Relaxed);
            }
            session.release();
        } else {
            world.serve(&mut session, 0);
        }
        pusher.join().unwrap();
        assert!(client.is_claimed(), "an element and its taker stay");
    });
}

/// One that waits leaves while an element comes, and another one waits behind it.
fn leave_and_push(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut other = world.session();
        let (leaving, entry) = world.take(&mut session, 0b01);
        let (behind, _behind) = world.take(&mut session, 0b01);
        let pusher = spawn(world, move |world| world.push(&mut other, 0));
        let has_left = leaving.claim();
        drop(entry);
        pusher.join().unwrap();
        assert_eq!(behind.is_claimed(), has_left, "an element is taken twice or lost");
        assert!(!world.has(0), "an element and its taker stay");
    });
}

/// One waits behind another without a hold, while elements come.
fn wait_behind_and_push(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut other = world.session();
        let (first, _first) = world.take(&mut session, 0b01);
        let pusher = spawn(world, move |world| {
            world.push(&mut other, 0);
            world.push(&mut other, 0);
        });
        let behind = StdArc::new(Client::default());
        let taker: StdArc<dyn Taker> = behind.clone();
        let lines = [(0, NAMES[0])];
        let entry = world.line_up(std::iter::empty(), lines.into_iter(), &taker);
        let waits = entry.is_some();
        if waits && world.get(&mut session, 0) > 0 {
            world.serve(&mut session, 0);
        }
        pusher.join().unwrap();
        assert!(first.is_claimed(), "who came first stays");
        assert!(!waits || behind.is_claimed(), "an element and its taker stay");
        assert_eq!(world.has(0), !waits, "an element is taken twice or lost");
    });
}

/// One begins a line, and looks then; right is that it holds the key meanwhile.
fn begin_without_a_hold(left_out: LeftOut) {
    explore(left_out, |world| {
        let mut session = world.session();
        let mut other = world.session();
        let pusher = spawn(world, move |world| world.push(&mut other, 0));
        let client = StdArc::new(Client::default());
        let taker: StdArc<dyn Taker> = client.clone();
        let lines = [(0, NAMES[0])];
        let _entry = world.line_up(lines.into_iter(), std::iter::empty(), &taker);
        if world.get(&mut session, 0) > 0 {
            world.serve(&mut session, 0);
        }
        pusher.join().unwrap();
        assert!(client.is_claimed(), "an element and its taker stay");
    });
}

#[test]
fn an_element_and_its_taker_do_not_stay() {
    wait_behind_and_push(LeftOut::Nothing);
    wait_and_push(LeftOut::Nothing);
    push_and_push(LeftOut::Nothing);
    serve_and_push(Serving::Right);
    leave_and_push(LeftOut::Nothing);
}

found! {
    without_holds_an_element_and_its_taker_stay:
        wait_and_push, LeftOut::Step(Fault::NoHold), "an element and its taker stay";
    without_waiting_for_writes_an_element_and_its_taker_stay:
        wait_and_push, LeftOut::Step(Fault::NoDrain), "an element and its taker stay";
    without_the_light_barrier_an_element_and_its_taker_stay:
        wait_and_push, LeftOut::Light, "an element and its taker stay";
    with_a_line_that_begins_without_a_hold_an_element_and_its_taker_stay:
        begin_without_a_hold, LeftOut::Nothing, "an element and its taker stay";
    with_a_claim_before_the_look_an_element_and_its_taker_stay:
        serve_and_push, Serving::ClaimsFirst, "an element and its taker stay";
}
