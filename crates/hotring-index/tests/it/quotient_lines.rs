//! Linearizability of lines while they grow by several factors and shrink.

use crate::history::{Op, Outcome, State};
use crate::linearizability::{ROUNDS, Run, Totals, check};
use crate::operate::operate_on_lines;
use crate::shapes::number;
use crate::target::{KEYS, Target};
use hotring_index::{Form, Lines, LinesConfig, LinesSession, Stats};
use std::sync::atomic::Ordering;

/// A session of lines; its hot keys are plain ones.
struct AsLines(LinesSession);

impl Target for AsLines {
    fn run(&mut self, key: usize, op: Op) -> Outcome {
        operate_on_lines(&mut self.0, key as u64, op)
    }

    fn get_many(&mut self, keys: usize) -> Vec<Option<u64>> {
        let (wanted, mut out) = ([0, 1, 2, 3], vec![None; keys]);
        self.0.get_many(&wanted[..keys], &mut out);
        out
    }

    fn scan(&mut self) -> Vec<(usize, u64)> {
        let (mut met, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = self.0.scan(cursor, 100, |key, value| {
                if key < KEYS as u64 {
                    met.push((key as usize, value));
                }
            });
            if cursor == 0 {
                return met;
            }
        }
    }

    fn fill(&mut self, other: u64, put: bool) -> bool {
        if put { self.0.insert(1000 + other, 1) } else { self.0.remove(1000 + other) }
    }

    fn grow(&mut self) -> bool {
        self.0.grow()
    }

    fn shrink(&mut self) -> bool {
        self.0.shrink()
    }

    fn collect(&mut self) {
        self.0.growth_step();
    }

    fn state(&mut self, key: usize) -> (State, State) {
        let state = State::of(self.0.get(key as u64));
        (state, state)
    }

    fn tick(&mut self) {}
}

/// A test for each growth factor, so that the test threads share the work.
macro_rules! histories_are_linearizable {
    ($($name:ident: $first:literal, $factor:literal;)*) => {$(
        #[test]
        fn $name() {
            histories($first, $factor);
        }
    )*};
}

histories_are_linearizable! {
    histories_with_growth_by_a_tenth_are_linearizable: 0, 1.1;
    histories_with_growth_by_a_quarter_are_linearizable: 1, 1.25;
    histories_with_growth_by_a_half_are_linearizable: 2, 1.5;
    histories_with_doubling_are_linearizable: 3, 2.0;
    histories_with_tripling_are_linearizable: 4, 3.0;
    histories_with_growth_by_7_5_are_linearizable: 5, 7.5;
}

/// Most sequences that are added until the map has grown and shrunk.
const MORE: u64 = 4;

fn histories(first: u64, factor: f64) {
    let totals = Totals::default();
    let forms: Vec<Form> = Form::ALL.into_iter().filter(|form| form.is_available()).collect();
    let sequences = number("HOTRING_SEQUENCES", 1);
    let has_grown_and_shrunk =
        || [&totals.doublings, &totals.halvings].iter().all(|n| n.load(Ordering::Relaxed) > 0);
    // On a busy machine one sequence may be over before a step falls into a time at which the map may shrink.
    for cycle in 0..sequences + MORE {
        if cycle >= sequences && has_grown_and_shrunk() {
            break;
        }
        let turn = cycle + first;
        let form = Some(forms[turn as usize % forms.len()]);
        let config = LinesConfig { form, factor, seed: [turn, 4], ..LinesConfig::default() };
        let lines = Lines::new(config.clone()).expect("a valid configuration");
        let sessions = (0..2 + turn % 4).map(|_| AsLines(lines.session())).collect();
        let run = Run {
            name: format!("{config:?}"),
            seed: number("HOTRING_SEED", 401) + turn,
            rounds: number("HOTRING_ROUNDS", ROUNDS),
            is_bytes: false,
            totals: &totals,
            stats: &Stats::default,
        };
        check(&run, sessions);
        println!("{factor}: {:?}", lines.stats());
    }
    println!("{}", totals.text());
    assert!(has_grown_and_shrunk(), "{}", totals.text());
}
