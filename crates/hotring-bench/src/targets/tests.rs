//! Every target answers rightly: all mixes, both modes, keys and values of several sizes.

use clap::ValueEnum;
use indicatif::ProgressBar;

use super::{Mode, Plan, Shape, Tally, Target, TargetName};
use crate::workload::operations::{Keys, Kind, Op, Stream, Workload};
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;

const KEYS: u64 = 500;
const OPS: u64 = 1_000;
const SHAPES: [Shape; 4] = [
    Shape::WORDS,
    Shape { key_bytes: 8, value_bytes: 100 },
    Shape { key_bytes: 3, value_bytes: 5 },
    Shape { key_bytes: 40, value_bytes: 9 },
];

/// All built-in targets, with each possible shape.
fn targets() -> Vec<Box<dyn Target>> {
    let mut targets = Vec::new();
    for &name in TargetName::value_variants() {
        let shapes = if name == TargetName::Oracle { &SHAPES[..1] } else { &SHAPES };
        for &shape in shapes {
            let keys = if shape.key_bytes < 8 { Keys::Dense } else { Keys::Scattered };
            let plan = Plan { shape, keys, ..Plan::new(name, KEYS + OPS) };
            match plan.build() {
                Ok(target) => targets.push(target),
                Err(error) => assert!(format!("{error:#}").contains("not built in"), "{error:#}"),
            }
        }
    }
    assert!(targets.len() > 6 * SHAPES.len());
    targets
}

fn stream(target: &dyn Target, workload: Workload) -> Vec<Op> {
    let skew = Skew::Zipf(0.99);
    let draw =
        Draw { workload, skew, keys: KEYS, threads: 1, ops: OPS, seed: 3, hot_set: 0, turn: 0 };
    let streams = draw.streams().expect("it can be drawn").with_scattered();
    streams.of_keys(target.keys())[0].clone()
}

#[test]
fn every_target_finds_exactly_the_present_keys() {
    for target in targets() {
        target.load(KEYS, &ProgressBar::hidden());
        for &workload in Workload::value_variants() {
            let ops = stream(&*target, workload);
            let reads = ops.iter().filter(|op| op.kind() == Kind::Read).count() as u64;
            for mode in [Mode::Scalar, Mode::Batched(64), Mode::Batched(7), Mode::Queued] {
                let mut worker = target.worker();
                let Tally { found, missed, wrong } = worker.run(Stream::of(&ops), mode);
                let expected = if workload == Workload::Miss { (0, reads) } else { (reads, 0) };
                let name = target.name();
                assert_eq!((found, missed), expected, "{name}, {workload}, {mode:?}");
                assert_eq!(wrong, 0, "{name}, {workload}, {mode:?}");
                worker.undo(&ops);
            }
        }
        // The inserted keys are gone, all others are there.
        let mut worker = target.worker();
        let all: Vec<Op> =
            (0..KEYS + OPS).map(|n| Op::new(Kind::Read, target.keys().key(n))).collect();
        let tally = worker.run(Stream::of(&all), Mode::Scalar);
        assert_eq!((tally.found, tally.missed), (KEYS, OPS), "{}", target.name());
    }
}

#[test]
fn timed_reads_are_reads() {
    let target = Plan::new(TargetName::Hotring, KEYS + OPS).build().expect("it can be built");
    target.load(KEYS, &ProgressBar::hidden());
    let ops = stream(&*target, Workload::A);
    let mut times = Vec::new();
    let tally = target.worker().time(&ops, &mut |nanoseconds| times.push(nanoseconds));
    assert_eq!((tally.found, tally.missed, tally.wrong), (times.len() as u64, 0, 0));
    assert!((300..700).contains(&times.len()), "{} of {OPS} are reads", times.len());
}

#[test]
fn a_value_of_another_key_is_seen() {
    let target = Plan::new(TargetName::Hotring, KEYS).build().expect("it can be built");
    target.load(KEYS, &ProgressBar::hidden());
    let mut worker = target.worker();
    // Read-modify-writes leave the checked bits as they are, even if they carry.
    let modify = vec![Op::new(Kind::Modify, 7); 70_000];
    worker.run(Stream::of(&modify), Mode::Scalar);
    let tally = worker.run(Stream::of(&[Op::new(Kind::Read, 7)]), Mode::Scalar);
    assert_eq!((tally.found, tally.wrong), (1, 0));
    let index = hotring_index::HotRing::<hotring_index::U64>::new(Default::default());
    let index = index.expect("the defaults are allowed");
    index.session().put(1, 2);
    let mut worker = super::worker::Running::on(index.session());
    let tally =
        super::Worker::run(&mut worker, Stream::of(&[Op::new(Kind::Read, 1)]), Mode::Scalar);
    assert_eq!((tally.found, tally.wrong), (1, 1));
}

#[test]
fn impossible_settings_are_refused_with_a_reason() {
    let refusal = |plan: Plan| match plan.build() {
        Ok(_) => panic!("it was built"),
        Err(error) => format!("{error:#}"),
    };
    let ring = Plan::new(TargetName::Hotring, KEYS);
    let short = Shape { key_bytes: 1, value_bytes: 8 };
    assert!(refusal(Plan { shape: short, ..ring.clone() }).contains("told apart up to 256"));
    assert!(refusal(Plan { hints: 2, ..ring.clone() }).contains("1, 3 or 7"));
    let large = Shape { key_bytes: 8, value_bytes: 100 };
    assert!(refusal(Plan { shape: large, ..Plan::new(TargetName::Oracle, 1) }).contains("a word"));
    let sized = Plan::new(TargetName::Mercury, KEYS).with_index_bytes(8.0);
    assert!(refusal(sized).contains("cannot build mercury"));
}
