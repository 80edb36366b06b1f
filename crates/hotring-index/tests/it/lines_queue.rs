//! The queue of lines: every operation is answered once, as the map would answer it.

use fastrand::Rng;
use hotring_index::{Form, Lines, LinesAnswer, LinesConfig, LinesOp, LinesQueue};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// Callers of one queue: what each of them is waiting for, and what the map should have.
struct Callers {
    queue: LinesQueue<u64>,
    expected: HashMap<u64, (u64, LinesAnswer)>,
    /// Keys with an operation in flight: a second one might take effect before it.
    busy: HashSet<u64>,
    model: HashMap<u64, u64>,
    answered: u64,
}

impl Callers {
    fn submit(&mut self, ticket: u64, op: LinesOp) {
        let (LinesOp::Get(key)
        | LinesOp::Put(key, _)
        | LinesOp::Insert(key, _)
        | LinesOp::Take(key)) = op;
        if !self.busy.insert(key) {
            return;
        }
        let now = self.model.get(&key).copied();
        let answer = match op {
            LinesOp::Get(_) => LinesAnswer::Value(now),
            LinesOp::Put(_, value) => {
                self.model.insert(key, value);
                LinesAnswer::Done(now.is_some())
            }
            LinesOp::Insert(_, value) => {
                self.model.entry(key).or_insert(value);
                LinesAnswer::Done(now.is_none())
            }
            LinesOp::Take(_) => LinesAnswer::Value(self.model.remove(&key)),
        };
        self.expected.insert(ticket, (key, answer));
        let answered = self.queue.submit(op, ticket);
        self.take(answered);
    }

    fn take(&mut self, answered: Option<(u64, LinesAnswer)>) {
        let Some((ticket, answer)) = answered else { return };
        let (key, expected) = self.expected.remove(&ticket).expect("each ticket has one answer");
        assert_eq!(answer, expected, "ticket {ticket}, key {key}");
        assert!(self.busy.remove(&key));
        self.answered += 1;
    }
}

/// Ends the other thread, also after a complaint.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Random operations of callers of one queue, while another thread makes the map grow and shrink.
fn queue_agrees(form: Form, steps: u64) {
    let config = LinesConfig { form: Some(form), factor: 1.7, ..LinesConfig::default() };
    let lines = Lines::new(config).expect("a valid configuration");
    let is_over = AtomicBool::new(false);
    let fill = || {
        let mut session = lines.session();
        for wave in 0u64.. {
            for other in 1 << 32..(1 << 32) + 20_000 {
                if is_over.load(Ordering::Relaxed) {
                    return wave;
                }
                _ = if wave % 2 == 0 { session.insert(other, 1) } else { session.remove(other) };
            }
        }
        unreachable!("waves have no end")
    };
    let (queue, expected, busy) = (lines.queue(), HashMap::new(), HashSet::new());
    let mut callers = Callers { queue, expected, busy, model: HashMap::new(), answered: 0 };
    std::thread::scope(|scope| {
        let filler = scope.spawn(fill);
        let over = Over(&is_over);
        let mut random = Rng::with_seed(form as u64);
        for step in 0..steps {
            let (key, value) = (random.u64(..1 + step / 50), random.u64(..));
            let op = match random.u64(..10) {
                0..=1 => LinesOp::Put(key, value),
                2..=3 => LinesOp::Insert(key, value),
                4 => LinesOp::Take(key),
                _ => LinesOp::Get(key),
            };
            callers.submit(step, op);
            // Sometimes fewer are in flight than may be.
            if step % 1000 < 100 && random.bool() {
                let answered = callers.queue.next();
                callers.take(answered);
            }
            assert_eq!(callers.queue.len(), callers.expected.len());
        }
        while let Some(answered) = callers.queue.next() {
            callers.take(Some(answered));
        }
        drop(over);
        println!("{form:?}: {} waves, {:?}", filler.join().expect("no panic"), lines.stats());
    });
    assert!(callers.expected.is_empty() && callers.queue.is_empty());
    assert!(callers.answered > steps / 2 && lines.stats().growths > 3, "{:?}", lines.stats());
    let mut session = lines.session();
    for (key, value) in &callers.model {
        assert_eq!(session.get(*key), Some(*value));
    }
}

#[test]
fn a_queue_answers_each_operation_once_and_as_the_map_would() {
    for form in Form::ALL.into_iter().filter(|form| form.is_available()) {
        queue_agrees(form, if cfg!(debug_assertions) { 200_000 } else { 2_000_000 });
    }
}
