//! Access bits in runs: the mode, and the conditions on bits that were seen.
//!
//! Whatever a run does, a note is one that some step could have written. Where the ring's writes carry notes
//! by a compare-exchange of the whole word, a note also never goes back but by a review, a removal, or while
//! nothing is noted.

use crate::history::{Event, Op};
use crate::plan::{Action, Form, Plan, Random, Shape};
use crate::run::{CLEARED, RECORD, tick};
use hotring_index::{FREQUENCY_NEW, Noting};

/// The policy's bits of a new key.
const FRESH: u8 = 0b100;
/// The bits that a review adds.
const AGED: u8 = 0b1000;
/// Noted by reads and writes.
const SEEN: u8 = 0b11;
/// More accesses than a run has.
const ACCESSES_MAX: u8 = 100;
/// Bytes from one tick to the next: a run writes less than 256 times as much.
const EVERY: u64 = 96;

/// The bits of a key as a look or a review saw them.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    pub key: usize,
    pub bits: u8,
    pub call: u64,
    pub end: u64,
}

/// The kind of notes of a run.
pub fn draw(random: &mut Random) -> Noting {
    let visits = Noting::Visits { fresh: FRESH };
    *random.of(&[
        Noting::Off,
        visits,
        visits,
        Noting::Ticks { every: EVERY },
        Noting::Frequency { log_factor: 0 },
    ])
}

/// The bits after a review.
pub fn aged(noting: Noting, bits: u8) -> u8 {
    match noting {
        Noting::Visits { .. } => bits & !SEEN | AGED,
        Noting::Frequency { .. } if bits > FREQUENCY_NEW => bits - 1,
        _ => bits,
    }
}

/// Records bits that were seen.
pub fn sight(key: usize, bits: u8, call: u64) {
    let end = tick();
    RECORD.with_borrow_mut(|record| record.sights.push(Sight { key, bits, call, end }));
}

/// A review is over, which may have set any note back.
pub fn reviewed(call: u64) {
    let end = tick();
    RECORD.with_borrow_mut(|record| record.reviews.push((call, end)));
}

/// Judges all notes that were seen, the tick being `now`.
pub fn judge(shape: &Shape, plan: &Plan, now: u8) {
    if !shape.notes() {
        return;
    }
    let noted: Vec<&Action> = plan.threads.iter().flatten().collect();
    let is_steady = !noted.iter().any(|action| matches!(action, Action::SetNoting(_)));
    RECORD.with_borrow(|record| {
        for sight in &record.sights {
            let could = could_be(plan.noting, is_steady, sight.bits, now);
            assert!(could, "nobody has noted {sight:?} with {:?}, tick {now}", plan.noting);
        }
        if !is_steady || !matches!(shape.form, Form::Hints(_)) {
            return;
        }
        for earlier in &record.sights {
            for later in record.sights.iter().filter(|later| later.key == earlier.key) {
                let span = (earlier.call, later.end);
                let meets = |&(call, end): &(u64, u64)| call <= span.1 && span.0 <= end;
                let is_set_back = record.reviews.iter().any(meets)
                    || record.history.iter().any(|event| {
                        event.key == later.key && may_remove(event) && meets(&(event.call, event.end))
                    })
                    // Which expires at once, and then whenever a session comes by.
                    || record.history.iter().any(|event| event.key == later.key && lapses(event));
                assert!(
                    earlier.end >= later.call
                        || is_set_back
                        || is_kept(plan.noting, earlier.bits, later.bits),
                    "a note was lost: {earlier:?}, {later:?}"
                );
            }
        }
    });
}

fn could_be(noting: Noting, is_steady: bool, bits: u8, now: u8) -> bool {
    match noting {
        Noting::Off => bits == 0,
        Noting::Visits { .. } => {
            bits & !(FRESH | AGED | SEEN) == 0 && (bits & FRESH != 0 || !is_steady)
        }
        Noting::Ticks { .. } => bits <= now,
        Noting::Frequency { .. } => {
            bits <= FREQUENCY_NEW + ACCESSES_MAX && (bits >= FREQUENCY_NEW || !is_steady)
        }
    }
}

fn is_kept(noting: Noting, earlier: u8, later: u8) -> bool {
    match noting {
        Noting::Off | Noting::Visits { .. } => earlier & !later == 0,
        Noting::Ticks { .. } | Noting::Frequency { .. } => earlier <= later,
    }
}

fn may_remove(event: &Event) -> bool {
    matches!(event.op, Op::Remove | Op::Take | Op::RemoveIf(_)) || event.op == CLEARED
}

fn lapses(event: &Event) -> bool {
    matches!(event.op, Op::Lapse | Op::PutLapsed(_))
}
